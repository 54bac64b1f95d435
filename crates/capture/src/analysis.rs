//! A capture as a whole: its TCP connections and the MPTCP connections that they form.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use anabranch_units::DataSeq;
use anabranch_wire::{CapableKeys, Flags, MappingDsn, MpJoin, MptcpOption};

use crate::connection::{Connection, Derived, Fallback, Subflow};
use crate::exchange::{Exchanges, Http};
use crate::frame::Frame;
use crate::half::Carried;
use crate::positions::DataPositions;
use crate::record::{Record, Skipped};
use crate::stream::{Direction, Seen, Stream};

/// The most TCP connections that are kept apart. Segments of more are only counted.
const MOST_STREAMS: usize = 200_000;
/// The most MPTCP connections whose handshake was not captured. Subflows of more count as TCP.
const MOST_GUESSED: usize = 1_000;
/// The latest time in nanoseconds since 1970 (the year 2116). A file may state any time, and sums must not overflow.
const MOST_NS: i64 = 1 << 62;
/// The most tokens that are remembered.
const MOST_TOKENS: usize = 2 * MOST_STREAMS;
/// The most bytes that are kept for reading HTTP.
const MOST_TEXT: usize = 64 << 20;
/// Subflows whose data sequence numbers differ by less than this belong to one connection, if no handshake was captured.
const NEAR_DSN: u64 = 1 << 30;

/// The relation of a stream to MPTCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// No MPTCP option was seen.
    Tcp,
    /// A subflow.
    Subflow {
        /// Number of the connection.
        connection: usize,
        /// Number of the subflow in the connection.
        subflow: usize,
    },
    /// A join to a connection whose handshake was not captured, by its token.
    Orphan(u32),
}

/// Counts of a whole capture.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Frames in the file.
    pub records: u64,
    /// TCP segments.
    pub tcp_segments: u64,
    /// Segments with an MPTCP option.
    pub mptcp_segments: u64,
    /// Frames of which only a part was captured.
    pub truncated_records: u64,
    /// Frames longer than 1,600 bytes: segments that the network card splits or joins.
    pub long_frames: u64,
    /// Frames by link type.
    pub link_types: BTreeMap<u32, u64>,
    /// MPTCP options by subtype.
    pub options: BTreeMap<u8, u64>,
    /// Frames without an IP packet.
    pub not_ip: u64,
    /// Frames of other protocols.
    pub not_tcp: u64,
    /// Frames without a TCP header.
    pub no_header: u64,
    /// Frames of a link type that cannot be read.
    pub unknown_link_type: u64,
    /// Segments of TCP connections beyond the most that are kept apart.
    pub left_out: u64,
    /// Records that are older than the one before.
    pub out_of_time_order: u64,
    /// Time of the first and of the last record in nanoseconds since 1970.
    pub first_ns: Option<i64>,
    /// The last.
    pub last_ns: Option<i64>,
}

/// Everything that was found in a capture.
#[derive(Clone, Debug, Default)]
pub struct Analysis {
    counts: Counts,
    streams: Vec<Stream>,
    roles: Vec<Role>,
    connections: Vec<Connection>,
    present: BTreeMap<(SocketAddr, SocketAddr), usize>,
    by_token: BTreeMap<u32, (usize, Direction)>,
    orphans: BTreeMap<u32, u64>,
    /// Numbers of the connections whose handshake was not captured.
    guessed: Vec<usize>,
    previous_ns: Option<i64>,
    /// Bytes in memory for reading HTTP.
    text_bytes: usize,
    /// Time of the first frame with a time. Times of segments count from it.
    origin_ns: Option<i64>,
}

impl Analysis {
    /// Takes a frame of the capture.
    pub fn on_frame(&mut self, frame: &Frame<'_>) {
        self.take(frame);
    }

    /// Takes a frame, and returns its segment with the stream and the direction.
    pub(crate) fn take<'a>(&mut self, frame: &Frame<'a>) -> Option<(Record<'a>, usize, Direction)> {
        let counts = &mut self.counts;
        counts.records += 1;
        *counts.link_types.entry(frame.link_type).or_default() += 1;
        counts.truncated_records += u64::from(frame.data.len() < frame.original_len as usize);
        counts.long_frames += u64::from(frame.original_len > 1_600);
        let stated = frame.time_ns.map(|time| time.clamp(0, MOST_NS));
        if let Some(time) = stated {
            counts.first_ns = Some(counts.first_ns.map_or(time, |first| first.min(time)));
            counts.last_ns = Some(counts.last_ns.map_or(time, |last| last.max(time)));
            let before = self.previous_ns.replace(time);
            counts.out_of_time_order += u64::from(before.is_some_and(|before| time < before));
        }
        // A pcapng file may have packets without a time: they count as simultaneous with the one before.
        let origin = *self.origin_ns.get_or_insert(stated.unwrap_or(0));
        let time_ns = stated.or(self.previous_ns).map(|time| time - origin);
        match Record::parse(&Frame { time_ns, ..*frame }) {
            Ok(record) => {
                let (stream, direction) = self.on_record(&record)?;
                return Some((record, stream, direction));
            }
            Err(Skipped::LinkType(_)) => self.counts.unknown_link_type += 1,
            Err(Skipped::NotIp) => self.counts.not_ip += 1,
            Err(Skipped::NotTcp) => self.counts.not_tcp += 1,
            Err(Skipped::NoHeader) => self.counts.no_header += 1,
        }
        None
    }

    /// Counts of the whole capture.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Returns the time of the oldest frame, counted from the first frame of the file: 0 if frames are in the order of
    /// time.
    pub(crate) fn oldest_ns(&self) -> i64 {
        self.counts.first_ns.zip(self.origin_ns).map_or(0, |(first, origin)| first - origin)
    }

    /// The TCP connections, in the order of their first segments.
    pub fn streams(&self) -> &[Stream] {
        &self.streams
    }

    /// The relation of each stream to MPTCP.
    pub fn roles(&self) -> &[Role] {
        &self.roles
    }

    /// The MPTCP connections.
    pub fn connections(&self) -> &[Connection] {
        &self.connections
    }

    /// Joins to connections whose handshake was not captured: how many, by token.
    pub fn orphans(&self) -> &BTreeMap<u32, u64> {
        &self.orphans
    }

    fn on_record(&mut self, record: &Record<'_>) -> Option<(usize, Direction)> {
        self.counts.tcp_segments += 1;
        let subtypes = record.subtypes.as_slice();
        self.counts.mptcp_segments += u64::from(!subtypes.is_empty());
        for &subtype in subtypes {
            *self.counts.options.entry(subtype).or_default() += 1;
        }
        let Some(stream) = self.stream_of(record) else {
            self.counts.left_out += 1;
            return None;
        };
        let direction = self.streams[stream].direction(record);
        self.find_role(stream, direction, record);
        let Role::Subflow { connection: number, subflow } = self.roles[stream] else {
            let seen = self.streams[stream].on_record(record);
            self.read_stream(stream, direction, record, &seen.carried);
            return Some((stream, direction));
        };
        self.map_first_data(stream, number, direction, record);
        let seen = self.streams[stream].on_record(record);
        let connection = &mut self.connections[number];
        if subflow == 0 {
            note_fallback(connection, &self.streams[stream], direction, record);
        }
        let own = direction;
        let direction = connection.direction(subflow, direction);
        connection.on_options(subflow, direction, record);
        let Seen { carried, acknowledged } = seen;
        deliver(connection, stream, direction, &carried, record.time_ns);
        if connection.fallback.is_some() && subflow == 0 {
            self.read_stream(stream, own, record, &carried);
        } else {
            self.read_connection(number, direction, record, &carried);
        }
        let connection = &mut self.connections[number];
        deliver(connection, stream, direction.other(), &acknowledged, record.time_ns);
        connection.on_data_ack(direction, record);
        Some((stream, own))
    }

    /// Reads HTTP in a TCP connection without MPTCP.
    fn read_stream(
        &mut self,
        stream: usize,
        direction: Direction,
        record: &Record<'_>,
        carried: &Carried,
    ) {
        let Some(start) = carried.start else { return };
        let stream = &mut self.streams[stream];
        let piece = [(start, record.payload_len as usize)];
        let others = stream.halves[direction.other() as usize].data_frames > 0;
        let first = stream.halves[direction as usize].initial_sequence().map(|syn| syn + 1);
        let way = Place { direction, first, others, limit: u64::MAX };
        read(&mut stream.http, &mut self.text_bytes, &way, &piece, record);
    }

    /// Reads HTTP in an MPTCP connection: a body may change its subflow.
    fn read_connection(
        &mut self,
        connection: usize,
        direction: Direction,
        record: &Record<'_>,
        carried: &Carried,
    ) {
        let connection = &mut self.connections[connection];
        let others = connection.data[direction.other() as usize].mapped_bytes > 0;
        let data = &mut connection.data[direction as usize];
        let pieces = data.positions_of(&carried.pieces);
        let first = connection.keys[direction as usize].map(|_| DataPositions::start());
        let way = Place { direction, first, others, limit: data.next() };
        read(&mut connection.http, &mut self.text_bytes, &way, &pieces, record);
    }

    /// Returns the number of a segment's stream; a SYN with another initial sequence number begins a new one.
    fn stream_of(&mut self, record: &Record<'_>) -> Option<usize> {
        let (source, destination) = (record.source, record.destination);
        let key = if source < destination { (source, destination) } else { (destination, source) };
        if let Some(&known) = self.present.get(&key)
            && !self.streams[known].is_another(record)
        {
            return Some(known);
        }
        if self.streams.len() >= MOST_STREAMS {
            return None;
        }
        let number = self.streams.len();
        self.streams.push(Stream::new(record));
        self.roles.push(Role::Tcp);
        self.present.insert(key, number);
        Some(number)
    }

    /// Finds out which connection a stream belongs to, as far as this segment shows.
    fn find_role(&mut self, stream: usize, direction: Direction, record: &Record<'_>) {
        if record.subtypes.as_slice().is_empty() {
            return;
        }
        match self.roles[stream] {
            Role::Subflow { connection, .. } => self.learn_tokens(connection, record, direction),
            Role::Orphan(_) => {}
            Role::Tcp => {
                if let Some(join) = join_of(record) {
                    self.join(stream, join);
                } else if let Some(version) = capable_version(record) {
                    let number = self.begin(Connection::new(version, stream), stream);
                    self.learn_tokens(number, record, direction);
                } else if !record.has(Flags::SYN) {
                    self.guess(stream, direction, record);
                }
            }
        }
    }

    /// Adds a connection whose first subflow is this stream, and returns its number.
    fn begin(&mut self, connection: Connection, stream: usize) -> usize {
        let number = self.connections.len();
        self.connections.push(connection);
        self.roles[stream] = Role::Subflow { connection: number, subflow: 0 };
        number
    }

    /// Adds a subflow to a connection.
    fn add_subflow(&mut self, number: usize, added: Subflow) {
        let stream = added.stream;
        let subflows = &mut self.connections[number].subflows;
        self.roles[stream] = Role::Subflow { connection: number, subflow: subflows.len() };
        subflows.push(added);
    }

    /// Takes a stream that joins by token.
    fn join(&mut self, stream: usize, (token, backup): (u32, bool)) {
        if let Some(&(connection, owner)) = self.by_token.get(&token) {
            // The token is that of the host that is joined: usually the server's.
            let from_server = owner == Direction::ToServer;
            self.add_subflow(connection, Subflow::new(stream, from_server, backup));
        } else {
            *self.orphans.entry(token).or_default() += 1;
            self.roles[stream] = Role::Orphan(token);
        }
    }

    /// Notes the tokens of keys that this segment carries.
    fn learn_tokens(&mut self, connection: usize, record: &Record<'_>, direction: Direction) {
        let version = self.connections[connection].version;
        let mut learn = |key: u64, owner: Direction| {
            if self.by_token.len() < MOST_TOKENS {
                let token = Derived::new(version, key).token;
                self.by_token.insert(token, (connection, owner));
            }
        };
        if version == 0 {
            if let Some(capable) = record.capable_0 {
                learn(capable.sender, direction);
                if let Some(receiver) = capable.receiver {
                    learn(receiver, direction.other());
                }
            }
            return;
        }
        for option in &record.segment.mptcp {
            let MptcpOption::Capable(capable) = option else { continue };
            match capable.keys {
                CapableKeys::None => {}
                CapableKeys::Responder(key) => learn(key, Direction::ToClient),
                CapableKeys::Both { initiator, responder }
                | CapableKeys::WithData { initiator, responder, .. } => {
                    learn(initiator, Direction::ToServer);
                    learn(responder, Direction::ToClient);
                }
            }
        }
    }

    /// Puts subflows without a handshake together whose data sequence numbers are near.
    fn guess(&mut self, stream: usize, direction: Direction, record: &Record<'_>) {
        let Some(dss) = &record.segment.dss else { return };
        let Some(MappingDsn::Long(dsn)) = dss.mapping.map(|mapping| mapping.dsn) else { return };
        let found = self.guessed.iter().copied().find(|number| {
            self.connections[*number].data[direction as usize].is_near(dsn.0, NEAR_DSN)
        });
        if let Some(number) = found {
            self.add_subflow(number, Subflow::new(stream, false, false));
        } else if self.guessed.len() < MOST_GUESSED {
            let mut connection = Connection::new(1, stream);
            connection.guessed = true;
            connection.data[direction as usize].begin_at(dsn.0);
            let number = self.begin(connection, stream);
            self.guessed.push(number);
        }
    }

    /// Maps the data of an `MP_CAPABLE`.
    fn map_first_data(
        &mut self,
        stream: usize,
        connection: usize,
        direction: Direction,
        record: &Record<'_>,
    ) {
        for option in &record.segment.mptcp {
            if let MptcpOption::Capable(capable) = option
                && let CapableKeys::WithData { initiator, length, .. } = capable.keys
                && direction == Direction::ToServer
            {
                let idsn = Derived::new(self.connections[connection].version, initiator).idsn;
                let first = MappingDsn::Long(DataSeq(idsn.wrapping_add(1)));
                self.streams[stream].halves[0].map_first_data(u64::from(length), first);
            }
        }
    }
}

/// The place of a segment's payload in the data of a connection.
struct Place {
    direction: Direction,
    /// Position of the first byte of the data, if known.
    first: Option<u64>,
    /// Whether data of the other direction came before.
    others: bool,
    /// Position up to which the data is in order.
    limit: u64,
}

/// Reads the payload of a segment as HTTP. `pieces` are the positions and lengths of its parts in the data. Memory is
/// bounded: a connection for which there is no room is not read further.
fn read(
    http: &mut Http,
    held: &mut usize,
    &Place { direction, first, others, limit }: &Place,
    pieces: &[(u64, usize)],
    record: &Record<'_>,
) {
    if let Http::Unknown = http {
        if pieces.is_empty() {
            return;
        }
        // The client speaks first.
        *http = match direction {
            Direction::ToServer if !others => {
                Exchanges::begin(record.payload).map_or(Http::Other, Http::Read)
            }
            _ => Http::Other,
        };
    }
    let Http::Read(exchanges) = http else { return };
    let before = exchanges.held_bytes();
    if let Some(first) = first {
        exchanges.begin_at(direction as usize, first);
    }
    let mut rest = record.payload;
    for &(position, len) in pieces {
        let (own, behind) = rest.split_at(len.min(rest.len()));
        rest = behind;
        exchanges.on_data(direction as usize, (position, len as u64, limit), own, record.time_ns);
    }
    *held = (*held + exchanges.held_bytes()).saturating_sub(before);
    if *held > MOST_TEXT {
        *held = held.saturating_sub(exchanges.held_bytes());
        exchanges.give_up();
        *held += exchanges.held_bytes();
    }
}

/// Hands what a stream carried to the data stream.
fn deliver(
    connection: &mut Connection,
    stream: usize,
    direction: Direction,
    carried: &Carried,
    now: i64,
) {
    let data = &mut connection.data[direction as usize];
    data.on_captured(stream, &carried.pieces, carried.new);
    for pieces in &carried.in_order {
        data.on_in_order(stream, pieces, now);
    }
}

/// Notes a handshake of a first subflow in which `MP_CAPABLE` is missing.
fn note_fallback(
    connection: &mut Connection,
    stream: &Stream,
    direction: Direction,
    record: &Record<'_>,
) {
    if stream.syns == 0 {
        return;
    }
    let (syn, ack) = (record.has(Flags::SYN), record.has(Flags::ACK));
    let without = !record.subtypes.as_slice().contains(&0);
    if syn && ack && without {
        connection.fallback.get_or_insert(Fallback::NotInSynAck);
    } else if !syn
        && ack
        && direction == Direction::ToServer
        && stream.halves[0].frames == stream.syns + 1
        && record.subtypes.as_slice().is_empty()
        && !record.has(Flags::RST)
    {
        connection.fallback.get_or_insert(Fallback::NotInThirdPacket);
    }
}

/// Returns the token and the backup flag of a join's SYN.
fn join_of(record: &Record<'_>) -> Option<(u32, bool)> {
    record.segment.mptcp.iter().find_map(|option| match option {
        MptcpOption::Join(MpJoin::Syn { token, backup, .. }) => Some((*token, *backup)),
        _ => None,
    })
}

/// Returns the version of a segment's `MP_CAPABLE`.
fn capable_version(record: &Record<'_>) -> Option<u8> {
    if record.capable_0.is_some() {
        return Some(0);
    }
    record.segment.mptcp.iter().find_map(|option| match option {
        MptcpOption::Capable(capable) => Some(capable.version),
        _ => None,
    })
}
