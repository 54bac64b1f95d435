//! RTX-aware scheduling (SD18 section V): subflows that retransmit are left out, then the base decides.
//!
//! "If all sub-flows are in retransmission state, no path is selected." Retransmitting is read as the
//! congestion states Recovery and Loss; Disorder and CWR retransmit nothing. The paper knows no backup
//! subflows: here a regular one that retransmits is busy, not gone, so that it is waited for.

use anabranch_plugin::Parameters;

use super::{Decision, LargestCredits, LargestThroughput, MinRtt};
use super::{PathScheduler, SendRequest, SubflowView, ask, base, candidates};
use crate::congestion::CongestionState;

/// Any base over the subflows that do not retransmit.
#[derive(Debug)]
pub struct RtxAware {
    base: Box<dyn PathScheduler>,
    /// The views that the base sees, kept for their memory.
    calm: Vec<SubflowView>,
}

impl RtxAware {
    pub(super) fn build(parameters: &mut Parameters<'_>) -> Box<dyn PathScheduler> {
        Self::over(base(parameters, "min-rtt"))
    }

    pub(super) fn build_spd(_parameters: &mut Parameters<'_>) -> Box<dyn PathScheduler> {
        Self::over(Box::new(MinRtt))
    }

    pub(super) fn build_lpc(_parameters: &mut Parameters<'_>) -> Box<dyn PathScheduler> {
        Self::over(Box::new(LargestCredits))
    }

    pub(super) fn build_let(_parameters: &mut Parameters<'_>) -> Box<dyn PathScheduler> {
        Self::over(Box::new(LargestThroughput))
    }

    fn over(base: Box<dyn PathScheduler>) -> Box<dyn PathScheduler> {
        Box::new(Self { base, calm: Vec::new() })
    }
}

impl PathScheduler for RtxAware {
    fn name(&self) -> &'static str {
        "rtx-aware"
    }

    fn schedule(&mut self, request: &SendRequest, subflows: &[SubflowView]) -> Decision {
        let calm = |view: &SubflowView| view.state < CongestionState::Recovery;
        if subflows.iter().all(calm) {
            return ask(self.base.as_mut(), request, subflows);
        }
        self.calm.clear();
        self.calm.extend(candidates(subflows).filter(|view| calm(view)));
        if self.calm.is_empty() {
            return Decision::WAIT;
        }
        ask(self.base.as_mut(), request, &self.calm)
    }

    fn base(&self) -> Option<&dyn PathScheduler> {
        Some(self.base.as_ref())
    }

    fn base_mut(&mut self) -> Option<&mut dyn PathScheduler> {
        Some(self.base.as_mut())
    }
}
