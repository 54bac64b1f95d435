//! The packets between a modelled link's queue and its far end, and fates that are reported out of order.

use std::collections::{BTreeMap, VecDeque};

use anabranch_units::{ByteCount, Instant, Seed};

use crate::impairment::{Impairing, Impairments, Mishap};
use crate::{Damage, DropReason, Fate, LinkStats};

/// The path after the queue. It is a FIFO, except for reordered packets.
#[derive(Clone, Debug)]
pub(crate) struct Wire<P> {
    flying: VecDeque<Flying<P>>,
    /// The reordered packets, by arrival time and a serial number.
    late: BTreeMap<(Instant, u64), Flying<P>>,
    fallen: u64,
    impairing: Option<Impairing>,
    /// The arrival of the last packet. The next one cannot arrive earlier.
    last_arrival: Instant,
    /// Fates that are reported out of order: drops at the entry, and packets that an outage discarded.
    sealed: VecDeque<Fate<P>>,
    /// Whether `sealed` holds packets that an outage discarded. They are due at once, even if a delivery is pending.
    cut: bool,
}

/// A packet on the wire.
#[derive(Clone, Debug)]
pub(crate) struct Flying<P> {
    pub(crate) packet: P,
    pub(crate) size: ByteCount,
    pub(crate) departed: Instant,
    /// The arrival time. [`Wire::push`] delays it if an earlier packet arrives later.
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

    /// Returns the arrival of a packet that is due at `at`: not before the arrival of the last packet.
    pub(crate) fn arrival(&self, at: Instant) -> Instant {
        self.last_arrival.max(at)
    }

    /// Puts a packet from the queue on the wire. A lost packet stays in the sequence, so its fate is reported in
    /// order.
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
                self.impair(packet, mishap, stats);
            }
            _ => self.flying.push_back(packet),
        }
    }

    #[cold]
    fn impair(&mut self, mut packet: Flying<P>, mishap: Mishap, stats: &mut LinkStats)
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

    /// Records a drop that is reported out of order.
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

    /// Marks the unreported fates as due at once, after an outage has discarded packets.
    pub(crate) fn close_cut(&mut self) {
        self.cut = !self.sealed.is_empty();
    }

    /// Returns the next arrival; far future if the wire is empty.
    pub(crate) fn next_arrival(&self) -> Instant {
        self.first_flying().min(self.first_late())
    }

    fn first_flying(&self) -> Instant {
        self.flying.front().map_or(Instant::FAR_FUTURE, |oldest| oldest.arrives)
    }

    /// Returns the first arrival of a reordered packet. If a packet in order arrives at the same time, the reordered
    /// one is reported first, because it left the queue earlier.
    fn first_late(&self) -> Instant {
        self.late.first_key_value().map_or(Instant::FAR_FUTURE, |(&(at, _), _)| at)
    }

    /// Returns whether fates are due at once because of an outage.
    pub(crate) fn is_cut(&self) -> bool {
        self.cut
    }

    /// Returns the time of the first fate that is reported out of order.
    pub(crate) fn first_sealed(&self) -> Option<Instant> {
        self.sealed.front().map(Fate::at)
    }

    /// Returns the time of the next poll if the next delivery is at `next`; see `Link::poll_timeout`.
    pub(crate) fn poll_timeout(&self, next: Instant) -> Option<Instant> {
        if next < Instant::FAR_FUTURE && !self.cut {
            return Some(next);
        }
        self.first_sealed()
    }
}

/// Returns the fate of a packet that leaves the wire, and counts it.
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
