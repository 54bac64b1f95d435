//! Minimum RTT as the papers print it (SPD, SD18 section V): the smallest srtt with window space.

use anabranch_plugin::Parameters;

use super::{Decision, PathScheduler, SendRequest, SubflowView, candidates};

/// Smallest srtt first; ties go to the older subflow.
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
