//! The first transmission times of retransmitted segments. Recorded only if a scheduler requests subflow
//! events.

use std::collections::BTreeMap;

use anabranch_units::Instant;

use super::Flight;

/// The time of the first transmission by the position of the segment.
#[derive(Debug, Default)]
pub(crate) struct Firsts(BTreeMap<u64, Instant>);

impl Firsts {
    /// Records a segment that is retransmitted for the first time. `front` is the oldest outstanding
    /// position. Of the records that begin at or before it, only the last one may still be outstanding,
    /// shortened by a partial acknowledgement.
    pub(crate) fn note(&mut self, front: u64, start: u64, sent_at: Instant) {
        self.0.insert(start, sent_at);
        while self.0.range(..=front).nth(1).is_some() {
            self.0.pop_first();
        }
    }

    /// Returns the time recorded for a segment, or for the longer segment that it was split from.
    fn of(&self, start: u64) -> Option<Instant> {
        self.0.range(..=start).next_back().map(|(_, at)| *at)
    }
}

impl Flight {
    /// See [`crate::sending::Sending::note_first_transmissions`].
    pub(crate) fn note_first_transmissions(&mut self) {
        self.firsts.get_or_insert_default();
    }

    /// Returns the first transmission time of the oldest unacknowledged segment, or its last one if first
    /// times are not recorded.
    pub fn oldest_sent(&self) -> Option<Instant> {
        let front = self.front()?;
        let filed = self.firsts.as_ref().filter(|_| front.ever_retransmitted());
        filed.and_then(|firsts| firsts.of(front.start)).or(Some(front.sent_at))
    }
}
