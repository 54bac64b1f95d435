//! Weighted Vegas (Cao, Xu and Fu, ICNP 2012; `mptcp_wvegas.c` of the out-of-tree kernel). Each subflow keeps
//! alpha segments in queues. Its alpha is the part of `total_alpha` that corresponds to its part of the total
//! rate.
//!
//! As in the kernel, the delay is evaluated once per round trip, and the window grows even if it was not
//! fully used. One difference: this form drains a queue only if a queue exists. The kernel halves
//! the window after a round whose mean RTT equals the minimum RTT to the microsecond. With real clocks this
//! does not happen, but in the simulator it does. `form = "kernel"` includes this behaviour
//! (`wvegas/kernel.rs`).

mod kernel;

use anabranch_plugin::Parameters;
use anabranch_units::{Instant, RandomStream, Rate};

use super::sibling::{counts, leaves};
use super::{
    AckSample, CongestionController, CongestionEvent, CongestionState, Reno, Window, slow_start,
};

/// State that is reset when the subflow returns to Open (`wvegas_enable`).
#[derive(Debug)]
struct Rounds {
    /// The round ends when data up to this position is acknowledged. If `None`, the next acknowledgement
    /// begins a round.
    end: Option<u64>,
    /// The number of RTT samples in the round, and their sum in microseconds.
    count: u64,
    sum: u64,
    alpha: f64,
    /// The rate when the queue last had its target length, segments per second. Zero before that.
    rate: f64,
    /// The smallest queueing delay since the last reduction by `drain`, microseconds. Zero before the first
    /// sample.
    queue_delay: u64,
}

/// The weighted Vegas algorithm.
#[derive(Debug)]
pub struct WVegas {
    initial_alpha: f64,
    total_alpha: f64,
    gamma: f64,
    dead_leave: bool,
    reno: Reno,
    /// Whether the congestion state is Open. The delay controls the window only in this state.
    open: bool,
    rounds: Rounds,
    /// The smallest RTT so far, microseconds.
    base_rtt: u64,
    mss: u32,
}

impl Rounds {
    fn new(end: Option<u64>, alpha: f64) -> Self {
        Self { end, count: 0, sum: 0, alpha, rate: 0.0, queue_delay: 0 }
    }
}

impl WVegas {
    pub(super) fn build(
        parameters: &mut Parameters<'_>,
        _random: RandomStream,
    ) -> Box<dyn CongestionController> {
        if parameters.word("form", &["reference", "kernel"]) == "kernel" {
            return kernel::Kernel::build(parameters);
        }
        let initial_alpha = parameters.number("initial_alpha", 2.0, 1.0..=1000.0);
        Box::new(Self {
            initial_alpha,
            total_alpha: parameters.number("total_alpha", 10.0, 1.0..=1000.0),
            gamma: parameters.number("gamma", 1.0, 0.0..=1000.0),
            dead_leave: leaves(parameters),
            reno: Reno::default(),
            open: true,
            rounds: Rounds::new(Some(0), initial_alpha),
            base_rtt: u64::MAX,
            mss: 0,
        })
    }

    /// Returns this subflow's fraction of the total rate of all subflows that have a rate.
    fn weight(&self, ack: &AckSample<'_>) -> f64 {
        let others = ack.siblings.iter().filter(|view| view.id != ack.id);
        let alive = others.filter(|view| counts(view, self.dead_leave));
        let bps: f64 = alive.filter_map(|view| view.published_rate).map(|r| r.bps() as f64).sum();
        let own = self.rounds.rate * f64::from(self.mss) * 8.0;
        own / (own + bps)
    }

    /// Ends a round trip: compares its mean RTT with the base RTT.
    fn end_round(&mut self, ack: &AckSample<'_>, window: &mut Window) {
        let (cwnd, base) = (u64::from(window.cwnd), self.base_rtt);
        let rtt = self.rounds.sum / self.rounds.count;
        let queued = (cwnd * (rtt - base) / rtt) as f64;
        if window.in_slow_start() {
            if queued > self.gamma {
                window.cwnd = cwnd.min(cwnd * base / rtt + 1) as u32;
                window.ssthresh = window.ssthresh.min(window.cwnd - 1);
            } else {
                slow_start(window, ack.acked);
            }
        } else {
            self.steer(ack, window, queued, rtt);
            self.drain(window, rtt);
        }
        window.cwnd = window.cwnd.max(2);
        window.ssthresh = window.ssthresh.max(window.cwnd / 2 + window.cwnd / 4);
    }

    /// Changes the window by one segment, so that alpha segments stay in queues.
    fn steer(&mut self, ack: &AckSample<'_>, window: &mut Window, queued: f64, rtt: u64) {
        if queued >= self.rounds.alpha {
            self.rounds.rate = f64::from(window.cwnd) * 1e6 / rtt as f64;
            self.rounds.alpha = (self.weight(ack) * self.total_alpha).floor().max(2.0);
        }
        if queued > self.rounds.alpha {
            window.cwnd -= 1;
            window.ssthresh = window.ssthresh.min(window.cwnd - 1);
        } else if queued < self.rounds.alpha {
            window.cwnd += 1;
        }
    }

    /// Reduces the window if the queueing delay has doubled since the last reduction.
    fn drain(&mut self, window: &mut Window, rtt: u64) {
        let delay = rtt - self.base_rtt;
        let rounds = &mut self.rounds;
        if rounds.queue_delay == 0 || delay < rounds.queue_delay {
            rounds.queue_delay = delay;
        }
        if delay > 0 && delay >= 2 * rounds.queue_delay {
            window.cwnd = (u64::from(window.cwnd) * self.base_rtt / (2 * rtt)) as u32;
            rounds.queue_delay = 0;
        }
    }
}

impl CongestionController for WVegas {
    fn name(&self) -> &'static str {
        "wvegas"
    }

    fn on_ack(&mut self, ack: &AckSample<'_>, window: &mut Window) {
        self.mss = ack.mss;
        if let Some(rtt) = ack.rtt {
            // One microsecond is added, so that the RTT is never zero (`mptcp_wvegas_pkts_acked`).
            let rtt = rtt.as_micros() + 1;
            self.base_rtt = self.base_rtt.min(rtt);
            self.rounds.sum += rtt;
            self.rounds.count += 1;
        }
        if !self.open {
            self.reno.on_ack(ack, window);
            return;
        }
        let end = *self.rounds.end.get_or_insert(ack.snd_nxt);
        if !ack.may_grow {
            return;
        }
        if ack.snd_una > end {
            if self.rounds.count > 2 {
                self.end_round(ack, window);
            } else {
                self.reno.on_ack(ack, window);
            }
            let rounds = &mut self.rounds;
            (rounds.end, rounds.count, rounds.sum) = (Some(ack.snd_nxt), 0, 0);
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
            self.rounds = Rounds::new(None, self.initial_alpha);
        } else if state == CongestionState::Loss {
            self.rounds.rate = 0.0;
        }
    }

    fn on_idle_restart(&mut self, _now: Instant) {
        self.rounds = Rounds::new(None, self.initial_alpha);
        self.base_rtt = u64::MAX;
    }

    fn wants_siblings(&self) -> bool {
        true
    }

    /// Published only if the current round has RTT samples (`mptcp_wvegas_weight` reads `sampled_rtt`).
    fn published_rate(&self) -> Option<Rate> {
        let bytes = self.rounds.rate * f64::from(self.mss);
        (bytes > 0.0 && self.rounds.count > 0).then(|| Rate::from_bytes_per_second(bytes as u64))
    }
}
