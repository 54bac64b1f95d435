//! The receiving side: DSS signals, data-level reassembly, what the application reads
//! (RFC 8684 sections 3.3.1 to 3.3.5).

mod parked;
mod payload;

use std::collections::VecDeque;

use anabranch_units::{DataSeq, Instant};
use anabranch_wire::{DataAck, Dss, Mapping, MappingDsn, Segment, promote, verify_dss_checksum};
use bytes::Bytes;

use super::{Connection, Event, Mode};
use crate::connection::rare::Rare;
use crate::reassembly::{Charged, OutOfOrder, push_charged, share};
use crate::subflow::deliver::{Failure, Terms};
use crate::subflow::final_mapping::Passage;
use parked::Parked;

/// Pieces that wait to be read, of which on small ones are joined: else an application that reads slowly
/// pays for each byte of the window as for a packet (`tcp_try_coalesce`).
const MANY: usize = 256;

/// Bytes received at data level.
#[derive(Debug, Default)]
pub(super) struct ReceiveStream {
    /// Next data position expected.
    next: u64,
    /// One more when the peer's `DATA_FIN` has been taken.
    fin_taken: bool,
    fin_at: Option<u64>,
    ahead: OutOfOrder,
    /// What can be read, with the memory of each piece.
    readable: VecDeque<Charged>,
    unread: u64,
    /// Memory of what is unread, bytes.
    unread_memory: u32,
    /// The application has read since the window was last considered.
    read_lately: bool,
    /// Memory that may be taken before the buffer could be full, bytes; then it is asked anew.
    spare: u32,
    /// What subflows keep while the buffer is full.
    pub(super) parked: Rare<Parked>,
}

impl ReceiveStream {
    /// Bytes that can be read now.
    pub(super) fn unread(&self) -> u64 {
        self.unread
    }

    /// What the data-level acknowledgement covers, `DATA_FIN` included.
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

    /// Where the data ends is known.
    pub(super) fn knows_end(&self) -> bool {
        self.fin_at.is_some()
    }

    pub(super) fn fin_taken(&self) -> bool {
        self.fin_taken
    }

    /// The application has read since this was last asked.
    #[inline(always)]
    pub(super) fn was_read(&mut self) -> bool {
        std::mem::take(&mut self.read_lately)
    }

    /// Takes bytes at a DSN, given that of position 0; true when something became readable. Of what is out
    /// of order nothing is kept beyond `edge`: the end of the window that the peer was told, whence it
    /// comes again (`mptcp_data_queue_ofo`), or the end of the data, where it is cut.
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

    /// What of a piece lies before the end of the data, if it is that which ends at `edge`.
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

    /// An end that was told and has not come no longer counts: a FIN will tell.
    pub(super) fn forget_end(&mut self) {
        if !self.fin_taken {
            self.fin_at = None;
        }
    }

    #[inline(always)]
    fn append(&mut self, piece: Bytes, memory: u64) {
        self.next += piece.len() as u64;
        self.unread += piece.len() as u64;
        self.unread_memory = self.unread_memory.saturating_add(memory as u32);
        let many = self.readable.len() >= MANY;
        push_charged(&mut self.readable, piece, memory as u32, many);
    }

    /// The data ends at `at`, unless another end was told or more has come already.
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

impl Connection {
    /// The DSN of the first byte that the peer sends: one behind its IDSN (RFC 8684 section 3.1).
    #[inline(always)]
    pub(super) fn peer_base(&self) -> u64 {
        self.remote_key.map_or(0, |key| key.idsn.0.wrapping_add(1))
    }

    /// Bytes that can be read now.
    pub fn readable(&self) -> u64 {
        self.input.unread
    }

    /// Reads up to `limit` bytes that lie in one piece; `None` when there is nothing.
    #[inline(always)]
    pub fn read(&mut self, now: Instant, limit: usize) -> Option<Bytes> {
        if self.input.readable.is_empty() {
            if self.input.parked.is_empty() {
                return None;
            }
            self.take_all_parked();
        }
        let (mut piece, mut memory) = self.input.readable.pop_front()?;
        if piece.len() > limit {
            // A packet's memory is given back when all of it was read (`__mptcp_recvmsg_mskq`).
            self.input.readable.push_front((piece.split_off(limit), std::mem::take(&mut memory)));
        }
        if piece.is_empty() {
            return None;
        }
        self.input.unread_memory -= memory.min(self.input.unread_memory);
        self.input.unread -= piece.len() as u64;
        self.input.read_lately = true;
        self.note_read(now, piece.len() as u64);
        Some(piece)
    }

    /// After the application has read: may the window be opened at once (`mptcp_cleanup_rbuf`)?
    #[inline(never)]
    pub(super) fn after_reads(&mut self, now: Instant) {
        self.note_reads_end(now);
        let space = self.space();
        let emptied = self.bytes_waiting() == 0;
        let opened = self.budget.has_opened(space.free);
        for subflow in &mut self.subflows {
            subflow.after_read(space, opened, emptied);
        }
    }

    /// What a subflow has to know of mappings, with a DSN near those to come.
    fn terms(&self, near: u64) -> Terms {
        Terms {
            near,
            checksum: self.config.checksum,
            whole: self.config.stack.shared.whole_mappings,
        }
    }

    /// The first data, which rides an `MP_CAPABLE`: DSN IDSN+1 at subflow position 1 (RFC 8684 section
    /// 3.1).
    pub(super) fn map_first_data(&mut self, segment: &Segment, length: u16, checksum: Option<u16>) {
        let base = self.peer_base();
        self.widen_data_acks();
        let terms = self.terms(base);
        let mapping = Mapping { dsn: MappingDsn::Long(DataSeq(base)), ssn: 1, length, checksum };
        if !segment.payload.is_empty() {
            self.subflows[0].note_first_mapping(&mapping, segment, terms);
        }
    }

    /// A subflow has handed data up, or its peer has closed it.
    #[inline(always)]
    pub(super) fn after_delivery(&mut self, index: usize, readable: bool) {
        if self.mode != Mode::Multipath && self.subflows[index].peer_closed {
            let end = self.input.next;
            self.input.set_fin(end);
        }
        if readable {
            self.events.push_back(Event::Readable);
        }
        self.take_peer_fin();
    }

    /// The peer's `DATA_FIN` (or FIN on plain TCP) in its turn.
    pub(super) fn take_peer_fin(&mut self) {
        if self.input.take_fin() {
            for subflow in &mut self.subflows {
                subflow.ack_now();
            }
            self.events.push_back(Event::PeerFinished);
        }
    }

    /// The peer's DSNs come in 64 bits, so our acknowledgements do, and leave less room for data.
    #[inline]
    pub(super) fn widen_data_acks(&mut self) {
        if self.config.stack.mptcp.short_data_numbers {
            return;
        }
        if !std::mem::replace(&mut self.long_data_ack, true) {
            for index in 0..self.subflows.len() {
                self.fit_segments(index);
            }
        }
    }

    /// What a segment may carry beside the DSS that goes with data: 4 bytes, the acknowledgement, an
    /// 8-byte DSN, subflow position, length and perhaps a checksum, in whole words
    /// (`mptcp_established_options_dss`).
    pub(super) fn fit_segments(&mut self, index: usize) {
        let data_ack = if self.long_data_ack { 8 } else { 4 };
        let dsn = if self.config.stack.mptcp.short_data_numbers { 4 } else { 8 };
        let dss: u32 = 4 + data_ack + dsn + 4 + 2 + if self.config.checksum { 2 } else { 0 };
        let subflow = &mut self.subflows[index];
        subflow.update_mss(if subflow.multipath { dss.next_multiple_of(4) } else { 0 });
    }

    /// A mapping counts a `DATA_FIN`. With a checksum it is believed when that is right, which one of
    /// data shows with its data.
    fn handle_peer_end(&mut self, now: Instant, index: usize, mapping: &Mapping, carries: bool) {
        let dsn = match mapping.dsn {
            MappingDsn::Long(dsn) => dsn,
            MappingDsn::Short(low) => promote(low, DataSeq(self.receive_dsn())),
        };
        if mapping.checksum.is_some() != self.config.checksum {
            return self.handle_failure(now, index, Failure::Unagreed);
        }
        if let Some(sum) = mapping.checksum {
            let alone = !carries || mapping.length == 1;
            if !alone || !verify_dss_checksum(dsn, mapping.ssn, mapping.length, [], sum) {
                return;
            }
        }
        let end = dsn.0.wrapping_add(u64::from(mapping.length) - 1);
        self.set_peer_end(end);
        // Where the data before it is missing on both sides each answer would ask for another.
        let taken = (end.wrapping_sub(self.receive_dsn()) as i64) < 0;
        if mapping.ssn == 0 && (taken || self.signalled_fin().is_none()) {
            self.subflows[index].ack_now();
        }
    }

    /// The peer's data ends at a DSN.
    fn set_peer_end(&mut self, dsn: u64) {
        let offset = dsn.wrapping_sub(self.receive_dsn()) as i64;
        if let Some(at) = self.input.acknowledged().checked_add_signed(offset) {
            self.input.set_fin(at);
        }
        self.take_peer_fin();
    }

    /// Data-level acknowledgement, window and `DATA_FIN` of a segment.
    pub(super) fn handle_signal(&mut self, now: Instant, index: usize, segment: &Segment) {
        if self.mode == Mode::Multipath {
            self.handle_dss(now, index, segment);
            let infinite =
                matches!(&segment.dss, Some(Dss { mapping: Some(Mapping { length: 0, .. }), .. }));
            if infinite || !segment.mptcp.is_empty() {
                self.handle_end_of_signals(index, segment, infinite);
            }
        }
        if self.mode == Mode::Plain {
            if segment.dss.is_some() {
                self.watch_repetitions(now, index, segment);
            }
            self.acknowledge_by_subflow();
        }
    }

    #[inline(always)]
    pub(super) fn handle_dss(&mut self, now: Instant, index: usize, segment: &Segment) {
        let Some(Dss { data_ack, mapping, data_fin }) = &segment.dss else {
            return self.handle_bare(now, index, segment);
        };
        if let Some(mapping) = mapping {
            if matches!(mapping.dsn, MappingDsn::Long(_)) {
                self.widen_data_acks();
            }
            if *data_fin && mapping.length > 0 {
                let carries = !segment.payload.is_empty();
                self.handle_peer_end(now, index, mapping, carries);
            }
        }
        let Some(data_ack) = *data_ack else { return };
        let base = self.local_key.idsn.0.wrapping_add(1);
        let reference = base.wrapping_add(self.out.una);
        let dsn = match data_ack {
            DataAck::Long(dsn) => dsn.0,
            DataAck::Short(low) => promote(low, DataSeq(reference)).0,
        };
        let offset = dsn.wrapping_sub(reference) as i64;
        let Some(position) = self.out.una.checked_add_signed(offset) else {
            return;
        };
        // What was not sent cannot be acknowledged; the DATA_FIN is sent behind everything else.
        let all_sent = self.out.next == self.out.end;
        if position > self.out.next + u64::from(all_sent && self.closing.requested()) {
            self.counters.refused_data_acks += 1;
            return;
        }
        let subflow = &mut self.subflows[index];
        // One that was overtaken tells of options that passed before.
        if subflow.is_latest(segment) {
            subflow.passage = Passage::Open;
        }
        // The subflow may hold a larger window to be true than this segment tells (`ack_update_msk`).
        let held = self.config.stack.mptcp.counts_from_subflow_window;
        let window = if held { subflow.send.window() } else { subflow.peer_window(segment) };
        self.out.window_end = self.out.window_end.max(position + window);
        subflow.admit(window);
        self.closing.on_data_ack(position, self.out.end);
        if self.out.acknowledge(position.min(self.out.end)) {
            self.scheduler.on_data_ack(now, self.out.una);
            if self.tracks {
                self.carried.acknowledge(self.out.una);
            }
            self.on_data_progress(now);
        }
        self.notify_behind_ack(index);
    }
}

#[cfg(test)]
mod tests;
