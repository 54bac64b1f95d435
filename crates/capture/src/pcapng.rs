//! Blocks of pcapng files (draft-ietf-opsawg-pcapng).
//!
//! The library that this program writes pcapng with refuses files that the draft allows, such as options without an end
//! mark, so the few blocks that matter are read here.

use std::io::{BufReader, Read};

use crate::frame::{FileError, Frame, Source};

/// The first four bytes of a file: the type of a section header block, the same in both byte orders.
pub(crate) const MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
/// The byte-order magic of a section header block.
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// The longest block that is read in bytes. A packet has at most some 512 KiB (BIG TCP).
const MOST_BLOCK: u32 = 16 << 20;
/// The most interfaces of a section.
const MOST_INTERFACES: usize = 65_536;

mod block {
    pub(super) const SECTION_HEADER: u32 = 0x0a0d_0d0a;
    pub(super) const INTERFACE: u32 = 1;
    pub(super) const OBSOLETE_PACKET: u32 = 2;
    pub(super) const SIMPLE_PACKET: u32 = 3;
    pub(super) const ENHANCED_PACKET: u32 = 6;
}

mod option {
    pub(super) const END: u16 = 0;
    pub(super) const TIME_RESOLUTION: u16 = 9;
    pub(super) const TIME_OFFSET: u16 = 14;
}

/// A reader of the packets of a pcapng file.
pub(crate) struct Pcapng {
    source: BufReader<Source>,
    is_big_endian: bool,
    interfaces: Vec<Interface>,
}

/// An interface of the present section.
struct Interface {
    link_type: u32,
    /// A unit of time is `numerator / denominator` nanoseconds.
    numerator: u128,
    denominator: u128,
    offset_s: i64,
}

/// The position of a packet in its block's body.
struct Packet {
    interface: u32,
    ticks: Option<u64>,
    captured: usize,
    original_len: u32,
    start: usize,
}

impl Pcapng {
    /// Begins with a file whose first four bytes are [`MAGIC`].
    pub(crate) fn new(source: Source) -> Result<Self, FileError> {
        let source = BufReader::new(source);
        let mut reader = Self { source, is_big_endian: false, interfaces: Vec::new() };
        match reader.next_block(&mut Vec::new())? {
            Some(block::SECTION_HEADER) => Ok(reader),
            _ => Err(damaged("no section header")),
        }
    }

    /// Returns the next packet; its block is in `body`. Blocks of other kinds are skipped.
    pub(crate) fn next_frame<'a>(
        &mut self,
        body: &'a mut Vec<u8>,
    ) -> Result<Option<Frame<'a>>, FileError> {
        loop {
            let Some(type_) = self.next_block(body)? else { return Ok(None) };
            if !matches!(
                type_,
                block::ENHANCED_PACKET | block::SIMPLE_PACKET | block::OBSOLETE_PACKET
            ) {
                continue;
            }
            let packet = self.packet(type_, body).ok_or_else(|| damaged("a short packet block"))?;
            let interface = self
                .interfaces
                .get(packet.interface as usize)
                .ok_or_else(|| damaged("a packet of an interface that is not described"))?;
            let end = packet.start.saturating_add(packet.captured);
            return Ok(Some(Frame {
                time_ns: packet.ticks.map(|ticks| interface.nanoseconds(ticks)),
                link_type: interface.link_type,
                original_len: packet.original_len,
                data: body.get(packet.start..end).ok_or_else(|| damaged("a short packet block"))?,
            }));
        }
    }

    /// Reads the next block into `body`, without its type and lengths, and returns its type. Section headers and
    /// interfaces take effect.
    fn next_block(&mut self, body: &mut Vec<u8>) -> Result<Option<u32>, FileError> {
        let mut start = [0; 8];
        match read_some(&mut self.source, &mut start)? {
            0 => return Ok(None),
            8 => {}
            _ => return Err(FileError::Cut),
        }
        body.clear();
        if start[..4] == MAGIC {
            self.begin_section(body)?;
        }
        let [type_, len] = [0, 4].map(|at| self.u32_at(&start, at).unwrap_or(0));
        if len > MOST_BLOCK {
            return Err(FileError::TooLong(u64::from(len)));
        }
        // Type, both lengths, and what of the body was read already.
        let read = 12 + body.len();
        let Some(rest) = (len as usize).checked_sub(read).filter(|_| len % 4 == 0) else {
            return Err(damaged("a block with a wrong length"));
        };
        let had = body.len();
        body.resize(had + rest, 0);
        self.source.read_exact(&mut body[had..])?;
        let mut trailer = [0; 4];
        self.source.read_exact(&mut trailer)?;
        if self.u32_at(&trailer, 0) != Some(len) {
            return Err(damaged("a block with two different lengths"));
        }
        if type_ == block::INTERFACE {
            let interface =
                self.interface(body).ok_or_else(|| damaged("a short interface block"))?;
            if self.interfaces.len() == MOST_INTERFACES {
                return Err(damaged("more than 65,536 interfaces"));
            }
            self.interfaces.push(interface);
        }
        Ok(Some(type_))
    }

    /// Reads the byte order of a section, which its length already has, into `body`.
    fn begin_section(&mut self, body: &mut Vec<u8>) -> Result<(), FileError> {
        let mut magic = [0; 4];
        self.source.read_exact(&mut magic)?;
        self.is_big_endian = match (u32::from_be_bytes(magic), u32::from_le_bytes(magic)) {
            (BYTE_ORDER, _) => true,
            (_, BYTE_ORDER) => false,
            _ => return Err(damaged("a section without byte order")),
        };
        self.interfaces.clear();
        body.extend(magic);
        Ok(())
    }

    fn u16_at(&self, bytes: &[u8], at: usize) -> Option<u16> {
        let bytes = *bytes.get(at..)?.first_chunk()?;
        Some(if self.is_big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
    }

    fn u32_at(&self, bytes: &[u8], at: usize) -> Option<u32> {
        let bytes = *bytes.get(at..)?.first_chunk()?;
        Some(if self.is_big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    /// Reads an interface description. Without options, times are in microseconds.
    fn interface(&self, body: &[u8]) -> Option<Interface> {
        let link_type = u32::from(self.u16_at(body, 0)?);
        let mut interface = Interface { link_type, numerator: 1_000, denominator: 1, offset_s: 0 };
        let mut at = 8;
        // An option list may end with the block, without an end mark.
        while let (Some(code), Some(len)) = (self.u16_at(body, at), self.u16_at(body, at + 2)) {
            let value = body.get(at + 4..at + 4 + usize::from(len));
            match (code, value) {
                (option::END, _) | (_, None) => break,
                (option::TIME_RESOLUTION, Some(&[resolution])) => interface.resolve(resolution),
                (option::TIME_OFFSET, Some(value)) if value.len() == 8 => {
                    let [first, second] =
                        [0, 4].map(|at| u64::from(self.u32_at(value, at).unwrap_or(0)));
                    let (high, low) =
                        if self.is_big_endian { (first, second) } else { (second, first) };
                    interface.offset_s = (high << 32 | low) as i64;
                }
                _ => {}
            }
            at += 4 + usize::from(len).next_multiple_of(4);
        }
        Some(interface)
    }

    /// Reads the fixed part of a block with a packet.
    fn packet(&self, type_: u32, body: &[u8]) -> Option<Packet> {
        if type_ == block::SIMPLE_PACKET {
            let original_len = self.u32_at(body, 0)?;
            let captured = (original_len as usize).min(body.len() - 4);
            return Some(Packet { interface: 0, ticks: None, captured, original_len, start: 4 });
        }
        let interface = if type_ == block::OBSOLETE_PACKET {
            // A count of dropped packets follows in the other half.
            u32::from(self.u16_at(body, 0)?)
        } else {
            self.u32_at(body, 0)?
        };
        let ticks = u64::from(self.u32_at(body, 4)?) << 32 | u64::from(self.u32_at(body, 8)?);
        Some(Packet {
            interface,
            ticks: Some(ticks),
            captured: self.u32_at(body, 12)? as usize,
            original_len: self.u32_at(body, 16)?,
            start: 20,
        })
    }
}

impl Interface {
    /// Takes the option `if_tsresol`: a power of 10, or of 2 if the highest bit is set.
    fn resolve(&mut self, resolution: u8) {
        let exponent = u32::from(resolution & 0x7f);
        let base: u128 = if resolution & 0x80 == 0 { 10 } else { 2 };
        self.numerator = 1_000_000_000;
        self.denominator = base.checked_pow(exponent).unwrap_or(u128::MAX);
    }

    fn nanoseconds(&self, ticks: u64) -> i64 {
        let nanoseconds = u128::from(ticks) * self.numerator / self.denominator;
        i64::try_from(nanoseconds)
            .unwrap_or(i64::MAX)
            .saturating_add(self.offset_s.saturating_mul(1_000_000_000))
    }
}

fn damaged(what: &str) -> FileError {
    FileError::Damaged(what.to_owned())
}

/// Reads until `buffer` is full or the input ends, and returns how many bytes were read.
fn read_some(input: &mut impl Read, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match input.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
