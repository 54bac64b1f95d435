//! The links and paths of a plan.

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
    /// The name, unique in the plan.
    pub name: String,
    /// The rate; unlimited if absent.
    #[serde(default)]
    pub rate_bps: Option<u64>,
    /// The queue limit; unlimited if absent.
    #[serde(default)]
    pub queue: Option<QueuePlan>,
    /// The queue discipline; drop-tail if absent.
    #[serde(default)]
    pub discipline: Option<DisciplinePlan>,
    /// The propagation delay.
    pub delay_ns: u64,
    /// The jitter.
    #[serde(default)]
    pub jitter_ns: u64,
    /// The loss model.
    #[serde(default)]
    pub loss: Option<LossPlan>,
    /// Whether the loss model applies before or after the queue.
    #[serde(default)]
    pub loss_at: LossAtPlan,
    /// Reordering: packets that are delayed.
    #[serde(default)]
    pub reorder: Option<ReorderPlan>,
    /// The fraction of packets that are duplicated.
    #[serde(default)]
    pub duplicate: f64,
    /// The fraction of packets that are corrupted.
    #[serde(default)]
    pub corrupt: f64,
    /// The fraction of corrupted packets that are delivered with a changed payload.
    #[serde(default)]
    pub corrupt_passes: f64,
    /// The largest packet that enters, headers included, in bytes; unlimited if absent.
    #[serde(default)]
    pub mtu: Option<u64>,
    /// Whether the sender of a packet that is too large receives an ICMP message.
    #[serde(default = "super::yes")]
    pub icmp: bool,
    /// The emulator whose random draws for loss and jitter are reproduced. If absent, the link has
    /// its own random streams.
    #[serde(default)]
    pub emulator: Option<EmulatorPlan>,
    /// The model or recording that the link follows. The configured rate then limits the model's rate, and
    /// the configured delay and loss are added to the model's.
    #[serde(default)]
    pub model: Option<ModelPlan>,
}

/// Checks the MTU of a link that packets of this family cross.
///
/// # Errors
/// Returns an error for an MTU that is too small.
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

/// The settings of the laboratory's emulator for one direction of a path; see [`Draws`].
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EmulatorPlan {
    /// The seed of the path in the emulator.
    pub seed: u64,
    /// Whether the direction is from server to client.
    pub down: bool,
}

/// A queue limit.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueuePlan {
    /// A number of packets, including the packet in service.
    Packets(u64),
    /// A number of bytes.
    Bytes(u64),
}

/// A queue discipline; see [`anabranch_link::queue`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DisciplinePlan {
    /// The name of the discipline.
    pub name: String,
    /// The values of its parameters, in nanoseconds, bytes or counts. A switch is 0 or 1.
    #[serde(default)]
    pub values: BTreeMap<String, u64>,
}

/// Reordering by delayed packets; see [`Reorder`].
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReorderPlan {
    /// The fraction of packets that may be delayed.
    pub share: f64,
    /// The additional delay of those packets.
    pub by_ns: u64,
    /// The smallest distance between two delayed packets, in packets.
    pub gap: u64,
}

/// A loss model.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum LossPlan {
    /// Independent losses with this probability per packet.
    Bernoulli(f64),
    /// A two-state Markov chain.
    GilbertElliott {
        /// The probability of a change from the good state to the bad one, per packet.
        p: f64,
        /// The probability of a change from the bad state to the good one, per packet.
        r: f64,
        /// The probability that a packet survives in the bad state.
        h: f64,
        /// The probability that a packet survives in the good state.
        k: f64,
    },
}

/// Whether the loss model applies before or after the queue.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossAtPlan {
    /// After the queue.
    #[default]
    Exit,
    /// Before the queue.
    Entry,
}

/// A path: a pair of addresses and the links between them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathPlan {
    /// The name, unique in the plan.
    pub name: String,
    /// The links from server to client, in order.
    pub down: Vec<String>,
    /// The links from client to server, in order.
    pub up: Vec<String>,
    /// Whether the subflow on the path is a backup.
    #[serde(default)]
    pub backup: bool,
    /// The kinds of segments from which a middlebox on the path removes every MPTCP option, in both
    /// directions.
    #[serde(default)]
    pub strips_mptcp: StripsPlan,
    /// Whether a firewall on the path drops every SYN with an MPTCP option. It drops no SYN/ACK.
    #[serde(default)]
    pub drops_mptcp: bool,
    /// The address family of the path.
    #[serde(default)]
    pub family: Family,
}

/// An address family.
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
    /// Returns whether some packets arrive with a changed payload.
    pub fn changes_payload(&self) -> bool {
        self.corrupt > 0.0 && self.corrupt_passes > 0.0
    }

    /// Returns the link's configuration.
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
