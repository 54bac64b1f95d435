//! How large a receive buffer is and how much window it makes (`tcp_rcvbuf_grow`,
//! `tcp_win_from_space`): the connection has one, and so has each subflow.

use crate::config::Config;

/// Share of its buffer that Linux takes for window before it has seen segments, in 256ths
/// (`TCP_DEFAULT_SCALING_RATIO`).
const DEFAULT_RATIO: u64 = 128;

/// A buffer that grows with what is read out of it.
#[derive(Debug)]
pub(crate) struct ReceiveBuffer {
    /// Bytes of memory (`sk_rcvbuf`).
    memory: u64,
    memory_max: u64,
    /// Payload in 256 bytes of memory (`scaling_ratio`).
    ratio: u64,
    /// The window that all of the memory makes, bytes.
    window: u64,
    /// Bytes read in the fullest RTT so far (`rcvq_space.space`).
    space: u64,
}

impl ReceiveBuffer {
    pub(crate) fn new(config: &Config) -> Self {
        let memory = config.receive_buffer_initial;
        Self {
            memory,
            memory_max: config.receive_buffer_max.max(memory),
            ratio: DEFAULT_RATIO,
            window: memory * DEFAULT_RATIO / 256,
            space: 10 * u64::from(config.mss - 12),
        }
    }

    pub(crate) fn window(&self) -> u64 {
        self.window
    }

    pub(crate) fn space(&self) -> u64 {
        self.space
    }

    /// Full segments of `payload` bytes take `memory` each (`tcp_measure_rcv_mss`).
    pub(crate) fn on_segment_size(&mut self, payload: u64, memory: u64) {
        self.ratio = (payload * 256 / memory).clamp(1, 255);
        self.window = self.memory * self.ratio / 256;
    }

    /// Data came out of order, `ahead` bytes up to its end from the next one expected: it must not
    /// take the window of what is missing (`tcp_data_queue_ofo`, `mptcp_data_queue_ofo`).
    #[inline]
    pub(crate) fn make_room(&mut self, ahead: u64) {
        if 2 * self.space + ahead > self.window {
            self.grow(self.space, ahead);
        }
    }

    /// An RTT has brought `copied` bytes to the application; true when the buffer grew.
    ///
    /// As in Linux 6.18: twice what was read, since the measure is an RTT late; twice as much again
    /// as that has grown by, so that the sender may double its rate; and what waits out of order.
    pub(crate) fn grow(&mut self, copied: u64, ahead: u64) -> bool {
        let window = 2 * copied;
        let growth = window * copied.saturating_sub(self.space) / self.space;
        let window = window + 2 * growth + ahead;
        self.space = copied;
        let memory = (window * 256 / self.ratio).min(self.memory_max);
        let grew = memory > self.memory;
        if grew {
            self.memory = memory;
            self.window = memory * self.ratio / 256;
        }
        grew
    }
}
