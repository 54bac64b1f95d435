//! The end of a subflow: RSTs with their reasons, and segments that arrive later.

use anabranch_units::SeqNumber;
use anabranch_wire::{MptcpOption, Segment};

use super::Subflow;

/// A RST to send, with its reason.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reset {
    /// The peer's key for `MP_FASTCLOSE`, if the RST ends the whole connection.
    pub(crate) fast_close: Option<u64>,
    pub(crate) reason: Option<MptcpOption>,
    /// The acknowledgement number of the segment that the RST answers. The RST takes its sequence
    /// number from it (RFC 9293 section 3.10.7.1). If `None`, the RST has our next sequence number.
    pub(crate) answers: Option<SeqNumber>,
}

impl Reset {
    /// Returns the answer to a segment with this acknowledgement number.
    pub(crate) fn answer(ack: SeqNumber) -> Self {
        Self { answers: Some(ack), ..Self::default() }
    }

    /// Returns a RST with this reason.
    pub(crate) fn because(reason: Option<MptcpOption>) -> Self {
        Self { reason, ..Self::default() }
    }
}

impl Subflow {
    /// Requests a RST.
    pub(crate) fn demand_reset(&mut self, reset: Reset) {
        self.tcp.demand_reset(reset.answers);
        self.context.set_reset(reset);
    }

    /// Writes the RST that must be sent. Returns whether a RST was requested.
    pub(crate) fn take_reset(&mut self, segment: &mut Segment) -> bool {
        let taken = self.tcp.take_reset(segment);
        if taken {
            self.context.add_reset_options(segment);
        }
        taken
    }

    /// Handles a segment that arrives after the end of the subflow.
    pub(crate) fn answer_late(&mut self, segment: &Segment) {
        if self.tcp.handle_late(segment) {
            self.demand_reset(Reset::answer(segment.ack));
        }
    }

    /// Ends the subflow at once. It drops all data and sends nothing more except a RST.
    pub(crate) fn cut_off(&mut self) {
        self.tcp.abort();
        self.context.discard();
    }
}
