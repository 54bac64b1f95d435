//! The progressive player's parameters: VLC 3.0's defaults, with VLC's names where it has one.

use anabranch_units::Duration;
use serde::{Deserialize, Serialize};

/// Parameters of a [`ProgressivePlayer`](crate::ProgressivePlayer). Times are in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PlayerConfig {
    /// The network delay: film to read before playback starts, and the largest lateness of the
    /// stream's clock before the player buffers again (`network-caching`).
    pub network_cache_ns: u64,
    /// The size of the ring that reads ahead of the demuxer. A full ring stops reading the
    /// connection (`prefetch-buffer-size`).
    pub prefetch_bytes: u64,
    /// The largest increase of the network delay above `network_cache_ns` (`clock-jitter`).
    pub jitter_cap_ns: u64,
    /// The upper limit of the network delay, independent of the cache (`INPUT_PTS_DELAY_MAX`).
    pub delay_max_ns: u64,
    /// The largest lateness of a picture that is still shown, in picture periods (`video_output.c`,
    /// `ThreadDisplayPreparePicture`).
    pub late_threshold_pictures: f64,
    /// Time from the end of buffering to the first picture (`es_out.c`,
    /// `EsOutDecodersStopBuffering`).
    pub start_margin_ns: u64,
    /// The step by which the demuxer of an MP4 reads and advances the clock (`mp4.c`,
    /// `DEMUX_INCREMENT`).
    pub clock_increment_ns: u64,
    /// The largest lead of the demuxer over the clock during playback (`clock.c`,
    /// `CR_BUFFERING_TARGET`).
    pub extra_buffer_ns: u64,
    /// The rate at which it gains that lead, in 256ths of each second read (`CR_BUFFERING_RATE`).
    pub extra_buffer_rate: u64,
    /// The longest time between two clock references (PCR) in an MPEG-TS. `FFmpeg`'s muxer writes
    /// one every whole number of pictures within 100 ms.
    pub pcr_period_ns: u64,
    /// The lead of an MPEG-TS's clock references over its pictures (`FFmpeg`'s `-muxdelay`).
    pub pcr_lead_ns: u64,
    /// The number of pictures that the decoder holds back in addition to reordering.
    ///
    /// It is the number of its frame threads minus one. VLC uses one thread more than there are
    /// processors, at most six (`avcodec/video.c`). The default is the value for two processors.
    pub decoder_delay_pictures: u32,
    /// The largest lateness of a picture at the decoder's output that does not count as late
    /// (`avcodec-hurry-up`), in picture periods.
    pub hurry_threshold_pictures: f64,
    /// The treatment of pictures whose references were lost.
    pub broken_references: BrokenReferences,
    /// Whether an MP4 is opened as VLC opens it, with three requests on three connections.
    ///
    /// The first request reads the header. The second is for the data after the media data; there
    /// is none, so the status is 416, unless the index is there. The third reads the rest. If the
    /// prefetch thread misses the seek, the first connection delivers everything. If false, one
    /// request fetches the whole file.
    pub probe_end: bool,
    /// Time from the last byte of an MP4's header until the demuxer has parsed it and seeks to the
    /// end. If absent, it depends on the header's length.
    pub probe_after_ns: Option<u64>,
    /// Time that the demuxer stays at the end before it seeks back.
    ///
    /// The prefetch thread notices a seek only between two reads (`prefetch.c`, `Thread`). If no
    /// data arrives during this time, no connection is opened. The most likely value is 1.4 ms,
    /// measured with 25 films over one path at five rates; VLC opened 10 of them over one
    /// connection. With the default of 0 the seek is always noticed. The real outcome depends on
    /// the host's timing, which a run does not model.
    pub probe_for_ns: u64,
    /// Whether each of these connections is closed before the next one is opened, as in VLC 2
    /// (`access/http.c`, `Seek`). VLC 3 opens the next one first. It closes the previous one when
    /// the next is answered (`access/http/file.c`, `vlc_http_file_seek`).
    pub closes_before_seek: bool,
    /// Whether requests carry CMCD (buffer and deadline).
    pub cmcd: bool,
}

/// The decoder's treatment of a picture that is predicted from a missing one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BrokenReferences {
    /// As in VLC 3. The packetizer of an MPEG-TS drops everything up to the next I picture
    /// (`packetizer/h264.c`, `b_recovered`). An MP4 has no packetizer, and the decoder shows
    /// damaged pictures (`avcodec-corrupted`).
    #[default]
    Auto,
    /// The picture and all pictures predicted from it are discarded.
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

/// The demuxer's parsing time per byte of an MP4's header in ns. VLC 3.0.24 took 5 ms for 67 kB and
/// 9 ms for 134 kB, on one machine.
const PARSE_NS: u64 = 70;

impl PlayerConfig {
    /// Returns the parsing time of a header of this many bytes.
    pub(super) fn probe_after(&self, header: u64) -> Duration {
        Duration::from_nanos(self.probe_after_ns.unwrap_or(header.saturating_mul(PARSE_NS)))
    }

    pub(super) fn network_cache(&self) -> Duration {
        Duration::from_nanos(self.network_cache_ns)
    }

    /// Returns the largest network delay that can be reached.
    pub(super) fn delay_cap(&self) -> Duration {
        let grown = self.network_cache_ns.saturating_add(self.jitter_cap_ns);
        Duration::from_nanos(grown.min(self.delay_max_ns))
    }
}
