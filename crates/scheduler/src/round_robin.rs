//! Round robin (out-of-tree `mptcp_rr.c`): each subflow in turn sends a few segments.
//!
//! With `cwnd_limited`, subflows without window space are skipped, so that every window is filled. Without
//! it, the scheduler waits for a full subflow when its turn comes.

use anabranch_plugin::Parameters;

use super::{Decision, PathScheduler, SendRequest, SubflowView, candidates};
use anabranch_units::CongestionState;

/// The round-robin scheduler.
#[derive(Debug)]
pub struct RoundRobin {
    /// The number of segments in a turn.
    segments: u32,
    /// Whether subflows without window space are skipped.
    skip_full: bool,
    /// The subflow that sent last, and the number of segments that it may still send.
    last: Option<(u8, u32)>,
}

impl RoundRobin {
    pub(super) fn build(parameters: &mut Parameters<'_>) -> Box<dyn PathScheduler> {
        Box::new(Self {
            segments: parameters.whole("num_segments", 1, 1..=255),
            skip_full: parameters.flag("cwnd_limited", true),
            last: None,
        })
    }
}

impl PathScheduler for RoundRobin {
    fn name(&self) -> &'static str {
        "round-robin"
    }

    fn schedule(&mut self, _request: &SendRequest, subflows: &[SubflowView]) -> Decision {
        // The identifier at which the search starts: the last subflow, or the one after it if its turn is
        // over.
        let (last, left) = self.last.unwrap_or((0, 1));
        let first = u16::from(last) + u16::from(self.last.is_some() && left == 0);
        let takes_part = |subflow: &&SubflowView| {
            let alive = subflow.alive() && !subflow.repairs_in(CongestionState::Loss);
            alive && (!self.skip_full || subflow.window_space() > 0)
        };
        // Search upwards from `first`, then wrap around.
        let next = candidates(subflows)
            .filter(takes_part)
            .min_by_key(|subflow| (u16::from(subflow.id.0) < first, subflow.id));
        let Some(next) = next.filter(|subflow| subflow.can_send()) else {
            return Decision::WAIT;
        };
        let goes_on = self.last.is_some_and(|(last, left)| last == next.id.0 && left > 0);
        let turn = if goes_on { left } else { self.segments };
        self.last = Some((next.id.0, turn - 1));
        next.one_segment()
    }
}
