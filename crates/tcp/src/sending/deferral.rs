//! The number of segments that are sent together, and the deferral of a socket buffer until the windows
//! permit more (`tcp_tso_autosize`, `tcp_tso_should_defer`).

use anabranch_congestion::CongestionState;
use anabranch_units::{Duration, Instant};

use super::Sending;
use super::queue::BURST_BYTES;
use crate::config::Moment;
use crate::stack::Deferral;

/// The extra size of a socket buffer on short paths is halved for each 2^9 µs of RTT (`tcp_tso_rtt_log`).
const NEAR_SHIFT: u32 = 9;
/// The RTT from which a buffer has no extra size.
const NEAR: Duration = Duration::from_micros(16 << NEAR_SHIFT);
/// The fraction of a window that is always sent at once: one third (`tcp_tso_win_divisor`).
const TSO_WINDOW_DIVISOR: u64 = 3;
/// The longest wait for an acknowledgement that permits a whole socket buffer.
const LATELY: Duration = Duration::from_millis(1);

/// The event for which a deferred socket buffer waits (`tcp_tso_should_defer`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Deferred {
    /// More space in the congestion window, which then counts as used (`is_cwnd_limited`).
    ForCongestionWindow,
    /// A larger window of the peer, or more data.
    ForOther,
}

/// Returns the number of segments in one socket buffer: a millisecond's worth, more on a short path, and at
/// least as many as the controller requires (`tcp_tso_segs`, `tcp_tso_autosize`).
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
    // The size of a segment excludes options of the layer above (`tcp_current_mss`); the rate does not.
    (bytes as u32 / sending.queue.mss()).max(sending.cwnd.controller().least_burst())
}

/// Returns the event for which the next socket buffer waits, or `None` if it is not deferred
/// (`tcp_tso_should_defer`).
#[inline]
pub(super) fn defers(sending: &Sending, moment: Moment<'_>) -> Option<Deferred> {
    let Moment { now, .. } = moment;
    if sending.cwnd.state() >= CongestionState::Recovery || !has_just_sent(sending, moment) {
        return None;
    }
    // Computed without options of the layer above (`mss_cache`).
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

/// Returns whether the acknowledgement of the oldest segment in flight is expected soon enough to wait for
/// it.
pub(crate) fn is_head_due(sending: &Sending, now: Instant) -> bool {
    let Some(head) = sending.flight.front() else { return false };
    let srtt = sending.rtt().srtt().unwrap_or_default();
    match sending.rules.deferral {
        Deferral::HalfRoundTrip => now.since(head.sent_at) >= srtt / 2,
        Deferral::NextMillisecond => now + (srtt / 2).min(LATELY) >= head.sent_at + srtt,
    }
}

/// Returns whether the last segment was sent so recently that another one may be deferred. Linux includes
/// exactly one millisecond, but only clocks with a resolution of a millisecond show the difference.
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

/// Returns whether the next socket buffer waits for space in the congestion window. Pacing and the peer's
/// window are checked first (`tcp_write_xmit`).
pub(super) fn next_waits_for_cwnd(sending: &Sending, moment: Moment<'_>) -> bool {
    let Moment { now, .. } = moment;
    !sending.cwnd.pacer().holds_back(now)
        && !sending.queue.shut_out()
        && defers(sending, moment) == Some(Deferred::ForCongestionWindow)
}
