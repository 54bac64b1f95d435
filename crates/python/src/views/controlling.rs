//! What a congestion controller sees.

use anabranch_congestion as congestion;
use anabranch_congestion::{CongestionKind, WindowChange};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use super::{Settle, State, at_ms, mbps, ms};

words! {
    /// Why a window is to be cut.
    Kind { "loss", "tail-loss", "timeout", }
}
words! {
    /// Why the core changed a window itself.
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
    /// What a controller may know of another subflow of its connection.
    SiblingView {
        /// Which subflow.
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
        /// It can carry data: established, and neither closed nor closing.
        usable: bool = true,
        /// Data waits on it and nothing was acknowledged for several timer periods.
        stale: bool = false,
        /// Retransmission timeouts in a row, without progress between them.
        consecutive_timeouts: u32 = 0,
        /// Payload acknowledged since its last loss, bytes.
        since_loss_bytes: u64 = 0,
        /// Payload acknowledged between its last two losses, bytes.
        between_losses_bytes: u64 = 0,
        /// What its controller makes known, Mb/s; None when it makes nothing known.
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
    /// One acknowledgement, as a controller sees it.
    AckSample {
        /// When it arrived, ms.
        now_ms: f64 = 0.0,
        /// The same as the host's tick clock shows it, ms.
        coarse_now_ms: f64 = 0.0,
        /// A tick of that clock, ms; 0 where it is exact.
        tick_ms: f64 = 4.0,
        /// Segments newly acknowledged, cumulatively or selectively.
        acked_segments: u32 = 1,
        /// Payload newly acknowledged cumulatively, bytes.
        acked_bytes: u64 = 1424,
        /// Segments newly marked lost.
        newly_lost_segments: u32 = 0,
        /// Segments delivered since the subflow began.
        delivered_segments: u64 = 0,
        /// Those of them whose acknowledgements told of a mark (ECN).
        delivered_ce_segments: u64 = 0,
        /// Whether it tells of a mark.
        echo: bool = false,
        /// Payload of a full segment, bytes.
        mss_bytes: u32 = 1424,
        /// When pacing lets the next segment out, ms.
        next_departure_ms: f64 = 0.0,
        /// Segments in flight before the acknowledgement.
        prior_in_flight_segments: u32 = 10,
        /// Segments in flight after it.
        in_flight_segments: u32 = 9,
        /// RTT of the most recently sent segment acknowledged, ms; None when it is ambiguous.
        rtt_ms: Option<f64> = None,
        /// The receiver may have held it back: it is of a lone segment that was not full.
        maybe_delayed: bool = false,
        /// Smoothed RTT, ms; None before the first sample.
        srtt_ms: Option<f64> = None,
        /// Minimum RTT over the last 300 s, ms; None before the first sample.
        min_rtt_ms: Option<f64> = None,
        /// Delivery-rate sample: segments delivered over its interval.
        rate_delivered_segments: u32 = 0,
        /// The delivered count when the sampled segment was sent.
        rate_prior_delivered_segments: u64 = 0,
        /// The sample's interval, ms; 0 when the sample is invalid.
        rate_interval_ms: f64 = 0.0,
        /// The sample was taken while the application had nothing to send.
        rate_app_limited: bool = false,
        /// Segments in flight when the sampled segment was sent.
        rate_in_flight_segments: u32 = 0,
        /// Segments marked lost over the sample's interval.
        rate_lost_segments: u32 = 0,
        /// Segments delivered over the sample's interval whose acknowledgements told of a mark.
        rate_delivered_ce_segments: u32 = 0,
        /// Where the subflow's next new byte will stand.
        snd_nxt: u64 = 0,
        /// Up to where everything is acknowledged on the subflow.
        snd_una: u64 = 0,
        /// The window was in use: without it no loss-based controller grows.
        cwnd_limited: bool = true,
        /// The core allows growth.
        may_grow: bool = true,
        /// The subflow's pacing rate is enforced.
        paced: bool = false,
        /// Pacing rate, Mb/s.
        pacing_rate_mbps: f64 = 5.0,
        /// The subflow, to find itself among the siblings.
        id: u8 = 0,
        /// All subflows of the connection, if the controller wants them.
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
    /// A segment that was just marked lost.
    LostSegment {
        /// When, ms.
        now_ms: f64 = 0.0,
        /// Its first payload byte, as a position in the subflow.
        from_byte: u64 = 0,
        /// Behind its last.
        to_byte: u64 = 1424,
        /// Segments in flight when it was sent last, itself not counted.
        in_flight_at_send_segments: u32 = 0,
        /// Segments marked lost since then, itself included.
        lost_since_send_segments: u32 = 1,
        /// It was sent while the application had nothing more to send.
        app_limited: bool = false,
        /// Segments delivered since the subflow began.
        delivered_segments: u64 = 0,
        /// The peer reports what it has received beyond a hole (SACK).
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
        /// When, ms.
        now_ms: f64 = 0.0,
        /// Why.
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
    /// Data is about to be sent and nothing is in flight.
    TransmitStart {
        /// When, ms.
        now_ms: f64 = 0.0,
        /// The same as the host's tick clock shows it, ms.
        coarse_now_ms: f64 = 0.0,
        /// The last transmission before, as that clock showed it, ms.
        last_sent_ms: f64 = 0.0,
        /// The application, not the window, had held the subflow back.
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
