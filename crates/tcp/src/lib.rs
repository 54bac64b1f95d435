//! One TCP connection as Linux runs it, sans-IO.
//!
//! Positions count bytes of each direction from the SYN (position 0), so that the first data byte has position 1, like
//! MPTCP's relative subflow sequence number. They become 32-bit sequence numbers only where a segment is written or read.
//!
//! No code here reads or writes an option of the layer above. That layer passes plain values: a
//! [`Tag`](sending::flight::Tag) that forbids merging two ranges of data, a number of option bytes that is reserved in
//! each segment, the receive [`Space`] of all its connections, and whether a received segment carries a signal. It also
//! calls methods of both halves ([`Tcp::sending_mut`], [`Tcp::receive_mut`]). Comments name MPTCP where Linux treats its
//! subflows differently from plain TCP.

mod acknowledgements;
mod burst;
pub mod config;
mod data_segment;
mod ending;
mod handshake;
mod header;
mod negotiated;
mod path_mtu;
pub mod reassembly;
pub mod receive_buffer;
mod receiving;
mod sending;
mod sequence;
pub mod stack;

use anabranch_congestion::{CongestionController, SiblingView};
use anabranch_units::{Instant, SeqNumber, SubflowId};
use anabranch_wire::Segment;
use bytes::Bytes;

pub use burst::Written;
use config::{FourTuple, HostModel, Moment, TcpConfig};
pub use data_segment::Departed;
pub use ending::Remains;
pub use handshake::{Answered, HandshakeTimeout, SYN_ACK_RETRIES, SynAnswer};
pub use negotiated::{REMEMBERED_BITS, recall, remember};
pub use receiving::{Receiver, accepts_ecn, initial_window};
pub use sending::Tagging;
pub use sending::flight::Tag;
pub use sending::rtt::{RTO_MIN, timestamp_clock};
use sending::{Ack, Fired};

/// The state of the connection (RFC 9293 section 3.3.2; FINs are counted separately).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Our SYN waits for its answer.
    SynSent,
    /// The peer's SYN has come, and its third packet has not.
    SynReceived,
    /// The handshake is complete.
    Established,
    /// Both directions have ended, or the connection was cut off.
    Closed,
}

/// Receive space of the connection, bytes.
#[derive(Clone, Copy, Debug)]
pub struct Space {
    /// The part that is free.
    pub free: u64,
    /// All of it.
    pub allowed: u64,
    /// The part that may be offered so far, if the subflows open one window together (the connection's
    /// `rcv_ssthresh`).
    pub open: u64,
    /// The current segment has raised it.
    pub opens: bool,
}

impl Default for Space {
    fn default() -> Self {
        Self { free: 0, allowed: 0, open: u64::MAX, opens: false }
    }
}

/// The values of the layer above for a segment that is sent.
#[derive(Clone, Copy, Debug)]
pub struct EmitContext {
    /// The time.
    pub now: Instant,
    /// The receive space.
    pub space: Space,
    /// The window that was promised on any TCP connection of the layer above, if it holds for this one too.
    pub promised: Option<u64>,
}

/// The counters of a connection, for traces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
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

impl std::ops::AddAssign for Totals {
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

/// One TCP connection.
#[derive(Debug)]
pub struct Tcp {
    /// The identifier among the siblings of a coupled congestion control.
    id: SubflowId,
    tuple: FourTuple,
    state: State,
    /// We opened it.
    active: bool,
    opening: handshake::Opening,
    sequence: sequence::Sequence,
    sending: sending::Sending,
    receive: receiving::Receiver,
    ecn: receiving::EcnSender,
    /// A RST to send, then nothing more.
    reset: Option<ending::ResetNumber>,
    /// Our FIN had gone out when the peer's came: ours is the TIME-WAIT (RFC 9293 section 3.6).
    closed_first: bool,
}

impl Tcp {
    /// Creates a connection that is about to send a SYN (`active`) or has received one.
    pub fn new(
        id: SubflowId,
        tuple: FourTuple,
        active: bool,
        iss: SeqNumber,
        controller: Box<dyn CongestionController>,
        config: &TcpConfig,
    ) -> Self {
        let mss = config.mss_at(tuple.local.ip());
        let counts_marks = controller.counts_marks();
        Self {
            id,
            tuple,
            state: if active { State::SynSent } else { State::SynReceived },
            active,
            opening: handshake::Opening::new(config),
            sequence: sequence::Sequence::new(iss),
            sending: sending::Sending::new(config, mss, controller),
            receive: receiving::Receiver::new(config, mss, counts_marks),
            ecn: receiving::EcnSender::new(config.ecn, active),
            reset: None,
            closed_first: false,
        }
    }

    /// Returns the identifier among the siblings.
    #[inline]
    pub fn id(&self) -> SubflowId {
        self.id
    }

    /// Returns the addresses and ports.
    #[inline]
    pub fn tuple(&self) -> FourTuple {
        self.tuple
    }

    /// Returns the addresses and ports by reference.
    #[inline]
    pub fn addresses(&self) -> &FourTuple {
        &self.tuple
    }

    /// Returns the state.
    #[inline]
    pub fn state(&self) -> State {
        self.state
    }

    /// Returns whether we opened the connection.
    pub fn is_active(&self) -> bool {
        self.active
    }

    /// Returns whether data may be queued: established, and our FIN has not left (`__tcp_can_send`).
    #[inline]
    pub fn can_send(&self) -> bool {
        self.state == State::Established && !self.sending.queue().fin_sent()
    }

    /// Returns whether data travels under tags now (`sk_is_mptcp`).
    #[inline]
    pub fn is_tagged(&self) -> bool {
        self.sending.queue().is_tagged()
    }

    /// Returns the handshake.
    #[inline]
    pub fn opening(&self) -> &handshake::Opening {
        &self.opening
    }

    /// Returns the handshake, to request its packets.
    pub fn opening_mut(&mut self) -> &mut handshake::Opening {
        &mut self.opening
    }

    /// Returns the sequence numbers and timestamps.
    pub fn sequence(&self) -> &sequence::Sequence {
        &self.sequence
    }

    /// Sets the difference between our timestamps and our clock.
    pub fn set_timestamp_offset(&mut self, offset: u32) {
        self.sequence.set_timestamp_offset(offset);
    }

    /// Returns the receiving half.
    #[inline]
    pub fn receive(&self) -> &Receiver {
        &self.receive
    }

    /// Returns the receiving half.
    #[inline]
    pub fn receive_mut(&mut self) -> &mut Receiver {
        &mut self.receive
    }

    /// Returns the sending half.
    #[inline]
    pub fn sending(&self) -> &sending::Sending {
        &self.sending
    }

    /// Returns the sending half.
    #[inline]
    pub fn sending_mut(&mut self) -> &mut sending::Sending {
        &mut self.sending
    }

    /// Returns the counters of both directions.
    pub fn totals(&self) -> Totals {
        Totals { ce_received: self.receive.ce_received(), ..self.sending.totals() }
    }

    /// Processes the acknowledgement of a segment. `carries_signal`: the segment has an option of the layer above that is
    /// sent once. `siblings` is empty unless the controller is coupled. Returns whether the size of segments may have
    /// changed.
    #[inline]
    pub fn handle_ack(
        &mut self,
        host: &HostModel,
        now: Instant,
        segment: &Segment,
        carries_signal: bool,
        siblings: &mut [SiblingView],
    ) -> bool {
        let position = self.sequence.our_position(segment.ack, self.sending.queue().una());
        if !self.sending.accepts_ack(now, position) {
            return false;
        }
        self.receive.on_cwr(segment);
        let echo = self.ecn.is_echoed_by(segment);
        let window = self.peer_window(segment);
        let mut resized = false;
        if window > self.sending.queue().window().largest() {
            resized = self.sending.raise_largest_window(window, self.receive.negotiated().bytes());
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
            carries_signal,
        };
        self.sending.acknowledge(&ack, siblings);
        resized
    }

    /// Fires the retransmission timer if it is due. Returns false if the peer has been silent for too long.
    pub fn fire_timer(&mut self, moment: Moment<'_>) -> bool {
        let fired = self.sending.fire_timer(moment);
        if fired == Fired::WindowProbe {
            self.receive.demand_probe();
        }
        fired != Fired::GivenUp
    }

    /// Returns when the connection wants to be woken; far future for never.
    #[inline]
    pub fn wake(&self) -> Instant {
        let never = Instant::FAR_FUTURE;
        if self.state == State::Closed {
            return never;
        }
        let first = self.sending.timer_at().min(self.receive.ack_deadline());
        // Usually neither the pacer nor the handshake waits.
        let rarely = self.sending.cwnd().pacer().wake().is_some()
            | (self.opening.deadline() != never)
            | self.receive.has_gap();
        if rarely { first.min(rare_wake(self)) } else { first }
    }

    /// Recomputes the payload of a full segment, of which options of the layer above take `reserved` bytes.
    pub fn update_mss(&mut self, reserved: u32) {
        self.sending.update_mss(self.receive.negotiated().bytes(), reserved);
    }

    /// Resets a segment to our ports and this payload. Segments are filled in place because moving them costs more than
    /// filling them.
    // Inlined, because its callers overwrite most of the fields at once.
    #[inline]
    fn blank(&self, segment: &mut Segment, payload: Bytes) {
        segment.blank([self.tuple.local.port(), self.tuple.remote.port()], payload);
    }

    /// Returns whether something may be ready to go out: a cheap check before the full one.
    #[inline]
    pub fn may_transmit(&self) -> bool {
        // Usually all are false. One test without branches is then the fastest.
        let rarely = self.reset.is_some()
            | self.opening.is_due()
            | self.receive.has_gap()
            | self.sending.queue().intent().is_urgent();
        self.receive.is_ack_due() || (rarely && owes_rarely(self)) || self.sending.may_transmit()
    }

    /// Demands an acknowledgement at once.
    pub fn ack_now(&mut self) {
        if self.state == State::Established {
            self.receive.demand_ack();
        }
    }

    /// Returns whether a segment acknowledges at least as much as all before it.
    pub fn is_latest(&self, segment: &Segment) -> bool {
        segment.ack.offset(self.sequence.local(self.sending.queue().una())) >= 0
    }

    /// Returns the window field of a segment in bytes.
    pub fn peer_window(&self, segment: &Segment) -> u64 {
        u64::from(segment.window) << self.receive.negotiated().send_scale
    }
}

#[cold]
fn rare_wake(tcp: &Tcp) -> Instant {
    let reports = earliest(tcp.sending.cwnd().pacer().wake(), tcp.receive.reports_deadline());
    reports.unwrap_or(Instant::FAR_FUTURE).min(tcp.opening.deadline())
}

/// Returns whether something must go out besides data and an acknowledgement that is due.
#[cold]
fn owes_rarely(tcp: &Tcp) -> bool {
    tcp.reset.is_some()
        || tcp.opening.is_due()
        || tcp.receive.owes_report()
        || tcp.sending.queue().intent().is_urgent()
}

/// Returns the earlier of two times; `None` if there is neither.
pub fn earliest(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    let never = Instant::FAR_FUTURE;
    let first = a.unwrap_or(never).min(b.unwrap_or(never));
    (first != never).then_some(first)
}

#[cfg(test)]
mod fixture;
