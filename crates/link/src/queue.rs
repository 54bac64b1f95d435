//! Queues: which packet is served next, and which are dropped or marked for it.
//!
//! A [`Queue`] holds numbers, not packets: those stay with the link, which asks it for the next one
//! whenever its service is free. Each discipline is a file of its own and a line of [`DISCIPLINES`];
//! its parameters, their ranges and defaults stand beside it and nowhere else.

mod choice;
mod codel;
mod drop_tail;
mod fifo;
mod fq_codel;

use anabranch_units::{ByteCount, Instant, RandomStream};

use crate::{QueueLimit, Queued};

pub use choice::{Parameter, QueueChoice, QueueFault, Settings, Unit};

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

/// A kind of queue.
pub struct Discipline {
    /// Its name in scenarios.
    pub name: &'static str,
    /// What it is, in one sentence.
    pub summary: &'static str,
    /// How much it holds when it is not told.
    pub limit: QueueLimit,
    /// Its own parameters.
    pub parameters: &'static [Parameter],
    build: fn(&Settings, RandomStream) -> Box<dyn Queue>,
}

/// Every kind of queue there is; the first is the one without a name.
pub const DISCIPLINES: &[&Discipline] =
    &[&drop_tail::DISCIPLINE, &codel::DISCIPLINE, &fq_codel::DISCIPLINE];
