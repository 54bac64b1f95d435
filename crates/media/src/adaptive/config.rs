//! The parameters of the adaptive player, with the values of VLC 3 and hls.js.

use anabranch_units::Duration;
use serde::{Deserialize, Serialize};

/// Parameters of an [`AdaptivePlayer`](crate::AdaptivePlayer). Times are in nanoseconds. An absent
/// parameter has the value of the model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdaptiveConfig {
    /// The modelled player.
    pub model: PlayerModel,
    /// The amount of film to receive before playback starts.
    pub start_buffer_ns: Option<u64>,
    /// The amount of film to receive before playback resumes after an underflow.
    pub resume_buffer_ns: Option<u64>,
    /// The maximum buffer. No chunk is requested while this amount of film is received and not yet
    /// shown.
    pub max_buffer_ns: Option<u64>,
    /// The maximum buffer in bytes. Of the two limits, the one that allows more film applies. The
    /// limit in bytes allows at most ten minutes.
    pub max_buffer_bytes: Option<u64>,
    /// The part of an incomplete chunk that can already be shown.
    pub append: Option<Append>,
    /// The number of concurrent requests.
    pub requests: Option<Requests>,
    /// Whether requests carry CMCD, with buffer and deadline.
    pub cmcd: bool,
}

/// The modelled players.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlayerModel {
    /// The `adaptive` module of VLC 3. Playback starts with 6 s of film, and 30 s are buffered. A
    /// chunk can be shown while it arrives (`adaptive-maxbuffer`; `PlaylistManager.cpp`). After an
    /// underflow, a network cache of 1 s is filled again (`es_out.c`).
    #[default]
    Vlc,
    /// hls.js 1.7. Playback starts with the first complete chunk, and resumes with the next one.
    /// The buffer is 30 s or 60 MB, whichever is more, but at most ten minutes (`maxBufferLength`,
    /// `maxBufferSize`, `maxMaxBufferLength`). Video and audio are fetched at the same time
    /// (`StreamController`, `AudioStreamController`).
    Hlsjs,
}

/// The time at which a chunk can be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Append {
    /// While it arrives. The fraction that can be shown is the fraction of bytes received.
    Stream,
    /// When it is complete.
    Whole,
}

/// The number of concurrent requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Requests {
    /// One request, for the track with less received film.
    OneAtATime,
    /// One request per track, on separate connections.
    ///
    /// The audio follows the video as in hls.js. An audio chunk is requested when the video has
    /// reached the previous audio chunk (`BufferController.blockAudio`). It must begin before the
    /// end of the requested video (`AudioStreamController.doTickIdle`).
    OneATrack,
}

/// The longest buffer that `max_buffer_bytes` allows (hls.js's `maxMaxBufferLength`).
const LONGEST: Duration = Duration::from_secs(600);

/// The parameters with all defaults filled in.
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

    /// Returns the maximum buffer at a rate.
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
    fn a_buffer_in_bytes_is_shorter_at_a_higher_rate() {
        let vlc = Settings::new(&AdaptiveConfig::default());
        assert_eq!(vlc.max_buffer(1), Duration::from_secs(30));
        let model = PlayerModel::Hlsjs;
        let hlsjs = Settings::new(&AdaptiveConfig { model, ..AdaptiveConfig::default() });
        assert_eq!(hlsjs.max_buffer(4_000_000), Duration::from_secs(120));
        assert_eq!(hlsjs.max_buffer(40_000_000), Duration::from_secs(30));
        assert_eq!(hlsjs.max_buffer(100_000), LONGEST);
    }
}
