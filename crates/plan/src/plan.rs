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
use anabranch_transport::profile::{self, OutageRule, PARTS, PROFILES};
use anabranch_transport::{EcnMode, HostModel, RTO_MAX_DEFAULT, RTO_MAX_LEAST, Stack};
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
pub use strips::{SegmentKind, StripsPlan};

pub use events::Happening;

use crate::fault::PlanError;

/// Everything one run needs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The scenario's name.
    pub scenario: String,
    /// The experiment's seed.
    pub seed: u64,
    /// The run under that seed.
    pub run: u64,
    /// Clients, all over the same links; each beyond the first starts within the first second.
    #[serde(default = "one")]
    pub clients: u32,
    /// What is transferred.
    pub application: ApplicationPlan,
    /// The film, for progressive playback.
    #[serde(default)]
    pub film: Option<FilmPlan>,
    /// The ladder, for adaptive playback.
    #[serde(default)]
    pub ladder: Option<LadderPlan>,
    /// The endpoints.
    pub transport: TransportPlan,
    /// What hosts add.
    #[serde(default)]
    pub host: HostPlan,
    /// One-way links.
    pub links: Vec<LinkPlan>,
    /// Paths in order; the first carries the initial subflow.
    pub paths: Vec<PathPlan>,
    /// Background TCP flows, a group an element.
    #[serde(default)]
    pub cross_traffic: Vec<CrossPlan>,
    /// Changes of links and interfaces, by time.
    #[serde(default)]
    pub events: Vec<EventPlan>,
    /// What else is written into the trace; the run is the same.
    #[serde(default)]
    pub record: Vec<RecordPlan>,
    /// When the run ends at the latest.
    pub time_limit_ns: u64,
}

/// What is written into the trace on request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecordPlan {
    /// Each data segment's departure and arrival, and what clients hold of what has come.
    Receiver,
}

const fn one() -> u32 {
    1
}

/// What is transferred.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApplicationPlan {
    /// Which application.
    pub kind: ApplicationKind,
    /// Sending rate of a paced application.
    #[serde(default)]
    pub rate_bps: Option<u64>,
    /// How long bulk and paced send, from the connect; progressive is cut off.
    #[serde(default)]
    pub duration_ns: Option<u64>,
    /// How much bulk and paced send.
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
    /// As fast as the transport takes it.
    Bulk,
    /// At a constant rate, in pieces every 10 ms.
    Paced,
}

impl ApplicationKind {
    /// The client asks for files.
    pub const fn is_http(self) -> bool {
        matches!(self, Self::Progressive | Self::Adaptive)
    }
}

/// Where the film comes from.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FilmPlan {
    /// Made up.
    Synthetic(SyntheticFilm),
    /// A probed file.
    Recorded(RecordedFilm),
}

/// The endpoints' configuration.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransportPlan {
    /// MPTCP, or plain TCP over the first path.
    #[serde(default = "yes")]
    pub multipath: bool,
    /// A scheduler's name and parameters, as JSON or a bare name.
    pub scheduler: String,
    /// A controller's.
    pub congestion: String,
    /// A path manager's.
    pub path_manager: String,
    /// `tcp_rmem[1]`, bytes.
    pub receive_buffer_initial: u64,
    /// `tcp_rmem[2]`, bytes.
    pub receive_buffer_max: u64,
    /// `tcp_wmem[2]`, bytes.
    pub send_buffer_max: u64,
    /// Maximum segment size, bytes.
    pub mss: u16,
    /// DSS checksums.
    #[serde(default)]
    pub checksum: bool,
    /// Pace every subflow.
    #[serde(default)]
    pub pacing: bool,
    /// Explicit congestion notification.
    #[serde(default)]
    pub ecn: EcnPlan,
    /// The kernel generation.
    #[serde(default = "default_profile")]
    pub profile: String,
    /// Parts of it that are switched off, or on again.
    #[serde(default)]
    pub stack: BTreeMap<String, bool>,
    /// How the acknowledgements after an outage are judged, by name; absent: as by the kernel.
    #[serde(default)]
    pub outage: Option<String>,
    /// The longest retransmission timeout; absent: the kernel's.
    #[serde(default)]
    pub rto_max_ns: Option<u64>,
    /// Retransmission timeouts in a row that end a subflow; absent: as many as last as long as the kernel's.
    #[serde(default)]
    pub retries: Option<u16>,
    /// The client opens its connections by a race over the paths, with this time between two attempts; absent: over the
    /// first path.
    #[serde(default)]
    pub attempt_delay_ns: Option<u64>,
}

/// What the hosts do with explicit congestion notification; those of cross traffic do the same.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EcnPlan {
    /// Those that open connections.
    pub client: EcnWord,
    /// Those that accept them.
    pub server: EcnWord,
}

/// What a host does with it; see [`EcnMode`].
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
    /// As the endpoint has it.
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
    /// The mechanisms of the profile, its parts switched, with the rule for outages.
    ///
    /// # Errors
    /// Names that no profile, part or rule has.
    pub fn mechanisms(&self) -> Result<Stack, PlanError> {
        let unknown = |name: &String| PlanError::UnknownProfile(name.clone()).at("profile");
        let whole = profile::named(&self.profile).ok_or_else(|| unknown(&self.profile))?.stack;
        let mut stack = whole;
        for (name, on) in &self.stack {
            let part = PARTS.iter().find(|part| part.name == name);
            let unknown = || PlanError::UnknownPart(name.clone()).at(&**name).at("stack");
            part.ok_or_else(unknown)?.switch(&mut stack, &whole, *on);
        }
        Ok(Stack { outage: self.outage()?, ..stack })
    }

    /// How the acknowledgements after an outage are judged.
    ///
    /// # Errors
    /// A name that no rule has.
    fn outage(&self) -> Result<OutageRule, PlanError> {
        let unknown = || PlanError::Invalid("must be kernel, timeouts or dsack").at("outage");
        self.outage
            .as_deref()
            .map_or(Ok(OutageRule::Kernel), |name| OutageRule::named(name).ok_or_else(unknown))
    }

    /// The longest retransmission timeout.
    ///
    /// # Errors
    /// One that Linux does not have.
    pub fn rto_max(&self) -> Result<Duration, PlanError> {
        let given = self.rto_max_ns.map_or(RTO_MAX_DEFAULT, Duration::from_nanos);
        if (RTO_MAX_LEAST..=RTO_MAX_DEFAULT).contains(&given) {
            Ok(given)
        } else {
            Err(PlanError::Invalid("must be from 1 s to 120 s").at("rto_max_ns"))
        }
    }

    /// The retransmission timeouts in a row that end a subflow, where a number is given.
    ///
    /// # Errors
    /// None at all, which would end a subflow at its first loss, or more than last for hours.
    pub fn retries(&self) -> Result<Option<u16>, PlanError> {
        match self.retries {
            Some(0) => Err(PlanError::Invalid("must be at least 1").at("retries")),
            Some(more) if more > limits::MOST_RETRIES => {
                Err(PlanError::Invalid("must be at most 10,000").at("retries"))
            }
            retries => Ok(retries),
        }
    }

    /// The time between two attempts to connect, if the client races over its paths.
    ///
    /// # Errors
    /// One outside the range of RFC 8305.
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

/// What a host adds to the protocol; see [`HostModel`].
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HostPlan {
    /// Timers fire on multiples of it.
    pub timer_tick_ns: u64,
    /// Length of the pieces that written data is kept in.
    pub send_fragment: u64,
    /// Memory a send buffer grows by for each segment of the window.
    pub send_memory_per_segment: u64,
    /// Memory of a socket buffer on the send queue besides its payload.
    pub send_memory_per_buffer: u64,
    /// Memory of a received full segment.
    pub receive_memory_per_segment: u64,
    /// Programs and packets share one processor.
    pub one_processor: bool,
    /// Where in a tick of the hosts' clocks the world begins; drawn where there is none.
    pub clock_phase_ns: Option<u64>,
}

impl Default for HostPlan {
    fn default() -> Self {
        let host = HostModel::default();
        Self {
            timer_tick_ns: host.timer_tick.as_nanos(),
            send_fragment: host.send_fragment,
            send_memory_per_segment: host.send_memory_per_segment,
            send_memory_per_buffer: host.send_memory_per_buffer,
            receive_memory_per_segment: host.receive_memory_per_segment,
            one_processor: host.one_processor,
            clock_phase_ns: None,
        }
    }
}

impl HostPlan {
    /// Each value under its key.
    pub fn named(self) -> [(&'static str, u64); 5] {
        [
            ("timer_tick_ns", self.timer_tick_ns),
            ("send_fragment", self.send_fragment),
            ("send_memory_per_segment", self.send_memory_per_segment),
            ("send_memory_per_buffer", self.send_memory_per_buffer),
            ("receive_memory_per_segment", self.receive_memory_per_segment),
        ]
    }

    /// As the transport takes it; lengths that something is divided by are at least one byte.
    pub fn model(&self) -> HostModel {
        HostModel {
            timer_tick: Duration::from_nanos(self.timer_tick_ns),
            send_fragment: self.send_fragment.max(1),
            send_memory_per_segment: self.send_memory_per_segment,
            send_memory_per_buffer: self.send_memory_per_buffer,
            receive_memory_per_segment: self.receive_memory_per_segment.max(1),
            one_processor: self.one_processor,
        }
    }
}

impl Plan {
    /// Every MTU is one that a link can have, and one that IPv6 can use where it crosses the link.
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

    /// Every event is of a link or a path that there is.
    ///
    /// # Errors
    /// The first that is not.
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

    /// A path or a background flow of IPv6 crosses the link.
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

    /// A link has an MTU, or may get one.
    pub fn bounds_packets(&self) -> bool {
        let gets = |event: &EventPlan| matches!(event.change, Some(ChangePlan::Mtu(_)));
        self.links.iter().any(|link| link.mtu.is_some()) || self.events.iter().any(gets)
    }

    /// Whether a link lets some packets through with another payload than they had.
    pub fn changes_payload(&self) -> bool {
        self.links.iter().any(LinkPlan::changes_payload)
    }

    /// Reads a plan.
    ///
    /// # Errors
    /// Anything that is not a plan; references and ranges are checked when it runs.
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
            let Some(adaptive) =
                plan.application.adaptive.as_ref().filter(|_| plan.ladder.is_some())
            else {
                return Err(
                    invalid("adaptive playback needs a ladder and a rule").at("application")
                );
            };
            adaptive.check().map_err(|error| error.at("adaptive").at("application"))?;
        }
        cross::check(&plan)?;
        Ok(plan)
    }
}
