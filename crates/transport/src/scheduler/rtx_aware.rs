//! RTX-aware scheduling (SD18 section V): subflows that retransmit are left out, then the base decides.
//!
//! "If all sub-flows are in retransmission state, no path is selected." Retransmitting is read as the
//! congestion states Recovery and Loss; Disorder and CWR retransmit nothing.

use anabranch_units::SubflowId;

use super::{Decision, PathScheduler, SendRequest, SubflowView, base};
use crate::congestion::CongestionState;
use crate::plugin::Parameters;

/// Any base over the subflows that do not retransmit.
#[derive(Debug)]
pub struct RtxAware {
    base: Box<dyn PathScheduler>,
    /// The views that the base sees, kept for their memory.
    calm: Vec<SubflowView>,
}

impl RtxAware {
    pub(super) fn build(parameters: &mut Parameters<'_>) -> Box<dyn PathScheduler> {
        Box::new(Self { base: base(parameters, "min-rtt"), calm: Vec::new() })
    }
}

impl PathScheduler for RtxAware {
    fn name(&self) -> &'static str {
        "rtx-aware"
    }

    fn schedule(&mut self, request: &SendRequest, subflows: &[SubflowView]) -> Decision {
        let calm = |view: &&SubflowView| view.state < CongestionState::Recovery;
        self.calm.clear();
        self.calm.extend(subflows.iter().filter(calm));
        if self.calm.is_empty() { Decision::WAIT } else { self.base.schedule(request, &self.calm) }
    }

    fn on_sent(&mut self, id: SubflowId, from: u64, bytes: u64) {
        self.base.on_sent(id, from, bytes);
    }

    fn wants_idle(&self) -> bool {
        self.base.wants_idle()
    }
}
