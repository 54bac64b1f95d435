//! OLIA, opportunistic linked increases (Khalili et al., `CoNEXT` 2012;
//! draft-khalili-mptcp-congestion-control; `mptcp_olia.c` of the out-of-tree kernel).
//!
//! The best paths have the largest l / RTT^2, as in the kernel (the draft's text has other powers in places). Here l
//! is the number of bytes since the last loss or between the last two losses, whichever is larger. Fractions are
//! carried over. The kernel drops the remainder beyond a whole segment. `form = "printed"` is equation 5 of HO20,
//! whose numerator lacks 1 / `RTT_i`^2. RTTs are in seconds there, because the paper names no unit. `form = "kernel"`
//! is the kernel's own arithmetic (`olia/kernel.rs`).

mod kernel;

use anabranch_plugin::Parameters;
use anabranch_units::RandomStream;

use super::reno::additive_increase;
use super::sibling::{Coupling, Path, Recovering};
use super::{AckSample, CongestionController, CongestionEvent, Window};

/// Opportunistic linked increases.
#[derive(Debug)]
pub struct Olia {
    coupling: Coupling,
    printed: bool,
    /// Acknowledged segments towards the next increase, used with a single path.
    counter: u32,
    /// The fraction of a segment by which the window must still grow; if negative, shrink.
    credit: f64,
}

/// l / RTT^2, which grows with the square of the rate that a TCP would have there.
fn quality(path: &Path<'_>) -> f64 {
    let bytes = path.view.bytes_since_loss.max(path.view.bytes_between_losses);
    bytes as f64 / (path.rtt * path.rtt)
}

/// alpha: growth moves from the paths with the largest windows (M) to the best paths (B) that are
/// not among them, if there are any; `all` is their number N.
fn alpha<'a>(own: &Path<'a>, paths: impl Iterator<Item = Path<'a>> + Clone, all: usize) -> f64 {
    let most = paths.clone().map(|path| path.cwnd).fold(0.0, f64::max);
    let best = paths.clone().map(|path| quality(&path)).fold(0.0, f64::max);
    let is_largest = |path: &Path<'_>| path.cwnd >= most;
    let is_better = |path: &Path<'_>| path.cwnd < most && quality(path) >= best;
    let all = all as f64;
    let better = paths.clone().filter(is_better).count() as f64;
    if better == 0.0 {
        0.0
    } else if is_largest(own) {
        -1.0 / (all * paths.filter(is_largest).count() as f64)
    } else if is_better(own) {
        1.0 / (all * better)
    } else {
        0.0
    }
}

impl Olia {
    pub(super) fn build(
        parameters: &mut Parameters<'_>,
        _random: RandomStream,
    ) -> Box<dyn CongestionController> {
        let form = parameters.word("form", &["reference", "printed", "kernel"]);
        if form == "kernel" {
            return kernel::Kernel::build(parameters);
        }
        let coupling = Coupling::read(parameters, Recovering::Threshold);
        Box::new(Self { coupling, printed: form == "printed", counter: 0, credit: 0.0 })
    }

    /// Returns the growth in segments for each acknowledged segment. `None` means Reno's growth, for a single path.
    fn increase(&self, ack: &AckSample<'_>, window: &Window) -> Option<f64> {
        let paths = self.coupling.paths(ack, window);
        let own = paths.clone().find(|path| path.view.id == ack.id)?;
        if !self.printed && paths.clone().count() == 1 {
            return None;
        }
        let sum: f64 = paths.clone().map(|path| path.rate()).sum();
        let share = if self.printed { own.cwnd } else { own.rate() / own.rtt };
        let all = self.coupling.established(ack);
        Some(share / (sum * sum) + alpha(&own, paths, all) / own.cwnd)
    }
}

impl CongestionController for Olia {
    fn name(&self) -> &'static str {
        "olia"
    }

    fn on_ack(&mut self, ack: &AckSample<'_>, window: &mut Window) {
        let acked = self.coupling.after_slow_start(ack, window);
        if acked == 0 {
            return;
        }
        if let Some(increase) = self.increase(ack, window) {
            self.credit += f64::from(acked) * increase;
            let whole = self.credit.trunc();
            self.credit -= whole;
            window.cwnd = window.cwnd.saturating_add_signed(whole as i32).max(1);
        } else {
            let per = window.cwnd;
            additive_increase(window, &mut self.counter, per, acked);
        }
    }

    fn on_congestion(&mut self, _event: &CongestionEvent, window: &mut Window) {
        // The count towards the next segment is kept, as in the kernel.
        window.ssthresh = (window.cwnd / 2).max(2);
    }

    fn wants_siblings(&self) -> bool {
        true
    }
}
