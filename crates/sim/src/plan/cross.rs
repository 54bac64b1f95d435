//! Background TCP flows of a plan: plain TCP over links of their own choice, beside the clients.

use anabranch_plugin::{PluginChoice, Registry};
use anabranch_transport::Config;
use anabranch_transport::congestion;
use anabranch_units::{Duration, Instant, Seed};
use serde::Deserialize;

use super::{Family, Plan};
use crate::fault::PlanError;
use crate::plugins::choice;

/// The most flows of all groups together: as many as there may be clients.
const MOST_FLOWS: u64 = 10_000;

/// A group of background flows that differ only in their start.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CrossPlan {
    /// Its name, unique: the flows' streams of chance are named after it.
    pub name: String,
    /// Links that the data crosses, from sender to receiver.
    pub data: Vec<String>,
    /// Links that the acknowledgements cross, from receiver to sender.
    pub acks: Vec<String>,
    /// What their addresses are of.
    #[serde(default)]
    pub family: Family,
    /// What the flows carry.
    pub kind: CrossKind,
    /// Sending rate of paced flows.
    #[serde(default)]
    pub rate_bps: Option<u64>,
    /// A controller's name and parameters, as JSON or a bare name.
    pub congestion: String,
    /// How many flows.
    pub count: u32,
    /// When the first starts, from the world's beginning; the others follow within a second.
    pub start_ns: u64,
    /// How long each lasts from its own start; absent is to the end of the run.
    #[serde(default)]
    pub duration_ns: Option<u64>,
    /// How much each carries; absent is unlimited.
    #[serde(default)]
    pub bytes: Option<u64>,
}

/// What a background flow carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CrossKind {
    /// As much as the transport takes.
    Bulk,
    /// A constant rate, in pieces every 10 ms.
    Paced,
}

/// What can be told of the groups without the rest of the plan.
pub(super) fn check(groups: &[CrossPlan]) -> Result<(), PlanError> {
    for (index, group) in groups.iter().enumerate() {
        let fault = if groups[..index].iter().any(|other| other.name == group.name) {
            "its name is another's"
        } else if group.data.is_empty() || group.acks.is_empty() {
            "it needs a link in each direction"
        } else if group.kind == CrossKind::Paced && group.rate_bps.is_none() {
            "paced flows need a rate"
        } else if group.count == 0 {
            "it has no flow"
        } else {
            continue;
        };
        return Err(PlanError::Invalid(fault).at_element("cross_traffic", index));
    }
    if groups.iter().map(|group| u64::from(group.count)).sum::<u64>() > MOST_FLOWS {
        return Err(PlanError::Invalid("at most 10000 flows of cross traffic").at("cross_traffic"));
    }
    Ok(())
}

impl CrossPlan {
    /// The controller.
    pub(crate) fn controller(&self) -> Result<PluginChoice, PlanError> {
        choice(&self.congestion).map_err(|error| error.at("congestion"))
    }

    /// The client's configuration, and but for ECN the server's: plain TCP on hosts like the clients' and the
    /// server's, whose buffers, segment size and ECN it shares. What `[transport]` says of MPTCP, and its pacing, is of
    /// the connection under study and not of strangers' flows.
    pub(crate) fn config(&self, plan: &Plan, registry: &Registry) -> Result<Config, PlanError> {
        let stack = plan.transport.mechanisms()?; // checked before: the clients' connections have the same
        let congestion = self.controller()?;
        let config = Config {
            multipath: false,
            path_manager: PluginChoice::named("none"),
            congestion: stack.congestion(congestion),
            mss: plan.transport.mss,
            receive_buffer_initial: plan.transport.receive_buffer_initial,
            receive_buffer_max: plan.transport.receive_buffer_max,
            send_buffer_max: plan.transport.send_buffer_max,
            ecn: plan.transport.ecn.client.mode(),
            host: plan.host.model(),
            stack,
            registry: registry.clone(),
            ..Config::default()
        };
        let check = Seed { seed: 0, run: 0 }.stream("check");
        congestion::build(&config.congestion, registry, check)
            .map_err(|error| PlanError::from(error).at("congestion"))?;
        Ok(config)
    }

    /// When each flow starts: the first on time, each further one within the first second after it.
    pub(crate) fn starts(&self, seed: Seed) -> Vec<Instant> {
        let mut stream = seed.stream(&format!("cross_traffic.{}.start", self.name));
        let first = Instant::from_nanos(self.start_ns);
        (0..self.count)
            .map(|number| if number == 0 { 0.0 } else { stream.uniform() })
            .map(|offset| first + Duration::from_secs_f64(offset))
            .collect()
    }
}
