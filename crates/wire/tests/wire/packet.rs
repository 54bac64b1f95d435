//! Tests of headers and checksums. Expected bytes are computed by hand.

use std::net::IpAddr;

use anabranch_units::SeqNumber;
use anabranch_wire::{
    Ecn, EmitError, Flags, ParseError, Segment, emit_packet, parse_offloaded, parse_packet,
};
use bytes::Bytes;

use crate::parse;

fn v4() -> (IpAddr, IpAddr) {
    ([10, 0, 0, 1].into(), [10, 0, 0, 2].into())
}

fn v6() -> (IpAddr, IpAddr) {
    let address = |last| IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, last]);
    (address(1), address(2))
}

fn syn() -> Segment {
    Segment {
        source_port: 0x1f90,
        destination_port: 0x50,
        seq: SeqNumber(1),
        flags: Flags::SYN,
        window: 0x2000,
        ..Segment::default()
    }
}

fn emit((source, destination): (IpAddr, IpAddr), segment: &Segment) -> Vec<u8> {
    let mut out = Vec::new();
    emit_packet(source, destination, segment, &mut out).expect("legal");
    out
}

/// The words of the IPv4 header without the checksum sum to d931, so the checksum is 26ce. The
/// words of the pseudo-header are 0a00 + 0001 + 0a00 + 0002 + 0006 + 0014, and those of the TCP
/// header are 1f90 + 0050 + 0001 + 5002 + 2000. They sum to a400, so the TCP checksum is 5bff.
#[rustfmt::skip]
const V4_SYN: [u8; 40] = [
    0x45, 0x00, 0x00, 0x28, 0x00, 0x00, 0x40, 0x00, 0x40, 0x06, 0x26, 0xce,
    10, 0, 0, 1, 10, 0, 0, 2,
    0x1f, 0x90, 0x00, 0x50, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 0x02, 0x20, 0x00, 0x5b, 0xff, 0, 0,
];

#[test]
fn an_ipv4_syn() {
    assert_eq!(emit(v4(), &syn()), V4_SYN);
    assert_eq!(parse(&V4_SYN).unwrap().segment, syn());
}

#[test]
fn a_payload_shares_the_packets_memory_and_an_empty_one_does_not() {
    for (ends, headers) in [(v4(), 40), (v6(), 60)] {
        for parse in [parse_packet, parse_offloaded] {
            let data = Segment { payload: Bytes::from_static(&[7; 1448]), ..syn() };
            let mut bytes = emit(ends, &data);
            // Bytes after the end of the packet are ignored.
            bytes.extend([0; 9]);
            let bytes = Bytes::from(bytes);
            let segment = parse(&bytes).unwrap().segment;
            assert_eq!(segment, data);
            assert_eq!(segment.payload.as_ptr(), bytes[headers..].as_ptr());
            assert!(!bytes.is_unique(), "the payload shares the memory");
            drop(segment);
            assert!(bytes.is_unique());

            let bytes = Bytes::from(emit(ends, &syn()));
            let segment = parse(&bytes).unwrap().segment;
            assert!(segment.payload.is_empty() && bytes.is_unique());
        }
    }
}

#[test]
fn an_ipv6_syn() {
    let bytes = emit(v6(), &syn());
    assert_eq!(bytes[..8], [0x60, 0, 0, 0, 0, 20, 6, 64]);
    // The words of the pseudo-header are twice 2001 + 0db8, then 0001 + 0002, 0014 and 0006. They
    // sum to 5b8f. With 8fe3 for the TCP header, the sum is eb72.
    assert_eq!(bytes[56..58], [0x14, 0x8d]);
    assert_eq!(parse(&bytes).unwrap().segment, syn());
}

#[test]
fn the_ecn_field_is_in_the_ip_header() {
    // RFC 3168 section 5: ECT(1) is 01, and ECT(0) is 10. The bits are the lowest of the second
    // octet in IPv4, and the 11th and 12th bit in IPv6.
    for (ecn, bits) in [(Ecn::NotEct, 0), (Ecn::Ect1, 1), (Ecn::Ect0, 2), (Ecn::Ce, 3)] {
        let segment = Segment { ecn, ..syn() };
        let mut v4 = emit(v4(), &segment);
        assert_eq!((v4[1], parse(&v4).unwrap().segment), (bits, segment.clone()));
        let v6 = emit(v6(), &segment);
        assert_eq!((v6[0], v6[1]), (0x60, bits << 4));
        assert_eq!(parse(&v6).unwrap().segment, segment);
        // The other bits of the octet are ignored. 0xb8 is expedited forwarding.
        v4[1] |= 0xb8;
        let sum = u16::from_be_bytes([v4[10], v4[11]]) - 0xb8;
        v4[10..12].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(parse(&v4).unwrap().segment, segment);
    }
}

#[test]
fn wrong_checksums_are_named() {
    let mut bytes = V4_SYN;
    bytes[10] = 0x27;
    let expected = ParseError::IpChecksum { found: 0x27ce, computed: 0x26ce };
    assert_eq!(parse(&bytes), Err(expected));

    // The checksum covers all bits of the header, including the reserved flag, which most parsers
    // ignore.
    let mut bytes = V4_SYN;
    bytes[6] |= 0x80;
    let expected = ParseError::IpChecksum { found: 0x26ce, computed: 0xa6cd };
    assert_eq!(parse(&bytes), Err(expected));

    let mut bytes = V4_SYN;
    bytes[36] = 0x5c;
    let expected = ParseError::TcpChecksum { found: 0x5cff, computed: 0x5bff };
    assert_eq!(parse(&bytes), Err(expected));

    let mut bytes = emit(v6(), &syn());
    bytes[57] = 0x8c;
    let expected = ParseError::TcpChecksum { found: 0x148c, computed: 0x148d };
    assert_eq!(parse(&bytes), Err(expected));
}

#[test]
fn the_other_zero_is_a_good_checksum() {
    // The window is increased by the checksum: 2000 + 5bff = 7bff. The new checksum is zero.
    let segment = Segment { window: 0x7bff, ..syn() };
    let mut bytes = emit(v4(), &segment);
    assert_eq!(bytes[36..38], [0, 0]);
    bytes[36..38].copy_from_slice(&[0xff, 0xff]);
    assert_eq!(parse(&bytes).unwrap().segment, segment);
}

#[test]
fn invalid_packets_give_a_specific_error() {
    // Sets a byte in the third to fifth word of the IPv4 header, and corrects the checksum.
    let changed = |at: usize, value: u8| {
        let mut bytes = V4_SYN;
        let word = |bytes: &[u8]| u16::from_be_bytes([bytes[at & !1], bytes[at | 1]]);
        let before = word(&bytes);
        bytes[at] = value;
        let difference = u32::from(before) + u32::from(!word(&bytes)) + 0x26ce;
        let folded = (difference & 0xffff) + (difference >> 16);
        bytes[10..12].copy_from_slice(&((folded & 0xffff) + (folded >> 16)).to_be_bytes()[2..]);
        bytes
    };
    assert_eq!(parse(&changed(9, 17)), Err(ParseError::NotTcp(17)));
    assert_eq!(parse(&changed(6, 0x20)), Err(ParseError::Fragment));
    assert_eq!(parse(&changed(7, 0x01)), Err(ParseError::Fragment));
    // 39 bytes contain only a part of the TCP header.
    assert_eq!(parse(&changed(3, 39)), Err(ParseError::TcpHeader));
    assert_eq!(parse(&changed(3, 41)), Err(ParseError::Ip));

    for data_offset in [0x40, 0x60, 0xf0] {
        let mut bytes = V4_SYN;
        bytes[32] = data_offset;
        assert_eq!(parse(&bytes), Err(ParseError::TcpHeader));
    }
    for bytes in [&[][..], &[0x45], &[0x60; 39], &[0x50; 40], &[0x44; 40]] {
        assert_eq!(parse(bytes), Err(ParseError::Ip));
    }
    // The length zero in IPv6 means a jumbogram.
    let mut bytes = emit(v6(), &syn());
    bytes[5] = 0;
    assert_eq!(parse(&bytes), Err(ParseError::Ip));
}

#[test]
fn an_acknowledgement_needs_its_flag() {
    let segment = Segment { ack: SeqNumber(7), ..syn() };
    let (source, destination) = v4();
    let result = emit_packet(source, destination, &segment, &mut Vec::new());
    assert_eq!(result, Err(EmitError::AckWithoutFlag));

    // The window is decreased by the acknowledgement number, so the checksum stays correct.
    let mut bytes = emit(v4(), &syn());
    bytes[31] = 7;
    bytes[34..36].copy_from_slice(&0x1ff9u16.to_be_bytes());
    let parsed = parse(&bytes).unwrap().segment;
    assert_eq!(parsed, Segment { window: 0x1ff9, ..syn() });
}

#[test]
fn a_packet_is_at_most_64_kib() {
    let of = |len| Segment { payload: Bytes::from(vec![1; len]), ..syn() };
    for ((source, destination), room) in [(v4(), 65_535 - 40), (v6(), 65_535 - 20)] {
        let mut out = vec![1, 2, 3];
        let result = emit_packet(source, destination, &of(room + 1), &mut out);
        assert_eq!(result, Err(EmitError::PacketTooLong(room + 21)));
        assert_eq!(out, [1, 2, 3], "unchanged after an error");

        let bytes = emit((source, destination), &of(room));
        assert_eq!(parse(&bytes).unwrap().segment, of(room));
    }
}

#[test]
fn both_addresses_must_have_one_family() {
    let result = emit_packet(v4().0, v6().0, &syn(), &mut Vec::new());
    assert_eq!(result, Err(EmitError::MixedFamilies));
}
