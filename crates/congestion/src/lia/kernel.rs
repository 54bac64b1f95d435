//! LIA as computed by `mptcp_coupled.c` of the out-of-tree kernel, in integers and including a bug of that
//! code.
//!
//! The best path has the largest (cwnd << 32) / srtt^2, with srtt in units of 1/8 us. This integer is zero
//! for windows of up to 48 segments at 57 ms, 149 at 100 ms and 499 at 183 ms. If it is zero on all paths,
//! the last path in the kernel's list is the best. This is the initial subflow.
//!
//! alpha is an integer of the connection. It is computed again when a window has grown or a subflow has
//! changed its state.

use super::super::reno::Reno;
use super::super::sibling::kernel::{Growth, KernelPath, count, grow, leaves, paths};
use super::super::{
    AckSample, CongestionController, CongestionEvent, CongestionState, SiblingView, Window,
};
use anabranch_plugin::Parameters;
use anabranch_units::{Instant, SubflowId};

/// Fraction bits of `alpha_scale_num`, and of the value by which paths are compared.
const NUMERATOR_BITS: u32 = 32;
/// Fraction bits of `alpha_scale_den`.
const DENOMINATOR_BITS: u32 = 10;
/// Fraction bits of alpha (`alpha_scale`).
const ALPHA_BITS: u32 = 12;
/// With this number of fraction bits, no path's value is rounded to zero.
const EXACT_BITS: u32 = 54;

/// Linked increases in the integer arithmetic of the kernel.
#[derive(Debug)]
pub(super) struct Kernel {
    dead_leave: bool,
    /// The number of bits by which a window is shifted for the comparison of paths.
    bits: u32,
    reno: Reno,
    /// Acknowledgements towards the next increase (`snd_cwnd_cnt`).
    counter: u64,
    alpha: u64,
    /// alpha must be computed again, because of `forced_update` or because another subflow computed it.
    forced: bool,
    /// The other subflows at the last acknowledgement: identity, window and state.
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

    /// Requests a new alpha if another subflow has changed. In the kernel, alpha belongs to the connection. A
    /// subflow computes it when its own window has grown. After a subflow changes its state, alpha is computed
    /// at the next ACK of any subflow.
    fn check_siblings(&mut self, ack: &AckSample<'_>) {
        let others = || ack.siblings.iter().filter(|view| view.id != ack.id);
        let moved = |(view, seen): (&SiblingView, &(SubflowId, u32, CongestionState))| {
            view.id != seen.0 || view.window.cwnd > seen.1 || view.state != seen.2
        };
        self.forced |= others().count() != self.seen.len() || others().zip(&self.seen).any(moved);
        self.seen.clear();
        self.seen.extend(others().map(|view| (view.id, view.window.cwnd, view.state)));
    }

    /// Computes alpha (`mptcp_ccc_recalc_alpha`).
    fn recalculate(&mut self, ack: &AckSample<'_>, window: &Window) {
        self.forced = false;
        let paths = paths(ack.siblings, ack.id, window, self.dead_leave);
        let value = |path: &KernelPath<'_>| {
            let square = u128::from(path.srtt_us) * u128::from(path.srtt_us);
            (u128::from(path.cwnd) << self.bits) / square.max(1)
        };
        // If several paths have the largest value, the last one is the best.
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
        self.check_siblings(ack);
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
