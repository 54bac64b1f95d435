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

/// The largest error of an RTT sample from timestamps, which have a resolution of a millisecond (RFC 7323
/// section 5.4).
const CLOCK_ERROR: Duration = Duration::from_millis(2);

/// The kind of data to send after an acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Repair {
    #[default]
    None,
    /// Lost segments are retransmitted.
    Lost,
    /// New data is sent first (F-RTO step 2b).
    New,
}

/// The reaction to an acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) verdict: Verdict,
    pub(super) repair: Repair,
    /// Whether the acknowledgement ends at a SACKed segment. The peer may have discarded SACKed data.
    pub(super) reneges: bool,
}

impl From<Repair> for Answer {
    fn from(repair: Repair) -> Self {
        Self { repair, ..Self::default() }
    }
}

/// The properties of an acknowledgement (Linux's `FLAG_*`).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AckFlags {
    pub(crate) una_advanced: bool,
    pub(crate) data_sacked: bool,
    /// Data below `high_seq` that was sent only once was acknowledged.
    pub(crate) original_acked: bool,
    pub(crate) retransmission_acked: bool,
    pub(crate) dsack: bool,
    /// The acknowledgement reports a duplicate of the tail loss probe (`FLAG_DSACK_TLP`).
    pub(crate) probe_duplicated: bool,
    pub(crate) set_timer: bool,
    /// The segment had data or changed the window, so it is not a duplicate acknowledgement.
    pub(crate) not_duplicate: bool,
    /// The segment counts as a duplicate acknowledgement (without SACK).
    pub(crate) duplicate: bool,
    /// The segment has ECE (`FLAG_ECE`).
    pub(crate) echo: bool,
}

/// The state of a window reduction, of its undo, and of a tail loss probe.
#[derive(Debug)]
pub(crate) struct Recovery {
    /// The position whose acknowledgement ends recovery (`high_seq`).
    high_seq: u64,
    prior_cwnd: u32,
    prior_ssthresh: u32,
    prr_delivered: u32,
    prr_out: u32,
    /// The start of the data whose reduction may be undone (`undo_marker`). `None` if undo is not permitted.
    undo_marker: Option<u64>,
    /// The number of retransmissions that were not reported as duplicates. Negative if none was sent yet.
    undo_retrans: i32,
    /// The number of segments that the peer has reported as duplicates (`dsack_dups`).
    duplicates: u32,
    /// The timestamp clock at the first retransmission (`retrans_stamp`).
    retrans_stamp: Option<NonZeroU32>,
    /// Whether F-RTO has not decided yet if the timeout was spurious.
    frto: bool,
    consecutive_timeouts: u32,
    /// The timestamp clock at the last timeout.
    last_timeout: u32,
    /// Whether there were two consecutive timeouts and the loss is not repaired yet.
    silent: bool,
    /// Whether the peer has discarded SACKed data and that data is being retransmitted (`is_sack_reneg`).
    reneged: bool,
    /// `snd_nxt` when the tail loss probe was sent. `None` if no probe is outstanding.
    probe_high: Option<u64>,
    probe_retransmitted: bool,
    reduction: Reduction,
    outage: OutageRule,
    /// Whether duplicates reported by the peer count as delivered.
    delivers_duplicates: bool,
    counts: RecoveryCounts,
}

/// Counts over the life of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RecoveryCounts {
    /// Retransmission timeouts.
    pub(super) timeouts: u64,
    /// Window reductions undone as spurious.
    pub(super) undos: u64,
    /// Window reductions because of ECE.
    pub(super) ecn_reductions: u64,
}

/// A duplicate reported by the peer (DSACK, RFC 2883), and the values needed to validate it.
pub(super) struct Duplicate {
    pub(super) left: u64,
    pub(super) right: u64,
    /// The first unacknowledged position before this acknowledgement.
    pub(super) prior_una: u64,
    /// The payload of a full segment.
    pub(super) mss: u32,
    /// The largest window of the peer, bytes.
    pub(super) window_max: u64,
    /// The number of segments retransmitted so far.
    pub(super) retransmissions: u64,
}

impl Recovery {
    /// Creates the state of a connection without losses.
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

    /// Returns whether a tail loss probe is outstanding.
    #[inline]
    pub(super) fn awaits_probe(&self) -> bool {
        self.probe_high.is_some()
    }

    /// Returns whether SACKed data that the peer has discarded is being retransmitted.
    #[inline]
    pub(super) fn repairs_reneging(&self) -> bool {
        self.reneged
    }

    /// Returns the time since the first retransmission of the loss under repair.
    pub(super) fn since_first_retransmission(&self, now: Instant) -> Option<Duration> {
        let since = |stamp: NonZeroU32| timestamp_clock(now).wrapping_sub(stamp.get());
        self.retrans_stamp.map(|stamp| Duration::from_millis(since(stamp).into()))
    }

    /// Returns whether recovery must continue although all data up to `high_seq` is acknowledged. Without
    /// SACK, later duplicates of earlier segments would otherwise start another recovery
    /// (`tcp_is_non_sack_preventing_reopen`).
    #[inline]
    pub(super) fn must_hold(&self, selective: bool, una: u64) -> bool {
        !selective && una == self.high_seq
    }

    /// Resets the count of timeouts, because new data was acknowledged.
    #[inline]
    pub(super) fn on_progress(&mut self) {
        self.consecutive_timeouts = 0;
    }

    /// Counts a segment sent during the reduction.
    #[inline]
    pub(super) fn count_sent(&mut self) {
        self.prr_out += 1;
    }

    /// Records a tail loss probe (`tcp_send_loss_probe`, RFC 8985 section 7.3). Returns false if one is
    /// outstanding.
    pub(super) fn begin_probe(&mut self, next: u64) -> bool {
        let begins = self.probe_high.is_none();
        if begins {
            self.probe_high = Some(next);
            self.probe_retransmitted = false;
        }
        begins
    }

    /// Records that the probe is new data up to the position `next`.
    pub(super) fn on_new_probe(&mut self, next: u64) {
        self.probe_high = Some(next);
    }

    /// Records that the probe is a retransmission.
    pub(super) fn on_repeated_probe(&mut self) {
        self.probe_retransmitted = true;
    }

    /// Changes the congestion state.
    fn set_state(&mut self, parts: &mut Parts<'_>, state: CongestionState) {
        self.on_state(state);
        // Consecutive timeouts count as one loss (`mptcp_olia_set_state`).
        let loss = state >= CongestionState::Cwr && self.consecutive_timeouts == 0;
        parts.cwnd.set_state(parts.now, state, loss.then_some(parts.flight.bytes_acked()));
    }

    /// Handles a retransmission timeout: marks losses and reduces the window (`tcp_enter_loss`).
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
        parts.flight.clear_duplicates();
        losses.expire(parts, reneged);
        let state = parts.cwnd.state();
        let fresh = state <= CongestionState::Disorder
            || parts.una >= self.high_seq
            || (state == CongestionState::Loss && self.consecutive_timeouts == 0);
        if fresh {
            self.note_window(parts.cwnd.window(), parts.cwnd.current_ssthresh());
            parts.cwnd.on_timeout(parts.now, parts.flight.in_flight());
            self.set_undo(parts.una, parts.flight.retrans_out());
        }
        parts.cwnd.reduce_after_timeout(parts.now, parts.flight.in_flight());
        self.set_state(parts, CongestionState::Loss);
        self.high_seq = parts.next;
        self.probe_high = None;
        self.frto = state < CongestionState::Recovery || self.consecutive_timeouts > 0;
    }

    /// Starts to retransmit segments that were larger than the path MTU, without a window reduction
    /// (`tcp_simple_retransmit`).
    pub(super) fn on_larger_cut(&mut self, parts: &mut Parts<'_>) {
        parts.flight.clear_duplicates();
        if parts.cwnd.state() != CongestionState::Loss {
            self.high_seq = parts.next;
            parts.cwnd.reduce_ssthresh();
            self.clear_undo();
            self.frto = false;
            self.set_state(parts, CongestionState::Loss);
        }
    }

    /// Handles the reordering timer (`tcp_rack_reo_timeout`). Returns the verdict, and whether a segment was
    /// marked lost.
    pub(super) fn on_reordering_timeout(
        &mut self,
        parts: &mut Parts<'_>,
        losses: &mut Losses,
    ) -> (Verdict, bool) {
        let before = parts.flight.in_flight();
        losses.reset_detection();
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

    /// Stores the window before a reduction.
    fn note_window(&mut self, window: Window, current_ssthresh: u32) {
        self.prior_cwnd = window.cwnd;
        self.prior_ssthresh = current_ssthresh;
    }

    /// Counts a timeout. After two consecutive ones, the path counts as interrupted.
    fn count_timeout(&mut self, now: Instant) {
        self.counts.timeouts += 1;
        self.consecutive_timeouts += 1;
        self.last_timeout = timestamp_clock(now);
        self.silent |= self.consecutive_timeouts >= 2;
    }

    /// Handles a change of the congestion state. Outside of Loss, the loss is repaired.
    fn on_state(&mut self, state: CongestionState) {
        self.silent &= state == CongestionState::Loss;
    }

    /// Returns whether an RTT sample that ends now began before the last timeout, allowing for the error of
    /// the clock.
    pub(super) fn outlasts_timeout(&self, now: Instant, rtt: Duration) -> bool {
        let since = timestamp_clock(now).wrapping_sub(self.last_timeout);
        rtt > Duration::from_millis(since.into()) + CLOCK_ERROR
    }

    /// Begins a window reduction (`tcp_init_cwnd_reduction`).
    fn begin_reduction(&mut self, parts: &mut Parts<'_>, kind: CongestionKind) {
        self.high_seq = parts.next;
        self.probe_high = None;
        self.prr_delivered = 0;
        self.prr_out = 0;
        self.prior_cwnd = parts.cwnd.begin_reduction(parts.now, kind, parts.flight.in_flight());
    }

    /// Enters the CWR state (`tcp_enter_cwr`). No reduction must be in progress.
    fn enter_cwr(&mut self, parts: &mut Parts<'_>) {
        self.undo_marker = None;
        self.begin_reduction(parts, CongestionKind::Ecn);
        self.set_state(parts, CongestionState::Cwr);
    }

    /// Handles an acknowledgement with ECE: reduces the window once for all segments in flight, unless a
    /// reduction is in progress (`tcp_enter_cwr`).
    fn answer_echo(&mut self, parts: &mut Parts<'_>, flags: &AckFlags) {
        if !flags.echo {
            return;
        }
        self.discard_undo();
        if parts.cwnd.state() < CongestionState::Cwr {
            self.enter_cwr(parts);
            self.counts.ecn_reductions += 1;
        }
    }

    /// Enters the Recovery state (`tcp_enter_recovery`).
    fn enter_recovery(&mut self, parts: &mut Parts<'_>, echo: bool) {
        self.prior_ssthresh = 0;
        self.set_undo(parts.una, parts.flight.retrans_out());
        if !parts.cwnd.is_reducing() {
            if !echo {
                self.prior_ssthresh = parts.cwnd.current_ssthresh();
            }
            self.begin_reduction(parts, CongestionKind::Loss);
        }
        self.set_state(parts, CongestionState::Recovery);
    }

    /// Computes the window after one acknowledgement of the reduction (`tcp_cwnd_reduction`).
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
        // When recovery begins, at least one segment is retransmitted.
        let room = room.max(i64::from(self.prr_out == 0));
        cwnd.reduce_to((in_flight + room).max(1) as u32);
    }

    /// Ends a window reduction (`tcp_end_cwnd_reduction`).
    fn end_reduction(&mut self, parts: &mut Parts<'_>) {
        parts.cwnd.end_reduction(parts.now, self.undo_marker.is_some());
    }

    /// Ends recovery, and undoes the reduction if it was spurious (`tcp_try_undo_recovery`). Returns false if
    /// recovery must continue.
    fn end_recovery(
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

    /// Returns to the Open or Disorder state if possible (`tcp_try_keep_open`, `tcp_try_to_open`).
    fn enter_open(&mut self, parts: &mut Parts<'_>) {
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

    /// Handles the acknowledgement of a tail loss probe (`tcp_process_tlp_ack`, RFC 8985 section 7.4).
    #[inline]
    pub(super) fn answer_probe(&mut self, parts: &mut Parts<'_>, flags: &AckFlags) {
        let Some(high) = self.probe_high.filter(|high| parts.una >= *high) else {
            return;
        };
        // Before Linux 5.9, a DSACK of any segment counts as one of the probe.
        let duplicated = flags.probe_duplicated || (flags.dsack && !self.delivers_duplicates);
        if !self.probe_retransmitted || duplicated {
            self.probe_high = None;
        } else if parts.una > high {
            // The probe repaired a loss, so the window is reduced.
            self.begin_reduction(parts, CongestionKind::TailLoss);
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
