//! A one-way link whose rate, delay and loss a model or a trace decides, from moment to moment.
//!
//! The queue and what surrounds it are those of a fixed link. Only the packet in service has a
//! departure; the next one's is worked out when it has left. What is configured beside the model
//! comes on top of it: the rate is a cap, delay, jitter and loss are added.

use std::collections::VecDeque;

use anabranch_units::{ByteCount, Duration, Instant, RandomStream, Rate, Seed};

use crate::entrance::Entrance;
use crate::service::{Served, Service};
use crate::wire::Wire;
use crate::{Change, Fate, Link, LinkConfig, LinkStats, Model, Queued};

/// A link that follows a [`Model`].
///
/// Of the changes, `Rate` sets the cap, from the next packet on: the packet in service leaves when
/// it would have, unless the cap was zero. `Delay` and `Loss` set what comes on top of the model,
/// `Down` and `Up` do what they do to every link; the model's own course goes on meanwhile.
pub struct VaryingLink<P> {
    name: String,
    cap: Rate,
    delay: Duration,
    jitter: Duration,
    jitter_stream: RandomStream,
    entrance: Entrance,
    service: Box<dyn Service + Send>,
    queue: VecDeque<Waiting<P>>,
    queue_bytes: u64,
    /// What becomes of the packet in service, if there is one.
    served: Option<Served>,
    /// When the last packet has left.
    idle_from: Instant,
    wire: Wire<P>,
    stats: LinkStats,
}

#[derive(Clone, Debug)]
struct Waiting<P> {
    packet: P,
    size: ByteCount,
    luck: u64,
}

impl<P> VaryingLink<P> {
    /// An idle link, up. Its random streams are `link.<name>.loss`, `link.<name>.jitter` and those
    /// of its model.
    ///
    /// # Panics
    ///
    /// When [`LinkConfig::check`] or [`Model::check`] refuses the settings.
    pub fn new(config: LinkConfig, model: &Model, seed: Seed) -> Self {
        if let Err(error) = config.check().and_then(|()| model.check()) {
            panic!("link {}: {error}", config.name);
        }
        Self {
            entrance: Entrance::new(&config, seed),
            service: model.service(&config.name, seed),
            jitter_stream: seed.stream(&format!("link.{}.jitter", config.name)),
            name: config.name,
            cap: config.rate,
            delay: config.delay,
            jitter: config.jitter,
            queue: VecDeque::new(),
            queue_bytes: 0,
            served: None,
            idle_from: Instant::ZERO,
            wire: Wire::new(),
            stats: LinkStats::default(),
        }
    }

    /// Lets the packets that have left the queue by `now` onto the wire.
    #[inline]
    fn advance(&mut self, now: Instant) {
        while let Some(served) = self.served.filter(|served| served.departs <= now) {
            self.served = None;
            let Some(Waiting { packet, size, luck }) = self.queue.pop_front() else { return };
            self.queue_bytes -= size.0;
            self.idle_from = served.departs;
            let lost = served.lost || self.entrance.strikes_at_exit(luck);
            let arrives = self.arrival(served);
            self.wire.push(packet, size, served.departs, arrives, lost);
            self.take_up(served.departs);
        }
    }

    /// Begins to serve the first packet of the queue.
    fn take_up(&mut self, from: Instant) {
        let Some(first) = self.queue.front() else { return };
        let mut served = self.service.serve(from, first.size, self.cap);
        if !self.jitter.is_zero() {
            let bound = self.jitter.as_nanos().saturating_add(1);
            served.extra += Duration::from_nanos(self.jitter_stream.below(bound));
        }
        self.served = Some(served);
    }

    fn arrival(&self, served: Served) -> Instant {
        served.departs + self.delay + served.extra
    }

    fn go_down(&mut self, now: Instant) {
        self.entrance.up = false;
        self.wire.cut(now, &mut self.stats);
        for Waiting { packet, .. } in self.queue.drain(..) {
            self.wire.seal(now, packet, crate::DropReason::Down, &mut self.stats);
        }
        self.wire.close_cut();
        self.queue_bytes = 0;
        // What the packet in service had taken of the model stays taken.
        let served = self.served.take().filter(|served| served.departs < Instant::FAR_FUTURE);
        self.idle_from = served.map_or(now, |served| served.departs);
    }
}

impl<P> Link<P> for VaryingLink<P> {
    fn enqueue(&mut self, now: Instant, packet: P, size: ByteCount) {
        self.stats.enqueued += 1;
        let luck = self.entrance.draw();
        self.advance(now);
        let waiting = self.queue.len() as u64;
        if let Some(why) = self.entrance.refusal(waiting, self.queue_bytes, size, luck) {
            self.wire.seal(now, packet, why, &mut self.stats);
            return;
        }
        self.queue.push_back(Waiting { packet, size, luck });
        self.queue_bytes += size.0;
        if self.served.is_none() {
            self.take_up(self.idle_from.max(now));
        }
        self.stats.note_queue(Queued { packets: waiting + 1, bytes: ByteCount(self.queue_bytes) });
    }

    fn set(&mut self, now: Instant, change: Change) {
        self.advance(now);
        match change {
            Change::Delay(delay) => self.delay = delay,
            Change::Down => self.go_down(now),
            Change::Loss(model) => {
                if self.entrance.set_loss(model) {
                    for waiting in &mut self.queue {
                        waiting.luck = self.entrance.draw();
                    }
                }
            }
            Change::Rate(rate) => {
                self.cap = rate;
                if self.served.is_some_and(|served| served.departs == Instant::FAR_FUTURE) {
                    self.take_up(now);
                }
            }
            Change::Up => self.entrance.up = true,
        }
    }

    fn poll_fate(&mut self, now: Instant) -> Option<Fate<P>> {
        self.advance(now);
        self.wire.poll(now, &mut self.stats)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let flying = self.wire.next_arrival();
        if flying < Instant::FAR_FUTURE {
            return self.wire.poll_timeout(flying);
        }
        let next = self
            .served
            .map_or(Instant::FAR_FUTURE, |served| self.wire.arrival(self.arrival(served)));
        self.wire.poll_timeout(next)
    }

    fn stats(&self) -> &LinkStats {
        &self.stats
    }

    fn queued(&self, now: Instant) -> Queued {
        // Looked at later than polled: the packet in service may have left, and others behind it,
        // but only the model knows when.
        let left = self.served.is_some_and(|served| served.departs <= now);
        let gone = if left { self.queue.front().map_or(0, |first| first.size.0) } else { 0 };
        Queued {
            packets: self.queue.len() as u64 - u64::from(left),
            bytes: ByteCount(self.queue_bytes - gone),
        }
    }

    fn in_transit(&self) -> u64 {
        self.queue.len() as u64 + self.wire.len()
    }

    fn name(&self) -> &str {
        &self.name
    }
}
