//! A film as packets in file order, its pictures in display order, and what each depends on.

use crate::http::encoded_path;
use anabranch_units::Duration;
use serde::{Deserialize, Serialize};

/// A point in a film's own time: signed, because the first audio of an MP4 lies before zero and an
/// MPEG-TS may begin anywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MediaTime(i64);

impl MediaTime {
    /// The point `nanos` nanoseconds after the film's zero.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds after the film's zero.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// Seconds after the film's zero, for reports.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The span from `earlier` to this point; zero when `earlier` lies ahead.
    pub const fn since(self, earlier: Self) -> Duration {
        let span = self.0.saturating_sub(earlier.0);
        Duration::from_nanos(if span > 0 { span as u64 } else { 0 })
    }

    /// This point moved by a signed number of nanoseconds.
    #[must_use]
    pub const fn offset(self, nanos: i64) -> Self {
        Self(self.0.saturating_add(nanos))
    }
}

/// What a packet belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stream {
    /// The picture track.
    Video,
    /// The sound track.
    Audio,
}

/// How a packet is coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PacketKind {
    /// A picture that depends on no other.
    I,
    /// A picture predicted from the reference before it.
    P,
    /// A picture predicted from the references on both sides of it.
    B,
    /// Sound.
    #[serde(rename = "A")]
    Audio,
}

/// The file format: it decides where the stream's clock comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Container {
    /// MP4 or MOV: no clock in the file, the demuxer advances its own in steps.
    Mp4,
    /// MPEG-TS: the file carries a clock (PCR) that runs ahead of the pictures.
    MpegTs,
    /// Any other, under the name that the probe gave it.
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

/// One packet of the file: a coded picture or a piece of sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The track.
    pub stream: Stream,
    /// How it is coded.
    pub kind: PacketKind,
    /// Where it begins in the file, in bytes.
    pub position: u64,
    /// Coded size in bytes, without the container's own overhead.
    pub size: u32,
    /// When it is presented.
    pub pts: MediaTime,
    /// When it is decoded.
    pub dts: MediaTime,
    /// Whether other pictures may be predicted from it.
    pub reference: bool,
}

impl Packet {
    /// The position just behind the packet's own bytes.
    pub const fn end(&self) -> u64 {
        self.position + self.size as u64
    }
}

/// One picture of the film.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Its packet, as an index into [`Timeline::packets`].
    pub packet: u32,
    /// Its rank in decoding order, from zero.
    pub decode_rank: u32,
    /// When it is presented.
    pub pts: MediaTime,
    /// How it is coded.
    pub kind: PacketKind,
    /// Coded size in bytes.
    pub size: u32,
    /// The pictures that it is predicted from, as indices into [`Timeline::pictures`].
    pub depends_on: [Option<u32>; 2],
}

/// What a film is, apart from its packets.
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

/// A film. Made from a [`RecordedFilm`](crate::RecordedFilm) or a
/// [`SyntheticFilm`](crate::SyntheticFilm), and valid by construction: packets lie in the file, in
/// order of position, and at least one is a picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeline {
    facts: Facts,
    packets: Vec<Packet>,
    pictures: Vec<Picture>,
    decode_order: Vec<u32>,
}

impl Timeline {
    /// Arranges validated packets: at least one picture, positions within the file.
    pub(crate) fn new(facts: Facts, mut packets: Vec<Packet>) -> Self {
        packets.sort_by_key(|packet| packet.position);
        let (pictures, decode_order) = arrange_pictures(&packets);
        Self { facts, packets, pictures, decode_order }
    }

    /// The film's name.
    pub fn name(&self) -> &str {
        &self.facts.name
    }

    /// The resource that a player asks for: the film's name as a request line has it.
    pub fn resource(&self) -> String {
        encoded_path(&self.facts.name)
    }

    /// The file format.
    pub const fn container(&self) -> &Container {
        &self.facts.container
    }

    /// The whole file in bytes.
    pub const fn size_bytes(&self) -> u64 {
        self.facts.size_bytes
    }

    /// How long the film plays.
    pub const fn duration(&self) -> Duration {
        self.facts.duration
    }

    /// Pictures a second.
    pub const fn frame_rate(&self) -> f64 {
        self.facts.frame_rate
    }

    /// How long one picture stands.
    pub fn frame_period(&self) -> Duration {
        Duration::from_secs_f64(1.0 / self.facts.frame_rate)
    }

    /// Width of a picture in pixels.
    pub const fn width(&self) -> u32 {
        self.facts.width
    }

    /// Height of a picture in pixels.
    pub const fn height(&self) -> u32 {
        self.facts.height
    }

    /// The mean bit rate of the whole file, in bits per second.
    pub fn rate_bps(&self) -> f64 {
        self.facts.size_bytes as f64 * 8.0 / self.facts.duration.as_secs_f64()
    }

    /// All packets in order of position.
    pub fn packets(&self) -> &[Packet] {
        &self.packets
    }

    /// All pictures in display order.
    pub fn pictures(&self) -> &[Picture] {
        &self.pictures
    }

    /// The pictures in decoding order, as indices into [`pictures`](Self::pictures).
    pub fn decode_order(&self) -> &[u32] {
        &self.decode_order
    }

    /// How many pictures a decoder must hold back to put them into display order (what H.264 calls
    /// `max_num_reorder_frames`): the furthest that a picture is decoded behind its display rank.
    pub fn reorder_depth(&self) -> u32 {
        let behind = |(rank, picture): (usize, &Picture)| {
            picture.decode_rank.saturating_sub(u32::try_from(rank).unwrap_or(u32::MAX))
        };
        self.pictures.iter().enumerate().map(behind).max().unwrap_or(0)
    }

    /// Whether this picture is predicted, directly or through others, from `other` (both as indices
    /// into [`pictures`](Self::pictures)).
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

/// The most references that a coder may hold (H.264 table A-1: the decoded picture buffer's limit).
const REFERENCES_HELD: usize = 16;

/// Ranks the pictures by presentation time and finds what each is predicted from.
///
/// Which references a coder used is known only to the bit stream. We take the usual choice: a P
/// picture uses the I or P picture before it in decoding order; a B picture the nearest reference
/// before and the nearest after it in display order, of those already decoded.
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
        assert!(film.depends_on(5, 0), "a B picture hangs on the chain of references");
        assert!(!film.depends_on(8, 6), "an I picture ends the chain");
        assert!(
            !film.depends_on(6, 5),
            "nothing is predicted from a B picture that is no reference"
        );
    }

    #[test]
    fn packets_are_put_in_order_of_position() {
        let film = Timeline::new(
            facts(),
            vec![picture(50, PacketKind::P, 1, 1, true), picture(0, PacketKind::I, 0, 0, true)],
        );
        assert_eq!(film.packets()[0].kind, PacketKind::I);
        assert_eq!(film.pictures()[1].depends_on, [Some(0), None]);
    }
}
