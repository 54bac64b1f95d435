//! The connection-level receive window, shared by all subflows, with Linux's dynamic right-sizing
//! (`mptcp_rcv_space_adjust`; RFC 8684 section 3.3.1 "the receive window is shared"). In older stacks
//! the subflows open it together too (`tcp_grow_window` of the connection's socket).

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
    /// Right edge promised to the peer, as a data position (`rcv_wnd_sent`).
    promised: u64,
    /// The last advertised window, on any subflow, bytes (`old_wspace`).
    told: u32,
    /// Bytes the application has read in this measurement.
    copied: u64,
    measured_from: Instant,
    /// The end of the current measurement.
    measure_until: Instant,
    /// If the subflows open one window together: its size so far (`rcv_ssthresh`), and the part of each join.
    opened: Option<(u64, u64)>,
    /// Memory of a full segment, and its payload, bytes.
    segment: (u64, u64),
}

impl ReceiveBudget {
    /// The budget of a connection that begins where `mss` is announced.
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

    /// The connection is open: reads of the application are measured from now on (`mptcp_rcv_space_init`,
    /// `tcp_init_buffer_space`).
    pub(super) fn begin(&mut self, now: Instant) {
        self.measured_from = now;
    }

    /// The subflows open one window together.
    pub(super) fn is_shared(&self) -> bool {
        self.opened.is_some()
    }

    /// The part of the window that may be advertised so far.
    pub(super) fn open(&self) -> u64 {
        self.opened.map_or(u64::MAX, |(open, _)| open)
    }

    /// The part of the window that `bytes` take up if half of the buffer is window: half of their memory.
    fn window_of_bytes(&self, bytes: u64) -> u64 {
        let (memory, payload) = self.segment;
        bytes * memory / (2 * payload)
    }

    /// The window that is left if waiting data takes this memory (`__mptcp_space`, `tcp_space`).
    pub(super) fn window_beside(&self, memory: u64) -> u64 {
        self.buffer.window_beside(memory)
    }

    /// A payload has arrived while `used` of the window was taken. It opens the window by two segments, or by twice
    /// the merged segments, up to the limit (`tcp_grow_window`). Returns whether it did.
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

    /// A join is open, at an address where `mss` is announced: its buffer and its window are added.
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

    /// With `free` bytes of room the window is at least twice the last advertised one (`mptcp_cleanup_rbuf`).
    pub(super) fn has_opened(&self, free: u64) -> bool {
        free > 0 && free >= 2 * u64::from(self.told)
    }
}

/// Returns whether some of the bytes from a DSN on are new, if `next` is expected. Known bytes are dropped without
/// notice to the connection (`subflow_check_data_avail`, `mptcp_subflow_discard_data`).
#[inline]
pub(super) fn is_news(next: u64, dsn: u64, bytes: usize) -> bool {
    dsn.wrapping_add(bytes as u64).wrapping_sub(next) as i64 > 0
}

/// A receiver's data and window at one moment.
#[derive(Clone, Copy, Debug)]
pub struct ReceiverSample {
    /// Bytes received in order.
    pub in_order: u64,
    /// Unread bytes of these.
    pub unread: u64,
    /// Bytes beyond a gap of the data stream.
    pub ahead: u64,
    /// Bytes beyond a gap of their own subflow, or without their mapping, all subflows together.
    pub in_subflows: u64,
    /// The advertised window beyond the data in order; 0 on plain TCP, where only the subflow advertises one.
    pub window: u64,
    /// The window that the whole buffer would make.
    pub limit: u64,
}

impl Incoming {
    /// The memory that the buffer is charged with. MPTCP's buffer is charged with what subflows hand up. Data that waits
    /// in a subflow is charged to the subflow's (`__mptcp_rmem`, `mptcp_space`), except on plain TCP, which has `only` one.
    #[inline]
    fn memory_used(&self, only: Option<&Subflow>) -> u64 {
        self.stream.memory()
            + only.map_or(0, |only| only.tcp.receive().assembly().out_of_order_memory())
    }

    /// The bytes of the data that the buffer is charged with.
    pub(super) fn bytes_waiting(&self, only: Option<&Subflow>) -> u64 {
        self.stream.held()
            + only.map_or(0, |only| only.tcp.receive().assembly().out_of_order_bytes())
    }

    /// The receiver's state at this moment.
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

    /// Bytes that were received and not read. The larger figure counts them with their memory (`truesize`) if that is
    /// more: a segment of one byte takes a buffer, too.
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

    /// Receive space, free and in all.
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

    /// The application has read `bytes`. Plain TCP measures after every segment and leaves out waiting data
    /// (`tcp_rcv_space_adjust`).
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
            // Older stacks measure all that was read.
            let waits = if self.budget.opened.is_some() { 0 } else { self.stream.unread() };
            self.resize_buffers(now, session, subflows, waits);
        }
    }

    /// The application has finished its reads. MPTCP measures by calls, not by segments (`mptcp_rcv_space_adjust`).
    pub(super) fn note_reads_end(
        &mut self,
        now: Instant,
        session: &Session,
        subflows: &mut Subflows,
    ) {
        if session.is_multipath() && now >= self.budget.measure_until {
            self.resize_buffers(now, session, subflows, 0);
        }
    }

    /// Once an RTT the buffers follow the application's reads: the connection's, and with it those of its subflows,
    /// each of which limits the window that it advertises.
    fn resize_buffers(
        &mut self,
        now: Instant,
        session: &Session,
        subflows: &mut Subflows,
        waiting: u64,
    ) {
        if session.is_multipath() {
            // The worst ratio of all subflows is used, including subflows without a segment so far.
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
            // A subflow that is not open has not begun to measure (`rcvq_space.space`).
            let open = |s: &&mut Subflow| s.tcp.state() == State::Established;
            for subflow in subflows.iter_mut().filter(open) {
                subflow.tcp.receive_mut().grow_buffer(copied);
            }
        }
    }

    /// A payload was stored: updates the buffer for its segment size, and makes room for out-of-order data.
    #[inline]
    pub(super) fn note_payload(
        &mut self,
        session: &Session,
        subflows: &Subflows,
        index: usize,
        known_mss: u32,
    ) {
        let subflow = &subflows[index];
        let multipath = session.is_multipath();
        if !multipath && subflow.tcp.receive().received_mss() > known_mss {
            self.budget.buffer.on_segment_size(u64::from(subflow.tcp.receive().received_mss()));
        }
        if !multipath && subflow.tcp.receive().assembly().span() > 0 {
            self.budget.buffer.make_room(subflow.tcp.receive().assembly().span());
        }
    }

    /// A subflow has delivered data: MPTCP's buffer is at least as large as the subflow's, which has room for
    /// out-of-order data (`__mptcp_move_skbs_from_subflow`). Data that is out of order between subflows gets no
    /// additional room.
    #[inline]
    pub(super) fn follow_buffer(&mut self, session: &Session, subflows: &Subflows, index: usize) {
        if session.is_multipath() {
            self.budget.buffer.follow(subflows[index].tcp.receive().buffer());
        }
    }

    /// A segment's data was stored, and brought `news` to the connection or not: the buffer follows, and
    /// acknowledgements may be due (`mptcp_data_ready`, `tcp_ack_snd_check`).
    #[inline]
    pub(super) fn follow_and_acknowledge(
        &mut self,
        now: Instant,
        session: &Session,
        subflows: &mut Subflows,
        index: usize,
        segment: &Segment,
        news: bool,
    ) {
        if news {
            self.follow_buffer(session, subflows, index);
        }
        if session.stack().shared.acknowledges_by_read && !segment.payload.is_empty() {
            // A subflow without new data for the connection does not check for unread data.
            let silent = session.is_multipath() && !news;
            let unread = silent || self.stream.unread() > 0;
            let space = self.space(session, subflows);
            subflows[index].tcp.check_ack_filed(now, space, unread);
        }
    }

    /// A subflow has advertised a window: its edge binds every subflow, unless it was the subflow's own.
    pub(in crate::connection) fn note_promise(&mut self, subflows: &Subflows, index: usize) {
        let window = subflows[index].tcp.receive().window();
        self.budget.told = window as u32;
        if subflows[index].tells_own_window() {
            return;
        }
        let edge = self.stream.acknowledged() + window;
        self.budget.promised = self.budget.promised.max(edge);
    }
}
