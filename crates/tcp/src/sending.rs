//! The sending half of a connection: the queue, segments in flight, loss detection, recovery, window and
//! timers.

mod ack;
mod acknowledge;
mod cwnd;
mod deferral;
mod expiry;
pub(super) mod flight;
mod intent;
mod losses;
mod parts;
mod push;
pub(super) mod queue;
pub(super) mod recovery;
pub(crate) mod rtt;
mod send_buffer;
pub(super) mod timers;
mod transmit;
mod usage;

use anabranch_units::{Duration, Instant, SubflowId};

use crate::Totals;
use crate::config::{HostModel, MSS_MIN, Moment, TcpConfig};
use crate::negotiated::Agreed;
use crate::stack::{Deferral, TcpStack};
use anabranch_congestion::{CongestionController, CongestionState, Opened, SiblingView};

pub(super) use ack::Ack;
pub(super) use queue::Tagging;
pub(super) use timers::Fired;
pub(super) use transmit::Departure;

/// The mechanisms of the stack that affect the sending of data.
#[derive(Debug)]
struct Rules {
    deferral: Deferral,
    pushes_buffers: bool,
    bursts_by_rtt: bool,
    merges_reported: bool,
    always_wants_space: bool,
}

impl Rules {
    fn new(stack: &TcpStack) -> Self {
        Self {
            deferral: stack.deferral,
            pushes_buffers: stack.pushes_buffers,
            bursts_by_rtt: stack.bursts_by_rtt,
            merges_reported: stack.merges_reported,
            always_wants_space: stack.always_wants_space,
        }
    }
}

/// Counts of sent data.
#[derive(Clone, Copy, Debug, Default)]
struct SentTotals {
    /// Payload bytes, including retransmissions.
    bytes: u64,
    bytes_retransmitted: u64,
    retransmissions: u64,
    /// Segments with data, including retransmissions.
    data_segments: u64,
}

/// The sending half of one TCP connection.
#[derive(Debug)]
pub struct Sending {
    queue: queue::Queue,
    buffer: send_buffer::SendBuffer,
    flight: flight::Flight,
    losses: losses::Losses,
    recovery: recovery::Recovery,
    cwnd: cwnd::Cwnd,
    timers: timers::Timers,
    rules: Rules,
    /// The payload of a full segment without options of the layer above.
    mss: u32,
    /// The bytes reserved in data segments for options of the layer above, at most 40.
    reserved: u8,
    /// The largest segment that the peer and the path accept, including options.
    peer_mss: u16,
    peer_closed: bool,
    sent: SentTotals,
    last_ack_at: Instant,
}

impl Sending {
    /// Creates the sending half of a connection that announces `mss`.
    pub(super) fn new(
        config: &TcpConfig,
        mss: u16,
        controller: Box<dyn CongestionController>,
    ) -> Self {
        Self {
            queue: queue::Queue::new(config, mss),
            buffer: send_buffer::SendBuffer::new(config),
            flight: flight::Flight::new(config.stack.sack),
            losses: losses::Losses::new(&config.stack),
            recovery: recovery::Recovery::new(&config.stack),
            cwnd: cwnd::Cwnd::new(config, controller),
            timers: timers::Timers::new(config),
            rules: Rules::new(&config.stack),
            mss: u32::from(mss) - 12,
            reserved: 0,
            peer_mss: mss,
            peer_closed: false,
            sent: SentTotals::default(),
            last_ack_at: Instant::ZERO,
        }
    }

    /// Opens the connection at the end of the handshake, with the peer's window and the handshake's RTT.
    /// Segments have at most half of the largest window.
    pub(super) fn open(
        &mut self,
        host: &HostModel,
        now: Instant,
        window: u64,
        rtt: Option<Duration>,
        agreed: &Agreed,
    ) {
        self.flight.set_selective(agreed.sack_permitted);
        self.queue.set_una(1);
        self.queue.set_window(window);
        self.update_mss(agreed.bytes(), 0);
        self.last_ack_at = now;
        self.timers.open(Moment { host, now }, rtt);
        let (coarse_now, rtt) = (host.coarse(now), self.rtt().srtt());
        self.cwnd.open(now, &Opened { coarse_now, rtt, mss: self.mss });
        // `tcp_init_buffer_space`. This size is reported to the layer above at once.
        let (cwnd, factor) = self.cwnd.buffer_growth();
        self.buffer.grow(cwnd, factor);
        self.buffer.report();
        self.update_pacing();
    }

    /// Returns a mutable reference to the tag state. When tags end, queued data keeps its tags, and the next
    /// segment still has space for options of the layer above.
    pub(super) fn tagging_mut(&mut self) -> &mut Tagging {
        self.queue.tagging_mut()
    }

    /// Ends the reservation for options of the layer above after tags have ended. The segment that was just
    /// sent was the last one with that space.
    #[inline]
    fn end_reserve(&mut self) {
        if self.reserved > 0 && !self.queue.is_tagged() {
            self.reserved = 0;
            self.queue.set_mss(self.mss);
        }
    }

    /// Handles the peer's FIN.
    pub(super) fn on_peer_closed(&mut self) {
        self.peer_closed = true;
    }

    /// Ends the connection at once. All data is dropped, sent or not.
    pub(super) fn discard_all(&mut self) {
        self.queue.discard_all();
        self.flight.discard_all();
    }

    /// Returns the queue of data to send.
    #[inline]
    pub fn queue(&self) -> &queue::Queue {
        &self.queue
    }

    /// Returns a mutable reference to the queue of data to send.
    #[inline]
    pub(super) fn queue_mut(&mut self) -> &mut queue::Queue {
        &mut self.queue
    }

    /// Returns the send buffer.
    #[inline]
    pub fn buffer(&self) -> &send_buffer::SendBuffer {
        &self.buffer
    }

    /// Returns a mutable reference to the send buffer.
    #[inline]
    pub(super) fn buffer_mut(&mut self) -> &mut send_buffer::SendBuffer {
        &mut self.buffer
    }

    /// Returns the outstanding segments.
    #[inline]
    pub fn flight(&self) -> &flight::Flight {
        &self.flight
    }

    /// Returns the RTT estimates.
    #[inline]
    pub fn rtt(&self) -> &rtt::RttEstimator {
        self.timers.rtt()
    }

    /// Returns the congestion window.
    #[inline]
    pub fn cwnd(&self) -> &cwnd::Cwnd {
        &self.cwnd
    }

    /// Returns the counters.
    #[inline]
    pub fn totals(&self) -> Totals {
        let recovery::RecoveryCounts { timeouts, undos, ecn_reductions } = self.recovery.counts();
        let SentTotals { bytes, bytes_retransmitted, retransmissions, data_segments } = self.sent;
        Totals {
            bytes_sent: bytes,
            bytes_retransmitted,
            retransmissions,
            data_segments,
            bytes_acked: self.flight.bytes_acked(),
            delivered_ce: self.flight.rate().delivered_ce(),
            timeouts,
            undos,
            ecn_reductions,
            penalties: self.cwnd.penalties(),
            ce_received: 0,
        }
    }

    /// Returns the time of the last acceptable acknowledgement.
    #[inline]
    pub fn last_ack_at(&self) -> Instant {
        self.last_ack_at
    }

    /// Returns the number of retransmission timeouts since data was last acknowledged.
    #[inline]
    pub fn consecutive_timeouts(&self) -> u32 {
        self.recovery.consecutive_timeouts()
    }

    /// Records the first transmission time of each outstanding segment, and keeps it after a retransmission.
    pub(crate) fn note_first_transmissions(&mut self) {
        self.flight.note_first_transmissions();
    }

    /// Returns the time at which the timer fires. `FAR_FUTURE` if it is not running.
    #[inline]
    pub(super) fn timer_at(&self) -> Instant {
        self.timers.at()
    }

    /// Returns the time at which an exact timer would fire.
    pub fn timer_due(&self) -> Option<Instant> {
        self.timers.due()
    }

    /// Returns the bytes of a full segment that options of the layer above use.
    #[inline]
    pub(super) fn reserved_bytes(&self) -> u32 {
        self.mss.saturating_sub(self.queue.mss())
    }

    /// Returns the largest segment that the peer and the path accept, including options.
    #[inline]
    pub(super) fn peer_mss(&self) -> u16 {
        self.peer_mss
    }

    /// Sets the largest segment that the peer and the path accept, including options.
    pub(super) fn set_peer_mss(&mut self, mss: u16) {
        self.peer_mss = mss;
    }

    /// Recomputes the payload of a full segment from the length of TCP's options, the bytes `reserved` for
    /// options of the layer above, and the peer's largest window (`tcp_sync_mss`). Rates are computed without
    /// the reserved bytes, because Linux knows those only when it sends (`mss_cache`, `tcp_current_mss`).
    pub(super) fn update_mss(&mut self, options: u32, reserved: u32) {
        let whole = u32::from(self.peer_mss).saturating_sub(options).max(8);
        let least = u32::from(MSS_MIN).saturating_sub(options);
        self.mss = self.queue.window().bound_to_half(whole.into(), least.into()) as u32;
        self.reserved = reserved as u8;
        self.queue.set_mss(self.mss.saturating_sub(reserved).max(8));
    }

    /// Handles a new largest window of the peer, which may permit larger segments (`tcp_ack_update_window`).
    /// Returns whether their size may have changed.
    #[cold]
    pub(super) fn grow_largest_window(&mut self, window: u64, options: u32) -> bool {
        self.queue.window_mut().note_largest(window);
        let grows = self.mss < u32::from(self.peer_mss).saturating_sub(options);
        if grows {
            self.update_mss(options, self.reserved.into());
        }
        grows
    }

    /// Returns whether new data must carry CWR, and clears the flag.
    #[inline]
    pub(super) fn take_reduction_report(&mut self) -> bool {
        self.cwnd.take_reduction_report()
    }

    /// Returns whether data may be ready to send. Only some of the conditions are checked.
    #[inline]
    pub(super) fn may_transmit(&self) -> bool {
        self.queue.has_work() && !self.cwnd.is_full(self.flight.in_flight())
    }

    /// Returns whether all data that was outstanding when Recovery or Loss began is acknowledged. Without
    /// SACK, the state continues until newer data is acknowledged (`tcp_try_undo_recovery`), so it must not
    /// prevent new data. The out-of-tree kernel sends in this case (`mptcp_is_temp_unavailable`), and
    /// upstream's scheduler ignores the state.
    #[inline]
    pub fn is_repaired(&self) -> bool {
        self.cwnd.state() >= CongestionState::Recovery
            && self.recovery.must_hold(self.flight.is_selective(), self.queue.una())
    }

    /// Sets the congestion window. For tests of the layer above.
    #[doc(hidden)]
    pub(crate) fn set_cwnd(&mut self, segments: u32) {
        self.cwnd.set_window(segments);
    }

    /// Halves the window at the request of the scheduler.
    pub(crate) fn penalise(&mut self) {
        self.cwnd.penalise();
        self.update_pacing();
    }

    /// Recomputes the pacing rate from the window and the RTT.
    #[inline]
    fn update_pacing(&mut self) {
        self.cwnd.update_pacing(self.flight.packets_out(), self.mss, self.rtt().srtt8_micros());
    }

    /// Returns the time of the next retransmission timeout if nothing is acknowledged until then.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.timers.next_timeout(&self.flight)
    }

    /// Returns the values of the connection that coupled controllers use.
    pub fn sibling_view(&self, id: SubflowId, usable: bool, stale: bool) -> SiblingView {
        let (bytes_since_loss, bytes_between_losses) =
            self.cwnd.bytes_since_losses(self.flight.bytes_acked());
        SiblingView {
            id,
            window: self.cwnd.window(),
            srtt: self.rtt().srtt(),
            min_rtt: self.rtt().min_rtt(),
            state: self.cwnd.state(),
            usable,
            stale,
            consecutive_timeouts: self.recovery.consecutive_timeouts(),
            bytes_since_loss,
            bytes_between_losses,
            published_rate: self.cwnd.controller().published_rate(),
        }
    }
}

#[cfg(test)]
mod fixture;
