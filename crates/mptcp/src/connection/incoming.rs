//! The receiving side of a connection: the data stream, its receive window, and data that waits in subflows
//! (RFC 8684 sections 3.3.1 to 3.3.5).

mod delivery;
mod parked;
mod window;

use std::collections::VecDeque;

use anabranch_units::{DataSeq, Instant};
use anabranch_wire::{Dss, Mapping, MappingDsn, promote, verify_dss_checksum};
use bytes::Bytes;

use super::Event;
use super::session::Session;
use super::subflow_table::Subflows;
use crate::config::Config;
use crate::subflow::Subflow;
use crate::subflow::deliver::Failure;
use anabranch_tcp::reassembly::{Charged, OutOfOrder, push_charged, share};
use parked::Parked;
use window::ReceiveBudget;
pub use window::ReceiverSample;

/// If at least this many pieces wait to be read, small pieces are merged. Otherwise, with a slow reader, each
/// tiny segment would occupy a whole piece of the queue (`tcp_try_coalesce`).
const MANY: usize = 256;

/// The receiving side: data that has arrived and that the application has not read.
#[derive(Debug)]
pub(super) struct Incoming {
    stream: ReceiveStream,
    budget: ReceiveBudget,
    /// Data that stays in the subflows because the receive buffer is full.
    parked: Parked,
}

/// The data stream as received at data level.
#[derive(Debug, Default)]
pub(super) struct ReceiveStream {
    /// The next expected position.
    next: u64,
    /// Whether the peer's `DATA_FIN` was received and counted. Acknowledgements then include one position for
    /// the `DATA_FIN`.
    fin_taken: bool,
    fin_at: Option<u64>,
    ahead: OutOfOrder,
    /// In-order data that the application has not read, each piece with its memory charge.
    readable: VecDeque<Charged>,
    unread: u64,
    /// The memory of unread data, in bytes.
    unread_memory: u32,
    /// Whether the application has read since [`Self::take_read`] was last called.
    read_lately: bool,
}

impl ReceiveStream {
    /// Returns the number of bytes that can be read now.
    pub(super) fn unread(&self) -> u64 {
        self.unread
    }

    /// Returns the position up to which data is acknowledged, including a `DATA_FIN`.
    pub(super) fn acknowledged(&self) -> u64 {
        self.next + u64::from(self.fin_taken)
    }

    /// Returns the number of stored bytes: unread and out of order.
    pub(super) fn held(&self) -> u64 {
        self.unread + self.ahead.bytes()
    }

    /// Returns the memory charged for stored data, in bytes (`sk_rmem_alloc`).
    pub(super) fn memory(&self) -> u64 {
        u64::from(self.unread_memory) + self.ahead.memory()
    }

    /// Returns whether the application has read since the last call, and clears the flag.
    #[inline]
    pub(super) fn take_read(&mut self) -> bool {
        std::mem::take(&mut self.read_lately)
    }

    /// Stores a payload with a DSN. `base` is the DSN of position 0. Returns whether data became readable.
    /// Out-of-order data beyond `edge` is dropped. `edge` is the end of the window that the peer knows
    /// (`mptcp_data_queue_ofo`), or the end of the data. A piece that crosses the end of the data is cut
    /// there.
    #[inline]
    pub(super) fn accept(
        &mut self,
        base: u64,
        dsn: u64,
        (payload, memory): (Bytes, u64),
        edge: u64,
    ) -> bool {
        // DSNs wrap, positions do not. A probe of a closed window may have data before position 0.
        let offset = dsn.wrapping_sub(base.wrapping_add(self.next)) as i64;
        if offset > 0 {
            let position = self.next + offset as u64;
            if position.saturating_add(payload.len() as u64) <= edge {
                self.ahead.insert(position, payload, memory);
            } else if let Some(cut) = self.cut_at_end(position, &payload, edge) {
                let memory = share(memory, cut.len() as u64, payload.len() as u64);
                self.ahead.insert(position, cut, memory);
            }
            return false;
        }
        let known = offset.unsigned_abs();
        if known >= payload.len() as u64 {
            return false;
        }
        let length = payload.len() as u64;
        let memory = share(memory, length - known, length);
        let payload = if known > 0 { payload.slice(known as usize..) } else { payload };
        if !self.ahead.is_empty()
            && let Some((start, piece, charged)) =
                self.ahead.take(self.next + payload.len() as u64 - 1)
        {
            // A part of the payload arrived earlier. The earlier copy is kept.
            self.ahead.insert(start, piece, charged);
            return self.push_uncovered(payload, memory);
        }
        if !self.push_within(payload, memory) {
            return false;
        }
        self.push_ready();
        true
    }

    /// Appends the parts of a piece at `next` that out-of-order data does not cover, then the out-of-order
    /// data that follows.
    #[cold]
    fn push_uncovered(&mut self, piece: Bytes, memory: u64) -> bool {
        let before = self.next;
        self.ahead.insert(self.next, piece, memory);
        self.push_ready();
        self.next > before
    }

    #[inline]
    fn push_ready(&mut self) {
        while let Some((start, piece, memory)) = self.ahead.take(self.next) {
            let skip = (self.next - start) as usize;
            if skip == 0 {
                self.push_within(piece, memory);
            } else if skip < piece.len() {
                let left = share(memory, (piece.len() - skip) as u64, piece.len() as u64);
                self.push_within(piece.slice(skip..), left);
            }
        }
    }

    /// Appends the part of a piece before the end of the data. Returns false if the piece is after the end.
    /// In-order data is accepted even beyond the window (`__mptcp_move_skb`).
    #[inline]
    fn push_within(&mut self, piece: Bytes, memory: u64) -> bool {
        let edge = self.end();
        if self.next + piece.len() as u64 <= edge {
            self.push(piece, memory);
            return true;
        }
        let cut = self.cut_at_end(self.next, &piece, edge);
        let whole = piece.len() as u64;
        cut.map(|piece| {
            let memory = share(memory, piece.len() as u64, whole);
            self.push(piece, memory);
        })
        .is_some()
    }

    /// Returns the part of a piece before the end of the data, if the data ends at or before `edge`.
    #[cold]
    fn cut_at_end(&self, position: u64, piece: &Bytes, edge: u64) -> Option<Bytes> {
        let end = self.fin_at.filter(|end| *end <= edge)?;
        let keep = end.checked_sub(position).filter(|keep| *keep > 0)?;
        Some(piece.slice(..piece.len().min(keep as usize)))
    }

    /// Returns the position of the end of the data, or `u64::MAX` if it is not known.
    pub(super) fn end(&self) -> u64 {
        self.fin_at.unwrap_or(u64::MAX)
    }

    /// Returns whether all data before a subflow's position has arrived and nothing is out of order. The
    /// subflow's next byte is then the stream's next byte.
    pub(super) fn stands_at(&self, position: u64) -> bool {
        self.ahead.is_empty() && self.next + 1 == position
    }

    /// Removes a signalled end of the data that was not reached. After a fallback, a FIN signals the end.
    pub(super) fn clear_end(&mut self) {
        if !self.fin_taken {
            self.fin_at = None;
        }
    }

    #[inline]
    fn push(&mut self, piece: Bytes, memory: u64) {
        self.next += piece.len() as u64;
        self.unread += piece.len() as u64;
        self.unread_memory = self.unread_memory.saturating_add(memory as u32);
        let many = self.readable.len() >= MANY;
        push_charged(&mut self.readable, piece, memory as u32, many);
    }

    /// Sets the end of the data, unless an end is already set or data beyond `at` was received.
    pub(super) fn set_fin(&mut self, at: u64) {
        if at >= self.next {
            self.fin_at.get_or_insert(at);
        }
    }

    /// Counts the `DATA_FIN` as received once all data before it has arrived. Returns true the first time.
    pub(super) fn take_fin(&mut self) -> bool {
        let now = !self.fin_taken && self.fin_at == Some(self.next);
        if now {
            self.fin_taken = true;
            self.ahead = OutOfOrder::default();
        }
        now
    }
}

impl Incoming {
    /// Creates the receiving side of a connection whose first subflow announces `mss`.
    pub(super) fn new(config: &Config, mss: u16) -> Self {
        Self {
            stream: ReceiveStream::default(),
            budget: ReceiveBudget::new(config, mss),
            parked: Parked::default(),
        }
    }

    /// Starts the measurement of the application's read rate when the first subflow is open.
    pub(super) fn begin(&mut self, now: Instant, subflows: &Subflows) {
        self.budget.begin(now);
        self.note_promise(subflows, 0);
    }

    /// Handles an established join whose local address announces `mss`.
    pub(super) fn on_join(&mut self, config: &Config, mss: u16) {
        self.budget.on_join(config, mss);
    }

    /// Returns the position up to which data is acknowledged, including a `DATA_FIN`.
    #[inline]
    pub(super) fn acknowledged(&self) -> u64 {
        self.stream.acknowledged()
    }

    /// Returns the next expected DSN.
    #[inline]
    pub(super) fn receive_dsn(&self, session: &Session) -> u64 {
        session.peer_base().wrapping_add(self.acknowledged())
    }

    /// Returns the right edge of the window promised to the peer, as a data position.
    #[inline]
    pub(super) fn promised(&self) -> u64 {
        self.budget.promised()
    }

    /// Returns whether the peer has ended the stream and all of its data has arrived.
    pub(super) fn fin_taken(&self) -> bool {
        self.stream.fin_taken
    }

    /// Returns whether the stream equals the bytes of a subflow up to its position `handed`, with nothing out
    /// of order.
    pub(super) fn is_straight(&self, index: usize, handed: u64) -> bool {
        self.stream.stands_at(handed - self.parked.bytes_at(index))
    }

    /// Returns whether `held` bytes of data that wait in a subflow exceed the advertised window.
    pub(super) fn exceeds_window(&self, held: u64) -> bool {
        let window = self.budget.promised().saturating_sub(self.acknowledged());
        held > window.max(self.budget.limit())
    }

    /// Continues as plain TCP in mid-connection. All bytes that the subflow holds are delivered to the
    /// stream.
    pub(super) fn begin_plain(&mut self, session: &mut Session, subflow: &mut Subflow) {
        self.stream.clear_end();
        let (stream, mut readable) = (&mut self.stream, false);
        let next = subflow.tcp.receive().next();
        subflow.context.delivery_mut().deliver_all(next, &mut |position, payload, memory| {
            readable |= stream.accept(0, position, (payload, memory), u64::MAX);
        });
        if readable {
            session.report(Event::Readable);
        }
    }

    /// Handles the mapping of a segment. `carries`: the segment has data. `ends`: our `DATA_FIN` is not
    /// acknowledged yet.
    #[inline]
    pub(super) fn handle_mapping(
        &mut self,
        session: &mut Session,
        subflows: &mut Subflows,
        index: usize,
        dss: &Dss,
        carries: bool,
        ends: bool,
    ) -> Option<Failure> {
        let mapping = dss.mapping.as_ref()?;
        if matches!(mapping.dsn, MappingDsn::Long(_)) {
            subflows.set_wide_data_acks(session);
        }
        let has_end = dss.data_fin && mapping.length > 0;
        has_end.then(|| self.handle_peer_end(session, subflows, index, mapping, carries, ends))?
    }

    /// Returns the number of bytes that can be read now.
    pub(super) fn readable(&self) -> u64 {
        self.stream.unread
    }

    /// Reads up to `limit` contiguous bytes. Returns `None` if nothing is readable.
    #[inline]
    pub(super) fn read(
        &mut self,
        now: Instant,
        session: &mut Session,
        subflows: &mut Subflows,
        limit: usize,
    ) -> Option<Bytes> {
        if self.stream.readable.is_empty() {
            if self.parked.is_empty() {
                return None;
            }
            self.take_all_parked(session, subflows);
        }
        let (mut piece, mut memory) = self.stream.readable.pop_front()?;
        if piece.len() > limit {
            // The memory of a packet is released only after all of it was read (`__mptcp_recvmsg_mskq`).
            self.stream.readable.push_front((piece.split_off(limit), std::mem::take(&mut memory)));
        }
        if piece.is_empty() {
            return None;
        }
        self.stream.unread_memory -= memory.min(self.stream.unread_memory);
        self.stream.unread -= piece.len() as u64;
        self.stream.read_lately = true;
        self.note_read(now, session, subflows, piece.len() as u64);
        Some(piece)
    }

    /// Advertises the window at once if the application has read enough (`mptcp_cleanup_rbuf`).
    #[inline]
    pub(super) fn end_reads(&mut self, now: Instant, session: &Session, subflows: &mut Subflows) {
        if self.stream.take_read() {
            self.on_reads(now, session, subflows);
        }
    }

    #[inline(never)]
    fn on_reads(&mut self, now: Instant, session: &Session, subflows: &mut Subflows) {
        self.note_reads_end(now, session, subflows);
        let space = self.space(session, subflows);
        let emptied = self.bytes_waiting(subflows.first().filter(|_| session.is_plain())) == 0;
        let opened = self.budget.has_opened(space.free);
        for subflow in subflows.iter_mut() {
            subflow.on_read(space, opened, emptied);
        }
    }

    /// Handles data delivered by a subflow, or the peer's FIN on it.
    #[inline]
    pub(super) fn on_delivery(
        &mut self,
        session: &mut Session,
        subflows: &mut Subflows,
        index: usize,
        readable: bool,
    ) {
        if !session.is_multipath() && subflows[index].tcp.receive().assembly().is_closed() {
            let end = self.stream.next;
            self.stream.set_fin(end);
        }
        if readable {
            session.report(Event::Readable);
        }
        self.take_peer_fin(session, subflows);
    }

    /// Handles the peer's `DATA_FIN`, or its FIN on plain TCP, once all data before it has arrived.
    pub(super) fn take_peer_fin(&mut self, session: &mut Session, subflows: &mut Subflows) {
        if self.stream.take_fin() {
            subflows.demand_ack();
            session.report(Event::PeerFinished);
        }
    }

    /// Handles a mapping that includes a `DATA_FIN`. A mapping without data must have a valid checksum if
    /// checksums are used. A mapping with data is verified together with its data.
    fn handle_peer_end(
        &mut self,
        session: &mut Session,
        subflows: &mut Subflows,
        index: usize,
        mapping: &Mapping,
        carries: bool,
        ends: bool,
    ) -> Option<Failure> {
        let dsn = match mapping.dsn {
            MappingDsn::Long(dsn) => dsn,
            MappingDsn::Short(low) => promote(low, DataSeq(self.receive_dsn(session))),
        };
        if mapping.checksum.is_some() != session.config().checksum {
            return Some(Failure::Unagreed);
        }
        if let Some(sum) = mapping.checksum {
            let alone = !carries || mapping.length == 1;
            if !alone || !verify_dss_checksum(dsn, mapping.ssn, mapping.length, [], sum) {
                return None;
            }
        }
        let end = dsn.0.wrapping_add(u64::from(mapping.length) - 1);
        self.set_peer_end(session, subflows, end);
        // If both sides still miss data, each acknowledgement would cause another one.
        let taken = (end.wrapping_sub(self.receive_dsn(session)) as i64) < 0;
        if mapping.ssn == 0 && (taken || !ends) {
            subflows[index].tcp.demand_ack();
        }
        None
    }

    /// Sets the end of the peer's data to a DSN.
    fn set_peer_end(&mut self, session: &mut Session, subflows: &mut Subflows, dsn: u64) {
        let offset = dsn.wrapping_sub(self.receive_dsn(session)) as i64;
        if let Some(at) = self.stream.acknowledged().checked_add_signed(offset) {
            self.stream.set_fin(at);
        }
        self.take_peer_fin(session, subflows);
    }
}

#[cfg(test)]
mod tests;
