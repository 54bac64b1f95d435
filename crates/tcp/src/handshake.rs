//! The handshake: SYN, SYN/ACK and third packet (RFC 9293 section 3.5), with Linux's retransmissions.

use anabranch_units::{Duration, Instant, SeqNumber};
use anabranch_wire::{Flags, Segment, Timestamps};
use bytes::Bytes;

use super::negotiated::Agreed;
use super::sending::rtt::{RTO_INITIAL, timestamp_clock};
use super::sending::timers::missing_retries;
use super::{State, Tcp};
use crate::config::{HostModel, MSS_MIN, TcpConfig};

/// The number of SYN retransmissions with doubling intervals before the handshake fails (`tcp_syn_retries`).
const SYN_RETRIES: u32 = 6;
/// The number of SYN retransmissions before those, one second apart (`tcp_syn_linear_timeouts`). SYN/ACKs
/// have none.
const SYN_LINEAR: u32 = 4;
/// The number of SYN/ACK retransmissions before the handshake fails (`tcp_synack_retries`).
pub const SYN_ACK_RETRIES: u32 = 5;

/// The state of the handshake: the SYN or SYN/ACK and its timer.
#[derive(Debug)]
pub struct Opening {
    /// Whether the SYN or SYN/ACK must be sent.
    due: bool,
    sent_at: Instant,
    attempts: u32,
    /// The number of SYN retransmissions before the handshake fails.
    syn_retries: u8,
    /// The time of the next retransmission. `FAR_FUTURE` if no retransmission is pending.
    deadline: Instant,
}

/// The result of handling the handshake's timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeTimeout {
    /// The timer was not due.
    Nothing,
    /// The SYN or SYN/ACK must be sent again. The value is the number sent before.
    Repeats(u32),
    /// The handshake has failed.
    GivenUp,
}

/// Returns the interval before a retransmission: one second, doubled `doublings` times.
fn wait(doublings: u32, rto_max: Duration) -> Duration {
    (RTO_INITIAL * (1 << doublings.min(SYN_RETRIES))).min(rto_max)
}

/// Returns the interval after a SYN that was sent after `before` others.
fn syn_wait(before: u32, rto_max: Duration) -> Duration {
    wait(before.saturating_sub(SYN_LINEAR), rto_max)
}

/// Returns the duration of a SYN and `retries` retransmissions.
fn time_of_syns(retries: u32, rto_max: Duration) -> Duration {
    (0..=retries).fold(Duration::ZERO, |sum, before| sum + syn_wait(before, rto_max))
}

impl Opening {
    /// Creates a handshake that has not begun. A SYN is retransmitted for 131 s, the time with the kernel's
    /// longest timeout. With a smaller longest timeout, there are more retries. In Linux, this requires a
    /// larger `tcp_syn_retries`.
    pub(super) fn new(config: &TcpConfig) -> Self {
        let usual = SYN_RETRIES + SYN_LINEAR;
        let more = missing_retries(config.rto_max, |longest| time_of_syns(usual, longest));
        Self {
            due: false,
            sent_at: Instant::ZERO,
            attempts: 0,
            syn_retries: (usual + more) as u8,
            deadline: Instant::FAR_FUTURE,
        }
    }

    /// Requests that a SYN or SYN/ACK is sent. Also called if the peer repeats its SYN.
    pub fn demand_syn(&mut self) {
        self.due = true;
    }

    /// Returns whether the SYN or SYN/ACK must be sent.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.due
    }

    /// Returns whether the SYN or SYN/ACK was sent before `now`. Linux opens a join in a worker, after the
    /// application has run (`mptcp_worker`).
    pub fn has_begun(&self, now: Instant) -> bool {
        !self.due && self.sent_at < now
    }

    /// Handles a SYN/ACK that was sent before the connection existed.
    fn on_answered(&mut self, answered: Answered) {
        self.due = false;
        match answered {
            Answered::Once => self.attempts = 2,
            Answered::At { sent_at, times } => (self.sent_at, self.attempts) = (sent_at, times),
        }
    }

    /// Handles the sending of a SYN, or of a SYN/ACK if `answering`.
    fn on_sent(&mut self, now: Instant, answering: bool, config: &TcpConfig) {
        let until_again = if answering { wait } else { syn_wait };
        self.deadline = config.host.expiry(now, until_again(self.attempts, config.rto_max));
        self.sent_at = now;
        self.attempts += 1;
    }

    /// Handles the timer.
    fn handle_timeout(&mut self, now: Instant, answering: bool) -> HandshakeTimeout {
        if now < self.deadline {
            return HandshakeTimeout::Nothing;
        }
        self.deadline = Instant::FAR_FUTURE;
        let retries = if answering { SYN_ACK_RETRIES } else { self.syn_retries.into() };
        if self.attempts > retries {
            return HandshakeTimeout::GivenUp;
        }
        self.due = true;
        HandshakeTimeout::Repeats(self.attempts)
    }

    /// Returns the RTT of the handshake. After retransmissions, or if the send time of the SYN/ACK is
    /// unknown, it is computed from the `echoed` timestamp (`tcp_ack_update_rtt`).
    fn rtt(&self, now: Instant, echoed: Option<u32>) -> Option<Duration> {
        if self.attempts == 1 {
            return Some(now.since(self.sent_at));
        }
        let elapsed = timestamp_clock(now).wrapping_sub(echoed?);
        Some(Duration::from_millis(u64::from(elapsed).max(1)))
    }

    /// Ends the handshake.
    fn complete(&mut self) {
        (self.deadline, self.due) = (Instant::FAR_FUTURE, false);
    }

    /// Returns the time of the next retransmission. `FAR_FUTURE` if no retransmission is pending.
    #[inline]
    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }
}

/// A SYN/ACK that is sent before a connection exists.
pub struct SynAnswer<'a> {
    /// The SYN to answer.
    pub syn: &'a Segment,
    /// Our initial sequence number.
    pub iss: SeqNumber,
    /// The difference between our timestamps and our clock.
    pub timestamp_offset: u32,
    /// The announced maximum segment size.
    pub mss: u16,
}

/// SYN/ACKs that were sent before the connection existed.
#[derive(Clone, Copy, Debug)]
pub enum Answered {
    /// One SYN/ACK was sent at an unknown time, like Linux's for a join. The RTT is computed from the echoed
    /// timestamp, if any.
    Once,
    /// The number of SYN/ACKs and the time of the last one are known.
    At {
        /// The time of the last one.
        sent_at: Instant,
        /// The number that were sent.
        times: u32,
    },
}

impl SynAnswer<'_> {
    /// Returns the time at which a SYN/ACK sent now, after `before` others, is retransmitted.
    pub fn due_again(config: &TcpConfig, now: Instant, before: u32) -> Instant {
        config.host.expiry(now, wait(before, config.rto_max))
    }

    /// Builds the segment, without options of the layer above.
    pub fn segment(&self, now: Instant, config: &TcpConfig) -> Segment {
        let window = super::receiving::initial_window(config, self.mss);
        let ecn = super::accepts_ecn(config.ecn, self.syn);
        let echo = if ecn { Flags::ECE } else { Flags::default() };
        let agreed = Agreed::offer(config).answered_by(self.syn);
        let mut segment = Segment {
            source_port: self.syn.destination_port,
            destination_port: self.syn.source_port,
            seq: self.iss,
            ack: self.syn.seq.add(1),
            flags: Flags::SYN.with(Flags::ACK).with(echo),
            window: window.min(65_535) as u16,
            mss: Some(self.mss),
            ..Segment::default()
        };
        let value = timestamp_clock(now).wrapping_add(self.timestamp_offset);
        let echo = self.syn.timestamps.map_or(0, |timestamps| timestamps.value);
        agreed.put_on(&mut segment, Timestamps { value, echo });
        segment
    }
}

impl Tcp {
    /// Writes a requested SYN or SYN/ACK, without options of the layer above. Returns whether a segment was
    /// written.
    pub fn next_handshake_segment(
        &mut self,
        now: Instant,
        config: &TcpConfig,
        segment: &mut Segment,
    ) -> bool {
        if !std::mem::take(&mut self.opening.due) {
            return false;
        }
        let answering = self.state == State::SynReceived;
        self.blank(segment, Bytes::new());
        segment.seq = self.sequence.local(0);
        let attempt = self.opening.attempts;
        segment.flags = Flags::SYN.with(self.ecn.handshake_flags(answering, attempt));
        if answering {
            segment.flags = segment.flags.with(Flags::ACK);
            segment.ack = self.sequence.remote(1);
        }
        segment.mss = Some(config.mss_at(self.tuple.local.ip()));
        let echo = if answering { self.sequence.recent() } else { 0 };
        self.receive
            .negotiated()
            .put_on(segment, Timestamps { value: self.sequence.timestamp(now), echo });
        segment.window = self.receive.window().min(65_535) as u16;
        self.sending.queue_mut().on_syn();
        self.opening.on_sent(now, answering, config);
        true
    }

    /// Handles the timer of the handshake.
    pub fn handle_handshake_timeout(&mut self, now: Instant) -> HandshakeTimeout {
        self.opening.handle_timeout(now, self.state == State::SynReceived)
    }

    /// Stores the TCP options of the peer's SYN.
    pub fn on_peer_syn(&mut self, segment: &Segment, config: &TcpConfig) {
        self.sequence.on_peer_syn(segment);
        self.receive.on_syn();
        let negotiated = self.receive.negotiated().answered_by(segment);
        let own = config.mss_at(self.tuple.local.ip());
        self.sending.set_peer_mss(segment.mss.unwrap_or(536).min(own).max(MSS_MIN));
        let ecn = self.ecn.on_peer_syn(config.ecn, self.active, segment);
        self.receive.on_negotiated(negotiated, ecn);
        self.update_mss(0);
    }

    /// Accepts a SYN and requests a SYN/ACK. `answered` means that the SYN/ACK was sent before the connection
    /// existed.
    pub fn answer_syn(
        &mut self,
        segment: &Segment,
        config: &TcpConfig,
        answered: Option<Answered>,
    ) {
        self.on_peer_syn(segment, config);
        self.opening.demand_syn();
        if let Some(answered) = answered {
            self.opening.on_answered(answered);
            self.sending.queue_mut().on_syn();
        }
        // The window of a SYN is not scaled (RFC 7323 section 2.2).
        self.sending.queue_mut().window_mut().advance(1, u64::from(segment.window));
    }

    /// Handles the SYN/ACK for our SYN, after its options. The connection is then established and has an RTT
    /// sample.
    pub fn take_syn_ack(&mut self, host: &HostModel, now: Instant, segment: &Segment) {
        self.open(host, now, segment, u64::from(segment.window));
        self.receive.demand_ack();
    }

    /// Handles the third packet, which may be any segment that acknowledges our SYN/ACK. The connection is
    /// then established. Returns whether the segment is valid for this.
    pub fn take_third(&mut self, host: &HostModel, now: Instant, segment: &Segment) -> bool {
        if !segment.flags.contains(Flags::ACK) || segment.ack != self.sequence.local(1) {
            return false;
        }
        self.open(host, now, segment, self.peer_window(segment));
        true
    }

    /// Completes the handshake with the window of this segment. Later segments have at most half of it.
    fn open(&mut self, host: &HostModel, now: Instant, segment: &Segment, window: u64) {
        self.state = State::Established;
        self.opening.complete();
        let echo =
            segment.timestamps.filter(|t| self.receive.negotiated().timestamps && t.echo > 0);
        let echoed = echo.map(|timestamps| self.sequence.echoed(timestamps));
        let rtt = self.opening.rtt(now, echoed);
        self.sending.open(host, now, window, rtt, self.receive.negotiated());
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{at, exact, subflow};
    use super::*;

    #[test]
    fn only_an_acknowledgement_of_our_syn_completes_the_handshake() {
        // RFC 9293 section 3.10.7.4, SYN-RECEIVED: SND.UNA < SEG.ACK =< SND.NXT. The ISS is 0, so it must be 1.
        let (mut tcp, _) = subflow();
        tcp.state = State::SynReceived;
        let mut segment = Segment { ack: SeqNumber(0), flags: Flags::ACK, ..Segment::default() };
        assert!(!tcp.take_third(&exact(), at(0), &segment), "it acknowledges nothing");
        segment.ack = SeqNumber(2);
        assert!(!tcp.take_third(&exact(), at(0), &segment), "it acknowledges unsent data");
        (segment.ack, segment.flags) = (SeqNumber(1), Flags::default());
        assert!(!tcp.take_third(&exact(), at(0), &segment), "the number is not valid");
        assert_eq!(tcp.state, State::SynReceived);
        segment.flags = Flags::ACK;
        assert!(tcp.take_third(&exact(), at(0), &segment));
        assert_eq!(tcp.state, State::Established);
    }
}
