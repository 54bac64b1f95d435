//! The MPTCP options of RFC 8684 as types that represent only valid options.

use std::net::IpAddr;

use anabranch_units::DataSeq;

/// A Data Sequence Signal (RFC 8684 section 3.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dss {
    /// The data-level acknowledgement.
    pub data_ack: Option<DataAck>,
    /// The mapping of subflow bytes to data sequence numbers.
    pub mapping: Option<Mapping>,
    /// `DATA_FIN`: the last sequence number of the mapping is the end of the data.
    pub data_fin: bool,
}

/// A data-level acknowledgement, 4 or 8 bytes long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataAck {
    /// Only the low 32 bits.
    Short(u32),
    /// All 64 bits.
    Long(DataSeq),
}

/// A mapping's data sequence number, 4 or 8 bytes long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MappingDsn {
    /// Only the low 32 bits.
    Short(u32),
    /// All 64 bits.
    Long(DataSeq),
}

/// A mapping of subflow sequence space to data sequence space (RFC 8684 section 3.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Data sequence number of the mapping's first byte.
    pub dsn: MappingDsn,
    /// Relative subflow sequence number. The first data byte has 1. A `DATA_FIN` without data has
    /// 0.
    pub ssn: u32,
    /// Data-level length, including the `DATA_FIN` if there is one; 0 is the infinite mapping.
    pub length: u16,
    /// The DSS checksum, if negotiated.
    pub checksum: Option<u16>,
}

/// `MP_CAPABLE` in the four forms of the handshake (RFC 8684 section 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MpCapable {
    /// Protocol version, 1.
    pub version: u8,
    /// Flag A: checksums required.
    pub checksum_required: bool,
    /// Flag B: extensibility. It must be zero and is kept so that a violation can be detected.
    pub extensibility: bool,
    /// Flag C: do not open subflows to the source address of this option.
    pub deny_join_initial_address: bool,
    /// Flags D to H in the low five bits. H (0x01) is HMAC-SHA256.
    pub crypto: u8,
    /// The keys and other content of the form.
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

/// The content of an `MP_CAPABLE` after its flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapableKeys {
    /// SYN: no key.
    None,
    /// SYN/ACK: the responder's key.
    Responder(u64),
    /// Third packet without data: both keys.
    Both {
        /// The initiator's key.
        initiator: u64,
        /// The responder's key.
        responder: u64,
    },
    /// First data: both keys and the length of the data.
    WithData {
        /// The initiator's key.
        initiator: u64,
        /// The responder's key.
        responder: u64,
        /// Data-level length.
        length: u16,
        /// The DSS checksum, if negotiated.
        checksum: Option<u16>,
    },
}

/// `MP_JOIN` in the three forms of the handshake (RFC 8684 section 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MpJoin {
    /// SYN.
    Syn {
        /// B: whether the subflow is a backup.
        backup: bool,
        /// The sender's address identifier.
        address_id: u8,
        /// The receiver's token.
        token: u32,
        /// The sender's random number.
        nonce: u32,
    },
    /// SYN/ACK.
    SynAck {
        /// B: whether the subflow is a backup.
        backup: bool,
        /// The sender's address identifier.
        address_id: u8,
        /// Leftmost 64 bits of the responder's HMAC.
        hmac: u64,
        /// The sender's random number.
        nonce: u32,
    },
    /// Third packet.
    Ack {
        /// Leftmost 160 bits of the initiator's HMAC.
        hmac: [u8; 20],
    },
}

/// `ADD_ADDR` (RFC 8684 section 3.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddAddr {
    /// The announced address's identifier.
    pub address_id: u8,
    /// The announced address.
    pub address: IpAddr,
    /// The announced port; `None` means the port of the subflow that carries the option.
    pub port: Option<u16>,
    /// Rightmost 64 bits of the HMAC; `None` marks an echo (E flag).
    pub hmac: Option<u64>,
}

/// `REMOVE_ADDR` (RFC 8684 section 3.4.2) with at least one identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoveAddr {
    ids: [u8; 8],
    len: u8,
}

impl RemoveAddr {
    /// Returns the option for 1 to 8 identifiers, or `None` for any other number.
    pub fn new(ids: &[u8]) -> Option<Self> {
        if ids.is_empty() || ids.len() > 8 {
            return None;
        }
        let mut value = Self { ids: [0; 8], len: ids.len() as u8 };
        value.ids[..ids.len()].copy_from_slice(ids);
        Some(value)
    }

    /// Returns the removed identifiers.
    pub fn ids(&self) -> &[u8] {
        &self.ids[..usize::from(self.len)]
    }
}

/// `MP_TCPRST` (RFC 8684 section 3.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MpTcpRst {
    /// T: whether the condition is transient.
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
    /// Subtype 5: the backup flag of the subflow that carries the option.
    Prio {
        /// B: whether the subflow is a backup.
        backup: bool,
    },
    /// Subtype 6: the start of the mapping whose checksum failed.
    Fail {
        /// Data sequence number of that start.
        dsn: DataSeq,
    },
    /// Subtype 7: closes the connection at once.
    FastClose {
        /// The key of the host that receives the option.
        key: u64,
    },
    /// Subtype 8.
    TcpRst(MpTcpRst),
}
