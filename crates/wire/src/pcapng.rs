//! Writes segments to pcapng files for Wireshark.

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

/// `if_tsresol`: the unit of timestamps is 10^-9 s.
const NANOSECONDS: u8 = 9;

/// The reason why a packet was not written.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The segment cannot be emitted.
    #[error(transparent)]
    Emit(#[from] EmitError),
    /// The interface does not exist, or writing failed.
    #[error(transparent)]
    Write(#[from] PcapError),
}

/// Writes segments to a pcapng file (`LINKTYPE_RAW`, nanoseconds) with one interface per path.
///
/// Time zero is the Unix epoch, so the capture of a simulation starts in 1970. The byte order is
/// fixed, so equal packets give equal files on every machine.
pub struct PcapngWriter<W: Write> {
    writer: Writer<W>,
    packet: Vec<u8>,
}

impl<W: Write> PcapngWriter<W> {
    /// Writes the header of the file. The interface with index `i` has the i-th name.
    ///
    /// # Errors
    ///
    /// Returns an error if writing to `output` fails.
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

    /// Writes a packet that was captured at `time` on an interface.
    ///
    /// # Errors
    ///
    /// Returns an error if the interface does not exist, if the segment cannot be emitted, or if
    /// writing fails.
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

    /// Writes an encoded IP packet that was captured at `time` on an interface.
    ///
    /// # Errors
    ///
    /// Returns an error if the interface does not exist, or if writing fails.
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

    /// Returns the output, with all data written so far.
    pub fn into_inner(self) -> W {
        self.writer.into_inner()
    }
}
