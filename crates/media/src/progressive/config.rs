//! The progressive player's parameters: VLC 3.0's defaults, by its own names where it has them.

use anabranch_units::Duration;
use serde::{Deserialize, Serialize};

/// Parameters of a [`ProgressivePlayer`](crate::ProgressivePlayer). Times are nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PlayerConfig {
    /// How much film is read before it plays, and how late the stream's clock may be before the
    /// player stops to read again (`network-caching`).
    pub network_cache_ns: u64,
    /// The ring that reads ahead of the demuxer and, when full, stops reading the connection
    /// (`prefetch-buffer-size`).
    pub prefetch_bytes: u64,
    /// How far the network delay may grow above `network_cache_ns` (`clock-jitter`).
    pub jitter_cap_ns: u64,
    /// The longest network delay whatever the cache (`INPUT_PTS_DELAY_MAX`).
    pub delay_max_ns: u64,
    /// How late a picture may be and still be shown, in picture periods (`video_output.c`,
    /// `ThreadDisplayPreparePicture`).
    pub late_threshold_pictures: f64,
    /// From the decision to play to the first picture (`es_out.c`, `EsOutDecodersStopBuffering`).
    pub start_margin_ns: u64,
    /// How much the demuxer of an MP4 reads, and advances the clock, at a time (`mp4.c`,
    /// `DEMUX_INCREMENT`).
    pub clock_increment_ns: u64,
    /// How far the demuxer may run ahead of the clock once it plays (`clock.c`,
    /// `CR_BUFFERING_TARGET`).
    pub extra_buffer_ns: u64,
    /// How fast it gains that lead: the share of each second read, in 256ths (`CR_BUFFERING_RATE`).
    pub extra_buffer_rate: u64,
    /// The longest time between two clock references (PCR) in an MPEG-TS. `FFmpeg`'s muxer writes
    /// one every whole number of pictures within 100 ms.
    pub pcr_period_ns: u64,
    /// How far the clock references of an MPEG-TS run ahead of its pictures (`FFmpeg`'s
    /// `-muxdelay`).
    pub pcr_lead_ns: u64,
    /// How many pictures the decoder holds back beyond what reordering needs: its frame threads
    /// but one. VLC takes one thread more than there are processors, at most six
    /// (`avcodec/video.c`); the default is that of two processors.
    pub decoder_delay_pictures: u32,
    /// How late a picture may leave the decoder and not count towards its haste
    /// (`avcodec-hurry-up`), in picture periods.
    pub hurry_threshold_pictures: f64,
    /// What becomes of pictures whose references were lost.
    pub broken_references: BrokenReferences,
    /// Whether an MP4 is opened as VLC opens it: the header, then, on a connection of its own, what
    /// follows the media data (nothing, hence a 416, unless the index is there), then, on a third,
    /// the rest; and over one connection if the seek to the end and back is not heard. Otherwise one request fetches the whole file.
    pub probe_end: bool,
    /// From the last byte of an MP4's header until the demuxer has worked through it and seeks to the end; by the
    /// header's length where it is absent.
    pub probe_after_ns: Option<u64>,
    /// How long the demuxer stands at the end before it seeks back. The thread that reads ahead hears of a seek only
    /// between two reads (`prefetch.c`, `Thread`): where nothing comes in meanwhile no connection is opened. 1.4 ms is
    /// the most likely value of 25 films over one path at five rates, of which VLC opened 10 over one connection. With
    /// 0, the default, the seek is heard always: whether something comes in so short a time hangs on the host's own
    /// timing, of which a run draws nothing.
    pub probe_for_ns: u64,
    /// Whether each of these connections is closed before the next is opened, as VLC 2 does it
    /// (`access/http.c`, `Seek`). VLC 3 opens the next, and closes the one before when it is
    /// answered (`access/http/file.c`, `vlc_http_file_seek`).
    pub closes_before_seek: bool,
    /// Whether requests carry CMCD: the buffer and the deadline.
    pub cmcd: bool,
}

/// What the decoder makes of a picture that is predicted from one it never had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BrokenReferences {
    /// As VLC 3 does it: the packetizer of an MPEG-TS drops everything up to the next I picture
    /// (`packetizer/h264.c`, `b_recovered`); an MP4 has no packetizer, and the decoder shows what
    /// it can (`avcodec-corrupted`).
    #[default]
    Auto,
    /// It is not shown, nor is anything predicted from it.
    Discard,
    /// It is shown, damaged.
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

/// The demuxer's time for a byte of an MP4's header, ns: VLC 3.0.24 took 5 ms for 67 kB and 9 ms for 134 kB, on one
/// machine.
const PARSE_NS: u64 = 70;

impl PlayerConfig {
    /// How long the demuxer works on a header of so many bytes.
    pub(super) fn probe_after(&self, header: u64) -> Duration {
        Duration::from_nanos(self.probe_after_ns.unwrap_or(header.saturating_mul(PARSE_NS)))
    }

    pub(super) fn network_cache(&self) -> Duration {
        Duration::from_nanos(self.network_cache_ns)
    }

    /// The longest that the network delay may grow.
    pub(super) fn delay_cap(&self) -> Duration {
        let grown = self.network_cache_ns.saturating_add(self.jitter_cap_ns);
        Duration::from_nanos(grown.min(self.delay_max_ns))
    }
}
