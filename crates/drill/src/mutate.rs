//! Changes to the fields of a segment. The module `options` changes the options.

use anabranch_units::{DataSeq, RandomStream};
use anabranch_wire::{DataAck, Dss, Flags, Mapping, MappingDsn, SackBlock, SackBlocks, Segment};
use bytes::Bytes;

use crate::harm::Kind;

/// Returns a shift of a sequence number: small, about a window, or a half or a quarter of the number space.
pub(crate) fn shift(random: &mut RandomStream) -> u32 {
    let small = 1 + random.below(20) as u32;
    let size = match random.below(6) {
        0 => 1,
        1 => small,
        2 => 1 + random.below(3_000) as u32,
        3 => 1 + random.below(1 << 20) as u32,
        4 => (1 << 30) + small,
        _ => (1_u32 << 31).wrapping_add(small).wrapping_sub(10),
    };
    if random.chance(0.5) { size } else { size.wrapping_neg() }
}

/// Returns a shift of a 64-bit sequence number.
fn long_shift(random: &mut RandomStream) -> u64 {
    match random.below(4) {
        0 => 1 << 63,
        1 => u64::from(random.next_u64() as u32) << 32,
        _ => i64::from(shift(random) as i32) as u64,
    }
}

/// Applies a change of this kind, if the segment has such a field.
pub(crate) fn change(kind: Kind, random: &mut RandomStream, segment: &mut Segment) {
    match kind {
        Kind::Sequence => segment.seq = segment.seq.add(shift(random)),
        Kind::Acknowledgement if segment.flags.contains(Flags::ACK) => {
            segment.ack = segment.ack.add(shift(random));
        }
        Kind::Flags => flags(random, segment),
        Kind::Window => {
            let random_window = random.next_u64() as u16;
            segment.window = [0, 1, 100, u16::MAX, random_window][random.below(5) as usize];
        }
        Kind::Timestamps => timestamps(random, segment),
        Kind::Handshake => handshake(random, segment),
        Kind::SackInvented => invent_sack(random, segment),
        Kind::SackReneged => segment.sack = SackBlocks::EMPTY,
        Kind::DssMapping | Kind::DssLength | Kind::DssAck | Kind::DssFin => {
            let empty = segment.payload.is_empty();
            if let Some(dss) = &mut segment.dss {
                change_dss(kind, random, dss, empty);
            }
        }
        Kind::DssDropped => segment.dss = None,
        Kind::PayloadCut | Kind::PayloadJoined | Kind::PayloadChanged => {
            payload(kind, random, segment);
        }
        _ => {}
    }
}

fn flags(random: &mut RandomStream, segment: &mut Segment) {
    let bit = Flags(1 << random.below(8));
    segment.flags = if segment.flags.contains(bit) {
        segment.flags.without(bit)
    } else {
        segment.flags.with(bit)
    };
    tidy(segment);
}

/// Removes the fields that cannot be encoded with these flags.
pub(crate) fn tidy(segment: &mut Segment) {
    if !segment.flags.contains(Flags::SYN) {
        segment.mss = None;
        segment.window_scale = None;
        segment.sack_permitted = false;
    }
    if !segment.flags.contains(Flags::ACK) {
        segment.ack.0 = 0;
    }
}

fn timestamps(random: &mut RandomStream, segment: &mut Segment) {
    let drop = random.chance(0.2);
    let Some(timestamps) = &mut segment.timestamps else { return };
    let by = shift(random);
    if random.chance(0.5) {
        timestamps.value = timestamps.value.wrapping_add(by);
    } else {
        timestamps.echo = if random.chance(0.2) { 0 } else { timestamps.echo.wrapping_add(by) };
    }
    if drop {
        segment.timestamps = None;
    }
}

fn handshake(random: &mut RandomStream, segment: &mut Segment) {
    if !segment.flags.contains(Flags::SYN) {
        return;
    }
    match random.below(6) {
        0 => segment.mss = None,
        1 => segment.mss = Some([0, 1, 8, 48, 65_535][random.below(5) as usize]),
        2 => segment.window_scale = None,
        3 => segment.window_scale = Some(random.below(15) as u8),
        4 => segment.sack_permitted = !segment.sack_permitted,
        _ => segment.timestamps = None,
    }
}

fn invent_sack(random: &mut RandomStream, segment: &mut Segment) {
    let mut blocks = SackBlocks::EMPTY;
    for _ in 0..=random.below(3) {
        let left = segment.ack.add(shift(random));
        blocks.push(SackBlock { left, right: left.add(shift(random)) });
    }
    segment.sack = blocks;
}

fn change_dss(kind: Kind, random: &mut RandomStream, dss: &mut Dss, empty: bool) {
    match kind {
        Kind::DssAck => {
            let by = long_shift(random);
            dss.data_ack = match dss.data_ack {
                Some(DataAck::Short(low)) => Some(DataAck::Short(low.wrapping_add(by as u32))),
                Some(DataAck::Long(ack)) => Some(DataAck::Long(ack.add(by))),
                None => Some(DataAck::Long(DataSeq(random.next_u64()))),
            };
        }
        Kind::DssFin => {
            dss.data_fin = !dss.data_fin;
            if dss.data_fin && random.chance(0.5) {
                let dsn = MappingDsn::Short(random.next_u64() as u32);
                let old = Mapping { dsn, ssn: 0, length: 1, checksum: None };
                dss.mapping = dss.mapping.or(Some(old));
            }
        }
        Kind::DssLength => {
            if let Some(mapping) = &mut dss.mapping {
                let lengths = [0, 1, 65_535, mapping.length.wrapping_add(1), mapping.length / 2];
                mapping.length = lengths[random.below(5) as usize];
            }
        }
        _ => {
            if let Some(mapping) = &mut dss.mapping {
                change_mapping(random, mapping, empty);
            }
        }
    }
}

fn change_mapping(random: &mut RandomStream, mapping: &mut Mapping, empty: bool) {
    match random.below(if empty { 2 } else { 4 }) {
        0 => {
            let by = long_shift(random);
            mapping.dsn = match mapping.dsn {
                MappingDsn::Short(low) => MappingDsn::Short(low.wrapping_add(by as u32)),
                MappingDsn::Long(dsn) => MappingDsn::Long(dsn.add(by)),
            };
        }
        1 => {
            mapping.ssn =
                if random.chance(0.3) { 0 } else { mapping.ssn.wrapping_add(shift(random)) }
        }
        2 => mapping.checksum = mapping.checksum.map(|sum| sum ^ (1 << random.below(16))),
        _ => mapping.checksum = if mapping.checksum.is_some() { None } else { Some(0x1234) },
    }
}

fn payload(kind: Kind, random: &mut RandomStream, segment: &mut Segment) {
    let length = segment.payload.len() as u64;
    if length == 0 {
        return;
    }
    let at = random.below(length) as usize;
    match kind {
        // Cut bytes from the end, so that the remaining bytes keep their sequence numbers.
        Kind::PayloadCut => segment.payload = segment.payload.slice(..at),
        Kind::PayloadJoined => {
            let both = [&segment.payload[..], &segment.payload[at..]].concat();
            segment.payload = Bytes::from(both);
        }
        _ => {
            let mut bytes = segment.payload.to_vec();
            bytes[at] ^= 1 << random.below(8);
            segment.payload = Bytes::from(bytes);
        }
    }
}
