//! The lengths of TCP options. `emit` writes options, and `parse` reads them.
//!
//! The order on the wire is that of Linux: MSS, timestamps, window scale, SACK, DSS, and other
//! MPTCP options. SACK-permitted replaces the two NOPs before timestamps. Each MPTCP option is
//! padded to 32 bits. MPTCP options get their space before SACK.
//! padded to 32 bits. Space is allocated to MPTCP before SACK.

mod emit;
mod parse;

pub(crate) use emit::emit;
pub use parse::parse as parse_options;
pub(crate) use parse::parse;

use crate::Segment;
use crate::mptcp::{CapableKeys, DataAck, Dss, MappingDsn, MpJoin, MptcpOption};

/// The maximum length of a TCP header's options in bytes (RFC 9293 section 3.1).
pub const MAX_OPTIONS_LEN: usize = 40;
/// The length of two NOPs, and of the kind and the length of the SACK option.
const SACK_BASE_LEN: usize = 4;
/// The length of one SACK block.
const SACK_BLOCK_LEN: usize = 8;

/// The kinds of TCP options.
mod kind {
    pub(super) const END: u8 = 0;
    pub(super) const NOP: u8 = 1;
    pub(super) const MSS: u8 = 2;
    pub(super) const WINDOW_SCALE: u8 = 3;
    pub(super) const SACK_PERMITTED: u8 = 4;
    pub(super) const SACK: u8 = 5;
    pub(super) const TIMESTAMPS: u8 = 8;
    pub(super) const MPTCP: u8 = 30;
}

/// The subtypes of the MPTCP option (RFC 8684 section 7.2).
mod subtype {
    pub(super) const CAPABLE: u8 = 0;
    pub(super) const JOIN: u8 = 1;
    pub(super) const DSS: u8 = 2;
    pub(super) const ADD_ADDR: u8 = 3;
    pub(super) const REMOVE_ADDR: u8 = 4;
    pub(super) const PRIO: u8 = 5;
    pub(super) const FAIL: u8 = 6;
    pub(super) const FASTCLOSE: u8 = 7;
    pub(super) const TCPRST: u8 = 8;
}

/// The flags of a DSS: F, m, M, a and A (RFC 8684 section 3.3).
mod dss_flag {
    pub(super) const DATA_FIN: u8 = 0x10;
    pub(super) const DSN_LONG: u8 = 0x08;
    pub(super) const MAPPING: u8 = 0x04;
    pub(super) const ACK_LONG: u8 = 0x02;
    pub(super) const ACK: u8 = 0x01;
}

/// Returns the length of a DSS without padding.
pub(crate) fn dss_len(dss: &Dss) -> usize {
    4 + match dss.data_ack {
        None => 0,
        Some(DataAck::Short(_)) => 4,
        Some(DataAck::Long(_)) => 8,
    } + dss.mapping.map_or(0, |mapping| {
        let dsn = match mapping.dsn {
            MappingDsn::Short(_) => 4,
            MappingDsn::Long(_) => 8,
        };
        dsn + 6 + if mapping.checksum.is_some() { 2 } else { 0 }
    })
}

/// Returns the length of an MPTCP option other than the DSS, without padding (RFC 8684 section
/// 7.2).
pub(crate) fn mptcp_len(option: &MptcpOption) -> usize {
    match option {
        MptcpOption::Capable(capable) => match capable.keys {
            CapableKeys::None => 4,
            CapableKeys::Responder(_) => 12,
            CapableKeys::Both { .. } => 20,
            CapableKeys::WithData { checksum: None, .. } => 22,
            CapableKeys::WithData { checksum: Some(_), .. } => 24,
        },
        MptcpOption::Join(MpJoin::SynAck { .. }) => 16,
        MptcpOption::Join(MpJoin::Ack { .. }) => 24,
        MptcpOption::AddAddr(add) => {
            let address = if add.address.is_ipv4() { 4 } else { 16 };
            let port = if add.port.is_some() { 2 } else { 0 };
            let hmac = if add.hmac.is_some() { 8 } else { 0 };
            4 + address + port + hmac
        }
        MptcpOption::RemoveAddr(remove) => 3 + remove.ids().len(),
        MptcpOption::Prio { .. } => 3,
        MptcpOption::Join(MpJoin::Syn { .. })
        | MptcpOption::Fail { .. }
        | MptcpOption::FastClose { .. } => 12,
        MptcpOption::TcpRst(_) => 4,
    }
}

/// Rounds a length up to a multiple of 32 bits, which is the unit of the data offset.
const fn padded(len: usize) -> usize {
    (len + 3) & !3
}

/// Returns the length of all options except SACK.
#[inline]
fn len_without_sack(segment: &Segment) -> usize {
    let mut len = if segment.timestamps.is_some() { 12 } else { 0 };
    if let Some(dss) = &segment.dss {
        len += padded(dss_len(dss));
    }
    // One test covers all other options, because few segments have any of them.
    let others = segment.mss.is_some()
        | segment.window_scale.is_some()
        | segment.sack_permitted
        | !segment.mptcp.is_empty();
    if others {
        len += rare_lens(segment);
    }
    len
}

/// Returns the length of the SYN options and of the MPTCP options other than the DSS.
#[cold]
fn rare_lens(segment: &Segment) -> usize {
    let mut len = segment.mptcp.iter().map(|option| padded(mptcp_len(option))).sum();
    if segment.mss.is_some() {
        len += 4;
    }
    // With timestamps, SACK-permitted replaces two NOPs and needs no additional space.
    if segment.sack_permitted && segment.timestamps.is_none() {
        len += 4;
    }
    if segment.window_scale.is_some() {
        len += 4;
    }
    len
}

/// Returns the length of all options on the wire, in bytes.
#[inline]
pub(crate) fn encoded_len(segment: &Segment) -> usize {
    let blocks = segment.sack.as_slice().len();
    let sack = if blocks == 0 { 0 } else { SACK_BASE_LEN + SACK_BLOCK_LEN * blocks };
    len_without_sack(segment) + sack
}

/// Returns the number of SACK blocks, from 0 to 4, that fit the segment in addition to its other
/// options.
///
/// As in Linux, MPTCP options get their space first. With timestamps and a full DSS, no block fits.
/// SACK blocks in the segment are not counted as used space.
pub fn sack_room(segment: &Segment) -> usize {
    MAX_OPTIONS_LEN.saturating_sub(len_without_sack(segment) + SACK_BASE_LEN) / SACK_BLOCK_LEN
}
