//! The use of the congestion window by queued data.

use super::Sending;
use super::cwnd::Use;
use crate::config::Moment;

impl Sending {
    /// Restarts the window after an idle period before the first segment is sent, once or for each queued
    /// socket buffer.
    #[inline]
    pub(super) fn restart_before_data(&mut self, moment: Moment<'_>) {
        if self.flight.is_empty() {
            for _ in 0..self.queue.take_restarts() {
                self.restart_after_idle(moment);
            }
        }
    }

    pub(super) fn restart_after_idle(&mut self, moment: Moment<'_>) {
        if self.flight.is_empty() && self.sent.bytes > 0 {
            self.cwnd.restart_after_idle(moment, self.queue.last_sent(), self.rtt().rto());
        }
    }

    /// Validates the window after a transmission. `limited` means that the window is full.
    #[inline]
    pub(super) fn update_usage(&mut self, moment: Moment<'_>, limited: bool) {
        let used = Use {
            una: self.queue.una(),
            next: self.queue.next(),
            packets_out: self.flight.packets_out(),
            rto: self.rtt().rto(),
            wants_space: self.wants_space(),
        };
        self.cwnd.update_usage(moment, limited, used);
    }

    /// Validates the window if it is full and more data is queued, even if no segment was sent
    /// (`tcp_write_xmit`).
    pub(super) fn note_full_window(&mut self, moment: Moment<'_>) {
        if self.cwnd.notes_full(self.flight.in_flight()) && self.queue.queued_bytes() > 0 {
            self.update_usage(moment, true);
        }
    }

    /// Returns whether the application waits for send-buffer space (`SOCK_NOSPACE`).
    pub fn wants_space(&self) -> bool {
        self.buffer.is_blocked() || (self.queue.is_tagged() && self.rules.always_wants_space)
    }

    /// Marks the connection as application-limited if it has no more data to send
    /// (`tcp_rate_check_app_limited`).
    pub(crate) fn check_app_limited(&mut self) {
        let in_flight = self.flight.in_flight();
        let repaired = !self.flight.needs_repair();
        if self.queue.queued_bytes() < u64::from(self.mss)
            && !self.cwnd.is_full(in_flight)
            && repaired
        {
            self.flight.rate_mut().mark_app_limited(in_flight);
        }
    }
}
