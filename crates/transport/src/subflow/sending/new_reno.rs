//! Losses where the peer has no SACK (RFC 5681 section 3.2, RFC 6582; Linux's "Reno" half of
//! `tcp_fastretrans_alert`): a duplicate acknowledgement says that one segment, nobody knows which,
//! has come; three of them that the oldest is lost, and in recovery so does an acknowledgement of a
//! part.

use anabranch_units::Instant;

use super::flight::Scoreboard;
use super::losses::{DUPLICATE_THRESHOLD, Verdict};
use super::recovery::AckFlags;
use crate::subflow::Subflow;
use anabranch_congestion::CongestionState;

impl Scoreboard {
    /// Returns the largest number of outstanding segments that can have arrived: all except those marked lost, and never
    /// the oldest (`tcp_limit_reno_sacked`).
    fn most_duplicates(&self) -> u32 {
        self.packets_out().saturating_sub(self.lost_out.max(1))
    }

    /// Sets the count of duplicates to zero (`tcp_reset_reno_sack`). With `sack` the count is of marks, and stays.
    pub(in crate::subflow) fn forget_duplicates(&mut self, sack: bool) {
        if !sack {
            self.sacked_out = 0;
        }
    }
}

impl Subflow {
    /// A duplicate acknowledgement counts as a segment delivered (`tcp_add_reno_sack`).
    pub(in crate::subflow) fn count_duplicate(&mut self, flags: &AckFlags) {
        if self.agreed.sack_permitted || !flags.duplicate {
            return;
        }
        if self.board.sacked_out < self.board.most_duplicates() {
            self.board.sacked_out += 1;
            self.rate.delivered += 1;
        }
    }

    /// `acked` segments were acknowledged: the first was a hole, the others are those that duplicate
    /// acknowledgements stood for (`tcp_remove_reno_sacks`).
    #[inline(always)]
    pub(in crate::subflow) fn settle_duplicates(&mut self, acked: u32, flags: &mut AckFlags) {
        if self.agreed.sack_permitted || acked == 0 {
            return;
        }
        let counted = self.board.sacked_out.min(acked - 1);
        self.board.sacked_out -= counted;
        self.rate.delivered -= u64::from(counted);
        self.board.sacked_out = self.board.sacked_out.min(self.board.most_duplicates());
        // Nobody can tell whether the original or its retransmission was the one.
        flags.original_acked &= !flags.retransmission_acked;
    }

    /// Returns how many segments count as delivered because of duplicate acknowledgements; 0 with SACK.
    pub(crate) fn counted_duplicates(&self) -> u32 {
        if self.agreed.sack_permitted { 0 } else { self.board.sacked_out }
    }

    /// `tcp_newreno_mark_lost`.
    pub(in crate::subflow) fn detect_loss_of_oldest(
        &mut self,
        now: Instant,
        una_advanced: bool,
    ) -> Verdict {
        let lost = match self.ca_state {
            CongestionState::Recovery => una_advanced,
            CongestionState::Loss => false,
            _ => self.board.sacked_out >= DUPLICATE_THRESHOLD,
        };
        let oldest = self.board.numbers().start;
        if !lost || self.board.front().is_none_or(|sent| sent.lost) {
            return Verdict::default();
        }
        // The count must leave room for it, beside what is lost already.
        let most = self.board.packets_out() - self.board.lost_out - 1;
        self.board.sacked_out = self.board.sacked_out.min(most);
        self.mark_lost(now, oldest);
        Verdict { lost: 1, ..Verdict::default() }
    }

    /// Everything up to the end of the recovery is acknowledged, and nothing beyond: duplicates of
    /// what was sent before may still come and must not begin another one
    /// (`tcp_is_non_sack_preventing_reopen`).
    pub(in crate::subflow) fn must_hold_recovery(&self) -> bool {
        !self.agreed.sack_permitted && self.send.una() == self.recovery.high_seq
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subflow::fixture::{at, send, subflow};

    /// Five segments out to a peer without SACK.
    fn five() -> Subflow {
        let (mut subflow, _) = subflow();
        subflow.agreed.sack_permitted = false;
        for _ in 0..5 {
            send(&mut subflow, at(0), 1000);
        }
        subflow
    }

    const DUPLICATE: AckFlags = AckFlags {
        duplicate: true,
        una_advanced: false,
        data_sacked: false,
        original_acked: false,
        retransmission_acked: false,
        dsack: false,
        probe_duplicated: false,
        set_timer: false,
        not_duplicate: false,
        echo: false,
    };

    #[test]
    fn a_duplicate_stands_for_a_segment_and_never_for_those_that_are_missing() {
        // tcp_limit_reno_sacked: `sacked_out + max(lost_out, 1) <= packets_out`.
        let mut subflow = five();
        for counted in [1, 2, 3, 4, 4, 4] {
            subflow.count_duplicate(&DUPLICATE);
            assert_eq!(
                (subflow.board.sacked_out, subflow.rate.delivered),
                (counted, 1 + u64::from(counted))
            );
        }
        let mut subflow = five();
        subflow.board.mark_lost(0);
        subflow.board.mark_lost(1);
        for counted in [1, 2, 3, 3] {
            subflow.count_duplicate(&DUPLICATE);
            assert_eq!(subflow.board.sacked_out, counted);
        }
        let mut subflow = five();
        subflow.count_duplicate(&AckFlags::default());
        subflow.agreed.sack_permitted = true;
        subflow.count_duplicate(&DUPLICATE);
        assert_eq!(subflow.board.sacked_out, 0);
    }

    #[test]
    fn what_is_acknowledged_settles_all_duplicates_but_the_hole() {
        // tcp_remove_reno_sacks: "One ACK acked hole. The rest eat duplicate ACKs."
        let settled = |counted: u32, acked: u32| {
            let mut subflow = five();
            for _ in 0..counted {
                subflow.count_duplicate(&DUPLICATE);
            }
            for _ in 0..acked {
                subflow.board.drop_front();
            }
            subflow.settle_duplicates(acked, &mut AckFlags::default());
            // One of the delivered is the handshake's.
            (subflow.board.sacked_out, subflow.rate.delivered - 1)
        };
        assert_eq!(settled(3, 0), (3, 3));
        assert_eq!(settled(3, 1), (3, 3));
        assert_eq!(settled(3, 3), (1, 1));
        assert_eq!(settled(3, 4), (0, 0));
        assert_eq!(settled(1, 3), (0, 0));
        // tcp_limit_reno_sacked: of the three outstanding segments, the oldest has not arrived.
        assert_eq!(settled(4, 2), (2, 3));
    }

    #[test]
    fn an_original_is_not_told_from_its_retransmission() {
        for (again, original) in [(false, true), (true, false)] {
            let mut subflow = five();
            let mut flags =
                AckFlags { original_acked: true, retransmission_acked: again, ..DUPLICATE };
            subflow.board.drop_front();
            subflow.settle_duplicates(1, &mut flags);
            assert_eq!(flags.original_acked, original);
        }
        let mut with_sack = five();
        with_sack.agreed.sack_permitted = true;
        let mut flags = AckFlags { original_acked: true, retransmission_acked: true, ..DUPLICATE };
        with_sack.settle_duplicates(1, &mut flags);
        assert!(flags.original_acked);
    }

    #[test]
    fn three_duplicates_or_a_partial_acknowledgement_in_recovery_lose_the_oldest() {
        // tcp_newreno_mark_lost.
        let lost = |state: CongestionState, counted: u32, advanced: bool| {
            let mut subflow = five();
            subflow.ca_state = state;
            for _ in 0..counted {
                subflow.count_duplicate(&DUPLICATE);
            }
            let verdict = subflow.detect_losses(at(50), advanced);
            assert_eq!(verdict.lost, subflow.board.lost_out);
            subflow.board.lost_out
        };
        assert_eq!(lost(CongestionState::Disorder, 2, true), 0);
        assert_eq!(lost(CongestionState::Disorder, 3, false), 1);
        assert_eq!(lost(CongestionState::Recovery, 4, false), 0);
        assert_eq!(lost(CongestionState::Recovery, 0, true), 1);
        assert_eq!(lost(CongestionState::Loss, 4, true), 0);
        // Once; and of one segment no duplicate can tell.
        let mut subflow = five();
        subflow.ca_state = CongestionState::Recovery;
        let both = [0, 1].map(|_| subflow.detect_losses(at(50), true).lost);
        assert_eq!((subflow.board.lost_out, both), (1, [1, 0]));
        let mut subflow = five();
        subflow.ca_state = CongestionState::Recovery;
        subflow.board.sacked_out = 5;
        subflow.detect_losses(at(50), true);
        assert_eq!((subflow.board.sacked_out, subflow.board.lost_out), (4, 1));
        // Nor for what was lost before: sacked_out + lost_out <= packets_out.
        let mut subflow = five();
        subflow.ca_state = CongestionState::Recovery;
        subflow.board.mark_lost(3);
        subflow.board.sacked_out = 4;
        subflow.detect_losses(at(50), true);
        assert_eq!((subflow.board.sacked_out, subflow.board.lost_out), (3, 2));
    }

    #[test]
    fn recovery_is_held_at_its_end_where_duplicates_may_still_come() {
        let mut subflow = five();
        subflow.recovery.high_seq = 5001;
        assert!(!subflow.must_hold_recovery());
        subflow.send.set_una(5001);
        assert!(subflow.must_hold_recovery());
        subflow.agreed.sack_permitted = true;
        assert!(!subflow.must_hold_recovery());
        subflow.board.sacked_out = 3;
        subflow.board.forget_duplicates(subflow.agreed.sack_permitted);
        assert_eq!(subflow.board.sacked_out, 3, "with SACK they are marks");
        subflow.agreed.sack_permitted = false;
        subflow.board.forget_duplicates(subflow.agreed.sack_permitted);
        assert_eq!(subflow.board.sacked_out, 0);
    }
}
