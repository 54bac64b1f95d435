//! Explicit congestion notification (RFC 3168 section 6.1; Linux's `tcp_ecn_*`): both ends agree on it in the
//! handshake, new data goes out as ECN-capable, a mark on it is echoed until the sender says that it has
//! reduced its window.
//!
//! A controller may count marks (`CongestionController::counts_marks`): then an acknowledgement echoes the marks of
//! the data that it is of, and of no other (RFC 8257 section 3.2; `dctcp_ece_ack_update`), and all that is sent is
//! ECN-capable (`TCP_ECN_ECT_PERMANENT`). Nothing on the wire tells the peer of this: both ends have to be set so,
//! as Linux has it by route (`features ecn_low`, google/bbr).
//!
//! Not here: accurate ECN (RFC 9768).

use anabranch_units::Instant;
use anabranch_wire::{Ecn, Flags, Segment};

use super::Subflow;
use super::recovery::AckFlags;
use crate::config::EcnMode;
use crate::congestion::CongestionState;

/// Acknowledgements that go out at once behind a mark: the sender may have little in flight
/// (`tcp_enter_quickack_mode(sk, 2)`).
const QUICK_ACKS: u32 = 2;

/// The flags of a SYN that asks for ECN, which an answer must not have both.
const ASKS: Flags = Flags::ECE.with(Flags::CWR);

/// What a subflow knows of ECN.
#[derive(Debug)]
pub(crate) struct EcnState {
    /// Our SYN asks for it, unless it has to be sent again (RFC 3168 section 6.1.1.1;
    /// `tcp_ecn_fallback`).
    asks: bool,
    /// Both ends want it (`TCP_ECN_OK`).
    pub(crate) agreed: bool,
    /// A mark has come that the peer has not answered: every segment echoes it
    /// (`TCP_ECN_DEMAND_CWR`).
    echoes: bool,
    /// The window was reduced, and the peer is to hear of it with the next new data
    /// (`TCP_ECN_QUEUE_CWR`).
    tells_reduction: bool,
    /// Data that is ECN-capable has come (`TCP_ECN_SEEN`).
    seen: bool,
    /// What there is to know where the controller counts marks.
    counted: Option<Box<Counted>>,
}

/// What each mark is told by.
#[derive(Debug, Default)]
struct Counted {
    /// The data that came last was marked (`ce_state`).
    marked: bool,
    /// The position after the data that came last (`prior_rcv_nxt`).
    received: u64,
    /// Marks have begun or ended while an acknowledgement was held back: it is to go out first, for what came
    /// before, up to here and as marked or not.
    owed: Option<(u64, bool)>,
}

/// Whether a host accepts what a SYN asks of ECN. A SYN that is ECN-capable itself is not believed: the
/// network writes that field (`tcp_ecn_create_request`).
pub(crate) fn accepts_ecn(mode: EcnMode, syn: &Segment) -> bool {
    mode != EcnMode::Off && syn.flags.contains(ASKS) && !syn.ecn.is_capable()
}

impl EcnState {
    pub(crate) fn new(mode: EcnMode, active: bool, counted: bool) -> Self {
        Self {
            asks: active && mode == EcnMode::Request,
            agreed: false,
            echoes: false,
            tells_reduction: false,
            seen: false,
            counted: counted.then(Box::default),
        }
    }

    /// Where to acknowledge up to before anything else, and whether with an echo.
    pub(super) fn take_owed(&mut self) -> Option<(u64, bool)> {
        self.counted.as_mut()?.owed.take()
    }

    /// The flags of the SYN or SYN/ACK that goes out for the `attempt`-th time, from 0.
    pub(super) fn handshake_flags(&self, answering: bool, attempt: u32) -> Flags {
        match answering {
            true if self.agreed => Flags::ECE,
            false if self.asks && attempt == 0 => ASKS,
            _ => Flags::default(),
        }
    }

    /// The peer's SYN has come, or its SYN/ACK (`tcp_ecn_rcv_synack`).
    pub(super) fn learn_peer(&mut self, mode: EcnMode, active: bool, segment: &Segment) {
        self.agreed = if active {
            let answers = segment.flags.contains(Flags::ECE);
            self.asks && answers && !segment.flags.contains(Flags::CWR)
        } else {
            accepts_ecn(mode, segment)
        };
    }

    /// The window is being reduced (`tcp_ecn_queue_cwr`).
    pub(super) fn queue_cwr(&mut self) {
        self.tells_reduction = self.agreed;
    }

    /// It was not reduced after all (`tcp_ecn_withdraw_cwr`).
    pub(super) fn withdraw_cwr(&mut self) {
        self.tells_reduction = false;
    }
}

impl Subflow {
    /// A segment that is neither SYN nor RST echoes a mark.
    #[inline(always)]
    pub(super) fn echo_mark(&self, segment: &mut Segment) {
        if self.ecn.echoes {
            segment.flags = segment.flags.with(Flags::ECE);
        }
        if self.ecn.counted.is_some() && self.ecn.agreed {
            segment.ecn = Ecn::Ect0;
        }
    }

    /// An acknowledgement is to go out before anything else.
    #[inline(always)]
    pub(crate) fn owes_first(&self) -> bool {
        self.ecn.counted.as_ref().is_some_and(|counted| counted.owed.is_some())
            || self.receive.reports.owes()
    }

    /// Marks are counted one by one, so that an acknowledgement may be to go out first.
    #[inline(always)]
    pub(super) fn may_owe_first(&self) -> bool {
        self.ecn.counted.is_some()
    }

    /// Makes an acknowledgement one of what came before marks began or ended.
    pub(super) fn acknowledge_before(&self, (up_to, echoes): (u64, bool), segment: &mut Segment) {
        segment.ack = self.remote_iss.add(up_to as u32);
        let flags = segment.flags.without(Flags::ECE);
        segment.flags = if echoes { flags.with(Flags::ECE) } else { flags };
    }

    /// New data goes out as ECN-capable, and tells of a reduction (`tcp_ecn_send`). What is sent again does
    /// neither (RFC 3168 section 6.1.5).
    #[inline(always)]
    pub(super) fn mark_capable(&mut self, segment: &mut Segment) {
        if self.ecn.agreed && !segment.payload.is_empty() {
            segment.ecn = Ecn::Ect0;
            if std::mem::take(&mut self.ecn.tells_reduction) {
                segment.flags = segment.flags.with(Flags::CWR);
            }
        }
    }

    /// What the flags of an acknowledgement say: true when it echoes a mark. Linux believes CWR also where
    /// it comes without data (`tcp_ecn_accept_cwr`).
    #[inline(always)]
    pub(super) fn hear_echo(&mut self, segment: &Segment) -> bool {
        if !self.ecn.agreed {
            return false;
        }
        if segment.flags.contains(Flags::CWR) {
            // Who counts marks is told of each by itself, whatever was done about it.
            self.ecn.echoes &= self.ecn.counted.is_some();
            if segment.sequence_len() > 0 {
                // The sender's window may be very low.
                self.ack.demand();
            }
        }
        segment.flags.contains(Flags::ECE)
    }

    /// Data has come, perhaps with a mark (`tcp_data_ecn_check`).
    #[inline(always)]
    pub(super) fn note_mark(&mut self, ecn: Ecn) {
        if self.ecn.agreed {
            self.take_mark(ecn);
        }
    }

    fn take_mark(&mut self, ecn: Ecn) {
        if self.ecn.seen || ecn.is_capable() {
            self.follow_mark(ecn == Ecn::Ce);
        }
        match ecn {
            // Once data was ECN-capable, what is not has probably been sent again.
            Ecn::NotEct if self.ecn.seen => self.ack.quicken(QUICK_ACKS),
            Ecn::NotEct => {}
            Ecn::Ect0 | Ecn::Ect1 => self.ecn.seen = true,
            Ecn::Ce => {
                self.ecn.seen = true;
                self.totals.ce_received += 1;
                if !std::mem::replace(&mut self.ecn.echoes, true) {
                    self.ack.quicken(QUICK_ACKS);
                }
            }
        }
    }

    /// Where marks are counted: data has come with one or without, and is to be acknowledged so
    /// (`dctcp_ece_ack_update`).
    fn follow_mark(&mut self, marked: bool) {
        let Some(counted) = &mut self.ecn.counted else { return };
        let before = std::mem::replace(&mut counted.marked, marked);
        if before != marked {
            // Of several changes at once, as a gateway may read them, the first is told.
            if self.ack.is_held_back() && counted.owed.is_none() {
                counted.owed = Some((counted.received, before));
            }
            self.ack.demand();
        }
        counted.received = self.receive.next();
        // Whatever CWR has said since.
        self.ecn.echoes = marked;
    }

    /// An acknowledgement that leaves nothing lost echoes a mark: the window is reduced, once for all that is
    /// in flight (`tcp_enter_cwr`).
    pub(super) fn answer_echo(&mut self, now: Instant, flags: &AckFlags) {
        if !flags.echo {
            return;
        }
        self.forbid_undo();
        if self.ca_state < CongestionState::Cwr {
            self.enter_cwr(now);
            self.totals.ecn_reductions += 1;
        }
    }
}
