//! Capture files: pcap and pcapng, plain or compressed with gzip.

use std::io::{BufReader, Cursor, Read};

use flate2::read::MultiGzDecoder;
use pcap_file::TsResolution;
use pcap_file::pcap::PcapReader;

use crate::frame::{FileError, Frame, Source};
use crate::pcapng::{MAGIC as PCAPNG_MAGIC, Pcapng};

/// The first two bytes of a gzip file (RFC 1952 section 2.3.1).
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// pcap's magic numbers in both byte orders, with microseconds and with nanoseconds.
const PCAP_MAGICS: [u32; 4] = [0xa1b2_c3d4, 0xd4c3_b2a1, 0xa1b2_3c4d, 0x4d3c_b2a1];

enum Format {
    Pcap(PcapReader<Source>),
    Pcapng(Pcapng),
}

/// A reader of the frames of one capture file, in the order of the file.
pub struct Frames {
    format: Format,
    /// The bytes of the present frame.
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
            Format::Pcapng(Pcapng::new(source)?)
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
            Format::Pcapng(reader) => reader.next_frame(&mut self.block),
        }
    }
}
