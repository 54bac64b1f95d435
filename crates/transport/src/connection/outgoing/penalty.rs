//! Penalties (out-of-tree `mptcp_rcv_buf_optimization`; Raiciu et al., NSDI 2012): the scheduler halves the window of
//! a subflow that holds up the others.

use super::{Scheduling, Subflows};
use crate::subflow::Subflow;
use anabranch_congestion::{CongestionState, WindowChange};
use anabranch_scheduler::SubflowSet;

impl Subflow {
    /// Halves the window, down to one segment, and the slow-start threshold if the subflow is not in
    /// slow start, down to two.
    fn penalise(&mut self) {
        let prior = self.window;
        self.window.cwnd = (prior.cwnd / 2).max(1);
        if prior.cwnd >= prior.ssthresh {
            self.window.ssthresh = (prior.ssthresh / 2).max(2);
        }
        self.controller.on_window_changed(WindowChange::Penalty, &mut self.window);
        self.refresh_pacing();
        self.totals.penalties += 1;
        self.touched = true;
    }
}

impl Scheduling {
    /// Penalises those of `subflows` that are in the Open state: others are being reduced already.
    #[cold]
    pub(super) fn penalise(&mut self, subflows: &mut Subflows, set: SubflowSet) {
        for id in set.iter() {
            let Some(subflow) = subflows.get_mut(id.index()) else { continue };
            if subflow.usable() && subflow.ca_state == CongestionState::Open {
                subflow.penalise();
                self.scheduler.on_penalised(id);
            }
        }
        self.refresh_views(subflows);
    }
}
