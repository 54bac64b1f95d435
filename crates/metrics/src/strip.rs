//! The states of a viewer's screen over a session.

use crate::screen::{screen, standing_times_of};
use crate::tables::{Own, Tables};
use crate::value::{Object, Value, object};

/// The state of a screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The player fills its buffer before the start.
    Waits,
    /// New pictures appear.
    Plays,
    /// No new picture appears for at least [`FREEZE_S`](crate::FREEZE_S).
    Freezes,
}

impl State {
    /// Returns the name in the tables and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Waits => "wait",
            Self::Plays => "play",
            Self::Freezes => "freeze",
        }
    }
}

/// An interval in which a screen is in one state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// The start, seconds.
    pub from_s: f64,
    /// The end, seconds.
    pub to_s: f64,
    /// The state.
    pub state: State,
}

impl Span {
    /// Converts the interval to an object.
    pub fn into_object(self) -> Object {
        object([
            ("from_s", Value::Number(self.from_s)),
            ("to_s", Value::Number(self.to_s)),
            ("state", Value::Text(self.state.name().to_owned())),
        ])
    }
}

/// Returns the states of a client's screen until the film or the session ends; empty without a player. The
/// freezes are those of [`standing_times`](crate::standing_times).
pub fn strip(own: &Own<'_>) -> Vec<Span> {
    let has_player = !own.table("frames").words("fate").is_empty()
        || !own.table("renditions").words("track").is_empty();
    if !has_player {
        return Vec::new();
    }
    let shown = screen(own);
    let mut spans = Vec::new();
    let mut at_s = 0.0;
    let mut extend = |to_s: f64, state| {
        if to_s > at_s {
            spans.push(Span { from_s: at_s, to_s, state });
            at_s = to_s;
        }
    };
    let freezes = standing_times_of(own, &shown);
    // A session without a picture is one freeze, or consists of waiting.
    let begin_s = shown.begin_s.or(freezes.first().map(|freeze| freeze.0));
    extend(begin_s.unwrap_or(shown.until_s).min(shown.until_s), State::Waits);
    for (from_s, to_s) in freezes {
        extend(from_s, State::Plays);
        extend(to_s, State::Freezes);
    }
    extend(shown.until_s, State::Plays);
    spans
}

/// Returns the states of each client's screen, in ascending order of clients.
pub fn strips(tables: &Tables<'_>) -> Vec<Vec<Span>> {
    tables.of_each().iter().map(strip).collect()
}
