//! Delivery-rate estimation (draft-ietf-ccwg-bbr section 4.1; Linux `tcp_rate.c`).

use anabranch_units::{Duration, Instant, Rate};

use super::{Sent, TxStamp};
use anabranch_congestion::RateSample;

/// The delivery counts of a connection, and the sample of the current acknowledgement.
#[derive(Debug, Default)]
pub struct Sampler {
    /// Segments delivered so far (`tp->delivered`).
    delivered: u64,
    /// Segments marked lost so far (`tp->lost`).
    lost: u64,
    delivered_at: Instant,
    first_sent: Instant,
    /// The delivered count at which the application-limited phase ends. Zero if there is no such phase.
    app_limited_until: u64,
    best: Option<(Instant, u64, TxStamp)>,
    last_delivered: u32,
    /// Segments delivered by acknowledgements with ECE (`tp->delivered_ce`). The copy in a stamp wraps.
    delivered_ce: u64,
    last_interval: Duration,
    last_rate: Rate,
}

impl Sampler {
    /// Creates the sampler of a connection whose handshake counts as one delivered segment
    /// (`tcp_rcv_state_process`, `tcp_clean_rtx_queue`).
    pub(in crate::sending) fn opened() -> Self {
        Self { delivered: 1, ..Self::default() }
    }

    /// Returns the number of segments delivered so far.
    #[inline]
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Returns the number of segments marked lost so far.
    #[inline]
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Returns the number of segments delivered by acknowledgements with ECE.
    #[inline]
    pub(in crate::sending) fn delivered_ce(&self) -> u64 {
        self.delivered_ce
    }

    /// Changes the delivered count by `segments`, for duplicate acknowledgements that do not identify a
    /// segment.
    pub(in crate::sending) fn add_delivered(&mut self, segments: i64) {
        self.delivered = self.delivered.wrapping_add_signed(segments);
    }

    /// Counts `segments` as delivered by an acknowledgement with ECE.
    pub(in crate::sending) fn on_marked(&mut self, segments: u64) {
        self.delivered_ce += segments;
    }

    /// Counts a lost segment. Returns the number of losses since `stamp`, including this one.
    pub(in crate::sending) fn on_lost(&mut self, stamp: &TxStamp) -> u32 {
        self.lost += 1;
        (self.lost as u32).wrapping_sub(stamp.lost)
    }

    /// Returns the stamp of a segment that is sent now (`tcp_rate_skb_sent`).
    pub(in crate::sending) fn on_sent(
        &mut self,
        now: Instant,
        in_flight: u32,
        idle: bool,
    ) -> TxStamp {
        if idle {
            self.first_sent = now;
            self.delivered_at = now;
        }
        TxStamp {
            first_sent: self.first_sent,
            delivered_at: self.delivered_at,
            delivered: self.delivered,
            delivered_ce: self.delivered_ce as u32,
            lost: self.lost as u32,
            in_flight,
            app_limited: self.app_limited_until > 0,
        }
    }

    /// Handles a segment that was acknowledged or SACKed (`tcp_rate_skb_delivered`).
    pub(in crate::sending) fn on_delivered(&mut self, now: Instant, sent: &Sent) {
        self.delivered += 1;
        self.delivered_at = now;
        let newer = self.best.is_none_or(|(at, end, _)| (sent.sent_at, sent.end()) > (at, end));
        if newer {
            self.best = Some((sent.sent_at, sent.end(), sent.stamp));
        }
    }

    /// Returns the number of segments that were delivered before the newest segment of this acknowledgement
    /// was sent. 0 if the acknowledgement delivers none.
    pub(in crate::sending) fn prior_delivered(&self) -> u64 {
        self.best.map_or(0, |(_, _, stamp)| stamp.delivered)
    }

    /// Discards the sample, because the peer has reneged and its SACKs may count twice.
    pub(in crate::sending) fn discard(&mut self) {
        self.best = None;
    }

    /// Completes the sample of one acknowledgement (`tcp_rate_gen`).
    #[inline]
    pub(in crate::sending) fn complete(
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
            lost: (self.lost as u32).wrapping_sub(stamp.lost),
            delivered_ce: (self.delivered_ce as u32).wrapping_sub(stamp.delivered_ce),
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

    /// Returns whether the sample has a rate at least as high as the stored one.
    fn faster(&self, sample: &RateSample) -> bool {
        u128::from(sample.delivered) * u128::from(self.last_interval.as_nanos())
            >= u128::from(self.last_delivered) * u128::from(sample.interval.as_nanos())
    }

    /// Begins an application-limited phase (`tcp_rate_check_app_limited`).
    pub(in crate::sending) fn mark_app_limited(&mut self, in_flight: u32) {
        self.app_limited_until = (self.delivered + u64::from(in_flight)).max(1);
    }

    /// Returns whether the application-limited phase continues.
    pub(in crate::sending) fn app_limited(&self) -> bool {
        self.app_limited_until > 0
    }

    /// Returns the rate of the last stored sample (`tcpi_delivery_rate`).
    pub fn delivery_rate(&self) -> Rate {
        self.last_rate
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::fixture::fresh;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// A segment of 100 bytes with its send time and stamp.
    fn sent(number: u64, at: Instant, stamp: TxStamp) -> Sent {
        Sent { serial: number, ..fresh(1 + 100 * number, 100, at, stamp) }
    }

    /// A sampler after one segment that was sent at 0 and delivered at 50 ms.
    fn begun() -> Sampler {
        let mut rate = Sampler::default();
        let stamp = rate.on_sent(at(0), 0, true);
        rate.on_delivered(at(50), &sent(0, at(0), stamp));
        let first = rate.complete(at(50), None, 1000);
        assert_eq!((first.delivered, first.interval), (1, ms(50)));
        rate
    }

    /// Sends two segments at these times and delivers both at once.
    fn two(rate: &mut Sampler, sent_at: [u64; 2], delivered: u64) -> RateSample {
        let both = [1, 2].map(|n| {
            let stamp = rate.on_sent(at(sent_at[n - 1]), n as u32 + 3, false);
            sent(n as u64, at(sent_at[n - 1]), stamp)
        });
        for segment in &both {
            rate.on_delivered(at(delivered), segment);
        }
        rate.complete(at(delivered), None, 1000)
    }

    #[test]
    fn a_sample_takes_the_longer_of_the_send_and_the_acknowledgement_interval() {
        // tcp_rate_gen: "the longer of the send and ACK phases is usually the more accurate".
        // Acknowledged within 210 - 50 = 160 ms, but sent within 200 - 0 = 200 ms.
        let mut rate = begun();
        let sample = two(&mut rate, [60, 200], 210);
        assert_eq!((sample.delivered, sample.interval), (2, ms(200)));
        // 2 * 1000 bytes in 200 ms.
        assert_eq!(rate.delivery_rate(), Rate::from_bytes_per_second(10_000));
        // Sent within 80 ms, but acknowledged within 300 - 50 = 250 ms.
        let mut rate = begun();
        let sample = two(&mut rate, [60, 80], 300);
        assert_eq!((sample.delivered, sample.interval), (2, ms(250)));
        assert_eq!(rate.delivery_rate(), Rate::from_bytes_per_second(8_000));
        assert_eq!((sample.prior_delivered, sample.in_flight_at_send), (1, 5));
        // The next send interval begins at the send time of the newest delivered segment.
        assert_eq!(rate.on_sent(at(310), 0, false).first_sent, at(80));
        assert_eq!(rate.on_sent(at(310), 0, false).delivered_at, at(300));
        // After an idle period, both intervals begin again.
        let stamp = rate.on_sent(at(400), 0, true);
        assert_eq!((stamp.first_sent, stamp.delivered_at), (at(400), at(400)));
    }

    #[test]
    fn the_newest_segment_delivered_makes_the_sample() {
        // tcp_rate_skb_delivered: the newest by send time, then by sequence number.
        let mut rate = begun();
        let early = rate.on_sent(at(60), 1, false);
        let late = TxStamp { delivered: 0, ..early };
        rate.on_delivered(at(200), &sent(5, at(90), late));
        rate.on_delivered(at(200), &sent(9, at(60), early));
        assert_eq!(rate.prior_delivered(), 0);
        assert_eq!(rate.complete(at(200), None, 1000).delivered, 3);
        assert_eq!(rate.prior_delivered(), 0, "the sample is taken");
        rate.on_delivered(at(300), &sent(6, at(90), TxStamp { delivered: 1, ..early }));
        rate.on_delivered(at(300), &sent(7, at(90), TxStamp { delivered: 2, ..early }));
        assert_eq!(rate.prior_delivered(), 2);
        rate.on_delivered(at(300), &sent(7, at(90), TxStamp { delivered: 3, ..early }));
        assert_eq!(rate.prior_delivered(), 2, "the same place once more is no newer");
    }

    #[test]
    fn an_interval_below_the_least_rtt_is_no_sample() {
        // "it may just be ACK compression": tcp_rate_gen, `interval_us < tcp_min_rtt`.
        for (least, counts) in [(50, true), (51, false)] {
            let mut rate = Sampler::default();
            let stamp = rate.on_sent(at(0), 0, true);
            rate.on_delivered(at(50), &sent(0, at(0), stamp));
            let sample = rate.complete(at(50), Some(ms(least)), 1000);
            assert_eq!(!sample.interval.is_zero(), counts);
            assert_eq!(rate.delivery_rate() > Rate::ZERO, counts);
        }
        let mut rate = begun();
        assert_eq!(rate.complete(at(60), None, 1000).delivered, 0, "nothing was delivered");
    }

    #[test]
    fn app_limited_phase_ends_when_the_flight_is_delivered() {
        let mut rate = begun();
        assert!(!rate.app_limited());
        // One segment is delivered and two are in flight. The limited phase lasts until the fourth is
        // delivered.
        rate.mark_app_limited(2);
        assert!(rate.app_limited());
        let sample = two(&mut rate, [60, 80], 300);
        assert!(sample.app_limited, "sent in the limited phase");
        assert!(rate.app_limited(), "three delivered are not more than three");
        let stamp = rate.on_sent(at(310), 0, false);
        assert!(stamp.app_limited);
        rate.on_delivered(at(350), &sent(3, at(310), stamp));
        rate.complete(at(350), None, 1000);
        assert!(!rate.app_limited() && !rate.on_sent(at(360), 0, false).app_limited);
        // At the start, the stored value must not be zero, which means no limit.
        let mut rate = Sampler::default();
        rate.mark_app_limited(0);
        assert!(rate.app_limited());
    }

    #[test]
    fn a_limited_sample_is_shown_only_where_it_is_no_slower() {
        // tcp_rate_gen: `!rs->is_app_limited || rs->delivered * rate_interval_us >= ...`.
        let shown = |interval: u64, limited: bool| {
            let mut rate = begun();
            let mut stamp = rate.on_sent(at(60), 0, true);
            stamp.app_limited = limited;
            rate.on_delivered(at(60 + interval), &sent(1, at(60), stamp));
            rate.complete(at(60 + interval), None, 1000);
            rate.delivery_rate()
        };
        // 1000 bytes in 50 ms were stored before.
        let rate = |interval: u64| Rate::from_bytes_per_second(1_000_000 / interval);
        assert_eq!(shown(100, true), rate(50));
        assert_eq!(shown(100, false), rate(100));
        assert_eq!(shown(25, true), rate(25));
        assert_eq!(shown(50, true), rate(50));
    }

    #[test]
    fn reneged_data_gives_no_delivery_rate_sample() {
        let mut rate = begun();
        let stamp = rate.on_sent(at(60), 0, true);
        rate.on_delivered(at(110), &sent(1, at(60), stamp));
        rate.discard();
        assert_eq!(rate.complete(at(110), None, 1000).delivered, 0);
        assert_eq!(rate.delivered, 2);
    }
}
