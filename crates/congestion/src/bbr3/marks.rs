//! The response to marks of congestion on a path whose queues mark early (google/bbr branch v3, `tcp_bbr.c`). The
//! marked share of the data bounds the flight, ends Startup and ends a probe.
//!
//! The draft has nothing of this; constants and rules are those of Linux, in its fixed point of 1/256.

use anabranch_units::Duration;

use super::{Bbr3, UNBOUNDED};
use crate::{AckSample, CongestionState, RateSample};

/// The whole of a share (`BBR_UNIT`).
const UNIT: u64 = 256;
/// The weight of a round's share in the average (`bbr_ecn_alpha_gain`).
const GAIN: u64 = UNIT / 16;
/// The part of the average share by which the bound on the flight is cut (`bbr_ecn_factor`).
const FACTOR: u64 = UNIT / 3;
/// The share of marked data above which too much is in flight (`bbr_ecn_thresh`).
const THRESHOLD: u64 = UNIT / 2;
/// Rounds in a row with such a share that end Startup (`bbr_full_ecn_cnt`).
const FULL_ROUNDS: u32 = 2;
/// The part of the long-term bound by which a probe begins once marks have ceased (`bbr_ecn_reprobe_gain`).
const REPROBE: u64 = UNIT / 2;

/// Whether marks count, and their state.
#[derive(Debug)]
pub(super) struct Marks {
    /// The longest minimum RTT on which marks count (`bbr_ecn_max_rtt_us`); unlimited if `None`.
    max_rtt: Option<Duration>,
    /// They count (`ecn_eligible`).
    pub(super) eligible: bool,
    /// The average share, of 256 (`ecn_alpha`).
    alpha: u64,
    /// The delivered counts of the last round's beginning (`alpha_last_delivered`, `alpha_last_delivered_ce`).
    delivered: u64,
    delivered_ce: u64,
    /// An acknowledgement of the round reported a mark (`ecn_in_round`).
    pub(super) in_round: bool,
    /// One of this cycle of probing did (`ecn_in_cycle`).
    in_cycle: bool,
    /// Something was lost in this cycle of probing (`loss_in_cycle`).
    loss_in_cycle: bool,
    /// Rounds of Startup in a row with too many (`startup_ecn_rounds`).
    full_rounds: u32,
}

impl Marks {
    pub(super) fn new(max_rtt: Option<Duration>) -> Self {
        Self {
            max_rtt,
            eligible: false,
            // `bbr_ecn_alpha_init`: where the bottleneck is congested already, the first answer is quick.
            alpha: UNIT,
            delivered: 0,
            delivered_ce: 0,
            in_round: false,
            in_cycle: false,
            loss_in_cycle: false,
            full_rounds: 0,
        }
    }

    /// `bbr_reset_congestion_signals`.
    pub(super) fn reset(&mut self) {
        (self.in_round, self.in_cycle, self.loss_in_cycle) = (false, false, false);
    }

    /// A segment was lost (`bbr_note_loss`).
    pub(super) fn note_loss(&mut self) {
        self.loss_in_cycle = true;
    }

    /// More of the data that a sample is of was marked than may be (`bbr_is_inflight_too_high`).
    pub(super) fn too_many(&self, rate: &RateSample) -> bool {
        self.eligible && u64::from(rate.delivered_ce) > u64::from(rate.delivered) * THRESHOLD / UNIT
    }

    /// The bound on the flight after a cut (`bbr_ecn_lower_bounds`).
    pub(super) fn cut(&self, inflight: u32) -> u32 {
        (u64::from(inflight) * (UNIT - self.alpha * FACTOR / UNIT) / UNIT) as u32
    }

    /// Takes the share of a round that is over; true when Startup has had its rounds with too many
    /// (`bbr_update_ecn_alpha`, `bbr_check_ecn_too_high_in_startup`).
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
    /// A round is over: its share of marks counts, and may end Startup.
    pub(super) fn count_marks(&mut self, ack: &AckSample<'_>) {
        let (min_rtt, full) = (self.min_rtt.get(), self.pipe.reached);
        let Some(marks) = &mut self.marks else { return };
        if marks.end_round(ack, min_rtt, full) {
            // `bbr_handle_queue_too_high_in_startup`.
            self.pipe.reached = true;
            let fills = self.inflight(self.max_bw.get(), 100);
            self.bounds.long_inflight = fills.max(self.signals.inflight_latest);
        }
    }

    /// Counts an acknowledgement that reports a mark.
    pub(super) fn note_echo(&mut self, ack: &AckSample<'_>) {
        if let Some(marks) = &mut self.marks {
            marks.in_round |= marks.eligible && ack.echo;
        }
    }

    /// Once all else is done with an acknowledgement: what the cycle of probing has seen.
    pub(super) fn note_cycle(&mut self, rate: &RateSample) {
        if let Some(marks) = &mut self.marks {
            marks.loss_in_cycle |= rate.lost > 0;
            marks.in_cycle |= rate.delivered_ce > 0;
        }
    }

    /// The short-term bound on the flight as marks of the round have it; none where there were none.
    pub(super) fn bound_by_marks(&self, cwnd: u32) -> Option<u32> {
        let marks = self.marks.as_ref().filter(|marks| marks.in_round)?;
        let bound = self.bounds.short_inflight;
        Some(marks.cut(if bound == UNBOUNDED { cwnd } else { bound }))
    }

    /// Where there were marks and no loss, and marks have ceased, the next probe begins at once: by how many
    /// doublings of its growth (`bbr_check_time_to_probe_bw`).
    pub(super) fn reprobes(&self) -> Option<u32> {
        let marks = self.marks.as_ref()?;
        let calm = self.ca_state == CongestionState::Open && !marks.loss_in_cycle;
        let more = u64::from(self.bounds.long_inflight) * REPROBE / UNIT;
        (marks.eligible && marks.in_cycle && calm).then(|| more.checked_ilog2().unwrap_or(0))
    }
}
