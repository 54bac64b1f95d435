//! Bytes of a packet: changed after encoding, with a TCP checksum that fits again.

use anabranch_units::RandomStream;

/// Bytes of an IPv4 header without options, as this project writes it.
const IPV4_HEADER: usize = 20;
/// Bytes of an IPv6 header.
const IPV6_HEADER: usize = 40;
/// The protocol number of TCP.
const TCP: u32 = 6;

/// Where the TCP header begins in a packet of this project's own making.
fn tcp_at(packet: &[u8]) -> usize {
    if packet[0] >> 4 == 4 { IPV4_HEADER } else { IPV6_HEADER }
}

fn sum(bytes: &[u8]) -> u32 {
    let words = bytes
        .chunks(2)
        .map(|word| u32::from(word[0]) << 8 | u32::from(word.get(1).copied().unwrap_or_default()));
    words.sum()
}

/// Writes the TCP checksum that fits the bytes (RFC 9293 section 3.1).
pub(crate) fn seal(packet: &mut [u8]) {
    let at = tcp_at(packet);
    let addresses = if at == IPV4_HEADER { 12..20 } else { 8..40 };
    let length = (packet.len() - at) as u32;
    packet[at + 16..at + 18].fill(0);
    let total = folded(sum(&packet[addresses]) + TCP + length + sum(&packet[at..]));
    packet[at + 16..at + 18].copy_from_slice(&(!total).to_be_bytes());
}

/// Writes the checksum of an IPv4 header that fits it (RFC 791 section 3.1).
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

/// Flips bits anywhere behind the ports, and seals.
pub(crate) fn flip(random: &mut RandomStream, packet: &mut [u8]) {
    let from = tcp_at(packet) + 4;
    for _ in 0..=random.below(3) {
        // Headers are short and worth more than payload.
        let reach =
            if random.chance(0.7) { 60.min(packet.len() - from) } else { packet.len() - from };
        let at = from + random.below(reach as u64) as usize;
        packet[at] ^= 1 << random.below(8);
    }
    seal(packet);
}

/// Writes random bytes over the options, kinds that exist more often than others, and seals.
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
    fn a_seal_is_the_checksum_that_the_codec_writes() {
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
