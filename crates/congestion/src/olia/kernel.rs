//! OLIA as computed by `mptcp_olia.c` of the out-of-tree kernel.
//!
//! The growth counter is in units of 2^-10 segments. Each acknowledgement adds a
//! value that is rounded down. At a whole segment, the window grows and the counter returns to zero.
//!
//! The best paths have the largest product of the bytes between losses and the square of an RTT. The product
//! has 64 bits. At 110 ms it overflows with 24 MB between losses.

use anabranch_plugin::Parameters;

use super::super::reno::Reno;
use super::super::sibling::kernel::{Growth, KernelPath, grow, leaves, paths};
use super::super::{AckSample, CongestionController, CongestionEvent, CongestionState, Window};

/// Fraction bits of a window.
const SCALE: u32 = 10;
/// The value of the counter at which the window grows by one segment.
const SEGMENT: i64 = (1 << SCALE) - 1;

/// Opportunistic linked increases in the integer arithmetic of the kernel.
#[derive(Debug)]
pub(super) struct Kernel {
    dead_leave: bool,
    reno: Reno,
    /// The fraction of a segment that is still to be added to the window, or to be removed if negative
    /// (`mptcp_snd_cwnd_cnt`).
    counter: i64,
}

/// The term epsilon, which moves growth between paths.
#[derive(Clone, Copy)]
struct Epsilon {
    numerator: i64,
    denominator: u64,
}

/// Returns the window of a path. During fast recovery it is the window after the recovery
/// (`mptcp_get_crt_cwnd`).
fn window_of(path: &KernelPath<'_>) -> u64 {
    let recovering = path.view.state == CongestionState::Recovery;
    u64::from(if recovering { path.view.window.ssthresh } else { path.cwnd })
}

/// Returns the bytes between losses and the square of the RTT.
fn interval(path: &KernelPath<'_>) -> (u64, u64) {
    // During a reduction, the kernel does not count acknowledged bytes (`mptcp_loss3`).
    let reducing = matches!(path.view.state, CongestionState::Cwr | CongestionState::Recovery);
    let since = if reducing { 0 } else { path.view.bytes_since_loss };
    (since.max(path.view.bytes_between_losses), path.srtt_us * path.srtt_us)
}

/// Computes epsilon for the subflow `own` (`mptcp_get_epsilon`).
fn epsilon<'a>(
    own: &KernelPath<'a>,
    paths: impl Iterator<Item = KernelPath<'a>> + Clone,
) -> Epsilon {
    let most = paths.clone().map(|path| window_of(&path)).max().unwrap_or(0);
    let (mut best_bytes, mut best_square) = (0_u64, 1_u64);
    for (bytes, square) in paths.clone().map(|path| interval(&path)) {
        if bytes.wrapping_mul(best_square) >= best_bytes.wrapping_mul(square) {
            (best_bytes, best_square) = (bytes, square);
        }
    }
    let largest = |path: &KernelPath<'_>| window_of(path) == most;
    let better = |path: &KernelPath<'_>| {
        let (bytes, square) = interval(path);
        !largest(path) && bytes.wrapping_mul(best_square) == best_bytes.wrapping_mul(square)
    };
    let all = paths.clone().count() as u64;
    let better_ones = paths.clone().filter(better).count() as u64;
    if better_ones == 0 {
        Epsilon { numerator: 0, denominator: 1 }
    } else if better(own) {
        Epsilon { numerator: 1, denominator: all * better_ones }
    } else if largest(own) {
        let largest_ones = paths.filter(largest).count() as u64;
        Epsilon { numerator: -1, denominator: all * largest_ones }
    } else {
        Epsilon { numerator: 0, denominator: 1 }
    }
}

impl Kernel {
    pub(super) fn build(parameters: &mut Parameters<'_>) -> Box<dyn CongestionController> {
        Box::new(Self { dead_leave: leaves(parameters), reno: Reno::default(), counter: 0 })
    }

    /// Returns the value that an acknowledgement adds to the counter (`mptcp_olia_cong_avoid`).
    fn increase(&self, ack: &AckSample<'_>, window: &Window) -> i64 {
        let paths = paths(ack.siblings, ack.id, window, self.dead_leave);
        let Some(own) = paths.clone().find(|path| path.view.id == ack.id) else { return 0 };
        let Epsilon { numerator, denominator } = epsilon(&own, paths.clone());
        // One is added, so that the rate is never zero (`mptcp_get_rate`).
        let sum: u64 = paths
            .map(|path| (window_of(&path) << SCALE).wrapping_mul(own.srtt_us) / path.srtt_us.max(1))
            .sum();
        let rate = (sum + 1).wrapping_mul(sum + 1);
        let cwnd = u64::from(window.cwnd);
        let scaled = cwnd << SCALE;
        let share = denominator.wrapping_mul(scaled).wrapping_mul(scaled);
        let whole = denominator.wrapping_mul(cwnd).wrapping_mul(rate).max(1);
        let part = |of: u64| ((of << SCALE) / whole) as i64;
        match numerator {
            -1 if share < rate => -part(rate - share),
            -1 => part(share - rate),
            1 => part(rate.wrapping_add(share)),
            _ => part(share),
        }
    }
}

impl CongestionController for Kernel {
    fn name(&self) -> &'static str {
        "olia"
    }

    fn on_ack(&mut self, ack: &AckSample<'_>, window: &mut Window) {
        if !ack.multipath {
            self.reno.on_ack(ack, window);
            return;
        }
        if grow(ack, window) != Growth::Avoidance {
            return;
        }
        self.counter += self.increase(ack, window);
        if self.counter >= SEGMENT {
            window.cwnd += 1;
            self.counter = 0;
        } else if self.counter <= -SEGMENT {
            window.cwnd = window.cwnd.saturating_sub(1).max(1);
            self.counter = 0;
        }
    }

    fn on_congestion(&mut self, event: &CongestionEvent, window: &mut Window) {
        // The count towards the next increase is kept.
        self.reno.on_congestion(event, window);
    }

    fn wants_siblings(&self) -> bool {
        true
    }
}
