//! A 5G radio (NR). It is a cellular radio as in LTE, with NR's times, the rates of 5G, and handovers.
//!
//! Rates are fitted to quantiles over windows of one second:
//!
//! - `mid-band`: a device at rest in a commercial network at 3.6 GHz. Computed from the 5G data set of University
//!   College Cork (Raca et al., `MMSys` 2020, github.com/uccmisl/5Gdataset).
//! - `mmwave`: a pedestrian in the networks of the United States. Computed from 121 recordings of the artifact of
//!   Narayanan et al., "A Variegated Look at 5G in the Wild", SIGCOMM 2021 (github.com/SIGCOMM21-5G). A body or a corner
//!   that blocks the beam is part of its lowest quantile: in 5 % of seconds, the rate is below 8 Mb/s.
//!
//! 3GPP's times: blocks of 0.5 ms at a subcarrier spacing of 30 kHz, and of 0.125 ms at 120 kHz (TS 38.211).
//!
//! Assumptions: a HARQ round trip is two periods of the usual division of time, 5 ms for mid-band and 1.25 ms for
//! mmWave. RLC repairs as in LTE. The correlation time of 7 s is LTE's. Handovers begin at random. No public data set
//! gave the length of one: the default of 110 ms is the assumed time in which a device changes its cell.

use anabranch_plugin::Unit;
use anabranch_units::{Duration, Seed};
use serde::Deserialize;

use super::kind::{Form, ModelKind, ModelParameter, Usual, maybe_nanoseconds, nanoseconds};
use super::radio::{self, Handovers, Radio, Timing};
use crate::quantiles::{P5, P25, P50, P75, P95, Quantiles};
use crate::{ConfigError, Direction};

const CORRELATION: Duration = Duration::from_secs(7);
const RLC_REPAIR: Duration = Duration::from_millis(40);

const MID_BAND: Timing = Timing {
    block: Duration::from_micros(500),
    harq_round_trip: Duration::from_millis(5),
    rlc_repair: RLC_REPAIR,
    grant: (Duration::from_millis(5), Duration::from_millis(10)),
};
const MMWAVE: Timing = Timing {
    block: Duration::from_micros(125),
    harq_round_trip: Duration::from_micros(1250),
    rlc_repair: RLC_REPAIR,
    grant: (Duration::from_micros(1250), Duration::from_micros(2500)),
};

pub(super) const KIND: ModelKind = ModelKind {
    name: "5g",
    called: "5G",
    delays: false,
    short: &[],
    parameters: &[
        ModelParameter::WAY,
        ModelParameter { key: "", plan: "device", form: Form::Place, meaning: "the device" },
        ModelParameter {
            key: "profile",
            plan: "profile",
            form: Form::Word(&["mid-band", "mmwave"]),
            meaning: "where the rate was measured",
        },
        ModelParameter::mean("mean rate; default: the profile's own"),
        ModelParameter {
            key: "bler",
            plan: "bler",
            form: Form::below(Unit::Share, Usual::Is(0.1), 1.0),
            meaning: "share of transmissions that fail",
        },
        ModelParameter {
            key: "handover_every",
            plan: "handover_every_ns",
            form: Form::number(Unit::Time, Usual::Open, 1e6, f64::INFINITY),
            meaning: "mean time between two handovers; default: none",
        },
        ModelParameter {
            key: "handover",
            plan: "handover_ns",
            form: Form::number(Unit::Time, Usual::Is(110e6), 0.0, f64::INFINITY),
            meaning: "time without transmission in a handover",
        },
    ],
};

/// The settings of a 5G link.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NrModel {
    /// The direction of the link.
    pub direction: Direction,
    /// The name of the device. Links with the same name have the same handovers.
    pub device: String,
    /// The profile of the rate over time.
    pub profile: NrProfile,
    /// The wanted mean rate, bit/s; `None` for the profile's own.
    #[serde(default)]
    pub mean_bps: Option<u64>,
    /// The fraction of transmissions that fail, from 0 to below 1.
    pub bler: f64,
    /// The mean time between the end of a handover and the next one; `None` for no handovers.
    #[serde(default, rename = "handover_every_ns", deserialize_with = "maybe_nanoseconds")]
    pub handover_every: Option<Duration>,
    /// The length of a handover.
    #[serde(rename = "handover_ns", deserialize_with = "nanoseconds")]
    pub handover: Duration,
}

/// The measurement that a 5G link follows. Rates are in Mb/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NrProfile {
    /// 3.6 GHz, at rest: mean 67, quartiles 11, 29 and 98.
    MidBand,
    /// Millimetre waves, walking: mean 523, median 429, and 8 in the worst 5 % of seconds.
    Mmwave,
}

impl NrProfile {
    /// Returns the quantiles of the rate in Mb/s.
    pub fn rates(self) -> Quantiles {
        match self {
            Self::MidBand => Quantiles(&[(P25, 11.0), (P50, 29.0), (P75, 98.0), (P95, 229.0)]),
            Self::Mmwave => Quantiles(&[(P5, 8.0), (P50, 429.0), (P95, 1390.0)]),
        }
    }
}

impl NrModel {
    /// Creates a link that follows a profile, without handovers. A tenth of the transmissions fail.
    pub fn new(direction: Direction, device: &str, profile: NrProfile) -> Self {
        let device = device.to_owned();
        let handover = Duration::from_millis(110);
        Self {
            direction,
            device,
            profile,
            mean_bps: None,
            bler: 0.1,
            handover_every: None,
            handover,
        }
    }

    /// Returns a low estimate of TCP's throughput, bit/s: half of the mean rate.
    pub fn likely_bps(&self) -> f64 {
        let half = match self.profile {
            NrProfile::MidBand => 33e6,
            NrProfile::Mmwave => 260e6,
        };
        self.mean_bps.map_or(half, |mean| mean as f64 / 2.0)
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        radio::check(self.bler, self.mean_bps)
    }

    /// Creates the radio of a link with this name.
    pub(crate) fn radio(&self, name: &str, seed: Seed) -> Radio {
        let timing = match self.profile {
            NrProfile::MidBand => &MID_BAND,
            NrProfile::Mmwave => &MMWAVE,
        };
        let stream = || seed.stream(&format!("device.{}.handovers", self.device));
        let settings = radio::Settings {
            timing,
            rates: self.profile.rates(),
            correlation: CORRELATION,
            direction: self.direction,
            mean_bps: self.mean_bps,
            bler: self.bler,
            handovers: self
                .handover_every
                .map(|every| Handovers::new(every, self.handover, stream())),
        };
        Radio::new(settings, name, seed)
    }
}
