//! Messages of routers about packets that were too large, on their way to the senders.

use std::collections::BTreeMap;

use anabranch_units::Instant;

use crate::packet::Journey;

/// The messages by arrival time and serial number. They wait in no queue.
#[derive(Debug)]
pub(crate) struct Notices<N> {
    under_way: BTreeMap<(Instant, u64), (Journey, N)>,
    sent: u64,
}

impl<N> Default for Notices<N> {
    fn default() -> Self {
        Self { under_way: BTreeMap::new(), sent: 0 }
    }
}

impl<N> Notices<N> {
    /// Sends a message about a packet. It arrives at `at`.
    pub(crate) fn send(&mut self, at: Instant, journey: Journey, notice: N) {
        self.under_way.insert((at, self.sent), (journey, notice));
        self.sent += 1;
    }

    /// Returns the next message that has arrived by `now`, and the position of the packet on its route.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<(Journey, N)> {
        let first = self.under_way.first_entry().filter(|first| first.key().0 <= now)?;
        Some(first.remove())
    }

    /// Returns the arrival time of the next message.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.under_way.first_key_value().map(|((at, _), _)| *at)
    }
}
