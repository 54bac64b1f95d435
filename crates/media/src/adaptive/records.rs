//! The records of an adaptive player: requested chunks and playback events.

use super::track::Track;
use crate::ladder::Chunk;
use crate::timeline::MediaTime;
use anabranch_units::{Duration, Instant};

/// A playback event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdaptiveEvent {
    /// Time of the event.
    pub time: Instant,
    /// Type of the event.
    pub kind: AdaptiveEventKind,
    /// The film time on the screen.
    pub pts: MediaTime,
}

/// The type of a playback event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdaptiveEventKind {
    /// Playback started.
    Start,
    /// Playback stopped because no data was left.
    Underflow,
    /// Playback resumed after an underflow.
    Resume,
    /// Another rendition is shown.
    Switch,
    /// The whole film has been shown.
    End,
}

impl AdaptiveEventKind {
    /// Returns the event's name in the trace.
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

/// A requested chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkRecord {
    /// The track of the chunk.
    pub track: Track,
    /// The index of the chunk in the track.
    pub index: usize,
    /// The rendition, counted from the lowest.
    pub rendition: usize,
    /// The playing time of the chunk.
    pub duration: Duration,
    /// The size in bytes. If the download was abandoned, the number of received bytes.
    pub bytes: u64,
    /// Time of the request.
    pub asked: Instant,
    /// The arrival time of the first byte.
    pub first_byte: Option<Instant>,
    /// The arrival time of the last byte.
    pub done: Option<Instant>,
    /// Whether the download was abandoned for a lower rendition.
    pub abandoned: bool,
    /// The buffer at the time of the request.
    pub buffer_before: Duration,
    /// The buffer when the chunk was complete.
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

    /// Returns whether the chunk is complete and belongs to this track.
    pub(super) fn is_complete_in(&self, track: Track) -> bool {
        self.done.is_some() && self.track == track
    }

    /// Returns the throughput from the request to the last byte in bits per second. `None` until
    /// the chunk is complete.
    pub fn throughput_bps(&self) -> Option<f64> {
        let seconds = self.done?.since(self.asked).as_secs_f64();
        (seconds > 0.0).then(|| self.bytes as f64 * 8.0 / seconds)
    }
}
