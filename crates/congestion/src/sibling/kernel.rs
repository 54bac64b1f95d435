//! Common parts of the coupled controllers in the form of the out-of-tree kernel, v0.94 on Linux 4.14: its list of
//! subflows and its integers.
//!
//! A subflow is in the sums while it can send (`mptcp_sk_can_send`) and has an RTT. A dead subflow stays in them
//! until it is closed. Slow start leaves nothing for congestion avoidance, and an acknowledgement counts once,
//! whatever it acknowledges. On plain TCP, these controllers behave like Reno.

use anabranch_plugin::Parameters;
use anabranch_units::SubflowId;

use super::{SiblingView, counts};
use crate::reno::slow_start;
use crate::{AckSample, Window};

/// A subflow as the kernel's sums have it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelPath<'a> {
    /// Its window (`snd_cwnd`), also in fast recovery.
    pub(crate) cwnd: u32,
    /// Its smoothed RTT in eighths of microseconds (`srtt_us`).
    pub(crate) srtt_us: u64,
    pub(crate) view: &'a SiblingView,
}

/// The growth that follows from an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Growth {
    /// No growth: the acknowledgement did not advance, a reduction is in progress, or the window was not fully used.
    None,
    /// Slow start has grown.
    SlowStart,
    /// Congestion avoidance counts one more acknowledgement.
    Avoidance,
}

/// Reads `dead`, whose default is the kernel's behaviour. Returns whether a dead subflow is removed from the
/// sums.
pub(crate) fn leaves(parameters: &mut Parameters<'_>) -> bool {
    parameters.word("dead", &["stay", "leave"]) == "leave"
}

/// The subflows in the sums in the order of the kernel's list (`mptcp_for_each_sk`): the newest first, the initial
/// one last. `id` is the subflow itself, whose window is `window`.
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

/// Does slow start and returns the remaining growth (the head of `mptcp_ccc_cong_avoid` and similar functions).
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

/// Counts an acknowledgement (`snd_cwnd_cnt`). Returns true if the window must grow, which is at the acknowledgement
/// after `per` others.
pub(crate) fn count(counter: &mut u64, per: u64) -> bool {
    let full = *counter >= per;
    *counter = if full { 0 } else { *counter + 1 };
    full
}
