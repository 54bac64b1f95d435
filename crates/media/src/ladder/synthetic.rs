//! Generated ladders: those of the two servers in UQ18.
//!
//! UQ18 contains the rates and the duration of a chunk. These are our assumptions:
//!
//! - The rates are mean rates, without the overhead of protocols and containers.
//! - Audio is a separate rendition, used with every video rendition.
//! - Pictures have the ratio 16:9, at 30 per second.
//! - Each chunk is a file.
//!
//! The chunk sizes of all renditions follow the same content. The content depends on the name of
//! the ladder, and not on the seed of a run.

use super::{Chunk, Ladder, Rendition, Resource};
use crate::content::Content;
use anabranch_units::Seed;
use serde::{Deserialize, Serialize};

/// The parameters of a generated ladder. An absent parameter has the value of UQ18.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SyntheticLadder {
    /// The name of the ladder: `uq18-jp` or `uq18-va`.
    pub name: String,
    /// The playing time of the film in nanoseconds.
    #[serde(default)]
    pub duration_ns: Option<u64>,
    /// The playing time of a chunk in nanoseconds. 10 s if absent.
    #[serde(default)]
    pub chunk_ns: Option<u64>,
}

/// The reason why a ladder cannot be generated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SyntheticLadderError {
    /// The film or a chunk is shorter than 10 ms, or the film has more than 100,000 chunks.
    #[error("a film of {duration_ns} ns cannot be cut into chunks of {chunk_ns} ns")]
    Duration {
        /// The requested duration.
        duration_ns: u64,
        /// The requested chunk duration.
        chunk_ns: u64,
    },
    /// There is no ladder with this name.
    #[error("unknown ladder: `{0}`")]
    Name(String),
}

/// A ladder as printed in UQ18.
struct Printed {
    name: &'static str,
    duration_ns: u64,
    audio_bps: u64,
    /// Height in pixels and mean rate in bits per second, without audio.
    rungs: &'static [(u32, u64)],
}

const NANOS: u64 = 1_000_000_000;
const CHUNK_NS: u64 = 10 * NANOS;
const FRAME_RATE: f64 = 30.0;

/// The two servers of UQ18: Japan and Virginia.
const PRINTED: [Printed; 2] = [
    Printed {
        name: "uq18-jp",
        duration_ns: 600 * NANOS,
        audio_bps: 65_000,
        rungs: &[
            (240, 246_000),
            (288, 473_000),
            (360, 1_018_000),
            (432, 1_399_000),
            (480, 2_017_000),
            (576, 2_559_000),
            (720, 3_318_000),
        ],
    },
    Printed {
        name: "uq18-va",
        duration_ns: 300 * NANOS,
        audio_bps: 64_000,
        rungs: &[
            (288, 544_000),
            (360, 1_054_000),
            (480, 2_764_000),
            (720, 4_564_000),
            (1080, 12_064_000),
        ],
    },
];

impl SyntheticLadder {
    /// Returns the names of all generated ladders.
    pub fn names() -> impl Iterator<Item = &'static str> {
        PRINTED.iter().map(|printed| printed.name)
    }

    /// Returns the parameters of this ladder, with the values of UQ18.
    pub fn named(name: &str) -> Self {
        Self { name: name.into(), duration_ns: None, chunk_ns: None }
    }
}

impl TryFrom<&SyntheticLadder> for Ladder {
    type Error = SyntheticLadderError;

    fn try_from(wanted: &SyntheticLadder) -> Result<Self, SyntheticLadderError> {
        let printed = PRINTED
            .iter()
            .find(|printed| printed.name == wanted.name)
            .ok_or_else(|| SyntheticLadderError::Name(wanted.name.clone()))?;
        let duration_ns = wanted.duration_ns.unwrap_or(printed.duration_ns);
        let chunk_ns = wanted.chunk_ns.unwrap_or(CHUNK_NS);
        // A chunk of less than 10 ms could have a size of zero at these rates.
        if duration_ns < NANOS / 100
            || chunk_ns < NANOS / 100
            || duration_ns.div_ceil(chunk_ns) > 100_000
        {
            return Err(SyntheticLadderError::Duration { duration_ns, chunk_ns });
        }
        let cut = Cut::new(&wanted.name, duration_ns, chunk_ns);
        let audio = cut.rendition("audio", printed.audio_bps, false);
        let with_sound = |&(height, mean_bps): &(u32, u64)| {
            let mut rendition = cut.rendition(&format!("{height}p"), mean_bps, true);
            rendition.bandwidth_bps += audio.bandwidth_bps;
            rendition.average_bps = Some(mean_bps + printed.audio_bps);
            (rendition.width, rendition.height) = (width(height), height);
            rendition.frame_rate = Some(FRAME_RATE);
            rendition.codecs = format!("avc1.64001f,{}", audio.codecs);
            rendition
        };
        let mut ladder = Self {
            name: wanted.name.clone(),
            master: Resource { path: format!("{}/master.m3u8", wanted.name), bytes: 0 },
            renditions: printed.rungs.iter().map(with_sound).collect(),
            audio: Some(audio),
            more_audio: Vec::new(),
        };
        ladder.master.bytes = ladder.master_playlist().len() as u64;
        Ok(ladder)
    }
}

/// Returns the width of a 16:9 picture, rounded up to an even number of pixels.
fn width(height: u32) -> u32 {
    (height * 16).div_ceil(18) * 2
}

/// The division of a film into chunks: the duration of each, and its fraction of the film's bytes.
struct Cut<'a> {
    name: &'a str,
    lengths_ns: Vec<u64>,
    weights: Vec<f64>,
}

impl<'a> Cut<'a> {
    fn new(name: &'a str, duration_ns: u64, chunk_ns: u64) -> Self {
        let lengths_ns: Vec<u64> = (0..duration_ns.div_ceil(chunk_ns))
            .map(|index| chunk_ns.min(duration_ns - index * chunk_ns))
            .collect();
        let mut random = Seed { seed: 0, run: 0 }.stream(&format!("ladder.{name}"));
        let mut content = Content::default();
        // The content is sampled once per second, or once per chunk if chunks are shorter.
        let weight = |&duration_ns: &u64| {
            let steps = duration_ns.div_ceil(NANOS);
            let period = duration_ns as f64 / 1e9 / steps as f64;
            (0..steps).map(|_| content.next(&mut random, period).exp() * period).sum::<f64>()
        };
        let weights = lengths_ns.iter().map(weight).collect();
        Self { name, lengths_ns, weights }
    }

    /// Returns a rendition with this mean rate. The sizes of video chunks follow the content, and
    /// those of audio chunks do not.
    fn rendition(&self, name: &str, mean_bps: u64, follows_content: bool) -> Rendition {
        let folder = format!("{}/{name}", self.name);
        let total_ns: u64 = self.lengths_ns.iter().sum();
        let total = mean_bps as f64 / 8e9 * total_ns as f64;
        let weight = |index: usize| {
            if follows_content { self.weights[index] } else { self.lengths_ns[index] as f64 }
        };
        let weights: f64 = (0..self.lengths_ns.len()).map(weight).sum();
        let (mut so_far, mut spent) = (0.0, 0);
        let mut chunks = Vec::with_capacity(self.lengths_ns.len());
        for (index, &duration_ns) in self.lengths_ns.iter().enumerate() {
            // Rounding the running sum, and not each size, makes the total exact.
            so_far += weight(index);
            let until = (total * (so_far / weights)).round() as u64;
            let bytes = (until - spent).max(1);
            spent = until;
            let path = format!("{folder}/{index}.ts");
            chunks.push(Chunk { path, offset: None, bytes, duration_ns, gap: false });
        }
        let peak = |chunk: &Chunk| {
            (u128::from(chunk.bytes) * 8_000_000_000).div_ceil(u128::from(chunk.duration_ns)) as u64
        };
        let mut rendition = Rendition {
            name: name.into(),
            // "The largest peak segment bit rate" (RFC 8216 section 4.3.4.2).
            bandwidth_bps: chunks.iter().map(peak).max().unwrap_or(0),
            average_bps: Some(mean_bps),
            width: 0,
            height: 0,
            frame_rate: None,
            codecs: "mp4a.40.2".into(),
            playlist: Resource { path: format!("{folder}/index.m3u8"), bytes: 0 },
            init: None,
            later_inits: Vec::new(),
            sound: 0,
            chunks,
        };
        rendition.playlist.bytes = rendition.media_playlist().len() as u64;
        rendition
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_units::Duration;

    fn make(name: &str) -> Ladder {
        Ladder::try_from(&SyntheticLadder::named(name)).unwrap()
    }

    #[test]
    fn ladders_match_the_published_tables() {
        for (name, seconds, heights) in [
            ("uq18-jp", 600, vec![240, 288, 360, 432, 480, 576, 720]),
            ("uq18-va", 300, vec![288, 360, 480, 720, 1080]),
        ] {
            let ladder = make(name);
            ladder.check().unwrap();
            assert_eq!(ladder.duration(), Duration::from_secs(seconds));
            assert_eq!(ladder.chunks() as u64, seconds / 10);
            let of = |rendition: &Rendition| rendition.height;
            assert_eq!(ladder.renditions.iter().map(of).collect::<Vec<_>>(), heights);
            assert_eq!(ladder, make(name), "the same film every time");
        }
        let total = |rendition: &Rendition| rendition.chunks.iter().map(|c| c.bytes).sum::<u64>();
        let jp = make("uq18-jp");
        assert_eq!(total(&jp.renditions[6]), 3_318_000 / 8 * 600);
        assert_eq!(total(jp.audio.as_ref().unwrap()), 65_000 / 8 * 600);
        assert_eq!((jp.renditions[0].width, jp.renditions[4].width), (428, 854));
    }

    #[test]
    fn chunks_vary_with_the_content_and_alike_in_every_rendition() {
        let ladder = make("uq18-jp");
        let of = |rendition: &Rendition| -> Vec<f64> {
            let mean = rendition.mean_bps() - 65_000.0;
            rendition.chunks.iter().map(|chunk| chunk.bytes as f64 * 0.8 / mean).collect()
        };
        let (low, top) = (of(&ladder.renditions[0]), of(&ladder.renditions[6]));
        assert!(low.iter().zip(&top).all(|(low, top)| (low - top).abs() < 1e-3));
        let peak = top.iter().copied().fold(0.0, f64::max);
        let least = top.iter().copied().fold(9.0, f64::min);
        assert!((1.2..2.0).contains(&peak), "the largest chunk has {peak} times the mean");
        assert!((0.4..0.8).contains(&least), "the smallest chunk has {least} times the mean");
        let declared = ladder.renditions[6].bandwidth_bps as f64;
        assert!((declared / (3_318_000.0 * peak + 65_000.0) - 1.0).abs() < 1e-3);
    }

    #[test]
    fn other_lengths_are_cut_and_impossible_ones_refused() {
        let short = SyntheticLadder {
            duration_ns: Some(25 * NANOS),
            chunk_ns: Some(4 * NANOS),
            ..SyntheticLadder::named("uq18-va")
        };
        let ladder = Ladder::try_from(&short).unwrap();
        assert_eq!(ladder.chunks(), 7);
        assert_eq!(ladder.renditions[0].chunks[6].duration(), Duration::from_secs(1));
        let none = SyntheticLadder { chunk_ns: Some(0), ..short };
        assert!(matches!(Ladder::try_from(&none), Err(SyntheticLadderError::Duration { .. })));
        let unknown = SyntheticLadderError::Name("uq18".into());
        assert_eq!(Ladder::try_from(&SyntheticLadder::named("uq18")), Err(unknown));
    }
}
