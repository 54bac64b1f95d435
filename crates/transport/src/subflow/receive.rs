//! The receiving half of a subflow: reassembly, SACK and DSACK generation, the advertised window
//! (`tcp_data_queue`, `__tcp_select_window`, `tcp_grow_window`).

mod payload;

use anabranch_units::{Duration, Instant, SeqNumber};
use anabranch_wire::{SackBlock, SackBlocks};
use bytes::Bytes;

use super::deliver::{Delivery, Failure};
use super::reports::{BLOCKS, Reports};
use super::sending::rtt::timestamp_clock;
use super::{EmitContext, Space};
use crate::config::Config;
use crate::profile::ReceiveSizing;
use crate::reassembly::{Inserted, OutOfOrder, share};
use crate::receive_buffer::{Load, ReceiveBuffer, first_memory, first_window, whole_segments};

/// State of the receiving half.
#[derive(Debug)]
pub(crate) struct Receiver {
    next: u64,
    /// `next` when the window was last advertised (`rcv_wup`).
    advertised_at: u64,
    /// The window then advertised, bytes.
    window: u64,
    /// How much of the buffer may be offered yet (`rcv_ssthresh`).
    slow_start: u64,
    /// The connection has that for all its subflows, and the RTT is smoothed from every segment.
    shared: bool,
    /// The subflow's own buffer: no more than it holds is ever offered (`window_clamp`).
    pub(crate) buffer: ReceiveBuffer,
    runs: OutOfOrder,
    /// What is told of them.
    pub(super) reports: Reports,
    pub(super) duplicate: Option<(u64, u64)>,
    /// The way up of what is in order.
    pub(super) delivery: Delivery,
    fin_at: Option<u64>,
    /// The receiver's own RTT estimate times 8, microseconds (`rcv_rtt_est`).
    rtt8: u64,
    /// The echoed timestamp it was measured by last (`rcv_rtt_last_tsecr`).
    last_echo: u32,
}

/// The window of a SYN: half the buffer, in whole segments if it holds one, at most 64 KiB, or in older stacks twenty
/// segments (`tcp_select_initial_window`).
pub(crate) fn initial_window(config: &Config, mss: u16) -> u64 {
    match config.stack.shared.receive {
        ReceiveSizing::Ratio => whole_segments((first_memory(config) / 2).min(65_535), mss.into()),
        ReceiveSizing::Half => first_window(config, mss),
    }
}

impl Receiver {
    /// The receiver of who announces `mss`.
    pub(crate) fn new(config: &Config, mss: u16) -> Self {
        let window = initial_window(config, mss);
        let shared = config.stack.shared.receive == ReceiveSizing::Half;
        let buffer = ReceiveBuffer::new(config, mss);
        Self {
            next: 0,
            advertised_at: 0,
            window,
            // Where the subflows open one window together it is the connection's.
            slow_start: if shared { u64::MAX } else { window.min(buffer.window_at_first()) },
            shared,
            buffer,
            runs: OutOfOrder::default(),
            reports: Reports::default(),
            duplicate: None,
            delivery: Delivery::default(),
            fin_at: None,
            rtt8: 0,
            last_echo: 0,
        }
    }

    /// Next position expected (`rcv_nxt`).
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// The window advertised last.
    pub(crate) fn window(&self) -> u64 {
        self.window
    }

    /// Position up to which the last acknowledgement went.
    pub(crate) fn advertised_at(&self) -> u64 {
        self.advertised_at
    }

    pub(crate) fn out_of_order(&self) -> bool {
        !self.runs.is_empty()
    }

    /// The receiver's RTT estimate from echoed timestamps (`tcp_rcv_rtt_measure_ts`).
    pub(crate) fn rtt(&self) -> Option<Duration> {
        (self.rtt8 > 0).then(|| Duration::from_micros(self.rtt8 / 8))
    }

    #[cfg(test)]
    pub(crate) fn set_rtt(&mut self, rtt: Duration) {
        self.rtt8 = rtt.as_micros() * 8;
    }

    /// A segment echoes a timestamp; a `full` one gives a sample.
    fn measure_rtt(&mut self, now: Instant, echo: u32, full: bool) {
        let elapsed = timestamp_clock(now).wrapping_sub(echo);
        // The first segment that answers an acknowledgement tells, not those that follow it: nothing is
        // learnt where that one carries little or nothing.
        let known = echo == self.last_echo && !self.shared;
        self.last_echo = echo;
        if known || !full || elapsed == 0 || elapsed > 60_000 {
            return;
        }
        let sample = u64::from(elapsed) * 1_000;
        // The least at once, more only smoothed (`tcp_rcv_rtt_update`, 6.16); before all was.
        let larger = self.rtt8 > 0 && (self.shared || sample * 8 >= self.rtt8);
        self.rtt8 = if larger { self.rtt8 - self.rtt8 / 8 + sample } else { sample * 8 };
    }

    /// Bytes from the next one expected to the last one held.
    pub(crate) fn span(&self) -> u64 {
        self.runs.end().map_or(0, |end| end - self.next)
    }

    /// The connection's buffer has grown after `copied` bytes were read in an RTT.
    pub(crate) fn grow_buffer(&mut self, copied: u64) {
        let ahead = self.span();
        self.buffer.grow(copied, ahead);
    }

    /// Lets go of everything that waits out of order: nobody will fill the gaps.
    pub(crate) fn discard(&mut self) {
        self.runs = OutOfOrder::default();
        self.reports.clear();
        self.delivery.discard();
    }

    /// A segment repeated `[start, end)`, of which at least the beginning was known.
    pub(super) fn report_duplicate(&mut self, start: u64, end: u64) {
        self.duplicate = Some((start, end.min(self.next)));
    }

    /// The connection opens one window for all its subflows (4.14).
    pub(super) fn shares_window(&self) -> bool {
        self.shared
    }

    /// Bytes waiting out of order.
    pub(crate) fn out_of_order_bytes(&self) -> u64 {
        self.runs.bytes()
    }

    /// The memory that they take (`sk_rmem_alloc`).
    pub(crate) fn out_of_order_memory(&self) -> u64 {
        self.runs.memory()
    }

    /// The memory of all that waits here: out of order, and until its mapping is whole.
    pub(crate) fn memory(&self) -> u64 {
        self.runs.memory() + self.delivery.held_memory()
    }

    /// The SYN took position 0.
    pub(crate) fn after_syn(&mut self) {
        self.next = 1;
        self.advertised_at = 1;
    }

    /// Bytes in order and not handed up: their mapping is not complete, or is wrong.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.delivery.held_bytes()
    }

    /// Position behind the last byte handed up.
    pub(crate) fn handed(&self) -> u64 {
        self.next - self.delivery.held_bytes()
    }

    /// What is wrong with what came.
    #[inline(always)]
    pub(crate) fn failure(&self) -> Option<Failure> {
        self.delivery.failure()
    }

    /// The DSN of a `DATA_FIN` that a verified mapping has brought; once.
    pub(crate) fn take_data_fin(&mut self) -> Option<u64> {
        self.delivery.take_data_fin()
    }

    /// From here on it is plain TCP: what was held goes up, with stream positions.
    pub(crate) fn release(&mut self, up: &mut impl FnMut(u64, Bytes, u64)) {
        self.delivery.release(self.next, up);
    }

    /// Hands bytes at `next` up.
    #[inline(always)]
    fn deliver(
        &mut self,
        payload: Bytes,
        memory: u64,
        multipath: bool,
        up: &mut impl FnMut(u64, Bytes, u64),
    ) {
        let at = self.next;
        self.next += payload.len() as u64;
        self.delivery.deliver(at, payload, memory, multipath, up);
    }

    /// Takes the payload of a segment at `start`; true when it advanced `next`.
    fn accept(
        &mut self,
        mut start: u64,
        mut payload: Bytes,
        mut memory: u64,
        multipath: bool,
        up: &mut impl FnMut(u64, Bytes, u64),
    ) -> Arrival {
        let end = start + payload.len() as u64;
        if end <= self.next {
            self.duplicate = Some((start, end));
            return Arrival::Duplicate;
        }
        if start < self.next {
            self.duplicate = Some((start, self.next));
            memory = share(memory, end - self.next, end - start);
            payload = payload.slice((self.next - start) as usize..);
            start = self.next;
        }
        if start == self.next {
            let filled = !self.runs.is_empty();
            self.deliver(payload, memory, multipath, up);
            if filled && self.absorb_runs(multipath, up) {
                return Arrival::FilledGap;
            }
            return Arrival::InOrder;
        }
        self.insert_run(start, payload, memory);
        Arrival::OutOfOrder
    }

    /// Hands up what follows without a gap; true when nothing is left behind one.
    fn absorb_runs(&mut self, multipath: bool, up: &mut impl FnMut(u64, Bytes, u64)) -> bool {
        while let Some((start, piece, memory)) = self.runs.take(self.next) {
            let skip = (self.next - start) as usize;
            if skip == 0 {
                self.deliver(piece, memory, multipath, up);
            } else if skip < piece.len() {
                let left = share(memory, (piece.len() - skip) as u64, piece.len() as u64);
                self.deliver(piece.slice(skip..), left, multipath, up);
            }
        }
        let all = self.runs.is_empty();
        if all {
            self.reports.clear();
        } else {
            self.reports.advance(self.next);
        }
        all
    }

    /// A FIN that is to come at `at`, perhaps ahead of its turn: nothing lies behind it (`tcp_fin`
    /// purges what does). Of several that disagree the first in the stream counts.
    #[cold]
    fn note_fin(&mut self, at: u64) {
        if at < self.next || self.fin_at.is_some_and(|known| known <= at) {
            return;
        }
        self.fin_at = Some(at);
        self.runs.truncate(at);
        self.reports.truncate(at);
    }

    /// The payload at `start` as far as it lies before the peer's FIN.
    #[inline(always)]
    fn before_fin(&self, start: u64, payload: &Bytes) -> Bytes {
        match self.fin_at {
            Some(fin) if start + payload.len() as u64 > fin => {
                payload.slice(..fin.saturating_sub(start) as usize)
            }
            _ => payload.clone(),
        }
    }

    /// Files a segment among the out-of-order runs.
    fn insert_run(&mut self, start: u64, payload: Bytes, memory: u64) {
        let end = start + payload.len() as u64;
        match self.runs.insert(start, payload, memory) {
            Inserted::Duplicate => {
                self.duplicate = Some((start, end));
                self.reports.note(start, end);
            }
            Inserted::Kept(..) => self.reports.note(start, end),
            // What was reported may be among what was let go (`tcp_prune_ofo_queue`).
            Inserted::Pruned => self.reports.forget(),
        }
    }

    /// SACK blocks, a duplicate report first, then what came last.
    pub(super) fn sack_blocks(
        &mut self,
        wire: impl Fn(u64) -> SeqNumber,
        room: usize,
    ) -> SackBlocks {
        let mut blocks = SackBlocks::EMPTY;
        let duplicate = self.duplicate.take();
        let told = self.reports.take_blocks();
        let all = duplicate.into_iter().chain(told.as_slice().iter().copied());
        for (left, right) in all.take(room.min(BLOCKS)) {
            blocks.push(SackBlock { left: wire(left), right: wire(right) });
        }
        blocks
    }

    /// Opens the window for what arrived, unless the connection did, then the buffer for what lies ahead of a gap.
    #[inline(always)]
    fn open(&mut self, arrival: Arrival, load: Load, opens: bool, waiting: u64, mss: u32) -> bool {
        let in_order = arrival != Arrival::OutOfOrder;
        let grew =
            arrival != Arrival::Duplicate && (opens || self.grow(load, in_order, waiting, mss));
        if !in_order {
            self.buffer.make_room(self.span());
        }
        grew
    }

    /// `tcp_grow_window`: what arrives opens the window by two full segments, or by twice itself where it was
    /// several that came as one, as far as the buffer has room beside `waiting` bytes of memory that lay out of order
    /// before and, if this one came `in_order`, itself: it is charged already (`tcp_queue_rcv`, `tcp_space`). Segments
    /// have had up to `received` bytes.
    #[inline(always)]
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

    /// Less than half of the window is free, of the connection's or of this subflow's where that is less.
    #[inline(always)]
    pub(super) fn is_short(&self, space: Space) -> bool {
        let own = if self.shared { u64::MAX } else { self.buffer.window() };
        space.free < space.allowed.min(own) / 2
    }

    /// The window there is room for: none for less than a segment where less than half the buffer
    /// is free (`__tcp_select_window`; RFC 9293 section 3.8.6.2.2).
    pub(super) fn offer(&self, space: Space, mss: u64, scale: u8) -> u64 {
        let mut free = space.free;
        if self.is_short(space) {
            free = free >> scale << scale;
            if free < space.allowed / 16 || free < mss {
                free = 0;
            }
        }
        whole_units(free.min(self.slow_start).min(space.open), scale)
    }

    /// `tcp_select_window`: the window to advertise now, never shrinking. With MPTCP the edge
    /// `promised` on any subflow holds for all, and no other: what this subflow alone had offered
    /// would move with the data that comes on the others (`mptcp_set_rwin`; RFC 8684 section 3.3.1).
    #[inline(always)]
    pub(super) fn select_window(
        &mut self,
        context: &EmitContext,
        mss: u64,
        scale: u8,
        promised: Option<u64>,
    ) -> u64 {
        let current = promised.unwrap_or_else(|| {
            let left = (self.advertised_at + self.window).saturating_sub(self.next);
            whole_units(left, scale)
        });
        let window = self.offer(context.space, mss, scale).max(current);
        self.window = window;
        self.advertised_at = self.next;
        window
    }

    /// The window that would be advertised now is worth an acknowledgement.
    pub(crate) fn could_offer(&self, space: Space) -> u64 {
        space.free.min(self.slow_start).min(space.open)
    }
}

/// Bytes as the window field tells them, rounded up.
fn whole_units(bytes: u64, scale: u8) -> u64 {
    (bytes + (1 << scale) - 1) >> scale << scale
}

/// What became of a segment's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    InOrder,
    FilledGap,
    OutOfOrder,
    Duplicate,
}

#[cfg(test)]
mod tests;
