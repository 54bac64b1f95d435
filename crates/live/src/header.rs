//! Reads the IP header of a packet that was not parsed, like a router. The packet may be incomplete or
//! malformed.

use std::net::{IpAddr, SocketAddr};

use anabranch_wire::checksum;

/// The protocol numbers of TCP and UDP.
pub(crate) const TCP: u8 = 6;
const UDP: u8 = 17;
/// The protocol numbers of IPv6's extension headers (RFC 8200 section 4).
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
pub(crate) const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION: u8 = 60;
/// The two reserved bits between a fragment's offset and its M flag.
const FRAGMENT_RESERVED: u16 = 0b110;
/// The time to live of a new packet, in hops (RFC 1700).
const HOPS: u8 = 64;
/// The lengths of an IPv4 header without options and of an IPv6 header, bytes.
const IPV4: usize = 20;
const IPV6: usize = 40;
/// Flags of a TCP header.
const SYN: u8 = 1 << 1;
const ACK: u8 = 1 << 4;
/// The two bits of explicit congestion notification (RFC 3168 section 5).
const ECN: u8 = 0b11;

/// Returns the IP version. `None` if the packet has no complete IP header.
fn version(packet: &[u8]) -> Option<u8> {
    let version = packet.first()? >> 4;
    let least = match version {
        4 => IPV4,
        6 => IPV6,
        _ => return None,
    };
    (packet.len() >= least).then_some(version)
}

/// Returns the destination address.
pub(crate) fn destination(packet: &[u8]) -> Option<IpAddr> {
    match version(packet)? {
        4 => <[u8; 4]>::try_from(&packet[16..20]).ok().map(IpAddr::from),
        _ => <[u8; 16]>::try_from(&packet[24..40]).ok().map(IpAddr::from),
    }
}

/// Returns the number of the packet's transport protocol.
pub(crate) fn protocol(packet: &[u8]) -> Option<u8> {
    transport(packet).map(|(protocol, _)| protocol)
}

/// Returns the transport protocol of a packet and the offset of its header. IPv4 options and IPv6 extension
/// headers are skipped (RFC 8200 section 4). For a fragment of an IPv6 packet, the number of the fragment
/// header is returned. A fragment that contains a whole packet counts as a packet (RFC 6946).
fn transport(packet: &[u8]) -> Option<(u8, usize)> {
    if version(packet)? == 4 {
        return Some((packet[9], usize::from(packet[0] & 15) * 4));
    }
    let (mut next, mut at) = (packet[6], IPV6);
    loop {
        let length = match next {
            HOP_BY_HOP | ROUTING | DESTINATION => 8 * (usize::from(*packet.get(at + 1)?) + 1),
            AUTHENTICATION => 4 * (usize::from(*packet.get(at + 1)?) + 2),
            FRAGMENT => {
                let place = u16::from_be_bytes([*packet.get(at + 2)?, *packet.get(at + 3)?]);
                if place & !FRAGMENT_RESERVED != 0 {
                    return Some((FRAGMENT, at));
                }
                8
            }
            _ => return Some((next, at)),
        };
        (next, at) = (*packet.get(at)?, at + length);
    }
}

/// Returns the source address of a TCP SYN without ACK. `None` for any other packet.
pub(crate) fn source_of_syn(packet: &[u8]) -> Option<IpAddr> {
    let (protocol, segment) = transport(packet)?;
    if protocol != TCP {
        return None;
    }
    let source = match version(packet)? {
        4 => <[u8; 4]>::try_from(&packet[12..16]).ok().map(IpAddr::from),
        _ => <[u8; 16]>::try_from(&packet[8..24]).ok().map(IpAddr::from),
    };
    let flags = packet.get(segment + 13)?;
    source.filter(|_| flags & (SYN | ACK) == SYN)
}

/// Returns the ECN bits.
fn ecn(packet: &[u8]) -> u8 {
    match version(packet) {
        Some(4) => packet[1] & ECN,
        Some(_) => packet[1] >> 4 & ECN,
        None => 0,
    }
}

/// Returns whether the packet's transport is ECN-capable. Only then can a router mark the packet.
pub(crate) fn is_ect(packet: &[u8]) -> bool {
    ecn(packet) != 0
}

/// Sets the CE mark (congestion experienced). Updates the checksum of an IPv4 header (RFC 1624).
pub(crate) fn mark(packet: &mut [u8]) {
    match version(packet) {
        Some(4) => {
            let before = u16::from_be_bytes([packet[0], packet[1]]);
            packet[1] |= ECN;
            let after = u16::from_be_bytes([packet[0], packet[1]]);
            let checksum = u16::from_be_bytes([packet[10], packet[11]]);
            let sum = u32::from(!checksum) + u32::from(!before) + u32::from(after);
            let sum = (sum & 0xffff) + (sum >> 16);
            let sum = (sum & 0xffff) + (sum >> 16);
            packet[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
        }
        Some(_) => packet[1] |= ECN << 4,
        None => {}
    }
}

/// Returns a hash of the packet's flow, which consists of addresses, protocol and ports (FNV-1a).
pub(crate) fn flow(packet: &[u8]) -> u64 {
    let Some((protocol, ports)) = transport(packet) else { return 0 };
    let addresses = if version(packet) == Some(4) { 12..20 } else { 8..40 };
    // TCP and UDP headers begin with the ports.
    let ports = packet.get(ports..ports + 4).unwrap_or_default();
    let bytes = packet[addresses].iter().chain(ports).chain(std::iter::once(&protocol));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Appends a UDP datagram of `size` bytes, including headers. The payload consists of zeros. If `size` is
/// smaller than the headers, the headers are truncated.
pub(crate) fn datagram((from, to): (SocketAddr, SocketAddr), size: usize, packet: &mut Vec<u8>) {
    let length = |headers: usize| (size.saturating_sub(headers) as u16).to_be_bytes();
    match (from.ip(), to.ip()) {
        (IpAddr::V4(own), IpAddr::V4(peer)) => {
            packet.extend([0x45, 0]);
            packet.extend(length(0));
            packet.extend([0, 0, 0x40, 0, HOPS, UDP, 0, 0]);
            packet.extend(own.octets());
            packet.extend(peer.octets());
            let sum = checksum([&packet[..IPV4]]);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        (own, peer) => {
            let words = |ip| match ip {
                IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                IpAddr::V6(ip) => ip,
            };
            packet.extend([0x60, 0, 0, 0]);
            packet.extend(length(IPV6));
            packet.extend([UDP, HOPS]);
            packet.extend(words(own).octets());
            packet.extend(words(peer).octets());
        }
    }
    let headers = packet.len();
    packet.extend(from.port().to_be_bytes());
    packet.extend(to.port().to_be_bytes());
    packet.extend(length(headers));
    packet.resize(size, 0);
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use anabranch_wire::{Ecn, Segment, emit_packet, parse_packet};

    use super::*;

    fn packet(ends: [&str; 2], port: u16, ecn: Ecn) -> Vec<u8> {
        let [from, to] = ends.map(|end| end.parse::<IpAddr>().unwrap());
        let segment =
            Segment { source_port: port, destination_port: 80, ecn, ..Segment::default() };
        let mut bytes = Vec::new();
        emit_packet(from, to, &segment, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn a_marked_packet_has_a_valid_checksum() {
        for ends in [["10.1.1.1", "10.1.0.1"], ["fd00::1", "fd00::2"]] {
            let mut bytes = packet(ends, 40_000, Ecn::Ect0);
            assert!(is_ect(&bytes));
            assert!(!is_ect(&packet(ends, 40_000, Ecn::NotEct)));
            mark(&mut bytes);
            assert_eq!(parse_packet(&bytes.into()).unwrap().segment.ecn, Ecn::Ce);
        }
    }

    #[test]
    fn a_datagram_has_its_size_and_its_flow() {
        for (ends, headers) in
            [(["10.1.0.1:9999", "10.1.1.1:40000"], 28), (["[fd00::1]:9999", "[fd00::2]:40000"], 48)]
        {
            let [from, to]: [SocketAddr; 2] = ends.map(|end| end.parse().unwrap());
            for size in [1, 40, headers, 1000] {
                let mut bytes = Vec::new();
                datagram((from, to), size, &mut bytes);
                assert_eq!(bytes.len(), size);
            }
            let (mut bytes, mut other) = (Vec::new(), Vec::new());
            datagram((from, to), 100, &mut bytes);
            assert_eq!((destination(&bytes), protocol(&bytes)), (Some(to.ip()), Some(UDP)));
            // The length field covers the UDP header and the payload.
            assert_eq!(bytes[headers - 4..headers - 2], (100 - headers as u16 + 8).to_be_bytes());
            datagram((from, SocketAddr::new(to.ip(), 7)), 100, &mut other);
            assert_ne!(flow(&bytes), flow(&other));
        }
    }

    #[test]
    fn flows_differ_by_addresses_and_ports() {
        let ends = ["10.1.1.1", "10.1.0.1"];
        let one = flow(&packet(ends, 40_000, Ecn::NotEct));
        assert_eq!(one, flow(&packet(ends, 40_000, Ecn::Ce)));
        assert_ne!(one, flow(&packet(ends, 40_001, Ecn::NotEct)));
        assert_ne!(one, flow(&packet(["10.1.0.1", "10.1.1.1"], 40_000, Ecn::NotEct)));
    }

    /// Returns a SYN over IPv6 with these extension headers. Each of them contains the number of the next
    /// one.
    fn syn_behind(headers: &[&[u8]]) -> Vec<u8> {
        let (from, to) = ("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap());
        let segment = Segment { flags: anabranch_wire::Flags::SYN, ..Segment::default() };
        let mut bytes = Vec::new();
        emit_packet(from, to, &segment, &mut bytes).unwrap();
        let tcp = bytes.split_off(IPV6);
        let behind = [headers.concat(), tcp].concat();
        bytes[4..6].copy_from_slice(&(behind.len() as u16).to_be_bytes());
        if let Some(first) = headers.first() {
            bytes[6] = if first.len() == 8 && first[1] == 9 { FRAGMENT } else { DESTINATION };
        }
        [bytes, behind].concat()
    }

    #[test]
    fn the_transport_is_found_after_extension_headers() {
        // RFC 8200 sections 4.2 to 4.6: the next header, and the length in units of 8 bytes, not counting the
        // first 8.
        let pad = |next: u8| [next, 0, 1, 4, 0, 0, 0, 0];
        let long = [&[TCP, 1, 1, 12][..], &[0; 12]].concat();
        let source = Some("fd00::1".parse().unwrap());
        let (last, first) = (pad(TCP), pad(DESTINATION));
        let cases: [&[&[u8]]; 4] = [&[], &[&last], &[&first, &last], &[&long]];
        for headers in cases {
            let bytes = syn_behind(headers);
            assert_eq!((protocol(&bytes), source_of_syn(&bytes)), (Some(TCP), source));
            assert_eq!(flow(&bytes), flow(&syn_behind(&[])));
            let parsed = parse_packet(&bytes.into()).unwrap();
            assert_eq!(parsed.segment.flags, anabranch_wire::Flags::SYN);
        }
        // In the first two cases, the fragment contains the whole packet. The others are one of several
        // fragments.
        for (place, number) in [(0, TCP), (0b110, TCP), (1, FRAGMENT), (1 << 3, FRAGMENT)] {
            let bytes = syn_behind(&[&[TCP, 9, 0, place, 0, 0, 0, 1]]);
            assert_eq!(protocol(&bytes), Some(number), "{place}");
            assert_eq!(source_of_syn(&bytes).is_some(), number == TCP);
        }
        // Each header is cut off at some point.
        let bytes = syn_behind(&[&last]);
        for cut in 40..bytes.len() {
            assert_eq!(source_of_syn(&bytes[..cut]).is_some(), cut > 48 + 13, "{cut}");
            assert!(cut > 41 || protocol(&bytes[..cut]).is_none(), "{cut}");
        }
    }

    #[test]
    fn a_malformed_packet_is_not_changed() {
        for bytes in [&[][..], &[0x45], &[0x60; 39], &[0; 60]] {
            let mut copy = bytes.to_vec();
            mark(&mut copy);
            assert_eq!((copy.as_slice(), flow(bytes), is_ect(bytes)), (bytes, 0, false));
        }
    }

    /// Returns a TCP packet with these flags. If requested, it has 4 bytes of IPv4 options.
    fn flagged(ends: [&str; 2], flags: u8, options: bool) -> Vec<u8> {
        let mut bytes = packet(ends, 40_000, Ecn::NotEct);
        let segment = bytes.len() - 20;
        bytes[segment + 13] = flags;
        if options {
            bytes[0] += 1;
            bytes.splice(20..20, [1; 4]);
        }
        bytes
    }

    #[test]
    fn only_the_source_of_a_syn_is_returned() {
        for ends in [["10.1.1.1", "10.1.0.1"], ["fd00::1", "fd00::2"]] {
            let source = Some(ends[0].parse::<IpAddr>().unwrap());
            let options = ends[0].contains('.');
            for (flags, expected) in
                [(SYN, source), (SYN | 0xc0, source), (SYN | ACK, None), (ACK, None), (0, None)]
            {
                for options in [false, options] {
                    assert_eq!(source_of_syn(&flagged(ends, flags, options)), expected);
                }
            }
            let whole = flagged(ends, SYN, false);
            let until_flags = whole.len() - 20 + 14;
            assert_eq!(source_of_syn(&whole[..until_flags]), source);
            assert_eq!(source_of_syn(&whole[..until_flags - 1]), None);
            let mut other = whole.clone();
            other[if options { 9 } else { 6 }] = UDP;
            assert_eq!(source_of_syn(&other), None);
        }
    }

    #[test]
    fn flows_over_ipv6_differ_by_both_addresses_and_the_ports() {
        let ends = ["fd00::1", "fd00::2"];
        let one = flow(&packet(ends, 40_000, Ecn::NotEct));
        assert_eq!(one, flow(&packet(ends, 40_000, Ecn::Ce)));
        for (other, port) in [
            (["fd00::2", "fd00::1"], 40_000),
            (["fd00::1", "fd00::3"], 40_000),
            (["fd00::3", "fd00::2"], 40_000),
            (ends, 40_001),
        ] {
            assert_ne!(one, flow(&packet(other, port, Ecn::NotEct)));
        }
        let mut udp = packet(ends, 40_000, Ecn::NotEct);
        udp[6] = UDP;
        assert_ne!(one, flow(&udp));
    }

    /// RFC 791: the sum over a header including its checksum is 0. RFC 768: the UDP length includes the UDP
    /// header.
    #[test]
    fn a_datagram_can_be_forwarded() {
        let ends: [SocketAddr; 2] =
            ["10.1.0.1:9999", "10.1.1.1:40000"].map(|end| end.parse().unwrap());
        let mut bytes = Vec::new();
        datagram(ends.into(), 1500, &mut bytes);
        assert_eq!(checksum([&bytes[..20]]), 0);
        assert_eq!((bytes[8], bytes[9], is_ect(&bytes)), (64, 17, false));
        assert_eq!(
            (&bytes[2..4], &bytes[24..26]),
            (&1500u16.to_be_bytes()[..], &1480u16.to_be_bytes()[..])
        );
        assert_eq!(
            (&bytes[20..22], &bytes[22..24]),
            (&9999u16.to_be_bytes()[..], &40_000u16.to_be_bytes()[..])
        );
        assert!(bytes[28..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn the_destination_of_any_packet_can_be_read() {
        let mut v4 = vec![0x45; 20];
        v4[16..].copy_from_slice(&[10, 9, 0, 1]);
        assert_eq!(destination(&v4), Some([10, 9, 0, 1].into()));
        let mut v6 = vec![0x60; 40];
        v6[24..].copy_from_slice(&[1; 16]);
        assert_eq!(destination(&v6), Some([1; 16].into()));
        for cut in [&v4[..19], &v6[..39], &[], &[0; 60]] {
            assert_eq!(destination(cut), None);
        }
        v4[9] = 6;
        v6[6] = 6;
        assert_eq!((protocol(&v4), protocol(&v6)), (Some(TCP), Some(TCP)));
        assert_eq!((protocol(&[]), protocol(&[0x45; 20])), (None, Some(0x45)));
    }
}
