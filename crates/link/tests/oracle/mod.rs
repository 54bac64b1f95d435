//! `CoDel` and `FQ-CoDel` after the pseudo-code and the text of their RFCs: slow, simple, and written independently of
//! the tested code.

#![allow(dead_code, reason = "each test program uses some of it")]

use std::collections::VecDeque;

use anabranch_link::queue::{Next, Queue};
use anabranch_units::Instant;

/// A queue's decision about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Said {
    Dropped(u64),
    Full(u64),
    Marked(u64),
    Passed(u64),
}

/// Requests a packet from a queue, and adds all its decisions to `said`.
pub(crate) fn ask(queue: &mut dyn Queue, now: u64, said: &mut Vec<Said>) {
    while let Some(next) = queue.next(Instant::from_nanos(now)) {
        let (word, goes_on) = match next {
            Next::Drop(id) => (Said::Dropped(id), false),
            Next::Mark(id) => (Said::Marked(id), true),
            Next::Pass(id) => (Said::Passed(id), true),
        };
        said.push(word);
        if goes_on {
            return;
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    pub(crate) id: u64,
    pub(crate) size: u64,
    pub(crate) flow: u64,
    pub(crate) ect: bool,
    /// The time of arrival, nanoseconds.
    pub(crate) tstamp: u64,
}

/// The parameters of RFC 8289 section 5.3. Times are in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parameters {
    pub(crate) target: u64,
    pub(crate) interval: u64,
    pub(crate) ecn: bool,
    pub(crate) maxpacket: u64,
}

/// The algorithm of RFC 8289 sections 5.3 to 5.6, with its names. A `first_above_time` of 0 means "not above".
#[derive(Clone, Debug)]
pub(crate) struct CoDelQueue {
    pub(crate) parameters: Parameters,
    first_above_time: u64,
    drop_next: u64,
    count: u64,
    lastcount: u64,
    dropping: bool,
    queue: VecDeque<Packet>,
    /// The number of series of drops, and of series that continued with the previous rate. Only tests use them.
    pub(crate) entered: u64,
    pub(crate) resumed: u64,
}

struct DodequeueResult {
    p: Option<Packet>,
    ok_to_drop: bool,
}

impl CoDelQueue {
    pub(crate) fn new(parameters: Parameters) -> Self {
        Self {
            parameters,
            first_above_time: 0,
            drop_next: 0,
            count: 0,
            lastcount: 0,
            dropping: false,
            queue: VecDeque::new(),
            entered: 0,
            resumed: 0,
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.queue.iter().map(|packet| packet.size).sum()
    }

    pub(crate) fn packets(&self) -> u64 {
        self.queue.len() as u64
    }

    /// Section 5.4.
    pub(crate) fn enqueue(&mut self, now: u64, mut packet: Packet) {
        packet.tstamp = now;
        self.queue.push_back(packet);
    }

    pub(crate) fn drop_head(&mut self) -> Option<Packet> {
        self.queue.pop_front()
    }

    /// Section 5.5. A packet that would be dropped but may be marked is marked and delivered, as in Linux's
    /// `codel_dequeue`. The pseudo-code has no ECN.
    pub(crate) fn dequeue(&mut self, now: u64, said: &mut Vec<Said>) -> Option<Packet> {
        let mut r = self.dodequeue(now);
        let mut marked = false;
        if self.dropping {
            if !r.ok_to_drop {
                // Sojourn time below TARGET: leave the drop state.
                self.dropping = false;
            }
            while now >= self.drop_next && self.dropping {
                if self.marks(&r) {
                    self.count += 1;
                    self.drop_next = self.control_law(self.drop_next);
                    marked = true;
                    break;
                }
                said.extend(r.p.map(|p| Said::Dropped(p.id)));
                self.count += 1;
                r = self.dodequeue(now);
                if r.ok_to_drop {
                    self.drop_next = self.control_law(self.drop_next);
                } else {
                    self.dropping = false;
                }
            }
        } else if r.ok_to_drop {
            if self.marks(&r) {
                marked = true;
            } else {
                said.extend(r.p.map(|p| Said::Dropped(p.id)));
                r = self.dodequeue(now);
            }
            self.dropping = true;
            // If the last series ended recently, start from its drop rate.
            let delta = self.count - self.lastcount;
            self.count = 1;
            self.entered += 1;
            // The RFC has `now - drop_next < 16 * interval`, but `drop_next` may be in the future.
            if delta > 1 && now < self.drop_next + 16 * self.parameters.interval {
                self.count = delta;
                self.resumed += 1;
            }
            self.drop_next = self.control_law(now);
            self.lastcount = self.count;
        }
        if let Some(p) = r.p {
            said.push(if marked { Said::Marked(p.id) } else { Said::Passed(p.id) });
        }
        r.p
    }

    fn marks(&self, r: &DodequeueResult) -> bool {
        self.parameters.ecn && r.p.is_some_and(|p| p.ect)
    }

    /// Section 5.6.
    fn dodequeue(&mut self, now: u64) -> DodequeueResult {
        let mut r = DodequeueResult { p: self.queue.pop_front(), ok_to_drop: false };
        let Some(p) = r.p else {
            // The queue is empty, so it is below TARGET.
            self.first_above_time = 0;
            return r;
        };
        let sojourn_time = now - p.tstamp;
        if sojourn_time < self.parameters.target || self.bytes() <= self.parameters.maxpacket {
            // Below TARGET. The delay must exceed TARGET for a whole interval again.
            self.first_above_time = 0;
        } else if self.first_above_time == 0 {
            // Just went above TARGET: dropping is permitted if it is still above at `first_above_time`.
            self.first_above_time = now + self.parameters.interval;
        } else if now >= self.first_above_time {
            r.ok_to_drop = true;
        }
        r
    }

    fn control_law(&self, t: u64) -> u64 {
        t + (self.parameters.interval as f64 / (self.count as f64).sqrt()) as u64
    }
}

/// RFC 8290 section 4, with the flow's number instead of a hash.
pub(crate) struct FqCoDel {
    parameters: Parameters,
    quantum: i64,
    /// The most packets that may be held.
    limit: u64,
    queues: Vec<Flow>,
    new_queues: Vec<u64>,
    old_queues: Vec<u64>,
}

struct Flow {
    id: u64,
    credits: i64,
    codel: CoDelQueue,
}

impl FqCoDel {
    pub(crate) fn new(parameters: Parameters, quantum: i64, limit: u64) -> Self {
        let (queues, new_queues, old_queues) = (Vec::new(), Vec::new(), Vec::new());
        Self { parameters, quantum, limit, queues, new_queues, old_queues }
    }

    pub(crate) fn packets(&self) -> u64 {
        self.queues.iter().map(|flow| flow.codel.packets()).sum()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.queues.iter().map(|flow| flow.codel.bytes()).sum()
    }

    fn flow(&mut self, id: u64) -> &mut Flow {
        if !self.queues.iter().any(|flow| flow.id == id) {
            self.queues.push(Flow { id, credits: 0, codel: CoDelQueue::new(self.parameters) });
        }
        self.queues.iter_mut().find(|flow| flow.id == id).expect("it was put there")
    }

    /// Section 4.1. `others` is the number of packets that the link holds outside the queue.
    pub(crate) fn enqueue(&mut self, now: u64, packet: Packet, others: u64, said: &mut Vec<Said>) {
        self.flow(packet.flow).codel.enqueue(now, packet);
        if !self.new_queues.contains(&packet.flow) && !self.old_queues.contains(&packet.flow) {
            self.new_queues.push(packet.flow);
            self.flow(packet.flow).credits = self.quantum;
        }
        if self.packets() + others > self.limit {
            // Drop half of the bytes of the queue with the most bytes, from its head, up to 64 packets.
            let sizes = self.queues.iter().map(|flow| flow.codel.bytes());
            let fattest = sizes.max().expect("one has the packet that came");
            let mut flows = self.queues.iter_mut();
            let flow = flows.find(|flow| flow.codel.bytes() == fattest).expect("the fattest");
            let (mut bytes, mut packets) = (0, 0);
            while bytes < fattest / 2 && packets < 64 {
                let gone = flow.codel.drop_head().expect("bytes are of packets");
                said.push(Said::Full(gone.id));
                bytes += gone.size;
                packets += 1;
            }
        }
    }

    /// Section 4.2.
    pub(crate) fn dequeue(&mut self, now: u64, said: &mut Vec<Said>) -> Option<Packet> {
        loop {
            let from_new = !self.new_queues.is_empty();
            let list = if from_new { &mut self.new_queues } else { &mut self.old_queues };
            if list.is_empty() {
                return None;
            }
            let id = list[0];
            let quantum = self.quantum;
            let flow = self.flow(id);
            if flow.credits <= 0 {
                // The flow has used up its quantum. It gets another one, and goes to the end of the old queues.
                flow.credits += quantum;
                self.leave(from_new);
                self.old_queues.push(id);
                continue;
            }
            if let Some(packet) = flow.codel.dequeue(now, said) {
                flow.credits -= packet.size as i64;
                return Some(packet);
            }
            // The queue is empty. A new flow goes to the end of the old ones, and an old one is removed.
            self.leave(from_new);
            if from_new {
                self.old_queues.push(id);
            }
        }
    }

    fn leave(&mut self, from_new: bool) {
        let list = if from_new { &mut self.new_queues } else { &mut self.old_queues };
        list.remove(0);
    }
}
