//! The values that a scheduler of the page receives, encoded as numbers. Names, units and meanings are those
//! of the views in Python (docs/reference/plugins.md).

use anabranch_scheduler::{
    Ask, Decision, SendRequest as Request, SubflowEvent, SubflowSet, SubflowView,
};
use anabranch_units::{CongestionState, Duration, Instant, Rate};
use serde_json::{Value, json};

/// The kinds of a request. The index is the number.
const ASKS: [&str; 5] = ["new-data", "reinject", "window-blocked", "buffer-full", "idle"];
/// The congestion states. The index is the number.
const STATES: [CongestionState; 5] = [
    CongestionState::Open,
    CongestionState::Disorder,
    CongestionState::Cwr,
    CongestionState::Recovery,
    CongestionState::Loss,
];
/// The kinds of an event. The index is the number.
const EVENTS: [&str; 10] = [
    "opened",
    "timeout",
    "delivered",
    "lost",
    "congestion",
    "stale",
    "active",
    "backup",
    "regular",
    "closed",
];

/// The attributes of a request, in order.
const REQUEST: [&str; 15] = [
    "now_ms",
    "ask:ask",
    "data_una",
    "data_next",
    "data_end",
    "window_end",
    "fragment_bytes",
    "unscheduled_bytes",
    "window_left_bytes",
    "buffer_left_bytes?",
    "deadline_ms?",
    "media_buffered_ms?",
    "hinted_ms?",
    "piece_from?",
    "piece_to?",
];

/// The attributes of a view, in order.
const VIEW: [&str; 25] = [
    "id",
    "srtt_ms",
    "rttvar_ms",
    "min_rtt_ms",
    "cwnd_segments",
    "ssthresh_segments",
    "in_flight_segments",
    "queued_bytes",
    "queued_memory_bytes",
    "send_buffer_bytes",
    "mss_bytes",
    "pacing_rate_mbps",
    "delivery_rate_mbps",
    "state:state",
    "repaired!",
    "backup!",
    "stale!",
    "potentially_failed!",
    "established!",
    "last_ack_ms",
    "oldest_sent_ms?",
    "next_timeout_ms?",
    "window_space_segments",
    "can_send!",
    "can_queue!",
];

/// The attributes of an event, in order.
const EVENT: [&str; 5] =
    ["kind:event", "segments", "acked_bytes", "consecutive_timeouts", "state?:state"];

/// The number of values before the request: views, subflows in `carried_by`, and the base's proposal (kind,
/// burst, first byte, time, subflows).
pub(crate) const HEAD: usize = 7;
/// The number of values in a decision before its subflows.
pub(crate) const ANSWER: usize = 5;
/// The largest number of subflows in a decision.
pub(crate) const MOST_SUBFLOWS: usize = 128;

/// Returns the names of all values in order. A name ends with `?` if NaN stands for a missing value, with `!`
/// for a flag, and with `:list` if the value is an index of that list.
pub fn layout() -> Value {
    json!({
        "head": HEAD,
        "answer": ANSWER,
        "most": MOST_SUBFLOWS,
        "request": REQUEST,
        "view": VIEW,
        "event": EVENT,
        "lists": {
            "ask": ASKS,
            "state": STATES.map(CongestionState::name),
            "event": EVENTS,
        },
    })
}

/// Replaces `numbers` by the values of a request. There is always room for the longest decision.
pub(crate) fn write(
    numbers: &mut Vec<f64>,
    request: &Request,
    views: &[SubflowView],
    proposal: Option<Decision>,
) {
    numbers.clear();
    let piece = match request.ask {
        Ask::Reinject(piece)
        | Ask::WindowBlocked { head: piece }
        | Ask::BufferFull { head: piece, .. } => Some(piece),
        Ask::NewData | Ask::Idle => None,
    };
    let carried = piece.map_or(SubflowSet::EMPTY, |piece| piece.by);
    let proposed = proposal.map_or([f64::NAN; 4], described);
    let on = proposal.map_or(SubflowSet::EMPTY, subflows);
    numbers.extend([views.len() as f64, carried.iter().count() as f64]);
    numbers.extend(proposed);
    numbers.push(on.iter().count() as f64);
    numbers.extend(request_numbers(request));
    numbers.extend(
        [piece.map(|piece| piece.from), piece.map(|piece| piece.to)]
            .map(|byte| byte.map_or(f64::NAN, |byte| byte as f64)),
    );
    numbers.extend(carried.iter().chain(on.iter()).map(|id| f64::from(id.0)));
    for view in views {
        numbers.extend(view_numbers(view));
    }
    let least = ANSWER + MOST_SUBFLOWS;
    if numbers.len() < least {
        numbers.resize(least, 0.0);
    }
}

/// Encodes a decision without its subflows: kind, burst, first byte and time.
fn described(decision: Decision) -> [f64; 4] {
    match decision {
        Decision::Wait { until } => [0.0, f64::NAN, f64::NAN, optional(until.map(at_ms))],
        Decision::Send { from, burst, .. } => {
            [1.0, burst as f64, optional(from.map(|from| from as f64)), f64::NAN]
        }
        Decision::Penalise(_) => [2.0, f64::NAN, f64::NAN, f64::NAN],
    }
}

fn subflows(decision: Decision) -> SubflowSet {
    match decision {
        Decision::Wait { .. } => SubflowSet::EMPTY,
        Decision::Send { on, .. } | Decision::Penalise(on) => on,
    }
}

fn request_numbers(request: &Request) -> [f64; 13] {
    let ask = match request.ask {
        Ask::NewData => 0,
        Ask::Reinject(_) => 1,
        Ask::WindowBlocked { .. } => 2,
        Ask::BufferFull { .. } => 3,
        Ask::Idle => 4,
    };
    let left = match request.ask {
        Ask::BufferFull { left, .. } => left as f64,
        _ => f64::NAN,
    };
    [
        at_ms(request.now),
        f64::from(ask),
        request.data_una as f64,
        request.data_next as f64,
        request.data_end as f64,
        request.window_end as f64,
        request.fragment as f64,
        request.unscheduled() as f64,
        request.window_left() as f64,
        left,
        optional(request.hint.deadline().map(at_ms)),
        optional(request.hint.buffered().map(ms)),
        optional(request.hint.received().map(at_ms)),
    ]
}

fn view_numbers(view: &SubflowView) -> [f64; VIEW.len()] {
    let flag = |set: bool| f64::from(u8::from(set));
    [
        f64::from(view.id.0),
        ms(view.srtt),
        ms(view.rttvar),
        ms(view.min_rtt),
        f64::from(view.cwnd),
        f64::from(view.ssthresh),
        f64::from(view.in_flight),
        view.queued_bytes as f64,
        view.queued_memory as f64,
        view.send_buffer as f64,
        f64::from(view.mss),
        mbps(view.pacing_rate),
        mbps(view.delivery_rate),
        state(view.state),
        flag(view.repaired),
        flag(view.backup),
        flag(view.stale),
        flag(view.potentially_failed),
        flag(view.established),
        at_ms(view.last_ack),
        optional(view.oldest_sent.map(at_ms)),
        optional(view.timeout_at.map(at_ms)),
        f64::from(view.window_space()),
        flag(view.can_send()),
        flag(view.can_queue()),
    ]
}

/// Encodes an event.
pub(crate) fn event_numbers(event: SubflowEvent) -> [f64; EVENT.len()] {
    use SubflowEvent as Event;
    let (kind, segments, bytes, timeouts, new) = match event {
        Event::Opened => (0, 0, 0, 0, f64::NAN),
        Event::Timeout { consecutive } => (1, 0, 0, consecutive, f64::NAN),
        Event::Delivered { segments, bytes } => (2, segments, bytes, 0, f64::NAN),
        Event::Lost { segments } => (3, segments, 0, 0, f64::NAN),
        Event::Congestion(new) => (4, 0, 0, 0, state(new)),
        Event::Stale(true) => (5, 0, 0, 0, f64::NAN),
        Event::Stale(false) => (6, 0, 0, 0, f64::NAN),
        Event::Backup(true) => (7, 0, 0, 0, f64::NAN),
        Event::Backup(false) => (8, 0, 0, 0, f64::NAN),
        Event::Closed => (9, 0, 0, 0, f64::NAN),
    };
    [f64::from(kind), segments as f64, bytes as f64, f64::from(timeouts), new]
}

fn state(state: CongestionState) -> f64 {
    STATES.iter().position(|known| *known == state).map_or(f64::NAN, |at| at as f64)
}

fn optional(value: Option<f64>) -> f64 {
    value.unwrap_or(f64::NAN)
}

fn ms(duration: Duration) -> f64 {
    duration.as_nanos() as f64 / 1e6
}

pub(crate) fn at_ms(at: Instant) -> f64 {
    at.as_nanos() as f64 / 1e6
}

fn mbps(rate: Rate) -> f64 {
    if rate == Rate::UNLIMITED { f64::INFINITY } else { rate.bps() as f64 / 1e6 }
}
