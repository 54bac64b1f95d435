//! Capture files: pcap and pcapng, plain or compressed with gzip.

use std::io::{BufReader, Chain, Cursor, Read};

use flate2::read::MultiGzDecoder;
use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::PcapNgReader;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use pcap_file::{Endianness, PcapError, TsResolution};

/// The first four bytes of a pcapng file: the type of its section header block.
const PCAPNG_MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
/// The first two bytes of a gzip file (RFC 1952 section 2.3.1).
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// pcap's magic numbers in both byte orders, with microseconds and with nanoseconds.
const PCAP_MAGICS: [u32; 4] = [0xa1b2_c3d4, 0xd4c3_b2a1, 0xa1b2_3c4d, 0x4d3c_b2a1];

const ENHANCED_PACKET: u32 = 6;
const SIMPLE_PACKET: u32 = 3;
const OBSOLETE_PACKET: u32 = 2;

/// The reason why a file gives no more frames.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file does not begin like a capture.
    #[error("not a pcap or pcapng file: it begins with {0}")]
    NotACapture(String),
    /// The file is empty.
    #[error("the file is empty")]
    Empty,
    /// The file ends in the middle of a record.
    #[error("the file ends in the middle of a record")]
    Cut,
    /// A part of the file is not valid.
    #[error("the file is damaged: {0}")]
    Damaged(String),
    /// The file cannot be read.
    #[error("{0}")]
    Read(std::io::Error),
}

impl From<PcapError> for FileError {
    fn from(error: PcapError) -> Self {
        match error {
            PcapError::IoError(error) => error.into(),
            PcapError::IncompleteBuffer => Self::Cut,
            other => Self::Damaged(other.to_string()),
        }
    }
}

impl From<std::io::Error> for FileError {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::UnexpectedEof => Self::Cut,
            // The decoder of gzip reports wrong bytes with these kinds.
            std::io::ErrorKind::InvalidInput | std::io::ErrorKind::InvalidData => {
                Self::Damaged(error.to_string())
            }
            _ => Self::Read(error),
        }
    }
}

/// A captured frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Time of the capture in nanoseconds since 1970, or `None` if the file has none.
    pub time_ns: Option<i64>,
    /// The link type, as registered for pcap (`LINKTYPE_...`).
    pub link_type: u32,
    /// Length on the wire in bytes.
    pub original_len: u32,
    /// The captured bytes.
    pub data: &'a [u8],
}

/// The source of a file's bytes, with the first four again, which were read to recognise the format.
type Source = Chain<Cursor<Vec<u8>>, Box<dyn Read + Send>>;

enum Format {
    Pcap(PcapReader<Source>),
    Pcapng(PcapNgReader<Source>),
}

/// A reader of the frames of one capture file, in the order of the file.
pub struct Frames {
    format: Format,
    /// The bytes of the present frame's block, which the readers of pcapng cannot lend for long.
    block: Vec<u8>,
}

/// Reads up to four bytes, and returns them with a source that begins with them again.
fn look_ahead(mut input: Box<dyn Read + Send>) -> Result<([u8; 4], Source), FileError> {
    let mut start = Vec::with_capacity(4);
    input.by_ref().take(4).read_to_end(&mut start)?;
    if start.is_empty() {
        return Err(FileError::Empty);
    }
    let mut magic = [0; 4];
    magic[..start.len()].copy_from_slice(&start);
    Ok((magic, Cursor::new(start).chain(input)))
}

impl Frames {
    /// Opens a capture. Its first bytes decide the format; the name of the file does not.
    ///
    /// # Errors
    ///
    /// Reports a file that is empty, is no capture, or cannot be read.
    pub fn open(input: impl Read + Send + 'static) -> Result<Self, FileError> {
        let (magic, source) = look_ahead(Box::new(input))?;
        let plain: Box<dyn Read + Send> = if magic[..2] == GZIP_MAGIC {
            Box::new(MultiGzDecoder::new(BufReader::new(source)))
        } else {
            Box::new(source)
        };
        let (magic, source) = look_ahead(plain)?;
        let format = if magic == PCAPNG_MAGIC {
            Format::Pcapng(PcapNgReader::new(source)?)
        } else if PCAP_MAGICS.contains(&u32::from_be_bytes(magic)) {
            Format::Pcap(PcapReader::new(source)?)
        } else {
            let start: Vec<_> = magic.iter().map(|byte| format!("{byte:02x}")).collect();
            return Err(FileError::NotACapture(start.join(" ")));
        };
        Ok(Self { format, block: Vec::new() })
    }

    /// Returns the next frame, or `None` at the end of the file.
    ///
    /// # Errors
    ///
    /// Reports a damaged or cut file. After this no frame can be read.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, FileError> {
        match &mut self.format {
            Format::Pcap(reader) => {
                let header = reader.header();
                let Some(packet) = reader.next_raw_packet() else { return Ok(None) };
                let packet = packet?;
                let unit = match header.ts_resolution {
                    TsResolution::MicroSecond => 1_000,
                    TsResolution::NanoSecond => 1,
                };
                self.block.clear();
                self.block.extend_from_slice(&packet.data);
                Ok(Some(Frame {
                    time_ns: Some(
                        i64::from(packet.ts_sec) * 1_000_000_000 + i64::from(packet.ts_frac) * unit,
                    ),
                    // The upper bits hold the length of a frame check sequence.
                    link_type: u32::from(header.datalink) & 0xffff,
                    original_len: packet.orig_len,
                    data: &self.block,
                }))
            }
            Format::Pcapng(reader) => next_pcapng(reader, &mut self.block),
        }
    }
}

/// The units of an interface's times: `numerator / denominator` nanoseconds, and an offset.
struct TimeUnit {
    numerator: u128,
    denominator: u128,
    offset_s: i64,
}

impl TimeUnit {
    /// Reads `if_tsresol` and `if_tsoffset`; without them, times are in microseconds.
    fn of(options: &[InterfaceDescriptionOption<'_>]) -> Self {
        let mut unit = Self { numerator: 1_000, denominator: 1, offset_s: 0 };
        for option in options {
            match option {
                InterfaceDescriptionOption::IfTsResol(resolution) => {
                    let exponent = u32::from(resolution & 0x7f);
                    unit.numerator = 1_000_000_000;
                    unit.denominator = if resolution & 0x80 == 0 {
                        10u128.checked_pow(exponent).unwrap_or(u128::MAX)
                    } else {
                        2u128.checked_pow(exponent).unwrap_or(u128::MAX)
                    };
                }
                InterfaceDescriptionOption::IfTsOffset(seconds) => unit.offset_s = *seconds as i64,
                _ => {}
            }
        }
        unit
    }

    fn nanoseconds(&self, ticks: u64) -> i64 {
        let nanoseconds = u128::from(ticks) * self.numerator / self.denominator;
        i64::try_from(nanoseconds)
            .unwrap_or(i64::MAX)
            .saturating_add(self.offset_s.saturating_mul(1_000_000_000))
    }
}

/// Where a packet block's fields are.
struct PacketBlock {
    interface: u32,
    ticks: Option<u64>,
    captured: usize,
    original_len: u32,
    /// Offset of the packet's bytes in the body.
    start: usize,
}

/// Reads the fixed part of a block with a packet. `body` has no type and length fields.
fn packet_block(type_: u32, body: &[u8], endianness: Endianness) -> Option<PacketBlock> {
    let word = |at: usize| -> Option<u32> {
        let bytes = *body.get(at..)?.first_chunk()?;
        Some(match endianness {
            Endianness::Big => u32::from_be_bytes(bytes),
            Endianness::Little => u32::from_le_bytes(bytes),
        })
    };
    if type_ == SIMPLE_PACKET {
        let original_len = word(0)?;
        let captured = (original_len as usize).min(body.len() - 4);
        return Some(PacketBlock { interface: 0, ticks: None, captured, original_len, start: 4 });
    }
    let interface = if type_ == OBSOLETE_PACKET {
        // Two 16-bit fields: the interface, and a count of dropped packets.
        match endianness {
            Endianness::Big => word(0)? >> 16,
            Endianness::Little => word(0)? & 0xffff,
        }
    } else {
        word(0)?
    };
    Some(PacketBlock {
        interface,
        ticks: Some(u64::from(word(4)?) << 32 | u64::from(word(8)?)),
        captured: word(12)? as usize,
        original_len: word(16)?,
        start: 20,
    })
}

/// Returns the next packet of a pcapng file; its bytes are in `buffer`. Blocks of other kinds are skipped.
fn next_pcapng<'a>(
    reader: &mut PcapNgReader<Source>,
    buffer: &'a mut Vec<u8>,
) -> Result<Option<Frame<'a>>, FileError> {
    loop {
        let Some(block) = reader.next_raw_block() else { return Ok(None) };
        let block = block?;
        let type_ = block.type_;
        if !matches!(type_, ENHANCED_PACKET | SIMPLE_PACKET | OBSOLETE_PACKET) {
            continue;
        }
        buffer.clear();
        buffer.extend_from_slice(&block.body);
        let damaged = |what: &str| FileError::Damaged(format!("{what} in a packet block"));
        let packet = packet_block(type_, buffer, reader.section().endianness)
            .ok_or_else(|| damaged("too few bytes"))?;
        let interface = reader
            .interfaces()
            .get(packet.interface as usize)
            .ok_or_else(|| damaged("an interface that was not described"))?;
        let end = packet.start.saturating_add(packet.captured);
        return Ok(Some(Frame {
            time_ns: packet.ticks.map(|ticks| TimeUnit::of(&interface.options).nanoseconds(ticks)),
            link_type: u32::from(interface.linktype) & 0xffff,
            original_len: packet.original_len,
            data: buffer.get(packet.start..end).ok_or_else(|| damaged("too few bytes"))?,
        }));
    }
}
