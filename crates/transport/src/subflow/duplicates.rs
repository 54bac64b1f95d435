//! What the peer reports to have had twice (D-SACK, RFC 2883; `tcp_check_dsack`, `tcp_dsack_seen`).

use super::Subflow;
use super::recovery::AckFlags;
use super::scoreboard::Scoreboard;

impl Scoreboard {
    /// How many of the outstanding segments within `[left, right)` were sent more than once.
    fn sent_again(&self, left: u64, right: u64) -> u32 {
        let within = self.numbers().filter_map(|number| self.get(number));
        let within = within.filter(|sent| left <= sent.start && sent.end() <= right);
        within.filter(|sent| sent.ever_retransmitted()).count() as u32
    }
}

impl Subflow {
    /// The peer reports a duplicate. What it reports beyond what was sent again tells nothing (`tcp_dsack_seen`).
    pub(super) fn hear_duplicate(&mut self, left: u64, right: u64, ack: u64, flags: &mut AckFlags) {
        let segments = (right - left).div_ceil(u64::from(self.mss)) as u32;
        if self.stack.delivers_duplicates {
            self.recovery.duplicates += segments;
            let dubious = right - left > self.send.window_max
                || u64::from(self.recovery.duplicates) > self.totals.retransmissions;
            if dubious {
                return;
            }
            self.rate.delivered += u64::from(segments);
        }
        let of_probe = segments == 1 && self.recovery.probe_high == Some(right);
        flags.probe_duplicated |= of_probe || !self.stack.delivers_duplicates;
        flags.dsack = true;
        // What is outstanding yet tells itself whether it was sent again (`tcp_sacktag_one`).
        let again = if right <= ack { segments } else { self.board.sent_again(left, right) };
        self.recovery.on_dsack(right, again);
    }
}
