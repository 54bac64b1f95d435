//! Tests of the wire formats. Packets are compared with bytes derived by hand from the RFCs, and
//! emitted packets are parsed.

use anabranch_wire::{Packet, ParseError, parse_packet};
use bytes::Bytes;

mod capture;
mod crypto;
mod limits;
mod options;
mod packet;
mod round_trip;
mod strategy;
mod total;

/// Parses a packet from a copy of the bytes.
fn parse(bytes: &[u8]) -> Result<Packet, ParseError> {
    parse_packet(&Bytes::copy_from_slice(bytes))
}
