//! Bursts: several segments that are written as one, for a device that cuts them (GSO, TSO). They belong to one socket
//! buffer and one tag, and would otherwise leave directly after each other.

use std::num::NonZeroU16;

use anabranch_wire::{Flags, Segment};

use super::config::{HostModel, Moment};
use super::sending::queue::BURST_BYTES;
use super::{EmitContext, Tag, Tcp};

/// The form of a written segment. A burst has a `segment_size`: the payload of each of its segments; the last may have
/// less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// The payload of each segment of a burst, bytes.
    pub segment_size: Option<NonZeroU16>,
}

impl Tcp {
    /// Adds the segments that may follow at once, up to `most` in all, to the segment that was written.
    pub fn extend_burst(
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
        // All segments are as long as the first. A shorter one is the last.
        while count < most
            && length == count as usize * size
            && length + size <= BURST_BYTES as usize
            && let sack_bytes = self.sack_bytes()
            && let mut transmission = self.sending.transmit(Moment { host, now }, sack_bytes)
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
