//! Generated films: a picture pattern like that of x264, at a given rate and duration.
//!
//! The defaults are those of the film in the MPTCP streaming papers: 409 MB and 10 min 24 s, that
//! is, 5.24 Mb/s. Pictures form closed groups of 250 (x264's `keyint`) with the pattern `I B B P B
//! B P ..`. The mean sizes of I, P and B pictures have the ratio of about 9 : 3 : 1. The content
//! varies slowly: the most complex second has two to three times the mean rate. The content depends
//! on the name of the film and not on the seed of a run, so the film is the same in every run.

use crate::content::Content;
use crate::timeline::{Container, Facts, MediaTime, Packet, PacketKind, Stream, Timeline};
use anabranch_units::{Duration, RandomStream, Seed};
use serde::{Deserialize, Serialize};

/// The parameters of a generated film. An absent parameter has the value of the papers' film.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SyntheticFilm {
    /// The name of the film, which determines the content. `papers-film` has exactly 409,000,000
    /// bytes unless a rate or a duration is given.
    pub name: String,
    /// The mean rate of the whole file in bits per second.
    #[serde(default)]
    pub rate_bps: Option<u64>,
    /// The playing time in nanoseconds.
    #[serde(default)]
    pub duration_ns: Option<u64>,
    /// Pictures per second. 30 if absent.
    #[serde(default)]
    pub frame_rate: Option<f64>,
    /// The number of pictures from one I picture to the next. 250 if absent.
    #[serde(default)]
    pub group_pictures: Option<u32>,
    /// The number of B pictures between two reference pictures. 2 if absent.
    #[serde(default)]
    pub b_pictures: Option<u32>,
    /// The rate of the audio in bits per second. Zero for a film without audio; 128,000 if absent.
    #[serde(default)]
    pub audio_bps: Option<u64>,
    /// The interleaving period in nanoseconds. The file contains this much video, then as much
    /// audio, and so on. One second if absent.
    #[serde(default)]
    pub chunk_ns: Option<u64>,
    /// The file format. MP4 if absent.
    #[serde(default)]
    pub container: Option<Container>,
}

/// The reason why a film cannot be generated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SyntheticFilmError {
    /// The film would have no picture, or more than a hundred million pictures.
    #[error("a film of {duration_ns} ns cannot be cut into pictures at {frame_rate} per second")]
    Duration {
        /// The requested duration.
        duration_ns: u64,
        /// The requested frame rate.
        frame_rate: f64,
    },
    /// The frame rate is not a positive number up to 1,000.
    #[error("a film cannot have {0} pictures per second")]
    FrameRate(f64),
    /// The length of a group of pictures or of the interleaving period is zero.
    #[error("{0} must be positive")]
    Zero(&'static str),
    /// The rate is too low for the pictures and the audio, or the size of a picture does not fit 32
    /// bits.
    #[error("{size_bytes} bytes cannot hold {pictures} pictures and {audio_bytes} bytes of audio")]
    Rate {
        /// The file's size at the requested rate.
        size_bytes: u64,
        /// The number of pictures.
        pictures: u64,
        /// The size of the audio in bytes.
        audio_bytes: u64,
    },
}

/// The size of the papers' film (HO20, SD18, PC16).
const PAPERS_BYTES: u64 = 409_000_000;
/// The length of the papers' film: 10 min 24 s.
const PAPERS_DURATION_NS: u64 = 624_000_000_000;
/// The number of samples in an AAC packet.
const AUDIO_SAMPLES: u64 = 1_024;
/// The sampling rate of the audio, Hz.
const AUDIO_HZ: u64 = 48_000;
/// The relative sizes of I, P and B pictures with the same content.
const WEIGHT_I: f64 = 9.0;
const WEIGHT_P: f64 = 3.0;
const WEIGHT_B: f64 = 1.0;
/// The number of bytes per packet in an MP4's index, measured with a recorded film of the ground
/// truth (79,228 bytes for 6,920 packets).
const INDEX_BYTES_PER_PACKET: u64 = 12;
const NANOS: u64 = 1_000_000_000;

impl SyntheticFilm {
    /// Returns the parameters of a film with this name. All other values are those of the papers'
    /// film.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.into(),
            rate_bps: None,
            duration_ns: None,
            frame_rate: None,
            group_pictures: None,
            b_pictures: None,
            audio_bps: None,
            chunk_ns: None,
            container: None,
        }
    }
}

impl Timeline {
    /// Returns the papers' film: 409,000,000 bytes of MP4, 624 s, 30 pictures per second, with
    /// audio.
    ///
    /// # Panics
    ///
    /// Never, because the defaults make a valid film. A test checks this.
    pub fn papers_film() -> Self {
        Self::try_from(&SyntheticFilm::named("papers-film")).expect("the defaults make a film")
    }
}

impl TryFrom<&SyntheticFilm> for Timeline {
    type Error = SyntheticFilmError;

    fn try_from(film: &SyntheticFilm) -> Result<Self, SyntheticFilmError> {
        let plan = Plan::new(film)?;
        let mut content = Seed { seed: 0, run: 0 }.stream(&format!("film.{}", film.name));
        let mut packets = plan.audio_packets(&mut content);
        let audio_bytes: u64 = packets.iter().map(|packet| u64::from(packet.size)).sum();
        packets.splice(0..0, plan.video_packets(&mut content, audio_bytes)?);
        plan.lay_out(&mut packets);
        let facts = Facts {
            name: film.name.clone(),
            container: plan.container,
            size_bytes: plan.size_bytes,
            duration: Duration::from_nanos(plan.duration_ns),
            frame_rate: plan.frame_rate,
            width: 1280,
            height: 720,
        };
        Ok(Self::new(facts, packets))
    }
}

/// A film with all parameters set.
struct Plan {
    container: Container,
    size_bytes: u64,
    duration_ns: u64,
    frame_rate: f64,
    pictures: u64,
    group: u64,
    b_pictures: u64,
    audio_packets: u64,
    audio_bps: u64,
    chunk_ns: u64,
}

impl Plan {
    fn new(film: &SyntheticFilm) -> Result<Self, SyntheticFilmError> {
        let duration_ns = film.duration_ns.unwrap_or(PAPERS_DURATION_NS);
        let frame_rate = film.frame_rate.unwrap_or(30.0);
        if !(frame_rate > 0.0 && frame_rate <= 1_000.0) {
            return Err(SyntheticFilmError::FrameRate(frame_rate));
        }
        let pictures = (duration_ns as f64 / 1e9 * frame_rate).round() as u64;
        if !(1..=100_000_000).contains(&pictures) {
            return Err(SyntheticFilmError::Duration { duration_ns, frame_rate });
        }
        // bits/s x ns / 8e9 are bytes. The product needs 128 bits.
        let scaled = |bytes: u64, by: u64, over: u64| {
            (u128::from(bytes) * u128::from(by) / u128::from(over)) as u64
        };
        let size_bytes = match film.rate_bps {
            Some(rate) => scaled(rate, duration_ns, 8 * NANOS),
            None => scaled(PAPERS_BYTES, duration_ns, PAPERS_DURATION_NS),
        };
        let audio_bps = film.audio_bps.unwrap_or(128_000);
        let sounding_ns = if audio_bps == 0 { 0 } else { duration_ns };
        let plan = Self {
            container: film.container.clone().unwrap_or(Container::Mp4),
            size_bytes,
            duration_ns,
            frame_rate,
            pictures,
            group: u64::from(film.group_pictures.unwrap_or(250)),
            b_pictures: u64::from(film.b_pictures.unwrap_or(2)),
            audio_packets: scaled(sounding_ns, AUDIO_HZ, NANOS).div_ceil(AUDIO_SAMPLES),
            audio_bps,
            chunk_ns: film.chunk_ns.unwrap_or(NANOS),
        };
        match (plan.group, plan.chunk_ns) {
            (0, _) => Err(SyntheticFilmError::Zero("group_pictures")),
            (_, 0) => Err(SyntheticFilmError::Zero("chunk_ns")),
            _ => Ok(plan),
        }
    }

    fn header_bytes(&self) -> u64 {
        match self.container {
            Container::Mp4 => 48 + INDEX_BYTES_PER_PACKET * (self.pictures + self.audio_packets),
            // Two tables (PAT, PMT) and the service description need one transport packet each.
            _ => 3 * 188,
        }
    }

    fn picture_time(&self, index: i64) -> MediaTime {
        MediaTime::from_nanos((index as f64 * 1e9 / self.frame_rate).round() as i64)
    }

    /// Returns the coding type of a picture by its display rank. The last picture of a closed group
    /// is a reference.
    fn kind(&self, display: u64) -> PacketKind {
        let in_group = display % self.group;
        let last = in_group + 1 == self.group || display + 1 == self.pictures;
        match in_group {
            0 => PacketKind::I,
            _ if last || in_group.is_multiple_of(self.b_pictures + 1) => PacketKind::P,
            _ => PacketKind::B,
        }
    }

    /// Returns the display ranks in decoding order. A reference precedes the B pictures that are
    /// displayed before it.
    fn decode_order(&self) -> Vec<u64> {
        let mut order = Vec::with_capacity(self.pictures as usize);
        let mut waiting = Vec::new();
        for display in 0..self.pictures {
            if self.kind(display) == PacketKind::B {
                waiting.push(display);
            } else {
                order.push(display);
                order.append(&mut waiting);
            }
        }
        order
    }

    fn video_packets(
        &self,
        content: &mut RandomStream,
        audio_bytes: u64,
    ) -> Result<Vec<Packet>, SyntheticFilmError> {
        let shortage = SyntheticFilmError::Rate {
            size_bytes: self.size_bytes,
            pictures: self.pictures,
            audio_bytes,
        };
        let other_bytes = self.header_bytes() + audio_bytes + self.pictures;
        let spendable = self.size_bytes.checked_sub(other_bytes).ok_or(shortage.clone())?;
        let weights = self.weights(content);
        let total: f64 = weights.iter().sum();
        let order = self.decode_order();
        let reorder = i64::from(order.get(1).is_some_and(|&display| display > 1));
        let (mut weight_so_far, mut spent) = (0.0, 0);
        let mut packets = Vec::with_capacity(order.len());
        for (decode, &display) in (0i64..).zip(&order) {
            weight_so_far += weights[display as usize];
            // Rounding the running sum, and not each size, makes the total exact.
            let until = if decode as usize + 1 == order.len() {
                spendable
            } else {
                ((spendable as f64 * (weight_so_far / total)) as u64).clamp(spent, spendable)
            };
            let kind = self.kind(display);
            packets.push(Packet {
                stream: Stream::Video,
                kind,
                position: 0,
                size: u32::try_from(until - spent + 1).map_err(|_| shortage.clone())?,
                pts: self.picture_time(display as i64),
                dts: self.picture_time(decode - reorder),
                reference: kind != PacketKind::B,
            });
            spent = until;
        }
        Ok(packets)
    }

    /// Returns the relative size of each picture by display rank. It follows the content, with some
    /// noise.
    fn weights(&self, random: &mut RandomStream) -> Vec<f64> {
        let mut content = Content::default();
        let mut weights = Vec::with_capacity(self.pictures as usize);
        for display in 0..self.pictures {
            let busy = content.next(random, 1.0 / self.frame_rate);
            let scatter = (0.12 * random.standard_normal()).clamp(-0.5, 0.5);
            let weight = match self.kind(display) {
                PacketKind::I => WEIGHT_I,
                PacketKind::P => WEIGHT_P,
                PacketKind::B | PacketKind::Audio => WEIGHT_B,
            };
            weights.push(weight * (busy + scatter).exp());
        }
        weights
    }

    fn audio_packets(&self, content: &mut RandomStream) -> Vec<Packet> {
        let mean = self.audio_bps as f64 / 8.0 * AUDIO_SAMPLES as f64 / AUDIO_HZ as f64;
        let packet = |index: u64| {
            let at = (index * AUDIO_SAMPLES * NANOS / AUDIO_HZ) as i64;
            Packet {
                stream: Stream::Audio,
                kind: PacketKind::Audio,
                position: 0,
                size: (mean * (0.9 + 0.2 * content.uniform())).round() as u32,
                pts: MediaTime::from_nanos(at),
                dts: MediaTime::from_nanos(at),
                reference: true,
            }
        };
        (0..self.audio_packets).map(packet).collect()
    }

    /// Sets the positions in the file. Each interleaving period contains video, then audio.
    fn lay_out(&self, packets: &mut [Packet]) {
        let chunk = |packet: &Packet| packet.dts.as_nanos().max(0) as u64 / self.chunk_ns;
        packets.sort_by_key(|packet| (chunk(packet), packet.stream == Stream::Audio));
        let mut position = self.header_bytes();
        for packet in packets {
            packet.position = position;
            position += u64::from(packet.size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits_by_second(film: &Timeline) -> Vec<f64> {
        let mut seconds = vec![0.0; film.duration().as_secs_f64().ceil() as usize + 1];
        for packet in film.packets() {
            seconds[packet.dts.as_secs_f64().max(0.0) as usize] += f64::from(packet.size) * 8.0;
        }
        seconds
    }

    #[test]
    fn the_papers_film_has_the_published_size_length_and_rate() {
        let film = Timeline::papers_film();
        assert_eq!(film.size_bytes(), 409_000_000);
        assert_eq!(film.packets().last().unwrap().end(), 409_000_000, "no byte is left over");
        assert_eq!(film.duration(), Duration::from_secs(624));
        assert_eq!(film.pictures().len(), 18_720);
        assert!((film.rate_bps() / 1e6 - 5.24).abs() < 0.005);
        let keys = film.pictures().iter().filter(|picture| picture.kind == PacketKind::I).count();
        assert_eq!(keys, 18_720_usize.div_ceil(250));
        let seconds = bits_by_second(&film);
        let peak = seconds.iter().copied().fold(0.0, f64::max) / (film.rate_bps());
        assert!((2.0..3.0).contains(&peak), "the busiest second has {peak} times the mean");
        assert_eq!(film, Timeline::papers_film(), "the same film every time");
    }

    #[test]
    fn picture_sizes_have_the_usual_ratio() {
        let film = Timeline::papers_film();
        let mean = |kind| {
            let of = film.pictures().iter().filter(|picture| picture.kind == kind);
            let sizes: Vec<f64> = of.map(|picture| f64::from(picture.size)).collect();
            sizes.iter().sum::<f64>() / sizes.len() as f64
        };
        let b = mean(PacketKind::B);
        assert!((7.0..11.0).contains(&(mean(PacketKind::I) / b)));
        assert!((2.7..3.3).contains(&(mean(PacketKind::P) / b)));
    }

    #[test]
    fn packets_fill_the_file_without_gap_or_overlap() {
        let film = Timeline::try_from(&SyntheticFilm {
            rate_bps: Some(2_000_000),
            duration_ns: Some(10 * NANOS),
            frame_rate: Some(25.0),
            ..SyntheticFilm::named("short")
        })
        .unwrap();
        assert_eq!(film.size_bytes(), 2_500_000);
        for pair in film.packets().windows(2) {
            assert_eq!(pair[0].end(), pair[1].position);
        }
        assert_eq!(film.packets().last().unwrap().end(), film.size_bytes());
        assert_eq!(film.reorder_depth(), 1);
        assert!(film.packets().iter().all(|packet| packet.pts >= packet.dts));
    }

    #[test]
    fn impossible_films_are_refused() {
        let refuse = |film: SyntheticFilm| Timeline::try_from(&film).unwrap_err();
        let film = || SyntheticFilm::named("odd");
        assert_eq!(
            refuse(SyntheticFilm { frame_rate: Some(0.0), ..film() }),
            SyntheticFilmError::FrameRate(0.0)
        );
        assert!(matches!(
            refuse(SyntheticFilm { duration_ns: Some(1), ..film() }),
            SyntheticFilmError::Duration { .. }
        ));
        assert!(matches!(
            refuse(SyntheticFilm { rate_bps: Some(100_000), ..film() }),
            SyntheticFilmError::Rate { .. }
        ));
        assert_eq!(
            refuse(SyntheticFilm { group_pictures: Some(0), ..film() }),
            SyntheticFilmError::Zero("group_pictures")
        );
    }
}
