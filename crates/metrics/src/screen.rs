//! The time without a new picture, and the film that is not shown.
//!
//! For a progressive player, a new picture fills its own duration. For the rest of the time, the screen
//! stands still. The trace of an adaptive player has no pictures, so the film time at its events is used
//! instead.

use crate::arithmetic::sum;
use crate::tables::{Own, Table};
use crate::viewer::{Event, events, first};

/// The start and the end of an interval, seconds.
pub type Stretch = (f64, f64);

/// The shortest interval without a new picture that counts as a freeze, seconds. W3C's WebRTC statistics
/// define `freezeCount` with a delay of 150 ms.
pub const FREEZE_S: f64 = 0.15;
/// A player has not reached the end of `application.duration` if it has shown no new picture for this time
/// before, seconds.
const STANDING_S: f64 = 10.0;
/// The same limit as a fraction of the wanted time. The shorter limit is used, which matters in a short
/// session.
const STANDING_SHARE: f64 = 0.5;
/// The fraction of the wanted film that a player must have shown to reach the end of `application.duration`.
const SHOWN_SHARE: f64 = 0.1;

/// The intervals in which a client's screen showed new pictures, and those in which it did not.
#[derive(Clone, Debug, PartialEq)]
pub struct Screen {
    /// The time at which the first picture began to play, seconds; `None` if nothing was shown.
    pub begin_s: Option<f64>,
    /// The end of the film, of `application.duration` or of the run, whichever is earliest, seconds.
    pub until_s: f64,
    /// The intervals without a new picture, in order.
    pub stretches: Vec<Stretch>,
    /// The film that was shown, seconds.
    pub shown_s: f64,
    /// The film's length, or `application.duration` if that is shorter, seconds.
    pub wanted_s: f64,
    /// Whether the player reached the end of `wanted_s`.
    pub is_reached: bool,
}

impl Screen {
    /// Returns the time without a new picture in seconds; `None` if nothing was shown.
    pub fn still_s(&self) -> Option<f64> {
        self.begin_s.map(|begin_s| (self.until_s - begin_s - self.shown_s).max(0.0))
    }

    /// Returns the longest interval without a new picture in seconds; `None` if nothing was shown.
    pub fn longest_s(&self) -> Option<f64> {
        let longest = self.stretches.iter().map(|(begin, end)| end - begin).fold(0.0, f64::max);
        // A picture that is shown a little late causes an interval, but the next picture may make up for it.
        self.still_s().map(|still_s| longest.min(still_s))
    }

    /// Returns the seconds of `wanted_s` that were not shown.
    pub fn unplayed_s(&self) -> f64 {
        (self.wanted_s - self.shown_s).max(0.0)
    }

    /// Returns the freezes: intervals that are long enough, joined if they nearly touch.
    pub fn freezes(&self) -> Vec<Stretch> {
        let mut found: Vec<Stretch> = Vec::new();
        for (begin, end) in &self.stretches {
            if end - begin < FREEZE_S {
                continue;
            }
            match found.last_mut() {
                Some(last) if begin - last.1 < FREEZE_S => last.1 = *end,
                _ => found.push((*begin, *end)),
            }
        }
        found
    }
}

/// Returns the screen of a client; an empty one if the client has no player.
pub fn screen(own: &Own<'_>) -> Screen {
    let events = events(own);
    let (started_s, ended_s) = (first(&events, "start"), first(&events, "end"));
    let duration_s = own.connection("duration_s");
    let until_s = ended_s.unwrap_or(duration_s);
    let frames = own.table("frames");
    let (film_s, shown) = if frames.words("fate").is_empty() {
        let ladder = Ladder::new(own.table("renditions"));
        (ladder.film_s, played(&events, until_s, ladder.picture_s))
    } else {
        pictures(frames, until_s)
    };
    // A player shows its first picture while it fills its buffer before the start.
    let begin_s = shown.first().map(|(at_s, _)| at_s.max(started_s.unwrap_or(0.0)));
    let stretches = begin_s.map_or_else(Vec::new, |begin_s| between(&shown, begin_s, until_s));
    let mut planned_s = Some(own.connection("planned_s")).filter(|planned_s| !planned_s.is_nan());
    if planned_s.is_none() && own.is_finished() && ended_s.is_none() {
        planned_s = Some(duration_s);
    }
    let standing_s =
        stretches.last().filter(|(_, end)| *end >= until_s).map_or(0.0, |(begin, end)| end - begin);
    let shown_s = sum(shown.iter().map(|(_, film)| *film));
    let wanted_s = planned_s.map_or(film_s, |planned_s| film_s.min(planned_s));
    let plays =
        started_s.is_some() && own.is_finished() && still_plays(shown_s, standing_s, wanted_s);
    let is_reached = ended_s.is_some() || plays;
    Screen { begin_s, until_s, stretches, shown_s, wanted_s, is_reached }
}

/// Returns a client's freezes. If the player shows no picture, the whole session is one freeze.
pub fn standing_times(own: &Own<'_>) -> Vec<Stretch> {
    standing_times_of(own, &screen(own))
}

/// Returns the freezes of a client with this screen.
pub(crate) fn standing_times_of(own: &Own<'_>, shown: &Screen) -> Vec<Stretch> {
    if shown.begin_s.is_none()
        && shown.wanted_s > 0.0
        && !own.table("player").numbers("t_s").is_empty()
    {
        return vec![(0.0, shown.until_s)];
    }
    shown.freezes()
}

/// Returns whether a player is still playing when its time ends. The arguments are the film that was shown,
/// the time since the end of the last new picture, and the wanted film (0 if the trace does not have it),
/// seconds.
fn still_plays(shown_s: f64, standing_s: f64, wanted_s: f64) -> bool {
    let least_s =
        if wanted_s == 0.0 { STANDING_S } else { STANDING_S.min(STANDING_SHARE * wanted_s) };
    shown_s >= SHOWN_SHARE * wanted_s && standing_s < least_s
}

/// Returns a film's length in seconds, and the time and the duration of each shown picture in seconds.
fn pictures(frames: &Table<'_>, until_s: f64) -> (f64, Vec<(f64, f64)>) {
    let times = frames.numbers("pts_s");
    let mut lasts: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // The duration of the last picture is unknown, so the mean of the others is used.
    let whole = times.last().zip(times.first()).map_or(0.0, |(last, first)| last - first);
    lasts.push(if lasts.is_empty() { 0.0 } else { whole / lasts.len() as f64 });
    let mut shown = Vec::new();
    let seen = frames.numbers("shown_s").into_iter().zip(frames.numbers("due_s"));
    for ((at_s, due_s), lasts_s) in seen.zip(&lasts) {
        // A picture that is shown while the player fills its buffer counts from the time at which it is due.
        if at_s <= until_s {
            let moves_s = at_s.max(due_s).min(until_s);
            shown.push((moves_s, lasts_s.min(until_s - moves_s)));
        }
    }
    shown.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1)));
    (sum(lasts), shown)
}

/// The properties of a ladder's video.
struct Ladder {
    /// The film's length, seconds.
    film_s: f64,
    /// The shortest duration of a picture, seconds; 0 if it is unknown.
    picture_s: f64,
}

impl Ladder {
    fn new(table: &Table<'_>) -> Self {
        let tracks = table.words("track");
        let of = |name| {
            let values = table.padded(name, tracks.len());
            let videos = tracks.iter().zip(values).filter(|(track, _)| **track == "video");
            videos.map(|(_, value)| value).fold(0.0, f64::max)
        };
        let rate = of("frame_rate");
        Self { film_s: of("duration_s"), picture_s: if rate > 0.0 { 1.0 / rate } else { 0.0 } }
    }
}

/// Returns the intervals in which an adaptive player plays: the start of each, and the film shown in it,
/// seconds. The duration of pictures that the browser dropped is subtracted.
fn played(events: &[Event<'_>], until_s: f64, picture_s: f64) -> Vec<(f64, f64)> {
    let stop = Event { t_s: until_s, event: "stop", pts_s: f64::NAN };
    let (mut found, mut began, mut dropped) = (Vec::new(), None::<&Event<'_>>, 0);
    for event in events.iter().chain([&stop]) {
        match (event.event, began) {
            ("start" | "resume", None) => (began, dropped) = (Some(event), 0),
            ("drop", _) => dropped += 1,
            ("underflow" | "end" | "stop", Some(from)) => {
                let lasted_s = event.t_s - from.t_s;
                // `min` ignores NaN, which is an unknown position.
                let film_s = (event.pts_s - from.pts_s).min(lasted_s);
                found.push((from.t_s, (film_s - f64::from(dropped) * picture_s).max(0.0)));
                began = None;
            }
            _ => {}
        }
    }
    found
}

/// Returns the intervals from the end of one picture to the start of the next one, or to the end.
fn between(shown: &[(f64, f64)], begin_s: f64, until_s: f64) -> Vec<Stretch> {
    let (mut found, mut last_s) = (Vec::new(), begin_s);
    for (at_s, film_s) in shown.iter().chain([&(until_s, 0.0)]) {
        if *at_s > last_s {
            found.push((last_s, *at_s));
        }
        last_s = last_s.max(at_s + film_s);
    }
    found
}
