//! Losses where the peer has no SACK (RFC 5681 section 3.2, RFC 6582; Linux's "Reno" half of
//! `tcp_fastretrans_alert`): a duplicate acknowledgement says that one segment, nobody knows which,
//! has come; three of them that the oldest is lost, and in recovery so does an acknowledgement of a
//! part.

use anabranch_units::Instant;

use super::Subflow;
use super::loss::DUPLICATE_THRESHOLD;
use super::recovery::AckFlags;
use crate::congestion::CongestionState;

impl Subflow {
    /// A duplicate acknowledgement counts as a segment delivered (`tcp_add_reno_sack`).
    pub(super) fn count_duplicate(&mut self, flags: &AckFlags) {
        if self.sack_permitted || !flags.duplicate {
            return;
        }
        // The oldest is missing, and what is marked lost (`tcp_limit_reno_sacked`).
        let missing = self.board.lost_out.max(1);
        if self.board.sacked_out + missing < self.board.packets_out() {
            self.board.sacked_out += 1;
            self.rate.delivered += 1;
        }
    }

    /// `acked` segments were acknowledged: the first was a hole, the others are those that duplicate
    /// acknowledgements stood for (`tcp_remove_reno_sacks`).
    #[inline(always)]
    pub(super) fn settle_duplicates(&mut self, acked: u32, flags: &mut AckFlags) {
        if self.sack_permitted || acked == 0 {
            return;
        }
        let counted = self.board.sacked_out.min(acked - 1);
        self.board.sacked_out -= counted;
        self.rate.delivered -= u64::from(counted);
        let most = self.board.packets_out().saturating_sub(self.board.lost_out);
        self.board.sacked_out = self.board.sacked_out.min(most);
        // Nobody can tell whether the original or its retransmission was the one.
        flags.original_acked &= !flags.retransmission_acked;
    }

    /// What duplicates stood for is settled (`tcp_reset_reno_sack`).
    pub(super) fn forget_duplicates(&mut self) {
        if !self.sack_permitted {
            self.board.sacked_out = 0;
        }
    }

    /// `tcp_newreno_mark_lost`.
    pub(super) fn detect_loss_of_oldest(&mut self, now: Instant, flags: &AckFlags) {
        let lost = match self.ca_state {
            CongestionState::Recovery => flags.una_advanced,
            CongestionState::Loss => false,
            _ => self.board.sacked_out >= DUPLICATE_THRESHOLD,
        };
        let oldest = self.board.numbers().start;
        if lost && self.board.front().is_some_and(|sent| !sent.lost) {
            // The count must leave room for it.
            self.board.sacked_out = self.board.sacked_out.min(self.board.packets_out() - 1);
            self.mark_lost(now, oldest);
            self.send.newly_lost += 1;
        }
    }

    /// Everything up to the end of the recovery is acknowledged, and nothing beyond: duplicates of
    /// what was sent before may still come and must not begin another one
    /// (`tcp_is_non_sack_preventing_reopen`).
    pub(super) fn must_hold_recovery(&self) -> bool {
        !self.sack_permitted && self.send.una() == self.recovery.high_seq
    }
}
