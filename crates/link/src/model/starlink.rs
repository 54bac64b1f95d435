//! A Starlink link. It changes its satellite every 15 s, at the beginning of an epoch.
//!
//! The model is fitted to these sources:
//!
//! - The network is reconfigured at seconds 12, 27, 42 and 57 of each minute (Mohan et al., "A Multifaceted Look at
//!   Starlink Performance", WWW 2024, arXiv:2310.09242).
//! - RTT: the medians of two successive epochs differ by 17.7 ms on average, with a median of 12 ms and a maximum of
//!   61 ms. Within an epoch, the quantiles (1, 5, 25, 50, 75, 95, 99 %) are -8, -6, -3, 0, 4, 15 and 33 ms from the
//!   median. The correlation time is about 100 ms. (All computed from the ping of `LEONetEM`,
//!   github.com/clarkzjw/LEONetEM.) The mean difference is 1.48 times the median difference. This fits an exponential
//!   distribution but not a normal one. The minimum RTT of 22 ms is that of a bent pipe.
//! - Handover: the RTT rises by 30 to 50 ms, and 1 to 2 % of packets are lost at any load (Huston, "A transport
//!   protocol's view of Starlink", APNIC 2024). For short times up to half of them are lost (Kassem et al., IMC 2022).
//!   The rate is halved (emulator of clarkzjw/mmsys24-starlink-livestreaming).
//! - Rate: the quantiles are in [`StarlinkProfile`]. 26 % of its variance lies within epochs.
//!
//! Assumptions: each epoch begins with a dip of 0.1 to 0.5 s, in which the RTT is higher and the rate lower. In 30 %
//! of the dips, no packet passes for 40 to 160 ms. A burst of losses lasts one tick of 20 ms.

use anabranch_plugin::Unit;
use anabranch_units::{Duration, Instant, RandomStream, Rate, Seed};
use serde::Deserialize;

use super::kind::{Form, ModelKind, ModelParameter, Usual, maybe_nanoseconds};
use super::scale;
use crate::quantiles::{P1, P5, P25, P50, P75, P95, P99, Quantiles, Wander};
use crate::service::{Conditions, Course};
use crate::{ConfigError, Direction};

/// The time between two reconfigurations.
pub const EPOCH: Duration = Duration::from_secs(15);
/// The interval at which the conditions change, and the number of such ticks in an epoch.
const TICK: Duration = Duration::from_millis(20);
const TICKS: u64 = 750;
/// The number of ticks between two draws of the rate: one second.
const RATE_TICKS: u64 = 50;
/// The standard deviations of the rate's two components, as fractions of the total: one per epoch, and one per
/// second.
const EPOCH_SHARE: f64 = 0.86;
const SECOND_SHARE: f64 = 0.51;
const RTT_FLOOR_MS: f64 = 22.0;
const RTT_SPREAD_MS: f64 = 17.6;
const RTT_MOST_MS: f64 = 65.0;
/// The correlated part of the RTT's variation within an epoch, ms. Each direction also adds a part that is drawn for
/// every tick, uniformly up to `TICK_JITTER_MS`. Together they have the measured quantiles, autocorrelation and steps.
const JITTER: Quantiles = Quantiles(&[
    (P1, 0.0),
    (P5, 0.3),
    (P25, 1.0),
    (P50, 2.5),
    (P75, 6.0),
    (P95, 16.0),
    (P99, 34.0),
]);
const TICK_JITTER_MS: f64 = 8.0;
const JITTER_MEMORY: Duration = Duration::from_millis(120);
/// The range of a dip's length in ticks, and the range of the RTT that it adds in ms.
const DIP_TICKS: (u64, u64) = (5, 25);
const DIP_MS: (f64, f64) = (30.0, 60.0);
const DIP_RATE: f64 = 0.5;
/// The probability that a dip begins with an interruption, when no packet passes, and the range of its length in
/// ticks.
const SILENCE: f64 = 0.3;
const SILENT_TICKS: (u64, u64) = (2, 8);
/// The fraction of ticks with losses, during a dip and otherwise, and the fraction of packets lost in such a tick.
const DIP_BURSTS: f64 = 0.5;
const BURSTS: f64 = 0.01;
const BURST_LOSS: f64 = 0.5;

pub(super) const KIND: ModelKind = ModelKind {
    name: "starlink",
    called: "Starlink",
    delays: true,
    short: &[],
    parameters: &[
        ModelParameter::WAY,
        ModelParameter { key: "", plan: "terminal", form: Form::Place, meaning: "the terminal" },
        ModelParameter {
            key: "profile",
            plan: "profile",
            form: Form::Word(&["static", "moving"]),
            meaning: "where it was measured",
        },
        ModelParameter::mean("mean rate from the server; default: the profile's own"),
        ModelParameter {
            key: "phase",
            plan: "phase_ns",
            form: Form::below(Unit::Time, Usual::Open, EPOCH.as_nanos() as f64),
            meaning: "offset of the start in an epoch of 15 s; default: drawn",
        },
    ],
};

/// The settings of a Starlink link.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StarlinkModel {
    /// The direction of the link.
    pub direction: Direction,
    /// The name of the terminal. Links with the same name share its epochs.
    pub terminal: String,
    /// The place of the terminal.
    pub profile: StarlinkProfile,
    /// The offset of the start of the run within an epoch, less than 15 s; `None` to draw it.
    #[serde(default, rename = "phase_ns", deserialize_with = "maybe_nanoseconds")]
    pub phase: Option<Duration>,
    /// The wanted mean rate towards the client, bit/s. The uplink is scaled by the same factor.
    #[serde(default)]
    pub mean_bps: Option<u64>,
}

/// The place at which a terminal was measured. Rates are in Mb/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StarlinkProfile {
    /// On a car in the Midwest. While there is coverage, the rate is 27 to 274, with a median of 154. There is no
    /// coverage in 16.2 % of seconds. A gap lasts 20.5 s on average, with a median of 2 s. (Computed from
    /// Satellite-vs-Cellular, Hu et al., `CoNEXT` 2023, its "Mobility" downlink.)
    Moving,
    /// On a parking lot: 96 to 414, with a median of 297 (computed from Starlink-on-the-Road, Laniewski et al., 2024).
    Static,
}

impl StarlinkProfile {
    /// Returns the quantiles of the rate during coverage, Mb/s. Both profiles use the uplink of
    /// Satellite-vs-Cellular.
    pub fn rates(self, direction: Direction) -> Quantiles {
        match (direction, self) {
            (Direction::Up, _) => {
                Quantiles(&[(P5, 6.4), (P25, 9.3), (P50, 18.0), (P75, 27.7), (P95, 48.4)])
            }
            (Direction::Down, Self::Moving) => {
                Quantiles(&[(P5, 26.9), (P25, 93.4), (P50, 154.0), (P75, 208.0), (P95, 274.0)])
            }
            (Direction::Down, Self::Static) => Quantiles(&[(P5, 96.0), (P50, 297.0), (P95, 414.0)]),
        }
    }
}

/// Gaps in coverage: a lognormal distribution with a median of 2 s and a mean of 20.5 s. The times between gaps are
/// exponential with a mean of 106 s.
const GAP_MEDIAN_S: f64 = 2.0;
const GAP_SIGMA: f64 = 2.157;
const GAP_EVERY_S: f64 = 106.0;

impl StarlinkModel {
    /// Returns a low estimate of TCP's throughput towards the client, bit/s. It is a tenth of the profile's median,
    /// less for a moving terminal. It never exceeds the wanted mean.
    pub fn likely_bps(&self) -> f64 {
        let usual = match self.profile {
            StarlinkProfile::Static => 30e6,
            StarlinkProfile::Moving => 10e6,
        };
        self.mean_bps.map_or(usual, |mean| usual.min(mean as f64))
    }

    /// Creates a terminal at rest. Its offset within an epoch is drawn at random.
    pub fn new(direction: Direction, terminal: impl Into<String>) -> Self {
        let profile = StarlinkProfile::Static;
        Self { direction, terminal: terminal.into(), profile, phase: None, mean_bps: None }
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if self.phase.is_some_and(|phase| phase >= EPOCH) {
            return Err(ConfigError::Phase);
        }
        if self.mean_bps == Some(0) { Err(ConfigError::Mean) } else { Ok(()) }
    }
}

/// The conditions of one direction over time.
pub(crate) struct Starlink {
    rates: Quantiles,
    /// The factor that converts the profile's Mb/s to bit/s and scales to the wanted mean.
    scale: f64,
    moving: bool,
    /// Streams from which both directions draw the same values.
    epochs: RandomStream,
    gaps: RandomStream,
    jitter: Wander,
    /// Streams that only this direction uses.
    speeds: RandomStream,
    bursts: RandomStream,
    tick_jitter: RandomStream,
    until: Instant,
    /// The number of the next tick within the epoch.
    tick: u64,
    epoch: Epoch,
    epoch_z: f64,
    bps: f64,
    /// The number of ticks until coverage is lost or comes back.
    gap_in: u64,
    in_gap: bool,
}

/// The random values of one epoch.
#[derive(Clone, Copy, Debug, Default)]
struct Epoch {
    rtt_ms: f64,
    dip_ms: f64,
    dip_ticks: u64,
    silent_ticks: u64,
}

impl Starlink {
    pub(crate) fn new(model: &StarlinkModel, name: &str, seed: Seed) -> Self {
        let stream = |what: &str| seed.stream(&format!("starlink.{}.{what}", model.terminal));
        let own = |what: &str| seed.stream(&format!("link.{name}.{what}"));
        let down = model.profile.rates(Direction::Down);
        let mut gaps = stream("gaps");
        let drawn = Duration::from_nanos(stream("phase").below(EPOCH.as_nanos()));
        let phase = model.phase.unwrap_or(drawn);
        let mut course = Self {
            rates: model.profile.rates(model.direction),
            scale: 1e6 * scale(model.mean_bps, down.mean() * 1e6),
            moving: model.profile == StarlinkProfile::Moving,
            epochs: stream("epochs"),
            gap_in: ticks(exponential(&mut gaps, GAP_EVERY_S)),
            in_gap: false,
            gaps,
            jitter: Wander::new(stream("jitter"), TICK, JITTER_MEMORY),
            speeds: own("rate"),
            bursts: own("bursts"),
            tick_jitter: own("ticks"),
            until: Instant::ZERO,
            tick: phase.as_nanos() / TICK.as_nanos(),
            epoch: Epoch::default(),
            epoch_z: 0.0,
            bps: 0.0,
        };
        course.begin_epoch();
        course.draw_rate();
        // The run may begin within a tick, so the first tick is shorter.
        course.until = Instant::from_nanos(TICK.as_nanos() - phase.as_nanos() % TICK.as_nanos());
        course
    }

    fn begin_epoch(&mut self) {
        let span = |stream: &mut RandomStream, (least, most): (u64, u64)| {
            least + stream.below(most - least + 1)
        };
        let rtt_ms = RTT_FLOOR_MS + exponential(&mut self.epochs, RTT_SPREAD_MS).min(RTT_MOST_MS);
        let dip_ms = DIP_MS.0 + (DIP_MS.1 - DIP_MS.0) * self.epochs.uniform();
        let dip_ticks = span(&mut self.epochs, DIP_TICKS);
        let silent = self.epochs.chance(SILENCE);
        let silent_ticks = span(&mut self.epochs, SILENT_TICKS) * u64::from(silent);
        self.epoch = Epoch { rtt_ms, dip_ms, dip_ticks, silent_ticks };
        self.epoch_z = self.speeds.standard_normal();
    }

    fn draw_rate(&mut self) {
        let z = EPOCH_SHARE * self.epoch_z + SECOND_SHARE * self.speeds.standard_normal();
        self.bps = (self.rates.at(z) * self.scale).max(0.0);
    }

    fn pass_gap(&mut self) {
        self.gap_in -= 1;
        if self.gap_in == 0 {
            self.in_gap = !self.in_gap;
            let seconds = if self.in_gap {
                GAP_MEDIAN_S * (GAP_SIGMA * self.gaps.standard_normal()).exp()
            } else {
                exponential(&mut self.gaps, GAP_EVERY_S)
            };
            self.gap_in = ticks(seconds);
        }
    }
}

impl Course for Starlink {
    fn next(&mut self) -> Conditions {
        let dip = self.tick < self.epoch.dip_ticks;
        let silent = self.tick < self.epoch.silent_ticks || (self.moving && self.in_gap);
        let jitter_ms = JITTER.at(self.jitter.step());
        let rtt_ms = self.epoch.rtt_ms + jitter_ms + if dip { self.epoch.dip_ms } else { 0.0 };
        let own_ms = TICK_JITTER_MS * self.tick_jitter.uniform();
        let bursting = self.bursts.chance(if dip { DIP_BURSTS } else { BURSTS });
        let conditions = Conditions {
            until: self.until,
            rate: match (silent, dip) {
                (true, _) => Rate::ZERO,
                (false, true) => Rate::from_bps((self.bps * DIP_RATE) as u64),
                (false, false) => Rate::from_bps(self.bps as u64),
            },
            delay: Duration::from_secs_f64((rtt_ms / 2.0 + own_ms) / 1e3),
            loss: if bursting { BURST_LOSS } else { 0.0 },
        };
        self.until += TICK;
        self.tick += 1;
        if self.moving {
            self.pass_gap();
        }
        if self.tick == TICKS {
            self.tick = 0;
            self.begin_epoch();
        }
        if self.tick.is_multiple_of(RATE_TICKS) {
            self.draw_rate();
        }
        conditions
    }
}

fn exponential(stream: &mut RandomStream, mean: f64) -> f64 {
    -mean * (1.0 - stream.uniform()).ln()
}

/// Converts seconds to ticks, at least one.
fn ticks(seconds: f64) -> u64 {
    ((seconds / TICK.as_secs_f64()).round() as u64).max(1)
}
