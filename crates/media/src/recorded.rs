//! A film as recorded by a probe, in columns, and its conversion to a [`Timeline`].

use crate::timeline::{Container, Facts, MediaTime, Packet, PacketKind, Stream, Timeline};
use anabranch_units::Duration;
use serde::{Deserialize, Serialize};

/// A film as recorded by a probe. The packets are columns, with rows in the probe's order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedFilm {
    /// The name of the film. A player requests it percent-encoded.
    pub name: String,
    /// The file format.
    pub container: Container,
    /// The size of the file in bytes.
    pub size_bytes: i64,
    /// The playing time in nanoseconds.
    pub duration_ns: i64,
    /// Pictures per second.
    pub frame_rate: f64,
    /// Width of a picture in pixels.
    pub width: u32,
    /// Height of a picture in pixels.
    pub height: u32,
    /// The packets.
    pub packets: RecordedPackets,
}

/// The columns of the packets, all of the same length.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedPackets {
    /// The stream of each packet.
    pub stream: Vec<Stream>,
    /// The offset of each packet in the file. Absent if the packet shares a transport unit with the
    /// previous packet of its stream. For example, an MPEG-TS packs several AAC packets into one
    /// PES packet.
    pub position: Vec<Option<i64>>,
    /// The size of each packet in bytes.
    pub size: Vec<i64>,
    /// The presentation time of each packet in nanoseconds.
    pub pts_ns: Vec<i64>,
    /// The decoding time of each packet in nanoseconds.
    pub dts_ns: Vec<i64>,
    /// The coding type of each packet.
    pub kind: Vec<PacketKind>,
    /// Whether other packets are predicted from this one.
    pub reference: Vec<bool>,
}

/// The reason why a recorded film is not valid.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordedFilmError {
    /// A packet ends after the end of the file.
    #[error("packet {packet} ends at byte {end}, but the file has {size_bytes} bytes")]
    BeyondFile {
        /// The row of the packet.
        packet: usize,
        /// The end of the packet.
        end: u64,
        /// The size of the file.
        size_bytes: u64,
    },
    /// The duration is not positive, or longer than 11.5 days.
    #[error("a film cannot have a duration of {0} ns")]
    Duration(i64),
    /// The frame rate is not a positive number up to 1,000.
    #[error("a film cannot have {0} pictures per second")]
    FrameRate(f64),
    /// A video packet is marked as audio, or an audio packet as a picture.
    #[error("packet {packet} is in the {stream:?} stream, but of kind {kind:?}")]
    KindOfOtherTrack {
        /// The row of the packet.
        packet: usize,
        /// The stream of the packet.
        stream: Stream,
        /// The coding type of the packet.
        kind: PacketKind,
    },
    /// Two columns have different lengths.
    #[error("column {column} has {found} rows, but column stream has {expected}")]
    LengthsDiffer {
        /// The name of the column.
        column: &'static str,
        /// The number of rows of column `stream`.
        expected: usize,
        /// The number of rows of this column.
        found: usize,
    },
    /// No packet is a picture.
    #[error("the film has no video")]
    NoVideo,
    /// A position is negative, or is missing for the first packet of a stream.
    #[error("packet {packet} has no position in the file")]
    Position {
        /// The row of the packet.
        packet: usize,
    },
    /// A packet's size is negative or does not fit 32 bits.
    #[error("packet {packet} cannot have {size} bytes")]
    Size {
        /// The row of the packet.
        packet: usize,
        /// The size of the packet.
        size: i64,
    },
    /// The file's size is not positive.
    #[error("a file cannot have {0} bytes")]
    SizeOfFile(i64),
    /// A time stamp of a packet is more than 11.5 days from the start of the film.
    #[error("packet {packet} has the time stamp {time_ns} ns, too far from the film's start")]
    Time {
        /// The row of the packet.
        packet: usize,
        /// The time stamp.
        time_ns: i64,
    },
    /// The number of packets does not fit 32 bits.
    #[error("a film cannot have {0} packets")]
    TooManyPackets(usize),
}

/// The largest time stamp in nanoseconds, 11.5 days. It is longer than any film, and sums do not
/// overflow.
const TIME_NS_MAX: i64 = 1_000_000_000_000_000;

impl TryFrom<&RecordedFilm> for Timeline {
    type Error = RecordedFilmError;

    fn try_from(film: &RecordedFilm) -> Result<Self, RecordedFilmError> {
        let size_bytes = u64::try_from(film.size_bytes)
            .ok()
            .filter(|&size| size > 0)
            .ok_or(RecordedFilmError::SizeOfFile(film.size_bytes))?;
        if !(1..=TIME_NS_MAX).contains(&film.duration_ns) {
            return Err(RecordedFilmError::Duration(film.duration_ns));
        }
        if !(film.frame_rate > 0.0 && film.frame_rate <= 1_000.0) {
            return Err(RecordedFilmError::FrameRate(film.frame_rate));
        }
        check_lengths(&film.packets)?;
        let packets = read_packets(&film.packets, size_bytes)?;
        if !packets.iter().any(|packet| packet.stream == Stream::Video) {
            return Err(RecordedFilmError::NoVideo);
        }
        let facts = Facts {
            name: film.name.clone(),
            container: film.container.clone(),
            size_bytes,
            duration: Duration::from_nanos(film.duration_ns.unsigned_abs()),
            frame_rate: film.frame_rate,
            width: film.width,
            height: film.height,
        };
        Ok(Self::new(facts, packets))
    }
}

fn check_lengths(packets: &RecordedPackets) -> Result<(), RecordedFilmError> {
    let expected = packets.stream.len();
    if u32::try_from(expected).is_err() {
        return Err(RecordedFilmError::TooManyPackets(expected));
    }
    for (column, found) in [
        ("position", packets.position.len()),
        ("size", packets.size.len()),
        ("pts_ns", packets.pts_ns.len()),
        ("dts_ns", packets.dts_ns.len()),
        ("kind", packets.kind.len()),
        ("reference", packets.reference.len()),
    ] {
        if found != expected {
            return Err(RecordedFilmError::LengthsDiffer { column, expected, found });
        }
    }
    Ok(())
}

fn read_packets(
    columns: &RecordedPackets,
    size_bytes: u64,
) -> Result<Vec<Packet>, RecordedFilmError> {
    let mut last_position = [None; 2];
    let mut packets = Vec::with_capacity(columns.stream.len());
    for row in 0..columns.stream.len() {
        let stream = columns.stream[row];
        let last = &mut last_position[usize::from(stream == Stream::Audio)];
        let known = match columns.position[row] {
            Some(position) => u64::try_from(position).ok(),
            None => *last,
        };
        let position = known.ok_or(RecordedFilmError::Position { packet: row })?;
        *last = Some(position);
        let packet = Packet { position, ..read_packet(columns, row)? };
        // A packet without a recorded position has the position of an earlier packet. Its end is
        // not known.
        let placed = columns.position[row].is_some();
        let end = position.saturating_add(u64::from(packet.size));
        if (placed && end > size_bytes) || position >= size_bytes {
            return Err(RecordedFilmError::BeyondFile { packet: row, end, size_bytes });
        }
        packets.push(packet);
    }
    Ok(packets)
}

/// Reads the packet in a row, without its position.
fn read_packet(columns: &RecordedPackets, row: usize) -> Result<Packet, RecordedFilmError> {
    let (stream, kind) = (columns.stream[row], columns.kind[row]);
    if (kind == PacketKind::Audio) != (stream == Stream::Audio) {
        return Err(RecordedFilmError::KindOfOtherTrack { packet: row, stream, kind });
    }
    for time_ns in [columns.pts_ns[row], columns.dts_ns[row]] {
        if time_ns.unsigned_abs() > TIME_NS_MAX.unsigned_abs() {
            return Err(RecordedFilmError::Time { packet: row, time_ns });
        }
    }
    Ok(Packet {
        stream,
        kind,
        position: 0,
        size: u32::try_from(columns.size[row])
            .map_err(|_| RecordedFilmError::Size { packet: row, size: columns.size[row] })?,
        pts: MediaTime::from_nanos(columns.pts_ns[row]),
        dts: MediaTime::from_nanos(columns.dts_ns[row]),
        reference: columns.reference[row],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn film() -> RecordedFilm {
        RecordedFilm {
            name: "two pictures".into(),
            container: Container::Mp4,
            size_bytes: 1_000,
            duration_ns: 80_000_000,
            frame_rate: 25.0,
            width: 64,
            height: 48,
            packets: RecordedPackets {
                stream: vec![Stream::Video, Stream::Audio, Stream::Video],
                position: vec![Some(100), Some(600), Some(700)],
                size: vec![500, 100, 300],
                pts_ns: vec![0, -21_333_333, 40_000_000],
                dts_ns: vec![0, -21_333_333, 40_000_000],
                kind: vec![PacketKind::I, PacketKind::Audio, PacketKind::P],
                reference: vec![true, false, true],
            },
        }
    }

    fn refused(change: impl FnOnce(&mut RecordedFilm)) -> RecordedFilmError {
        let mut film = film();
        change(&mut film);
        Timeline::try_from(&film).unwrap_err()
    }

    #[test]
    fn a_valid_film_is_accepted() {
        let timeline = Timeline::try_from(&film()).unwrap();
        assert_eq!(timeline.packets().len(), 3);
        assert_eq!(timeline.pictures().len(), 2);
        assert_eq!(timeline.pictures()[1].depends_on, [Some(0), None]);
    }

    #[test]
    fn each_fault_has_its_error() {
        use RecordedFilmError as Error;
        assert_eq!(refused(|f| f.size_bytes = 0), Error::SizeOfFile(0));
        assert_eq!(refused(|f| f.duration_ns = -1), Error::Duration(-1));
        assert!(matches!(refused(|f| f.frame_rate = f64::NAN), Error::FrameRate(_)));
        assert_eq!(
            refused(|f| f.packets.size.truncate(2)),
            Error::LengthsDiffer { column: "size", expected: 3, found: 2 }
        );
        assert_eq!(refused(|f| f.packets.size[0] = -5), Error::Size { packet: 0, size: -5 });
        assert_eq!(refused(|f| f.packets.position[0] = Some(-1)), Error::Position { packet: 0 });
        assert_eq!(refused(|f| f.packets.position[1] = None), Error::Position { packet: 1 });
        assert_eq!(
            refused(|f| f.packets.size[2] = 301),
            Error::BeyondFile { packet: 2, end: 1_001, size_bytes: 1_000 }
        );
        assert!(matches!(
            refused(|f| f.packets.kind[1] = PacketKind::B),
            Error::KindOfOtherTrack { packet: 1, .. }
        ));
        assert!(matches!(
            refused(|f| f.packets.pts_ns[1] = i64::MIN),
            Error::Time { packet: 1, .. }
        ));
        assert_eq!(
            refused(|f| {
                f.packets.stream = vec![Stream::Audio; 3];
                f.packets.kind = vec![PacketKind::Audio; 3];
            }),
            Error::NoVideo
        );
    }

    #[test]
    fn a_packet_without_a_position_shares_that_of_its_stream() {
        let mut film = film();
        film.packets.stream[2] = Stream::Audio;
        film.packets.kind[2] = PacketKind::Audio;
        film.packets.position[2] = None;
        let timeline = Timeline::try_from(&film).unwrap();
        assert_eq!(timeline.packets()[2].position, 600);
    }

    #[test]
    fn the_plan_names_its_columns() {
        let json = serde_json::to_value(film()).unwrap();
        assert_eq!(json["container"], "mp4");
        assert_eq!(json["packets"]["stream"][1], "audio");
        assert_eq!(json["packets"]["kind"][1], "A");
        let back: RecordedFilm = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(back, film());
        let mut odd = json;
        odd["surprise"] = 1.into();
        assert!(serde_json::from_value::<RecordedFilm>(odd).is_err());
    }
}
