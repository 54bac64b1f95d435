//! Wait or send (UQ18, future work): "evaluate the RTT to determine whether it will schedule ... or wait for
//! the high performing path freed up, instead of picking the next shortest RTT path", by "throughput and RTT
//! of individual path".
//!
//! The paper gives no formula; this is a reconstruction. Suppose min-rtt would send on subflow s because
//! every subflow with a smaller srtt is full. The scheduler waits instead if, for one of those subflows, f,
//!
//! ```text
//! backlog / rate_f + srtt_f / 2  <  patience * (mss / rate_s + srtt_s / 2)
//! ```
//!
//! that is, if f alone would deliver all pending data before s delivers one segment. A rate is cwnd * mss /
//! srtt. The backlog is the data that f holds beyond its window, plus the unscheduled data inside the
//! connection's window, at least one segment.

use anabranch_plugin::Parameters;

use super::{Decision, PathScheduler, SendRequest, SubflowView, candidates};
use anabranch_units::CongestionState;

/// The scheduler min-rtt, which may wait for a faster subflow.
#[derive(Debug)]
pub struct WaitOrSend {
    patience: f64,
}

impl WaitOrSend {
    pub(super) fn build(parameters: &mut Parameters<'_>) -> Box<dyn PathScheduler> {
        Box::new(Self { patience: parameters.number("patience", 1.0, 0.0..=10.0) })
    }
}

/// Returns the nanoseconds until `bytes` further bytes on the subflow have arrived.
fn delivery(view: &SubflowView, bytes: u64) -> f64 {
    let window = f64::from(view.cwnd) * f64::from(view.mss);
    view.srtt.as_nanos() as f64 * (bytes as f64 / window + 0.5)
}

impl PathScheduler for WaitOrSend {
    fn name(&self) -> &'static str {
        "wait-or-send"
    }

    fn schedule(&mut self, request: &SendRequest, subflows: &[SubflowView]) -> Decision {
        let free = candidates(subflows).filter(|view| view.can_send());
        let Some(slow) = free.min_by_key(|view| view.srtt) else { return Decision::WAIT };
        let segment = u64::from(slow.mss);
        let allowed = self.patience * delivery(slow, segment);
        let backlog = request.unscheduled().min(request.window_left()).max(segment);
        let freed_in_time = |fast: &SubflowView| {
            let window = u64::from(fast.cwnd) * u64::from(fast.mss);
            let beyond = fast.held_bytes().saturating_sub(window);
            delivery(fast, beyond + backlog) < allowed
        };
        let mut full = candidates(subflows).filter(|view| {
            view.alive() && !view.repairs_in(CongestionState::Loss) && view.srtt < slow.srtt
        });
        if full.any(freed_in_time) { Decision::WAIT } else { slow.one_segment() }
    }
}
