//! Round-trip time and retransmission timeout as in Linux (RFC 6298; `tcp_rtt_estimator`, `tcp_set_rto`). RTO
//! = srtt + rttvar, and at least srtt + 200 ms.

use anabranch_units::{Duration, Instant};

use crate::config::{HostModel, RTO_MAX_DEFAULT};

/// The minimum of the variation term (`TCP_RTO_MIN`).
pub const RTO_MIN: Duration = Duration::from_millis(200);
/// The timeout before the first sample (`TCP_TIMEOUT_INIT`; RFC 6298 section 2.1).
pub(crate) const RTO_INITIAL: Duration = Duration::from_secs(1);
/// The first timeout after a handshake without a sample (`TCP_TIMEOUT_FALLBACK`; RFC 6298 section 5.7).
const RTO_FALLBACK: Duration = Duration::from_secs(3);
/// The period over which the minimum RTT is computed (`tcp_min_rtt_wlen`).
const MIN_RTT_WINDOW: Duration = Duration::from_secs(300);

/// The RTT estimator. Values are in microseconds with Linux's fixed-point scales.
#[derive(Clone, Debug)]
pub struct RttEstimator {
    /// The smoothed RTT times 8. Zero before the first sample.
    srtt8: u64,
    /// The mean deviation times 4.
    mdev4: u64,
    mdev_max4: u64,
    rttvar4: u64,
    /// The position whose acknowledgement ends the current round trip.
    window_end: u64,
    min_rtt: Option<Duration>,
    min_rtt_at: Instant,
    rto: Duration,
    backoff: u8,
    /// The longest timeout, in milliseconds.
    rto_max: u32,
}

impl Default for RttEstimator {
    fn default() -> Self {
        Self::new(RTO_MAX_DEFAULT)
    }
}

impl RttEstimator {
    /// Creates an estimator without a sample. Timeouts are at most `rto_max`.
    pub(crate) fn new(rto_max: Duration) -> Self {
        Self {
            srtt8: 0,
            mdev4: 0,
            mdev_max4: 0,
            rttvar4: 0,
            window_end: 0,
            min_rtt: None,
            min_rtt_at: Instant::ZERO,
            rto: RTO_INITIAL,
            backoff: 0,
            rto_max: rto_max.as_millis() as u32,
        }
    }

    /// Adds a sample. `una` and `nxt` are the sender's positions.
    #[inline]
    pub(crate) fn sample(&mut self, host: &HostModel, rtt: Duration, una: u64, nxt: u64) {
        let sample = rtt.as_micros().max(1);
        let floor = RTO_MIN.as_micros();
        if self.srtt8 == 0 {
            self.srtt8 = sample * 8;
            self.mdev4 = sample * 2;
            self.rttvar4 = self.mdev4.max(floor);
            self.mdev_max4 = self.rttvar4;
            self.window_end = nxt;
        } else {
            let mut error = sample as i64 - (self.srtt8 / 8) as i64;
            self.srtt8 = (self.srtt8 as i64 + error) as u64;
            if error < 0 {
                error = -error - (self.mdev4 / 4) as i64;
                // A falling RTT must not raise the deviation much (Linux divides the change by eight).
                if error > 0 {
                    error /= 8;
                }
            } else {
                error -= (self.mdev4 / 4) as i64;
            }
            self.mdev4 = (self.mdev4 as i64 + error) as u64;
            if self.mdev4 > self.mdev_max4 {
                self.mdev_max4 = self.mdev4;
                self.rttvar4 = self.rttvar4.max(self.mdev_max4);
            }
            if una > self.window_end {
                if self.mdev_max4 < self.rttvar4 {
                    self.rttvar4 -= (self.rttvar4 - self.mdev_max4) / 4;
                }
                self.window_end = nxt;
                self.mdev_max4 = floor;
            }
        }
        let rto = Duration::from_micros(self.srtt8 / 8 + self.rttvar4);
        self.rto = host.ticks(rto).min(self.rto_max());
        self.backoff = 0;
    }

    /// Sets a long first timeout, because the handshake gave no sample, probably after a retransmission
    /// (`tcp_init_metrics`).
    pub(crate) fn set_long_timeout(&mut self) {
        self.rto = RTO_FALLBACK.min(self.rto_max());
    }

    /// Adds a sample to the windowed minimum.
    pub(crate) fn sample_min(&mut self, now: Instant, rtt: Duration) {
        let expired = now.since(self.min_rtt_at) > MIN_RTT_WINDOW;
        if expired || self.min_rtt.is_none_or(|min| rtt <= min) {
            self.min_rtt = Some(rtt);
            self.min_rtt_at = now;
        }
    }

    /// Returns the smoothed RTT. `None` before the first sample.
    pub fn srtt(&self) -> Option<Duration> {
        (self.srtt8 > 0).then(|| Duration::from_micros(self.srtt8 / 8))
    }

    /// Returns the smoothed RTT times 8, in microseconds, for exact rate calculations.
    pub(crate) fn srtt8_micros(&self) -> u64 {
        self.srtt8
    }

    /// Returns the mean deviation, as used by schedulers.
    pub fn rttvar(&self) -> Duration {
        Duration::from_micros(self.rttvar4 / 4)
    }

    /// Returns the minimum RTT of the last five minutes.
    pub fn min_rtt(&self) -> Option<Duration> {
        self.min_rtt
    }

    /// Returns the retransmission timeout, including backoff.
    pub fn rto(&self) -> Duration {
        // Fast path: usually the timer has not fired.
        if self.backoff == 0 {
            return self.rto;
        }
        let factor = 1u64 << self.backoff.min(20);
        (self.rto * factor).min(self.rto_max())
    }

    /// Returns the longest timeout.
    pub(crate) fn rto_max(&self) -> Duration {
        Duration::from_millis(self.rto_max.into())
    }

    /// Doubles the timeout (RFC 6298 section 5.5).
    pub(crate) fn on_timeout(&mut self) {
        self.backoff = self.backoff.saturating_add(1);
    }

    /// Resets the backoff, because new data was acknowledged.
    pub(crate) fn reset_backoff(&mut self) {
        self.backoff = 0;
    }
}

/// Returns the TCP timestamp clock in milliseconds (RFC 7323 section 5.4). The value is never 0, which means
/// "no echo".
pub fn timestamp_clock(now: Instant) -> u32 {
    ((now.as_nanos() / 1_000_000) as u32).wrapping_add(1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact() -> HostModel {
        HostModel { timer_tick: Duration::ZERO, ..HostModel::default() }
    }

    #[test]
    fn first_sample_gives_rtt_plus_200_ms() {
        // RTO = m + max(2m, 200 ms): a 50 ms path starts at 250 ms.
        let mut rtt = RttEstimator::default();
        rtt.sample(&exact(), Duration::from_millis(50), 0, 1);
        assert_eq!(rtt.srtt(), Some(Duration::from_millis(50)));
        assert_eq!(rtt.rto(), Duration::from_millis(250));
        let mut rtt = RttEstimator::default();
        rtt.sample(&exact(), Duration::from_millis(300), 0, 1);
        assert_eq!(rtt.rto(), Duration::from_millis(900));
    }

    #[test]
    fn timeout_doubles_and_a_sample_restores_it() {
        let mut rtt = RttEstimator::default();
        rtt.sample(&exact(), Duration::from_millis(50), 0, 1);
        rtt.on_timeout();
        rtt.on_timeout();
        assert_eq!(rtt.rto(), Duration::from_secs(1));
        rtt.sample(&exact(), Duration::from_millis(50), 0, 1);
        assert_eq!(rtt.rto(), Duration::from_millis(250));
    }

    #[test]
    fn timeout_is_whole_ticks() {
        let mut rtt = RttEstimator::default();
        rtt.sample(&HostModel::default(), Duration::from_micros(50_100), 0, 1);
        assert_eq!(rtt.rto(), Duration::from_millis(252));
    }

    /// Returns an estimator after these samples in milliseconds. Each one belongs to a separate round trip.
    fn after(samples: &[u64]) -> RttEstimator {
        let mut rtt = RttEstimator::default();
        for (n, sample) in samples.iter().enumerate() {
            let n = n as u64;
            rtt.sample(&exact(), Duration::from_millis(*sample), 10 * n + 1, 10 * n + 5);
        }
        rtt
    }

    fn micros(rtt: &RttEstimator) -> [u64; 3] {
        let srtt = rtt.srtt().expect("a sample");
        [srtt.as_micros(), rtt.rttvar().as_micros(), rtt.rto().as_micros()]
    }

    #[test]
    fn rtt_estimator_matches_tcp_rtt_estimator() {
        // Calculated by hand, in microseconds. V is 4 RTTVAR, at least 200 ms. Sample 100: srtt 100,000, V
        // 200,000. Sample 500: error 400,000, srtt 150,000; mdev 4*50,000 -> 200,000 + 400,000 - 50,000 =
        // 550,000 = V.
        assert_eq!(micros(&after(&[100])), [100_000, 50_000, 300_000]);
        assert_eq!(micros(&after(&[100, 500])), [150_000, 137_500, 700_000]);
        // Sample 40: error -110,000, srtt 136,250. 110,000 - 137,500 < 0, so mdev decreases to 522,500. The
        // round trip ends. Its largest deviation, the maximum of 550,000 and 522,500, is compared with V.
        assert_eq!(micros(&after(&[100, 500, 40])), [136_250, (550_000 - 6_875) / 4, 679_375]);
    }

    #[test]
    fn the_variation_falls_only_when_a_window_ends() {
        let mut rtt = RttEstimator::default();
        rtt.sample(&exact(), Duration::from_millis(400), 1, 100);
        // V is 800,000. V does not change until the round trip ends.
        for una in [50, 100] {
            rtt.sample(&exact(), Duration::from_millis(400), una, 150);
            assert_eq!(rtt.rttvar().as_micros(), 200_000);
        }
        // After the round trip, its largest deviation is still the first one. A new maximum begins.
        rtt.sample(&exact(), Duration::from_millis(400), 101, 200);
        assert_eq!(rtt.rttvar().as_micros(), 200_000);
        // mdev: 800,000 (3/4)^4 = 253,125. V = 800,000 - (800,000 - 253,125) / 4 = 663,282 (rounded).
        rtt.sample(&exact(), Duration::from_millis(400), 201, 300);
        assert_eq!(rtt.rttvar().as_micros(), 663_282 / 4);
    }

    #[test]
    fn the_least_rtt_is_one_of_the_last_five_minutes() {
        // `tcp_min_rtt_wlen`: 300 s.
        let at = |s: u64| Instant::ZERO + Duration::from_secs(s);
        let ms = Duration::from_millis;
        let mut rtt = RttEstimator::default();
        assert_eq!(rtt.min_rtt(), None);
        rtt.sample_min(at(10), ms(50));
        rtt.sample_min(at(20), ms(60));
        assert_eq!(rtt.min_rtt(), Some(ms(50)));
        rtt.sample_min(at(310), ms(60));
        assert_eq!(rtt.min_rtt(), Some(ms(50)), "300 s are not more than 300 s");
        rtt.sample_min(at(311), ms(70));
        assert_eq!(rtt.min_rtt(), Some(ms(70)));
        // An equal sample renews the minimum.
        rtt.sample_min(at(500), ms(70));
        rtt.sample_min(at(700), ms(90));
        assert_eq!(rtt.min_rtt(), Some(ms(70)));
    }

    #[test]
    fn rto_is_bounded_and_has_a_default_before_any_sample() {
        let mut rtt = RttEstimator::default();
        assert_eq!((rtt.rto(), rtt.srtt(), rtt.srtt8_micros()), (Duration::from_secs(1), None, 0));
        rtt.set_long_timeout();
        assert_eq!(rtt.rto(), Duration::from_secs(3));
        for _ in 0..100 {
            rtt.on_timeout();
        }
        assert_eq!(rtt.rto(), Duration::from_secs(120));
        rtt.reset_backoff();
        assert_eq!(rtt.rto(), Duration::from_secs(3));
        rtt.sample(&exact(), Duration::from_secs(100), 0, 1);
        assert_eq!(rtt.rto(), Duration::from_secs(120), "of 300");
        assert_eq!(rtt.srtt8_micros(), 800_000_000);
        // A sample below a microsecond counts as one microsecond.
        let mut rtt = RttEstimator::default();
        rtt.sample(&exact(), Duration::from_nanos(10), 0, 1);
        assert_eq!(rtt.srtt8_micros(), 8);
    }
}
