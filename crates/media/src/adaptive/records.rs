//! What an adaptive player leaves behind: its chunks and what the viewer saw.

use super::track::Track;
use crate::ladder::Chunk;
use crate::timeline::MediaTime;
use anabranch_units::{Duration, Instant};

/// News of the playback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdaptiveEvent {
    /// When it happened.
    pub time: Instant,
    /// What happened.
    pub kind: AdaptiveEventKind,
    /// The film time on the screen.
    pub pts: MediaTime,
}

/// What happened to the playback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdaptiveEventKind {
    /// It began.
    Start,
    /// It stopped for want of data.
    Underflow,
    /// It goes on after an underflow.
    Resume,
    /// Another rendition is on the screen.
    Switch,
    /// All of the film has been shown.
    End,
}

impl AdaptiveEventKind {
    /// The event's name in the trace.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Underflow => "underflow",
            Self::Resume => "resume",
            Self::Switch => "switch",
            Self::End => "end",
        }
    }
}

/// A chunk that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkRecord {
    /// Its track.
    pub track: Track,
    /// Its number in the track, from 0.
    pub index: usize,
    /// Its rendition, from the lowest.
    pub rendition: usize,
    /// How long it plays.
    pub duration: Duration,
    /// Its bytes; those received when it was given up.
    pub bytes: u64,
    /// When it was asked for.
    pub asked: Instant,
    /// When its first byte came.
    pub first_byte: Option<Instant>,
    /// When its last byte came.
    pub done: Option<Instant>,
    /// Whether it was given up for a lower rendition.
    pub abandoned: bool,
    /// Film received and not shown when it was asked for.
    pub buffer_before: Duration,
    /// The same when it was in.
    pub buffer_after: Option<Duration>,
}

impl ChunkRecord {
    pub(super) fn asked(
        track: Track,
        index: usize,
        rendition: usize,
        chunk: &Chunk,
        (asked, buffer_before): (Instant, Duration),
    ) -> Self {
        Self {
            track,
            index,
            rendition,
            duration: chunk.duration(),
            bytes: chunk.bytes,
            asked,
            first_byte: None,
            done: None,
            abandoned: false,
            buffer_before,
            buffer_after: None,
        }
    }

    pub(super) fn close(&mut self, now: Instant, first_byte: Option<Instant>, buffer: Duration) {
        self.first_byte = first_byte;
        self.done = Some(now);
        self.buffer_after = Some(buffer);
    }

    pub(super) fn give_up(&mut self, first_byte: Option<Instant>, received: u64) {
        self.first_byte = first_byte;
        self.abandoned = true;
        self.bytes = received;
    }

    /// All of it is in, and it is of this track.
    pub(super) fn is_in(&self, track: Track) -> bool {
        self.done.is_some() && self.track == track
    }

    /// Its throughput from the request to the last byte, in bits per second, once it is in.
    pub fn throughput_bps(&self) -> Option<f64> {
        let seconds = self.done?.since(self.asked).as_secs_f64();
        (seconds > 0.0).then(|| self.bytes as f64 * 8.0 / seconds)
    }
}
