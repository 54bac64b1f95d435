//! Duplicate acknowledgements of a peer without SACK (RFC 5681 section 3.2; Linux's "Reno" functions in
//! `tcp_input.c`). Each one counts as one delivered segment, but does not identify it.

use super::Flight;
use crate::sending::recovery::AckFlags;

/// Returns the largest number of outstanding segments that may have arrived: all except those marked lost and
/// the oldest one (`tcp_limit_reno_sacked`).
fn most_duplicates(flight: &Flight) -> u32 {
    flight.packets_out().saturating_sub(flight.lost_out.max(1))
}

impl Flight {
    /// Resets the count of duplicates (`tcp_reset_reno_sack`). With SACK, the count is that of SACKed
    /// segments and is kept.
    pub(crate) fn clear_duplicates(&mut self) {
        if !self.selective {
            self.sacked_out = 0;
        }
    }

    /// Counts a duplicate acknowledgement as a delivered segment (`tcp_add_reno_sack`).
    pub(in crate::sending) fn count_duplicate(&mut self, flags: &AckFlags) {
        let counts = !self.selective && flags.duplicate;
        if counts && self.sacked_out < most_duplicates(self) {
            self.sacked_out += 1;
            self.rate.add_delivered(1);
        }
    }

    /// Removes `acked` segments from the count. The first one was a hole, and the others were counted as
    /// duplicates (`tcp_remove_reno_sacks`).
    #[inline]
    pub(in crate::sending) fn remove_duplicates(&mut self, acked: u32, flags: &mut AckFlags) {
        if self.selective || acked == 0 {
            return;
        }
        let counted = self.sacked_out.min(acked - 1);
        self.sacked_out -= counted;
        self.rate.add_delivered(-i64::from(counted));
        self.sacked_out = self.sacked_out.min(most_duplicates(self));
        // It is not known whether the original or its retransmission arrived.
        flags.original_acked &= !flags.retransmission_acked;
    }

    /// Reduces the count so that the oldest segment can be marked lost.
    pub(in crate::sending) fn limit_duplicates(&mut self) {
        self.sacked_out = self.sacked_out.min(self.packets_out() - self.lost_out - 1);
    }

    /// Returns the number of segments counted as delivered because of duplicate acknowledgements. 0 with
    /// SACK.
    pub fn counted_duplicates(&self) -> u32 {
        if self.selective { 0 } else { self.sacked_out }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tcp;
    use crate::fixture::{at, send, subflow};
    use anabranch_congestion::CongestionState;

    /// A connection with five outstanding segments and a peer without SACK.
    fn five() -> Tcp {
        let (mut subflow, _) = subflow();
        subflow.sending.flight.set_selective(false);
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
            subflow.sending.flight.count_duplicate(&DUPLICATE);
            assert_eq!(
                (subflow.sending.flight.sacked_out, subflow.sending.flight.rate().delivered()),
                (counted, 1 + u64::from(counted))
            );
        }
        let mut subflow = five();
        subflow.sending.flight.mark_lost(0);
        subflow.sending.flight.mark_lost(1);
        for counted in [1, 2, 3, 3] {
            subflow.sending.flight.count_duplicate(&DUPLICATE);
            assert_eq!(subflow.sending.flight.sacked_out, counted);
        }
        let mut subflow = five();
        subflow.sending.flight.count_duplicate(&AckFlags::default());
        subflow.sending.flight.set_selective(true);
        subflow.sending.flight.count_duplicate(&DUPLICATE);
        assert_eq!(subflow.sending.flight.sacked_out, 0);
    }

    #[test]
    fn cumulative_ack_subtracts_duplicates_except_for_the_hole() {
        // tcp_remove_reno_sacks: "One ACK acked hole. The rest eat duplicate ACKs."
        let settled = |counted: u32, acked: u32| {
            let mut subflow = five();
            for _ in 0..counted {
                subflow.sending.flight.count_duplicate(&DUPLICATE);
            }
            for _ in 0..acked {
                subflow.sending.flight.remove_front();
            }
            subflow.sending.flight.remove_duplicates(acked, &mut AckFlags::default());
            // One delivered segment is that of the handshake.
            (subflow.sending.flight.sacked_out, subflow.sending.flight.rate().delivered() - 1)
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
    fn ack_of_a_retransmission_without_sack_is_not_an_original() {
        for (again, original) in [(false, true), (true, false)] {
            let mut subflow = five();
            let mut flags =
                AckFlags { original_acked: true, retransmission_acked: again, ..DUPLICATE };
            subflow.sending.flight.remove_front();
            subflow.sending.flight.remove_duplicates(1, &mut flags);
            assert_eq!(flags.original_acked, original);
        }
        let mut with_sack = five();
        with_sack.sending.flight.set_selective(true);
        let mut flags = AckFlags { original_acked: true, retransmission_acked: true, ..DUPLICATE };
        with_sack.sending.flight.remove_duplicates(1, &mut flags);
        assert!(flags.original_acked);
    }

    #[test]
    fn three_duplicates_or_a_partial_acknowledgement_in_recovery_lose_the_oldest() {
        // tcp_newreno_mark_lost.
        let lost = |state: CongestionState, counted: u32, advanced: bool| {
            let mut subflow = five();
            subflow.sending.cwnd.force_state(state);
            for _ in 0..counted {
                subflow.sending.flight.count_duplicate(&DUPLICATE);
            }
            let verdict = subflow.sending.detect(at(50), advanced);
            assert_eq!(verdict.lost, subflow.sending.flight.lost_out);
            subflow.sending.flight.lost_out
        };
        assert_eq!(lost(CongestionState::Disorder, 2, true), 0);
        assert_eq!(lost(CongestionState::Disorder, 3, false), 1);
        assert_eq!(lost(CongestionState::Recovery, 4, false), 0);
        assert_eq!(lost(CongestionState::Recovery, 0, true), 1);
        assert_eq!(lost(CongestionState::Loss, 4, true), 0);
        // The oldest segment is marked only once. One segment alone causes no duplicates.
        let mut subflow = five();
        subflow.sending.cwnd.force_state(CongestionState::Recovery);
        let both = [0, 1].map(|_| subflow.sending.detect(at(50), true).lost);
        assert_eq!((subflow.sending.flight.lost_out, both), (1, [1, 0]));
        let mut subflow = five();
        subflow.sending.cwnd.force_state(CongestionState::Recovery);
        subflow.sending.flight.sacked_out = 5;
        subflow.sending.detect(at(50), true);
        assert_eq!((subflow.sending.flight.sacked_out, subflow.sending.flight.lost_out), (4, 1));
        // This also applies to segments lost earlier: sacked_out + lost_out <= packets_out.
        let mut subflow = five();
        subflow.sending.cwnd.force_state(CongestionState::Recovery);
        subflow.sending.flight.mark_lost(3);
        subflow.sending.flight.sacked_out = 4;
        subflow.sending.detect(at(50), true);
        assert_eq!((subflow.sending.flight.sacked_out, subflow.sending.flight.lost_out), (3, 2));
    }

    #[test]
    fn recovery_is_held_at_its_end_where_duplicates_may_still_come() {
        let mut subflow = five();
        subflow.sending.recovery.set_high_seq(5001);
        assert!(!subflow.sending.must_hold_recovery());
        subflow.sending.queue.set_una(5001);
        assert!(subflow.sending.must_hold_recovery());
        subflow.sending.flight.set_selective(true);
        assert!(!subflow.sending.must_hold_recovery());
        subflow.sending.flight.sacked_out = 3;
        subflow.sending.flight.clear_duplicates();
        assert_eq!(subflow.sending.flight.sacked_out, 3, "with SACK they are marks");
        subflow.sending.flight.set_selective(false);
        subflow.sending.flight.clear_duplicates();
        assert_eq!(subflow.sending.flight.sacked_out, 0);
    }
}
