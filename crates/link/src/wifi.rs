//! An 802.11 channel: one half-duplex medium that all its lanes contend for.
//!
//! Each lane (one direction of one station) has a queue and takes part in the distributed coordination
//! function by itself: it counts a random backoff down while the medium is silent, sends a frame or an
//! aggregate, and is acknowledged. So a client's TCP acknowledgements contend with the data. Two
//! lanes that come to zero in one slot collide. A frame that is not acknowledged is repeated, after a
//! backoff from a doubled window, up to [`TRIES`] times in all; then it is lost. Behind a frame that is
//! repeated the receiver holds back what came after it, and delivers in order.
//!
//! Times and rates are those of IEEE 802.11-2016 ([`phy`]). It is held to Jun, Peddabachagari and
//! Sichitiu, "Theoretical maximum throughput of IEEE 802.11 and its applications" (NCA 2003), to
//! Bianchi's chance of collisions (IEEE JSAC 18(3), 2000), and to the TCP goodput known of 54 Mb/s.

mod kind;
mod lane;
mod phy;
mod radio;

use anabranch_units::{ByteCount, Duration, Instant, RandomStream, Seed};

use crate::model::kind::nanoseconds;
use crate::{Change, ConfigError, Fate, Label, LinkConfig, LinkStats, Medium, Queued};
use lane::Lane;
use phy::{LONGEST, Phy, SLOT};
use serde::Deserialize;

pub(crate) use kind::KIND;
pub use phy::WifiStandard;

/// Transmissions of one frame before it is given up (dot11ShortRetryLimit).
pub const TRIES: u8 = 7;
/// The number of those tries at the rate that promises most; the others are at the slowest.
const FAST_TRIES: u8 = 4;
/// The contention window, in slots less one: at first, and at most.
const WINDOW_MIN: u32 = 15;
const WINDOW_MAX: u32 = 1023;

/// A station's radio.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WifiModel {
    /// The channel: lanes on the same one share the air.
    pub channel: String,
    /// The generation.
    pub standard: WifiStandard,
    /// Channel width, MHz.
    pub width_mhz: u32,
    /// Spatial streams.
    pub streams: u8,
    /// The fastest rate to be used, bits a second; every one without it.
    #[serde(default, rename = "phy_bps")]
    pub top_bps: Option<u64>,
    /// Most frames of an aggregate, 1 to 64; 1 means no aggregation. 802.11a and g never aggregate.
    pub aggregate: usize,
    /// Mean signal to noise ratio, dB.
    pub snr_db: f64,
    /// Its standard deviation in time, dB; 0 keeps it.
    pub fading_db: f64,
    /// How fast it forgets.
    #[serde(rename = "memory_ns", deserialize_with = "nanoseconds")]
    pub memory: Duration,
    /// What both directions of one station have in common: their fading goes by this name.
    pub station: String,
}

impl WifiModel {
    /// A station close to its access point, one stream, the standard's usual width.
    pub fn new(standard: WifiStandard, station: impl Into<String>) -> Self {
        Self {
            channel: String::new(),
            standard,
            width_mhz: kind::usual_width(standard),
            streams: 1,
            top_bps: None,
            aggregate: phy::WINDOW,
            snr_db: 40.0,
            fading_db: 0.0,
            memory: Duration::from_millis(500),
            station: station.into(),
        }
    }

    fn phy(&self) -> Option<Phy> {
        let mut phy = Phy::new(self.standard, self.width_mhz, self.streams, self.top_bps)?;
        phy.aggregate.0 = phy.aggregate.0.min(self.aggregate);
        Some(phy)
    }

    /// Whether there is such a radio.
    ///
    /// # Errors
    ///
    /// When the standard lacks the width, the streams or any rate as low as the top one.
    pub fn check(&self) -> Result<(), ConfigError> {
        let finite = self.snr_db.is_finite() && self.fading_db.is_finite() && self.fading_db >= 0.0;
        let room = (1..=phy::WINDOW).contains(&self.aggregate);
        if finite && room && self.phy().is_some() { Ok(()) } else { Err(ConfigError::Wifi) }
    }

    /// The rates it may use, bits a second, slowest first.
    pub fn rates(&self) -> Vec<u64> {
        self.phy().map_or(Vec::new(), |phy| phy.rates.iter().map(|rate| rate.bps()).collect())
    }
}

/// A channel and the lanes on it.
///
/// Of the changes, `Rate` caps what a lane sends: it keeps silent until what it sent would have
/// passed at that rate. `Delay` and `Loss` come on top of the radio's. `Down` discards what is in the
/// lane; what it has on the air stays there, and reaches nobody.
pub struct WifiMedium<P> {
    lanes: Vec<Lane<P>>,
    luck: RandomStream,
    /// When the medium fell silent, or will once the answer is over.
    silent_from: Instant,
    on_air: Option<Exchange>,
    /// When the next exchange begins, unless a packet comes; far future when nothing waits.
    next: Instant,
    /// Its end at the earliest.
    next_end: Instant,
    /// The shortest delay of any lane: nothing is delivered sooner after the air.
    least_delay: Duration,
}

/// Data on the air: of one lane, or of several that collide.
#[derive(Clone, Copy, Debug)]
struct Exchange {
    /// When the data are over.
    ends: Instant,
    /// When the answer is over, or would be.
    silent_from: Instant,
    collision: bool,
}

impl<P: Clone> WifiMedium<P> {
    /// A silent channel. Its random stream is `wifi.<channel>`; its lanes have `link.<name>.loss`, and
    /// stations `wifi.<station>.signal`.
    ///
    /// # Panics
    ///
    /// When [`LinkConfig::check`] or [`WifiModel::check`] refuses a lane, or there is none.
    pub fn new(channel: &str, lanes: Vec<(LinkConfig, WifiModel)>, seed: Seed) -> Self {
        assert!(!lanes.is_empty(), "a channel has at least one lane");
        let mut luck = seed.stream(&format!("wifi.{channel}"));
        let lanes = lanes.into_iter().map(|(config, model)| {
            let phy = match config.check().and_then(|()| model.check()) {
                Ok(()) => model.phy(),
                Err(error) => panic!("link {}: {error}", config.name),
            };
            let phy = phy.expect("checked just now");
            Lane::new(config, &model, phy, luck.below(u64::from(WINDOW_MIN) + 1) as u32, seed)
        });
        let lanes: Vec<Lane<P>> = lanes.collect();
        let mut medium = Self {
            lanes,
            luck,
            silent_from: Instant::ZERO,
            on_air: None,
            next: Instant::FAR_FUTURE,
            next_end: Instant::FAR_FUTURE,
            least_delay: Duration::ZERO,
        };
        medium.note_delays();
        medium
    }

    fn note_delays(&mut self) {
        self.least_delay = self.lanes.iter().map(|lane| lane.delay).min().unwrap_or_default();
    }

    /// Lets everything happen that has happened by `now`.
    fn advance(&mut self, now: Instant) {
        loop {
            match self.on_air {
                Some(exchange) if exchange.ends <= now => self.finish(exchange),
                None if self.next <= now => self.begin(self.next),
                _ => return,
            }
        }
    }

    /// Works out when the next exchange begins.
    fn plan(&mut self) {
        self.next = Instant::FAR_FUTURE;
        self.next_end = Instant::FAR_FUTURE;
        for lane in &self.lanes {
            if let Some(at) = lane.begins(self.silent_from)
                && at < self.next
            {
                self.next = at;
                self.next_end = at + lane.least_airtime();
            }
        }
    }

    /// Those whose turn it is send.
    fn begin(&mut self, at: Instant) {
        let (mut senders, mut air, mut answer) = (0, Duration::ZERO, Duration::ZERO);
        for lane in &mut self.lanes {
            let sends = lane.begins(self.silent_from) == Some(at);
            lane.count_down(self.silent_from, at);
            if sends {
                let (own_air, own_answer) = lane.transmit(at, &mut self.luck);
                senders += 1;
                air = air.max(own_air);
                answer = answer.max(own_answer);
            }
        }
        let ends = at + air;
        let collision = senders > 1;
        self.on_air = Some(Exchange { ends, silent_from: ends + answer, collision });
    }

    /// The data are over: what was heard is on its way, what was not waits for another try.
    fn finish(&mut self, exchange: Exchange) {
        for lane in &mut self.lanes {
            if lane.transmitting() {
                lane.finish(exchange.ends, exchange.collision, &mut self.luck);
            }
        }
        self.silent_from = exchange.silent_from;
        self.on_air = None;
        self.plan();
    }
}

impl<P: Clone> Medium<P> for WifiMedium<P> {
    fn lanes(&self) -> usize {
        self.lanes.len()
    }

    fn enqueue(&mut self, now: Instant, lane: usize, packet: P, size: ByteCount) {
        self.enter(now, lane, packet, Label::of_size(size));
    }

    fn enter(&mut self, now: Instant, lane: usize, packet: P, label: Label) {
        self.advance(now);
        let busy = self.on_air.is_some();
        let lane = &mut self.lanes[lane];
        let first = lane.enter(now, packet, label);
        if first {
            if busy || now < self.silent_from + lane.silence() {
                lane.defer(&mut self.luck);
            }
            if !busy {
                self.plan();
            }
        }
    }

    fn set(&mut self, now: Instant, lane: usize, change: Change) {
        self.advance(now);
        self.lanes[lane].set(now, change);
        self.note_delays();
        if self.on_air.is_none() {
            self.plan();
        }
    }

    fn poll_fate(&mut self, now: Instant) -> Option<(usize, Fate<P>)> {
        self.advance(now);
        let mut lanes = self.lanes.iter_mut().enumerate();
        lanes.find_map(|(index, lane)| lane.poll(now).map(|fate| (index, fate)))
    }

    fn poll_timeout(&self) -> Option<Instant> {
        // An exchange of which nothing is left wakes nobody.
        let waits = self.lanes.iter().any(Lane::waits);
        let end = match self.on_air {
            Some(exchange) if waits => exchange.ends,
            Some(_) => Instant::FAR_FUTURE,
            None => self.next_end,
        };
        let mut next = end + self.least_delay;
        for lane in &self.lanes {
            if lane.wire.is_cut() {
                return lane.wire.first_sealed();
            }
            next = next.min(lane.wire.next_arrival());
        }
        if next < Instant::FAR_FUTURE {
            return Some(next);
        }
        self.lanes.iter().filter_map(|lane| lane.wire.first_sealed()).min()
    }

    fn stats(&self, lane: usize) -> &LinkStats {
        &self.lanes[lane].stats
    }

    fn queued(&self, _now: Instant, lane: usize) -> Queued {
        self.lanes[lane].queued()
    }

    fn in_transit(&self, lane: usize) -> u64 {
        self.lanes[lane].in_transit()
    }

    fn name(&self, lane: usize) -> &str {
        &self.lanes[lane].name
    }
}
