//! The entry of the 802.11 model in the table of link models, and checks across its parameters.

use anabranch_plugin::Unit;

use super::{WifiModel, WifiStandard, phy};
use crate::model::kind::{Form, ModelFault, ModelKind, ModelParameter, Usual};

/// The standards and their usual channel widths, MHz.
const WIDTHS: &[(&str, f64)] =
    &[("802.11ac", 80.0), ("802.11a", 20.0), ("802.11g", 20.0), ("802.11n", 20.0)];
/// The widths that any standard has, MHz.
const ANY_WIDTH: [u32; 4] = [20, 40, 80, 160];
/// The largest number of streams of any standard.
const MOST_STREAMS: u8 = 8;
/// A low estimate of TCP's share of the radio's rate.
const LIKELY: f64 = 0.2;

pub(crate) const KIND: ModelKind = ModelKind {
    name: "wifi",
    called: "802.11",
    delays: false,
    short: &[
        ("wifi-a", "standard", "802.11a"),
        ("wifi-g", "standard", "802.11g"),
        ("wifi-n", "standard", "802.11n"),
        ("wifi-ac", "standard", "802.11ac"),
    ],
    parameters: &[
        ModelParameter {
            key: "channel",
            plan: "channel",
            form: Form::Shared,
            meaning: "paths that name the same one share the air",
        },
        ModelParameter { key: "", plan: "station", form: Form::Place, meaning: "the station" },
        ModelParameter {
            key: "standard",
            plan: "standard",
            form: Form::Word(&["802.11ac", "802.11a", "802.11g", "802.11n"]),
            meaning: "the generation",
        },
        ModelParameter {
            key: "width",
            plan: "width_mhz",
            form: Form::number(Unit::Width, Usual::By("standard", WIDTHS), 1.0, f64::INFINITY),
            meaning: "channel width; default: 80 MHz for ac, else 20",
        },
        ModelParameter {
            key: "streams",
            plan: "streams",
            form: Form::number(Unit::Count, Usual::Is(1.0), 1.0, MOST_STREAMS as f64),
            meaning: "spatial streams",
        },
        ModelParameter {
            key: "phy_rate",
            plan: "phy_bps",
            form: Form::number(Unit::Rate, Usual::Open, 1.0, f64::INFINITY),
            meaning: "fastest rate of the radio to be used",
        },
        ModelParameter {
            key: "aggregate",
            plan: "aggregate",
            form: Form::number(Unit::Count, Usual::Is(64.0), 1.0, phy::WINDOW as f64),
            meaning: "most frames of an aggregate; 1 switches aggregation off; a and g never aggregate",
        },
        ModelParameter {
            key: "snr",
            plan: "snr_db",
            form: Form::number(Unit::Decibels, Usual::Is(35.0), 0.0, f64::INFINITY),
            meaning: "mean signal-to-noise ratio",
        },
        ModelParameter {
            key: "fading",
            plan: "fading_db",
            form: Form::number(Unit::Decibels, Usual::Is(3.0), 0.0, f64::INFINITY),
            meaning: "standard deviation of the ratio over time",
        },
        ModelParameter {
            key: "fading_memory",
            plan: "memory_ns",
            form: Form::number(Unit::Time, Usual::Is(5e8), 1.0, f64::INFINITY),
            meaning: "correlation time of the ratio",
        },
    ],
};

impl WifiStandard {
    const fn name(self) -> &'static str {
        match self {
            Self::A => "802.11a",
            Self::G => "802.11g",
            Self::N => "802.11n",
            Self::Ac => "802.11ac",
        }
    }
}

/// Returns the default channel width of a standard, MHz.
pub(super) fn usual_width(standard: WifiStandard) -> u32 {
    let found = WIDTHS.iter().find(|(name, _)| *name == standard.name());
    found.map_or(20, |(_, width)| *width as u32)
}

impl WifiModel {
    /// Returns a low estimate of TCP's throughput, bit/s, from the fastest rate of one stream.
    pub fn likely_bps(&self) -> f64 {
        let fastest = match self.standard {
            WifiStandard::A | WifiStandard::G => 54e6,
            WifiStandard::N => 72e6,
            WifiStandard::Ac => 433e6,
        };
        self.top_bps.map_or(fastest, |top| top as f64) * LIKELY
    }

    /// Returns the faults of a width, a number of streams or a fastest rate that the standard does not have.
    pub fn faults(&self) -> Vec<ModelFault> {
        let name = self.standard.name();
        let rates = |width_mhz: u32, streams: u8| {
            Self { width_mhz, streams, ..Self::new(self.standard, "") }.rates()
        };
        let usual = usual_width(self.standard);
        let widths: Vec<u32> =
            ANY_WIDTH.into_iter().filter(|width| !rates(*width, 1).is_empty()).collect();
        let most = (1..=MOST_STREAMS).rev().find(|n| !rates(usual, *n).is_empty()).unwrap_or(1);
        let mut faults = Vec::new();
        let mut fault = |key, message, hint| faults.push(ModelFault { key, message, hint });
        let known = widths.contains(&self.width_mhz);
        if !known {
            let quoted: Vec<_> = widths.iter().map(|width| format!("\"{width} MHz\"")).collect();
            let message = format!("{name} has no channels of {} MHz", self.width_mhz);
            fault("width", message, format!("valid: {}", quoted.join(", ")));
        }
        if self.streams > most {
            let message = format!("{name} has at most {most} streams: {}", self.streams);
            fault("streams", message, String::new());
        }
        let streams = if self.streams > most { 1 } else { self.streams };
        let slowest = rates(if known { self.width_mhz } else { usual }, streams).first().copied();
        if let (Some(top), Some(slowest)) = (self.top_bps, slowest)
            && top < slowest
        {
            let mbit = |bps: u64| bps as f64 / 1e6;
            let message = format!("{name} has no rate as low as this: `{} Mbit/s`", mbit(top));
            let lowest = mbit(slowest);
            let hint = format!("the lowest is {lowest} Mbit/s; `rate` caps what a path carries");
            fault("phy_rate", message, hint);
        }
        faults
    }
}
