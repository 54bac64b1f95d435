//! Recovery: proportional rate reduction (RFC 6937; `tcp_cwnd_reduction`), F-RTO (RFC 5682) and
//! Eifel/DSACK undo (RFC 3522, RFC 4015; `tcp_may_undo`).

mod answer;
mod undo;

use std::num::NonZeroU32;

use anabranch_units::{Duration, Instant};

use super::cwnd::Cwnd;
use super::losses::{Losses, Verdict};
use super::parts::Parts;
use super::rtt::timestamp_clock;
use crate::stack::{OutageRule, Reduction, TcpStack};
use anabranch_congestion::{CongestionKind, CongestionState, Window};

/// The largest error of an RTT sample from timestamps, which count milliseconds (RFC 7323 section 5.4).
const CLOCK_ERROR: Duration = Duration::from_millis(2);

/// The data to send in reaction to an acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Repair {
    #[default]
    None,
    /// Retransmit what is lost.
    Lost,
    /// F-RTO step 2b: new data first.
    New,
}

/// The reaction to an acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) verdict: Verdict,
    pub(super) repair: Repair,
    /// The acknowledgement ends at a reported segment: the peer may have discarded what it reported.
    pub(super) reneges: bool,
}

impl From<Repair> for Answer {
    fn from(repair: Repair) -> Self {
        Self { repair, ..Self::default() }
    }
}

/// The findings about an acknowledgement (Linux's `FLAG_*`).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AckFlags {
    pub(crate) una_advanced: bool,
    pub(crate) data_sacked: bool,
    /// Original (never retransmitted) data below `high_seq` was acknowledged.
    pub(crate) original_acked: bool,
    pub(crate) retransmission_acked: bool,
    pub(crate) dsack: bool,
    /// It reports a duplicate of the tail loss probe (`FLAG_DSACK_TLP`).
    pub(crate) probe_duplicated: bool,
    pub(crate) set_timer: bool,
    /// The acknowledgement carried data or changed the window: not a duplicate.
    pub(crate) not_duplicate: bool,
    /// It is a duplicate, as they count without SACK.
    pub(crate) duplicate: bool,
    /// It echoes a mark of congestion (`FLAG_ECE`).
    pub(crate) echo: bool,
}

/// The state of a reduction, of its undoing, and of a tail loss probe.
#[derive(Debug)]
pub(crate) struct Recovery {
    /// Recovery ends when this position is acknowledged (`high_seq`).
    high_seq: u64,
    prior_cwnd: u32,
    prior_ssthresh: u32,
    prr_delivered: u32,
    prr_out: u32,
    /// A reduction may be undone while this is set (`undo_marker`).
    undo_marker: Option<u64>,
    /// Retransmissions whose duplicates have not been reported; negative: none sent yet.
    undo_retrans: i32,
    /// Segments that the peer has reported as duplicates (`dsack_dups`).
    duplicates: u32,
    /// Timestamp clock at the first retransmission (`retrans_stamp`).
    retrans_stamp: Option<NonZeroU32>,
    /// F-RTO is deciding whether the timeout was spurious.
    frto: bool,
    consecutive_timeouts: u32,
    /// The timestamp clock at the last timeout.
    last_timeout: u32,
    /// There were two timeouts in a row, and the loss is not repaired yet.
    silent: bool,
    /// The peer took back what it had reported, and that is being repaired (`is_sack_reneg`).
    reneged: bool,
    /// `snd_nxt` when the tail loss probe went out.
    probe_high: Option<u64>,
    probe_retransmitted: bool,
    reduction: Reduction,
    outage: OutageRule,
    /// Duplicates that the peer reports count as delivered.
    delivers_duplicates: bool,
    counts: RecoveryCounts,
}

/// Counts over the life of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RecoveryCounts {
    /// Retransmission timeouts.
    pub(super) timeouts: u64,
    /// Reductions undone as spurious.
    pub(super) undos: u64,
    /// Windows reduced because the peer echoed a mark.
    pub(super) ecn_reductions: u64,
}

/// A duplicate that the peer reports (D-SACK, RFC 2883), and the state that judges it.
pub(super) struct Duplicate {
    pub(super) left: u64,
    pub(super) right: u64,
    /// First position not acknowledged before.
    pub(super) prior_una: u64,
    /// Payload of a full segment.
    pub(super) mss: u32,
    /// The largest window of the peer, bytes.
    pub(super) window_max: u64,
    /// Segments retransmitted so far.
    pub(super) retransmissions: u64,
}

impl Recovery {
    /// Creates the state of a connection that has lost nothing.
    pub(super) fn new(stack: &TcpStack) -> Self {
        Self {
            high_seq: 0,
            prior_cwnd: 0,
            prior_ssthresh: 0,
            prr_delivered: 0,
            prr_out: 0,
            undo_marker: None,
            undo_retrans: 0,
            duplicates: 0,
            retrans_stamp: None,
            frto: false,
            consecutive_timeouts: 0,
            last_timeout: 0,
            silent: false,
            reneged: false,
            probe_high: None,
            probe_retransmitted: false,
            reduction: stack.reduction,
            outage: stack.outage,
            delivers_duplicates: stack.delivers_duplicates,
            counts: RecoveryCounts::default(),
        }
    }

    /// Returns the counts over the life of the connection.
    pub(super) fn counts(&self) -> RecoveryCounts {
        self.counts
    }

    /// Returns the position whose acknowledgement ends recovery.
    #[inline]
    pub(super) fn high_seq(&self) -> u64 {
        self.high_seq
    }

    /// Returns the number of retransmission timeouts since data was last acknowledged.
    #[inline]
    pub(super) fn consecutive_timeouts(&self) -> u32 {
        self.consecutive_timeouts
    }

    /// Returns whether a tail loss probe waits for its answer.
    #[inline]
    pub(super) fn awaits_probe(&self) -> bool {
        self.probe_high.is_some()
    }

    /// Returns whether the peer took back what it had reported, and that is being repaired.
    #[inline]
    pub(super) fn repairs_reneging(&self) -> bool {
        self.reneged
    }

    /// Returns the time since the first retransmission of the loss under repair.
    pub(super) fn since_first_retransmission(&self, now: Instant) -> Option<Duration> {
        let since = |stamp: NonZeroU32| timestamp_clock(now).wrapping_sub(stamp.get());
        self.retrans_stamp.map(|stamp| Duration::from_millis(since(stamp).into()))
    }

    /// Returns whether recovery lasts although everything up to its end is acknowledged: without SACK, duplicates of
    /// what was sent before may still arrive and must not begin another one (`tcp_is_non_sack_preventing_reopen`).
    #[inline]
    pub(super) fn must_hold(&self, selective: bool, una: u64) -> bool {
        !selective && una == self.high_seq
    }

    /// Handles the acknowledgement of new data.
    #[inline]
    pub(super) fn on_progress(&mut self) {
        self.consecutive_timeouts = 0;
    }

    /// Counts a segment that leaves while PRR sizes the window.
    #[inline]
    pub(super) fn count_sent(&mut self) {
        self.prr_out += 1;
    }

    /// Begins a tail loss probe (`tcp_send_loss_probe`, RFC 8985 section 7.3), unless one waits for its answer. Returns
    /// whether it begins.
    pub(super) fn begin_probe(&mut self, next: u64) -> bool {
        let begins = self.probe_high.is_none();
        if begins {
            self.probe_high = Some(next);
            self.probe_retransmitted = false;
        }
        begins
    }

    /// Takes note of a probe that is new data up to the position `next`.
    pub(super) fn on_new_probe(&mut self, next: u64) {
        self.probe_high = Some(next);
    }

    /// Takes note of a probe that is a retransmission.
    pub(super) fn on_repeated_probe(&mut self) {
        self.probe_retransmitted = true;
    }

    /// Changes the congestion state.
    fn set_state(&mut self, parts: &mut Parts<'_>, state: CongestionState) {
        self.on_state(state);
        // Timeouts in a row are one loss (`mptcp_olia_set_state`).
        let loss = state >= CongestionState::Cwr && self.consecutive_timeouts == 0;
        parts.cwnd.set_state(parts.now, state, loss.then_some(parts.flight.bytes_acked()));
    }

    /// Handles a retransmission timeout: marks losses and collapses the window (`tcp_enter_loss`).
    pub(super) fn on_timeout(&mut self, parts: &mut Parts<'_>, losses: &Losses) {
        self.enter_loss(parts, losses);
        self.count_timeout(parts.now);
    }

    fn enter_loss(&mut self, parts: &mut Parts<'_>, losses: &Losses) {
        let reneged = parts.flight.front().is_some_and(|head| head.sacked);
        if reneged {
            parts.flight.clear_sacked();
            self.reneged = true;
        }
        parts.flight.forget_duplicates();
        losses.expire(parts, reneged);
        let state = parts.cwnd.state();
        let fresh = state <= CongestionState::Disorder
            || parts.una >= self.high_seq
            || (state == CongestionState::Loss && self.consecutive_timeouts == 0);
        if fresh {
            self.remember(parts.cwnd.window(), parts.cwnd.current_ssthresh());
            parts.cwnd.on_timeout(parts.now, parts.flight.in_flight());
            self.init_undo(parts.una, parts.flight.retrans_out());
        }
        parts.cwnd.collapse(parts.now, parts.flight.in_flight());
        self.set_state(parts, CongestionState::Loss);
        self.high_seq = parts.next;
        self.probe_high = None;
        self.frto = state < CongestionState::Recovery || self.consecutive_timeouts > 0;
    }

    /// Repairs segments that the path dropped for their size, without a reduction (`tcp_simple_retransmit`).
    pub(super) fn on_larger_cut(&mut self, parts: &mut Parts<'_>) {
        parts.flight.forget_duplicates();
        if parts.cwnd.state() != CongestionState::Loss {
            self.high_seq = parts.next;
            parts.cwnd.lower_ssthresh();
            self.forget_undo();
            self.frto = false;
            self.set_state(parts, CongestionState::Loss);
        }
    }

    /// Handles the reordering timer (`tcp_rack_reo_timeout`). Returns the verdict, and whether anything was lost.
    pub(super) fn on_reordering_timeout(
        &mut self,
        parts: &mut Parts<'_>,
        losses: &mut Losses,
    ) -> (Verdict, bool) {
        let before = parts.flight.in_flight();
        losses.review();
        let verdict = losses.detect(parts, false);
        let in_flight = parts.flight.in_flight();
        let lost = before != in_flight;
        if lost && parts.cwnd.state() != CongestionState::Recovery {
            self.enter_recovery(parts, false);
            if !parts.cwnd.controller().owns_recovery() {
                self.reduce(parts.cwnd, in_flight, 1, Verdict::default(), &AckFlags::default());
            }
        }
        (verdict, lost)
    }

    /// Remembers the window before a reduction.
    fn remember(&mut self, window: Window, current_ssthresh: u32) {
        self.prior_cwnd = window.cwnd;
        self.prior_ssthresh = current_ssthresh;
    }

    /// Counts a timeout. The second in a row means that the path was silent.
    fn count_timeout(&mut self, now: Instant) {
        self.counts.timeouts += 1;
        self.consecutive_timeouts += 1;
        self.last_timeout = timestamp_clock(now);
        self.silent |= self.consecutive_timeouts >= 2;
    }

    /// The congestion state is now `state`: outside of Loss the loss is repaired.
    fn on_state(&mut self, state: CongestionState) {
        self.silent &= state == CongestionState::Loss;
    }

    /// An RTT sample that ends now reaches back before the last timeout, by more than the clock's error.
    pub(super) fn outlasts_timeout(&self, now: Instant, rtt: Duration) -> bool {
        let since = timestamp_clock(now).wrapping_sub(self.last_timeout);
        rtt > Duration::from_millis(since.into()) + CLOCK_ERROR
    }

    /// `tcp_init_cwnd_reduction`.
    fn init_reduction(&mut self, parts: &mut Parts<'_>, kind: CongestionKind) {
        self.high_seq = parts.next;
        self.probe_high = None;
        self.prr_delivered = 0;
        self.prr_out = 0;
        self.prior_cwnd = parts.cwnd.begin_reduction(parts.now, kind, parts.flight.in_flight());
    }

    /// `tcp_enter_cwr`, where no reduction is under way.
    fn enter_cwr(&mut self, parts: &mut Parts<'_>) {
        self.undo_marker = None;
        self.init_reduction(parts, CongestionKind::Ecn);
        self.set_state(parts, CongestionState::Cwr);
    }

    /// Reduces the window for an acknowledgement that echoes a mark and leaves nothing lost, once for all segments in
    /// flight (`tcp_enter_cwr`).
    fn answer_echo(&mut self, parts: &mut Parts<'_>, flags: &AckFlags) {
        if !flags.echo {
            return;
        }
        self.forbid_undo();
        if parts.cwnd.state() < CongestionState::Cwr {
            self.enter_cwr(parts);
            self.counts.ecn_reductions += 1;
        }
    }

    /// `tcp_enter_recovery`.
    fn enter_recovery(&mut self, parts: &mut Parts<'_>, echo: bool) {
        self.prior_ssthresh = 0;
        self.init_undo(parts.una, parts.flight.retrans_out());
        if !parts.cwnd.is_reducing() {
            if !echo {
                self.prior_ssthresh = parts.cwnd.current_ssthresh();
            }
            self.init_reduction(parts, CongestionKind::Loss);
        }
        self.set_state(parts, CongestionState::Recovery);
    }

    /// `tcp_cwnd_reduction`: one acknowledgement's share of the reduction.
    pub(super) fn reduce(
        &mut self,
        cwnd: &mut Cwnd,
        in_flight: u32,
        delivered: u32,
        verdict: Verdict,
        flags: &AckFlags,
    ) {
        if delivered == 0 || self.prior_cwnd == 0 {
            return;
        }
        if self.reduction == Reduction::AtOnce {
            cwnd.reduce_to(cwnd.window().ssthresh);
            return;
        }
        self.prr_delivered += delivered;
        let in_flight = i64::from(in_flight);
        let ssthresh = i64::from(cwnd.window().ssthresh);
        let delta = ssthresh - in_flight;
        let room = if delta < 0 {
            let dividend =
                ssthresh * i64::from(self.prr_delivered) + i64::from(self.prior_cwnd) - 1;
            dividend / i64::from(self.prior_cwnd) - i64::from(self.prr_out)
        } else {
            let owed =
                (i64::from(self.prr_delivered) - i64::from(self.prr_out)).max(i64::from(delivered));
            let room = match self.reduction {
                Reduction::ProportionalRepaired
                    if flags.retransmission_acked && !verdict.lost_retransmission =>
                {
                    owed + 1
                }
                Reduction::ProportionalRepaired => i64::from(delivered),
                _ => owed + i64::from(flags.una_advanced && verdict.lost == 0),
            };
            room.min(delta)
        };
        // Force a fast retransmit on entering recovery.
        let room = room.max(i64::from(self.prr_out == 0));
        cwnd.reduce_to((in_flight + room).max(1) as u32);
    }

    /// `tcp_end_cwnd_reduction`.
    fn end_reduction(&mut self, parts: &mut Parts<'_>) {
        parts.cwnd.end_reduction(parts.now, self.undo_marker.is_some());
    }

    /// `tcp_try_undo_recovery`: recovery is over; was it needed? False while it has to go on.
    fn finish_recovery(
        &mut self,
        parts: &mut Parts<'_>,
        losses: &mut Losses,
        echo: Option<u32>,
    ) -> bool {
        if self.may_undo(echo) {
            self.undo(parts, losses, false);
        } else {
            losses.on_recovery_end();
        }
        if self.must_hold(parts.flight.is_selective(), parts.una) {
            return false;
        }
        self.reneged = false;
        self.set_state(parts, CongestionState::Open);
        true
    }

    /// `tcp_try_keep_open`, `tcp_try_to_open`.
    fn try_open(&mut self, parts: &mut Parts<'_>) {
        if parts.flight.retrans_out() == 0 {
            self.retrans_stamp = None;
        }
        if parts.cwnd.state() != CongestionState::Cwr {
            let state = if parts.flight.is_in_order() {
                CongestionState::Open
            } else {
                CongestionState::Disorder
            };
            if state != parts.cwnd.state() {
                self.set_state(parts, state);
                self.high_seq = parts.next;
            }
        }
    }

    /// `tcp_process_tlp_ack` (RFC 8985 section 7.4).
    #[inline]
    pub(super) fn answer_probe(&mut self, parts: &mut Parts<'_>, flags: &AckFlags) {
        let Some(high) = self.probe_high.filter(|high| parts.una >= *high) else {
            return;
        };
        // Before 5.9 the report of any duplicate answers the probe.
        let duplicated = flags.probe_duplicated || (flags.dsack && !self.delivers_duplicates);
        if !self.probe_retransmitted || duplicated {
            self.probe_high = None;
        } else if parts.una > high {
            // The probe repaired a loss: answer it as congestion.
            self.init_reduction(parts, CongestionKind::TailLoss);
            self.set_state(parts, CongestionState::Cwr);
            self.end_reduction(parts);
            self.set_state(parts, CongestionState::Open);
        } else if !flags.una_advanced && !flags.data_sacked && !flags.not_duplicate {
            self.probe_high = None;
        }
    }
}

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;
