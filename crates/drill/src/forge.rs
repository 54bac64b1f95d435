//! Forged segments, which no endpoint has sent.

use std::net::IpAddr;

use anabranch_units::{Duration, RandomStream, SeqNumber};
use anabranch_wire::crypto::{self, Key};
use anabranch_wire::{
    AddAddr, CapableKeys, Dss, Flags, MAX_OPTIONS_LEN, MpCapable, MpJoin, MptcpOption, RemoveAddr,
    SackBlocks, Segment,
};
use bytes::Bytes;

use crate::flight::{Flight, Known, SERVER};
use crate::harm::Kind;
use crate::{mutate, options};

/// Returns a forged segment for the receiver of `flight`; `None` if `kind` is not a forgery.
pub(crate) fn forged(
    kind: Kind,
    random: &mut RandomStream,
    flight: &Flight,
    known: &Known,
) -> Option<Flight> {
    if matches!(kind, Kind::Replay | Kind::ReplayElsewhere) {
        return replay(kind, random, known);
    }
    let mut forged = flight.clone();
    forged.late = Duration::from_micros(random.below(20_000));
    let segment = &mut forged.packet.segment;
    match kind {
        Kind::BlindReset | Kind::BlindSyn | Kind::BlindData | Kind::BlindOptions => {
            blind(kind, random, segment);
        }
        Kind::BlindJoin => join(random, flight.to, known, segment, false),
        Kind::KnownJoin => join(random, flight.to, known, segment, true),
        Kind::InsideReset | Kind::InsideSyn | Kind::InsideData => inside(kind, random, segment),
        Kind::KnownAddAddr | Kind::KnownRemoveAddr | Kind::KnownFastClose | Kind::KnownFail => {
            // A segment without a DSS may be taken as a sign that options are stripped, which ends MPTCP. A
            // valid DSS is therefore added.
            let ack = segment.dss.and_then(|dss| dss.data_ack)?;
            signal(kind, random, flight, known, segment);
            if kind != Kind::KnownFail {
                segment.dss = Some(Dss { data_ack: Some(ack), ..Dss::default() });
            }
            segment.sack = SackBlocks::EMPTY;
            if segment.options_len() > MAX_OPTIONS_LEN {
                return None;
            }
        }
        _ => return None,
    }
    options::fit(segment);
    mutate::tidy(segment);
    Some(forged)
}

/// Returns an earlier segment. With `ReplayElsewhere`, it gets the addresses of another segment.
fn replay(kind: Kind, random: &mut RandomStream, known: &Known) -> Option<Flight> {
    let mut old = known.any(random)?;
    if kind == Kind::ReplayElsewhere {
        let other = known.any(random)?;
        let (from, to) = (&other.packet, &mut old.packet);
        (old.to, old.path) = (other.to, other.path);
        (to.source, to.destination) = (from.source, from.destination);
        to.segment.source_port = from.segment.source_port;
        to.segment.destination_port = from.segment.destination_port;
        if random.chance(0.2) {
            to.segment.source_port ^= 1;
        }
    }
    Some(old)
}

/// Returns a sequence number that is at least a quarter of the sequence space away from `truth`.
fn far(random: &mut RandomStream, truth: SeqNumber) -> SeqNumber {
    truth.add((1 << 30) + random.below(1 << 31) as u32)
}

fn blind(kind: Kind, random: &mut RandomStream, segment: &mut Segment) {
    segment.seq = far(random, segment.seq);
    segment.ack = far(random, segment.ack);
    segment.flags = Flags::ACK;
    segment.dss = None;
    segment.mptcp.clear();
    segment.payload = Bytes::new();
    if let Some(timestamps) = &mut segment.timestamps {
        timestamps.value = random.next_u64() as u32;
    }
    match kind {
        Kind::BlindReset => segment.flags = Flags::RST,
        Kind::BlindSyn => {
            segment.flags = Flags::SYN;
            segment.mss = Some(1460);
            segment.timestamps = None;
        }
        Kind::BlindData => segment.payload = Bytes::from_static(&[0x55; 700]),
        _ => {
            segment.dss = random.chance(0.5).then(|| options::any_dss(random));
            segment.mptcp.push(options::any(random));
        }
    }
}

fn inside(kind: Kind, random: &mut RandomStream, segment: &mut Segment) {
    let ahead = if random.chance(0.5) { 0 } else { random.below(5_000) as u32 };
    segment.seq = segment.seq.add(segment.sequence_len() + ahead);
    match kind {
        Kind::InsideReset => {
            segment.flags = Flags::RST;
            segment.payload = Bytes::new();
        }
        Kind::InsideSyn => {
            let flags = if random.chance(0.5) { Flags::SYN } else { Flags::SYN.with(Flags::ACK) };
            segment.flags = flags;
            segment.payload = Bytes::new();
        }
        _ => {
            segment.flags = Flags::ACK;
            if random.chance(0.2) {
                segment.flags = segment.flags.with(Flags::FIN);
            }
            let length = 1 + random.below(1_400) as usize;
            segment.payload = Bytes::from(vec![0xaa; length]);
        }
    }
}

/// Turns the segment into a joining SYN from an unused port. The token is valid if the attacker
/// `sees` the packets, and otherwise in half of the cases.
fn join(random: &mut RandomStream, to: usize, known: &Known, segment: &mut Segment, sees: bool) {
    let key = known.keys[to].map_or(0, |key| key);
    // An attacker who does not see the packets may have learned the token in another way.
    let valid = sees || random.chance(0.5);
    let token = if valid { Key::new(key).token } else { random.next_u64() as u32 };
    let (backup, address_id) = (random.chance(0.2), random.next_u64() as u8);
    let nonce = random.next_u64() as u32;
    let port = 1_024 + random.below(30_000) as u16;
    if to == SERVER {
        segment.source_port = port;
    } else {
        segment.destination_port = port;
    }
    *segment = Segment {
        source_port: segment.source_port,
        destination_port: segment.destination_port,
        seq: SeqNumber(random.next_u64() as u32),
        flags: Flags::SYN,
        window: 65_535,
        mss: Some(1460),
        sack_permitted: true,
        mptcp: vec![MptcpOption::Join(MpJoin::Syn { backup, address_id, token, nonce })],
        ..Segment::default()
    };
    if random.chance(0.2) {
        // Send a plain SYN or an `MP_CAPABLE` SYN instead of a join.
        segment.mptcp = random.chance(0.5).then(opening).into_iter().collect();
    }
}

fn opening() -> MptcpOption {
    MptcpOption::Capable(MpCapable::with_keys(CapableKeys::None))
}

/// Adds an option that requires the keys to a valid acknowledgement.
fn signal(
    kind: Kind,
    random: &mut RandomStream,
    flight: &Flight,
    known: &Known,
    segment: &mut Segment,
) {
    segment.seq = segment.seq.add(segment.sequence_len());
    segment.flags = Flags::ACK;
    segment.payload = Bytes::new();
    segment.mptcp.clear();
    let word = random.next_u64();
    let own = known.keys[flight.to].unwrap_or(word);
    let peer = known.keys[1 - flight.to].unwrap_or(word);
    let option = match kind {
        Kind::KnownAddAddr => {
            let address = match flight.packet.source {
                IpAddr::V4(_) => IpAddr::from([10, (word >> 8) as u8 % 6, 0, word as u8 % 4]),
                v6 @ IpAddr::V6(_) => v6,
            };
            let (address_id, port) =
                ((word >> 16) as u8, random.chance(0.3).then_some(word as u16));
            let hmac = crypto::add_addr_hmac(peer, own, address_id, address, port);
            let hmac = random.chance(0.8).then_some(hmac);
            MptcpOption::AddAddr(AddAddr { address_id, address, port, hmac })
        }
        Kind::KnownRemoveAddr => {
            let ids = [random.below(4) as u8, random.below(20) as u8];
            RemoveAddr::new(&ids[..=random.below(2) as usize])
                .map_or(MptcpOption::Prio { backup: true }, MptcpOption::RemoveAddr)
        }
        Kind::KnownFastClose => MptcpOption::FastClose { key: own },
        _ => MptcpOption::Fail { dsn: Key::new(peer).idsn.add(1 + random.below(100_000)) },
    };
    if kind == Kind::KnownFastClose && random.chance(0.5) {
        segment.flags = Flags::RST.with(Flags::ACK);
    }
    segment.mptcp.push(option);
}
