//! Pacing: the rate Linux always estimates (`tcp_update_pacing_rate`) and, where a controller or
//! the configuration asks for it, the spacing of segments by that rate (`tcp_update_skb_after_send`).

use anabranch_units::{ByteCount, Duration, Instant, Rate};

use crate::congestion::Window;

/// The first segments of a connection go out unpaced (`tcp_update_skb_after_send`, `data_segs_out`).
const UNPACED_SEGMENTS: u64 = 10;

/// The pacing state of one subflow.
#[derive(Debug)]
pub(crate) struct Pacer {
    forced: bool,
    enforced: bool,
    rate: Rate,
    next: Instant,
    waiting: bool,
    sent: u64,
}

impl Pacer {
    pub(crate) fn new(forced: bool) -> Self {
        Self {
            forced,
            enforced: forced,
            rate: Rate::ZERO,
            next: Instant::ZERO,
            waiting: false,
            sent: 0,
        }
    }

    /// The current rate.
    pub(crate) fn rate(&self) -> Rate {
        self.rate
    }

    /// The rate is enforced.
    pub(crate) fn enforced(&self) -> bool {
        self.enforced
    }

    /// Linux's estimate: 200 % of window per RTT in early slow start, then 120 %.
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
        // rate = bytes / srtt with srtt in eighths of a microsecond.
        let rate = bytes.saturating_mul(8_000_000).checked_div(srtt8_micros);
        self.rate = rate.map_or(Rate::UNLIMITED, Rate::from_bytes_per_second);
    }

    /// True when a segment must wait; the wake-up is armed.
    pub(crate) fn blocked(&mut self, now: Instant) -> bool {
        self.waiting = self.enforced && now < self.next;
        self.waiting
    }

    /// A segment was sent.
    pub(crate) fn on_sent(&mut self, now: Instant, bytes: u64) {
        self.sent += 1;
        if !self.enforced || self.sent <= UNPACED_SEGMENTS {
            return;
        }
        let gap = self.rate.transmit_time(ByteCount(bytes));
        // A late sender catches up by at most half a gap (`tcp_update_skb_after_send`).
        let late = now.since(self.next).min(gap / 2);
        let gap = gap.min(Duration::from_secs(1)).saturating_sub(late);
        self.next = now + gap;
    }

    /// Time has come: the wake-up is spent.
    pub(crate) fn on_wake(&mut self, now: Instant) {
        self.waiting &= now < self.next;
    }

    /// When the next segment may leave.
    pub(crate) fn next_departure(&self) -> Instant {
        self.next
    }

    /// When to try again.
    pub(crate) fn wake(&self) -> Option<Instant> {
        self.waiting.then_some(self.next)
    }
}
