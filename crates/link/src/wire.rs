//! What has left a modelled link's queue and has not arrived yet, and fates sealed out of turn.

use std::collections::VecDeque;

use anabranch_units::{ByteCount, Instant};

use crate::{DropReason, Fate, LinkStats};

/// The way behind the queue: a FIFO, whatever the delays of its packets.
#[derive(Clone, Debug)]
pub(crate) struct Wire<P> {
    flying: VecDeque<Flying<P>>,
    /// The arrival of the last packet that set out: the next one may not arrive before it.
    last_arrival: Instant,
    /// Drops at the entry, and what a cut sealed.
    sealed: VecDeque<Fate<P>>,
    /// `sealed` holds what a cut sealed, which shall not wait for a delivery.
    cut: bool,
}

#[derive(Clone, Debug)]
struct Flying<P> {
    packet: P,
    size: ByteCount,
    departed: Instant,
    arrives: Instant,
    lost: bool,
}

impl<P> Wire<P> {
    pub(crate) fn new() -> Self {
        Self {
            flying: VecDeque::new(),
            last_arrival: Instant::ZERO,
            sealed: VecDeque::new(),
            cut: false,
        }
    }

    /// Packets on the way.
    pub(crate) fn len(&self) -> u64 {
        self.flying.len() as u64
    }

    /// When a packet arrives that would arrive at `at` if it were alone.
    pub(crate) fn arrival(&self, at: Instant) -> Instant {
        self.last_arrival.max(at)
    }

    /// A packet sets out; a lost one keeps its place in the order.
    pub(crate) fn push(
        &mut self,
        packet: P,
        size: ByteCount,
        departed: Instant,
        arrives: Instant,
        lost: bool,
    ) {
        self.last_arrival = self.arrival(arrives);
        let arrives = self.last_arrival;
        self.flying.push_back(Flying { packet, size, departed, arrives, lost });
    }

    /// A packet was dropped out of turn.
    pub(crate) fn seal(&mut self, at: Instant, packet: P, why: DropReason, stats: &mut LinkStats) {
        stats.count_drop(why);
        self.sealed.push_back(Fate::Dropped { at, packet, why });
    }

    /// The next sealed fate at `now`.
    pub(crate) fn poll(&mut self, now: Instant, stats: &mut LinkStats) -> Option<Fate<P>> {
        if let Some(fate) = self.sealed.pop_front() {
            self.cut &= !self.sealed.is_empty();
            return Some(fate);
        }
        self.arrived(now, stats)
    }

    fn arrived(&mut self, now: Instant, stats: &mut LinkStats) -> Option<Fate<P>> {
        let oldest = self.flying.front()?;
        if !oldest.lost && oldest.arrives > now {
            return None;
        }
        let Flying { packet, size, departed, arrives, lost } = self.flying.pop_front()?;
        if lost {
            stats.count_drop(DropReason::Loss);
            return Some(Fate::Dropped { at: departed, packet, why: DropReason::Loss });
        }
        stats.count_delivery(size);
        Some(Fate::Delivered { at: arrives, packet })
    }

    /// Discards what is on the way, apart from what arrived or was lost by `now`.
    pub(crate) fn cut(&mut self, now: Instant, stats: &mut LinkStats) {
        while let Some(fate) = self.arrived(now, stats) {
            self.sealed.push_back(fate);
        }
        while let Some(Flying { packet, departed, lost, .. }) = self.flying.pop_front() {
            let (at, why) =
                if lost { (departed, DropReason::Loss) } else { (now, DropReason::Down) };
            self.seal(at, packet, why, stats);
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
        self.flying.front().map_or(Instant::FAR_FUTURE, |oldest| oldest.arrives)
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
