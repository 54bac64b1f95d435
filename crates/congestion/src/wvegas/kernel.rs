//! Weighted Vegas as computed by `mptcp_wvegas.c` of the out-of-tree kernel.
//!
//! Rates are integers in units of 2^-16 segments per microsecond. With 40 segments and 110 ms, a rate is only
//! about 24 units, so fractions of the total rate are coarse. A round without any queueing delay halves the
//! window, as if a queue had to be drained.

use anabranch_plugin::Parameters;
use anabranch_units::{Instant, Rate};

use super::super::reno::slow_start;
use super::super::sibling::counts;
use super::super::sibling::kernel::leaves;
use super::super::{
    AckSample, CongestionController, CongestionEvent, CongestionState, Reno, SiblingView, Window,
};

/// Fraction bits of rates and weights (`MPTCP_WVEGAS_SCALE`).
const SCALE: u32 = 16;
/// The base RTT before the first sample, microseconds.
const NO_BASE: u64 = 0x7fff_ffff;

/// Weighted Vegas in the integer arithmetic of the kernel.
#[derive(Debug)]
pub(super) struct Kernel {
    initial_alpha: u64,
    total_alpha: u64,
    gamma: u64,
    dead_leave: bool,
    reno: Reno,
    /// Whether the delay controls the window (`doing_wvegas_now`). True only in the state Open.
    open: bool,
    /// The round ends after this position (`beg_snd_nxt`). If `None`, the next acknowledgement sets it.
    end: Option<u64>,
    /// The number of RTT samples in the round (`cnt_rtt`), and their sum in microseconds (`sampled_rtt`).
    count: u64,
    sum: u64,
    base_rtt: u64,
    /// The rate in units of 2^-16 segments per microsecond (`instant_rate`).
    rate: u64,
    /// The fraction of the total rate of all subflows, in units of 2^-16.
    weight: u64,
    alpha: u64,
    /// The smallest queueing delay since the last reduction by `drain`, microseconds.
    queue_delay: u64,
    mss: u32,
    /// `snd_nxt` at the last acknowledgement.
    snd_nxt: u64,
}

impl Kernel {
    pub(super) fn build(parameters: &mut Parameters<'_>) -> Box<dyn CongestionController> {
        let mut built = Self {
            initial_alpha: parameters.whole("initial_alpha", 2, 1..=1000).into(),
            total_alpha: parameters.whole("total_alpha", 10, 1..=1000).into(),
            gamma: parameters.whole("gamma", 1, 0..=1000).into(),
            dead_leave: leaves(parameters),
            reno: Reno::default(),
            open: true,
            end: None,
            count: 0,
            sum: 0,
            base_rtt: NO_BASE,
            rate: 0,
            weight: 0,
            alpha: 0,
            queue_delay: 0,
            mss: 0,
            snd_nxt: 0,
        };
        built.enable(Some(0));
        Box::new(built)
    }

    /// Resets the rounds and the rate (`wvegas_enable`).
    fn enable(&mut self, end: Option<u64>) {
        (self.end, self.count, self.sum) = (end, 0, 0);
        (self.rate, self.weight, self.alpha) = (0, 1 << SCALE, self.initial_alpha);
        self.queue_delay = 0;
    }

    /// Returns the fraction of the total rate (`mptcp_wvegas_weight`).
    fn share(&self, ack: &AckSample<'_>) -> u64 {
        let other = |view: &&SiblingView| view.id != ack.id && counts(view, self.dead_leave);
        let rates = ack.siblings.iter().filter(other).filter_map(|view| view.published_rate);
        let total = self.rate + rates.map(|rate| units(rate, ack.mss)).sum::<u64>();
        if ack.multipath && self.rate > 0 { (self.rate << SCALE) / total } else { self.weight }
    }

    fn end_round(&mut self, ack: &AckSample<'_>, window: &mut Window) {
        let (cwnd, base) = (u64::from(window.cwnd), self.base_rtt);
        let rtt = self.sum / self.count;
        let queued = cwnd * (rtt - base) / rtt;
        if window.in_slow_start() {
            if queued > self.gamma {
                window.cwnd = cwnd.min(cwnd * base / rtt + 1) as u32;
                window.ssthresh = window.ssthresh.min(window.cwnd);
            } else {
                slow_start(window, ack.acked);
            }
        } else {
            self.steer(ack, window, queued, rtt);
            self.drain(window, rtt);
        }
        window.cwnd = window.cwnd.max(2);
        // The same reduction as `tcp_current_ssthresh`.
        window.ssthresh = window.ssthresh.max(window.cwnd / 2 + window.cwnd / 4);
    }

    /// Changes the window by one segment, so that alpha segments stay in queues.
    fn steer(&mut self, ack: &AckSample<'_>, window: &mut Window, queued: u64, rtt: u64) {
        if queued >= self.alpha {
            self.rate = (u64::from(window.cwnd) << SCALE) / rtt;
            self.weight = self.share(ack);
            self.alpha = ((self.weight * self.total_alpha) >> SCALE).max(2);
        }
        if queued > self.alpha {
            window.cwnd -= 1;
            window.ssthresh = window.ssthresh.min(window.cwnd);
        } else if queued < self.alpha {
            window.cwnd += 1;
        }
    }

    /// Reduces the window if the queueing delay has doubled since the last reduction.
    fn drain(&mut self, window: &mut Window, rtt: u64) {
        let delay = rtt - self.base_rtt;
        if self.queue_delay == 0 || self.queue_delay > delay {
            self.queue_delay = delay;
        }
        if delay >= 2 * self.queue_delay {
            let factor = (self.base_rtt << SCALE) / (2 * rtt);
            window.cwnd = ((u64::from(window.cwnd) * factor) >> SCALE) as u32;
            self.queue_delay = 0;
        }
    }
}

/// Converts a published rate to the kernel's units, in which it is an integer.
fn units(rate: Rate, mss: u32) -> u64 {
    let one = u128::from(mss) * 8_000_000;
    (((u128::from(rate.bps()) << SCALE) + one / 2) / one.max(1)) as u64
}

impl CongestionController for Kernel {
    fn name(&self) -> &'static str {
        "wvegas"
    }

    fn on_ack(&mut self, ack: &AckSample<'_>, window: &mut Window) {
        (self.mss, self.snd_nxt) = (ack.mss, ack.snd_nxt);
        if let Some(rtt) = ack.rtt {
            // One microsecond is added, so that the RTT is never zero (`mptcp_wvegas_pkts_acked`).
            let rtt = rtt.as_micros() + 1;
            self.base_rtt = self.base_rtt.min(rtt);
            // The acknowledgement that returns the subflow to Open is processed before the round begins.
            if self.end.is_some() {
                self.sum += rtt;
                self.count += 1;
            }
        }
        let end = *self.end.get_or_insert(ack.snd_nxt);
        if !self.open {
            self.reno.on_ack(ack, window);
        } else if !ack.may_grow {
        } else if ack.snd_una > end {
            if self.count > 2 {
                self.end_round(ack, window);
            } else {
                self.reno.on_ack(ack, window);
            }
            (self.end, self.count, self.sum) = (Some(ack.snd_nxt), 0, 0);
        } else if window.in_slow_start() {
            slow_start(window, ack.acked);
        }
    }

    fn on_congestion(&mut self, event: &CongestionEvent, window: &mut Window) {
        self.reno.on_congestion(event, window);
    }

    fn on_state(&mut self, _now: Instant, state: CongestionState, _window: &mut Window) {
        self.open = state == CongestionState::Open;
        if self.open {
            self.enable(None);
        } else if state == CongestionState::Loss {
            self.rate = 0;
        }
    }

    fn on_idle_restart(&mut self, _now: Instant) {
        self.base_rtt = NO_BASE;
        self.enable(Some(self.snd_nxt));
    }

    fn wants_siblings(&self) -> bool {
        true
    }

    /// Published only if the current round has RTT samples (`sampled_rtt`).
    fn published_rate(&self) -> Option<Rate> {
        let bps = (u128::from(self.rate) * u128::from(self.mss) * 8_000_000) >> SCALE;
        (bps > 0 && self.sum > 0).then(|| Rate::from_bps(bps as u64))
    }
}
