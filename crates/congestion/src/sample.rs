//! The values passed to a controller: the window, and the acknowledgements, losses and events of its subflow.

use anabranch_units::{Duration, Instant, Rate, SubflowId};

use super::SiblingView;

/// The congestion window and the slow-start threshold, in segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The number of segments that may be in flight.
    pub cwnd: u32,
    /// The slow-start threshold. Slow start applies below it. `u32::MAX` until the first congestion.
    pub ssthresh: u32,
}

impl Window {
    /// Returns whether the window is in slow start (`tcp_in_slow_start`).
    pub const fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }
}

/// A delivery-rate sample (draft-ietf-ccwg-bbr section 4.1.2; Linux `tcp_rate.c`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateSample {
    /// Segments delivered during `interval`.
    pub delivered: u32,
    /// The delivered count of the subflow when the sampled segment was sent.
    pub prior_delivered: u64,
    /// The longer of the send interval and the acknowledgement interval. Zero if the sample is invalid.
    pub interval: Duration,
    /// Whether the application had no more data to send when the segment was sent.
    pub app_limited: bool,
    /// Segments in flight when the sampled segment was sent, not counting it.
    pub in_flight_at_send: u32,
    /// Segments marked lost between the segment's transmission and its acknowledgement.
    pub lost: u32,
    /// The part of `delivered` whose acknowledgements reported an ECN mark.
    pub delivered_ce: u32,
}

/// The information that a controller receives with each acknowledgement. Counts are in segments
/// unless the name contains `bytes`.
#[derive(Clone, Copy, Debug)]
pub struct AckSample<'a> {
    /// Arrival time of the acknowledgement.
    pub now: Instant,
    /// Arrival time on the host's tick clock (jiffies), for algorithms that use that clock.
    pub coarse_now: Instant,
    /// The resolution of the tick clock. Zero if the clock is exact.
    pub tick: Duration,
    /// Segments newly acknowledged, cumulatively or selectively.
    pub acked: u32,
    /// Payload bytes newly acknowledged cumulatively.
    pub acked_bytes: u64,
    /// Segments newly marked lost.
    pub newly_lost: u32,
    /// Segments delivered since the subflow began, including the SYN (`tp->delivered`).
    pub delivered: u64,
    /// The part of `delivered` whose acknowledgements reported an ECN mark (`tp->delivered_ce`).
    pub delivered_ce: u64,
    /// Whether the acknowledgement reports an ECN mark (ECN-Echo, RFC 3168).
    pub echo: bool,
    /// Payload of a full segment (MSS), bytes.
    pub mss: u32,
    /// The earliest time at which pacing permits the next segment. A time in the past if pacing does not delay it.
    pub next_departure: Instant,
    /// Segments in flight before the acknowledgement.
    pub prior_in_flight: u32,
    /// Segments in flight after the acknowledgement.
    pub in_flight: u32,
    /// RTT of the most recently sent segment among those newly acknowledged. `None` if it was retransmitted.
    pub rtt: Option<Duration>,
    /// Whether the receiver may have delayed the acknowledgement: it is for one segment that was not full
    /// (`is_ack_delayed`).
    pub maybe_delayed: bool,
    /// Smoothed RTT.
    pub srtt: Option<Duration>,
    /// Minimum RTT over the last 300 s.
    pub min_rtt: Option<Duration>,
    /// The delivery-rate sample.
    pub rate: RateSample,
    /// Payload bytes sent so far. This is the position of the next new byte.
    pub snd_nxt: u64,
    /// The position up to which all payload bytes are acknowledged.
    pub snd_una: u64,
    /// Whether the window was fully used (`tcp_is_cwnd_limited`). If not, loss-based controllers do not grow
    /// the window.
    pub cwnd_limited: bool,
    /// Whether the window may grow: the acknowledgement advanced and no reduction is in progress.
    pub may_grow: bool,
    /// Whether the subflow is paced.
    pub paced: bool,
    /// The pacing rate.
    pub pacing_rate: Rate,
    /// Whether the subflow belongs to a Multipath TCP connection (`mptcp`). False for plain TCP.
    pub multipath: bool,
    /// The identity of the subflow. It identifies the subflow in `siblings`.
    pub id: SubflowId,
    /// All subflows of the connection, including this one. Empty unless the controller's `wants_siblings` is
    /// true.
    pub siblings: &'a [SiblingView],
}

/// A segment that was just marked lost. Counts are in segments.
#[derive(Clone, Copy, Debug)]
pub struct LostSegment {
    /// The time at which it was marked.
    pub now: Instant,
    /// Position of the segment's first payload byte in the subflow's data.
    pub start: u64,
    /// Position after the segment's last payload byte.
    pub end: u64,
    /// Segments in flight when it was last sent, not counting it.
    pub in_flight_at_send: u32,
    /// Segments marked lost since then, including this one.
    pub lost_since_send: u32,
    /// Whether the application had no more data to send when it was sent.
    pub app_limited: bool,
    /// Segments delivered since the subflow began, including those that the current acknowledgement delivers.
    pub delivered: u64,
    /// Whether the peer supports SACK.
    pub selective_acks: bool,
}

/// The reason for a reduction of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CongestionKind {
    /// RACK detected a loss, and fast recovery begins.
    Loss,
    /// A loss probe repaired a tail loss.
    TailLoss,
    /// The retransmission timer expired.
    Timeout,
    /// The peer reported an ECN mark (ECN-Echo, RFC 3168). Nothing was lost.
    Ecn,
}

/// A congestion event.
#[derive(Clone, Copy, Debug)]
pub struct CongestionEvent {
    /// The time of the event.
    pub now: Instant,
    /// The reason.
    pub kind: CongestionKind,
    /// Segments in flight.
    pub in_flight: u32,
}

/// The start of a transmission after nothing was in flight (`CA_EVENT_TX_START`).
#[derive(Clone, Copy, Debug)]
pub struct TransmitStart {
    /// The current time.
    pub now: Instant,
    /// The current time on the host's tick clock (jiffies).
    pub coarse_now: Instant,
    /// The time of the last transmission on the tick clock (`lsndtime`).
    pub last_sent: Instant,
    /// Whether the application, not the window, had limited the subflow.
    pub app_limited: bool,
    /// The minimum RTT so far, which begins with that of the handshake.
    pub min_rtt: Option<Duration>,
}

/// The completion of a subflow's handshake (`init` of `tcp_congestion_ops`, in `tcp_init_transfer`).
#[derive(Clone, Copy, Debug)]
pub struct Opened {
    /// The time of completion on the host's tick clock.
    pub coarse_now: Instant,
    /// The RTT that the handshake measured.
    pub rtt: Option<Duration>,
    /// Payload of a full segment (MSS), bytes.
    pub mss: u32,
}

/// The reason why the sender changed the window itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowChange {
    /// Proportional rate reduction (PRR) changed the window, or ended.
    Reduction,
    /// The retransmission timer expired.
    Timeout,
    /// Nothing was sent for longer than the RTO.
    Idle,
    /// The application did not fill the window.
    ApplicationLimited,
    /// A reduction proved spurious and was undone.
    Undo,
    /// The scheduler penalised the subflow.
    Penalty,
}
