//! One station's radio: its signal-to-noise ratio over time, and the rate that it chooses.

use anabranch_units::{Duration, Instant, RandomStream};

use super::phy::{Phy, PhyRate};
use crate::quantiles::Wander;

/// The time between two changes of the signal.
const STEP: Duration = Duration::from_millis(10);
/// The number of steps between two choices of the rate: the window of Linux's Minstrel, 100 ms.
const STEPS_PER_CHOICE: u32 = 10;
/// The frame length for which the rate is chosen, in units of 1,000 bytes.
const TYPICAL: f64 = 1.5;

/// A station's signal-to-noise ratio over time, and the rate that was best at the last measurement of the ratio.
pub(crate) struct Radio {
    pub(crate) phy: Phy,
    mean_db: f64,
    spread_db: f64,
    wander: Wander,
    snr_db: f64,
    rate: usize,
    /// The expected number of losses of a frame of 1,000 bytes, at the chosen rate and at the slowest. For other
    /// lengths, the number is proportional to the length.
    hazard: f64,
    slow_hazard: f64,
    next_step: Instant,
    steps: u32,
}

impl Radio {
    pub(crate) fn new(
        phy: Phy,
        snr_db: f64,
        spread_db: f64,
        memory: Duration,
        stream: RandomStream,
    ) -> Self {
        let mut radio = Self {
            phy,
            mean_db: snr_db,
            spread_db,
            wander: Wander::new(stream, STEP, memory),
            snr_db,
            rate: 0,
            hazard: 0.0,
            slow_hazard: 0.0,
            next_step: if spread_db > 0.0 { Instant::ZERO } else { Instant::FAR_FUTURE },
            steps: 0,
        };
        radio.choose();
        radio.note_hazards();
        radio
    }

    /// Returns the chosen rate at `now`, or the slowest rate, which ends Minstrel's retry chain.
    pub(crate) fn rate(&mut self, now: Instant, slowest: bool) -> PhyRate {
        if self.next_step <= now {
            while self.next_step <= now {
                // The choice uses the ratio before this step changes it, as the last measurement.
                if self.steps.is_multiple_of(STEPS_PER_CHOICE) {
                    self.choose();
                }
                self.snr_db = self.mean_db + self.spread_db * self.wander.step();
                self.steps += 1;
                self.next_step += STEP;
            }
            self.note_hazards();
        }
        self.phy.rates[if slowest { 0 } else { self.rate }]
    }

    fn note_hazards(&mut self) {
        self.hazard = self.hazard_at(self.rate);
        self.slow_hazard = self.hazard_at(0);
    }

    /// Returns the fastest rate.
    pub(crate) fn top_rate(&self) -> PhyRate {
        self.phy.rates[self.phy.rates.len() - 1]
    }

    /// Draws whether a frame of this size is lost, at the chosen rate or at the slowest.
    pub(crate) fn loses(&self, bytes: u64, slowest: bool, stream: &mut RandomStream) -> bool {
        let hazard = if slowest { self.slow_hazard } else { self.hazard };
        let expected = hazard * bytes as f64 / 1000.0;
        let luck = stream.uniform();
        // 1 - exp(-x) < x, so most frames are decided without the exponential.
        luck < expected && luck < 1.0 - (-expected).exp()
    }

    /// Chooses the rate with the highest expected throughput.
    fn choose(&mut self) {
        let through = |rate: usize| {
            self.phy.rates[rate].bps() as f64 * (-self.hazard_at(rate) * TYPICAL).exp()
        };
        let mut best = 0;
        for rate in 1..self.phy.rates.len() {
            if through(rate) > through(best) {
                best = rate;
            }
        }
        self.rate = best;
    }

    /// Returns the expected losses of a 1,000-byte frame. At the threshold, a tenth of such frames is lost, which
    /// corresponds to -ln 0.9 = 0.105. The value changes by a factor of ten per decibel, similar to coded OFDM in the
    /// relevant range (assumed).
    fn hazard_at(&self, rate: usize) -> f64 {
        0.105_36 * 10f64.powf(self.phy.rates[rate].threshold_db - self.snr_db)
    }
}
