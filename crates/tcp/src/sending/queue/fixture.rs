//! Changes of the queue for unit tests of other parts.

use anabranch_units::Instant;

use super::Queue;

impl Queue {
    pub(crate) fn set_queued(&mut self, bytes: u64) {
        self.queued = bytes;
    }

    pub(crate) fn set_next(&mut self, next: u64) {
        self.next = next;
    }

    pub(crate) fn set_last_sent(&mut self, at: Instant) {
        self.last_sent = at;
    }

    pub(crate) fn set_window_end(&mut self, end: u64) {
        self.window.set_end(end);
    }

    pub(crate) fn window_end(&self) -> u64 {
        self.window.end()
    }

    /// Acknowledges all sent data.
    pub(crate) fn forget_sent(&mut self) {
        self.unacked_bytes = 0;
    }

    pub(crate) fn queue_behind_sent(&mut self) {
        self.write_end = self.next;
    }
}
