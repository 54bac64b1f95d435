//! BALIA as computed by `mptcp_balia.c` of the out-of-tree kernel, including two bugs of that code.
//!
//! The kernel computes the increase and the reduction together and stores both. In slow start it computes
//! them at every acknowledgement. Otherwise it computes them when the window has grown and when a reduction
//! has ended.
//!
//! The first bug: a change of the congestion state should also cause a computation, but the code sets a flag
//! of the subflow and reads the flag of the connection. The second bug: a scheduler's penalty halves the
//! window and leaves the stored reduction unchanged. If a loss follows, the reduction can be larger than the
//! window. The subtraction then wraps around, and the window has no limit until the next loss.

use super::super::reno::Reno;
use super::super::sibling::kernel::{Growth, KernelPath, count, grow, leaves, paths};
use super::super::{
    AckSample, CongestionController, CongestionEvent, SiblingView, Window, WindowChange,
};
use anabranch_plugin::Parameters;
use anabranch_units::SubflowId;

/// The rate above which rates are scaled down, bytes per second (`rate_scale_limit`).
const LARGEST_RATE: u64 = 1 << 25;
/// The number of bits by which rates are scaled down at a time (`scale_num`).
const STEP_BITS: u32 = 5;
/// Fraction bits of the ratio `a` (`alpha_scale`). An integer division has already removed the fraction
/// itself.
const ALPHA_BITS: u32 = 10;
/// The slow-start threshold that means "no threshold" (`TCP_INFINITE_SSTHRESH`).
const NO_THRESHOLD: u32 = 0x7fff_ffff;

/// Balanced linked adaptation in the kernel's integers.
#[derive(Debug)]
pub(super) struct Kernel {
    dead_leave: bool,
    reno: Reno,
    /// Acknowledgements towards the next increase (`snd_cwnd_cnt`).
    counter: u64,
    /// The number of acknowledgements for which the window grows by one segment (`ai`).
    per: u64,
    /// The number of segments by which a loss reduces the window (`md`).
    cut: u64,
    multipath: bool,
    /// State at the last acknowledgement: all subflows, the identity of this subflow, and its MSS in bytes.
    siblings: Vec<SiblingView>,
    id: SubflowId,
    mss: u32,
}

impl Kernel {
    pub(super) fn build(parameters: &mut Parameters<'_>) -> Box<dyn CongestionController> {
        Box::new(Self {
            dead_leave: leaves(parameters),
            reno: Reno::default(),
            counter: 0,
            per: 0,
            cut: 0,
            multipath: false,
            siblings: Vec::new(),
            id: SubflowId(0),
            mss: 0,
        })
    }

    /// Computes the increase and the reduction (`mptcp_balia_recalc_ai`).
    fn recalculate(&mut self, window: &Window) {
        let cwnd = u64::from(window.cwnd);
        (self.per, self.cut) = (cwnd, cwnd / 2);
        let mss = u64::from(self.mss);
        let rate_of = |path: KernelPath<'_>| {
            let scaled = (mss * u64::from(path.cwnd)).wrapping_mul(8_000_000);
            scaled.checked_div(path.srtt_us).unwrap_or(0)
        };
        let paths = paths(&self.siblings, self.id, window, self.dead_leave);
        let own = paths.clone().find(|path| path.view.id == self.id).map_or(0, rate_of);
        let fastest = paths.clone().map(rate_of).max().unwrap_or(0);
        if own == 0 {
            return;
        }
        let ratio = fastest / own;
        let mut shift = 0;
        while fastest >> shift > LARGEST_RATE {
            shift += STEP_BITS;
        }
        let sum: u64 = paths.map(|path| rate_of(path) >> shift).sum();
        let (own, fastest) = (own >> shift, fastest >> shift);
        let square = sum.wrapping_mul(sum).wrapping_mul(10);
        let per = (square / (own + fastest)).wrapping_mul(cwnd) / (own * 4 + fastest);
        if per > 0 {
            self.per = per;
        }
        let most = 3 << ALPHA_BITS >> 1;
        self.cut = ((cwnd >> 1) * (ratio << ALPHA_BITS).min(most)) >> ALPHA_BITS;
    }
}

impl CongestionController for Kernel {
    fn name(&self) -> &'static str {
        "balia"
    }

    fn on_ack(&mut self, ack: &AckSample<'_>, window: &mut Window) {
        self.multipath = ack.multipath;
        if !ack.multipath {
            self.reno.on_ack(ack, window);
            return;
        }
        self.siblings.clear();
        self.siblings.extend_from_slice(ack.siblings);
        (self.id, self.mss) = (ack.id, ack.mss);
        match grow(ack, window) {
            Growth::None => {}
            Growth::SlowStart => self.recalculate(window),
            Growth::Avoidance => {
                if count(&mut self.counter, self.per) {
                    window.cwnd += 1;
                    self.recalculate(window);
                }
            }
        }
    }

    fn on_congestion(&mut self, event: &CongestionEvent, window: &mut Window) {
        self.counter = 0;
        if !self.multipath {
            self.reno.on_congestion(event, window);
            return;
        }
        let kept = window.cwnd.wrapping_sub(self.cut as u32).max(1);
        window.ssthresh = if kept >= NO_THRESHOLD { u32::MAX } else { kept };
    }

    fn on_rto(&mut self, event: &CongestionEvent, window: &mut Window) {
        self.on_congestion(event, window);
        // As at Linux's event `CA_EVENT_LOSS`.
        self.recalculate(window);
    }

    fn on_window_changed(&mut self, cause: WindowChange, window: &mut Window) {
        // As at Linux's event `CA_EVENT_COMPLETE_CWR`.
        if matches!(cause, WindowChange::Reduction | WindowChange::Undo) {
            self.recalculate(window);
        }
    }

    fn wants_siblings(&self) -> bool {
        true
    }
}
