//! What has left a modelled link's queue and has not arrived yet, and fates sealed out of turn.

use std::collections::{BTreeMap, VecDeque};

use anabranch_units::{ByteCount, Instant, Seed};

use crate::impairment::{Impairing, Impairments, Mishap};
use crate::{Damage, DropReason, Fate, LinkStats};

/// The way behind the queue: a FIFO, whatever the delays of its packets, but for those that fall behind.
#[derive(Clone, Debug)]
pub(crate) struct Wire<P> {
    flying: VecDeque<Flying<P>>,
    /// Those that fell behind, by arrival and order.
    late: BTreeMap<(Instant, u64), Flying<P>>,
    fallen: u64,
    impairing: Option<Impairing>,
    /// The arrival of the last packet that set out: the next one may not arrive before it.
    last_arrival: Instant,
    /// Drops at the entry, and what a cut sealed.
    sealed: VecDeque<Fate<P>>,
    /// `sealed` holds what a cut sealed, which shall not wait for a delivery.
    cut: bool,
}

/// A packet on the way.
#[derive(Clone, Debug)]
pub(crate) struct Flying<P> {
    pub(crate) packet: P,
    pub(crate) size: ByteCount,
    pub(crate) departed: Instant,
    /// When it would arrive if it were alone.
    pub(crate) arrives: Instant,
    pub(crate) outcome: Outcome,
    /// The queue marked it.
    pub(crate) marked: bool,
    pub(crate) copy: bool,
}

/// How a packet's way ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Arrives,
    /// It was lost as it set out.
    Lost,
    /// It arrives and is thrown away.
    Spoilt,
    /// It arrives with this done to it.
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

    /// Packets on the way.
    pub(crate) fn len(&self) -> u64 {
        (self.flying.len() + self.late.len()) as u64
    }

    /// No packet overtakes another.
    pub(crate) fn keeps_order(&self) -> bool {
        !self.impairing.as_ref().is_some_and(Impairing::reorders)
    }

    /// When a packet arrives that would arrive at `at` if it were alone.
    pub(crate) fn arrival(&self, at: Instant) -> Instant {
        self.last_arrival.max(at)
    }

    /// A packet sets out; a lost one keeps its place in the order.
    #[inline(always)]
    pub(crate) fn push(&mut self, mut packet: Flying<P>, stats: &mut LinkStats)
    where
        P: Clone,
    {
        self.last_arrival = self.arrival(packet.arrives);
        packet.arrives = self.last_arrival;
        // Drawn for every packet, whatever becomes of it.
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

    /// A packet was dropped out of turn.
    pub(crate) fn seal(&mut self, at: Instant, packet: P, why: DropReason, stats: &mut LinkStats) {
        stats.count_drop(why);
        self.sealed.push_back(Fate::Dropped { at, packet, why, copy: false });
    }

    /// The next sealed fate at `now`.
    pub(crate) fn poll(&mut self, now: Instant, stats: &mut LinkStats) -> Option<Fate<P>> {
        if let Some(fate) = self.sealed.pop_front() {
            self.cut &= !self.sealed.is_empty();
            return Some(fate);
        }
        self.arrived(now, stats)
    }

    #[inline(always)]
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

    /// Discards what is on the way, apart from what arrived or was lost by `now`.
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
        // What enters later arrives later anyway: what was discarded shall not hold it up.
        self.last_arrival = now;
    }

    /// What a cut sealed is due at once.
    pub(crate) fn close_cut(&mut self) {
        self.cut = !self.sealed.is_empty();
    }

    /// When the next packet on the way arrives; far future when there is none.
    pub(crate) fn next_arrival(&self) -> Instant {
        self.first_flying().min(self.first_late())
    }

    fn first_flying(&self) -> Instant {
        self.flying.front().map_or(Instant::FAR_FUTURE, |oldest| oldest.arrives)
    }

    /// The first arrival of those that fell behind: they set out before any that arrives then.
    fn first_late(&self) -> Instant {
        self.late.first_key_value().map_or(Instant::FAR_FUTURE, |(&(at, _), _)| at)
    }

    /// A cut sealed fates that are due at once.
    pub(crate) fn is_cut(&self) -> bool {
        self.cut
    }

    /// When the first of the fates sealed out of turn was.
    pub(crate) fn first_sealed(&self) -> Option<Instant> {
        self.sealed.front().map(Fate::at)
    }

    /// When to poll, if the next delivery is at `next`: see `Link::poll_timeout`.
    pub(crate) fn poll_timeout(&self, next: Instant) -> Option<Instant> {
        if next < Instant::FAR_FUTURE && !self.cut {
            return Some(next);
        }
        self.first_sealed()
    }
}

/// A packet's way ends.
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
