//! A slow and simple model of a fixed link: one event after the other, without computing ahead.

use anabranch_link::{Change, DropReason, LinkConfig, LossAt, LossModel, QueueLimit};
use anabranch_units::{ByteCount, Duration, Instant, RandomStream, Rate, Seed};

use crate::driver::Told;

struct Waiting {
    packet: u32,
    size: u64,
    luck: u64,
    jitter: Duration,
    /// The billionths of a bit that are still to be served.
    left: u128,
}

/// A queue, a server and a wire.
pub(crate) struct SlowLink {
    settings: LinkConfig,
    up: bool,
    bad: bool,
    loss_stream: RandomStream,
    jitter_stream: RandomStream,
    /// The waiting packets. The first one is in service.
    queue: Vec<Waiting>,
    /// The time since which the first packet is served at the present rate.
    serving_since: Instant,
    /// The packets on the wire and their arrivals, in order. A lost packet is `None`, which keeps its place.
    wire: Vec<(Option<u32>, Instant)>,
    /// The arrival of the last packet that was put on the wire.
    last_arrival: Instant,
    pub(crate) told: Vec<Told>,
}

impl SlowLink {
    pub(crate) fn new(settings: LinkConfig, seed: Seed) -> Self {
        Self {
            loss_stream: seed.stream(&format!("link.{}.loss", settings.name)),
            jitter_stream: seed.stream(&format!("link.{}.jitter", settings.name)),
            settings,
            up: true,
            bad: false,
            queue: Vec::new(),
            serving_since: Instant::ZERO,
            wire: Vec::new(),
            last_arrival: Instant::ZERO,
            told: Vec::new(),
        }
    }

    pub(crate) fn queued(&self) -> (u64, ByteCount) {
        (self.queue.len() as u64, ByteCount(self.queue.iter().map(|w| w.size).sum()))
    }

    pub(crate) fn enqueue(&mut self, now: Instant, packet: u32, size: ByteCount) {
        self.run(now);
        let luck = if self.settings.loss.is_some() { self.loss_stream.next_u64() } else { 0 };
        let jitter = match self.settings.jitter.as_nanos() {
            0 => Duration::ZERO,
            most => Duration::from_nanos(self.jitter_stream.below(most + 1)),
        };
        if !self.up {
            return self.told.push((packet, now, Some(DropReason::Down)));
        }
        if self.settings.loss_at == LossAt::Entry && self.is_lost(luck) {
            return self.told.push((packet, now, Some(DropReason::Loss)));
        }
        let (packets, bytes) = self.queued();
        let full = match self.settings.queue {
            QueueLimit::Unlimited => false,
            QueueLimit::Packets(limit) => packets + 1 > limit,
            QueueLimit::Bytes(limit) => bytes.0 + size.0 > limit,
        };
        if full {
            return self.told.push((packet, now, Some(DropReason::QueueFull)));
        }
        if self.queue.is_empty() {
            self.serving_since = now;
        }
        let left = u128::from(size.0) * 8_000_000_000;
        self.queue.push(Waiting { packet, size: size.0, luck, jitter, left });
    }

    pub(crate) fn set(&mut self, now: Instant, change: Change) {
        self.run(now);
        match change {
            Change::Delay(delay) => self.settings.delay = delay,
            Change::Up => self.up = true,
            Change::Down => {
                self.up = false;
                let inside = self.wire.iter().filter_map(|&(packet, _)| packet);
                let inside: Vec<u32> = inside.chain(self.queue.iter().map(|w| w.packet)).collect();
                self.told.extend(inside.iter().map(|&n| (n, now, Some(DropReason::Down))));
                self.wire.clear();
                self.queue.clear();
                self.last_arrival = now;
            }
            Change::Rate(rate) => {
                if let Some(first) = self.queue.first_mut() {
                    let nanos = now.since(self.serving_since).as_nanos();
                    let served = u128::from(nanos) * u128::from(self.settings.rate.bps());
                    first.left = first.left.saturating_sub(served);
                    self.serving_since = now;
                }
                self.settings.rate = rate;
            }
            Change::Loss(model) => {
                let first_need = self.settings.loss.is_none() && model.is_some();
                if first_need && self.settings.loss_at == LossAt::Exit {
                    for waiting in &mut self.queue {
                        waiting.luck = self.loss_stream.next_u64();
                    }
                }
                self.settings.loss = model;
                self.bad = false;
            }
        }
    }

    /// Handles all events up to `now`, in order.
    pub(crate) fn run(&mut self, now: Instant) {
        loop {
            let service_ends = self.service_ends();
            let arrives = self.wire.first().map(|on_wire| on_wire.1);
            match (service_ends, arrives) {
                (Some(end), _) if end <= now && arrives.is_none_or(|at| end <= at) => {
                    self.depart(end);
                }
                (_, Some(at)) if at <= now => {
                    if let (Some(packet), at) = self.wire.remove(0) {
                        self.told.push((packet, at, None));
                    }
                }
                _ => return,
            }
        }
    }

    fn service_ends(&self) -> Option<Instant> {
        let first = self.queue.first()?;
        let rate = u128::from(self.settings.rate.bps());
        match self.settings.rate {
            Rate::ZERO => None,
            Rate::UNLIMITED => Some(self.serving_since),
            _ => {
                let nanos = (first.left + rate / 2) / rate;
                Some(self.serving_since + Duration::from_nanos(nanos as u64))
            }
        }
    }

    fn depart(&mut self, at: Instant) {
        let gone = self.queue.remove(0);
        self.serving_since = at;
        let lost = self.settings.loss_at == LossAt::Exit && self.is_lost(gone.luck);
        self.last_arrival = self.last_arrival.max(at + self.settings.delay + gone.jitter);
        self.wire.push(((!lost).then_some(gone.packet), self.last_arrival));
        if lost {
            self.told.push((gone.packet, at, Some(DropReason::Loss)));
        }
    }

    fn is_lost(&mut self, luck: u64) -> bool {
        let unit = |bits: u64, width: i32| bits as f64 / 2f64.powi(width);
        let (high, low) = (unit(luck >> 32, 32), unit(luck & 0xffff_ffff, 32));
        match self.settings.loss {
            None => false,
            Some(LossModel::Bernoulli(p)) => unit(luck >> 11, 53) < p,
            Some(LossModel::GilbertElliott { p, r, h, k }) => {
                let survive = if self.bad { h } else { k };
                let leave = if self.bad { r } else { p };
                if low < leave {
                    self.bad = !self.bad;
                }
                high >= survive
            }
        }
    }
}
