//! The parameters of the progressive player. Defaults and names are those of VLC 3.0, if VLC has
//! the parameter.

use anabranch_units::Duration;
use serde::{Deserialize, Serialize};

/// Parameters of a [`ProgressivePlayer`](crate::ProgressivePlayer). Times are in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PlayerConfig {
    /// The network delay. This amount of film is read before playback starts. If the stream's clock
    /// is later than this, the player buffers again (`network-caching`).
    pub network_cache_ns: u64,
    /// The size of the ring that the prefetch thread fills. While the ring is full, the connection
    /// is not read (`prefetch-buffer-size`).
    pub prefetch_bytes: u64,
    /// The limit for the increase of the network delay above `network_cache_ns` (`clock-jitter`).
    pub jitter_cap_ns: u64,
    /// The limit of the network delay, regardless of `network_cache_ns` (`INPUT_PTS_DELAY_MAX`).
    pub delay_max_ns: u64,
    /// The largest lateness at which a picture is still shown, in picture periods
    /// (`video_output.c`, `ThreadDisplayPreparePicture`).
    pub late_threshold_pictures: f64,
    /// Time from the end of buffering to the first picture (`es_out.c`,
    /// `EsOutDecodersStopBuffering`).
    pub start_margin_ns: u64,
    /// The film time by which the demuxer of an MP4 advances in a step (`mp4.c`,
    /// `DEMUX_INCREMENT`).
    pub clock_increment_ns: u64,
    /// The largest additional lead of the demuxer over the clock during playback (`clock.c`,
    /// `CR_BUFFERING_TARGET`).
    pub extra_buffer_ns: u64,
    /// The growth of that lead per second of film read, in units of 1/256 s (`CR_BUFFERING_RATE`).
    pub extra_buffer_rate: u64,
    /// The longest time between two clock references (PCR) in an MPEG-TS. The period is the largest
    /// number of whole pictures within this time. For `FFmpeg`'s muxer the time is 100 ms.
    pub pcr_period_ns: u64,
    /// The time by which the clock references of an MPEG-TS precede the pictures (`FFmpeg`'s
    /// `-muxdelay`).
    pub pcr_lead_ns: u64,
    /// The number of pictures that the decoder holds back in addition to those for reordering.
    ///
    /// This is the number of frame threads minus one. VLC uses one thread more than the number of
    /// processors, at most six (`avcodec/video.c`). The default is the value for two processors.
    pub decoder_delay_pictures: u32,
    /// A picture that leaves the decoder with at most this lateness is in time, in picture periods
    /// (`avcodec-hurry-up`).
    pub hurry_threshold_pictures: f64,
    /// The treatment of pictures whose references were lost.
    pub broken_references: BrokenReferences,
    /// Whether an MP4 is opened as by VLC, with three requests on three connections.
    ///
    /// The first request reads the header. The second one is for the data after the media data.
    /// Unless the index is there, there is no such data, and the status is 416. The third request
    /// reads the rest. If the prefetch thread does not notice the seek, the first connection
    /// delivers everything. If this parameter is false, one request fetches the whole file.
    pub probe_end: bool,
    /// The time from the last byte of an MP4's header until the demuxer has parsed the header and
    /// seeks to the end. If absent, it is computed from the header's length.
    pub probe_after_ns: Option<u64>,
    /// The time that the demuxer stays at the end of the file before it seeks back.
    ///
    /// The prefetch thread notices a seek only between two reads (`prefetch.c`, `Thread`). If no
    /// data arrives during this time, no new connection is opened. The real outcome depends on the
    /// timing of the host, which a run does not model. With the default of 0, the seek is always
    /// noticed. The most likely value is 1.4 ms, measured with 25 films over one path at five
    /// rates. VLC opened 10 of these films over one connection.
    pub probe_for_ns: u64,
    /// Whether a connection is closed before the next one is opened, as in VLC 2 (`access/http.c`,
    /// `Seek`). VLC 3 opens the next connection first, and closes the previous one when the
    /// response on the next one arrives (`access/http/file.c`, `vlc_http_file_seek`).
    pub closes_before_seek: bool,
    /// Whether requests carry CMCD, with buffer and deadline.
    pub cmcd: bool,
}

/// The handling of a picture whose reference is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BrokenReferences {
    /// As in VLC 3. For an MPEG-TS, the packetizer drops everything up to the next I picture
    /// (`packetizer/h264.c`, `b_recovered`). For an MP4, there is no packetizer, and the decoder
    /// shows damaged pictures (`avcodec-corrupted`).
    #[default]
    Auto,
    /// The picture and all pictures that depend on it are discarded.
    Discard,
    /// The picture is shown damaged.
    Show,
}

impl Default for PlayerConfig {
    fn default() -> Self {
        Self {
            network_cache_ns: 1_000_000_000,
            prefetch_bytes: 16 * 1024 * 1024,
            jitter_cap_ns: 5_000_000_000,
            delay_max_ns: 60_000_000_000,
            late_threshold_pictures: 0.5,
            start_margin_ns: 10_000_000,
            clock_increment_ns: 250_000_000,
            extra_buffer_ns: 100_000_000,
            extra_buffer_rate: 48,
            pcr_period_ns: 100_000_000,
            pcr_lead_ns: 700_000_000,
            decoder_delay_pictures: 2,
            hurry_threshold_pictures: 1.0,
            broken_references: BrokenReferences::Auto,
            probe_end: true,
            probe_after_ns: None,
            probe_for_ns: 0,
            closes_before_seek: false,
            cmcd: false,
        }
    }
}

/// The time to parse one byte of an MP4's header, in ns. On one machine, VLC 3.0.24 took 5 ms for
/// 67 kB and 9 ms for 134 kB.
const PARSE_NS: u64 = 70;

impl PlayerConfig {
    /// Returns the time to parse a header of this length in bytes.
    pub(super) fn probe_after(&self, header: u64) -> Duration {
        Duration::from_nanos(self.probe_after_ns.unwrap_or(header.saturating_mul(PARSE_NS)))
    }

    pub(super) fn network_cache(&self) -> Duration {
        Duration::from_nanos(self.network_cache_ns)
    }

    /// Returns the limit of the network delay.
    pub(super) fn delay_cap(&self) -> Duration {
        let grown = self.network_cache_ns.saturating_add(self.jitter_cap_ns);
        Duration::from_nanos(grown.min(self.delay_max_ns))
    }
}
