//! Data that a subflow received in order while the connection's buffer was full. The subflow has acknowledged
//! it and keeps it. The connection takes it when there is space (`mptcp_data_ready`: "over limit? can't
//! append more skbs to msk"), when the application has read all data, or when the subflow ends.
//!
//! The buffer is full if the used memory exceeds both the connection's buffer and the subflow's. Parked data
//! fills the subflow's buffer, which then grows up to its limit. If it cannot grow, a transfer stops when
//! missing data arrives at a full buffer. Linux 6.12 stops too: with `tcp_rmem` at 128 KiB, in two of eight
//! transfers of small segments over two lossy paths.

use std::collections::VecDeque;

use bytes::Bytes;

use super::{Incoming, Session, Subflows};
use crate::connection::Event;

/// A piece of the data stream: its DSN, its bytes and its memory charge.
pub(super) type Piece = (u64, Bytes, u64);

/// The parked data of one subflow, in order.
#[derive(Debug, Default)]
struct Queue {
    pieces: VecDeque<Piece>,
    memory: u64,
}

/// The queues of all subflows, and the bytes in them.
#[derive(Debug, Default)]
struct Queues {
    list: Vec<Queue>,
    bytes: u64,
}

/// The parked data of all subflows. Allocated on first use, because most connections never park data.
#[derive(Debug, Default)]
pub(in crate::connection) struct Parked(Option<Box<Queues>>);

impl Parked {
    #[inline]
    pub(in crate::connection) fn is_empty(&self) -> bool {
        self.bytes() == 0
    }

    /// Returns the number of parked bytes.
    #[inline]
    pub(in crate::connection) fn bytes(&self) -> u64 {
        self.0.as_ref().map_or(0, |queues| queues.bytes)
    }

    fn queue(&self, index: usize) -> Option<&Queue> {
        self.0.as_ref()?.list.get(index)
    }

    /// Returns the number of a subflow's parked bytes.
    pub(in crate::connection) fn bytes_at(&self, index: usize) -> u64 {
        let pieces = self.queue(index).into_iter().flat_map(|queue| &queue.pieces);
        pieces.map(|(_, payload, _)| payload.len() as u64).sum()
    }

    /// Returns the memory of a subflow's parked data.
    pub(super) fn memory_at(&self, index: usize) -> u64 {
        self.queue(index).map_or(0, |queue| queue.memory)
    }

    /// Appends a piece to the parked data of its subflow, unless that data uses more than `most` bytes of
    /// memory. A dropped piece is reinjected by the peer, because it was not acknowledged at data level
    /// (`tcp_try_rmem_schedule`).
    #[cold]
    pub(super) fn push(&mut self, index: usize, piece: Piece, most: u64) {
        let queues = self.0.get_or_insert_default();
        if queues.list.len() <= index {
            queues.list.resize_with(index + 1, Queue::default);
        }
        let queue = &mut queues.list[index];
        if queue.memory <= most {
            queues.bytes += piece.1.len() as u64;
            queue.memory += piece.2;
            queue.pieces.push_back(piece);
        }
    }

    /// Removes and returns the first piece of a subflow.
    pub(super) fn take_from(&mut self, index: usize) -> Option<Piece> {
        let queues = self.0.as_mut()?;
        let queue = queues.list.get_mut(index)?;
        let piece = queue.pieces.pop_front()?;
        queue.memory -= piece.2;
        queues.bytes -= piece.1.len() as u64;
        Some(piece)
    }

    /// Removes and returns a first piece, from the subflow with the lowest slot.
    pub(super) fn take(&mut self) -> Option<Piece> {
        let index = self.0.as_ref()?.list.iter().position(|queue| !queue.pieces.is_empty())?;
        self.take_from(index)
    }
}

impl Incoming {
    /// Returns the memory limit for data that a subflow delivers.
    #[inline]
    pub(super) fn room_for(&self, session: &Session, subflows: &Subflows, index: usize) -> u64 {
        if !session.stack().mptcp.parks_data || !session.is_multipath() {
            return u64::MAX;
        }
        self.budget.buffer().memory().max(subflows[index].tcp.receive().buffer().memory())
    }

    /// Delivers a subflow's parked data, and stops when the used memory exceeds `limit`. Returns whether data
    /// became readable.
    #[cold]
    pub(super) fn take_parked(
        &mut self,
        session: &Session,
        subflows: &mut Subflows,
        index: usize,
        limit: u64,
    ) -> bool {
        let mut readable = false;
        while self.stream.memory() <= limit
            && let Some(piece) = self.parked.take_from(index)
        {
            readable |= self.accept_parked(session, piece);
        }
        if self.stream.memory() > limit {
            // Parked data stays in the subflow's own receive buffer, which grows up to its limit
            // (`tcp_clamp_window`).
            let receive = subflows[index].tcp.receive_mut();
            receive.grow_for_unread(self.parked.memory_at(index));
        }
        readable
    }

    /// Delivers all parked data without a limit, because the application has read everything
    /// (`__mptcp_move_skbs`) or MPTCP ends. Returns whether data became readable.
    #[cold]
    pub(super) fn take_all_parked(
        &mut self,
        session: &mut Session,
        subflows: &mut Subflows,
    ) -> bool {
        let mut readable = false;
        while let Some(piece) = self.parked.take() {
            readable |= self.accept_parked(session, piece);
        }
        self.take_peer_fin(session, subflows);
        readable
    }

    /// Delivers all parked data, because MPTCP ends.
    pub(in crate::connection) fn deliver_parked(
        &mut self,
        session: &mut Session,
        subflows: &mut Subflows,
    ) {
        if !self.parked.is_empty() && self.take_all_parked(session, subflows) {
            session.report(Event::Readable);
        }
    }

    /// Delivers all parked data of a subflow that ends. The kernel closes such a subflow only after the
    /// application has read its data (`__mptcp_close_subflow`). Here another subflow may get its slot
    /// earlier.
    pub(in crate::connection) fn take_last_parked(
        &mut self,
        session: &mut Session,
        subflows: &mut Subflows,
        index: usize,
    ) {
        if self.parked.is_empty() {
            return;
        }
        if self.take_parked(session, subflows, index, u64::MAX) {
            session.report(Event::Readable);
        }
        self.take_peer_fin(session, subflows);
    }

    fn accept_parked(&mut self, session: &Session, piece: Piece) -> bool {
        let base = session.peer_base();
        let edge = self.accepted_edge(session);
        let (dsn, payload, memory) = piece;
        self.stream.accept(base, dsn, (payload, memory), edge)
    }
}
