//! The receiving half of a subflow: reassembly, SACK and DSACK generation, the advertised window
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

/// The bytes that have come, in order and behind gaps.
#[derive(Debug, Default)]
pub struct Assembly {
    /// The next position expected (`rcv_nxt`).
    next: u64,
    /// The bytes behind gaps.
    runs: OutOfOrder,
    /// The SACK blocks of these bytes.
    reports: Reports,
    /// The duplicate data to report with the next acknowledgement.
    duplicate: Option<(u64, u64)>,
    /// Position of the peer's FIN.
    fin_at: Option<u64>,
    /// Everything up to the peer's FIN has come.
    closed: bool,
}

/// The state of the receiving half.
#[derive(Debug)]
pub struct Receiver {
    assembly: Assembly,
    /// The next position when the window was last advertised (`rcv_wup`).
    advertised_at: u64,
    /// The window that was last advertised, bytes.
    window: u64,
    /// The part of the buffer that may be offered so far (`rcv_ssthresh`).
    slow_start: u64,
    /// The connection has one such limit for all subflows, and the RTT is smoothed from every segment (4.14).
    shared: bool,
    /// The subflow's own buffer, which bounds the offered window (`window_clamp`).
    buffer: ReceiveBuffer,
    ack: AckPolicy,
    ecn: EcnReceiver,
    /// The last answer to an unacceptable segment.
    answered_at: Option<Instant>,
    negotiated: Agreed,
    rules: Rules,
    /// The receiver's own RTT estimate times 8, microseconds (`rcv_rtt_est`).
    rtt8: u64,
    /// The echoed timestamp of the last sample (`rcv_rtt_last_tsecr`).
    last_echo: u32,
}

/// The mechanisms of acknowledgements that kernels differ in; see the fields of [`Stack`](crate::stack::Stack).
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

/// The window of a SYN: half the buffer, in whole segments if it holds one, at most 64 KiB, or in older stacks twenty
/// segments (`tcp_select_initial_window`).
pub fn initial_window(config: &TcpConfig, mss: u16) -> u64 {
    match config.shared.receive {
        ReceiveSizing::Ratio => whole_segments((first_memory(config) / 2).min(65_535), mss.into()),
        ReceiveSizing::Half => first_window(config, mss),
    }
}

impl Receiver {
    /// Creates the receiver of a host that announces `mss`. If `counts_marks`, every mark of ECN is acknowledged.
    pub(crate) fn new(config: &TcpConfig, mss: u16, counts_marks: bool) -> Self {
        let window = initial_window(config, mss);
        let shared = config.shared.receive == ReceiveSizing::Half;
        let buffer = ReceiveBuffer::new(config, mss);
        Self {
            assembly: Assembly::default(),
            advertised_at: 0,
            window,
            // If all subflows open one window, the connection has the limit.
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

    /// Returns the next position expected (`rcv_nxt`).
    pub fn next(&self) -> u64 {
        self.assembly.next
    }

    /// Returns the window that was last advertised.
    pub fn window(&self) -> u64 {
        self.window
    }

    /// Returns the position of the last acknowledgement.
    pub(crate) fn advertised_at(&self) -> u64 {
        self.advertised_at
    }

    /// Returns the receiver's RTT estimate from echoed timestamps (`tcp_rcv_rtt_measure_ts`).
    pub fn rtt(&self) -> Option<Duration> {
        (self.rtt8 > 0).then(|| Duration::from_micros(self.rtt8 / 8))
    }

    /// Handles an echoed timestamp. A `full` segment gives a sample.
    fn measure_rtt(&mut self, now: Instant, echo: u32, full: bool) {
        let elapsed = timestamp_clock(now).wrapping_sub(echo);
        // Only the first segment that echoes a timestamp gives a sample. There is none if that segment is small or
        // empty.
        let known = echo == self.last_echo && !self.shared;
        self.last_echo = echo;
        if known || !full || elapsed == 0 || elapsed > 60_000 {
            return;
        }
        let sample = u64::from(elapsed) * 1_000;
        // A smaller sample counts at once, a larger one is smoothed (`tcp_rcv_rtt_update`, 6.16). Older kernels smooth
        // both.
        let larger = self.rtt8 > 0 && (self.shared || sample * 8 >= self.rtt8);
        self.rtt8 = if larger { self.rtt8 - self.rtt8 / 8 + sample } else { sample * 8 };
    }

    /// Grows the buffer like the connection's, after `copied` bytes were read in an RTT.
    pub fn grow_buffer(&mut self, copied: u64) {
        let ahead = self.assembly.span();
        self.buffer.grow(copied, ahead);
    }

    /// Drops everything behind gaps, which nothing will fill.
    pub(crate) fn discard(&mut self) {
        self.assembly.discard();
    }

    /// Handles the peer's SYN, which takes position 0.
    pub(crate) fn after_syn(&mut self) {
        self.assembly.after_syn();
        self.advertised_at = 1;
    }

    /// Returns the bytes that have come.
    #[inline]
    pub fn assembly(&self) -> &Assembly {
        &self.assembly
    }

    /// Returns the options that SYNs negotiate.
    #[inline]
    pub(super) fn negotiated(&self) -> &Agreed {
        &self.negotiated
    }

    /// Returns the number of data segments with new data that had met congestion.
    pub(super) fn ce_received(&self) -> u64 {
        self.ecn.marked()
    }

    /// Stores the negotiated options, and whether both ends want ECN.
    pub(super) fn negotiate(&mut self, negotiated: Agreed, ecn: bool) {
        self.negotiated = negotiated;
        self.ecn.set_agreed(ecn);
    }

    /// Returns the subflow's own buffer.
    pub fn buffer(&self) -> &ReceiveBuffer {
        &self.buffer
    }

    /// Grows the buffer for `unread` bytes of memory in order, which the full buffer of the connection does not take
    /// (`tcp_clamp_window`).
    pub fn hold_unread(&mut self, unread: u64) {
        self.buffer.admit(unread + self.assembly.out_of_order_memory());
    }

    /// Returns the rest of the window that was advertised last.
    fn window_left(&self) -> u64 {
        (self.advertised_at + self.window).saturating_sub(self.assembly.next)
    }

    /// Requests an acknowledgement at once.
    pub fn demand_ack(&mut self) {
        self.ack.demand();
    }

    /// Requests a window probe at once.
    pub(super) fn demand_probe(&mut self) {
        self.ack.demand_probe();
    }

    /// Returns whether an acknowledgement or a window probe is due.
    #[inline]
    pub(super) fn is_ack_due(&self) -> bool {
        self.ack.is_due()
    }

    /// Returns whether an acknowledgement must go out before anything else.
    #[inline]
    pub fn owes_first_ack(&self) -> bool {
        self.ecn.owes() || self.assembly.reports.owes()
    }

    /// Returns when the delayed acknowledgement goes out; far future for never.
    #[inline]
    pub(super) fn ack_deadline(&self) -> Instant {
        self.ack.deadline()
    }

    /// Returns whether data may lie behind a gap, so that compressed acknowledgements may wait.
    #[inline]
    pub(super) fn has_gap(&self) -> bool {
        !self.assembly.reports.is_empty()
    }

    /// Returns whether an acknowledgement with earlier SACK blocks must go out before anything else.
    pub(super) fn owes_report(&self) -> bool {
        self.assembly.reports.owes()
    }

    /// Returns when compressed acknowledgements go out.
    pub(super) fn reports_deadline(&self) -> Option<Instant> {
        self.assembly.reports.deadline()
    }

    /// Handles the sending of data: an answer within the delay makes the flow interactive.
    #[inline]
    pub(super) fn on_data_sent(&mut self, now: Instant) {
        self.ack.on_data_sent(now);
    }

    /// Handles a further segment of a burst, which acknowledges too.
    pub(super) fn on_burst_ack_sent(&mut self) {
        self.ack.on_ack_sent();
    }

    /// Handles the peer's report that it has reduced its window (CWR).
    #[inline]
    pub(super) fn on_cwr(&mut self, segment: &Segment) {
        self.ecn.on_cwr(segment, &mut self.ack);
    }

    /// Puts the window and the echo of a mark on a segment that acknowledges everything that has come. `promised` is
    /// the window that MPTCP has promised on any subflow.
    // A run of 20 MB calls it 28,310 times.
    #[inline(always)]
    pub(super) fn acknowledge(
        &mut self,
        segment: &mut Segment,
        space: Space,
        promised: Option<u64>,
    ) {
        self.ecn.echo_mark(segment);
        self.ack.heed_room(self.is_short(space));
        let scale = self.negotiated.receive_scale;
        let window = self.select_window(space, u64::from(self.ack.received_mss()), promised);
        segment.window = (window >> scale).min(65_535) as u16;
        self.ack.on_ack_sent();
        self.assembly.reports.on_ack_sent();
    }

    /// Returns the window field of the last advertised window.
    pub(super) fn window_field(&self) -> u16 {
        (self.window >> self.negotiated.receive_scale).min(65_535) as u16
    }

    /// Opens the window for a segment, unless the connection has done so, then the buffer for data behind a gap. Returns
    /// whether the window has grown.
    #[inline]
    fn open(&mut self, arrival: Arrival, load: Load, opens: bool, waiting: u64, mss: u32) -> bool {
        let in_order = arrival != Arrival::OutOfOrder;
        let grew =
            arrival != Arrival::Duplicate && (opens || self.grow(load, in_order, waiting, mss));
        if !in_order {
            self.buffer.make_room(self.assembly.span());
        }
        grew
    }

    /// Opens the window by two full segments, or by twice the data if several segments came as one (`tcp_grow_window`).
    /// The buffer must have room for it, besides `waiting` bytes of memory behind gaps. A segment that came `in_order` is
    /// charged already (`tcp_queue_rcv`, `tcp_space`). `received` is the largest size of a segment so far.
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

    /// Returns whether less than half of the window is free: of the connection's or the subflow's, whichever is smaller.
    #[inline]
    fn is_short(&self, space: Space) -> bool {
        let own = if self.shared { u64::MAX } else { self.buffer.window() };
        space.free < space.allowed.min(own) / 2
    }

    /// Returns the window for which there is room (`__tcp_select_window`). If less than half of the buffer is free, a
    /// window of less than a segment is 0 (RFC 9293 section 3.8.6.2.2).
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

    /// Returns the window to advertise now, which never shrinks (`tcp_select_window`). With MPTCP the window `promised`
    /// on any subflow holds for all. The subflow's own window would move with data on other subflows (`mptcp_set_rwin`;
    /// RFC 8684 section 3.3.1).
    #[inline]
    fn select_window(&mut self, space: Space, mss: u64, promised: Option<u64>) -> u64 {
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

/// The place of a segment's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    InOrder,
    FilledGap,
    OutOfOrder,
    Duplicate,
}

#[cfg(test)]
mod tests;
