//! Strategies for all valid segments, and for bytes that resemble options.

use std::net::IpAddr;

use anabranch_units::{DataSeq, SeqNumber};
use anabranch_wire::{
    AddAddr, CapableKeys, DataAck, Dss, Ecn, Flags, MAX_OPTIONS_LEN, Mapping, MappingDsn,
    MpCapable, MpJoin, MpTcpRst, MptcpOption, RemoveAddr, SackBlock, SackBlocks, Segment,
    Timestamps,
};
use bytes::Bytes;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

fn dss() -> impl Strategy<Value = Dss> {
    let data_ack = prop_oneof![
        any::<u32>().prop_map(DataAck::Short),
        any::<u64>().prop_map(|ack| DataAck::Long(DataSeq(ack))),
    ];
    let dsn = prop_oneof![
        any::<u32>().prop_map(MappingDsn::Short),
        any::<u64>().prop_map(|dsn| MappingDsn::Long(DataSeq(dsn))),
    ];
    let mapping = (dsn, any::<(u32, u16, Option<u16>)>())
        .prop_map(|(dsn, (ssn, length, checksum))| Mapping { dsn, ssn, length, checksum });
    (option::of(data_ack), option::of(mapping), any::<bool>())
        .prop_map(|(data_ack, mapping, data_fin)| Dss { data_ack, mapping, data_fin })
}

fn capable() -> impl Strategy<Value = MpCapable> {
    let keys = prop_oneof![
        Just(CapableKeys::None),
        any::<u64>().prop_map(CapableKeys::Responder),
        any::<(u64, u64)>()
            .prop_map(|(initiator, responder)| CapableKeys::Both { initiator, responder }),
        any::<(u64, u64, u16, Option<u16>)>().prop_map(
            |(initiator, responder, length, checksum)| CapableKeys::WithData {
                initiator,
                responder,
                length,
                checksum,
            }
        ),
    ];
    (0..=15u8, any::<[bool; 3]>(), 0..=31u8, keys).prop_map(
        |(version, [checksum_required, extensibility, deny], crypto, keys)| MpCapable {
            version,
            checksum_required,
            extensibility,
            deny_join_initial_address: deny,
            crypto,
            keys,
        },
    )
}

fn join() -> impl Strategy<Value = MpJoin> {
    prop_oneof![
        any::<(bool, u8, u32, u32)>().prop_map(|(backup, address_id, token, nonce)| {
            MpJoin::Syn { backup, address_id, token, nonce }
        }),
        any::<(bool, u8, u64, u32)>().prop_map(|(backup, address_id, hmac, nonce)| {
            MpJoin::SynAck { backup, address_id, hmac, nonce }
        }),
        any::<[u8; 20]>().prop_map(|hmac| MpJoin::Ack { hmac }),
    ]
}

fn mptcp() -> impl Strategy<Value = MptcpOption> {
    prop_oneof![
        capable().prop_map(MptcpOption::Capable),
        join().prop_map(MptcpOption::Join),
        any::<(u8, IpAddr, Option<u16>, Option<u64>)>().prop_map(
            |(address_id, address, port, hmac)| {
                MptcpOption::AddAddr(AddAddr { address_id, address, port, hmac })
            }
        ),
        vec(any::<u8>(), 1..=8)
            .prop_map(|ids| MptcpOption::RemoveAddr(RemoveAddr::new(&ids).expect("1 to 8"))),
        any::<bool>().prop_map(|backup| MptcpOption::Prio { backup }),
        any::<u64>().prop_map(|dsn| MptcpOption::Fail { dsn: DataSeq(dsn) }),
        any::<u64>().prop_map(|key| MptcpOption::FastClose { key }),
        any::<(bool, u8)>().prop_map(|(transient, reason)| {
            MptcpOption::TcpRst(MpTcpRst { transient, reason })
        }),
    ]
}

fn sack() -> impl Strategy<Value = SackBlocks> {
    vec(any::<(u32, u32)>(), 0..=4).prop_map(|edges| {
        let mut blocks = SackBlocks::EMPTY;
        for (left, right) in edges {
            blocks.push(SackBlock { left: SeqNumber(left), right: SeqNumber(right) });
        }
        blocks
    })
}

/// Generates segments that are valid, except that their options may be too long.
fn any_size() -> impl Strategy<Value = Segment> {
    let timestamps = any::<(u32, u32)>().prop_map(|(value, echo)| Timestamps { value, echo });
    let head = any::<(u16, u16, u32, u32, u8, u8, u16)>();
    let handshake = (any::<Option<u16>>(), option::of(0..=14u8), any::<bool>());
    let multipath = (option::of(dss()), vec(mptcp(), 0..3));
    (head, handshake, option::of(timestamps), sack(), multipath, vec(any::<u8>(), 0..100)).prop_map(
        |(head, (mss, window_scale, sack_permitted), timestamps, sack, (dss, mptcp), payload)| {
            let (source_port, destination_port, seq, ack, flags, octet, window) = head;
            let flags = Flags(flags);
            let syn = flags.contains(Flags::SYN);
            Segment {
                source_port,
                destination_port,
                seq: SeqNumber(seq),
                ack: SeqNumber(if flags.contains(Flags::ACK) { ack } else { 0 }),
                flags,
                ecn: Ecn::from_bits(octet),
                window,
                mss: mss.filter(|_| syn),
                window_scale: window_scale.filter(|_| syn),
                sack_permitted: sack_permitted && syn,
                timestamps,
                sack,
                dss,
                mptcp,
                payload: Bytes::from(payload),
            }
        },
    )
}

/// Generates all segments that can be emitted. Options are removed until the others fit.
pub(crate) fn segment() -> impl Strategy<Value = Segment> {
    (any_size(), any::<[bool; 4]>()).prop_map(|(mut segment, order)| {
        let [sack, dss, timestamps, mss] = order;
        let fits = |segment: &Segment| segment.options_len() <= MAX_OPTIONS_LEN;
        if !fits(&segment) && sack {
            segment.sack = SackBlocks::EMPTY;
        }
        if !fits(&segment) && dss {
            segment.dss = None;
        }
        if !fits(&segment) && timestamps {
            segment.timestamps = None;
        }
        if !fits(&segment) && mss {
            segment.mss = None;
        }
        while !fits(&segment) && segment.mptcp.pop().is_some() {}
        if !fits(&segment) {
            segment.sack = SackBlocks::EMPTY;
        }
        if !fits(&segment) {
            segment.dss = None;
        }
        segment
    })
}

/// Generates two addresses of the same family.
pub(crate) fn addresses() -> impl Strategy<Value = (IpAddr, IpAddr)> {
    prop_oneof![
        any::<([u8; 4], [u8; 4])>().prop_map(|(from, to)| (from.into(), to.into())),
        any::<([u8; 16], [u8; 16])>().prop_map(|(from, to)| (from.into(), to.into())),
    ]
}

/// Generates bytes that are often valid or almost valid options.
pub(crate) fn option_bytes() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(vec![0u8, 1, 2, 3, 4, 5, 8, 30, 30, 30, 30, 253]);
    let lengths = prop_oneof![
        8 => prop::sample::select(vec![2u8, 3, 4, 8, 10, 12, 16, 18, 20, 22, 24, 26, 28, 30]),
        1 => any::<u8>(),
    ];
    // An option body begins with a known subtype, followed by random bytes.
    let option = (known, lengths, 0..=9u8, 0..=15u8, vec(any::<u8>(), 40)).prop_map(
        |(kind, length, subtype, low, body)| {
            let mut bytes = vec![kind];
            if kind > 1 {
                bytes.extend([length, subtype << 4 | low]);
                bytes.extend(body);
                bytes.truncate(usize::from(length.max(2)));
            }
            bytes
        },
    );
    (vec(option, 0..6), 0..=10usize).prop_map(|(options, words)| {
        let mut bytes = options.concat();
        bytes.resize(4 * words, 1);
        bytes
    })
}
