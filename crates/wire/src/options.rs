//! TCP options: how long they are. `emit` writes them, `parse` reads them.
//!
//! Order on the wire is Linux's: MSS, timestamps (with SACK-permitted where its two NOPs would
//! be), window scale, SACK, then MPTCP with the DSS first, each padded to 32 bits. Space is given
//! out in another order: MPTCP before SACK.

mod emit;
mod parse;

pub(crate) use emit::emit;
pub(crate) use parse::parse;

use crate::Segment;
use crate::mptcp::{CapableKeys, DataAck, Dss, MappingDsn, MpJoin, MptcpOption};

/// Bytes of options that a TCP header can hold (RFC 9293 section 3.1).
pub const MAX_OPTIONS_LEN: usize = 40;
/// Two NOPs, kind and length of the SACK option.
const SACK_BASE_LEN: usize = 4;
/// Bytes of one SACK block.
const SACK_BLOCK_LEN: usize = 8;

/// Kinds of TCP option.
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

/// Subtypes of the MPTCP option (RFC 8684 section 7.2).
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

/// Flags of a DSS: F, m, M, a and A (RFC 8684 section 3.3).
mod dss_flag {
    pub(super) const DATA_FIN: u8 = 0x10;
    pub(super) const DSN_LONG: u8 = 0x08;
    pub(super) const MAPPING: u8 = 0x04;
    pub(super) const ACK_LONG: u8 = 0x02;
    pub(super) const ACK: u8 = 0x01;
}

/// Bytes a DSS takes, before padding.
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

/// Bytes an MPTCP option other than the DSS takes, before padding (RFC 8684 section 7.2).
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

/// Rounds up to the 32-bit words that the data offset counts.
const fn padded(len: usize) -> usize {
    (len + 3) & !3
}

/// Bytes of every option but SACK.
#[inline(always)]
fn len_without_sack(segment: &Segment) -> usize {
    let mut len = if segment.timestamps.is_some() { 12 } else { 0 };
    if let Some(dss) = &segment.dss {
        len += padded(dss_len(dss));
    }
    // Few segments have any of the others: one look at all.
    let others = segment.mss.is_some()
        | segment.window_scale.is_some()
        | segment.sack_permitted
        | !segment.mptcp.is_empty();
    if others {
        len += rare_lens(segment);
    }
    len
}

/// Bytes of the options of the SYNs, and of MPTCP's other than the DSS.
#[cold]
fn rare_lens(segment: &Segment) -> usize {
    let mut len = segment.mptcp.iter().map(|option| padded(mptcp_len(option))).sum();
    if segment.mss.is_some() {
        len += 4;
    }
    // It stands where timestamps would need two NOPs, so beside them it is free.
    if segment.sack_permitted && segment.timestamps.is_none() {
        len += 4;
    }
    if segment.window_scale.is_some() {
        len += 4;
    }
    len
}

/// Bytes of options on the wire.
#[inline(always)]
pub(crate) fn encoded_len(segment: &Segment) -> usize {
    let blocks = segment.sack.as_slice().len();
    let sack = if blocks == 0 { 0 } else { SACK_BASE_LEN + SACK_BLOCK_LEN * blocks };
    len_without_sack(segment) + sack
}

/// SACK blocks that fit beside every other option of the segment: 0 to 4.
///
/// MPTCP options are given their space first and SACK what is left, as Linux does: beside
/// timestamps and a full DSS there is room for none. Blocks already on the segment do not count.
pub fn sack_room(segment: &Segment) -> usize {
    MAX_OPTIONS_LEN.saturating_sub(len_without_sack(segment) + SACK_BASE_LEN) / SACK_BLOCK_LEN
}
