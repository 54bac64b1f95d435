//! The background flows of a plan: plain TCP and datagrams. Each group of flows has its own list of links.

use anabranch_congestion as congestion;
use anabranch_mptcp::profile::{OutageRule, TcpStack};
use anabranch_mptcp::{Config, Stack};
use anabranch_plugin::{PluginChoice, Registry};
use anabranch_units::{Duration, Seed};
use serde::Deserialize;

use super::limits::MOST_FLOWS;
use super::{Family, Plan};
use crate::fault::PlanError;
use crate::plugins::choice;

/// A group of background flows that differ only in their start times.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CrossPlan {
    /// The name, unique in the plan. The flows' random streams are named after it.
    pub name: String,
    /// The links for data, from sender to receiver.
    pub data: Vec<String>,
    /// The links for acknowledgements, from receiver to sender.
    pub acks: Vec<String>,
    /// The address family of the flows.
    #[serde(default)]
    pub family: Family,
    /// The kind of traffic.
    pub kind: CrossKind,
    /// The sending rate of paced flows and of datagrams; for datagrams it includes headers. For Poisson
    /// datagrams it is the mean rate, and for on-off datagrams the rate within a burst.
    #[serde(default)]
    pub rate_bps: Option<u64>,
    /// The size of a datagram's packet in bytes, headers included.
    #[serde(default)]
    pub size: Option<u32>,
    /// The mean length of a burst of datagrams.
    #[serde(default)]
    pub on_ns: Option<u64>,
    /// The mean silence between bursts.
    #[serde(default)]
    pub off_ns: Option<u64>,
    /// The mean time between the starts of two transfers.
    #[serde(default)]
    pub gap_ns: Option<u64>,
    /// The congestion controller of TCP flows: name and parameters as JSON, or a name only.
    #[serde(default)]
    pub congestion: Option<String>,
    /// The number of flows; 1 for transfers, which are drawn at random.
    pub count: u32,
    /// The start of the first flow, from the start of the run. The other flows start within the second after
    /// it.
    pub start_ns: u64,
    /// The duration of each flow from its own start. For transfers, the time during which transfers start. If
    /// absent, it lasts until the end of the run.
    #[serde(default)]
    pub duration_ns: Option<u64>,
    /// The number of bytes of each flow; unlimited if absent.
    #[serde(default)]
    pub bytes: Option<u64>,
}

/// The kind of traffic of a background flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CrossKind {
    /// As many bytes as the transport accepts.
    Bulk,
    /// A constant rate, with a write every 10 ms.
    Paced,
    /// TCP flows of `bytes` each, which start at random (a Poisson process).
    Transfers,
    /// Datagrams at a constant rate.
    Udp,
    /// Datagrams in bursts. Bursts and silences have exponentially distributed lengths.
    OnOff,
    /// Datagrams at random times (a Poisson process).
    Poisson,
}

impl CrossKind {
    /// Returns whether the kind consists of datagrams, without a connection.
    pub const fn is_datagrams(self) -> bool {
        matches!(self, Self::Udp | Self::OnOff | Self::Poisson)
    }
}

/// Checks the values of the groups that do not depend on other parts of the plan.
pub(super) fn check(plan: &Plan) -> Result<(), PlanError> {
    let groups = &plan.cross_traffic;
    for (index, group) in groups.iter().enumerate() {
        let fault = if groups[..index].iter().any(|other| other.name == group.name) {
            "another group has the same name"
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
        let fault = "more than 10000 transfers are expected: use a longer gap, or a `duration`";
        return Err(PlanError::Invalid(fault).at("gap_ns").at_element("cross_traffic", index));
    }
    if groups.iter().map(|group| u64::from(group.count)).sum::<u64>() > MOST_FLOWS {
        return Err(PlanError::Invalid("at most 10000 flows of cross traffic").at("cross_traffic"));
    }
    Ok(())
}

impl CrossPlan {
    /// Returns a message about the values that the kind requires and the group lacks.
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

    /// Returns the expected number of transfers within a plan's time; 0 for other kinds.
    fn expected_transfers(&self, plan: &Plan) -> u64 {
        let Some(gap) = self.gap_ns.filter(|_| self.kind == CrossKind::Transfers) else { return 0 };
        let run = plan.application.duration_ns.unwrap_or(plan.time_limit_ns);
        let left = run.min(plan.time_limit_ns).saturating_sub(self.start_ns);
        self.duration_ns.map_or(left, |span| span.min(left)) / gap.max(1)
    }

    /// Returns the congestion controller; `None` for datagrams.
    ///
    /// # Errors
    /// Returns an error for text that is not a plug-in choice.
    pub fn controller(&self) -> Result<Option<PluginChoice>, PlanError> {
        let text = self.congestion.as_deref().filter(|_| !self.kind.is_datagrams());
        text.map(choice).transpose().map_err(|error| error.at("congestion"))
    }

    /// Returns the client's configuration. The server's differs only in its ECN mode.
    ///
    /// The flows are plain TCP with the plan's buffers, segment size and ECN modes. MPTCP, pacing
    /// and the outage rule of `[transport]` apply only to the connections under study.
    ///
    /// # Errors
    /// Returns an error for an unknown profile, part of a profile or plug-in.
    pub fn config(&self, plan: &Plan, registry: &Registry) -> Result<Config, PlanError> {
        // The clients' configuration uses the same profile, so it was checked before.
        let whole = plan.transport.mechanisms()?;
        let tcp = TcpStack { outage: OutageRule::Kernel, outage_probe: true, ..whole.tcp };
        let stack = Stack { tcp, ..whole };
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
            send_fragment: plan.host.fragment(),
            one_processor: plan.host.one_processor,
            stack,
            registry: registry.clone(),
            ..Config::default()
        };
        let check = Seed { seed: 0, run: 0 }.stream("check");
        congestion::build(&config.congestion, registry, check)
            .map_err(|error| PlanError::from(error).at("congestion"))?;
        Ok(config)
    }

    /// Returns the start of each flow, from the start of the run. The first flow starts at `start_ns`, and
    /// the others within the second after it.
    pub fn starts(&self, seed: Seed) -> Vec<Duration> {
        let mut stream = seed.stream(&format!("cross_traffic.{}.start", self.name));
        let first = Duration::from_nanos(self.start_ns);
        (0..self.count)
            .map(|number| if number == 0 { 0.0 } else { stream.uniform() })
            .map(|offset| first + Duration::from_secs_f64(offset))
            .collect()
    }
}
