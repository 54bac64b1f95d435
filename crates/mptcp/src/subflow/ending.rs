//! The end of a subflow: RSTs with their reasons, and segments that arrive later.

use anabranch_wire::{MptcpOption, Segment};

use super::Subflow;

/// The options of a RST to send.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reset {
    /// The peer's key for `MP_FASTCLOSE`, if the RST ends the whole connection.
    pub(crate) fast_close: Option<u64>,
    pub(crate) reason: Option<MptcpOption>,
}

impl Reset {
    /// Returns a RST with this reason.
    pub(crate) fn because(reason: Option<MptcpOption>) -> Self {
        Self { reason, ..Self::default() }
    }
}

impl Subflow {
    /// Requests a RST with our next sequence number and these options.
    pub(crate) fn demand_reset(&mut self, reset: Reset) {
        self.tcp.demand_reset(None);
        self.context.set_reset(reset);
    }

    /// Requests a RST that answers a segment. The RST takes its sequence number from the segment's acknowledgement number
    /// (RFC 9293 section 3.10.7.1).
    pub(crate) fn demand_reset_for(&mut self, segment: &Segment) {
        self.tcp.demand_reset(Some(segment.ack));
        self.context.set_reset(Reset::default());
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
            self.demand_reset_for(segment);
        }
    }

    /// Ends the subflow at once. It drops all data and sends nothing more except a RST.
    pub(crate) fn cut_off(&mut self) {
        self.tcp.abort();
        self.context.discard();
    }
}
