//! The response to losses. If a probe exceeds the loss threshold, it sets the long-term bound on the data in
//! flight. Losses outside a probe set short-term bounds on rate and data in flight, until the next probe. If
//! a loss proves spurious, the previous bounds are restored.

use anabranch_units::Instant;

use super::{Bandwidth, Bbr3, Feedback, MIN_PIPE, State, UNBOUNDED};
use crate::{CongestionState, LostSegment, Window};

/// The largest tolerated fraction of lost segments, per cent (`LossThresh`).
const LOSS_THRESHOLD: u64 = 2;
/// The fraction of a bound that remains after a loss, per cent (`Beta`).
const BETA: u64 = 70;
/// The fraction of the long-term bound left free between probes, per cent (`Headroom`).
const HEADROOM: u64 = 15;

/// Deliveries and losses of the last round trip.
#[derive(Debug, Default)]
pub(super) struct Signals {
    /// The largest delivery rate of the round (`bw_latest`).
    pub(super) bw_latest: Bandwidth,
    /// The segments delivered in the round (`inflight_latest`).
    pub(super) inflight_latest: u32,
    /// The delivered count at which the current round of loss counting ends.
    pub(super) round_end: u64,
    pub(super) round_started: bool,
    /// A segment was lost in this round (`is_loss_in_round`).
    pub(super) loss_in_round: bool,
    /// The number of separate ranges lost in this round, and the end of the last one.
    pub(super) lost_ranges: u32,
    last_lost_end: u64,
    /// Whether the peer supports SACK, as of the last loss.
    pub(super) selective_acks: bool,
}

impl Signals {
    /// Resets the signals for a new cycle (`ResetCongestionSignals`).
    pub(super) fn reset(&mut self) {
        self.loss_in_round = false;
        self.bw_latest = Bandwidth::ZERO;
        self.inflight_latest = 0;
    }

    /// Restarts the count of lost ranges for a new round.
    pub(super) fn forget_ranges(&mut self) {
        self.lost_ranges = 0;
        self.last_lost_end = 0;
    }

    fn count_range(&mut self, segment: &LostSegment) {
        self.lost_ranges += u32::from(segment.start != self.last_lost_end);
        self.last_lost_end = segment.end;
    }
}

/// The state and bounds to restore if a recovery proves spurious.
#[derive(Debug, Default)]
pub(super) struct Undo {
    /// Whether they were saved in the current recovery.
    pub(super) saved: bool,
    /// The state that the flow left because of a loss.
    pub(super) state: Option<State>,
    pub(super) bw: Bandwidth,
    pub(super) short_inflight: u32,
    pub(super) long_inflight: u32,
}

/// Returns whether the fraction of lost segments exceeds the threshold.
pub(super) fn exceeds_threshold(lost: u32, in_flight: u32) -> bool {
    u64::from(lost) * 100 > u64::from(in_flight) * LOSS_THRESHOLD
}

/// Returns the data in flight at which the loss of one more segment exceeded the threshold
/// (`InflightAtLoss`). `before` segments were in flight, and `lost_before` of them were lost.
pub(super) fn inflight_at_loss(before: u32, lost_before: u32) -> u32 {
    let tolerated = u64::from(before) * LOSS_THRESHOLD;
    let prefix = tolerated.saturating_sub(u64::from(lost_before) * 100) / (100 - LOSS_THRESHOLD);
    before + prefix.min(1) as u32
}

/// Returns the long-term bound minus the headroom (`InflightWithHeadroom`).
pub(super) fn with_headroom(long_inflight: u32) -> u32 {
    if long_inflight == UNBOUNDED {
        return UNBOUNDED;
    }
    let headroom = (u64::from(long_inflight) * HEADROOM / 100).max(1) as u32;
    long_inflight.saturating_sub(headroom).max(MIN_PIPE)
}

/// Multiplies a bound by `Beta`.
pub(super) fn cut(volume: u32) -> u32 {
    (u64::from(volume) * BETA / 100) as u32
}

impl Bbr3 {
    /// Returns whether the flow is in fast recovery or timeout recovery (`InLossRecovery`).
    pub(super) fn in_recovery(&self) -> bool {
        self.ca_state >= CongestionState::Recovery
    }

    /// Saves the window (`SaveCwnd`). During a recovery or `ProbeRTT`, a larger saved window is kept.
    pub(super) fn save_cwnd(&mut self, cwnd: u32) {
        let is_reduced = self.in_recovery() || self.state == State::ProbeRtt;
        self.prior_cwnd = if is_reduced { self.prior_cwnd.max(cwnd) } else { cwnd };
    }

    /// Restores the saved window (`RestoreCwnd`).
    pub(super) fn restore_cwnd(&self, window: &mut Window) {
        window.cwnd = window.cwnd.max(self.prior_cwnd);
    }

    /// Saves the state and the bounds once per recovery (`SaveStateUponLoss`).
    pub(super) fn save_state(&mut self) {
        if !self.undo.saved {
            self.undo = Undo {
                saved: true,
                state: None,
                bw: self.bounds.short_bw,
                short_inflight: self.bounds.short_inflight,
                long_inflight: self.bounds.long_inflight,
            };
        }
    }

    /// Records that the round has a loss (`NoteLoss`).
    pub(super) fn note_loss(&mut self, cwnd: u32) {
        if !self.signals.loss_in_round {
            self.signals.round_end = self.delivered;
            self.save_cwnd(cwnd);
            self.save_state();
        }
        self.signals.loss_in_round = true;
        if let Some(marks) = &mut self.marks {
            marks.note_loss();
        }
    }

    /// Processes a lost segment (`HandleLostPacket`).
    pub(super) fn handle_lost(&mut self, segment: &LostSegment, cwnd: u32) {
        self.delivered = segment.delivered;
        self.signals.selective_acks = segment.selective_acks;
        self.signals.count_range(segment);
        self.note_loss(cwnd);
        let (before, lost) = (segment.in_flight_at_send, segment.lost_since_send);
        if !self.probe.sampled || !self.is_too_high(lost, before + 1) {
            return;
        }
        let at_loss = (!segment.app_limited).then(|| inflight_at_loss(before, lost - 1));
        if self.state == State::Up {
            self.undo.state = Some(State::Up);
        }
        self.handle_too_high(segment.now, at_loss, cwnd);
    }

    /// Ends a probe that exceeded the loss threshold (`HandleInflightTooHigh`). The long-term bound becomes
    /// `flight`, but at least `Beta` times the target. With `None`, because the application limited the flow,
    /// the bound stays.
    pub(super) fn handle_too_high(&mut self, now: Instant, flight: Option<u32>, cwnd: u32) {
        self.probe.too_high = true;
        self.probe.sampled = false;
        if let Some(flight) = flight {
            self.bounds.long_inflight = flight.max(cut(self.target_inflight(cwnd)));
        }
        if self.state == State::Up {
            self.start_down(now);
        }
    }

    /// Returns whether more than the tolerated fraction was lost (`IsInflightTooHigh`). Without SACK, any
    /// loss is too much.
    pub(super) fn is_too_high(&self, lost: u32, in_flight: u32) -> bool {
        exceeds_threshold(lost, in_flight) || (lost > 0 && !self.signals.selective_acks)
    }

    /// Updates the delivery signals with an acknowledgement (`UpdateLatestDeliverySignals`).
    pub(super) fn update_latest_delivery(&mut self, news: &Feedback<'_>) {
        let rate = &news.ack.rate;
        let signals = &mut self.signals;
        signals.bw_latest = signals.bw_latest.max(news.bw);
        signals.inflight_latest = signals.inflight_latest.max(rate.delivered);
        signals.round_started = rate.prior_delivered >= signals.round_end;
        if signals.round_started {
            signals.round_end = news.ack.delivered;
        }
    }

    /// Begins a new round of delivery signals (`AdvanceLatestDeliverySignals`).
    pub(super) fn advance_latest_delivery(&mut self, news: &Feedback<'_>) {
        if self.signals.round_started {
            self.signals.bw_latest = news.bw;
            self.signals.inflight_latest = news.ack.rate.delivered;
        }
    }

    /// Updates the short-term bounds at the end of a round (`UpdateCongestionSignals`).
    pub(super) fn update_congestion_signals(&mut self, news: &Feedback<'_>) {
        self.update_max_bw(news);
        if self.signals.round_started {
            if !self.state.probing() {
                self.adapt_short_term(news.cwnd);
            }
            self.signals.loss_in_round = false;
            if let Some(marks) = &mut self.marks {
                marks.in_round = false;
            }
        }
    }

    /// Lowers the short-term bounds after losses (`AdaptLowerBoundsFromCongestion`). If ECN marks are used,
    /// the bound by marks applies too, whichever is lower (`bbr_adapt_lower_bounds`).
    fn adapt_short_term(&mut self, cwnd: u32) {
        let by_marks = self.bound_by_marks(cwnd);
        if self.signals.loss_in_round {
            self.bound_by_losses(cwnd);
        }
        if let Some(bound) = by_marks {
            self.bounds.short_inflight = self.bounds.short_inflight.min(bound);
        }
    }

    /// Lowers the short-term bounds because of losses (`InitLowerBounds`, `LossLowerBounds`).
    fn bound_by_losses(&mut self, cwnd: u32) {
        let bounds = &mut self.bounds;
        if bounds.short_bw == Bandwidth::UNBOUNDED {
            bounds.short_bw = self.max_bw.get();
        }
        if bounds.short_inflight == UNBOUNDED {
            bounds.short_inflight = cwnd;
        }
        bounds.short_bw = bounds.short_bw.percent(BETA).max(self.signals.bw_latest);
        bounds.short_inflight = cut(bounds.short_inflight).max(self.signals.inflight_latest);
    }

    /// Removes the short-term bounds (`ResetShortTermModel`).
    pub(super) fn reset_short_term(&mut self) {
        self.bounds.short_bw = Bandwidth::UNBOUNDED;
        self.bounds.short_inflight = UNBOUNDED;
    }

    /// Restores the bounds after a spurious loss (`HandleSpuriousLossDetection`). The caller restores the
    /// window.
    pub(super) fn handle_spurious_loss(&mut self) {
        self.signals.loss_in_round = false;
        self.pipe.restart(Bandwidth::ZERO);
        let (bounds, undo) = (&mut self.bounds, &mut self.undo);
        bounds.short_bw = bounds.short_bw.max(undo.bw);
        bounds.short_inflight = bounds.short_inflight.max(undo.short_inflight);
        bounds.long_inflight = bounds.long_inflight.max(undo.long_inflight);
        match undo.state.take() {
            Some(State::Startup) if self.state != State::Startup => {
                self.pipe.reached = false;
                if self.state != State::ProbeRtt {
                    self.state = State::Startup;
                }
            }
            Some(State::Up) if !matches!(self.state, State::Up | State::ProbeRtt) => {
                self.start_refill(0);
            }
            _ => {}
        }
    }
}
