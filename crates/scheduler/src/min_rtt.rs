//! Minimum RTT as the papers define it (SPD, SD18 section V): chooses the smallest srtt among subflows with
//! window space.

use anabranch_plugin::Parameters;

use super::{Decision, PathScheduler, SendRequest, SubflowView, candidates};

/// The minimum-RTT scheduler. If subflows are equal, it chooses the oldest.
#[derive(Debug, Default)]
pub struct MinRtt;

impl MinRtt {
    pub(super) fn build(_parameters: &mut Parameters<'_>) -> Box<dyn PathScheduler> {
        Box::new(Self)
    }
}

impl PathScheduler for MinRtt {
    fn name(&self) -> &'static str {
        "min-rtt"
    }

    fn waits_for_room(&self) -> bool {
        true
    }

    fn keeps_choice(&self) -> bool {
        true
    }

    fn schedule(&mut self, _request: &SendRequest, subflows: &[SubflowView]) -> Decision {
        candidates(subflows)
            .filter(|subflow| subflow.can_send())
            .min_by_key(|subflow| subflow.srtt)
            .map_or(Decision::WAIT, SubflowView::one_segment)
    }
}
