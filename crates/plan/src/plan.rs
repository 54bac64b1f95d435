//! The plan: a scenario with every unit resolved (docs/plan-and-trace.md).

mod adaptive;
mod cross;
mod events;
mod limits;
mod links;
mod models;
mod strips;

use std::collections::BTreeMap;

use anabranch_media::{PlayerConfig, RecordedFilm, SyntheticFilm};
use anabranch_mptcp::profile::{self, OutageRule, PARTS, PROFILES};
use anabranch_mptcp::{
    EcnMode, HostModel, RTO_MAX_DEFAULT, RTO_MAX_LEAST, SEND_FRAGMENT_DEFAULT, Stack,
};
use anabranch_units::Duration;
use serde::Deserialize;

pub use adaptive::{AdaptivePlan, LadderPlan, resolve_ladder};
pub use cross::{CrossKind, CrossPlan};
pub use events::{ChangePlan, EventPlan, InterfacePlan};
pub use limits::LIMITS;
pub use links::{
    DisciplinePlan, EmulatorPlan, Family, LinkPlan, LossAtPlan, LossPlan, PathPlan, QueuePlan,
    ReorderPlan,
};
pub use models::*;
pub use strips::{SegmentKind, StripsPlan, is_mptcp_syn};

pub use events::Happening;

use crate::fault::PlanError;

/// The complete input of one run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The scenario's name.
    pub scenario: String,
    /// The seed of the experiment.
    pub seed: u64,
    /// The number of the run with this seed.
    pub run: u64,
    /// The number of clients. All of them use the same links. The first client starts at once, and the others
    /// start within the first second.
    #[serde(default = "one")]
    pub clients: u32,
    /// The application.
    pub application: ApplicationPlan,
    /// The film for progressive playback.
    #[serde(default)]
    pub film: Option<FilmPlan>,
    /// The ladder for adaptive playback.
    #[serde(default)]
    pub ladder: Option<LadderPlan>,
    /// The configuration of the endpoints.
    pub transport: TransportPlan,
    /// The properties of hosts that are not part of the protocol.
    #[serde(default)]
    pub host: HostPlan,
    /// The one-way links.
    pub links: Vec<LinkPlan>,
    /// The paths in order. The first one carries the initial subflow.
    pub paths: Vec<PathPlan>,
    /// Background flows, one element per group.
    #[serde(default)]
    pub cross_traffic: Vec<CrossPlan>,
    /// Changes of links and interfaces with their times.
    #[serde(default)]
    pub events: Vec<EventPlan>,
    /// Additional tables of the trace. They do not affect the run.
    #[serde(default)]
    pub record: Vec<RecordPlan>,
    /// The time limit of the run.
    pub time_limit_ns: u64,
}

/// An additional record in the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecordPlan {
    /// The tables `departures` and `arrivals` of data segments, and the table `receivers` of the clients'
    /// receive buffers.
    Receiver,
}

const fn one() -> u32 {
    1
}

/// The application of a plan.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApplicationPlan {
    /// The kind of application.
    pub kind: ApplicationKind,
    /// The sending rate of a paced application.
    #[serde(default)]
    pub rate_bps: Option<u64>,
    /// The time for which bulk and paced applications send, from the start of the connection. A player stops
    /// after this time.
    #[serde(default)]
    pub duration_ns: Option<u64>,
    /// The number of bytes that bulk and paced applications send.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// The progressive player.
    #[serde(default)]
    pub player: PlayerConfig,
    /// The adaptive player and its rule.
    #[serde(default)]
    pub adaptive: Option<AdaptivePlan>,
}

/// The kinds of application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ApplicationKind {
    /// A film over HTTP, played while it arrives.
    Progressive,
    /// A film in chunks over HTTP, each in the rendition that a rule chooses.
    Adaptive,
    /// Sends as fast as the transport accepts data.
    Bulk,
    /// Sends at a constant rate, with a write every 10 ms.
    Paced,
}

impl ApplicationKind {
    /// Returns whether the client requests files by HTTP.
    pub const fn is_http(self) -> bool {
        matches!(self, Self::Progressive | Self::Adaptive)
    }
}

/// The source of the film.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FilmPlan {
    /// A generated film.
    Synthetic(SyntheticFilm),
    /// A probed file.
    Recorded(RecordedFilm),
}

/// The endpoints' configuration.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransportPlan {
    /// Whether connections use MPTCP; otherwise plain TCP over the first path.
    #[serde(default = "yes")]
    pub multipath: bool,
    /// The scheduler: name and parameters as JSON, or a name only.
    pub scheduler: String,
    /// The congestion controller, in the same form.
    pub congestion: String,
    /// The path manager, in the same form.
    pub path_manager: String,
    /// Initial receive buffer in bytes (`tcp_rmem[1]`).
    pub receive_buffer_initial: u64,
    /// Maximum receive buffer in bytes (`tcp_rmem[2]`).
    pub receive_buffer_max: u64,
    /// Maximum send buffer in bytes (`tcp_wmem[2]`).
    pub send_buffer_max: u64,
    /// Maximum segment size in bytes.
    pub mss: u16,
    /// Whether the DSS carries checksums.
    #[serde(default)]
    pub checksum: bool,
    /// Whether every subflow is paced.
    #[serde(default)]
    pub pacing: bool,
    /// Explicit congestion notification.
    #[serde(default)]
    pub ecn: EcnPlan,
    /// The name of the kernel profile.
    #[serde(default = "default_profile")]
    pub profile: String,
    /// Mechanisms of the profile that are switched on or off, by name.
    #[serde(default)]
    pub stack: BTreeMap<String, bool>,
    /// The rule for acknowledgements after an outage; the kernel's rule if absent.
    #[serde(default)]
    pub outage: Option<String>,
    /// The longest retransmission timeout; the kernel's if absent.
    #[serde(default)]
    pub rto_max_ns: Option<u64>,
    /// The number of consecutive retransmission timeouts after which a subflow is closed. If absent, it
    /// follows from the kernel's time limit.
    #[serde(default)]
    pub retries: Option<u16>,
    /// The time between two connection attempts if the client races over its paths. If absent, the client
    /// connects over the first path without a race.
    #[serde(default)]
    pub attempt_delay_ns: Option<u64>,
}

/// The ECN modes of the hosts, including the hosts of cross traffic.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EcnPlan {
    /// The hosts that open connections.
    pub client: EcnWord,
    /// The hosts that accept connections.
    pub server: EcnWord,
}

/// The ECN mode of a host; see [`EcnMode`].
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "EcnMode says what each means")]
pub enum EcnWord {
    Off,
    Request,
    #[default]
    Accept,
}

impl EcnWord {
    /// Converts the mode to the endpoint's type.
    pub const fn mode(self) -> EcnMode {
        match self {
            Self::Off => EcnMode::Off,
            Self::Request => EcnMode::Request,
            Self::Accept => EcnMode::Accept,
        }
    }
}

fn default_profile() -> String {
    PROFILES[0].name.to_owned()
}

impl TransportPlan {
    /// Returns the mechanisms of the profile, with the switched parts and the outage rule.
    ///
    /// # Errors
    /// Returns an error for an unknown profile, part or rule.
    pub fn mechanisms(&self) -> Result<Stack, PlanError> {
        let unknown = |name: &String| PlanError::UnknownProfile(name.clone()).at("profile");
        let whole = profile::named(&self.profile).ok_or_else(|| unknown(&self.profile))?.stack;
        let mut stack = whole;
        for (name, on) in &self.stack {
            let part = PARTS.iter().find(|part| part.name == name);
            let unknown = || PlanError::UnknownPart(name.clone()).at(&**name).at("stack");
            part.ok_or_else(unknown)?.switch(&mut stack, &whole, *on);
        }
        stack.tcp.outage = self.outage()?;
        Ok(stack)
    }

    /// Returns the rule for acknowledgements after an outage.
    ///
    /// # Errors
    /// Returns an error for an unknown rule.
    fn outage(&self) -> Result<OutageRule, PlanError> {
        let unknown = || PlanError::Invalid("must be kernel, timeouts or dsack").at("outage");
        self.outage
            .as_deref()
            .map_or(Ok(OutageRule::Kernel), |name| OutageRule::named(name).ok_or_else(unknown))
    }

    /// Returns the longest retransmission timeout.
    ///
    /// # Errors
    /// Returns an error for a value outside Linux's range (1 s to 120 s).
    pub fn rto_max(&self) -> Result<Duration, PlanError> {
        let given = self.rto_max_ns.map_or(RTO_MAX_DEFAULT, Duration::from_nanos);
        if (RTO_MAX_LEAST..=RTO_MAX_DEFAULT).contains(&given) {
            Ok(given)
        } else {
            Err(PlanError::Invalid("must be from 1 s to 120 s").at("rto_max_ns"))
        }
    }

    /// Returns the number of consecutive retransmission timeouts after which a subflow is closed, if given.
    ///
    /// # Errors
    /// Returns an error for zero, which would end a subflow at its first loss, or more than 10,000.
    pub fn retries(&self) -> Result<Option<u16>, PlanError> {
        match self.retries {
            Some(0) => Err(PlanError::Invalid("must be at least 1").at("retries")),
            Some(more) if more > limits::MOST_RETRIES => {
                Err(PlanError::Invalid("must be at most 10,000").at("retries"))
            }
            retries => Ok(retries),
        }
    }

    /// Returns the time between two connection attempts if the client races over its paths.
    ///
    /// # Errors
    /// Returns an error for a value outside the range of RFC 8305.
    pub fn attempt_delay(&self) -> Result<Option<Duration>, PlanError> {
        let allowed = limits::LEAST_ATTEMPT_DELAY_NS..=limits::MOST_ATTEMPT_DELAY_NS;
        if self.attempt_delay_ns.is_none_or(|delay| allowed.contains(&delay)) {
            Ok(self.attempt_delay_ns.map(Duration::from_nanos))
        } else {
            Err(PlanError::Invalid("must be from 10 ms to 2 s").at("attempt_delay_ns"))
        }
    }
}

const fn yes() -> bool {
    true
}

/// The properties of a host that are not part of the protocol; see [`HostModel`] and
/// [`Config`](anabranch_mptcp::Config).
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HostPlan {
    /// The resolution of timers in nanoseconds. Timers fire at multiples of it.
    pub timer_tick_ns: u64,
    /// The size in bytes of the fragments in which written data is stored.
    pub send_fragment: u64,
    /// The growth of the send buffer per segment of the congestion window, in bytes.
    pub send_memory_per_segment: u64,
    /// The memory that a socket buffer in the send queue takes in addition to its payload, in bytes.
    pub send_memory_per_buffer: u64,
    /// The memory that a received full-size segment takes, in bytes.
    pub receive_memory_per_segment: u64,
    /// Whether applications and packet processing share one processor.
    pub one_processor: bool,
    /// The phase of the hosts' clock tick at the start of the run. If absent, it is drawn at
    /// random.
    pub clock_phase_ns: Option<u64>,
}

impl Default for HostPlan {
    fn default() -> Self {
        let host = HostModel::default();
        Self {
            timer_tick_ns: host.timer_tick.as_nanos(),
            send_fragment: SEND_FRAGMENT_DEFAULT,
            send_memory_per_segment: host.send_memory_per_segment,
            send_memory_per_buffer: host.send_memory_per_buffer,
            receive_memory_per_segment: host.receive_memory_per_segment,
            one_processor: false,
            clock_phase_ns: None,
        }
    }
}

impl HostPlan {
    /// Returns the settings by key, except the clock phase.
    pub fn named(self) -> [(&'static str, u64); 5] {
        [
            ("timer_tick_ns", self.timer_tick_ns),
            ("send_fragment", self.send_fragment),
            ("send_memory_per_segment", self.send_memory_per_segment),
            ("send_memory_per_buffer", self.send_memory_per_buffer),
            ("receive_memory_per_segment", self.receive_memory_per_segment),
        ]
    }

    /// Returns the length of the fragments of written data. It is at least one byte, because it is used as a
    /// divisor.
    pub fn fragment(&self) -> u64 {
        self.send_fragment.max(1)
    }

    /// Returns the model that TCP uses. Lengths that are used as divisors are at least one byte.
    pub fn model(&self) -> HostModel {
        HostModel {
            timer_tick: Duration::from_nanos(self.timer_tick_ns),
            send_memory_per_segment: self.send_memory_per_segment,
            send_memory_per_buffer: self.send_memory_per_buffer,
            receive_memory_per_segment: self.receive_memory_per_segment.max(1),
        }
    }
}

impl Plan {
    /// Checks that every MTU is allowed for its link. IPv6 requires a larger MTU if it crosses the link.
    fn check_mtus(&self) -> Result<(), PlanError> {
        let check = |mtu: u64, link: &str| {
            links::check_mtu(mtu, if self.carries_ipv6(link) { Family::Ipv6 } else { Family::Ipv4 })
        };
        for (index, link) in self.links.iter().enumerate() {
            let checked = link.mtu.map_or(Ok(()), |mtu| check(mtu, &link.name));
            checked.map_err(|error| error.at_element("links", index))?;
        }
        for (index, event) in self.events.iter().enumerate() {
            if let (Some(ChangePlan::Mtu(mtu)), Some(link)) = (event.change, &event.link) {
                let below = |error: PlanError| error.at("change").at_element("events", index);
                check(mtu, link).map_err(below)?;
            }
        }
        Ok(())
    }

    /// Checks that every event refers to an existing link or path.
    ///
    /// # Errors
    /// Returns an error for the first event that refers to none.
    pub fn check_events(&self) -> Result<(), PlanError> {
        for (index, event) in self.events.iter().enumerate() {
            let (key, error) = match event.happening() {
                Some(Happening::Link(name, _)) if !self.links.iter().any(|it| it.name == name) => {
                    ("link", PlanError::UnknownLink(name.to_owned()))
                }
                Some(Happening::Interface(name, _))
                    if !self.paths.iter().any(|it| it.name == name) =>
                {
                    ("path", PlanError::UnknownPath(name.to_owned()))
                }
                _ => continue,
            };
            return Err(error.at(key).at_element("events", index));
        }
        Ok(())
    }

    /// Returns whether a path or a background flow of IPv6 crosses the link.
    fn carries_ipv6(&self, link: &str) -> bool {
        let crosses = |family: Family, ways: [&Vec<String>; 2]| {
            family == Family::Ipv6 && ways.into_iter().flatten().any(|name| name == link)
        };
        self.paths.iter().any(|path| crosses(path.family, [&path.down, &path.up]))
            || self
                .cross_traffic
                .iter()
                .any(|flows| crosses(flows.family, [&flows.data, &flows.acks]))
    }

    /// Returns whether a link has an MTU, from the start or by an event.
    pub fn bounds_packets(&self) -> bool {
        let gets = |event: &EventPlan| matches!(event.change, Some(ChangePlan::Mtu(_)));
        self.links.iter().any(|link| link.mtu.is_some()) || self.events.iter().any(gets)
    }

    /// Returns whether a link delivers some packets with a changed payload.
    pub fn changes_payload(&self) -> bool {
        self.links.iter().any(LinkPlan::changes_payload)
    }

    /// Parses a plan.
    ///
    /// # Errors
    /// Returns an error for text that is not a plan. References between parts and some ranges are checked
    /// only when the plan runs.
    pub fn from_json(text: &str) -> Result<Self, PlanError> {
        let invalid = PlanError::Invalid;
        let plan: Self =
            serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_str(text))?;
        if plan.paths.is_empty() {
            return Err(invalid("a plan needs a path").at("paths"));
        }
        if plan.clients == 0 || plan.clients > limits::MOST_CLIENTS {
            return Err(invalid("clients must be 1 to 10000").at("clients"));
        }
        if plan.paths.len() > limits::MOST_PATHS {
            return Err(invalid("at most 8 paths").at("paths"));
        }
        if let Some(index) =
            plan.paths.iter().position(|path| path.down.is_empty() || path.up.is_empty())
        {
            return Err(invalid("a path needs a link in each direction").at_element("paths", index));
        }
        let kind = plan.application.kind;
        if kind == ApplicationKind::Progressive && plan.film.is_none() {
            return Err(invalid("progressive playback needs a film").at("film"));
        }
        if kind == ApplicationKind::Paced && plan.application.rate_bps.is_none() {
            let error = invalid("a paced application needs a rate");
            return Err(error.at("rate_bps").at("application"));
        }
        if let Some(index) = plan.events.iter().position(|event| event.happening().is_none()) {
            let error = invalid("an event changes a link or a path's interface");
            return Err(error.at_element("events", index));
        }
        plan.check_mtus()?;
        if kind == ApplicationKind::Adaptive {
            let is_whole = plan.application.adaptive.is_some() && plan.ladder.is_some();
            if !is_whole {
                return Err(
                    invalid("adaptive playback needs a ladder and a rule").at("application")
                );
            }
        }
        cross::check(&plan)?;
        Ok(plan)
    }
}
