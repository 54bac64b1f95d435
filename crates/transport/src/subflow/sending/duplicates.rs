//! What the peer reports to have had twice (D-SACK, RFC 2883; `tcp_check_dsack`, `tcp_dsack_seen`).

use super::flight::Scoreboard;
use super::recovery::AckFlags;
use crate::subflow::Subflow;

impl Scoreboard {
    /// How many of the outstanding segments within `[left, right)` were sent more than once.
    fn sent_again(&self, left: u64, right: u64) -> u32 {
        let within = self.numbers().filter_map(|number| self.get(number));
        let within = within.filter(|sent| left <= sent.start && sent.end() <= right);
        within.filter(|sent| sent.ever_retransmitted()).count() as u32
    }
}

impl Subflow {
    /// The peer reports a duplicate, with what acknowledged up to `prior_una` before. What it reports beyond a window,
    /// or beyond what was sent again, tells nothing (`tcp_dsack_seen`).
    pub(in crate::subflow) fn hear_duplicate(
        &mut self,
        left: u64,
        right: u64,
        prior_una: u64,
        flags: &mut AckFlags,
    ) {
        let segments = (right - left).div_ceil(u64::from(self.mss)) as u32;
        if self.stack.tcp.delivers_duplicates {
            if right - left > self.send.window_max {
                return;
            }
            flags.probe_duplicated |= segments == 1 && self.recovery.probe_high == Some(right);
            self.recovery.duplicates = self.recovery.duplicates.saturating_add(segments);
            if u64::from(self.recovery.duplicates) > self.totals.retransmissions {
                return;
            }
            self.rate.delivered += u64::from(segments);
        }
        flags.dsack = true;
        // What was outstanding tells itself whether it was sent again (`tcp_sacktag_one`).
        let before = right <= prior_una;
        let again = if before { segments } else { self.board.sent_again(left, right) };
        self.recovery.on_dsack(right, again);
    }
}
