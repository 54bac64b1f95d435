//! `CoDel` drops packets from the head after they have waited too long for an interval. It drops more and more often
//! until the wait is short again (RFC 8289).
//!
//! The algorithm is that of section 5. There, one call of `dequeue` drops any number of packets and returns one. Here,
//! each call of [`Control::next`] returns the decision about one packet. [`Step`] is the place at which the next call
//! continues. Marks replace drops as in Linux (`codel_dequeue`): a marked packet is served, so `dequeue` ends there.

use anabranch_plugin::{Measure, Parameters, Unit};
use anabranch_units::{ByteCount, Duration, Instant, RandomStream};

use super::fifo::{Fifo, Waiting};
use super::{Next, Queue, Ticket};
use crate::{QueueLimit, Queued};

/// The acceptable standing delay, 5 ms (RFC 8289 section 4.4).
const TARGET: Measure = Measure {
    key: "target",
    unit: Unit::Time,
    default: 5_000_000,
    range: (1, 10_000_000_000),
    meaning: "standing delay that is acceptable",
};
/// The interval, 100 ms, of the order of a worst-case RTT (RFC 8289 section 4.3).
const INTERVAL: Measure = Measure {
    key: "interval",
    unit: Unit::Time,
    default: 100_000_000,
    range: (1, 100_000_000_000),
    meaning: "time for which the delay must exceed the target before a packet is dropped",
};
/// Whether ECN is used; an option as in `tc-codel`.
const ECN: Measure = Measure {
    key: "ecn",
    unit: Unit::Flag,
    default: 0,
    range: (0, 1),
    meaning: "mark packets that are ECN-capable instead of dropping them",
};

pub(super) fn build(
    parameters: &mut Parameters<'_>,
    limit: QueueLimit,
    _random: RandomStream,
) -> Box<dyn Queue> {
    let law = Law::new(parameters);
    Box::new(Codel { limit, law, control: Control::default(), fifo: Fifo::default() })
}

struct Codel {
    limit: QueueLimit,
    law: Law,
    control: Control,
    fifo: Fifo,
}

impl Queue for Codel {
    fn admit(&mut self, now: Instant, packet: Ticket, held: Queued, out: &mut Vec<u64>) {
        if self.limit.admits(held, packet.size) {
            self.law.see(packet.size);
            self.fifo.push(now, packet);
        } else {
            out.push(packet.number);
        }
    }

    fn next(&mut self, now: Instant) -> Option<Next> {
        self.control.next(&self.law, now, &mut self.fifo).map(|(next, _)| next)
    }

    fn clear(&mut self) {
        self.fifo.clear();
        self.control.step = Step::Fresh;
    }
}

/// The parameters of a control.
#[derive(Clone, Copy, Debug)]
pub(super) struct Law {
    target: Duration,
    interval: Duration,
    ecn: bool,
    /// The size up to which the queue counts as empty (`maxpacket_`): Ethernet's MTU, or the largest packet so far.
    largest: ByteCount,
}

/// Ethernet's MTU.
const MTU: ByteCount = ByteCount(1500);

impl Law {
    /// Reads the three parameters that every control has.
    pub(super) fn new(parameters: &mut Parameters<'_>) -> Self {
        Self {
            target: parameters.time(&TARGET),
            interval: parameters.time(&INTERVAL),
            ecn: parameters.switch(&ECN),
            largest: MTU,
        }
    }

    pub(super) fn see(&mut self, size: ByteCount) {
        self.largest = self.largest.max(size);
    }

    /// Returns the time of the next drop, if `count` packets were dropped in this series (`control_law`).
    fn control_law(&self, from: Instant, count: u32) -> Instant {
        let nanos = self.interval.as_nanos() as f64 / f64::from(count).sqrt();
        from + Duration::from_nanos(nanos as u64)
    }
}

/// The state variables of RFC 8289 section 5, under the names used there.
#[derive(Clone, Debug, Default)]
pub(super) struct Control {
    /// The time at which the delay will have exceeded the target for an interval; `None` while it does not exceed it.
    first_above: Option<Instant>,
    drop_next: Instant,
    count: u32,
    lastcount: u32,
    dropping: bool,
    pub(super) step: Step,
}

/// The point in `dequeue` at which the next call continues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Step {
    /// At the beginning.
    #[default]
    Fresh,
    /// After the drop that begins a series.
    Entering,
    /// After the second or a later drop of a series.
    InRow,
}

impl Control {
    /// Returns the decision about the next packet of its queue, and the packet.
    pub(super) fn next(
        &mut self,
        law: &Law,
        now: Instant,
        fifo: &mut Fifo,
    ) -> Option<(Next, Ticket)> {
        let step = std::mem::take(&mut self.step);
        let (first, ok_to_drop) = self.take(law, now, fifo);
        if step == Step::Entering {
            self.enter(law, now);
        } else if !ok_to_drop {
            self.dropping = false;
        }
        let Waiting { ticket, .. } = first?;
        if step == Step::Entering || !ok_to_drop {
            return Some((Next::Pass(ticket.number), ticket));
        }
        if step == Step::InRow {
            self.drop_next = law.control_law(self.drop_next, self.count);
        }
        let marks = law.ecn && ticket.ect;
        if !self.dropping {
            if marks {
                self.enter(law, now);
                return Some((Next::Mark(ticket.number), ticket));
            }
            self.step = Step::Entering;
            return Some((Next::Drop(ticket.number), ticket));
        }
        if now < self.drop_next {
            return Some((Next::Pass(ticket.number), ticket));
        }
        self.count = self.count.saturating_add(1);
        if marks {
            self.drop_next = law.control_law(self.drop_next, self.count);
            return Some((Next::Mark(ticket.number), ticket));
        }
        self.step = Step::InRow;
        Some((Next::Drop(ticket.number), ticket))
    }

    /// Takes the first packet, and returns whether it may be dropped (`dodequeue`).
    fn take(&mut self, law: &Law, now: Instant, fifo: &mut Fifo) -> (Option<Waiting>, bool) {
        let Some(first) = fifo.pop() else {
            self.first_above = None;
            return (None, false);
        };
        let mut ok_to_drop = false;
        if now.since(first.since) < law.target || fifo.bytes() <= law.largest.0 {
            self.first_above = None;
        } else {
            match self.first_above {
                None => self.first_above = Some(now + law.interval),
                Some(at) => ok_to_drop = now >= at,
            }
        }
        (Some(first), ok_to_drop)
    }

    /// Begins a series of drops. If the last series ended recently, the drop rate continues from there.
    fn enter(&mut self, law: &Law, now: Instant) {
        self.dropping = true;
        let delta = self.count.saturating_sub(self.lastcount);
        let recent = now < self.drop_next + law.interval * 16;
        self.count = if delta > 1 && recent { delta } else { 1 };
        self.drop_next = law.control_law(now, self.count);
        self.lastcount = self.count;
    }
}
