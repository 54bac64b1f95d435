//! The response to ECN marks on a path whose queues mark early (google/bbr branch v3, `tcp_bbr.c`). The
//! fraction of marked data limits the data in flight. A large fraction also ends Startup or a probe.
//!
//! The draft does not describe this. The constants and the computation are those of Linux, in units of 1/256.

use anabranch_units::Duration;

use super::{Bbr3, UNBOUNDED};
use crate::{AckSample, CongestionState, RateSample};

/// A fraction of 1 (`BBR_UNIT`).
const UNIT: u64 = 256;
/// The weight of one round in the average fraction of marked data (`bbr_ecn_alpha_gain`).
const GAIN: u64 = UNIT / 16;
/// The bound on the data in flight is reduced by this part of the average fraction (`bbr_ecn_factor`).
const FACTOR: u64 = UNIT / 3;
/// The fraction of marked data above which too much is in flight (`bbr_ecn_thresh`).
const THRESHOLD: u64 = UNIT / 2;
/// The number of consecutive rounds above the threshold that end Startup (`bbr_full_ecn_cnt`).
const FULL_ROUNDS: u32 = 2;
/// The part of the long-term bound at which the next probe begins after marks have ceased
/// (`bbr_ecn_reprobe_gain`).
const REPROBE: u64 = UNIT / 2;

/// The average fraction of marked data, and the marks and losses seen so far.
#[derive(Debug)]
pub(super) struct Marks {
    /// The longest minimum RTT at which marks are used (`bbr_ecn_max_rtt_us`); unlimited if `None`.
    max_rtt: Option<Duration>,
    /// Whether marks are used on this path (`ecn_eligible`).
    pub(super) eligible: bool,
    /// The average fraction of marked data, in units of 1/256 (`ecn_alpha`).
    alpha: u64,
    /// The delivered counts at the beginning of the last round (`alpha_last_delivered`, `alpha_last_delivered_ce`).
    delivered: u64,
    delivered_ce: u64,
    /// An acknowledgement of the round reported a mark (`ecn_in_round`).
    pub(super) in_round: bool,
    /// An acknowledgement of this probing cycle reported a mark (`ecn_in_cycle`).
    in_cycle: bool,
    /// A loss occurred in this probing cycle (`loss_in_cycle`).
    loss_in_cycle: bool,
    /// Consecutive rounds of Startup with too many marks (`startup_ecn_rounds`).
    full_rounds: u32,
}

impl Marks {
    pub(super) fn new(max_rtt: Option<Duration>) -> Self {
        Self {
            max_rtt,
            eligible: false,
            // The average starts at 100 %, so that the first response to marks is strong
            // (`bbr_ecn_alpha_init`).
            alpha: UNIT,
            delivered: 0,
            delivered_ce: 0,
            in_round: false,
            in_cycle: false,
            loss_in_cycle: false,
            full_rounds: 0,
        }
    }

    /// Clears the marks and losses of the round and the cycle (`bbr_reset_congestion_signals`).
    pub(super) fn reset(&mut self) {
        (self.in_round, self.in_cycle, self.loss_in_cycle) = (false, false, false);
    }

    /// Records that a segment was lost (`bbr_note_loss`).
    pub(super) fn note_loss(&mut self) {
        self.loss_in_cycle = true;
    }

    /// Returns whether the fraction of marked data in a sample exceeds the threshold
    /// (`bbr_is_inflight_too_high`).
    pub(super) fn too_many(&self, rate: &RateSample) -> bool {
        self.eligible && u64::from(rate.delivered_ce) > u64::from(rate.delivered) * THRESHOLD / UNIT
    }

    /// Returns the bound after a reduction (`bbr_ecn_lower_bounds`).
    pub(super) fn cut(&self, inflight: u32) -> u32 {
        (u64::from(inflight) * (UNIT - self.alpha * FACTOR / UNIT) / UNIT) as u32
    }

    /// Adds the fraction of a finished round to the average. Returns true if enough rounds of Startup had too
    /// many marks, which means that the pipe is full (`bbr_update_ecn_alpha`,
    /// `bbr_check_ecn_too_high_in_startup`).
    fn end_round(&mut self, ack: &AckSample<'_>, min_rtt: Option<Duration>, full: bool) -> bool {
        let near = self.max_rtt.is_none_or(|most| min_rtt.is_some_and(|rtt| rtt <= most));
        self.eligible |= near;
        let delivered = ack.delivered - self.delivered;
        if !self.eligible || delivered == 0 {
            return false;
        }
        let share = (ack.delivered_ce - self.delivered_ce) * UNIT / delivered;
        self.alpha = ((UNIT - GAIN) * self.alpha / UNIT + GAIN * share / UNIT).min(UNIT);
        (self.delivered, self.delivered_ce) = (ack.delivered, ack.delivered_ce);
        if full {
            return false;
        }
        self.full_rounds = if share >= THRESHOLD { self.full_rounds + 1 } else { 0 };
        self.full_rounds >= FULL_ROUNDS
    }
}

impl Bbr3 {
    /// Adds the fraction of marked data of a finished round to the average. Too many marks end Startup.
    pub(super) fn count_marks(&mut self, ack: &AckSample<'_>) {
        let (min_rtt, full) = (self.min_rtt.get(), self.pipe.reached);
        let Some(marks) = &mut self.marks else { return };
        if marks.end_round(ack, min_rtt, full) {
            // The pipe is full (`bbr_handle_queue_too_high_in_startup`).
            self.pipe.reached = true;
            let fills = self.inflight(self.max_bw.get(), 100);
            self.bounds.long_inflight = fills.max(self.signals.inflight_latest);
        }
    }

    /// Records that an acknowledgement reported a mark.
    pub(super) fn note_echo(&mut self, ack: &AckSample<'_>) {
        if let Some(marks) = &mut self.marks {
            marks.in_round |= marks.eligible && ack.echo;
        }
    }

    /// Records whether the probing cycle has had marks or losses. Called at the end of each acknowledgement.
    pub(super) fn note_cycle(&mut self, rate: &RateSample) {
        if let Some(marks) = &mut self.marks {
            marks.loss_in_cycle |= rate.lost > 0;
            marks.in_cycle |= rate.delivered_ce > 0;
        }
    }

    /// Returns the short-term bound on the data in flight that follows from marks. `None` if the round had no
    /// mark.
    pub(super) fn bound_by_marks(&self, cwnd: u32) -> Option<u32> {
        let marks = self.marks.as_ref().filter(|marks| marks.in_round)?;
        let bound = self.bounds.short_inflight;
        Some(marks.cut(if bound == UNBOUNDED { cwnd } else { bound }))
    }

    /// Returns whether to probe at once, because the cycle had marks but no loss and the marks have ceased
    /// (`bbr_check_time_to_probe_bw`). The value is the number of doublings with which the growth of the
    /// probe begins.
    pub(super) fn reprobes(&self) -> Option<u32> {
        let marks = self.marks.as_ref()?;
        let calm = self.ca_state == CongestionState::Open && !marks.loss_in_cycle;
        let more = u64::from(self.bounds.long_inflight) * REPROBE / UNIT;
        (marks.eligible && marks.in_cycle && calm).then(|| more.checked_ilog2().unwrap_or(0))
    }
}
