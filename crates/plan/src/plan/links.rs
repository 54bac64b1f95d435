//! Links and paths of a plan.

use std::collections::BTreeMap;

use anabranch_link::{
    Direction, Draws, Impairments, LinkConfig, LossAt, LossModel, QueueLimit, Reorder,
};
use anabranch_plugin::PluginChoice;
use anabranch_units::{Duration, Rate};
use serde::Deserialize;

use super::limits::{LEAST_IPV6_MTU, LEAST_MTU};
use super::{ModelPlan, StripsPlan};
use crate::fault::PlanError;

/// A one-way link.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkPlan {
    /// Its name.
    pub name: String,
    /// Rate; absent is unlimited.
    #[serde(default)]
    pub rate_bps: Option<u64>,
    /// Queue limit; absent is unlimited.
    #[serde(default)]
    pub queue: Option<QueuePlan>,
    /// Kind of queue; absent is drop-tail.
    #[serde(default)]
    pub discipline: Option<DisciplinePlan>,
    /// Propagation delay.
    pub delay_ns: u64,
    /// Jitter.
    #[serde(default)]
    pub jitter_ns: u64,
    /// Loss model.
    #[serde(default)]
    pub loss: Option<LossPlan>,
    /// Where it strikes.
    #[serde(default)]
    pub loss_at: LossAtPlan,
    /// Packets that fall behind.
    #[serde(default)]
    pub reorder: Option<ReorderPlan>,
    /// Share of packets that are copied.
    #[serde(default)]
    pub duplicate: f64,
    /// Share of packets that are spoilt.
    #[serde(default)]
    pub corrupt: f64,
    /// Share of those that get through all the same, their payload changed.
    #[serde(default)]
    pub corrupt_passes: f64,
    /// The largest packet that enters, headers included, bytes; absent is unlimited.
    #[serde(default)]
    pub mtu: Option<u64>,
    /// Senders of larger ones are told (ICMP); without it nobody is.
    #[serde(default = "super::yes")]
    pub icmp: bool,
    /// Losses and jitter as the laboratory's emulator draws them; absent is random streams of its own.
    #[serde(default)]
    pub emulator: Option<EmulatorPlan>,
    /// What it follows; then the rate is a cap, and delay and loss come on top.
    #[serde(default)]
    pub model: Option<ModelPlan>,
}

/// Whether a link that packets of a family cross can have an MTU.
///
/// # Errors
/// It is too small.
pub(super) fn check_mtu(mtu: u64, family: Family) -> Result<(), PlanError> {
    let fault = match family {
        _ if mtu < LEAST_MTU => "an MTU must be at least 576 bytes",
        Family::Ipv6 if mtu < LEAST_IPV6_MTU => {
            "the MTU of a link with IPv6 must be at least 1280 bytes"
        }
        _ => return Ok(()),
    };
    Err(PlanError::Invalid(fault).at("mtu"))
}

/// A direction of a path of the laboratory's emulator; see [`Draws`].
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EmulatorPlan {
    /// The seed of the path.
    pub seed: u64,
    /// From the server to the client.
    pub down: bool,
}

/// A queue limit.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueuePlan {
    /// In packets, the one in service included.
    Packets(u64),
    /// In bytes.
    Bytes(u64),
}

/// A kind of queue; see [`anabranch_link::queue`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DisciplinePlan {
    /// Its name.
    pub name: String,
    /// Values of its own parameters, in nanoseconds, bytes, counts, and 0 or 1.
    #[serde(default)]
    pub values: BTreeMap<String, u64>,
}

/// Packets that fall behind; see [`Reorder`].
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReorderPlan {
    /// The share that may be chosen.
    pub share: f64,
    /// How far they fall behind.
    pub by_ns: u64,
    /// The least number of packets from one to the next.
    pub gap: u64,
}

/// A loss model.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum LossPlan {
    /// Independent losses with this probability.
    Bernoulli(f64),
    /// A two-state chain.
    GilbertElliott {
        /// Good to bad, per packet.
        p: f64,
        /// Bad to good, per packet.
        r: f64,
        /// Chance to survive in the bad state.
        h: f64,
        /// Chance to survive in the good state.
        k: f64,
    },
}

/// Where losses strike.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossAtPlan {
    /// Behind the queue.
    #[default]
    Exit,
    /// Before the queue.
    Entry,
}

/// A path: a pair of addresses and the links between.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathPlan {
    /// Its name.
    pub name: String,
    /// Links from server to client, in order.
    pub down: Vec<String>,
    /// Links from client to server, in order.
    pub up: Vec<String>,
    /// Its subflow is a backup.
    #[serde(default)]
    pub backup: bool,
    /// The segments that a middlebox on it takes every MPTCP option out of, both ways.
    #[serde(default)]
    pub strips_mptcp: StripsPlan,
    /// What its addresses are of.
    #[serde(default)]
    pub family: Family,
}

/// A family of addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// IPv4.
    #[default]
    Ipv4,
    /// IPv6, whose headers are 20 bytes longer.
    Ipv6,
}

impl LossPlan {
    pub(super) fn model(self) -> LossModel {
        match self {
            Self::Bernoulli(p) => LossModel::Bernoulli(p),
            Self::GilbertElliott { p, r, h, k } => LossModel::GilbertElliott { p, r, h, k },
        }
    }
}

impl EmulatorPlan {
    fn draws(self) -> Draws {
        let direction = if self.down { Direction::Down } else { Direction::Up };
        Draws::Emulator { seed: self.seed, direction }
    }
}

impl DisciplinePlan {
    fn choice(&self) -> PluginChoice {
        let named = PluginChoice::named(&self.name);
        self.values.iter().fold(named, |choice, (key, &value)| choice.with(key, value))
    }
}

impl LinkPlan {
    /// Whether some of its packets arrive with another payload than they had.
    pub fn changes_payload(&self) -> bool {
        self.corrupt > 0.0 && self.corrupt_passes > 0.0
    }

    /// The link's configuration.
    pub fn config(&self) -> LinkConfig {
        LinkConfig {
            name: self.name.clone(),
            rate: self.rate_bps.map_or(Rate::UNLIMITED, Rate::from_bps),
            queue: match self.queue {
                None => QueueLimit::Unlimited,
                Some(QueuePlan::Packets(n)) => QueueLimit::Packets(n),
                Some(QueuePlan::Bytes(n)) => QueueLimit::Bytes(n),
            },
            discipline: self.discipline.as_ref().map(DisciplinePlan::choice),
            delay: Duration::from_nanos(self.delay_ns),
            jitter: Duration::from_nanos(self.jitter_ns),
            loss: self.loss.map(LossPlan::model),
            loss_at: match self.loss_at {
                LossAtPlan::Exit => LossAt::Exit,
                LossAtPlan::Entry => LossAt::Entry,
            },
            impairments: Impairments {
                reorder: self.reorder.map(|reorder| Reorder {
                    share: reorder.share,
                    delay: Duration::from_nanos(reorder.by_ns),
                    gap: reorder.gap,
                }),
                duplicate: self.duplicate,
                corrupt: self.corrupt,
                corrupt_passes: self.corrupt_passes,
            },
            draws: self.emulator.map_or(Draws::Streams, EmulatorPlan::draws),
        }
    }
}
