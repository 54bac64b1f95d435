//! Common parts of the coupled controllers as in the out-of-tree kernel (v0.94 on Linux 4.14): its list of
//! subflows and its integer arithmetic.
//!
//! The sums include a subflow while it can send (`mptcp_sk_can_send`) and has an RTT. A dead subflow stays in
//! the sums until it is closed. An acknowledgement that is used in slow start does not count in congestion
//! avoidance. In congestion avoidance, an acknowledgement counts as one, however many segments it
//! acknowledges. On plain TCP, these controllers behave like Reno.

use anabranch_plugin::Parameters;
use anabranch_units::SubflowId;

use super::{SiblingView, counts};
use crate::reno::slow_start;
use crate::{AckSample, Window};

/// A subflow that is included in the kernel's sums.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelPath<'a> {
    /// The window, also in fast recovery (`snd_cwnd`).
    pub(crate) cwnd: u32,
    /// Smoothed RTT in units of 1/8 us (`srtt_us`).
    pub(crate) srtt_us: u64,
    pub(crate) view: &'a SiblingView,
}

/// The kind of growth at an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Growth {
    /// No growth. The acknowledgement did not advance, a reduction is in progress, or the window was not
    /// fully used.
    None,
    /// The window has grown by slow start.
    SlowStart,
    /// Congestion avoidance: the acknowledgement counts towards the next increase.
    Avoidance,
}

/// Reads the parameter `dead`, whose default is the kernel's behaviour. Returns whether dead subflows are
/// excluded.
pub(crate) fn leaves(parameters: &mut Parameters<'_>) -> bool {
    parameters.word("dead", &["stay", "leave"]) == "leave"
}

/// Returns the subflows in the sums, in the order of the kernel's list (`mptcp_for_each_sk`): the newest
/// first, the initial one last. `id` is the subflow itself, and `window` its window.
pub(crate) fn paths<'a>(
    siblings: &'a [SiblingView],
    id: SubflowId,
    window: &Window,
    dead_leave: bool,
) -> impl Iterator<Item = KernelPath<'a>> + Clone {
    let own_cwnd = window.cwnd;
    siblings.iter().rev().filter_map(move |view| {
        let own = view.id == id;
        let srtt = view.srtt.filter(|_| own || counts(view, dead_leave))?;
        let cwnd = if own { own_cwnd } else { view.window.cwnd };
        Some(KernelPath { cwnd, srtt_us: srtt.as_micros() * 8, view })
    })
}

/// Applies slow start, and returns the kind of growth (the beginning of `mptcp_ccc_cong_avoid` and similar
/// functions).
pub(crate) fn grow(ack: &AckSample<'_>, window: &mut Window) -> Growth {
    if !ack.may_grow || !ack.cwnd_limited {
        Growth::None
    } else if window.in_slow_start() {
        slow_start(window, ack.acked);
        Growth::SlowStart
    } else {
        Growth::Avoidance
    }
}

/// Counts an acknowledgement (`snd_cwnd_cnt`). Returns true if the window must grow, which is at the
/// acknowledgement after `per` others.
pub(crate) fn count(counter: &mut u64, per: u64) -> bool {
    let full = *counter >= per;
    *counter = if full { 0 } else { *counter + 1 };
    full
}
