//! How large a subflow's send buffer is (`tcp_sndbuf_expand`), and as how large its connection knows it
//! (`__mptcp_sync_sndbuf`).

use super::queue::Sender;
use anabranch_congestion::INITIAL_WINDOW;

impl Sender {
    /// Bytes of memory (`sk_sndbuf`).
    pub(crate) fn buffer_limit(&self) -> u64 {
        self.buffer
    }

    /// `tcp_sndbuf_expand`; true when the buffer grew.
    pub(crate) fn grow_buffer(&mut self, cwnd: u32, factor: u32) -> bool {
        let segments = u64::from(cwnd.max(INITIAL_WINDOW));
        let wanted = u64::from(factor) * segments * self.memory_per_segment;
        let wanted = wanted.min(self.buffer_max);
        let grew = wanted > self.buffer;
        if grew {
            if self.tells_later {
                self.buffer_untold =
                    self.buffer_untold.saturating_add((wanted - self.buffer) as u32);
            }
            self.buffer = wanted;
        }
        grew
    }

    /// The send buffer as the connection knows it, bytes.
    pub(crate) fn buffer_told(&self) -> u64 {
        self.buffer - u64::from(self.buffer_untold)
    }

    /// The connection is told how large the buffer is.
    pub(crate) fn tell_buffer(&mut self) {
        self.buffer_untold = 0;
    }
}
