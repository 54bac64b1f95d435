//! Drop-tail: first come, first served. A packet without room is dropped.

use std::collections::VecDeque;

use anabranch_plugin::Parameters;
use anabranch_units::{Instant, RandomStream};

use super::{Next, Queue, Ticket};
use crate::{QueueLimit, Queued};

pub(super) fn build(
    _parameters: &mut Parameters<'_>,
    limit: QueueLimit,
    _random: RandomStream,
) -> Box<dyn Queue> {
    Box::new(DropTail { limit, waiting: VecDeque::new() })
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
