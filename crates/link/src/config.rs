//! The settings of a link.

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
    /// The name, unique within a scenario. The link's random streams are named after it.
    pub name: String,
    /// The rate of the bottleneck. It counts every byte of a packet's size.
    pub rate: Rate,
    /// The capacity of the queue before the bottleneck.
    pub queue: QueueLimit,
    /// The kind of queue; `None` for drop-tail.
    pub discipline: Option<PluginChoice>,
    /// The one-way propagation delay after the bottleneck.
    pub delay: Duration,
    /// The largest additional delay of a packet, drawn uniformly. Packets stay in order: a packet that would overtake
    /// arrives together with its predecessor.
    pub jitter: Duration,
    /// Random loss.
    pub loss: Option<LossModel>,
    /// Whether the random loss occurs before or after the queue.
    pub loss_at: LossAt,
    /// Further impairments on the wire.
    pub impairments: Impairments,
    /// The source of random losses and jitter.
    pub draws: Draws,
}

impl LinkConfig {
    /// Creates the settings of a link without jitter and loss.
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

    /// Checks whether a link can be built from these settings.
    ///
    /// # Errors
    ///
    /// Returns an error if the queue has no capacity or is of an unknown kind, or if a probability lies outside [0,
    /// 1]. Also returns one if the link uses the emulator's draws but is not [plain](Self::is_plain).
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

    /// Returns whether the link has a drop-tail queue and no impairments. The fate of each packet can then be
    /// computed when it enters.
    pub fn is_plain(&self) -> bool {
        self.discipline.is_none() && self.impairments == Impairments::NONE
    }
}

/// The capacity of a drop-tail queue, including the packet in service. `Packets(1)` therefore has no room for waiting
/// packets.
///
/// A packet that would exceed the limit is dropped. A later, smaller packet may still fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueLimit {
    /// A number of bytes. The packet in service counts in full until it has left.
    Bytes(u64),
    /// A number of packets.
    Packets(u64),
    /// No limit.
    #[default]
    Unlimited,
}

impl QueueLimit {
    /// Returns whether `held` exceeds the limit.
    pub const fn is_exceeded(self, held: Queued) -> bool {
        match self {
            Self::Bytes(limit) => held.bytes.0 > limit,
            Self::Packets(limit) => held.packets > limit,
            Self::Unlimited => false,
        }
    }

    /// Returns the unit of the limit, as written in files and messages, and the limit; `None` without a limit.
    pub const fn named(self) -> Option<(&'static str, u64)> {
        match self {
            Self::Bytes(limit) => Some(("bytes", limit)),
            Self::Packets(limit) => Some(("packets", limit)),
            Self::Unlimited => None,
        }
    }

    /// Returns whether a queue that holds `held` has room for another packet of `size`.
    pub fn admits(self, held: Queued, size: ByteCount) -> bool {
        !self.is_exceeded(held + size)
    }
}

/// The place of random loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LossAt {
    /// Before the queue, as in Linux netem. A lost packet takes neither queue space nor rate.
    Entry,
    /// After the queue. A lost packet has used the bottleneck's capacity.
    #[default]
    Exit,
}

/// Why a [`LinkConfig`] or a model is invalid.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ConfigError {
    /// The settings use the emulator's draws, but the link is not plain.
    Draws,
    /// The queue has no capacity, so no packet could pass.
    EmptyQueue,
    /// A probability of the loss model or of another impairment lies outside [0, 1].
    Probability {
        /// The name of the parameter, with its table if several tables have one of that name.
        parameter: &'static str,
        /// The given value.
        value: f64,
    },
    /// The kind of queue or a parameter is unknown, or a value is out of range.
    Queue(PluginError),
    /// The delay of reordered packets or their gap is zero.
    Reorder,
    /// The mean rate is zero.
    Mean,
    /// The phase is an epoch or longer.
    Phase,
    /// The recording is empty, goes back in time, does not begin at 0, or never serves a packet.
    Trace,
    /// The 802.11 standard has no such rate, width or number of streams.
    Wifi,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Draws => write!(
                f,
                "an emulator's seed needs a set rate and drop-tail, without reordering, duplication and corruption"
            ),
            Self::EmptyQueue => write!(f, "a queue of size 0 holds not even the packet in service"),
            Self::Probability { parameter, value } => {
                write!(f, "probability {parameter} lies outside 0..1: {value}")
            }
            Self::Queue(fault) => write!(f, "{fault}"),
            Self::Reorder => {
                write!(f, "reordering needs a delay above zero and a gap of at least 1")
            }
            Self::Mean => write!(f, "a mean rate must be more than zero"),
            Self::Phase => write!(f, "a phase must be less than an epoch of 15 s"),
            Self::Trace => write!(
                f,
                "a trace must begin at 0, run forward and serve something before it repeats"
            ),
            Self::Wifi => {
                write!(f, "the 802.11 standard has no such rate, width or number of streams")
            }
        }
    }
}

impl std::error::Error for ConfigError {}

impl From<PluginError> for ConfigError {
    fn from(fault: PluginError) -> Self {
        Self::Queue(fault)
    }
}

/// The direction of a modelled link. The models differ by direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From the server to the client.
    #[default]
    Down,
    /// From the client to the server.
    Up,
}
