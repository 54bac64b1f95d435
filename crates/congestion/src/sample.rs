//! The values that a controller gets: the window, acknowledgements, losses and events of its subflow.

use anabranch_units::{Duration, Instant, Rate, SubflowId};

use super::SiblingView;

/// The congestion window and the slow-start threshold, in segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Segments that may be in flight.
    pub cwnd: u32,
    /// Below this threshold the window grows by slow start; `u32::MAX` until the first congestion.
    pub ssthresh: u32,
}

impl Window {
    /// True while the window grows by slow start (`tcp_in_slow_start`).
    pub const fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }
}

/// A delivery-rate sample (draft-ietf-ccwg-bbr section 4.1.2; Linux `tcp_rate.c`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateSample {
    /// Segments delivered over `interval`.
    pub delivered: u32,
    /// The subflow's delivered count when the sampled segment was sent.
    pub prior_delivered: u64,
    /// The longer of the send and the acknowledgement interval; zero when the sample is invalid.
    pub interval: Duration,
    /// The sample was taken while the application had nothing to send.
    pub app_limited: bool,
    /// Segments in flight when the sampled segment was sent, without itself.
    pub in_flight_at_send: u32,
    /// Segments marked lost between its transmission and its acknowledgement.
    pub lost: u32,
    /// Segments delivered over `interval` by acknowledgements that reported a mark.
    pub delivered_ce: u32,
}

/// One acknowledgement, as a controller sees it. Counts are in segments unless the name says bytes.
#[derive(Clone, Copy, Debug)]
pub struct AckSample<'a> {
    /// When the acknowledgement arrived.
    pub now: Instant,
    /// `now` by the host's tick clock (jiffies), for algorithms that read that clock.
    pub coarse_now: Instant,
    /// The length of a tick of that clock; zero if the clock is exact.
    pub tick: Duration,
    /// Segments newly acknowledged, cumulatively or selectively.
    pub acked: u32,
    /// Payload bytes newly acknowledged cumulatively.
    pub acked_bytes: u64,
    /// Segments newly marked lost.
    pub newly_lost: u32,
    /// Segments delivered since the subflow began, including the handshake's (`tp->delivered`).
    pub delivered: u64,
    /// The part of `delivered` whose acknowledgements reported a mark (`tp->delivered_ce`).
    pub delivered_ce: u64,
    /// The acknowledgement reports a mark (ECN-Echo, RFC 3168).
    pub echo: bool,
    /// Payload of a full segment, bytes.
    pub mss: u32,
    /// When pacing permits the next segment; in the past if pacing does not delay it.
    pub next_departure: Instant,
    /// Segments in flight before the acknowledgement.
    pub prior_in_flight: u32,
    /// Segments in flight after it.
    pub in_flight: u32,
    /// RTT of the most recently sent segment newly acknowledged, without ambiguity.
    pub rtt: Option<Duration>,
    /// The receiver may have delayed the acknowledgement, because it is for a single segment that was not full
    /// (`is_ack_delayed`).
    pub maybe_delayed: bool,
    /// Smoothed RTT.
    pub srtt: Option<Duration>,
    /// Minimum RTT over the last 300 s.
    pub min_rtt: Option<Duration>,
    /// The delivery-rate sample.
    pub rate: RateSample,
    /// Payload bytes sent so far, that is, the position of the next new byte.
    pub snd_nxt: u64,
    /// Position up to which everything is acknowledged.
    pub snd_una: u64,
    /// The window was fully used (`tcp_is_cwnd_limited`). Otherwise no loss-based controller grows.
    pub cwnd_limited: bool,
    /// The core allows growth: the acknowledgement advanced and no reduction is under way.
    pub may_grow: bool,
    /// The subflow's pacing rate is enforced.
    pub paced: bool,
    /// The pacing rate.
    pub pacing_rate: Rate,
    /// The subflow is one of Multipath TCP, and not plain TCP (`mptcp`).
    pub multipath: bool,
    /// The subflow's own identity, used to find it among the siblings.
    pub id: SubflowId,
    /// All subflows of the connection, itself included; empty unless `wants_siblings`.
    pub siblings: &'a [SiblingView],
}

/// One segment newly marked lost. Counts are in segments.
#[derive(Clone, Copy, Debug)]
pub struct LostSegment {
    /// When it was marked.
    pub now: Instant,
    /// The position of its first payload byte in the subflow, and the position after its last byte.
    pub start: u64,
    /// See `start`.
    pub end: u64,
    /// Segments in flight when it was last sent, without itself.
    pub in_flight_at_send: u32,
    /// Segments marked lost since then, including itself.
    pub lost_since_send: u32,
    /// It was sent while the application had nothing more to send.
    pub app_limited: bool,
    /// Segments delivered since the subflow began, including those of the current acknowledgement.
    pub delivered: u64,
    /// Whether the peer supports SACK.
    pub selective_acks: bool,
}

/// Why the window is to be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CongestionKind {
    /// Loss found by RACK: fast recovery begins.
    Loss,
    /// A tail loss repaired by a loss probe.
    TailLoss,
    /// The retransmission timer expired.
    Timeout,
    /// The peer reported a mark of congestion (ECN-Echo, RFC 3168): nothing was lost.
    Ecn,
}

/// A congestion event.
#[derive(Clone, Copy, Debug)]
pub struct CongestionEvent {
    /// When.
    pub now: Instant,
    /// Why.
    pub kind: CongestionKind,
    /// Segments in flight.
    pub in_flight: u32,
}

/// Data is about to be sent and nothing is in flight (`CA_EVENT_TX_START`).
#[derive(Clone, Copy, Debug)]
pub struct TransmitStart {
    /// When.
    pub now: Instant,
    /// `now` as the host's tick clock shows it (jiffies).
    pub coarse_now: Instant,
    /// The time of the last transmission by that clock (`lsndtime`).
    pub last_sent: Instant,
    /// The application, not the window, had held the subflow back.
    pub app_limited: bool,
    /// The minimum RTT so far; at first that of the handshake.
    pub min_rtt: Option<Duration>,
}

/// A subflow's handshake is complete (`init` of `tcp_congestion_ops`, in `tcp_init_transfer`).
#[derive(Clone, Copy, Debug)]
pub struct Opened {
    /// The time of completion, by the host's tick clock.
    pub coarse_now: Instant,
    /// The RTT that the handshake measured.
    pub rtt: Option<Duration>,
    /// Payload of a full segment, bytes.
    pub mss: u32,
}

/// Why the core changed the window itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowChange {
    /// Proportional rate reduction (PRR), or its end.
    Reduction,
    /// The retransmission timer.
    Timeout,
    /// Nothing was sent for longer than the RTO.
    Idle,
    /// The application did not fill the window.
    ApplicationLimited,
    /// A reduction proved spurious and was undone.
    Undo,
    /// A scheduler's penalty.
    Penalty,
}
