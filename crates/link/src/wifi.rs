//! An 802.11 channel: one half-duplex medium for which all its lanes contend.
//!
//! Each lane (one direction of one station) has a queue and its own distributed coordination function. The lane
//! counts down a random backoff while the medium is idle, sends a frame or an aggregate, and receives an
//! acknowledgement. A client's TCP acknowledgements therefore contend with the data. Two lanes whose backoffs end in
//! the same slot collide. A frame that is not acknowledged is sent again, after a backoff from a doubled window.
//! After [`TRIES`] transmissions the frame is lost. Until a frame is received or lost, the receiver holds back later
//! frames, so packets are delivered in order.
//!
//! Times and rates are those of IEEE 802.11-2016 ([`phy`]). Tests compare the channel with the maximum throughput of
//! Jun, Peddabachagari and Sichitiu ("Theoretical maximum throughput of IEEE 802.11 and its applications", NCA 2003).
//! They also compare it with Bianchi's probability of collisions (IEEE JSAC 18(3), 2000) and with the known TCP goodput
//! at 54 Mb/s.

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

/// The most transmissions of a frame (dot11ShortRetryLimit).
pub const TRIES: u8 = 7;
/// The number of tries at the rate with the highest expected throughput. The remaining tries use the slowest rate.
const FAST_TRIES: u8 = 4;
/// The initial and the largest contention window, in slots minus one.
const WINDOW_MIN: u32 = 15;
const WINDOW_MAX: u32 = 1023;

/// The settings of a station's radio.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WifiModel {
    /// The channel. Lanes of the same channel share the air.
    pub channel: String,
    /// The 802.11 standard.
    pub standard: WifiStandard,
    /// The channel width, MHz.
    pub width_mhz: u32,
    /// The number of spatial streams.
    pub streams: u8,
    /// The fastest rate to use, bit/s; `None` for all rates.
    #[serde(default, rename = "phy_bps")]
    pub top_bps: Option<u64>,
    /// The most frames of an aggregate, 1 to 64; 1 disables aggregation. 802.11a and g never aggregate.
    pub aggregate: usize,
    /// The mean signal-to-noise ratio, dB.
    pub snr_db: f64,
    /// The standard deviation of the ratio over time, dB; 0 keeps it constant.
    pub fading_db: f64,
    /// The correlation time of the ratio.
    #[serde(rename = "memory_ns", deserialize_with = "nanoseconds")]
    pub memory: Duration,
    /// The name of the station. Lanes with the same name share its fading.
    pub station: String,
}

impl WifiModel {
    /// Creates a station close to its access point, with one stream and the standard's usual width.
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

    /// Checks whether such a radio exists.
    ///
    /// # Errors
    ///
    /// Returns an error if the standard lacks the width or the number of streams. Also returns one if all rates exceed
    /// `top_bps`, or if another value is out of range.
    pub fn check(&self) -> Result<(), ConfigError> {
        let finite = self.snr_db.is_finite() && self.fading_db.is_finite() && self.fading_db >= 0.0;
        let room = (1..=phy::WINDOW).contains(&self.aggregate);
        if finite && room && self.phy().is_some() { Ok(()) } else { Err(ConfigError::Wifi) }
    }

    /// Returns the rates that the radio may use, bit/s, slowest first.
    pub fn rates(&self) -> Vec<u64> {
        self.phy().map_or(Vec::new(), |phy| phy.rates.iter().map(|rate| rate.bps()).collect())
    }
}

/// A channel and its lanes.
///
/// `Change::Rate` limits the rate of a lane: after a transmission, the lane waits for the time that its bytes take at
/// that rate. `Change::Delay` and `Change::Loss` are added to the radio's delay and loss. `Change::Down` discards the
/// packets in the lane. A transmission on the air continues, but is not received.
pub struct WifiMedium<P> {
    lanes: Vec<Lane<P>>,
    luck: RandomStream,
    /// The time at which the medium becomes idle. It includes the acknowledgement that follows the data.
    silent_from: Instant,
    on_air: Option<Exchange>,
    /// The start of the next exchange, if no packet arrives before; far future if no packet waits.
    next: Instant,
    /// A lower bound of the end of the next exchange.
    next_end: Instant,
    /// The smallest delay of any lane: the shortest time from the end of a transmission to a delivery.
    least_delay: Duration,
}

/// A transmission by one lane, or by several that collide, with its acknowledgement.
#[derive(Clone, Copy, Debug)]
struct Exchange {
    /// The end of the data.
    ends: Instant,
    /// The end of the acknowledgement, or of the time reserved for it.
    silent_from: Instant,
    collision: bool,
}

impl<P: Clone> WifiMedium<P> {
    /// Creates an idle channel. The random streams are `wifi.<channel>` for the channel, `link.<name>.loss` for each
    /// lane, and `wifi.<station>.signal` for each station.
    ///
    /// # Panics
    ///
    /// Panics if there is no lane, or if [`LinkConfig::check`] or [`WifiModel::check`] returns an error for one.
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

    /// Handles all exchanges that begin or end by `now`.
    fn advance(&mut self, now: Instant) {
        loop {
            match self.on_air {
                Some(exchange) if exchange.ends <= now => self.finish(exchange),
                None if self.next <= now => self.begin(self.next),
                _ => return,
            }
        }
    }

    /// Computes when the next exchange begins.
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

    /// Starts the transmission of every lane whose backoff ends at `at`.
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

    /// Ends an exchange. Received frames go to the wire, and the others wait for a retransmission.
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
        // The end of this exchange needs no wake-up if no frame waits for it.
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
