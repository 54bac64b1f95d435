//! A link with a set rate: a drop-tail queue, a bottleneck and a wire.
//!
//! A packet of S bytes that enters at time t leaves the bottleneck at `max(t, departure of the previous packet) + 8 S /
//! rate`. It arrives one delay (and jitter) later.

use std::collections::VecDeque;

use anabranch_units::{ByteCount, Duration, Instant, Rate, Seed};

use crate::draws::Drawing;
use crate::loss::LossProcess;
use crate::{Change, DropReason, Fate, Link, LinkConfig, LinkStats, LossAt, LossModel};
use crate::{QueueLimit, Queued};

/// A link whose rate, delay and loss change only by [`Link::set`].
#[derive(Clone, Debug)]
pub struct FixedLink<P> {
    name: String,
    rate: Rate,
    limit: QueueLimit,
    delay: Duration,
    jitter: Duration,
    loss: Option<LossProcess>,
    loss_at: LossAt,
    up: bool,
    drawing: Drawing,
    /// All packets in the link in order of arrival: those on the wire come before those in the queue.
    inside: VecDeque<Passenger<P>>,
    /// The number of packets in `inside` that had left the queue when `advance` ran last. It is the index of the
    /// packet in service.
    departed: usize,
    /// The departure of the packet in service; far future without one. It is cached because most calls need it.
    next_departure: Instant,
    /// The bytes of the packets in the queue when `advance` ran last.
    queue_bytes: u64,
    /// The departure of the last packet that entered. The bottleneck is idle from then on.
    idle_from: Instant,
    /// The size and the service time of the last packet that entered. They are cached because the next packet usually
    /// has the same size.
    last_service: (ByteCount, Duration),
    /// The arrival of the last packet that entered. The next packet cannot arrive earlier, even if this one is lost.
    last_arrival: Instant,
    /// The arrival of the last packet that was removed from `inside`.
    last_told: Instant,
    /// The progress of the packet in service, if the rate changed during its service.
    partly_served: Option<PartlyServed>,
    /// Fates that are reported before the packets in `inside`: drops at the entry, and packets that an outage
    /// discarded.
    sealed: VecDeque<Fate<P>>,
    /// Whether `sealed` holds packets that an outage discarded. They are due at once, even if a delivery is pending.
    cut: bool,
    stats: LinkStats,
}

/// A packet in the link.
#[derive(Clone, Debug)]
struct Passenger<P> {
    packet: P,
    size: ByteCount,
    /// The time at which its last bit leaves the queue.
    departs: Instant,
    /// The time of its arrival at the far end, unless it is lost.
    arrives: Instant,
    jitter: Duration,
    luck: u64,
    /// Whether the packet is lost. Valid only after it has left the queue.
    lost: bool,
}

/// The unsent part of the packet that was in service at the last change of the rate.
#[derive(Clone, Copy, Debug)]
struct PartlyServed {
    at: Instant,
    /// The rest in billionths of a bit, which is bits per second times nanoseconds.
    left: u128,
}

impl<P> FixedLink<P> {
    /// Creates an idle link that is up. Its random streams are `link.<name>.loss` and `link.<name>.jitter`, unless
    /// [`LinkConfig::draws`] selects the emulator.
    ///
    /// # Panics
    ///
    /// Panics if [`LinkConfig::check`] returns an error, or if the settings are not [plain](LinkConfig::is_plain).
    pub fn new(config: LinkConfig, seed: Seed) -> Self {
        if let Err(error) = config.check() {
            panic!("link {}: {error}", config.name);
        }
        assert!(config.is_plain(), "link {}: a fixed link is a plain one", config.name);
        Self {
            drawing: Drawing::new(config.draws, &config.name, seed),
            name: config.name,
            rate: config.rate,
            limit: config.queue,
            delay: config.delay,
            jitter: config.jitter,
            loss: config.loss.map(LossProcess::new),
            loss_at: config.loss_at,
            up: true,
            inside: VecDeque::new(),
            departed: 0,
            next_departure: Instant::FAR_FUTURE,
            queue_bytes: 0,
            idle_from: Instant::ZERO,
            last_service: (ByteCount(0), config.rate.transmit_time(ByteCount(0))),
            last_arrival: Instant::ZERO,
            last_told: Instant::ZERO,
            partly_served: None,
            sealed: VecDeque::new(),
            cut: false,
            stats: LinkStats::default(),
        }
    }

    /// Moves the packets that have left the queue by `now` to the wire, and decides whether they are lost.
    ///
    /// The cost is amortised constant, because each packet is moved once.
    #[inline]
    fn advance(&mut self, now: Instant) {
        if self.next_departure <= now {
            self.pass_departed(now);
        }
    }

    // A run of 20 MB calls it 28,186 times.
    #[inline(always)]
    fn pass_departed(&mut self, now: Instant) {
        self.partly_served = None;
        self.next_departure = Instant::FAR_FUTURE;
        while let Some(next) = self.inside.get_mut(self.departed) {
            if next.departs > now {
                self.next_departure = next.departs;
                break;
            }
            if self.loss_at == LossAt::Exit
                && let Some(loss) = &mut self.loss
            {
                next.lost = loss.strikes(next.luck);
            }
            self.queue_bytes -= next.size.0;
            self.departed += 1;
        }
    }

    /// Returns the reason to drop a packet at the entry, if there is one. The checks follow the order of the stages.
    fn refusal(&mut self, size: ByteCount, luck: u64) -> Option<DropReason> {
        if !self.up {
            return Some(DropReason::Down);
        }
        if self.loss_at == LossAt::Entry
            && let Some(loss) = &mut self.loss
            && loss.strikes(luck)
        {
            return Some(DropReason::Loss);
        }
        let full = match self.limit {
            QueueLimit::Bytes(limit) => self.queue_bytes + size.0 > limit,
            QueueLimit::Packets(limit) => (self.inside.len() - self.departed) as u64 >= limit,
            QueueLimit::Unlimited => false,
        };
        full.then_some(DropReason::QueueFull)
    }

    fn seal_drop(&mut self, at: Instant, packet: P, why: DropReason) {
        self.stats.count_drop(why);
        self.sealed.push_back(Fate::Dropped { at, packet, why, copy: false });
    }

    /// Takes the oldest packet off the wire if it has arrived or is lost.
    #[inline]
    fn arrival(&mut self, now: Instant) -> Option<Fate<P>> {
        if self.departed == 0 {
            return None;
        }
        let oldest = self.inside.front()?;
        if !oldest.lost && oldest.arrives > now {
            return None;
        }
        let gone = self.inside.pop_front()?;
        self.departed -= 1;
        self.last_told = gone.arrives;
        Some(if gone.lost {
            self.stats.count_drop(DropReason::Loss);
            let Passenger { packet, departs: at, .. } = gone;
            Fate::Dropped { at, packet, why: DropReason::Loss, copy: false }
        } else {
            self.stats.count_delivery(gone.size);
            let Passenger { packet, arrives: at, .. } = gone;
            Fate::Delivered { at, packet, marked: false, copy: false, damage: None }
        })
    }

    /// Changes the rate. The packet in service keeps its served bits, and later departures follow from it.
    fn change_rate(&mut self, now: Instant, rate: Rate) {
        let old = std::mem::replace(&mut self.rate, rate);
        self.last_service.1 = rate.transmit_time(self.last_service.0);
        let Some(serving) = self.inside.get_mut(self.departed) else {
            return;
        };
        let before = self.partly_served.unwrap_or_else(|| PartlyServed {
            at: serving.departs - old.transmit_time(serving.size),
            left: u128::from(serving.size.0) * 8_000_000_000,
        });
        let served = u128::from(now.since(before.at).as_nanos()) * u128::from(old.bps());
        let left = before.left.saturating_sub(served);
        self.partly_served = Some(PartlyServed { at: now, left });
        serving.departs = now + remaining_time(left, rate);
        self.next_departure = serving.departs;
        let mut previous = serving.departs;
        for waiting in self.inside.range_mut(self.departed + 1..) {
            previous += rate.transmit_time(waiting.size);
            waiting.departs = previous;
        }
        self.idle_from = previous;
        self.restamp_arrivals();
    }

    /// Recomputes the arrivals of all packets in the queue, in order.
    fn restamp_arrivals(&mut self) {
        let mut floor = match self.departed.checked_sub(1) {
            Some(last_on_wire) => self.inside[last_on_wire].arrives,
            None => self.last_told,
        };
        for waiting in self.inside.range_mut(self.departed..) {
            floor = floor.max(waiting.departs + self.delay + waiting.jitter);
            waiting.arrives = floor;
        }
        self.last_arrival = floor;
    }

    fn change_loss(&mut self, model: Option<LossModel>) {
        // A packet gets a draw for its loss at the entry only if there is a loss model. The waiting packets get one
        // now.
        if self.loss.is_none() && model.is_some() && self.loss_at == LossAt::Exit {
            for waiting in self.inside.range_mut(self.departed..) {
                waiting.luck = self.drawing.luck(self.up);
            }
        }
        self.loss = model.map(LossProcess::new);
    }

    /// Takes the link down, and discards the packets inside. Packets that arrived or were lost by `now` keep that
    /// fate.
    fn go_down(&mut self, now: Instant) {
        while let Some(fate) = self.arrival(now) {
            self.sealed.push_back(fate);
        }
        while let Some(passenger) = self.inside.pop_front() {
            if passenger.lost {
                self.seal_drop(passenger.departs, passenger.packet, DropReason::Loss);
            } else {
                self.seal_drop(now, passenger.packet, DropReason::Down);
            }
        }
        self.up = false;
        self.departed = 0;
        self.next_departure = Instant::FAR_FUTURE;
        self.queue_bytes = 0;
        self.idle_from = now;
        // Discarded packets must not delay later ones.
        self.last_told = now;
        self.last_arrival = now;
        self.partly_served = None;
        self.cut = !self.sealed.is_empty();
    }
}

impl<P> Link<P> for FixedLink<P> {
    // A run of 20 MB calls it 28,314 times.
    #[inline(always)]
    fn enqueue(&mut self, now: Instant, packet: P, size: ByteCount) {
        self.stats.enqueued += 1;
        // A dropped packet draws, too. The n-th packets of two runs therefore have equal draws.
        let luck = if self.loss.is_some() { self.drawing.luck(self.up) } else { 0 };
        let jitter = self.drawing.jitter_of_any(self.jitter);
        self.advance(now);
        if let Some(why) = self.refusal(size, luck) {
            self.seal_drop(now, packet, why);
            return;
        }
        let jitter = jitter + self.drawing.jitter_of_admitted(self.jitter);
        if size != self.last_service.0 {
            self.last_service = (size, self.rate.transmit_time(size));
        }
        let departs = self.idle_from.max(now) + self.last_service.1;
        let arrives = self.last_arrival.max(departs + self.delay + jitter);
        if self.departed == self.inside.len() {
            self.next_departure = departs;
        }
        self.idle_from = departs;
        self.last_arrival = arrives;
        self.queue_bytes += size.0;
        self.inside.push_back(Passenger {
            packet,
            size,
            departs,
            arrives,
            jitter,
            luck,
            lost: false,
        });
        self.stats.note_queue(Queued {
            packets: (self.inside.len() - self.departed) as u64,
            bytes: ByteCount(self.queue_bytes),
        });
    }

    fn set(&mut self, now: Instant, change: Change) {
        self.advance(now);
        match change {
            Change::Delay(delay) => {
                self.delay = delay;
                self.restamp_arrivals();
            }
            Change::Down => self.go_down(now),
            Change::Loss(model) => self.change_loss(model),
            Change::Rate(rate) => self.change_rate(now, rate),
            Change::Up => self.up = true,
        }
    }

    // A run of 20 MB calls it 28,297 times.
    #[inline(always)]
    fn poll_fate(&mut self, now: Instant) -> Option<Fate<P>> {
        if let Some(fate) = self.sealed.pop_front() {
            self.cut &= !self.sealed.is_empty();
            return Some(fate);
        }
        self.advance(now);
        self.arrival(now)
    }

    #[inline]
    fn quiet_until(&self, now: Instant) -> Option<Instant> {
        // A packet that has not left the queue cannot have arrived.
        if !self.sealed.is_empty() || self.next_departure <= now {
            return None;
        }
        match self.inside.front() {
            Some(oldest) => Some(oldest.arrives).filter(|at| *at > now && !oldest.lost),
            None => Some(Instant::FAR_FUTURE),
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let delivery = self.inside.front().map(|oldest| oldest.arrives);
        match delivery.filter(|&at| at < Instant::FAR_FUTURE && !self.cut) {
            Some(at) => Some(at),
            None => self.sealed.front().map(Fate::at),
        }
    }

    fn stats(&self) -> &LinkStats {
        &self.stats
    }

    fn queued(&self, now: Instant) -> Queued {
        let mut queued = Queued::default();
        for waiting in self.inside.range(self.departed..).rev().take_while(|p| p.departs > now) {
            queued.packets += 1;
            queued.bytes.0 += waiting.size.0;
        }
        queued
    }

    fn in_transit(&self) -> u64 {
        self.inside.len() as u64
    }

    fn name(&self) -> &str {
        &self.name
    }
}

/// Returns the time for `left` billionths of a bit, rounded like [`Rate::transmit_time`].
pub(crate) fn remaining_time(left: u128, rate: Rate) -> Duration {
    match rate {
        Rate::UNLIMITED => Duration::ZERO,
        Rate::ZERO => Duration::MAX,
        _ => {
            let nanos = (left + u128::from(rate.bps() / 2)) / u128::from(rate.bps());
            Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
        }
    }
}
