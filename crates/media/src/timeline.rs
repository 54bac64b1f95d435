//! A film: its packets in file order, its pictures in display order, and the references between
//! pictures.

use crate::http::encoded_path;
use anabranch_units::Duration;
use serde::{Deserialize, Serialize};

/// A point in film time. It is signed, because the first audio packet of an MP4 has a negative
/// time. The first time of an MPEG-TS can have any value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MediaTime(i64);

impl MediaTime {
    /// Returns the point in film time at `nanos` nanoseconds.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// Returns the film time in nanoseconds.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// Returns the film time in seconds, for reports.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Returns the time from `earlier` to this point. Zero if `earlier` is later than this point.
    pub const fn since(self, earlier: Self) -> Duration {
        let span = self.0.saturating_sub(earlier.0);
        Duration::from_nanos(if span > 0 { span as u64 } else { 0 })
    }

    /// Adds a signed number of nanoseconds.
    #[must_use]
    pub const fn offset(self, nanos: i64) -> Self {
        Self(self.0.saturating_add(nanos))
    }
}

/// The stream of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stream {
    /// Pictures.
    Video,
    /// Audio.
    Audio,
}

/// The coding type of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PacketKind {
    /// A picture that does not depend on other pictures.
    I,
    /// A picture predicted from the previous reference picture.
    P,
    /// A picture predicted from the reference picture before it and the one after it.
    B,
    /// Audio.
    #[serde(rename = "A")]
    Audio,
}

/// The file format, which determines the source of the stream's clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Container {
    /// MP4 or MOV. The file contains no clock, so the demuxer advances its own clock in steps.
    Mp4,
    /// MPEG-TS. The file contains a clock (PCR), which is ahead of the picture times.
    MpegTs,
    /// Any other format, with the probe's name of it.
    Other(String),
}

impl From<String> for Container {
    fn from(name: String) -> Self {
        match name.as_str() {
            "mp4" => Self::Mp4,
            "mpegts" => Self::MpegTs,
            _ => Self::Other(name),
        }
    }
}

impl From<Container> for String {
    fn from(container: Container) -> Self {
        match container {
            Container::Mp4 => "mp4".into(),
            Container::MpegTs => "mpegts".into(),
            Container::Other(name) => name,
        }
    }
}

/// A packet of the file: a coded picture or a block of audio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The stream of the packet.
    pub stream: Stream,
    /// The coding type of the packet.
    pub kind: PacketKind,
    /// The offset in the file in bytes.
    pub position: u64,
    /// The coded size in bytes, without the overhead of the container.
    pub size: u32,
    /// Presentation time.
    pub pts: MediaTime,
    /// Decoding time.
    pub dts: MediaTime,
    /// Whether other pictures can be predicted from the packet.
    pub reference: bool,
}

impl Packet {
    /// Returns the position after the packet's last byte.
    pub const fn end(&self) -> u64 {
        self.position + self.size as u64
    }
}

/// A picture of the film.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Picture {
    /// The packet of the picture, as an index into [`Timeline::packets`].
    pub packet: u32,
    /// The rank in decoding order, from zero.
    pub decode_rank: u32,
    /// Presentation time.
    pub pts: MediaTime,
    /// The coding type of the picture.
    pub kind: PacketKind,
    /// The coded size in bytes.
    pub size: u32,
    /// The reference pictures of this picture, as indices into [`Timeline::pictures`].
    pub depends_on: [Option<u32>; 2],
}

/// The properties of a film except its packets.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Facts {
    pub(crate) name: String,
    pub(crate) container: Container,
    pub(crate) size_bytes: u64,
    pub(crate) duration: Duration,
    pub(crate) frame_rate: f64,
    pub(crate) width: u32,
    pub(crate) height: u32,
}

/// A film, built from a [`RecordedFilm`](crate::RecordedFilm) or a
/// [`SyntheticFilm`](crate::SyntheticFilm).
///
/// The constructors check that all packets are within the file and that at least one is a picture.
/// The packets are sorted by position.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeline {
    facts: Facts,
    packets: Vec<Packet>,
    pictures: Vec<Picture>,
    decode_order: Vec<u32>,
}

impl Timeline {
    /// Builds the film from checked packets: at least one picture, and all positions within the
    /// file.
    pub(crate) fn new(facts: Facts, mut packets: Vec<Packet>) -> Self {
        packets.sort_by_key(|packet| packet.position);
        let (pictures, decode_order) = arrange_pictures(&packets);
        Self { facts, packets, pictures, decode_order }
    }

    /// Returns the film's name.
    pub fn name(&self) -> &str {
        &self.facts.name
    }

    /// Returns the path that a player requests: the name of the film, percent-encoded for a request
    /// line.
    pub fn resource(&self) -> String {
        encoded_path(&self.facts.name)
    }

    /// Returns the file format.
    pub const fn container(&self) -> &Container {
        &self.facts.container
    }

    /// Returns the size of the file in bytes.
    pub const fn size_bytes(&self) -> u64 {
        self.facts.size_bytes
    }

    /// Returns the film's playing time.
    pub const fn duration(&self) -> Duration {
        self.facts.duration
    }

    /// Returns the number of pictures per second.
    pub const fn frame_rate(&self) -> f64 {
        self.facts.frame_rate
    }

    /// Returns the duration for which one picture is displayed.
    pub fn frame_period(&self) -> Duration {
        Duration::from_secs_f64(1.0 / self.facts.frame_rate)
    }

    /// Returns the width of a picture in pixels.
    pub const fn width(&self) -> u32 {
        self.facts.width
    }

    /// Returns the height of a picture in pixels.
    pub const fn height(&self) -> u32 {
        self.facts.height
    }

    /// Returns the mean bit rate of the whole file in bits per second.
    pub fn rate_bps(&self) -> f64 {
        self.facts.size_bytes as f64 * 8.0 / self.facts.duration.as_secs_f64()
    }

    /// Returns all packets in order of position.
    pub fn packets(&self) -> &[Packet] {
        &self.packets
    }

    /// Returns all pictures in display order.
    pub fn pictures(&self) -> &[Picture] {
        &self.pictures
    }

    /// Returns the pictures in decoding order, as indices into [`pictures`](Self::pictures).
    pub fn decode_order(&self) -> &[u32] {
        &self.decode_order
    }

    /// Returns the number of pictures that a decoder must hold back to reorder them for display
    /// (H.264: `max_num_reorder_frames`).
    ///
    /// This is the largest difference between a picture's decoding rank and its display rank.
    pub fn reorder_depth(&self) -> u32 {
        let behind = |(rank, picture): (usize, &Picture)| {
            picture.decode_rank.saturating_sub(u32::try_from(rank).unwrap_or(u32::MAX))
        };
        self.pictures.iter().enumerate().map(behind).max().unwrap_or(0)
    }

    /// Returns whether `picture` depends on picture `other`, directly or through other pictures.
    /// Both are indices into [`pictures`](Self::pictures).
    pub fn depends_on(&self, picture: u32, other: u32) -> bool {
        let mut open = vec![picture];
        let mut seen = std::collections::BTreeSet::new();
        while let Some(next) = open.pop() {
            let Some(entry) = self.pictures.get(next as usize) else {
                continue;
            };
            for reference in entry.depends_on.into_iter().flatten() {
                if reference == other {
                    return true;
                }
                if seen.insert(reference) {
                    open.push(reference);
                }
            }
        }
        false
    }
}

/// The largest number of reference pictures that a decoder stores (H.264 table A-1, decoded picture
/// buffer).
const REFERENCES_HELD: usize = 16;

/// Ranks the pictures by presentation time and determines the references of each.
///
/// Only the bit stream contains the references that the encoder used, so the usual choice is
/// assumed. A P picture uses the previous I or P picture in decoding order. A B picture uses the
/// nearest reference before it and the nearest one after it, in display order. Both must precede
/// the picture in decoding order.
fn arrange_pictures(packets: &[Packet]) -> (Vec<Picture>, Vec<u32>) {
    let decoded: Vec<(u32, &Packet)> =
        (0u32..).zip(packets).filter(|(_, packet)| packet.stream == Stream::Video).collect();
    let mut by_display: Vec<u32> = (0u32..).take(decoded.len()).collect();
    by_display.sort_by_key(|&rank| decoded[rank as usize].1.pts);
    let mut display_rank = vec![0u32; decoded.len()];
    for (display, &decode) in (0u32..).zip(&by_display) {
        display_rank[decode as usize] = display;
    }
    let references = find_references(&decoded, &display_rank);
    let pictures = by_display
        .iter()
        .map(|&decode| {
            let (index, packet) = decoded[decode as usize];
            Picture {
                packet: index,
                decode_rank: decode,
                pts: packet.pts,
                kind: packet.kind,
                size: packet.size,
                depends_on: references[decode as usize],
            }
        })
        .collect();
    (pictures, display_rank)
}

fn find_references(decoded: &[(u32, &Packet)], display_rank: &[u32]) -> Vec<[Option<u32>; 2]> {
    let mut held: Vec<u32> = Vec::new();
    let mut anchor = None;
    let mut found = Vec::with_capacity(decoded.len());
    for (&(_, packet), &own) in decoded.iter().zip(display_rank) {
        found.push(match packet.kind {
            PacketKind::I | PacketKind::Audio => [None, None],
            PacketKind::P => [anchor, None],
            PacketKind::B => [
                held.iter().copied().filter(|&other| other < own).max(),
                held.iter().copied().filter(|&other| other > own).min(),
            ],
        });
        if packet.reference {
            if matches!(packet.kind, PacketKind::I | PacketKind::P) {
                anchor = Some(own);
            }
            if held.len() == REFERENCES_HELD {
                held.remove(0);
            }
            held.push(own);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(position: u64, kind: PacketKind, pts: i64, dts: i64, reference: bool) -> Packet {
        Packet {
            stream: Stream::Video,
            kind,
            position,
            size: 10,
            pts: MediaTime(pts),
            dts: MediaTime(dts),
            reference,
        }
    }

    fn facts() -> Facts {
        Facts {
            name: "test".into(),
            container: Container::Mp4,
            size_bytes: 1_000,
            duration: Duration::from_secs(1),
            frame_rate: 30.0,
            width: 64,
            height: 48,
        }
    }

    #[test]
    fn predicted_pictures_depend_on_the_references_around_them() {
        use PacketKind::{B, I, P};
        let film = Timeline::new(
            facts(),
            vec![
                picture(0, I, 0, -1, true),
                picture(10, P, 3, 0, true),
                picture(20, B, 1, 1, false),
                picture(30, B, 2, 2, false),
                picture(40, P, 6, 3, true),
                picture(50, B, 4, 4, false),
                picture(60, B, 5, 5, false),
                picture(70, I, 7, 6, true),
                picture(80, P, 8, 7, true),
            ],
        );
        let kinds: Vec<PacketKind> = film.pictures().iter().map(|picture| picture.kind).collect();
        assert_eq!(kinds, [I, B, B, P, B, B, P, I, P]);
        assert_eq!(film.decode_order(), [0, 3, 1, 2, 6, 4, 5, 7, 8]);
        let depends: Vec<_> = film.pictures().iter().map(|picture| picture.depends_on).collect();
        assert_eq!(depends[1], [Some(0), Some(3)]);
        assert_eq!(depends[3], [Some(0), None]);
        assert_eq!(depends[5], [Some(3), Some(6)]);
        assert_eq!(depends[7], [None, None]);
        assert_eq!(film.reorder_depth(), 1);
        assert!(film.depends_on(5, 0), "a B picture depends on the whole chain of references");
        assert!(!film.depends_on(8, 6), "an I picture ends the chain");
        assert!(
            !film.depends_on(6, 5),
            "no picture depends on a B picture that is not a reference"
        );
    }

    #[test]
    fn packets_are_sorted_by_position() {
        let film = Timeline::new(
            facts(),
            vec![picture(50, PacketKind::P, 1, 1, true), picture(0, PacketKind::I, 0, 0, true)],
        );
        assert_eq!(film.packets()[0].kind, PacketKind::I);
        assert_eq!(film.pictures()[1].depends_on, [Some(0), None]);
    }
}
