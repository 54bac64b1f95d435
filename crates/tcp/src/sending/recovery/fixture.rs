//! Views and changes of recovery for unit tests of other parts.

use std::num::NonZeroU32;

use super::{Parts, Recovery};
use anabranch_congestion::CongestionState;

impl Recovery {
    pub(crate) fn probe_high(&self) -> Option<u64> {
        self.probe_high
    }

    pub(crate) fn decides_by_frto(&self) -> bool {
        self.frto
    }

    pub(crate) fn undo_retrans(&self) -> i32 {
        self.undo_retrans
    }

    pub(crate) fn duplicates(&self) -> u32 {
        self.duplicates
    }

    pub(crate) fn begin_undo(&mut self, una: u64) {
        self.set_undo(una, 0);
    }

    pub(in crate::sending) fn enter(&mut self, parts: &mut Parts<'_>, state: CongestionState) {
        self.set_state(parts, state);
    }

    pub(crate) fn set_high_seq(&mut self, high_seq: u64) {
        self.high_seq = high_seq;
    }

    pub(crate) fn set_consecutive_timeouts(&mut self, timeouts: u32) {
        self.consecutive_timeouts = timeouts;
    }

    pub(crate) fn set_first_retransmission(&mut self, clock: u32) {
        self.retrans_stamp = NonZeroU32::new(clock);
    }
}
