//! Drop-tail: first come, first served, and what finds no room is lost.

use std::collections::VecDeque;

use anabranch_units::{Instant, RandomStream};

use super::{Discipline, Next, Queue, Settings, Ticket};
use crate::{QueueLimit, Queued};

pub(super) const DISCIPLINE: Discipline = Discipline {
    name: "drop-tail",
    summary: "First come, first served; what finds no room is lost.",
    limit: QueueLimit::Packets(100),
    parameters: &[],
    build,
};

fn build(settings: &Settings, _random: RandomStream) -> Box<dyn Queue> {
    Box::new(DropTail { limit: settings.limit, waiting: VecDeque::new() })
}

struct DropTail {
    limit: QueueLimit,
    waiting: VecDeque<u64>,
}

impl Queue for DropTail {
    fn admit(&mut self, _now: Instant, packet: Ticket, held: Queued, out: &mut Vec<u64>) {
        if self.limit.admits(held, packet.size) {
            self.waiting.push_back(packet.number);
        } else {
            out.push(packet.number);
        }
    }

    fn next(&mut self, _now: Instant) -> Option<Next> {
        self.waiting.pop_front().map(Next::Pass)
    }

    fn clear(&mut self) {
        self.waiting.clear();
    }
}
