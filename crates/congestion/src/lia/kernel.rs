//! LIA as `mptcp_coupled.c` of the out-of-tree kernel computes it, in its integers and with its fault.
//!
//! The best path has the largest (cwnd << 32) / srtt^2 in integers, with srtt in eighths of microseconds. This is
//! zero up to 48 segments at 57 ms, 149 at 100 ms and 499 at 183 ms. If it is zero on all paths, the last of the list
//! counts as the best: the initial subflow. alpha is an integer of the connection. It is computed again when a window
//! has grown or a subflow changed its state.

use super::super::reno::Reno;
use super::super::sibling::kernel::{Growth, KernelPath, count, grow, leaves, paths};
use super::super::{
    AckSample, CongestionController, CongestionEvent, CongestionState, SiblingView, Window,
};
use anabranch_plugin::Parameters;
use anabranch_units::{Instant, SubflowId};

/// Bits of `alpha_scale_num`, and of the numerator that is used to compare paths.
const NUMERATOR_BITS: u32 = 32;
/// Bits of `alpha_scale_den`.
const DENOMINATOR_BITS: u32 = 10;
/// Fraction bits of alpha (`alpha_scale`).
const ALPHA_BITS: u32 = 12;
/// With this many numerator bits, no path's value is rounded to zero.
const EXACT_BITS: u32 = 54;

/// Linked increases in the kernel's integers.
#[derive(Debug)]
pub(super) struct Kernel {
    dead_leave: bool,
    /// Bits by which a window is shifted before paths are compared.
    bits: u32,
    reno: Reno,
    /// Acknowledgements towards the next increase (`snd_cwnd_cnt`).
    counter: u64,
    alpha: u64,
    /// alpha must be computed again (`forced_update`, or another subflow has done so).
    forced: bool,
    /// The other subflows as of the last acknowledgement.
    seen: Vec<(SubflowId, u32, CongestionState)>,
}

impl Kernel {
    pub(super) fn build(parameters: &mut Parameters<'_>) -> Box<dyn CongestionController> {
        let exact = parameters.word("best", &["whole", "exact"]) == "exact";
        Box::new(Self {
            dead_leave: leaves(parameters),
            bits: if exact { EXACT_BITS } else { NUMERATOR_BITS },
            reno: Reno::default(),
            counter: 0,
            alpha: 1,
            forced: false,
            seen: Vec::new(),
        })
    }

    /// In the kernel, alpha is one number of the connection. A subflow computes it when its own window has grown;
    /// after a change of state, the first subflow that is acknowledged does.
    fn heed_others(&mut self, ack: &AckSample<'_>) {
        let others = || ack.siblings.iter().filter(|view| view.id != ack.id);
        let moved = |(view, seen): (&SiblingView, &(SubflowId, u32, CongestionState))| {
            view.id != seen.0 || view.window.cwnd > seen.1 || view.state != seen.2
        };
        self.forced |= others().count() != self.seen.len() || others().zip(&self.seen).any(moved);
        self.seen.clear();
        self.seen.extend(others().map(|view| (view.id, view.window.cwnd, view.state)));
    }

    /// `mptcp_ccc_recalc_alpha`.
    fn recalculate(&mut self, ack: &AckSample<'_>, window: &Window) {
        self.forced = false;
        let paths = paths(ack.siblings, ack.id, window, self.dead_leave);
        let value = |path: &KernelPath<'_>| {
            let square = u128::from(path.srtt_us) * u128::from(path.srtt_us);
            (u128::from(path.cwnd) << self.bits) / square.max(1)
        };
        // Of paths with equal values, the last one is the best.
        self.alpha = paths.clone().max_by_key(value).map_or(1, |best| {
            let term = |path: KernelPath<'_>| {
                let scaled = u64::from(path.cwnd) << DENOMINATOR_BITS;
                scaled.wrapping_mul(best.srtt_us) / path.srtt_us.max(1)
            };
            let sum: u64 = paths.map(term).sum();
            let numerator = u64::from(best.cwnd) << NUMERATOR_BITS;
            numerator.checked_div(sum.wrapping_mul(sum)).unwrap_or(1).max(1)
        });
    }
}

impl CongestionController for Kernel {
    fn name(&self) -> &'static str {
        "lia"
    }

    fn on_ack(&mut self, ack: &AckSample<'_>, window: &mut Window) {
        if !ack.multipath {
            self.reno.on_ack(ack, window);
            return;
        }
        self.heed_others(ack);
        match grow(ack, window) {
            Growth::None => {}
            Growth::SlowStart => self.recalculate(ack, window),
            Growth::Avoidance => {
                if self.forced {
                    self.recalculate(ack, window);
                }
                let per = ((1 << ALPHA_BITS) / self.alpha).max(u64::from(window.cwnd));
                if count(&mut self.counter, per) {
                    window.cwnd += 1;
                    self.recalculate(ack, window);
                }
            }
        }
    }

    fn on_congestion(&mut self, event: &CongestionEvent, window: &mut Window) {
        self.counter = 0;
        self.reno.on_congestion(event, window);
    }

    fn on_state(&mut self, _now: Instant, _state: CongestionState, _window: &mut Window) {
        self.forced = true;
    }

    fn wants_siblings(&self) -> bool {
        true
    }
}
