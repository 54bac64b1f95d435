//! The segments that one host of a TCP connection sent.

use std::collections::BTreeMap;

use anabranch_wire::{Flags, MappingDsn};

use crate::course::Course;
use crate::positions::Positions;
use crate::ranges::Ranges;
use crate::record::Record;
use crate::round_trips::{AckTimer, EchoTimer, RoundTrips, Smoothed};

/// The most segments that wait for an earlier one of the same direction.
const MOST_HELD: usize = 65_536;
/// The most mappings that are remembered. The lowest are forgotten first.
const MOST_MAPPINGS: usize = 65_536;
/// The most pieces of one segment. If a segment has more pieces, its rest is unmapped. Linux uses one mapping
/// for each segment.
const MOST_PIECES: usize = 64;

/// A part of the data stream, at the place that a mapping gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// First data sequence number, or `None` for bytes without a mapping.
    pub(crate) dsn: Option<MappingDsn>,
    /// Bytes after that number.
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

/// The effect of a segment's payload on the data stream.
#[derive(Debug, Default)]
pub(crate) struct Carried {
    /// The position of the payload on the subflow; `None` without payload.
    pub(crate) start: Option<u64>,
    /// The payload's pieces.
    pub(crate) pieces: Vec<Piece>,
    /// Bytes between the highest one that was seen and the payload.
    pub(crate) skipped: u64,
    /// Bytes of the payload that the subflow had not carried before.
    pub(crate) new: u64,
    /// The pieces that are in order on the subflow now, by segment: those of this segment, and of earlier ones that
    /// waited for it.
    pub(crate) in_order: Vec<Vec<Piece>>,
}

/// The state of a half at a moment; `stream::Slice` has the meanings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    pub(crate) in_flight_bytes: u64,
    pub(crate) acked_bytes: u64,
    pub(crate) resent_frames: u64,
    pub(crate) ack_smoothed_ms: (f64, f64),
    pub(crate) echo_smoothed_ms: (f64, f64),
}

/// A mapping as it was seen on a subflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mapped {
    end: u64,
    dsn: MappingDsn,
}

/// The segments that one host of a TCP connection sent.
#[derive(Clone, Debug, Default)]
pub struct Half {
    /// Segments.
    pub frames: u64,
    /// Segments with payload.
    pub data_frames: u64,
    /// Bytes of payload, repeated ones included.
    pub payload_bytes: u64,
    /// Bytes of payload without repetitions.
    pub unique_bytes: u64,
    /// Bytes that had been seen before. At the sender, these are the retransmissions.
    pub resent_bytes: u64,
    /// Bytes that were missing when a later segment came. At the receiver, these were lost or overtaken.
    pub skipped_bytes: u64,
    /// Segments with bytes that had been seen before.
    pub resent_frames: u64,
    /// The longest payload of a segment.
    pub longest_payload: u32,
    /// Segments that came while an earlier byte was missing. The receiver keeps them in its out-of-order queue.
    pub out_of_order_frames: u64,
    /// Bytes that the receiver acknowledged and the capture does not contain.
    pub unseen_bytes: u64,
    /// Bytes that the receiver reported as received twice (D-SACK, RFC 2883): their retransmission was unnecessary.
    pub duplicate_sack_bytes: u64,
    /// Advertised windows of zero.
    pub zero_windows: u64,
    /// The largest advertised window in bytes.
    pub max_window_bytes: u64,
    /// From a data segment to its acknowledgement, as seen at the place of the capture.
    pub ack_round_trips: RoundTrips,
    /// From a timestamp to its echo, as seen at the place of the capture.
    pub echo_round_trips: RoundTrips,
    /// `ack_round_trips`, smoothed.
    pub ack_smoothed: Smoothed,
    /// `echo_round_trips`, smoothed.
    pub echo_smoothed: Smoothed,
    /// The course of the bytes in order.
    pub in_order: Course,
    /// The course of the bytes that the receiver acknowledged.
    pub acknowledged: Course,
    /// Whether a FIN was seen.
    pub fin: bool,
    /// Whether a RST was seen.
    pub reset: bool,

    positions: Option<Positions>,
    isn: Option<u64>,
    syn_seen: bool,
    /// The window scale that the SYN offered.
    window_scale: Option<u8>,
    seen: Ranges,
    next: Option<u64>,
    acked: u64,
    /// Start and end of segments that wait for an earlier one.
    held: BTreeMap<u64, u64>,
    mappings: BTreeMap<u64, Mapped>,
    /// Subflow sequence number and length of the last mapping.
    last_mapping: Option<(u32, u64)>,
    ack_timer: AckTimer,
    echo_timer: EchoTimer,
}

impl Half {
    /// Takes the header of a segment that this host sent.
    pub(crate) fn on_header(&mut self, record: &Record<'_>) {
        self.frames += 1;
        let seq = record.segment.seq.0;
        let positions = self.positions.get_or_insert_with(|| Positions::new(seq));
        if record.has(Flags::SYN) {
            let isn = positions.at(seq);
            positions.reach(isn + 1);
            // A repeated SYN changes nothing.
            if self.isn.is_none() {
                self.isn = Some(isn);
                self.next.get_or_insert(isn + 1);
                self.syn_seen = true;
                self.window_scale = record.segment.window_scale;
            }
        }
        self.fin |= record.has(Flags::FIN);
        self.reset |= record.has(Flags::RST);
    }

    /// Returns the position of the SYN, if it was seen or can be derived.
    pub(crate) fn initial_sequence(&self) -> Option<u64> {
        self.isn
    }

    /// Takes the timestamp of a segment that this host sent.
    pub(crate) fn on_timestamp(&mut self, record: &Record<'_>) {
        self.echo_timer.on_sent(record);
    }

    /// Takes the echo of this host's timestamps in a segment of the other host. Returns the round-trip time.
    pub(crate) fn on_echo(&mut self, record: &Record<'_>) -> Option<u64> {
        let sample = self.echo_timer.on_received(record);
        if let Some(sample) = sample {
            self.echo_round_trips.add(sample);
            self.echo_smoothed.add(sample);
        }
        sample
    }

    /// Takes the payload of a segment that this host sent.
    pub(crate) fn on_payload(&mut self, record: &Record<'_>) -> Carried {
        let mut carried = Carried::default();
        self.note_mapping(record);
        let len = u64::from(record.payload_len);
        if len == 0 {
            return carried;
        }
        let Some(positions) = &mut self.positions else { return carried };
        let after_syn = u32::from(record.has(Flags::SYN));
        let start = positions.at(record.segment.seq.0.wrapping_add(after_syn));
        let end = start + len;
        positions.reach(end);
        let is_newest = self.seen.end().is_none_or(|highest| end > highest);
        let skipped = self.seen.end().map_or(0, |highest| start.saturating_sub(highest));
        self.skipped_bytes += skipped;
        carried.skipped = skipped;
        let new = self.seen.add(start, end);
        self.data_frames += 1;
        self.payload_bytes += len;
        self.unique_bytes += new;
        self.resent_bytes += len - new;
        self.longest_payload = self.longest_payload.max(record.payload_len);
        if new < len {
            self.resent_frames += 1;
            self.ack_timer.on_retransmission();
        } else if is_newest {
            self.ack_timer.on_new_data(end, record.time_ns);
        }
        carried.pieces = self.pieces(start, end);
        carried.new = new;
        carried.start = Some(start);
        let before = self.next.unwrap_or(start);
        self.put_in_order(start, end, &mut carried);
        self.note_in_order(before, record.time_ns);
        carried
    }

    /// Counts the bytes from `before` to the next one that is missing.
    fn note_in_order(&mut self, before: u64, now: i64) {
        let after = self.next.unwrap_or(before);
        self.in_order.on_progress(now, after.saturating_sub(before));
    }

    /// Delivers what is in order on the subflow with this segment.
    fn put_in_order(&mut self, start: u64, end: u64, carried: &mut Carried) {
        let next = *self.next.get_or_insert(start);
        if start > next {
            self.out_of_order_frames += 1;
            self.held.entry(start).or_insert(end);
            if self.held.len() > MOST_HELD {
                // The missing bytes were not captured.
                let first = self.held.first_key_value().map_or(next, |(&start, _)| start);
                self.unseen_bytes += first.saturating_sub(next);
                self.next = Some(first.max(next));
                self.release(carried);
            }
        } else if end > next {
            self.deliver(next, end, carried);
            self.release(carried);
        }
    }

    /// Delivers segments that waited and are in order now.
    fn release(&mut self, carried: &mut Carried) {
        while let (Some(next), Some(entry)) = (self.next, self.held.first_entry()) {
            let start = *entry.key();
            if start > next {
                break;
            }
            let end = entry.remove();
            if end > next {
                self.deliver(next, end, carried);
            }
        }
    }

    /// Delivers `[start, end)`, which is in order on the subflow.
    fn deliver(&mut self, start: u64, end: u64, carried: &mut Carried) {
        carried.in_order.push(self.pieces(start, end));
        self.next = Some(end);
    }

    /// Remembers the mapping of a segment.
    fn note_mapping(&mut self, record: &Record<'_>) {
        let Some(dss) = &record.segment.dss else { return };
        let Some(mapping) = dss.mapping else { return };
        let len = u64::from(mapping.length).saturating_sub(u64::from(dss.data_fin));
        if len == 0 || mapping.ssn == 0 {
            return;
        }
        self.learn_isn(record, mapping.ssn, len);
        let Some(isn) = self.isn else { return };
        // Relative subflow sequence numbers wrap with those of TCP.
        let start = match &self.positions {
            Some(positions) => positions.at((isn as u32).wrapping_add(mapping.ssn)),
            None => return,
        };
        self.add_mapping(start, start + len, mapping.dsn);
    }

    /// Adds a mapping of `[start, end)` on the subflow.
    fn add_mapping(&mut self, start: u64, end: u64, dsn: MappingDsn) {
        self.mappings.insert(start, Mapped { end, dsn });
        if self.mappings.len() > MOST_MAPPINGS {
            self.mappings.pop_first();
        }
    }

    /// Finds the initial sequence number in a capture that begins in the middle: where one mapping follows another,
    /// the second begins with the segment that carries it first.
    fn learn_isn(&mut self, record: &Record<'_>, ssn: u32, len: u64) {
        if self.isn.is_some() {
            return;
        }
        let follows = self
            .last_mapping
            .replace((ssn, len))
            .is_some_and(|(before, len)| before.wrapping_add(len as u32) == ssn);
        let Some(positions) = &self.positions else { return };
        let start = positions.at(record.segment.seq.0);
        if follows && record.payload_len > 0 && self.seen.end() == Some(start) {
            self.isn = Some(start.wrapping_sub(u64::from(ssn)));
        }
    }

    /// Returns the pieces of the data stream in `[start, end)` of the subflow.
    fn pieces(&self, start: u64, end: u64) -> Vec<Piece> {
        let mut pieces = Vec::with_capacity(1);
        let mut at = start;
        while at < end {
            let covering =
                self.mappings.range(..=at).next_back().filter(|(_, mapped)| mapped.end > at);
            let (until, dsn, offset) = if pieces.len() == MOST_PIECES {
                (end, None, 0)
            } else if let Some((&from, mapped)) = covering {
                (mapped.end.min(end), Some(mapped.dsn), at - from)
            } else {
                let next = self.mappings.range(at..end).next().map_or(end, |(&from, _)| from);
                (next, None, 0)
            };
            pieces.push(Piece { dsn, offset, len: until - at });
            at = until;
        }
        pieces
    }

    /// Takes an acknowledgement of what this host sent. Returns what it shows to be in order, and the round-trip
    /// time.
    pub(crate) fn on_ack(&mut self, record: &Record<'_>) -> (Carried, Option<u64>) {
        let mut carried = Carried::default();
        let Some(positions) = &self.positions else { return (carried, None) };
        let ack = positions.at(record.segment.ack.0);
        let highest = self.seen.end().unwrap_or(0);
        // A number far above anything that was sent belongs to another connection.
        if ack > highest.saturating_add(1 << 30) && highest > 0 {
            return (carried, None);
        }
        let positions = *positions;
        let first = if self.acked > 0 { self.acked } else { self.isn.map_or(ack, |isn| isn + 1) };
        self.acknowledged.on_progress(record.time_ns, ack.min(highest).saturating_sub(first));
        self.acked = self.acked.max(ack);
        let mut sample = self.ack_timer.on_ack(ack, record.time_ns);
        for (number, block) in record.segment.sack.as_slice().iter().enumerate() {
            let (left, right) = (positions.at(block.left.0), positions.at(block.right.0));
            let second = record.segment.sack.as_slice().get(1);
            let inside_second = second.is_some_and(|second| {
                positions.at(second.left.0) <= left && right <= positions.at(second.right.0)
            });
            if number == 0 && (right <= ack || inside_second) {
                self.duplicate_sack_bytes += right.saturating_sub(left);
            } else {
                sample = self.ack_timer.on_sack(left, right, record.time_ns).or(sample);
            }
        }
        if let Some(sample) = sample {
            self.ack_round_trips.add(sample);
            self.ack_smoothed.add(sample);
        }
        // The receiver has bytes that the capture does not contain.
        if let Some(next) = self.next.filter(|&next| ack > next && highest > 0) {
            let upto = ack.min(highest);
            if upto > next {
                let missing = upto - next - self.seen.count(next, upto);
                self.unseen_bytes += missing;
                self.skip_to(upto, &mut carried);
                self.note_in_order(next, record.time_ns);
            }
        }
        (carried, sample)
    }

    /// Delivers what waited below `upto`, and goes on from there.
    fn skip_to(&mut self, upto: u64, carried: &mut Carried) {
        while let Some(entry) = self.held.first_entry() {
            let start = *entry.key();
            if start >= upto {
                break;
            }
            let end = entry.remove();
            let next = self.next.unwrap_or(start).max(start);
            if end > next {
                self.deliver(next, end, carried);
            }
        }
        self.next = self.next.max(Some(upto));
        self.release(carried);
    }

    /// Returns whether this host's SYN was seen without a window scale.
    pub(crate) fn refuses_window_scale(&self) -> bool {
        self.syn_seen && self.window_scale.is_none()
    }

    /// Takes the window that this host advertised, and returns it in bytes. It is scaled if both SYNs offered a scale,
    /// and never on a SYN (RFC 7323 section 2.2).
    pub(crate) fn on_window(&mut self, record: &Record<'_>, peer_refuses_scale: bool) -> u64 {
        let shift = match self.window_scale {
            Some(shift) if !record.has(Flags::SYN) && !peer_refuses_scale => shift,
            _ => 0,
        };
        let window = u64::from(record.segment.window) << shift;
        if window == 0 && !record.has(Flags::RST) && record.has(Flags::ACK) {
            self.zero_windows += 1;
        }
        self.max_window_bytes = self.max_window_bytes.max(window);
        window
    }

    fn in_flight(&self) -> u64 {
        match self.seen.end() {
            Some(end) if self.acked > 0 => end.saturating_sub(self.acked),
            _ => 0,
        }
    }

    /// Returns the state at this moment.
    pub(crate) fn state(&self) -> State {
        let times = |smoothed: &Smoothed, all: &RoundTrips| {
            (smoothed.ms().unwrap_or(f64::NAN), all.min_ms().unwrap_or(f64::NAN))
        };
        State {
            in_flight_bytes: self.in_flight(),
            acked_bytes: self.acknowledged.bytes,
            resent_frames: self.resent_frames,
            ack_smoothed_ms: times(&self.ack_smoothed, &self.ack_round_trips),
            echo_smoothed_ms: times(&self.echo_smoothed, &self.echo_round_trips),
        }
    }

    /// Notes the mapping of data in an `MP_CAPABLE` (RFC 8684 section 3.1): subflow sequence number 1, data sequence
    /// number `dsn`.
    pub(crate) fn map_first_data(&mut self, len: u64, dsn: MappingDsn) {
        if let Some(isn) = self.isn {
            self.add_mapping(isn + 1, isn + 1 + len, dsn);
        }
    }
}
