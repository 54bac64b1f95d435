//! What stands on the wire, against bytes worked out from the RFCs and against itself.

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

/// What a packet is read as, whoever has its bytes.
fn parse(bytes: &[u8]) -> Result<Packet, ParseError> {
    parse_packet(&Bytes::copy_from_slice(bytes))
}
