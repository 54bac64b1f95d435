//! The end of a connection: RSTs, segments that arrive later, and the state of TIME-WAIT.

use anabranch_units::SeqNumber;
use anabranch_wire::{Flags, Segment};
use bytes::Bytes;

use super::{State, Tcp};

/// The sequence number of a RST.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResetNumber {
    /// Our next sequence number.
    Next,
    /// The acknowledgement number of the segment that the RST answers (RFC 9293 section 3.10.7.1).
    Of(SeqNumber),
}

/// The values that TIME-WAIT needs (`tcp_timewait_sock`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remains {
    /// Our next sequence number, after the FIN.
    pub next: SeqNumber,
    /// The peer's next sequence number, after its FIN.
    pub expected: SeqNumber,
    /// The window field to send.
    pub window: u16,
    /// The peer's last timestamp, if timestamps are used.
    pub stamp: Option<u32>,
}

impl Tcp {
    /// Requests a RST. Its sequence number is our next one, or the acknowledgement number that it `answers`.
    pub fn demand_reset(&mut self, answers: Option<SeqNumber>) {
        self.reset = Some(answers.map_or(ResetNumber::Next, ResetNumber::Of));
    }

    /// Returns whether a RST must be sent.
    #[inline]
    pub fn has_pending_reset(&self) -> bool {
        self.reset.is_some()
    }

    /// Writes the RST that must be sent, without options of the layer above. Returns whether a RST was
    /// requested.
    pub fn take_reset(&mut self, segment: &mut Segment) -> bool {
        let Some(number) = self.reset.take() else { return false };
        self.blank(segment, Bytes::new());
        match number {
            ResetNumber::Of(seq) => {
                segment.flags = Flags::RST;
                segment.seq = seq;
            }
            ResetNumber::Next => {
                segment.flags = Flags::RST.with(Flags::ACK);
                segment.seq = self.sequence.local(self.sending.queue().next());
                segment.ack = self.sequence.remote(self.receive.next());
            }
        }
        true
    }

    /// Handles a segment after the end. A connection that has finished acknowledges data and FINs again,
    /// because its last acknowledgement may have been lost (`tcp_timewait_state_process`). An aborted
    /// connection answers with a RST (`tcp_v4_send_reset`). Returns whether a RST must be sent.
    pub fn handle_late(&mut self, segment: &Segment) -> bool {
        if self.finished() && segment.sequence_len() > 0 {
            self.receive.demand_ack();
        }
        !self.finished()
    }

    /// Returns the values for TIME-WAIT after the connection has [`finished`](Self::finished), if TIME-WAIT
    /// is on our side.
    pub fn remains(&self) -> Option<Remains> {
        self.closed_first.then(|| Remains {
            next: self.sequence.local(self.sending.queue().next()),
            expected: self.sequence.remote(self.receive.next()),
            window: self.receive.window_field(),
            stamp: self.receive.negotiated().timestamps.then_some(self.sequence.recent()),
        })
    }

    /// Closes the connection after both directions have ended.
    pub fn close(&mut self) {
        self.state = State::Closed;
    }

    /// Ends the connection at once. It drops all data and sends nothing more except a RST.
    pub fn abort(&mut self) {
        self.state = State::Closed;
        self.sending.discard_all();
        self.receive.discard();
    }

    /// Returns whether a RST, or the acknowledgement of the peer's FIN, must still be sent.
    pub fn must_send_end(&self) -> bool {
        self.reset.is_some() || (self.finished() && self.receive.is_ack_due())
    }

    /// Returns whether both FINs were sent and ours was acknowledged.
    pub fn finished(&self) -> bool {
        self.receive.assembly().is_closed() && self.sending.queue().is_finished()
    }
}
