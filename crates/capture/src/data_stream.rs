//! One direction of the data stream of an MPTCP connection.

use std::collections::BTreeMap;

use anabranch_wire::MappingDsn;

use crate::course::Course;
use crate::half::Piece;
use crate::positions::DataPositions;
use crate::ranges::Ranges;

/// The data that one host of an MPTCP connection sent to the other.
#[derive(Clone, Debug, Default)]
pub struct DataStream {
    /// Bytes of payload with a mapping, repeated ones included.
    pub mapped_bytes: u64,
    /// Bytes of payload without a mapping, without repetitions on their subflow.
    pub unmapped_bytes: u64,
    /// Bytes of the data stream, each counted once.
    pub unique_bytes: u64,
    /// Bytes that the same subflow had carried before.
    pub again_same_subflow_bytes: u64,
    /// Bytes that another subflow had carried before, and this one had not: reinjections.
    pub reinjected_bytes: u64,
    /// Segments with such bytes.
    pub reinjected_frames: u64,
    /// Segments that came while an earlier byte of the data stream was missing, in the order of the capture.
    pub out_of_order_frames: u64,
    /// The same, counted when the subflow delivers the segment in order. The kernel's `MPTcpExtOFOQueue` counts this.
    pub out_of_order_after_subflow: u64,
    /// Segments with nothing new, when the subflow delivers them.
    pub duplicates_after_subflow: u64,
    /// Bytes in order.
    pub in_order_bytes: u64,
    /// Bytes that the receiver acknowledged and the capture does not contain.
    pub unseen_bytes: u64,
    /// How often data waited for an earlier byte.
    pub head_of_line_waits: u64,
    /// How long data waited for an earlier byte, in nanoseconds.
    pub head_of_line_ns: u64,
    /// The longest such time.
    pub longest_head_of_line_ns: u64,
    /// The same by the subflow that brought the byte at last.
    pub head_of_line_ns_by_stream: BTreeMap<usize, u64>,
    /// Whether a `DATA_FIN` was seen.
    pub data_fin: bool,
    /// The course of the bytes in order.
    pub in_order: Course,
    /// The course of the bytes that the receiver acknowledged.
    pub acknowledged: Course,

    positions: Option<DataPositions>,
    /// Whether the first data sequence number had 32 bits, and no longer one was seen since.
    is_short: bool,
    near: u64,
    carried: Ranges,
    carried_by: BTreeMap<usize, Ranges>,
    delivered: Ranges,
    raw_next: u64,
    next: u64,
    acked: u64,
    waiting_since: Option<i64>,
}

impl DataStream {
    /// Sets the data sequence number of the first byte, known from the key.
    pub(crate) fn begin_at(&mut self, dsn: u64) {
        if self.positions.is_none() {
            self.positions = Some(DataPositions::new(dsn));
            self.near = DataPositions::start();
            self.raw_next = DataPositions::start();
            self.next = DataPositions::start();
            self.acked = DataPositions::start();
        }
    }

    /// Returns the position of a data sequence number.
    fn position(&mut self, dsn: MappingDsn, offset: u64) -> Option<u64> {
        if self.positions.is_none() {
            // The beginning was not captured: the first number that is seen is the reference.
            let first = match dsn {
                MappingDsn::Long(dsn) => dsn.0,
                MappingDsn::Short(short) => u64::from(short),
            };
            self.begin_at(first.wrapping_add(offset));
            self.is_short = matches!(dsn, MappingDsn::Short(_));
        }
        let position = self.positions?.at(self.long(dsn)?.wrapping_add(offset))?;
        self.near = position;
        Some(position)
    }

    /// Returns a data sequence number with all 64 bits.
    fn long(&mut self, dsn: MappingDsn) -> Option<u64> {
        let positions = self.positions.as_mut()?;
        match dsn {
            MappingDsn::Short(short) => Some(positions.long(short, self.near)),
            MappingDsn::Long(dsn) => {
                if std::mem::take(&mut self.is_short) {
                    positions.learn_upper_half(dsn.0, self.near);
                }
                Some(dsn.0)
            }
        }
    }

    /// Returns the position of the first byte that is not in order.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Returns the positions and lengths of pieces that have a mapping.
    pub(crate) fn positions_of(&mut self, pieces: &[Piece]) -> Vec<(u64, usize)> {
        let place = |piece: &Piece| {
            let start = piece.dsn.and_then(|dsn| self.position(dsn, piece.offset))?;
            Some((start, piece.len as usize))
        };
        let found: Option<Vec<_>> = pieces.iter().map(place).collect();
        found.unwrap_or_default()
    }

    /// Takes the payload of a segment as it was captured.
    ///
    /// `new` is the number of its bytes that the subflow had not carried before.
    pub(crate) fn on_captured(&mut self, stream: usize, pieces: &[Piece], new: u64) {
        let (mut out_of_order, mut reinjected) = (false, false);
        let mut new_on_subflow = new;
        for piece in pieces {
            let at = piece.dsn.and_then(|dsn| self.position(dsn, piece.offset));
            let Some(start) = at else {
                let counted = piece.len.min(new_on_subflow);
                new_on_subflow -= counted;
                self.unmapped_bytes += counted;
                continue;
            };
            let end = start + piece.len;
            self.mapped_bytes += piece.len;
            let new = self.carried.add(start, end);
            out_of_order |= new > 0 && start > self.raw_next;
            self.unique_bytes += new;
            let again = piece.len - new;
            if again > 0 {
                let own = self.carried_by.get(&stream).map_or(0, |own| own.count(start, end));
                self.again_same_subflow_bytes += own;
                self.reinjected_bytes += again - own.min(again);
                reinjected |= again > own;
            }
            self.carried_by.entry(stream).or_default().add(start, end);
            self.raw_next = self.carried.end_from(self.raw_next);
        }
        self.out_of_order_frames += u64::from(out_of_order);
        self.reinjected_frames += u64::from(reinjected);
    }

    /// Takes the pieces of a segment that its subflow delivers in order.
    pub(crate) fn on_in_order(&mut self, stream: usize, pieces: &[Piece], now: i64) {
        let (mut out_of_order, mut new) = (false, 0);
        let mut mapped = 0;
        for piece in pieces {
            let at = piece.dsn.and_then(|dsn| self.position(dsn, piece.offset));
            let Some(start) = at else { continue };
            mapped += piece.len;
            out_of_order |= start > self.next;
            new += self.delivered.add(start, start + piece.len);
            self.advance(Some(stream), self.delivered.end_from(self.next), now);
        }
        if mapped > 0 && new == 0 {
            self.duplicates_after_subflow += 1;
        } else {
            self.out_of_order_after_subflow += u64::from(out_of_order);
        }
    }

    /// Takes a data-level acknowledgement of this direction.
    pub(crate) fn on_data_ack(&mut self, dsn: MappingDsn, now: i64) {
        let Some(long) = self.long(dsn) else { return };
        let Some(ack) = self.positions.and_then(|positions| positions.at(long)) else { return };
        // A DATA_FIN takes a number too, and is no byte.
        let ack = ack.min(self.carried.end().unwrap_or(self.next));
        self.acknowledged.on_progress(now, ack.saturating_sub(self.acked));
        self.acked = self.acked.max(ack);
        if ack > self.next {
            self.unseen_bytes += ack - self.next - self.carried.count(self.next, ack);
            self.advance(None, self.delivered.end_from(ack), now);
        }
    }

    /// Goes on to `next`, and counts how long data waited for it.
    fn advance(&mut self, stream: Option<usize>, next: u64, now: i64) {
        let behind = self.delivered.end().is_some_and(|end| end > next);
        if next > self.next {
            self.in_order_bytes += next - self.next;
            self.in_order.on_progress(now, next - self.next);
            self.next = next;
            if let Some(since) = self.waiting_since.take() {
                let waited = now.saturating_sub(since).max(0) as u64;
                self.head_of_line_waits += 1;
                self.head_of_line_ns = self.head_of_line_ns.saturating_add(waited);
                self.longest_head_of_line_ns = self.longest_head_of_line_ns.max(waited);
                if let Some(stream) = stream {
                    let own = self.head_of_line_ns_by_stream.entry(stream).or_default();
                    *own = own.saturating_add(waited);
                }
            }
            self.waiting_since = behind.then_some(now);
        } else if behind && self.waiting_since.is_none() {
            self.waiting_since = Some(now);
        }
    }

    /// Returns true if a data sequence number is less than `distance` away from the last one.
    pub(crate) fn is_near(&self, dsn: u64, distance: u64) -> bool {
        self.positions
            .and_then(|positions| positions.at(dsn))
            .is_some_and(|position| position.abs_diff(self.near) < distance)
    }

    /// Returns how many bytes of the data stream a subflow carried first or again.
    pub fn bytes_of(&self, stream: usize) -> u64 {
        self.carried_by.get(&stream).map_or(0, Ranges::total)
    }
}
