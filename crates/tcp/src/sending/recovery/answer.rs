//! The reaction to an acknowledgement with duplicates, ECN marks or losses (`tcp_fastretrans_alert`).

use super::{AckFlags, Answer, Recovery, Repair};
use crate::sending::losses::Losses;
use crate::sending::parts::Parts;
use crate::stack::OutageRule;
use anabranch_congestion::CongestionState;

impl Recovery {
    /// Reacts to an acknowledgement that may affect a probe, duplicates, ECN marks or losses.
    pub(in crate::sending) fn answer(
        &mut self,
        parts: &mut Parts<'_>,
        losses: &mut Losses,
        flags: &AckFlags,
        echo: Option<u32>,
    ) -> Answer {
        if flags.dsack && !flags.probe_duplicated {
            let rate = parts.flight.rate();
            losses.on_dsack(rate.delivered(), rate.prior_delivered());
        }
        self.answer_probe(parts, flags);
        if flags.echo {
            self.discard_undo();
        }
        let good = flags.una_advanced && !flags.data_sacked && !flags.dsack && !flags.echo;
        let open = parts.cwnd.state() == CongestionState::Open;
        if good && open && parts.flight.sacked_out() == 0 {
            Answer::default()
        } else if flags.una_advanced && parts.flight.front().is_some_and(|head| head.sacked) {
            Answer { reneges: true, ..Answer::default() }
        } else {
            self.answer_ack(parts, losses, flags, echo)
        }
    }

    /// Handles an acknowledgement according to the congestion state (`tcp_fastretrans_alert`).
    fn answer_ack(
        &mut self,
        parts: &mut Parts<'_>,
        losses: &mut Losses,
        flags: &AckFlags,
        echo: Option<u32>,
    ) -> Answer {
        if parts.cwnd.state() != CongestionState::Open && parts.una >= self.high_seq {
            match parts.cwnd.state() {
                CongestionState::Cwr if parts.una != self.high_seq => {
                    self.end_reduction(parts);
                    self.set_state(parts, CongestionState::Open);
                }
                CongestionState::Recovery => {
                    parts.flight.clear_duplicates();
                    if !self.end_recovery(parts, losses, echo) {
                        return Answer::default();
                    }
                    self.end_reduction(parts);
                }
                _ => {}
            }
        }
        match parts.cwnd.state() {
            CongestionState::Recovery => self.answer_in_recovery(parts, losses, flags, echo),
            CongestionState::Loss => {
                let repair = self.answer_in_loss(parts, losses, flags, echo);
                let verdict = losses.detect(parts, flags.una_advanced);
                if parts.cwnd.state() != CongestionState::Open && !verdict.lost_retransmission {
                    return Answer { verdict, repair, reneges: false };
                }
                // The window was undone, or retransmissions were lost again.
                let later = self.answer_open(parts, losses, flags);
                Answer { verdict: verdict.and(later.verdict), ..later }
            }
            _ => self.answer_open(parts, losses, flags),
        }
    }

    pub(super) fn answer_in_recovery(
        &mut self,
        parts: &mut Parts<'_>,
        losses: &mut Losses,
        flags: &AckFlags,
        echo: Option<u32>,
    ) -> Answer {
        parts.flight.count_duplicate(flags);
        // A partial acknowledgement may show that the reduction was spurious (`tcp_try_undo_partial`).
        if flags.una_advanced && self.original_answered(echo) {
            if parts.flight.retrans_out() > 0 {
                return Repair::Lost.into();
            }
            self.retrans_stamp = None;
            self.undo(parts, losses, true);
            self.enter_open(parts);
        }
        // DSACKs may show this too, independent of the acknowledged data.
        if self.all_duplicates() {
            self.undo(parts, losses, false);
            losses.on_undo();
            self.answer_echo(parts, flags);
            self.enter_open(parts);
        }
        let verdict = losses.detect(parts, flags.una_advanced);
        if parts.cwnd.state() != CongestionState::Recovery {
            if parts.flight.lost_out() == 0 {
                self.enter_open(parts);
                return Answer { verdict, ..Answer::default() };
            }
            self.enter_recovery(parts, flags.echo);
        }
        Answer { verdict, repair: Repair::Lost, reneges: false }
    }

    /// Handles an acknowledgement in the Loss state, with F-RTO (`tcp_process_loss`; RFC 5682).
    pub(super) fn answer_in_loss(
        &mut self,
        parts: &mut Parts<'_>,
        losses: &mut Losses,
        flags: &AckFlags,
        echo: Option<u32>,
    ) -> Repair {
        let recovered = parts.una >= self.high_seq;
        if self.follows_outage(flags, parts.flight.is_selective(), parts.cwnd.state()) {
            self.frto = false;
        } else if flags.una_advanced && self.may_undo(echo) {
            self.undo_timeout(parts, losses);
            return Repair::None;
        }
        if self.frto {
            if flags.original_acked {
                self.undo_timeout(parts, losses);
                return Repair::None;
            }
            if parts.next > self.high_seq {
                if flags.data_sacked || (flags.duplicate && !parts.flight.is_selective()) {
                    self.frto = false;
                }
            } else if flags.una_advanced && !recovered {
                self.high_seq = parts.next;
                if parts.queued {
                    return Repair::New;
                }
                self.frto = false;
            }
        }
        if recovered {
            self.end_recovery(parts, losses, echo);
            return Repair::None;
        }
        if flags.una_advanced {
            parts.flight.clear_duplicates();
        } else if parts.next > self.high_seq {
            parts.flight.count_duplicate(flags);
        }
        Repair::Lost
    }

    /// Returns whether an acknowledgement counts as the first after an outage. Such an acknowledgement does
    /// not show whether the timeout was spurious. If it covers segments that were sent only once,
    /// acknowledgements were lost.
    pub(in crate::sending) fn follows_outage(
        &self,
        flags: &AckFlags,
        selective: bool,
        state: CongestionState,
    ) -> bool {
        match self.outage {
            OutageRule::Kernel => false,
            OutageRule::Dsack if selective => flags.dsack && state == CongestionState::Loss,
            _ => self.silent,
        }
    }

    /// Undoes a timeout that was spurious (`tcp_try_undo_loss`).
    fn undo_timeout(&mut self, parts: &mut Parts<'_>, losses: &mut Losses) {
        self.undo(parts, losses, true);
        self.consecutive_timeouts = 0;
        self.frto = false;
        self.reneged = false;
        self.set_state(parts, CongestionState::Open);
        self.enter_open(parts);
    }

    fn answer_open(
        &mut self,
        parts: &mut Parts<'_>,
        losses: &mut Losses,
        flags: &AckFlags,
    ) -> Answer {
        if flags.una_advanced {
            parts.flight.clear_duplicates();
        }
        parts.flight.count_duplicate(flags);
        if parts.cwnd.state() <= CongestionState::Disorder && self.all_duplicates() {
            self.undo(parts, losses, false);
            losses.on_undo();
        }
        let verdict = losses.detect(parts, flags.una_advanced);
        if parts.flight.lost_out() == 0 {
            self.answer_echo(parts, flags);
            self.enter_open(parts);
            return Answer { verdict, ..Answer::default() };
        }
        self.enter_recovery(parts, flags.echo);
        Answer { verdict, repair: Repair::Lost, reneges: false }
    }
}
