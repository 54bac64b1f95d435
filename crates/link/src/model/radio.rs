//! The radio of a cellular link: transport blocks, repaired by HARQ and RLC, delivered in order. [`lte`](super::lte) and
//! [`nr`](super::nr) have the times, the rates and their sources.

use anabranch_units::{ByteCount, Duration, Instant, RandomStream, Rate, Seed};

use super::scale;
use crate::quantiles::{Quantiles, Wander};
use crate::service::{Served, Service};
use crate::{ConfigError, Direction};

/// The most transmissions of a block before HARQ gives up.
const HARQ_TRIES: u32 = 4;
/// The interval at which the rate is drawn from the profile, the number of parts of an interval, and the largest
/// relative deviation of a part from the drawn rate. The deviation is uniform. With these values, rates in windows of
/// 100 ms have an autocorrelation of 0.83 at 100 ms (T-Mobile, driving).
const STEP: Duration = Duration::from_secs(1);
const TENTHS: u32 = 10;
const UNEVEN: f64 = 0.45;
/// The lowest rate, in the deepest fade, bit/s.
const LEAST_BPS: f64 = 16_000.0;

/// The times of a cellular radio.
#[derive(Debug)]
pub(super) struct Timing {
    /// The length of a transport block.
    pub(super) block: Duration,
    /// The time from a failed transmission of a block to the next one.
    pub(super) harq_round_trip: Duration,
    /// The time from HARQ's last attempt to the retransmission by RLC.
    pub(super) rlc_repair: Duration,
    /// The range of a device's wait for a grant when it begins to send. The wait is drawn uniformly.
    pub(super) grant: (Duration, Duration),
}

impl Timing {
    /// Returns the number of transport blocks in a second.
    const fn blocks(&self) -> u64 {
        Duration::from_secs(1).as_nanos() / self.block.as_nanos()
    }
}

/// The settings of a radio.
pub(super) struct Settings {
    /// The radio's times.
    pub(super) timing: &'static Timing,
    /// The quantiles of the rate in Mb/s, over windows of a second.
    pub(super) rates: Quantiles,
    /// The correlation time of the rate.
    pub(super) correlation: Duration,
    /// The direction of the link.
    pub(super) direction: Direction,
    /// The wanted mean rate, bit/s; `None` for that of the quantiles.
    pub(super) mean_bps: Option<u64>,
    /// The fraction of transmissions that fail.
    pub(super) bler: f64,
    /// The times without transmission, if the device changes its cell.
    pub(super) handovers: Option<Handovers>,
}

/// Checks the settings that a scenario may give for any cellular radio.
pub(super) fn check(bler: f64, mean_bps: Option<u64>) -> Result<(), ConfigError> {
    if !(0.0..1.0).contains(&bler) {
        return Err(ConfigError::Probability { parameter: "bler", value: bler });
    }
    if mean_bps == Some(0) { Err(ConfigError::Mean) } else { Ok(()) }
}

/// The state of the radio.
pub(crate) struct Radio {
    timing: &'static Timing,
    /// The times without transmission, if the device changes its cell.
    handovers: Option<Handovers>,
    rates: Quantiles,
    wander: Wander,
    /// The factor that converts the profile's Mb/s to bit/s and scales to the wanted mean.
    scale: f64,
    /// The rate drawn for this second, and the rate of this tenth of the second, bit/s.
    second_bps: f64,
    bps: u64,
    tenths: u32,
    rate_until: Instant,
    unevenness: RandomStream,
    luck: RandomStream,
    /// A transmission fails if a 64-bit draw is below this number.
    fails_below: u64,
    up: bool,
    /// The end of the transport block that is being filled, if there is one, and the bits left in it.
    block_ends: Option<Instant>,
    left: u64,
    /// The time at which RLC has delivered everything up to that block. RLC delivers in order.
    in_order: Instant,
}

impl Radio {
    /// Creates the radio of a link with this name.
    pub(super) fn new(settings: Settings, name: &str, seed: Seed) -> Self {
        let Settings { timing, rates, correlation, direction, mean_bps, bler, handovers } =
            settings;
        let stream = seed.stream(&format!("link.{name}.rate"));
        Self {
            timing,
            handovers,
            rates,
            wander: Wander::new(stream, STEP, correlation),
            scale: 1e6 * scale(mean_bps, rates.mean() * 1e6),
            second_bps: 0.0,
            bps: 0,
            tenths: 0,
            unevenness: seed.stream(&format!("link.{name}.unevenness")),
            rate_until: Instant::ZERO,
            luck: seed.stream(&format!("link.{name}.model")),
            fails_below: (bler * 2f64.powi(64)) as u64,
            up: direction == Direction::Up,
            block_ends: None,
            left: 0,
            in_order: Instant::ZERO,
        }
    }

    /// Begins a transport block at `start`, a multiple of a block's length, or after a handover. Returns its end.
    fn begin(&mut self, start: Instant, cap: Rate) -> Instant {
        let start = self.handovers.as_mut().map_or(start, |handovers| handovers.skip(start));
        while self.rate_until <= start {
            if self.tenths == 0 {
                self.second_bps = self.rates.at(self.wander.step()) * self.scale;
            }
            let share = 1.0 + UNEVEN * (2.0 * self.unevenness.uniform() - 1.0);
            self.bps = (self.second_bps * share).max(LEAST_BPS) as u64;
            self.tenths = (self.tenths + 1) % TENTHS;
            self.rate_until += STEP / u64::from(TENTHS);
        }
        let end = start + self.timing.block;
        self.left = (self.bps.min(cap.bps()) / self.timing.blocks()).max(1);
        self.in_order = self.in_order.max(end + self.repair());
        end
    }

    /// Draws the wait of a device that begins to send.
    fn grant(&mut self) -> Duration {
        let (least, most) = self.timing.grant;
        least + Duration::from_nanos(self.luck.below((most - least).as_nanos()))
    }

    /// Draws the time to repair a block, which is zero for most blocks.
    fn repair(&mut self) -> Duration {
        let mut took = Duration::ZERO;
        let mut failed = 0;
        while self.luck.next_u64() < self.fails_below {
            failed += 1;
            let Timing { harq_round_trip, rlc_repair, .. } = *self.timing;
            took += if failed % HARQ_TRIES == 0 { rlc_repair } else { harq_round_trip };
        }
        took
    }
}

impl Service for Radio {
    fn serve(&mut self, from: Instant, size: ByteCount, cap: Rate) -> Served {
        if cap == Rate::ZERO {
            return Served::STALLED;
        }
        let mut departs = match self.block_ends {
            Some(end) if from <= end => end,
            // The current block has ended. The packet goes into the first block that begins after the packet has
            // arrived and has a grant.
            _ => {
                let ready = if self.up { from + self.grant() } else { from };
                let block = self.timing.block;
                let number = ready.as_nanos().div_ceil(block.as_nanos());
                self.begin(Instant::ZERO + block * number, cap)
            }
        };
        let mut needed = size.0 * 8;
        while needed > self.left {
            needed -= self.left;
            departs = self.begin(departs, cap);
        }
        self.left -= needed;
        self.block_ends = Some(departs);
        Served { departs, extra: self.in_order.since(departs), lost: false }
    }
}

/// The handovers of a device. The times between them are exponential, in whole milliseconds.
pub(super) struct Handovers {
    stream: RandomStream,
    every: Duration,
    length: Duration,
    /// The beginning and the end of the next handover.
    next: (Instant, Instant),
}

impl Handovers {
    pub(super) fn new(every: Duration, length: Duration, stream: RandomStream) -> Self {
        let mut new = Self { stream, every, length, next: (Instant::ZERO, Instant::ZERO) };
        new.draw();
        new
    }

    fn draw(&mut self) {
        let wait_ms = -self.every.as_secs_f64() * 1e3 * (1.0 - self.stream.uniform()).ln();
        let begin = self.next.1 + Duration::from_millis(wait_ms.ceil() as u64);
        self.next = (begin, begin + self.length);
    }

    /// Returns the first time from `at` on at which no handover is under way. Times must not go back.
    fn skip(&mut self, at: Instant) -> Instant {
        while at >= self.next.1 {
            self.draw();
        }
        if at >= self.next.0 { self.next.1 } else { at }
    }
}
