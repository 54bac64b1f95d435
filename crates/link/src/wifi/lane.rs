//! One direction of one station: its queue, its backoff, and its transmissions.

use std::collections::VecDeque;

use anabranch_units::{ByteCount, Duration, Instant, RandomStream, Rate, Seed};

use super::phy::{Phy, WINDOW};
use super::radio::Radio;
use super::{FAST_TRIES, LONGEST, SLOT, TRIES, WINDOW_MAX, WINDOW_MIN, WifiModel};
use crate::entrance::{Entrance, Held};
use crate::wire::{Flying, Outcome as End, Wire};
use crate::{Change, DropReason, Fate, Label, LinkConfig, LinkStats, Queued};

pub(super) struct Lane<P> {
    pub(super) name: String,
    pub(super) delay: Duration,
    pub(super) wire: Wire<P>,
    pub(super) stats: LinkStats,
    cap: Rate,
    /// The end of the pause that the lane's rate limit requires.
    capped_until: Instant,
    /// The queue of packets that the radio has not taken.
    entrance: Entrance<P>,
    radio: Radio,
    /// The packets that the radio has taken and not delivered, in order. The first one was not received yet. If
    /// any packet waits in the queue, this list is not empty.
    taken: VecDeque<Frame<P>>,
    /// The number of packets in `taken` that were received or given up. The receiver holds back the received ones.
    settled: usize,
    /// The bytes of the packets in `taken` that were neither received nor given up.
    open_bytes: u64,
    /// The arrival of the first packet, if it found no other packet waiting.
    ready: Instant,
    /// The number of idle slots to count down before the lane may send.
    backoff: u32,
    /// The upper end of the range from which the backoff is drawn.
    window: u32,
    /// Bit masks over the indexes of `taken`: the frames on the air, and those of them that are received.
    on_air: u64,
    heard: u64,
    /// Whether the lane is sending. All packets of the transmission may have been discarded by an
    /// outage that began after it.
    transmitting: bool,
}

struct Frame<P> {
    held: Held<P>,
    marked: bool,
    tries: u8,
    outcome: Outcome,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    GivenUp,
    Heard,
    Open,
}

impl<P: Clone> Lane<P> {
    pub(super) fn new(
        config: LinkConfig,
        model: &WifiModel,
        phy: Phy,
        backoff: u32,
        seed: Seed,
    ) -> Self {
        let signal = seed.stream(&format!("wifi.{}.signal", model.station));
        Self {
            delay: config.delay,
            wire: Wire::new(&config.impairments, &config.name, seed),
            stats: LinkStats::default(),
            cap: config.rate,
            capped_until: Instant::ZERO,
            entrance: Entrance::new(&config, seed),
            radio: Radio::new(phy, model.snr_db, model.fading_db, model.memory, signal),
            taken: VecDeque::new(),
            settled: 0,
            open_bytes: 0,
            ready: Instant::ZERO,
            backoff,
            window: WINDOW_MIN,
            on_air: 0,
            heard: 0,
            transmitting: false,
            name: config.name,
        }
    }

    /// Takes a packet. Returns whether it is the only one that waits.
    pub(super) fn enter(&mut self, now: Instant, packet: P, label: Label) -> bool {
        self.stats.enqueued += 1;
        let drawn = self.entrance.draw();
        let open = self.open();
        let books = (&mut self.wire, &mut self.stats);
        self.entrance.admit(now, (packet, label), drawn, open, books);
        if !self.taken.is_empty() || !self.take(now) {
            return false;
        }
        self.ready = now;
        true
    }

    /// Moves the next packet from the queue to the radio. Returns whether there was one.
    fn take(&mut self, now: Instant) -> bool {
        let books = (&mut self.wire, &mut self.stats);
        let Some((held, marked)) = self.entrance.next(now, books) else { return false };
        self.open_bytes += held.size.0;
        self.taken.push_back(Frame { held, marked, tries: 0, outcome: Outcome::Open });
        true
    }

    /// Returns the packets that the radio has taken, without those that were received or given up.
    fn open(&self) -> Queued {
        let packets = (self.taken.len() - self.settled) as u64;
        Queued { packets, bytes: ByteCount(self.open_bytes) }
    }

    /// Handles the arrival of a first packet while the medium is busy. If the last backoff has ended, another one
    /// begins.
    pub(super) fn defer(&mut self, luck: &mut RandomStream) {
        if self.backoff == 0 {
            self.back_off(luck);
        }
    }

    fn back_off(&mut self, luck: &mut RandomStream) {
        self.backoff = luck.below(u64::from(self.window) + 1) as u32;
    }

    /// Returns the time for which the medium must be idle before the backoff continues.
    pub(super) fn silence(&self) -> Duration {
        self.radio.phy.silence
    }

    /// Returns the time at which the lane sends, if the medium is idle from `silent_from` on.
    pub(super) fn begins(&self, silent_from: Instant) -> Option<Instant> {
        if self.taken.is_empty() || self.cap == Rate::ZERO {
            return None;
        }
        let counted = silent_from + self.silence() + SLOT * u64::from(self.backoff);
        Some(counted.max(self.ready).max(self.capped_until))
    }

    /// Counts down the backoff for an idle time that ends at `at`.
    pub(super) fn count_down(&mut self, silent_from: Instant, at: Instant) {
        let silence = at.since(silent_from + self.silence());
        let slots = silence.as_nanos() / SLOT.as_nanos();
        self.backoff = u64::from(self.backoff).saturating_sub(slots) as u32;
    }

    /// Returns the shortest airtime of the first packet.
    pub(super) fn least_airtime(&self) -> Duration {
        let first = self.taken.front().map_or(0, |frame| self.radio.phy.frame(frame.held.size));
        self.radio.phy.airtime(first, self.radio.top_rate())
    }

    /// Sends a frame or an aggregate. Returns the durations of the data and of the acknowledgement.
    pub(super) fn transmit(
        &mut self,
        at: Instant,
        luck: &mut RandomStream,
    ) -> (Duration, Duration) {
        let slowest = self.taken.front().is_some_and(|first| first.tries >= FAST_TRIES);
        let rate = self.radio.rate(at, slowest);
        let (most_frames, most_bytes) = self.radio.phy.aggregate;
        let (mut frames, mut bytes, mut payload) = (0, 0, 0);
        self.on_air = 0;
        self.heard = 0;
        self.transmitting = true;
        for place in 0..WINDOW {
            if place == self.taken.len() && (frames == most_frames || !self.take(at)) {
                break;
            }
            let Frame { held: Held { size, .. }, outcome, .. } = &self.taken[place];
            if *outcome != Outcome::Open {
                continue;
            }
            let phy = &self.radio.phy;
            let more = phy.frame(*size);
            let fits = bytes + more <= most_bytes && phy.airtime(bytes + more, rate) <= LONGEST;
            if frames == most_frames || (frames > 0 && !fits) {
                break;
            }
            frames += 1;
            bytes += more;
            payload += size.0;
            self.on_air |= 1 << place;
            if !self.radio.loses(more, slowest, luck) {
                self.heard |= 1 << place;
            }
        }
        let spent = self.cap.transmit_time(ByteCount(payload));
        // The wait for the medium does not count towards the rate limit.
        self.capped_until = self.capped_until.max(self.ready) + spent;
        let phy = &self.radio.phy;
        (phy.airtime(bytes, rate), phy.sifs + phy.answer(frames, rate))
    }

    /// Returns whether any packet is not delivered yet.
    pub(super) fn waits(&self) -> bool {
        !self.taken.is_empty()
    }

    pub(super) fn transmitting(&self) -> bool {
        self.transmitting
    }

    /// Handles the end of this lane's transmission.
    pub(super) fn finish(&mut self, now: Instant, collision: bool, luck: &mut RandomStream) {
        let heard = if collision { 0 } else { self.heard };
        let mut given_up = false;
        let mut places = self.on_air;
        while places != 0 {
            let place = places.trailing_zeros();
            places &= places - 1;
            let frame = &mut self.taken[place as usize];
            frame.tries += 1;
            if heard >> place & 1 == 1 {
                frame.outcome = Outcome::Heard;
            } else if frame.tries == TRIES {
                frame.outcome = Outcome::GivenUp;
                given_up = true;
            } else {
                continue;
            }
            self.settled += 1;
            self.open_bytes -= frame.held.size.0;
        }
        // If no frame was received, all of them are sent again, and the contention window doubles.
        let failed = self.on_air != 0 && heard == 0 && !given_up;
        self.window = if failed { (self.window * 2 + 1).min(WINDOW_MAX) } else { WINDOW_MIN };
        self.transmitting = false;
        self.on_air = 0;
        self.back_off(luck);
        self.deliver(now);
    }

    /// Puts packets on the wire, up to the first one that was neither received nor given up.
    fn deliver(&mut self, now: Instant) {
        while self.taken.front().is_some_and(|frame| frame.outcome != Outcome::Open) {
            let Some(Frame { held, marked, outcome, .. }) = self.taken.pop_front() else {
                return;
            };
            self.settled -= 1;
            let lost = outcome == Outcome::GivenUp || self.entrance.strikes_at_exit(held.luck);
            let arrives = now + self.delay + self.entrance.jitter(&held);
            let outcome = if lost { End::Lost } else { End::Arrives };
            let Held { packet, size, .. } = held;
            let gone =
                Flying { packet, size, departed: now, arrives, outcome, marked, copy: false };
            self.wire.push(gone, &mut self.stats);
        }
        if self.taken.is_empty() {
            self.take(now);
        }
    }

    pub(super) fn set(&mut self, now: Instant, change: Change) {
        match change {
            Change::Delay(delay) => self.delay = delay,
            Change::Down => self.go_down(now),
            Change::Loss(model) => {
                let taken = self.taken.iter_mut().map(|frame| &mut frame.held.luck);
                self.entrance.set_loss(model, taken);
            }
            Change::Rate(rate) => {
                self.cap = rate;
                self.capped_until = now;
            }
            Change::Up => self.entrance.up = true,
        }
    }

    fn go_down(&mut self, now: Instant) {
        self.wire.cut(now, &mut self.stats);
        let taken = self.taken.drain(..).map(|frame| frame.held);
        for held in taken.chain(self.entrance.close()) {
            self.wire.seal(now, held.packet, DropReason::Down, &mut self.stats);
        }
        self.wire.close_cut();
        self.settled = 0;
        self.open_bytes = 0;
        self.on_air = 0;
        self.heard = 0;
    }

    pub(super) fn poll(&mut self, now: Instant) -> Option<Fate<P>> {
        self.wire.poll(now, &mut self.stats)
    }

    pub(super) fn queued(&self) -> Queued {
        let (open, waiting) = (self.open(), self.entrance.waiting());
        Queued {
            packets: open.packets + waiting.packets,
            bytes: ByteCount(open.bytes.0 + waiting.bytes.0),
        }
    }

    pub(super) fn in_transit(&self) -> u64 {
        self.taken.len() as u64 + self.entrance.waiting().packets + self.wire.len()
    }
}
