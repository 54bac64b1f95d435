//! Wait or send (UQ18, future work): "evaluate the RTT to determine whether it will schedule ... or wait
//! for the high performing path freed up, instead of picking the next shortest RTT path", by
//! "throughput and RTT of individual path".
//!
//! The paper gives no formula; this is ours. Where min-rtt would send on subflow s because every one
//! with a smaller srtt is full, s waits if for one of these, f,
//!
//! ```text
//! backlog / rate_f + srtt_f / 2  <  patience * (mss / rate_s + srtt_s / 2)
//! ```
//!
//! that is, if f alone would have delivered all that may be sent before s delivers one segment. Rates
//! are cwnd * mss / srtt; the backlog is what f holds beyond its window, what is unscheduled and inside
//! the connection's window, and one segment at least.

use anabranch_plugin::Parameters;

use super::{Decision, PathScheduler, SendRequest, SubflowView, candidates};
use anabranch_units::CongestionState;

/// min-rtt that may wait for a faster subflow.
#[derive(Debug)]
pub struct WaitOrSend {
    patience: f64,
}

impl WaitOrSend {
    pub(super) fn build(parameters: &mut Parameters<'_>) -> Box<dyn PathScheduler> {
        Box::new(Self { patience: parameters.number("patience", 1.0, 0.0..=10.0) })
    }
}

/// Nanoseconds until `bytes` more on the subflow have arrived.
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
