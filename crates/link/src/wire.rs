//! The packets between a modelled link's queue and its far end, and the fates that are known out of turn.

use std::collections::{BTreeMap, VecDeque};

use anabranch_units::{ByteCount, Instant, Seed};

use crate::impairment::{Impairing, Impairments, Mishap};
use crate::{Damage, DropReason, Fate, LinkStats};

/// The path after the queue. It is a FIFO, except for reordered packets.
#[derive(Clone, Debug)]
pub(crate) struct Wire<P> {
    flying: VecDeque<Flying<P>>,
    /// The reordered packets, by arrival and order.
    late: BTreeMap<(Instant, u64), Flying<P>>,
    fallen: u64,
    impairing: Option<Impairing>,
    /// The arrival of the last packet. The next one cannot arrive earlier.
    last_arrival: Instant,
    /// The fates that are known out of turn: drops at the entry, and packets that were inside when the link went down.
    sealed: VecDeque<Fate<P>>,
    /// `sealed` has fates from a link that went down. They are due at once, even if no delivery is ahead.
    cut: bool,
}

/// A packet on the wire.
#[derive(Clone, Debug)]
pub(crate) struct Flying<P> {
    pub(crate) packet: P,
    pub(crate) size: ByteCount,
    pub(crate) departed: Instant,
    /// The time at which it would arrive without other packets.
    pub(crate) arrives: Instant,
    pub(crate) outcome: Outcome,
    /// Whether the queue marked it.
    pub(crate) marked: bool,
    pub(crate) copy: bool,
}

/// The end of a packet's transit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Arrives,
    /// The packet was lost when it left the queue.
    Lost,
    /// The packet arrives corrupted and is dropped.
    Spoilt,
    /// The packet arrives with this damage.
    Damaged(Damage),
}

impl<P> Wire<P> {
    pub(crate) fn new(impairments: &Impairments, name: &str, seed: Seed) -> Self {
        Self {
            flying: VecDeque::new(),
            late: BTreeMap::new(),
            fallen: 0,
            impairing: Impairing::new(impairments, name, seed),
            last_arrival: Instant::ZERO,
            sealed: VecDeque::new(),
            cut: false,
        }
    }

    /// Returns the number of packets on the wire.
    pub(crate) fn len(&self) -> u64 {
        (self.flying.len() + self.late.len()) as u64
    }

    /// Returns whether no packet overtakes another.
    pub(crate) fn keeps_order(&self) -> bool {
        !self.impairing.as_ref().is_some_and(Impairing::reorders)
    }

    /// Returns when a packet arrives that would arrive at `at` without other packets.
    pub(crate) fn arrival(&self, at: Instant) -> Instant {
        self.last_arrival.max(at)
    }

    /// Takes a packet from the queue. A lost packet keeps its place in the order.
    #[inline]
    pub(crate) fn push(&mut self, mut packet: Flying<P>, stats: &mut LinkStats)
    where
        P: Clone,
    {
        self.last_arrival = self.arrival(packet.arrives);
        packet.arrives = self.last_arrival;
        // Every packet draws its impairments, even if it is lost.
        match self.impairing.as_mut().map(Impairing::next) {
            Some(mishap) if packet.outcome == Outcome::Arrives => {
                self.befall(packet, mishap, stats);
            }
            _ => self.flying.push_back(packet),
        }
    }

    #[cold]
    fn befall(&mut self, mut packet: Flying<P>, mishap: Mishap, stats: &mut LinkStats)
    where
        P: Clone,
    {
        if mishap.spoilt {
            packet.outcome = mishap.damage.map_or(Outcome::Spoilt, Outcome::Damaged);
        }
        let copy = mishap.copied.then(|| Flying { copy: true, ..packet.clone() });
        match mishap.behind {
            None => self.flying.push_back(packet),
            Some(span) => {
                packet.arrives += span;
                stats.reordered += 1;
                self.fallen += 1;
                self.late.insert((packet.arrives, self.fallen), packet);
            }
        }
        if let Some(copy) = copy {
            stats.duplicated += 1;
            self.flying.push_back(copy);
        }
    }

    /// Records the drop of a packet out of turn.
    pub(crate) fn seal(&mut self, at: Instant, packet: P, why: DropReason, stats: &mut LinkStats) {
        stats.count_drop(why);
        self.sealed.push_back(Fate::Dropped { at, packet, why, copy: false });
    }

    /// Returns the next fate that is known at `now`.
    pub(crate) fn poll(&mut self, now: Instant, stats: &mut LinkStats) -> Option<Fate<P>> {
        if let Some(fate) = self.sealed.pop_front() {
            self.cut &= !self.sealed.is_empty();
            return Some(fate);
        }
        self.arrived(now, stats)
    }

    #[inline]
    fn arrived(&mut self, now: Instant, stats: &mut LinkStats) -> Option<Fate<P>> {
        if !self.late.is_empty() && self.first_late() <= self.first_flying().min(now) {
            let (_, packet) = self.late.pop_first()?;
            return Some(end(packet, stats));
        }
        let oldest = self.flying.front()?;
        if oldest.outcome != Outcome::Lost && oldest.arrives > now {
            return None;
        }
        Some(end(self.flying.pop_front()?, stats))
    }

    /// Discards the packets on the wire, except those that arrived or were lost by `now`.
    pub(crate) fn cut(&mut self, now: Instant, stats: &mut LinkStats) {
        while let Some(fate) = self.arrived(now, stats) {
            self.sealed.push_back(fate);
        }
        let late = std::mem::take(&mut self.late).into_values();
        let flying = std::mem::take(&mut self.flying);
        for Flying { packet, departed, outcome, copy, .. } in flying.into_iter().chain(late) {
            let (at, why) = match outcome {
                Outcome::Lost => (departed, DropReason::Loss),
                Outcome::Arrives | Outcome::Spoilt | Outcome::Damaged(_) => (now, DropReason::Down),
            };
            stats.count_drop(why);
            self.sealed.push_back(Fate::Dropped { at, packet, why, copy });
        }
        // Discarded packets must not delay later ones.
        self.last_arrival = now;
    }

    /// Makes the fates from a link that went down due at once.
    pub(crate) fn close_cut(&mut self) {
        self.cut = !self.sealed.is_empty();
    }

    /// Returns when the next packet arrives; far future without one.
    pub(crate) fn next_arrival(&self) -> Instant {
        self.first_flying().min(self.first_late())
    }

    fn first_flying(&self) -> Instant {
        self.flying.front().map_or(Instant::FAR_FUTURE, |oldest| oldest.arrives)
    }

    /// Returns the first arrival of a reordered packet. At equal times it comes before the others, because it left the
    /// queue earlier.
    fn first_late(&self) -> Instant {
        self.late.first_key_value().map_or(Instant::FAR_FUTURE, |(&(at, _), _)| at)
    }

    /// Returns whether fates from a link that went down are due at once.
    pub(crate) fn is_cut(&self) -> bool {
        self.cut
    }

    /// Returns the time of the first fate that is known out of turn.
    pub(crate) fn first_sealed(&self) -> Option<Instant> {
        self.sealed.front().map(Fate::at)
    }

    /// Returns when to poll if the next delivery is at `next`; see `Link::poll_timeout`.
    pub(crate) fn poll_timeout(&self, next: Instant) -> Option<Instant> {
        if next < Instant::FAR_FUTURE && !self.cut {
            return Some(next);
        }
        self.first_sealed()
    }
}

/// Returns and counts the fate of a packet that leaves the wire.
fn end<P>(gone: Flying<P>, stats: &mut LinkStats) -> Fate<P> {
    let Flying { packet, size, departed, arrives, outcome, marked, copy } = gone;
    let damage = match outcome {
        Outcome::Damaged(damage) => Some(damage),
        _ => None,
    };
    let (at, why) = match outcome {
        Outcome::Arrives | Outcome::Damaged(_) => {
            stats.count_delivery(size);
            return Fate::Delivered { at: arrives, packet, marked, copy, damage };
        }
        Outcome::Lost => (departed, DropReason::Loss),
        Outcome::Spoilt => (arrives, DropReason::Corrupt),
    };
    stats.count_drop(why);
    Fate::Dropped { at, packet, why, copy }
}
