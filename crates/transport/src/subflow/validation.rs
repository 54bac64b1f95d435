//! The window is worth something only while it is used: `tcp_cwnd_validate`, decay when the
//! application does not fill it, restart after idleness (RFC 2861 as in Linux).

use anabranch_units::Instant;

use super::{INITIAL_WINDOW, Subflow};
use crate::congestion::{CongestionState, WindowChange};

impl Subflow {
    /// `tcp_slow_start_after_idle_check`, `tcp_cwnd_restart`.
    pub(super) fn restart_after_idle(&mut self, now: Instant) {
        if !self.board.is_empty() || self.controller.owns_recovery() || self.totals.bytes_sent == 0
        {
            return;
        }
        let rto = self.rtt.rto();
        let mut idle = now.since(self.send.last_sent);
        if idle <= rto {
            return;
        }
        self.controller.on_idle_restart(now);
        self.window.ssthresh = self.current_ssthresh();
        let floor = INITIAL_WINDOW.min(self.window.cwnd);
        while idle > rto && self.window.cwnd > floor {
            idle = idle.saturating_sub(rto);
            self.window.cwnd /= 2;
        }
        self.window.cwnd = self.window.cwnd.max(floor);
        self.send.window_stamp = now;
        self.send.cwnd_used = 0;
        self.controller.on_window_changed(WindowChange::Idle, &mut self.window);
    }

    /// `tcp_cwnd_validate`.
    pub(crate) fn validate_window(&mut self, now: Instant, limited: bool) {
        let packets_out = self.board.packets_out();
        let send = &mut self.send;
        if send.una >= send.usage_seq
            || limited
            || (!send.cwnd_limited && packets_out > send.max_packets_out)
        {
            send.cwnd_limited = limited;
            send.max_packets_out = packets_out;
            send.usage_seq = send.next;
        }
        if self.cwnd_limited() {
            self.send.cwnd_used = 0;
            self.send.window_stamp = now;
            return;
        }
        self.send.cwnd_used = self.send.cwnd_used.max(packets_out);
        let quiet = now.since(self.send.window_stamp) >= self.rtt.rto();
        if quiet && !self.controller.owns_recovery() {
            self.limit_to_application(now);
        }
    }

    /// `tcp_cwnd_application_limited`.
    fn limit_to_application(&mut self, now: Instant) {
        if self.ca_state == CongestionState::Open && !self.wants_space() {
            let used = self.send.cwnd_used.max(INITIAL_WINDOW);
            if used < self.window.cwnd {
                self.window.ssthresh = self.current_ssthresh();
                self.window.cwnd = u32::midpoint(self.window.cwnd, used);
                self.controller
                    .on_window_changed(WindowChange::ApplicationLimited, &mut self.window);
            }
            self.send.cwnd_used = 0;
        }
        self.send.window_stamp = now;
    }

    /// The application waits for room in the send buffer (`SOCK_NOSPACE`).
    ///
    /// Linux asks the socket a subflow hangs on, which is the connection's. Every subflow of MPTCP
    /// measured behaves as if the flag were always set there, also under an application that never
    /// filled the buffer: its buffer grows with its window, and its window never shrinks for want
    /// of use.
    pub(crate) fn wants_space(&self) -> bool {
        self.multipath || self.send.blocked_on_buffer
    }

    /// `tcp_is_cwnd_limited`.
    pub(crate) fn cwnd_limited(&self) -> bool {
        self.send.cwnd_limited
            || (self.window.in_slow_start() && self.window.cwnd < 2 * self.send.max_packets_out)
    }

    /// The application has nothing more for this subflow (`tcp_rate_check_app_limited`).
    pub(crate) fn check_app_limited(&mut self) {
        let repaired = self.board.lost_out <= self.board.retrans_out;
        if self.send.queued < u64::from(self.mss)
            && self.board.in_flight() < self.window.cwnd
            && repaired
        {
            self.rate.mark_app_limited(self.board.in_flight());
        }
    }
}
