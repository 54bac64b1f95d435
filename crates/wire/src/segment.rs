//! A TCP segment as a value: only what may legally stand on the wire.

use anabranch_units::SeqNumber;
use bytes::Bytes;

use crate::mptcp::{Dss, MptcpOption};

/// The control bits of a segment (RFC 9293 section 3.1, RFC 3168).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// No more data from the sender.
    pub const FIN: Self = Self(0x01);
    /// Synchronise sequence numbers.
    pub const SYN: Self = Self(0x02);
    /// Reset the connection.
    pub const RST: Self = Self(0x04);
    /// Push.
    pub const PSH: Self = Self(0x08);
    /// The acknowledgement field is significant.
    pub const ACK: Self = Self(0x10);

    /// Urgent data; kept, though there is no urgent pointer here.
    pub const URG: Self = Self(0x20);
    /// ECN echo.
    pub const ECE: Self = Self(0x40);
    /// Congestion window reduced.
    pub const CWR: Self = Self(0x80);

    /// True when every bit of `other` is set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets of bits.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// These bits without those of `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

/// What the IP header of the packet around a segment says of congestion (RFC 3168 section 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ecn {
    /// Not of an ECN-capable transport: congested queues drop it.
    #[default]
    NotEct,
    /// Of an ECN-capable transport, ECT(0): the one that senders use.
    Ect0,
    /// The same, ECT(1): of experiments (RFC 9331).
    Ect1,
    /// Congestion was experienced on the way.
    Ce,
}

impl Ecn {
    /// Queues may mark it instead of dropping it.
    pub const fn is_capable(self) -> bool {
        !matches!(self, Self::NotEct)
    }

    /// The two lowest bits of the type of service (IPv4) or of the traffic class (IPv6).
    pub const fn bits(self) -> u8 {
        match self {
            Self::NotEct => 0b00,
            Self::Ect1 => 0b01,
            Self::Ect0 => 0b10,
            Self::Ce => 0b11,
        }
    }

    /// The codepoint in the two lowest bits of an octet.
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
    /// `TSval`: the sender's clock.
    pub value: u32,
    /// `TSecr`: the echoed clock of the peer.
    pub echo: u32,
}

/// One SACK block: `[left, right)` (RFC 2018 section 3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlock {
    /// First sequence number of the block.
    pub left: SeqNumber,
    /// The sequence number just behind the block.
    pub right: SeqNumber,
}

/// Up to four SACK blocks, in the order they stand in the option.
#[derive(Clone, Copy, Debug, Default)]
pub struct SackBlocks {
    blocks: [SackBlock; 4],
    len: u8,
}

impl SackBlocks {
    /// No blocks: the option is absent.
    pub const EMPTY: Self =
        Self { blocks: [SackBlock { left: SeqNumber(0), right: SeqNumber(0) }; 4], len: 0 };

    /// Appends a block; a fifth is refused and `false` returned.
    pub fn push(&mut self, block: SackBlock) -> bool {
        let slot = usize::from(self.len);
        if slot == self.blocks.len() {
            return false;
        }
        self.blocks[slot] = block;
        self.len += 1;
        true
    }

    /// The blocks.
    pub fn as_slice(&self) -> &[SackBlock] {
        &self.blocks[..usize::from(self.len)]
    }

    /// True when the option is absent.
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
/// `mptcp` holds every MPTCP option but the DSS, which rides almost every segment and has its own field.
/// `ecn` stands in the IP header around it: senders choose it by segment, and receivers answer it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// The sender's port.
    pub source_port: u16,
    /// The receiver's port.
    pub destination_port: u16,
    /// Sequence number of the first byte (or of the SYN).
    pub seq: SeqNumber,
    /// Acknowledgement number; significant when `flags` has ACK, else zero.
    pub ack: SeqNumber,
    /// Control bits.
    pub flags: Flags,
    /// The ECN field of the IP header.
    pub ecn: Ecn,
    /// The window field as it stands on the wire, not yet scaled.
    pub window: u16,
    /// Maximum segment size option (SYN only).
    pub mss: Option<u16>,
    /// Window scale option (SYN only), at most 14.
    pub window_scale: Option<u8>,
    /// SACK-permitted option (SYN only).
    pub sack_permitted: bool,
    /// Timestamps option.
    pub timestamps: Option<Timestamps>,
    /// SACK option.
    pub sack: SackBlocks,
    /// The DSS option.
    pub dss: Option<Dss>,
    /// Every other MPTCP option, in wire order.
    pub mptcp: Vec<MptcpOption>,
    /// The payload.
    pub payload: Bytes,
}

impl Segment {
    /// Sequence space the segment takes: payload, SYN and FIN (RFC 9293 section 3.4).
    pub fn sequence_len(&self) -> u32 {
        self.payload.len() as u32
            + u32::from(self.flags.contains(Flags::SYN))
            + u32::from(self.flags.contains(Flags::FIN))
    }

    /// Bytes of TCP options on the wire, padded to 32 bits as Linux lays them out.
    pub fn options_len(&self) -> usize {
        crate::options::encoded_len(self)
    }

    /// Bytes of the TCP header with its options.
    pub fn header_len(&self) -> usize {
        20 + self.options_len()
    }
}
