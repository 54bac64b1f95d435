//! What can be wrong with bytes, and with a segment.

/// Why a segment cannot stand on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmitError {
    /// The options do not fit.
    #[error("{0} bytes of TCP options, of which 40 fit")]
    OptionsTooLong(usize),
    /// One address is IPv4 and the other IPv6.
    #[error("source and destination are of different address families")]
    MixedFamilies,
    /// The packet's length does not fit into the IP header.
    #[error("{0} bytes of TCP header and payload do not fit into an IP packet")]
    PacketTooLong(usize),
    /// An option of the handshake is on a segment without SYN.
    #[error("option {0} on a segment without SYN")]
    SynOnly(&'static str),
    /// `ack` is set and the flag that makes it significant is not.
    #[error("an acknowledgement number without the ACK flag")]
    AckWithoutFlag,
    /// A window scale above 14 (RFC 7323 section 2.3).
    #[error("window scale {0}, of which 14 is the most")]
    WindowScale(u8),
    /// A field of `MP_CAPABLE` that has fewer bits than its value.
    #[error("MP_CAPABLE {field} {value} has too many bits")]
    Capable {
        /// `version` or `crypto`.
        field: &'static str,
        /// What it holds.
        value: u8,
    },
}

/// Why bytes are not a packet with a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// Neither a whole IPv4 packet nor a whole IPv6 packet.
    #[error("no whole IP packet")]
    Ip,
    /// A fragment; nothing here reassembles.
    #[error("an IP fragment")]
    Fragment,
    /// The payload is of another protocol.
    #[error("IP protocol {0}, not TCP")]
    NotTcp(u8),
    /// The IPv4 header checksum is wrong.
    #[error("IPv4 header checksum {found:#06x}, computed {computed:#06x}")]
    IpChecksum {
        /// What the header holds.
        found: u16,
        /// What it ought to hold.
        computed: u16,
    },
    /// The TCP header is cut short, or its data offset impossible.
    #[error("no whole TCP header")]
    TcpHeader,
    /// The TCP checksum is wrong.
    #[error("TCP checksum {found:#06x}, computed {computed:#06x}")]
    TcpChecksum {
        /// What the header holds.
        found: u16,
        /// What it ought to hold.
        computed: u16,
    },
}
