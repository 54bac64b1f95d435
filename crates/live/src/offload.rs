//! The header before each packet of a device that offloads (`struct virtio_net_hdr`, VIRTIO 1.2 section
//! 5.1.6). Such a device segments bursts, merges segments, and computes checksums.

use std::num::NonZeroU16;

/// The length of the header, bytes.
pub(crate) const HEADER: usize = 10;
/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`: the TCP checksum field contains the sum of the pseudo-header only.
const NEEDS_CHECKSUM: u8 = 1;
/// `VIRTIO_NET_HDR_F_DATA_VALID`: the checksum was verified.
const VERIFIED: u8 = 2;
/// `VIRTIO_NET_HDR_GSO_TCPV4` and `_TCPV6`: the packet consists of several TCP segments.
const SEVERAL_V4: u8 = 1;
const SEVERAL_V6: u8 = 4;
/// The offset of the checksum in a TCP header, bytes.
const CHECKSUM_AT: u16 = 16;
/// The lengths of an IPv4 header without options and of an IPv6 header, bytes.
const IPV4: u16 = 20;
const IPV6: u16 = 40;

/// The content of an offload header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offloaded {
    /// The payload length of each segment if several segments were merged. `None` for a single segment.
    pub(crate) segment_size: Option<NonZeroU16>,
    /// Whether the kernel guarantees that the TCP payload is correct, so that the checksum need not be
    /// verified.
    pub(crate) verified: bool,
}

impl Offloaded {
    /// Reads a header.
    pub(crate) fn parse(header: &[u8; HEADER]) -> Self {
        let size = u16::from_ne_bytes([header[4], header[5]]);
        Self {
            segment_size: if header[1] == 0 { None } else { NonZeroU16::new(size) },
            verified: header[0] & (NEEDS_CHECKSUM | VERIFIED) != 0,
        }
    }

    /// Returns the header of a TCP packet whose checksum covers only the pseudo-header. `headers` are the
    /// packet's IP and TCP headers. With `segment_size`, the device divides the payload into segments of at
    /// most this length.
    pub(crate) fn unfinished(headers: &[u8], segment_size: Option<NonZeroU16>) -> [u8; HEADER] {
        let (ip, kind) = match headers.first().map(|first| first >> 4) {
            Some(4) => (IPV4, SEVERAL_V4),
            _ => (IPV6, SEVERAL_V6),
        };
        let mut header = [0; HEADER];
        header[0] = NEEDS_CHECKSUM;
        if let Some(size) = segment_size {
            // The length of the TCP header in 32-bit words.
            let words = headers.get(usize::from(ip) + 12).map_or(0, |byte| byte >> 4);
            header[1] = kind;
            header[2..4].copy_from_slice(&(ip + u16::from(words) * 4).to_ne_bytes());
            header[4..6].copy_from_slice(&size.get().to_ne_bytes());
        }
        header[6..8].copy_from_slice(&ip.to_ne_bytes());
        header[8..10].copy_from_slice(&CHECKSUM_AT.to_ne_bytes());
        header
    }
}

#[cfg(test)]
mod tests {
    use anabranch_wire::{Segment, Timestamps, emit_offloaded_headers};

    use super::*;

    #[test]
    fn the_header_of_a_burst_has_its_segment_size_and_checksum_offset() {
        for (ends, ip, kind) in [(["10.1.0.1", "10.1.1.1"], 20, 1), (["fd00::1", "fd00::2"], 40, 4)]
        {
            let timestamps = Some(Timestamps { value: 1, echo: 2 });
            let segment =
                Segment { timestamps, payload: vec![7; 3000].into(), ..Segment::default() };
            let [from, to] = ends.map(|end| end.parse().unwrap());
            let mut packet = Vec::new();
            emit_offloaded_headers(from, to, &segment, 0, &mut packet).unwrap();
            let size = NonZeroU16::new(1448).unwrap();
            let header = Offloaded::unfinished(&packet, Some(size));
            let word = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
            // A TCP header with timestamps and padding has 32 bytes.
            assert_eq!([word(2), word(4), word(6), word(8)], [ip + 32, 1448, ip, 16]);
            assert_eq!((header[0], header[1]), (1, kind));
            let read = Offloaded::parse(&header);
            assert_eq!(read, Offloaded { segment_size: Some(size), verified: true });
            // The device completes the checksum of a single segment and does not split it.
            let single = Offloaded::unfinished(&packet, None);
            assert_eq!((&single[..6], &single[6..]), (&[1, 0, 0, 0, 0, 0][..], &header[6..]));
        }
    }

    #[test]
    fn a_segment_size_needs_a_type_and_either_flag_verifies() {
        let size = 1448_u16.to_ne_bytes();
        let header = |flags, kind| [flags, kind, 0, 0, size[0], size[1], 0, 0, 0, 0];
        let read = |flags, kind| Offloaded::parse(&header(flags, kind));
        assert_eq!(read(0, 0), Offloaded::default());
        for flag in [NEEDS_CHECKSUM, VERIFIED] {
            assert_eq!(read(flag, 0), Offloaded { segment_size: None, verified: true });
        }
        // Bit 7 of the type is set if a segment has the CE mark (VIRTIO_NET_HDR_GSO_ECN).
        for kind in [SEVERAL_V4, SEVERAL_V6, SEVERAL_V4 | 0x80] {
            assert_eq!(read(0, kind).segment_size, NonZeroU16::new(1448));
        }
    }

    #[test]
    fn a_zero_header_means_an_unverified_single_packet() {
        assert_eq!(Offloaded::parse(&[0; HEADER]), Offloaded::default());
    }
}
