//! Divides memory fairly while it is short: limits reading from the origins, and selects connections to
//! reset.
//!
//! Memory becomes short when more than three quarters of the limit are held. It stays short until at most
//! half of the limit is held. In this state, 7/16 of the limit are divided among the sources, so that the sum
//! falls below half.
//!
//! All sources get the same share. Bytes that a source does not need are divided among the others. An IPv6
//! site gets at most [`SITE_SHARES`] shares. The share of a source is divided among its connections in the
//! same way. A connection may read from its origin only up to its share.
//!
//! A connection above its share is reset if its bytes leave too slowly. The slowest connections are reset
//! first, until at most half of the limit is held.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use anabranch_units::{Duration, Instant};

use crate::relay::PIECE;

use super::source::{SITE_SHARES, site, source};

/// A connection without held bytes may always read this number of bytes, even if its share is smaller.
const LEAST: u64 = 4096;
/// The time that a connection above its share has to reduce its held bytes, and the longest drain time after
/// that time.
const PATIENCE: Duration = Duration::from_secs(1);
const SLOW: Duration = Duration::from_secs(10);
/// The longest drain time of a connection above its share if more than the limit is held.
const SLOW_BEYOND_LIMIT: Duration = Duration::from_secs(1);

/// The memory held for one connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holding {
    /// The number of the connection.
    pub(super) number: u64,
    /// The address of the client.
    pub(super) from: IpAddr,
    /// The number of bytes held.
    pub(super) bytes: u64,
    /// The time that these bytes need to leave at the current rate.
    pub(super) drain_time: Duration,
    /// The time at which a byte last left the gateway.
    pub(super) moved_at: Instant,
}

/// The division of the memory while it is short.
#[derive(Debug)]
struct Division {
    /// The share of a source, in bytes. It also applies to connections that are newer than the last count.
    share: u64,
    /// The number of bytes that each connection may hold.
    allowed: BTreeMap<u64, u64>,
    /// Sources that exceed their share by more than one read ([`PIECE`]).
    above: BTreeSet<IpAddr>,
}

/// The result of a count.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Counted {
    /// The connections to reset, the slowest first.
    pub(super) reset: Vec<u64>,
    /// Whether this count has started or ended a shortage.
    pub(super) turned: bool,
}

/// The memory held for all connections, and its division.
#[derive(Debug)]
pub(super) struct Shares {
    limit: u64,
    /// Bytes held at the last count, and bytes read from origins since then.
    held: u64,
    read: u64,
    /// The division of the memory. `None` while memory is not short.
    division: Option<Division>,
    /// The connections above their share, and the time since when each is.
    paused: BTreeMap<u64, Instant>,
}

impl Shares {
    /// Creates the state for a limit in bytes.
    pub(super) fn new(limit: u64) -> Self {
        Self { limit, held: 0, read: 0, division: None, paused: BTreeMap::new() }
    }

    /// Sets the limit, which applies from the next count on.
    pub(super) fn set_limit(&mut self, limit: u64) {
        self.limit = limit;
    }

    /// Returns the limit, bytes.
    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the bytes that were held at the last count.
    pub(super) fn held(&self) -> u64 {
        self.held
    }

    /// Returns whether memory is short.
    pub(super) fn is_short(&self) -> bool {
        self.division.is_some()
    }

    /// Returns the number of connections that may not read from their origin.
    pub(super) fn paused(&self) -> usize {
        self.paused.len()
    }

    /// Records bytes read from an origin. Returns whether memory must be counted again because of them.
    pub(super) fn note_read(&mut self, bytes: u64) -> bool {
        self.read += bytes;
        self.read > self.limit / 16
    }

    /// Returns the number of bytes that a connection may read from its origin if `held` bytes are held for
    /// it.
    pub(super) fn room(&self, number: u64, held: u64) -> u64 {
        let Some(division) = &self.division else { return u64::MAX };
        let allowed = division.allowed.get(&number).copied().unwrap_or(division.share);
        let least = if held == 0 { LEAST } else { 0 };
        allowed.saturating_sub(held).max(least)
    }

    /// Returns whether the source of an address exceeds its share, so that its new connections are refused.
    pub(super) fn refuses(&self, from: IpAddr) -> bool {
        self.division.as_ref().is_some_and(|it| it.above.contains(&source(from)))
    }

    /// Counts the held memory, and divides it if it is short.
    pub(super) fn count(&mut self, now: Instant, holdings: &[Holding]) -> Counted {
        let was_short = self.is_short();
        self.read = 0;
        self.held = holdings.iter().map(|it| it.bytes).sum();
        let (begin, end) = (self.limit / 4 * 3, self.limit / 2);
        let short = self.held > if was_short { end } else { begin };
        self.division = short.then(|| Division::new(holdings, self.limit / 16 * 7));
        let mut above: Vec<&Holding> =
            holdings.iter().filter(|it| self.room(it.number, it.bytes) == 0).collect();
        let paused = above.iter().map(|it| {
            let since = self.paused.get(&it.number).copied().unwrap_or(now);
            (it.number, since)
        });
        self.paused = paused.collect();
        above.sort_by_key(|it| (Reverse(it.drain_time), it.moved_at, it.number));
        let mut left = self.held;
        let mut reset = Vec::new();
        for holding in above {
            if left <= end {
                break;
            }
            if self.is_to_go(now, holding, left) {
                left -= holding.bytes;
                reset.push(holding.number);
            }
        }
        Counted { reset, turned: short != was_short }
    }

    /// Returns whether a connection above its share must be reset while `held` bytes are held in total.
    fn is_to_go(&self, now: Instant, holding: &Holding, held: u64) -> bool {
        let since = self.paused.get(&holding.number).copied().unwrap_or(now);
        let slow = now.since(since) >= PATIENCE && holding.drain_time > SLOW;
        slow || held > self.limit && holding.drain_time > SLOW_BEYOND_LIMIT
    }
}

/// The connections of each source, with their held bytes and numbers.
type Sources = BTreeMap<IpAddr, Vec<(u64, u64)>>;

impl Division {
    /// Divides `room` bytes among the sources and their connections.
    fn new(holdings: &[Holding], room: u64) -> Self {
        let mut sites: BTreeMap<IpAddr, Sources> = BTreeMap::new();
        for it in holdings {
            let source = source(it.from);
            let sources = sites.entry(site(source)).or_default();
            sources.entry(source).or_default().push((it.bytes, it.number));
        }
        let needs: Vec<(u64, Vec<u64>)> = sites
            .iter()
            .map(|(site, sources)| (shares_of(*site), sources.values().map(|it| sum(it)).collect()))
            .collect();
        let share = share(&needs, room);
        let (mut allowed, mut above) = (BTreeMap::new(), BTreeSet::new());
        for ((shares, needs), sources) in needs.iter().zip(sites.values()) {
            let of_source = level(needs, shares * share).min(share);
            for (source, connections) in sources {
                // A connection may exceed its share by up to one read.
                if sum(connections) > of_source + PIECE as u64 {
                    above.insert(*source);
                }
                let held: Vec<u64> = connections.iter().map(|(bytes, _)| *bytes).collect();
                let of_connection = level(&held, of_source);
                allowed.extend(connections.iter().map(|(_, number)| (*number, of_connection)));
            }
        }
        Self { share, allowed, above }
    }
}

fn sum(connections: &[(u64, u64)]) -> u64 {
    connections.iter().map(|(bytes, _)| bytes).sum()
}

/// Returns the largest number of shares that one site may hold.
fn shares_of(site: IpAddr) -> u64 {
    if site.is_ipv6() { SITE_SHARES.into() } else { 1 }
}

/// Returns the largest share for which all sites together get at most `room` bytes. For each site, `needs`
/// contains its number of shares and the bytes held by each of its sources.
fn share(needs: &[(u64, Vec<u64>)], room: u64) -> u64 {
    let taken = |share: u64| -> u64 {
        let of_site = |(shares, sources): &(u64, Vec<u64>)| {
            sources.iter().map(|held| share.min(*held)).sum::<u64>().min(shares * share)
        };
        needs.iter().map(of_site).sum()
    };
    let (mut fits, mut too_much) = (0, room + 1);
    while too_much - fits > 1 {
        let middle = fits.midpoint(too_much);
        if taken(middle) <= room {
            fits = middle;
        } else {
            too_much = middle;
        }
    }
    fits
}

/// Returns the largest limit per entry for which all entries together hold at most `room` bytes. An entry
/// that holds less than the limit keeps its bytes, and the others divide the rest equally.
fn level(held: &[u64], room: u64) -> u64 {
    let mut held = held.to_vec();
    held.sort_unstable();
    let (mut left, mut others) = (room, held.len() as u64);
    for bytes in &held {
        if *bytes > left / others {
            return left / others;
        }
        left -= bytes;
        others -= 1;
    }
    held.last().copied().unwrap_or(0) + left
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [u64; 0] = [];

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    /// Returns a connection from which no byte leaves.
    fn stalled(number: u64, from: &str, bytes: u64) -> Holding {
        let (drain_time, moved_at) = (Duration::MAX, Instant::ZERO);
        Holding { number, from: ip(from), bytes, drain_time, moved_at }
    }

    /// Returns a connection whose bytes leave within half a second.
    fn fast(number: u64, from: &str, bytes: u64) -> Holding {
        Holding { drain_time: Duration::from_millis(500), ..stalled(number, from, bytes) }
    }

    #[test]
    fn small_holders_keep_their_bytes_and_the_others_share_equally() {
        // (15 - 1 - 2) / 2 = 6.
        assert_eq!(level(&[9, 1, 9, 2], 15), 6);
        // The sum is below the limit, so the largest entry may also have the remaining 9.
        assert_eq!(level(&[9, 1, 9, 2], 30), 18);
        assert_eq!(level(&[], 30), 30);
    }

    #[test]
    fn a_source_has_one_share_and_a_site_four() {
        // (210 - 10) / 4 = 50, because the third source needs only 10.
        let needs: Vec<_> = [100, 100, 10, 100, 100].map(|it| (1, vec![it])).into();
        assert_eq!(share(&needs, 210), 50);
        // A source with one share and a site with four: 250 / 5 = 50.
        assert_eq!(share(&[(1, vec![100]), (4, vec![100; 8])], 250), 50);
        // A site with only two sources gets two shares: 240 / 3 = 80.
        assert_eq!(share(&[(1, vec![100]), (4, vec![100; 2])], 240), 80);
    }

    #[test]
    fn memory_is_short_from_three_quarters_until_half() {
        let mut shares = Shares::new(800);
        let mut short = |bytes| {
            let counted = shares.count(at(0), &[fast(1, "192.0.2.1", bytes)]);
            (shares.is_short(), counted.turned)
        };
        assert_eq!(short(600), (false, false));
        assert_eq!(short(601), (true, true));
        assert_eq!(short(401), (true, false));
        assert_eq!(short(400), (false, true));
        assert_eq!(short(401), (false, false));
    }

    #[test]
    fn only_connections_above_their_share_are_paused() {
        // All numbers are in half MiB. 7/16 of 1,600 is 700. One of the three sources needs only 40, so the
        // others get (700 - 40) / 2 = 330 each. The first source has two connections, which get 165 each.
        const HALF: u64 = 1 << 19;
        let mut shares = Shares::new(1600 * HALF);
        let counted = shares.count(
            at(0),
            &[
                fast(1, "192.0.2.1", 400 * HALF),
                fast(2, "192.0.2.1", 400 * HALF),
                fast(3, "192.0.2.2", 620 * HALF),
                fast(4, "192.0.2.3", 40 * HALF),
            ],
        );
        assert_eq!(counted, Counted { reset: vec![], turned: true });
        assert_eq!((shares.held(), shares.paused()), (1460 * HALF, 3));
        for (number, allowed) in [(1, 165), (2, 165), (3, 330), (4, 330)] {
            let allowed = allowed * HALF;
            assert_eq!(shares.room(number, allowed - 30), 30, "connection {number}");
            assert_eq!(shares.room(number, allowed + 30), 0, "connection {number}");
        }
        // A connection that is newer than the last count has the share of a source.
        assert_eq!(shares.room(5, 1), 330 * HALF - 1);
        assert!(shares.refuses(ip("192.0.2.1")) && shares.refuses(ip("192.0.2.2")));
        assert!(!shares.refuses(ip("192.0.2.3")) && !shares.refuses(ip("192.0.2.4")));
    }

    #[test]
    fn memory_is_no_longer_short_once_all_are_within_their_shares() {
        // 7/16 of 800 MiB is 350 MiB, which is 50 MiB for each of the seven sources.
        const MIB: u64 = 1 << 20;
        let mut shares = Shares::new(800 * MIB);
        let all = |bytes: u64| (1..=7).map(move |it| fast(it, &format!("192.0.2.{it}"), bytes));
        let holdings: Vec<_> = all(100 * MIB).collect();
        assert!(shares.count(at(0), &holdings).turned);
        // All connections fill their shares again at once. Each exceeds its share by one read of 64 KiB.
        assert_eq!(shares.room(1, 30 * MIB), 20 * MIB);
        let holdings: Vec<_> = all(50 * MIB + 65_536).collect();
        shares.count(at(1), &holdings);
        assert!(!shares.is_short(), "350.4 of 400 MiB");
    }

    #[test]
    fn a_source_is_refused_only_when_it_holds_its_share_and_a_piece() {
        let refused = |bytes: u64| {
            let mut shares = Shares::new(160 << 20);
            let other = fast(2, "192.0.2.2", 100 << 20);
            shares.count(at(0), &[fast(1, "192.0.2.1", bytes), other]);
            shares.refuses(ip("192.0.2.1"))
        };
        // 7/16 of 160 MiB is 70 MiB, which is 35 MiB for each of the two sources.
        assert!(!refused((35 << 20) + 65_536));
        assert!(refused((35 << 20) + 65_537));
    }

    #[test]
    fn sources_of_one_site_share_its_four_shares() {
        let mut shares = Shares::new(800);
        let of_site = |number: u64| fast(number, &format!("2001:db8:0:{number}::1"), 75);
        let mut holdings: Vec<_> = (1..=8).map(of_site).collect();
        holdings.push(fast(9, "192.0.2.1", 200));
        shares.count(at(0), &holdings);
        // 350 / (4 + 1) = 70 bytes per share. The site's 280 are divided among eight sources, 35 for each.
        assert_eq!((shares.room(1, 1), shares.room(9, 1)), (34, 69));
    }

    #[test]
    fn a_connection_that_holds_nothing_is_served_even_without_a_share() {
        let mut shares = Shares::new(8);
        let holdings: Vec<_> = (0..20).map(|it| fast(it, "192.0.2.1", 1)).collect();
        shares.count(at(0), &holdings);
        assert!(shares.is_short());
        assert_eq!((shares.room(1, 0), shares.room(1, 1)), (LEAST, 0));
    }

    #[test]
    fn the_slowest_above_their_share_are_reset_until_half_is_held() {
        let mut shares = Shares::new(800);
        let slow = |number, seconds| Holding {
            drain_time: Duration::from_secs(seconds),
            ..stalled(number, "192.0.2.1", 120)
        };
        let holdings = [
            slow(1, 10),
            slow(2, 11),
            slow(3, 12),
            Holding { moved_at: at(1), ..stalled(4, "192.0.2.1", 120) },
            stalled(5, "192.0.2.1", 120),
            slow(6, 30),
            // A connection below its share is kept even if no byte leaves.
            stalled(7, "192.0.2.2", 60),
        ];
        // 780 bytes are held, and at most 400 may stay. Four connections of 120 bytes must be reset.
        assert_eq!(shares.count(at(10), &holdings).reset, NONE, "they have a second");
        assert_eq!(shares.count(at(11), &holdings).reset, [5, 4, 6, 3]);
        // 420 bytes are held. Two connections drain fast enough, and the third one is below its share.
        let counted =
            shares.count(at(12), &[slow(1, 10), slow(8, 10), stalled(7, "192.0.2.2", 180)]);
        assert_eq!(counted.reset, NONE);
    }

    #[test]
    fn beyond_the_limit_a_connection_above_its_share_is_reset_at_once() {
        let mut shares = Shares::new(800);
        let seconds = |number, seconds| Holding {
            drain_time: Duration::from_secs(seconds),
            ..stalled(number, "192.0.2.1", 210)
        };
        let holdings = [seconds(1, 1), seconds(2, 2), seconds(3, 3), seconds(4, 4)];
        // 840 bytes are held. One reset reduces the sum below the limit.
        assert_eq!(shares.count(at(0), &holdings).reset, [4]);
        // The bytes of all connections leave within a second.
        let mut shares = Shares::new(800);
        let holdings = [1, 2, 3, 4].map(|number| fast(number, "192.0.2.1", 210));
        assert_eq!(shares.count(at(0), &holdings).reset, NONE);
    }

    #[test]
    fn memory_is_counted_again_when_a_sixteenth_of_it_was_read() {
        let mut shares = Shares::new(1600);
        assert!(!shares.note_read(100));
        assert!(shares.note_read(1));
        shares.count(at(0), &[]);
        assert!(!shares.note_read(100));
    }
}
