//! Pacing: the rate that Linux always estimates (`tcp_update_pacing_rate`), and the spacing of segments at
//! that rate if a controller or the configuration requires it (`tcp_update_skb_after_send`).

use anabranch_units::{ByteCount, Duration, Instant, Rate};

use anabranch_congestion::Window;

/// The number of the first data segment that is paced (`tcp_update_skb_after_send`, `data_segs_out`).
const FIRST_PACED: u64 = 10;

/// The pacing state of one connection.
#[derive(Debug)]
pub(crate) struct Pacer {
    forced: bool,
    /// Whether a timer spaces the segments, as in 4.14.
    timed: bool,
    enforced: bool,
    rate: Rate,
    next: Instant,
    waiting: bool,
    sent: u64,
    /// The payload of the current socket buffer that was sent so far, bytes.
    burst: u64,
    /// The lateness of the first segment of that buffer.
    late: Duration,
}

impl Pacer {
    pub(crate) fn new(forced: bool, timed: bool) -> Self {
        Self {
            forced,
            timed,
            enforced: forced,
            rate: Rate::ZERO,
            next: Instant::ZERO,
            waiting: false,
            sent: 0,
            burst: 0,
            late: Duration::ZERO,
        }
    }

    /// Returns the current rate.
    pub(crate) fn rate(&self) -> Rate {
        self.rate
    }

    /// Returns whether the rate is enforced.
    pub(crate) fn enforced(&self) -> bool {
        self.enforced
    }

    /// Computes the rate: that of the controller, or Linux's estimate. The estimate is 200 % of the window
    /// per RTT in early slow start, then 120 %.
    pub(crate) fn update(
        &mut self,
        own: Option<Rate>,
        window: &Window,
        packets_out: u32,
        mss: u32,
        srtt8_micros: u64,
    ) {
        self.enforced = self.forced || own.is_some();
        if let Some(rate) = own {
            self.rate = rate;
            return;
        }
        let percent = if window.cwnd < window.ssthresh / 2 { 200 } else { 120 };
        let bytes = u64::from(mss) * u64::from(window.cwnd.max(packets_out)) * percent / 100;
        // rate = bytes / srtt, where srtt is in eighths of a microsecond.
        let rate = bytes.saturating_mul(8_000_000).checked_div(srtt8_micros);
        self.rate = rate.map_or(Rate::UNLIMITED, Rate::from_bytes_per_second);
    }

    /// Returns whether a segment must wait. If so, a wake-up is set.
    pub(crate) fn check_blocked(&mut self, now: Instant) -> bool {
        self.waiting = self.holds_back(now);
        self.waiting
    }

    /// Returns whether a segment must wait, without setting a wake-up.
    pub(crate) fn holds_back(&self, now: Instant) -> bool {
        self.enforced && now < self.next
    }

    /// Handles a sent segment. If it `continues` the previous one, both share a socket buffer. A buffer is
    /// sent at once, and the next one waits for the transmission time of its payload. With a timer, the time
    /// includes its `headers`.
    pub(crate) fn on_sent(&mut self, now: Instant, bytes: u64, headers: u64, continues: bool) {
        self.sent += 1;
        if !self.enforced {
            return;
        }
        if !continues {
            self.burst = 0;
            self.late = now.since(self.next);
        }
        self.burst += bytes;
        if self.timed {
            // `tcp_internal_pacing`: the timer starts now.
            self.next = now + self.rate.transmit_time(ByteCount(self.burst + headers));
            return;
        }
        if self.sent < FIRST_PACED {
            self.next = now;
            return;
        }
        let gap = self.rate.transmit_time(ByteCount(self.burst));
        // A late sender catches up by at most half of an interval (`tcp_update_skb_after_send`).
        let late = self.late.min(gap / 2);
        let gap = gap.min(Duration::from_secs(1)).saturating_sub(late);
        self.next = now + gap;
    }

    /// Handles the wake-up.
    pub(crate) fn on_wake(&mut self, now: Instant) {
        self.waiting &= now < self.next;
    }

    /// Returns the earliest time of the next segment.
    pub(crate) fn next_departure(&self) -> Instant {
        self.next
    }

    /// Returns the time of the wake-up.
    pub(crate) fn wake(&self) -> Option<Instant> {
        self.waiting.then_some(self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(cwnd: u32, ssthresh: u32) -> Window {
        Window { cwnd, ssthresh }
    }

    fn at(us: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(us)
    }

    #[test]
    fn the_estimate_is_twice_the_rate_below_half_of_ssthresh_and_a_fifth_more_above() {
        // `tcp_pacing_ss_ratio` 200, `tcp_pacing_ca_ratio` 120; tcp_update_pacing_rate: the first while
        // cwnd < ssthresh / 2. Ten segments of 1000 bytes in 100 ms are 100 kB/s.
        let rate = |cwnd: u32, ssthresh: u32, packets_out: u32| {
            let mut pacer = Pacer::new(false, false);
            pacer.update(None, &window(cwnd, ssthresh), packets_out, 1000, 800_000);
            assert!(!pacer.enforced());
            pacer.rate().bytes_per_second()
        };
        assert_eq!(rate(10, u32::MAX, 0), 200_000);
        assert_eq!(rate(10, 22, 0), 200_000);
        assert_eq!(rate(10, 21, 0), 120_000, "half of 21 is 10");
        assert_eq!(rate(10, 10, 0), 120_000);
        // After a reduction, more segments may be outstanding than the window permits.
        assert_eq!(rate(10, 10, 25), 300_000);
        assert_eq!(rate(10, 10, 5), 120_000);
    }

    #[test]
    fn a_controllers_own_rate_is_kept_and_enforced() {
        let mut pacer = Pacer::new(false, false);
        pacer.update(None, &window(10, 5), 0, 1000, 0);
        assert_eq!(pacer.rate(), Rate::UNLIMITED, "no RTT yet");
        let own = Rate::from_bytes_per_second(77);
        pacer.update(Some(own), &window(10, 5), 0, 1000, 800_000);
        assert!(pacer.enforced() && pacer.rate() == own);
        pacer.update(None, &window(10, 5), 0, 1000, 800_000);
        assert!(!pacer.enforced());
        let mut forced = Pacer::new(true, false);
        assert!(forced.enforced());
        forced.update(None, &window(10, 5), 0, 1000, 800_000);
        assert!(forced.enforced());
    }

    /// A pacer with 1 MB/s: a millisecond per 1000 bytes. Nine segments were sent.
    fn paced() -> Pacer {
        let mut pacer = Pacer::new(false, false);
        pacer.update(Some(Rate::from_bytes_per_second(1_000_000)), &window(10, 5), 0, 1000, 1);
        for _ in 0..9 {
            assert!(!pacer.check_blocked(at(0)));
            pacer.on_sent(at(0), 1000, 0, false);
        }
        pacer
    }

    #[test]
    fn segments_are_spaced_from_the_tenth_on() {
        // tcp_update_skb_after_send: `tp->data_segs_out >= 10`, including the segment being sent.
        let mut pacer = paced();
        assert!(!pacer.check_blocked(at(0)) && pacer.wake().is_none());
        pacer.on_sent(at(5000), 1000, 0, false);
        // The segment is late and catches up by half an interval.
        assert_eq!(pacer.next_departure(), at(5500));
        assert!(pacer.check_blocked(at(5499)));
        assert_eq!(pacer.wake(), Some(at(5500)));
        pacer.on_wake(at(5499));
        assert_eq!(pacer.wake(), Some(at(5500)));
        pacer.on_wake(at(5500));
        assert_eq!(pacer.wake(), None);
        assert!(!pacer.check_blocked(at(5500)));
        // A segment on time is followed by a whole interval, and a slightly late one by an interval minus its
        // lateness.
        pacer.on_sent(at(5500), 1000, 0, false);
        assert_eq!(pacer.next_departure(), at(6500));
        pacer.on_sent(at(6700), 1000, 0, false);
        assert_eq!(pacer.next_departure(), at(7500));
    }

    #[test]
    fn the_gap_is_that_of_the_whole_socket_buffer() {
        // tcp_update_skb_after_send is called once per buffer with any number of segments: `len_ns = skb->len
        // * NSEC_PER_SEC / rate`, minus the lateness, at most half of it.
        let mut pacer = paced();
        pacer.on_sent(at(0), 1000, 0, false);
        pacer.on_sent(at(1000), 1000, 0, false);
        pacer.on_sent(at(1000), 1000, 0, true);
        assert_eq!(pacer.next_departure(), at(3000));
        // 800 µs late: the limit is 500 for the first segment's interval, and 1000 for both together.
        pacer.on_sent(at(3800), 1000, 0, false);
        assert_eq!(pacer.next_departure(), at(4300));
        pacer.on_sent(at(3800), 1000, 0, true);
        assert_eq!(pacer.next_departure(), at(5000));
        // The next buffer begins a new interval.
        pacer.on_sent(at(5000), 1000, 0, false);
        assert_eq!(pacer.next_departure(), at(6000));
    }

    #[test]
    fn a_gap_is_no_longer_than_a_second() {
        // `len_ns = min_t(u64, len_ns, NSEC_PER_SEC)`. Without enforcement, there is no interval.
        let mut pacer = paced();
        pacer.update(Some(Rate::from_bytes_per_second(10)), &window(10, 5), 0, 1000, 1);
        pacer.on_sent(at(0), 1000, 0, false);
        assert_eq!(pacer.next_departure(), at(1_000_000));
        let mut free = paced();
        free.update(None, &window(10, 5), 0, 1000, 800_000);
        free.on_sent(at(0), 1000, 0, false);
        assert_eq!(free.next_departure(), Instant::ZERO);
        assert!(!free.check_blocked(at(0)));
    }

    #[test]
    fn a_timer_counts_headers_from_the_first_segment_on_and_makes_up_for_nothing() {
        // tcp_internal_pacing of 4.14: `skb->len` with its header, at the pacing rate, from now on.
        let mut pacer = Pacer::new(false, true);
        pacer.update(Some(Rate::from_bytes_per_second(1_000_000)), &window(10, 5), 0, 1000, 1);
        pacer.on_sent(at(0), 1000, 50, false);
        assert_eq!(pacer.next_departure(), at(1050));
        pacer.on_sent(at(9000), 1000, 50, false);
        assert_eq!(pacer.next_departure(), at(10_050));
        // The second segment of a buffer has no header.
        pacer.on_sent(at(9000), 1000, 50, true);
        assert_eq!(pacer.next_departure(), at(11_050));
    }
}
