//! Common parts of the coupled controllers: the view of a sibling, the selection of the siblings in the sums,
//! and the counting of acknowledgements.

pub(super) mod kernel;

use anabranch_plugin::Parameters;
use anabranch_units::{Duration, Rate, SubflowId};

use super::reno::slow_start;
use super::{AckSample, CongestionState, Window};

/// A subflow is dead after this number of consecutive timeouts without progress. One timeout is not enough:
/// it may be accidental, and it has already reduced the window to one segment.
const DEAD_AFTER_TIMEOUTS: u32 = 2;

/// A sibling subflow, as passed to a coupled controller.
#[derive(Clone, Copy, Debug)]
pub struct SiblingView {
    /// The identity of the subflow.
    pub id: SubflowId,
    /// Its window.
    pub window: Window,
    /// Its smoothed RTT. `None` before the first sample.
    pub srtt: Option<Duration>,
    /// Its minimum RTT over the last 300 s.
    pub min_rtt: Option<Duration>,
    /// Its congestion state.
    pub state: CongestionState,
    /// Whether it can carry data: it is established and is not closing.
    pub usable: bool,
    /// Whether it has data in flight or waiting, and nothing was acknowledged for several timer periods.
    pub stale: bool,
    /// Consecutive retransmission timeouts without progress.
    pub consecutive_timeouts: u32,
    /// Payload bytes acknowledged since its last loss.
    pub bytes_since_loss: u64,
    /// Payload bytes acknowledged between its last two losses.
    pub bytes_between_losses: u64,
    /// The rate that its controller publishes (`CongestionController::published_rate`).
    pub published_rate: Option<Rate>,
}

/// A subflow that is included in the sums of a coupled controller.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path<'a> {
    /// Its window, segments.
    pub(super) cwnd: f64,
    /// Its smoothed RTT, seconds.
    pub(super) rtt: f64,
    pub(super) view: &'a SiblingView,
}

impl Path<'_> {
    /// Returns the rate, segments per second.
    pub(super) fn rate(&self) -> f64 {
        self.cwnd / self.rtt
    }
}

/// The parameters that all coupled controllers have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Coupling {
    /// Whether dead subflows are excluded from the sums.
    dead_leave: bool,
    /// Whether growth counts acknowledgements instead of acknowledged segments.
    per_acknowledgement: bool,
    recovering: Recovering,
}

/// The window used for a sibling in fast recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recovering {
    /// The slow-start threshold, which is the window after recovery (RFC 6356 section 4; `mptcp_get_crt_cwnd`
    /// of OLIA).
    Threshold,
    /// The current window (`mptcp_balia_recalc_ai`).
    Window,
}

impl Coupling {
    /// Reads the parameters `dead` and `count`.
    pub(super) fn read(parameters: &mut Parameters<'_>, recovering: Recovering) -> Self {
        Self {
            dead_leave: leaves(parameters),
            per_acknowledgement: parameters.word("count", &["segments", "acks"]) == "acks",
            recovering,
        }
    }

    /// Returns the number of paths N. Unlike the sums, it includes paths without an RTT (`cnt_established`).
    pub(super) fn established(self, ack: &AckSample<'_>) -> usize {
        let there = |view: &&SiblingView| view.id == ack.id || counts(view, self.dead_leave);
        ack.siblings.iter().filter(there).count()
    }

    /// Returns the subflows in the sums: those that have an RTT and are not closed. With `dead = "leave"`,
    /// dead subflows are excluded. The subflow itself is always included, because it was just acknowledged.
    pub(super) fn paths<'a>(
        self,
        ack: &'a AckSample<'_>,
        window: &Window,
    ) -> impl Iterator<Item = Path<'a>> + Clone {
        let own_cwnd = window.cwnd;
        ack.siblings.iter().filter_map(move |view| {
            let own = view.id == ack.id;
            let rtt = view.srtt.filter(|_| own || counts(view, self.dead_leave))?;
            let cwnd = match view.state {
                _ if own => own_cwnd,
                CongestionState::Recovery if self.recovering == Recovering::Threshold => {
                    view.window.ssthresh
                }
                _ => view.window.cwnd,
            };
            Some(Path { cwnd: f64::from(cwnd), rtt: rtt.as_secs_f64(), view })
        })
    }

    /// Applies slow start, which is not coupled. Returns the number of acknowledged segments that remain for
    /// congestion avoidance, at most one with `count = "acks"`.
    pub(super) fn after_slow_start(self, ack: &AckSample<'_>, window: &mut Window) -> u32 {
        if !ack.may_grow || !ack.cwnd_limited {
            return 0;
        }
        let left = if window.in_slow_start() { slow_start(window, ack.acked) } else { ack.acked };
        if self.per_acknowledgement { left.min(1) } else { left }
    }
}

/// Reads the parameter `dead`. Returns whether dead subflows are excluded from the sums.
pub(super) fn leaves(parameters: &mut Parameters<'_>) -> bool {
    parameters.word("dead", &["leave", "stay"]) == "leave"
}

/// Returns whether a sibling is included in the sums. A closed sibling is not. If `dead_leave` is true, a
/// sibling that is stale or has timed out repeatedly is not included either.
pub(super) fn counts(view: &SiblingView, dead_leave: bool) -> bool {
    let dead = view.stale || view.consecutive_timeouts >= DEAD_AFTER_TIMEOUTS;
    view.usable && !(dead && dead_leave)
}
