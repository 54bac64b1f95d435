//! The plan: a scenario with every unit resolved (docs/plan-and-trace.md).

use anabranch_link::{Change, ConfigError, LinkConfig, LossAt, LossModel, QueueLimit};
use anabranch_media::{
    PlayerConfig, RecordedFilm, RecordedFilmError, SyntheticFilm, SyntheticFilmError,
};
use anabranch_transport::HostModel;
use anabranch_transport::plugin::PluginError;
use anabranch_units::{Duration, Rate};
use serde::Deserialize;
use thiserror::Error;

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
    /// The endpoints.
    pub transport: TransportPlan,
    /// What hosts add.
    #[serde(default)]
    pub host: HostPlan,
    /// One-way links.
    pub links: Vec<LinkPlan>,
    /// Paths in order; the first carries the initial subflow.
    pub paths: Vec<PathPlan>,
    /// Changes of links and interfaces, by time.
    #[serde(default)]
    pub events: Vec<EventPlan>,
    /// When the run ends at the latest.
    pub time_limit_ns: u64,
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
    /// The player.
    #[serde(default)]
    pub player: PlayerConfig,
}

/// The kinds of application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ApplicationKind {
    /// A film over HTTP, played while it arrives.
    Progressive,
    /// As fast as the transport takes it.
    Bulk,
    /// At a constant rate, in pieces every 10 ms.
    Paced,
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
        }
    }
}

impl HostPlan {
    /// As the transport takes it; lengths that something is divided by are at least one byte.
    pub(crate) fn model(&self) -> HostModel {
        HostModel {
            timer_tick: Duration::from_nanos(self.timer_tick_ns),
            send_fragment: self.send_fragment.max(1),
            send_memory_per_segment: self.send_memory_per_segment,
            send_memory_per_buffer: self.send_memory_per_buffer,
            receive_memory_per_segment: self.receive_memory_per_segment.max(1),
        }
    }
}

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
}

/// An event: a change of a link, or of the clients' interfaces on a path.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventPlan {
    /// When, from the world's beginning.
    pub at_ns: u64,
    /// Which link, with `change`.
    #[serde(default)]
    pub link: Option<String>,
    /// What changes of it.
    #[serde(default)]
    pub change: Option<ChangePlan>,
    /// Or which path, with `interface`.
    #[serde(default)]
    pub path: Option<String>,
    /// What becomes of the clients' interfaces on it.
    #[serde(default)]
    pub interface: Option<InterfacePlan>,
}

/// What an event does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Happening<'a> {
    /// A link changes.
    Link(&'a str, ChangePlan),
    /// The clients' interfaces on a path change.
    Interface(&'a str, InterfacePlan),
}

impl EventPlan {
    /// What the event does; `None` when it names not exactly one thing.
    pub(crate) fn happening(&self) -> Option<Happening<'_>> {
        match (self.link.as_deref(), self.change, self.path.as_deref(), self.interface) {
            (Some(link), Some(change), None, None) => Some(Happening::Link(link, change)),
            (None, None, Some(path), Some(what)) => Some(Happening::Interface(path, what)),
            _ => None,
        }
    }
}

/// What becomes of a network interface of the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InterfacePlan {
    /// It goes down: what is sent fails at once, what arrives is not taken. The subflows stay.
    Down,
    /// It goes down and its MPTCP end point is removed, which the peer is told.
    Removed,
    /// It is back; an end point that was removed is added again.
    Up,
}

impl InterfacePlan {
    /// Its name in the table of events: a scenario's `state`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Down => "link-down",
            Self::Removed => "removed",
            Self::Up => "up",
        }
    }
}

/// What changes.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangePlan {
    /// The rate.
    RateBps(u64),
    /// The delay.
    DelayNs(u64),
    /// The loss model.
    Loss(Option<LossPlan>),
    /// The link goes down.
    Down,
    /// The link comes up.
    Up,
}

/// What is wrong with a plan.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A film that is not one.
    #[error("film: {0}")]
    Film(#[from] RecordedFilmError),
    /// Not the JSON of a plan.
    #[error("plan: {0}")]
    Json(#[from] serde_json::Error),
    /// A link's parameters.
    #[error("link: {0}")]
    Link(#[from] ConfigError),
    /// A value is missing or out of range.
    #[error("{0}")]
    Invalid(&'static str),
    /// A plug-in's name or parameters.
    #[error("{what}: {error}")]
    Plugin {
        /// Which kind of plug-in.
        what: &'static str,
        /// What is wrong.
        error: PluginError,
    },
    /// A synthetic film's parameters.
    #[error("film: {0}")]
    Synthetic(#[from] SyntheticFilmError),
    /// A name that no link has.
    #[error("unknown link: `{0}`")]
    UnknownLink(String),
    /// A name that no path has.
    #[error("unknown path: `{0}`")]
    UnknownPath(String),
}

impl Plan {
    /// Reads a plan.
    ///
    /// # Errors
    /// Anything that is not a plan; references and ranges are checked when it runs.
    pub fn from_json(text: &str) -> Result<Self, PlanError> {
        let plan: Self = serde_json::from_str(text)?;
        if plan.paths.is_empty() {
            return Err(PlanError::Invalid("a plan needs a path"));
        }
        if plan.clients == 0 || plan.clients > 10_000 {
            return Err(PlanError::Invalid("clients must be 1 to 10000"));
        }
        if plan.paths.len() > 8 {
            return Err(PlanError::Invalid("at most 8 paths"));
        }
        if plan.paths.iter().any(|path| path.down.is_empty() || path.up.is_empty()) {
            return Err(PlanError::Invalid("a path needs a link in each direction"));
        }
        if plan.application.kind == ApplicationKind::Progressive && plan.film.is_none() {
            return Err(PlanError::Invalid("progressive playback needs a film"));
        }
        if plan.application.kind == ApplicationKind::Paced && plan.application.rate_bps.is_none() {
            return Err(PlanError::Invalid("a paced application needs a rate"));
        }
        if plan.events.iter().any(|event| event.happening().is_none()) {
            return Err(PlanError::Invalid("an event changes a link or a path's interface"));
        }
        Ok(plan)
    }
}

impl LossPlan {
    fn model(self) -> LossModel {
        match self {
            Self::Bernoulli(p) => LossModel::Bernoulli(p),
            Self::GilbertElliott { p, r, h, k } => LossModel::GilbertElliott { p, r, h, k },
        }
    }
}

impl LinkPlan {
    /// The link's configuration.
    pub(crate) fn config(&self) -> LinkConfig {
        LinkConfig {
            name: self.name.clone(),
            rate: self.rate_bps.map_or(Rate::UNLIMITED, Rate::from_bps),
            queue: match self.queue {
                None => QueueLimit::Unlimited,
                Some(QueuePlan::Packets(n)) => QueueLimit::Packets(n),
                Some(QueuePlan::Bytes(n)) => QueueLimit::Bytes(n),
            },
            delay: Duration::from_nanos(self.delay_ns),
            jitter: Duration::from_nanos(self.jitter_ns),
            loss: self.loss.map(LossPlan::model),
            loss_at: match self.loss_at {
                LossAtPlan::Exit => LossAt::Exit,
                LossAtPlan::Entry => LossAt::Entry,
            },
        }
    }
}

impl ChangePlan {
    pub(crate) fn change(self) -> Change {
        match self {
            Self::RateBps(bps) => Change::Rate(Rate::from_bps(bps)),
            Self::DelayNs(ns) => Change::Delay(Duration::from_nanos(ns)),
            Self::Loss(loss) => Change::Loss(loss.map(LossPlan::model)),
            Self::Down => Change::Down,
            Self::Up => Change::Up,
        }
    }

    pub(crate) fn describe(self) -> String {
        match self {
            Self::RateBps(bps) => format!("rate {bps} bit/s"),
            Self::DelayNs(ns) => format!("delay {} ms", ns as f64 / 1e6),
            Self::Loss(_) => "loss".to_owned(),
            Self::Down => "down".to_owned(),
            Self::Up => "up".to_owned(),
        }
    }
}
