//! Minimum RTT as the papers print it (SPD, SD18 section V): the smallest srtt with window space.

use super::{Decision, PathScheduler, SendRequest, SubflowView, candidates};
use crate::plugin::Parameters;

/// Smallest srtt first; ties go to the older subflow.
#[derive(Debug, Default)]
pub struct MinRtt {
    /// A turn is as much as the window lets out, and no more than half of it, not a segment.
    by_window: bool,
}

impl MinRtt {
    pub(super) fn build(parameters: &mut Parameters<'_>) -> Box<dyn PathScheduler> {
        Box::new(Self::new(parameters))
    }

    pub(super) fn new(parameters: &mut Parameters<'_>) -> Self {
        Self { by_window: parameters.word("turn", &["segment", "window"]) == "window" }
    }

    /// What goes to the chosen subflow (`tcp_cwnd_test` in `mptcp_next_segment`).
    fn turn(&self, subflow: &SubflowView) -> Decision {
        if !self.by_window {
            return subflow.one_segment();
        }
        let segments = subflow.window_space().min((subflow.cwnd / 2).max(1));
        Decision::next_on(subflow.id, u64::from(segments) * u64::from(subflow.mss))
    }
}

impl PathScheduler for MinRtt {
    fn name(&self) -> &'static str {
        "min-rtt"
    }

    fn schedule(&mut self, _request: &SendRequest, subflows: &[SubflowView]) -> Decision {
        candidates(subflows)
            .filter(|subflow| subflow.can_send())
            .min_by_key(|subflow| subflow.srtt)
            .map_or(Decision::WAIT, |subflow| self.turn(subflow))
    }
}
