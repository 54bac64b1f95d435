//! Shortest transfer time first (Hurtig et al., IEEE/ACM Transactions on Networking 2019): chooses the
//! subflow on which the next segment would arrive first. If that subflow is full, the scheduler waits for it.
//!
//! The published description does not define the transfer time; this is a reconstruction. It is half an srtt
//! for a segment that can leave at once. Each round of acknowledgements that the segment must wait for adds
//! one srtt. The window doubles per round in slow start, and grows by a segment otherwise. Subflows in
//! Recovery or Loss are excluded. Segments are scheduled one by one, in order.

use anabranch_plugin::Parameters;

use super::{Decision, PathScheduler, SendRequest, SubflowView, candidates};
use anabranch_units::CongestionState;

/// The shortest-transfer-time scheduler.
#[derive(Debug, Default)]
pub struct ShortestTransfer;

impl ShortestTransfer {
    pub(super) fn build(_parameters: &mut Parameters<'_>) -> Box<dyn PathScheduler> {
        Box::new(Self)
    }
}

/// Returns the time until one more segment on the subflow arrives, nanoseconds: half an srtt plus whole
/// rounds.
fn transfer_nanos(view: &SubflowView) -> u64 {
    let half = view.srtt.as_nanos() / 2;
    if view.window_space() > 0 {
        return half;
    }
    let queued = view.queued_bytes.div_ceil(u64::from(view.mss.max(1)));
    // The position of the new segment among the segments that do not fit in the present window.
    let mut ahead = u64::from(view.in_flight) + queued + 1 - u64::from(view.cwnd);
    let (mut window, mut rounds) = (u64::from(view.cwnd).max(1), 0);
    loop {
        rounds += 1;
        window = if window < u64::from(view.ssthresh) { window * 2 } else { window + 1 };
        if ahead <= window {
            return half * (1 + 2 * rounds);
        }
        ahead -= window;
    }
}

impl PathScheduler for ShortestTransfer {
    fn name(&self) -> &'static str {
        "sttf"
    }

    fn schedule(&mut self, _request: &SendRequest, subflows: &[SubflowView]) -> Decision {
        candidates(subflows)
            .filter(|view| view.alive() && !view.repairs_in(CongestionState::Recovery))
            .min_by_key(|view| transfer_nanos(view))
            .filter(|view| view.can_send())
            .map_or(Decision::WAIT, SubflowView::one_segment)
    }
}
