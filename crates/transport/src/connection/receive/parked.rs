//! Data that a subflow has brought in order while the connection's buffer was full: it stays with the subflow, which
//! has acknowledged it, and is unknown to the connection until there is room (`mptcp_data_ready`: "over limit? can't
//! append more skbs to msk"), or the application has read all there is, or the subflow ends.
//!
//! There is room while no more memory is taken than the connection's buffer has, or the subflow's where that is larger.
//! What waits fills the subflow's buffer, which grows for it up to the largest that is allowed. Where it may not grow, a
//! transfer whose missing piece comes to a full buffer stands still for ever: Linux 6.12 does so with `tcp_rmem` at 128
//! KiB in two of eight transfers of small segments over two lossy paths, and so does this.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::connection::rare::Nothing;
use crate::connection::{Connection, Event, Mode};

/// A piece of the data stream: where it lies, as the peer numbers it, its bytes, and the memory that it takes.
pub(super) type Piece = (u64, Bytes, u64);

/// What waits with one subflow, in order.
#[derive(Debug, Default)]
struct Queue {
    pieces: VecDeque<Piece>,
    memory: u64,
}

/// What waits, subflow by subflow.
#[derive(Debug, Default)]
pub(in crate::connection) struct Parked {
    queues: Vec<Queue>,
    bytes: u64,
}

impl Nothing for Parked {
    const NOTHING: &'static Self = &Self { queues: Vec::new(), bytes: 0 };
}

impl Parked {
    #[inline(always)]
    pub(in crate::connection) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Bytes that wait.
    pub(in crate::connection) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes that wait with a subflow.
    pub(in crate::connection) fn bytes_at(&self, index: usize) -> u64 {
        let pieces = self.queues.get(index).into_iter().flat_map(|queue| &queue.pieces);
        pieces.map(|(_, payload, _)| payload.len() as u64).sum()
    }

    /// The memory of what waits with a subflow.
    pub(super) fn memory_at(&self, index: usize) -> u64 {
        self.queues.get(index).map_or(0, |queue| queue.memory)
    }

    /// Keeps a piece behind the others of its subflow, if they take no more memory than `most`: what is thrown away comes
    /// again, since the connection has not acknowledged it (`tcp_try_rmem_schedule`).
    #[cold]
    pub(super) fn push(&mut self, index: usize, piece: Piece, most: u64) {
        if self.queues.len() <= index {
            self.queues.resize_with(index + 1, Queue::default);
        }
        let queue = &mut self.queues[index];
        if queue.memory <= most {
            self.bytes += piece.1.len() as u64;
            queue.memory += piece.2;
            queue.pieces.push_back(piece);
        }
    }

    /// The first piece of a subflow.
    pub(super) fn take_from(&mut self, index: usize) -> Option<Piece> {
        let queue = self.queues.get_mut(index)?;
        let piece = queue.pieces.pop_front()?;
        queue.memory -= piece.2;
        self.bytes -= piece.1.len() as u64;
        Some(piece)
    }

    /// The first piece of all, those of the oldest subflow before others.
    pub(super) fn take(&mut self) -> Option<Piece> {
        let index = self.queues.iter().position(|queue| !queue.pieces.is_empty())?;
        self.take_from(index)
    }
}

impl Connection {
    /// How much memory may be taken when more is taken from a subflow.
    #[inline(always)]
    pub(super) fn room_for(&self, index: usize) -> u64 {
        if !self.config.stack.mptcp.parks_data || self.mode != Mode::Multipath {
            return u64::MAX;
        }
        self.budget.buffer().memory().max(self.subflows[index].receive.buffer.memory())
    }

    /// Memory that may certainly come before the connection's buffer is full, bytes; what waits in subflows counts as
    /// taken.
    pub(super) fn spare(&self) -> u32 {
        if !self.config.stack.mptcp.parks_data || self.mode == Mode::Plain {
            return u32::MAX;
        }
        if self.mode != Mode::Multipath || !self.input.parked.is_empty() {
            return 0;
        }
        let waits = self.subflows.iter().map(|it| it.receive.memory());
        let taken = self.input.memory() + waits.sum::<u64>();
        self.budget.buffer().memory().saturating_sub(taken).try_into().unwrap_or(u32::MAX)
    }

    /// Takes what waits with a subflow, until more memory than `limit` is taken; true when something became readable.
    #[cold]
    pub(super) fn take_parked(&mut self, index: usize, limit: u64) -> bool {
        let mut readable = false;
        while self.input.memory() <= limit
            && let Some(piece) = self.input.parked.take_from(index)
        {
            readable |= self.accept_parked(piece);
        }
        if self.input.memory() > limit {
            // What waits fills the subflow's own buffer, which grows for it (`tcp_clamp_window`).
            let receive = &mut self.subflows[index].receive;
            let waits = self.input.parked.memory_at(index) + receive.out_of_order_memory();
            receive.buffer.admit(waits);
        }
        readable
    }

    /// Takes all that waits, whatever memory that takes: the application has nothing to read (`__mptcp_move_skbs`), or
    /// MPTCP ends. True when something became readable.
    #[cold]
    pub(in crate::connection) fn take_all_parked(&mut self) -> bool {
        let mut readable = false;
        while let Some(piece) = self.input.parked.take() {
            readable |= self.accept_parked(piece);
        }
        self.take_peer_fin();
        readable
    }

    /// Takes what waits with a subflow that ends, whatever memory that takes. The kernel closes such a subflow when the
    /// application has read that (`__mptcp_close_subflow`); here its place may be another's before.
    pub(in crate::connection) fn take_last_parked(&mut self, index: usize) {
        if self.input.parked.is_empty() {
            return;
        }
        if self.take_parked(index, u64::MAX) {
            self.events.push_back(Event::Readable);
        }
        self.take_peer_fin();
    }

    fn accept_parked(&mut self, piece: Piece) -> bool {
        let base = self.peer_base();
        let edge = self.accepted_edge();
        let (dsn, payload, memory) = piece;
        self.input.accept(base, dsn, (payload, memory), edge)
    }
}
