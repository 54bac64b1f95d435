//! `FQ-CoDel`: a queue for each flow, each with `CoDel`. Deficit round robin serves them, and flows that have just
//! begun come first (RFC 8290).

use std::collections::VecDeque;

use anabranch_plugin::{Measure, Parameters, Unit};
use anabranch_units::{Instant, RandomStream};

use super::codel::{Control, Law, Step};
use super::fifo::Fifo;
use super::{Next, Queue, Ticket};
use crate::{QueueLimit, Queued};

/// The quantum: the bytes that a flow may send per round. The default is an Ethernet frame (RFC 8290 section 5.2.4).
const QUANTUM: Measure = Measure {
    key: "quantum",
    unit: Unit::Size,
    default: 1514,
    range: (256, 1 << 20),
    meaning: "bytes that a flow may send in its turn",
};
/// The number of queues (RFC 8290 section 5.2.5).
const FLOWS: Measure = Measure {
    key: "flows",
    unit: Unit::Count,
    default: 1024,
    range: (1, 65_536),
    meaning: "queues that flows are hashed to",
};

/// The most packets that one overflow drops (RFC 8290 section 4.1, `fq_codel_drop`).
const BATCH: usize = 64;

pub(super) fn build(
    parameters: &mut Parameters<'_>,
    limit: QueueLimit,
    mut random: RandomStream,
) -> Box<dyn Queue> {
    Box::new(FqCodel {
        limit,
        law: Law::new(parameters),
        quantum: parameters.size(&QUANTUM).0 as i64,
        perturbation: random.next_u64(),
        flows: vec![Flow::default(); parameters.count(&FLOWS) as usize],
        new: VecDeque::new(),
        old: VecDeque::new(),
    })
}

struct FqCodel {
    limit: QueueLimit,
    law: Law,
    quantum: i64,
    /// The salt of the hash of flows.
    perturbation: u64,
    flows: Vec<Flow>,
    /// Indexes of `flows`: the flows that have just begun, and the other active flows.
    new: VecDeque<usize>,
    old: VecDeque<usize>,
}

#[derive(Clone, Debug, Default)]
struct Flow {
    control: Control,
    fifo: Fifo,
    /// The bytes that the flow may still send in this round.
    credits: i64,
    /// Whether the flow is in one of the two lists.
    active: bool,
}

impl FqCodel {
    fn place(&self, flow: u64) -> usize {
        // SplitMix64's finaliser replaces the Jenkins hash. The RFC does not require a particular hash.
        let mut hash = flow ^ self.perturbation;
        hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((hash ^ hash >> 31) % self.flows.len() as u64) as usize
    }

    /// Drops packets from the head of the queue with the most bytes: half of its bytes, but at most a batch of packets.
    /// Subtracts them from `held`.
    fn shed(&mut self, held: &mut Queued, out: &mut Vec<u64>) {
        let mut fattest = &mut Flow::default();
        for flow in &mut self.flows {
            if flow.fifo.bytes() > fattest.fifo.bytes() {
                fattest = flow;
            }
        }
        let keep = fattest.fifo.bytes() - fattest.fifo.bytes() / 2;
        for _ in 0..BATCH {
            let Some(gone) = fattest.fifo.pop() else { return };
            out.push(gone.ticket.number);
            *held = *held - gone.ticket.size;
            if fattest.fifo.bytes() <= keep {
                return;
            }
        }
    }
}

impl Queue for FqCodel {
    fn admit(&mut self, now: Instant, packet: Ticket, held: Queued, out: &mut Vec<u64>) {
        let place = self.place(packet.flow);
        let flow = &mut self.flows[place];
        flow.fifo.push(now, packet);
        self.law.see(packet.size);
        if !flow.active {
            flow.active = true;
            flow.credits = self.quantum;
            self.new.push_back(place);
        }
        let mut held = held + packet.size;
        while self.limit.is_exceeded(held) {
            self.shed(&mut held, out);
        }
    }

    fn next(&mut self, now: Instant) -> Option<Next> {
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let place = *list.front()?;
            let flow = &mut self.flows[place];
            if flow.credits <= 0 {
                flow.credits += self.quantum;
                list.pop_front();
                self.old.push_back(place);
                continue;
            }
            match flow.control.next(&self.law, now, &mut flow.fifo) {
                Some((drop @ Next::Drop(_), _)) => return Some(drop),
                Some((next, ticket)) => {
                    flow.credits -= ticket.size.0 as i64;
                    return Some(next);
                }
                None => {
                    list.pop_front();
                    if is_new {
                        // A flow of single packets would otherwise be served before all others every time.
                        self.old.push_back(place);
                    } else {
                        flow.active = false;
                    }
                }
            }
        }
    }

    fn clear(&mut self) {
        for flow in &mut self.flows {
            flow.fifo.clear();
            flow.control.step = Step::Fresh;
            flow.active = false;
        }
        self.new.clear();
        self.old.clear();
    }
}
