//! The end of a subflow: RSTs, late segments, and the state of TIME-WAIT.

use anabranch_units::SeqNumber;
use anabranch_wire::{Flags, MptcpOption, Segment};
use bytes::Bytes;

use super::{State, Subflow};

/// A RST to send, with its reason.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reset {
    /// The peer's key: the whole connection ends (`MP_FASTCLOSE`).
    pub(crate) fast_close: Option<u64>,
    pub(crate) reason: Option<MptcpOption>,
    /// The acknowledgement number of the segment it answers, which becomes its sequence number
    /// (RFC 9293 section 3.10.7.1); without one it takes our next.
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

/// The state of TIME-WAIT (`tcp_timewait_sock`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Remains {
    /// Our next sequence number, after the FIN.
    pub(crate) next: SeqNumber,
    /// The peer's next sequence number, after its FIN.
    pub(crate) expected: SeqNumber,
    /// The window field of segments.
    pub(crate) window: u16,
    /// The peer's last timestamp if timestamps are in use.
    pub(crate) stamp: Option<u32>,
}

impl Subflow {
    /// Writes the RST that must be sent. Returns whether there was one.
    pub(crate) fn take_reset(&mut self, segment: &mut Segment) -> bool {
        let Some(reset) = self.reset.take() else { return false };
        let Reset { fast_close, reason, answers } = *reset;
        self.blank(segment, Bytes::new());
        if let Some(seq) = answers {
            segment.flags = Flags::RST;
            segment.seq = seq;
        } else {
            segment.flags = Flags::RST.with(Flags::ACK);
            segment.seq = self.sequence.local(self.sending.queue().next());
            segment.ack = self.sequence.remote(self.receive.next());
        }
        segment.mptcp.extend(fast_close.map(|key| MptcpOption::FastClose { key }));
        segment.mptcp.extend(self.context.delivery().failure_report());
        segment.mptcp.extend(reason);
        true
    }

    /// Handles a segment after the end. A subflow that has finished acknowledges data and FINs, because its last
    /// acknowledgement may be lost (`tcp_timewait_state_process`). One that was cut off answers with a RST
    /// (`tcp_v4_send_reset`).
    pub(crate) fn answer_late(&mut self, segment: &Segment) {
        if !self.finished() {
            self.reset = Some(Box::new(Reset::answer(segment.ack)));
        } else if segment.sequence_len() > 0 {
            self.receive.demand_ack();
        }
    }

    /// Returns the state of TIME-WAIT after the subflow has [`finished`](Self::finished), if TIME-WAIT is ours.
    pub(crate) fn remains(&self) -> Option<Remains> {
        self.closed_first.then(|| Remains {
            next: self.sequence.local(self.sending.queue().next()),
            expected: self.sequence.remote(self.receive.next()),
            window: self.receive.window_field(),
            stamp: self.agreed.timestamps.then_some(self.sequence.recent()),
        })
    }

    /// Ends the subflow at once. It drops all data and sends nothing more except a RST.
    pub(crate) fn cut_off(&mut self) {
        self.state = State::Closed;
        self.sending.abandon();
        self.receive.discard();
        self.context.discard();
    }

    /// Returns whether a RST, or the acknowledgement of the peer's FIN, must still go out.
    pub(crate) fn owes_an_end(&self) -> bool {
        self.reset.is_some() || (self.finished() && self.receive.is_ack_due())
    }

    /// Returns whether both FINs have come and ours was acknowledged.
    pub(crate) fn finished(&self) -> bool {
        self.receive.assembly().is_closed() && self.sending.queue().is_finished()
    }
}
