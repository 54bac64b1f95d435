//! Changes to the MPTCP options of a segment: options are dropped, duplicated, altered, added, or taken from
//! other segments.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anabranch_units::{DataSeq, RandomStream};
use anabranch_wire::{
    AddAddr, CapableKeys, DataAck, Dss, MAX_OPTIONS_LEN, Mapping, MappingDsn, MpCapable, MpJoin,
    MpTcpRst, MptcpOption, RemoveAddr, SackBlocks, Segment,
};

use crate::flight::Known;
use crate::harm::Kind;

/// Returns a random option.
pub(crate) fn any(random: &mut RandomStream) -> MptcpOption {
    let word = random.next_u64();
    match random.below(11) {
        0 => capable(random, CapableKeys::None),
        1 => capable(random, CapableKeys::Responder(word)),
        2 => capable(random, CapableKeys::Both { initiator: word, responder: !word }),
        3 => {
            let checksum = random.chance(0.5).then_some(word as u16);
            let length = word as u16;
            let (initiator, responder) = (word, !word);
            capable(random, CapableKeys::WithData { initiator, responder, length, checksum })
        }
        4 => MptcpOption::Join(any_join(random)),
        5 => add_addr(random, word),
        6 => {
            let ids = word.to_be_bytes();
            let count = 1 + random.below(8) as usize;
            RemoveAddr::new(&ids[..count]).map_or(MptcpOption::Prio { backup: true }, |remove| {
                MptcpOption::RemoveAddr(remove)
            })
        }
        7 => MptcpOption::Prio { backup: random.chance(0.5) },
        8 => MptcpOption::Fail { dsn: DataSeq(word) },
        9 => MptcpOption::FastClose { key: word },
        _ => MptcpOption::TcpRst(MpTcpRst { transient: word & 1 == 1, reason: (word >> 8) as u8 }),
    }
}

fn capable(random: &mut RandomStream, keys: CapableKeys) -> MptcpOption {
    MptcpOption::Capable(MpCapable {
        version: if random.chance(0.8) { 1 } else { random.below(16) as u8 },
        checksum_required: random.chance(0.3),
        extensibility: random.chance(0.1),
        deny_join_initial_address: random.chance(0.2),
        crypto: if random.chance(0.8) { 1 } else { random.below(32) as u8 },
        keys,
    })
}

fn any_join(random: &mut RandomStream) -> MpJoin {
    let (word, nonce) = (random.next_u64(), random.next_u64() as u32);
    let (backup, address_id) = (word & 1 == 1, (word >> 8) as u8);
    match random.below(3) {
        0 => MpJoin::Syn { backup, address_id, token: (word >> 32) as u32, nonce },
        1 => MpJoin::SynAck { backup, address_id, hmac: word, nonce },
        _ => MpJoin::Ack { hmac: [word as u8; 20] },
    }
}

fn add_addr(random: &mut RandomStream, word: u64) -> MptcpOption {
    let bytes = word.to_be_bytes();
    let address = if random.chance(0.5) {
        IpAddr::V4(Ipv4Addr::new(10, bytes[0] % 5, 0, bytes[1]))
    } else {
        IpAddr::V6(Ipv6Addr::new(0xfd00, u16::from(bytes[0] % 5), 0, 0, 0, 0, 0, 1))
    };
    MptcpOption::AddAddr(AddAddr {
        address_id: bytes[2],
        address,
        port: random.chance(0.3).then_some(word as u16),
        hmac: random.chance(0.7).then_some(word),
    })
}

/// Returns a random DSS.
pub(crate) fn any_dss(random: &mut RandomStream) -> Dss {
    let word = random.next_u64();
    let long = random.chance(0.5);
    let data_ack = if long { DataAck::Long(DataSeq(word)) } else { DataAck::Short(word as u32) };
    let dsn = if long { MappingDsn::Long(DataSeq(!word)) } else { MappingDsn::Short(!word as u32) };
    let ssn = random.below(2_000) as u32;
    let length = [0, 1, 1_000, 65_535][random.below(4) as usize];
    let checksum = random.chance(0.3).then_some(word as u16);
    Dss {
        data_ack: random.chance(0.7).then_some(data_ack),
        mapping: random.chance(0.7).then_some(Mapping { dsn, ssn, length, checksum }),
        data_fin: random.chance(0.3),
    }
}

/// Applies a change of this kind. Options beyond 40 bytes are removed.
pub(crate) fn change(kind: Kind, random: &mut RandomStream, segment: &mut Segment, known: &Known) {
    let count = segment.mptcp.len() as u64;
    match kind {
        Kind::OptionDropped if count > 0 => {
            segment.mptcp.remove(random.below(count) as usize);
        }
        Kind::OptionDoubled if count > 0 => {
            let again = segment.mptcp[random.below(count) as usize];
            segment.mptcp.push(again);
        }
        Kind::OptionAltered if count > 0 => {
            let at = random.below(count) as usize;
            alter(random, &mut segment.mptcp[at]);
        }
        Kind::OptionAdded => {
            if random.chance(0.3) {
                segment.dss = Some(any_dss(random));
            } else {
                segment.mptcp.push(any(random));
            }
        }
        Kind::OptionMoved => {
            if let Some(other) = known.any(random) {
                let other = other.packet.segment;
                if random.chance(0.5) {
                    segment.dss = other.dss;
                }
                segment.mptcp = other.mptcp;
            }
        }
        _ => return,
    }
    fit(segment);
}

/// Removes options until they fit in 40 bytes.
pub(crate) fn fit(segment: &mut Segment) {
    while segment.options_len() > MAX_OPTIONS_LEN {
        if !segment.sack.is_empty() {
            segment.sack = SackBlocks::EMPTY;
        } else if segment.mptcp.len() > 1 || (segment.dss.is_none() && !segment.mptcp.is_empty()) {
            segment.mptcp.remove(0);
        } else if segment.dss.take().is_none() {
            segment.timestamps = None;
        }
    }
}

fn alter(random: &mut RandomStream, option: &mut MptcpOption) {
    let word = random.next_u64();
    match option {
        MptcpOption::Capable(capable) => match word % 5 {
            0 => capable.version = random.below(16) as u8,
            1 => capable.checksum_required = !capable.checksum_required,
            2 => capable.deny_join_initial_address = !capable.deny_join_initial_address,
            3 => capable.crypto = random.below(32) as u8,
            _ => match &mut capable.keys {
                CapableKeys::None => {}
                CapableKeys::Responder(key)
                | CapableKeys::Both { initiator: key, .. }
                | CapableKeys::WithData { initiator: key, .. } => *key ^= 1 << (word >> 58),
            },
        },
        MptcpOption::Join(join) => match join {
            MpJoin::Syn { backup, address_id, token, nonce } => match word % 4 {
                0 => *backup = !*backup,
                1 => *address_id = (word >> 8) as u8,
                2 => *token ^= 1,
                _ => *nonce ^= 1,
            },
            MpJoin::SynAck { hmac, address_id, .. } => match word % 2 {
                0 => *hmac ^= 1,
                _ => *address_id = (word >> 8) as u8,
            },
            MpJoin::Ack { hmac } => hmac[(word % 20) as usize] ^= 1,
        },
        MptcpOption::AddAddr(add) => match word % 4 {
            0 => add.hmac = add.hmac.map(|hmac| hmac ^ 1),
            1 => add.hmac = if add.hmac.is_some() { None } else { Some(word) },
            2 => add.port = Some((word >> 8) as u16),
            _ => add.address_id = (word >> 8) as u8,
        },
        MptcpOption::Prio { backup } => *backup = !*backup,
        MptcpOption::Fail { dsn } => *dsn = DataSeq(word),
        MptcpOption::FastClose { key } => *key ^= 1,
        MptcpOption::TcpRst(reset) => reset.reason = word as u8,
        MptcpOption::RemoveAddr(_) => *option = any(random),
    }
}
