//! Data that a subflow has brought in order while the connection's buffer was full: it stays with the subflow, which
//! has acknowledged it, and is unknown to the connection until there is room (`mptcp_data_ready`: "over limit? can't
//! append more skbs to msk").

use std::collections::VecDeque;

use bytes::Bytes;

use crate::connection::rare::Nothing;

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
