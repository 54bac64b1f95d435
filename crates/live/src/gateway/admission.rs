//! Who is let in: the most connections in all and of one source, and what was refused.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

/// Bits of an IPv6 address that name a source: what one subscriber has (RFC 6177).
const SOURCE_BITS: u32 = 64;

/// Why somebody was not let in, or a packet not heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Refusal {
    /// There are as many connections as there may be.
    Connections,
    /// Its source has as many as it may have.
    Source,
    /// All connections together hold as much memory as they may.
    Memory,
    /// Its handshake was not complete in time.
    HalfOpen,
    /// The backlog is full, and its source sends more SYNs than its share.
    Flood,
    /// A packet to an address that is not ours.
    Address,
    /// A packet that is no whole segment of TCP.
    Malformed,
}

impl Refusal {
    /// Every reason.
    pub(super) const ALL: [Self; 7] = [
        Self::Connections,
        Self::Source,
        Self::Memory,
        Self::HalfOpen,
        Self::Flood,
        Self::Address,
        Self::Malformed,
    ];

    /// Its name in the metrics.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Source => "source",
            Self::Memory => "memory",
            Self::HalfOpen => "half-open",
            Self::Flood => "flood",
            Self::Address => "address",
            Self::Malformed => "malformed",
        }
    }
}

/// The most that is let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections in all.
    pub connections: u32,
    /// Connections of one source: an IPv4 address, or the first 64 bits of an IPv6 address.
    pub per_source: u32,
    /// Bytes that all connections may hold in their buffers before no others are let in and no more is
    /// read of the origin.
    pub memory: u64,
}

/// What a source is counted under.
pub(super) fn source(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(_) => ip,
        IpAddr::V6(ip) => match ip.to_ipv4_mapped() {
            Some(ip) => ip.into(),
            None => Ipv6Addr::from_bits(ip.to_bits() >> (128 - SOURCE_BITS) << (128 - SOURCE_BITS))
                .into(),
        },
    }
}

/// Those that are in.
#[derive(Debug)]
pub(super) struct Admission {
    limits: Limits,
    open: u32,
    by_source: BTreeMap<IpAddr, u32>,
    refused: [u64; Refusal::ALL.len()],
    /// Bytes held when they were last counted.
    held: u64,
}

impl Admission {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            open: 0,
            by_source: BTreeMap::new(),
            refused: [0; Refusal::ALL.len()],
            held: 0,
        }
    }

    /// Whether one more from this address has room; a refusal is counted.
    pub(super) fn admits(&mut self, from: IpAddr) -> bool {
        let of_source = self.by_source.get(&source(from)).copied().unwrap_or(0);
        let refusal = if self.open >= self.limits.connections {
            Refusal::Connections
        } else if of_source >= self.limits.per_source {
            Refusal::Source
        } else if self.is_full() {
            Refusal::Memory
        } else {
            return true;
        };
        self.refuse(refusal);
        false
    }

    /// One more is in.
    pub(super) fn enter(&mut self, from: IpAddr) {
        self.open += 1;
        *self.by_source.entry(source(from)).or_default() += 1;
    }

    /// One has left.
    pub(super) fn leave(&mut self, from: IpAddr) {
        self.open -= 1;
        if let Some(count) = self.by_source.get_mut(&source(from)) {
            *count -= 1;
            if *count == 0 {
                self.by_source.remove(&source(from));
            }
        }
    }

    /// Counts a refusal.
    pub(super) fn refuse(&mut self, refusal: Refusal) {
        self.refused[refusal as usize] += 1;
    }

    /// How often somebody was refused for a reason.
    pub(super) fn refused(&self, refusal: Refusal) -> u64 {
        self.refused[refusal as usize]
    }

    /// Connections hold so many bytes now.
    pub(super) fn set_held(&mut self, bytes: u64) {
        self.held = bytes;
    }

    /// Bytes that were held when they were last counted.
    pub(super) fn held(&self) -> u64 {
        self.held
    }

    /// They hold as much as they may.
    pub(super) fn is_full(&self) -> bool {
        self.held >= self.limits.memory
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn admission() -> Admission {
        Admission::new(Limits { connections: 3, per_source: 2, memory: 1000 })
    }

    #[test]
    fn a_source_gets_its_share_and_no_more() {
        let mut admission = admission();
        for _ in 0..2 {
            assert!(admission.admits(ip("192.0.2.1")));
            admission.enter(ip("192.0.2.1"));
        }
        assert!(!admission.admits(ip("192.0.2.1")));
        assert!(!admission.admits(ip("::ffff:192.0.2.1")), "the same address, mapped");
        assert!(admission.admits(ip("192.0.2.2")));
        assert_eq!(admission.refused(Refusal::Source), 2);
        admission.leave(ip("192.0.2.1"));
        assert!(admission.admits(ip("192.0.2.1")));
    }

    #[test]
    fn one_subscriber_s_ipv6_addresses_are_one_source() {
        let mut admission = admission();
        admission.enter(ip("2001:db8:0:1::1"));
        admission.enter(ip("2001:db8:0:1:ffff::2"));
        assert!(!admission.admits(ip("2001:db8:0:1::3")));
        assert!(admission.admits(ip("2001:db8:0:2::3")));
    }

    #[test]
    fn all_together_have_a_limit_and_nobody_who_left_is_remembered() {
        let mut admission = admission();
        for last in 1..=3 {
            admission.enter(ip(&format!("192.0.2.{last}")));
        }
        assert!(!admission.admits(ip("192.0.2.9")));
        assert_eq!(admission.refused(Refusal::Connections), 1);
        for last in 1..=3 {
            admission.leave(ip(&format!("192.0.2.{last}")));
        }
        assert!(admission.by_source.is_empty());
        admission.set_held(1000);
        assert!(!admission.admits(ip("192.0.2.9")));
        assert_eq!(admission.refused(Refusal::Memory), 1);
        admission.set_held(999);
        assert!(admission.admits(ip("192.0.2.9")));
    }
}
