//! Captures of segments as pcapng files for Wireshark.

use std::borrow::Cow;
use std::io::Write;
use std::net::IpAddr;
use std::time::Duration;

use anabranch_units::Instant;
use pcap_file::pcapng::PcapNgWriter as Writer;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::{DataLink, Endianness, PcapError};

use crate::{EmitError, Segment, emit_packet};

/// `if_tsresol`: timestamps are in units of 10^-9 s.
const NANOSECONDS: u8 = 9;

/// The reason why a packet was not captured.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The segment cannot be emitted.
    #[error(transparent)]
    Emit(#[from] EmitError),
    /// The interface does not exist, or the bytes could not be written.
    #[error(transparent)]
    Write(#[from] PcapError),
}

/// A writer of segments to a pcapng file (`LINKTYPE_RAW`, nanoseconds) with one interface per path.
///
/// Time zero is the epoch, so a capture of a simulation starts in 1970. The byte order is fixed, so
/// that the same packets give the same file on any machine.
pub struct PcapngWriter<W: Write> {
    writer: Writer<W>,
    packet: Vec<u8>,
}

impl<W: Write> PcapngWriter<W> {
    /// Writes the header of the file. Interface `i` has the i-th name.
    ///
    /// # Errors
    ///
    /// Reports a failed write to `output`.
    pub fn new(output: W, interface_names: &[String]) -> Result<Self, CaptureError> {
        let mut writer = Writer::with_endianness(output, Endianness::Little)?;
        for name in interface_names {
            writer.write_pcapng_block(InterfaceDescriptionBlock {
                linktype: DataLink::RAW,
                snaplen: 0,
                options: vec![
                    InterfaceDescriptionOption::IfName(Cow::Borrowed(name)),
                    InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
                ],
            })?;
        }
        Ok(Self { writer, packet: Vec::new() })
    }

    /// Writes one packet, captured at `time` on an interface.
    ///
    /// # Errors
    ///
    /// Reports an interface that does not exist, a segment that cannot be emitted, or a failed
    /// write.
    pub fn write(
        &mut self,
        interface: usize,
        time: Instant,
        source: IpAddr,
        destination: IpAddr,
        segment: &Segment,
    ) -> Result<(), CaptureError> {
        let mut packet = std::mem::take(&mut self.packet);
        packet.clear();
        let written = emit_packet(source, destination, segment, &mut packet)
            .map_err(CaptureError::from)
            .and_then(|()| self.write_packet(interface, time, &packet));
        self.packet = packet;
        written
    }

    /// Writes one encoded IP packet, captured at `time` on an interface.
    ///
    /// # Errors
    ///
    /// Reports an interface that does not exist, or a failed write.
    pub fn write_packet(
        &mut self,
        interface: usize,
        time: Instant,
        packet: &[u8],
    ) -> Result<(), CaptureError> {
        self.writer.write_pcapng_block(EnhancedPacketBlock {
            interface_id: interface as u32,
            timestamp: Duration::from_nanos(time.as_nanos()),
            original_len: packet.len() as u32,
            data: Cow::Borrowed(packet),
            options: Vec::new(),
        })?;
        Ok(())
    }

    /// Returns the output with everything written so far.
    pub fn into_inner(self) -> W {
        self.writer.into_inner()
    }
}
