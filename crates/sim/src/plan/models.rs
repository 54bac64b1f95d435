//! Models and recordings that a link may follow instead of having a fixed rate and delay.

use std::sync::Arc;

use anabranch_link::{
    ConfigError, Direction, LteModel, LteProfile, Model, StarlinkModel, StarlinkProfile, Trace,
    TraceStep, WifiModel, WifiStandard,
};
use anabranch_units::{Duration, Rate};
use serde::Deserialize;

/// A model of a link.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelPlan {
    /// A cellular radio.
    Lte(LtePlan),
    /// Recorded delivery opportunities.
    Opportunities(OpportunitiesPlan),
    /// A satellite terminal.
    Starlink(StarlinkPlan),
    /// Recorded rates, delays and losses.
    Steps(StepsPlan),
    /// A lane of an 802.11 channel.
    Wifi(WifiPlan),
}

/// Which way a link leads.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DirectionPlan {
    /// Server to client.
    Down,
    /// Client to server.
    Up,
}

/// A cellular radio; see [`LteModel`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LtePlan {
    /// Which way.
    pub direction: DirectionPlan,
    /// Where it was measured.
    pub profile: LteProfilePlan,
    /// The mean rate wanted.
    #[serde(default)]
    pub mean_bps: Option<u64>,
    /// The share of transmissions that fail.
    pub bler: f64,
}

/// See [`LteProfile`].
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "named after those of crate link")]
pub enum LteProfilePlan {
    AttDriving,
    Ghent,
    TmobileDriving,
    VerizonShort,
}

/// A satellite terminal; see [`StarlinkModel`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StarlinkPlan {
    /// Which way.
    pub direction: DirectionPlan,
    /// What both ways have in common.
    pub terminal: String,
    /// Where it was measured.
    pub profile: StarlinkProfilePlan,
    /// How far the beginning lies in an epoch; drawn without it.
    #[serde(default)]
    pub phase_ns: Option<u64>,
    /// The mean rate from the server wanted.
    #[serde(default)]
    pub mean_bps: Option<u64>,
}

/// See [`StarlinkProfile`].
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "named after those of crate link")]
pub enum StarlinkProfilePlan {
    Moving,
    Static,
}

/// A recording of conditions, a column each; see [`Trace::Steps`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepsPlan {
    /// When each step begins; the first at 0.
    pub begin_ns: Vec<u64>,
    /// Its rate.
    pub rates_bps: Vec<u64>,
    /// Its one-way delay beyond the link's.
    pub delays_ns: Vec<u64>,
    /// Its share of lost packets.
    pub losses: Vec<f64>,
    /// When it begins again; without it the last step holds.
    #[serde(default)]
    pub repeat_ns: Option<u64>,
}

/// Recorded delivery opportunities; see [`Trace::Opportunities`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpportunitiesPlan {
    /// When.
    pub opportunities_ns: Vec<u64>,
    /// Bytes of each.
    pub opportunity_bytes: u64,
}

/// A lane of an 802.11 channel; see [`WifiModel`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WifiPlan {
    /// The channel: links that name the same one share the air.
    pub channel: String,
    /// What both directions of a station have in common.
    pub station: String,
    /// The generation.
    pub standard: WifiStandardPlan,
    /// Channel width.
    pub width_mhz: u32,
    /// Spatial streams.
    pub streams: u8,
    /// The fastest rate of the physical layer to be used.
    #[serde(default)]
    pub phy_bps: Option<u64>,
    /// Most frames of an aggregate.
    pub aggregate: usize,
    /// Mean signal to noise ratio.
    pub snr_db: f64,
    /// Its standard deviation in time.
    pub fading_db: f64,
    /// How fast it forgets.
    pub memory_ns: u64,
}

/// See [`WifiStandard`].
#[derive(Clone, Copy, Debug, Deserialize)]
#[expect(missing_docs, reason = "named after those of crate link")]
pub enum WifiStandardPlan {
    #[serde(rename = "802.11a")]
    A,
    #[serde(rename = "802.11g")]
    G,
    #[serde(rename = "802.11n")]
    N,
    #[serde(rename = "802.11ac")]
    Ac,
}

impl WifiStandardPlan {
    fn named(name: &str) -> Option<WifiStandard> {
        let plan: Option<Self> = serde_json::from_value(name.into()).ok();
        plan.map(Self::standard)
    }

    fn standard(self) -> WifiStandard {
        match self {
            Self::A => WifiStandard::A,
            Self::G => WifiStandard::G,
            Self::N => WifiStandard::N,
            Self::Ac => WifiStandard::Ac,
        }
    }
}

/// The usual channel width of a generation of 802.11, MHz; `None` of one that there is not.
pub fn wifi_width(standard: &str) -> Option<u32> {
    Some(WifiModel::new(WifiStandardPlan::named(standard)?, "").width_mhz)
}

/// The rates of a generation of 802.11 on a channel of a width with a number of streams, bits a second, slowest
/// first; none where it has no such width or streams.
pub fn wifi_rates(standard: &str, width_mhz: u32, streams: u8) -> Vec<u64> {
    let standard = WifiStandardPlan::named(standard);
    let model = standard.map(|it| WifiModel { width_mhz, streams, ..WifiModel::new(it, "") });
    model.map_or(Vec::new(), |model| model.rates())
}

impl DirectionPlan {
    fn direction(self) -> Direction {
        match self {
            Self::Down => Direction::Down,
            Self::Up => Direction::Up,
        }
    }
}

impl LtePlan {
    fn model(&self) -> LteModel {
        LteModel {
            direction: self.direction.direction(),
            profile: match self.profile {
                LteProfilePlan::AttDriving => LteProfile::AttDriving,
                LteProfilePlan::Ghent => LteProfile::Ghent,
                LteProfilePlan::TmobileDriving => LteProfile::TmobileDriving,
                LteProfilePlan::VerizonShort => LteProfile::VerizonShort,
            },
            mean_bps: self.mean_bps,
            bler: self.bler,
        }
    }
}

impl StarlinkPlan {
    fn model(&self) -> StarlinkModel {
        StarlinkModel {
            direction: self.direction.direction(),
            terminal: self.terminal.clone(),
            profile: match self.profile {
                StarlinkProfilePlan::Moving => StarlinkProfile::Moving,
                StarlinkProfilePlan::Static => StarlinkProfile::Static,
            },
            phase: self.phase_ns.map(Duration::from_nanos),
            mean_bps: self.mean_bps,
        }
    }
}

impl StepsPlan {
    fn trace(&self) -> Result<Trace, ConfigError> {
        let length = self.begin_ns.len();
        if [self.rates_bps.len(), self.delays_ns.len(), self.losses.len()] != [length; 3] {
            return Err(ConfigError::Trace);
        }
        let step = |n: usize| TraceStep {
            at: Duration::from_nanos(self.begin_ns[n]),
            rate: Rate::from_bps(self.rates_bps[n]),
            delay: Duration::from_nanos(self.delays_ns[n]),
            loss: self.losses[n],
        };
        let steps: Arc<[TraceStep]> = (0..length).map(step).collect();
        Ok(Trace::Steps { steps, repeat: self.repeat_ns.map(Duration::from_nanos) })
    }
}

impl OpportunitiesPlan {
    fn trace(&self) -> Trace {
        let at = self.opportunities_ns.iter().copied().map(Duration::from_nanos).collect();
        Trace::Opportunities { at, bytes: self.opportunity_bytes }
    }
}

impl WifiPlan {
    pub(crate) fn model(&self) -> WifiModel {
        WifiModel {
            standard: self.standard.standard(),
            width_mhz: self.width_mhz,
            streams: self.streams,
            top_bps: self.phy_bps,
            aggregate: self.aggregate,
            snr_db: self.snr_db,
            fading_db: self.fading_db,
            memory: Duration::from_nanos(self.memory_ns),
            station: self.station.clone(),
        }
    }
}

impl ModelPlan {
    /// As a varying link takes it; `None` for a lane of a channel.
    pub(crate) fn model(&self) -> Result<Option<Model>, ConfigError> {
        Ok(Some(match self {
            Self::Lte(plan) => Model::Lte(plan.model()),
            Self::Opportunities(plan) => Model::Trace(plan.trace()),
            Self::Starlink(plan) => Model::Starlink(plan.model()),
            Self::Steps(plan) => Model::Trace(plan.trace()?),
            Self::Wifi(_) => return Ok(None),
        }))
    }
}
