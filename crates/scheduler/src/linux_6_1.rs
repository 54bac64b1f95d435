//! Least linger time as in Linux 6.1 (`mptcp_subflow_get_send` there), the default of that kernel. In
//! contrast to `linux`, a burst outlives the push: the chosen subflow continues until the burst is used up,
//! even if another subflow now has a shorter linger time.

use anabranch_plugin::Parameters;
use anabranch_units::SubflowId;

use super::{Decision, LeastLinger, PathScheduler, SendRequest, SubflowView};

/// The least-linger-time scheduler of Linux 6.1. A burst that one call does not use up continues at
/// the next call.
#[derive(Debug, Default)]
pub struct KeptBurst {
    choice: LeastLinger,
    /// The subflow with the burst (`last_snd`), and the bytes left in the burst (`snd_burst`).
    burst: Option<(SubflowId, u64)>,
    /// The position after the new data that was sent last.
    next: u64,
}

impl KeptBurst {
    pub(super) fn build(_parameters: &mut Parameters<'_>) -> Box<dyn PathScheduler> {
        Box::new(Self::default())
    }
}

impl PathScheduler for KeptBurst {
    fn name(&self) -> &'static str {
        "linux-6.1"
    }

    fn schedule(&mut self, request: &SendRequest, subflows: &[SubflowView]) -> Decision {
        // If everything is sent again, the burst ends (`__mptcp_retransmit_pending_data`).
        self.burst = self.burst.filter(|_| request.data_next >= self.next);
        self.next = request.data_next;
        if let Some((id, left)) = self.burst.filter(|(_, left)| *left > 0)
            && subflows.iter().any(|subflow| subflow.id == id && subflow.can_queue())
        {
            return Decision::next_on(id, request.whole_fragments(left));
        }
        let decision = self.choice.schedule(request, subflows);
        self.burst = match decision {
            Decision::Send { on, burst, .. } => on.iter().next().map(|id| (id, burst)),
            Decision::Wait { .. } | Decision::Penalise(_) => self.burst,
        };
        decision
    }

    fn on_window_closed(&mut self, subflows: &[SubflowView]) {
        // During a burst, the kernel does not read the pacing rates.
        if self.burst.is_none_or(|(_, left)| left == 0) {
            self.choice.on_window_closed(subflows);
        }
    }

    fn on_replaced(&mut self, id: SubflowId) {
        self.burst = self.burst.filter(|(owner, _)| *owner != id);
        self.choice.on_replaced(id);
    }

    fn on_sent(&mut self, _id: SubflowId, from: u64, bytes: u64) {
        // Data that the retransmission timer sends does not count towards the burst.
        if from == self.next
            && let Some((_, left)) = &mut self.burst
        {
            *left = left.saturating_sub(bytes);
            self.next += bytes;
        }
    }
}
