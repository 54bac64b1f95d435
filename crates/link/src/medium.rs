//! Media: what carries several one-way lanes at once.

use anabranch_units::{ByteCount, Instant};

use crate::{Change, Fate, Label, Link, LinkStats, Queued};

/// Several one-way lanes, each of them a link in all but this: what one carries may hold up the
/// others. A half-duplex radio has one lane for each direction of each station.
///
/// The rules are those of [`Link`], with one exception: [`Self::enqueue`] may make
/// [`Self::poll_timeout`] earlier when there is more than one lane.
pub trait Medium<P> {
    /// How many lanes there are; they are numbered from 0.
    fn lanes(&self) -> usize;

    /// A packet of `size` bytes (headers included) arrives at the entry of a lane.
    fn enqueue(&mut self, now: Instant, lane: usize, packet: P, size: ByteCount);

    /// The same of a packet of which more is told than its size, for queues that ask for it.
    fn enter(&mut self, now: Instant, lane: usize, packet: P, label: Label);

    /// A lane changes.
    fn set(&mut self, now: Instant, lane: usize, change: Change);

    /// The next packet whose fate is sealed at `now`, and its lane; poll until `None`.
    fn poll_fate(&mut self, now: Instant) -> Option<(usize, Fate<P>)>;

    /// As [`Link::quiet_until`].
    fn quiet_until(&self, _now: Instant) -> Option<Instant> {
        None
    }

    /// When to poll next.
    fn poll_timeout(&self) -> Option<Instant>;

    /// A lane's totals since the beginning.
    fn stats(&self, lane: usize) -> &LinkStats;

    /// What waits in a lane's queue at `now`, what is on the air included.
    fn queued(&self, now: Instant, lane: usize) -> Queued;

    /// Packets inside a lane; see [`Link::in_transit`].
    fn in_transit(&self, lane: usize) -> u64;

    /// A lane's name, unique within a scenario.
    fn name(&self, lane: usize) -> &str;
}

/// A link as a medium of one lane.
#[derive(Clone, Debug)]
pub struct Single<L>(pub L);

impl<P, L: Link<P>> Medium<P> for Single<L> {
    fn lanes(&self) -> usize {
        1
    }

    fn enqueue(&mut self, now: Instant, _lane: usize, packet: P, size: ByteCount) {
        self.0.enqueue(now, packet, size);
    }

    fn enter(&mut self, now: Instant, _lane: usize, packet: P, label: Label) {
        self.0.enter(now, packet, label);
    }

    fn set(&mut self, now: Instant, _lane: usize, change: Change) {
        self.0.set(now, change);
    }

    fn poll_fate(&mut self, now: Instant) -> Option<(usize, Fate<P>)> {
        self.0.poll_fate(now).map(|fate| (0, fate))
    }

    fn quiet_until(&self, now: Instant) -> Option<Instant> {
        self.0.quiet_until(now)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.0.poll_timeout()
    }

    fn stats(&self, _lane: usize) -> &LinkStats {
        self.0.stats()
    }

    fn queued(&self, now: Instant, _lane: usize) -> Queued {
        self.0.queued(now)
    }

    fn in_transit(&self, _lane: usize) -> u64 {
        self.0.in_transit()
    }

    fn name(&self, _lane: usize) -> &str {
        self.0.name()
    }
}
