//! The peer's window on a connection: its right edge, its size and its largest size (`snd_wnd`,
//! `max_window`).

use super::Queue;

/// The largest window that one segment or burst may fill completely, in bytes (`TCP_MSS_DEFAULT`). A segment
/// or burst may fill half of a larger window.
const TINY_WINDOW: u64 = 536;

/// The peer's window.
#[derive(Debug, Default)]
pub struct PeerWindow {
    /// The position of the right edge.
    end: u64,
    /// The current size, in bytes (`snd_wnd`).
    size: u64,
    /// The position of the peer's segment that advertised the window (`snd_wl1`).
    told_at: u64,
    /// The largest size so far, in bytes (`max_window`).
    most: u64,
}

impl PeerWindow {
    /// Advances the right edge of the peer's window. Returns whether the edge moved.
    pub(crate) fn advance(&mut self, ack: u64, window: u64) -> bool {
        let edge = ack + window;
        let moved = edge > self.end;
        if moved {
            self.end = edge;
        }
        moved
    }

    /// Returns the largest window of the peer so far, in bytes.
    #[inline]
    pub(crate) fn largest(&self) -> u64 {
        self.most
    }

    /// Returns the peer's current window, in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Raises this connection's window to `window` bytes: the part of the layer above's window from the start
    /// of the queued data on (`mptcp_check_allowed_size`).
    pub(crate) fn grow_to(&mut self, window: u64) {
        self.size = self.size.max(window);
    }

    /// Stores a new largest window of the peer.
    pub(crate) fn note_largest(&mut self, window: u64) {
        self.most = window;
    }

    /// Limits a segment or burst of `size` bytes to half of the peer's largest window, or to all of a tiny
    /// one (`tcp_bound_to_half_wnd`). The limit is at least `least` bytes. Otherwise a sender could wait
    /// forever for a larger window (RFC 9293 section 3.8.6.2.1, condition 3).
    pub(crate) fn bound_to_half(&self, size: u64, least: u64) -> u64 {
        match self.most {
            0 => size,
            tiny if tiny <= TINY_WINDOW => size.min(tiny.max(least)),
            window => size.min((window / 2).max(least)),
        }
    }

    /// Returns the window that the peer advertised in the handshake, in bytes.
    pub fn initial(&self) -> u64 {
        self.end.saturating_sub(1)
    }

    #[cfg(test)]
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    #[cfg(test)]
    pub(super) fn set_end(&mut self, end: u64) {
        self.end = end;
    }
}

impl Queue {
    /// Updates the window from a segment at `position` of the peer's stream that acknowledges up to `ack`.
    /// The segment is used if it acknowledges new data, is newer, or opens or closes the window
    /// (`tcp_may_update_window`; RFC 9293 section 3.10.7.4). A duplicate never shrinks the window. Without
    /// tags, the right edge may move back. Connections with tags share one edge, which never moves back.
    /// Returns whether the window or its edge was updated. Must be called before `una` is updated.
    #[inline]
    pub(crate) fn update_send_window(&mut self, position: u64, ack: u64, window: u64) -> bool {
        let newer = ack > self.una || position > self.window.told_at;
        let changes = window > self.window.size || window == 0;
        let counts = newer || (position == self.window.told_at && changes);
        if counts {
            self.window.size = window;
            self.window.told_at = position;
        }
        if self.tagging.separates() {
            return self.window.advance(ack, window);
        }
        if counts {
            self.window.end = ack + window;
        }
        counts
    }

    /// Permits `window` bytes beyond the acknowledged data: the window of the layer above, but at least the
    /// queued data (`mptcp_check_allowed_size`). A closed window permits nothing, because the peer has all
    /// data except a probe.
    pub(crate) fn admit(&mut self, window: u64) {
        if window == 0 {
            return;
        }
        self.window.advance(self.una, window.max(self.held_bytes()));
    }

    /// Returns the space in the peer's window after the next position, in bytes.
    #[inline]
    pub(crate) fn window_bytes(&self) -> u64 {
        self.window.end.saturating_sub(self.next)
    }

    /// Returns whether data at a position may be retransmitted. Data beyond a shrunken window waits. Only the
    /// oldest byte may be sent there, to probe the window (`__tcp_retransmit_skb`; RFC 9293 section 3.8.6,
    /// SHLD-16).
    pub(crate) fn admits_again(&self, position: u64) -> bool {
        position < self.window.end || position <= self.una
    }

    /// Returns whether the peer's window has no space for the next segment.
    pub(crate) fn shut_out(&self) -> bool {
        self.queued > 0 && self.next + self.queued.min(u64::from(self.mss)) > self.window.end
    }

    /// Sets the window at the end of the handshake. The window may be smaller than that of the SYN
    /// (`TCP_SYN_RECV`).
    pub(crate) fn set_window(&mut self, window: u64) {
        self.window.end = self.una + window;
        self.window.size = window;
        self.window.most = window;
    }

    /// Returns the largest distance below the next position at which an acknowledgement is accepted: one
    /// window before the oldest outstanding byte (RFC 5961 section 5.2; `tcp_ack`).
    #[inline]
    pub(crate) fn oldest_answer(&self) -> u64 {
        self.next - self.una + self.window.most.min(self.una)
    }
}
