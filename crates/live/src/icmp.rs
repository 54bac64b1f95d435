//! ICMP for the endpoint's addresses. Echo requests are answered, and a router's report of a path MTU is
//! passed to the subflow (RFC 792, RFC 1191; RFC 4443, RFC 8201). The routers of the emulator create such
//! reports, too.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anabranch_mptcp::FourTuple;
use anabranch_units::SeqNumber;
use anabranch_wire::checksum;

use crate::header::TCP;

/// Protocol numbers.
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
/// The lengths of an IPv4 header without options, an IPv6 header and an ICMP header, bytes.
const IPV4: usize = 20;
const IPV6: usize = 40;
const HEADER: usize = 8;
/// The longest error message of a router in bytes, over IPv4 and over IPv6.
const LONGEST_V4: usize = 576;
const LONGEST_V6: usize = 1280;
/// The time to live of a reply, in hops (RFC 1700).
const HOPS: u8 = 64;

/// The effect of an ICMP packet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// The endpoint must send this packet in reply.
    Answer(Vec<u8>),
    /// A packet of the subflow `tuple` exceeded the path MTU `mtu`. `seq` is the sequence number in the
    /// quoted TCP header.
    PathMtu { tuple: FourTuple, mtu: u32, seq: SeqNumber },
}

/// Processes an ICMP packet. Returns `None` if the packet is malformed, fragmented, or of a type that is
/// ignored.
pub(crate) fn hear(packet: &[u8]) -> Option<Heard> {
    match packet.first()? >> 4 {
        4 => {
            let (header, protocol) = ipv4(packet)?;
            let fragment = u16::from_be_bytes([packet[6], packet[7]]) & 0x3fff != 0;
            if protocol != ICMP || fragment || checksum([&packet[header..]]) != 0 {
                return None;
            }
            hear_v4(packet, header)
        }
        6 => {
            let body = packet.get(IPV6..)?;
            let whole = checksum([&pseudo_header(packet, body.len())[..], body]) == 0;
            if packet[6] != ICMPV6 || !whole { None } else { hear_v6(packet, body) }
        }
        _ => None,
    }
}

fn hear_v4(packet: &[u8], header: usize) -> Option<Heard> {
    let body = packet.get(header..)?;
    match (*body.first()?, *body.get(1)?) {
        (8, 0) if body.len() >= HEADER => {
            let mut answer = packet.to_vec();
            answer[12..16].copy_from_slice(&packet[16..20]);
            answer[16..20].copy_from_slice(&packet[12..16]);
            answer[8] = HOPS;
            set_checksum(&mut answer, 10, |answer| checksum([&answer[..header]]));
            answer[header] = 0;
            set_checksum(&mut answer, header + 2, |answer| checksum([&answer[header..]]));
            Some(Heard::Answer(answer))
        }
        (3, 4) => {
            let quoted = body.get(HEADER..)?;
            let (inner, protocol) = ipv4(quoted)?;
            let mtu = u32::from(u16::from_be_bytes([body[6], body[7]]));
            let ip = |at: usize| {
                let four: [u8; 4] = quoted[at..at + 4].try_into().ok()?;
                Some(IpAddr::V4(Ipv4Addr::from(four)))
            };
            path_mtu([ip(12)?, ip(16)?], protocol, quoted.get(inner..)?, mtu)
        }
        _ => None,
    }
}

fn hear_v6(packet: &[u8], body: &[u8]) -> Option<Heard> {
    match (*body.first()?, *body.get(1)?) {
        (128, 0) if body.len() >= HEADER => {
            let mut answer = packet.to_vec();
            answer[8..24].copy_from_slice(&packet[24..40]);
            answer[24..40].copy_from_slice(&packet[8..24]);
            answer[7] = HOPS;
            answer[IPV6] = 129;
            let length = body.len();
            set_checksum(&mut answer, IPV6 + 2, |answer| {
                checksum([&pseudo_header(answer, length)[..], &answer[IPV6..]])
            });
            Some(Heard::Answer(answer))
        }
        (2, 0) => {
            let quoted = body.get(HEADER..)?;
            let mtu = u32::from_be_bytes(body[4..8].try_into().ok()?);
            let ip = |at: usize| {
                let sixteen: [u8; 16] = quoted.get(at..at + 16)?.try_into().ok()?;
                Some(IpAddr::V6(Ipv6Addr::from(sixteen)))
            };
            path_mtu([ip(8)?, ip(24)?], *quoted.get(6)?, quoted.get(IPV6..)?, mtu)
        }
        _ => None,
    }
}

/// Returns the error message of a router for a packet longer than `mtu`: "fragmentation needed" over IPv4,
/// and "packet too big" over IPv6. The message quotes the packet up to a total length of 576 bytes (RFC 1812
/// section 4.3.2.3) or 1280 bytes (RFC 4443 section 3.2). Returns `None` if the packet is malformed or is an
/// ICMP error (RFC 1122 section 3.2.2).
pub(crate) fn too_large(packet: &[u8], router: IpAddr, mtu: u32) -> Option<Vec<u8>> {
    match router {
        IpAddr::V4(router) => {
            let (header, protocol) = ipv4(packet)?;
            if protocol == ICMP && matches!(packet.get(header)?, 3..=5 | 11 | 12) {
                return None;
            }
            let quoted = &packet[..packet.len().min(LONGEST_V4 - IPV4 - HEADER)];
            let length = IPV4 + HEADER + quoted.len();
            let mut told =
                vec![0x45, 0, (length >> 8) as u8, length as u8, 0, 0, 0, 0, HOPS, ICMP, 0, 0];
            told.extend(router.octets());
            told.extend(&packet[12..16]);
            told.extend([3, 4, 0, 0, 0, 0, (mtu >> 8) as u8, mtu as u8]);
            told.extend(quoted);
            set_checksum(&mut told, 10, |told| checksum([&told[..IPV4]]));
            set_checksum(&mut told, IPV4 + 2, |told| checksum([&told[IPV4..]]));
            Some(told)
        }
        IpAddr::V6(router) => {
            // ICMPv6 errors have types below 128 (RFC 4443 section 2.1).
            if packet.get(6) == Some(&ICMPV6) && *packet.get(IPV6)? < 128 {
                return None;
            }
            packet.get(IPV6)?;
            let quoted = &packet[..packet.len().min(LONGEST_V6 - IPV6 - HEADER)];
            let length = HEADER + quoted.len();
            let mut told = vec![0x60, 0, 0, 0, (length >> 8) as u8, length as u8, ICMPV6, HOPS];
            told.extend(router.octets());
            told.extend(&packet[8..24]);
            told.extend([2, 0, 0, 0]);
            told.extend(mtu.to_be_bytes());
            told.extend(quoted);
            set_checksum(&mut told, IPV6 + 2, |told| {
                checksum([&pseudo_header(told, length)[..], &told[IPV6..]])
            });
            Some(told)
        }
    }
}

/// Returns the report for a quoted TCP packet that the endpoint sent from `ends[0]` to `ends[1]`.
fn path_mtu(ends: [IpAddr; 2], protocol: u8, quoted: &[u8], mtu: u32) -> Option<Heard> {
    let word = |at: usize| Some(u16::from_be_bytes(quoted.get(at..at + 2)?.try_into().ok()?));
    let [from, to] = ends;
    let (local, remote) = (SocketAddr::new(from, word(0)?), SocketAddr::new(to, word(2)?));
    let seq = SeqNumber(u32::from_be_bytes(quoted.get(4..8)?.try_into().ok()?));
    (protocol == TCP).then_some(Heard::PathMtu { tuple: FourTuple { local, remote }, mtu, seq })
}

/// Returns the length of an IPv4 header and the number of the transport protocol.
fn ipv4(packet: &[u8]) -> Option<(usize, u8)> {
    let length = usize::from(packet.first()? & 15) * 4;
    (length >= 20 && packet.len() >= length).then(|| (length, packet[9]))
}

/// Returns the pseudo-header for the checksum of `ICMPv6` (RFC 8200 section 8.1).
fn pseudo_header(packet: &[u8], length: usize) -> Vec<u8> {
    let mut header = packet[8..40].to_vec();
    header.extend((length as u32).to_be_bytes());
    header.extend([0, 0, 0, ICMPV6]);
    header
}

/// Writes the checksum at an offset.
fn set_checksum(packet: &mut [u8], at: usize, checksum: impl Fn(&[u8]) -> u16) {
    packet[at..at + 2].fill(0);
    let checksum = checksum(packet);
    packet[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(body: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, (20 + body.len()) as u8, 1, 2, 0, 0, 9, ICMP, 0, 0];
        packet.extend([192, 0, 2, 1, 10, 0, 0, 1]);
        packet.extend(body);
        set_checksum(&mut packet, 10, |packet| checksum([&packet[..20]]));
        set_checksum(&mut packet, 22, |packet| checksum([&packet[20..]]));
        packet
    }

    fn v6(body: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0, 0, body.len() as u8, ICMPV6, 9];
        for last in [1, 2] {
            packet.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
        }
        packet.extend(body);
        let length = body.len();
        set_checksum(&mut packet, 42, |packet| {
            checksum([&pseudo_header(packet, length)[..], &packet[40..]])
        });
        packet
    }

    #[test]
    fn echoes_are_answered() {
        let Some(Heard::Answer(answer)) = hear(&v4(b"\x08\0\0\0\x12\x34\0\x01odd")) else {
            panic!("no answer")
        };
        assert_eq!(&answer[12..20], &[10, 0, 0, 1, 192, 0, 2, 1]);
        assert_eq!((answer[20], &answer[24..]), (0, &b"\x12\x34\0\x01odd"[..]));
        assert_eq!((checksum([&answer[..20]]), checksum([&answer[20..]])), (0, 0));
        assert_eq!(hear(&answer), None, "an answer is not answered");
        let Some(Heard::Answer(answer)) = hear(&v6(b"\x80\0\0\0\x12\x34\0\x01odd")) else {
            panic!("no answer")
        };
        assert_eq!((answer[23], answer[39], answer[40]), (2, 1, 129));
        assert_eq!(checksum([&pseudo_header(&answer, 11)[..], &answer[40..]]), 0);
    }

    /// Returns the effect of an IPv4 echo request that `change` has modified.
    fn answer_to(change: impl Fn(&mut Vec<u8>)) -> Option<Heard> {
        let mut packet = v4(b"\x08\0\0\0\x12\x34\0\x01");
        change(&mut packet);
        hear(&packet)
    }

    #[test]
    fn only_whole_echo_requests_of_icmp_are_answered() {
        let Some(Heard::Answer(answer)) = answer_to(|_| {}) else { panic!("no answer") };
        assert_eq!(answer[8], 64, "the time to live of a new packet");
        // The cases: a first fragment, a later fragment, and a whole packet with the DF flag.
        assert_eq!(answer_to(|packet| packet[6] = 0x20), None);
        assert_eq!(answer_to(|packet| packet[7] = 1), None);
        assert!(answer_to(|packet| packet[6] = 0x40).is_some());
        assert_eq!(answer_to(|packet| packet[9] = TCP), None);
        // The cases: an echo reply, a time exceeded message, an echo request with a code, and a timestamp
        // request.
        for (kind, code) in [(0, 0), (11, 0), (8, 1), (13, 0)] {
            assert_eq!(hear(&v4(&[kind, code, 0, 0, 0, 0, 0, 0])), None, "{kind} {code}");
            assert_eq!(hear(&v6(&[kind, code, 0, 0, 0, 0, 0, 0])), None, "{kind} {code}");
        }
        for (kind, code) in [(129, 0), (128, 1), (1, 0), (3, 0)] {
            assert_eq!(hear(&v6(&[kind, code, 0, 0, 0, 0, 0, 0])), None, "{kind} {code}");
        }
    }

    #[test]
    fn errors_about_other_protocols_or_with_other_codes_are_ignored() {
        let word = |code: u8, protocol: u8| {
            let mut body = vec![3, code, 0, 0, 0, 0, 0x05, 0x14];
            body.extend([0x45, 0, 5, 220, 0, 0, 0x40, 0, 64, protocol, 0, 0]);
            body.extend([10, 0, 0, 1, 192, 0, 2, 1, 1, 187, 0x9c, 0x40, 0, 0, 0, 9]);
            hear(&v4(&body))
        };
        assert!(word(4, TCP).is_some());
        assert_eq!((word(3, TCP), word(4, 17)), (None, None));
    }

    #[test]
    fn routers_report_all_long_packets_except_icmp_errors() {
        let router: [IpAddr; 2] = ["10.1.0.254", "fd00::fe"].map(|text| text.parse().unwrap());
        let told = |packet: &[u8], at: usize| too_large(packet, router[at], 1300).is_some();
        for kind in [3, 4, 5, 11, 12] {
            assert!(!told(&v4(&[kind, 0, 0, 0, 0, 0, 0, 0]), 0), "{kind}");
        }
        for kind in [0, 8, 13] {
            assert!(told(&v4(&[kind, 0, 0, 0, 0, 0, 0, 0]), 0), "{kind}");
        }
        for (kind, expected) in [(1, false), (2, false), (127, false), (128, true), (129, true)] {
            assert_eq!(told(&v6(&[kind, 0, 0, 0, 0, 0, 0, 0]), 1), expected, "{kind}");
        }
        assert!(!told(b"", 0) && !told(b"", 1));
    }

    #[test]
    fn a_path_mtu_report_names_the_subflow() {
        let tcp = [1, 187, 0x9c, 0x40, 0, 0, 0, 9];
        let mut body = vec![3, 4, 0, 0, 0, 0, 0x05, 0x14];
        body.extend([0x45, 0, 5, 220, 0, 0, 0x40, 0, 64, TCP, 0, 0, 10, 0, 0, 1, 192, 0, 2, 1]);
        body.extend(tcp);
        let tuple = FourTuple {
            local: ([10, 0, 0, 1], 443).into(),
            remote: ([192, 0, 2, 1], 40_000).into(),
        };
        let heard = Heard::PathMtu { tuple, mtu: 1300, seq: SeqNumber(9) };
        assert_eq!(hear(&v4(&body)), Some(heard));
        let mut body = vec![2, 0, 0, 0, 0, 0, 0x05, 0x14];
        let inner = v6(&tcp);
        body.extend(&inner[..6]);
        body.extend([TCP, 64]);
        body.extend(&inner[8..]);
        // The sequence number is at the position of the checksum that `v6` has written.
        body.truncate(48);
        body.extend(tcp);
        let Some(Heard::PathMtu { tuple, mtu, seq }) = hear(&v6(&body)) else {
            panic!("no report")
        };
        assert_eq!((mtu, seq), (1300, SeqNumber(9)));
        assert_eq!(tuple.local, "[2001:db8::1]:443".parse().expect("an address"));
        assert_eq!(tuple.remote, "[2001:db8::2]:40000".parse().expect("an address"));
    }

    #[test]
    fn a_router_s_report_is_understood_by_the_sender() {
        use anabranch_wire::{Segment, emit_packet};
        let payload = bytes::Bytes::from(vec![7; 1400]);
        let segment = Segment {
            source_port: 443,
            destination_port: 40_000,
            seq: SeqNumber(9),
            payload,
            ..Segment::default()
        };
        for (from, to, router, longest) in
            [("10.1.0.1", "10.1.1.1", "10.1.0.254", 576), ("fd00::1", "fd00::2", "fd00::fe", 1280)]
        {
            let [from, to, router]: [IpAddr; 3] =
                [from, to, router].map(|text| text.parse().expect("an address"));
            let mut packet = Vec::new();
            emit_packet(from, to, &segment, &mut packet).expect("a segment that can stand");
            let told = too_large(&packet, router, 1300).expect("a word");
            assert_eq!(told.len(), longest);
            assert_eq!(crate::header::destination(&told), Some(from));
            let tuple = FourTuple {
                local: SocketAddr::new(from, 443),
                remote: SocketAddr::new(to, 40_000),
            };
            assert_eq!(hear(&told), Some(Heard::PathMtu { tuple, mtu: 1300, seq: SeqNumber(9) }));
            assert_eq!(too_large(&told, router, 1300), None, "errors are not reported");
        }
    }

    #[test]
    fn truncated_and_corrupted_messages_are_ignored() {
        let mut body = vec![3, 4, 0, 0, 0, 0, 0x05, 0x14];
        body.extend([0x45, 0, 5, 220, 0, 0, 0x40, 0, 64, TCP, 0, 0, 10, 0, 0, 1, 192, 0, 2, 1]);
        body.extend([1, 187, 0x9c, 0x40, 0, 0, 0, 9]);
        for length in 4..body.len() {
            assert_eq!(hear(&v4(&body[..length])), None, "{length} bytes");
        }
        let mut spoilt = v4(&body);
        spoilt[30] ^= 1;
        assert_eq!(hear(&spoilt), None);
        let whole = v6(b"\x80\0\0\0\x12\x34\0\x01");
        for length in 0..whole.len() {
            assert_eq!(hear(&whole[..length]), None, "{length} bytes");
        }
    }
}
