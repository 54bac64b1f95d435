//! Several links in a row are a link.

use std::collections::VecDeque;

use anabranch_units::{ByteCount, Instant};

use crate::{Change, Damage, Fate, Label, Link, LinkStats, Queued};

/// One link of a [`Chain`].
pub type Hop<P> = Box<dyn Link<Parcel<P>> + Send>;

/// A packet with what is written on it, for the next hop to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parcel<P> {
    /// The packet.
    pub packet: P,
    /// What the caller wrote on it.
    pub label: Label,
    /// A hop has marked it.
    pub marked: bool,
    /// A hop has made it of another.
    pub copy: bool,
    /// What the first hop that changed its payload did to it.
    pub damage: Option<Damage>,
}

/// Links in a row: what one delivers enters the next, and the last one delivers.
///
/// A packet is handed on at the instant of its delivery, even when the chain is polled later, so
/// the chain needs no wake-up of an inner hop while a later hop has one to come: FIFO hops deliver
/// nothing out of turn. Under load that is one wake-up a packet, however many hops. A drop at an
/// inner hop is told when that wake-up comes.
///
/// As a link, a chain goes down and up as a whole, and any other change befalls its first hop; see
/// [`Chain::set_hop`] for the others. Its queue is the sum of the hops' queues at the last poll;
/// its longest queue is that of the hop with the longest.
pub struct Chain<P> {
    name: String,
    hops: Vec<Hop<P>>,
    /// Drops on the way to the last hop.
    dropped: VecDeque<Fate<P>>,
    stats: LinkStats,
}

impl<P> Chain<P> {
    /// A chain of `hops`, first hop first.
    ///
    /// # Panics
    ///
    /// When there is no hop.
    pub fn new(name: impl Into<String>, hops: Vec<Hop<P>>) -> Self {
        assert!(!hops.is_empty(), "a chain has at least one link");
        Self { name: name.into(), hops, dropped: VecDeque::new(), stats: LinkStats::default() }
    }

    /// The hops, first hop first.
    pub fn hops(&self) -> impl Iterator<Item = &dyn Link<Parcel<P>>> {
        self.hops.iter().map(|hop| &**hop as &dyn Link<Parcel<P>>)
    }

    /// Changes one hop, counted from 0.
    ///
    /// # Panics
    ///
    /// When there is no such hop.
    pub fn set_hop(&mut self, now: Instant, hop: usize, change: Change) {
        // What happened before the change must not see it.
        self.hand_on(now);
        self.hops[hop].set(now, change);
        self.hand_on(now);
    }

    /// Carries every packet from hop to hop as far as it has come by `now`, short of the last exit.
    ///
    /// Hop by hop is enough: nothing flows back.
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

    /// Takes over what the hops count of what they do to packets.
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
        // Only a change leaves drops here between polls, and those are due at once.
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

/// Takes the packet out of its parcel and counts its fate.
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
