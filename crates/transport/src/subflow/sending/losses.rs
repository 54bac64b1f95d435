//! Loss detection by RACK (RFC 8985 section 6; Linux `tcp_recovery.c`): a segment is lost when
//! something sent later was delivered and a reordering window has passed. Older stacks also count the
//! segments reported above it, or do nothing else (`LossDetection`).

use anabranch_units::{Duration, Instant};

use super::flight::Sent;
use super::recovery::AckFlags;
use super::timers::Pending;
use crate::config::HostModel;
use crate::profile::LossDetection;
use crate::subflow::Subflow;
use anabranch_congestion::{CongestionState, LostSegment};

/// `tp->reordering` starts here: as many `SACKed` segments mean loss without waiting.
pub(in crate::subflow) const DUPLICATE_THRESHOLD: u32 = 3;
/// The number of recoveries for which a widened reordering window is kept (`TCP_RACK_RECOVERY_THRESH`).
const WINDOW_KEPT_RECOVERIES: u32 = 16;
/// The least reordering window of RACK's first draft.
const DRAFT_WINDOW_MIN: Duration = Duration::from_millis(1);

/// The result of a search for losses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Segments marked lost.
    pub(crate) lost: u32,
    /// A retransmission is among them (`FLAG_LOST_RETRANS`).
    pub(crate) lost_retransmission: bool,
    /// The timeout of the reordering timer, which waits for the segments that may still be only late: zero if there
    /// are none, `None` if no search by time took place.
    pub(crate) wait: Option<Duration>,
}

impl Verdict {
    /// Adds the result of a later search within the same acknowledgement.
    pub(in crate::subflow) fn and(self, later: Self) -> Self {
        Self {
            lost: self.lost + later.lost,
            lost_retransmission: self.lost_retransmission | later.lost_retransmission,
            wait: later.wait.or(self.wait),
        }
    }
}

/// RACK's state.
#[derive(Debug, Default)]
pub(crate) struct Rack {
    /// Place in the order of transmission of the most recently sent delivered segment. The kernel
    /// compares send times and, within a microsecond, sequence numbers; the order says the same, and
    /// also tells a retransmission from the new data sent behind it in one instant.
    newest: u64,
    /// RTT of the segment delivered last.
    rtt: Duration,
    /// The state above advanced since losses were last sought.
    pub(crate) advanced: bool,
    /// Reordering was seen on this subflow.
    pub(in crate::subflow) reordering_seen: bool,
    window_steps: u32,
    kept: u32,
    last_widened: u64,
}

impl Rack {
    /// A segment was delivered (`tcp_rack_advance`).
    pub(crate) fn on_delivered(&mut self, now: Instant, sent: &Sent, min_rtt: Option<Duration>) {
        let rtt = now.since(sent.sent_at);
        // An acknowledgement sooner than any RTT answers the original, not the retransmission.
        if sent.ever_retransmitted() && min_rtt.is_some_and(|min| rtt < min) {
            return;
        }
        self.advanced = true;
        self.rtt = rtt;
        self.newest = self.newest.max(sent.serial);
    }

    /// What is left of a segment's time, `None` when it is over (`tcp_rack_skb_timeout`).
    pub(crate) fn time_left(
        &self,
        now: Instant,
        sent: &Sent,
        window: Duration,
    ) -> Option<Duration> {
        let left = (self.rtt + window).saturating_sub(now.since(sent.sent_at));
        (!left.is_zero()).then_some(left)
    }

    /// An original was delivered behind one sent after it.
    pub(crate) fn on_reordering(&mut self) {
        self.reordering_seen = true;
    }

    /// A duplicate was reported: retransmissions came too early. It counts once a round trip: when
    /// something is delivered that was sent after the window was last widened
    /// (`tcp_rack_update_reo_wnd`); and where reordering was seen (`tcp_dsack_seen`).
    pub(crate) fn on_dsack(&mut self, delivered: u64, prior_delivered: u64) {
        if self.reordering_seen && prior_delivered >= self.last_widened {
            self.window_steps = (self.window_steps.max(1) + 1).min(255);
            self.kept = WINDOW_KEPT_RECOVERIES;
            self.last_widened = delivered;
        }
    }

    /// A recovery ended without a duplicate.
    pub(crate) fn on_recovery_end(&mut self) {
        self.kept = self.kept.saturating_sub(1);
        if self.kept == 0 {
            self.window_steps = 1;
        }
    }

    /// Reports of duplicates undid a reduction: the widened window proves its worth and is kept
    /// longer (`tcp_try_undo_dsack`).
    pub(crate) fn on_undo(&mut self) {
        self.kept = (self.kept + 1).min(WINDOW_KEPT_RECOVERIES);
    }

    fn sent_before(&self, sent: &Sent) -> bool {
        self.newest > sent.serial
    }
}

impl Subflow {
    /// The draft's window (`tcp_rack_detect_loss` of 4.14): a quarter of the least RTT until something
    /// is lost, and ever after reordering was seen; else next to nothing.
    fn draft_reordering_window(&self) -> Duration {
        let settles = self.rack.reordering_seen || self.board.lost_out == 0;
        let quarter = self.rtt.min_rtt().filter(|_| settles).map_or(Duration::ZERO, |min| min / 4);
        quarter.max(DRAFT_WINDOW_MIN)
    }

    /// Marks what has as many reported segments above it as mean loss (`tcp_update_scoreboard`,
    /// `tcp_mark_head_lost`). Reordering makes the kernel ask for more of them, up to 300; here it ends
    /// the count, and time decides.
    fn count_reports(&mut self, now: Instant) -> Verdict {
        let mut verdict = Verdict::default();
        let Some(below) = self.board.sacked_out.checked_sub(DUPLICATE_THRESHOLD) else {
            return verdict;
        };
        let mut reported = 0;
        for number in self.board.numbers() {
            let Some(sent) = self.board.get(number) else { break };
            if sent.sacked {
                reported += 1;
                if reported > below {
                    break;
                }
            } else if !sent.lost {
                self.mark_lost(now, number);
                verdict.lost += 1;
            }
        }
        verdict
    }

    /// `tcp_rack_reo_wnd`.
    fn reordering_window(&self) -> Duration {
        if !self.rack.reordering_seen
            && (self.ca_state >= CongestionState::Recovery
                || self.board.sacked_out >= DUPLICATE_THRESHOLD)
        {
            return Duration::ZERO;
        }
        let min_rtt = self.rtt.min_rtt().unwrap_or_default();
        let srtt = self.rtt.srtt().unwrap_or_default();
        (min_rtt / 4 * u64::from(self.rack.window_steps.max(1))).min(srtt)
    }

    /// A segment leaves the flight as lost, and the controller hears of it (`tcp_mark_skb_lost`).
    pub(in crate::subflow) fn mark_lost(&mut self, now: Instant, number: u64) {
        if !self.board.mark_lost(number) {
            return;
        }
        self.rate.lost += 1;
        let sent = self.board.get(number).expect("it has just been marked");
        let segment = LostSegment {
            now,
            start: sent.start,
            end: sent.end(),
            in_flight_at_send: sent.stamp.in_flight,
            lost_since_send: (self.rate.lost as u32).wrapping_sub(sent.stamp.lost),
            app_limited: sent.stamp.app_limited,
            delivered: self.rate.delivered,
            selective_acks: self.agreed.sack_permitted,
        };
        self.controller.on_lost(&segment, &self.window);
    }

    /// Returns the next lost segment within the peer's window.
    pub(in crate::subflow) fn next_admitted_loss(&mut self) -> Option<u64> {
        let number = self.board.next_lost()?;
        let sent = self.board.get(number)?;
        self.send.admits_again(sent.start).then_some(number)
    }

    /// Marks the segments that are lost (`tcp_identify_packet_loss`, `tcp_rack_mark_lost`).
    pub(crate) fn detect_losses(&mut self, now: Instant, una_advanced: bool) -> Verdict {
        if !self.agreed.sack_permitted {
            return self.detect_loss_of_oldest(now, una_advanced);
        }
        let detection = self.stack.tcp.loss_detection;
        if detection == LossDetection::Count {
            return self.count_reports(now);
        }
        let verdict = self.detect_by_time(now, detection);
        if detection == LossDetection::RackDraft && !self.rack.reordering_seen {
            return verdict.and(self.count_reports(now));
        }
        verdict
    }

    fn detect_by_time(&mut self, now: Instant, detection: LossDetection) -> Verdict {
        let mut verdict = Verdict::default();
        if !self.rack.advanced {
            return verdict;
        }
        self.rack.advanced = false;
        let window = match detection {
            LossDetection::RackDraft => self.draft_reordering_window(),
            _ => self.reordering_window(),
        };
        let mut wait = Duration::ZERO;
        let mut skipped = Vec::new();
        while let Some(number) = self.board.oldest_transmission() {
            let Some(sent) = self.board.get(number).filter(|sent| self.rack.sent_before(sent))
            else {
                break;
            };
            match self.rack.time_left(now, sent, window) {
                None => {
                    verdict.lost_retransmission |= sent.retransmitted;
                    self.mark_lost(now, number);
                    verdict.lost += 1;
                }
                Some(left) => {
                    wait = wait.max(left);
                    skipped.push(self.board.defer_oldest());
                }
            }
        }
        self.board.restore(skipped);
        let armed = !wait.is_zero();
        verdict.wait = Some(if armed { wait + self.stack.tcp.timeout_min } else { Duration::ZERO });
        verdict
    }

    /// `tcp_rack_reo_timeout`.
    pub(crate) fn on_reordering_timeout(&mut self, host: &HostModel, now: Instant) {
        let before = self.board.in_flight();
        self.rack.advanced = true;
        let verdict = self.detect_losses(now, false);
        if before != self.board.in_flight() {
            if self.ca_state != CongestionState::Recovery {
                self.enter_recovery(now, false);
                if !self.controller.owns_recovery() {
                    self.reduce(1, Verdict::default(), &AckFlags::default());
                }
            }
            self.send.intent.set_repairs(true);
        }
        if self.timer.pending() == Some(Pending::Reordering) {
            self.rearm_timeout(host, now);
        }
        self.timer.wait_for_late(host, now, verdict.wait, self.rtt.rto());
    }
}

#[cfg(test)]
mod tests {
    use super::super::flight::TxStamp;
    use super::*;
    use crate::subflow::fixture::{at, send, subflow};

    #[test]
    fn a_lost_segment_is_told_with_the_flight_it_was_sent_into_and_all_lost_since() {
        let (mut subflow, recorder) = subflow();
        for n in 0..5 {
            send(&mut subflow, at(n), 100);
        }
        subflow.mark_lost(at(50), 0);
        subflow.mark_lost(at(50), 0);
        subflow.mark_lost(at(50), 2);
        // What is sent from here on has lost nothing yet.
        let stamp = subflow.rate.stamp(at(60), subflow.board.in_flight(), false);
        subflow.board.retransmit(0, at(60), stamp);
        send(&mut subflow, at(61), 100);
        subflow.mark_lost(at(90), 0);
        let told: Vec<_> = recorder
            .0
            .lock()
            .expect("one thread")
            .lost
            .iter()
            .map(|lost| (lost.start, lost.end, lost.in_flight_at_send, lost.lost_since_send))
            .collect();
        assert_eq!(told, [(1, 101, 0, 1), (201, 301, 2, 2), (1, 101, 3, 1)]);

        // The sample of one sent before the first loss, and of one sent before the last.
        for (number, lost) in [(4, 3), (5, 1)] {
            let sent = subflow.board.get(number).cloned().expect("outstanding");
            subflow.rate.on_delivered(at(100), &sent);
            assert_eq!(subflow.rate.finish(at(100), None, 100).lost, lost);
        }
    }

    #[test]
    fn the_reordering_window_is_a_quarter_of_the_least_rtt_and_nothing_in_recovery() {
        // RFC 8985 section 6.2 step 4: zero while in recovery or after three duplicates, unless
        // reordering was seen; then min(steps min_RTT / 4, SRTT).
        let quarter = Duration::from_millis(25);
        let (mut subflow, _) = subflow();
        for n in 0..5 {
            send(&mut subflow, at(n), 100);
        }
        assert_eq!(subflow.reordering_window(), quarter);
        subflow.board.mark_sacked(1);
        subflow.board.mark_sacked(2);
        assert_eq!(subflow.reordering_window(), quarter, "two are no three");
        for state in [CongestionState::Recovery, CongestionState::Loss] {
            subflow.ca_state = state;
            assert_eq!(subflow.reordering_window(), Duration::ZERO);
        }
        subflow.ca_state = CongestionState::Cwr;
        assert_eq!(subflow.reordering_window(), quarter);
        subflow.board.mark_sacked(3);
        assert_eq!(subflow.reordering_window(), Duration::ZERO);
        subflow.rack.on_reordering();
        assert_eq!(subflow.reordering_window(), quarter);
        for steps in [2, 3, 4, 4, 4] {
            subflow.rack.on_dsack(7, 7);
            assert_eq!(subflow.reordering_window(), quarter * steps, "never more than the SRTT");
        }
    }

    #[test]
    fn a_widened_window_is_kept_for_sixteen_recoveries() {
        // `TCP_RACK_RECOVERY_THRESH`; tcp_rack_update_reo_wnd.
        let mut rack = Rack::default();
        rack.on_dsack(0, 0);
        assert_eq!(rack.window_steps, 0, "without reordering a duplicate says nothing");
        rack.on_reordering();
        rack.on_dsack(10, 5);
        // Delivered what was sent before the window was widened: the same round trip.
        rack.on_dsack(12, 9);
        assert_eq!((rack.window_steps, rack.last_widened), (2, 10));
        rack.on_dsack(20, 10);
        assert_eq!((rack.window_steps, rack.last_widened), (3, 20));
        rack.on_undo();
        assert_eq!(rack.kept, 16, "no more than that");
        for _ in 0..15 {
            rack.on_recovery_end();
            assert_eq!(rack.window_steps, 3);
        }
        rack.on_undo();
        rack.on_recovery_end();
        assert_eq!((rack.window_steps, rack.kept), (3, 1));
        rack.on_recovery_end();
        assert_eq!(rack.window_steps, 1);
        rack.window_steps = 254;
        for _ in 0..3 {
            rack.on_dsack(30, 30);
        }
        assert_eq!(rack.window_steps, 255);
    }

    #[test]
    fn an_acknowledgement_sooner_than_any_rtt_answers_the_original() {
        // RFC 8985 section 6.2 step 2; tcp_rack_advance.
        let (mut subflow, _) = subflow();
        send(&mut subflow, at(0), 100);
        send(&mut subflow, at(0), 100);
        subflow.board.retransmit(0, at(200), TxStamp::default());
        let again = subflow.board.get(0).cloned().expect("outstanding");
        let least = Some(Duration::from_millis(100));
        subflow.rack.on_delivered(at(299), &again, least);
        assert!(!subflow.rack.advanced);
        subflow.rack.on_delivered(at(300), &again, least);
        assert!(subflow.rack.advanced && subflow.rack.newest == 3);
        assert_eq!(subflow.rack.rtt, Duration::from_millis(100));
        // One sent before does not take the state back.
        let once = subflow.board.get(1).cloned().expect("outstanding");
        subflow.rack.on_delivered(at(10), &once, least);
        assert_eq!((subflow.rack.newest, subflow.rack.rtt), (3, Duration::from_millis(10)));
        assert!(subflow.rack.sent_before(&once) && !subflow.rack.sent_before(&again));
    }

    #[test]
    fn what_is_left_of_a_segments_time_counts_from_its_sending() {
        let (mut subflow, _) = subflow();
        send(&mut subflow, at(10), 100);
        let sent = subflow.board.get(0).cloned().expect("outstanding");
        subflow.rack.rtt = Duration::from_millis(100);
        let window = Duration::from_millis(25);
        let left = |ms: u64| subflow.rack.time_left(at(ms), &sent, window);
        assert_eq!(left(50), Some(Duration::from_millis(85)));
        assert_eq!(left(134), Some(Duration::from_millis(1)));
        assert_eq!((left(135), left(200)), (None, None));
    }

    #[test]
    fn the_drafts_window_is_a_quarter_of_the_least_rtt_until_something_is_lost() {
        // tcp_rack_detect_loss of 4.14: 1 ms; min_rtt / 4, at least 1 ms, where reordering was seen or
        // nothing is lost.
        let quarter = Duration::from_millis(25);
        let (mut subflow, _) = subflow();
        for n in 0..3 {
            send(&mut subflow, at(n), 100);
        }
        subflow.ca_state = CongestionState::Recovery;
        assert_eq!(subflow.draft_reordering_window(), quarter);
        subflow.board.mark_lost(0);
        assert_eq!(subflow.draft_reordering_window(), Duration::from_millis(1));
        subflow.rack.on_reordering();
        assert_eq!(subflow.draft_reordering_window(), quarter);
    }

    #[test]
    fn three_reports_above_a_segment_say_that_it_is_lost() {
        // RFC 6675 section 4, IsLost with DupThresh 3; tcp_mark_head_lost: of the segments 0 to 7 those
        // that were not reported and have three reported ones above.
        let lost = |reported: &[u64], sees: bool| {
            let (mut subflow, _) = subflow();
            subflow.stack.tcp.loss_detection = LossDetection::Count;
            for _ in 0..8 {
                send(&mut subflow, at(0), 100);
            }
            subflow.rack.reordering_seen = sees;
            for number in reported {
                subflow.board.mark_sacked(*number);
            }
            subflow.detect_losses(at(1), false);
            (0..8).filter(|n| subflow.board.get(*n).is_some_and(|s| s.lost)).collect::<Vec<_>>()
        };
        assert_eq!(lost(&[1, 2], false), []);
        assert_eq!(lost(&[1, 2, 3], false), [0]);
        assert_eq!(lost(&[1, 3, 4], false), [0]);
        assert_eq!(lost(&[1, 3, 4, 5], false), [0, 2]);
        assert_eq!(lost(&[3, 5, 6, 7], false), [0, 1, 2, 4]);
        assert_eq!(lost(&[1, 2, 3], true), [0], "the count alone has nothing else");
    }
}
