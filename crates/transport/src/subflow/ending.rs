//! The end of a subflow: RSTs, what comes after it, and what TIME-WAIT keeps.

use anabranch_units::SeqNumber;
use anabranch_wire::{Flags, MptcpOption, Segment};
use bytes::Bytes;

use super::sending::flight::Scoreboard;
use super::sending::intent::Intent;
use super::{State, Subflow};

/// A RST that is to be sent, with the reason if there is one to tell.
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
    /// One that answers a segment with this acknowledgement number.
    pub(crate) fn answer(ack: SeqNumber) -> Self {
        Self { answers: Some(ack), ..Self::default() }
    }

    /// One that says why, if there is something to say.
    pub(crate) fn because(reason: Option<MptcpOption>) -> Self {
        Self { reason, ..Self::default() }
    }
}

/// What TIME-WAIT keeps of a subflow (`tcp_timewait_sock`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Remains {
    /// Our next sequence number, behind the FIN.
    pub(crate) next: SeqNumber,
    /// The peer's, behind its FIN.
    pub(crate) expected: SeqNumber,
    /// The window as it stands in segments.
    pub(crate) window: u16,
    /// The peer's last timestamp, where timestamps are in use.
    pub(crate) stamp: Option<u32>,
}

impl Subflow {
    /// Writes the RST that is to be sent; false when there is none.
    pub(crate) fn take_reset(&mut self, segment: &mut Segment) -> bool {
        let Some(reset) = self.reset.take() else { return false };
        let Reset { fast_close, reason, answers } = *reset;
        self.blank(segment, Bytes::new());
        if let Some(seq) = answers {
            segment.flags = Flags::RST;
            segment.seq = seq;
        } else {
            segment.flags = Flags::RST.with(Flags::ACK);
            segment.seq = self.sequence.local(self.send.next());
            segment.ack = self.sequence.remote(self.receive.next());
        }
        segment.mptcp.extend(fast_close.map(|key| MptcpOption::FastClose { key }));
        segment.mptcp.extend(self.failed_mapping());
        segment.mptcp.extend(reason);
        true
    }

    /// A segment after the end. A FIN, or data before it, comes again when our acknowledgement was
    /// lost (`TIME_WAIT`: `tcp_timewait_state_process` acknowledges all but what is empty); where the
    /// subflow was cut off there is nobody: a RST (`tcp_v4_send_reset`).
    pub(crate) fn answer_late(&mut self, segment: &Segment) {
        if !self.finished() {
            self.reset = Some(Box::new(Reset::answer(segment.ack)));
        } else if segment.sequence_len() > 0 {
            self.ack.demand();
        }
    }

    /// What is to be kept of it when it has [`finished`](Self::finished), if TIME-WAIT falls to us.
    pub(crate) fn remains(&self) -> Option<Remains> {
        self.closed_first.then(|| Remains {
            next: self.sequence.local(self.send.next()),
            expected: self.sequence.remote(self.receive.next()),
            window: (self.receive.window() >> self.agreed.receive_scale).min(65_535) as u16,
            stamp: self.agreed.timestamps.then_some(self.sequence.recent()),
        })
    }

    /// Ends the subflow at once. It drops all data and sends nothing more except a RST.
    pub(crate) fn cut_off(&mut self) {
        self.state = State::Closed;
        self.send.drain_unsent();
        self.send.forget_unacknowledged();
        self.board = Scoreboard::default();
        self.send.intent = Intent::New;
        self.receive.discard();
        self.signals.clear();
    }

    /// A RST, or the acknowledgement of the peer's FIN, is still to go out.
    pub(crate) fn owes_an_end(&self) -> bool {
        self.reset.is_some() || (self.finished() && self.ack.is_due())
    }

    /// FIN went both ways and ours was acknowledged.
    pub(crate) fn finished(&self) -> bool {
        self.peer_closed && self.send.fin_sent() && self.send.una() == self.send.next()
    }
}
