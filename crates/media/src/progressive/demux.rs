//! The demuxer, which reads the packets of the film in steps and sets the clock after each step.
//!
//! - MP4 (`mp4.c`, `DemuxMoov`): a step covers 250 ms of film. It reads packets in file order until
//!   every track has reached the end of the step. Consecutive packets of a track are read together.
//!   Then the clock advances to the end of the step.
//! - MPEG-TS (`ts.c`, `PCRHandle`): the file contains the clock, in the first transport packet of a
//!   picture. The clock is ahead of the picture by the muxer's delay. A picture is complete when
//!   the next one begins.
//! - Other formats: the clock is the decoding time of each picture.
//!
//! Packets are read in file order. If the tracks of an MP4 are not interleaved, VLC seeks between
//! them. This demuxer does not seek, so it must read up to the second track before playback starts.

use super::config::PlayerConfig;
use crate::timeline::{Container, MediaTime, Packet, Stream, Timeline};
use anabranch_units::Duration;

/// The size of an MPEG-TS transport packet in bytes.
const TRANSPORT_PACKET: u64 = 188;
/// The longest film time of consecutive packets of a track that are read together
/// (`DEMUX_TRACK_MAX_PRELOAD`): 15 s.
const RUN_MAX_NS: i64 = 15_000_000_000;

/// The data that the demuxer reads before its next clock report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// The packets before this index are passed to their decoders.
    pub(super) packets_end: usize,
    /// The bytes before this file position are read.
    pub(super) bytes_end: u64,
    /// The value of the stream's clock after the step.
    pub(super) clock: MediaTime,
}

#[derive(Clone, Debug)]
pub(super) struct Demux {
    pacing: Pacing,
    /// For each packet, the file position up to which the file must be read to complete the packet.
    /// The positions never decrease.
    ends: Vec<u64>,
    /// The indices of the packets of each track: video, then audio.
    tracks: [Vec<u32>; 2],
    /// The number of packets of each track in all steps so far.
    covered: [usize; 2],
    last: Option<Step>,
    /// The end of the step before the last one, as a file position.
    before: u64,
}

#[derive(Clone, Debug)]
enum Pacing {
    Increments { origin: MediaTime, increment: i64 },
    References { every: usize, lead: i64 },
}

impl Demux {
    pub(super) fn new(config: &PlayerConfig, film: &Timeline) -> Self {
        let mut tracks = [Vec::new(), Vec::new()];
        for (index, packet) in (0u32..).zip(film.packets()) {
            tracks[track(packet.stream)].push(index);
        }
        let pacing = match film.container() {
            Container::Mp4 => Pacing::Increments {
                origin: film.pictures().first().map_or(MediaTime::default(), |first| first.pts),
                increment: (config.clock_increment_ns.max(1_000_000)) as i64,
            },
            Container::MpegTs => {
                let period = film.frame_period().as_nanos().max(1);
                Pacing::References {
                    // A tolerance of one microsecond avoids an error of one picture due to
                    // rounding.
                    every: ((config.pcr_period_ns + 1_000) / period).max(1) as usize,
                    lead: config.pcr_lead_ns as i64,
                }
            }
            Container::Other(_) => Pacing::References { every: 1, lead: 0 },
        };
        let ends = arrival_ends(film, &tracks[0]);
        Self { pacing, ends, tracks, covered: [0; 2], last: None, before: 0 }
    }

    /// Returns the file position up to which the file must be read to complete a packet.
    pub(super) fn end_of(&self, packet: usize) -> u64 {
        self.ends[packet]
    }

    /// Returns the last complete packet if the file has been read up to `position`.
    pub(super) fn last_whole(&self, position: u64) -> Option<usize> {
        self.ends.partition_point(|&end| end <= position).checked_sub(1)
    }

    /// Returns the file position at which the most recent step begins.
    pub(super) const fn read_before(&self) -> u64 {
        self.before
    }

    /// Returns the next step. `None` at the end of the file.
    pub(super) fn next_step(&mut self, film: &Timeline) -> Option<Step> {
        let packets = film.packets();
        if self.last.is_some_and(|step| step.packets_end == packets.len()) {
            return None;
        }
        let step = match self.pacing {
            Pacing::Increments { origin, increment } => match self.last {
                // The step with the first packet sets the origin of the clock.
                None => self.step_to(packets, 1, origin),
                Some(step) => self.increment_step(packets, step, increment),
            },
            Pacing::References { every, lead } => self.reference_step(film, every, lead),
        };
        self.before = self.last.map_or(0, |before| before.bytes_end);
        self.last = Some(step);
        Some(step)
    }

    fn step_to(&self, packets: &[Packet], packets_end: usize, clock: MediaTime) -> Step {
        let packets_end = packets_end.min(packets.len());
        let bytes_end = packets_end.checked_sub(1).map_or(0, |last| self.ends[last]);
        Step { packets_end, bytes_end, clock }
    }

    fn increment_step(&mut self, packets: &[Packet], before: Step, increment: i64) -> Step {
        let target = before.clock.offset(increment);
        let mut packets_end = before.packets_end;
        for (track, covered) in self.tracks.iter().zip(&mut self.covered) {
            let from = *covered;
            while let Some(&index) = track.get(*covered)
                && packets[index as usize].dts <= target
            {
                *covered += 1;
            }
            if *covered > from {
                let last = track[*covered - 1] as usize;
                packets_end = packets_end.max(run_end(packets, last));
            }
        }
        self.step_to(packets, packets_end, target)
    }

    fn reference_step(&mut self, film: &Timeline, every: usize, lead: i64) -> Step {
        let [video, _] = &self.tracks;
        let at = self.covered[0];
        self.covered[0] += every;
        if let Some(&index) = video.get(at) {
            let packet = &film.packets()[index as usize];
            let clock = packet.dts.offset(-lead);
            let bytes_end = (packet.position + TRANSPORT_PACKET).min(film.size_bytes());
            Step { packets_end: index as usize, bytes_end, clock }
        } else {
            let clock = self.last.map_or(MediaTime::default(), |step| step.clock);
            let packets_end = film.packets().len();
            Step { packets_end, bytes_end: film.size_bytes(), clock }
        }
    }
}

const fn track(stream: Stream) -> usize {
    match stream {
        Stream::Video => 0,
        Stream::Audio => 1,
    }
}

/// Returns the index after the last of the packets that are read together with packet `last`
/// (`mp4.c`, `DemuxTrack`).
fn run_end(packets: &[Packet], last: usize) -> usize {
    let Packet { stream, dts, .. } = packets[last];
    let in_run = |packet: &&Packet| packet.stream == stream && packet.dts <= dts.offset(RUN_MAX_NS);
    last + packets[last..].iter().take_while(in_run).count()
}

fn arrival_ends(film: &Timeline, video: &[u32]) -> Vec<u64> {
    let packets = film.packets();
    let mut ends: Vec<u64> =
        packets.iter().map(|packet| packet.end().min(film.size_bytes())).collect();
    if *film.container() == Container::MpegTs {
        for pair in video.windows(2) {
            let next = packets[pair[1] as usize].position + TRANSPORT_PACKET;
            ends[pair[0] as usize] = next.min(film.size_bytes());
        }
        if let Some(&last) = video.last() {
            ends[last as usize] = film.size_bytes();
        }
    }
    let mut furthest = 0;
    for end in &mut ends {
        furthest = furthest.max(*end);
        *end = furthest;
    }
    ends
}

/// Returns the film time from `position` to packet `last`.
pub(super) fn media_ahead(film: &Timeline, last: Option<usize>, position: MediaTime) -> Duration {
    last.map_or(Duration::ZERO, |last| film.packets()[last].dts.since(position))
}
