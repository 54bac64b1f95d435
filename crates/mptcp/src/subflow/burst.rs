//! Bursts of a subflow: several segments that are written as one, under one mapping.

use anabranch_wire::Segment;

use super::{EmitContext, Subflow};
use anabranch_tcp::Written;
use anabranch_tcp::config::HostModel;

impl Subflow {
    /// Writes up to `most` segments as one, with the result of `next_data_segment` and `add_options` for
    /// each.
    ///
    /// The state changes as if each segment were written separately. The header is written only once, so a
    /// burst ends before a segment with other options. `segment` gets the payload of the first one. The
    /// returned number is the payload bytes of the other segments, which follow in the data stream.
    #[inline(never)]
    pub(crate) fn next_burst(
        &mut self,
        host: &HostModel,
        context: &EmitContext,
        most: u32,
        segment: &mut Segment,
    ) -> Option<(Written, u16)> {
        // SACK blocks and checksums depend on the payload of each segment, and a DSACK is sent only once.
        let alone = context.checksum || self.tcp.receive().assembly().has_blocks();
        let start = self.tcp.sending().queue().next();
        let tag = self.tcp.sending().queue().next_tag();
        if !self.next_data_segment(host, context, segment) {
            return None;
        }
        self.add_options(segment, false);
        // A retransmission does not change `next`. The `MP_CAPABLE` of the first data, and the infinite
        // mapping, are on a single segment.
        let new = self.tcp.sending().queue().next() > start;
        let repeats =
            if self.is_multipath() { segment.mptcp.is_empty() } else { segment.dss.is_none() };
        let several = new && repeats && !alone;
        Some(match tag.filter(|_| several) {
            Some(tag) => self.tcp.grow_burst(host, &context.tcp, most, tag, segment),
            None => (Written::default(), 0),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use anabranch_units::SeqNumber;
    use anabranch_wire::Flags;
    use bytes::Bytes;

    use super::super::deliver::Terms;
    use super::super::fixture::{at, context, exact, subflow};
    use super::*;
    use anabranch_tcp::Space;
    use anabranch_tcp::receive_buffer::Load;

    /// Returns a subflow with five segments of 1000 bytes that may be sent.
    fn loaded() -> Subflow {
        let mut subflow = subflow();
        subflow.tcp.supply().set_window(100_000);
        subflow.tcp.supply().queue((0..5000).map(|at| (at / 7) as u8).collect(), 0);
        subflow
    }

    fn burst(subflow: &mut Subflow, most: u32) -> (Segment, Written, u16) {
        let mut segment = Segment::default();
        let written = subflow.next_burst(&exact(), &context(at(100)), most, &mut segment);
        let (written, more) = written.expect("data");
        (segment, written, more)
    }

    /// Receives 100 bytes from the peer.
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
        // A socket buffer has two segments (`tcp_min_tso_segs`), because the pacing rate is low.
        let (segment, written, more) = burst(&mut subflow, 40);
        assert_eq!(written.segment_size.map(NonZeroU16::get), Some(1000));
        assert!(more > 0 && segment.payload.len() == 1000);
        assert_eq!(subflow.tcp.sending().flight().in_flight(), 1 + u32::from(more) / 1000);
    }

    #[test]
    fn a_burst_does_not_end_with_the_memory_it_begins_in() {
        let mut subflow = loaded();
        subflow.tcp.supply().discard_unsent();
        for piece in 0..20u8 {
            subflow.tcp.supply().queue(vec![piece; 300].into(), 300 * u64::from(piece));
        }
        let (_, written, more) = burst(&mut subflow, 2);
        assert_eq!((written.segment_size.map(NonZeroU16::get), more), (Some(1000), 1000));
    }

    #[test]
    fn segment_with_sack_or_dsack_is_sent_without_a_burst() {
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
