//! Largest packet credits (LPC, SD18 section V): chooses the subflow with the most window space, which is
//! cwnd minus unacknowledged segments.
//!
//! The paper has no rule for ties. Here the smaller srtt is preferred, then the older subflow.

use std::cmp::Reverse;

use anabranch_plugin::Parameters;

use super::{Decision, PathScheduler, SendRequest, SubflowView, candidates};

/// The largest-packet-credits scheduler.
#[derive(Debug, Default)]
pub struct LargestCredits;

impl LargestCredits {
    pub(super) fn build(_parameters: &mut Parameters<'_>) -> Box<dyn PathScheduler> {
        Box::new(Self)
    }
}

impl PathScheduler for LargestCredits {
    fn name(&self) -> &'static str {
        "lpc"
    }

    fn waits_for_room(&self) -> bool {
        true
    }

    fn schedule(&mut self, _request: &SendRequest, subflows: &[SubflowView]) -> Decision {
        candidates(subflows)
            .filter(|subflow| subflow.can_send())
            .min_by_key(|subflow| (Reverse(subflow.window_space()), subflow.srtt))
            .map_or(Decision::WAIT, SubflowView::one_segment)
    }
}
