//! Writes a data segment: payload and flags.

use anabranch_wire::{Flags, Segment};

use super::config::{HostModel, Moment};
use super::sending::Departure;
use super::{EmitContext, State, Tag, Tcp};

/// The position of a data segment that was written.
#[derive(Clone, Copy, Debug)]
pub struct Departed {
    /// The position of the first byte.
    pub start: u64,
    /// The tag of the data.
    pub tag: Option<Tag>,
}

impl Tcp {
    /// Returns whether data or a FIN waits to be sent. If not, [`Self::next_data_segment`] returns nothing.
    #[inline]
    pub fn has_data(&self) -> bool {
        let queue = self.sending.queue();
        queue.queued_bytes() > 0 || !queue.intent().is_new() || queue.fin_due()
    }

    /// Writes the next data segment, without options of the layer above. Retransmissions come first.
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
        let departure = self.sending.begin_transmission(moment, sack_bytes).poll_departure()?;
        let Departure { start, payload, tag, fin, push, new } = departure;
        // A retransmission counts as data sent before its acknowledgement, and new data as sent after it.
        if !new {
            self.receive.on_data_sent(context.now);
        }
        self.add_acknowledgement(context, payload, segment);
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
        Some(Departed { start, tag })
    }

    /// Returns the bytes that SACK blocks take of a full segment.
    #[inline]
    pub(super) fn sack_bytes(&self) -> u32 {
        self.receive.sack_bytes(self.sending.reserved_bytes())
    }
}
