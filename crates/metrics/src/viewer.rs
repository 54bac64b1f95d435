//! Metrics of one viewer.

use crate::adaptive::adaptive;
use crate::arithmetic::{plain, sum};
use crate::screen::{Stretch, screen};
use crate::tables::Own;
use crate::value::{Object, Value, object};

/// An event of a player.
#[derive(Clone, Debug, PartialEq)]
pub struct Event<'a> {
    /// The time, seconds.
    pub t_s: f64,
    /// The kind of event.
    pub event: &'a str,
    /// The position in the film, seconds; NaN if it is unknown.
    pub pts_s: f64,
}

/// Returns a client's playback events in order of time.
pub fn events<'a>(own: &'a Own<'_>) -> Vec<Event<'a>> {
    let table = own.table("playback");
    let (times, kinds) = (table.numbers("t_s"), table.words("event"));
    let places = table.padded("pts_s", times.len());
    let mut found: Vec<_> = times
        .into_iter()
        .zip(kinds)
        .zip(places)
        .map(|((t_s, event), pts_s)| Event { t_s, event, pts_s })
        .collect();
    found.sort_by(|one, other| one.t_s.total_cmp(&other.t_s));
    found
}

/// Returns the time of the first event of a kind.
pub(crate) fn first(events: &[Event<'_>], kind: &str) -> Option<f64> {
    events.iter().find(|event| event.event == kind).map(|event| event.t_s)
}

/// Returns the viewer's metrics; `None` if the client has no player.
pub(crate) fn viewer(own: &Own<'_>) -> Option<Object> {
    let fates = own.table("frames").words("fate");
    let streamed = adaptive(own);
    if fates.is_empty() && streamed.is_none() {
        return None;
    }
    let events = events(own);
    let stalls = stall_times(&events, own.connection("duration_s"));
    let rebuffer = sum(stalls.iter().map(|(begin, end)| end - begin));
    let shown = screen(own);
    let longest = stalls.iter().map(|(begin, end)| end - begin).fold(0.0, f64::max);
    let recovery = if stalls.is_empty() { 0.0 } else { plain(rebuffer / stalls.len() as f64) };
    let count =
        |fate: &str| Value::Whole(fates.iter().filter(|known| **known == fate).count() as i64);
    let number = |value: Option<f64>| Value::from(value.map(plain));
    // The sum of an empty list is the count 0, so that it is printed as 0 and not as 0.0.
    let none_or = |any: bool, sum: f64| if any { number(Some(sum)) } else { Value::Whole(0) };
    let mut found = Object::new();
    if streamed.is_none() {
        found.extend(object([("picture_discards", count("discarded"))]));
    }
    found.extend(object([
        ("buffer_underflows", Value::Whole(stalls.len() as i64)),
        ("recovery_time_s", Value::Number(recovery)),
        ("startup_delay_s", number(first(&events, "start"))),
        ("rebuffer_s", none_or(!stalls.is_empty(), rebuffer)),
        ("rebuffer_longest_s", number(Some(longest))),
        ("still_s", number(shown.still_s())),
        ("still_longest_s", number(shown.longest_s())),
        ("unplayed_s", number(Some(shown.unplayed_s()))),
        ("play_time_s", none_or(shown.begin_s.is_some(), shown.shown_s)),
    ]));
    // The trace of an adaptive player does not contain the fate of each picture.
    found.extend(streamed.unwrap_or_else(|| {
        let frames = object([
            ("total", Value::Whole(fates.len() as i64)),
            ("displayed", count("displayed")),
            ("discarded", count("discarded")),
            ("flushed", count("flushed")),
        ]);
        object([("frames", Value::Object(frames))])
    }));
    let finished = own.is_finished() && first(&events, "end").is_some();
    found.extend(object([
        ("reached_end", Value::Flag(shown.is_reached)),
        ("finished", Value::Flag(finished)),
    ]));
    Some(found)
}

/// Returns the start and the end of each underflow, seconds. An underflow that never ends lasts until
/// `until_s`, the end of the session.
pub fn stall_times(events: &[Event<'_>], until_s: f64) -> Vec<Stretch> {
    let (mut stalls, mut began) = (Vec::new(), None);
    for Event { t_s, event, .. } in events {
        // An underflow may follow another one before playing resumes. It then counts as a new underflow.
        if matches!(*event, "underflow" | "resume" | "end") {
            stalls.extend(began.take().map(|began| (began, *t_s)));
        }
        if *event == "underflow" {
            began = Some(*t_s);
        }
    }
    stalls.extend(began.map(|began| (began, f64::max(until_s, began))));
    stalls
}
