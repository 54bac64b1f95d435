//! Reassembly of a connection's bytes (`tcp_data_queue`, `tcp_data_queue_ofo`, `tcp_fin`).

use anabranch_wire::{SackBlock, SackBlocks};
use bytes::Bytes;

use super::super::sequence::Sequence;
use super::reports::BLOCKS;
use super::{Arrival, Assembly};
use crate::reassembly::{Inserted, OutOfOrder, share};

impl Assembly {
    /// Handles the peer's SYN, which occupies position 0.
    pub(super) fn on_syn(&mut self) {
        self.next = 1;
    }

    /// Returns whether data is out of order.
    #[inline]
    pub(crate) fn out_of_order(&self) -> bool {
        !self.runs.is_empty()
    }

    /// Returns the number of out-of-order bytes.
    pub fn out_of_order_bytes(&self) -> u64 {
        self.runs.bytes()
    }

    /// Returns the memory of the out-of-order bytes (`sk_rmem_alloc`).
    pub fn out_of_order_memory(&self) -> u64 {
        self.runs.memory()
    }

    /// Returns the number of positions from the next expected one to the last stored byte.
    pub fn span(&self) -> u64 {
        self.runs.end().map_or(0, |end| end - self.next)
    }

    /// Returns whether all data up to the peer's FIN has arrived.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Drops all out-of-order data, because the gaps will not be filled.
    pub(super) fn discard(&mut self) {
        self.runs = OutOfOrder::default();
        self.reports.clear();
    }

    /// Records `[start, end)` for a DSACK. At least its beginning was received before.
    pub(super) fn report_duplicate(&mut self, start: u64, end: u64) {
        self.duplicate = Some((start, end.min(self.next)));
    }

    /// Returns whether SACK blocks must be sent: data is out of order, or a duplicate was recorded.
    #[inline]
    pub fn has_blocks(&self) -> bool {
        self.out_of_order() || self.duplicate.is_some()
    }

    /// Returns up to `room` SACK blocks: first a duplicate, then the latest data.
    pub(super) fn take_sack(&mut self, sequence: &Sequence, room: usize) -> SackBlocks {
        let mut blocks = SackBlocks::EMPTY;
        let duplicate = self.duplicate.take();
        let told = self.reports.take_blocks();
        let all = duplicate.into_iter().chain(told.as_slice().iter().copied());
        for (left, right) in all.take(room.min(BLOCKS)) {
            let [left, right] = [left, right].map(|position| sequence.remote(position));
            blocks.push(SackBlock { left, right });
        }
        blocks
    }

    /// Delivers the bytes at `next` with their position.
    #[inline]
    fn deliver(&mut self, payload: Bytes, memory: u64, up: &mut impl FnMut(u64, Bytes, u64)) {
        let at = self.next;
        self.next += payload.len() as u64;
        up(at, payload, memory);
    }

    /// Handles the payload of a segment at `start`, with its `memory` charge. Returns how it relates to the
    /// received data.
    pub(super) fn accept(
        &mut self,
        mut start: u64,
        mut payload: Bytes,
        mut memory: u64,
        up: &mut impl FnMut(u64, Bytes, u64),
    ) -> Arrival {
        // A duplicate that the last acknowledgement did not report is never reported (`tcp_data_queue`).
        self.duplicate = None;
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
            self.deliver(payload, memory, up);
            if filled && self.deliver_runs(up) {
                return Arrival::FilledGap;
            }
            return Arrival::InOrder;
        }
        self.insert_run(start, payload, memory);
        Arrival::OutOfOrder
    }

    /// Delivers the out-of-order data that is now in order. Returns whether no out-of-order data is left.
    fn deliver_runs(&mut self, up: &mut impl FnMut(u64, Bytes, u64)) -> bool {
        while let Some((start, piece, memory)) = self.runs.take(self.next) {
            let skip = (self.next - start) as usize;
            if skip == 0 {
                self.deliver(piece, memory, up);
            } else if skip < piece.len() {
                let left = share(memory, (piece.len() - skip) as u64, piece.len() as u64);
                self.deliver(piece.slice(skip..), left, up);
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

    /// Stores the position of a FIN, which may be out of order, and drops all data after it (`tcp_fin`). Of
    /// several contradictory FINs, the lowest position is used.
    #[cold]
    pub(super) fn note_fin(&mut self, at: u64) {
        if at < self.next || self.fin_at.is_some_and(|known| known <= at) {
            return;
        }
        self.fin_at = Some(at);
        self.runs.truncate(at);
        self.reports.truncate(at);
    }

    /// Handles the peer's FIN if all data before it has arrived. Returns whether the FIN was handled.
    #[inline]
    pub(super) fn take_fin(&mut self) -> bool {
        let taken = self.fin_at == Some(self.next) && !self.closed;
        if taken {
            self.next += 1;
            self.closed = true;
        }
        taken
    }

    /// Returns the part of a payload at `start` that is before the peer's FIN.
    #[inline]
    pub(super) fn before_fin(&self, start: u64, payload: &Bytes) -> Bytes {
        match self.fin_at {
            Some(fin) if start + payload.len() as u64 > fin => {
                payload.slice(..fin.saturating_sub(start) as usize)
            }
            _ => payload.clone(),
        }
    }

    /// Stores an out-of-order segment.
    fn insert_run(&mut self, start: u64, payload: Bytes, memory: u64) {
        let end = start + payload.len() as u64;
        match self.runs.insert(start, payload, memory) {
            Inserted::Duplicate => {
                self.duplicate = Some((start, end));
                self.reports.note(start, end);
            }
            Inserted::Kept(..) => self.reports.note(start, end),
            // SACKed data may be among the dropped data (`tcp_prune_ofo_queue`).
            Inserted::Pruned => self.reports.discard(),
        }
    }
}
