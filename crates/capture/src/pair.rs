//! Two captures of the same sessions, one at the client and one at the server: the offset of their clocks, one-way
//! delays, and true losses.
//!
//! TCP connections are matched by their initial sequence numbers, and segments by their headers. A segment that a network
//! card split or joined is matched by its last byte and its timestamp. The clock of the server is ahead of that of the
//! client by half the difference between the least times of both directions. This assumes that the fastest segments
//! take equally long both ways, so the offset is right to half the least round-trip time.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use anabranch_trace::{Column, Table, Words};
use serde_json::{Value, json};

use crate::analysis::Analysis;
use crate::course::SLICE_NS;
use crate::frame::Frame;
use crate::record::Record;
use crate::stream::{Direction, Side};
use crate::summary::direction_name;
use crate::tables::table;

/// The most segments of a file that are kept. Later ones are only counted.
const MOST_SEGMENTS: usize = 2_000_000;

/// The fields of a header that do not change on the way.
type Header = (u32, u32, u32, u32, u32, u32);

/// A captured segment.
#[derive(Clone, Copy, Debug)]
struct Noted {
    stream: u32,
    direction: Direction,
    /// Nanoseconds since 1970.
    time_ns: i64,
    seq: u32,
    len: u32,
    timestamp: Option<u32>,
    header: Header,
}

impl Noted {
    fn new(stream: usize, direction: Direction, time_ns: i64, record: &Record<'_>) -> Self {
        let segment = &record.segment;
        let (value, echo) =
            segment.timestamps.map_or((0, 0), |timestamps| (timestamps.value, timestamps.echo));
        let rest = u32::from(segment.window) << 8 | u32::from(segment.flags.0);
        Self {
            stream: stream as u32,
            direction,
            time_ns,
            seq: segment.seq.0,
            len: record.payload_len,
            timestamp: segment.timestamps.map(|timestamps| timestamps.value),
            header: (segment.seq.0, segment.ack.0, record.payload_len, value, echo, rest),
        }
    }
}

/// A capture with the segments of its TCP connections.
#[derive(Debug, Default)]
pub struct Journal {
    analysis: Analysis,
    segments: Vec<Noted>,
    left_out: u64,
}

impl Journal {
    /// Takes a frame of the capture.
    pub fn on_frame(&mut self, frame: &Frame<'_>) {
        let Some((record, stream, direction)) = self.analysis.take(frame) else { return };
        let Some(time_ns) = frame.time_ns else { return };
        if self.segments.len() < MOST_SEGMENTS {
            self.segments.push(Noted::new(stream, direction, time_ns, &record));
        } else {
            self.left_out += 1;
        }
    }

    /// Returns the side at which the capture was taken, as most of its connections show it.
    fn side(&self) -> Option<Side> {
        let count = |side| {
            self.analysis.streams().iter().filter(|stream| stream.side() == Some(side)).count()
        };
        let (client, server) = (count(Side::Client), count(Side::Server));
        match client.cmp(&server) {
            std::cmp::Ordering::Less => Some(Side::Server),
            std::cmp::Ordering::Greater => Some(Side::Client),
            std::cmp::Ordering::Equal => None,
        }
    }

    /// Returns the streams by what identifies them in both files: the initial sequence numbers, or without a handshake
    /// the addresses.
    fn identities(&self) -> BTreeMap<Identity, usize> {
        let streams = self.analysis.streams().iter().enumerate();
        streams
            .map(|(number, stream)| {
                let isns = stream.halves.each_ref().map(crate::half::Half::initial_sequence);
                let identity = match isns {
                    [Some(client), Some(server)] if stream.syns > 0 => {
                        Identity::Sequence(client as u32, server as u32)
                    }
                    _ => Identity::Ends(stream.client, stream.server),
                };
                (identity, number)
            })
            .collect()
    }

    /// Returns whether a network card split or joined segments.
    fn has_long_frames(&self) -> bool {
        self.analysis.counts().long_frames > 0
    }

    /// Returns the times of the first and the last segment.
    fn find_span(&self) -> Option<(i64, i64)> {
        let times = || self.segments.iter().map(|noted| noted.time_ns);
        times().min().zip(times().max())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identity {
    Sequence(u32, u32),
    Ends(SocketAddr, SocketAddr),
}

/// The segments of one direction of a connection in both files, in the order of time.
#[derive(Debug, Default)]
struct Way {
    sent: Vec<Noted>,
    received: Vec<Noted>,
    /// Time of the receipt, and time on the way without the offset of the clocks.
    delays: Vec<(i64, i64)>,
}

impl Way {
    fn least(&self) -> Option<i64> {
        self.delays.iter().map(|(_, delay)| *delay).min()
    }

    /// Matches the segments.
    fn find_delays(&mut self) {
        let once = |segments: &[Noted]| {
            let mut found = BTreeMap::<Header, Option<i64>>::new();
            for noted in segments {
                found
                    .entry(noted.header)
                    .and_modify(|time| *time = None)
                    .or_insert(Some(noted.time_ns));
            }
            found
        };
        let (sent, received) = (once(&self.sent), once(&self.received));
        // Without an equal header: the segment with the same timestamp that contains the last byte.
        let mut by_timestamp = BTreeMap::<u32, Vec<&Noted>>::new();
        for noted in self.sent.iter().filter(|noted| noted.len > 0) {
            if let Some(timestamp) = noted.timestamp {
                by_timestamp.entry(timestamp).or_default().push(noted);
            }
        }
        for noted in &self.received {
            let sent_at = match (sent.get(&noted.header), received.get(&noted.header)) {
                (Some(&Some(time)), Some(Some(_))) => Some(time),
                (Some(_), _) => None,
                _ if noted.len == 0 => None,
                _ => {
                    let last = noted.seq.wrapping_add(noted.len - 1);
                    let own = noted.timestamp.and_then(|timestamp| by_timestamp.get(&timestamp));
                    let mut holders = own
                        .into_iter()
                        .flatten()
                        .filter(|one| last.wrapping_sub(one.seq) < one.len);
                    let first = holders.next().map(|one| one.time_ns);
                    // Sent twice with one timestamp: it is not known which of them came.
                    first.filter(|_| holders.next().is_none())
                }
            };
            if let Some(sent_at) = sent_at {
                self.delays.push((noted.time_ns, noted.time_ns - sent_at));
            }
        }
    }
}

/// A connection that is in both files.
#[derive(Debug)]
struct Both {
    client: usize,
    server: usize,
    ways: [Way; 2],
}

/// Two captures of the same sessions.
#[derive(Debug)]
pub struct Pair {
    client: Journal,
    server: Journal,
    is_swapped: bool,
    connections: Vec<Both>,
    /// The first and the last time in the client's file and in the server's; `None` without segments.
    spans: [Option<(i64, i64)>; 2],
    /// By how much the clock of the server is ahead, and how far this can be wrong, in nanoseconds.
    offset: Option<(i64, i64)>,
}

impl Pair {
    /// Matches two captures. If the first was taken at the server, they are exchanged.
    pub fn new(first: Journal, second: Journal) -> Self {
        let is_swapped = first.side() == Some(Side::Server) || second.side() == Some(Side::Client);
        let (client, server) = if is_swapped { (second, first) } else { (first, second) };
        let known = server.identities();
        let mut by_client = BTreeMap::new();
        let mut by_server = BTreeMap::new();
        let mut connections = Vec::new();
        for (identity, number) in client.identities() {
            if let Some(&other) = known.get(&identity) {
                by_client.insert(number as u32, connections.len());
                by_server.insert(other as u32, connections.len());
                connections.push(Both { client: number, server: other, ways: Default::default() });
            }
        }
        for noted in &client.segments {
            if let Some(&at) = by_client.get(&noted.stream) {
                let way: &mut Way = &mut connections[at].ways[noted.direction as usize];
                match noted.direction {
                    Direction::ToServer => way.sent.push(*noted),
                    Direction::ToClient => way.received.push(*noted),
                }
            }
        }
        for noted in &server.segments {
            if let Some(&at) = by_server.get(&noted.stream) {
                let way: &mut Way = &mut connections[at].ways[noted.direction as usize];
                match noted.direction {
                    Direction::ToServer => way.received.push(*noted),
                    Direction::ToClient => way.sent.push(*noted),
                }
            }
        }
        connections.sort_by_key(|both| both.client);
        for both in &mut connections {
            both.ways.iter_mut().for_each(Way::find_delays);
        }
        let offset = offset(&connections);
        let spans = [client.find_span(), server.find_span()];
        Self { client, server, is_swapped, connections, spans, offset }
    }

    /// Returns what was found, as JSON.
    pub fn to_json(&self) -> Value {
        let milliseconds = |ns: i64| ns as f64 / 1e6;
        let connections: Vec<_> = self
            .connections
            .iter()
            .map(|both| {
                let stream = &self.client.analysis.streams()[both.client];
                json!({
                    "client_stream": both.client,
                    "server_stream": both.server,
                    "client": stream.client.to_string(),
                    "server": stream.server.to_string(),
                    "to_server": self.way_json(both, Direction::ToServer),
                    "to_client": self.way_json(both, Direction::ToClient),
                })
            })
            .collect();
        json!({
            "first_is_server": self.is_swapped,
            "server_ahead_ms": self.offset.map(|(offset, _)| milliseconds(offset)),
            "right_to_ms": self.offset.map(|(_, error)| milliseconds(error)),
            "connections": connections,
            "only_at_client": self.client.analysis.streams().len() - self.connections.len(),
            "only_at_server": self.server.analysis.streams().len() - self.connections.len(),
            "segments_left_out": self.client.left_out + self.server.left_out,
        })
    }

    /// Returns what is added to the times of a direction on the way.
    fn correction(&self, direction: Direction) -> i64 {
        let ahead = self.offset.map_or(0, |(offset, _)| offset);
        if direction == Direction::ToServer { -ahead } else { ahead }
    }

    fn way_json(&self, both: &Both, direction: Direction) -> Value {
        let way = &both.ways[direction as usize];
        let correction = self.correction(direction);
        let mut delays: Vec<_> = way.delays.iter().map(|(_, delay)| delay + correction).collect();
        delays.sort_unstable();
        let quantile = |share: f64| {
            let rank =
                ((share * delays.len() as f64).ceil() as usize).clamp(1, delays.len().max(1));
            delays.get(rank - 1).map(|delay| *delay as f64 / 1e6)
        };
        let [client, server] = self.spans;
        let (from, to) = match direction {
            Direction::ToServer => (client, server),
            Direction::ToClient => (server, client),
        };
        // Segments that were sent while only one file was written do not count as lost.
        let shift = way.least().unwrap_or(0);
        let within = |span: Option<(i64, i64)>, time: i64| {
            span.is_some_and(|(first, last)| first <= time && time <= last)
        };
        let sent = total(way.sent.iter().filter(|one| within(to, one.time_ns + shift)));
        let received = total(way.received.iter().filter(|one| within(from, one.time_ns - shift)));
        let is_whole = !(self.client.has_long_frames() || self.server.has_long_frames());
        json!({
            "sent_bytes": sent.0,
            "received_bytes": received.0,
            "lost_bytes": sent.0.saturating_sub(received.0),
            "sent_segments": is_whole.then_some(sent.1),
            "received_segments": is_whole.then_some(received.1),
            "lost_segments": is_whole.then(|| sent.1.saturating_sub(received.1)),
            "matched_segments": delays.len(),
            "min_delay_ms": quantile(0.0),
            "median_delay_ms": quantile(0.5),
            "p95_delay_ms": quantile(0.95),
            "max_delay_ms": quantile(1.0),
        })
    }

    /// Returns the one-way delays in slices of 0.1 s of the client's clock.
    pub fn delays(&self) -> Table {
        let (mut t_s, mut streams, mut counts) = (Vec::new(), Vec::new(), Vec::new());
        let mut directions = Words::default();
        let mut numbers: [Vec<f64>; 3] = Default::default();
        let first = self.spans[0].map_or(0, |(first, _)| first);
        for both in &self.connections {
            for direction in Direction::BOTH {
                let correction = self.correction(direction);
                let mut slices = BTreeMap::<i64, Vec<i64>>::new();
                for &(time, delay) in &both.ways[direction as usize].delays {
                    // Receipts at the server are in the server's time.
                    let at =
                        if direction == Direction::ToServer { time + correction } else { time };
                    let number = (at - first).div_euclid(SLICE_NS);
                    slices.entry(number).or_default().push(delay + correction);
                }
                for (number, delays) in slices {
                    t_s.push(number as f64 * (SLICE_NS as f64 / 1e9));
                    streams.push(both.client as i64);
                    directions.push(direction_name(direction));
                    counts.push(delays.len() as i64);
                    let sum: i64 = delays.iter().sum();
                    let values = [
                        sum as f64 / delays.len() as f64,
                        delays.iter().min().map_or(f64::NAN, |least| *least as f64),
                        delays.iter().max().map_or(f64::NAN, |most| *most as f64),
                    ];
                    for (column, value) in numbers.iter_mut().zip(values) {
                        column.push(value / 1e6);
                    }
                }
            }
        }
        let [mean, least, most] = numbers;
        let columns = vec![
            ("t_s", Column::Float(t_s)),
            ("stream", Column::Int(streams)),
            ("direction", Column::Text(directions)),
            ("segments", Column::Int(counts)),
            ("mean_delay_ms", Column::Float(mean)),
            ("min_delay_ms", Column::Float(least)),
            ("max_delay_ms", Column::Float(most)),
        ];
        table("capture_delays", columns)
    }
}

/// Returns the bytes of payload, and the segments with payload.
fn total<'a>(segments: impl Iterator<Item = &'a Noted>) -> (u64, u64) {
    segments
        .filter(|one| one.len > 0)
        .fold((0, 0), |(bytes, count), one| (bytes + u64::from(one.len), count + 1))
}

/// Returns by how much the clock of the server is ahead, and how far this can be wrong: from the connection with the
/// shortest round trip.
fn offset(connections: &[Both]) -> Option<(i64, i64)> {
    let trips = connections.iter().filter_map(|both| {
        let [up, down] = both.ways.each_ref().map(Way::least);
        up.zip(down)
    });
    let (up, down) = trips.min_by_key(|(up, down)| up + down)?;
    Some(((up - down) / 2, (up + down).abs() / 2))
}
