//! What a link is made of.

use std::fmt;

use anabranch_plugin::{PluginChoice, PluginError};
use anabranch_units::{ByteCount, Duration, Rate};
use serde::Deserialize;

use crate::impairment::Impairments;
use crate::queue;
use crate::{Draws, LossModel, Queued};

/// The settings of one link.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkConfig {
    /// Unique within a scenario: it names the link's random streams.
    pub name: String,
    /// The bottleneck's rate; it counts every byte of a packet's size.
    pub rate: Rate,
    /// How much the queue before the bottleneck holds.
    pub queue: QueueLimit,
    /// Which kind of queue it is; drop-tail without one.
    pub discipline: Option<PluginChoice>,
    /// One-way propagation delay, behind the bottleneck.
    pub delay: Duration,
    /// Each packet is delayed by up to this much more, drawn evenly, but never past its
    /// predecessor: a packet that would overtake arrives together with the one before it.
    pub jitter: Duration,
    /// Random loss.
    pub loss: Option<LossModel>,
    /// On which side of the queue that loss strikes.
    pub loss_at: LossAt,
    /// What else befalls packets on the wire.
    pub impairments: Impairments,
    /// Where losses and jitter come from.
    pub draws: Draws,
}

impl LinkConfig {
    /// A link without jitter and loss.
    pub fn new(name: impl Into<String>, rate: Rate, queue: QueueLimit, delay: Duration) -> Self {
        Self {
            name: name.into(),
            rate,
            queue,
            discipline: None,
            delay,
            jitter: Duration::ZERO,
            loss: None,
            loss_at: LossAt::Exit,
            impairments: Impairments::NONE,
            draws: Draws::Streams,
        }
    }

    /// Whether a link can be built from these settings.
    ///
    /// # Errors
    ///
    /// When the queue has no room at all, there is no such queue, a probability lies outside [0, 1], or the
    /// emulator's draws are asked for on a link that is not [plain](Self::is_plain).
    pub fn check(&self) -> Result<(), ConfigError> {
        if matches!(self.queue, QueueLimit::Packets(0) | QueueLimit::Bytes(0)) {
            return Err(ConfigError::EmptyQueue);
        }
        if let Some(discipline) = &self.discipline {
            queue::check(discipline)?;
        }
        self.impairments.check()?;
        if self.draws != Draws::Streams && !self.is_plain() {
            return Err(ConfigError::Draws);
        }
        self.loss.map_or(Ok(()), LossModel::check)
    }

    /// Nothing but what can be worked out as a packet enters: drop-tail, and packets that keep their order
    /// and their number.
    pub fn is_plain(&self) -> bool {
        self.discipline.is_none() && self.impairments == Impairments::NONE
    }
}

/// How much a drop-tail queue holds, the packet in service included (so `Packets(1)` serves and
/// never waits).
///
/// A packet that would exceed the limit is dropped; smaller ones behind it may still fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueLimit {
    /// A number of bytes, the packet in service counted whole until it has left.
    Bytes(u64),
    /// A number of packets.
    Packets(u64),
    /// No limit.
    #[default]
    Unlimited,
}

impl QueueLimit {
    /// Whether `held` is more than a queue may hold.
    pub const fn is_exceeded(self, held: Queued) -> bool {
        match self {
            Self::Bytes(limit) => held.bytes.0 > limit,
            Self::Packets(limit) => held.packets > limit,
            Self::Unlimited => false,
        }
    }

    /// The limit's unit at text edges and its number; `None` without a limit.
    pub const fn named(self) -> Option<(&'static str, u64)> {
        match self {
            Self::Bytes(limit) => Some(("bytes", limit)),
            Self::Packets(limit) => Some(("packets", limit)),
            Self::Unlimited => None,
        }
    }

    /// Whether a queue that holds `held` may take in another packet, of `size`.
    pub fn admits(self, held: Queued, size: ByteCount) -> bool {
        !self.is_exceeded(held + size)
    }
}

/// Where the loss model strikes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LossAt {
    /// Before the queue, as Linux netem does: a lost packet takes neither room nor rate.
    Entry,
    /// Behind the queue: a lost packet has used the bottleneck's capacity.
    #[default]
    Exit,
}

/// Why a [`LinkConfig`] is refused.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ConfigError {
    /// The emulator's draws, on a link of another kind than its own.
    Draws,
    /// The queue holds nothing, so nothing could pass.
    EmptyQueue,
    /// A probability of the loss model, or of another impairment, lies outside [0, 1].
    Probability {
        /// The parameter's name.
        parameter: &'static str,
        /// What was given.
        value: f64,
    },
    /// An unknown kind of queue or parameter, or a value out of range.
    Queue(PluginError),
    /// A packet would be held back for no time, or none could be.
    Reorder,
    /// A mean rate of zero.
    Mean,
    /// A phase of an epoch or longer.
    Phase,
    /// A recording that is empty, goes back, does not begin at 0, or never serves.
    Trace,
    /// An 802.11 standard has no such rate, width or number of streams.
    Wifi,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Draws => write!(
                f,
                "an emulator's seed is for a set rate behind drop-tail, without reordering, copies or corruption"
            ),
            Self::EmptyQueue => write!(f, "a queue of size 0 holds not even the packet in service"),
            Self::Probability { parameter, value } => {
                write!(f, "loss parameter {parameter} lies outside 0..1: {value}")
            }
            Self::Queue(fault) => write!(f, "{fault}"),
            Self::Reorder => write!(f, "packets fall behind by a time, and one of at least one"),
            Self::Mean => write!(f, "a mean rate must be more than zero"),
            Self::Phase => write!(f, "a phase must be less than an epoch of 15 s"),
            Self::Trace => write!(
                f,
                "a trace must begin at 0, run forward and serve something before it repeats"
            ),
            Self::Wifi => write!(f, "no such rate, width or number of streams in that standard"),
        }
    }
}

impl std::error::Error for ConfigError {}

impl From<PluginError> for ConfigError {
    fn from(fault: PluginError) -> Self {
        Self::Queue(fault)
    }
}

/// Which way a modelled link leads: the models are not the same both ways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From the server to the client.
    #[default]
    Down,
    /// From the client to the server.
    Up,
}
