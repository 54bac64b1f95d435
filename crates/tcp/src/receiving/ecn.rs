//! Explicit congestion notification (RFC 3168 section 6.1; Linux's `tcp_ecn_*`). Both ends negotiate ECN in
//! the handshake. New data is then ECN-capable. The receiver echoes a mark until the sender reports that it
//! has reduced its window.
//!
//! A controller may count marks (`CongestionController::counts_marks`). Each acknowledgement then echoes only
//! the marks of the data that it acknowledges (RFC 8257 section 3.2; `dctcp_ece_ack_update`), and all
//! segments are ECN-capable (`TCP_ECN_ECT_PERMANENT`). Both ends must be configured for this, because no
//! option negotiates it. Linux configures it per route (`features ecn_low`, google/bbr).
//!
//! Accurate ECN (RFC 9768) is not implemented.

use anabranch_wire::{Ecn, Flags, Segment};

use super::delayed_ack::AckPolicy;
use crate::config::EcnMode;

/// The number of acknowledgements sent at once after a mark, because the sender may have little in flight
/// (`tcp_enter_quickack_mode(sk, 2)`).
const QUICK_ACKS: u32 = 2;

/// The flags of a SYN that requests ECN. A valid SYN/ACK does not have both.
const ASKS: Flags = Flags::ECE.with(Flags::CWR);

/// The state of ECN negotiation and of the sender.
#[derive(Debug)]
pub(crate) struct EcnSender {
    /// Whether our SYN requests ECN. A retransmitted SYN does not (RFC 3168 section 6.1.1.1;
    /// `tcp_ecn_fallback`).
    asks: bool,
    /// Whether both ends use ECN (`TCP_ECN_OK`).
    agreed: bool,
}

/// The state of the ECN receiver.
#[derive(Debug)]
pub(super) struct EcnReceiver {
    /// Whether both ends use ECN (`TCP_ECN_OK`).
    agreed: bool,
    /// Whether all segments echo a mark, until the peer sends CWR (`TCP_ECN_DEMAND_CWR`).
    echoes: bool,
    /// Whether ECN-capable data has arrived (`TCP_ECN_SEEN`).
    seen: bool,
    /// The additional state if the controller counts marks.
    counted: Option<Box<Counted>>,
    /// The number of data segments with new data and a CE mark.
    marked: u64,
}

/// The state for separate acknowledgements of each change of marks.
#[derive(Debug, Default)]
struct Counted {
    /// Whether the last data was marked (`ce_state`).
    marked: bool,
    /// The position after the last data (`prior_rcv_nxt`).
    received: u64,
    /// The delayed acknowledgement that was pending when marks began or ended. It is sent first, with this
    /// position and the earlier mark.
    owed: Option<(u64, bool)>,
}

/// Returns whether a host accepts the ECN request of a SYN. A SYN that is itself ECN-capable is not accepted,
/// because a network node has changed its field (`tcp_ecn_create_request`).
pub fn accepts_ecn(mode: EcnMode, syn: &Segment) -> bool {
    mode != EcnMode::Off && syn.flags.contains(ASKS) && !syn.ecn.is_capable()
}

impl EcnSender {
    pub(crate) fn new(mode: EcnMode, active: bool) -> Self {
        Self { asks: active && mode == EcnMode::Request, agreed: false }
    }

    /// Returns the flags of a SYN or SYN/ACK. `attempt` counts from 0.
    pub(crate) fn handshake_flags(&self, answering: bool, attempt: u32) -> Flags {
        match answering {
            true if self.agreed => Flags::ECE,
            false if self.asks && attempt == 0 => ASKS,
            _ => Flags::default(),
        }
    }

    /// Handles the peer's SYN or SYN/ACK (`tcp_ecn_rcv_synack`). Returns whether both ends use ECN.
    pub(crate) fn on_peer_syn(&mut self, mode: EcnMode, active: bool, segment: &Segment) -> bool {
        self.agreed = if active {
            let answers = segment.flags.contains(Flags::ECE);
            self.asks && answers && !segment.flags.contains(Flags::CWR)
        } else {
            accepts_ecn(mode, segment)
        };
        self.agreed
    }

    /// Makes new data ECN-capable (`tcp_ecn_send`), but not a retransmission (RFC 3168 section 6.1.5).
    /// Returns whether the segment is ECN-capable. Only an ECN-capable segment may carry CWR.
    #[inline]
    pub(crate) fn mark_capable(&self, segment: &mut Segment) -> bool {
        let capable = self.agreed && !segment.payload.is_empty();
        if capable {
            segment.ecn = Ecn::Ect0;
        }
        capable
    }

    /// Returns whether an acknowledgement has a valid ECE.
    #[inline]
    pub(crate) fn is_echoed_by(&self, segment: &Segment) -> bool {
        self.agreed && segment.flags.contains(Flags::ECE)
    }
}

impl EcnReceiver {
    /// Creates the state before the handshake. `counted` means that the controller counts marks.
    pub(super) fn new(counted: bool) -> Self {
        let counted = counted.then(Box::default);
        Self { agreed: false, echoes: false, seen: false, counted, marked: 0 }
    }

    /// Stores whether both ends use ECN.
    pub(super) fn set_agreed(&mut self, agreed: bool) {
        self.agreed = agreed;
    }

    /// Takes the acknowledgement that must be sent first: its position, and whether it echoes a mark.
    pub(super) fn take_owed(&mut self) -> Option<(u64, bool)> {
        self.counted.as_mut()?.owed.take()
    }

    /// Adds the echo of a mark to a segment that is neither a SYN nor a RST.
    #[inline]
    pub(super) fn echo_mark(&self, segment: &mut Segment) {
        if self.echoes {
            segment.flags = segment.flags.with(Flags::ECE);
        }
        if self.counted.is_some() && self.agreed {
            segment.ecn = Ecn::Ect0;
        }
    }

    /// Returns whether an acknowledgement of the data before a change of marks must be sent first.
    #[inline]
    pub(super) fn owes(&self) -> bool {
        self.counted.as_ref().is_some_and(|counted| counted.owed.is_some())
    }

    /// Handles the peer's CWR. Linux also accepts it on a segment without data (`tcp_ecn_accept_cwr`).
    #[inline]
    pub(super) fn on_cwr(&mut self, segment: &Segment, ack: &mut AckPolicy) {
        if self.agreed {
            // If the controller counts marks, CWR does not end the echo.
            self.echoes &= self.counted.is_some();
            if segment.sequence_len() > 0 {
                // The peer's window may be very small, so it gets an acknowledgement at once.
                ack.demand();
            }
        }
    }

    /// Handles the ECN field of new data. `received` is the next expected position after it
    /// (`tcp_data_ecn_check`).
    #[inline]
    pub(super) fn on_data(&mut self, ecn: Ecn, received: u64, ack: &mut AckPolicy) {
        if self.agreed {
            self.take_mark(ecn, received, ack);
        }
    }

    fn take_mark(&mut self, ecn: Ecn, received: u64, ack: &mut AckPolicy) {
        if self.seen || ecn.is_capable() {
            self.count_mark(ecn == Ecn::Ce, received, ack);
        }
        match ecn {
            // Data that is not ECN-capable is probably a retransmission if earlier data was ECN-capable.
            Ecn::NotEct if self.seen => ack.begin_quick_acks(QUICK_ACKS),
            Ecn::NotEct => {}
            Ecn::Ect0 | Ecn::Ect1 => self.seen = true,
            Ecn::Ce => {
                self.seen = true;
                if !std::mem::replace(&mut self.echoes, true) {
                    ack.begin_quick_acks(QUICK_ACKS);
                }
            }
        }
        self.marked += u64::from(ecn == Ecn::Ce);
    }

    /// Returns the number of data segments with new data and a CE mark.
    pub(super) fn marked(&self) -> u64 {
        self.marked
    }

    /// Handles the presence or absence of a mark if marks are counted (`dctcp_ece_ack_update`).
    fn count_mark(&mut self, marked: bool, received: u64, ack: &mut AckPolicy) {
        let Some(counted) = &mut self.counted else { return };
        let before = std::mem::replace(&mut counted.marked, marked);
        if before != marked {
            // A live host may read several changes at once. Only the first one gets a separate
            // acknowledgement.
            if ack.is_held_back() && counted.owed.is_none() {
                counted.owed = Some((counted.received, before));
            }
            ack.demand();
        }
        counted.received = received;
        // A CWR that arrived in the meantime has no effect.
        self.echoes = marked;
    }
}
