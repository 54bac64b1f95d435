//! CUBIC as printed in the papers (HO20 equation 1, SD18 equation 3, PC16 equation 1), not as in RFC 9438:
//! `cwnd = C (t - K)^3 + W_max` with `K = cbrt(W_max beta / C)`, and `cwnd = beta cwnd` at a loss.
//!
//! In the formula of K, beta is the fraction that a loss removes. In the formula of a loss, it is the
//! fraction that remains. The window therefore falls to `beta W_max` and then jumps to the start of the
//! curve, `(1 - beta) W_max`. The formulas agree only for 0.5.
//!
//! As in the papers, there is no Reno-friendly region, no `HyStart` and no fast convergence. Slow start lasts
//! until the first loss.

use anabranch_plugin::Parameters;
use anabranch_units::Instant;

use super::super::reno::slow_start;
use super::super::{AckSample, CongestionController, CongestionEvent, Window};

/// The curve since the last loss.
#[derive(Clone, Copy, Debug)]
struct Curve {
    start: Instant,
    /// Time from the start of the curve to the plateau, seconds.
    k: f64,
    /// The window before the loss, segments.
    plateau: f64,
}

/// CUBIC as printed in the papers.
#[derive(Debug)]
pub(super) struct PrintedCubic {
    c: f64,
    beta: f64,
    curve: Option<Curve>,
}

impl PrintedCubic {
    pub(super) fn new(parameters: &mut Parameters<'_>) -> Self {
        Self {
            c: parameters.number("c", 0.4, 0.01..=10.0),
            beta: parameters.number("beta", 0.7, 0.05..=0.95),
            curve: None,
        }
    }
}

impl CongestionController for PrintedCubic {
    fn name(&self) -> &'static str {
        "cubic"
    }

    fn on_ack(&mut self, ack: &AckSample<'_>, window: &mut Window) {
        if !ack.may_grow || !ack.cwnd_limited {
            return;
        }
        if window.in_slow_start() {
            slow_start(window, ack.acked);
            return;
        }
        // If an idle period ended slow start before any loss, the current window is the plateau.
        let plateau = f64::from(window.cwnd);
        let curve = *self.curve.get_or_insert(Curve { start: ack.now, k: 0.0, plateau });
        let t = ack.now.since(curve.start).as_secs_f64() - curve.k;
        window.cwnd = (self.c * t * t * t + curve.plateau).max(2.0) as u32;
        // The window may now be below the threshold. The threshold is lowered too, so that slow start does
        // not begin again.
        window.ssthresh = window.ssthresh.min(window.cwnd);
    }

    fn on_congestion(&mut self, event: &CongestionEvent, window: &mut Window) {
        let plateau = f64::from(window.cwnd);
        let k = (plateau * self.beta / self.c).cbrt();
        self.curve = Some(Curve { start: event.now, k, plateau });
        window.ssthresh = ((plateau * self.beta) as u32).max(2);
    }
}
