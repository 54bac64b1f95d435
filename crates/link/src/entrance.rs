//! The stages of a modelled link before its service: up or down, loss at the entry, and the queue.

use std::collections::VecDeque;

use anabranch_plugin::PluginChoice;
use anabranch_units::{ByteCount, Duration, Instant, RandomStream, Seed};

use crate::loss::LossProcess;
use crate::queue::{self, Next, Queue, Ticket};
use crate::wire::Wire;
use crate::{DropReason, Label, LinkConfig, LinkStats, LossAt, LossModel, QueueLimit, Queued};

/// The configured part of a modelled link: its queue, its random loss, and whether it is up.
pub(crate) struct Entrance<P> {
    limit: QueueLimit,
    /// The queue discipline; `None` for a FIFO that drops packets beyond the limit.
    queue: Option<Box<dyn Queue>>,
    /// The waiting packets by number. `None` marks a packet that left the queue before an earlier packet.
    inside: VecDeque<Option<Held<P>>>,
    /// The number of the first entry of `inside`.
    first: u64,
    waiting: Queued,
    /// A reused buffer for the numbers of packets that the queue drops when a packet enters.
    out: Vec<u64>,
    loss: Option<LossProcess>,
    loss_at: LossAt,
    luck: RandomStream,
    jitter: Duration,
    jitter_stream: RandomStream,
    jitter_at_entry: bool,
    pub(crate) up: bool,
}

/// A waiting packet and its random draws.
#[derive(Clone, Debug)]
pub(crate) struct Held<P> {
    pub(crate) packet: P,
    pub(crate) size: ByteCount,
    pub(crate) luck: u64,
    pub(crate) jitter: Duration,
}

/// The wire, which reports the fate of a packet, and the totals, which count it.
pub(crate) type Books<'a, P> = (&'a mut Wire<P>, &'a mut LinkStats);

impl<P> Entrance<P> {
    /// Creates the entrance of a link that is up. Its random streams are `link.<name>.loss`, `link.<name>.jitter` and
    /// `link.<name>.queue`.
    ///
    /// # Panics
    ///
    /// Panics if there is no queue of this kind. [`LinkConfig::check`] refuses such settings.
    pub(crate) fn new(config: &LinkConfig, seed: Seed) -> Self {
        let stream = |what: &str| seed.stream(&format!("link.{}.{what}", config.name));
        let build = |choice: &PluginChoice| {
            let queue = queue::build(choice, config.queue, stream("queue"));
            queue.unwrap_or_else(|fault| panic!("link {}: {fault}", config.name))
        };
        Self {
            limit: config.queue,
            queue: config.discipline.as_ref().map(build),
            inside: VecDeque::new(),
            first: 0,
            waiting: Queued::default(),
            out: Vec::new(),
            loss: config.loss.map(LossProcess::new),
            loss_at: config.loss_at,
            luck: stream("loss"),
            jitter: config.jitter,
            jitter_stream: stream("jitter"),
            jitter_at_entry: false,
            up: true,
        }
    }

    /// Makes later packets draw their jitter when they enter, as on a fixed link. Dropped packets draw, too.
    pub(crate) fn draw_jitter_at_entry(&mut self) {
        self.jitter_at_entry = true;
    }

    /// Returns the waiting packets and bytes.
    pub(crate) fn waiting(&self) -> Queued {
        self.waiting
    }

    /// Handles a packet that enters while `serving` is in service.
    #[inline]
    pub(crate) fn admit(
        &mut self,
        now: Instant,
        (packet, label): (P, Label),
        drawn: Drawn,
        serving: Queued,
        (wire, stats): Books<'_, P>,
    ) {
        if let Some(why) = self.refusal(drawn.luck) {
            wire.seal(now, packet, why, stats);
            return;
        }
        let Label { size, flow, ect } = label;
        let held = Queued {
            packets: self.waiting.packets + serving.packets,
            bytes: ByteCount(self.waiting.bytes.0 + serving.bytes.0),
        };
        if self.queue.is_none() && !self.limit.admits(held, size) {
            wire.seal(now, packet, DropReason::QueueFull, stats);
            return;
        }
        let number = self.first + self.inside.len() as u64;
        let Drawn { luck, jitter } = drawn;
        self.inside.push_back(Some(Held { packet, size, luck, jitter }));
        self.waiting = self.waiting + size;
        let Some(queue) = &mut self.queue else {
            stats.note_queue(held + size);
            return;
        };
        let mut out = std::mem::take(&mut self.out);
        queue.admit(now, Ticket { number, size, flow, ect }, held, &mut out);
        if out.is_empty() {
            stats.note_queue(held + size);
        }
        for number in out.drain(..) {
            let gone = self.remove(number);
            wire.seal(now, gone.packet, DropReason::QueueFull, stats);
        }
        self.out = out;
    }

    /// Returns the next packet to serve, and whether it is marked. Packets that the queue drops before it are reported
    /// to the wire.
    #[inline]
    pub(crate) fn next(
        &mut self,
        now: Instant,
        (wire, stats): Books<'_, P>,
    ) -> Option<(Held<P>, bool)> {
        if self.queue.is_none() {
            let first = self.inside.pop_front()??;
            self.first += 1;
            self.waiting = self.waiting - first.size;
            return Some((first, false));
        }
        loop {
            match self.queue.as_mut()?.next(now)? {
                Next::Drop(number) => {
                    let gone = self.remove(number);
                    wire.seal(now, gone.packet, DropReason::Aqm, stats);
                }
                Next::Mark(number) => {
                    stats.marked += 1;
                    return Some((self.remove(number), true));
                }
                Next::Pass(number) => return Some((self.remove(number), false)),
            }
        }
    }

    fn remove(&mut self, number: u64) -> Held<P> {
        let place = (number - self.first) as usize;
        let gone = self.inside[place].take().expect("a queue names each of its packets once");
        while let Some(None) = self.inside.front() {
            self.inside.pop_front();
            self.first += 1;
        }
        self.waiting = self.waiting - gone.size;
        gone
    }

    /// Takes the link down, and returns all waiting packets in the order of arrival.
    pub(crate) fn close(&mut self) -> Vec<Held<P>> {
        self.up = false;
        self.queue.iter_mut().for_each(|queue| queue.clear());
        self.first += self.inside.len() as u64;
        self.waiting = Queued::default();
        self.inside.drain(..).flatten().collect()
    }

    /// Draws the random numbers of a packet that enters the link. The loss is drawn only if there
    /// is a loss model.
    #[inline]
    pub(crate) fn draw(&mut self) -> Drawn {
        let luck = if self.loss.is_some() { self.luck.next_u64() } else { 0 };
        let jitter = if self.jitter_at_entry { self.draw_jitter() } else { Duration::ZERO };
        Drawn { luck, jitter }
    }

    /// Returns the jitter of a packet that leaves the queue. It is drawn here unless it was drawn at the entry.
    #[inline]
    pub(crate) fn jitter(&mut self, held: &Held<P>) -> Duration {
        if self.jitter_at_entry { held.jitter } else { self.draw_jitter() }
    }

    fn draw_jitter(&mut self) -> Duration {
        if self.jitter.is_zero() {
            return Duration::ZERO;
        }
        let bound = self.jitter.as_nanos().saturating_add(1);
        Duration::from_nanos(self.jitter_stream.below(bound))
    }

    /// Returns the reason to drop a packet at the entry, if there is one: the link is down, or the loss model drops
    /// it.
    fn refusal(&mut self, luck: u64) -> Option<DropReason> {
        if !self.up {
            return Some(DropReason::Down);
        }
        let lost = self.loss_at == LossAt::Entry && self.strikes(luck);
        lost.then_some(DropReason::Loss)
    }

    /// Returns whether the loss model drops a packet that leaves the queue.
    #[inline]
    pub(crate) fn strikes_at_exit(&mut self, luck: u64) -> bool {
        self.loss_at == LossAt::Exit && self.strikes(luck)
    }

    fn strikes(&mut self, luck: u64) -> bool {
        self.loss.as_mut().is_some_and(|loss| loss.strikes(luck))
    }

    /// Sets the loss model. Packets that entered without a loss model have no draw yet, so they draw now. Packets
    /// `ahead` of the queue draw first, then those in the queue.
    pub(crate) fn set_loss<'a>(
        &mut self,
        model: Option<LossModel>,
        ahead: impl Iterator<Item = &'a mut u64>,
    ) {
        let needs_luck = self.loss.is_none() && model.is_some() && self.loss_at == LossAt::Exit;
        self.loss = model.map(LossProcess::new);
        if needs_luck {
            ahead.for_each(|luck| *luck = self.luck.next_u64());
            for held in self.inside.iter_mut().flatten() {
                held.luck = self.luck.next_u64();
            }
        }
    }
}

/// The random draws of a packet that enters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drawn {
    luck: u64,
    jitter: Duration,
}
