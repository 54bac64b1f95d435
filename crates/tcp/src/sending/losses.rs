//! Loss detection by RACK (RFC 8985 section 6; Linux `tcp_recovery.c`). A segment is lost if a segment sent
//! later was delivered and a reordering window has passed. Older stacks count the SACKed segments above it,
//! together with RACK or instead of it (`LossDetection`).

use anabranch_units::{Duration, Instant};

use super::flight::{Delivered, Flight, Sent};
use super::parts::{Parts, lose};
use super::rtt::RttEstimator;
use crate::stack::{LossDetection, TcpStack};
use anabranch_congestion::CongestionState;

/// The initial value of `tp->reordering`. After this number of SACKed segments, a segment is lost without a
/// further wait.
pub(crate) const DUPLICATE_THRESHOLD: u32 = 3;
/// The number of recoveries for which a widened reordering window is kept (`TCP_RACK_RECOVERY_THRESH`).
const WINDOW_KEPT_RECOVERIES: u32 = 16;
/// The shortest reordering window of RACK's first draft.
const DRAFT_WINDOW_MIN: Duration = Duration::from_millis(1);

/// The result of loss detection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// The number of segments newly marked lost.
    pub(crate) lost: u32,
    /// Whether a retransmission is among them (`FLAG_LOST_RETRANS`).
    pub(crate) lost_retransmission: bool,
    /// The time after which late segments count as lost. Zero if there are none, `None` if RACK did not run.
    pub(crate) wait: Option<Duration>,
}

impl Verdict {
    /// Adds the result of a later detection for the same acknowledgement.
    pub(crate) fn and(self, later: Self) -> Self {
        Self {
            lost: self.lost + later.lost,
            lost_retransmission: self.lost_retransmission | later.lost_retransmission,
            wait: later.wait.or(self.wait),
        }
    }
}

/// The state of loss detection.
#[derive(Debug)]
pub(crate) struct Losses {
    /// The transmission index of the most recently sent segment that was delivered. The kernel compares send
    /// times and, within a microsecond, sequence numbers. The index gives the same order, and also
    /// distinguishes a retransmission from new data sent at the same time.
    newest: u64,
    /// The RTT of the segment that was last delivered.
    rtt: Duration,
    /// Whether `newest` and `rtt` were updated since the last detection.
    advanced: bool,
    /// Whether reordering was seen on this connection.
    reordering_seen: bool,
    window_steps: u32,
    kept: u32,
    last_widened: u64,
    detection: LossDetection,
}

impl Losses {
    /// Creates the state of a connection without delivered segments.
    pub(super) fn new(stack: &TcpStack) -> Self {
        Self {
            newest: 0,
            rtt: Duration::ZERO,
            advanced: false,
            reordering_seen: false,
            window_steps: 0,
            kept: 0,
            last_widened: 0,
            detection: stack.loss_detection,
        }
    }

    /// Handles the segments that an acknowledgement delivered (`tcp_rack_advance`).
    #[inline]
    pub(super) fn on_delivered(&mut self, delivered: &Delivered) {
        self.reordering_seen |= delivered.reordered;
        if let Some((rtt, newest)) = delivered.newest {
            self.advanced = true;
            self.rtt = rtt;
            self.newest = self.newest.max(newest);
        }
    }

    /// Makes the next detection examine all outstanding segments.
    pub(super) fn reset_detection(&mut self) {
        self.advanced = true;
    }

    /// Returns the remaining time until a segment counts as lost. `None` if it has passed
    /// (`tcp_rack_skb_timeout`).
    pub(crate) fn time_left(
        &self,
        now: Instant,
        sent: &Sent,
        window: Duration,
    ) -> Option<Duration> {
        let left = (self.rtt + window).saturating_sub(now.since(sent.sent_at));
        (!left.is_zero()).then_some(left)
    }

    /// Widens the reordering window after a DSACK, because a retransmission was sent too early. The window is
    /// widened once per round trip: a segment sent since the last widening must have been delivered
    /// (`tcp_rack_update_reo_wnd`). Reordering must also have been seen (`tcp_dsack_seen`).
    pub(crate) fn on_dsack(&mut self, delivered: u64, prior_delivered: u64) {
        if self.reordering_seen && prior_delivered >= self.last_widened {
            self.window_steps = (self.window_steps.max(1) + 1).min(255);
            self.kept = WINDOW_KEPT_RECOVERIES;
            self.last_widened = delivered;
        }
    }

    /// Handles the end of a recovery without a DSACK.
    pub(crate) fn on_recovery_end(&mut self) {
        self.kept = self.kept.saturating_sub(1);
        if self.kept == 0 {
            self.window_steps = 1;
        }
    }

    /// Handles a reduction that DSACKs have undone. The widened window was useful and is kept longer
    /// (`tcp_try_undo_dsack`).
    pub(crate) fn on_undo(&mut self) {
        self.kept = (self.kept + 1).min(WINDOW_KEPT_RECOVERIES);
    }

    fn sent_before(&self, sent: &Sent) -> bool {
        self.newest > sent.serial
    }

    /// Returns the reordering window of the draft (`tcp_rack_detect_loss` of 4.14). The window is a quarter
    /// of the minimum RTT if reordering was seen or nothing is lost, and otherwise [`DRAFT_WINDOW_MIN`].
    fn draft_reordering_window(&self, flight: &Flight, rtt: &RttEstimator) -> Duration {
        let settles = self.reordering_seen || flight.lost_out() == 0;
        let quarter = rtt.min_rtt().filter(|_| settles).map_or(Duration::ZERO, |min| min / 4);
        quarter.max(DRAFT_WINDOW_MIN)
    }

    /// Returns the reordering window (`tcp_rack_reo_wnd`).
    fn reordering_window(&self, parts: &Parts<'_>) -> Duration {
        let recovers = parts.cwnd.state() >= CongestionState::Recovery;
        let counted = parts.flight.sacked_out() >= DUPLICATE_THRESHOLD;
        if !self.reordering_seen && (recovers || counted) {
            return Duration::ZERO;
        }
        let min_rtt = parts.rtt.min_rtt().unwrap_or_default();
        let srtt = parts.rtt.srtt().unwrap_or_default();
        (min_rtt / 4 * u64::from(self.window_steps.max(1))).min(srtt)
    }

    /// Marks segments that are lost (`tcp_identify_packet_loss`, `tcp_rack_mark_lost`).
    pub(super) fn detect(&mut self, parts: &mut Parts<'_>, una_advanced: bool) -> Verdict {
        if !parts.flight.is_selective() {
            return detect_oldest(parts, una_advanced);
        }
        if self.detection == LossDetection::Count {
            return count_reports(parts);
        }
        let verdict = self.detect_by_time(parts);
        if self.detection == LossDetection::RackDraft && !self.reordering_seen {
            return verdict.and(count_reports(parts));
        }
        verdict
    }

    fn detect_by_time(&mut self, parts: &mut Parts<'_>) -> Verdict {
        let mut verdict = Verdict::default();
        if !std::mem::take(&mut self.advanced) {
            return verdict;
        }
        let window = match self.detection {
            LossDetection::RackDraft => self.draft_reordering_window(parts.flight, parts.rtt),
            _ => self.reordering_window(parts),
        };
        let now = parts.now;
        let mut wait = Duration::ZERO;
        let mut skipped = Vec::new();
        while let Some(number) = parts.flight.find_oldest_transmission() {
            let Some(sent) = parts.flight.get(number).filter(|sent| self.sent_before(sent)) else {
                break;
            };
            match self.time_left(now, sent, window) {
                None => {
                    verdict.lost_retransmission |= sent.retransmitted;
                    lose(parts, number);
                    verdict.lost += 1;
                }
                Some(left) => {
                    wait = wait.max(left);
                    skipped.push(parts.flight.take_oldest());
                }
            }
        }
        parts.flight.insert_deferred(skipped);
        verdict.wait = Some(wait);
        verdict
    }

    /// Marks segments as lost after a retransmission timeout (`tcp_timeout_mark_lost`): the oldest one, and
    /// all that are older than RACK's RTT. Older stacks mark all segments (`tcp_enter_loss` of 4.14), as does
    /// `reneged`.
    pub(super) fn expire(&self, parts: &mut Parts<'_>, reneged: bool) {
        let all = reneged || self.detection != LossDetection::Rack;
        let numbers = parts.flight.numbers();
        let head = numbers.start;
        for number in numbers {
            let sent = parts.flight.get(number);
            let young =
                sent.is_some_and(|sent| self.time_left(parts.now, sent, Duration::ZERO).is_some());
            if number == head || all || !young {
                lose(parts, number);
            }
        }
    }
}

/// Marks segments as lost if at least three SACKed ones are above them (`tcp_update_scoreboard`,
/// `tcp_mark_head_lost`). After reordering, the kernel requires more, up to 300. Here the count is then no
/// longer used, and RACK decides.
fn count_reports(parts: &mut Parts<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    let Some(below) = parts.flight.sacked_out().checked_sub(DUPLICATE_THRESHOLD) else {
        return verdict;
    };
    let mut reported = 0;
    for number in parts.flight.numbers() {
        let Some(sent) = parts.flight.get(number) else { break };
        if sent.sacked {
            reported += 1;
            if reported > below {
                break;
            }
        } else if !sent.lost {
            lose(parts, number);
            verdict.lost += 1;
        }
    }
    verdict
}

/// Marks the oldest segment as lost without SACK: after three duplicates, or after a partial acknowledgement
/// in recovery (RFC 6582; `tcp_newreno_mark_lost`).
fn detect_oldest(parts: &mut Parts<'_>, una_advanced: bool) -> Verdict {
    let lost = match parts.cwnd.state() {
        CongestionState::Recovery => una_advanced,
        CongestionState::Loss => false,
        _ => parts.flight.sacked_out() >= DUPLICATE_THRESHOLD,
    };
    if !lost || parts.flight.front().is_none_or(|sent| sent.lost) {
        return Verdict::default();
    }
    parts.flight.limit_duplicates();
    let oldest = parts.flight.numbers().start;
    lose(parts, oldest);
    Verdict { lost: 1, ..Verdict::default() }
}

#[cfg(test)]
mod fixture;

#[cfg(test)]
mod tests {
    use super::super::flight::TxStamp;
    use super::*;
    use crate::Tcp;
    use crate::fixture::{at, send, subflow};

    fn window(subflow: &mut Tcp) -> Duration {
        let (_, losses, parts) = subflow.sending.split(at(50));
        losses.reordering_window(&parts)
    }

    fn draft_window(subflow: &Tcp) -> Duration {
        let sending = &subflow.sending;
        sending.losses.draft_reordering_window(&sending.flight, sending.rtt())
    }

    #[test]
    fn loss_report_has_flight_at_send_and_losses_since_send() {
        let (mut subflow, recorder) = subflow();
        for n in 0..5 {
            send(&mut subflow, at(n), 100);
        }
        subflow.sending.lose(at(50), 0);
        subflow.sending.lose(at(50), 0);
        subflow.sending.lose(at(50), 2);
        // No segment was lost since the next ones were sent.
        let stamp = subflow.sending.stamp(at(60));
        subflow.sending.flight.retransmit(0, at(60), stamp);
        send(&mut subflow, at(61), 100);
        subflow.sending.lose(at(90), 0);
        let told: Vec<_> = recorder
            .0
            .lock()
            .expect("one thread")
            .lost
            .iter()
            .map(|lost| (lost.start, lost.end, lost.in_flight_at_send, lost.lost_since_send))
            .collect();
        assert_eq!(told, [(1, 101, 0, 1), (201, 301, 2, 2), (1, 101, 3, 1)]);

        // The samples of a segment sent before the first loss, and of one sent before the last.
        for (number, lost) in [(4, 3), (5, 1)] {
            let sent = subflow.sending.flight.get(number).cloned().expect("outstanding");
            subflow.sending.flight.rate_mut().on_delivered(at(100), &sent);
            assert_eq!(subflow.sending.flight.rate_mut().complete(at(100), None, 100).lost, lost);
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
        assert_eq!(window(&mut subflow), quarter);
        subflow.sending.flight.mark_sacked(1);
        subflow.sending.flight.mark_sacked(2);
        assert_eq!(window(&mut subflow), quarter, "two are no three");
        for state in [CongestionState::Recovery, CongestionState::Loss] {
            subflow.sending.cwnd.force_state(state);
            assert_eq!(window(&mut subflow), Duration::ZERO);
        }
        subflow.sending.cwnd.force_state(CongestionState::Cwr);
        assert_eq!(window(&mut subflow), quarter);
        subflow.sending.flight.mark_sacked(3);
        assert_eq!(window(&mut subflow), Duration::ZERO);
        subflow.sending.losses.reordering_seen = true;
        assert_eq!(window(&mut subflow), quarter);
        for steps in [2, 3, 4, 4, 4] {
            subflow.sending.losses.on_dsack(7, 7);
            assert_eq!(window(&mut subflow), quarter * steps, "never more than the SRTT");
        }
    }

    #[test]
    fn a_widened_window_is_kept_for_sixteen_recoveries() {
        // `TCP_RACK_RECOVERY_THRESH`; tcp_rack_update_reo_wnd.
        let mut rack = Losses::new(&crate::stack::TcpStack::LINUX_6_18);
        rack.on_dsack(0, 0);
        assert_eq!(rack.window_steps, 0, "without reordering a duplicate says nothing");
        rack.reordering_seen = true;
        rack.on_dsack(10, 5);
        // The delivered data was sent before the window was widened, so this is the same round trip.
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
        subflow.sending.flight.retransmit(0, at(200), TxStamp::default());
        let again = subflow.sending.flight.get(0).cloned().expect("outstanding");
        let least = Some(Duration::from_millis(100));
        subflow.sending.losses.on_delivered(&Delivered::of(at(299), &again, least));
        assert!(!subflow.sending.losses.advanced);
        subflow.sending.losses.on_delivered(&Delivered::of(at(300), &again, least));
        assert!(subflow.sending.losses.advanced && subflow.sending.losses.newest == 3);
        assert_eq!(subflow.sending.losses.rtt, Duration::from_millis(100));
        // A segment that was sent earlier does not change `newest`.
        let once = subflow.sending.flight.get(1).cloned().expect("outstanding");
        subflow.sending.losses.on_delivered(&Delivered::of(at(10), &once, least));
        assert_eq!(
            (subflow.sending.losses.newest, subflow.sending.losses.rtt),
            (3, Duration::from_millis(10))
        );
        assert!(
            subflow.sending.losses.sent_before(&once)
                && !subflow.sending.losses.sent_before(&again)
        );
    }

    #[test]
    fn rack_time_left_counts_from_the_transmission_time() {
        let (mut subflow, _) = subflow();
        send(&mut subflow, at(10), 100);
        let sent = subflow.sending.flight.get(0).cloned().expect("outstanding");
        subflow.sending.losses.rtt = Duration::from_millis(100);
        let window = Duration::from_millis(25);
        let left = |ms: u64| subflow.sending.losses.time_left(at(ms), &sent, window);
        assert_eq!(left(50), Some(Duration::from_millis(85)));
        assert_eq!(left(134), Some(Duration::from_millis(1)));
        assert_eq!((left(135), left(200)), (None, None));
    }

    #[test]
    fn the_drafts_window_is_a_quarter_of_the_least_rtt_until_something_is_lost() {
        // tcp_rack_detect_loss of 4.14: 1 ms. If reordering was seen or nothing is lost: min_rtt / 4, at
        // least 1 ms.
        let quarter = Duration::from_millis(25);
        let (mut subflow, _) = subflow();
        for n in 0..3 {
            send(&mut subflow, at(n), 100);
        }
        subflow.sending.cwnd.force_state(CongestionState::Recovery);
        assert_eq!(draft_window(&subflow), quarter);
        subflow.sending.flight.mark_lost(0);
        assert_eq!(draft_window(&subflow), Duration::from_millis(1));
        subflow.sending.losses.reordering_seen = true;
        assert_eq!(draft_window(&subflow), quarter);
    }

    #[test]
    fn three_reports_above_a_segment_say_that_it_is_lost() {
        // RFC 6675 section 4, IsLost with DupThresh 3; tcp_mark_head_lost. Of segments 0 to 7, those that
        // were not SACKed and have three SACKed ones above them are lost.
        let lost = |reported: &[u64], sees: bool| {
            let (mut subflow, _) = subflow();
            subflow.sending.losses.detection = LossDetection::Count;
            for _ in 0..8 {
                send(&mut subflow, at(0), 100);
            }
            subflow.sending.losses.reordering_seen = sees;
            for number in reported {
                subflow.sending.flight.mark_sacked(*number);
            }
            subflow.sending.detect(at(1), false);
            (0..8)
                .filter(|n| subflow.sending.flight.get(*n).is_some_and(|s| s.lost))
                .collect::<Vec<_>>()
        };
        assert_eq!(lost(&[1, 2], false), []);
        assert_eq!(lost(&[1, 2, 3], false), [0]);
        assert_eq!(lost(&[1, 3, 4], false), [0]);
        assert_eq!(lost(&[1, 3, 4, 5], false), [0, 2]);
        assert_eq!(lost(&[3, 5, 6, 7], false), [0, 1, 2, 4]);
        assert_eq!(lost(&[1, 2, 3], true), [0], "the count alone has nothing else");
    }
}
