//! Several links in a row, which act as one link.

use std::collections::VecDeque;

use anabranch_units::{ByteCount, Instant};

use crate::{Change, Damage, Fate, Label, Link, LinkStats, Queued};

/// One link of a [`Chain`].
pub type Hop<P> = Box<dyn Link<Parcel<P>> + Send>;

/// A packet with the information that the next hop needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parcel<P> {
    /// The packet.
    pub packet: P,
    /// The label that the caller provided.
    pub label: Label,
    /// A hop has marked the packet (CE).
    pub marked: bool,
    /// The packet is a copy that a hop made.
    pub copy: bool,
    /// The damage to the payload by the first hop that changed it.
    pub damage: Option<Damage>,
}

/// Links in a row. Packets that one link delivers enter the next one, and the last link delivers them.
///
/// A packet enters the next hop at the time of its delivery, even if the chain is polled later. While a later hop has
/// a delivery pending, an inner FIFO hop therefore needs no wake-up. A busy chain has one wake-up per packet, however
/// many hops there are. A drop at an inner hop is reported at that wake-up.
///
/// [`Change::Down`] and [`Change::Up`] apply to all hops, and every other change applies to the first hop.
/// [`Chain::set_hop`] changes another hop. The chain's queue is the sum of the hops' queues at the last poll. The
/// longest queue in its totals is the longest queue of any hop.
pub struct Chain<P> {
    name: String,
    hops: Vec<Hop<P>>,
    /// Drops at inner hops that were not reported yet.
    dropped: VecDeque<Fate<P>>,
    stats: LinkStats,
}

impl<P> Chain<P> {
    /// Creates a chain. The first hop comes first.
    ///
    /// # Panics
    ///
    /// Panics if there is no hop.
    pub fn new(name: impl Into<String>, hops: Vec<Hop<P>>) -> Self {
        assert!(!hops.is_empty(), "a chain has at least one link");
        Self { name: name.into(), hops, dropped: VecDeque::new(), stats: LinkStats::default() }
    }

    /// Returns the hops. The first hop comes first.
    pub fn hops(&self) -> impl Iterator<Item = &dyn Link<Parcel<P>>> {
        self.hops.iter().map(|hop| &**hop as &dyn Link<Parcel<P>>)
    }

    /// Changes one hop, counted from 0.
    ///
    /// # Panics
    ///
    /// Panics if there is no such hop.
    pub fn set_hop(&mut self, now: Instant, hop: usize, change: Change) {
        // Packets move as far as they have come by `now`, so that the change does not affect earlier events.
        self.hand_on(now);
        self.hops[hop].set(now, change);
        self.hand_on(now);
    }

    /// Moves packets that a hop has delivered by `now` into the next hop. The last hop keeps its deliveries.
    ///
    /// One pass over the hops is enough, because packets move in one direction only.
    fn hand_on(&mut self, now: Instant) {
        for first in 0..self.hops.len() - 1 {
            let [from, to] = &mut self.hops[first..=first + 1] else {
                return;
            };
            while let Some(fate) = from.poll_fate(now) {
                match fate {
                    Fate::Delivered { at, packet: mut parcel, marked, copy, damage } => {
                        parcel.marked |= marked;
                        parcel.copy |= copy;
                        parcel.damage = parcel.damage.or(damage);
                        let label = parcel.label;
                        to.enter(at, parcel, label);
                    }
                    drop @ Fate::Dropped { .. } => {
                        self.dropped.push_back(unwrap(drop, &mut self.stats));
                    }
                }
            }
            note_queue(&mut self.stats, to.stats());
        }
        self.sum_up();
    }

    /// Updates the totals that are sums of the hops' totals.
    fn sum_up(&mut self) {
        let sum =
            |count: fn(&LinkStats) -> u64| self.hops.iter().map(|hop| count(hop.stats())).sum();
        let (duplicated, reordered) = (sum(|hop| hop.duplicated), sum(|hop| hop.reordered));
        (self.stats.duplicated, self.stats.reordered) = (duplicated, reordered);
        self.stats.marked = sum(|hop| hop.marked);
    }
}

impl<P> Link<P> for Chain<P> {
    fn enqueue(&mut self, now: Instant, packet: P, size: ByteCount) {
        self.enter(now, packet, Label::of_size(size));
    }

    fn enter(&mut self, now: Instant, packet: P, label: Label) {
        self.stats.enqueued += 1;
        let parcel = Parcel { packet, label, marked: false, copy: false, damage: None };
        self.hops[0].enter(now, parcel, label);
        note_queue(&mut self.stats, self.hops[0].stats());
        self.sum_up();
    }

    fn set(&mut self, now: Instant, change: Change) {
        match change {
            Change::Down | Change::Up => {
                self.hand_on(now);
                for hop in &mut self.hops {
                    hop.set(now, change);
                }
                self.hand_on(now);
            }
            _ => self.set_hop(now, 0, change),
        }
    }

    fn poll_fate(&mut self, now: Instant) -> Option<Fate<P>> {
        self.hand_on(now);
        self.dropped.pop_front().or_else(|| {
            let fate = self.hops.last_mut()?.poll_fate(now);
            self.sum_up();
            Some(unwrap(fate?, &mut self.stats))
        })
    }

    fn poll_timeout(&self) -> Option<Instant> {
        // Drops are left here only if the chain was changed since the last poll. They are due at once.
        let told_late = self.dropped.front().map(Fate::at);
        if self.keeps_order() {
            return told_late.or_else(|| self.hops.iter().rev().find_map(|hop| hop.poll_timeout()));
        }
        told_late.or_else(|| self.hops.iter().filter_map(|hop| hop.poll_timeout()).min())
    }

    fn stats(&self) -> &LinkStats {
        &self.stats
    }

    fn queued(&self, now: Instant) -> Queued {
        self.hops.iter().map(|hop| hop.queued(now)).fold(Queued::default(), |sum, hop| Queued {
            packets: sum.packets + hop.packets,
            bytes: ByteCount(sum.bytes.0 + hop.bytes.0),
        })
    }

    fn in_transit(&self) -> u64 {
        self.stats.entered() - self.stats.delivered - self.stats.dropped()
    }

    fn keeps_order(&self) -> bool {
        self.hops.iter().all(|hop| hop.keeps_order())
    }

    fn name(&self) -> &str {
        &self.name
    }
}

/// Takes the packet out of its parcel, and counts its fate.
fn unwrap<P>(fate: Fate<Parcel<P>>, stats: &mut LinkStats) -> Fate<P> {
    match fate {
        Fate::Delivered { at, packet: parcel, marked, copy, damage } => {
            stats.count_delivery(parcel.label.size);
            let (marked, copy) = (marked || parcel.marked, copy || parcel.copy);
            let damage = parcel.damage.or(damage);
            Fate::Delivered { at, packet: parcel.packet, marked, copy, damage }
        }
        Fate::Dropped { at, packet: parcel, why, copy } => {
            stats.count_drop(why);
            Fate::Dropped { at, packet: parcel.packet, why, copy: copy || parcel.copy }
        }
    }
}

fn note_queue(stats: &mut LinkStats, hop: &LinkStats) {
    stats.note_queue(Queued {
        packets: hop.queue_max_packets,
        bytes: ByteCount(hop.queue_max_bytes),
    });
}
