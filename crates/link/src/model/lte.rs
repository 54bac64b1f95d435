//! A cellular radio: a transport block every millisecond, repaired by HARQ and RLC, delivered in order.
//!
//! The rate is fitted to quantiles and autocorrelations of measured rates; [`LteProfile`] has the numbers. They were
//! computed over windows of one second. The sources are Mahimahi's recordings (github.com/ravinet/mahimahi) and the
//! Ghent 4G/LTE data set (van der Hooft et al., IEEE Communications Letters 20(11), 2016). The timing is 3GPP's. There
//! is one transport block per millisecond (TS 36.211). A HARQ round trip takes 8 ms, with at most three retransmissions
//! (TS 36.321, FDD). The target is that a tenth of first transmissions fail. RLC in acknowledged mode retransmits
//! blocks that HARQ gives up (TS 36.322).

use anabranch_plugin::Unit;
use anabranch_units::{Duration, Seed};
use serde::Deserialize;

use super::kind::{Form, ModelKind, ModelParameter, Usual};
use super::radio::{self, Radio, Timing};
use crate::quantiles::{P5, P25, P50, P75, P95, Quantiles};
use crate::{ConfigError, Direction};

/// The times of LTE. RLC's repair takes the reordering timer of 35 ms, and some milliseconds for the status report
/// (assumed). The wait for a grant consists of the scheduling request's period and its processing.
const TIMING: Timing = Timing {
    block: Duration::from_millis(1),
    harq_round_trip: Duration::from_millis(8),
    rlc_repair: Duration::from_millis(40),
    grant: (Duration::from_millis(10), Duration::from_millis(20)),
};
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
        radio::check(self.bler, self.mean_bps)
    }

    /// Creates the radio of a link with this name.
    pub(crate) fn radio(&self, name: &str, seed: Seed) -> Radio {
        let (rates, correlation) = self.profile.rates();
        let &Self { direction, mean_bps, bler, .. } = self;
        let timing = &TIMING;
        let handovers = None;
        let settings =
            radio::Settings { timing, rates, correlation, direction, mean_bps, bler, handovers };
        Radio::new(settings, name, seed)
    }
}
