//! The short way of a segment in: data, or an acknowledgement, with nothing else to tell, on a subflow that is open.
//! Most segments are plain; what they cannot bring is not looked for.

use std::num::NonZeroU16;

use anabranch_units::Instant;
use anabranch_wire::Segment;

use super::{Connection, Mode};

impl Connection {
    /// The subflow and the connection are as they are for most of their lives, and the segment is plain.
    #[expect(
        clippy::needless_bitwise_bool,
        reason = "one branch for all of the connection and the subflow"
    )]
    #[inline(always)]
    pub(super) fn takes_plainly(
        &self,
        index: usize,
        segment: &Segment,
        segment_size: Option<NonZeroU16>,
    ) -> bool {
        segment_size.is_none()
            & (self.mode == Mode::Multipath)
            & self.confirmed
            & self.plain_stack
            & !self.config.checksum
            & !self.input.knows_end()
            & self.subflows[index].takes_plainly()
            && segment.is_plain()
    }

    /// As [`Self::handle_merged_on`], of a plain segment.
    #[inline(always)]
    pub(super) fn handle_plain(&mut self, now: Instant, index: usize, segment: &Segment) {
        let subflow = &mut self.subflows[index];
        subflow.touched = true;
        if subflow.accepts(now, segment) {
            self.take_plain(now, index, segment);
            self.push_behind_ack(now, index);
            self.end_input(now, index);
        }
    }

    // Apart: the registers do not suffice for a segment's whole way in.
    #[inline(never)]
    fn take_plain(&mut self, now: Instant, index: usize, segment: &Segment) {
        self.hear_ack(now, index, segment);
        self.handle_dss(now, index, segment);
        if segment.payload.is_empty() {
            self.subflows[index].handle_empty(now, segment);
        } else {
            self.take_data::<true>(now, index, segment, None);
            if let Some(failure) = self.subflows[index].receive.failure() {
                self.handle_failure(now, index, failure);
                self.follow_subflow_close(index);
            }
        }
    }
}

#[cfg(test)]
mod tests;
