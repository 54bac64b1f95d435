//! A film at several rates, cut into chunks. An adaptive player chooses a rate for each chunk.
//!
//! A [`Ladder`] contains the master playlist (.m3u8, RFC 8216) and its media playlists, with all
//! paths and sizes resolved. It is built from real playlists, or is one of the ladders of
//! [`SyntheticLadder`].

mod playlist;
mod synthetic;

pub use synthetic::{SyntheticLadder, SyntheticLadderError};

use crate::http::ByteRange;
use anabranch_units::Duration;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A file on the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resource {
    /// The path on the server, without a leading slash, percent-encoded as in a URI.
    pub path: String,
    /// The size in bytes.
    pub bytes: u64,
}

/// A part of a rendition that one request fetches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chunk {
    /// The path of the file that contains the chunk.
    pub path: String,
    /// The offset in the file in bytes (`EXT-X-BYTERANGE`). `None` if the chunk is the whole file.
    #[serde(default)]
    pub offset: Option<u64>,
    /// The size in bytes.
    pub bytes: u64,
    /// The playing time in nanoseconds.
    pub duration_ns: u64,
    /// Whether the server does not have the chunk (`EXT-X-GAP`). Such a chunk is never requested,
    /// and has size zero.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gap: bool,
}

impl Chunk {
    /// Returns the range to request, or `None` if the chunk is a whole file.
    pub fn range(&self) -> Option<ByteRange> {
        let range =
            |first: u64| ByteRange { first, last: Some(first.saturating_add(self.bytes - 1)) };
        self.offset.map(range)
    }

    /// Returns the playing time.
    pub const fn duration(&self) -> Duration {
        Duration::from_nanos(self.duration_ns)
    }
}

/// The film at one rate, or separate audio.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rendition {
    /// The rendition's name.
    pub name: String,
    /// The declared peak rate in bits per second, including audio (`BANDWIDTH`).
    pub bandwidth_bps: u64,
    /// The declared mean rate in bits per second (`AVERAGE-BANDWIDTH`), if any.
    #[serde(default)]
    pub average_bps: Option<u64>,
    /// Width of the picture in pixels. Zero for audio, or if not declared.
    #[serde(default)]
    pub width: u32,
    /// Height of the picture in pixels. Zero for audio, or if not declared.
    #[serde(default)]
    pub height: u32,
    /// Pictures per second, if declared (`FRAME-RATE`).
    #[serde(default)]
    pub frame_rate: Option<f64>,
    /// The declared codecs (`CODECS`). Empty if not declared.
    #[serde(default)]
    pub codecs: String,
    /// The media playlist.
    pub playlist: Resource,
    /// The initialization section (`EXT-X-MAP`). A decoder needs it before the first chunk. Its
    /// duration is zero.
    #[serde(default)]
    pub init: Option<Chunk>,
    /// Initialization sections that replace `init` (later `EXT-X-MAP` tags), in order. Each has the
    /// index of the first chunk that needs it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub later_inits: Vec<(usize, Chunk)>,
    /// The audio for this rendition, as an index into [`Ladder::sounds`]. It is from the group that
    /// `AUDIO` names.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub sound: usize,
    /// The chunks in order.
    pub chunks: Vec<Chunk>,
}

impl Rendition {
    /// Returns the declared mean rate in bits per second, or the peak rate if no mean is declared.
    pub fn mean_bps(&self) -> f64 {
        self.average_bps.unwrap_or(self.bandwidth_bps) as f64
    }

    /// Returns the playing time of the rendition.
    pub fn duration(&self) -> Duration {
        Duration::from_nanos(self.chunks.iter().map(|chunk| chunk.duration_ns).sum())
    }

    /// Returns the initialization section that a chunk needs, and its index within this rendition.
    pub fn init_of(&self, chunk: usize) -> Option<(usize, &Chunk)> {
        let later = self.later_inits.iter().rposition(|(first, _)| *first <= chunk);
        match later {
            Some(place) => Some((place + 1, &self.later_inits[place].1)),
            None => self.init.as_ref().map(|init| (0, init)),
        }
    }

    /// Returns the film time at which a chunk ends.
    pub fn end_of(&self, chunk: usize) -> Duration {
        let until = self.chunks.len().min(chunk + 1);
        Duration::from_nanos(self.chunks[..until].iter().map(|chunk| chunk.duration_ns).sum())
    }

    /// Returns the index of the chunk that is played at `time`. After the end, returns the number
    /// of chunks.
    ///
    /// A chunk that ends within `TOLERANCE` after `time` counts as finished.
    pub fn chunk_at(&self, time: Duration) -> usize {
        let mut end = Duration::ZERO;
        let is_over = |chunk: &&Chunk| {
            end += chunk.duration();
            end <= time + TOLERANCE
        };
        self.chunks.iter().take_while(is_over).count()
    }

    /// Returns every file of the rendition, and the end of the last chunk in that file.
    fn files(&self) -> impl Iterator<Item = (&str, u64)> {
        let playlist = (self.playlist.path.as_str(), self.playlist.bytes);
        let later = self.later_inits.iter().map(|(_, init)| init);
        let there = self.chunks.iter().filter(|chunk| !chunk.gap);
        let pieces = self.init.iter().chain(later).chain(there);
        let reach = |chunk: &Chunk| chunk.offset.unwrap_or(0).saturating_add(chunk.bytes);
        std::iter::once(playlist)
            .chain(pieces.map(move |chunk| (chunk.path.as_str(), reach(chunk))))
    }
}

/// A film at several rates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ladder {
    /// The film's name.
    pub name: String,
    /// The master playlist.
    pub master: Resource,
    /// The renditions, the lowest peak rate first.
    pub renditions: Vec<Rendition>,
    /// The audio rendition, if audio is fetched separately (`EXT-X-MEDIA`).
    #[serde(default)]
    pub audio: Option<Rendition>,
    /// The audio renditions of other groups, which some renditions need instead of `audio`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub more_audio: Vec<Rendition>,
}

/// The reason why a player cannot play a ladder.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LadderError {
    /// A chunk has no bytes or no duration, or its size, offset or duration exceeds the limit.
    #[error("chunk {index} of {rendition} is empty or too large")]
    Chunk {
        /// The rendition.
        rendition: String,
        /// The chunk, from 0.
        index: usize,
    },
    /// Renditions have different numbers of chunks, so a player cannot switch between them.
    #[error("{rendition} has {chunks} chunks, {first} has {expected}")]
    Chunks {
        /// The rendition.
        rendition: String,
        /// Its number of chunks.
        chunks: usize,
        /// The lowest rendition's name.
        first: String,
        /// The lowest rendition's number of chunks.
        expected: usize,
    },
    /// The chunk at this index is a gap in every rendition.
    #[error("chunk {0} is a gap in every rendition")]
    Gap(usize),
    /// A rendition refers to an audio rendition that does not exist.
    #[error("{0} needs an audio rendition that the ladder does not have")]
    Sound(String),
    /// There is no rendition, or a rendition has no chunks.
    #[error("{0} has nothing to play")]
    Empty(String),
    /// The peak rate of a rendition is zero, or not above that of the rendition below it.
    #[error("{0} does not declare more than the rendition below it")]
    Order(String),
}

/// The limit of a chunk's size and offset in bytes (1 TiB), and of its duration in units of 10 µs
/// (127 days). With it, sums fit 64 bits.
const CHUNK_MAX: u64 = 1 << 40;

/// A chunk with at most this time left counts as finished (hls.js, `maxFragLookUpTolerance`).
const TOLERANCE: Duration = Duration::from_millis(250);

const fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl Ladder {
    /// Checks that a player can play the ladder.
    ///
    /// # Errors
    ///
    /// Returns the first error that is found.
    pub fn check(&self) -> Result<(), LadderError> {
        let Some(first) = self.renditions.first() else {
            return Err(LadderError::Empty(self.name.clone()));
        };
        for rendition in self.renditions.iter().chain(self.sounds()) {
            if rendition.chunks.is_empty() {
                return Err(LadderError::Empty(rendition.name.clone()));
            }
            let odd = |chunk: &Chunk| {
                let sizes = [chunk.bytes, chunk.duration_ns / 10_000, chunk.offset.unwrap_or(1)];
                let is_empty = (chunk.bytes == 0) != chunk.gap;
                is_empty || sizes.iter().any(|size| *size > CHUNK_MAX)
            };
            let silent = |chunk: &Chunk| odd(chunk) || chunk.duration_ns == 0;
            let mut inits =
                rendition.init.iter().chain(rendition.later_inits.iter().map(|(_, init)| init));
            let init = inits.any(|init| odd(init) || init.gap);
            let place = rendition.chunks.iter().position(silent).or(init.then_some(0));
            if let Some(index) = place {
                return Err(LadderError::Chunk { rendition: rendition.name.clone(), index });
            }
        }
        for pair in self.renditions.windows(2) {
            if pair[0].bandwidth_bps >= pair[1].bandwidth_bps {
                return Err(LadderError::Order(pair[1].name.clone()));
            }
            if pair[1].chunks.len() != first.chunks.len() {
                return Err(LadderError::Chunks {
                    rendition: pair[1].name.clone(),
                    chunks: pair[1].chunks.len(),
                    first: first.name.clone(),
                    expected: first.chunks.len(),
                });
            }
        }
        self.check_sounds_and_gaps()?;
        if first.bandwidth_bps == 0 {
            return Err(LadderError::Order(first.name.clone()));
        }
        Ok(())
    }

    fn check_sounds_and_gaps(&self) -> Result<(), LadderError> {
        let sounds = self.sounds().count();
        let lacks_sound = |of: &&Rendition| of.sound > 0 && of.sound >= sounds;
        if let Some(rendition) = self.renditions.iter().find(lacks_sound) {
            return Err(LadderError::Sound(rendition.name.clone()));
        }
        let is_gap = |index: &usize| self.renditions.iter().all(|of| of.chunks[*index].gap);
        (0..self.chunks()).find(is_gap).map_or(Ok(()), |index| Err(LadderError::Gap(index)))
    }

    /// Returns the separate audio renditions: first `audio`, then those of other groups.
    pub fn sounds(&self) -> impl Iterator<Item = &Rendition> {
        self.audio.iter().chain(&self.more_audio)
    }

    /// Returns an audio rendition by its index in [`sounds`](Self::sounds).
    pub fn sound(&self, number: usize) -> Option<&Rendition> {
        match number {
            0 => self.audio.as_ref(),
            _ => self.more_audio.get(number - 1),
        }
    }

    /// Returns the rendition to fetch if `wanted` has a gap at a chunk. This is the nearest lower
    /// rendition that has the chunk. If there is none, it is the highest rendition that has it
    /// (`ErrorController.getLevelSwitchAction` of hls.js).
    pub fn without_gap(&self, wanted: usize, chunk: usize) -> usize {
        let has = |number: &usize| !self.renditions[*number].chunks[chunk].gap;
        let mut order = (0..=wanted).rev().chain((wanted..self.renditions.len()).rev());
        order.find(has).unwrap_or(wanted)
    }

    /// Returns the film's playing time, which is that of the lowest rendition.
    pub fn duration(&self) -> Duration {
        self.renditions.first().map_or(Duration::ZERO, Rendition::duration)
    }

    /// Returns the number of chunks of each rendition.
    pub fn chunks(&self) -> usize {
        self.renditions.first().map_or(0, |rendition| rendition.chunks.len())
    }

    /// Returns the files of a server for this ladder, with the size of each in bytes.
    pub fn files(&self) -> BTreeMap<String, u64> {
        let mut files = BTreeMap::from([(self.master.path.clone(), self.master.bytes)]);
        for (path, bytes) in self.renditions.iter().chain(self.sounds()).flat_map(Rendition::files)
        {
            let size = files.entry(path.to_owned()).or_default();
            *size = bytes.max(*size);
        }
        files
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendition(name: &str, bandwidth_bps: u64, chunks: usize) -> Rendition {
        let chunk = |index: usize| Chunk {
            path: format!("{name}.ts"),
            offset: Some(index as u64 * 100),
            bytes: 100,
            duration_ns: 1_000_000_000,
            gap: false,
        };
        Rendition {
            name: name.into(),
            bandwidth_bps,
            average_bps: None,
            width: 0,
            height: 0,
            frame_rate: None,
            codecs: String::new(),
            playlist: Resource { path: format!("{name}.m3u8"), bytes: 50 },
            init: None,
            later_inits: Vec::new(),
            sound: 0,
            chunks: (0..chunks).map(chunk).collect(),
        }
    }

    fn ladder(renditions: Vec<Rendition>) -> Ladder {
        let master = Resource { path: "master.m3u8".into(), bytes: 200 };
        Ladder { name: "small".into(), master, renditions, audio: None, more_audio: Vec::new() }
    }

    #[test]
    fn a_file_of_many_chunks_is_as_long_as_they_are_together() {
        let ladder = ladder(vec![rendition("low", 800, 3), rendition("high", 1_600, 3)]);
        ladder.check().unwrap();
        let files = ladder.files();
        assert_eq!(files["low.ts"], 300);
        assert_eq!(files["master.m3u8"], 200);
        assert_eq!(files.len(), 5);
        assert_eq!(ladder.duration(), Duration::from_secs(3));
        let range = ladder.renditions[0].chunks[1].range();
        assert_eq!(range, Some(ByteRange { first: 100, last: Some(199) }));
    }

    #[test]
    fn unplayable_ladders_are_refused() {
        assert_eq!(ladder(vec![]).check(), Err(LadderError::Empty("small".into())));
        let hollow = ladder(vec![rendition("low", 800, 0)]);
        assert_eq!(hollow.check(), Err(LadderError::Empty("low".into())));
        let level = ladder(vec![rendition("a", 800, 1), rendition("b", 800, 1)]);
        assert_eq!(level.check(), Err(LadderError::Order("b".into())));
        let ragged = ladder(vec![rendition("a", 800, 1), rendition("b", 900, 2)]);
        assert!(matches!(ragged.check(), Err(LadderError::Chunks { expected: 1, chunks: 2, .. })));
        let mut still = ladder(vec![rendition("a", 800, 2)]);
        still.renditions[0].chunks[1].duration_ns = 0;
        let fault = LadderError::Chunk { rendition: "a".into(), index: 1 };
        assert_eq!(still.check(), Err(fault));
    }
    #[test]
    fn a_gap_is_filled_from_the_nearest_lower_rendition_or_the_highest() {
        let names = [("a", 1), ("b", 2), ("c", 3), ("d", 4)];
        let mut film = ladder(names.map(|(name, rate)| rendition(name, rate, 2)).into());
        let mut gap = |number: usize| {
            film.renditions[number].chunks[1] =
                Chunk { gap: true, bytes: 0, ..film.renditions[number].chunks[1].clone() };
        };
        gap(0);
        gap(2);
        film.check().unwrap();
        assert_eq!([0, 1, 2, 3].map(|wanted| film.without_gap(wanted, 1)), [3, 1, 1, 3]);
        assert_eq!(film.without_gap(0, 0), 0);
        for number in [1, 3] {
            film.renditions[number].chunks[1].gap = true;
            film.renditions[number].chunks[1].bytes = 0;
        }
        assert_eq!(film.check(), Err(LadderError::Gap(1)));
    }

    #[test]
    fn a_chunk_uses_the_last_initialization_section_before_it() {
        let mut one = rendition("a", 1, 4);
        let init = |offset| Chunk { offset: Some(offset), duration_ns: 0, ..one.chunks[0].clone() };
        let (first, second) = (init(7), init(8));
        one.later_inits = vec![(2, second.clone())];
        assert_eq!(
            [0, 1, 2, 3].map(|at| one.init_of(at)),
            [None, None, Some((1, &second)), Some((1, &second))]
        );
        one.init = Some(first.clone());
        assert_eq!(one.init_of(1), Some((0, &first)));
        assert_eq!(one.init_of(2), Some((1, &second)));
    }

    #[test]
    fn a_chunk_is_found_by_its_time() {
        let one = rendition("a", 1, 3);
        // A chunk with less than a quarter of a second left counts as finished.
        let found = [0, 700, 750, 1_000, 1_749, 1_750, 2_999, 9_000];
        let found = found.map(|ms| one.chunk_at(Duration::from_millis(ms)));
        assert_eq!(found, [0, 0, 1, 1, 1, 2, 3, 3]);
        assert_eq!(one.end_of(1), Duration::from_secs(2));
    }

    #[test]
    fn a_rendition_needs_an_existing_audio_rendition() {
        let mut film = ladder(vec![rendition("a", 1, 2), rendition("b", 2, 2)]);
        film.renditions[1].sound = 1;
        assert_eq!(film.check(), Err(LadderError::Sound("b".into())));
        film.audio = Some(rendition("low", 1, 2));
        film.more_audio = vec![rendition("high", 2, 2)];
        film.check().unwrap();
        assert_eq!(film.sound(1).unwrap().name, "high");
        assert!(film.files().contains_key("high.ts"));
    }
}
