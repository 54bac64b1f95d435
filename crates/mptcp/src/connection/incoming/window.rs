//! The connection-level receive window, shared by all subflows (RFC 8684 section 3.3.1), with Linux's dynamic
//! right-sizing (`mptcp_rcv_space_adjust`). In older stacks, the subflows also share one slowly growing
//! window (`tcp_grow_window` on the connection's socket).

use anabranch_units::Instant;
use anabranch_wire::Segment;

use super::{Incoming, Session, Subflows};
use crate::config::Config;
use crate::subflow::Subflow;
use anabranch_tcp::receive_buffer::{DEFAULT_RATIO, Load, ReceiveBuffer, first_window};
use anabranch_tcp::stack::ReceiveSizing;
use anabranch_tcp::{Space, State};

/// The connection's receive buffer, and the window promised to the peer.
#[derive(Debug)]
pub(super) struct ReceiveBudget {
    buffer: ReceiveBuffer,
    /// The right edge promised to the peer, as a data position (`rcv_wnd_sent`).
    promised: u64,
    /// The last window advertised on any subflow, in bytes (`old_wspace`).
    told: u32,
    /// Bytes that the application has read in the current measurement.
    copied: u64,
    measured_from: Instant,
    /// The end of the current measurement.
    measure_until: Instant,
    /// Older stacks: the size of the shared window so far (`rcv_ssthresh`), and the amount that each join
    /// adds. `None` if the subflows do not share one.
    opened: Option<(u64, u64)>,
    /// The memory of a full-sized segment and its payload, in bytes.
    segment: (u64, u64),
}

impl ReceiveBudget {
    /// Creates the budget of a connection whose first subflow announces `mss`.
    pub(super) fn new(config: &Config, mss: u16) -> Self {
        let first = first_window(&config.tcp(), mss);
        Self {
            buffer: ReceiveBuffer::new(&config.tcp(), mss),
            promised: 0,
            told: 0,
            copied: 0,
            measured_from: Instant::ZERO,
            measure_until: Instant::ZERO,
            opened: (config.stack.shared.receive == ReceiveSizing::Half).then_some((first, first)),
            segment: (config.host.receive_memory_per_segment, u64::from(mss - 12)),
        }
    }

    /// Starts to measure the application's reads when the connection is open (`mptcp_rcv_space_init`,
    /// `tcp_init_buffer_space`).
    pub(super) fn begin(&mut self, now: Instant) {
        self.measured_from = now;
    }

    /// Returns whether the subflows share one growing window.
    pub(super) fn is_shared(&self) -> bool {
        self.opened.is_some()
    }

    /// Returns the size up to which the shared window has grown, in bytes.
    pub(super) fn open(&self) -> u64 {
        self.opened.map_or(u64::MAX, |(open, _)| open)
    }

    /// Returns the window that `bytes` of data use: half of their memory, because half of the buffer is
    /// window.
    fn window_of_bytes(&self, bytes: u64) -> u64 {
        let (memory, payload) = self.segment;
        bytes * memory / (2 * payload)
    }

    /// Returns the window that remains if waiting data uses `memory` bytes (`__mptcp_space`, `tcp_space`).
    pub(super) fn window_beside(&self, memory: u64) -> u64 {
        self.buffer.window_beside(memory)
    }

    /// Grows the shared window after a payload arrived while `used` bytes of the window were taken. The
    /// growth is two segments, or twice the merged segments, up to the limit (`tcp_grow_window`). Returns
    /// whether it grew.
    pub(super) fn on_payload(&mut self, load: Load, used: u64) -> bool {
        let limit = self.buffer.window();
        let (_, segment) = self.segment;
        let Some((open, _)) = &mut self.opened else { return false };
        if load.bytes < 128 || *open >= limit.saturating_sub(used) {
            return false;
        }
        *open = (*open + 2 * load.counts_as(segment)).min(limit);
        true
    }

    /// Adds the buffer and the window of an established join, whose local address announces `mss`.
    pub(super) fn on_join(&mut self, config: &Config, mss: u16) {
        if let Some((open, first)) = &mut self.opened {
            *open += *first;
            self.buffer.add(&ReceiveBuffer::new(&config.tcp(), mss));
        }
    }

    pub(super) fn buffer(&self) -> &ReceiveBuffer {
        &self.buffer
    }

    pub(super) fn limit(&self) -> u64 {
        self.buffer.window()
    }

    pub(super) fn promised(&self) -> u64 {
        self.promised
    }

    /// Returns whether a window of `free` bytes is at least twice the last advertised one
    /// (`mptcp_cleanup_rbuf`).
    pub(super) fn has_opened(&self, free: u64) -> bool {
        free > 0 && free >= 2 * u64::from(self.told)
    }
}

/// Returns whether a payload at `dsn` has bytes after `next`, the next expected DSN. Linux drops old bytes
/// without notifying the connection (`subflow_check_data_avail`, `mptcp_subflow_discard_data`).
#[inline]
pub(super) fn is_news(next: u64, dsn: u64, bytes: usize) -> bool {
    dsn.wrapping_add(bytes as u64).wrapping_sub(next) as i64 > 0
}

/// The received data and the window at one moment.
#[derive(Clone, Copy, Debug)]
pub struct ReceiverSample {
    /// Bytes received in order.
    pub in_order: u64,
    /// In-order bytes that the application has not read.
    pub unread: u64,
    /// Bytes that wait for a gap in the data stream to be filled.
    pub ahead: u64,
    /// Bytes in all subflows that wait for a gap in their subflow, or for a mapping.
    pub in_subflows: u64,
    /// The advertised window, counted from the end of the in-order data. 0 on plain TCP, where only the
    /// subflow advertises a window.
    pub window: u64,
    /// The window if the whole buffer were free.
    pub limit: u64,
}

impl Incoming {
    /// Returns the memory charged to the connection's buffer: the data that subflows have delivered. Data
    /// that waits in a subflow is charged to that subflow (`__mptcp_rmem`, `mptcp_space`). On plain TCP, the
    /// out-of-order data of the `only` subflow is included.
    #[inline]
    fn memory_used(&self, only: Option<&Subflow>) -> u64 {
        self.stream.memory()
            + only.map_or(0, |only| only.tcp.receive().assembly().out_of_order_memory())
    }

    /// Returns the bytes of the data that is charged to the connection's buffer.
    pub(super) fn bytes_waiting(&self, only: Option<&Subflow>) -> u64 {
        self.stream.held()
            + only.map_or(0, |only| only.tcp.receive().assembly().out_of_order_bytes())
    }

    /// Returns the state of the receiver.
    pub(in crate::connection) fn receiver(&self, subflows: &Subflows) -> ReceiverSample {
        let waits = |it: &Subflow| {
            it.tcp.receive().assembly().out_of_order_bytes() + it.context.delivery().held_bytes()
        };
        let parked = self.parked.bytes();
        let (in_order, unread) = (self.stream.acknowledged(), self.stream.unread());
        ReceiverSample {
            in_order,
            unread,
            ahead: self.stream.held() - unread,
            in_subflows: subflows.iter().map(waits).sum::<u64>() + parked,
            window: self.budget.promised.saturating_sub(in_order),
            limit: self.budget.limit(),
        }
    }

    /// Returns the received and unread bytes: first as bytes, then as the larger of bytes and memory
    /// (`truesize`). A segment of one byte also occupies a whole buffer.
    pub(in crate::connection) fn held(&self, subflows: &Subflows) -> [u64; 2] {
        let waits = |it: &Subflow| {
            it.tcp.receive().assembly().out_of_order_bytes() + it.context.delivery().held_bytes()
        };
        let waiting = subflows.iter().map(waits).sum::<u64>() + self.parked.bytes();
        let bytes = waiting + self.stream.held();
        let memory = subflows
            .iter()
            .map(|it| {
                it.tcp.receive().assembly().out_of_order_memory()
                    + it.context.delivery().held_memory()
            })
            .sum::<u64>();
        [bytes, bytes.max(memory + self.stream.memory())]
    }

    /// Returns the free and the total receive space.
    #[inline]
    pub(in crate::connection) fn space(&self, session: &Session, subflows: &Subflows) -> Space {
        let only = subflows.first().filter(|_| session.is_plain());
        let budget = &self.budget;
        let allowed = budget.limit();
        let free = if budget.is_shared() {
            allowed.saturating_sub(budget.window_of_bytes(self.bytes_waiting(only)))
        } else {
            budget.window_beside(self.memory_used(only))
        };
        Space { free, allowed, open: budget.open(), opens: false }
    }

    /// Counts `bytes` read by the application. On plain TCP, the measurement may end after every segment, and
    /// data that is still unread is subtracted (`tcp_rcv_space_adjust`).
    #[inline]
    pub(super) fn note_read(
        &mut self,
        now: Instant,
        session: &Session,
        subflows: &mut Subflows,
        bytes: u64,
    ) {
        self.budget.copied += bytes;
        let by_segments = !session.is_multipath() || self.budget.opened.is_some();
        if by_segments && now >= self.budget.measure_until {
            // Older stacks do not subtract unread data.
            let waits = if self.budget.opened.is_some() { 0 } else { self.stream.unread() };
            self.update_buffers(now, session, subflows, waits);
        }
    }

    /// Handles the end of a series of reads. MPTCP checks the measurement once per call of the application
    /// (`mptcp_rcv_space_adjust`).
    pub(super) fn note_reads_end(
        &mut self,
        now: Instant,
        session: &Session,
        subflows: &mut Subflows,
    ) {
        if session.is_multipath() && now >= self.budget.measure_until {
            self.update_buffers(now, session, subflows, 0);
        }
    }

    /// Adapts the receive buffers to the application's read rate, once per round trip. The connection's
    /// buffer and those of its subflows grow together, because each subflow limits the window that it
    /// advertises.
    fn update_buffers(
        &mut self,
        now: Instant,
        session: &Session,
        subflows: &mut Subflows,
        waiting: u64,
    ) {
        if session.is_multipath() {
            // The worst ratio of all subflows is used, including those that have received no segment.
            let live = subflows.iter().filter(|s| match s.tcp.state() {
                State::Closed => false,
                State::SynSent => s.tcp.opening().has_begun(now),
                _ => true,
            });
            let ratio = live.map(|s| s.tcp.receive().buffer().ratio()).min();
            self.budget.buffer.set_ratio(ratio.unwrap_or(DEFAULT_RATIO));
        }
        let rtt = subflows.iter().filter_map(|s| s.tcp.receive().rtt()).max();
        let Some(rtt) = rtt else { return };
        let budget = &mut self.budget;
        budget.measure_until = budget.measured_from + rtt;
        if now < budget.measure_until {
            return;
        }
        let plain = !session.is_multipath();
        let ahead = subflows
            .first()
            .filter(|_| plain)
            .map_or(0, |only| only.tcp.receive().assembly().span());
        let copied = std::mem::take(&mut budget.copied).saturating_sub(waiting);
        budget.measured_from = now;
        budget.measure_until = now + rtt;
        if copied > budget.buffer.space() && budget.buffer.grow(copied, ahead) {
            // A subflow that is not open has not started to measure (`rcvq_space.space`).
            let open = |s: &&mut Subflow| s.tcp.state() == State::Established;
            for subflow in subflows.iter_mut().filter(open) {
                subflow.tcp.receive_mut().grow_buffer(copied);
            }
        }
    }

    /// Updates the buffer of plain TCP after a payload was stored: for its segment size, and for space for
    /// out-of-order data.
    #[inline]
    pub(super) fn note_plain_payload(&mut self, subflow: &Subflow, known_mss: u32) {
        let receive = subflow.tcp.receive();
        if receive.received_mss() > known_mss {
            self.budget.buffer.on_segment_size(u64::from(receive.received_mss()));
        }
        if receive.assembly().span() > 0 {
            self.budget.buffer.grow_ahead(receive.assembly().span());
        }
    }

    /// Makes MPTCP's buffer at least as large as that of a subflow that has delivered data
    /// (`__mptcp_move_skbs_from_subflow`). The subflow's buffer includes space for its own out-of-order data.
    /// Data that is out of order between subflows gets no additional space.
    #[inline]
    pub(super) fn grow_buffer_like(
        &mut self,
        session: &Session,
        subflows: &Subflows,
        index: usize,
    ) {
        if session.is_multipath() {
            self.budget.buffer.grow_like(subflows[index].tcp.receive().buffer());
        }
    }

    /// Updates the buffer after the data of a segment was stored, and sends acknowledgements that are due
    /// (`mptcp_data_ready`, `tcp_ack_snd_check`). `news` means that the connection received new data.
    #[inline]
    pub(super) fn grow_and_acknowledge(
        &mut self,
        now: Instant,
        session: &Session,
        subflows: &mut Subflows,
        index: usize,
        segment: &Segment,
        news: bool,
    ) {
        if news {
            self.grow_buffer_like(session, subflows, index);
        }
        if session.stack().shared.acknowledges_by_read && !segment.payload.is_empty() {
            // A segment without new data for the connection is acknowledged as if unread data were left.
            let silent = session.is_multipath() && !news;
            let unread = silent || self.stream.unread() > 0;
            let space = self.space(session, subflows);
            subflows[index].tcp.check_ack_filed(now, space, unread);
        }
    }

    /// Records the window that a subflow has advertised. Its right edge limits every subflow, unless the
    /// subflow advertised its own window.
    pub(in crate::connection) fn note_promise(&mut self, subflows: &Subflows, index: usize) {
        let window = subflows[index].tcp.receive().window();
        self.budget.told = window as u32;
        if subflows[index].advertises_own_window() {
            return;
        }
        let edge = self.stream.acknowledged() + window;
        self.budget.promised = self.budget.promised.max(edge);
    }
}
