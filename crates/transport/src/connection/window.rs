//! The connection-level receive window, shared by all subflows, with Linux's dynamic right-sizing
//! (`mptcp_rcv_space_adjust`; RFC 8684 section 3.3.1 "the receive window is shared"). In older stacks
//! the subflows open it together too (`tcp_grow_window` of the connection's socket).

use anabranch_units::Instant;
use anabranch_wire::Segment;

use super::{Connection, Mode};
use crate::config::Config;
use crate::profile::ReceiveSizing;
use crate::receive_buffer::{DEFAULT_RATIO, Load, ReceiveBuffer, first_window};
use crate::subflow::{State, Subflow};

/// The connection's receive buffer and what it promised the peer.
#[derive(Debug)]
pub(super) struct ReceiveBudget {
    buffer: ReceiveBuffer,
    /// Right edge promised to the peer, as a data position (`rcv_wnd_sent`).
    promised: u64,
    /// The window that was told last, on whatever subflow, bytes (`old_wspace`).
    told: u32,
    /// Bytes the application has read in this measurement.
    copied: u64,
    measured_from: Instant,
    /// Once this has come a measurement is complete.
    measure_until: Instant,
    /// Where the subflows open one window: how far (`rcv_ssthresh`), and how far each join does.
    opened: Option<(u64, u64)>,
    /// Memory of a full segment, and its payload, bytes.
    segment: (u64, u64),
}

impl ReceiveBudget {
    /// The budget of a connection that begins where `mss` is announced.
    pub(super) fn new(config: &Config, mss: u16) -> Self {
        let first = first_window(config, mss);
        Self {
            buffer: ReceiveBuffer::new(config, mss),
            promised: 0,
            told: 0,
            copied: 0,
            measured_from: Instant::ZERO,
            measure_until: Instant::ZERO,
            opened: (config.stack.shared.receive == ReceiveSizing::Half).then_some((first, first)),
            segment: (config.host.receive_memory_per_segment, u64::from(mss - 12)),
        }
    }

    /// The connection is open: what is read counts from now on (`mptcp_rcv_space_init`,
    /// `tcp_init_buffer_space`).
    pub(super) fn begin(&mut self, now: Instant) {
        self.measured_from = now;
    }

    /// The subflows open one window.
    pub(super) fn is_shared(&self) -> bool {
        self.opened.is_some()
    }

    /// How much of the window may be offered yet.
    pub(super) fn open(&self) -> u64 {
        self.opened.map_or(u64::MAX, |(open, _)| open)
    }

    /// Where half of the buffer is window, what `bytes` that wait take up of it: half of their memory.
    pub(super) fn window_of_bytes(&self, bytes: impl FnOnce() -> u64) -> Option<u64> {
        let (memory, payload) = self.segment;
        self.opened.map(|_| bytes() * memory / (2 * payload))
    }

    /// The window that is left beside data that waits in so much memory (`__mptcp_space`, `tcp_space`).
    pub(super) fn window_beside(&self, memory: u64) -> u64 {
        self.buffer.window_beside(memory)
    }

    /// A payload has come while `used` of the window was taken: it opens it by two segments, or twice those
    /// that came as one, up to what there is (`tcp_grow_window`). True when it did.
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

    /// A join has opened where `mss` is announced: its buffer and its window are added.
    pub(super) fn on_join(&mut self, config: &Config, mss: u16) {
        if let Some((open, first)) = &mut self.opened {
            *open += *first;
            self.buffer.add(&ReceiveBuffer::new(config, mss));
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

    /// With `free` bytes of room the window is at least twice as large as was told last (`mptcp_cleanup_rbuf`).
    pub(super) fn has_opened(&self, free: u64) -> bool {
        free > 0 && free >= 2 * u64::from(self.told)
    }
}

/// Some of so many bytes from a DSN on has not come before, where `next` is expected: what all has is thrown away without a
/// word to the connection (`subflow_check_data_avail`, `mptcp_subflow_discard_data`).
#[inline(always)]
pub(super) fn is_news(next: u64, dsn: u64, bytes: usize) -> bool {
    dsn.wrapping_add(bytes as u64).wrapping_sub(next) as i64 > 0
}

/// What a receiver holds, and what it lets its peer send.
#[derive(Clone, Copy, Debug)]
pub struct ReceiverSample {
    /// Bytes that came in order.
    pub in_order: u64,
    /// Of these, bytes that were not read.
    pub unread: u64,
    /// Bytes beyond a gap of the data stream.
    pub ahead: u64,
    /// Bytes beyond a gap of their own subflow, or without their mapping, all subflows together.
    pub in_subflows: u64,
    /// How far beyond what is in order the peer may send, as it was told; 0 of plain TCP, where only the
    /// subflow tells it.
    pub window: u64,
    /// The window that the whole buffer would make.
    pub limit: u64,
}

impl Connection {
    /// MPTCP's buffer is charged with what subflows hand up; what waits in a subflow is charged to the
    /// subflow's (`__mptcp_rmem`, `mptcp_space`).
    #[inline(always)]
    pub(super) fn memory_used(&self) -> u64 {
        match (self.mode, self.subflows.first()) {
            (Mode::Plain, Some(only)) => self.input.memory() + only.receive.out_of_order_memory(),
            _ => self.input.memory(),
        }
    }

    /// The bytes of that.
    pub(super) fn bytes_waiting(&self) -> u64 {
        match (self.mode, self.subflows.first()) {
            (Mode::Plain, Some(only)) => self.input.held() + only.receive.out_of_order_bytes(),
            _ => self.input.held(),
        }
    }

    /// What it holds of what it receives at this moment.
    pub fn receiver(&self) -> ReceiverSample {
        let waits = |it: &Subflow| it.receive.out_of_order_bytes() + it.receive.held_bytes();
        let parked = self.input.parked.bytes();
        let (in_order, unread) = (self.input.acknowledged(), self.input.unread());
        ReceiverSample {
            in_order,
            unread,
            ahead: self.input.held() - unread,
            in_subflows: self.subflows.iter().map(waits).sum::<u64>() + parked,
            window: self.budget.promised.saturating_sub(in_order),
            limit: self.budget.limit(),
        }
    }

    /// Bytes of data that it holds: written and not acknowledged, received and not read, out of order too.
    pub fn held(&self) -> u64 {
        let waits = |it: &Subflow| it.receive.out_of_order_bytes() + it.receive.held_bytes();
        let waiting = self.subflows.iter().map(waits).sum::<u64>() + self.input.parked.bytes();
        self.out.end - self.out.una + self.input.held() + waiting
    }

    /// Bytes that it holds of what it received and did not hand on, and of what it sends and is not acknowledged.
    /// What was received counts with its memory (`truesize`) if that is more: a segment of one byte takes a buffer too.
    /// A `DATA_ACK` alone releases nothing: every subflow keeps what it sent until it is acknowledged there.
    pub fn memory_held(&self) -> [u64; 2] {
        let waits = |it: &Subflow| it.receive.out_of_order_bytes() + it.receive.held_bytes();
        let bytes = self.subflows.iter().map(waits).sum::<u64>()
            + self.input.parked.bytes()
            + self.input.held();
        let memory = self.subflows.iter().map(|it| it.receive.memory()).sum::<u64>();
        let (stream, unscheduled) =
            (self.out.end - self.out.una, self.out.end.saturating_sub(self.out.next));
        let on_subflows = self.subflows.iter().map(|it| it.send.held_bytes()).sum::<u64>();
        [bytes.max(memory + self.input.memory()), stream.max(unscheduled + on_subflows)]
    }

    /// The application has read `bytes`. Plain TCP measures after every segment and leaves out what
    /// still waits (`tcp_rcv_space_adjust`).
    #[inline]
    pub(super) fn note_read(&mut self, now: Instant, bytes: u64) {
        self.budget.copied += bytes;
        let by_segments = self.mode != Mode::Multipath || self.budget.opened.is_some();
        if by_segments && now >= self.budget.measure_until {
            // Older stacks measure all that was read.
            let waits = if self.budget.opened.is_some() { 0 } else { self.input.unread() };
            self.resize_buffers(now, waits);
        }
    }

    /// The application has read all it wants for now: MPTCP measures by calls, not by segments
    /// (`mptcp_rcv_space_adjust`).
    pub(super) fn note_reads_end(&mut self, now: Instant) {
        if self.mode == Mode::Multipath && now >= self.budget.measure_until {
            self.resize_buffers(now, 0);
        }
    }

    /// Once an RTT the buffers follow what the application read in it: the connection's, and with it
    /// those of its subflows, each of which bounds the window that it advertises.
    fn resize_buffers(&mut self, now: Instant, waiting: u64) {
        if self.mode == Mode::Multipath {
            // The worst of all subflows counts, those among them that have not brought a segment yet.
            let live =
                self.subflows.iter().filter(|s| s.state != State::Closed && s.has_begun(now));
            let ratio = live.map(|s| s.receive.buffer.ratio()).min();
            self.budget.buffer.set_ratio(ratio.unwrap_or(DEFAULT_RATIO));
        }
        let rtt = self.subflows.iter().filter_map(|s| s.receive.rtt()).max();
        let Some(rtt) = rtt else { return };
        let budget = &mut self.budget;
        budget.measure_until = budget.measured_from + rtt;
        if now < budget.measure_until {
            return;
        }
        let plain = self.mode != Mode::Multipath;
        let ahead = self.subflows.first().filter(|_| plain).map_or(0, |only| only.receive.span());
        let copied = std::mem::take(&mut budget.copied).saturating_sub(waiting);
        budget.measured_from = now;
        budget.measure_until = now + rtt;
        if copied > budget.buffer.space() && budget.buffer.grow(copied, ahead) {
            // One that is not open yet has not begun to measure (`rcvq_space.space`).
            let open = |s: &&mut Subflow| s.state == State::Established;
            for subflow in self.subflows.iter_mut().filter(open) {
                subflow.receive.grow_buffer(copied);
            }
        }
    }

    /// A payload has been filed: what it tells about sizes, and room for what lies beyond a gap.
    #[inline(always)]
    pub(super) fn note_payload(&mut self, index: usize, known_mss: u32) {
        let subflow = &mut self.subflows[index];
        let multipath = self.mode == Mode::Multipath;
        if !multipath && subflow.received_mss() > known_mss {
            self.budget.buffer.on_segment_size(u64::from(subflow.received_mss()));
        }
        if !multipath && subflow.receive.span() > 0 {
            self.budget.buffer.make_room(subflow.receive.span());
        }
    }

    /// A subflow has handed data up: MPTCP's buffer is no smaller than the subflow's, which has room for what
    /// lies beyond gaps there (`__mptcp_move_skbs_from_subflow`). What one subflow brings ahead of another gets
    /// no room of its own.
    #[inline]
    pub(super) fn follow_buffer(&mut self, index: usize) {
        if self.mode == Mode::Multipath {
            self.budget.buffer.follow(&self.subflows[index].receive.buffer);
        }
    }

    /// A segment's data is filed, and brought `news`, in order on its subflow, to the connection: the buffer follows, and
    /// acknowledgements may be due (`mptcp_data_ready`, `tcp_ack_snd_check`).
    #[inline(always)]
    pub(super) fn follow_and_acknowledge(
        &mut self,
        now: Instant,
        index: usize,
        segment: &Segment,
        news: bool,
    ) {
        if news {
            self.follow_buffer(index);
        }
        if self.config.stack.shared.acknowledges_by_read && !segment.payload.is_empty() {
            // Of a subflow that has nothing new for the connection nobody asks what there is to read.
            let silent = self.mode == Mode::Multipath && !news;
            let unread = silent || self.input.unread() > 0;
            let space = self.space();
            self.subflows[index].check_ack_filed(now, space, unread);
        }
    }

    /// A subflow has advertised a window: its edge binds every subflow, unless it was its own.
    pub(super) fn note_promise(&mut self, index: usize) {
        let window = self.subflows[index].receive.window();
        self.budget.told = window as u32;
        if self.subflows[index].tells_own_window() {
            return;
        }
        let edge = self.input.acknowledged() + window;
        self.budget.promised = self.budget.promised.max(edge);
    }
}
