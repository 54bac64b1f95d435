//! MPTCP connections: keys, tokens, subflows and signals.

use std::net::IpAddr;

use anabranch_wire::crypto::{Key, join_hmac, leftmost_64, leftmost_160};
use anabranch_wire::{CapableKeys, DataAck, MappingDsn, MpJoin, MptcpOption};
use hmac::{Hmac, KeyInit, Mac};
use sha1::{Digest, Sha1};

use crate::data_stream::DataStream;
use crate::exchange::Http;
use crate::record::Record;
use crate::stream::Direction;

/// The most signals that are kept for a connection; more are only counted.
const MOST_SIGNALS: usize = 4_096;

/// Token and initial data sequence number of a key (RFC 8684 and RFC 6824, section 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Derived {
    pub(crate) token: u32,
    pub(crate) idsn: u64,
}

impl Derived {
    /// Version 0 hashes with SHA-1, version 1 with SHA-256.
    pub(crate) fn new(version: u8, key: u64) -> Self {
        if version == 0 {
            let digest: [u8; 20] = Sha1::digest(key.to_be_bytes()).into();
            let word = |at: usize| u32::from_be_bytes(std::array::from_fn(|i| digest[at + i]));
            Self { token: word(0), idsn: u64::from(word(12)) << 32 | u64::from(word(16)) }
        } else {
            let key = Key::new(key);
            Self { token: key.token, idsn: key.idsn.0 }
        }
    }
}

/// Why a connection does not use MPTCP, or no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// The SYN/ACK has no `MP_CAPABLE`: the server or something on the path does not support MPTCP.
    NotInSynAck,
    /// The third packet has no `MP_CAPABLE`.
    NotInThirdPacket,
    /// A mapping of length zero: from there on, plain TCP.
    InfiniteMapping,
    /// `MP_FAIL`: a checksum was wrong.
    Fail,
}

/// A subflow.
#[derive(Clone, Debug)]
pub struct Subflow {
    /// Number of its stream in the capture.
    pub stream: usize,
    /// Whether it joined from the server's side: its client is the connection's server.
    pub from_server: bool,
    /// Whether the HMAC in the SYN/ACK is that of the keys.
    pub syn_ack_hmac_valid: Option<bool>,
    /// Whether the HMAC in the third packet is that of the keys.
    pub ack_hmac_valid: Option<bool>,
    /// Whether the client asked for a backup subflow.
    pub backup: bool,
    nonces: [Option<u32>; 2],
}

/// A signal of the path manager, or the end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signal {
    /// An address was announced.
    AddAddress {
        /// Its identifier.
        id: u8,
        /// The address.
        address: IpAddr,
        /// The port, if it is not that of the connection.
        port: Option<u16>,
    },
    /// The announcement was received.
    AddAddressEcho {
        /// The identifier.
        id: u8,
    },
    /// Addresses were withdrawn.
    RemoveAddress {
        /// Their identifiers.
        ids: Vec<u8>,
    },
    /// The priority of a subflow was changed.
    Priority {
        /// Whether it is a backup now.
        backup: bool,
    },
    /// A checksum was wrong.
    Fail,
    /// The connection was closed at once.
    FastClose,
    /// The reason of a RST (RFC 8684 section 3.6).
    Reset {
        /// The reason code.
        reason: u8,
    },
}

/// A signal with its time and subflow.
#[derive(Clone, Debug)]
pub struct Signalled {
    /// Nanoseconds since 1970.
    pub time_ns: i64,
    /// Number of the stream.
    pub stream: usize,
    /// The direction in which it was sent.
    pub direction: Direction,
    /// The signal.
    pub signal: Signal,
}

/// An MPTCP connection.
#[derive(Clone, Debug)]
pub struct Connection {
    /// Version of MPTCP, 0 or 1.
    pub version: u8,
    /// Keys of client and server, if the handshake was captured.
    pub keys: [Option<u64>; 2],
    /// The subflows, in the order in which they began.
    pub subflows: Vec<Subflow>,
    /// The data stream of each direction.
    pub data: [DataStream; 2],
    /// Signals in the order of the capture.
    pub signals: Vec<Signalled>,
    /// Signals beyond those that are kept.
    pub more_signals: u64,
    /// Why MPTCP is not used.
    pub fallback: Option<Fallback>,
    /// Whether the subflows were matched by their data sequence numbers, because no handshake was captured.
    pub guessed: bool,
    /// HTTP in the data.
    pub http: Http,
}

impl Connection {
    pub(crate) fn new(version: u8, stream: usize) -> Self {
        Self {
            version,
            keys: [None; 2],
            subflows: vec![Subflow::new(stream, false, false)],
            data: Default::default(),
            signals: Vec::new(),
            more_signals: 0,
            fallback: None,
            guessed: false,
            http: Http::default(),
        }
    }

    /// Notes a host's key: that of the client for [`Direction::ToServer`].
    pub(crate) fn learn_key(&mut self, sender: Direction, key: u64) {
        let own = &mut self.keys[sender as usize];
        if own.is_none() {
            *own = Some(key);
            let idsn = Derived::new(self.version, key).idsn;
            self.data[sender as usize].begin_at(idsn.wrapping_add(1));
        }
    }

    /// Returns the token of a host, if its key is known.
    pub fn token(&self, sender: Direction) -> Option<u32> {
        self.keys[sender as usize].map(|key| Derived::new(self.version, key).token)
    }

    /// Returns the direction at data level of a segment on a subflow.
    pub(crate) fn direction(&self, subflow: usize, direction: Direction) -> Direction {
        if self.subflows[subflow].from_server { direction.other() } else { direction }
    }

    /// Takes the MPTCP options of a segment, other than mappings and data-level acknowledgements.
    pub(crate) fn on_options(&mut self, subflow: usize, direction: Direction, record: &Record<'_>) {
        for option in &record.segment.mptcp {
            match option {
                MptcpOption::Capable(capable) => {
                    if let CapableKeys::Both { initiator, responder }
                    | CapableKeys::WithData { initiator, responder, .. } = capable.keys
                        && direction == Direction::ToServer
                        && self.version != 0
                    {
                        self.learn_key(Direction::ToServer, initiator);
                        self.learn_key(Direction::ToClient, responder);
                    }
                    if let CapableKeys::Responder(key) = capable.keys
                        && direction == Direction::ToClient
                        && self.version != 0
                    {
                        self.learn_key(Direction::ToClient, key);
                    }
                }
                MptcpOption::Join(join) => self.on_join(subflow, direction, join),
                other => self.on_signal(subflow, direction, other, record.time_ns),
            }
        }
        if let Some(capable) = record.capable_0.filter(|_| self.version == 0) {
            self.learn_key(direction, capable.sender);
            if let Some(receiver) = capable.receiver {
                self.learn_key(direction.other(), receiver);
            }
        }
        if let Some(dss) = &record.segment.dss {
            self.data[direction as usize].data_fin |= dss.data_fin;
            if dss.mapping.is_some_and(|mapping| mapping.length == 0 && !dss.data_fin) {
                self.fallback.get_or_insert(Fallback::InfiniteMapping);
            }
        }
    }

    /// Takes the data-level acknowledgement of a segment. Call it after the data that the segment's TCP
    /// acknowledgement delivers.
    pub(crate) fn on_data_ack(&mut self, direction: Direction, record: &Record<'_>) {
        let ack = match record.segment.dss.and_then(|dss| dss.data_ack) {
            Some(DataAck::Long(dsn)) => MappingDsn::Long(dsn),
            Some(DataAck::Short(short)) => MappingDsn::Short(short),
            None => return,
        };
        self.data[direction.other() as usize].on_data_ack(ack, record.time_ns);
    }

    fn on_signal(&mut self, subflow: usize, direction: Direction, option: &MptcpOption, now: i64) {
        let signal = match option {
            MptcpOption::AddAddr(add) if add.hmac.is_none() => {
                Signal::AddAddressEcho { id: add.address_id }
            }
            MptcpOption::AddAddr(add) => {
                Signal::AddAddress { id: add.address_id, address: add.address, port: add.port }
            }
            MptcpOption::RemoveAddr(remove) => Signal::RemoveAddress { ids: remove.ids().to_vec() },
            MptcpOption::Prio { backup } => Signal::Priority { backup: *backup },
            MptcpOption::Fail { .. } => {
                self.fallback.get_or_insert(Fallback::Fail);
                Signal::Fail
            }
            MptcpOption::FastClose { .. } => Signal::FastClose,
            MptcpOption::TcpRst(reset) => Signal::Reset { reason: reset.reason },
            MptcpOption::Capable(_) | MptcpOption::Join(_) => return,
        };
        if self.signals.len() < MOST_SIGNALS {
            let stream = self.subflows[subflow].stream;
            self.signals.push(Signalled { time_ns: now, stream, direction, signal });
        } else {
            self.more_signals += 1;
        }
    }

    /// Checks the HMACs of a join. `direction` is that at data level.
    fn on_join(&mut self, subflow: usize, direction: Direction, join: &MpJoin) {
        let (version, keys) = (self.version, self.keys);
        let subflow = &mut self.subflows[subflow];
        match *join {
            MpJoin::Syn { nonce, backup, .. } => {
                subflow.nonces[0] = Some(nonce);
                subflow.backup = backup;
            }
            MpJoin::SynAck { nonce, hmac, .. } => {
                subflow.nonces[1] = Some(nonce);
                let mac = subflow.mac(version, keys, direction, 1);
                subflow.syn_ack_hmac_valid = mac.map(|mac| leftmost_64(&mac) == hmac);
            }
            MpJoin::Ack { hmac } => {
                let mac = subflow.mac(version, keys, direction, 0);
                subflow.ack_hmac_valid = mac.map(|mac| leftmost_160(&mac) == hmac);
            }
        }
    }
}

impl Subflow {
    pub(crate) fn new(stream: usize, from_server: bool, backup: bool) -> Self {
        Self {
            stream,
            from_server,
            syn_ack_hmac_valid: None,
            ack_hmac_valid: None,
            backup,
            nonces: [None; 2],
        }
    }

    /// Returns the HMAC of the host that sends in `direction`, whose nonce has the number `own`.
    fn mac(
        &self,
        version: u8,
        keys: [Option<u64>; 2],
        direction: Direction,
        own: usize,
    ) -> Option<[u8; 32]> {
        let own_key = keys[direction as usize]?;
        let peer_key = keys[direction.other() as usize]?;
        let (own_nonce, peer_nonce) = (self.nonces[own]?, self.nonces[1 - own]?);
        if version != 0 {
            return Some(join_hmac(own_key, peer_key, own_nonce, peer_nonce));
        }
        let mut key = [0; 16];
        key[..8].copy_from_slice(&own_key.to_be_bytes());
        key[8..].copy_from_slice(&peer_key.to_be_bytes());
        let mut mac = Hmac::<Sha1>::new_from_slice(&key).ok()?;
        mac.update(&own_nonce.to_be_bytes());
        mac.update(&peer_nonce.to_be_bytes());
        let short: [u8; 20] = mac.finalize().into_bytes().into();
        let mut padded = [0; 32];
        padded[..20].copy_from_slice(&short);
        Some(padded)
    }
}
