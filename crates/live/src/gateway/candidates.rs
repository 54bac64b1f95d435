//! Connections that may give way if no slot is free and no client is silent.
//!
//! The first connection in this order gives way:
//!
//! 1. a *stalled* connection whose source has at least two slots more than the new connection's source;
//! 2. a *slow* connection that has received nothing from the origin, whose source has at least as many slots
//!    as the new connection's source;
//! 3. any other slow connection whose source has at least two slots more, or has any slots if the new
//!    connection's source has none;
//! 4. the slowest connection of the source with the most slots, if these are at least two plus twice the
//!    slots of the new connection's source.
//!
//! An IPv6 source counts as having at least a quarter of its site's slots.
//!
//! Slow connections are ordered by the slots of their source, most slots first, and then by their rate,
//! slowest first.
//!
//! The rate is measured over the last 30 to 60 s. A viewer who pauses is therefore not stalled, even if the
//! player stops reading and bytes wait in the gateway. Rules 2 and 3 are for many sources with one slot each.
//! Rule 4 is for a source whose connections are all fast.

use std::cmp::Reverse;

use anabranch_units::{Duration, Instant};

use super::progress::LEAST_RATE;

/// A connection is stalled if no byte has left the gateway for this time.
const STALLED: Duration = Duration::from_secs(10);
/// The rate of a connection is known from this age on.
const YOUNG: Duration = Duration::from_secs(10);

/// How a connection uses its slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    /// The number of the connection.
    pub(super) number: u64,
    /// The time at which the connection began.
    pub(super) since: Instant,
    /// The time at which a byte last left the gateway.
    pub(super) moved_at: Instant,
    /// Whether the gateway holds bytes that wait to leave.
    pub(super) waits: bool,
    /// Whether the client has received a byte from the origin.
    pub(super) answered: bool,
    /// The rate at which bytes leave the gateway, bytes per second.
    pub(super) rate: u64,
}

impl Standing {
    /// Returns whether no byte leaves although data is due: the first data from the origin, or bytes that the
    /// gateway holds. If a client has received data, it may pause as long as its average rate is high enough.
    fn is_stalled(&self, now: Instant) -> bool {
        let stopped = self.waits && self.rate < LEAST_RATE;
        now.since(self.moved_at) >= STALLED && (!self.answered || stopped)
    }

    fn is_young(&self, now: Instant) -> bool {
        now.since(self.since) < YOUNG
    }

    fn is_slow(&self, now: Instant) -> bool {
        !self.is_young(now) && self.rate < LEAST_RATE
    }
}

/// The candidates at the last count. Each list is in the order in which they give way.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    stalled: List,
    unanswered: List,
    slow: List,
    others: List,
}

impl Candidates {
    /// Selects the candidates. `slots` returns the number of slots of a connection's source. Zero if the
    /// connection has none.
    pub(super) fn new(now: Instant, standings: &[Standing], slots: impl Fn(u64) -> u32) -> Self {
        let counted = standings.iter().map(|it| (slots(it.number), it));
        let counted: Vec<_> = counted.filter(|(slots, _)| *slots > 0).collect();
        let stalled = counted.iter().filter(|(_, it)| it.is_stalled(now));
        let slow = |answered| {
            let slow = counted.iter().filter(|(_, it)| it.is_slow(now) && it.answered == answered);
            List::new(slow.map(|(slots, it)| (*slots, it.rate, it.number)))
        };
        let others = counted.iter();
        Self {
            stalled: List::new(stalled.map(|(slots, it)| (*slots, it.moved_at, it.number))),
            unanswered: slow(false),
            slow: slow(true),
            others: List::new(
                others.map(|(slots, it)| (*slots, (it.is_young(now), it.rate), it.number)),
            ),
        }
    }

    /// Returns the connection that gives way to a new one, whose source has `own` slots.
    pub(super) fn find(&self, own: u32, slots: impl Fn(u64) -> u32) -> Option<u64> {
        let first = |list: &List, least: u32| list.first(least, &slots);
        let two_more = own.saturating_add(2);
        first(&self.stalled, two_more)
            .or_else(|| first(&self.unanswered, own.max(1)))
            .or_else(|| first(&self.slow, if own == 0 { 1 } else { two_more }))
            .or_else(|| first(&self.others, own.saturating_mul(2).saturating_add(2)))
    }
}

/// A list of connections with the number of slots that each source had at the last count. Sources with the
/// most slots come first.
#[derive(Debug, Default)]
struct List(Vec<(u32, u64)>);

impl List {
    /// Creates a list from slots, keys and numbers. Connections with the same number of slots are ordered by
    /// key.
    fn new<K: Ord>(keyed: impl Iterator<Item = (u32, K, u64)>) -> Self {
        let mut keyed: Vec<_> =
            keyed.map(|(slots, key, number)| (Reverse(slots), key, number)).collect();
        keyed.sort_unstable();
        Self(keyed.into_iter().map(|(Reverse(slots), _, number)| (slots, number)).collect())
    }

    /// Returns the first connection whose source had at least `least` slots at the last count and still has
    /// them. `slots` returns the current number. It is not called for sources with fewer slots at the count,
    /// so a SYN costs little when there is no candidate.
    fn first(&self, least: u32, slots: impl Fn(u64) -> u32) -> Option<u64> {
        let enough = self.0.iter().take_while(|(counted, _)| *counted >= least);
        enough.map(|(_, number)| *number).find(|it| slots(*it) >= least)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    /// Returns a viewer who receives 50 Mb/s over a connection that is a minute old.
    fn fast(number: u64) -> Standing {
        let rate = 6_250_000;
        Standing { number, since: at(0), moved_at: at(60), waits: true, answered: true, rate }
    }

    /// Returns a client that sends one byte of its request every nine seconds.
    fn trickles(number: u64) -> Standing {
        Standing { rate: 0, moved_at: at(51), waits: false, answered: false, ..fast(number) }
    }

    /// Returns a viewer who has paused after watching.
    fn pauses(number: u64) -> Standing {
        Standing { rate: 20_000, moved_at: at(48), waits: false, ..fast(number) }
    }

    /// Returns the connection that gives way at 60 s to a new connection, whose source has `own` slots.
    fn gives_way(standings: &[Standing], own: u32, slots: impl Fn(u64) -> u32) -> Option<u64> {
        Candidates::new(at(60), standings, &slots).find(own, &slots)
    }

    #[test]
    fn a_stalled_connection_gives_way_before_a_slow_one() {
        let still = |number| Standing { rate: 0, moved_at: at(50), ..fast(number) };
        let all = [trickles(1), still(2), Standing { moved_at: at(49), ..still(3) }];
        assert_eq!(gives_way(&all, 0, |_| 2), Some(3), "for longer");
        assert_eq!(gives_way(&all, 0, |it| if it == 2 { 3 } else { 2 }), Some(2), "more slots");
        assert_eq!(gives_way(&[still(2)], 1, |_| 2), None, "two slots against one");
        // Two uploads without a response. No byte has left the first for nine seconds and the second for ten.
        let [nine, ten] =
            [51, 50].map(|seconds| Standing { answered: false, moved_at: at(seconds), ..fast(2) });
        assert_eq!(gives_way(&[nine], 2, |_| 4), None);
        assert_eq!(gives_way(&[ten], 2, |_| 4), Some(2));
    }

    #[test]
    fn paused_viewer_is_not_stalled() {
        assert_eq!(gives_way(&[pauses(1)], 2, |_| 4), None);
        // The player has stopped reading, and the gateway's buffers for it are full. 1,024 bytes per second
        // are enough.
        let [enough, less] = [1024, 1023].map(|rate| Standing { rate, waits: true, ..pauses(1) });
        assert_eq!(gives_way(&[enough], 2, |_| 4), None);
        assert_eq!(gives_way(&[less], 2, |_| 4), Some(1), "bytes wait");
        let half = Standing { answered: false, ..pauses(1) };
        assert_eq!(gives_way(&[half], 2, |_| 4), Some(1), "half a request");
    }

    #[test]
    fn a_slow_connection_of_many_sources_gives_way_and_a_paused_viewer_does_not() {
        let rests = Standing { rate: 10, ..pauses(4) };
        let all = [fast(1), pauses(2), trickles(3), rests];
        assert_eq!(gives_way(&all, 0, |_| 1), Some(3), "never answered");
        assert_eq!(gives_way(&all, 1, |_| 1), Some(3), "a second connection of a viewer");
        assert_eq!(gives_way(&all, 2, |_| 1), None);
        assert_eq!(gives_way(&[rests], 1, |_| 2), None, "two slots against one");
        assert_eq!(gives_way(&[rests], 1, |_| 3), Some(4));
        let all = [fast(1), pauses(2), rests, Standing { rate: 9, ..rests }];
        assert_eq!(gives_way(&all, 0, |_| 1), Some(4));
        // 1,024 bytes per second are enough.
        let [enough, less] = [1024, 1023].map(|rate| Standing { rate, ..rests });
        assert_eq!(gives_way(&[enough], 0, |_| 1), None);
        assert_eq!(gives_way(&[less], 0, |_| 1), Some(4));
        let young = Standing { since: at(51), ..less };
        assert_eq!(gives_way(&[young], 0, |_| 1), None, "its rate is not known yet");
    }

    #[test]
    fn the_slowest_of_the_largest_source_gives_way_from_twice_the_slots_and_two() {
        let rate = |number, rate| Standing { rate, ..fast(number) };
        // The source of connections 1 to 3 has six slots, and that of connection 4 has five.
        let all = [rate(1, 5000), rate(2, 4000), rate(3, 6000), rate(4, 2000)];
        let slots = |number| if number == 4 { 5 } else { 6 };
        assert_eq!(gives_way(&all, 2, slots), Some(2), "6 >= 2 * 2 + 2");
        assert_eq!(gives_way(&all, 3, slots), None, "6 < 2 * 3 + 2");
        let young = Standing { since: at(55), rate: 1, ..fast(5) };
        assert_eq!(gives_way(&[young, rate(1, 5000)], 2, |_| 6), Some(1));
        assert_eq!(gives_way(&[young], 2, |_| 6), Some(5));
    }

    #[test]
    fn only_connections_of_sources_with_enough_slots_are_checked() {
        // 1,000 viewers receive at full speed. The first 997 are separate sources, and the last three are one
        // source.
        let all: Vec<_> = (1..=1000).map(fast).collect();
        let slots = |number: u64| if number > 997 { 3 } else { 1 };
        let candidates = Candidates::new(at(60), &all, slots);
        let looks = |own: u32, left: u32| {
            let visited = Cell::new(0);
            let found = candidates.find(own, |number| {
                visited.set(visited.get() + 1);
                left.min(slots(number))
            });
            (found, visited.get())
        };
        // 3 >= 2 * 0 + 2, and 3 < 2 * 1 + 2.
        assert_eq!(looks(0, 3), (Some(998), 1));
        assert_eq!(looks(1, 3), (None, 0));
        // Two of the three connections have ended since the count.
        assert_eq!(looks(0, 1), (None, 3));
    }

    #[test]
    fn an_ended_connection_is_no_candidate() {
        let candidates = Candidates::new(at(60), &[trickles(1), trickles(2)], |_| 4);
        assert_eq!(candidates.find(0, |it| if it == 1 { 0 } else { 4 }), Some(2));
        assert_eq!(Candidates::default().find(0, |_| 9), None);
    }
}
