//! One TCP connection of a capture.

use std::net::SocketAddr;

use anabranch_wire::Flags;

use crate::course::SLICE_NS;
use crate::exchange::Http;
use crate::half::{Carried, Half};
use crate::record::Record;

/// A silence of a stream counts as idle from this length on.
const IDLE_NS: i64 = 1_000_000_000;

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

/// The most pairs of segments of a slice whose rate is kept.
const MOST_PAIRS: usize = 64;
/// Segments that come later after one another are no pair: the sender paused.
const PAIR_NS: i64 = 50_000_000;

/// The changes of a stream within a tenth of a second.
#[derive(Clone, Debug, Default)]
pub struct Slice {
    /// The slice's number since the first frame of the file.
    pub number: i64,
    /// New bytes to the server and to the client.
    pub bytes: [u64; 2],
    /// Repeated bytes in both directions.
    pub resent_bytes: [u64; 2],
    /// Bytes in both directions that were missing when a later segment came.
    pub skipped_bytes: [u64; 2],
    /// The rates of data segments in both directions that followed another at once, in Mb/s on the wire. At the
    /// receiver, many of them have the rate of the slowest link.
    pub pair_mbps: [Vec<f32>; 2],
    /// Bytes acknowledged since the beginning, at the end of the slice.
    pub acked_bytes: [u64; 2],
    /// Segments with repeated bytes since the beginning, at the end of the slice.
    pub resent_frames: [u64; 2],
    /// Smoothed and least round-trip time of data in each direction at the end of the slice, milliseconds.
    pub ack_smoothed_ms: [(f64, f64); 2],
    /// The same of timestamps.
    pub echo_smoothed_ms: [(f64, f64); 2],
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
    /// The host that opened the connection. If there is no SYN, it is the host with the higher port.
    pub client: SocketAddr,
    /// The other host.
    pub server: SocketAddr,
    /// SYN segments without ACK.
    pub syns: u64,
    /// SYN segments with ACK.
    pub syn_acks: u64,
    /// Time of the first segment in nanoseconds since the first frame of the file.
    pub first_ns: i64,
    /// Time of the last segment.
    pub last_ns: i64,
    /// Sum of all silences of at least one second.
    pub idle_ns: i64,
    /// From the last SYN before the first SYN/ACK to it.
    pub syn_to_syn_ack_ns: Option<i64>,
    /// From the first SYN/ACK to the client's next segment.
    pub syn_ack_to_ack_ns: Option<i64>,
    /// The segments of the client, and those of the server.
    pub halves: [Half; 2],
    /// The course in time.
    pub slices: Vec<Slice>,
    /// HTTP in the data, without MPTCP.
    pub http: Http,
    /// Time of the last SYN before the first SYN/ACK.
    syn_at: Option<i64>,
    /// Time of the last data segment in both directions.
    last_data_ns: [Option<i64>; 2],
    /// Time of the first SYN/ACK.
    pub syn_ack_at: Option<i64>,
}

/// The effect of a segment on the data stream of its direction, and of its acknowledgement on the other.
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
            http: Http::default(),
            syn_at: None,
            last_data_ns: [None; 2],
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
        match half.initial_sequence() {
            Some(isn) => isn as u32 != record.segment.seq.0,
            // Data, but no SYN before: an older connection of which the beginning was not captured.
            None => half.data_frames > 0 || (half.frames > 0 && !record.has(Flags::ACK)),
        }
    }

    /// Takes a segment.
    pub(crate) fn on_record(&mut self, record: &Record<'_>) -> Seen {
        let direction = self.direction(record);
        self.on_handshake(record, direction);
        self.on_time(record.time_ns);
        let [half, other] = self.both(direction);
        half.on_header(record);
        let window = half.on_window(record, other.refuses_window_scale());
        half.on_timestamp(record);
        let carried = half.on_payload(record);
        let (new, again) = (carried.new, u64::from(record.payload_len) - carried.new);
        let echo = other.on_echo(record);
        let (acknowledged, ack_rtt) =
            if record.has(Flags::ACK) { other.on_ack(record) } else { (Carried::default(), None) };
        let pair_mbps = self.pair_rate(direction as usize, record);
        let state = self.halves.each_ref().map(Half::state);
        let slice = self.slice(record.time_ns);
        let (own, peer) = (direction as usize, direction.other() as usize);
        slice.bytes[own] += new;
        slice.skipped_bytes[own] += carried.skipped;
        if slice.pair_mbps[own].len() < MOST_PAIRS {
            slice.pair_mbps[own].extend(pair_mbps);
        }
        slice.resent_bytes[own] += again;
        slice.in_flight_bytes = state.map(|state| state.in_flight_bytes);
        slice.acked_bytes = state.map(|state| state.acked_bytes);
        slice.resent_frames = state.map(|state| state.resent_frames);
        slice.ack_smoothed_ms = state.map(|state| state.ack_smoothed_ms);
        slice.echo_smoothed_ms = state.map(|state| state.echo_smoothed_ms);
        slice.window_bytes[peer] = window;
        for (sums, sample) in [(&mut slice.ack_rtt_ns, ack_rtt), (&mut slice.echo_rtt_ns, echo)] {
            if let Some(sample) = sample {
                sums[peer].0 = sums[peer].0.saturating_add(sample);
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

    /// Returns the rate at which a data segment followed the one before, in Mb/s on the wire; `None` if it did not follow
    /// at once.
    fn pair_rate(&mut self, way: usize, record: &Record<'_>) -> Option<f32> {
        if record.payload_len == 0 {
            return None;
        }
        let before = self.last_data_ns[way].replace(record.time_ns)?;
        let gap = record.time_ns - before;
        let ip = if record.source.is_ipv4() { 20 } else { 40 };
        let size = ip + 20 + record.segment.options_len() + record.payload_len as usize;
        (0 < gap && gap <= PAIR_NS).then(|| (size as f64 * 8e3 / gap as f64) as f32)
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

    /// Returns the slice of a time. A segment that is older than the latest slice is counted in the
    /// latest slice.
    fn slice(&mut self, now: i64) -> &mut Slice {
        let number = now.div_euclid(SLICE_NS);
        let last = self.slices.last().map(|last| (last.number, last.window_bytes));
        if last.is_none_or(|(last, _)| last < number) {
            let windows = last.map_or([0; 2], |(_, windows)| windows);
            self.slices.push(Slice { number, window_bytes: windows, ..Slice::default() });
        }
        let last = self.slices.len() - 1;
        &mut self.slices[last]
    }

    /// Returns the side at which the capture was taken: the host that answers at once is near. `None` if the stream
    /// does not show it.
    pub fn side(&self) -> Option<Side> {
        if let (Some(server), Some(client)) = (self.syn_to_syn_ack_ns, self.syn_ack_to_ack_ns) {
            return nearer(server, client);
        }
        // Without a handshake, the acknowledgements of both hosts' data show the same.
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
