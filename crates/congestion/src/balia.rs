//! BALIA, the balanced linked adaptation algorithm (Peng et al., IEEE/ACM `ToN` 2016;
//! draft-walid-mptcp-congestion-control; `mptcp_balia.c` of the out-of-tree kernel).
//!
//! Let `x_r` = `w_r` / `RTT_r` be the rate of path r, and let `a_r` be the largest rate of all paths divided
//! by `x_r`. For each acknowledged segment, the window of path r grows by `x_r` / (`RTT_r` (sum x)^2) (1 +
//! `a_r`) / 2 (4 + `a_r`) / 5, but by at most Reno's 1 / `w_r`. A loss reduces the window by `w_r` / 2
//! min(`a_r`, 1.5).
//!
//! The kernel rounds `a_r` down to a whole number (`ratio = "whole"`). A path therefore behaves like the
//! fastest path while its rate is more than half of the fastest rate. A path in fast recovery enters the sums
//! with its current window. `form = "kernel"` selects the kernel's integer arithmetic (`balia/kernel.rs`).

mod kernel;

use anabranch_plugin::Parameters;
use anabranch_units::RandomStream;

use super::reno::additive_increase;
use super::sibling::{Coupling, Recovering};
use super::{AckSample, CongestionController, CongestionEvent, Window};

/// Balanced linked adaptation.
#[derive(Debug)]
pub struct Balia {
    coupling: Coupling,
    whole_ratio: bool,
    /// Segments acknowledged towards the next increase.
    counter: u32,
    /// The ratio `a` at the last acknowledgement: the fastest path's rate divided by this subflow's rate.
    ratio: f64,
    /// The number of paths at the last acknowledgement.
    paths: usize,
}

impl Balia {
    pub(super) fn build(
        parameters: &mut Parameters<'_>,
        _random: RandomStream,
    ) -> Box<dyn CongestionController> {
        if parameters.word("form", &["reference", "kernel"]) == "kernel" {
            return kernel::Kernel::build(parameters);
        }
        let whole_ratio = parameters.word("ratio", &["exact", "whole"]) == "whole";
        let coupling = Coupling::read(parameters, Recovering::Window);
        Box::new(Self { coupling, whole_ratio, counter: 0, ratio: 1.0, paths: 1 })
    }

    /// Updates the ratio from the rates of all paths. Returns the number of acknowledged segments for which the
    /// window grows by one.
    fn couple(&mut self, ack: &AckSample<'_>, window: &Window) -> u32 {
        self.paths = self.coupling.established(ack);
        let paths = self.coupling.paths(ack, window);
        let Some(own) = paths.clone().find(|path| path.view.id == ack.id) else {
            return window.cwnd;
        };
        let fastest = paths.clone().map(|path| path.rate()).fold(0.0, f64::max);
        let sum: f64 = paths.map(|path| path.rate()).sum();
        self.ratio = fastest / own.rate();
        let share = own.rate() / (own.rtt * sum * sum);
        let increase = share * f64::midpoint(1.0, self.ratio) * ((4.0 + self.ratio) / 5.0);
        (1.0 / increase).round() as u32
    }
}

impl CongestionController for Balia {
    fn name(&self) -> &'static str {
        "balia"
    }

    fn on_ack(&mut self, ack: &AckSample<'_>, window: &mut Window) {
        let acked = self.coupling.after_slow_start(ack, window);
        let per = self.couple(ack, window);
        if acked > 0 {
            additive_increase(window, &mut self.counter, per.max(window.cwnd), acked);
        }
    }

    fn on_congestion(&mut self, _event: &CongestionEvent, window: &mut Window) {
        self.counter = 0;
        let ratio = if self.whole_ratio { self.ratio.floor() } else { self.ratio };
        let kept = f64::from(window.cwnd) * (1.0 - ratio.min(1.5) / 2.0);
        // With several paths, each window may fall to one segment. A single path has Reno's minimum of two.
        window.ssthresh = (kept as u32).max(if self.paths > 1 { 1 } else { 2 });
    }

    fn wants_siblings(&self) -> bool {
        true
    }
}
