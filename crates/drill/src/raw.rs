//! Changes to the bytes of an encoded packet, followed by a correction of the TCP checksum.

use anabranch_units::RandomStream;

/// The length of an IPv4 header without options.
const IPV4_HEADER: usize = 20;
/// The length of an IPv6 header.
const IPV6_HEADER: usize = 40;
/// The protocol number of TCP.
const TCP: u32 = 6;

/// Returns the offset of the TCP header in a packet without IP options or extension headers.
fn tcp_at(packet: &[u8]) -> usize {
    if packet[0] >> 4 == 4 { IPV4_HEADER } else { IPV6_HEADER }
}

fn sum(bytes: &[u8]) -> u32 {
    let words = bytes
        .chunks(2)
        .map(|word| u32::from(word[0]) << 8 | u32::from(word.get(1).copied().unwrap_or_default()));
    words.sum()
}

/// Writes the correct TCP checksum (RFC 9293 section 3.1).
pub(crate) fn seal(packet: &mut [u8]) {
    let at = tcp_at(packet);
    let addresses = if at == IPV4_HEADER { 12..20 } else { 8..40 };
    let length = (packet.len() - at) as u32;
    packet[at + 16..at + 18].fill(0);
    let total = folded(sum(&packet[addresses]) + TCP + length + sum(&packet[at..]));
    packet[at + 16..at + 18].copy_from_slice(&(!total).to_be_bytes());
}

/// Writes the correct checksum of an IPv4 header (RFC 791 section 3.1).
pub(crate) fn seal_ipv4(packet: &mut [u8]) {
    packet[10..12].fill(0);
    let total = folded(sum(&packet[..IPV4_HEADER]));
    packet[10..12].copy_from_slice(&(!total).to_be_bytes());
}

fn folded(mut total: u32) -> u16 {
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    total as u16
}

/// Inverts random bits after the ports, and corrects the checksum.
pub(crate) fn flip(random: &mut RandomStream, packet: &mut [u8]) {
    let from = tcp_at(packet) + 4;
    for _ in 0..=random.below(3) {
        // Headers are short, and changes to them find more faults than changes to the payload.
        let reach =
            if random.chance(0.7) { 60.min(packet.len() - from) } else { packet.len() - from };
        let at = from + random.below(reach as u64) as usize;
        packet[at] ^= 1 << random.below(8);
    }
    seal(packet);
}

/// Overwrites options with random bytes, and corrects the checksum. Kinds of known options are more likely.
pub(crate) fn scramble_options(random: &mut RandomStream, packet: &mut [u8]) {
    const KINDS: [u8; 10] = [0, 1, 2, 3, 4, 5, 8, 30, 30, 30];
    let at = tcp_at(packet);
    let end = at + usize::from(packet[at + 12] >> 4) * 4;
    for byte in &mut packet[at + 20..end] {
        match random.below(6) {
            0 => *byte = random.next_u64() as u8,
            1 => *byte = KINDS[random.below(10) as usize],
            2 => *byte = random.below(41) as u8,
            _ => {}
        }
    }
    seal(packet);
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use anabranch_wire::{Flags, Segment, emit_packet, parse_packet};
    use bytes::Bytes;

    use super::*;

    #[test]
    fn a_corrected_checksum_is_that_of_the_encoder() {
        let segment = Segment {
            source_port: 9,
            flags: Flags::ACK,
            payload: Bytes::from_static(b"odd"),
            ..Segment::default()
        };
        for (one, two) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
            let (one, two): (IpAddr, IpAddr) = (one.parse().unwrap(), two.parse().unwrap());
            let mut packet = Vec::new();
            emit_packet(one, two, &segment, &mut packet).unwrap();
            let written = packet.clone();
            seal(&mut packet);
            assert_eq!(packet, written);
            let last = packet.len() - 1;
            packet[last] ^= 1;
            assert!(parse_packet(&packet.clone().into()).is_err());
            seal(&mut packet);
            assert_eq!(parse_packet(&packet.into()).unwrap().segment.payload, &b"ode"[..]);
        }
    }
}
