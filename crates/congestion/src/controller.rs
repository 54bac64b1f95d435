//! The trait of congestion controllers.

use std::fmt;

use anabranch_units::{CongestionState, Instant, Rate};

use super::{AckSample, CongestionEvent, LostSegment, Opened, TransmitStart, Window, WindowChange};

/// The congestion controller of one subflow.
///
/// Only `on_ack` and `on_congestion` are required. Every other callback has no effect by default.
pub trait CongestionController: fmt::Debug + Send {
    /// Returns the name in the table of controllers.
    fn name(&self) -> &'static str;

    /// Returns whether the plug-in has failed. Its actions are then ignored, and the caller must close the
    /// connection.
    fn failed(&self) -> bool {
        false
    }

    /// Called when the handshake is complete. The controller may set the first pacing rate from the
    /// handshake's RTT.
    fn on_open(&mut self, _opened: &Opened, _window: &mut Window) {}

    /// Processes an acknowledgement. The window may grow only if `ack.may_grow` and `ack.cwnd_limited` are
    /// true.
    fn on_ack(&mut self, ack: &AckSample<'_>, window: &mut Window);

    /// Sets `window.ssthresh` after congestion. The sender then reduces `cwnd` to it (PRR, RFC 6937).
    fn on_congestion(&mut self, event: &CongestionEvent, window: &mut Window);

    /// Sets `window.ssthresh` after the retransmission timer has expired. The sender sets `cwnd` (RFC 5681
    /// section 3.1).
    fn on_rto(&mut self, event: &CongestionEvent, window: &mut Window) {
        self.on_congestion(event, window);
    }

    /// Called for each segment that is marked lost. This call comes before the `on_congestion` or `on_rto`
    /// for the same loss, and before the acknowledgement's `on_ack`.
    fn on_lost(&mut self, _segment: &LostSegment, _window: &Window) {}

    /// Called when the congestion state has changed.
    fn on_state(&mut self, _now: Instant, _state: CongestionState, _window: &mut Window) {}

    /// Called when data is about to be sent and nothing is in flight.
    fn on_transmit_start(&mut self, _start: &TransmitStart, _window: &mut Window) {}

    /// Called when the window was reset after an idle period (`CA_EVENT_CWND_RESTART`).
    fn on_idle_restart(&mut self, _now: Instant) {}

    /// Called when the sender has changed the window itself.
    fn on_window_changed(&mut self, _cause: WindowChange, _window: &mut Window) {}

    /// Returns the window after a spurious reduction is undone (`undo_cwnd`). `prior_cwnd` is the window
    /// before the reduction.
    fn undo_cwnd(&mut self, window: &Window, prior_cwnd: u32) -> u32 {
        window.cwnd.max(prior_cwnd)
    }

    /// Returns the pacing rate. `None` means that the subflow is not paced and has Linux's default rate estimate.
    fn pacing_rate(&self) -> Option<Rate> {
        None
    }

    /// Returns whether the controller sets the window itself during recovery and after idle periods
    /// (`cong_control`).
    fn owns_recovery(&self) -> bool {
        false
    }

    /// Returns the size of the send buffer in congestion windows (`sndbuf_expand`).
    fn send_buffer_factor(&self) -> u32 {
        2
    }

    /// Returns the smallest number of segments in a burst, if the window permits (`min_tso_segs`).
    fn least_burst(&self) -> u32 {
        2
    }

    /// Returns whether the controller currently limits the subflow, so that rate samples do not show the
    /// path's rate.
    fn marks_application_limited(&self) -> bool {
        false
    }

    /// Returns whether the controller reads `AckSample::siblings`.
    fn wants_siblings(&self) -> bool {
        false
    }

    /// Returns whether the controller counts ECN marks. Both ends then report each mark separately, as in
    /// DCTCP: an acknowledgement echoes only the marks of the data that it acknowledges (RFC 8257 section
    /// 3.2).
    fn counts_marks(&self) -> bool {
        false
    }

    /// Returns the rate shown to the sibling subflows (`SiblingView::published_rate`).
    fn published_rate(&self) -> Option<Rate> {
        None
    }
}
