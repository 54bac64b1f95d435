//! CCP, Capacity and Congestion Probing: the control law of PC16 and SD18 (equation 4 in both). Parts that no
//! source describes are reconstructed.
//!
//! From the papers:
//! - At every acknowledgement, `cwnd = (Kp (B - x) - in_flight) / 2`. B is the data that the path can store,
//!   and x is the backlog.
//! - A loss does not reduce the window. The window is frozen while losses are repaired.
//! - Slow start is Reno's, up to the threshold or the first loss.
//!
//! Reconstructed, each as a parameter:
//! - the gain Kp;
//! - B, the capacity times the longest RTT;
//! - x, the capacity times the RTT above its minimum;
//! - the capacity, measured by packet pairs (`CapProbe`, which CCP's paper cites);
//! - slow start up to a fraction of B (`CapStart`, by the same authors);
//! - the smallest and the largest window.

mod derivative;
mod path;

use anabranch_plugin::Parameters;
use anabranch_units::{Duration, Instant, RandomStream};

use super::reno::slow_start;
use super::{AckSample, CongestionController, CongestionEvent, CongestionState, Window};

pub(super) use derivative::Derivative;
use path::Path;

/// The proportional law, optionally with a derivative term.
#[derive(Debug)]
pub struct Ccp {
    kp: f64,
    derivative: Option<Derivative>,
    /// Slow start ends when the window reaches this fraction of B. With `None` it ends at the first loss.
    start: Option<f64>,
    /// The smallest window, segments.
    floor: f64,
    /// The largest window as a multiple of B.
    ceiling: f64,
    /// Whether the law sets the window during recovery too.
    unfrozen: bool,
    path: Path,
}

impl Ccp {
    pub(super) fn build(
        parameters: &mut Parameters<'_>,
        _random: RandomStream,
    ) -> Box<dyn CongestionController> {
        Box::new(Self::new(parameters, None))
    }

    pub(super) fn new(parameters: &mut Parameters<'_>, derivative: Option<Derivative>) -> Self {
        let kp = parameters.number("kp", 3.0, 0.0..=100.0);
        let pairs = parameters.word("capacity", &["pairs", "delivery-rate"]) == "pairs";
        let memory = parameters.number("memory", 30.0, 1.0..=3600.0);
        Self {
            kp,
            derivative,
            start: parameters.number_or("start", 0.5, 0.0..=2.0, "loss"),
            floor: parameters.number("floor", 2.0, 1.0..=100.0),
            ceiling: parameters.number("ceiling", 2.0, 0.1..=100.0),
            unfrozen: parameters.word("recovery", &["frozen", "law"]) == "law",
            path: Path::new(pairs, Duration::from_secs_f64(memory)),
        }
    }
}

impl CongestionController for Ccp {
    fn name(&self) -> &'static str {
        if self.derivative.is_some() { "ccpd" } else { "ccp" }
    }

    fn on_ack(&mut self, ack: &AckSample<'_>, window: &mut Window) {
        let view = self.path.observe(ack);
        let trend = match (&mut self.derivative, view) {
            (Some(derivative), Some(view)) => derivative.term(ack, view.backlog),
            _ => 0.0,
        };
        if !ack.may_grow {
            return;
        }
        let ripe = |share: f64| view.is_some_and(|v| f64::from(window.cwnd) >= share * v.storage);
        if window.in_slow_start() && !self.start.is_some_and(ripe) {
            if ack.cwnd_limited {
                slow_start(window, ack.acked);
            }
            return;
        }
        // The law does not depend on the window, so it applies even if the window is not fully used.
        let Some(view) = view else { return };
        let law = self.kp * (view.storage - view.backlog) - trend - f64::from(ack.in_flight);
        let ceiling = (self.ceiling * view.storage).max(self.floor);
        window.cwnd = (law / 2.0).clamp(self.floor, ceiling).round() as u32;
        // The window may now be below the threshold. The threshold is lowered too, so that slow start does
        // not begin again.
        window.ssthresh = window.cwnd;
    }

    /// Keeps the window: recovery ends with the window with which it began.
    fn on_congestion(&mut self, _event: &CongestionEvent, window: &mut Window) {
        window.ssthresh = window.cwnd;
    }

    fn owns_recovery(&self) -> bool {
        self.unfrozen
    }

    fn on_state(&mut self, _now: Instant, state: CongestionState, _window: &mut Window) {
        if state != CongestionState::Open {
            self.path.interrupt();
        }
    }
}
