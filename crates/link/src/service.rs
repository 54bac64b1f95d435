//! The service of a modelled link's queue: how fast packets leave it, and which ones are lost.

use anabranch_units::{ByteCount, Duration, Instant, RandomStream, Rate};

use crate::fixed::remaining_time;

/// The result of serving a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Served {
    /// The time at which its last bit leaves the queue; far future if the service is stalled.
    pub(crate) departs: Instant,
    /// The packet's delay beyond the configured one.
    pub(crate) extra: Duration,
    /// The model loses the packet after its transmission.
    pub(crate) lost: bool,
}

impl Served {
    pub(crate) const STALLED: Self =
        Self { departs: Instant::FAR_FUTURE, extra: Duration::ZERO, lost: false };
}

/// A server of packets, one at a time. Its conditions change over time and do not depend on the traffic.
pub(crate) trait Service {
    /// Serves a packet from `from` on, the time at which it has arrived and the previous packet has left. `from`
    /// never goes back. The service is never faster than `cap`. A cap of zero stalls it, and leaves its state
    /// unchanged.
    fn serve(&mut self, from: Instant, size: ByteCount, cap: Rate) -> Served;

    /// Changes the cap while a packet is served. Returns the packet's new departure, if it changes.
    fn recap(&mut self, _now: Instant, _cap: Rate) -> Option<Instant> {
        None
    }

    /// Discards the packet in service, which would leave at `departs`. Returns the time at which the next packet can
    /// be served. A model does not serve the capacity that this packet used again.
    fn abandon(&mut self, _now: Instant, departs: Instant) -> Instant {
        departs
    }
}

/// Serves at the cap: the service of a link with a set rate.
#[derive(Debug, Default)]
pub(crate) struct AtCap {
    rate: Rate,
    since: Instant,
    /// The rest of the packet in service at `since`, in billionths of a bit (bits per second times nanoseconds).
    left: u128,
}

impl Service for AtCap {
    fn serve(&mut self, from: Instant, size: ByteCount, cap: Rate) -> Served {
        let left = u128::from(size.0) * 8_000_000_000;
        *self = Self { rate: cap, since: from, left };
        Served { departs: from + cap.transmit_time(size), ..Served::STALLED }
    }

    /// The packet in service keeps its served bits.
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

/// Conditions that are constant until a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Conditions {
    /// The time at which the next conditions begin.
    pub(crate) until: Instant,
    /// The rate of the service.
    pub(crate) rate: Rate,
    /// The delay of a packet that departs now, beyond the configured one.
    pub(crate) delay: Duration,
    /// The probability that a packet that departs now is lost.
    pub(crate) loss: f64,
}

/// The sequence of a link's conditions. It has no end and no gaps.
pub(crate) trait Course {
    /// Returns the next conditions. Their `until` is later than that of the previous ones.
    fn next(&mut self) -> Conditions;
}

/// Serves bit by bit at the rate of a course.
pub(crate) struct Stepwise<C> {
    course: C,
    now: Conditions,
    luck: RandomStream,
}

impl<C: Course> Stepwise<C> {
    /// Creates the service. `luck` decides the losses with one draw per packet.
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
        // The rest in billionths of a bit, which is bits per second times nanoseconds.
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
