//! Metrics of the viewer of an adaptive player, as UQ18 defines them.

use std::collections::BTreeMap;

use crate::arithmetic::{fmean, plain, pstdev, sum};
use crate::tables::Own;
use crate::value::{Object, Value, object};
use crate::viewer::events;

/// A chunk of video that was received completely.
struct Chunk {
    rendition: f64,
    duration_s: f64,
    bytes: f64,
    height: f64,
}

/// Returns the metrics that exist only for an adaptive player; `None` for another player.
pub(crate) fn adaptive(own: &Own<'_>) -> Option<Object> {
    let ladder = ladder(own);
    if ladder.is_empty() {
        return None;
    }
    let seen = chunks(own, &ladder);
    let events = events(own);
    let asked = first_request_s(own);
    // If there are several events of a kind, the last one is used.
    let last = |kind| events.iter().rev().find(|event| event.event == kind).map(|event| event.t_s);
    let since = |at: Option<f64>| at.zip(asked).map(|(at, asked)| at - asked);
    let (startup, total) = (since(last("start")), since(last("end")));
    let film_s = sum(seen.iter().map(|chunk| chunk.duration_s));
    let highest = ladder.iter().map(|(_, height)| *height).fold(0.0, f64::max);
    let top = ladder.iter().map(|(rendition, _)| *rendition).fold(f64::MIN, f64::max);
    let is_top = |chunk: &&Chunk| chunk.rendition.total_cmp(&top).is_eq();
    let at_top = sum(seen.iter().filter(is_top).map(|chunk| chunk.duration_s));
    let heights: Vec<_> = seen.iter().map(|chunk| chunk.height).collect();
    let changed = |pair: &&[Chunk]| pair[0].rendition.total_cmp(&pair[1].rendition).is_ne();
    let bytes = sum(seen.iter().map(|chunk| chunk.bytes));
    let rates = rates(own);
    let active: Vec<_> = rates.iter().copied().filter(|rate| *rate > 0.0).collect();
    let number = |value: Option<f64>| Value::from(value.map(plain));
    let share = |part: f64| Value::Number(if film_s > 0.0 { plain(part / film_s) } else { 0.0 });
    let stalled = total.zip(startup).map(|(total, startup)| total - startup - film_s);
    Some(object([
        ("startup_s", number(startup)),
        ("total_s", number(total)),
        ("rebuffer_total_s", number(stalled)),
        ("resolution_mean", number(fmean(&heights).filter(|_| highest > 0.0))),
        ("resolution_changes", Value::Whole(seen.windows(2).filter(changed).count() as i64)),
        ("top_share", share(at_top)),
        ("bitrate_mean_mbps", share(8e-6 * bytes)),
        ("throughput_mean_mbps", number(fmean(&rates))),
        ("throughput_std_mbps", number(pstdev(&rates))),
        ("throughput_active_mbps", number(fmean(&active))),
        ("downloaded_bytes", Value::whole(sum(own.table("subflows").numbers("bytes")))),
        ("chunks_abandoned", Value::whole(sum(own.table("chunks").numbers("abandoned")))),
    ]))
}

/// Returns the video renditions: number, and height in pixels.
fn ladder(own: &Own<'_>) -> Vec<(f64, f64)> {
    let table = own.table("renditions");
    let tracks = table.words("track");
    let heights = table.padded("height", tracks.len());
    let rows = tracks.into_iter().zip(table.numbers("rendition").into_iter().zip(heights));
    rows.filter(|(track, _)| *track == "video").map(|(_, row)| row).collect()
}

fn chunks(own: &Own<'_>, ladder: &[(f64, f64)]) -> Vec<Chunk> {
    let table = own.table("chunks");
    let tracks = table.words("track");
    let column = |name| table.padded(name, tracks.len());
    let (rungs, lasts) = (column("rendition"), column("duration_s"));
    let (sizes, done) = (column("bytes"), column("done_s"));
    let mut found = Vec::new();
    for (row, track) in tracks.iter().enumerate() {
        if *track != "video" || done[row].is_nan() {
            continue;
        }
        let known = ladder.iter().rev().find(|(known, _)| known.total_cmp(&rungs[row]).is_eq());
        let height = known.map_or(f64::NAN, |(_, height)| *height);
        let (rendition, duration_s, bytes) = (rungs[row], lasts[row], sizes[row]);
        found.push(Chunk { rendition, duration_s, bytes, height });
    }
    found
}

/// Returns the time of the first HTTP request, which is not before the connection exists. Returns `None` if
/// none was sent.
fn first_request_s(own: &Own<'_>) -> Option<f64> {
    let asked = own.table("requests").numbers("t_s").into_iter().reduce(f64::min)?;
    Some(asked.max(Some(own.connection("connect_s")).filter(|at| !at.is_nan()).unwrap_or(0.0)))
}

/// Returns the bytes read in each whole second from the first request to the last byte, in Mbit/s.
fn rates(own: &Own<'_>) -> Vec<f64> {
    let requests = own.table("requests");
    let times = requests.numbers("t_s").into_iter().zip(requests.numbers("done_s"));
    let done: Vec<_> = times.filter(|(_, done_s)| !done_s.is_nan()).collect();
    let Some(begun) = done.iter().map(|(t_s, _)| *t_s).reduce(f64::min) else { return Vec::new() };
    let until = done.iter().map(|(_, done_s)| *done_s).fold(begun, f64::max);
    // There are ten samples per second. The first one of each second is used.
    let mut marks = BTreeMap::<i64, f64>::new();
    let player = own.table("player");
    for (t_s, bytes_read) in player.numbers("t_s").into_iter().zip(player.numbers("bytes_read")) {
        marks.entry((t_s + 1e-6) as i64).or_insert(bytes_read);
    }
    let rate = |at: i64| Some(8e-6 * (marks.get(&(at + 1))? - marks.get(&at)?));
    (begun as i64..until as i64).filter_map(rate).collect()
}
