//! Queues, which decide the packet that is served next and the packets that are dropped or marked.
//!
//! A [`Queue`] holds numbers of packets. The packets themselves stay with the link, which requests the next number
//! when its service is free. Each discipline has its own file, with its parameters, their ranges and defaults. It
//! also has an entry in the table of this file.

mod codel;
mod drop_tail;
mod fifo;
mod fq_codel;

use anabranch_plugin::{
    Kind, ParameterInfo, Parameters, PluginChoice, PluginError, PluginName, Registry,
};
use anabranch_units::{ByteCount, Instant, RandomStream, Seed};

use crate::{QueueLimit, Queued};

/// A queue before the service of a link.
pub trait Queue: Send {
    /// Takes a packet. `held` counts the packets before the link's wire, without this packet but including
    /// the packet in service. Appends the numbers of packets that must be dropped to `out`; the new packet
    /// may be one of them.
    fn admit(&mut self, now: Instant, packet: Ticket, held: Queued, out: &mut Vec<u64>);

    /// Returns the decision about the next packet; `None` if no packet waits. After a drop, the link calls it again at
    /// the same time until a packet is served.
    fn next(&mut self, now: Instant) -> Option<Next>;

    /// Discards all waiting packets, because the link goes down.
    fn clear(&mut self);
}

/// The properties of a packet that a queue may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// The packet's number on this link.
    pub number: u64,
    /// The size, headers included.
    pub size: ByteCount,
    /// A number that all packets of one flow share.
    pub flow: u64,
    /// The packet may be marked instead of dropped.
    pub ect: bool,
}

/// A queue's decision about the packet with this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Drop it.
    Drop(u64),
    /// Serve it, marked as CE.
    Mark(u64),
    /// Serve it.
    Pass(u64),
}

/// The queue disciplines, as a kind of plug-in.
#[derive(Debug)]
pub struct Queues;

type Build = fn(&mut Parameters<'_>, QueueLimit, RandomStream) -> Box<dyn Queue>;

impl Kind for Queues {
    const KEY: &'static str = "queue";
    const NOUN: &'static str = "queue";
    const SHORT_FORM: bool = false;
    const TABLE: &'static [(PluginName, Self::Maker)] = TABLE;
    type Plugin = Box<dyn Queue>;
    /// The capacity, and the random stream.
    type Input = (QueueLimit, RandomStream);
    /// The default capacity, and the constructor.
    type Maker = (QueueLimit, Build);

    fn make(
        (_, build): Self::Maker,
        parameters: &mut Parameters<'_>,
        (limit, random): Self::Input,
    ) -> Box<dyn Queue> {
        build(parameters, limit, random)
    }

    fn trial() -> Self::Input {
        (QueueLimit::Unlimited, Seed { seed: 0, run: 0 }.stream("check"))
    }
}

/// The table of names. A discipline is one file and one entry here. The first one is the default.
const TABLE: &[(PluginName, (QueueLimit, Build))] = &[
    (
        PluginName::new("drop-tail", "First come, first served; a packet without room is dropped."),
        (QueueLimit::Packets(100), drop_tail::build),
    ),
    (
        PluginName::new(
            "codel",
            "Drops from the head while the standing delay exceeds a target (RFC 8289).",
        ),
        (QueueLimit::Packets(1000), codel::build),
    ),
    (
        PluginName::new(
            "fq-codel",
            "A queue under CoDel for each flow, new flows first, the others in turn (RFC 8290).",
        ),
        (QueueLimit::Packets(10_240), fq_codel::build),
    ),
];

/// Returns the name of every discipline with its description, and its default capacity.
pub fn disciplines() -> impl Iterator<Item = (PluginName, QueueLimit)> {
    TABLE.iter().map(|(name, (limit, _))| (*name, *limit))
}

/// Returns the parameters of the discipline called `name`.
///
/// # Errors
///
/// Returns an error if the name is unknown.
pub fn parameters(name: &str) -> Result<Vec<ParameterInfo>, PluginError> {
    anabranch_plugin::parameters::<Queues>(name)
}

/// Checks whether a queue can be built from a choice.
///
/// # Errors
///
/// Returns an error for an unknown name, and for all parameters that are unknown or out of range.
pub fn check(choice: &PluginChoice) -> Result<(), PluginError> {
    anabranch_plugin::build::<Queues>(choice, &Registry::TABLES, Queues::trial()).map(drop)
}

/// Builds an empty queue. It draws from `random`.
///
/// # Errors
///
/// Returns the same errors as [`check`].
pub fn build(
    choice: &PluginChoice,
    limit: QueueLimit,
    random: RandomStream,
) -> Result<Box<dyn Queue>, PluginError> {
    anabranch_plugin::build::<Queues>(choice, &Registry::TABLES, (limit, random))
}
