//! A common interface to the two players, and their rows in the trace.

use anabranch_media::{
    AdaptivePlayer, Buffer, Fate, FrameRecord, Ladder, MediaTime, PacketKind, PlaybackEventKind,
    ProgressivePlayer, Request, Track,
};
use anabranch_trace::{ChunkRow, FrameRow, PlaybackRow, RenditionRow, Rows};
use anabranch_units::{Duration, Instant};

use crate::session::Viewing;

/// The event name of an underflow, which is the same for both players.
const UNDERFLOW: &str = PlaybackEventKind::Underflow.name();

/// One of the two players.
pub(super) enum Playing {
    /// A player of one file.
    Progressive(Box<ProgressivePlayer>),
    /// A player of a ladder.
    Adaptive(Box<AdaptivePlayer>),
}

/// Calls the same method of the player, whichever it is.
macro_rules! either {
    ($player:expr, $method:ident ( $($argument:expr),* )) => {
        match $player {
            Playing::Progressive(player) => player.$method($($argument),*),
            Playing::Adaptive(player) => player.$method($($argument),*),
        }
    };
}

impl Playing {
    pub(super) fn poll_request(&mut self, now: Instant) -> Option<Request> {
        either!(self, poll_request(now))
    }

    pub(super) fn handle_bytes(&mut self, now: Instant, id: u64, n: u64) {
        either!(self, handle_bytes(now, id, n));
    }

    pub(super) fn handle_end(&mut self, now: Instant, id: u64) {
        either!(self, handle_end(now, id));
    }

    pub(super) fn readable(&self, now: Instant) -> u64 {
        either!(self, readable(now))
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        either!(self, handle_timeout(now));
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        either!(self, poll_timeout())
    }

    pub(super) fn is_finished(&self) -> bool {
        either!(self, is_finished())
    }

    pub(super) fn buffer(&self, now: Instant) -> Buffer {
        either!(self, buffer(now))
    }

    /// Returns the player's state. `underflows` is the number so far.
    pub(super) fn viewing(&self, now: Instant, underflows: u64) -> Viewing {
        let buffer = self.buffer(now).media;
        let (position_s, discards) = match self {
            Self::Progressive(player) => {
                let is_discarded = |frame: &&FrameRecord| matches!(frame.fate, Fate::Discarded(_));
                let count = player.frames().iter().filter(is_discarded).count();
                (player.position(now).as_secs_f64(), Some(count as u64))
            }
            Self::Adaptive(player) => (player.position(now).as_secs_f64(), None),
        };
        Viewing { buffer, position_s, discards, underflows }
    }

    /// Adds rows for the events since the last call. Returns the number of underflows among them.
    pub(super) fn tell(&mut self, client: u32, start: Instant, rows: &mut Rows) -> u64 {
        let client = i64::from(client);
        let mut underflows = 0;
        let mut push = |at: Instant, event, pts: MediaTime, delay_ms| {
            underflows += u64::from(event == UNDERFLOW);
            let t_s = at.since(start).as_secs_f64();
            let pts_s = pts.as_secs_f64();
            rows.playback.push(PlaybackRow { client, t_s, event, pts_s, delay_ms });
        };
        match self {
            Self::Progressive(player) => {
                while let Some(event) = player.poll_event() {
                    let delay_ms = event.delay.as_secs_f64() * 1e3;
                    push(event.time, event.kind.name(), event.pts, delay_ms);
                }
            }
            Self::Adaptive(player) => {
                while let Some(event) = player.poll_event() {
                    push(event.time, event.kind.name(), event.pts, f64::NAN);
                }
            }
        }
        underflows
    }

    /// Adds rows for pictures or chunks at the end of the run.
    pub(super) fn report(&self, client: u32, start: Instant, rows: &mut Rows) {
        match self {
            Self::Progressive(player) => report_frames(player, client, start, rows),
            Self::Adaptive(player) => report_chunks(player, client, start, rows),
        }
    }
}

fn report_frames(player: &ProgressivePlayer, client: u32, start: Instant, rows: &mut Rows) {
    let since = |at: Option<Instant>| at.map_or(f64::NAN, |at| at.since(start).as_secs_f64());
    for frame in player.frames() {
        rows.frames.push(FrameRow {
            client: i64::from(client),
            index: i64::from(frame.index),
            pts_s: frame.pts.as_secs_f64(),
            kind: kind_name(frame.kind),
            size: i64::from(frame.size),
            fate: frame.fate.name(),
            why: frame.fate.why(),
            due_s: since(frame.due),
            shown_s: since(frame.shown),
        });
    }
}

fn report_chunks(player: &AdaptivePlayer, client: u32, start: Instant, rows: &mut Rows) {
    let since = |at: Option<Instant>| at.map_or(f64::NAN, |at| at.since(start).as_secs_f64());
    for chunk in player.chunks() {
        rows.chunks.push(ChunkRow {
            client: i64::from(client),
            track: chunk.track.name(),
            index: chunk.index as i64,
            rendition: chunk.rendition as i64,
            duration_s: chunk.duration.as_secs_f64(),
            bytes: chunk.bytes as i64,
            t_s: since(Some(chunk.asked)),
            first_byte_s: since(chunk.first_byte),
            done_s: since(chunk.done),
            throughput_mbps: chunk.throughput_bps().map_or(f64::NAN, |bps| bps / 1e6),
            buffer_before_s: chunk.buffer_before.as_secs_f64(),
            buffer_after_s: chunk.buffer_after.map_or(f64::NAN, Duration::as_secs_f64),
            abandoned: chunk.abandoned,
        });
    }
}

/// Adds the renditions of a ladder to table `renditions`.
pub fn report_ladder(ladder: &Ladder, rows: &mut Rows) {
    let video = ladder.renditions.iter().enumerate().map(|(at, of)| (Track::Video, at, of));
    for (track, number, rendition) in
        video.chain(ladder.sounds().enumerate().map(|(at, of)| (Track::Audio, at, of)))
    {
        rows.renditions.push(RenditionRow {
            track: track.name(),
            rendition: number as i64,
            name: &rendition.name,
            bandwidth_bps: rendition.bandwidth_bps as i64,
            average_bps: rendition.average_bps.map_or(f64::NAN, |bps| bps as f64),
            width: i64::from(rendition.width),
            height: i64::from(rendition.height),
            frame_rate: rendition.frame_rate.unwrap_or(f64::NAN),
            codecs: &rendition.codecs,
            duration_s: rendition.duration().as_secs_f64(),
        });
    }
}

/// Returns the trace's name for a picture's coding type.
const fn kind_name(kind: PacketKind) -> &'static str {
    match kind {
        PacketKind::I => "I",
        PacketKind::P => "P",
        PacketKind::B => "B",
        PacketKind::Audio => "A",
    }
}
