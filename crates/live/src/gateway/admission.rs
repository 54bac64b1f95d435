//! Slots for connections. The number of slots is limited for all connections, for a source and for a site. If
//! no slot is free, another connection may have to give way: it is reset, and the new connection gets its slot.
//!
//! A client is *silent* from the end of the handshake until it has sent a byte. A silent client can lose its
//! slot at any time. If a new connection finds no free slot of the gateway, its source or its site, the
//! oldest silent connection of that group gives way.
//!
//! If no connection is silent and the whole gateway is full, one of the [`Candidates`] gives way. The
//! *weights* of their sources determine which one. The weight of a source is its number of slots. For IPv6,
//! it is at least a quarter of the site's slots. A /48 that uses another /64 for each connection therefore
//! weighs as much as one with four sources.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use anabranch_units::Instant;

use super::candidates::{Candidates, Standing};
use super::source::{SITE_SHARES, site, source};

/// The reason why a connection was refused or a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Refusal {
    /// The gateway has reached its limit of connections.
    Connections,
    /// The source has reached its limit of connections.
    Source,
    /// The site has reached its limit of connections.
    Site,
    /// Memory is short, and the source holds more than its fair share.
    Memory,
    /// The handshake was not completed in time.
    HalfOpen,
    /// The backlog is full, and the source sends too many SYNs.
    Flood,
    /// The packet's destination is not an address of the gateway.
    Address,
    /// The packet is not a complete TCP segment, or it is a fragment.
    Malformed,
}

impl Refusal {
    /// All reasons.
    pub(super) const ALL: [Self; 8] = [
        Self::Connections,
        Self::Source,
        Self::Site,
        Self::Memory,
        Self::HalfOpen,
        Self::Flood,
        Self::Address,
        Self::Malformed,
    ];

    /// Returns the name of the reason in the metrics.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Source => "source",
            Self::Site => "site",
            Self::Memory => "memory",
            Self::HalfOpen => "half-open",
            Self::Flood => "flood",
            Self::Address => "address",
            Self::Malformed => "malformed",
        }
    }
}

/// The limits on connections and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest number of connections of the gateway.
    pub connections: u32,
    /// The largest number of connections of a source: an IPv4 address, or the first 64 bits of an IPv6
    /// address.
    pub per_source: u32,
    /// The largest number of connections of a site: the first 48 bits of an IPv6 address.
    pub per_site: u32,
    /// The largest number of bytes in the buffers of all connections together.
    pub memory: u64,
}

/// Connections that have a common limit.
#[derive(Debug, Default)]
struct Group {
    count: u32,
    /// Connections whose client has not sent a byte, oldest first.
    silent: BTreeSet<u64>,
}

impl Group {
    fn enter(&mut self, number: u64) {
        self.count += 1;
        self.silent.insert(number);
    }

    /// Removes a connection. Returns whether the group is empty now.
    fn leave(&mut self, number: u64) -> bool {
        self.count -= 1;
        self.silent.remove(&number);
        self.count == 0
    }
}

/// The result of the search for a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Free,
    /// No slot is free, but this connection gives way.
    TakenBy(u64),
}

/// The connections that have a slot. Their numbers are unique and increase with time.
#[derive(Debug)]
pub(super) struct Admission {
    limits: Limits,
    all: Group,
    sources: BTreeMap<IpAddr, Group>,
    sites: BTreeMap<IpAddr, Group>,
    /// The source of each connection.
    members: BTreeMap<u64, IpAddr>,
    /// Connections that may give way if no client is silent. Empty while enough slots are free.
    candidates: Candidates,
    refused: [u64; Refusal::ALL.len()],
}

impl Admission {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            all: Group::default(),
            sources: BTreeMap::new(),
            sites: BTreeMap::new(),
            members: BTreeMap::new(),
            candidates: Candidates::default(),
            refused: [0; Refusal::ALL.len()],
        }
    }

    /// Sets the limits. Existing connections stay, even if they exceed the limits.
    pub(super) fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Returns whether a connection from an address would get a slot. Counts a refusal. Removes no
    /// connection.
    pub(super) fn admits(&mut self, from: IpAddr) -> bool {
        self.find(from).inspect_err(|refusal| self.refuse(*refusal)).is_ok()
    }

    /// Gives a slot to a connection. Returns the connection that gives way, if there is one. That connection
    /// no longer has a slot.
    ///
    /// # Errors
    /// Returns the reason if there is no slot. The refusal is counted.
    pub(super) fn enter(&mut self, number: u64, from: IpAddr) -> Result<Option<u64>, Refusal> {
        let slot = self.find(from).inspect_err(|refusal| self.refuse(*refusal))?;
        let gives_way = match slot {
            Slot::Free => None,
            Slot::TakenBy(other) => {
                self.leave(other);
                Some(other)
            }
        };
        let source = source(from);
        self.members.insert(number, source);
        self.all.enter(number);
        self.sources.entry(source).or_default().enter(number);
        self.sites.entry(site(source)).or_default().enter(number);
        Ok(gives_way)
    }

    /// Records that a client has sent a byte, so that it is no longer silent.
    pub(super) fn note_first_byte(&mut self, number: u64) {
        if self.all.silent.remove(&number)
            && let Some(source) = self.members.get(&number)
        {
            let groups = [self.sources.get_mut(source), self.sites.get_mut(&site(*source))];
            for group in groups.into_iter().flatten() {
                group.silent.remove(&number);
            }
        }
    }

    /// Releases the slot of a connection. Has no effect if the connection has given way before.
    pub(super) fn leave(&mut self, number: u64) {
        let Some(source) = self.members.remove(&number) else { return };
        self.all.leave(number);
        for (groups, of) in [(&mut self.sources, source), (&mut self.sites, site(source))] {
            if groups.get_mut(&of).is_some_and(|group| group.leave(number)) {
                groups.remove(&of);
            }
        }
    }

    /// Selects the connections that may give way. Selects none while enough slots are free.
    pub(super) fn note_standings(&mut self, now: Instant, standings: &[Standing]) {
        self.candidates = if self.is_crowded() {
            Candidates::new(now, standings, |number| self.weight_of(number))
        } else {
            Candidates::default()
        };
    }

    /// Returns whether at least three quarters of the slots are in use.
    fn is_crowded(&self) -> bool {
        self.all.count >= self.limits.connections / 4 * 3
    }

    /// Returns the weight of a connection's source. Zero if the connection has no slot.
    fn weight_of(&self, number: u64) -> u32 {
        self.members.get(&number).map_or(0, |source| self.weight(*source))
    }

    /// Returns the weight of a source: the number of its slots. For IPv6, at least a quarter of the site's
    /// slots, rounded up.
    fn weight(&self, source: IpAddr) -> u32 {
        let count = |group: Option<&Group>| group.map_or(0, |it| it.count);
        let own = count(self.sources.get(&source));
        if source.is_ipv4() {
            return own;
        }
        own.max(count(self.sites.get(&site(source))).div_ceil(SITE_SHARES))
    }

    /// Finds a slot for a connection from an address.
    fn find(&self, from: IpAddr) -> Result<Slot, Refusal> {
        let from = source(from);
        let Limits { connections, per_source, per_site, .. } = self.limits;
        let of_source = self.sources.get(&from);
        let of_site = self.sites.get(&site(from)).filter(|_| from.is_ipv6());
        let groups = [
            (of_source, per_source, Refusal::Source),
            (of_site, per_site, Refusal::Site),
            (Some(&self.all), connections, Refusal::Connections),
        ];
        // A connection that gives way in a smaller group also frees a slot of the larger groups.
        for (group, limit, refusal) in groups {
            let Some(group) = group.filter(|it| it.count >= limit) else { continue };
            let silent = group.silent.first().copied();
            let other = || self.other_for(from).filter(|_| refusal == Refusal::Connections);
            return silent.or_else(other).map(Slot::TakenBy).ok_or(refusal);
        }
        Ok(Slot::Free)
    }

    /// Returns the connection that gives way to a new connection from a source if no client is silent.
    fn other_for(&self, from: IpAddr) -> Option<u64> {
        self.candidates.find(self.weight(from), |number| self.weight_of(number))
    }

    /// Counts a refusal for a reason.
    pub(super) fn refuse(&mut self, refusal: Refusal) {
        self.refused[refusal as usize] += 1;
    }

    /// Returns the number of refusals for a reason.
    pub(super) fn refused(&self, refusal: Refusal) -> u64 {
        self.refused[refusal as usize]
    }
}

#[cfg(test)]
mod tests {
    use anabranch_units::Duration;

    use super::*;

    const LIMITS: Limits = Limits { connections: 4, per_source: 2, per_site: 3, memory: 1000 };

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    /// Creates an admission with connections 1, 2, ... from these addresses. All clients have sent a byte.
    fn with_active(limits: Limits, from: &[&str]) -> Admission {
        let mut admission = Admission::new(limits);
        for (number, from) in (1..).zip(from) {
            assert_eq!(admission.enter(number, ip(from)), Ok(None), "{from}");
            admission.note_first_byte(number);
        }
        admission
    }

    #[test]
    fn a_source_is_limited_to_its_slots() {
        let mut admission = with_active(LIMITS, &["192.0.2.1", "192.0.2.1"]);
        assert!(!admission.admits(ip("192.0.2.1")));
        assert_eq!(
            admission.enter(9, ip("::ffff:192.0.2.1")),
            Err(Refusal::Source),
            "the same address"
        );
        assert!(admission.admits(ip("192.0.2.2")));
        assert_eq!(admission.refused(Refusal::Source), 2);
        admission.leave(1);
        assert_eq!(admission.enter(9, ip("192.0.2.1")), Ok(None));
    }

    #[test]
    fn sources_of_ipv6_have_64_bits_and_sites_48() {
        let mut admission = with_active(LIMITS, &["2001:db8:0:1::1", "2001:db8:0:1:ffff::2"]);
        assert_eq!(admission.enter(9, ip("2001:db8:0:1::3")), Err(Refusal::Source));
        assert_eq!(admission.enter(9, ip("2001:db8:0:2::3")), Ok(None));
        admission.note_first_byte(9);
        assert_eq!(admission.enter(10, ip("2001:db8:0:3::3")), Err(Refusal::Site));
        assert_eq!(admission.refused(Refusal::Site), 1);
        assert_eq!(admission.enter(10, ip("2001:db8:1:3::3")), Ok(None));
    }

    #[test]
    fn the_gateway_has_a_limit_and_forgets_ended_connections() {
        let from = ["192.0.2.1", "192.0.2.2", "192.0.2.3", "2001:db8::1"];
        let mut admission = with_active(LIMITS, &from);
        assert!(!admission.admits(ip("192.0.2.9")));
        assert_eq!(admission.refused(Refusal::Connections), 1);
        for number in 1..=4 {
            admission.leave(number);
            admission.leave(number);
        }
        assert!(admission.sources.is_empty() && admission.sites.is_empty());
        assert!(admission.members.is_empty());
        assert!(admission.admits(ip("192.0.2.9")));
    }

    #[test]
    fn the_oldest_silent_connection_gives_way() {
        let mut admission = Admission::new(LIMITS);
        for (number, from) in (1..).zip(["192.0.2.1", "192.0.2.2", "192.0.2.2", "192.0.2.3"]) {
            assert_eq!(admission.enter(number, ip(from)), Ok(None));
        }
        admission.note_first_byte(1);
        // If the source has no free slot, its oldest silent connection gives way. Otherwise the oldest silent
        // connection of the gateway gives way.
        assert_eq!(admission.enter(5, ip("192.0.2.2")), Ok(Some(2)));
        assert_eq!(admission.enter(6, ip("192.0.2.4")), Ok(Some(3)));
        for number in [4, 5, 6] {
            admission.note_first_byte(number);
        }
        assert_eq!(admission.enter(7, ip("192.0.2.5")), Err(Refusal::Connections));
        // Connection 3 has given way before, so this has no effect.
        admission.leave(3);
        assert_eq!(admission.all.count, 4);
    }

    #[test]
    fn the_oldest_silent_connection_of_a_full_site_gives_way() {
        let mut admission = Admission::new(LIMITS);
        for (number, from) in
            (1..).zip(["192.0.2.1", "2001:db8:0:1::1", "2001:db8:0:2::1", "2001:db8:0:3::1"])
        {
            assert_eq!(admission.enter(number, ip(from)), Ok(None));
        }
        assert_eq!(admission.enter(5, ip("2001:db8:0:4::1")), Ok(Some(2)));
    }

    #[test]
    fn an_incomplete_handshake_makes_no_connection_give_way() {
        let mut admission = Admission::new(Limits { connections: 1, ..LIMITS });
        assert_eq!(admission.enter(1, ip("192.0.2.1")), Ok(None));
        for _ in 0..3 {
            assert!(admission.admits(ip("192.0.2.2")), "its handshake may be forged");
        }
        assert_eq!(admission.enter(2, ip("192.0.2.2")), Ok(Some(1)));
    }

    /// Returns a connection from which no byte has left since the beginning.
    fn still(number: u64) -> Standing {
        let (since, waits) = (Instant::ZERO, true);
        Standing { number, since, moved_at: since, waits, answered: true, rate: 0 }
    }

    #[test]
    fn a_connection_that_stands_still_gives_way_to_a_source_with_fewer_slots() {
        let limits = Limits { per_source: 3, ..LIMITS };
        let from = ["192.0.2.1", "192.0.2.2", "192.0.2.2", "192.0.2.2"];
        let mut admission = with_active(limits, &from);
        assert!(!admission.admits(ip("192.0.2.9")), "none is known to stand still");
        let now = Instant::ZERO + Duration::from_secs(20);
        let later = |number, seconds| Standing {
            moved_at: Instant::ZERO + Duration::from_secs(seconds),
            ..still(number)
        };
        // Connection 1 has stood still for the longest time, but its source has only one slot.
        admission.note_standings(now, &[still(1), later(2, 3), later(3, 2)]);
        assert_eq!(admission.enter(5, ip("192.0.2.9")), Ok(Some(3)));
        admission.note_first_byte(5);
        // One source has two slots and the other has one, so giving way would only exchange these numbers.
        assert_eq!(admission.enter(6, ip("192.0.2.1")), Err(Refusal::Connections));
        assert_eq!(admission.enter(6, ip("192.0.2.8")), Ok(Some(2)));
    }

    /// Returns an admission whose 32 slots are in use. The connections are from four /48, and each has
    /// another /64. All of them receive at full speed.
    fn full_of_four_sites() -> Admission {
        let limits = Limits { connections: 32, per_source: 8, per_site: 9, memory: 1000 };
        let from: Vec<_> = (0..32).map(|it| format!("2001:db8:{}:{it}::1", it % 4)).collect();
        let from: Vec<_> = from.iter().map(String::as_str).collect();
        let mut admission = with_active(limits, &from);
        let fast = |number| Standing { rate: 6_250_000, waits: false, ..still(number) };
        let standings: Vec<_> = (1..=32).map(fast).collect();
        admission.note_standings(Instant::ZERO + Duration::from_secs(20), &standings);
        admission
    }

    #[test]
    fn four_sites_with_a_source_per_connection_keep_four_slots_each() {
        let mut admission = full_of_four_sites();
        // Four sites keep four of the 32 slots each. A source of weight ceil(5 / 4) = 2 gives way to one of
        // weight 0. A source of weight ceil(4 / 4) = 1 does not.
        for number in 1..=16 {
            let from = ip(&format!("192.0.2.{number}"));
            let gives_way = admission.enter(100 + number, from).expect("a slot");
            assert!(gives_way.is_some_and(|it| it <= 32), "{number}: {gives_way:?}");
            admission.note_first_byte(100 + number);
        }
        assert_eq!(admission.enter(200, ip("192.0.2.17")), Err(Refusal::Connections));
        assert!(admission.sites.values().filter(|it| it.count == 4).count() == 4);
    }

    #[test]
    fn a_new_source_of_a_site_with_slots_has_the_weight_of_its_site() {
        let mut admission = full_of_four_sites();
        // The new source has the weight ceil(8 / 4) = 2. A source of weight 2 gives way only to a source of
        // weight 0.
        assert_eq!(admission.enter(200, ip("2001:db8:0:ff::1")), Err(Refusal::Connections));
        assert!(admission.admits(ip("2001:db8:4:ff::1")), "another site");
    }

    #[test]
    fn a_source_weighs_its_slots_or_a_quarter_of_its_ipv6_site_s() {
        let limits = Limits { connections: 20, per_source: 9, per_site: 9, memory: 1000 };
        let mut from = ["2001:db8:0:1::1"; 3].to_vec();
        from.extend(["2001:db8:0:2::1", "2001:db8:0:3::1", "192.0.2.1", "192.0.2.1"]);
        let admission = with_active(limits, &from);
        // A quarter of the site's five slots is 1.25, which is rounded up to 2.
        let weights = ["2001:db8:0:1::", "2001:db8:0:2::", "2001:db8:0:9::", "2001:db8:1::"]
            .map(|it| admission.weight(ip(it)));
        assert_eq!(weights, [3, 2, 2, 0]);
        assert_eq!((admission.weight(ip("192.0.2.1")), admission.weight(ip("192.0.2.2"))), (2, 0));
        assert_eq!((admission.weight_of(4), admission.weight_of(99)), (2, 0));
    }

    #[test]
    fn candidates_are_forgotten_when_slots_are_free_again() {
        let limits = Limits { connections: 8, per_source: 8, ..LIMITS };
        let mut admission = with_active(limits, &["192.0.2.1"; 8]);
        let now = Instant::ZERO + Duration::from_secs(20);
        admission.note_standings(now, &[still(1)]);
        assert!(admission.admits(ip("192.0.2.9")));
        // Five of eight slots are in use. This is less than three quarters, so there are no candidates.
        for number in 6..=8 {
            admission.leave(number);
        }
        admission.note_standings(now, &[still(1)]);
        for number in 6..=8 {
            assert_eq!(admission.enter(number, ip("192.0.2.1")), Ok(None));
            admission.note_first_byte(number);
        }
        assert_eq!(admission.enter(9, ip("192.0.2.9")), Err(Refusal::Connections));
    }

    #[test]
    fn new_limits_hold_for_newcomers() {
        let mut admission = with_active(LIMITS, &["192.0.2.1", "192.0.2.1"]);
        admission.set_limits(Limits { per_source: 3, ..LIMITS });
        assert!(admission.admits(ip("192.0.2.1")));
        admission.set_limits(Limits { connections: 1, ..LIMITS });
        assert!(!admission.admits(ip("192.0.2.2")));
    }
}
