//! Path schedulers: the trait, what they see, and the table of names.
//!
//! The core asks on every write, acknowledgement and released buffer, again and again until the
//! answer is `Wait`. Eligibility lives in two predicates of the view, not in each scheduler:
//! `can_send` (window space now) and `can_queue` (send-buffer space; data waits in the subflow).

mod linux;
mod linux_6_1;
mod min_rtt;
mod redundant;
mod round_robin;
mod rtx_aware;

use std::fmt;

use anabranch_units::{Duration, Instant, Rate, SubflowId};

use crate::congestion::CongestionState;
use crate::plugin::{ParameterInfo, Parameters, PluginChoice, PluginError, PluginName, Registry};

pub use linux::LeastLinger;
pub use linux_6_1::KeptBurst;
pub use min_rtt::MinRtt;
pub use redundant::Redundant;
pub use round_robin::RoundRobin;
pub use rtx_aware::RtxAware;

/// What a scheduler may know of a subflow.
#[derive(Clone, Copy, Debug)]
pub struct SubflowView {
    /// Which subflow.
    pub id: SubflowId,
    /// Smoothed RTT; zero before the first sample.
    pub srtt: Duration,
    /// RTT variation (the mean deviation Linux keeps in `rttvar`).
    pub rttvar: Duration,
    /// Minimum RTT.
    pub min_rtt: Duration,
    /// Congestion window in segments.
    pub cwnd: u32,
    /// Slow-start threshold in segments.
    pub ssthresh: u32,
    /// Segments in flight.
    pub in_flight: u32,
    /// Bytes handed to the subflow and not sent yet.
    pub queued_bytes: u64,
    /// Memory of all data written and not acknowledged (`wmem_queued`), bytes.
    pub queued_memory: u64,
    /// The send buffer, bytes.
    pub send_buffer: u64,
    /// Payload bytes of a full segment.
    pub mss: u32,
    /// Pacing rate (an estimate even when not enforced).
    pub pacing_rate: Rate,
    /// Delivery rate, the last valid sample.
    pub delivery_rate: Rate,
    /// Congestion state.
    pub state: CongestionState,
    /// Either side declared it a backup.
    pub backup: bool,
    /// Connection-level retransmission found it without progress.
    pub stale: bool,
    /// The handshake is complete in both directions: data may be sent.
    pub established: bool,
    /// When the last acknowledgement arrived.
    pub last_ack: Instant,
}

impl SubflowView {
    /// Segments that the window lets out now, counting what is queued.
    pub fn window_space(&self) -> u32 {
        // Most often nothing is queued, and a division is not for free.
        let queued = match self.queued_bytes {
            0 => 0,
            bytes => bytes.div_ceil(u64::from(self.mss)) as u32,
        };
        self.cwnd.saturating_sub(self.in_flight + queued)
    }

    /// The subflow can take a segment for immediate transmission: the rule of the out-of-tree
    /// kernel and the papers' schedulers (`mptcp_is_available`): not in Loss, window space.
    pub fn can_send(&self) -> bool {
        self.established
            && !self.stale
            && self.state != CongestionState::Loss
            && self.window_space() > 0
    }

    /// The subflow's send buffer has room: upstream's rule (`sk_stream_memory_free`).
    pub fn can_queue(&self) -> bool {
        self.established && !self.stale && self.queued_memory < self.send_buffer
    }
}

/// What is asked of the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Where the next unscheduled data should go.
    NewData,
    /// Where data already sent elsewhere should go again; bytes `[from, to)` of the data stream.
    Reinject {
        /// First byte.
        from: u64,
        /// Behind the last byte.
        to: u64,
        /// The subflows that carried it.
        carried_by: SubflowSet,
    },
    /// The connection-level window is full: the head of line is at `head`.
    WindowBlocked {
        /// First unacknowledged byte.
        head: u64,
    },
    /// Nothing is unscheduled; a scheduler may still repeat data.
    Idle,
}

/// A question to the scheduler. Positions count bytes of the data stream from 0.
#[derive(Clone, Copy, Debug)]
pub struct SendRequest {
    /// When.
    pub now: Instant,
    /// What.
    pub ask: Ask,
    /// First byte not acknowledged at data level.
    pub data_una: u64,
    /// First byte not scheduled yet.
    pub data_next: u64,
    /// Behind the last byte written by the application.
    pub data_end: u64,
    /// Behind the last byte the connection-level window admits.
    pub window_end: u64,
    /// Length of the pieces that written data is kept in ([`HostModel::send_fragment`]).
    ///
    /// [`HostModel::send_fragment`]: crate::HostModel::send_fragment
    pub fragment: u64,
}

impl SendRequest {
    /// Bytes written and not scheduled.
    pub const fn unscheduled(&self) -> u64 {
        self.data_end - self.data_next
    }

    /// `burst` bytes from the next unscheduled one, and on to the end of the piece they end in as far
    /// as the window goes: upstream Linux looks at its burst only between pieces
    /// (`__subflow_push_pending`).
    pub fn whole_fragments(&self, burst: u64) -> u64 {
        let end = (self.data_next + burst).next_multiple_of(self.fragment);
        (end - self.data_next).min(self.window_left())
    }

    /// Bytes the connection-level window still admits.
    pub const fn window_left(&self) -> u64 {
        self.window_end.saturating_sub(self.data_next)
    }
}

/// A set of subflows; two in it is redundancy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubflowSet(u128);

impl SubflowSet {
    /// No subflow.
    pub const EMPTY: Self = Self(0);

    /// A set of one.
    pub const fn one(id: SubflowId) -> Self {
        Self(1 << id.0)
    }

    /// With `id` in it.
    #[must_use]
    pub const fn with(self, id: SubflowId) -> Self {
        Self(self.0 | 1 << id.0)
    }

    /// True when `id` is in it.
    pub const fn contains(self, id: SubflowId) -> bool {
        self.0 & (1 << id.0) != 0
    }

    /// True when nothing is in it.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The members, ascending.
    pub fn iter(self) -> impl Iterator<Item = SubflowId> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let id = (left != 0).then(|| SubflowId(left.trailing_zeros() as u8))?;
            left &= left - 1;
            Some(id)
        })
    }
}

/// The scheduler's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing goes out now; ask again when something happens, or at `until`.
    Wait {
        /// When to ask again at the latest.
        until: Option<Instant>,
    },
    /// Send up to `burst` bytes.
    Send {
        /// On these subflows; members that cannot take data are skipped.
        on: SubflowSet,
        /// From this byte of the data stream; `None` is the next unscheduled one.
        from: Option<u64>,
        /// At most so many bytes before the next question.
        burst: u64,
    },
}

impl Decision {
    /// Wait until something happens.
    pub const WAIT: Self = Self::Wait { until: None };

    /// The next unscheduled data on one subflow.
    pub const fn next_on(id: SubflowId, burst: u64) -> Self {
        Self::Send { on: SubflowSet::one(id), from: None, burst }
    }
}

/// A path scheduler: one per connection.
pub trait PathScheduler: fmt::Debug + Send {
    /// The name in the table.
    fn name(&self) -> &'static str;

    /// Chooses. `subflows` holds every established subflow, in order of creation.
    fn schedule(&mut self, request: &SendRequest, subflows: &[SubflowView]) -> Decision;

    /// `bytes` of the data stream from `from` were handed to a subflow.
    fn on_sent(&mut self, _id: SubflowId, _from: u64, _bytes: u64) {}

    /// Everything before `data_una` is acknowledged at data level.
    fn on_data_ack(&mut self, _now: Instant, _data_una: u64) {}

    /// A subflow was penalised.
    fn on_penalised(&mut self, _id: SubflowId) {}

    /// The scheduler reads `Ask::Idle` and `Ask::WindowBlocked` questions.
    fn wants_idle(&self) -> bool {
        false
    }
}

/// The subflows to choose among: the regular ones, or the backups when there is no regular one
/// (RFC 8684 section 3.3.8).
pub fn candidates(subflows: &[SubflowView]) -> impl Iterator<Item = &SubflowView> {
    let regular = subflows.iter().any(|s| !s.backup && s.established && !s.stale);
    subflows.iter().filter(move |s| s.backup != regular)
}

type Build = fn(&mut Parameters<'_>) -> Box<dyn PathScheduler>;

/// The table of names: a scheduler is one file and one line here (and one for each other name).
const TABLE: &[(PluginName, Build)] = &[
    (
        PluginName::new(
            "min-rtt",
            "Smallest srtt among the subflows with window space (SD18 section V, as printed).",
        ),
        MinRtt::build,
    ),
    (PluginName::new("spd", "The papers' name for min-rtt: shortest packet delay."), MinRtt::build),
    (
        PluginName::new(
            "linux",
            "Upstream Linux since 6.6: least linger time, re-decided at every push.",
        ),
        LeastLinger::build,
    ),
    (
        PluginName::new(
            "linux-6.1",
            "Linux 6.1: least linger time, each choice kept for a burst of 64 KiB.",
        ),
        KeptBurst::build,
    ),
    (
        PluginName::new("round-robin", "Subflows in turn, skipping those without window space."),
        RoundRobin::build,
    ),
    (
        PluginName::new("redundant", "Every subflow carries all data, each from its own position."),
        Redundant::build,
    ),
    (
        PluginName::new(
            "rtx-aware",
            "Leaves out subflows that retransmit, then its base decides (SD18 section V).",
        ),
        RtxAware::build,
    ),
];

/// Every scheduler's name with the first sentence of its documentation.
pub fn names() -> impl Iterator<Item = PluginName> {
    TABLE.iter().map(|(name, _)| *name)
}

/// Builds a scheduler from its name and its own parameters.
///
/// # Errors
/// Unknown names, and every parameter that does not do.
pub fn build(
    choice: &PluginChoice,
    registry: &Registry,
) -> Result<Box<dyn PathScheduler>, PluginError> {
    construct(choice, registry).map(|(built, _)| built)
}

/// The parameters of the scheduler called `name`.
///
/// # Errors
/// Unknown names.
pub fn parameters(name: &str) -> Result<Vec<ParameterInfo>, PluginError> {
    construct(&PluginChoice::named(name), &Registry::TABLES).map(|(_, parameters)| parameters)
}

/// The scheduler that another one builds on: its parameter `base`.
fn base(parameters: &mut Parameters<'_>, default: &str) -> Box<dyn PathScheduler> {
    let choice = parameters.base(default);
    build(&choice, parameters.registry()).unwrap_or_else(|error| {
        parameters.adopt("base", error);
        Box::new(MinRtt)
    })
}

fn construct(
    choice: &PluginChoice,
    registry: &Registry,
) -> Result<(Box<dyn PathScheduler>, Vec<ParameterInfo>), PluginError> {
    let Some((_, build)) = TABLE.iter().find(|(known, _)| known.name == choice.name) else {
        let foreign = registry.foreign().and_then(|foreign| foreign.scheduler(choice));
        let unknown = || Err(PluginError::unknown_name("scheduler", &choice.name, names()));
        return Ok((foreign.unwrap_or_else(unknown)?, Vec::new()));
    };
    let mut parameters = Parameters::new(choice, registry);
    let plugin = build(&mut parameters);
    Ok((plugin, parameters.finish()?))
}
