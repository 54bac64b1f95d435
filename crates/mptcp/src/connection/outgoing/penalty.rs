//! Penalisation (out-of-tree `mptcp_rcv_buf_optimization`; Raiciu et al., NSDI 2012): the congestion window
//! of a subflow that blocks the others is halved.

use super::{Scheduling, Subflows};
use anabranch_congestion::CongestionState;
use anabranch_scheduler::SubflowSet;

impl Scheduling {
    /// Penalises the subflows of `set` that are in the Open state. In all other states, the window is being
    /// reduced already.
    #[cold]
    pub(super) fn penalise(&mut self, subflows: &mut Subflows, set: SubflowSet) {
        for id in set.iter() {
            let Some(subflow) = subflows.get_mut(id.index()) else { continue };
            if subflow.usable() && subflow.tcp.sending().cwnd().state() == CongestionState::Open {
                subflow.tcp.supply().penalise();
                subflow.note_change();
                self.scheduler.on_penalised(id);
            }
        }
        self.update_views(subflows);
    }
}
