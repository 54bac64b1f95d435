//! The secrets of a host: keys of hashes over addresses. Initial sequence numbers, timestamp offsets, SYN
//! cookies and the order of hash tables depend on them. A peer without the keys cannot predict these values,
//! and cannot choose addresses that collide.

use std::hash::{BuildHasher, Hash, Hasher};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

use anabranch_units::{Instant, RandomStream, SeqNumber};
use siphasher::sip::SipHasher13;

use anabranch_tcp::config::FourTuple;

/// The nanoseconds per sequence number (`seq_scale`). The sequence space repeats after 275 s. RFC 6528
/// suggests 4 µs, for slower networks.
const SEQUENCE_TICK: u64 = 64;

/// The key of a hash (SipHash-1-3).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keyed([u64; 2]);

impl Keyed {
    fn draw(random: &mut RandomStream) -> Self {
        Self([random.next_u64(), random.next_u64()])
    }

    /// Hashes words.
    pub(crate) fn hash<const N: usize>(&self, words: [u64; N]) -> u64 {
        let mut hasher = self.build_hasher();
        for word in words {
            hasher.write_u64(word);
        }
        hasher.finish()
    }
}

impl BuildHasher for Keyed {
    type Hasher = SipHasher13;

    #[inline]
    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.0[0], self.0[1])
    }
}

/// A four-tuple as words: both addresses as IPv6 (IPv4 addresses mapped), both ports, and the zone of the
/// local address if it has one.
#[derive(Clone, Copy, Debug, Eq)]
pub(crate) struct Packed(pub(crate) [u64; 5]);

impl PartialEq for Packed {
    // Word-by-word comparison is faster than `memcmp`.
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).fold(0, |differs, (one, two)| differs | (one ^ two)) == 0
    }
}

impl Hash for Packed {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        for word in self.0 {
            state.write_u64(word);
        }
    }
}

impl From<&FourTuple> for Packed {
    #[inline]
    fn from(tuple: &FourTuple) -> Self {
        let words = |ip| match ip {
            IpAddr::V4(ip) => [0, 0xffff << 32 | u64::from(ip.to_bits())],
            IpAddr::V6(ip) => [(ip.to_bits() >> 64) as u64, ip.to_bits() as u64],
        };
        let (own, peer) = (words(tuple.local.ip()), words(tuple.remote.ip()));
        let zone = match tuple.local {
            SocketAddr::V4(_) => 0,
            SocketAddr::V6(address) => address.scope_id(),
        };
        let ports = u64::from(tuple.local.port()) << 16 | u64::from(tuple.remote.port());
        Self([own[0], own[1], peer[0], peer[1], u64::from(zone) << 32 | ports])
    }
}

impl From<&Packed> for FourTuple {
    fn from(packed: &Packed) -> Self {
        let [own_high, own, peer_high, peer, rest] = packed.0;
        let zone = (rest >> 32) as u32;
        let address = |high: u64, low: u64, port: u64| {
            let ip = Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low));
            match ip.to_ipv4_mapped() {
                Some(ip) => SocketAddr::from((ip, port as u16)),
                None => SocketAddr::V6(SocketAddrV6::new(ip, port as u16, 0, 0)),
            }
        };
        let mut local = address(own_high, own, rest >> 16);
        if let SocketAddr::V6(local) = &mut local {
            local.set_scope_id(zone);
        }
        Self { local, remote: address(peer_high, peer, rest) }
    }
}

/// The secrets of a host.
#[derive(Clone, Copy, Debug)]
pub struct Secrets {
    /// The key of hash tables.
    pub(crate) tables: Keyed,
    sequence: Keyed,
    stamp: Keyed,
    /// The key of SYN cookies.
    pub(crate) cookies: Keyed,
}

impl Secrets {
    /// Draws all keys.
    pub fn draw(random: &mut RandomStream) -> Self {
        Self {
            tables: Keyed::draw(random),
            sequence: Keyed::draw(random),
            stamp: Keyed::draw(random),
            cookies: Keyed::draw(random),
        }
    }

    /// Returns the initial sequence number of a connection that starts now: M + F(addresses, ports, secret)
    /// (RFC 6528 section 3; `secure_tcp_seq`). Later connections between the same addresses and ports get
    /// higher numbers.
    pub(crate) fn sequence(&self, now: Instant, tuple: &FourTuple) -> SeqNumber {
        let start = self.sequence.hash(Packed::from(tuple).0) as u32;
        SeqNumber(start.wrapping_add((now.as_nanos() / SEQUENCE_TICK) as u32))
    }

    /// Returns the offset of a connection's timestamps (RFC 7323 section 5.4). As in Linux
    /// (`secure_tcp_ts_off`), it depends on the two addresses but not on the ports. A later connection
    /// between two hosts therefore has later timestamps.
    pub(crate) fn stamp_offset(&self, tuple: &FourTuple) -> u32 {
        let [own_high, own, peer_high, peer, _] = Packed::from(tuple).0;
        self.stamp.hash([own_high, own, peer_high, peer]) as u32
    }
}

#[cfg(test)]
mod tests {
    use anabranch_units::{Duration, Seed};

    use super::*;

    fn secrets(seed: u64) -> Secrets {
        Secrets::draw(&mut Seed { seed, run: 0 }.stream("secrets"))
    }

    fn tuple(port: u16) -> FourTuple {
        FourTuple { local: ([10, 0, 0, 1], 80).into(), remote: ([10, 0, 0, 2], port).into() }
    }

    #[test]
    fn sequence_numbers_count_time_from_a_secret_start() {
        let at = |ns| Instant::ZERO + Duration::from_nanos(ns);
        let start = secrets(1).sequence(at(0), &tuple(1000));
        // One number per 64 ns: 15,625,000 numbers per second.
        let later = secrets(1).sequence(at(1_000_000_000), &tuple(1000));
        assert_eq!(later.distance(start), 15_625_000);
        assert_eq!(secrets(1).sequence(at(63), &tuple(1000)), start);
        assert_eq!(secrets(1).sequence(at(64), &tuple(1000)), start.add(1));
        assert_ne!(secrets(1).sequence(at(0), &tuple(1001)), start);
        assert_ne!(secrets(2).sequence(at(0), &tuple(1000)), start);
    }

    #[test]
    fn the_offset_of_timestamps_is_one_for_two_hosts() {
        let offset = secrets(1).stamp_offset(&tuple(1000));
        assert_eq!(secrets(1).stamp_offset(&tuple(1001)), offset);
        assert_ne!(secrets(2).stamp_offset(&tuple(1000)), offset);
        let other = FourTuple { remote: ([10, 0, 0, 3], 1000).into(), ..tuple(1000) };
        assert_ne!(secrets(1).stamp_offset(&other), offset);
    }

    #[test]
    fn a_mapped_address_is_the_address_of_ipv4() {
        let mapped = FourTuple {
            local: "[::ffff:10.0.0.1]:80".parse().expect("an address"),
            remote: "[::ffff:10.0.0.2]:1000".parse().expect("an address"),
        };
        assert_eq!(Packed::from(&mapped), Packed::from(&tuple(1000)));
        let zoned = |zone: u32| {
            let mut tuple = mapped;
            if let SocketAddr::V6(address) = &mut tuple.local {
                address.set_scope_id(zone);
            }
            Packed::from(&tuple)
        };
        assert_ne!(zoned(1), zoned(2));
    }
}
