//! Writes TCP options.

use std::net::IpAddr;

use super::{MAX_OPTIONS_LEN, dss_flag, encoded_len, kind, mptcp_len, subtype};
use crate::mptcp::{
    AddAddr, CapableKeys, DataAck, Dss, MappingDsn, MpCapable, MpJoin, MptcpOption,
};
use crate::{EmitError, Flags, Segment};

/// The encoded options of a segment. The length is a multiple of 32 bits.
pub(crate) struct Options {
    bytes: [u8; MAX_OPTIONS_LEN],
    len: usize,
}

impl Options {
    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    fn put_u16(&mut self, value: u16) {
        self.put(&value.to_be_bytes());
    }

    fn put_u32(&mut self, value: u32) {
        self.put(&value.to_be_bytes());
    }

    fn put_u64(&mut self, value: u64) {
        self.put(&value.to_be_bytes());
    }

    /// Appends NOPs until the length is a multiple of 32 bits.
    fn pad(&mut self) {
        while !self.len.is_multiple_of(4) {
            self.put(&[kind::NOP]);
        }
    }
}

/// Encodes the options of a segment in the order of Linux (`tcp_options_write`).
pub(crate) fn emit(segment: &Segment) -> Result<Options, EmitError> {
    check(segment)?;
    let len = encoded_len(segment);
    if len > MAX_OPTIONS_LEN {
        return Err(EmitError::OptionsTooLong(len));
    }

    let mut out = Options { bytes: [0; MAX_OPTIONS_LEN], len: 0 };
    put_standard(&mut out, segment);
    if let Some(dss) = &segment.dss {
        put_dss(&mut out, dss);
        out.pad();
    }
    for option in &segment.mptcp {
        put_mptcp(&mut out, option);
        out.pad();
    }
    debug_assert_eq!(out.len, len, "encoded_len and emit disagree");
    Ok(out)
}

/// Rejects segments that would be changed by emitting and parsing.
fn check(segment: &Segment) -> Result<(), EmitError> {
    if !segment.flags.contains(Flags::SYN) {
        let handshake = [
            (segment.mss.is_some(), "MSS"),
            (segment.window_scale.is_some(), "window scale"),
            (segment.sack_permitted, "SACK-permitted"),
        ];
        if let Some((_, name)) = handshake.into_iter().find(|(present, _)| *present) {
            return Err(EmitError::SynOnly(name));
        }
    }
    if let Some(shift) = segment.window_scale
        && shift > 14
    {
        return Err(EmitError::WindowScale(shift));
    }
    for option in &segment.mptcp {
        if let MptcpOption::Capable(capable) = option {
            if capable.version > 0x0f {
                return Err(EmitError::Capable { field: "version", value: capable.version });
            }
            if capable.crypto > 0x1f {
                return Err(EmitError::Capable { field: "crypto", value: capable.crypto });
            }
        }
    }
    Ok(())
}

/// Writes MSS (RFC 9293 section 3.7.1), timestamps (RFC 7323 section 3.2), SACK-permitted and SACK
/// (RFC 2018 sections 2 and 3), and window scale (RFC 7323 section 2.2).
fn put_standard(out: &mut Options, segment: &Segment) {
    if let Some(mss) = segment.mss {
        out.put(&[kind::MSS, 4]);
        out.put_u16(mss);
    }
    if let Some(timestamps) = segment.timestamps {
        if segment.sack_permitted {
            out.put(&[kind::SACK_PERMITTED, 2]);
        } else {
            out.put(&[kind::NOP, kind::NOP]);
        }
        out.put(&[kind::TIMESTAMPS, 10]);
        out.put_u32(timestamps.value);
        out.put_u32(timestamps.echo);
    } else if segment.sack_permitted {
        out.put(&[kind::NOP, kind::NOP, kind::SACK_PERMITTED, 2]);
    }
    if let Some(shift) = segment.window_scale {
        out.put(&[kind::NOP, kind::WINDOW_SCALE, 3, shift]);
    }
    let blocks = segment.sack.as_slice();
    if !blocks.is_empty() {
        out.put(&[kind::NOP, kind::NOP, kind::SACK, 2 + 8 * blocks.len() as u8]);
        for block in blocks {
            out.put_u32(block.left.0);
            out.put_u32(block.right.0);
        }
    }
}

/// Writes a DSS (RFC 8684 section 3.3).
fn put_dss(out: &mut Options, dss: &Dss) {
    let mut flags = if dss.data_fin { dss_flag::DATA_FIN } else { 0 };
    flags |= match dss.data_ack {
        None => 0,
        Some(DataAck::Short(_)) => dss_flag::ACK,
        Some(DataAck::Long(_)) => dss_flag::ACK | dss_flag::ACK_LONG,
    };
    flags |= match dss.mapping.map(|mapping| mapping.dsn) {
        None => 0,
        Some(MappingDsn::Short(_)) => dss_flag::MAPPING,
        Some(MappingDsn::Long(_)) => dss_flag::MAPPING | dss_flag::DSN_LONG,
    };
    out.put(&[kind::MPTCP, super::dss_len(dss) as u8, subtype::DSS << 4, flags]);
    match dss.data_ack {
        None => {}
        Some(DataAck::Short(low)) => out.put_u32(low),
        Some(DataAck::Long(ack)) => out.put_u64(ack.0),
    }
    if let Some(mapping) = &dss.mapping {
        match mapping.dsn {
            MappingDsn::Short(low) => out.put_u32(low),
            MappingDsn::Long(dsn) => out.put_u64(dsn.0),
        }
        out.put_u32(mapping.ssn);
        out.put_u16(mapping.length);
        if let Some(checksum) = mapping.checksum {
            out.put_u16(checksum);
        }
    }
}

fn put_mptcp(out: &mut Options, option: &MptcpOption) {
    let first = |subtype: u8, low: u8| subtype << 4 | low;
    out.put(&[kind::MPTCP, mptcp_len(option) as u8]);
    match option {
        MptcpOption::Capable(capable) => put_capable(out, capable),
        MptcpOption::Join(join) => put_join(out, join),
        MptcpOption::AddAddr(add) => put_add_addr(out, add),
        MptcpOption::RemoveAddr(remove) => {
            out.put(&[first(subtype::REMOVE_ADDR, 0)]);
            out.put(remove.ids());
        }
        MptcpOption::Prio { backup } => out.put(&[first(subtype::PRIO, u8::from(*backup))]),
        MptcpOption::Fail { dsn } => {
            out.put(&[first(subtype::FAIL, 0), 0]);
            out.put_u64(dsn.0);
        }
        MptcpOption::FastClose { key } => {
            out.put(&[first(subtype::FASTCLOSE, 0), 0]);
            out.put_u64(*key);
        }
        MptcpOption::TcpRst(rst) => {
            out.put(&[first(subtype::TCPRST, u8::from(rst.transient)), rst.reason]);
        }
    }
}

/// Writes an `MP_CAPABLE` (RFC 8684 section 3.1).
fn put_capable(out: &mut Options, capable: &MpCapable) {
    let flags = u8::from(capable.checksum_required) << 7
        | u8::from(capable.extensibility) << 6
        | u8::from(capable.deny_join_initial_address) << 5
        | capable.crypto;
    out.put(&[subtype::CAPABLE << 4 | capable.version, flags]);
    match capable.keys {
        CapableKeys::None => {}
        CapableKeys::Responder(key) => out.put_u64(key),
        CapableKeys::Both { initiator, responder } => {
            out.put_u64(initiator);
            out.put_u64(responder);
        }
        CapableKeys::WithData { initiator, responder, length, checksum } => {
            out.put_u64(initiator);
            out.put_u64(responder);
            out.put_u16(length);
            if let Some(checksum) = checksum {
                out.put_u16(checksum);
            }
        }
    }
}

/// Writes an `MP_JOIN` (RFC 8684 section 3.2).
fn put_join(out: &mut Options, join: &MpJoin) {
    match *join {
        MpJoin::Syn { backup, address_id, token, nonce } => {
            out.put(&[subtype::JOIN << 4 | u8::from(backup), address_id]);
            out.put_u32(token);
            out.put_u32(nonce);
        }
        MpJoin::SynAck { backup, address_id, hmac, nonce } => {
            out.put(&[subtype::JOIN << 4 | u8::from(backup), address_id]);
            out.put_u64(hmac);
            out.put_u32(nonce);
        }
        MpJoin::Ack { hmac } => {
            out.put(&[subtype::JOIN << 4, 0]);
            out.put(&hmac);
        }
    }
}

/// Writes an `ADD_ADDR` (RFC 8684 section 3.4.1).
fn put_add_addr(out: &mut Options, add: &AddAddr) {
    let echo = add.hmac.is_none();
    out.put(&[subtype::ADD_ADDR << 4 | u8::from(echo), add.address_id]);
    match add.address {
        IpAddr::V4(address) => out.put(&address.octets()),
        IpAddr::V6(address) => out.put(&address.octets()),
    }
    if let Some(port) = add.port {
        out.put_u16(port);
    }
    if let Some(hmac) = add.hmac {
        out.put_u64(hmac);
    }
}
