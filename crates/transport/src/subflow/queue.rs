//! What a subflow holds to send: data queued under its mappings, the send buffer's memory
//! (`sk_wmem_queued`, `tcp_sndbuf_expand`) and the peer's window.

use std::collections::VecDeque;

use anabranch_units::{Duration, Instant};
use bytes::{Bytes, BytesMut};

use super::INITIAL_WINDOW;
use super::scoreboard::BurstMapping;
use crate::config::Config;

/// Data handed to a subflow and not sent yet: one mapping's worth, or the rest of it.
#[derive(Clone, Debug)]
pub(crate) struct Chunk {
    pub(crate) payload: Bytes,
    /// Stream position of the first byte.
    pub(crate) data: u64,
    mapping: BurstMapping,
}

/// Everything the sending half keeps besides the scoreboard.
#[derive(Debug)]
pub(crate) struct Sender {
    pub(super) una: u64,
    pub(super) next: u64,
    /// Position behind the last queued byte.
    pub(super) write_end: u64,
    /// Right edge of the peer's window, as a position.
    pub(super) window_end: u64,
    pub(super) queue: VecDeque<Chunk>,
    pub(super) queued: u64,
    pub(super) unacked_bytes: u64,
    pub(super) mss: u32,
    pub(super) buffer_max: u64,
    pub(super) buffer: u64,
    pub(super) memory_per_segment: u64,
    pub(super) memory_percent: (u64, u64),
    pub(super) multipath_mappings: bool,
    /// Retransmit the head whatever the window says: the timer has fired.
    pub(crate) force_retransmit: bool,
    /// A tail loss probe is due.
    pub(crate) probe: bool,
    /// Retransmit lost segments as the window allows.
    pub(crate) retransmit: bool,
    pub(crate) reorder_wait: Option<Duration>,
    pub(crate) newly_lost: u32,
    pub(super) cwnd_limited: bool,
    pub(super) max_packets_out: u32,
    pub(super) usage_seq: u64,
    pub(super) cwnd_used: u32,
    pub(super) window_stamp: Instant,
    pub(crate) last_sent: Instant,
    pub(crate) fin_queued: bool,
    pub(super) fin_sent: bool,
    /// The application waits for buffer space (`SOCK_NOSPACE`).
    pub(crate) blocked_on_buffer: bool,
    /// New data went out although the window was full and no probe was due; never happens.
    pub(crate) overran: bool,
}

impl Sender {
    pub(crate) fn new(config: &Config) -> Self {
        let mut sender = Self {
            una: 0,
            next: 0,
            write_end: 1,
            window_end: 0,
            queue: VecDeque::new(),
            queued: 0,
            unacked_bytes: 0,
            mss: u32::from(config.mss) - 12,
            buffer_max: config.send_buffer_max,
            buffer: 0,
            memory_per_segment: config.host.send_memory_per_segment,
            memory_percent: (
                config.host.unsent_memory_percent,
                config.host.in_flight_memory_percent,
            ),
            multipath_mappings: false,
            force_retransmit: false,
            probe: false,
            retransmit: false,
            reorder_wait: None,
            newly_lost: 0,
            cwnd_limited: false,
            max_packets_out: 0,
            usage_seq: 0,
            cwnd_used: 0,
            window_stamp: Instant::ZERO,
            last_sent: Instant::ZERO,
            fin_queued: false,
            fin_sent: false,
            blocked_on_buffer: false,
            overran: false,
        };
        sender.grow_buffer(INITIAL_WINDOW, 2);
        sender
    }

    /// First position not acknowledged (`snd_una`).
    pub(crate) fn una(&self) -> u64 {
        self.una
    }

    /// Next position to send (`snd_nxt`).
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    pub(crate) fn queued_bytes(&self) -> u64 {
        self.queued
    }

    /// Payload bytes written and not acknowledged.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.queued + self.unacked_bytes
    }

    /// Memory charged for them (`sk_wmem_queued`).
    pub(crate) fn memory(&self) -> u64 {
        let (unsent, in_flight) = self.memory_percent;
        (self.queued * unsent + self.unacked_bytes * in_flight) / 100
    }

    pub(crate) fn buffer_limit(&self) -> u64 {
        self.buffer
    }

    pub(crate) fn set_mss(&mut self, mss: u32) {
        self.mss = mss;
    }

    pub(crate) fn use_mappings(&mut self) {
        self.multipath_mappings = true;
    }

    /// SYN sent or answered: the next position is 1.
    pub(crate) fn after_syn(&mut self) {
        self.next = 1;
    }

    pub(crate) fn set_una(&mut self, una: u64) {
        self.una = una;
    }

    pub(crate) fn on_bytes_acked(&mut self, bytes: u64) {
        self.unacked_bytes -= bytes.min(self.unacked_bytes);
    }

    /// The peer's window: true when the right edge moved.
    pub(crate) fn update_window(&mut self, ack: u64, window: u64) -> bool {
        let moved = ack + window > self.window_end;
        self.window_end = self.window_end.max(ack + window);
        moved
    }

    /// Bytes the peer admitted in the handshake.
    pub(crate) fn initial_window(&self) -> u64 {
        self.window_end.saturating_sub(1)
    }

    /// Everything queued was sent and the peer's window is shut.
    pub(crate) fn shut_out(&self) -> bool {
        self.next >= self.window_end && self.queued > 0
    }

    /// `tcp_sndbuf_expand`.
    pub(crate) fn grow_buffer(&mut self, cwnd: u32, factor: u32) {
        let segments = u64::from(cwnd.max(INITIAL_WINDOW));
        let wanted = u64::from(factor) * segments * self.memory_per_segment;
        self.buffer = self.buffer.max(wanted.min(self.buffer_max));
    }

    /// The window was set by the core: restart the validation clock (`snd_cwnd_stamp`).
    pub(crate) fn window_touched(&mut self, now: Instant) {
        self.window_stamp = now;
    }

    /// Takes data to send at the end of the queue.
    #[inline(always)]
    pub(crate) fn enqueue(&mut self, payload: Bytes, data: u64) {
        let length = payload.len() as u64;
        let mut mapping =
            BurstMapping { data, position: self.write_end, length: length.min(65_535) as u16 };
        // Adjacent data extends the last mapping as long as nothing of it has been sent.
        if let Some(last) = self.queue.back() {
            let grown = u64::from(last.mapping.length) + length;
            let adjacent = last.data + last.payload.len() as u64 == data;
            let unsent = last.mapping.position >= self.next;
            if adjacent && unsent && grown <= 65_000 {
                mapping = BurstMapping { length: grown as u16, ..last.mapping };
                let (data_start, start) = (mapping.data, mapping.position);
                for chunk in self.queue.iter_mut().rev() {
                    if chunk.mapping.data != data_start || chunk.mapping.position != start {
                        break;
                    }
                    chunk.mapping = mapping;
                }
            }
        }
        self.write_end += length;
        self.queued += length;
        self.queue.push_back(Chunk { payload, data, mapping });
    }

    /// Cuts the next segment of at most `limit` bytes off the queue.
    pub(super) fn cut(&mut self, limit: usize) -> Option<(Bytes, BurstMapping)> {
        let front = self.queue.front_mut()?;
        let mapping = front.mapping;
        if front.payload.len() > limit {
            let payload = front.payload.split_to(limit);
            front.data += limit as u64;
            self.queued -= limit as u64;
            return Some((payload, mapping));
        }
        let chunk = self.queue.pop_front()?;
        let mut payload = chunk.payload;
        // Fill the segment from the next chunk where the mapping (or plain TCP) allows it.
        while payload.len() < limit {
            let joined = self.queue.front().is_some_and(|next| {
                !self.multipath_mappings
                    || (next.mapping.data == mapping.data
                        && next.mapping.position == mapping.position)
            });
            if !joined {
                break;
            }
            let next = self.queue.front_mut().expect("just seen");
            let take = (limit - payload.len()).min(next.payload.len());
            let mut whole = BytesMut::with_capacity(payload.len() + take);
            whole.extend_from_slice(&payload);
            whole.extend_from_slice(&next.payload.split_to(take));
            next.data += take as u64;
            payload = whole.freeze();
            if next.payload.is_empty() {
                self.queue.pop_front();
            }
        }
        self.queued -= payload.len() as u64;
        Some((payload, mapping))
    }

    /// Takes back everything not sent yet (the subflow is going away or is being drained).
    pub(crate) fn drain_unsent(&mut self) {
        self.write_end -= self.queued;
        self.queued = 0;
        self.queue.clear();
    }

    /// A FIN may be sent: everything queued is out.
    pub(super) fn fin_due(&self) -> bool {
        self.fin_queued && !self.fin_sent && self.queued == 0
    }

    /// Something is to go out whatever the congestion window says.
    pub(crate) fn is_urged(&self) -> bool {
        self.force_retransmit || self.probe
    }

    /// Something waits for room in the congestion window.
    pub(crate) fn has_work(&self) -> bool {
        self.queued > 0 || self.retransmit || self.fin_due()
    }

    pub(crate) fn fin_sent(&self) -> bool {
        self.fin_sent
    }
}
