//! Delivery-rate sampling (draft-ietf-ccwg-bbr section 4.1; Linux `tcp_rate.c`).

use anabranch_units::{Duration, Instant, Rate};

use super::scoreboard::{Sent, TxStamp};
use crate::congestion::RateSample;

/// The subflow's delivery state and the sample being gathered from one acknowledgement.
#[derive(Debug, Default)]
pub(crate) struct Sampler {
    /// Segments delivered so far (`tp->delivered`).
    pub(crate) delivered: u64,
    /// Segments marked lost so far (`tp->lost`).
    pub(crate) lost: u64,
    delivered_at: Instant,
    first_sent: Instant,
    /// Delivered count at which the application-limited phase ends; zero when not limited.
    app_limited_until: u64,
    best: Option<(Instant, u64, TxStamp)>,
    last_delivered: u32,
    last_interval: Duration,
    last_rate: Rate,
}

impl Sampler {
    /// The stamp of a segment sent now (`tcp_rate_skb_sent`).
    pub(crate) fn stamp(&mut self, now: Instant, in_flight: u32, idle: bool) -> TxStamp {
        if idle {
            self.first_sent = now;
            self.delivered_at = now;
        }
        TxStamp {
            first_sent: self.first_sent,
            delivered_at: self.delivered_at,
            delivered: self.delivered,
            lost: self.lost,
            in_flight,
            app_limited: self.app_limited_until > 0,
        }
    }

    /// A segment was delivered, cumulatively or selectively (`tcp_rate_skb_delivered`).
    pub(crate) fn on_delivered(&mut self, now: Instant, sent: &Sent) {
        self.delivered += 1;
        self.delivered_at = now;
        let newer = self.best.is_none_or(|(at, end, _)| (sent.sent_at, sent.end()) > (at, end));
        if newer {
            self.best = Some((sent.sent_at, sent.end(), sent.stamp));
        }
    }

    /// What had been delivered when the newest segment that this acknowledgement delivers was sent;
    /// zero where it delivers none.
    pub(crate) fn prior_delivered(&self) -> u64 {
        self.best.map_or(0, |(_, _, stamp)| stamp.delivered)
    }

    /// Completes the sample of one acknowledgement (`tcp_rate_gen`).
    pub(crate) fn finish(
        &mut self,
        now: Instant,
        min_rtt: Option<Duration>,
        mss: u32,
    ) -> RateSample {
        if self.app_limited_until > 0 && self.delivered > self.app_limited_until {
            self.app_limited_until = 0;
        }
        let Some((sent_at, _, stamp)) = self.best.take() else {
            return RateSample::default();
        };
        self.first_sent = sent_at;
        let send_elapsed = sent_at.since(stamp.first_sent);
        let ack_elapsed = now.since(stamp.delivered_at);
        let mut sample = RateSample {
            delivered: (self.delivered - stamp.delivered) as u32,
            prior_delivered: stamp.delivered,
            interval: send_elapsed.max(ack_elapsed),
            app_limited: stamp.app_limited,
            in_flight_at_send: stamp.in_flight,
            lost: (self.lost - stamp.lost) as u32,
        };
        if min_rtt.is_some_and(|min| sample.interval < min) {
            sample.interval = Duration::ZERO;
            return sample;
        }
        if !sample.app_limited || self.faster(&sample) {
            self.last_delivered = sample.delivered;
            self.last_interval = sample.interval;
            let bytes = u64::from(sample.delivered) * u64::from(mss);
            let rate = bytes.saturating_mul(1_000_000_000) / sample.interval.as_nanos().max(1);
            self.last_rate = Rate::from_bytes_per_second(rate);
        }
        sample
    }

    /// The sample shows a higher rate than the last one kept.
    fn faster(&self, sample: &RateSample) -> bool {
        u128::from(sample.delivered) * u128::from(self.last_interval.as_nanos())
            >= u128::from(self.last_delivered) * u128::from(sample.interval.as_nanos())
    }

    /// The application has nothing more to send (`tcp_rate_check_app_limited`).
    pub(crate) fn mark_app_limited(&mut self, in_flight: u32) {
        self.app_limited_until = (self.delivered + u64::from(in_flight)).max(1);
    }

    /// The application is holding the subflow back.
    pub(crate) fn app_limited(&self) -> bool {
        self.app_limited_until > 0
    }

    /// The last sample worth showing (`tcpi_delivery_rate`).
    pub(crate) fn delivery_rate(&self) -> Rate {
        self.last_rate
    }
}
