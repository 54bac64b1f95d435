//! Writes a data segment: payload and flags.

use anabranch_wire::{Flags, Segment};

use super::config::{HostModel, Moment};
use super::sending::Departure;
use super::{EmitContext, State, Tag, Tcp};

/// The place of a data segment that was written.
#[derive(Clone, Copy, Debug)]
pub struct Departed {
    /// Position of its first byte.
    pub start: u64,
    /// The tag of its data.
    pub tag: Option<Tag>,
}

impl Tcp {
    /// Writes the next data segment to send, retransmissions first, without options of the layer above.
    #[inline]
    pub fn next_data_segment(
        &mut self,
        host: &HostModel,
        context: &EmitContext,
        segment: &mut Segment,
    ) -> Option<Departed> {
        if self.state != State::Established {
            return None;
        }
        let moment = Moment { host, now: context.now };
        let sack_bytes = self.sack_bytes();
        let departure = self.sending.transmit(moment, sack_bytes).poll_departure();
        departure.map(|departure| self.write(departure, context, segment))
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
    ) -> Departed {
        let Departure { start, payload, tag, fin, push, new } = departure;
        // A retransmission counts as data before the acknowledgement that it carries, new data after it.
        if !new {
            self.receive.on_data_sent(context.now);
        }
        self.acknowledging(context, payload, segment);
        segment.seq = self.sequence.local(start);
        if fin {
            segment.flags = segment.flags.with(Flags::FIN);
        }
        if push {
            segment.flags = segment.flags.with(Flags::PSH);
        }
        if new {
            if self.ecn.mark_capable(segment) && self.sending.take_reduction_report() {
                segment.flags = segment.flags.with(Flags::CWR);
            }
            self.receive.on_data_sent(context.now);
        }
        Departed { start, tag }
    }
}
