//! The addresses and ports of a SYN, stored compactly for each address family.

use crate::secrets::{Keyed, Packed};
use anabranch_tcp::config::FourTuple;

/// The prefix of an IPv4 address that is mapped into IPv6.
const MAPPED: u64 = 0xffff;

/// A local address and port, with a zone if needed. The address has the form of [`Packed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Own {
    pub(super) ip: [u64; 2],
    pub(super) zone: u32,
    pub(super) port: u16,
}

/// A peer's address.
pub(super) trait Peer: Copy + Eq + std::fmt::Debug {
    /// Returns the address in the form of [`Packed`].
    fn words(self) -> [u64; 2];

    /// Returns the hash of both addresses and ports.
    fn keyed_hash(ends: &Ends<Self>, keyed: Keyed) -> u64;
}

/// An IPv4 address.
pub(super) type V4 = u32;

/// An IPv6 address, in four words.
pub(super) type V6 = [u32; 4];

/// A four-tuple: the local end, the peer's address and its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends<P> {
    pub(super) own: Own,
    pub(super) peer: P,
    pub(super) port: u16,
}

impl<P: Peer> Ends<P> {
    fn packed(&self) -> Packed {
        let Own { ip: [own_high, own], zone, port } = self.own;
        let [peer_high, peer] = self.peer.words();
        let ports = u64::from(port) << 16 | u64::from(self.port);
        Packed([own_high, own, peer_high, peer, u64::from(zone) << 32 | ports])
    }
}

impl<P: Peer> From<Ends<P>> for FourTuple {
    fn from(ends: Ends<P>) -> Self {
        Self::from(&ends.packed())
    }
}

impl Peer for V4 {
    fn words(self) -> [u64; 2] {
        [0, MAPPED << 32 | u64::from(self)]
    }

    fn keyed_hash(ends: &Ends<Self>, keyed: Keyed) -> u64 {
        // Our address is IPv4 too, so its high word is constant and is left out.
        let Packed([_, own, _, peer, rest]) = ends.packed();
        keyed.hash([own << 32 | peer & u64::from(u32::MAX), rest])
    }
}

impl Peer for V6 {
    fn words(self) -> [u64; 2] {
        let [a, b, c, d] = self.map(u64::from);
        [a << 32 | b, c << 32 | d]
    }

    fn keyed_hash(ends: &Ends<Self>, keyed: Keyed) -> u64 {
        keyed.hash(ends.packed().0)
    }
}

/// A four-tuple of either family.
#[derive(Clone, Copy, Debug)]
pub(super) enum Family {
    V4(Ends<V4>),
    V6(Ends<V6>),
}

impl From<&FourTuple> for Family {
    fn from(tuple: &FourTuple) -> Self {
        let Packed([own_high, own_low, high, low, rest]) = Packed::from(tuple);
        let mapped = |high: u64, low: u64| high == 0 && low >> 32 == MAPPED;
        let zone = (rest >> 32) as u32;
        let own = Own { ip: [own_high, own_low], zone, port: (rest >> 16) as u16 };
        let port = rest as u16;
        if mapped(own_high, own_low) && mapped(high, low) && zone == 0 {
            return Self::V4(Ends { own, peer: low as u32, port });
        }
        let peer = [high >> 32, high, low >> 32, low].map(|quarter| quarter as u32);
        Self::V6(Ends { own, peer, port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_those_of_the_four_tuple() {
        let tuples = [
            ("10.0.0.1:80", "10.0.0.2:1024", 0),
            ("[fd00::1]:443", "[fd00:7:8:9:a:b:c:d]:65535", 0),
            ("[fe80::1]:443", "[fe80::2]:1024", 7),
        ];
        for (local, remote, zone) in tuples {
            let mut tuple =
                FourTuple { local: local.parse().unwrap(), remote: remote.parse().unwrap() };
            if let std::net::SocketAddr::V6(local) = &mut tuple.local {
                local.set_scope_id(zone);
            }
            let again = match Family::from(&tuple) {
                Family::V4(ends) => FourTuple::from(ends),
                Family::V6(ends) => FourTuple::from(ends),
            };
            assert_eq!(again, tuple);
        }
    }
}
