//! One TCP connection as in Linux, sans-IO.
//!
//! Positions count bytes of each direction from the SYN (position 0), so the first data byte has position 1.
//! Positions are converted to 32-bit sequence numbers only when a segment is written or read.
//!
//! No code here reads or writes an option of the layer above. That layer passes plain values: a [`Tag`],
//! which prevents merging two ranges of data; a number of option bytes to reserve in each segment; the
//! receive [`Space`] of all its connections; and whether a received segment carries a signal. It changes the
//! sending half only by the verbs of [`Supply`]. Comments mention MPTCP only if Linux treats subflows
//! differently from plain TCP.

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
mod supply;

use anabranch_congestion::{CongestionController, SiblingView};
use anabranch_units::{Instant, SeqNumber, SubflowId};
use anabranch_wire::{Flags, Segment};
use bytes::Bytes;

pub use burst::Written;
use config::{FourTuple, HostModel, Moment, TcpConfig};
pub use data_segment::Departed;
pub use ending::Remains;
pub use handshake::{Answered, HandshakeTimeout, SYN_ACK_RETRIES, SynAnswer};
pub use negotiated::{REMEMBERED_BITS, recall, remember};
pub use receiving::{Receiver, accepts_ecn, initial_window};
pub use sending::flight::Tag;
pub use sending::rtt::{RTO_MIN, timestamp_clock};
use sending::{Ack, Fired};
pub use supply::Supply;

/// The state of the connection (RFC 9293 section 3.3.2; FINs are counted separately).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Our SYN was not answered yet.
    SynSent,
    /// The peer's SYN has arrived, but not the third packet.
    SynReceived,
    /// The handshake is complete.
    Established,
    /// Both directions have ended, or the connection was aborted.
    Closed,
}

/// The receive space, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Space {
    /// The free space.
    pub free: u64,
    /// The whole space.
    pub allowed: u64,
    /// The part that may be advertised so far, if all connections of the layer above share one window (its
    /// `rcv_ssthresh`).
    pub open: u64,
    /// Whether the current segment has increased `open`.
    pub opens: bool,
}

impl Default for Space {
    fn default() -> Self {
        Self { free: 0, allowed: 0, open: u64::MAX, opens: false }
    }
}

/// The values that the layer above provides for each outgoing segment.
#[derive(Clone, Copy, Debug)]
pub struct EmitContext {
    /// The time.
    pub now: Instant,
    /// The receive space.
    pub space: Space,
    /// The window promised on any connection of the layer above, if it also applies to this one.
    pub promised: Option<u64>,
}

/// The counters of a connection, for traces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Payload bytes cumulatively acknowledged.
    pub bytes_acked: u64,
    /// Payload bytes sent, including retransmissions.
    pub bytes_sent: u64,
    /// Payload bytes retransmitted.
    pub bytes_retransmitted: u64,
    /// Segments retransmitted.
    pub retransmissions: u64,
    /// Data segments sent, including retransmissions.
    pub data_segments: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Window reductions undone as spurious.
    pub undos: u64,
    /// Window reductions requested by the scheduler.
    pub penalties: u64,
    /// Segments delivered by acknowledgements with ECE (`tcpi_delivered_ce`).
    pub delivered_ce: u64,
    /// Window reductions because of ECE.
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
    /// The identifier among the connections of a coupled congestion controller.
    id: SubflowId,
    tuple: FourTuple,
    state: State,
    /// Whether we opened the connection.
    active: bool,
    opening: handshake::Opening,
    sequence: sequence::Sequence,
    sending: sending::Sending,
    receive: receiving::Receiver,
    ecn: receiving::EcnSender,
    /// The RST to send. Nothing is sent after it.
    reset: Option<ending::ResetNumber>,
    /// Whether we sent our FIN before the peer's arrived. TIME-WAIT is then on our side (RFC 9293 section
    /// 3.6).
    closed_first: bool,
}

impl Tcp {
    /// Creates a connection that will send a SYN (`active`) or has received one.
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

    /// Returns the identifier among the connections of a coupled controller.
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

    /// Returns whether data may be queued: the connection is established, and our FIN was not sent
    /// (`__tcp_can_send`).
    #[inline]
    pub fn can_send(&self) -> bool {
        self.state == State::Established && !self.sending.queue().fin_sent()
    }

    /// Returns whether data is currently sent with tags (`sk_is_mptcp`).
    #[inline]
    pub fn is_tagged(&self) -> bool {
        self.sending.queue().is_tagged()
    }

    /// Returns the handshake.
    #[inline]
    pub fn opening(&self) -> &handshake::Opening {
        &self.opening
    }

    /// Returns a mutable reference to the handshake, to request its packets.
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

    /// Returns a mutable reference to the receiving half.
    #[inline]
    pub fn receive_mut(&mut self) -> &mut Receiver {
        &mut self.receive
    }

    /// Returns the sending half.
    #[inline]
    pub fn sending(&self) -> &sending::Sending {
        &self.sending
    }

    /// Returns the counters of both directions.
    pub fn totals(&self) -> Totals {
        Totals { ce_received: self.receive.ce_received(), ..self.sending.totals() }
    }

    /// Handles the acknowledgement number of a segment. `carries_signal`: the segment has an option of the
    /// layer above that is sent once. `siblings` is empty unless the controller is coupled. Returns whether
    /// values that a scheduler uses may have changed.
    #[inline]
    pub fn handle_ack(
        &mut self,
        host: &HostModel,
        now: Instant,
        segment: &Segment,
        carries_signal: bool,
        siblings: &mut [SiblingView],
    ) -> bool {
        self.sending.queue_mut().set_deferred(false);
        let position = self.sequence.our_position(segment.ack, self.sending.queue().una());
        if !self.sending.accept_ack(now, position) {
            return false;
        }
        if segment.flags.contains(Flags::CWR) {
            self.receive.on_cwr(segment);
        }
        let window = self.peer_window(segment);
        let mut resized = false;
        if window > self.sending.queue().window().largest() {
            resized = self.sending.grow_largest_window(window, self.receive.negotiated().bytes());
        }
        let peer_position = self.sequence.peer_position(segment.seq, self.receive.next());
        let peer_position = peer_position.unwrap_or_default();
        let moment = Moment { host, now };
        let Some(noted) = self.sending.note_ack(moment, position, peer_position, window) else {
            return resized;
        };
        let ack = Ack {
            host,
            now,
            segment,
            sequence: &self.sequence,
            id: self.id,
            position,
            noted,
            echo: self.ecn.is_echoed_by(segment),
            carries_signal,
        };
        self.sending.acknowledge(&ack, siblings);
        resized
    }

    /// Handles the retransmission timer if it is due. Returns false if the peer has not answered for too
    /// long.
    pub fn handle_timeout(&mut self, moment: Moment<'_>) -> bool {
        let fired = self.sending.handle_timeout(moment);
        if fired == Fired::WindowProbe {
            self.receive.demand_probe();
        }
        fired != Fired::GivenUp
    }

    /// Returns the time at which the connection wants to be woken. `FAR_FUTURE` if it does not.
    #[inline]
    pub fn wake(&self) -> Instant {
        let never = Instant::FAR_FUTURE;
        if self.state == State::Closed {
            return never;
        }
        let first = self.sending.timer_at().min(self.receive.ack_deadline());
        // Fast path: usually neither the pacer nor the handshake has a timer.
        let rarely = self.sending.cwnd().pacer().wake().is_some()
            | (self.opening.deadline() != never)
            | self.receive.has_gap();
        if rarely { first.min(rare_wake(self)) } else { first }
    }

    /// Recomputes the payload of a full segment. Options of the layer above need `reserved` bytes.
    pub fn update_mss(&mut self, reserved: u32) {
        self.sending.update_mss(self.receive.negotiated().bytes(), reserved);
    }

    /// Resets a segment to our ports and this payload. Segments are filled in place, because moving them
    /// costs more.
    // Inlined, because its callers overwrite most of the fields at once.
    #[inline]
    fn blank(&self, segment: &mut Segment, payload: Bytes) {
        segment.blank([self.tuple.local.port(), self.tuple.remote.port()], payload);
    }

    /// Returns whether the connection may have a segment to send. This check is cheap and comes before the
    /// full one.
    #[inline]
    pub fn may_transmit(&self) -> bool {
        // Usually all of these are false. One test without branches is the fastest check.
        let rarely = self.reset.is_some()
            | self.opening.is_due()
            | self.receive.has_gap()
            | self.sending.queue().intent().is_urgent();
        self.receive.is_ack_due()
            || (rarely && has_rare_segment(self))
            || self.sending.may_transmit()
    }

    /// Requests an immediate acknowledgement.
    pub fn demand_ack(&mut self) {
        if self.state == State::Established {
            self.receive.demand_ack();
        }
    }

    /// Returns whether a segment's acknowledgement number is at least as high as all earlier ones.
    pub fn is_latest(&self, segment: &Segment) -> bool {
        segment.ack.offset(self.sequence.local(self.sending.queue().una())) >= 0
    }

    /// Returns the window field of a segment, in bytes.
    pub fn peer_window(&self, segment: &Segment) -> u64 {
        u64::from(segment.window) << self.receive.negotiated().send_scale
    }
}

#[cold]
fn rare_wake(tcp: &Tcp) -> Instant {
    let reports = earliest(tcp.sending.cwnd().pacer().wake(), tcp.receive.reports_deadline());
    reports.unwrap_or(Instant::FAR_FUTURE).min(tcp.opening.deadline())
}

/// Returns whether a RST, handshake segment, acknowledgement with earlier SACK blocks, or urgent segment must
/// be sent.
#[cold]
fn has_rare_segment(tcp: &Tcp) -> bool {
    tcp.reset.is_some()
        || tcp.opening.is_due()
        || tcp.receive.has_pending_report()
        || tcp.sending.queue().intent().is_urgent()
}

/// Returns the earlier of two times. `None` if both are `None`.
pub fn earliest(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    let never = Instant::FAR_FUTURE;
    let first = a.unwrap_or(never).min(b.unwrap_or(never));
    (first != never).then_some(first)
}

#[cfg(test)]
mod fixture;

#[cfg(test)]
mod tests {
    use super::*;

    /// Counters that are the consecutive multiples of `unit`.
    fn multiples(unit: u64) -> Totals {
        Totals {
            bytes_acked: unit,
            bytes_sent: 2 * unit,
            bytes_retransmitted: 3 * unit,
            retransmissions: 4 * unit,
            data_segments: 5 * unit,
            timeouts: 6 * unit,
            undos: 7 * unit,
            penalties: 8 * unit,
            delivered_ce: 9 * unit,
            ecn_reductions: 10 * unit,
            ce_received: 11 * unit,
        }
    }

    #[test]
    fn every_counter_is_added() {
        let mut totals = multiples(10);
        totals += multiples(3);
        assert_eq!(totals, multiples(13));
    }
}
