//! Largest estimated throughput (LET, SD18 section V): chooses the largest cwnd / srtt among subflows with
//! window space.

use anabranch_plugin::Parameters;

use super::{Decision, PathScheduler, SendRequest, SubflowView, candidates};

/// The largest-estimated-throughput scheduler. If subflows are equal, it chooses the oldest.
#[derive(Debug, Default)]
pub struct LargestThroughput;

impl LargestThroughput {
    pub(super) fn build(_parameters: &mut Parameters<'_>) -> Box<dyn PathScheduler> {
        Box::new(Self)
    }
}

/// Returns whether `one` has more window per srtt than `two`, without a division.
fn faster(one: &SubflowView, two: &SubflowView) -> bool {
    let scaled =
        |a: &SubflowView, b: &SubflowView| u128::from(a.cwnd) * u128::from(b.srtt.as_nanos());
    scaled(one, two) > scaled(two, one)
}

impl PathScheduler for LargestThroughput {
    fn name(&self) -> &'static str {
        "let"
    }

    fn waits_for_room(&self) -> bool {
        true
    }

    fn schedule(&mut self, _request: &SendRequest, subflows: &[SubflowView]) -> Decision {
        candidates(subflows)
            .filter(|subflow| subflow.can_send())
            .reduce(|best, next| if faster(next, best) { next } else { best })
            .map_or(Decision::WAIT, SubflowView::one_segment)
    }
}
