//! How many segments leave together, and how long a socket buffer waits for more room (`tcp_tso_autosize`,
//! `tcp_tso_should_defer`).

use anabranch_congestion::CongestionState;
use anabranch_units::{Duration, Instant};

use super::Sending;
use super::queue::BURST_BYTES;
use crate::config::Moment;
use crate::stack::Deferral;

/// Round trips, in microseconds, that halve what one socket buffer takes beyond a millisecond's worth: two to this
/// power (`tcp_tso_rtt_log`).
const NEAR_SHIFT: u32 = 9;
/// The round trip from which a buffer takes no more than a millisecond's worth.
const NEAR: Duration = Duration::from_micros(16 << NEAR_SHIFT);
/// The share of a window that is worth sending at once (`tcp_tso_win_divisor`).
const TSO_WINDOW_DIVISOR: u64 = 3;
/// The longest wait for an acknowledgement that lets a whole socket buffer out.
const LATELY: Duration = Duration::from_millis(1);

/// The event that a held-back socket buffer waits for (`tcp_tso_should_defer`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Deferred {
    /// More room in the congestion window, which counts as filled then (`is_cwnd_limited`).
    ForCongestionWindow,
    /// More of the peer's window, or more data.
    ForOther,
}

/// Segments that one socket buffer takes on its way out: a millisecond's worth, more over a short way, and as
/// many as the controller wants at least (`tcp_tso_segs`, `tcp_tso_autosize`).
#[inline]
pub(crate) fn burst_segments(sending: &Sending) -> u32 {
    let millisecond = sending.cwnd.pacing_rate().bytes_per_second() >> 10;
    let near = match sending.rtt().min_rtt() {
        Some(rtt) if rtt < NEAR && sending.rules.bursts_by_rtt => {
            BURST_BYTES >> ((rtt.as_nanos() / 1000) >> NEAR_SHIFT)
        }
        _ => 0,
    };
    let bytes = (millisecond + near).min(65_536);
    // By what a segment carries beside MPTCP's options (`tcp_current_mss`), unlike the rate.
    (bytes as u32 / sending.queue.mss()).max(sending.cwnd.controller().least_burst())
}

/// `tcp_tso_should_defer`: what the next socket buffer waits for, if it waits for more room in the windows.
// A run of 20 MB calls it 13,438 times.
#[inline(always)]
pub(super) fn defers(sending: &Sending, moment: Moment<'_>) -> Option<Deferred> {
    let Moment { now, .. } = moment;
    if sending.cwnd.state() >= CongestionState::Recovery || !has_just_sent(sending, moment) {
        return None;
    }
    // Counted without MPTCP's options (`mss_cache`).
    let mss = u64::from(sending.mss);
    let buffer = sending.queue.next_buffer();
    let free = u64::from(sending.cwnd.room(sending.flight.in_flight())) * mss;
    let edge = sending.queue.una() + sending.queue.window().size();
    let offered = edge.saturating_sub(sending.queue.next());
    let limit = free.min(offered);
    let several = buffer > mss && free > 0;
    let whole = limit >= buffer && sending.queue.queued_bytes() > buffer;
    if !several || whole || limit >= u64::from(burst_segments(sending)) * mss {
        return None;
    }
    let window = u64::from(sending.cwnd.window().cwnd) * mss;
    if limit >= window.min(sending.queue.window().size()) / TSO_WINDOW_DIVISOR {
        return None;
    }
    let for_cwnd = free < offered && free <= buffer;
    let why = if for_cwnd { Deferred::ForCongestionWindow } else { Deferred::ForOther };
    is_head_due(sending, now).then_some(why)
}

/// The acknowledgement of the oldest segment in flight is not expected to come too late to wait for.
pub(crate) fn is_head_due(sending: &Sending, now: Instant) -> bool {
    let Some(head) = sending.flight.front() else { return false };
    let srtt = sending.rtt().srtt().unwrap_or_default();
    match sending.rules.deferral {
        Deferral::HalfRoundTrip => now.since(head.sent_at) >= srtt / 2,
        Deferral::NextMillisecond => now + (srtt / 2).min(LATELY) >= head.sent_at + srtt,
    }
}

/// So little time has passed since the last segment left that more may come. A whole millisecond is past
/// already, which Linux counts in: only clocks that tick in milliseconds can tell.
pub(super) fn has_just_sent(sending: &Sending, moment: Moment<'_>) -> bool {
    let Moment { host, now } = moment;
    let last = sending.queue.last_sent();
    match sending.rules.deferral {
        Deferral::HalfRoundTrip => host.coarse(now) <= host.coarse(last),
        Deferral::NextMillisecond if sending.cwnd.pacer().enforced() => {
            now < sending.cwnd.pacer().next_departure() + LATELY
        }
        Deferral::NextMillisecond => now < last + LATELY,
    }
}

/// Returns whether the next socket buffer waits for more congestion window. Pacing and the peer's window take precedence
/// (`tcp_write_xmit`).
pub(super) fn next_waits_for_cwnd(sending: &Sending, moment: Moment<'_>) -> bool {
    let Moment { now, .. } = moment;
    !sending.cwnd.pacer().holds_back(now)
        && !sending.queue.shut_out()
        && defers(sending, moment) == Some(Deferred::ForCongestionWindow)
}
