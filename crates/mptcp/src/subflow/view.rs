//! The view of a subflow for schedulers.

use super::Subflow;
use anabranch_scheduler::SubflowView;

impl Subflow {
    /// Returns a new view of this subflow.
    pub(crate) fn view(&self) -> SubflowView {
        let mut view = SubflowView::default();
        self.update_view(&mut view);
        view
    }

    /// Updates a view of this subflow in place.
    // A run of 20 MB calls it 25,310 times.
    #[inline(always)]
    pub(crate) fn update_view(&self, view: &mut SubflowView) {
        let sending = self.tcp.sending();
        view.id = self.tcp.id();
        view.srtt = sending.rtt().srtt().unwrap_or_default();
        view.rttvar = sending.rtt().rttvar();
        view.min_rtt = sending.rtt().min_rtt().unwrap_or_default();
        view.cwnd = sending.cwnd().window().cwnd;
        view.ssthresh = sending.cwnd().window().ssthresh;
        view.in_flight = sending.flight().in_flight();
        view.queued_bytes = sending.queue().queued_bytes();
        view.queued_memory = sending.queue().memory();
        view.send_buffer = sending.buffer().limit();
        view.mss = sending.queue().mss();
        view.pacing_rate = sending.cwnd().pacing_rate();
        view.delivery_rate = sending.flight().rate().delivery_rate();
        view.state = sending.cwnd().state();
        view.repaired = sending.is_repaired();
        view.backup = self.context.signals().is_backup();
        view.stale = self.context.staleness().is_stale();
        view.potentially_failed = sending.consecutive_timeouts() > 0;
        view.established = self.usable();
        view.last_ack = sending.last_ack_at();
    }
}
