//! Plays a recorded film with given arrival times of its bytes. Prints the playback events and the
//! fates of the pictures.
//!
//! ```text
//! replay FILM.csv mp4|mpegts RATE_MBPS          bytes arrive evenly
//! replay FILM.csv mp4|mpegts ARRIVAL.csv        rows `t_s,bytes`: in-order bytes received until t_s
//! ```
//!
//! A fourth argument is the player's configuration as JSON (`{"decoder_delay_pictures":2}`).
//!
//! The film is a table `stream,pos,size,pts_s,dts_s,key` with its packets in file order. It is made
//! from the output of `ffprobe -show_packets`. `N/A` marks a packet with the same position as the
//! previous packet of its stream. If the arrivals end early, the rest arrives at their mean rate.

use anabranch_media::{
    Container, PacketKind, PlaybackEventKind, PlayerConfig, ProgressivePlayer, RecordedFilm,
    RecordedPackets, Stream, Timeline,
};
use anabranch_units::Instant;
use std::error::Error;
use std::sync::Arc;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [film, container, arrival, rest @ ..] = arguments.as_slice() else {
        return Err("expected a film, its container, and a rate or an arrival".into());
    };
    let film = read_film(film, container)?;
    let arrival = match arrival.parse::<f64>() {
        Ok(mbps) => vec![(0, 0), (1_000_000_000, (mbps * 1e6 / 8.0) as u64)],
        Err(_) => read_arrival(arrival)?,
    };
    let config: PlayerConfig = match rest.first() {
        Some(json) => serde_json::from_str(json)?,
        None => PlayerConfig::default(),
    };
    // The arrivals are those of one response with the whole file.
    play(film, &arrival, PlayerConfig { probe_end: false, ..config });
    Ok(())
}

/// The largest number of bytes that arrive at once, one segment.
const READ_BYTES: u64 = 1_448;

fn play(film: Timeline, arrival: &[(u64, u64)], config: PlayerConfig) {
    let size = film.size_bytes();
    let mut player = ProgressivePlayer::new(config, Arc::new(film));
    let request = player.poll_request(Instant::ZERO).expect("a player begins with a request");
    let mut received = 0;
    let mut reads = (1u64..).map(|read| {
        let bytes = (read * READ_BYTES).min(size);
        (Instant::from_nanos(time_of(arrival, bytes)), bytes)
    });
    let mut next = reads.next();
    while !player.is_finished() {
        let read = next.filter(|_| received < size);
        let now = match (read, player.poll_timeout()) {
            (Some((at, _)), Some(timeout)) if at > timeout => timeout,
            (Some((at, bytes)), _) => {
                player.handle_bytes(at, request.id, bytes - received);
                received = bytes;
                next = reads.next();
                at
            }
            (None, Some(timeout)) => timeout,
            (None, None) => break,
        };
        player.handle_timeout(now);
        print_events(&mut player);
    }
    print_fates(&player);
}

fn print_events(player: &mut ProgressivePlayer) {
    while let Some(event) = player.poll_event() {
        let (time, pts) = (event.time.as_secs_f64(), event.pts.as_secs_f64());
        let (kind, delay) = (event.kind.name(), event.delay.as_millis());
        println!("{time:9.3} s  {kind:<9} at {pts:8.3} s of film, delay {delay} ms");
        if event.kind == PlaybackEventKind::End {
            println!();
        }
    }
}

fn print_fates(player: &ProgressivePlayer) {
    let mut counts = std::collections::BTreeMap::new();
    for frame in player.frames() {
        *counts.entry((frame.fate.name(), frame.fate.why())).or_insert(0) += 1;
    }
    for ((fate, why), count) in counts {
        println!("{count:6} {fate} {why}");
    }
}

/// Returns the time in nanoseconds at which the first `bytes` bytes have arrived.
fn time_of(arrival: &[(u64, u64)], bytes: u64) -> u64 {
    let &(end, total) = arrival.last().expect("an arrival has rows");
    let after = arrival.partition_point(|&(_, until)| until < bytes);
    if after == arrival.len() {
        return (u128::from(bytes) * u128::from(end) / u128::from(total.max(1))) as u64;
    }
    let (t1, b1) = arrival[after];
    let (t0, b0) = after.checked_sub(1).map_or((0, 0), |before| arrival[before]);
    t0 + (t1 - t0) * (bytes - b0) / (b1 - b0).max(1)
}

fn read_arrival(path: &str) -> Result<Vec<(u64, u64)>, Box<dyn Error>> {
    let mut rows = Vec::new();
    for line in std::fs::read_to_string(path)?.lines().skip(1) {
        let (time, bytes) = line.split_once(',').ok_or("a row is `t_s,bytes`")?;
        rows.push(((time.parse::<f64>()? * 1e9) as u64, bytes.parse()?));
    }
    if rows.is_empty() { Err("an arrival needs rows".into()) } else { Ok(rows) }
}

fn read_film(path: &str, container: &str) -> Result<Timeline, Box<dyn Error>> {
    let mut packets = RecordedPackets::default();
    let nanos =
        |text: &str| -> Result<i64, Box<dyn Error>> { Ok((text.parse::<f64>()? * 1e9) as i64) };
    for line in std::fs::read_to_string(path)?.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let [stream, position, size, pts, dts, key] = fields.as_slice() else {
            return Err(format!("not a packet: {line}").into());
        };
        let (stream, kind) = match (*stream, *key) {
            ("audio", _) => (Stream::Audio, PacketKind::Audio),
            (_, "1") => (Stream::Video, PacketKind::I),
            _ => (Stream::Video, PacketKind::P),
        };
        packets.stream.push(stream);
        packets.kind.push(kind);
        packets.position.push(position.parse().ok());
        packets.size.push(size.parse()?);
        packets.pts_ns.push(nanos(pts)?);
        packets.dts_ns.push(nanos(dts)?);
        packets.reference.push(true);
    }
    let placed = packets.position.iter().zip(&packets.size);
    let end = placed.filter_map(|(position, size)| Some((*position)? + size)).max();
    let first = packets.pts_ns.iter().min().copied().unwrap_or(0);
    let film = RecordedFilm {
        name: path.into(),
        container: Container::from(container.to_owned()),
        size_bytes: end.unwrap_or(0),
        duration_ns: packets.pts_ns.iter().max().map_or(0, |last| last - first),
        frame_rate: 30.0,
        width: 1280,
        height: 720,
        packets,
    };
    Ok(Timeline::try_from(&film)?)
}
