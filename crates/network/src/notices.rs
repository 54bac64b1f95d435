//! Messages of routers about packets that were too large, on their way back to the senders.

use std::collections::BTreeMap;

use anabranch_units::Instant;

use crate::packet::Journey;

/// The messages by the time at which they arrive and the number of earlier ones. They wait in no queue.
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
    /// Sends a message about a packet on this journey; it arrives at `at`.
    pub(crate) fn send(&mut self, at: Instant, journey: Journey, notice: N) {
        self.under_way.insert((at, self.sent), (journey, notice));
        self.sent += 1;
    }

    /// The next message that has arrived by `now`, and the journey of the packet.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<(Journey, N)> {
        let first = self.under_way.first_entry().filter(|first| first.key().0 <= now)?;
        Some(first.remove())
    }

    /// The arrival of the next message.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.under_way.first_key_value().map(|((at, _), _)| *at)
    }
}
