//! Round-trip time and retransmission timeout (RFC 6298 as Linux has it: `tcp_rtt_estimator`,
//! `tcp_set_rto`). RTO = srtt + rttvar is never below srtt + 200 ms.

use anabranch_units::{Duration, Instant};

use crate::config::HostModel;

/// Linux's `TCP_RTO_MIN`.
pub(crate) const RTO_MIN: Duration = Duration::from_millis(200);
/// Linux's `TCP_RTO_MAX`.
pub(crate) const RTO_MAX: Duration = Duration::from_secs(120);
/// Linux's `TCP_TIMEOUT_INIT` (RFC 6298 section 2.1).
pub(crate) const RTO_INITIAL: Duration = Duration::from_secs(1);
/// Linux's `TCP_TIMEOUT_FALLBACK` (RFC 6298 section 5.7).
const RTO_FALLBACK: Duration = Duration::from_secs(3);
/// The minimum RTT is a minimum over this span (`tcp_min_rtt_wlen`).
const MIN_RTT_WINDOW: Duration = Duration::from_secs(300);

/// The estimator. Internally in microseconds and in Linux's fixed-point scales.
#[derive(Clone, Debug)]
pub(crate) struct RttEstimator {
    /// Smoothed RTT times 8; zero before the first sample.
    srtt8: u64,
    /// Mean deviation times 4.
    mdev4: u64,
    mdev_max4: u64,
    rttvar4: u64,
    /// Position whose acknowledgement ends the current RTT window.
    window_end: u64,
    min_rtt: Option<Duration>,
    min_rtt_at: Instant,
    rto: Duration,
    backoff: u32,
}

impl Default for RttEstimator {
    fn default() -> Self {
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
        }
    }
}

impl RttEstimator {
    /// Takes one sample; `una` and `nxt` are the sender's positions.
    #[inline(always)]
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
                // A falling RTT must not inflate the deviation (Linux's Eifel-like dampening).
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
        self.rto = host.ticks(rto).min(RTO_MAX);
        self.backoff = 0;
    }

    /// The handshake measured nothing, most likely for a retransmission: the first timeout is long
    /// until a sample comes (`tcp_init_metrics`).
    pub(crate) fn distrust(&mut self) {
        self.rto = RTO_FALLBACK;
    }

    /// Feeds the windowed minimum.
    pub(crate) fn observe_min(&mut self, now: Instant, rtt: Duration) {
        let expired = now.since(self.min_rtt_at) > MIN_RTT_WINDOW;
        if expired || self.min_rtt.is_none_or(|min| rtt <= min) {
            self.min_rtt = Some(rtt);
            self.min_rtt_at = now;
        }
    }

    /// Smoothed RTT, once there is a sample.
    pub(crate) fn srtt(&self) -> Option<Duration> {
        (self.srtt8 > 0).then(|| Duration::from_micros(self.srtt8 / 8))
    }

    /// Smoothed RTT times 8 in microseconds, for rate arithmetic without loss.
    pub(crate) fn srtt8_micros(&self) -> u64 {
        self.srtt8
    }

    /// Mean deviation as schedulers read it.
    pub(crate) fn rttvar(&self) -> Duration {
        Duration::from_micros(self.rttvar4 / 4)
    }

    /// Windowed minimum RTT.
    pub(crate) fn min_rtt(&self) -> Option<Duration> {
        self.min_rtt
    }

    /// The timeout with its back-off.
    pub(crate) fn rto(&self) -> Duration {
        let factor = 1u64 << self.backoff.min(20);
        (self.rto * factor).min(RTO_MAX)
    }

    /// Doubles the timeout (RFC 6298 section 5.5).
    pub(crate) fn back_off(&mut self) {
        self.backoff += 1;
    }

    /// Forgets the back-off: new data was acknowledged.
    pub(crate) fn reset_backoff(&mut self) {
        self.backoff = 0;
    }
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
        rtt.back_off();
        rtt.back_off();
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
}
