//! A TCP segment.

use std::num::NonZeroU16;

use anabranch_units::SeqNumber;
use bytes::Bytes;

use crate::mptcp::{Dss, MptcpOption};

/// The control bits of a segment (RFC 9293 section 3.1, RFC 3168).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// FIN: the sender has no more data.
    pub const FIN: Self = Self(0x01);
    /// SYN: synchronises sequence numbers.
    pub const SYN: Self = Self(0x02);
    /// RST: resets the connection.
    pub const RST: Self = Self(0x04);
    /// PSH: the receiver should deliver the data to its application.
    pub const PSH: Self = Self(0x08);
    /// ACK: the acknowledgement field is valid.
    pub const ACK: Self = Self(0x10);

    /// URG: urgent data. The flag is kept, but the urgent pointer is not.
    pub const URG: Self = Self(0x20);
    /// ECE: ECN echo.
    pub const ECE: Self = Self(0x40);
    /// CWR: congestion window reduced.
    pub const CWR: Self = Self(0x80);

    /// Returns whether all flags of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the flags that are set in either value.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the flags without those of `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

/// The ECN field of a packet's IP header (RFC 3168 section 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ecn {
    /// Not ECN-capable. A congested queue drops the packet.
    #[default]
    NotEct,
    /// ECN-capable transport, ECT(0), the codepoint of ordinary senders.
    Ect0,
    /// ECN-capable transport, ECT(1), used in experiments (RFC 9331).
    Ect1,
    /// Congestion experienced.
    Ce,
}

impl Ecn {
    /// Returns whether a queue may mark the packet instead of dropping it.
    pub const fn is_capable(self) -> bool {
        !matches!(self, Self::NotEct)
    }

    /// Returns the codepoint, which is the two lowest bits of the type of service (IPv4) or of the
    /// traffic class (IPv6).
    pub const fn bits(self) -> u8 {
        match self {
            Self::NotEct => 0b00,
            Self::Ect1 => 0b01,
            Self::Ect0 => 0b10,
            Self::Ce => 0b11,
        }
    }

    /// Returns the codepoint from the two lowest bits of an octet.
    pub const fn from_bits(octet: u8) -> Self {
        match octet & 0b11 {
            0b00 => Self::NotEct,
            0b01 => Self::Ect1,
            0b10 => Self::Ect0,
            _ => Self::Ce,
        }
    }
}

/// TCP timestamps (RFC 7323 section 3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timestamps {
    /// `TSval`: the timestamp clock of the sender.
    pub value: u32,
    /// `TSecr`: the echoed timestamp of the peer.
    pub echo: u32,
}

/// A SACK block, `[left, right)` (RFC 2018 section 3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlock {
    /// The first sequence number of the block.
    pub left: SeqNumber,
    /// The sequence number after the block.
    pub right: SeqNumber,
}

/// Up to four SACK blocks, in the order of the option.
#[derive(Clone, Copy, Debug, Default)]
pub struct SackBlocks {
    blocks: [SackBlock; 4],
    len: u8,
}

impl SackBlocks {
    /// No block, which means that the segment has no SACK option.
    pub const EMPTY: Self =
        Self { blocks: [SackBlock { left: SeqNumber(0), right: SeqNumber(0) }; 4], len: 0 };

    /// Appends a block. If there are already four blocks, does nothing and returns `false`.
    pub fn push(&mut self, block: SackBlock) -> bool {
        let slot = usize::from(self.len);
        if slot == self.blocks.len() {
            return false;
        }
        self.blocks[slot] = block;
        self.len += 1;
        true
    }

    /// Returns the blocks.
    pub fn as_slice(&self) -> &[SackBlock] {
        &self.blocks[..usize::from(self.len)]
    }

    /// Returns whether there is no block, and so no SACK option.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl PartialEq for SackBlocks {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for SackBlocks {}

/// A TCP segment between two ports.
///
/// The DSS has its own field, because most segments have one. `mptcp` contains all other MPTCP
/// options. `ecn` is part of the IP header: senders set it for each segment, and receivers echo
/// marks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// The sender's port.
    pub source_port: u16,
    /// The receiver's port.
    pub destination_port: u16,
    /// The sequence number of the first byte, or of the SYN.
    pub seq: SeqNumber,
    /// The acknowledgement number. Zero if `flags` does not contain ACK.
    pub ack: SeqNumber,
    /// The control bits.
    pub flags: Flags,
    /// The ECN field of the IP header.
    pub ecn: Ecn,
    /// The unscaled window field.
    pub window: u16,
    /// The maximum segment size option (SYN only).
    pub mss: Option<u16>,
    /// The window scale option (SYN only), at most 14.
    pub window_scale: Option<u8>,
    /// The SACK-permitted option (SYN only).
    pub sack_permitted: bool,
    /// The timestamps option.
    pub timestamps: Option<Timestamps>,
    /// The SACK option.
    pub sack: SackBlocks,
    /// The DSS option.
    pub dss: Option<Dss>,
    /// All other MPTCP options, in the order on the wire.
    pub mptcp: Vec<MptcpOption>,
    /// The payload.
    pub payload: Bytes,
}

impl Segment {
    /// Returns the length in sequence space: the payload, and one for SYN and for FIN (RFC 9293
    /// section 3.4).
    pub fn sequence_len(&self) -> u32 {
        self.payload.len() as u32
            + u32::from(self.flags.contains(Flags::SYN))
            + u32::from(self.flags.contains(Flags::FIN))
    }

    /// Resets the segment in place to default values, with these source and destination ports and
    /// this payload.
    // Inlined because callers set most fields right after this call.
    #[inline]
    pub fn blank(&mut self, ports: [u16; 2], bytes: Bytes) {
        // All fields are listed, so that a new field cannot be forgotten here.
        let Self {
            source_port,
            destination_port,
            seq,
            ack,
            flags,
            ecn,
            window,
            mss,
            window_scale,
            sack_permitted,
            timestamps,
            sack,
            dss,
            mptcp,
            payload,
        } = self;
        [*source_port, *destination_port] = ports;
        *seq = SeqNumber(0);
        *ack = SeqNumber(0);
        *flags = Flags::default();
        *ecn = Ecn::NotEct;
        *window = 0;
        *mss = None;
        *window_scale = None;
        *sack_permitted = false;
        *timestamps = None;
        *sack = SackBlocks::EMPTY;
        *dss = None;
        mptcp.clear();
        *payload = bytes;
    }

    /// Returns the length of the TCP options on the wire, padded to 32 bits as in Linux.
    #[inline]
    pub fn options_len(&self) -> usize {
        crate::options::encoded_len(self)
    }

    /// Returns the length of the TCP header including options, in bytes.
    pub fn header_len(&self) -> usize {
        20 + self.options_len()
    }

    /// Splits a burst into segments with `segment_size` bytes of payload each. The last one may be
    /// shorter.
    ///
    /// The result is the same as that of a device with segmentation offload (`tcp_gso_segment`).
    /// All segments have the same header and options, except for the sequence number. Only the
    /// first one has CWR, and only the last one has PSH and FIN. The payloads share the memory of
    /// the burst. A burst of at most `segment_size` bytes gives one segment.
    ///
    /// ```
    /// use std::num::NonZeroU16;
    ///
    /// use anabranch_units::SeqNumber;
    /// use anabranch_wire::{Flags, Segment};
    /// use bytes::Bytes;
    ///
    /// let burst = Segment {
    ///     seq: SeqNumber(100),
    ///     flags: Flags::ACK.with(Flags::PSH),
    ///     payload: Bytes::from_static(b"anabranch"),
    ///     ..Segment::default()
    /// };
    /// let size = NonZeroU16::new(4).expect("not 0");
    /// let cut: Vec<_> = burst
    ///     .split(size)
    ///     .map(|one| (one.seq.0, one.payload, one.flags.contains(Flags::PSH)))
    ///     .collect();
    /// let bytes = Bytes::from_static;
    /// assert_eq!(cut, [(100, bytes(b"anab"), false), (104, bytes(b"ranc"), false), (108, bytes(b"h"), true)]);
    /// ```
    pub fn split(&self, segment_size: NonZeroU16) -> impl ExactSizeIterator<Item = Self> {
        let (whole, size) = (self.payload.len(), usize::from(segment_size.get()));
        let count = whole.div_ceil(size).max(1);
        (0..count).map(move |number| {
            let from = number * size;
            let to = (from + size).min(whole);
            let (mut first_only, mut last_only) = (Flags::CWR, Flags::PSH.with(Flags::FIN));
            if number == 0 {
                first_only = Flags::default();
            }
            if number + 1 == count {
                last_only = Flags::default();
            }
            Self {
                seq: self.seq.add(from as u32),
                flags: self.flags.without(first_only).without(last_only),
                payload: self.payload.slice(from..to),
                ..self.clone()
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_split_as_by_a_device() {
        // tcp_gso_segment clears FIN and PSH on all but the last segment, and CWR on all but the
        // first.
        let timestamps = Some(Timestamps { value: 7, echo: 9 });
        let burst = Segment {
            seq: SeqNumber(u32::MAX - 1),
            flags: Flags(0xff).without(Flags::SYN).without(Flags::RST),
            timestamps,
            payload: Bytes::from(vec![1, 2, 3, 4, 5]),
            ..Segment::default()
        };
        let size = |size: u16| NonZeroU16::new(size).expect("not 0");
        let cut: Vec<_> = burst.split(size(2)).collect();
        assert!(cut.iter().all(|one| one.timestamps == timestamps));
        let told: Vec<_> =
            cut.iter().map(|one| (one.seq.0, one.flags.0, &one.payload[..])).collect();
        let expected: [(u32, u8, &[u8]); 3] =
            [(u32::MAX - 1, 0xf0, &[1, 2]), (0, 0x70, &[3, 4]), (2, 0x79, &[5])];
        assert_eq!(told, expected);
        assert_eq!(cut[1].payload.as_ptr(), burst.payload[2..].as_ptr(), "nothing is copied");
        for whole in [5, 6, u16::MAX] {
            assert!(burst.split(size(whole)).eq([burst.clone()]));
        }
        let empty = Segment { payload: Bytes::new(), ..burst };
        assert!(empty.split(size(1)).eq([empty.clone()]), "a FIN needs no payload");
    }
}
