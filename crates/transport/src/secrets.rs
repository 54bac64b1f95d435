//! What a host keeps to itself: keys of hashes over addresses, from which come initial sequence numbers, the
//! offsets of timestamps, SYN cookies and the order of tables. Whoever does not know them can predict none
//! of these, nor choose addresses that collide.

use std::hash::{BuildHasher, Hash, Hasher};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

use anabranch_units::{Instant, RandomStream, SeqNumber};
use siphasher::sip::SipHasher13;

use crate::config::FourTuple;

/// Nanoseconds in which sequence numbers move on by one (`seq_scale`): once round in 275 s. RFC 6528 has
/// 4 µs, made for slower networks.
const SEQUENCE_TICK: u64 = 64;

/// The key of a hash (SipHash-1-3).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keyed([u64; 2]);

impl Keyed {
    fn draw(random: &mut RandomStream) -> Self {
        Self([random.next_u64(), random.next_u64()])
    }

    /// The hash of words.
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

/// A four-tuple as words: addresses as of IPv6, which those of IPv4 are mapped into; both ports, and the zone
/// of our address where it needs one.
#[derive(Clone, Copy, Debug, Eq)]
pub(crate) struct Packed(pub(crate) [u64; 5]);

impl PartialEq for Packed {
    // Word by word: a call to compare memory costs more than it compares.
    #[inline(always)]
    fn eq(&self, other: &Self) -> bool {
        let (one, two) = (&self.0, &other.0);
        let low = (one[0] ^ two[0]) | (one[1] ^ two[1]) | (one[2] ^ two[2]);
        low | (one[3] ^ two[3]) | (one[4] ^ two[4]) == 0
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
    /// Of tables.
    pub(crate) tables: Keyed,
    sequence: Keyed,
    stamp: Keyed,
    /// Of SYN cookies.
    pub(crate) cookies: Keyed,
}

impl Secrets {
    /// Draws them all.
    pub fn draw(random: &mut RandomStream) -> Self {
        Self {
            tables: Keyed::draw(random),
            sequence: Keyed::draw(random),
            stamp: Keyed::draw(random),
            cookies: Keyed::draw(random),
        }
    }

    /// The initial sequence number of a connection that begins now: M + F(addresses, ports, secret)
    /// (RFC 6528 section 3; `secure_tcp_seq`). Later ones between the same addresses are higher.
    pub(crate) fn sequence(&self, now: Instant, tuple: &FourTuple) -> SeqNumber {
        let start = self.sequence.hash(Packed::from(tuple).0) as u32;
        SeqNumber(start.wrapping_add((now.as_nanos() / SEQUENCE_TICK) as u32))
    }

    /// What is added to the timestamp clock of a connection (RFC 7323 section 5.4). As in Linux
    /// (`secure_tcp_ts_off`) two hosts have one for every pair of ports, so that a later connection's
    /// timestamps are later.
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
        // 64 ns a number: a second is 15,625,000 of them.
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
