//! Recovery: proportional rate reduction (RFC 6937; `tcp_cwnd_reduction`), F-RTO (RFC 5682) and
//! Eifel/DSACK undo (RFC 3522, RFC 4015; `tcp_may_undo`).

use std::num::NonZeroU32;

use anabranch_units::{Duration, Instant};

use super::losses::Verdict;
use super::rtt::timestamp_clock;
use crate::profile::{OutageRule, Reduction};
use crate::subflow::Subflow;
use anabranch_congestion::{
    CongestionEvent, CongestionKind, CongestionState, Window, WindowChange,
};

/// What an RTT sample may be longer than it was: timestamps count milliseconds (RFC 7323 section 5.4).
const CLOCK_ERROR: Duration = Duration::from_millis(2);

/// State of a reduction under way.
#[derive(Debug, Default)]
pub(crate) struct Recovery {
    /// Recovery ends when this position is acknowledged (`high_seq`).
    pub(crate) high_seq: u64,
    prior_cwnd: u32,
    prior_ssthresh: u32,
    prr_delivered: u32,
    pub(crate) prr_out: u32,
    /// A reduction may be undone while this is set (`undo_marker`).
    undo_marker: Option<u64>,
    /// Retransmissions whose duplicates have not been reported; negative: none sent yet.
    pub(in crate::subflow) undo_retrans: i32,
    /// Segments that the peer has reported as duplicates (`dsack_dups`).
    pub(in crate::subflow) duplicates: u32,
    /// Timestamp clock at the first retransmission (`retrans_stamp`).
    pub(crate) retrans_stamp: Option<NonZeroU32>,
    /// F-RTO is deciding whether the timeout was spurious.
    pub(crate) frto: bool,
    pub(crate) consecutive_timeouts: u32,
    /// The timestamp clock at the last timeout.
    last_timeout: u32,
    /// There were two timeouts in a row, and the loss is not repaired yet.
    silent: bool,
    /// The peer took back what it had reported, and that is being repaired (`is_sack_reneg`).
    pub(crate) reneged: bool,
    /// `snd_nxt` when the tail loss probe went out.
    pub(crate) probe_high: Option<u64>,
    pub(crate) probe_retransmitted: bool,
}

/// What to send in reaction to an acknowledgement.
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
pub(in crate::subflow) struct Answer {
    pub(in crate::subflow) verdict: Verdict,
    pub(in crate::subflow) repair: Repair,
}

impl From<Repair> for Answer {
    fn from(repair: Repair) -> Self {
        Self { repair, verdict: Verdict::default() }
    }
}

/// What an acknowledgement was found to contain (Linux's `FLAG_*`).
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

impl Recovery {
    /// Remembers the window before a reduction.
    pub(crate) fn remember(&mut self, window: Window, current_ssthresh: u32) {
        self.prior_cwnd = window.cwnd;
        self.prior_ssthresh = current_ssthresh;
    }

    /// A timeout: the second in a row tells that the path was silent.
    pub(in crate::subflow) fn on_timeout(&mut self, now: Instant) {
        self.consecutive_timeouts += 1;
        self.last_timeout = timestamp_clock(now);
        self.silent |= self.consecutive_timeouts >= 2;
    }

    /// The congestion state is now `state`: outside of Loss the loss is repaired.
    pub(in crate::subflow) fn on_state(&mut self, state: CongestionState) {
        self.silent &= state == CongestionState::Loss;
    }

    /// An RTT sample that ends now reaches back before the last timeout, by more than the clock's error.
    pub(in crate::subflow) fn outlasts_timeout(&self, now: Instant, rtt: Duration) -> bool {
        let since = timestamp_clock(now).wrapping_sub(self.last_timeout);
        rtt > Duration::from_millis(since.into()) + CLOCK_ERROR
    }

    /// `tcp_init_undo`.
    pub(crate) fn init_undo(&mut self, una: u64, retrans_out: u32) {
        self.undo_marker = Some(una);
        self.undo_retrans = if retrans_out > 0 { retrans_out as i32 } else { -1 };
    }

    /// The reduction is none that could be undone.
    pub(in crate::subflow) fn forget_undo(&mut self) {
        self.prior_ssthresh = 0;
        self.undo_marker = None;
    }

    /// A segment was retransmitted.
    pub(crate) fn on_retransmit(&mut self, clock: u32) {
        self.undo_retrans = self.undo_retrans.max(0) + 1;
        if self.retrans_stamp.is_none() {
            self.retrans_stamp = NonZeroU32::new(clock);
        }
    }

    /// The peer reported a duplicate of so many `segments` up to `right` (`tcp_check_dsack`).
    pub(crate) fn on_dsack(&mut self, right: u64, segments: u32) {
        if self.undo_retrans > 0 && self.undo_marker.is_some_and(|marker| right > marker) {
            self.undo_retrans = (self.undo_retrans - segments as i32).max(0);
        }
    }

    /// `tcp_may_undo`: every retransmission was a duplicate, or the acknowledgement answers a
    /// segment sent before the first retransmission.
    fn may_undo(&self, echo: Option<u32>) -> bool {
        self.all_duplicates() || self.original_answered(echo)
    }

    /// Every retransmission of the reduction was a duplicate.
    fn all_duplicates(&self) -> bool {
        self.undo_marker.is_some() && self.undo_retrans == 0
    }

    /// The acknowledgement answers what was sent before the first retransmission
    /// (`tcp_packet_delayed`).
    fn original_answered(&self, echo: Option<u32>) -> bool {
        let echoed = self.undo_marker.and(self.retrans_stamp).zip(echo);
        echoed.is_some_and(|(stamp, echo)| (echo.wrapping_sub(stamp.get()) as i32) < 0)
    }
}

impl Subflow {
    /// `tcp_current_ssthresh`.
    pub(crate) fn current_ssthresh(&self) -> u32 {
        if matches!(self.ca_state, CongestionState::Cwr | CongestionState::Recovery) {
            self.window.ssthresh
        } else {
            self.window.ssthresh.max(self.window.cwnd / 2 + self.window.cwnd / 4)
        }
    }

    fn in_reduction(&self) -> bool {
        matches!(self.ca_state, CongestionState::Cwr | CongestionState::Recovery)
    }

    /// `tcp_init_cwnd_reduction`.
    fn init_reduction(&mut self, now: Instant, kind: CongestionKind) {
        self.recovery.high_seq = self.send.next();
        self.recovery.probe_high = None;
        self.recovery.prior_cwnd = self.window.cwnd;
        self.recovery.prr_delivered = 0;
        self.recovery.prr_out = 0;
        let event = CongestionEvent { now, kind, in_flight: self.board.in_flight() };
        self.controller.on_congestion(&event, &mut self.window);
        self.ecn.queue_cwr();
    }

    /// The reduction is required and will not be undone.
    pub(in crate::subflow) fn forbid_undo(&mut self) {
        self.recovery.prior_ssthresh = 0;
    }

    /// `tcp_enter_cwr`, where no reduction is under way.
    pub(in crate::subflow) fn enter_cwr(&mut self, now: Instant) {
        self.recovery.undo_marker = None;
        self.init_reduction(now, CongestionKind::Ecn);
        self.set_state(now, CongestionState::Cwr);
    }

    /// `tcp_enter_recovery`.
    pub(crate) fn enter_recovery(&mut self, now: Instant, echo: bool) {
        self.recovery.prior_ssthresh = 0;
        self.recovery.init_undo(self.send.una(), self.board.retrans_out);
        if !self.in_reduction() {
            if !echo {
                self.recovery.prior_ssthresh = self.current_ssthresh();
            }
            self.init_reduction(now, CongestionKind::Loss);
        }
        self.set_state(now, CongestionState::Recovery);
    }

    /// `tcp_cwnd_reduction`: one acknowledgement's share of the reduction.
    pub(crate) fn reduce(&mut self, delivered: u32, verdict: Verdict, flags: &AckFlags) {
        if delivered == 0 || self.recovery.prior_cwnd == 0 {
            return;
        }
        if self.stack.tcp.reduction == Reduction::AtOnce {
            self.window.cwnd = self.window.ssthresh;
            return;
        }
        let recovery = &mut self.recovery;
        recovery.prr_delivered += delivered;
        let in_flight = i64::from(self.board.in_flight());
        let ssthresh = i64::from(self.window.ssthresh);
        let delta = ssthresh - in_flight;
        let room = if delta < 0 {
            let dividend =
                ssthresh * i64::from(recovery.prr_delivered) + i64::from(recovery.prior_cwnd) - 1;
            dividend / i64::from(recovery.prior_cwnd) - i64::from(recovery.prr_out)
        } else {
            let owed = (i64::from(recovery.prr_delivered) - i64::from(recovery.prr_out))
                .max(i64::from(delivered));
            let room = match self.stack.tcp.reduction {
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
        let room = room.max(i64::from(recovery.prr_out == 0));
        self.window.cwnd = (in_flight + room).max(1) as u32;
    }

    /// `tcp_end_cwnd_reduction`.
    fn end_reduction(&mut self, now: Instant) {
        if self.controller.owns_recovery() {
            return;
        }
        let cut = self.window.ssthresh < u32::MAX;
        if cut && (self.ca_state == CongestionState::Cwr || self.recovery.undo_marker.is_some()) {
            self.window.cwnd = self.window.ssthresh;
            self.usage.on_window_set(now);
            self.controller.on_window_changed(WindowChange::Reduction, &mut self.window);
        }
    }

    /// `tcp_undo_cwnd_reduction`.
    fn undo(&mut self, now: Instant, unmark_losses: bool) {
        if unmark_losses {
            self.board.unmark_losses();
        }
        if self.recovery.prior_ssthresh > 0 {
            self.window.cwnd = self.controller.undo_cwnd(&self.window, self.recovery.prior_cwnd);
            if self.recovery.prior_ssthresh > self.window.ssthresh {
                self.window.ssthresh = self.recovery.prior_ssthresh;
                self.ecn.withdraw_cwr();
            }
        }
        self.usage.on_window_set(now);
        self.recovery.undo_marker = None;
        self.rack.advanced = true;
        self.totals.undos += 1;
        self.controller.on_window_changed(WindowChange::Undo, &mut self.window);
    }

    /// `tcp_try_undo_recovery`: recovery is over; was it needed? False while it has to go on.
    fn finish_recovery(&mut self, now: Instant, echo: Option<u32>) -> bool {
        if self.recovery.may_undo(echo) {
            self.undo(now, false);
        } else {
            self.rack.on_recovery_end();
        }
        if self.must_hold_recovery() {
            return false;
        }
        self.recovery.reneged = false;
        self.set_state(now, CongestionState::Open);
        true
    }

    /// `tcp_try_keep_open`, `tcp_try_to_open`.
    fn try_open(&mut self, now: Instant) {
        if self.board.retrans_out == 0 {
            self.recovery.retrans_stamp = None;
        }
        if self.ca_state != CongestionState::Cwr {
            let disorder =
                self.board.sacked_out > 0 || self.board.lost_out > 0 || self.board.retrans_out > 0;
            let state = if disorder { CongestionState::Disorder } else { CongestionState::Open };
            if state != self.ca_state {
                self.set_state(now, state);
                self.recovery.high_seq = self.send.next();
            }
        }
    }

    /// `tcp_process_tlp_ack` (RFC 8985 section 7.4).
    #[inline]
    pub(crate) fn answer_probe(&mut self, now: Instant, ack: u64, flags: &AckFlags) {
        let Some(high) = self.recovery.probe_high.filter(|high| ack >= *high) else {
            return;
        };
        // Before 5.9 the report of any duplicate answers the probe.
        let duplicated =
            flags.probe_duplicated || (flags.dsack && !self.stack.tcp.delivers_duplicates);
        if !self.recovery.probe_retransmitted || duplicated {
            self.recovery.probe_high = None;
        } else if ack > high {
            // The probe repaired a loss: answer it as congestion.
            self.init_reduction(now, CongestionKind::TailLoss);
            self.set_state(now, CongestionState::Cwr);
            self.end_reduction(now);
            self.set_state(now, CongestionState::Open);
        } else if !flags.una_advanced && !flags.data_sacked && !flags.not_duplicate {
            self.recovery.probe_high = None;
        }
    }

    /// `tcp_fastretrans_alert`: answers an acknowledgement that is not plainly good.
    pub(in crate::subflow) fn answer_ack(
        &mut self,
        now: Instant,
        flags: &AckFlags,
        echo: Option<u32>,
    ) -> Answer {
        if self.ca_state != CongestionState::Open && self.send.una() >= self.recovery.high_seq {
            match self.ca_state {
                CongestionState::Cwr if self.send.una() != self.recovery.high_seq => {
                    self.end_reduction(now);
                    self.set_state(now, CongestionState::Open);
                }
                CongestionState::Recovery => {
                    self.board.forget_duplicates(self.agreed.sack_permitted);
                    if !self.finish_recovery(now, echo) {
                        return Answer::default();
                    }
                    self.end_reduction(now);
                }
                _ => {}
            }
        }
        match self.ca_state {
            CongestionState::Recovery => self.answer_in_recovery(now, flags, echo),
            CongestionState::Loss => {
                let repair = self.answer_in_loss(now, flags, echo);
                let verdict = self.detect_losses(now, flags.una_advanced);
                if self.ca_state != CongestionState::Open && !verdict.lost_retransmission {
                    return Answer { verdict, repair };
                }
                // The window was undone, or retransmissions were lost again.
                let later = self.answer_open(now, flags);
                Answer { verdict: verdict.and(later.verdict), ..later }
            }
            _ => self.answer_open(now, flags),
        }
    }

    fn answer_in_recovery(&mut self, now: Instant, flags: &AckFlags, echo: Option<u32>) -> Answer {
        self.count_duplicate(flags);
        // A partial acknowledgement may show that the reduction was spurious (`tcp_try_undo_partial`).
        if flags.una_advanced && self.recovery.original_answered(echo) {
            if self.board.retrans_out > 0 {
                return Repair::Lost.into();
            }
            self.recovery.retrans_stamp = None;
            self.undo(now, true);
            self.try_open(now);
        }
        // Reports of duplicates may show it too, whatever is acknowledged with them.
        if self.recovery.all_duplicates() {
            self.undo(now, false);
            self.rack.on_undo();
            self.answer_echo(now, flags);
            self.try_open(now);
        }
        let verdict = self.detect_losses(now, flags.una_advanced);
        if self.ca_state != CongestionState::Recovery {
            if self.board.lost_out == 0 {
                self.try_open(now);
                return Answer { verdict, repair: Repair::None };
            }
            self.enter_recovery(now, flags.echo);
        }
        Answer { verdict, repair: Repair::Lost }
    }

    /// `tcp_process_loss`: after a timeout, with F-RTO (RFC 5682).
    fn answer_in_loss(&mut self, now: Instant, flags: &AckFlags, echo: Option<u32>) -> Repair {
        let recovered = self.send.una() >= self.recovery.high_seq;
        if self.follows_outage(flags) {
            self.recovery.frto = false;
        } else if flags.una_advanced && self.recovery.may_undo(echo) {
            self.undo_timeout(now);
            return Repair::None;
        }
        if self.recovery.frto {
            if flags.original_acked {
                self.undo_timeout(now);
                return Repair::None;
            }
            if self.send.next() > self.recovery.high_seq {
                if flags.data_sacked || (flags.duplicate && !self.agreed.sack_permitted) {
                    self.recovery.frto = false;
                }
            } else if flags.una_advanced && !recovered {
                self.recovery.high_seq = self.send.next();
                if self.send.queued_bytes() > 0 {
                    return Repair::New;
                }
                self.recovery.frto = false;
            }
        }
        if recovered {
            self.finish_recovery(now, echo);
            return Repair::None;
        }
        if flags.una_advanced {
            self.board.forget_duplicates(self.agreed.sack_permitted);
        } else if self.send.next() > self.recovery.high_seq {
            self.count_duplicate(flags);
        }
        Repair::Lost
    }

    /// Returns whether an acknowledgement is taken as one after an outage. It then says nothing about the timeout:
    /// that it covers what was never sent again only shows that acknowledgements were lost.
    pub(in crate::subflow) fn follows_outage(&self, flags: &AckFlags) -> bool {
        match self.stack.tcp.outage {
            OutageRule::Kernel => false,
            OutageRule::Dsack if self.agreed.sack_permitted => {
                flags.dsack && self.ca_state == CongestionState::Loss
            }
            _ => self.recovery.silent,
        }
    }

    /// `tcp_try_undo_loss`.
    fn undo_timeout(&mut self, now: Instant) {
        self.undo(now, true);
        self.recovery.consecutive_timeouts = 0;
        self.recovery.frto = false;
        self.recovery.reneged = false;
        self.set_state(now, CongestionState::Open);
        self.try_open(now);
    }

    fn answer_open(&mut self, now: Instant, flags: &AckFlags) -> Answer {
        if flags.una_advanced {
            self.board.forget_duplicates(self.agreed.sack_permitted);
        }
        self.count_duplicate(flags);
        if self.ca_state <= CongestionState::Disorder && self.recovery.all_duplicates() {
            self.undo(now, false);
            self.rack.on_undo();
        }
        let verdict = self.detect_losses(now, flags.una_advanced);
        if self.board.lost_out == 0 {
            self.answer_echo(now, flags);
            self.try_open(now);
            return Answer { verdict, repair: Repair::None };
        }
        self.enter_recovery(now, flags.echo);
        Answer { verdict, repair: Repair::Lost }
    }

    /// PRR is sizing the window.
    pub(crate) fn reducing(&self) -> bool {
        self.in_reduction()
    }
}

#[cfg(test)]
mod tests;
