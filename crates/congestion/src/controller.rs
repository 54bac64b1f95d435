//! The trait of congestion controllers.

use std::fmt;

use anabranch_units::{CongestionState, Instant, Rate};

use super::{AckSample, CongestionEvent, LostSegment, Opened, TransmitStart, Window, WindowChange};

/// A congestion controller: one per subflow.
///
/// Only `on_ack` and `on_congestion` are required. Every other callback has no effect by default.
pub trait CongestionController: fmt::Debug + Send {
    /// The name in the table.
    fn name(&self) -> &'static str;

    /// The plug-in has failed. Its actions are ignored, and the caller must close the connection.
    fn failed(&self) -> bool {
        false
    }

    /// The handshake is complete. The first data is paced by the measurements of the handshake.
    fn on_open(&mut self, _opened: &Opened, _window: &mut Window) {}

    /// An acknowledgement arrived. The window may grow only if `ack.may_grow` and `ack.cwnd_limited` are true.
    fn on_ack(&mut self, ack: &AckSample<'_>, window: &mut Window);

    /// Congestion was found. Set `window.ssthresh`; the core then reduces `cwnd` to it (PRR, RFC 6937).
    fn on_congestion(&mut self, event: &CongestionEvent, window: &mut Window);

    /// The retransmission timer expired: set `window.ssthresh`; the core sets `cwnd` (RFC 5681 section 3.1).
    fn on_rto(&mut self, event: &CongestionEvent, window: &mut Window) {
        self.on_congestion(event, window);
    }

    /// A segment was marked lost. Called once for each segment, before the `on_congestion` or `on_rto` that follows
    /// from the loss, and before the acknowledgement's `on_ack`.
    fn on_lost(&mut self, _segment: &LostSegment, _window: &Window) {}

    /// The congestion state changed.
    fn on_state(&mut self, _now: Instant, _state: CongestionState, _window: &mut Window) {}

    /// Data is about to be sent, and nothing was in flight.
    fn on_transmit_start(&mut self, _start: &TransmitStart, _window: &mut Window) {}

    /// The window was restarted after idleness (`CA_EVENT_CWND_RESTART`).
    fn on_idle_restart(&mut self, _now: Instant) {}

    /// The core set the window itself.
    fn on_window_changed(&mut self, _cause: WindowChange, _window: &mut Window) {}

    /// Returns the window after a reduction proved spurious (`undo_cwnd`). `prior_cwnd` is the window before the
    /// reduction.
    fn undo_cwnd(&mut self, window: &Window, prior_cwnd: u32) -> u32 {
        window.cwnd.max(prior_cwnd)
    }

    /// The rate to pace at; `None` leaves the subflow unpaced with Linux's default estimate.
    fn pacing_rate(&self) -> Option<Rate> {
        None
    }

    /// Whether the controller replaces PRR and the window after idleness (`cong_control`).
    fn owns_recovery(&self) -> bool {
        false
    }

    /// How many windows the send buffer holds (`sndbuf_expand`).
    fn send_buffer_factor(&self) -> u32 {
        2
    }

    /// The least number of segments that leave together, if the window has room (`min_tso_segs`).
    fn least_burst(&self) -> u32 {
        2
    }

    /// Whether the controller itself currently limits the subflow, so that rate samples do not show the path's rate.
    fn marks_application_limited(&self) -> bool {
        false
    }

    /// The controller reads `AckSample::siblings`.
    fn wants_siblings(&self) -> bool {
        false
    }

    /// Whether both ends must report each mark separately, for a controller that counts marks (DCTCP's echo, RFC 8257
    /// section 3.2). Each acknowledgement then echoes only the marks of the data that it acknowledges.
    fn counts_marks(&self) -> bool {
        false
    }

    /// The rate that this controller shows to its siblings (`SiblingView::published_rate`).
    fn published_rate(&self) -> Option<Rate> {
        None
    }
}
