//! Common parts of the coupled controllers: the view of a sibling, the siblings that count, and the counting of
//! acknowledgements.

pub(super) mod kernel;

use anabranch_plugin::Parameters;
use anabranch_units::{Duration, Rate, SubflowId};

use super::reno::slow_start;
use super::{AckSample, CongestionState, Window};

/// A subflow is dead after this number of consecutive timeouts without progress. A single timeout may be accidental,
/// and has already reduced the window to one segment.
const DEAD_AFTER_TIMEOUTS: u32 = 2;

/// A coupled controller's view of a sibling subflow.
#[derive(Clone, Copy, Debug)]
pub struct SiblingView {
    /// Which subflow.
    pub id: SubflowId,
    /// Its window.
    pub window: Window,
    /// Its smoothed RTT, once there is a sample.
    pub srtt: Option<Duration>,
    /// Its minimum RTT over the last 300 s.
    pub min_rtt: Option<Duration>,
    /// Its state.
    pub state: CongestionState,
    /// It can carry data: established, and neither closed nor closing.
    pub usable: bool,
    /// Data waits on it and nothing was acknowledged for several timer periods.
    pub stale: bool,
    /// Retransmission timeouts in a row, without progress between them.
    pub consecutive_timeouts: u32,
    /// Payload bytes acknowledged since its last loss.
    pub bytes_since_loss: u64,
    /// Payload bytes acknowledged between its last two losses.
    pub bytes_between_losses: u64,
    /// The rate that its controller publishes (`CongestionController::published_rate`).
    pub published_rate: Option<Rate>,
}

/// A subflow in the sums of a coupled controller.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path<'a> {
    /// Its window, segments.
    pub(super) cwnd: f64,
    /// Its smoothed RTT, seconds.
    pub(super) rtt: f64,
    pub(super) view: &'a SiblingView,
}

impl Path<'_> {
    /// Segments per second.
    pub(super) fn rate(&self) -> f64 {
        self.cwnd / self.rtt
    }
}

/// The parameters that all coupled controllers have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Coupling {
    /// Whether a dead subflow is removed from the sums.
    dead_leave: bool,
    /// Whether growth counts acknowledgements instead of acknowledged segments.
    per_acknowledgement: bool,
    recovering: Recovering,
}

/// The window that is used for a sibling in fast recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recovering {
    /// Its threshold, the window after recovery (RFC 6356 section 4; `mptcp_get_crt_cwnd` of OLIA).
    Threshold,
    /// Its current window (`mptcp_balia_recalc_ai`).
    Window,
}

impl Coupling {
    /// Reads `dead` and `count`.
    pub(super) fn read(parameters: &mut Parameters<'_>, recovering: Recovering) -> Self {
        Self {
            dead_leave: leaves(parameters),
            per_acknowledgement: parameters.word("count", &["segments", "acks"]) == "acks",
            recovering,
        }
    }

    /// The number of paths N: all that could be in the sums, even without an RTT (`cnt_established`).
    pub(super) fn established(self, ack: &AckSample<'_>) -> usize {
        let there = |view: &&SiblingView| view.id == ack.id || counts(view, self.dead_leave);
        ack.siblings.iter().filter(there).count()
    }

    /// The subflows in the sums: those with an RTT that are not closed, and with `dead = "leave"` not dead either.
    /// The subflow itself always counts, because it was just acknowledged.
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

    /// Applies slow start, which is not coupled. Returns the remaining segments for congestion avoidance; with `count
    /// = "acks"`, one per acknowledgement.
    pub(super) fn after_slow_start(self, ack: &AckSample<'_>, window: &mut Window) -> u32 {
        if !ack.may_grow || !ack.cwnd_limited {
            return 0;
        }
        let left = if window.in_slow_start() { slow_start(window, ack.acked) } else { ack.acked };
        if self.per_acknowledgement { left.min(1) } else { left }
    }
}

/// Reads the parameter `dead`. Returns true if a dead subflow is removed from the sums.
pub(super) fn leaves(parameters: &mut Parameters<'_>) -> bool {
    parameters.word("dead", &["leave", "stay"]) == "leave"
}

/// Returns whether a sibling is in the sums: it is not closed and, if dead ones are removed, neither stale nor
/// repeatedly timed out without progress.
pub(super) fn counts(view: &SiblingView, dead_leave: bool) -> bool {
    let dead = view.stale || view.consecutive_timeouts >= DEAD_AFTER_TIMEOUTS;
    view.usable && !(dead && dead_leave)
}
