//! An acknowledgement, with its SACK blocks as positions.

use anabranch_units::{Instant, SubflowId};
use anabranch_wire::Segment;

use crate::config::HostModel;
use crate::sequence::Sequence;

/// An acceptable acknowledgement.
pub(crate) struct Ack<'a> {
    pub(crate) host: &'a HostModel,
    pub(crate) now: Instant,
    pub(crate) segment: &'a Segment,
    pub(crate) sequence: &'a Sequence,
    /// The connection's identifier among the siblings of a coupled controller.
    pub(crate) id: SubflowId,
    /// Our position up to which the segment acknowledges.
    pub(crate) position: u64,
    /// The state before this acknowledgement.
    pub(crate) noted: AckStart,
    /// Whether the segment has a valid ECE.
    pub(crate) echo: bool,
    /// Whether the segment has an option of the layer above that is sent once.
    pub(crate) carries_signal: bool,
}

/// The result of [`super::Sending::note_ack`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckStart {
    /// The first unacknowledged position before the acknowledgement.
    pub(super) prior_una: u64,
    /// Whether the acknowledgement has updated the peer's window.
    pub(super) window_updated: bool,
}

/// The SACK blocks of an acknowledgement as positions.
#[derive(Default)]
pub(super) struct SackRanges {
    /// The duplicate reported by the first block (RFC 2883).
    pub(super) duplicate: Option<(u64, u64)>,
    pub(super) ranges: [(u64, u64); 4],
    pub(super) count: usize,
}

impl Ack<'_> {
    /// Returns the SACK blocks that end at or before the position `next`.
    pub(super) fn reports(&self, una: u64, next: u64) -> SackRanges {
        let mut reports = SackRanges::default();
        let blocks = self.segment.sack.as_slice();
        let position = |number| self.sequence.our_position(number, una);
        for (index, block) in blocks.iter().enumerate() {
            let (left, right) = (position(block.left), position(block.right));
            if left >= right || right > next {
                continue;
            }
            let inside_second = index == 0
                && blocks.get(1).is_some_and(|outer| {
                    position(outer.left) <= left && right <= position(outer.right)
                });
            if index == 0 && (right <= self.position || inside_second) {
                reports.duplicate = Some((left, right));
                continue;
            }
            reports.ranges[reports.count] = (left.max(self.position), right);
            reports.count += 1;
        }
        reports
    }
}
