//! The connection-level receive window, shared by all subflows, with Linux's dynamic right-sizing
//! (`mptcp_rcv_space_adjust`; RFC 8684 section 3.3.1 "the receive window is shared").

use anabranch_units::{Duration, Instant};

use super::Connection;
use crate::config::Config;

/// How much memory the received data may take, in bytes of window: half the buffer, as Linux's
/// initial `scaling_ratio` assumes.
#[derive(Debug)]
pub(super) struct ReceiveBudget {
    limit: u64,
    max: u64,
    /// Right edge promised to the peer, as a data position (`rcv_wnd_sent`).
    promised: u64,
    copied: u64,
    space: u64,
    measured_from: Instant,
    /// Once this has come a measurement is complete.
    measure_until: Instant,
}

impl ReceiveBudget {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            limit: config.receive_buffer_initial / 2,
            max: (config.receive_buffer_max / 2).max(config.receive_buffer_initial / 2),
            promised: 0,
            copied: 0,
            space: 10 * u64::from(config.mss),
            measured_from: Instant::ZERO,
            measure_until: Instant::ZERO,
        }
    }

    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    pub(super) fn promised(&self) -> u64 {
        self.promised
    }

    /// The application read `bytes`; true when a measurement may be complete.
    pub(super) fn on_read(&mut self, now: Instant, bytes: u64) -> bool {
        self.copied += bytes;
        now >= self.measure_until
    }

    /// Once an RTT the limit follows what the application read in it (`tcp_rcv_space_adjust`).
    ///
    /// As in Linux 6.18 (`tcp_rcvbuf_grow`): twice what was read, so that the sender may double its
    /// rate, as much again as it has grown by, and room for what waits out of order, `ahead` bytes
    /// from the next one expected.
    pub(super) fn resize(&mut self, now: Instant, rtt: Option<Duration>, ahead: u64) {
        let Some(rtt) = rtt else { return };
        self.measure_until = self.measured_from + rtt;
        if now < self.measure_until {
            return;
        }
        if self.copied > self.space {
            let window = 2 * self.copied;
            let grown = window * (self.copied - self.space) / self.space;
            let window = window + 2 * grown + ahead;
            self.limit = self.limit.max(window.min(self.max));
            self.space = self.copied;
        }
        self.copied = 0;
        self.measured_from = now;
        self.measure_until = now + rtt;
    }
}

impl Connection {
    /// A subflow has advertised a window: its edge binds every subflow.
    pub(super) fn note_promise(&mut self, index: usize) {
        let edge = self.input.acknowledged() + self.subflows[index].receive.window();
        self.budget.promised = self.budget.promised.max(edge);
    }
}
