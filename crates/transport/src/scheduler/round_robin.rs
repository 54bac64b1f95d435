//! Round robin (out-of-tree `mptcp_rr.c` with one segment a turn and `cwnd_limited`): subflows in
//! turn, those without window space skipped, so that every window is filled.

use super::{Decision, PathScheduler, SendRequest, SubflowView, candidates};
use crate::plugin::Parameters;

/// One segment a turn.
#[derive(Debug, Default)]
pub struct RoundRobin {
    /// The subflow that sent last.
    last: Option<u8>,
}

impl RoundRobin {
    pub(super) fn build(_parameters: &mut Parameters<'_>) -> Box<dyn PathScheduler> {
        Box::new(Self::default())
    }
}

impl PathScheduler for RoundRobin {
    fn name(&self) -> &'static str {
        "round-robin"
    }

    fn schedule(&mut self, _request: &SendRequest, subflows: &[SubflowView]) -> Decision {
        let after = self.last.map_or(0, |last| u16::from(last) + 1);
        // The next one behind the last sender comes first, then round from the start.
        let next = candidates(subflows)
            .filter(|subflow| subflow.can_send())
            .min_by_key(|subflow| (u16::from(subflow.id.0) < after, subflow.id));
        next.map_or(Decision::WAIT, |subflow| {
            self.last = Some(subflow.id.0);
            Decision::next_on(subflow.id, u64::from(subflow.mss))
        })
    }
}
