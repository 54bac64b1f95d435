//! Bursts: several segments written as one, for a network device that splits them (GSO, TSO). The segments of
//! a burst belong to one socket buffer and one tag, and would otherwise be sent back to back.

use std::num::NonZeroU16;

use anabranch_wire::{Flags, Segment};

use super::config::{HostModel, Moment};
use super::sending::queue::BURST_BYTES;
use super::{EmitContext, Tag, Tcp};

/// The form of a written segment. A burst has a `segment_size`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// The payload of each segment of a burst, in bytes. The last one may be shorter. `None` for a single
    /// segment.
    pub segment_size: Option<NonZeroU16>,
}

impl Tcp {
    /// Extends a written segment by those that may follow at once, up to `most` segments in total.
    pub fn grow_burst(
        &mut self,
        host: &HostModel,
        context: &EmitContext,
        most: u32,
        tag: Tag,
        segment: &mut Segment,
    ) -> (Written, u16) {
        let now = context.now;
        let size = segment.payload.len();
        let (mut length, mut count) = (size, 1);
        // All segments are as long as the first one, except that the last may be shorter.
        while count < most
            && length == count as usize * size
            && length + size <= BURST_BYTES as usize
            && let sack_bytes = self.sack_bytes()
            && let mut transmission =
                self.sending.begin_transmission(Moment { host, now }, sack_bytes)
            && let Some(follower) = transmission.poll_follower(tag)
        {
            self.receive.on_burst_ack_sent();
            if follower.push {
                segment.flags = segment.flags.with(Flags::PSH);
            }
            if follower.fin {
                segment.flags = segment.flags.with(Flags::FIN);
            }
            self.receive.on_data_sent(now);
            length += follower.length;
            count += 1;
        }
        let several = (count > 1).then_some(size as u16);
        let segment_size = several.and_then(NonZeroU16::new);
        (Written { segment_size }, (length - size) as u16)
    }
}
