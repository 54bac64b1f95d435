//! Writes a data segment: payload, flags, and the DSS or the option that stands for it.

use anabranch_wire::{Flags, Segment};

use super::sending::Departure;
use super::{EmitContext, State, Subflow};
use crate::config::{HostModel, Moment};

impl Subflow {
    /// Writes the next data segment to send, retransmissions first. Returns false if there is none.
    #[inline]
    pub(crate) fn next_data_segment(
        &mut self,
        host: &HostModel,
        context: &EmitContext,
        segment: &mut Segment,
    ) -> bool {
        if self.state != State::Established {
            return false;
        }
        let moment = Moment { host, now: context.now };
        let sack_bytes = self.sack_bytes();
        let departure = self.sending.transmit(moment, sack_bytes).poll_departure();
        departure.is_some_and(|departure| self.write(departure, context, segment))
    }

    /// Returns the bytes that SACK blocks take of a full segment.
    #[inline]
    pub(super) fn sack_bytes(&self) -> u32 {
        self.receive.sack_bytes(self.sending.reserved_bytes())
    }

    #[inline]
    fn write(
        &mut self,
        departure: Departure,
        context: &EmitContext,
        segment: &mut Segment,
    ) -> bool {
        let new = departure.new;
        // A retransmission counts as data before the acknowledgement that it carries, new data after it.
        if !new {
            self.receive.on_data_sent(context.now);
        }
        self.data_segment(departure, context, segment);
        if new {
            if self.ecn.mark_capable(segment) && self.sending.take_reduction_report() {
                segment.flags = segment.flags.with(Flags::CWR);
            }
            self.receive.on_data_sent(context.now);
        }
        true
    }

    /// Writes the segment, with its DSS (the burst's mapping) or the `MP_CAPABLE` that stands for it.
    // A run of 20 MB calls it 14,445 times.
    #[inline(always)]
    fn data_segment(&mut self, departure: Departure, context: &EmitContext, segment: &mut Segment) {
        let Departure { start, payload, mapping, fin, push, .. } = departure;
        self.acknowledging(context, payload, segment);
        segment.seq = self.sequence.local(start);
        if fin {
            segment.flags = segment.flags.with(Flags::FIN);
        }
        if push {
            segment.flags = segment.flags.with(Flags::PSH);
        }
        let Some(mapping) = mapping.filter(|_| self.context.is_multipath()) else {
            return self.add_final_mapping(start, context, segment);
        };
        self.context.add_mapping(segment, start, mapping, context, self.stack.short_data_numbers);
    }
}
