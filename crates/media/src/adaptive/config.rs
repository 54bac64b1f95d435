//! The adaptive player's parameters: those of VLC 3 and of hls.js, by name.

use anabranch_units::Duration;
use serde::{Deserialize, Serialize};

/// Parameters of an [`AdaptivePlayer`](crate::AdaptivePlayer). Times are nanoseconds; what is left
/// out is the model's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdaptiveConfig {
    /// Which player.
    pub model: PlayerModel,
    /// How much film is received before it plays.
    pub start_buffer_ns: Option<u64>,
    /// How much film is received before it plays again after an underflow.
    pub resume_buffer_ns: Option<u64>,
    /// With more film received and not shown no chunk is asked for.
    pub max_buffer_ns: Option<u64>,
    /// The same in bytes: the larger of both counts, but never more than ten minutes.
    pub max_buffer_bytes: Option<u64>,
    /// What can be shown of a chunk that is still on its way.
    pub append: Option<Append>,
    /// How many requests are under way at a time.
    pub requests: Option<Requests>,
    /// Whether requests carry CMCD: the buffer and the deadline.
    pub cmcd: bool,
}

/// Players whose buffers are modelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlayerModel {
    /// VLC 3's module `adaptive`: plays from 6 s on, keeps 30 s, shows a chunk while it comes in
    /// (`adaptive-maxbuffer`; `PlaylistManager.cpp`). After an underflow it reads a network cache
    /// of 1 s again (`es_out.c`).
    #[default]
    Vlc,
    /// hls.js 1.7: plays when the first chunk is in, goes on with the next that is, and keeps 30 s
    /// or 60 MB, whichever is more, up to ten minutes (`maxBufferLength`, `maxBufferSize`,
    /// `maxMaxBufferLength`). Pictures and sound are fetched side by side (`StreamController`,
    /// `AudioStreamController`).
    Hlsjs,
}

/// When a chunk can be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Append {
    /// As far as it has arrived: the share of its time is the share of its bytes.
    Stream,
    /// When all of it is in.
    Whole,
}

/// How many requests are under way at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Requests {
    /// One: of pictures and sound that which is behind is asked for next.
    OneAtATime,
    /// One of each track, on connections of their own. Sound keeps to the pictures as hls.js has it: a
    /// chunk is asked for when there are pictures for the one before (`BufferController.blockAudio`), and
    /// none that begins behind those on their way (`AudioStreamController.doTickIdle`).
    OneATrack,
}

/// The longest buffer that `max_buffer_bytes` may lead to (hls.js's `maxMaxBufferLength`).
const LONGEST: Duration = Duration::from_secs(600);

/// The parameters with nothing left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) start_buffer: Duration,
    pub(super) resume_buffer: Duration,
    pub(super) append: Append,
    pub(super) requests: Requests,
    pub(super) cmcd: bool,
    max_buffer: Duration,
    max_buffer_bytes: u64,
}

impl Settings {
    pub(super) fn new(config: &AdaptiveConfig) -> Self {
        let (start, resume, bytes) = match config.model {
            PlayerModel::Vlc => (6_000_000_000, 1_000_000_000, 0),
            PlayerModel::Hlsjs => (0, 0, 60_000_000),
        };
        let (append, requests) = match config.model {
            PlayerModel::Vlc => (Append::Stream, Requests::OneAtATime),
            PlayerModel::Hlsjs => (Append::Whole, Requests::OneATrack),
        };
        let time = |given: Option<u64>, default| Duration::from_nanos(given.unwrap_or(default));
        Self {
            start_buffer: time(config.start_buffer_ns, start),
            resume_buffer: time(config.resume_buffer_ns, resume),
            append: config.append.unwrap_or(append),
            requests: config.requests.unwrap_or(requests),
            cmcd: config.cmcd,
            max_buffer: time(config.max_buffer_ns, 30_000_000_000),
            max_buffer_bytes: config.max_buffer_bytes.unwrap_or(bytes),
        }
    }

    /// How much film of a rate is kept at most.
    pub(super) fn max_buffer(&self, rate_bps: u64) -> Duration {
        let seconds = self.max_buffer_bytes as f64 * 8.0 / rate_bps.max(1) as f64;
        let by_bytes = Duration::from_secs_f64(seconds.min(LONGEST.as_secs_f64()));
        self.max_buffer.max(by_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_of_bytes_holds_less_time_of_a_higher_rate() {
        let vlc = Settings::new(&AdaptiveConfig::default());
        assert_eq!(vlc.max_buffer(1), Duration::from_secs(30));
        let model = PlayerModel::Hlsjs;
        let hlsjs = Settings::new(&AdaptiveConfig { model, ..AdaptiveConfig::default() });
        assert_eq!(hlsjs.max_buffer(4_000_000), Duration::from_secs(120));
        assert_eq!(hlsjs.max_buffer(40_000_000), Duration::from_secs(30));
        assert_eq!(hlsjs.max_buffer(100_000), LONGEST);
    }
}
