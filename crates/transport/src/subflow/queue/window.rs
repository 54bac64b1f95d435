//! The peer's window on a subflow: its right edge, its size and the largest one (`snd_wnd`, `max_window`).

use super::Sender;

/// The largest window that is not halved for a segment or a burst (`TCP_MSS_DEFAULT`), bytes.
const TINY_WINDOW: u64 = 536;

impl Sender {
    /// Moves the right edge of the peer's window ahead; true if it moved.
    pub(crate) fn extend_window(&mut self, ack: u64, window: u64) -> bool {
        let edge = ack + window;
        let moved = edge > self.window_end;
        if moved {
            self.window_end = edge;
        }
        moved
    }

    /// Takes the window of a segment at `position` of the peer's stream that acknowledges up to `ack`. A segment counts if
    /// it acknowledges more, or is newer, or opens or closes the window (`tcp_may_update_window`; RFC 9293 section
    /// 3.10.7.4). A duplicate takes nothing back. On plain TCP the right edge follows, and may go back. MPTCP's subflows
    /// share one edge, which stays. True if the edge moved. Call it before `una` moves.
    #[inline(always)]
    pub(in crate::subflow) fn hear_window(&mut self, position: u64, ack: u64, window: u64) -> bool {
        let newer = ack > self.una || position > self.window_told_at;
        let changes = window > self.window || window == 0;
        let counts = newer || (position == self.window_told_at && changes);
        if counts {
            self.window = window;
            self.window_told_at = position;
        }
        if self.multipath_mappings {
            return self.extend_window(ack, window);
        }
        if counts {
            self.window_end = ack + window;
        }
        counts
    }

    /// Data at a position may be retransmitted: what lies beyond a window that was taken back waits, except the oldest
    /// byte, which probes the window (`__tcp_retransmit_skb`; RFC 9293 section 3.8.6, SHLD-16).
    pub(in crate::subflow) fn admits_again(&self, position: u64) -> bool {
        position < self.window_end || position <= self.una
    }

    /// The peer's window as it is believed, bytes.
    pub(crate) fn window(&self) -> u64 {
        self.window
    }

    /// Data is queued that the connection's window reaches `window` bytes beyond the start of: so does the
    /// subflow's from now on (`mptcp_check_allowed_size`).
    pub(crate) fn share_window(&mut self, window: u64) {
        self.window = self.window.max(window);
    }

    /// The peer has told a larger window than any before.
    pub(in crate::subflow) fn note_largest_window(&mut self, window: u64) {
        self.window_max = window;
    }

    /// The largest share of the peer's window that one segment or burst of `size` bytes takes, and no less than `least`:
    /// half of the largest window ever told, or all of a tiny one (`tcp_bound_to_half_wnd`). A sender that waits for room
    /// for more may wait for ever (RFC 9293 section 3.8.6.2.1, condition 3).
    pub(in crate::subflow) fn bound_to_half_window(&self, size: u64, least: u64) -> u64 {
        match self.window_max {
            0 => size,
            tiny if tiny <= TINY_WINDOW => size.min(tiny.max(least)),
            window => size.min((window / 2).max(least)),
        }
    }

    /// Bytes the peer admitted in the handshake.
    pub(crate) fn initial_window(&self) -> u64 {
        self.window_end.saturating_sub(1)
    }

    /// The peer's window has no room for the next segment.
    pub(crate) fn shut_out(&self) -> bool {
        self.queued > 0 && self.next + self.queued.min(u64::from(self.mss)) > self.window_end
    }

    /// The peer's window as the end of the handshake has it, perhaps less than the SYN's (`TCP_SYN_RECV`).
    pub(crate) fn set_window(&mut self, window: u64) {
        self.window_end = self.una + window;
        self.window = window;
        self.window_max = window;
    }

    /// How far behind the next position an acknowledgement may lie that is still under way: a window,
    /// of what was acknowledged, behind the oldest outstanding (RFC 5961 section 5.2; `tcp_ack`).
    #[inline(always)]
    pub(in crate::subflow) fn oldest_answer(&self) -> u64 {
        self.next - self.una + self.window_max.min(self.una)
    }
}
