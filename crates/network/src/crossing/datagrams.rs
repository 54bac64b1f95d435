//! Background datagrams: packets of one size, sent at a constant rate, at random or in bursts, and never retransmitted.

use anabranch_plan::{CrossKind, CrossPlan};
use anabranch_units::{Duration, Instant, RandomStream};

/// The times at which datagrams are sent.
#[derive(Debug)]
enum Rhythm {
    /// A constant rate: bits of a datagram, bits per second, and the number of datagrams sent.
    Constant { bits: u64, bps: u64, sent: u64 },
    /// A Poisson process with this mean gap in seconds.
    Poisson { gap: f64, random: RandomStream },
    /// Bursts at a constant rate, with silences between them. Both lengths are exponential.
    OnOff(OnOff),
}

/// A source that alternates between bursts and silences. If a burst ends within a gap between two datagrams, the rest of
/// the gap passes at the beginning of the next burst.
#[derive(Debug)]
struct OnOff {
    /// Seconds from one datagram to the next within a burst.
    gap: f64,
    /// Mean lengths of bursts and silences, seconds.
    on: f64,
    off: f64,
    /// The rest of this burst, seconds.
    left: f64,
    random: RandomStream,
}

impl OnOff {
    /// Seconds until the next datagram.
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
        // The plan is refused earlier if one of them is missing.
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

    /// The time of the datagram after that of `now`. The source began at `start`.
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

/// A draw from the exponential distribution.
pub(super) fn exponential(random: &mut RandomStream, mean: f64) -> f64 {
    -mean * (1.0 - random.uniform()).ln()
}

/// A source of datagrams, and the counts of those sent, delivered and lost.
#[derive(Debug)]
pub struct Source {
    rhythm: Rhythm,
    size: u64,
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams that crossed all their links.
    pub delivered: u64,
    /// Datagrams dropped on the way.
    pub lost: u64,
    /// The sum of the delays of delivered datagrams.
    delays: Duration,
}

impl Source {
    /// The source of a flow of a group. No other source draws from `random`.
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

    /// Bytes of a datagram, headers included.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Sends a datagram at `now`, of a flow that began at `start`. Returns the time of the next one.
    pub fn send(&mut self, start: Instant, now: Instant) -> Instant {
        self.sent += 1;
        self.rhythm.next(start, now)
    }

    /// Counts a datagram that crossed all its links, by the time at which it was sent.
    pub fn arrive(&mut self, now: Instant, sent: Instant) {
        self.delivered += 1;
        self.delays += now.since(sent);
    }

    /// Bytes that arrived, headers included.
    pub fn bytes(&self) -> u64 {
        self.delivered * self.size
    }

    /// The mean delay of a datagram, milliseconds; NaN if none was delivered.
    pub fn delay_ms(&self) -> f64 {
        self.delays.as_secs_f64() * 1e3 / self.delivered as f64
    }
}
