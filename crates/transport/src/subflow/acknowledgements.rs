//! Segments that only acknowledge.

use anabranch_units::Instant;
use anabranch_wire::{Flags, Segment};
use bytes::Bytes;

use super::receiving::FirstAck;
use super::{EmitContext, Space, Subflow};

impl Subflow {
    /// Decides about the acknowledgement of data that was filed; see [`Receiver::check_ack_filed`].
    ///
    /// [`Receiver::check_ack_filed`]: super::receiving::Receiver::check_ack_filed
    #[inline]
    pub(crate) fn check_ack_filed(&mut self, now: Instant, space: Space, unread: bool) {
        self.receive.check_ack_filed(now, space, unread, self.sending.rtt());
    }

    /// Writes the acknowledgement or window probe that is due, or `signals` need, with no option but its own. Returns
    /// whether one was written.
    #[inline]
    pub(super) fn next_bare_ack(
        &mut self,
        context: &EmitContext,
        signals: bool,
        segment: &mut Segment,
    ) -> bool {
        let Some(probe) = self.receive.take_ack(signals) else { return false };
        self.acknowledging(context, Bytes::new(), segment);
        if probe {
            segment.seq = self.sequence.local(self.sending.queue().una().saturating_sub(1));
        }
        true
    }

    /// Writes the pure acknowledgement or window probe that is due. Returns whether one was written.
    pub(crate) fn next_pure_ack(&mut self, context: &EmitContext, segment: &mut Segment) -> bool {
        if let Some(first) = self.receive.take_first_ack() {
            self.acknowledging(context, Bytes::new(), segment);
            if let FirstAck::OfMarks { up_to, echoes, .. } = first {
                segment.ack = self.sequence.remote(up_to);
                let flags = segment.flags.without(Flags::ECE);
                segment.flags = if echoes { flags.with(Flags::ECE) } else { flags };
            }
            self.fill_options(segment, true);
            self.receive.on_first_ack_sent(first);
            return true;
        }
        if !self.next_bare_ack(context, self.signal_due(), segment) {
            return false;
        }
        if let Some(at) = context.data_fin {
            self.context.add_data_fin(segment, at, context, self.stack.short_data_numbers);
        }
        self.fill_options(segment, true);
        true
    }
}
