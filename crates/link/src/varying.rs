//! A one-way link whose rate, delay and loss follow a model or a recording. It can also have a set rate, for settings
//! that must be processed packet by packet.
//!
//! The wire and the changes are those of a fixed link. The departure is known only for the packet in service.
//! When it leaves, the queue chooses the next one. The configured rate is an upper limit on the model's rate.
//! The configured delay, jitter and loss are added to the model's.

use anabranch_units::{ByteCount, Duration, Instant, Rate, Seed};

use crate::entrance::{Entrance, Held};
use crate::service::{AtCap, Served, Service};
use crate::wire::{Flying, Outcome, Wire};
use crate::{Change, DropReason, Fate, Label, Link, LinkConfig, LinkStats, Model, Queued};

/// A link that follows a [`Model`], or has a set rate and any kind of queue.
///
/// `Change::Rate` sets the limit on the model's rate. The packet in service leaves as planned, unless the old limit
/// was zero. Without a model, `Change::Rate` sets the rate, and the packet in service keeps its served bits.
/// `Change::Delay` and `Change::Loss` set the values that are added to the model's. `Change::Down` and `Change::Up`
/// work as on every link, and do not stop the model's time.
pub struct VaryingLink<P> {
    name: String,
    cap: Rate,
    delay: Duration,
    entrance: Entrance<P>,
    service: Box<dyn Service + Send>,
    serving: Option<Serving<P>>,
    /// The departure of the last packet. The service is idle from then on.
    idle_from: Instant,
    wire: Wire<P>,
    stats: LinkStats,
}

/// The packet in service, and the result of its service.
struct Serving<P> {
    held: Held<P>,
    marked: bool,
    served: Served,
}

impl<P: Clone> VaryingLink<P> {
    /// Creates an idle link that is up. Its random streams are `link.<name>.loss`, `link.<name>.jitter`, those of its
    /// queue and impairments, and those of its model.
    ///
    /// # Panics
    ///
    /// Panics if [`LinkConfig::check`] or [`Model::check`] returns an error.
    pub fn new(config: LinkConfig, model: &Model, seed: Seed) -> Self {
        if let Err(error) = config.check().and_then(|()| model.check()) {
            panic!("link {}: {error}", config.name);
        }
        let service = model.service(&config.name, seed);
        Self::serving_by(service, config, seed)
    }

    /// Creates an idle link with a set rate that is up. It corresponds to a [`FixedLink`](crate::FixedLink), for
    /// settings that are not plain.
    ///
    /// # Panics
    ///
    /// Panics if [`LinkConfig::check`] returns an error.
    pub fn of_set_rate(config: LinkConfig, seed: Seed) -> Self {
        if let Err(error) = config.check() {
            panic!("link {}: {error}", config.name);
        }
        let mut link = Self::serving_by(Box::new(AtCap::default()), config, seed);
        link.entrance.draw_jitter_at_entry();
        link
    }

    fn serving_by(service: Box<dyn Service + Send>, config: LinkConfig, seed: Seed) -> Self {
        Self {
            entrance: Entrance::new(&config, seed),
            wire: Wire::new(&config.impairments, &config.name, seed),
            service,
            name: config.name,
            cap: config.rate,
            delay: config.delay,
            serving: None,
            idle_from: Instant::ZERO,
            stats: LinkStats::default(),
        }
    }

    /// Moves the packets that have left the queue by `now` to the wire.
    #[inline]
    fn advance(&mut self, now: Instant) {
        while let Some(left) = self.serving.take_if(|serving| serving.served.departs <= now) {
            let Serving { held: Held { packet, size, luck, .. }, marked, served } = left;
            let departed = served.departs;
            self.idle_from = departed;
            let lost = served.lost || self.entrance.strikes_at_exit(luck);
            let outcome = if lost { Outcome::Lost } else { Outcome::Arrives };
            let arrives = self.arrival(served);
            let gone = Flying { packet, size, departed, arrives, outcome, marked, copy: false };
            self.wire.push(gone, &mut self.stats);
            self.take_up(departed);
        }
    }

    /// Begins to serve the next packet of the queue.
    fn take_up(&mut self, from: Instant) {
        let books = (&mut self.wire, &mut self.stats);
        if let Some((held, marked)) = self.entrance.next(from, books) {
            let served = self.serve(from, &held);
            self.serving = Some(Serving { held, marked, served });
        }
    }

    fn serve(&mut self, from: Instant, held: &Held<P>) -> Served {
        let mut served = self.service.serve(from, held.size, self.cap);
        served.extra += self.entrance.jitter(held);
        served
    }

    fn arrival(&self, served: Served) -> Instant {
        served.departs + self.delay + served.extra
    }

    /// Returns the packet in service.
    fn in_service(&self) -> Queued {
        let serving = self.serving.as_ref();
        serving.map_or(Queued::default(), |serving| Queued::default() + serving.held.size)
    }

    fn change_rate(&mut self, now: Instant, rate: Rate) {
        self.cap = rate;
        let Some(mut serving) = self.serving.take() else { return };
        if let Some(departs) = self.service.recap(now, rate) {
            serving.served.departs = departs;
        } else if serving.served.departs == Instant::FAR_FUTURE {
            serving.served = self.serve(now, &serving.held);
        }
        self.serving = Some(serving);
    }

    fn go_down(&mut self, now: Instant) {
        self.wire.cut(now, &mut self.stats);
        let serving = self.serving.take();
        let departs = serving.as_ref().map(|serving| serving.served.departs);
        let departs = departs.filter(|&departs| departs < Instant::FAR_FUTURE);
        self.idle_from = departs.map_or(now, |departs| self.service.abandon(now, departs));
        let inside = serving.map(|serving| serving.held).into_iter().chain(self.entrance.close());
        for held in inside {
            self.wire.seal(now, held.packet, DropReason::Down, &mut self.stats);
        }
        self.wire.close_cut();
    }
}

impl<P: Clone> Link<P> for VaryingLink<P> {
    fn enqueue(&mut self, now: Instant, packet: P, size: ByteCount) {
        self.enter(now, packet, Label::of_size(size));
    }

    fn enter(&mut self, now: Instant, packet: P, label: Label) {
        self.stats.enqueued += 1;
        let drawn = self.entrance.draw();
        self.advance(now);
        let serving = self.in_service();
        let books = (&mut self.wire, &mut self.stats);
        self.entrance.admit(now, (packet, label), drawn, serving, books);
        if self.serving.is_none() {
            self.take_up(self.idle_from.max(now));
        }
    }

    fn set(&mut self, now: Instant, change: Change) {
        self.advance(now);
        match change {
            Change::Delay(delay) => self.delay = delay,
            Change::Down => self.go_down(now),
            Change::Loss(model) => {
                let serving = self.serving.iter_mut().map(|serving| &mut serving.held.luck);
                self.entrance.set_loss(model, serving);
            }
            Change::Rate(rate) => self.change_rate(now, rate),
            Change::Up => self.entrance.up = true,
        }
    }

    fn poll_fate(&mut self, now: Instant) -> Option<Fate<P>> {
        self.advance(now);
        self.wire.poll(now, &mut self.stats)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let flying = self.wire.next_arrival();
        if flying < Instant::FAR_FUTURE && self.wire.keeps_order() {
            return self.wire.poll_timeout(flying);
        }
        let next = self
            .serving
            .as_ref()
            .map_or(Instant::FAR_FUTURE, |serving| self.wire.arrival(self.arrival(serving.served)));
        self.wire.poll_timeout(next.min(flying))
    }

    fn stats(&self) -> &LinkStats {
        &self.stats
    }

    fn queued(&self, now: Instant) -> Queued {
        // The last poll may be earlier than `now`. If the packet in service has left since then, packets behind it
        // may have left, too. Their departures are not computed yet.
        let waiting = self.entrance.waiting();
        let serving = self.serving.as_ref().filter(|serving| serving.served.departs > now);
        serving.map_or(waiting, |serving| waiting + serving.held.size)
    }

    fn in_transit(&self) -> u64 {
        let serving = u64::from(self.serving.is_some());
        self.entrance.waiting().packets + serving + self.wire.len()
    }

    fn keeps_order(&self) -> bool {
        self.wire.keeps_order()
    }

    fn name(&self) -> &str {
        &self.name
    }
}
