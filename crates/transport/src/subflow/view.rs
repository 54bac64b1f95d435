//! Fills the view that schedulers have of a subflow.

use super::Subflow;
use anabranch_scheduler::SubflowView;

impl Subflow {
    /// Returns the view that schedulers have of this subflow.
    pub(crate) fn view(&self) -> SubflowView {
        let mut view = SubflowView::default();
        self.update_view(&mut view);
        view
    }

    /// Updates the view that schedulers have of this subflow, in place.
    #[inline(always)]
    pub(crate) fn update_view(&self, view: &mut SubflowView) {
        view.id = self.id;
        view.srtt = self.rtt.srtt().unwrap_or_default();
        view.rttvar = self.rtt.rttvar();
        view.min_rtt = self.rtt.min_rtt().unwrap_or_default();
        view.cwnd = self.window.cwnd;
        view.ssthresh = self.window.ssthresh;
        view.in_flight = self.board.in_flight();
        view.queued_bytes = self.send.queued_bytes();
        view.queued_memory = self.send.memory();
        view.send_buffer = self.send.buffer_limit();
        view.mss = self.send.mss();
        view.pacing_rate = self.pacing_rate();
        view.delivery_rate = self.delivery_rate();
        view.state = self.ca_state;
        view.repaired = self.is_repaired();
        view.backup = self.context.signals().is_backup();
        view.stale = self.context.staleness().is_stale();
        view.potentially_failed = self.recovery.consecutive_timeouts > 0;
        view.established = self.usable();
        view.last_ack = self.last_ack_at;
    }
}
