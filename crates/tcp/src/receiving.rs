//! The receiving half of a connection: reassembly, SACK and DSACK generation, and the advertised window
//! (`tcp_data_queue`, `__tcp_select_window`, `tcp_grow_window`).

mod acceptance;
mod assembly;
mod delayed_ack;
mod ecn;
mod payload;
mod reports;

use anabranch_units::{Duration, Instant};
use anabranch_wire::Segment;

use super::Space;
use super::negotiated::Agreed;
use super::sending::rtt::timestamp_clock;
use crate::config::TcpConfig;
use crate::reassembly::OutOfOrder;
use crate::receive_buffer::{Load, ReceiveBuffer, first_memory, first_window, whole_segments};
use crate::stack::ReceiveSizing;
use delayed_ack::AckPolicy;
use ecn::EcnReceiver;
use reports::Reports;

pub(super) use delayed_ack::FirstAck;
pub(super) use ecn::EcnSender;
pub use ecn::accepts_ecn;
pub(super) use reports::{SACK_BASE, SACK_BLOCK};

/// The received bytes, in order and out of order.
#[derive(Debug, Default)]
pub struct Assembly {
    /// The next expected position (`rcv_nxt`).
    next: u64,
    /// The out-of-order bytes.
    runs: OutOfOrder,
    /// The SACK blocks of the out-of-order bytes.
    reports: Reports,
    /// The duplicate data to report with the next acknowledgement.
    duplicate: Option<(u64, u64)>,
    /// The position of the peer's FIN.
    fin_at: Option<u64>,
    /// Whether all data up to the peer's FIN has arrived.
    closed: bool,
}

/// The state of the receiving half.
#[derive(Debug)]
pub struct Receiver {
    assembly: Assembly,
    /// The next expected position when the window was last advertised (`rcv_wup`).
    advertised_at: u64,
    /// The last advertised window, bytes.
    window: u64,
    /// The part of the buffer that may be advertised so far (`rcv_ssthresh`).
    slow_start: u64,
    /// Whether the layer above has one such limit for all connections, and the RTT is smoothed over all
    /// segments (4.14).
    shared: bool,
    /// The connection's own buffer, which limits the advertised window (`window_clamp`).
    buffer: ReceiveBuffer,
    ack: AckPolicy,
    ecn: EcnReceiver,
    /// The time of the last answer to an unacceptable segment.
    answered_at: Option<Instant>,
    negotiated: Agreed,
    rules: Rules,
    /// The receiver's own RTT estimate times 8, in microseconds (`rcv_rtt_est`).
    rtt8: u64,
    /// The echoed timestamp of the last sample (`rcv_rtt_last_tsecr`).
    last_echo: u32,
}

/// The mechanisms of acknowledgements that differ between kernels. See the fields of
/// [`Stack`](crate::stack::Stack).
#[derive(Clone, Copy, Debug)]
struct Rules {
    by_window: bool,
    by_read: bool,
    compresses: bool,
    pushes: bool,
}

impl Rules {
    fn new(config: &TcpConfig) -> Self {
        Self {
            by_window: config.shared.acknowledges_by_window,
            by_read: config.shared.acknowledges_by_read,
            compresses: config.stack.compresses_sacks,
            pushes: config.stack.pushes_buffers,
        }
    }
}

/// Returns the window of a SYN: half of the buffer, in whole segments if it holds one, and at most 64 KiB. In
/// older stacks at most twenty segments (`tcp_select_initial_window`).
pub fn initial_window(config: &TcpConfig, mss: u16) -> u64 {
    match config.shared.receive {
        ReceiveSizing::Ratio => whole_segments((first_memory(config) / 2).min(65_535), mss.into()),
        ReceiveSizing::Half => first_window(config, mss),
    }
}

impl Receiver {
    /// Creates the receiver of a host that announces `mss`. If `counts_marks` is set, each change of ECN
    /// marks is acknowledged separately.
    pub(crate) fn new(config: &TcpConfig, mss: u16, counts_marks: bool) -> Self {
        let window = initial_window(config, mss);
        let shared = config.shared.receive == ReceiveSizing::Half;
        let buffer = ReceiveBuffer::new(config, mss);
        Self {
            assembly: Assembly::default(),
            advertised_at: 0,
            window,
            // If all connections share one window, the layer above has the limit.
            slow_start: if shared { u64::MAX } else { window.min(buffer.window_at_first()) },
            shared,
            buffer,
            ack: AckPolicy::new(mss, window),
            ecn: EcnReceiver::new(counts_marks),
            answered_at: None,
            negotiated: Agreed::offer(config),
            rules: Rules::new(config),
            rtt8: 0,
            last_echo: 0,
        }
    }

    /// Returns the next expected position (`rcv_nxt`).
    pub fn next(&self) -> u64 {
        self.assembly.next
    }

    /// Returns the last advertised window.
    pub fn window(&self) -> u64 {
        self.window
    }

    /// Returns the next expected position when the window was last advertised.
    pub(crate) fn advertised_at(&self) -> u64 {
        self.advertised_at
    }

    /// Returns the receiver's RTT estimate from echoed timestamps (`tcp_rcv_rtt_measure_ts`).
    pub fn rtt(&self) -> Option<Duration> {
        (self.rtt8 > 0).then(|| Duration::from_micros(self.rtt8 / 8))
    }

    /// Handles an echoed timestamp. Only a `full` segment gives a sample.
    fn sample_rtt(&mut self, now: Instant, echo: u32, full: bool) {
        let elapsed = timestamp_clock(now).wrapping_sub(echo);
        // Only the first segment that echoes a timestamp gives a sample, and only if it is full.
        let known = echo == self.last_echo && !self.shared;
        self.last_echo = echo;
        if known || !full || elapsed == 0 || elapsed > 60_000 {
            return;
        }
        let sample = u64::from(elapsed) * 1_000;
        // A smaller sample is used at once, and a larger one is smoothed (`tcp_rcv_rtt_update`, 6.16). Older
        // kernels smooth both.
        let larger = self.rtt8 > 0 && (self.shared || sample * 8 >= self.rtt8);
        self.rtt8 = if larger { self.rtt8 - self.rtt8 / 8 + sample } else { sample * 8 };
    }

    /// Grows the connection's buffer after `copied` bytes were read in an RTT, like that of the layer above.
    pub fn grow_buffer(&mut self, copied: u64) {
        let ahead = self.assembly.span();
        self.buffer.grow(copied, ahead);
    }

    /// Drops all out-of-order data, because the gaps will not be filled.
    pub(crate) fn discard(&mut self) {
        self.assembly.discard();
    }

    /// Handles the peer's SYN, which occupies position 0.
    pub(crate) fn on_syn(&mut self) {
        self.assembly.on_syn();
        self.advertised_at = 1;
    }

    /// Returns the received bytes.
    #[inline]
    pub fn assembly(&self) -> &Assembly {
        &self.assembly
    }

    /// Returns the options that the SYNs have negotiated.
    #[inline]
    pub(super) fn negotiated(&self) -> &Agreed {
        &self.negotiated
    }

    /// Returns the number of data segments that had new data and a CE mark.
    pub(super) fn ce_received(&self) -> u64 {
        self.ecn.marked()
    }

    /// Stores the negotiated options, and whether both ends use ECN.
    pub(super) fn on_negotiated(&mut self, negotiated: Agreed, ecn: bool) {
        self.negotiated = negotiated;
        self.ecn.set_agreed(ecn);
    }

    /// Returns the connection's own buffer.
    pub fn buffer(&self) -> &ReceiveBuffer {
        &self.buffer
    }

    /// Grows the buffer for `unread` bytes of memory of in-order data that the layer above cannot take
    /// (`tcp_clamp_window`).
    pub fn grow_for_unread(&mut self, unread: u64) {
        self.buffer.grow_for_waiting(unread + self.assembly.out_of_order_memory());
    }

    /// Returns the remaining part of the last advertised window.
    fn window_left(&self) -> u64 {
        (self.advertised_at + self.window).saturating_sub(self.assembly.next)
    }

    /// Requests an immediate acknowledgement.
    pub fn demand_ack(&mut self) {
        self.ack.demand();
    }

    /// Requests an immediate window probe.
    pub(super) fn demand_probe(&mut self) {
        self.ack.demand_probe();
    }

    /// Returns whether an acknowledgement or a window probe is due.
    #[inline]
    pub(super) fn is_ack_due(&self) -> bool {
        self.ack.is_due()
    }

    /// Returns whether an acknowledgement must be sent before any other segment.
    #[inline]
    pub fn has_urgent_ack(&self) -> bool {
        self.ecn.owes() || self.assembly.reports.owes()
    }

    /// Returns the time of the delayed acknowledgement. `FAR_FUTURE` if none is pending.
    #[inline]
    pub(super) fn ack_deadline(&self) -> Instant {
        self.ack.deadline()
    }

    /// Returns whether data may be out of order, so that acknowledgements may be compressed.
    #[inline]
    pub(super) fn has_gap(&self) -> bool {
        !self.assembly.reports.is_empty()
    }

    /// Returns whether an acknowledgement with earlier SACK blocks must be sent before any other segment.
    pub(super) fn has_pending_report(&self) -> bool {
        self.assembly.reports.owes()
    }

    /// Returns the time at which compressed acknowledgements are sent.
    pub(super) fn reports_deadline(&self) -> Option<Instant> {
        self.assembly.reports.deadline()
    }

    /// Handles the sending of data. Data within the delay of an acknowledgement makes the flow interactive.
    #[inline]
    pub(super) fn on_data_sent(&mut self, now: Instant) {
        self.ack.on_data_sent(now);
    }

    /// Handles a further segment of a burst, which has an acknowledgement number too.
    pub(super) fn on_burst_ack_sent(&mut self) {
        self.ack.on_ack_sent();
    }

    /// Handles the peer's CWR flag.
    #[inline]
    pub(super) fn on_cwr(&mut self, segment: &Segment) {
        self.ecn.on_cwr(segment, &mut self.ack);
    }

    /// Adds the window and the ECN echo to a segment that acknowledges all received data. `promised` is the
    /// window that the layer above has promised on any of its connections.
    // A run of 20 MB calls it 28,310 times.
    #[inline(always)]
    pub(super) fn acknowledge(
        &mut self,
        segment: &mut Segment,
        space: Space,
        promised: Option<u64>,
    ) {
        self.ecn.echo_mark(segment);
        self.ack.limit_quick_acks(self.is_short(space));
        let scale = self.negotiated.receive_scale;
        let window = self.next_window(space, u64::from(self.ack.received_mss()), promised);
        segment.window = (window >> scale).min(65_535) as u16;
        self.ack.on_ack_sent();
        self.assembly.reports.on_ack_sent();
    }

    /// Returns the last advertised window in units of the window field.
    pub(super) fn window_field(&self) -> u16 {
        (self.window >> self.negotiated.receive_scale).min(65_535) as u16
    }

    /// Opens the window for a segment, unless the layer above has done so. Then makes space for out-of-order
    /// data. Returns whether the window has grown.
    #[inline]
    fn open(&mut self, arrival: Arrival, load: Load, opens: bool, waiting: u64, mss: u32) -> bool {
        let in_order = arrival != Arrival::OutOfOrder;
        let grew =
            arrival != Arrival::Duplicate && (opens || self.grow(load, in_order, waiting, mss));
        if !in_order {
            self.buffer.grow_ahead(self.assembly.span());
        }
        grew
    }

    /// Opens the window by two full segments, or by twice the data of merged segments (`tcp_grow_window`).
    /// The buffer must have space for it in addition to `waiting` bytes of out-of-order memory. A segment
    /// that arrived `in_order` is already charged (`tcp_queue_rcv`, `tcp_space`). `received` is the largest
    /// segment size so far.
    #[inline]
    fn grow(&mut self, load: Load, in_order: bool, waiting: u64, received: u32) -> bool {
        if self.shared || (in_order && load.bytes < 128) {
            return false;
        }
        let memory = self.buffer.memory_of(load);
        let in_hand = if in_order { memory } else { 0 };
        let limit = self.buffer.window_beside(waiting + in_hand);
        if limit <= self.slow_start {
            return false;
        }
        let most = self.buffer.opening(load, memory, self.slow_start, received);
        self.slow_start += (limit - self.slow_start).min(most);
        most > 0
    }

    /// Returns whether less than half of the window is free. The smaller one of the layer above's and the
    /// connection's is used.
    #[inline]
    fn is_short(&self, space: Space) -> bool {
        let own = if self.shared { u64::MAX } else { self.buffer.window() };
        space.free < space.allowed.min(own) / 2
    }

    /// Returns the window that fits into the free space (`__tcp_select_window`). If less than half of the
    /// buffer is free, a window of less than a segment becomes 0 (RFC 9293 section 3.8.6.2.2).
    fn offer(&self, space: Space, mss: u64, scale: u8) -> u64 {
        let mut free = space.free;
        if self.is_short(space) {
            free = free >> scale << scale;
            if free < space.allowed / 16 || free < mss {
                free = 0;
            }
        }
        whole_units(free.min(self.slow_start).min(space.open), scale)
    }

    /// Returns the window to advertise now. The window never shrinks (`tcp_select_window`). If a window was
    /// `promised` on any connection of the layer above, it replaces the connection's own window. The
    /// connection's own window would depend on data of other connections (`mptcp_set_rwin`; RFC 8684 section
    /// 3.3.1).
    #[inline]
    fn next_window(&mut self, space: Space, mss: u64, promised: Option<u64>) -> u64 {
        let scale = self.negotiated.receive_scale;
        let current = promised.unwrap_or_else(|| whole_units(self.window_left(), scale));
        let window = self.offer(space, mss, scale).max(current);
        self.window = window;
        self.advertised_at = self.assembly.next;
        window
    }

    /// Returns the largest window that could be advertised now.
    fn could_offer(&self, space: Space) -> u64 {
        space.free.min(self.slow_start).min(space.open)
    }
}

/// Rounds a window up to whole units of the window field.
fn whole_units(bytes: u64, scale: u8) -> u64 {
    (bytes + (1 << scale) - 1) >> scale << scale
}

/// The position of a segment's payload relative to the received data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    InOrder,
    FilledGap,
    OutOfOrder,
    Duplicate,
}

#[cfg(test)]
mod tests;
