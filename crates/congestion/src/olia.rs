//! OLIA, opportunistic linked increases (Khalili et al., `CoNEXT` 2012;
//! draft-khalili-mptcp-congestion-control; `mptcp_olia.c` of the out-of-tree kernel).
//!
//! The best paths have the largest l / RTT^2, as in the kernel. (The draft's text has other powers in
//! places.) l is the number of bytes acknowledged since the last loss or between the last two losses,
//! whichever is larger. Fractions of a segment are carried over. The kernel drops the remainder after each
//! whole segment.
//!
//! `form = "printed"` uses equation 5 of HO20, whose numerator lacks 1 / `RTT_i`^2. RTTs are in seconds
//! there, because the paper names no unit. `form = "kernel"` selects the kernel's integer arithmetic
//! (`olia/kernel.rs`).

mod kernel;

use anabranch_plugin::Parameters;
use anabranch_units::RandomStream;

use super::reno::additive_increase;
use super::sibling::{Coupling, Path, Recovering};
use super::{AckSample, CongestionController, CongestionEvent, Window};

/// The opportunistic linked increases algorithm.
#[derive(Debug)]
pub struct Olia {
    coupling: Coupling,
    printed: bool,
    /// Acknowledged segments towards the next increase. Used only if there is a single path.
    counter: u32,
    /// The fraction of a segment that is still to be added to the window, or to be removed if negative.
    credit: f64,
}

/// Returns l / RTT^2, by which paths are compared. It grows with the square of the rate of one TCP on that
/// path.
fn quality(path: &Path<'_>) -> f64 {
    let bytes = path.view.bytes_since_loss.max(path.view.bytes_between_losses);
    bytes as f64 / (path.rtt * path.rtt)
}

/// Returns alpha, which moves growth between paths. The best paths that do not have the largest window gain,
/// and the paths with the largest window lose. If there are no such best paths, alpha is zero. `all` is the
/// number N of paths.
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

    /// Returns the growth in segments per acknowledged segment. `None` means that Reno's growth applies to a
    /// single path.
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
        // The segments counted towards the next increase are kept, as in the kernel.
        window.ssthresh = (window.cwnd / 2).max(2);
    }

    fn wants_siblings(&self) -> bool {
        true
    }
}
