//! Parses TCP options. Invalid options are ignored. An option whose length is not valid ends the
//! parsing.

use std::net::IpAddr;

use anabranch_units::{DataSeq, SeqNumber};

use super::{dss_flag, kind, subtype};
use crate::mptcp::{
    AddAddr, CapableKeys, DataAck, Dss, Mapping, MappingDsn, MpCapable, MpJoin, MpTcpRst,
    MptcpOption, RemoveAddr,
};
use crate::{Flags, SackBlock, SackBlocks, Segment, Timestamps};

/// The highest window scale (RFC 7323 section 2.3).
const WINDOW_SCALE_MAX: u8 = 14;

/// Reads values from the body of an option. Its methods return `None` if too few bytes are left.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }

    fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_be_bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// Returns `value` if no bytes are left, and otherwise `None`.
    fn end<T>(&self, value: T) -> Option<T> {
        self.0.is_empty().then_some(value)
    }
}

/// Parses TCP options into `segment`, whose flags must already be set.
///
/// An option whose length is below two or exceeds the header ends the parsing. The options before
/// it and the segment are used (`tcp_parse_options`, `mptcp_get_options`: "silly options", "partial
/// options"). RFC 9293 section 3.1 (MUST-7) requires that an invalid length does not cause a crash.
pub fn parse(mut bytes: &[u8], segment: &mut Segment) {
    while let [kind, rest @ ..] = bytes {
        match *kind {
            kind::END => return,
            kind::NOP => bytes = rest,
            kind => {
                let length = rest.first().map_or(0, |length| usize::from(*length));
                if length < 2 {
                    return;
                }
                let Some((option, behind)) = bytes.split_at_checked(length) else { return };
                // An option that cannot be parsed is ignored.
                let _ = read_option(kind, Reader(&option[2..]), segment);
                bytes = behind;
            }
        }
    }
}

fn read_option(kind: u8, mut body: Reader<'_>, segment: &mut Segment) -> Option<()> {
    let syn = segment.flags.contains(Flags::SYN);
    match kind {
        kind::MSS if syn => {
            let mss = body.u16()?;
            segment.mss = Some(body.end(mss)?);
        }
        kind::WINDOW_SCALE if syn => {
            let shift = body.u8()?.min(WINDOW_SCALE_MAX);
            segment.window_scale = Some(body.end(shift)?);
        }
        kind::SACK_PERMITTED if syn => segment.sack_permitted = body.end(true)?,
        kind::TIMESTAMPS => {
            let timestamps = Timestamps { value: body.u32()?, echo: body.u32()? };
            segment.timestamps = Some(body.end(timestamps)?);
        }
        kind::SACK => segment.sack = read_sack(body)?,
        kind::MPTCP => read_mptcp(body, segment)?,
        _ => {}
    }
    Some(())
}

/// Reads one to four blocks (RFC 2018 section 3).
fn read_sack(mut body: Reader<'_>) -> Option<SackBlocks> {
    let mut blocks = SackBlocks::EMPTY;
    while !body.0.is_empty() {
        let block = SackBlock { left: SeqNumber(body.u32()?), right: SeqNumber(body.u32()?) };
        if !blocks.push(block) {
            return None;
        }
    }
    (!blocks.is_empty()).then_some(blocks)
}

/// Reads an MPTCP option (RFC 8684 section 3). The high four bits of the first byte are the
/// subtype. The meaning of the low four bits depends on the subtype.
fn read_mptcp(mut body: Reader<'_>, segment: &mut Segment) -> Option<()> {
    let first = body.u8()?;
    let low = first & 0x0f;
    let flag = low & 1 != 0;
    let option = match first >> 4 {
        subtype::DSS => {
            segment.dss = Some(read_dss(body)?);
            return Some(());
        }
        subtype::CAPABLE => MptcpOption::Capable(read_capable(low, body)?),
        subtype::JOIN => MptcpOption::Join(read_join(flag, body)?),
        subtype::ADD_ADDR => MptcpOption::AddAddr(read_add_addr(flag, body)?),
        subtype::REMOVE_ADDR => MptcpOption::RemoveAddr(RemoveAddr::new(body.0)?),
        // Version 0 had a form of four bytes with an address identifier. As in Linux, an option of
        // this form is ignored.
        subtype::PRIO => body.end(MptcpOption::Prio { backup: flag })?,
        subtype::FAIL => {
            body.u8()?;
            let dsn = DataSeq(body.u64()?);
            body.end(MptcpOption::Fail { dsn })?
        }
        subtype::FASTCLOSE => {
            body.u8()?;
            let key = body.u64()?;
            body.end(MptcpOption::FastClose { key })?
        }
        subtype::TCPRST => {
            let reason = body.u8()?;
            body.end(MptcpOption::TcpRst(MpTcpRst { transient: flag, reason }))?
        }
        _ => return None,
    };
    segment.mptcp.push(option);
    Some(())
}

/// Reads a DSS (RFC 8684 section 3.3). Without flags A and M, flags a and m have no meaning.
fn read_dss(mut body: Reader<'_>) -> Option<Dss> {
    let flags = body.u8()?;
    let has = |flag: u8| flags & flag != 0;
    let data_ack = match (has(dss_flag::ACK), has(dss_flag::ACK_LONG)) {
        (false, _) => None,
        (true, false) => Some(DataAck::Short(body.u32()?)),
        (true, true) => Some(DataAck::Long(DataSeq(body.u64()?))),
    };
    let mapping = if has(dss_flag::MAPPING) {
        Some(Mapping {
            dsn: if has(dss_flag::DSN_LONG) {
                MappingDsn::Long(DataSeq(body.u64()?))
            } else {
                MappingDsn::Short(body.u32()?)
            },
            ssn: body.u32()?,
            length: body.u16()?,
            // There is no flag for the checksum. The length of the option shows whether there is
            // one.
            checksum: if body.0.is_empty() { None } else { Some(body.u16()?) },
        })
    } else {
        None
    };
    body.end(Dss { data_ack, mapping, data_fin: has(dss_flag::DATA_FIN) })
}

/// Reads an `MP_CAPABLE` (RFC 8684 section 3.1). The length determines the form. The handshake code
/// checks whether the form is valid for the segment's flags, and checks the version and the
/// algorithm.
fn read_capable(version: u8, mut body: Reader<'_>) -> Option<MpCapable> {
    let flags = body.u8()?;
    let keys = match body.0.len() {
        0 => CapableKeys::None,
        8 => CapableKeys::Responder(body.u64()?),
        16 => CapableKeys::Both { initiator: body.u64()?, responder: body.u64()? },
        18 | 20 => CapableKeys::WithData {
            initiator: body.u64()?,
            responder: body.u64()?,
            length: body.u16()?,
            checksum: if body.0.is_empty() { None } else { Some(body.u16()?) },
        },
        _ => return None,
    };
    Some(MpCapable {
        version,
        checksum_required: flags & 0x80 != 0,
        extensibility: flags & 0x40 != 0,
        deny_join_initial_address: flags & 0x20 != 0,
        crypto: flags & 0x1f,
        keys,
    })
}

/// Reads an `MP_JOIN` (RFC 8684 section 3.2). The length determines the form.
fn read_join(backup: bool, mut body: Reader<'_>) -> Option<MpJoin> {
    let address_id = body.u8()?;
    match body.0.len() {
        8 => Some(MpJoin::Syn { backup, address_id, token: body.u32()?, nonce: body.u32()? }),
        12 => Some(MpJoin::SynAck { backup, address_id, hmac: body.u64()?, nonce: body.u32()? }),
        20 => Some(MpJoin::Ack { hmac: body.array()? }),
        _ => None,
    }
}

/// Reads an `ADD_ADDR` (RFC 8684 section 3.4.1). Flag E shows whether there is a truncated HMAC.
/// The remaining length determines the address family, and whether there is a port.
fn read_add_addr(echo: bool, mut body: Reader<'_>) -> Option<AddAddr> {
    let address_id = body.u8()?;
    let hmac_len = if echo { 0 } else { 8 };
    let (address, has_port): (IpAddr, bool) = match body.0.len().checked_sub(hmac_len)? {
        4 => (body.array::<4>()?.into(), false),
        6 => (body.array::<4>()?.into(), true),
        16 => (body.array::<16>()?.into(), false),
        18 => (body.array::<16>()?.into(), true),
        _ => return None,
    };
    Some(AddAddr {
        address_id,
        address,
        port: if has_port { Some(body.u16()?) } else { None },
        hmac: if echo { None } else { Some(body.u64()?) },
    })
}
