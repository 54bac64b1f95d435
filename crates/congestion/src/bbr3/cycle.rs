//! `ProbeBW` and its phases Down, Cruise, Refill and Up: when a probe begins, how far it goes, and when it
//! ends.

use anabranch_units::{Duration, Instant};

use super::loss::with_headroom;
use super::{Bbr3, Feedback, State, UNBOUNDED};

/// The shortest time between two probes. Up to one second is added at random.
const PROBE_WAIT: Duration = Duration::from_secs(2);
/// The largest number of rounds between two probes.
const PROBE_ROUNDS: u32 = 63;
/// The growth doubles in every round, for at most this number of rounds.
const GROWTH_ROUNDS: u32 = 30;

/// The growth of the long-term bound during a probe: 1, 2, 4, ... segments per round.
#[derive(Debug, Default)]
pub(super) struct Growth {
    /// Segments acknowledged since the bound last grew (`bw_probe_up_acked`).
    acked: u32,
    /// The number of acknowledged segments for which the bound grows by one (`probe_up_acked_per_inc`).
    per_segment: u32,
    /// The number of doublings so far (`bw_probe_up_rounds`).
    rounds: u32,
}

impl Growth {
    /// Doubles the growth per round (`RaiseInflightLongtermSlope`).
    pub(super) fn steepen(&mut self, cwnd: u32) {
        self.per_segment = (cwnd >> self.rounds).max(1);
        self.rounds = (self.rounds + 1).min(GROWTH_ROUNDS);
    }

    /// Counts `acked` segments. Returns the segments by which the bound grows.
    pub(super) fn grow(&mut self, acked: u32) -> u32 {
        self.acked += acked;
        let more = self.acked / self.per_segment;
        self.acked %= self.per_segment;
        more
    }
}

/// The current probing cycle and the result of the last probe.
#[derive(Debug, Default)]
pub(super) struct Probe {
    /// The beginning of the cycle (`cycle_stamp`), and the time from then to the next probe
    /// (`bw_probe_wait`).
    since: Instant,
    pub(super) wait: Duration,
    /// The probe is over, but its segments are still being acknowledged, for one more round
    /// (`ACKS_PROBE_STOPPING`; the other values of `ack_phase` are not needed).
    pub(super) stopping: bool,
    /// Losses now are of segments sent during the probe, and the flow has not reacted to them yet
    /// (`is_bw_probe_sample`).
    pub(super) sampled: bool,
    /// The last probe exceeded the loss threshold (`prev_probe_too_high`).
    pub(super) too_high: bool,
    /// The last probe stopped at the bound that the probe before it had set (`prev_probe_precautionary`).
    pub(super) precautionary: bool,
    pub(super) growth: Growth,
}

impl Bbr3 {
    /// Starts the phase Down and picks the time of the next probe (`StartProbeBW_DOWN`, `PickProbeWait`).
    pub(super) fn start_down(&mut self, now: Instant) {
        self.signals.reset();
        if let Some(marks) = &mut self.marks {
            marks.reset();
        }
        self.rounds.since_probe = self.random.below(2) as u32;
        self.probe.wait = PROBE_WAIT + Duration::from_secs_f64(self.random.uniform());
        self.probe.since = now;
        self.probe.stopping = true;
        self.start_round();
        self.state = State::Down;
    }

    /// Starts the phase Refill (`StartProbeBW_REFILL`). The growth of the probe begins after `doublings`
    /// doublings.
    pub(super) fn start_refill(&mut self, doublings: u32) {
        self.reset_short_term();
        self.probe.growth = Growth { rounds: doublings, ..Growth::default() };
        self.probe.precautionary = false;
        self.probe.stopping = false;
        self.start_round();
        self.state = State::Refill;
    }

    /// Starts the phase Up (`StartProbeBW_UP`).
    fn start_up(&mut self, news: &Feedback<'_>) {
        self.start_round();
        self.pipe.restart(news.bw);
        self.state = State::Up;
        self.probe.growth.steepen(news.cwnd);
    }

    /// Changes the phase if necessary (`UpdateProbeBWCyclePhase`).
    pub(super) fn update_cycle(&mut self, news: &Feedback<'_>) {
        if !self.pipe.reached || self.adapt_long_term(news) {
            return;
        }
        let state = self.state;
        match state {
            State::Down | State::Cruise if let Some(doublings) = self.reprobes() => {
                self.start_refill(doublings);
            }
            State::Down | State::Cruise if self.is_time_to_probe(news) => self.start_refill(0),
            State::Down if self.is_time_to_cruise(news) => self.state = State::Cruise,
            State::Refill if self.rounds.started => {
                self.probe.sampled = true;
                self.start_up(news);
            }
            State::Up if self.is_time_to_go_down(news) => {
                self.probe.too_high = false;
                self.start_down(news.ack.now);
            }
            _ => {}
        }
    }

    /// Updates the long-term bound (`AdaptLongTermModel`). Returns true if a new probe begins.
    fn adapt_long_term(&mut self, news: &Feedback<'_>) -> bool {
        if self.probe.stopping && self.rounds.started {
            self.probe.sampled = false;
            self.probe.stopping = false;
            if self.state.in_probe_bw() {
                if !news.ack.rate.app_limited {
                    self.max_bw.advance();
                }
                if self.probe.precautionary && !self.probe.too_high {
                    self.start_refill(0);
                    return true;
                }
            }
        }
        let rate = &news.ack.rate;
        if self.marks.as_ref().is_some_and(|marks| marks.too_many(rate)) {
            if self.probe.sampled {
                let flight = (!rate.app_limited).then(|| news.tx_in_flight());
                self.handle_too_high(news.ack.now, flight, news.cwnd);
            }
            return false;
        }
        let bounded = self.bounds.long_inflight < UNBOUNDED;
        if bounded && !self.is_too_high(news.ack.rate.lost, news.tx_in_flight()) {
            self.bounds.long_inflight = self.bounds.long_inflight.max(news.tx_in_flight());
            if self.state == State::Up {
                self.grow_long_term(news);
            }
        }
        false
    }

    /// Raises the long-term bound during a probe (`ProbeInflightLongtermUpward`).
    fn grow_long_term(&mut self, news: &Feedback<'_>) {
        if !self.limited_by_long_term(news) {
            return;
        }
        let more = self.probe.growth.grow(news.ack.acked);
        self.bounds.long_inflight = self.bounds.long_inflight.saturating_add(more);
        if self.rounds.started {
            self.probe.growth.steepen(news.cwnd);
        }
    }

    /// Returns whether the window is fully used and at least as large as the long-term bound.
    fn limited_by_long_term(&self, news: &Feedback<'_>) -> bool {
        news.ack.cwnd_limited && news.cwnd >= self.bounds.long_inflight
    }

    /// Returns whether to probe: the waiting time is over, or Reno would have had a loss by now
    /// (`IsTimeToProbeBW`).
    fn is_time_to_probe(&self, news: &Feedback<'_>) -> bool {
        news.ack.now > self.probe.since + self.probe.wait
            || self.rounds.since_probe >= self.target_inflight(news.cwnd).min(PROBE_ROUNDS)
    }

    /// Returns whether the queue is drained, so that Cruise can begin (`IsTimeToCruise`).
    fn is_time_to_cruise(&self, news: &Feedback<'_>) -> bool {
        let room = with_headroom(self.bounds.long_inflight);
        news.ack.in_flight <= room.min(self.inflight(self.max_bw.get(), 100))
    }

    /// Returns whether the phase Up ends (`IsTimeToGoDown`).
    fn is_time_to_go_down(&mut self, news: &Feedback<'_>) -> bool {
        if self.probe.too_high && news.ack.prior_in_flight >= self.bounds.long_inflight {
            self.probe.precautionary = true;
            return true;
        }
        if self.limited_by_long_term(news) {
            // The bound limits the rate, so the plateau is not that of the path. The search restarts.
            self.pipe.restart(news.bw);
            return false;
        }
        self.pipe.now
    }

    /// Returns the bandwidth-delay product, at most the window (`TargetInflight`).
    pub(super) fn target_inflight(&self, cwnd: u32) -> u32 {
        self.bdp(self.bw, 100).min(cwnd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_doubles_each_round() {
        let mut growth = Growth::default();
        let mut added = Vec::new();
        for _ in 0..7 {
            growth.steepen(64);
            // Acknowledges one window of 64 segments, two segments at a time.
            added.push((0..32).map(|_| growth.grow(2)).sum::<u32>());
        }
        assert_eq!(added, [1, 2, 4, 8, 16, 32, 64]);
        growth.steepen(64);
        assert_eq!(growth.grow(64), 64, "never more than one for one");
    }
}
