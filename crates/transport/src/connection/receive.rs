//! The receiving side: DSS signals, data-level reassembly, what the application reads
//! (RFC 8684 sections 3.3.1 to 3.3.5).

use std::collections::VecDeque;

use anabranch_units::{DataSeq, Instant};
use anabranch_wire::{DataAck, Dss, MappingDsn, Segment, promote};
use bytes::Bytes;

use super::{Connection, Event, Mode};
use crate::reassembly::OutOfOrder;
use crate::subflow::Space;

/// Bytes received at data level.
#[derive(Debug, Default)]
pub(super) struct ReceiveStream {
    /// Next data position expected.
    next: u64,
    /// One more when the peer's `DATA_FIN` has been taken.
    fin_taken: bool,
    fin_at: Option<u64>,
    ahead: OutOfOrder,
    readable: VecDeque<Bytes>,
    unread: u64,
    /// The application has read since the window was last considered.
    read_lately: bool,
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

    /// Bytes from the next one expected to the last one held.
    pub(super) fn span(&self) -> u64 {
        self.ahead.end().map_or(0, |end| end - self.next)
    }

    pub(super) fn fin_taken(&self) -> bool {
        self.fin_taken
    }

    /// Takes bytes at a DSN, given that of position 0; true when something became readable. Nothing
    /// is kept beyond the window that the peer was told, which ends at `edge`: it comes again
    /// (`mptcp_data_queue_ofo`).
    #[inline(always)]
    pub(super) fn accept(&mut self, base: u64, dsn: u64, payload: Bytes, edge: u64) -> bool {
        // DSNs wrap; positions do not. Data may lie before position 0: a probe of our window does.
        let offset = dsn.wrapping_sub(base.wrapping_add(self.next)) as i64;
        if offset > 0 {
            let position = self.next + offset as u64;
            if position + payload.len() as u64 <= edge {
                self.ahead.insert(position, payload);
            }
            return false;
        }
        let known = offset.unsigned_abs();
        if known >= payload.len() as u64 || self.next + payload.len() as u64 - known > edge {
            return false;
        }
        self.append(if known > 0 { payload.slice(known as usize..) } else { payload });
        while let Some((start, piece)) = self.ahead.take(self.next) {
            let skip = (self.next - start) as usize;
            if skip == 0 {
                self.append(piece);
            } else if skip < piece.len() {
                self.append(piece.slice(skip..));
            }
        }
        true
    }

    fn append(&mut self, piece: Bytes) {
        self.next += piece.len() as u64;
        self.unread += piece.len() as u64;
        self.readable.push_back(piece);
    }

    pub(super) fn set_fin(&mut self, at: u64) {
        self.fin_at.get_or_insert(at);
    }

    /// Takes the `DATA_FIN` when everything before it has come; true once.
    pub(super) fn take_fin(&mut self) -> bool {
        let now = !self.fin_taken && self.fin_at == Some(self.next);
        self.fin_taken |= now;
        now
    }
}

impl Connection {
    /// Bytes that can be read now.
    pub fn readable(&self) -> u64 {
        self.input.unread
    }

    /// Reads up to `limit` bytes that lie in one piece; `None` when there is nothing.
    #[inline(always)]
    pub fn read(&mut self, now: Instant, limit: usize) -> Option<Bytes> {
        let front = self.input.readable.front_mut()?;
        let piece = if front.len() > limit {
            front.split_to(limit)
        } else {
            self.input.readable.pop_front()?
        };
        if piece.is_empty() {
            return None;
        }
        self.input.unread -= piece.len() as u64;
        self.input.read_lately = true;
        self.note_read(now, piece.len() as u64);
        Some(piece)
    }

    /// After the application has read: may the window be opened at once (`mptcp_cleanup_rbuf`)?
    pub(super) fn after_reads(&mut self, now: Instant) {
        if !std::mem::take(&mut self.input.read_lately) {
            return;
        }
        self.note_reads_end(now);
        let space = self.space();
        let emptied = self.memory_used() == 0;
        for subflow in &mut self.subflows {
            subflow.after_read(space, emptied);
        }
    }

    /// The payload of a segment: into its subflow, and what that puts in order on to the data stream.
    pub(super) fn take_payload(&mut self, now: Instant, index: usize, segment: &Segment) {
        let reference = self.receive_dsn();
        let space = if segment.payload.is_empty() { Space::default() } else { self.space() };
        let base = match self.mode {
            Mode::Multipath => self.remote_key.map_or(0, |key| key.idsn.0.wrapping_add(1)),
            _ => 0,
        };
        // Before the first promise the handshake's window holds, which is the subflow's.
        let edge = match (self.mode, self.budget.promised()) {
            (Mode::Multipath, edge) if edge > 0 => edge,
            _ => u64::MAX,
        };
        let (mut delivered, mut readable) = (false, false);
        let (subflow, input) = (&mut self.subflows[index], &mut self.input);
        let known_mss = subflow.received_mss();
        subflow.handle_payload(now, segment, reference, space, &mut |dsn, payload| {
            delivered = true;
            readable |= input.accept(base, dsn, payload, edge);
        });
        self.note_payload(index, known_mss);
        if delivered {
            self.after_delivery(index, readable);
        }
    }

    /// A subflow has handed data up, or its peer has closed it.
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
        let dss: u32 = 4 + data_ack + 8 + 4 + 2 + if self.config.checksum { 2 } else { 0 };
        let subflow = &mut self.subflows[index];
        subflow.update_mss(if subflow.multipath { dss.next_multiple_of(4) } else { 0 });
    }

    /// Data-level acknowledgement, window and `DATA_FIN` of a segment.
    pub(super) fn handle_signal(&mut self, now: Instant, index: usize, segment: &Segment) {
        if self.mode != Mode::Multipath {
            let subflow = &self.subflows[index];
            let una = (subflow.send.una().saturating_sub(1)).min(self.out.next);
            self.out.acknowledge(una);
            self.notify_writable();
            return;
        }
        let Some(Dss { data_ack, mapping, data_fin }) = segment.dss else {
            return;
        };
        if let Some(mapping) = mapping {
            if matches!(mapping.dsn, MappingDsn::Long(_)) {
                self.widen_data_acks();
            }
            if data_fin && mapping.length > 0 {
                let dsn = match mapping.dsn {
                    MappingDsn::Long(dsn) => dsn.0,
                    MappingDsn::Short(low) => promote(low, DataSeq(self.receive_dsn())).0,
                };
                let fin = dsn.wrapping_add(u64::from(mapping.length) - 1);
                let offset = fin.wrapping_sub(self.receive_dsn()) as i64;
                if let Some(at) = self.input.acknowledged().checked_add_signed(offset) {
                    self.input.set_fin(at);
                    // Where the data before it is missing on both sides each answer would ask for
                    // another.
                    let due = at <= self.input.acknowledged() || self.signalled_fin().is_none();
                    if mapping.ssn == 0 && due {
                        self.subflows[index].ack_now();
                    }
                }
                self.take_peer_fin();
            }
        }
        let Some(data_ack) = data_ack else { return };
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
        if position > self.out.next + u64::from(self.closing.requested()) {
            return;
        }
        let window = self.subflows[index].peer_window(segment);
        self.out.window_end = self.out.window_end.max(position + window);
        self.subflows[index].admit(window);
        self.closing.on_data_ack(position, self.out.end);
        if self.out.acknowledge(position.min(self.out.end)) {
            self.scheduler.on_data_ack(now, self.out.una);
            if self.tracks {
                self.carried.acknowledge(self.out.una);
            }
            self.on_data_progress(now);
        }
        self.notify_writable();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_bytes_are_cut_off_also_before_the_first() {
        let base = u64::MAX - 1;
        let mut stream = ReceiveStream::default();
        let bytes = Bytes::from_static(&[1, 2, 3, 4]);
        // Position -1, as a probe of a window that was closed from the start has it.
        assert!(!stream.accept(base, base.wrapping_sub(1), bytes.slice(..1), 100));
        assert_eq!((stream.next, stream.unread), (0, 0));
        assert!(stream.accept(base, base.wrapping_sub(1), bytes.clone(), 100));
        assert_eq!(stream.readable.pop_front(), Some(bytes.slice(1..)));
        assert!(!stream.accept(base, base.wrapping_add(4), bytes.clone(), 100));
        assert!(stream.accept(base, base.wrapping_add(2), bytes, 100));
        assert_eq!((stream.next, stream.unread), (8, 8));
    }

    #[test]
    fn nothing_is_kept_beyond_the_window() {
        let mut stream = ReceiveStream::default();
        let bytes = Bytes::from_static(&[1, 2, 3, 4]);
        stream.accept(0, 7, bytes.clone(), 10);
        assert_eq!(stream.held(), 0);
        stream.accept(0, 6, bytes, 10);
        assert_eq!(stream.held(), 4);
    }
}
