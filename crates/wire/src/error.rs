//! The errors of emitting and parsing packets.

/// The reason why a segment cannot be emitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmitError {
    /// The options need more than 40 bytes.
    #[error("{0} bytes of TCP options, but only 40 fit")]
    OptionsTooLong(usize),
    /// One address is IPv4, and the other is IPv6.
    #[error("source and destination are of different address families")]
    MixedFamilies,
    /// The length of the packet does not fit the IP header.
    #[error("{0} bytes of TCP header and payload do not fit into an IP packet")]
    PacketTooLong(usize),
    /// The segment has a handshake option, but not the SYN flag.
    #[error("option {0} on a segment without SYN")]
    SynOnly(&'static str),
    /// `ack` is set, but not the ACK flag.
    #[error("an acknowledgement number without the ACK flag")]
    AckWithoutFlag,
    /// The window scale exceeds 14 (RFC 7323 section 2.3).
    #[error("window scale {0} is above 14")]
    WindowScale(u8),
    /// A value in an `MP_CAPABLE` option has more bits than its field.
    #[error("MP_CAPABLE {field} {value} has too many bits")]
    Capable {
        /// The field: `version` or `crypto`.
        field: &'static str,
        /// The value.
        value: u8,
    },
}

/// The reason why bytes cannot be parsed as a packet with a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The bytes are no complete IPv4 or IPv6 packet.
    #[error("no whole IP packet")]
    Ip,
    /// The packet is a fragment. Fragments are not reassembled.
    #[error("an IP fragment")]
    Fragment,
    /// The payload is of a protocol other than TCP.
    #[error("IP protocol {0}, not TCP")]
    NotTcp(u8),
    /// The IPv4 header checksum is wrong.
    #[error("IPv4 header checksum {found:#06x}, computed {computed:#06x}")]
    IpChecksum {
        /// The checksum in the header.
        found: u16,
        /// The correct checksum.
        computed: u16,
    },
    /// The TCP header is truncated, or its data offset is invalid.
    #[error("no whole TCP header")]
    TcpHeader,
    /// The TCP checksum is wrong.
    #[error("TCP checksum {found:#06x}, computed {computed:#06x}")]
    TcpChecksum {
        /// The checksum in the header.
        found: u16,
        /// The correct checksum.
        computed: u16,
    },
}
