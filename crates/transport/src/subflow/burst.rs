//! Bursts: several segments that are written as one, for a device that cuts them (GSO, TSO). They belong to one socket
//! buffer and one mapping, and would otherwise leave directly after each other.

use std::num::NonZeroU16;

use anabranch_wire::{Flags, Segment};

use super::sending::Follower;
use super::sending::flight::BurstMapping;
use super::sending::queue::BURST_BYTES;
use super::{EmitContext, Subflow};
use crate::config::{HostModel, Moment};

/// The form of a written segment. A burst has a `segment_size`: the payload of each of its segments; the last may have
/// less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) segment_size: Option<NonZeroU16>,
}

impl Subflow {
    /// Writes up to `most` segments at once, as `next_data_segment` and `fill_options` write one.
    ///
    /// The state of each segment is kept as if they were written one by one. Only the header is written once, so a
    /// burst ends before a segment with other options. `segment` gets the payload of the first one. The result has the
    /// number of bytes of the others, which follow it in the data stream.
    #[inline(never)]
    pub(crate) fn next_burst(
        &mut self,
        host: &HostModel,
        context: &EmitContext,
        most: u32,
        segment: &mut Segment,
    ) -> Option<(Written, u16)> {
        let alone = goes_alone(self, context);
        let start = self.sending.queue().next();
        let mapping = self.sending.queue().next_mapping();
        if !self.next_data_segment(host, context, segment) {
            return None;
        }
        self.fill_options(segment, false);
        // A retransmission does not change the queue. The `MP_CAPABLE` of the first data and the infinite mapping are
        // on a single segment.
        let new = self.sending.queue().next() > start;
        let repeats = if self.context.is_multipath() {
            segment.mptcp.is_empty()
        } else {
            segment.dss.is_none()
        };
        let several = new && repeats && !alone;
        Some(match mapping.filter(|_| several) {
            Some(mapping) => self.extend(host, context, most, mapping, segment),
            None => (Written::default(), 0),
        })
    }

    /// Takes the next segment of a burst under this mapping.
    fn poll_follower(&mut self, moment: Moment<'_>, mapping: BurstMapping) -> Option<Follower> {
        let sack_bytes = self.sack_bytes();
        self.sending.transmit(moment, sack_bytes).poll_follower(mapping)
    }

    /// Adds the segments that may follow at once to the segment that was written.
    fn extend(
        &mut self,
        host: &HostModel,
        context: &EmitContext,
        most: u32,
        mapping: BurstMapping,
        segment: &mut Segment,
    ) -> (Written, u16) {
        let now = context.now;
        let size = segment.payload.len();
        let (mut length, mut count) = (size, 1);
        // All segments are as long as the first. A shorter one is the last.
        while count < most
            && length == count as usize * size
            && length + size <= BURST_BYTES as usize
            && let Some(follower) = self.poll_follower(Moment { host, now }, mapping)
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

/// Returns whether the next segment has options that the one after it may not have: a checksum of its payload, a report
/// of duplicates, which is sent once, or SACK blocks, whose number depends on the payload.
fn goes_alone(subflow: &Subflow, context: &EmitContext) -> bool {
    context.checksum || subflow.receive.assembly().has_blocks()
}

#[cfg(test)]
mod tests {
    use anabranch_units::SeqNumber;
    use bytes::Bytes;

    use super::super::Space;
    use super::super::deliver::Terms;
    use super::super::fixture::{at, context, exact, subflow};
    use super::*;
    use crate::receive_buffer::Load;

    /// Returns a subflow with five segments of a thousand bytes, which may be sent.
    fn loaded() -> Subflow {
        let (mut subflow, _) = subflow();
        subflow.sending.queue_mut().set_window(100_000);
        subflow.sending.queue_mut().enqueue((0..5000).map(|at| (at / 7) as u8).collect(), 0);
        subflow
    }

    fn burst(subflow: &mut Subflow, most: u32) -> (Segment, Written, u16) {
        let mut segment = Segment::default();
        let written = subflow.next_burst(&exact(), &context(at(100)), most, &mut segment);
        let (written, more) = written.expect("data");
        (segment, written, more)
    }

    /// Delivers a hundred bytes of the peer.
    fn hear(subflow: &mut Subflow, position: u32) {
        let payload = Bytes::from(vec![0; 100]);
        let (seq, flags) = (SeqNumber(position), Flags::ACK);
        let segment = Segment { seq, flags, payload, ..Segment::default() };
        let terms = Terms { near: 0, checksum: false, whole: false };
        let load = Load::of(&segment, None);
        subflow.handle_payload(at(100), &segment, load, terms, Space::default(), &mut |_, _, _| {});
    }

    #[test]
    fn all_that_is_kept_of_segments_is_kept_of_each_of_a_burst() {
        let mut subflow = loaded();
        // Socket buffers of two segments: `tcp_min_tso_segs`, at no rate that would ask for more.
        let (segment, written, more) = burst(&mut subflow, 40);
        assert_eq!(written.segment_size.map(NonZeroU16::get), Some(1000));
        assert!(more > 0 && segment.payload.len() == 1000);
        assert_eq!(subflow.sending.flight().in_flight(), 1 + u32::from(more) / 1000);
    }

    #[test]
    fn a_burst_does_not_end_with_the_memory_it_begins_in() {
        let mut subflow = loaded();
        subflow.sending.queue_mut().drain_unsent();
        for piece in 0..20u8 {
            subflow.sending.queue_mut().enqueue(vec![piece; 300].into(), 300 * u64::from(piece));
        }
        let (_, written, more) = burst(&mut subflow, 2);
        assert_eq!((written.segment_size.map(NonZeroU16::get), more), (Some(1000), 1000));
    }

    #[test]
    fn what_tells_of_runs_or_duplicates_leaves_alone() {
        let mut subflow = loaded();
        hear(&mut subflow, 1);
        hear(&mut subflow, 1);
        let (segment, size, _) = burst(&mut subflow, 40);
        assert!(segment.sack.as_slice().len() == 1 && size == Written::default());
        let (segment, size, _) = burst(&mut subflow, 40);
        assert!(segment.sack.is_empty() && size != Written::default(), "told once");
        let mut subflow = loaded();
        hear(&mut subflow, 201);
        for _ in 0..2 {
            let (segment, size, _) = burst(&mut subflow, 40);
            assert!(segment.sack.as_slice().len() == 1 && size == Written::default());
        }
    }
}
