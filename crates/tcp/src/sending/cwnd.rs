//! The congestion window: its controller, the congestion state, its use by the application, and pacing.

mod loss_interval;
mod pacing;
mod validation;

use anabranch_units::{Instant, Rate};

use crate::config::TcpConfig;
use anabranch_congestion::{
    AckSample, CongestionController, CongestionEvent, CongestionKind, CongestionState,
    INITIAL_WINDOW, LostSegment, Opened, TransmitStart, Window, WindowChange,
};

use loss_interval::LossInterval;
use pacing::Pacer;
use validation::Usage;
pub(super) use validation::Use;

/// The congestion window, and the parts that determine its size.
#[derive(Debug)]
pub struct Cwnd {
    window: Window,
    controller: Box<dyn CongestionController>,
    state: CongestionState,
    usage: Usage,
    pacer: Pacer,
    loss_interval: LossInterval,
    /// Whether new data must carry CWR, because the window was reduced (`TCP_ECN_QUEUE_CWR`).
    reports_reduction: bool,
    remembers_full: bool,
    notes_full: bool,
    grows_buffer_while_full: bool,
    /// The number of times that the scheduler halved the window.
    penalties: u64,
}

impl Cwnd {
    /// Creates the initial window with its controller.
    pub(super) fn new(config: &TcpConfig, controller: Box<dyn CongestionController>) -> Self {
        Self {
            window: Window { cwnd: INITIAL_WINDOW, ssthresh: u32::MAX },
            controller,
            state: CongestionState::Open,
            usage: Usage::default(),
            pacer: Pacer::new(config.pacing, config.stack.timer_pacing),
            loss_interval: LossInterval::default(),
            reports_reduction: false,
            remembers_full: config.stack.remembers_full_window,
            notes_full: config.stack.notes_full_window,
            grows_buffer_while_full: config.stack.grows_while_full,
            penalties: 0,
        }
    }

    /// Sets the window. For tests of the layer above.
    pub(super) fn set_window(&mut self, segments: u32) {
        self.window.cwnd = segments;
    }

    /// Returns the window and the slow-start threshold, segments.
    #[inline]
    pub fn window(&self) -> Window {
        self.window
    }

    /// Returns the congestion state.
    #[inline]
    pub fn state(&self) -> CongestionState {
        self.state
    }

    /// Returns the congestion controller.
    #[inline]
    pub fn controller(&self) -> &dyn CongestionController {
        self.controller.as_ref()
    }

    /// Returns the pacer.
    #[inline]
    pub(crate) fn pacer(&self) -> &Pacer {
        &self.pacer
    }

    /// Returns the number of times that the scheduler halved the window.
    pub(super) fn penalties(&self) -> u64 {
        self.penalties
    }

    /// Returns the number of bytes acknowledged since the last loss, and between the last two losses. `acked`
    /// is the total so far.
    pub(super) fn bytes_since_losses(&self, acked: u64) -> (u64, u64) {
        (self.loss_interval.since(acked), self.loss_interval.between())
    }

    /// Returns whether `in_flight` segments fill the window.
    #[inline]
    pub(super) fn is_full(&self, in_flight: u32) -> bool {
        in_flight >= self.window.cwnd
    }

    /// Returns the number of further segments that the window permits.
    #[inline]
    pub(super) fn room(&self, in_flight: u32) -> u32 {
        self.window.cwnd.saturating_sub(in_flight)
    }

    /// Returns whether a window reduction is in progress (`tcp_in_cwnd_reduction`).
    #[inline]
    pub(super) fn is_reducing(&self) -> bool {
        matches!(self.state, CongestionState::Cwr | CongestionState::Recovery)
    }

    /// Returns whether PRR determines the window.
    #[inline]
    pub(super) fn reduces_proportionally(&self) -> bool {
        self.is_reducing() && !self.controller.owns_recovery()
    }

    /// Returns the slow-start threshold to restore later (`tcp_current_ssthresh`).
    pub(super) fn current_ssthresh(&self) -> u32 {
        if self.is_reducing() {
            self.window.ssthresh
        } else {
            self.window.ssthresh.max(self.window.cwnd / 2 + self.window.cwnd / 4)
        }
    }

    /// Opens the window at the end of the handshake.
    pub(super) fn open(&mut self, now: Instant, opened: &Opened) {
        self.controller.on_open(opened, &mut self.window);
        self.usage.on_window_set(now);
    }

    /// Begins a window reduction (`tcp_init_cwnd_reduction`). Returns the window before it.
    pub(super) fn begin_reduction(
        &mut self,
        now: Instant,
        kind: CongestionKind,
        in_flight: u32,
    ) -> u32 {
        let prior = self.window.cwnd;
        let event = CongestionEvent { now, kind, in_flight };
        self.controller.on_congestion(&event, &mut self.window);
        self.reports_reduction = true;
        prior
    }

    /// Sets the window during a reduction.
    #[inline]
    pub(super) fn reduce_to(&mut self, cwnd: u32) {
        self.window.cwnd = cwnd;
    }

    /// Ends a window reduction (`tcp_end_cwnd_reduction`). `undoable` means that the reduction could have
    /// been undone.
    pub(super) fn end_reduction(&mut self, now: Instant, undoable: bool) {
        if self.controller.owns_recovery() {
            return;
        }
        let cut = self.window.ssthresh < u32::MAX;
        if cut && (self.state == CongestionState::Cwr || undoable) {
            self.window.cwnd = self.window.ssthresh;
            self.usage.on_window_set(now);
            self.controller.on_window_changed(WindowChange::Reduction, &mut self.window);
        }
    }

    /// Undoes a window reduction (`tcp_undo_cwnd_reduction`). `prior` is the window before it. The threshold
    /// in `prior` is 0 if the reduction must stay.
    pub(super) fn undo(&mut self, now: Instant, prior: Window) {
        if prior.ssthresh > 0 {
            self.window.cwnd = self.controller.undo_cwnd(&self.window, prior.cwnd);
            if prior.ssthresh > self.window.ssthresh {
                self.window.ssthresh = prior.ssthresh;
                self.reports_reduction = false;
            }
        }
        self.usage.on_window_set(now);
        self.controller.on_window_changed(WindowChange::Undo, &mut self.window);
    }

    /// Reduces the threshold after a retransmission timeout that is a new loss.
    pub(super) fn on_timeout(&mut self, now: Instant, in_flight: u32) {
        let event = CongestionEvent { now, kind: CongestionKind::Timeout, in_flight };
        self.controller.on_rto(&event, &mut self.window);
    }

    /// Sets the window to one segment more than those in flight, after a retransmission timeout.
    pub(super) fn reduce_after_timeout(&mut self, now: Instant, in_flight: u32) {
        self.window.cwnd = in_flight + 1;
        self.usage.on_window_set(now);
        self.controller.on_window_changed(WindowChange::Timeout, &mut self.window);
        self.reports_reduction = true;
    }

    /// Sets the threshold to `current_ssthresh`, and leaves the window unchanged.
    pub(super) fn reduce_ssthresh(&mut self) {
        self.window.ssthresh = self.current_ssthresh();
    }

    /// Changes the congestion state. If this is a new loss, `loss` is the number of bytes acknowledged so
    /// far.
    pub(super) fn set_state(&mut self, now: Instant, state: CongestionState, loss: Option<u64>) {
        self.state = state;
        if let Some(acked) = loss {
            self.loss_interval.on_loss(acked);
        }
        self.controller.on_state(now, state, &mut self.window);
    }

    /// Notifies the controller of a lost segment.
    pub(super) fn on_lost(&mut self, segment: &LostSegment) {
        self.controller.on_lost(segment, &self.window);
    }

    /// Notifies the controller of the first segment sent when nothing is in flight. Returns whether the
    /// controller has a pacing rate, which may have changed.
    pub(super) fn on_start(&mut self, start: &TransmitStart) -> bool {
        self.controller.on_transmit_start(start, &mut self.window);
        self.controller.pacing_rate().is_some()
    }

    /// Calls the controller after an acknowledgement, to compute the window (`tcp_cong_control`).
    #[inline]
    pub(super) fn on_ack(&mut self, sample: &AckSample<'_>) {
        self.controller.on_ack(sample, &mut self.window);
        if sample.may_grow && !self.controller.owns_recovery() {
            // `tcp_cong_avoid` does this even if the window did not grow.
            self.usage.on_window_set(sample.now);
        }
    }

    /// Halves the window at the request of the scheduler, to at least one segment. Also halves the slow-start
    /// threshold, to at least two, unless the connection is in slow start (out-of-tree
    /// `mptcp_rcv_buf_optimization`).
    pub(super) fn penalise(&mut self) {
        let prior = self.window;
        self.window.cwnd = (prior.cwnd / 2).max(1);
        if prior.cwnd >= prior.ssthresh {
            self.window.ssthresh = (prior.ssthresh / 2).max(2);
        }
        self.controller.on_window_changed(WindowChange::Penalty, &mut self.window);
        self.penalties += 1;
    }

    /// Recomputes the pacing rate from the window and the RTT.
    #[inline]
    pub(super) fn update_pacing(&mut self, packets_out: u32, mss: u32, srtt8: u64) {
        self.pacer.update(self.controller.pacing_rate(), &self.window, packets_out, mss, srtt8);
    }

    /// Returns the pacing rate. It is an estimate unless pacing is enforced.
    #[inline]
    pub fn pacing_rate(&self) -> Rate {
        self.pacer.rate()
    }

    /// Returns whether pacing delays the next segment. If so, a wake-up is set.
    #[inline]
    pub(super) fn poll_pacing(&mut self, now: Instant) -> bool {
        self.pacer.check_blocked(now)
    }

    /// Handles the wake-up of the pacer.
    pub(super) fn on_pacing_wake(&mut self, now: Instant) {
        self.pacer.on_wake(now);
    }

    /// Counts a segment that was sent; see [`Pacer::on_sent`].
    #[inline]
    pub(super) fn on_sent(&mut self, now: Instant, bytes: u64, headers: u64, continues: bool) {
        self.pacer.on_sent(now, bytes, headers, continues);
    }

    /// Returns whether new data must carry CWR, and clears the flag.
    #[inline]
    pub(super) fn take_reduction_report(&mut self) -> bool {
        std::mem::take(&mut self.reports_reduction)
    }

    /// Returns the window and the factor from which the send-buffer size is computed, if the buffer may grow
    /// now (`tcp_should_expand_sndbuf`). A call restarts the measurement of the used window
    /// (`tcp_new_space`).
    #[inline]
    pub(super) fn poll_buffer_growth(
        &mut self,
        now: Instant,
        in_flight: u32,
    ) -> Option<(u32, u32)> {
        if !self.grows_buffer_while_full && self.is_full(in_flight) {
            return None;
        }
        self.usage.on_window_set(now);
        Some(self.buffer_growth())
    }

    /// Returns the window and the factor from which the send-buffer size is computed (`tcp_sndbuf_expand`).
    pub(super) fn buffer_growth(&self) -> (u32, u32) {
        (self.window.cwnd, self.controller.send_buffer_factor())
    }

    /// Returns whether the send buffer grows even while the window is full.
    #[inline]
    pub(super) fn grows_buffer_while_full(&self) -> bool {
        self.grows_buffer_while_full
    }
}

#[cfg(test)]
mod fixture;
