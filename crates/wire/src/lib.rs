//! The wire formats: IPv4 and IPv6, TCP, every MPTCP option of RFC 8684, and pcapng.

mod checksum;
pub mod crypto;
mod error;
mod mapping;
mod mptcp;
mod options;
mod packet;
mod pcapng;
mod segment;

pub use checksum::checksum;
pub use error::{EmitError, ParseError};
pub use mapping::{dss_checksum, promote, verify_dss_checksum};
pub use mptcp::{
    AddAddr, CapableKeys, DataAck, Dss, Mapping, MappingDsn, MpCapable, MpJoin, MpTcpRst,
    MptcpOption, RemoveAddr,
};
pub use options::{MAX_OPTIONS_LEN, parse_options, sack_room};
pub use packet::{Packet, emit_offloaded_headers, emit_packet, parse_offloaded, parse_packet};
pub use pcapng::{CaptureError, PcapngWriter};
pub use segment::{Ecn, Flags, SackBlock, SackBlocks, Segment, Timestamps};
