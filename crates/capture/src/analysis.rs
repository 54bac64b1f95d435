//! A capture as a whole: its TCP connections and the MPTCP connections that they form.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use anabranch_units::DataSeq;
use anabranch_wire::{CapableKeys, Flags, MappingDsn, MpJoin, MptcpOption};

use crate::connection::{Connection, Derived, Fallback, Subflow};
use crate::file::Frame;
use crate::half::Carried;
use crate::record::{Record, Skipped};
use crate::stream::{Direction, Seen, Stream};

/// The most TCP connections that are kept apart. Segments of more are only counted.
const MOST_STREAMS: usize = 200_000;
/// Subflows whose data sequence numbers differ by less than this belong to one connection, if no handshake tells.
const NEAR_DSN: u64 = 1 << 30;

/// The relation of a stream to MPTCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// No MPTCP option was seen.
    Tcp,
    /// A subflow of the connection with this number.
    Subflow(usize),
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
    /// Frames without a TCP segment, by reason.
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
    previous_ns: Option<i64>,
}

impl Analysis {
    /// Takes a frame of the capture.
    pub fn on_frame(&mut self, frame: &Frame<'_>) {
        let counts = &mut self.counts;
        counts.records += 1;
        *counts.link_types.entry(frame.link_type).or_default() += 1;
        counts.truncated_records += u64::from(frame.data.len() < frame.original_len as usize);
        counts.long_frames += u64::from(frame.original_len > 1_600);
        if let Some(time) = frame.time_ns {
            counts.first_ns = Some(counts.first_ns.map_or(time, |first| first.min(time)));
            counts.last_ns = Some(counts.last_ns.map_or(time, |last| last.max(time)));
            let before = self.previous_ns.replace(time);
            counts.out_of_time_order += u64::from(before.is_some_and(|before| time < before));
        }
        match Record::parse(frame) {
            Ok(record) => self.on_record(&record),
            Err(Skipped::LinkType(_)) => self.counts.unknown_link_type += 1,
            Err(Skipped::NotIp) => self.counts.not_ip += 1,
            Err(Skipped::NotTcp) => self.counts.not_tcp += 1,
            Err(Skipped::NoHeader) => self.counts.no_header += 1,
        }
    }

    /// Counts of the whole capture.
    pub fn counts(&self) -> &Counts {
        &self.counts
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

    fn on_record(&mut self, record: &Record<'_>) {
        self.counts.tcp_segments += 1;
        let subtypes = record.subtypes.as_slice();
        self.counts.mptcp_segments += u64::from(!subtypes.is_empty());
        for &subtype in subtypes {
            *self.counts.options.entry(subtype).or_default() += 1;
        }
        let Some(stream) = self.stream_of(record) else {
            self.counts.left_out += 1;
            return;
        };
        let start_ns = self.counts.first_ns.unwrap_or(record.time_ns);
        let direction = self.streams[stream].direction(record);
        self.find_role(stream, direction, record);
        let Role::Subflow(connection) = self.roles[stream] else {
            self.streams[stream].on_record(record, start_ns);
            return;
        };
        self.map_first_data(stream, connection, direction, record);
        let seen = self.streams[stream].on_record(record, start_ns);
        let connection = &mut self.connections[connection];
        note_fallback(connection, &self.streams[stream], stream, direction, record);
        let direction = connection.direction(stream, direction);
        connection.on_options(stream, direction, record);
        let Seen { carried, acknowledged } = seen;
        deliver(connection, stream, direction, &carried, record.time_ns);
        deliver(connection, stream, direction.other(), &acknowledged, record.time_ns);
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

    /// Finds out which connection a stream belongs to, as far as this segment tells.
    fn find_role(&mut self, stream: usize, direction: Direction, record: &Record<'_>) {
        if record.subtypes.as_slice().is_empty() {
            return;
        }
        match self.roles[stream] {
            Role::Subflow(connection) => self.learn_tokens(connection, record, direction),
            Role::Orphan(_) => {}
            Role::Tcp => {
                if let Some(join) = join_of(record) {
                    self.join(stream, join);
                } else if let Some(version) = capable_version(record) {
                    let number = self.connections.len();
                    self.connections.push(Connection::new(version, stream, [None; 2]));
                    self.roles[stream] = Role::Subflow(number);
                    self.learn_tokens(number, record, direction);
                } else if !record.has(Flags::SYN) {
                    self.guess(stream, direction, record);
                }
            }
        }
    }

    /// Takes a stream that joins by token.
    fn join(&mut self, stream: usize, (token, backup): (u32, bool)) {
        if let Some(&(connection, owner)) = self.by_token.get(&token) {
            // The token is that of the host that is joined: usually the server's.
            let from_server = owner == Direction::ToServer;
            self.connections[connection].subflows.push(Subflow::new(stream, from_server, backup));
            self.roles[stream] = Role::Subflow(connection);
        } else {
            *self.orphans.entry(token).or_default() += 1;
            self.roles[stream] = Role::Orphan(token);
        }
    }

    /// Notes the tokens of keys that this segment carries.
    fn learn_tokens(&mut self, connection: usize, record: &Record<'_>, direction: Direction) {
        let version = self.connections[connection].version;
        let mut learn = |key: u64, owner: Direction| {
            let token = Derived::new(version, key).token;
            self.by_token.insert(token, (connection, owner));
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
        let found = self.connections.iter().position(|connection| {
            connection.guessed && connection.data[direction as usize].is_near(dsn.0, NEAR_DSN)
        });
        if let Some(number) = found {
            self.connections[number].subflows.push(Subflow::new(stream, false, false));
            self.roles[stream] = Role::Subflow(number);
        } else {
            let mut connection = Connection::new(1, stream, [None; 2]);
            connection.guessed = true;
            connection.data[direction as usize].begin_at(dsn.0);
            self.roles[stream] = Role::Subflow(self.connections.len());
            self.connections.push(connection);
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

/// Hands what a stream carried to the data stream.
fn deliver(
    connection: &mut Connection,
    stream: usize,
    direction: Direction,
    carried: &Carried,
    now: i64,
) {
    let data = &mut connection.data[direction as usize];
    data.on_captured(stream, &carried.pieces);
    for pieces in &carried.in_order {
        data.on_in_order(stream, pieces, now);
    }
}

/// Notes a handshake in which `MP_CAPABLE` is missing.
fn note_fallback(
    connection: &mut Connection,
    stream: &Stream,
    number: usize,
    direction: Direction,
    record: &Record<'_>,
) {
    let first = connection.subflows.first().is_some_and(|subflow| subflow.stream == number);
    if !first || stream.syns == 0 {
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
