//! Fills the view that schedulers have of a subflow.

use super::Subflow;
use crate::scheduler::SubflowView;

impl SubflowView {
    /// Returns the view of a subflow.
    pub(crate) fn of(subflow: &Subflow) -> Self {
        let mut view = Self::default();
        view.renew(subflow);
        view
    }

    /// Writes the view of a subflow in place.
    #[inline(always)]
    pub(crate) fn renew(&mut self, subflow: &Subflow) {
        self.id = subflow.id;
        self.srtt = subflow.rtt.srtt().unwrap_or_default();
        self.rttvar = subflow.rtt.rttvar();
        self.min_rtt = subflow.rtt.min_rtt().unwrap_or_default();
        self.cwnd = subflow.window.cwnd;
        self.ssthresh = subflow.window.ssthresh;
        self.in_flight = subflow.board.in_flight();
        self.queued_bytes = subflow.send.queued_bytes();
        self.queued_memory = subflow.send.memory();
        self.send_buffer = subflow.send.buffer_limit();
        self.mss = subflow.send.mss();
        self.pacing_rate = subflow.pacing_rate();
        self.delivery_rate = subflow.delivery_rate();
        self.state = subflow.ca_state;
        self.repaired = subflow.is_repaired();
        self.backup = subflow.signals.is_backup();
        self.stale = subflow.stale;
        self.potentially_failed = subflow.recovery.consecutive_timeouts > 0;
        self.established = subflow.usable();
        self.last_ack = subflow.last_ack_at;
    }
}
