//! One direction of one station: its queue, its backoff, and what it has on the air.

use std::collections::VecDeque;

use anabranch_units::{ByteCount, Duration, Instant, RandomStream, Rate, Seed};

use super::phy::{Phy, WINDOW};
use super::radio::Radio;
use super::{FAST_TRIES, LONGEST, SLOT, TRIES, WINDOW_MAX, WINDOW_MIN, WifiModel};
use crate::entrance::Entrance;
use crate::wire::Wire;
use crate::{Change, DropReason, Fate, LinkConfig, LinkStats, Queued};

pub(super) struct Lane<P> {
    pub(super) name: String,
    pub(super) delay: Duration,
    pub(super) wire: Wire<P>,
    pub(super) stats: LinkStats,
    cap: Rate,
    /// Silent until then, for the cap's sake.
    capped_until: Instant,
    jitter: Duration,
    jitter_stream: RandomStream,
    entrance: Entrance,
    radio: Radio,
    /// What was not delivered, in order; the first one was not heard yet.
    queue: VecDeque<Frame<P>>,
    /// Those of the queue that the receiver holds back, heard or given up.
    settled: usize,
    queue_bytes: u64,
    /// When the first packet came, if it found nothing waiting.
    ready: Instant,
    /// Slots of silence left before it may send.
    backoff: u32,
    /// The backoff is drawn from 0 to this.
    window: u32,
    /// The places in the queue that are on the air, and those of them that are heard: a bit each.
    on_air: u64,
    heard: u64,
    /// It sends, though perhaps nothing any more.
    transmitting: bool,
}

struct Frame<P> {
    packet: P,
    size: ByteCount,
    luck: u64,
    tries: u8,
    outcome: Outcome,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    GivenUp,
    Heard,
    Open,
}

impl<P> Lane<P> {
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
            wire: Wire::new(),
            stats: LinkStats::default(),
            cap: config.rate,
            capped_until: Instant::ZERO,
            jitter: config.jitter,
            jitter_stream: seed.stream(&format!("link.{}.jitter", config.name)),
            entrance: Entrance::new(&config, seed),
            radio: Radio::new(phy, model.snr_db, model.fading_db, model.memory, signal),
            queue: VecDeque::new(),
            settled: 0,
            queue_bytes: 0,
            ready: Instant::ZERO,
            backoff,
            window: WINDOW_MIN,
            on_air: 0,
            heard: 0,
            transmitting: false,
            name: config.name,
        }
    }

    /// A packet enters; true when it is the only one that waits.
    pub(super) fn enqueue(&mut self, now: Instant, packet: P, size: ByteCount) -> bool {
        self.stats.enqueued += 1;
        let luck = self.entrance.draw();
        let Queued { packets, .. } = self.queued();
        if let Some(why) = self.entrance.refusal(packets, self.queue_bytes, size, luck) {
            self.wire.seal(now, packet, why, &mut self.stats);
            return false;
        }
        self.queue.push_back(Frame { packet, size, luck, tries: 0, outcome: Outcome::Open });
        self.queue_bytes += size.0;
        self.stats.note_queue(Queued { packets: packets + 1, bytes: ByteCount(self.queue_bytes) });
        if self.queue.len() > 1 {
            return false;
        }
        self.ready = now;
        true
    }

    /// The medium is busy as the first packet comes: if the last backoff is over, another one begins.
    pub(super) fn defer(&mut self, luck: &mut RandomStream) {
        if self.backoff == 0 {
            self.back_off(luck);
        }
    }

    fn back_off(&mut self, luck: &mut RandomStream) {
        self.backoff = luck.below(u64::from(self.window) + 1) as u32;
    }

    /// How long the medium must be silent before the backoff goes on.
    pub(super) fn silence(&self) -> Duration {
        self.radio.phy.silence
    }

    /// When it would send, with the medium silent from an instant on.
    pub(super) fn begins(&self, silent_from: Instant) -> Option<Instant> {
        if self.queue.is_empty() || self.cap == Rate::ZERO {
            return None;
        }
        let counted = silent_from + self.silence() + SLOT * u64::from(self.backoff);
        Some(counted.max(self.ready).max(self.capped_until))
    }

    /// The silence ends at `at`.
    pub(super) fn count_down(&mut self, silent_from: Instant, at: Instant) {
        let silence = at.since(silent_from + self.silence());
        let slots = silence.as_nanos() / SLOT.as_nanos();
        self.backoff = u64::from(self.backoff).saturating_sub(slots) as u32;
    }

    /// The air that the first packet takes at least.
    pub(super) fn least_airtime(&self) -> Duration {
        let first = self.queue.front().map_or(0, |frame| self.radio.phy.frame(frame.size));
        self.radio.phy.airtime(first, self.radio.top_rate())
    }

    /// Sends a frame or an aggregate; returns how long the data and how long the answer takes.
    pub(super) fn transmit(
        &mut self,
        at: Instant,
        luck: &mut RandomStream,
    ) -> (Duration, Duration) {
        let slowest = self.queue.front().is_some_and(|first| first.tries >= FAST_TRIES);
        let rate = self.radio.rate(at, slowest);
        let phy = &self.radio.phy;
        let (most_frames, most_bytes) = phy.aggregate;
        let (mut frames, mut bytes, mut payload) = (0, 0, 0);
        self.on_air = 0;
        self.heard = 0;
        self.transmitting = true;
        for (place, frame) in self.queue.iter().enumerate().take(WINDOW) {
            if frame.outcome != Outcome::Open {
                continue;
            }
            let more = phy.frame(frame.size);
            let fits = bytes + more <= most_bytes && phy.airtime(bytes + more, rate) <= LONGEST;
            if frames == most_frames || (frames > 0 && !fits) {
                break;
            }
            frames += 1;
            bytes += more;
            payload += frame.size.0;
            self.on_air |= 1 << place;
            if !self.radio.loses(more, slowest, luck) {
                self.heard |= 1 << place;
            }
        }
        let spent = self.cap.transmit_time(ByteCount(payload));
        // Waiting for the medium costs nothing of the cap.
        self.capped_until = self.capped_until.max(self.ready) + spent;
        (phy.airtime(bytes, rate), phy.sifs + phy.answer(frames, rate))
    }

    /// Something is not delivered yet.
    pub(super) fn waits(&self) -> bool {
        !self.queue.is_empty()
    }

    pub(super) fn transmitting(&self) -> bool {
        self.transmitting
    }

    /// The data are over.
    pub(super) fn finish(&mut self, now: Instant, collision: bool, luck: &mut RandomStream) {
        let heard = if collision { 0 } else { self.heard };
        let mut given_up = false;
        let mut places = self.on_air;
        while places != 0 {
            let place = places.trailing_zeros();
            places &= places - 1;
            let frame = &mut self.queue[place as usize];
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
            self.queue_bytes -= frame.size.0;
        }
        // Nothing of the exchange came through, and there is another try.
        let failed = self.on_air != 0 && heard == 0 && !given_up;
        self.window = if failed { (self.window * 2 + 1).min(WINDOW_MAX) } else { WINDOW_MIN };
        self.transmitting = false;
        self.on_air = 0;
        self.back_off(luck);
        self.deliver(now);
    }

    /// Passes on what the receiver need not hold back.
    fn deliver(&mut self, now: Instant) {
        while self.queue.front().is_some_and(|frame| frame.outcome != Outcome::Open) {
            let Some(Frame { packet, size, luck, outcome, .. }) = self.queue.pop_front() else {
                return;
            };
            self.settled -= 1;
            let lost = outcome == Outcome::GivenUp || self.entrance.strikes_at_exit(luck);
            let jitter = if self.jitter.is_zero() {
                Duration::ZERO
            } else {
                let bound = self.jitter.as_nanos().saturating_add(1);
                Duration::from_nanos(self.jitter_stream.below(bound))
            };
            self.wire.push(packet, size, now, now + self.delay + jitter, lost);
        }
    }

    pub(super) fn set(&mut self, now: Instant, change: Change) {
        match change {
            Change::Delay(delay) => self.delay = delay,
            Change::Down => self.go_down(now),
            Change::Loss(model) => {
                if self.entrance.set_loss(model) {
                    for frame in &mut self.queue {
                        frame.luck = self.entrance.draw();
                    }
                }
            }
            Change::Rate(rate) => {
                self.cap = rate;
                self.capped_until = now;
            }
            Change::Up => self.entrance.up = true,
        }
    }

    fn go_down(&mut self, now: Instant) {
        self.entrance.up = false;
        self.wire.cut(now, &mut self.stats);
        for frame in self.queue.drain(..) {
            self.wire.seal(now, frame.packet, DropReason::Down, &mut self.stats);
        }
        self.wire.close_cut();
        self.settled = 0;
        self.queue_bytes = 0;
        self.on_air = 0;
        self.heard = 0;
    }

    pub(super) fn poll(&mut self, now: Instant) -> Option<Fate<P>> {
        self.wire.poll(now, &mut self.stats)
    }

    pub(super) fn queued(&self) -> Queued {
        Queued {
            packets: (self.queue.len() - self.settled) as u64,
            bytes: ByteCount(self.queue_bytes),
        }
    }

    pub(super) fn in_transit(&self) -> u64 {
        self.queue.len() as u64 + self.wire.len()
    }
}
