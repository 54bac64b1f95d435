//! Bytes to segments and back: IPv4/IPv6, TCP, every MPTCP option of RFC 8684, pcapng.

pub mod crypto;
mod mptcp;
mod options;
mod segment;

pub use mptcp::{
    AddAddr, CapableKeys, DataAck, Dss, Mapping, MappingDsn, MpCapable, MpJoin, MpTcpRst, MptcpOption,
    RemoveAddr,
};
pub use options::{MAX_OPTIONS_LEN, sack_room};
pub use segment::{Flags, SackBlock, SackBlocks, Segment, Timestamps};
