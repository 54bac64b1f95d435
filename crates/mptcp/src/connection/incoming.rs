//! The receiving side of a connection: the data stream, and the owners of its parts (RFC 8684 sections 3.3.1 to
//! 3.3.5).

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

/// The number of pieces that wait to be read from which on small ones are joined. Otherwise an application that reads
/// slowly pays for each byte of the window as for a packet (`tcp_try_coalesce`).
const MANY: usize = 256;

/// The data that has arrived, and its way to the application.
#[derive(Debug)]
pub(super) struct Incoming {
    stream: ReceiveStream,
    budget: ReceiveBudget,
    /// Data that subflows keep while the buffer is full.
    parked: Parked,
}

/// Bytes received at data level.
#[derive(Debug, Default)]
pub(super) struct ReceiveStream {
    /// Next data position expected.
    next: u64,
    /// One more when the peer's `DATA_FIN` has been taken.
    fin_taken: bool,
    fin_at: Option<u64>,
    ahead: OutOfOrder,
    /// Data that can be read, with the memory of each piece.
    readable: VecDeque<Charged>,
    unread: u64,
    /// Memory of unread data, bytes.
    unread_memory: u32,
    /// The application has read since the window was last considered.
    read_lately: bool,
}

impl ReceiveStream {
    /// Bytes that can be read now.
    pub(super) fn unread(&self) -> u64 {
        self.unread
    }

    /// The position that the data-level acknowledgement covers, `DATA_FIN` included.
    pub(super) fn acknowledged(&self) -> u64 {
        self.next + u64::from(self.fin_taken)
    }

    /// Bytes of memory taken: unread and out of order.
    pub(super) fn held(&self) -> u64 {
        self.unread + self.ahead.bytes()
    }

    /// The memory that it takes (`sk_rmem_alloc`).
    pub(super) fn memory(&self) -> u64 {
        u64::from(self.unread_memory) + self.ahead.memory()
    }

    /// The application has read since this was last asked.
    #[inline]
    pub(super) fn was_read(&mut self) -> bool {
        std::mem::take(&mut self.read_lately)
    }

    /// Takes bytes at a DSN, given that of position 0; returns whether data became readable. Out-of-order data beyond
    /// `edge` is dropped: `edge` is the end of the window that the peer knows (`mptcp_data_queue_ofo`), or the end of
    /// the data, where a piece is cut.
    // A run of 20 MB calls it 14,364 times.
    #[inline(always)]
    pub(super) fn accept(
        &mut self,
        base: u64,
        dsn: u64,
        (payload, memory): (Bytes, u64),
        edge: u64,
    ) -> bool {
        // DSNs wrap; positions do not. Data may lie before position 0: a probe of our window does.
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
            // Some of it came before: what came first counts.
            self.ahead.insert(start, piece, charged);
            return self.fill(payload, memory);
        }
        if !self.append_within(payload, memory) {
            return false;
        }
        self.absorb();
        true
    }

    /// Appends what out-of-order data leaves of a piece at `next`, and all that follows.
    #[cold]
    fn fill(&mut self, piece: Bytes, memory: u64) -> bool {
        let before = self.next;
        self.ahead.insert(self.next, piece, memory);
        self.absorb();
        self.next > before
    }

    // A run of 20 MB calls it 8,227 times.
    #[inline(always)]
    fn absorb(&mut self) {
        while let Some((start, piece, memory)) = self.ahead.take(self.next) {
            let skip = (self.next - start) as usize;
            if skip == 0 {
                self.append_within(piece, memory);
            } else if skip < piece.len() {
                let left = share(memory, (piece.len() - skip) as u64, piece.len() as u64);
                self.append_within(piece.slice(skip..), left);
            }
        }
    }

    /// Appends what lies before the end of the data; false when nothing does. The window bounds only what
    /// is out of order (`__mptcp_move_skb`).
    // A run of 20 MB calls it 14,364 times.
    #[inline(always)]
    fn append_within(&mut self, piece: Bytes, memory: u64) -> bool {
        let edge = self.end();
        if self.next + piece.len() as u64 <= edge {
            self.append(piece, memory);
            return true;
        }
        let cut = self.cut_at_end(self.next, &piece, edge);
        let whole = piece.len() as u64;
        cut.map(|piece| {
            let memory = share(memory, piece.len() as u64, whole);
            self.append(piece, memory);
        })
        .is_some()
    }

    /// The part of a piece before the end of the data, if the data ends at `edge`.
    #[cold]
    fn cut_at_end(&self, position: u64, piece: &Bytes, edge: u64) -> Option<Bytes> {
        let end = self.fin_at.filter(|end| *end <= edge)?;
        let keep = end.checked_sub(position).filter(|keep| *keep > 0)?;
        Some(piece.slice(..piece.len().min(keep as usize)))
    }

    /// The end of the data, as far as known.
    pub(super) fn end(&self) -> u64 {
        self.fin_at.unwrap_or(u64::MAX)
    }

    /// Everything before a subflow's position has come, and nothing waits: its bytes are the stream's.
    pub(super) fn stands_at(&self, position: u64) -> bool {
        self.ahead.is_empty() && self.next + 1 == position
    }

    /// Forgets an end that was signalled and not reached: a FIN will signal it.
    pub(super) fn forget_end(&mut self) {
        if !self.fin_taken {
            self.fin_at = None;
        }
    }

    #[inline]
    fn append(&mut self, piece: Bytes, memory: u64) {
        self.next += piece.len() as u64;
        self.unread += piece.len() as u64;
        self.unread_memory = self.unread_memory.saturating_add(memory as u32);
        let many = self.readable.len() >= MANY;
        push_charged(&mut self.readable, piece, memory as u32, many);
    }

    /// The data ends at `at`, unless another end was signalled or more data has arrived.
    pub(super) fn set_fin(&mut self, at: u64) {
        if at >= self.next {
            self.fin_at.get_or_insert(at);
        }
    }

    /// Takes the `DATA_FIN` when everything before it has come; true once.
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
    /// The receiving side of a connection that begins where `mss` is announced.
    pub(super) fn new(config: &Config, mss: u16) -> Self {
        Self {
            stream: ReceiveStream::default(),
            budget: ReceiveBudget::new(config, mss),
            parked: Parked::default(),
        }
    }

    /// The first subflow is open: the measurement of the application's reads begins.
    pub(super) fn begin(&mut self, now: Instant, subflows: &Subflows) {
        self.budget.begin(now);
        self.note_promise(subflows, 0);
    }

    /// A join is open, at an address where `mss` is announced.
    pub(super) fn on_join(&mut self, config: &Config, mss: u16) {
        self.budget.on_join(config, mss);
    }

    /// The position that the data-level acknowledgement covers, `DATA_FIN` included.
    #[inline]
    pub(super) fn acknowledged(&self) -> u64 {
        self.stream.acknowledged()
    }

    /// DSN of the next data byte expected.
    #[inline]
    pub(super) fn receive_dsn(&self, session: &Session) -> u64 {
        session.peer_base().wrapping_add(self.acknowledged())
    }

    /// The right edge of the window promised to the peer, as a data position.
    #[inline]
    pub(super) fn promised(&self) -> u64 {
        self.budget.promised()
    }

    /// The peer has finished, and all of its data has arrived.
    pub(super) fn fin_taken(&self) -> bool {
        self.stream.fin_taken
    }

    /// The bytes of a subflow up to its position `handed` are the stream, and nothing waits.
    pub(super) fn is_straight(&self, index: usize, handed: u64) -> bool {
        self.stream.stands_at(handed - self.parked.bytes_at(index))
    }

    /// Data that waits in a subflow exceeds the window that was advertised to the peer.
    pub(super) fn exceeds_window(&self, held: u64) -> bool {
        let window = self.budget.promised().saturating_sub(self.acknowledged());
        held > window.max(self.budget.limit())
    }

    /// MPTCP has ended in mid-connection: the bytes that the subflow holds are the stream's.
    pub(super) fn continue_plain(&mut self, session: &mut Session, subflow: &mut Subflow) {
        self.stream.forget_end();
        let (stream, mut readable) = (&mut self.stream, false);
        let next = subflow.tcp.receive().next();
        subflow.context.delivery_mut().release(next, &mut |position, payload, memory| {
            readable |= stream.accept(0, position, (payload, memory), u64::MAX);
        });
        if readable {
            session.report(Event::Readable);
        }
    }

    /// Handles the mapping of a segment, which `carries` data or not; `ends` if our `DATA_FIN` waits for its
    /// acknowledgement.
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
            subflows.widen_data_acks(session);
        }
        let has_end = dss.data_fin && mapping.length > 0;
        has_end.then(|| self.handle_peer_end(session, subflows, index, mapping, carries, ends))?
    }

    /// Bytes that can be read now.
    pub(super) fn readable(&self) -> u64 {
        self.stream.unread
    }

    /// Reads up to `limit` bytes that lie in one piece; `None` when there is nothing.
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
            // A packet's memory is given back when all of it was read (`__mptcp_recvmsg_mskq`).
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

    /// Opens the window at once if the application has read enough (`mptcp_cleanup_rbuf`).
    #[inline]
    pub(super) fn finish_reads(
        &mut self,
        now: Instant,
        session: &Session,
        subflows: &mut Subflows,
    ) {
        if self.stream.was_read() {
            self.after_reads(now, session, subflows);
        }
    }

    #[inline(never)]
    fn after_reads(&mut self, now: Instant, session: &Session, subflows: &mut Subflows) {
        self.note_reads_end(now, session, subflows);
        let space = self.space(session, subflows);
        let emptied = self.bytes_waiting(subflows.first().filter(|_| session.is_plain())) == 0;
        let opened = self.budget.has_opened(space.free);
        for subflow in subflows.iter_mut() {
            subflow.after_read(space, opened, emptied);
        }
    }

    /// A subflow has handed data up, or its peer has closed it.
    // A run of 20 MB calls it 12,777 times.
    #[inline(always)]
    pub(super) fn after_delivery(
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

    /// Takes the peer's `DATA_FIN` (or FIN on plain TCP) after all data before it.
    pub(super) fn take_peer_fin(&mut self, session: &mut Session, subflows: &mut Subflows) {
        if self.stream.take_fin() {
            subflows.ack_now();
            session.report(Event::PeerFinished);
        }
    }

    /// Handles a mapping that includes a `DATA_FIN`. With a checksum it is accepted if the checksum is right; a
    /// mapping with data is checked with its data.
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
        // If data is missing on both sides, each answer would request another.
        let taken = (end.wrapping_sub(self.receive_dsn(session)) as i64) < 0;
        if mapping.ssn == 0 && (taken || !ends) {
            subflows[index].tcp.ack_now();
        }
        None
    }

    /// The peer's data ends at a DSN.
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
