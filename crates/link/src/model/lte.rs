//! A cellular radio: a transport block every millisecond, repaired by HARQ and RLC, delivered in order.
//!
//! The rate is fitted to quantiles and autocorrelations of measured rates; [`LteProfile`] has the numbers. They were
//! computed over windows of one second. The sources are Mahimahi's recordings (github.com/ravinet/mahimahi) and the
//! Ghent 4G/LTE data set (van der Hooft et al., IEEE Communications Letters 20(11), 2016). The timing is 3GPP's. There
//! is one transport block per millisecond (TS 36.211). A HARQ round trip takes 8 ms, with at most three retransmissions
//! (TS 36.321, FDD). The target is that a tenth of first transmissions fail. RLC in acknowledged mode retransmits
//! blocks that HARQ gives up (TS 36.322).

use anabranch_plugin::Unit;
use anabranch_units::{ByteCount, Duration, Instant, RandomStream, Rate, Seed};
use serde::Deserialize;

use super::kind::{Form, ModelKind, ModelParameter, Usual};
use super::nr::Handovers;
use super::scale;
use crate::quantiles::{P5, P25, P50, P75, P95, Quantiles, Wander};
use crate::service::{Served, Service};
use crate::{ConfigError, Direction};

/// The times of a cellular radio.
#[derive(Debug)]
pub(super) struct Timing {
    /// The length of a transport block.
    pub(super) block: Duration,
    /// The number of transport blocks in a second.
    pub(super) blocks: u64,
    /// The time from a failed transmission of a block to the next one.
    pub(super) harq_round_trip: Duration,
    /// The time from HARQ's last attempt to the retransmission by RLC.
    pub(super) rlc_repair: Duration,
    /// The range of a device's wait for a grant when it begins to send. The wait is drawn uniformly.
    pub(super) grant: (Duration, Duration),
}

/// The times of LTE. RLC's repair takes the reordering timer of 35 ms, and some milliseconds for the status report
/// (assumed). The wait for a grant consists of the scheduling request's period and its processing.
const TIMING: Timing = Timing {
    block: Duration::from_millis(1),
    blocks: 1000,
    harq_round_trip: Duration::from_millis(8),
    rlc_repair: Duration::from_millis(40),
    grant: (Duration::from_millis(10), Duration::from_millis(20)),
};
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

pub(super) const KIND: ModelKind = ModelKind {
    name: "lte",
    called: "LTE",
    delays: false,
    short: &[],
    parameters: &[
        ModelParameter::WAY,
        ModelParameter {
            key: "profile",
            plan: "profile",
            form: Form::Word(&["tmobile-driving", "att-driving", "verizon-short", "ghent"]),
            meaning: "where the rate was measured",
        },
        ModelParameter::mean("mean rate; default: the profile's own"),
        ModelParameter {
            key: "bler",
            plan: "bler",
            form: Form::below(Unit::Share, Usual::Is(0.1), 1.0),
            meaning: "share of transmissions that fail",
        },
    ],
};

/// The settings of a cellular link.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LteModel {
    /// The direction of the link.
    pub direction: Direction,
    /// The profile of the rate over time.
    pub profile: LteProfile,
    /// The wanted mean rate, bit/s; `None` for the profile's own.
    #[serde(default)]
    pub mean_bps: Option<u64>,
    /// The fraction of transmissions that fail, from 0 to below 1. Schedulers aim at 0.1.
    pub bler: f64,
}

/// The measurement that a cellular link follows. Rates are in Mb/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LteProfile {
    /// AT&T LTE, driving (Mahimahi): mean 5.17, median 5.41; correlation time about 15 s.
    AttDriving,
    /// Ghent 4G/LTE, from walking to trains: mean 30.2, median 28.8; the correlation time of 7 s is assumed.
    Ghent,
    /// T-Mobile LTE, driving (Mahimahi): mean 12.77, median 9.97; correlation time about 7 s.
    TmobileDriving,
    /// Verizon LTE, the short recording (Mahimahi): mean 5.03, median 4.30; correlation time about 5.5 s.
    VerizonShort,
}

impl LteProfile {
    /// Returns the quantiles of the rate in Mb/s, and its correlation time.
    pub fn rates(self) -> (Quantiles, Duration) {
        const ATT: Quantiles =
            Quantiles(&[(P5, 0.69), (P25, 2.68), (P50, 5.41), (P75, 7.34), (P95, 9.53)]);
        const GHENT: Quantiles = Quantiles(&[(P5, 5.0), (P50, 28.8), (P95, 58.8)]);
        const TMOBILE: Quantiles =
            Quantiles(&[(P5, 2.90), (P25, 5.10), (P50, 9.97), (P75, 17.83), (P95, 30.51)]);
        const VERIZON: Quantiles =
            Quantiles(&[(P5, 1.07), (P25, 2.60), (P50, 4.30), (P75, 6.69), (P95, 10.83)]);
        match self {
            Self::AttDriving => (ATT, Duration::from_secs(15)),
            Self::Ghent => (GHENT, Duration::from_secs(7)),
            Self::TmobileDriving => (TMOBILE, Duration::from_secs(7)),
            Self::VerizonShort => (VERIZON, Duration::from_millis(5500)),
        }
    }
}

impl LteModel {
    /// Creates a link that follows a profile. A tenth of the transmissions fail.
    pub fn new(direction: Direction, profile: LteProfile) -> Self {
        Self { direction, profile, mean_bps: None, bler: 0.1 }
    }

    /// Returns a low estimate of TCP's throughput, bit/s: half of the mean rate.
    pub fn likely_bps(&self) -> f64 {
        let half = match self.profile {
            LteProfile::TmobileDriving => 6e6,
            LteProfile::AttDriving | LteProfile::VerizonShort => 2.5e6,
            LteProfile::Ghent => 15e6,
        };
        self.mean_bps.map_or(half, |mean| mean as f64 / 2.0)
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if !(0.0..1.0).contains(&self.bler) {
            return Err(ConfigError::Probability { parameter: "bler", value: self.bler });
        }
        if self.mean_bps == Some(0) { Err(ConfigError::Mean) } else { Ok(()) }
    }
}

/// The state of the radio.
pub(crate) struct Lte {
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

impl Lte {
    pub(crate) fn new(model: &LteModel, name: &str, seed: Seed) -> Self {
        let LteModel { direction, profile, mean_bps, bler } = *model;
        Self::with(&TIMING, profile.rates(), (direction, mean_bps, bler), name, seed)
    }

    /// Creates a radio with these times. `rates` has the quantiles of the rate in Mb/s, and the correlation time.
    pub(super) fn with(
        timing: &'static Timing,
        (rates, tau): (Quantiles, Duration),
        (direction, mean_bps, bler): (Direction, Option<u64>, f64),
        name: &str,
        seed: Seed,
    ) -> Self {
        let stream = seed.stream(&format!("link.{name}.rate"));
        Self {
            timing,
            handovers: None,
            rates,
            wander: Wander::new(stream, STEP, tau),
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

    /// Adds handovers, in which the radio sends nothing.
    pub(super) fn with_handovers(mut self, handovers: Option<Handovers>) -> Self {
        self.handovers = handovers;
        self
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
        self.left = (self.bps.min(cap.bps()) / self.timing.blocks).max(1);
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

impl Service for Lte {
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
