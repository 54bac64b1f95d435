//! LIA, the coupled congestion control of RFC 6356 section 3 (`mptcp_coupled.c` of the out-of-tree kernel).
//! It counts acknowledged segments.
//!
//! Differences from the RFC and the kernel:
//! - alpha is computed at every acknowledgement, in floating point. RFC 6356 section 4.1 allows a lower
//!   frequency. In the kernel, alpha is a multiple of 2^-12 segments and counts acknowledgements (`count =
//!   "acks"`).
//! - A sibling in fast recovery enters the sums with its ssthresh, as in RFC 6356 section 4. The kernel uses
//!   its window.
//! - All subflows are assumed to have the same MSS.
//!
//! `form = "printed"` uses the loss rule printed in PC16, `cwnd + 1/cwnd`, which contradicts the text of that
//! paper. A loss then does not reduce the window, and a timeout halves it. `form = "kernel"` selects the
//! kernel's integer arithmetic (`lia/kernel.rs`).

mod kernel;

use anabranch_plugin::Parameters;
use anabranch_units::RandomStream;

use super::reno::additive_increase;
use super::sibling::{Coupling, Recovering};
use super::{AckSample, CongestionController, CongestionEvent, Window};

/// The linked increases algorithm.
#[derive(Debug)]
pub struct Lia {
    coupling: Coupling,
    printed: bool,
    /// Segments acknowledged towards the next increase.
    counter: u32,
}

impl Lia {
    pub(super) fn build(
        parameters: &mut Parameters<'_>,
        _random: RandomStream,
    ) -> Box<dyn CongestionController> {
        let form = parameters.word("form", &["reference", "printed", "kernel"]);
        if form == "kernel" {
            return kernel::Kernel::build(parameters);
        }
        let coupling = Coupling::read(parameters, Recovering::Threshold);
        Box::new(Self { coupling, printed: form == "printed", counter: 0 })
    }

    /// Returns the number of acknowledged segments for which the window grows by one: `cwnd_total` / alpha,
    /// but at least as many as Reno needs.
    fn segments_per_increase(&self, ack: &AckSample<'_>, window: &Window) -> u32 {
        let paths = self.coupling.paths(ack, window);
        let best = paths.clone().map(|path| path.rate() / path.rtt).fold(0.0, f64::max);
        let sum: f64 = paths.map(|path| path.rate()).sum();
        // If no path is in the sums, the quotient is 0 / 0. This is NaN, which is cast to 0.
        (sum * sum / best).round() as u32
    }
}

impl CongestionController for Lia {
    fn name(&self) -> &'static str {
        "lia"
    }

    fn on_ack(&mut self, ack: &AckSample<'_>, window: &mut Window) {
        let acked = self.coupling.after_slow_start(ack, window);
        if acked > 0 {
            let per = self.segments_per_increase(ack, window).max(window.cwnd);
            additive_increase(window, &mut self.counter, per, acked);
        }
    }

    fn on_congestion(&mut self, event: &CongestionEvent, window: &mut Window) {
        if self.printed {
            window.ssthresh = window.cwnd;
        } else {
            self.on_rto(event, window);
        }
    }

    fn on_rto(&mut self, _event: &CongestionEvent, window: &mut Window) {
        self.counter = 0;
        window.ssthresh = (window.cwnd / 2).max(2);
    }

    fn wants_siblings(&self) -> bool {
        true
    }
}
