//! Earliest completion first (Lim et al., `CoNEXT` 2017) as in the out-of-tree kernel (`mptcp_ecf.c`). If
//! only a slower subflow has room, ECF waits for the fast one if the transfer then ends sooner.
//!
//! The kernel's own ECF is `ecf(min-rtt-0.9x)`. The margin for variation, `delta`, is a standard deviation in
//! the paper; TCP measures the mean deviation. The kernel uses half of `rttvar_us`, which is four mean
//! deviations and at least 200 ms (`tcp_rtt_estimator`). Two mean deviations are therefore the default. The
//! kernel's products may overflow 32 bits; here they are floating-point numbers.

use anabranch_plugin::Parameters;

use super::{Ask, Decision, PathScheduler, SendRequest, SubflowView, ask, base, nearer};

/// Waits for the fast subflow if the transfer then ends sooner.
#[derive(Debug)]
pub struct Ecf {
    base: Box<dyn PathScheduler>,
    /// The hysteresis: while the scheduler waits, the slow subflow must be faster by this fraction.
    beta: f64,
    /// The number of mean deviations in `delta`.
    deviations: f64,
    waiting: bool,
}

impl Ecf {
    pub(super) fn build(parameters: &mut Parameters<'_>) -> Box<dyn PathScheduler> {
        let beta = parameters.number("beta", 0.25, 0.0..=1.0);
        let deviations = match parameters.word("delta", &["kernel", "paper"]) {
            "paper" => 1.0,
            _ => 2.0,
        };
        Box::new(Self { base: base(parameters, "min-rtt"), beta, deviations, waiting: false })
    }

    /// Returns whether waiting for `fast` ends the transfer sooner than sending on `slow`. `unscheduled` is
    /// in bytes.
    fn waits(&mut self, fast: &SubflowView, slow: &SubflowView, unscheduled: u64) -> bool {
        let srtt = |view: &SubflowView| view.srtt.as_nanos() as f64;
        let window = |view: &SubflowView| f64::from(view.cwnd) * f64::from(slow.mss);
        let delta = self.deviations * fast.rttvar.max(slow.rttvar).as_nanos() as f64;
        let margin = if self.waiting { 1.0 + self.beta } else { 1.0 };
        let unscheduled = unscheduled as f64;
        let sent = unscheduled.max(window(fast)) + window(fast);
        if srtt(fast) * sent >= window(fast) * (srtt(slow) + delta) * margin {
            self.waiting = false;
            return false;
        }
        let left = unscheduled.max(window(slow));
        let too_slow = srtt(slow) * left >= window(slow) * (2.0 * srtt(fast) + delta);
        self.waiting |= too_slow;
        too_slow
    }
}

impl PathScheduler for Ecf {
    fn name(&self) -> &'static str {
        "ecf"
    }

    fn schedule(&mut self, request: &SendRequest, subflows: &[SubflowView]) -> Decision {
        let decision = ask(self.base.as_mut(), request, subflows);
        let Decision::Send { on, from: None, .. } = decision else { return decision };
        if request.ask != Ask::NewData {
            return decision;
        }
        let Some((fast, slow)) = nearer(subflows, on) else { return decision };
        if self.waits(fast, slow, request.unscheduled()) { Decision::WAIT } else { decision }
    }

    fn base(&self) -> Option<&dyn PathScheduler> {
        Some(self.base.as_ref())
    }

    fn base_mut(&mut self) -> Option<&mut dyn PathScheduler> {
        Some(self.base.as_mut())
    }
}
