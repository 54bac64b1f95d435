//! A subflow: one TCP connection as Linux runs it, one file a concern.
//!
//! Positions count bytes of each direction from the SYN (position 0), so that the first data byte
//! stands at 1, like MPTCP's relative subflow sequence number; they become 32-bit sequence numbers
//! only at the wire.

mod acknowledgements;
mod burst;
mod context;
mod data_segment;
pub(crate) mod deliver;
mod ending;
pub(crate) mod final_mapping;
mod handshake;
mod header;
mod mapping;
mod negotiated;
mod options;
mod path_mtu;
mod receiving;
mod sending;
mod sequence;
mod signals;
mod staleness;
mod standing;
mod third;
mod view;

use anabranch_units::{Instant, SeqNumber, SubflowId};
use anabranch_wire::{DataAck, Segment};
use bytes::Bytes;

use crate::config::{Config, FourTuple, HostModel, Moment};
use crate::profile::{ReceiveSizing, Stack};
use anabranch_congestion::{CongestionController, SiblingView};

pub(crate) use burst::Written;
pub(crate) use ending::{Remains, Reset};
pub(crate) use handshake::{Answered, SYN_ACK_RETRIES, SynAnswer};
pub(crate) use negotiated::{REMEMBERED_BITS, recall, remember};
pub(crate) use receiving::{accepts_ecn, initial_window};
use sending::{Ack, Fired};

pub(crate) use sending::rtt::{RTO_MIN, timestamp_clock};
pub(crate) use standing::Standing;

/// Where the TCP connection of a subflow stands (RFC 9293 section 3.3.2, as far as told apart here).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    SynSent,
    SynReceived,
    Established,
    Closed,
}

/// Receive space shared by all subflows, bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Space {
    pub(crate) free: u64,
    pub(crate) allowed: u64,
    /// The part that may be offered so far, if the subflows open one window together (the connection's
    /// `rcv_ssthresh`).
    pub(crate) open: u64,
    /// The current segment has raised it.
    pub(crate) opens: bool,
}

impl Default for Space {
    fn default() -> Self {
        Self { free: 0, allowed: 0, open: u64::MAX, opens: false }
    }
}

/// The connection's values for a segment that is emitted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EmitContext {
    pub(crate) now: Instant,
    /// The data-level acknowledgement; `None` on plain TCP.
    pub(crate) data_ack: Option<DataAck>,
    /// First data byte (stream position from 0) has this DSN, for mappings.
    pub(crate) dsn_base: u64,
    /// Data received in order, as a stream position.
    pub(crate) data_received: u64,
    pub(crate) space: Space,
    /// Right edge already promised to the peer, as a data stream position (MPTCP).
    pub(crate) promised_edge: u64,
    /// `DATA_FIN` to signal: its stream position.
    pub(crate) data_fin: Option<u64>,
    /// Sequence mappings carry checksums.
    pub(crate) checksum: bool,
}

/// Totals of a subflow, for traces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubflowTotals {
    /// Payload bytes cumulatively acknowledged.
    pub bytes_acked: u64,
    /// Payload bytes sent, retransmissions included.
    pub bytes_sent: u64,
    /// Payload bytes retransmitted.
    pub bytes_retransmitted: u64,
    /// Segments retransmitted.
    pub retransmissions: u64,
    /// Data segments sent, retransmissions included.
    pub data_segments: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Reductions undone as spurious.
    pub undos: u64,
    /// Windows halved by the scheduler.
    pub penalties: u64,
    /// Segments delivered by acknowledgements with ECE (`tcpi_delivered_ce`).
    pub delivered_ce: u64,
    /// Windows reduced because of ECE.
    pub ecn_reductions: u64,
    /// Data segments received with CE.
    pub ce_received: u64,
}

impl std::ops::AddAssign for SubflowTotals {
    fn add_assign(&mut self, other: Self) {
        self.bytes_acked += other.bytes_acked;
        self.bytes_sent += other.bytes_sent;
        self.bytes_retransmitted += other.bytes_retransmitted;
        self.retransmissions += other.retransmissions;
        self.data_segments += other.data_segments;
        self.timeouts += other.timeouts;
        self.undos += other.undos;
        self.penalties += other.penalties;
        self.delivered_ce += other.delivered_ce;
        self.ecn_reductions += other.ecn_reductions;
        self.ce_received += other.ce_received;
    }
}

/// The mechanisms of the stack beyond those of the sending half.
#[derive(Debug)]
struct Mechanisms {
    receive: ReceiveSizing,
    short_data_numbers: bool,
}

impl Mechanisms {
    fn new(stack: &Stack) -> Self {
        Self { receive: stack.shared.receive, short_data_numbers: stack.mptcp.short_data_numbers }
    }
}

/// One subflow.
#[derive(Debug)]
pub(crate) struct Subflow {
    pub(crate) id: SubflowId,
    pub(crate) tuple: FourTuple,
    pub(crate) state: State,
    /// We opened it.
    pub(crate) active: bool,
    /// MPTCP's state.
    pub(crate) context: context::Context,
    pub(crate) opening: handshake::Opening,
    pub(crate) sequence: sequence::Sequence,
    agreed: negotiated::Agreed,
    sending: sending::Sending,
    pub(crate) receive: receiving::Receiver,
    ecn: receiving::EcnSender,
    stack: Mechanisms,
    /// Data segments received that had met congestion.
    ce_received: u64,
    /// A reset to send, then nothing more.
    pub(crate) reset: Option<Box<Reset>>,
    /// Our FIN had gone out when the peer's came: ours is the TIME-WAIT (RFC 9293 section 3.6).
    closed_first: bool,
    /// Something a scheduler sees may have changed since its view was made.
    pub(crate) touched: bool,
}

impl Subflow {
    /// A subflow that is about to send a SYN (`active`) or has received one.
    pub(crate) fn new(
        id: SubflowId,
        tuple: FourTuple,
        active: bool,
        iss: SeqNumber,
        controller: Box<dyn CongestionController>,
        config: &Config,
    ) -> Self {
        let mss = config.mss_at(tuple.local.ip());
        let counts_marks = controller.counts_marks();
        Self {
            id,
            tuple,
            state: if active { State::SynSent } else { State::SynReceived },
            active,
            context: context::Context::default(),
            opening: handshake::Opening::new(config),
            sequence: sequence::Sequence::new(iss),
            agreed: negotiated::Agreed::offer(config),
            sending: sending::Sending::new(config, mss, controller),
            receive: receiving::Receiver::new(config, mss, counts_marks),
            ecn: receiving::EcnSender::new(config.ecn, active),
            stack: Mechanisms::new(&config.stack),
            ce_received: 0,
            reset: None,
            closed_first: false,
            touched: true,
        }
    }

    /// Data may be handed to it: TCP established, no FIN of ours gone out (`__tcp_can_send`) and, on a
    /// join, the fourth ACK seen.
    pub(crate) fn usable(&self) -> bool {
        self.state == State::Established
            && !self.sending.queue().fin_sent()
            && self.context.permits_data()
    }

    /// Returns the sending half.
    #[inline]
    pub(crate) fn sending(&self) -> &sending::Sending {
        &self.sending
    }

    /// Returns the sending half.
    #[inline]
    pub(crate) fn sending_mut(&mut self) -> &mut sending::Sending {
        &mut self.sending
    }

    /// Returns the view that coupled controllers have of the subflow.
    pub(crate) fn sibling_view(&self) -> SiblingView {
        let stale = self.context.staleness().is_stale();
        self.sending.sibling_view(self.id, self.usable(), stale)
    }

    /// Returns the counters of both directions.
    pub(crate) fn totals(&self) -> SubflowTotals {
        SubflowTotals { ce_received: self.ce_received, ..self.sending.totals() }
    }

    /// Processes the acknowledgement of a segment. `siblings` is empty unless the controller is coupled.
    #[inline]
    pub(crate) fn handle_ack(
        &mut self,
        host: &HostModel,
        now: Instant,
        segment: &Segment,
        siblings: &mut [SiblingView],
    ) {
        let position = self.sequence.our_position(segment.ack, self.sending.queue().una());
        if !self.sending.accepts_ack(now, position) {
            return;
        }
        self.receive.on_cwr(segment);
        let echo = self.ecn.is_echoed_by(segment);
        let window = self.peer_window(segment);
        if window > self.sending.queue().window().largest() {
            let options = self.agreed.bytes();
            self.touched |= self.sending.raise_largest_window(window, options);
        }
        let peer_position = self.sequence.peer_position(segment.seq, self.receive.next());
        let ack = Ack {
            host,
            now,
            segment,
            sequence: &self.sequence,
            id: self.id,
            position,
            peer_position: peer_position.unwrap_or_default(),
            window,
            echo,
        };
        self.sending.acknowledge(&ack, siblings);
    }

    /// Fires the retransmission timer if it is due. Returns false if the peer has been silent for too long.
    pub(crate) fn fire_timer(&mut self, moment: Moment<'_>) -> bool {
        let fired = self.sending.fire_timer(moment);
        if fired == Fired::WindowProbe {
            self.receive.demand_probe();
        }
        fired != Fired::GivenUp
    }

    /// When the subflow wants to be woken; far future for never.
    pub(crate) fn wake(&self) -> Instant {
        let never = Instant::FAR_FUTURE;
        if self.state == State::Closed {
            return never;
        }
        let first = self.sending.timer_at().min(self.receive.ack_deadline());
        // Usually neither the pacer nor the handshake waits.
        let rarely = self.sending.cwnd().pacer().wake().is_some()
            | (handshake_deadline(self) != never)
            | self.receive.has_gap();
        if rarely { first.min(rare_wake(self)) } else { first }
    }

    /// Recomputes the payload of a full segment, of which MPTCP's options take `dss_bytes`.
    pub(crate) fn update_mss(&mut self, dss_bytes: u32) {
        self.sending.update_mss(self.agreed.bytes(), dss_bytes);
    }

    /// Resets a segment to our ports and this payload. Segments are filled in place because moving them costs more than
    /// filling them.
    // Inlined, because its callers overwrite most of the fields at once.
    #[inline]
    fn blank(&self, segment: &mut Segment, payload: Bytes) {
        segment.blank([self.tuple.local.port(), self.tuple.remote.port()], payload);
    }
}

/// Returns when a packet of the handshake is repeated; far future for never.
#[inline]
fn handshake_deadline(subflow: &Subflow) -> Instant {
    subflow.opening.deadline().min(subflow.context.third().deadline())
}

#[cold]
fn rare_wake(subflow: &Subflow) -> Instant {
    let reports =
        earliest(subflow.sending.cwnd().pacer().wake(), subflow.receive.reports_deadline());
    reports.unwrap_or(Instant::FAR_FUTURE).min(handshake_deadline(subflow))
}

/// Returns whether something must go out besides data and an acknowledgement that is due.
#[cold]
fn owes_rarely(subflow: &Subflow) -> bool {
    subflow.reset.is_some()
        || subflow.opening.is_due()
        || subflow.signal_due()
        || subflow.receive.owes_report()
        || subflow.sending.queue().intent().is_urgent()
}

/// Returns the earlier of two times; `None` if there is neither.
pub fn earliest(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    let never = Instant::FAR_FUTURE;
    let first = a.unwrap_or(never).min(b.unwrap_or(never));
    (first != never).then_some(first)
}

/// Demands of the connection besides data.
impl Subflow {
    /// Returns whether something may be ready to go out: a cheap check before the full one.
    #[inline]
    pub(crate) fn may_transmit(&self) -> bool {
        // Usually all are false. One test without branches is then the fastest.
        let rarely = self.reset.is_some()
            | self.opening.is_due()
            | self.context.signals().is_due()
            | self.receive.has_gap()
            | self.sending.queue().intent().is_urgent();
        self.receive.is_ack_due() || (rarely && owes_rarely(self)) || self.sending.may_transmit()
    }

    /// Demands an acknowledgement at once.
    pub(crate) fn ack_now(&mut self) {
        if self.state == State::Established {
            self.receive.demand_ack();
        }
    }

    /// Returns whether an acknowledgement must go out now for options of MPTCP that are sent once.
    pub(crate) fn signal_due(&self) -> bool {
        self.context.owes_signals() && self.state == State::Established
    }

    /// Handles a read of the application, of everything if `emptied`. The connection's window has `opened` to twice the
    /// last one advertised.
    pub(crate) fn after_read(&mut self, space: Space, opened: bool, emptied: bool) {
        if self.state == State::Established && self.context.is_fully_established() {
            let held = self.context.is_multipath().then(|| self.context.delivery().held_bytes());
            self.receive.after_read(space, opened, emptied, held);
        }
    }

    /// Returns whether a segment acknowledges at least as much as all before it.
    pub(crate) fn is_latest(&self, segment: &Segment) -> bool {
        segment.ack.offset(self.sequence.local(self.sending.queue().una())) >= 0
    }

    /// Returns the window field of a segment in bytes.
    pub(crate) fn peer_window(&self, segment: &Segment) -> u64 {
        u64::from(segment.window) << self.agreed.send_scale
    }

    /// Admits `window` bytes beyond the acknowledged data, which is the connection's window. The subflow's right edge
    /// never limits it (`mptcp_check_allowed_size`). A closed window admits nothing: the peer has all data of the
    /// subflow, except a probe.
    pub(crate) fn admit(&mut self, window: u64) {
        if window == 0 {
            return;
        }
        self.sending.queue_mut().admit(window);
    }
}

#[cfg(test)]
mod fixture;
