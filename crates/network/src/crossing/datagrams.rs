//! Background datagrams: packets of one size, sent at a constant rate, at random or in bursts, and never retransmitted.

use anabranch_plan::{CrossKind, CrossPlan};
use anabranch_units::{Duration, Instant, RandomStream};

/// The times at which datagrams are sent.
#[derive(Debug)]
enum Rhythm {
    /// A constant rate: bits per datagram, bits per second, and the number of datagrams sent.
    Constant { bits: u64, bps: u64, sent: u64 },
    /// A Poisson process with this mean gap, seconds.
    Poisson { gap: f64, random: RandomStream },
    /// Bursts at a constant rate, with silences between them. Both have exponentially distributed lengths.
    OnOff(OnOff),
}

/// A source that alternates between bursts and silences. If a burst ends between two datagrams, the rest of
/// the gap passes at the start of the next burst.
#[derive(Debug)]
struct OnOff {
    /// The time from one datagram to the next within a burst, seconds.
    gap: f64,
    /// The mean lengths of bursts and silences, seconds.
    on: f64,
    off: f64,
    /// The rest of the present burst, seconds.
    left: f64,
    random: RandomStream,
}

impl OnOff {
    /// Returns the seconds until the next datagram.
    fn next_gap(&mut self) -> f64 {
        let (mut wait, mut gap) = (0.0, self.gap);
        while gap > self.left {
            gap -= self.left;
            wait += self.left + exponential(&mut self.random, self.off);
            self.left = exponential(&mut self.random, self.on);
        }
        self.left -= gap;
        wait + gap
    }
}

impl Rhythm {
    fn new(plan: &CrossPlan, mut random: RandomStream) -> Self {
        // The defaults are never used, because the plan's check requires these values.
        let bits = u64::from(plan.size.unwrap_or(1)) * 8;
        let bps = plan.rate_bps.unwrap_or(1).max(1);
        let gap = bits as f64 / bps as f64;
        let seconds = |nanos: Option<u64>| nanos.unwrap_or(0) as f64 * 1e-9;
        match plan.kind {
            CrossKind::Poisson => Self::Poisson { gap, random },
            CrossKind::OnOff => {
                let (on, off) = (seconds(plan.on_ns), seconds(plan.off_ns));
                let left = exponential(&mut random, on);
                Self::OnOff(OnOff { gap, on, off, left, random })
            }
            _ => Self::Constant { bits, bps, sent: 0 },
        }
    }

    /// Returns the time of the datagram after the one at `now`. The source started at `start`.
    fn next(&mut self, start: Instant, now: Instant) -> Instant {
        match self {
            Self::Constant { bits, bps, sent } => {
                *sent += 1;
                let nanos =
                    u128::from(*sent) * u128::from(*bits) * 1_000_000_000 / u128::from(*bps);
                start + Duration::from_nanos(nanos as u64)
            }
            Self::Poisson { gap, random } => {
                now + Duration::from_secs_f64(exponential(random, *gap))
            }
            Self::OnOff(source) => now + Duration::from_secs_f64(source.next_gap()),
        }
    }
}

/// Draws from the exponential distribution with this mean.
pub(super) fn exponential(random: &mut RandomStream, mean: f64) -> f64 {
    -mean * (1.0 - random.uniform()).ln()
}

/// A source of datagrams, and the counts of sent, delivered and lost datagrams.
#[derive(Debug)]
pub struct Source {
    rhythm: Rhythm,
    size: u64,
    /// The number of datagrams sent.
    pub sent: u64,
    /// The number of datagrams that passed all their links.
    pub delivered: u64,
    /// The number of datagrams that were dropped.
    pub lost: u64,
    /// The sum of the delays of delivered datagrams.
    delays: Duration,
}

impl Source {
    /// Creates the source of a flow of a group. No other source draws from `random`.
    pub fn new(plan: &CrossPlan, random: RandomStream) -> Self {
        Self {
            rhythm: Rhythm::new(plan, random),
            size: u64::from(plan.size.unwrap_or(0)),
            sent: 0,
            delivered: 0,
            lost: 0,
            delays: Duration::ZERO,
        }
    }

    /// Returns the size of a datagram in bytes, headers included.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Sends a datagram at `now`, of a flow that started at `start`. Returns the time of the next datagram.
    pub fn send(&mut self, start: Instant, now: Instant) -> Instant {
        self.sent += 1;
        self.rhythm.next(start, now)
    }

    /// Counts a datagram that passed all its links. It was sent at `sent`.
    pub fn arrive(&mut self, now: Instant, sent: Instant) {
        self.delivered += 1;
        self.delays += now.since(sent);
    }

    /// Returns the bytes that were delivered, headers included.
    pub fn bytes(&self) -> u64 {
        self.delivered * self.size
    }

    /// Returns the mean delay of a datagram, milliseconds; NaN if none was delivered.
    pub fn delay_ms(&self) -> f64 {
        self.delays.as_secs_f64() * 1e3 / self.delivered as f64
    }
}
