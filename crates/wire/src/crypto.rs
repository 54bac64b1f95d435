//! Keys, tokens, initial data sequence numbers and HMACs (RFC 8684 sections 3.1, 3.2, 3.4.1).

use std::array;
use std::net::IpAddr;

use anabranch_units::DataSeq;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// A connection key with the values derived from it. The token is the leftmost 32 bits of the
/// SHA-256 of the key in network byte order, and the IDSN is the rightmost 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// The key.
    pub value: u64,
    /// The token that identifies the connection in `MP_JOIN`.
    pub token: u32,
    /// The initial data sequence number (IDSN). The first data byte has the next number.
    pub idsn: DataSeq,
}

impl Key {
    /// Derives the token and the IDSN from a key.
    pub fn new(value: u64) -> Self {
        let digest = Sha256::digest(value.to_be_bytes());
        let token = u32::from_be_bytes(array::from_fn(|i| digest[i]));
        let idsn = u64::from_be_bytes(array::from_fn(|i| digest[24 + i]));
        Self { value, token, idsn: DataSeq(idsn) }
    }
}

/// Returns the HMAC-SHA256 of `message`. The HMAC key is the sender's key followed by the
/// receiver's key.
fn hmac(sender: u64, receiver: u64, message: &[u8]) -> [u8; 32] {
    let mut key = [0u8; 16];
    key[..8].copy_from_slice(&sender.to_be_bytes());
    key[8..].copy_from_slice(&receiver.to_be_bytes());
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("HMAC takes a key of any length");
    mac.update(message);
    mac.finalize().into_bytes().into()
}

/// Returns the HMAC of an `MP_JOIN` (RFC 8684 section 3.2). In key and message, the sender's values
/// precede those of the peer.
pub fn join_hmac(own_key: u64, peer_key: u64, own_nonce: u32, peer_nonce: u32) -> [u8; 32] {
    let mut message = [0u8; 8];
    message[..4].copy_from_slice(&own_nonce.to_be_bytes());
    message[4..].copy_from_slice(&peer_nonce.to_be_bytes());
    hmac(own_key, peer_key, &message)
}

/// Returns the truncated HMAC of an `ADD_ADDR` (RFC 8684 section 3.4.1): the rightmost 64 bits of
/// the HMAC over identifier, address and port. If the option has no port, the port is zero.
pub fn add_addr_hmac(
    own_key: u64,
    peer_key: u64,
    address_id: u8,
    address: IpAddr,
    port: Option<u16>,
) -> u64 {
    let mut message = [0u8; 19];
    message[0] = address_id;
    let port_at = match address {
        IpAddr::V4(v4) => {
            message[1..5].copy_from_slice(&v4.octets());
            5
        }
        IpAddr::V6(v6) => {
            message[1..17].copy_from_slice(&v6.octets());
            17
        }
    };
    message[port_at..port_at + 2].copy_from_slice(&port.unwrap_or(0).to_be_bytes());
    let mac = hmac(own_key, peer_key, &message[..port_at + 2]);
    u64::from_be_bytes(array::from_fn(|i| mac[24 + i]))
}

/// Returns the leftmost 64 bits of an HMAC, which the SYN/ACK with `MP_JOIN` contains.
pub fn leftmost_64(mac: &[u8; 32]) -> u64 {
    u64::from_be_bytes(array::from_fn(|i| mac[i]))
}

/// Returns the leftmost 160 bits of an HMAC, which the ACK with `MP_JOIN` contains.
pub fn leftmost_160(mac: &[u8; 32]) -> [u8; 20] {
    array::from_fn(|i| mac[i])
}

/// Compares MACs in constant time.
pub fn mac_eq(left: &[u8], right: &[u8]) -> bool {
    left.ct_eq(right).into()
}
