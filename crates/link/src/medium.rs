//! Media, which carry several one-way lanes.

use anabranch_units::{ByteCount, Instant};

use crate::{Change, Fate, Label, Link, LinkStats, Queued};

/// Several one-way lanes. Each lane acts as a link, but its packets may delay those of other lanes. A half-duplex
/// radio has one lane for each direction of each station.
///
/// The rules of [`Link`] apply, with one exception: if there is more than one lane, [`Self::enqueue`] may make
/// [`Self::poll_timeout`] earlier.
pub trait Medium<P> {
    /// Returns the number of lanes. They are numbered from 0.
    fn lanes(&self) -> usize;

    /// Takes a packet of `size` bytes (headers included) at the entry of a lane.
    fn enqueue(&mut self, now: Instant, lane: usize, packet: P, size: ByteCount);

    /// Takes a packet like [`Self::enqueue`], with its flow and its ECN capability, which some queues use.
    fn enter(&mut self, now: Instant, lane: usize, packet: P, label: Label);

    /// Changes a lane.
    fn set(&mut self, now: Instant, lane: usize, change: Change);

    /// Returns the next packet whose fate is known at `now`, and its lane. Call it until it returns `None`.
    fn poll_fate(&mut self, now: Instant) -> Option<(usize, Fate<P>)>;

    /// Returns the next wake-up if there is nothing to report at `now`, like [`Link::quiet_until`].
    fn quiet_until(&self, _now: Instant) -> Option<Instant> {
        None
    }

    /// Returns the time of the next poll.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Returns a lane's totals since the beginning.
    fn stats(&self, lane: usize) -> &LinkStats;

    /// Returns the packets and bytes in a lane's queue at `now`, including those on the air.
    fn queued(&self, now: Instant, lane: usize) -> Queued;

    /// Returns the number of packets inside a lane; see [`Link::in_transit`].
    fn in_transit(&self, lane: usize) -> u64;

    /// Returns a lane's name, unique within a scenario.
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
