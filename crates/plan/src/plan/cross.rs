//! Background flows of a plan: plain TCP and datagrams over links of their own choice, beside the clients.

use anabranch_congestion as congestion;
use anabranch_plugin::{PluginChoice, Registry};
use anabranch_transport::profile::OutageRule;
use anabranch_transport::{Config, Stack};
use anabranch_units::{Duration, Seed};
use serde::Deserialize;

use super::limits::MOST_FLOWS;
use super::{Family, Plan};
use crate::fault::PlanError;
use crate::plugins::choice;

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
    /// Sending rate of paced flows, and of datagrams, headers included: the mean of those at random, that of
    /// a burst of those in bursts.
    #[serde(default)]
    pub rate_bps: Option<u64>,
    /// Size of a datagram's packet, bytes, headers included.
    #[serde(default)]
    pub size: Option<u32>,
    /// Mean length of a burst of datagrams.
    #[serde(default)]
    pub on_ns: Option<u64>,
    /// Mean silence between bursts.
    #[serde(default)]
    pub off_ns: Option<u64>,
    /// Mean time from the start of one transfer to that of the next.
    #[serde(default)]
    pub gap_ns: Option<u64>,
    /// A controller's name and parameters, as JSON or a bare name; of what is TCP.
    #[serde(default)]
    pub congestion: Option<String>,
    /// How many flows; of transfers it is 1, and their number is drawn.
    pub count: u32,
    /// When the first starts, from the world's beginning; the others follow within a second.
    pub start_ns: u64,
    /// How long each lasts from its own start, and how long transfers go on to begin; absent is to the end
    /// of the run.
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
    /// Flows of `bytes` each, which begin at random (a Poisson process).
    Transfers,
    /// Datagrams at a constant rate.
    Udp,
    /// Datagrams in bursts, with exponential lengths of bursts and silences.
    OnOff,
    /// Datagrams at random (a Poisson process).
    Poisson,
}

impl CrossKind {
    /// It sends datagrams, over no connection.
    pub const fn is_datagrams(self) -> bool {
        matches!(self, Self::Udp | Self::OnOff | Self::Poisson)
    }
}

/// What can be told of the groups without the rest of the plan.
pub(super) fn check(plan: &Plan) -> Result<(), PlanError> {
    let groups = &plan.cross_traffic;
    for (index, group) in groups.iter().enumerate() {
        let fault = if groups[..index].iter().any(|other| other.name == group.name) {
            "its name is another's"
        } else if group.data.is_empty() || group.acks.is_empty() {
            "it needs a link in each direction"
        } else if let Some(missing) = group.missing() {
            missing
        } else if group.count == 0 {
            "it has no flow"
        } else {
            continue;
        };
        return Err(PlanError::Invalid(fault).at_element("cross_traffic", index));
    }
    let mut transfers = groups.iter().map(|group| group.expected_transfers(plan));
    if let Some(index) = transfers.position(|transfers| transfers > MOST_FLOWS) {
        let fault = "more than 10000 transfers are to be expected: a longer gap, or a `duration`";
        return Err(PlanError::Invalid(fault).at("gap_ns").at_element("cross_traffic", index));
    }
    if groups.iter().map(|group| u64::from(group.count)).sum::<u64>() > MOST_FLOWS {
        return Err(PlanError::Invalid("at most 10000 flows of cross traffic").at("cross_traffic"));
    }
    Ok(())
}

impl CrossPlan {
    /// What its kind needs and it does not have.
    fn missing(&self) -> Option<&'static str> {
        let positive = |value: Option<u64>| value.is_some_and(|value| value > 0);
        let datagrams = self.kind.is_datagrams();
        if self.kind == CrossKind::Paced && self.rate_bps.is_none() {
            Some("paced flows need a rate")
        } else if !datagrams && self.congestion.is_none() {
            Some("TCP needs a congestion control")
        } else if datagrams && !(positive(self.rate_bps) && positive(self.size.map(u64::from))) {
            Some("datagrams need a rate and a size")
        } else if self.kind == CrossKind::OnOff && !(positive(self.on_ns) && positive(self.off_ns))
        {
            Some("bursts need a mean length and a mean silence")
        } else if self.kind == CrossKind::Transfers
            && !(positive(self.gap_ns) && self.bytes.is_some())
        {
            Some("transfers need a mean gap and a size")
        } else {
            None
        }
    }

    /// Transfers that are to be expected within a plan's time; 0 of other kinds.
    fn expected_transfers(&self, plan: &Plan) -> u64 {
        let Some(gap) = self.gap_ns.filter(|_| self.kind == CrossKind::Transfers) else { return 0 };
        let run = plan.application.duration_ns.unwrap_or(plan.time_limit_ns);
        let left = run.min(plan.time_limit_ns).saturating_sub(self.start_ns);
        self.duration_ns.map_or(left, |span| span.min(left)) / gap.max(1)
    }

    /// The controller; none of datagrams.
    ///
    /// # Errors
    /// Text that names no plug-in.
    pub fn controller(&self) -> Result<Option<PluginChoice>, PlanError> {
        let text = self.congestion.as_deref().filter(|_| !self.kind.is_datagrams());
        text.map(choice).transpose().map_err(|error| error.at("congestion"))
    }

    /// The client's configuration, and but for ECN the server's: plain TCP on hosts like the clients' and the
    /// server's, whose buffers, segment size and ECN it shares. What `[transport]` says of MPTCP, of pacing and of
    /// outages is of the connection under study and not of strangers' flows.
    ///
    /// # Errors
    /// Names that no profile, part of one or plug-in has.
    pub fn config(&self, plan: &Plan, registry: &Registry) -> Result<Config, PlanError> {
        // Checked before: the clients' connections have the same.
        let whole = plan.transport.mechanisms()?;
        let stack = Stack { outage: OutageRule::Kernel, outage_probe: true, ..whole };
        let congestion = self.controller()?.unwrap_or_else(|| Config::default().congestion);
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

    /// When each flow starts, from the world's beginning: the first on time, each further one within the
    /// first second after it.
    pub fn starts(&self, seed: Seed) -> Vec<Duration> {
        let mut stream = seed.stream(&format!("cross_traffic.{}.start", self.name));
        let first = Duration::from_nanos(self.start_ns);
        (0..self.count)
            .map(|number| if number == 0 { 0.0 } else { stream.uniform() })
            .map(|offset| first + Duration::from_secs_f64(offset))
            .collect()
    }
}
