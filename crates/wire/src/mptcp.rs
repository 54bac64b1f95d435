//! The MPTCP options of RFC 8684. These types can only represent valid options.

use std::net::IpAddr;

use anabranch_units::DataSeq;

/// A Data Sequence Signal (RFC 8684 section 3.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dss {
    /// The data-level acknowledgement.
    pub data_ack: Option<DataAck>,
    /// The mapping of subflow bytes to data sequence numbers.
    pub mapping: Option<Mapping>,
    /// `DATA_FIN`: the mapping ends with the end of the data, which has the last sequence number.
    pub data_fin: bool,
}

/// A data-level acknowledgement with 4 or 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataAck {
    /// The low 32 bits.
    Short(u32),
    /// All 64 bits.
    Long(DataSeq),
}

/// The data sequence number of a mapping with 4 or 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MappingDsn {
    /// The low 32 bits.
    Short(u32),
    /// All 64 bits.
    Long(DataSeq),
}

/// A mapping of subflow sequence space to data sequence space (RFC 8684 section 3.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Data sequence number of the mapping's first byte.
    pub dsn: MappingDsn,
    /// Relative subflow sequence number. The first data byte has number 1. A `DATA_FIN` without
    /// data has number 0.
    pub ssn: u32,
    /// Data-level length, including a `DATA_FIN`. Zero means the infinite mapping.
    pub length: u16,
    /// The DSS checksum, if checksums were negotiated.
    pub checksum: Option<u16>,
}

/// `MP_CAPABLE` in the four forms of the handshake (RFC 8684 section 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MpCapable {
    /// Protocol version, 1.
    pub version: u8,
    /// Flag A: checksums are required.
    pub checksum_required: bool,
    /// Flag B: extensibility. It must be zero. It is stored so that a violation can be detected.
    pub extensibility: bool,
    /// Flag C: the peer must not open subflows to the source address of this option.
    pub deny_join_initial_address: bool,
    /// Flags D to H in the low five bits. H (0x01) means HMAC-SHA256.
    pub crypto: u8,
    /// The keys and the other fields after the flags.
    pub keys: CapableKeys,
}

impl MpCapable {
    /// The only protocol version of RFC 8684.
    pub const VERSION: u8 = 1;

    /// Returns version 1 with HMAC-SHA256 and no other flag.
    pub const fn with_keys(keys: CapableKeys) -> Self {
        Self {
            version: Self::VERSION,
            checksum_required: false,
            extensibility: false,
            deny_join_initial_address: false,
            crypto: 1,
            keys,
        }
    }
}

/// The fields of an `MP_CAPABLE` after its flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapableKeys {
    /// In the SYN: no key.
    None,
    /// In the SYN/ACK: the responder's key.
    Responder(u64),
    /// In the third packet of the handshake, without data: both keys.
    Both {
        /// The initiator's key.
        initiator: u64,
        /// The responder's key.
        responder: u64,
    },
    /// In the first packet with data: both keys, and the length of the data.
    WithData {
        /// The initiator's key.
        initiator: u64,
        /// The responder's key.
        responder: u64,
        /// The data-level length.
        length: u16,
        /// The DSS checksum, if checksums were negotiated.
        checksum: Option<u16>,
    },
}

/// `MP_JOIN` in the three forms of the handshake (RFC 8684 section 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MpJoin {
    /// SYN.
    Syn {
        /// Flag B: whether the subflow is a backup.
        backup: bool,
        /// The address identifier of the sender.
        address_id: u8,
        /// The token of the receiver's connection.
        token: u32,
        /// The random number of the sender.
        nonce: u32,
    },
    /// SYN/ACK.
    SynAck {
        /// Flag B: whether the subflow is a backup.
        backup: bool,
        /// The address identifier of the sender.
        address_id: u8,
        /// The leftmost 64 bits of the responder's HMAC.
        hmac: u64,
        /// The random number of the sender.
        nonce: u32,
    },
    /// The third packet of the handshake.
    Ack {
        /// The leftmost 160 bits of the initiator's HMAC.
        hmac: [u8; 20],
    },
}

/// `ADD_ADDR` (RFC 8684 section 3.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddAddr {
    /// The identifier of the announced address.
    pub address_id: u8,
    /// The announced address.
    pub address: IpAddr,
    /// The announced port. `None` means the port of the subflow on which the option is sent.
    pub port: Option<u16>,
    /// The rightmost 64 bits of the HMAC. `None` means that the option is an echo (flag E).
    pub hmac: Option<u64>,
}

/// `REMOVE_ADDR` (RFC 8684 section 3.4.2) with at least one identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoveAddr {
    ids: [u8; 8],
    len: u8,
}

impl RemoveAddr {
    /// Returns an option with 1 to 8 identifiers. `None` for any other number.
    pub fn new(ids: &[u8]) -> Option<Self> {
        if ids.is_empty() || ids.len() > 8 {
            return None;
        }
        let mut value = Self { ids: [0; 8], len: ids.len() as u8 };
        value.ids[..ids.len()].copy_from_slice(ids);
        Some(value)
    }

    /// Returns the identifiers of the removed addresses.
    pub fn ids(&self) -> &[u8] {
        &self.ids[..usize::from(self.len)]
    }
}

/// `MP_TCPRST` (RFC 8684 section 3.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MpTcpRst {
    /// Flag T: whether the condition is transient.
    pub transient: bool,
    /// The reason code.
    pub reason: u8,
}

/// Every MPTCP option other than the DSS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MptcpOption {
    /// Subtype 0.
    Capable(MpCapable),
    /// Subtype 1.
    Join(MpJoin),
    /// Subtype 3.
    AddAddr(AddAddr),
    /// Subtype 4.
    RemoveAddr(RemoveAddr),
    /// Subtype 5: changes the backup flag of the subflow on which the option is sent.
    Prio {
        /// Flag B: whether the subflow is a backup.
        backup: bool,
    },
    /// Subtype 6: a checksum failed.
    Fail {
        /// The data sequence number at which the failed mapping begins.
        dsn: DataSeq,
    },
    /// Subtype 7: closes the connection without delivering the remaining data.
    FastClose {
        /// The key of the receiving host.
        key: u64,
    },
    /// Subtype 8.
    TcpRst(MpTcpRst),
}
