//! Tests that parsing returns a packet or an error for every input.

use std::net::IpAddr;

use anabranch_units::SeqNumber;
use anabranch_wire::{EmitError, Flags, Packet, ParseError, Segment, Timestamps, emit_packet};
use bytes::Bytes;
use etherparse::{IpNumber, Ipv4Header, TcpHeader};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::parse;
use crate::strategy::{addresses, option_bytes, segment};

const SOURCE: [u8; 4] = [10, 0, 0, 1];
const DESTINATION: [u8; 4] = [10, 0, 0, 2];

/// Returns a packet with these bytes as its options. All other fields are valid.
pub(crate) fn with_options(flags: Flags, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut tcp = TcpHeader::new(1, 2, 3, 4);
    tcp.syn = flags.contains(Flags::SYN);
    tcp.ack = flags.contains(Flags::ACK);
    tcp.set_options_raw(options).expect("at most 40 bytes");
    tcp.checksum =
        tcp.calc_checksum_ipv4_raw(SOURCE, DESTINATION, payload).expect("a short payload");
    let length = (tcp.header_len() + payload.len()) as u16;
    let mut ip = Ipv4Header::new(length, 64, IpNumber::TCP, SOURCE, DESTINATION).expect("short");
    ip.header_checksum = ip.calc_header_checksum();
    [&ip.to_bytes(), &tcp.to_bytes(), payload].concat()
}

fn parse_options(flags: Flags, options: &[u8]) -> Result<Segment, ParseError> {
    parse(&with_options(flags, options, &[])).map(|packet| packet.segment)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn any_bytes(bytes in vec(any::<u8>(), 0..200)) {
        let _ = parse(&bytes);
    }

    #[test]
    fn any_bytes_after_a_version(version in prop::sample::select(vec![0x45u8, 0x46, 0x4f, 0x60]),
                                  bytes in vec(any::<u8>(), 0..200)) {
        let _ = parse(&[vec![version], bytes].concat());
    }

    #[test]
    fn a_changed_byte_is_detected((source, destination) in addresses(), segment in segment(),
                               at in any::<Index>(), change in 1..=255u8) {
        let mut bytes = Vec::new();
        emit_packet(source, destination, &segment, &mut bytes).unwrap();
        let at = at.index(bytes.len());
        bytes[at] ^= change;
        // IPv6 has no header checksum. With a shorter length, the TCP checksum can be correct by
        // chance.
        let uncovered = source.is_ipv6() && at < 8;
        if let Ok(packet) = parse(&bytes) {
            prop_assert!(uncovered, "byte {} of {:?}", at, packet);
        }
    }

    #[test]
    fn a_truncated_packet_is_detected((source, destination) in addresses(), segment in segment(),
                               at in any::<Index>()) {
        let mut bytes = Vec::new();
        emit_packet(source, destination, &segment, &mut bytes).unwrap();
        bytes.truncate(at.index(bytes.len()));
        prop_assert_eq!(parse(&bytes), Err(ParseError::Ip));
    }

    /// Every parsed segment can be emitted again, unless padding to 32 bits makes its options too
    /// long.
    #[test]
    fn any_options(options in option_bytes(), syn in any::<bool>()) {
        let flags = if syn { Flags::SYN } else { Flags::ACK };
        let Ok(packet) = parse(&with_options(flags, &options, b"data")) else {
            return Ok(());
        };
        let Packet { source, destination, segment } = packet;
        let mut bytes = Vec::new();
        match emit_packet(source, destination, &segment, &mut bytes) {
            Ok(()) => prop_assert_eq!(parse(&bytes).unwrap().segment, segment),
            Err(error) => prop_assert!(matches!(error, EmitError::OptionsTooLong(41..))),
        }
    }

    #[test]
    fn random_options(options in vec(any::<[u8; 4]>(), 0..=10)) {
        let _ = parse_options(Flags::ACK, &options.concat());
    }
}

#[test]
fn an_invalid_length_ends_the_options_and_earlier_ones_count() {
    // RFC 9293 section 3.1, MUST-7; tcp_parse_options: `if (opsize < 2) return;` and `if (opsize > length) return;`.
    let size = [2, 4, 5, 0xb4];
    let ends: [&[u8]; 8] = [
        &[30, 0, 1, 1],
        &[30, 1, 1, 1],
        &[30, 5, 0, 0],
        &[30, 255, 0, 0],
        &[8, 10, 0, 0],
        &[253, 255, 0, 0],
        &[2, 0, 3, 3],
        &[1, 1, 1, 30],
    ];
    let read = |options: &[u8]| parse_options(Flags::SYN, options).expect("a segment");
    for end in ends {
        assert_eq!(read(&[&size[..], end].concat()), read(&size), "{end:x?}");
    }
    for end in ends.iter().filter(|end| end[1] < 2 && end[0] != 1) {
        assert_eq!(read(&[end, &size[..]].concat()), read(&[]), "{end:x?}");
    }
}

#[test]
fn the_end_of_options_ends_them() {
    // After the end-of-options byte, nothing is parsed, so an invalid length has no effect.
    let segment = parse_options(Flags::ACK, &[1, 0, 30, 0]).unwrap();
    assert_eq!(segment, parse_options(Flags::ACK, &[]).unwrap());
}

#[test]
fn invalid_options_are_ignored_and_the_rest_count() {
    let timestamps = [8, 10, 0, 0, 0, 1, 0, 0, 0, 2];
    let odd: [&[u8]; 16] = [
        &[253, 4, 1, 2],
        // Handshake options without SYN.
        &[2, 4, 5, 0xb4],
        &[3, 3, 7],
        &[4, 2],
        // SACK without a complete block, and SACK without any block.
        &[5, 2],
        &[5, 6, 0, 0, 0, 1],
        &[8, 3, 0],
        // MPTCP without a subtype, with an unknown subtype, and with an experimental subtype.
        &[30, 2],
        &[30, 4, 0x90, 0],
        &[30, 4, 0xf0, 0],
        // MP_CAPABLE, MP_JOIN, ADD_ADDR and REMOVE_ADDR with lengths that no form has.
        &[30, 5, 0x01, 1, 0],
        &[30, 4, 0x10, 0],
        &[30, 9, 0x31, 1, 10, 0, 0, 1, 0],
        &[30, 3, 0x40],
        // MP_PRIO with the address identifier of version 0.
        &[30, 4, 0x51, 1],
        // A DSS whose flags indicate a data-level acknowledgement that is missing.
        &[30, 4, 0x20, 0x01],
    ];
    for option in odd {
        let mut options = [option, &timestamps].concat();
        options.resize(options.len().next_multiple_of(4), 1);
        let segment = parse_options(Flags::ACK, &options).unwrap();
        let expected = Segment {
            source_port: 1,
            destination_port: 2,
            seq: SeqNumber(3),
            flags: Flags::ACK,
            window: 4,
            timestamps: Some(Timestamps { value: 1, echo: 2 }),
            payload: Bytes::new(),
            ..Segment::default()
        };
        assert_eq!(segment, expected, "{option:x?}");
    }
}

#[test]
fn window_scale_is_at_most_14() {
    let segment = parse_options(Flags::SYN, &[3, 3, 200, 1]).unwrap();
    assert_eq!(segment.window_scale, Some(14));
}

#[test]
fn the_last_of_a_repeated_option_counts() {
    let segment = parse_options(Flags::SYN, &[2, 4, 0, 1, 2, 4, 0, 2]).unwrap();
    assert_eq!(segment.mss, Some(2));
    // An invalid option does not replace a valid one.
    let segment = parse_options(Flags::SYN, &[2, 4, 0, 1, 2, 3, 0, 1]).unwrap();
    assert_eq!(segment.mss, Some(1));
    let segment = parse_options(Flags::ACK, &[30, 3, 0x50, 30, 3, 0x51, 1, 1]).unwrap();
    assert_eq!(segment.mptcp.len(), 2);
}

#[test]
fn source_and_destination_are_not_swapped() {
    let packet = parse(&with_options(Flags::ACK, &[], &[])).unwrap();
    assert_eq!(packet.source, IpAddr::from(SOURCE));
    assert_eq!(packet.destination, IpAddr::from(DESTINATION));
}
