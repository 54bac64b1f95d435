//! Least linger time: upstream Linux's default since 6.6 (`mptcp_subflow_get_send`).
//!
//! The subflow that drains its queued data first is chosen: the smallest queued memory divided by pacing
//! rate. The RTT does not matter. If that subflow's send buffer is full, nothing is sent at all, which limits
//! head-of-line blocking.

use anabranch_plugin::Parameters;
use anabranch_units::SubflowId;

use super::{Decision, PathScheduler, SendRequest, SubflowView, candidates};

/// The burst in bytes, `MPTCP_SEND_BURST_SIZE`: 64 KiB minus the largest headers.
const BURST: u64 = 65_536 - 20 - 40 - 40 - 8;

/// The least-linger-time scheduler, which chooses again at every push.
#[derive(Debug, Default)]
pub struct LeastLinger {
    /// The average pacing rate of each subflow (`avg_pacing_rate`), bytes per second; 0 before the first use.
    average: Vec<u64>,
}

impl LeastLinger {
    pub(super) fn build(_parameters: &mut Parameters<'_>) -> Box<dyn PathScheduler> {
        Box::new(Self::default())
    }

    fn average(&mut self, subflow: &SubflowView) -> &mut u64 {
        let index = subflow.id.index();
        if self.average.len() <= index {
            self.average.resize(index + 1, 0);
        }
        &mut self.average[index]
    }

    /// Returns the linger time: queued memory divided by the average pacing rate, scaled by 2^32 as in the
    /// kernel.
    fn linger(&mut self, subflow: &SubflowView) -> Option<u64> {
        let average = self.average(subflow);
        if *average == 0 {
            *average = subflow.pacing_rate.bytes_per_second();
        }
        (*average > 0)
            .then(|| ((u128::from(subflow.queued_memory) << 32) / u128::from(*average)) as u64)
    }
}

impl PathScheduler for LeastLinger {
    fn name(&self) -> &'static str {
        "linux"
    }

    fn schedule(&mut self, request: &SendRequest, subflows: &[SubflowView]) -> Decision {
        let best = candidates(subflows)
            .filter(|subflow| subflow.alive())
            .filter_map(|subflow| Some((self.linger(subflow)?, subflow)))
            .min_by_key(|(linger, _)| *linger);
        let Some((_, best)) = best.filter(|(_, best)| best.can_queue()) else {
            return Decision::WAIT;
        };
        let burst = BURST.min(request.window_left());
        if burst == 0 {
            return Decision::WAIT;
        }
        let memory = best.queued_memory;
        let pacing = best.pacing_rate.bytes_per_second();
        let average = self.average(best);
        *average = ((u128::from(*average) * u128::from(memory)
            + u128::from(pacing) * u128::from(burst))
            / u128::from(burst + memory)) as u64;
        Decision::next_on(best.id, request.whole_fragments(burst))
    }

    fn on_window_closed(&mut self, subflows: &[SubflowView]) {
        // The kernel initialises a new subflow's average here, too, although nothing can be sent.
        for subflow in candidates(subflows).filter(|subflow| subflow.alive()) {
            self.linger(subflow);
        }
    }

    fn on_replaced(&mut self, id: SubflowId) {
        if let Some(average) = self.average.get_mut(id.index()) {
            *average = 0;
        }
    }
}
