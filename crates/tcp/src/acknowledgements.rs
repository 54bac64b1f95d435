//! Segments that only carry an acknowledgement.

use anabranch_units::Instant;
use anabranch_wire::{Flags, Segment, sack_room};
use bytes::Bytes;

use super::receiving::{FirstAck, SACK_BASE, SACK_BLOCK};
use super::{EmitContext, Space, Tcp};

impl Tcp {
    /// Decides about the acknowledgement of delivered data. `unread`: the application has data to read.
    #[inline]
    pub fn check_ack_filed(&mut self, now: Instant, space: Space, unread: bool) {
        self.receive.check_ack_filed(now, space, unread, self.sending.rtt());
    }

    /// Writes the acknowledgement or window probe that is due or `wanted`, without SACK blocks and options of
    /// the layer above. Returns whether a segment was written.
    #[inline]
    pub fn next_bare_ack(
        &mut self,
        context: &EmitContext,
        wanted: bool,
        segment: &mut Segment,
    ) -> bool {
        let Some(probe) = self.receive.take_ack(wanted) else { return false };
        self.add_acknowledgement(context, Bytes::new(), segment);
        if probe {
            segment.seq = self.sequence.local(self.sending.queue().una().saturating_sub(1));
        }
        true
    }

    /// Writes the acknowledgement that must be sent before any other segment, if there is one. The caller
    /// adds options and then calls [`Receiver::on_first_ack_sent`].
    ///
    /// [`Receiver::on_first_ack_sent`]: super::Receiver::on_first_ack_sent
    #[inline]
    pub fn next_first_ack(
        &mut self,
        context: &EmitContext,
        segment: &mut Segment,
    ) -> Option<FirstAck> {
        let first = self.receive.take_first_ack()?;
        self.add_acknowledgement(context, Bytes::new(), segment);
        if let FirstAck::OfMarks { up_to, echoes, .. } = first {
            segment.ack = self.sequence.remote(up_to);
            let flags = segment.flags.without(Flags::ECE);
            segment.flags = if echoes { flags.with(Flags::ECE) } else { flags };
        }
        Some(first)
    }

    /// Adds SACK blocks if data is out of order or a duplicate arrived.
    #[inline]
    pub fn add_reports(&mut self, segment: &mut Segment) {
        if self.receive.has_sack() {
            self.add_sack(segment);
        }
    }

    /// Adds as many SACK blocks as fit with the other options.
    #[inline(never)]
    fn add_sack(&mut self, segment: &mut Segment) {
        // A retransmission may leave no space.
        let taken = segment.options_len() + segment.payload.len() + SACK_BASE;
        let left = usize::from(self.sending.peer_mss()).saturating_sub(taken) / SACK_BLOCK;
        let room = sack_room(segment).min(left);
        segment.sack = self.receive.take_sack(&self.sequence, room);
    }
}
