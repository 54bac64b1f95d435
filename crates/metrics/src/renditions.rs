//! The renditions of a ladder on a viewer's screen.

use crate::tables::{Own, Tables};
use crate::value::{Object, Value, object};
use crate::viewer::events;

/// Two stretches of the same rendition that are nearer than this are one, seconds.
const NEAR_S: f64 = 1e-6;

/// A stretch of time in which a screen showed one rendition.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// Its begin, seconds.
    pub from_s: f64,
    /// Its end, seconds.
    pub to_s: f64,
    /// The rendition's average bit rate, or its highest one if the average is unknown, Mbit/s.
    pub mbps: f64,
    /// The rendition's name.
    pub name: String,
    /// The height of its pictures in pixels; NaN if it is unknown.
    pub height: f64,
}

impl Shown {
    /// Returns it as an object.
    pub fn into_object(self) -> Object {
        object([
            ("from_s", Value::Number(self.from_s)),
            ("to_s", Value::Number(self.to_s)),
            ("mbps", Value::number(self.mbps)),
            ("name", Value::Text(self.name)),
            ("height", Value::whole(self.height)),
        ])
    }
}

/// A stretch of playing.
struct Playing {
    /// Its begin, seconds.
    at_s: f64,
    /// The positions in the film at its begin and at its end, seconds.
    film: (f64, f64),
}

/// Returns the renditions on a client's screen in order; empty without a ladder. Times of standstill are left out.
pub fn renditions(own: &Own<'_>) -> Vec<Shown> {
    let ladder = ladder(own);
    if ladder.is_empty() {
        return Vec::new();
    }
    let playing = playing(own);
    let mut found: Vec<Shown> = Vec::new();
    let mut begun_s = 0.0;
    for (number, duration_s) in chunks(own) {
        let ended_s = begun_s + duration_s;
        let Some((_, rendition)) =
            ladder.iter().rev().find(|(known, _)| known.total_cmp(&number).is_eq())
        else {
            begun_s = ended_s;
            continue;
        };
        for stretch in &playing {
            let first_s = f64::max(begun_s, stretch.film.0);
            let last_s = f64::min(ended_s, stretch.film.1);
            if last_s <= first_s {
                continue;
            }
            let at = |film_s: f64| stretch.at_s + film_s - stretch.film.0;
            let (from_s, to_s) = (at(first_s), at(last_s));
            match found.last_mut() {
                Some(last) if last.name == rendition.name && from_s - last.to_s < NEAR_S => {
                    last.to_s = to_s;
                }
                _ => found.push(Shown { from_s, to_s, ..rendition.clone() }),
            }
        }
        begun_s = ended_s;
    }
    found
}

/// Returns the renditions of each client's screen, in ascending order of the clients.
pub fn renditions_of_each(tables: &Tables<'_>) -> Vec<Vec<Shown>> {
    tables.of_each().iter().map(renditions).collect()
}

/// Returns the renditions of the video by number.
fn ladder(own: &Own<'_>) -> Vec<(f64, Shown)> {
    let table = own.table("renditions");
    let tracks = table.words("track");
    let column = |name| table.padded(name, tracks.len());
    let (numbers, heights) = (column("rendition"), column("height"));
    let (average, highest) = (column("average_bps"), column("bandwidth_bps"));
    let names = table.words("name");
    let mut found = Vec::new();
    for (row, track) in tracks.iter().enumerate() {
        if *track != "video" {
            continue;
        }
        let bps = if average[row] > 0.0 { average[row] } else { highest[row] };
        found.push((
            numbers[row],
            Shown {
                from_s: 0.0,
                to_s: 0.0,
                mbps: bps / 1e6,
                name: names.get(row).copied().unwrap_or_default().to_owned(),
                height: heights[row],
            },
        ));
    }
    found
}

/// Returns the rendition and the duration of each chunk of video that arrived completely, in order.
fn chunks(own: &Own<'_>) -> Vec<(f64, f64)> {
    let table = own.table("chunks");
    let tracks = table.words("track");
    let column = |name| table.padded(name, tracks.len());
    let (numbers, lasts, done) = (column("rendition"), column("duration_s"), column("done_s"));
    let mut found = Vec::new();
    for (row, track) in tracks.iter().enumerate() {
        if *track == "video" && !done[row].is_nan() {
            found.push((numbers[row], lasts[row]));
        }
    }
    found
}

/// Returns the stretches in which the film went on. The last one may reach the end of the session.
fn playing(own: &Own<'_>) -> Vec<Playing> {
    let events = events(own);
    let last_s = events.last().map_or(0.0, |event| event.t_s);
    let until_s = f64::max(own.connection("duration_s"), last_s);
    let mut found = Vec::new();
    let mut since = None;
    let mut close = |since: &mut Option<(f64, f64)>, to_s: f64| {
        if let Some((at_s, film_from_s)) = since.take() {
            found.push(Playing { at_s, film: (film_from_s, film_from_s + to_s - at_s) });
        }
    };
    for event in &events {
        match event.event {
            "start" | "resume" => since = Some((event.t_s, event.pts_s)),
            "underflow" | "end" => close(&mut since, event.t_s),
            _ => {}
        }
    }
    close(&mut since, until_s);
    found
}
