//! One TCP connection of a capture.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use anabranch_wire::{Flags, MappingDsn};

use crate::positions::Positions;
use crate::ranges::Ranges;
use crate::record::Record;
use crate::round_trips::{AckTimer, EchoTimer, RoundTrips};

/// The most segments that wait for an earlier one of the same direction.
const MOST_HELD: usize = 65_536;
/// Mappings that end this far below the highest byte are forgotten.
const MAPPINGS_KEPT: u64 = 64 << 20;
/// A silence of a stream counts as idle from this length on.
const IDLE_NS: i64 = 1_000_000_000;
/// The length of a time slice of [`Slice`].
pub(crate) const SLICE_NS: i64 = 100_000_000;

/// The direction of a segment, as seen from the host that opened the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client.
    ToServer,
    /// From the server.
    ToClient,
}

impl Direction {
    /// Both directions, in the order of arrays of two.
    pub const BOTH: [Self; 2] = [Self::ToServer, Self::ToClient];

    /// Returns the other direction.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::ToServer => Self::ToClient,
            Self::ToClient => Self::ToServer,
        }
    }
}

/// The host at which a capture was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The client's, or a place near it.
    Client,
    /// The server's, or a place near it.
    Server,
}

/// A part of the data stream, at the place that a mapping gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// First data sequence number, or `None` for bytes without a mapping.
    pub(crate) dsn: Option<MappingDsn>,
    /// Bytes after that number.
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

/// What a segment's payload means for the data stream.
#[derive(Debug, Default)]
pub(crate) struct Carried {
    /// The payload's pieces.
    pub(crate) pieces: Vec<Piece>,
    /// The pieces that are in order on the subflow now, by segment: those of this segment, and of earlier ones that
    /// waited for it.
    pub(crate) in_order: Vec<Vec<Piece>>,
}

/// A mapping as it was seen on a subflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mapped {
    end: u64,
    dsn: MappingDsn,
}

/// What one host of a TCP connection sent.
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
    /// Whether a FIN was seen.
    pub fin: bool,
    /// Whether a RST was seen.
    pub reset: bool,

    positions: Option<Positions>,
    isn: Option<u64>,
    window_shift: u8,
    seen: Ranges,
    next: Option<u64>,
    acked: u64,
    held: BTreeMap<u64, (u64, Vec<Piece>)>,
    mappings: BTreeMap<u64, Mapped>,
    last_mapping: Option<(u32, MappingDsn, u64)>,
    ack_timer: AckTimer,
    echo_timer: EchoTimer,
}

/// What happened on a stream in a tenth of a second.
#[derive(Clone, Copy, Debug, Default)]
pub struct Slice {
    /// The slice's number since the start of the capture.
    pub number: i64,
    /// New bytes to the server and to the client.
    pub bytes: [u64; 2],
    /// Repeated bytes in both directions.
    pub resent_bytes: [u64; 2],
    /// Bytes sent and not acknowledged at the end of the slice.
    pub in_flight_bytes: [u64; 2],
    /// The window that each direction's receiver advertised last.
    pub window_bytes: [u64; 2],
    /// Sum and count of the round-trip times of data in each direction.
    pub ack_rtt_ns: [(u64, u32); 2],
    /// Sum and count of the round-trip times of timestamps in each direction.
    pub echo_rtt_ns: [(u64, u32); 2],
}

/// A TCP connection.
#[derive(Clone, Debug)]
pub struct Stream {
    /// The host that opened the connection. Without a SYN it is the one with the higher port.
    pub client: SocketAddr,
    /// The other host.
    pub server: SocketAddr,
    /// SYN segments without ACK.
    pub syns: u64,
    /// SYN segments with ACK.
    pub syn_acks: u64,
    /// Time of the first segment in nanoseconds since 1970.
    pub first_ns: i64,
    /// Time of the last segment.
    pub last_ns: i64,
    /// Sum of all silences of at least one second.
    pub idle_ns: i64,
    /// From the last SYN before the first SYN/ACK to it.
    pub syn_to_syn_ack_ns: Option<i64>,
    /// From the first SYN/ACK to the client's next segment.
    pub syn_ack_to_ack_ns: Option<i64>,
    /// What the client and the server sent.
    pub halves: [Half; 2],
    /// The course in time.
    pub slices: Vec<Slice>,
    syn_at: Option<i64>,
    syn_ack_at: Option<i64>,
}

impl Half {
    /// Takes the header of a segment that this host sent.
    fn on_header(&mut self, record: &Record<'_>) {
        self.frames += 1;
        let seq = record.segment.seq.0;
        let positions = self.positions.get_or_insert_with(|| Positions::new(seq));
        if record.has(Flags::SYN) {
            let isn = positions.at(seq);
            positions.reach(isn + 1);
            self.isn = Some(isn);
            self.next = Some(isn + 1);
            self.window_shift = record.segment.window_scale.unwrap_or(0);
        }
        self.fin |= record.has(Flags::FIN);
        self.reset |= record.has(Flags::RST);
    }

    /// Takes the payload of a segment that this host sent.
    fn on_payload(&mut self, record: &Record<'_>) -> Carried {
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
        self.put_in_order(start, end, &mut carried);
        carried
    }

    /// Delivers what is in order on the subflow with this segment.
    fn put_in_order(&mut self, start: u64, end: u64, carried: &mut Carried) {
        let next = *self.next.get_or_insert(start);
        if start > next {
            self.out_of_order_frames += 1;
            self.held.entry(start).or_insert((end, carried.pieces.clone()));
            if self.held.len() > MOST_HELD {
                // The missing bytes were not captured.
                let first = self.held.first_key_value().map_or(next, |(&start, _)| start);
                self.unseen_bytes += first - next;
                self.next = Some(first);
                self.release(carried);
            }
        } else if end > next {
            carried.in_order.push(skip(&carried.pieces, next - start));
            self.next = Some(end);
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
            let (end, pieces) = entry.remove();
            if end > next {
                carried.in_order.push(skip(&pieces, next - start));
                self.next = Some(end);
            }
        }
    }

    /// Remembers the mapping of a segment.
    fn note_mapping(&mut self, record: &Record<'_>) {
        let Some(dss) = &record.segment.dss else { return };
        let Some(mapping) = dss.mapping else { return };
        let len = u64::from(mapping.length).saturating_sub(u64::from(dss.data_fin));
        if len == 0 || mapping.ssn == 0 {
            return;
        }
        self.learn_isn(record, mapping.ssn, mapping.dsn, len);
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
        while let Some(entry) = self.mappings.first_entry() {
            if entry.get().end + MAPPINGS_KEPT > start {
                break;
            }
            entry.remove();
        }
    }

    /// Finds the initial sequence number in a capture that begins in the middle: where one mapping follows another,
    /// the second begins with the segment that carries it first.
    fn learn_isn(&mut self, record: &Record<'_>, ssn: u32, dsn: MappingDsn, len: u64) {
        if self.isn.is_some() {
            return;
        }
        let follows = self
            .last_mapping
            .replace((ssn, dsn, len))
            .is_some_and(|(before, _, len)| before.wrapping_add(len as u32) == ssn);
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
            let (until, dsn, offset) = match covering {
                Some((&from, mapped)) => (mapped.end.min(end), Some(mapped.dsn), at - from),
                None => {
                    let next = self.mappings.range(at..end).next().map_or(end, |(&from, _)| from);
                    (next, None, 0)
                }
            };
            pieces.push(Piece { dsn, offset, len: until - at });
            at = until;
        }
        pieces
    }

    /// Takes an acknowledgement of what this host sent. Returns what it shows to be in order, and the round-trip
    /// time.
    fn on_ack(&mut self, record: &Record<'_>) -> (Carried, Option<u64>) {
        let mut carried = Carried::default();
        let Some(positions) = &self.positions else { return (carried, None) };
        let ack = positions.at(record.segment.ack.0);
        let highest = self.seen.end().unwrap_or(0);
        // A number far above anything that was sent belongs to another connection.
        if ack > highest.saturating_add(1 << 30) && highest > 0 {
            return (carried, None);
        }
        let positions = *positions;
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
        }
        // The receiver has bytes that the capture does not contain.
        if let Some(next) = self.next.filter(|&next| ack > next && highest > 0) {
            let upto = ack.min(highest);
            if upto > next {
                let missing = upto - next - self.seen.count(next, upto);
                self.unseen_bytes += missing;
                self.skip_to(upto, &mut carried);
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
            let (end, pieces) = entry.remove();
            let next = self.next.unwrap_or(start).max(start);
            if end > next {
                carried.in_order.push(skip(&pieces, next - start));
                self.next = Some(end);
            }
        }
        self.next = self.next.max(Some(upto));
        self.release(carried);
    }

    /// Takes the window that this host advertised. On a SYN it is not scaled (RFC 7323 section 2.2).
    fn on_window(&mut self, record: &Record<'_>) -> u64 {
        let shift = if record.has(Flags::SYN) { 0 } else { self.window_shift };
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

    /// Notes the mapping of data in an `MP_CAPABLE` (RFC 8684 section 3.1): subflow sequence number 1, data sequence
    /// number `dsn`.
    pub(crate) fn map_first_data(&mut self, len: u64, dsn: MappingDsn) {
        if let Some(isn) = self.isn {
            self.add_mapping(isn + 1, isn + 1 + len, dsn);
        }
    }
}

/// Returns pieces without their first `bytes` bytes.
fn skip(pieces: &[Piece], bytes: u64) -> Vec<Piece> {
    let mut left = bytes;
    let mut rest = Vec::with_capacity(pieces.len());
    for piece in pieces {
        if left >= piece.len {
            left -= piece.len;
            continue;
        }
        rest.push(Piece { offset: piece.offset + left, len: piece.len - left, ..*piece });
        left = 0;
    }
    rest
}

/// What one segment means: for the data stream of its direction, and for that of the other through its
/// acknowledgement.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) carried: Carried,
    pub(crate) acknowledged: Carried,
}

impl Stream {
    /// Begins with the first segment that was seen.
    pub(crate) fn new(record: &Record<'_>) -> Self {
        let syn = record.has(Flags::SYN);
        let from_client = if syn {
            !record.has(Flags::ACK)
        } else {
            record.source.port() >= record.destination.port()
        };
        let (client, server) = if from_client {
            (record.source, record.destination)
        } else {
            (record.destination, record.source)
        };
        Self {
            client,
            server,
            syns: 0,
            syn_acks: 0,
            first_ns: record.time_ns,
            last_ns: record.time_ns,
            idle_ns: 0,
            syn_to_syn_ack_ns: None,
            syn_ack_to_ack_ns: None,
            halves: Default::default(),
            slices: Vec::new(),
            syn_at: None,
            syn_ack_at: None,
        }
    }

    /// Returns the direction of a segment.
    pub(crate) fn direction(&self, record: &Record<'_>) -> Direction {
        if record.source == self.client { Direction::ToServer } else { Direction::ToClient }
    }

    /// Returns true if a SYN or SYN/ACK has another initial sequence number than this stream, so that it begins
    /// another one between the same ports.
    pub(crate) fn is_another(&self, record: &Record<'_>) -> bool {
        if !record.has(Flags::SYN) {
            return false;
        }
        let half = &self.halves[self.direction(record) as usize];
        match half.isn {
            Some(isn) => isn as u32 != record.segment.seq.0,
            // Data, but no SYN before: an older connection of which the beginning was not captured.
            None => half.data_frames > 0 || (half.frames > 0 && !record.has(Flags::ACK)),
        }
    }

    /// Takes a segment.
    pub(crate) fn on_record(&mut self, record: &Record<'_>, start_ns: i64) -> Seen {
        let direction = self.direction(record);
        self.on_handshake(record, direction);
        self.on_time(record.time_ns);
        let [half, other] = self.both(direction);
        half.on_header(record);
        let window = half.on_window(record);
        half.echo_timer.on_sent(record);
        let (unique, resent) = (half.unique_bytes, half.resent_bytes);
        let carried = half.on_payload(record);
        let (new, again) = (half.unique_bytes - unique, half.resent_bytes - resent);
        let echo = other.echo_timer.on_received(record);
        if let Some(sample) = echo {
            other.echo_round_trips.add(sample);
        }
        let (acknowledged, ack_rtt) =
            if record.has(Flags::ACK) { other.on_ack(record) } else { (Carried::default(), None) };
        let in_flight = [self.halves[0].in_flight(), self.halves[1].in_flight()];
        let slice = self.slice(record.time_ns, start_ns);
        let (own, peer) = (direction as usize, direction.other() as usize);
        slice.bytes[own] += new;
        slice.resent_bytes[own] += again;
        slice.in_flight_bytes = in_flight;
        slice.window_bytes[peer] = window;
        for (sums, sample) in [(&mut slice.ack_rtt_ns, ack_rtt), (&mut slice.echo_rtt_ns, echo)] {
            if let Some(sample) = sample {
                sums[peer].0 += sample;
                sums[peer].1 += 1;
            }
        }
        Seen { carried, acknowledged }
    }

    /// Returns the half of the sender, and the other.
    fn both(&mut self, direction: Direction) -> [&mut Half; 2] {
        let [client, server] = &mut self.halves;
        match direction {
            Direction::ToServer => [client, server],
            Direction::ToClient => [server, client],
        }
    }

    fn on_handshake(&mut self, record: &Record<'_>, direction: Direction) {
        let now = record.time_ns;
        match (record.has(Flags::SYN), record.has(Flags::ACK)) {
            (true, false) => {
                self.syns += 1;
                if self.syn_ack_at.is_none() {
                    self.syn_at = Some(now);
                }
            }
            (true, true) => {
                self.syn_acks += 1;
                if self.syn_ack_at.is_none() {
                    self.syn_ack_at = Some(now);
                    self.syn_to_syn_ack_ns = self.syn_at.map(|at| now - at);
                }
            }
            _ => {
                if direction == Direction::ToServer && self.syn_ack_to_ack_ns.is_none() {
                    self.syn_ack_to_ack_ns = self.syn_ack_at.map(|at| now - at);
                }
            }
        }
    }

    fn on_time(&mut self, now: i64) {
        let silence = now - self.last_ns;
        if silence >= IDLE_NS {
            self.idle_ns += silence;
        }
        self.last_ns = self.last_ns.max(now);
    }

    /// Returns the slice of a time. A segment that is older than the last slice counts in that.
    fn slice(&mut self, now: i64, start_ns: i64) -> &mut Slice {
        let number = (now - start_ns).div_euclid(SLICE_NS);
        let last = self.slices.last().copied();
        if last.is_none_or(|last| last.number < number) {
            let windows = last.map_or([0; 2], |last| last.window_bytes);
            self.slices.push(Slice { number, window_bytes: windows, ..Slice::default() });
        }
        let last = self.slices.len() - 1;
        &mut self.slices[last]
    }

    /// Returns the side at which the capture was taken: the host that answers at once is near. `None` if the stream
    /// does not tell.
    pub fn side(&self) -> Option<Side> {
        if let (Some(server), Some(client)) = (self.syn_to_syn_ack_ns, self.syn_ack_to_ack_ns) {
            return nearer(server, client);
        }
        // Without a handshake, the acknowledgements of both hosts' data tell the same.
        let [to_server, to_client] = &self.halves;
        let server = to_server.ack_round_trips.min_ms()?;
        let client = to_client.ack_round_trips.min_ms()?;
        nearer((server * 1e6) as i64, (client * 1e6) as i64)
    }
}

/// Returns the side whose answer took less, if the other's took at least twice as long.
fn nearer(server_ns: i64, client_ns: i64) -> Option<Side> {
    if server_ns.saturating_mul(2) < client_ns {
        Some(Side::Server)
    } else if client_ns.saturating_mul(2) < server_ns {
        Some(Side::Client)
    } else {
        None
    }
}
