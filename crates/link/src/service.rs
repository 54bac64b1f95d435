//! How fast a modelled link serves its queue: the part in which the models differ.

use anabranch_units::{ByteCount, Duration, Instant, RandomStream, Rate};

use crate::fixed::remaining_time;

/// What becomes of the packet that is served next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Served {
    /// When its last bit leaves the queue; far future when it is stalled.
    pub(crate) departs: Instant,
    /// What its way takes beyond the configured delay.
    pub(crate) extra: Duration,
    /// The model loses it, having sent it.
    pub(crate) lost: bool,
}

impl Served {
    pub(crate) const STALLED: Self =
        Self { departs: Instant::FAR_FUTURE, extra: Duration::ZERO, lost: false };
}

/// A server of packets, one after the other. Its conditions change with time, whatever the traffic.
pub(crate) trait Service {
    /// Serves the next packet, which is there at `from`: not before the one before it has left.
    /// `from` never goes back. Never faster than `cap`; a cap of zero stalls it and takes nothing.
    fn serve(&mut self, from: Instant, size: ByteCount, cap: Rate) -> Served;

    /// The cap is another while a packet is served: when it leaves now, if that changes anything for it.
    fn recap(&mut self, _now: Instant, _cap: Rate) -> Option<Instant> {
        None
    }

    /// The packet in service is discarded, though it would leave at `departs`: when the next one may be
    /// served. What it has taken of a model's course stays taken.
    fn abandon(&mut self, _now: Instant, departs: Instant) -> Instant {
        departs
    }
}

/// Serves at the cap: a link of a set rate.
#[derive(Debug, Default)]
pub(crate) struct AtCap {
    rate: Rate,
    since: Instant,
    /// What was left of the packet in service then, in billionths of a bit: bits a second times
    /// nanoseconds.
    left: u128,
}

impl Service for AtCap {
    fn serve(&mut self, from: Instant, size: ByteCount, cap: Rate) -> Served {
        let left = u128::from(size.0) * 8_000_000_000;
        *self = Self { rate: cap, since: from, left };
        Served { departs: from + cap.transmit_time(size), ..Served::STALLED }
    }

    /// The packet keeps the bits that it was served.
    fn recap(&mut self, now: Instant, cap: Rate) -> Option<Instant> {
        let served = u128::from(now.since(self.since).as_nanos()) * u128::from(self.rate.bps());
        let left = self.left.saturating_sub(served);
        *self = Self { rate: cap, since: now, left };
        Some(now + remaining_time(left, cap))
    }

    fn abandon(&mut self, now: Instant, _departs: Instant) -> Instant {
        now
    }
}

/// Conditions that hold up to an instant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Conditions {
    /// When the next ones begin.
    pub(crate) until: Instant,
    /// How fast packets are served.
    pub(crate) rate: Rate,
    /// What the way of a packet takes that departs now, beyond the configured delay.
    pub(crate) delay: Duration,
    /// The chance of a packet that departs now to be lost.
    pub(crate) loss: f64,
}

/// A link's conditions one after the other, without end and without gaps.
pub(crate) trait Course {
    /// The next ones; their `until` lies behind the last ones'.
    fn next(&mut self) -> Conditions;
}

/// Serves bit by bit at the rate of a course.
pub(crate) struct Stepwise<C> {
    course: C,
    now: Conditions,
    luck: RandomStream,
}

impl<C: Course> Stepwise<C> {
    /// `luck` decides the losses: one draw a packet.
    pub(crate) fn new(mut course: C, luck: RandomStream) -> Self {
        let now = course.next();
        Self { course, now, luck }
    }
}

impl<C: Course> Service for Stepwise<C> {
    fn serve(&mut self, from: Instant, size: ByteCount, cap: Rate) -> Served {
        if cap == Rate::ZERO {
            return Served::STALLED;
        }
        while self.now.until <= from {
            self.now = self.course.next();
        }
        let mut at = from;
        // In billionths of a bit: bits a second times nanoseconds.
        let mut left = u128::from(size.0) * 8_000_000_000;
        let departs = loop {
            let bps = self.now.rate.min(cap).bps();
            if bps == u64::MAX {
                break at;
            }
            if bps > 0 {
                let needed = (left + u128::from(bps / 2)) / u128::from(bps);
                let done = at + Duration::from_nanos(u64::try_from(needed).unwrap_or(u64::MAX));
                if done <= self.now.until {
                    break done;
                }
            }
            if self.now.until == Instant::FAR_FUTURE {
                break Instant::FAR_FUTURE;
            }
            let span = self.now.until.since(at).as_nanos();
            left = left.saturating_sub(u128::from(span) * u128::from(bps));
            at = self.now.until;
            self.now = self.course.next();
        };
        let lost = self.luck.chance(self.now.loss);
        Served { departs, extra: self.now.delay, lost }
    }
}
