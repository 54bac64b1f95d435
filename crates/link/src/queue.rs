//! Queues: which packet is served next, and which are dropped or marked for it.
//!
//! A [`Queue`] holds numbers, not packets: those stay with the link, which asks it for the next one
//! whenever its service is free. Each discipline is a file of its own and a line of the table; its
//! parameters, their ranges and defaults stand beside it and nowhere else.

mod codel;
mod drop_tail;
mod fifo;
mod fq_codel;

use anabranch_plugin::{
    Kind, ParameterInfo, Parameters, PluginChoice, PluginError, PluginName, Registry,
};
use anabranch_units::{ByteCount, Instant, RandomStream, Seed};

use crate::{QueueLimit, Queued};

/// A queue in front of a link's service.
pub trait Queue: Send {
    /// A packet comes. `held` is what the link holds before its wire without it, the packet in service
    /// included. The numbers of those that have to go, it or others, are appended to `out`.
    fn admit(&mut self, now: Instant, packet: Ticket, held: Queued, out: &mut Vec<u64>);

    /// What becomes of the next packet; `None` when none waits. Behind a drop the link asks again at the
    /// same instant, until one goes on.
    fn next(&mut self, now: Instant) -> Option<Next>;

    /// The link goes down: all that waits is gone.
    fn clear(&mut self);
}

/// What a queue knows of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Its number on this link.
    pub number: u64,
    /// Its size, headers included.
    pub size: ByteCount,
    /// What all packets of one flow have in common.
    pub flow: u64,
    /// It may be marked instead of dropped.
    pub ect: bool,
}

/// A queue's word on the packet with that number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It is dropped.
    Drop(u64),
    /// It is served, marked as having met congestion (CE).
    Mark(u64),
    /// It is served.
    Pass(u64),
}

/// Disciplines of queues, as a kind of plug-in.
#[derive(Debug)]
pub struct Queues;

type Build = fn(&mut Parameters<'_>, QueueLimit, RandomStream) -> Box<dyn Queue>;

impl Kind for Queues {
    const KEY: &'static str = "queue";
    const NOUN: &'static str = "queue";
    const SHORT_FORM: bool = false;
    const TABLE: &'static [(PluginName, Self::Maker)] = TABLE;
    type Plugin = Box<dyn Queue>;
    /// How much it holds, and what its chance is drawn from.
    type Input = (QueueLimit, RandomStream);
    /// How much it holds when it is not told, and what builds it.
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

/// The table of names: a discipline is one file and one entry here; the first is the one without a
/// name.
const TABLE: &[(PluginName, (QueueLimit, Build))] = &[
    (
        PluginName::new("drop-tail", "First come, first served; what finds no room is lost."),
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

/// Every discipline's name with what it is in one sentence, and how much it holds when it is not told.
pub fn disciplines() -> impl Iterator<Item = (PluginName, QueueLimit)> {
    TABLE.iter().map(|(name, (limit, _))| (*name, *limit))
}

/// The parameters of the discipline called `name`, each of which counts something.
///
/// # Errors
///
/// An unknown name.
pub fn parameters(name: &str) -> Result<Vec<ParameterInfo>, PluginError> {
    anabranch_plugin::parameters::<Queues>(name)
}

/// Whether there is such a queue.
///
/// # Errors
///
/// An unknown name, and every parameter that is unknown or out of range.
pub fn check(choice: &PluginChoice) -> Result<(), PluginError> {
    anabranch_plugin::build::<Queues>(choice, &Registry::TABLES, Queues::trial()).map(drop)
}

/// The queue, empty. Its chance is drawn from `random`.
///
/// # Errors
///
/// As [`check`].
pub fn build(
    choice: &PluginChoice,
    limit: QueueLimit,
    random: RandomStream,
) -> Result<Box<dyn Queue>, PluginError> {
    anabranch_plugin::build::<Queues>(choice, &Registry::TABLES, (limit, random))
}
