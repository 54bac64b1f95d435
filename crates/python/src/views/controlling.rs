//! The values that a congestion controller receives.

use anabranch_congestion as congestion;
use anabranch_congestion::{CongestionKind, WindowChange};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use super::{Settle, State, at_ms, mbps, ms};

words! {
    /// The reason for a reduction of the window.
    Kind { "loss", "tail-loss", "timeout", "ecn", }
}
words! {
    /// The reason why the core changed the window itself.
    Cause { "reduction", "timeout", "idle", "application-limited", "undo", "penalty", }
}

impl From<CongestionKind> for Kind {
    fn from(kind: CongestionKind) -> Self {
        Self(match kind {
            CongestionKind::Loss => "loss",
            CongestionKind::TailLoss => "tail-loss",
            CongestionKind::Timeout => "timeout",
            CongestionKind::Ecn => "ecn",
        })
    }
}

impl From<WindowChange> for Cause {
    fn from(cause: WindowChange) -> Self {
        Self(match cause {
            WindowChange::Reduction => "reduction",
            WindowChange::Timeout => "timeout",
            WindowChange::Idle => "idle",
            WindowChange::ApplicationLimited => "application-limited",
            WindowChange::Undo => "undo",
            WindowChange::Penalty => "penalty",
        })
    }
}

view! {
    /// The state of another subflow of the connection.
    SiblingView {
        /// The subflow's number.
        id: u8 = 0,
        /// Congestion window, segments.
        cwnd_segments: u32 = 10,
        /// Slow-start threshold, segments.
        ssthresh_segments: u32 = u32::MAX,
        /// Smoothed RTT, ms; None before the first sample.
        srtt_ms: Option<f64> = None,
        /// Minimum RTT over the last 300 s, ms; None before the first sample.
        min_rtt_ms: Option<f64> = None,
        /// Congestion state.
        state: State = State("Open"),
        /// The subflow can carry data: it is established, and neither closed nor closing.
        usable: bool = true,
        /// Data waits on the subflow, and nothing was acknowledged for several timer periods.
        stale: bool = false,
        /// Retransmission timeouts in a row without progress.
        consecutive_timeouts: u32 = 0,
        /// Payload acknowledged since the last loss, bytes.
        since_loss_bytes: u64 = 0,
        /// Payload acknowledged between the last two losses, bytes.
        between_losses_bytes: u64 = 0,
        /// The rate that the subflow's controller publishes, Mb/s; None if it publishes none.
        published_rate_mbps: Option<f64> = None,
    }
}

impl Settle for SiblingView {}

impl From<&congestion::SiblingView> for SiblingView {
    fn from(view: &congestion::SiblingView) -> Self {
        Self {
            id: view.id.0,
            cwnd_segments: view.window.cwnd,
            ssthresh_segments: view.window.ssthresh,
            srtt_ms: view.srtt.map(ms),
            min_rtt_ms: view.min_rtt.map(ms),
            state: State(view.state.name()),
            usable: view.usable,
            stale: view.stale,
            consecutive_timeouts: view.consecutive_timeouts,
            since_loss_bytes: view.bytes_since_loss,
            between_losses_bytes: view.bytes_between_losses,
            published_rate_mbps: view.published_rate.map(mbps),
        }
    }
}

view! {
    /// The data of one acknowledgement.
    AckSample {
        /// The time of arrival, ms.
        now_ms: f64 = 0.0,
        /// The time of arrival by the host's tick clock, ms.
        coarse_now_ms: f64 = 0.0,
        /// The tick of that clock, ms; 0 if the clock is exact.
        tick_ms: f64 = 4.0,
        /// Segments newly acknowledged, cumulatively or selectively.
        acked_segments: u32 = 1,
        /// Payload newly acknowledged cumulatively, bytes.
        acked_bytes: u64 = 1424,
        /// Segments newly marked lost.
        newly_lost_segments: u32 = 0,
        /// Segments delivered since the subflow began.
        delivered_segments: u64 = 0,
        /// Delivered segments whose acknowledgements reported a mark (ECN).
        delivered_ce_segments: u64 = 0,
        /// The acknowledgement reports a mark.
        echo: bool = false,
        /// Payload of a full segment, bytes.
        mss_bytes: u32 = 1424,
        /// The time at which pacing permits the next segment, ms.
        next_departure_ms: f64 = 0.0,
        /// Segments in flight before the acknowledgement.
        prior_in_flight_segments: u32 = 10,
        /// Segments in flight after the acknowledgement.
        in_flight_segments: u32 = 9,
        /// RTT of the most recently sent acknowledged segment, ms; None if it is ambiguous.
        rtt_ms: Option<f64> = None,
        /// The receiver may have delayed the acknowledgement: it is for a single segment that was not full.
        maybe_delayed: bool = false,
        /// Smoothed RTT, ms; None before the first sample.
        srtt_ms: Option<f64> = None,
        /// Minimum RTT over the last 300 s, ms; None before the first sample.
        min_rtt_ms: Option<f64> = None,
        /// Delivery-rate sample: segments delivered over the sample's interval.
        rate_delivered_segments: u32 = 0,
        /// The delivered count when the sampled segment was sent.
        rate_prior_delivered_segments: u64 = 0,
        /// The sample's interval, ms; 0 if the sample is invalid.
        rate_interval_ms: f64 = 0.0,
        /// The sample was taken while the application had nothing to send.
        rate_app_limited: bool = false,
        /// Segments in flight when the sampled segment was sent.
        rate_in_flight_segments: u32 = 0,
        /// Segments marked lost over the sample's interval.
        rate_lost_segments: u32 = 0,
        /// Segments delivered over the sample's interval whose acknowledgements reported a mark.
        rate_delivered_ce_segments: u32 = 0,
        /// The position of the next new byte in the subflow.
        snd_nxt: u64 = 0,
        /// The position up to which all bytes of the subflow are acknowledged.
        snd_una: u64 = 0,
        /// The window limited the sender. Otherwise loss-based controllers do not grow it.
        cwnd_limited: bool = true,
        /// The core permits growth.
        may_grow: bool = true,
        /// The subflow's pacing rate is enforced.
        paced: bool = false,
        /// Pacing rate, Mb/s.
        pacing_rate_mbps: f64 = 5.0,
        /// The subflow's number, by which a controller finds it among the siblings.
        id: u8 = 0,
        /// All subflows of the connection, if the controller requests them.
        siblings: Vec<SiblingView> = Vec::new(),
    }
}

impl Settle for AckSample {}

impl From<&congestion::AckSample<'_>> for AckSample {
    fn from(ack: &congestion::AckSample<'_>) -> Self {
        Self {
            now_ms: at_ms(ack.now),
            coarse_now_ms: at_ms(ack.coarse_now),
            tick_ms: ms(ack.tick),
            acked_segments: ack.acked,
            acked_bytes: ack.acked_bytes,
            newly_lost_segments: ack.newly_lost,
            delivered_segments: ack.delivered,
            delivered_ce_segments: ack.delivered_ce,
            echo: ack.echo,
            mss_bytes: ack.mss,
            next_departure_ms: at_ms(ack.next_departure),
            prior_in_flight_segments: ack.prior_in_flight,
            in_flight_segments: ack.in_flight,
            rtt_ms: ack.rtt.map(ms),
            maybe_delayed: ack.maybe_delayed,
            srtt_ms: ack.srtt.map(ms),
            min_rtt_ms: ack.min_rtt.map(ms),
            rate_delivered_segments: ack.rate.delivered,
            rate_prior_delivered_segments: ack.rate.prior_delivered,
            rate_interval_ms: ms(ack.rate.interval),
            rate_app_limited: ack.rate.app_limited,
            rate_in_flight_segments: ack.rate.in_flight_at_send,
            rate_lost_segments: ack.rate.lost,
            rate_delivered_ce_segments: ack.rate.delivered_ce,
            snd_nxt: ack.snd_nxt,
            snd_una: ack.snd_una,
            cwnd_limited: ack.cwnd_limited,
            may_grow: ack.may_grow,
            paced: ack.paced,
            pacing_rate_mbps: mbps(ack.pacing_rate),
            id: ack.id.0,
            siblings: ack.siblings.iter().map(SiblingView::from).collect(),
        }
    }
}

view! {
    /// A segment that was just marked as lost.
    LostSegment {
        /// The time, ms.
        now_ms: f64 = 0.0,
        /// The position of its first payload byte in the subflow.
        from_byte: u64 = 0,
        /// The position after its last payload byte.
        to_byte: u64 = 1424,
        /// Segments in flight when it was last sent, not counting itself.
        in_flight_at_send_segments: u32 = 0,
        /// Segments marked as lost since then, including itself.
        lost_since_send_segments: u32 = 1,
        /// The application had no more data when it was sent.
        app_limited: bool = false,
        /// Segments delivered since the subflow began.
        delivered_segments: u64 = 0,
        /// The peer reports which data it has received after a hole (SACK).
        selective_acks: bool = true,
    }
}

impl Settle for LostSegment {}

impl From<&congestion::LostSegment> for LostSegment {
    fn from(segment: &congestion::LostSegment) -> Self {
        Self {
            now_ms: at_ms(segment.now),
            from_byte: segment.start,
            to_byte: segment.end,
            in_flight_at_send_segments: segment.in_flight_at_send,
            lost_since_send_segments: segment.lost_since_send,
            app_limited: segment.app_limited,
            delivered_segments: segment.delivered,
            selective_acks: segment.selective_acks,
        }
    }
}

view! {
    /// A congestion event.
    CongestionEvent {
        /// The time, ms.
        now_ms: f64 = 0.0,
        /// The reason.
        kind: Kind = Kind("loss"),
        /// Segments in flight.
        in_flight_segments: u32 = 10,
    }
}

impl Settle for CongestionEvent {}

impl From<&congestion::CongestionEvent> for CongestionEvent {
    fn from(event: &congestion::CongestionEvent) -> Self {
        Self {
            now_ms: at_ms(event.now),
            kind: event.kind.into(),
            in_flight_segments: event.in_flight,
        }
    }
}

view! {
    /// The start of a transmission while nothing is in flight.
    TransmitStart {
        /// The time, ms.
        now_ms: f64 = 0.0,
        /// The time by the host's tick clock, ms.
        coarse_now_ms: f64 = 0.0,
        /// The time of the previous transmission by that clock, ms.
        last_sent_ms: f64 = 0.0,
        /// The application, not the window, had limited the subflow.
        app_limited: bool = false,
        /// Minimum RTT so far, ms.
        min_rtt_ms: Option<f64> = None,
    }
}

impl Settle for TransmitStart {}

impl From<&congestion::TransmitStart> for TransmitStart {
    fn from(start: &congestion::TransmitStart) -> Self {
        Self {
            now_ms: at_ms(start.now),
            coarse_now_ms: at_ms(start.coarse_now),
            last_sent_ms: at_ms(start.last_sent),
            app_limited: start.app_limited,
            min_rtt_ms: start.min_rtt.map(ms),
        }
    }
}
