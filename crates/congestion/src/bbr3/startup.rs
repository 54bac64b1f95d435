//! Startup and Drain: detects a full pipe by a plateau of the delivery rate or by losses.

use super::{Bandwidth, Bbr3, Feedback, State};
use crate::CongestionState;

/// If the rate grows to this percentage of the baseline, the pipe is not full.
const GROWTH: u64 = 125;
/// The number of rounds without such growth after which the pipe is full.
const FLAT_ROUNDS: u32 = 3;
/// The number of separate ranges lost in a round that end Startup (`StartupFullLossCnt`).
const LOST_RANGES: u32 = 6;
/// The largest number of rounds in Drain.
const DRAIN_ROUNDS: u64 = 3;

/// The search for a plateau (`CheckFullBWReached`).
#[derive(Debug, Default)]
pub(super) struct FullPipe {
    baseline: Bandwidth,
    flat_rounds: u32,
    /// The current search has found the pipe to be full (`full_bw_now`).
    pub(super) now: bool,
    /// The pipe has been full at least once (`full_bw_reached`).
    pub(super) reached: bool,
}

impl FullPipe {
    /// `ResetFullBW`: starts a search from a baseline rate.
    pub(super) fn restart(&mut self, baseline: Bandwidth) {
        *self = Self { baseline, reached: self.reached, ..Self::default() };
    }

    /// Adds the delivery rate of an acknowledgement. Only the first one of a round counts.
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
    /// `CheckStartupDone`.
    pub(super) fn check_startup_done(&mut self, news: &Feedback<'_>) {
        if self.state == State::Startup {
            self.check_startup_loss(news);
            if self.pipe.reached {
                self.state = State::Drain;
                // `bbr_check_drain`.
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

    /// `CheckStartupHighLoss`: the flow was in fast recovery for a whole round, more than 2 % was lost, and in
    /// several separate ranges. Without SACK a round shows at most one loss, so one loss is enough.
    fn check_startup_loss(&mut self, news: &Feedback<'_>) {
        let signals = &self.signals;
        let high = if signals.selective_acks {
            // The round of losses began with the first loss, as recovery did.
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

    /// `CheckDrainDone`.
    pub(super) fn check_drain_done(&mut self, news: &Feedback<'_>) {
        let drained = news.ack.in_flight <= self.inflight(self.bw, 100);
        let long = self.rounds.count > self.drain_round + DRAIN_ROUNDS;
        if self.state == State::Drain && (drained || long) {
            self.start_down(news.ack.now);
        }
    }
}
