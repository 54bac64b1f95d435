//! Startup and Drain. The pipe is full when the delivery rate stops growing or when many segments are lost.

use super::{Bandwidth, Bbr3, Feedback, State};
use crate::CongestionState;

/// If the rate grows to this percentage of the baseline, the pipe is not full.
const GROWTH: u64 = 125;
/// The pipe is full after this number of rounds without such growth.
const FLAT_ROUNDS: u32 = 3;
/// Startup ends if this number of separate ranges is lost in a round (`StartupFullLossCnt`).
const LOST_RANGES: u32 = 6;
/// The largest number of rounds in Drain.
const DRAIN_ROUNDS: u64 = 3;

/// The search for a plateau (`CheckFullBWReached`).
#[derive(Debug, Default)]
pub(super) struct FullPipe {
    baseline: Bandwidth,
    flat_rounds: u32,
    /// Whether the current search has found the pipe to be full (`full_bw_now`).
    pub(super) now: bool,
    /// Whether the pipe has been full at least once (`full_bw_reached`).
    pub(super) reached: bool,
}

impl FullPipe {
    /// Restarts the search from a baseline rate (`ResetFullBW`).
    pub(super) fn restart(&mut self, baseline: Bandwidth) {
        *self = Self { baseline, reached: self.reached, ..Self::default() };
    }

    /// Adds the delivery rate of an acknowledgement. Only the first acknowledgement of a round is used.
    pub(super) fn observe(&mut self, round_started: bool, app_limited: bool, bw: Bandwidth) {
        if self.now || !round_started || app_limited || bw == Bandwidth::ZERO {
            return;
        }
        if bw >= self.baseline.percent(GROWTH) {
            self.restart(bw);
            return;
        }
        self.flat_rounds += 1;
        self.now = self.flat_rounds >= FLAT_ROUNDS;
        self.reached |= self.now;
    }
}

impl Bbr3 {
    /// Ends Startup if the pipe is full (`CheckStartupDone`).
    pub(super) fn check_startup_done(&mut self, news: &Feedback<'_>) {
        if self.state == State::Startup {
            self.check_startup_loss(news);
            if self.pipe.reached {
                self.state = State::Drain;
                // Clears the marks seen in Startup (`bbr_check_drain`).
                if let Some(marks) = &mut self.marks {
                    marks.reset();
                }
                self.drain_round = self.rounds.count;
            }
        }
        if self.signals.round_started {
            self.signals.forget_ranges();
        }
    }

    /// Ends Startup because of losses (`CheckStartupHighLoss`). The flow must have been in fast recovery for
    /// a whole round and have lost more than 2 % in several separate ranges. Without SACK, at most one loss
    /// per round is visible, so one loss is enough.
    fn check_startup_loss(&mut self, news: &Feedback<'_>) {
        let signals = &self.signals;
        let high = if signals.selective_acks {
            // The round of loss counting began with the first loss, at the same time as the recovery.
            signals.round_started
                && signals.lost_ranges >= LOST_RANGES
                && self.is_too_high(news.ack.rate.lost, news.tx_in_flight())
        } else {
            signals.lost_ranges > 0
        };
        if self.pipe.reached || self.ca_state != CongestionState::Recovery || !high {
            return;
        }
        self.undo.state = Some(State::Startup);
        self.pipe.now = true;
        self.pipe.reached = true;
        self.bounds.long_inflight = self.bdp(self.bw, 100).max(self.signals.inflight_latest);
    }

    /// Ends Drain when the queue is empty or after three rounds (`CheckDrainDone`).
    pub(super) fn check_drain_done(&mut self, news: &Feedback<'_>) {
        let drained = news.ack.in_flight <= self.inflight(self.bw, 100);
        let long = self.rounds.count > self.drain_round + DRAIN_ROUNDS;
        if self.state == State::Drain && (drained || long) {
            self.start_down(news.ack.now);
        }
    }
}
