//! Spurious retransmissions: duplicates reported by the peer, and the undo of window reductions (RFC 3522,
//! RFC 4015; `tcp_may_undo`).

use std::num::NonZeroU32;

use anabranch_congestion::Window;

use super::{AckFlags, Duplicate, Recovery};
use crate::sending::flight::Flight;
use crate::sending::losses::Losses;
use crate::sending::parts::Parts;

impl Recovery {
    /// Permits the undo of the reduction that begins now (`tcp_init_undo`).
    pub(super) fn set_undo(&mut self, una: u64, retrans_out: u32) {
        self.undo_marker = Some(una);
        self.undo_retrans = if retrans_out > 0 { retrans_out as i32 } else { -1 };
    }

    /// Clears the undo state, because no reduction is in progress.
    pub(super) fn clear_undo(&mut self) {
        self.prior_ssthresh = 0;
        self.undo_marker = None;
    }

    /// Prevents the undo of the current reduction, because it is required.
    pub(super) fn discard_undo(&mut self) {
        self.prior_ssthresh = 0;
    }

    /// Records a retransmission. `clock` is the timestamp clock.
    pub(in crate::sending) fn on_retransmit(&mut self, clock: u32) {
        self.undo_retrans = self.undo_retrans.max(0) + 1;
        if self.retrans_stamp.is_none() {
            self.retrans_stamp = NonZeroU32::new(clock);
        }
    }

    /// Handles a duplicate reported by the peer. A duplicate is ignored if it is longer than a window, or if
    /// there are more duplicates than retransmissions (`tcp_dsack_seen`).
    pub(in crate::sending) fn on_duplicate(
        &mut self,
        flight: &mut Flight,
        duplicate: &Duplicate,
        flags: &mut AckFlags,
    ) {
        let Duplicate { left, right, prior_una, mss, window_max, retransmissions } = *duplicate;
        let segments = (right - left).div_ceil(u64::from(mss)) as u32;
        if self.delivers_duplicates {
            if right - left > window_max {
                return;
            }
            flags.probe_duplicated |= segments == 1 && self.probe_high == Some(right);
            self.duplicates = self.duplicates.saturating_add(segments);
            if u64::from(self.duplicates) > retransmissions {
                return;
            }
            flight.rate_mut().add_delivered(segments.into());
        }
        flags.dsack = true;
        // For an outstanding segment, it is known whether it was retransmitted (`tcp_sacktag_one`).
        let before = right <= prior_una;
        let again = if before { segments } else { flight.retransmitted_within(left, right) };
        self.on_dsack(right, again);
    }

    /// Handles a reported duplicate of `segments` segments up to `right` (`tcp_check_dsack`).
    pub(super) fn on_dsack(&mut self, right: u64, segments: u32) {
        if self.undo_retrans > 0 && self.undo_marker.is_some_and(|marker| right > marker) {
            self.undo_retrans = (self.undo_retrans - segments as i32).max(0);
        }
    }

    /// Returns whether the reduction was spurious: all retransmissions were duplicates, or the
    /// acknowledgement was caused by a segment sent before the first retransmission (`tcp_may_undo`).
    pub(super) fn may_undo(&self, echo: Option<u32>) -> bool {
        self.all_duplicates() || self.original_answered(echo)
    }

    /// Returns whether all retransmissions of the reduction were duplicates.
    pub(super) fn all_duplicates(&self) -> bool {
        self.undo_marker.is_some() && self.undo_retrans == 0
    }

    /// Returns whether the acknowledgement was caused by a segment sent before the first retransmission
    /// (`tcp_packet_delayed`).
    pub(super) fn original_answered(&self, echo: Option<u32>) -> bool {
        let echoed = self.undo_marker.and(self.retrans_stamp).zip(echo);
        echoed.is_some_and(|(stamp, echo)| (echo.wrapping_sub(stamp.get()) as i32) < 0)
    }

    /// Undoes the reduction (`tcp_undo_cwnd_reduction`).
    pub(super) fn undo(&mut self, parts: &mut Parts<'_>, losses: &mut Losses, unmark_losses: bool) {
        if unmark_losses {
            parts.flight.clear_lost();
        }
        self.undo_marker = None;
        losses.reset_detection();
        self.counts.undos += 1;
        let (cwnd, ssthresh) = (self.prior_cwnd, self.prior_ssthresh);
        parts.cwnd.undo(parts.now, Window { cwnd, ssthresh });
    }
}
