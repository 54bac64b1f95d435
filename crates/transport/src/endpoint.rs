//! An endpoint: listening, demultiplexing by four-tuple, finding connections by token.

use std::collections::BTreeMap;
use std::collections::VecDeque;

use anabranch_units::{Instant, Seed};
use anabranch_wire::{Flags, MpJoin, MptcpOption, Segment};

use crate::config::{Config, FourTuple};
use crate::connection::{Connection, Transmit};
use crate::plugin::PluginError;

/// A connection of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionHandle(pub usize);

/// All connections of one host.
#[derive(Debug)]
pub struct Endpoint {
    name: String,
    seed: Seed,
    listening: Option<Config>,
    connections: Vec<Connection>,
    by_tuple: BTreeMap<FourTuple, Place>,
    by_token: BTreeMap<u32, ConnectionHandle>,
    replies: VecDeque<Transmit>,
    /// The last four-tuples looked up: packets come in trains.
    recent: [Option<(FourTuple, Place)>; 2],
}

/// Where segments between two addresses belong.
#[derive(Clone, Copy, Debug)]
struct Place {
    connection: ConnectionHandle,
    subflow: usize,
}

impl Endpoint {
    /// An endpoint named `name`; its keys and sequence numbers are drawn from `seed` and the name.
    pub fn new(name: &str, seed: Seed) -> Self {
        Self {
            name: name.to_owned(),
            seed,
            listening: None,
            connections: Vec::new(),
            by_tuple: BTreeMap::new(),
            by_token: BTreeMap::new(),
            replies: VecDeque::new(),
            recent: [None; 2],
        }
    }

    /// Accepts connections with this configuration from now on.
    pub fn listen(&mut self, config: Config) {
        self.listening = Some(config);
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// A plug-in's name or parameters are unknown.
    pub fn connect(&mut self, config: Config) -> Result<ConnectionHandle, PluginError> {
        let stream = self.stream();
        let connection = Connection::connect(config, stream)?;
        Ok(self.adopt(connection))
    }

    fn stream(&self) -> anabranch_units::RandomStream {
        self.seed.stream(&format!("endpoint.{}.{}", self.name, self.connections.len()))
    }

    fn adopt(&mut self, connection: Connection) -> ConnectionHandle {
        let handle = ConnectionHandle(self.connections.len());
        self.by_token.insert(connection.token(), handle);
        for (subflow, tuple) in connection.tuples().enumerate() {
            self.by_tuple.insert(tuple, Place { connection: handle, subflow });
        }
        self.connections.push(connection);
        handle
    }

    /// Every connection.
    pub fn connections(&self) -> &[Connection] {
        &self.connections
    }

    /// One connection.
    pub fn connection(&self, handle: ConnectionHandle) -> &Connection {
        &self.connections[handle.0]
    }

    /// One connection, to drive it.
    pub fn connection_mut(&mut self, handle: ConnectionHandle) -> &mut Connection {
        &mut self.connections[handle.0]
    }

    /// Input: a segment between two addresses. Returns the connection it reached.
    pub fn handle_segment(
        &mut self,
        now: Instant,
        tuple: FourTuple,
        segment: &Segment,
    ) -> Option<ConnectionHandle> {
        if let Some(Place { connection, subflow }) = self.find(&tuple) {
            self.connections[connection.0].handle_segment_on(now, subflow, segment);
            return Some(connection);
        }
        let opens = segment.flags.contains(Flags::SYN) && !segment.flags.contains(Flags::ACK);
        if !opens {
            self.refuse(tuple, segment);
            return None;
        }
        self.handle_syn(tuple, segment)
    }

    #[inline(always)]
    fn find(&mut self, tuple: &FourTuple) -> Option<Place> {
        for recent in &self.recent {
            if let Some((known, place)) = recent
                && known == tuple
            {
                return Some(*place);
            }
        }
        self.look_up(*tuple)
    }

    #[inline(never)]
    fn look_up(&mut self, tuple: FourTuple) -> Option<Place> {
        let place = self.by_tuple.get(&tuple).copied().or_else(|| {
            // A subflow that the connection opened itself is not in the table yet.
            let connection = self.connections.iter().position(|c| c.owns(tuple))?;
            self.remember(tuple, ConnectionHandle(connection))
        })?;
        self.recent = [Some((tuple, place)), self.recent[0]];
        Some(place)
    }

    fn remember(&mut self, tuple: FourTuple, connection: ConnectionHandle) -> Option<Place> {
        let subflow = self.connections[connection.0].subflow_of(tuple)?;
        let place = Place { connection, subflow };
        self.by_tuple.insert(tuple, place);
        Some(place)
    }

    fn handle_syn(&mut self, tuple: FourTuple, segment: &Segment) -> Option<ConnectionHandle> {
        let token = segment.mptcp.iter().find_map(|option| match option {
            MptcpOption::Join(MpJoin::Syn { token, .. }) => Some(*token),
            _ => None,
        });
        if let Some(token) = token {
            // Joins are told apart by token, never by port (RFC 8684 section 3.2).
            let handle = self.by_token.get(&token).copied();
            let joined = handle.filter(|h| self.connections[h.0].accept_join(tuple, segment));
            if let Some(handle) = joined {
                self.remember(tuple, handle);
            } else {
                self.refuse(tuple, segment);
            }
            return joined;
        }
        let Some(config) = self.listening.clone() else {
            self.refuse(tuple, segment);
            return None;
        };
        let stream = self.stream();
        let connection = Connection::accept(config, stream, tuple, segment).ok()?;
        Some(self.adopt(connection))
    }

    fn refuse(&mut self, tuple: FourTuple, segment: &Segment) {
        if !segment.flags.contains(Flags::RST) {
            let segment = Connection::refusal(segment);
            self.replies.push_back(Transmit { local: tuple.local, remote: tuple.remote, segment });
        }
    }

    /// Output: answers that belong to no connection. Each connection is polled by itself.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.replies.pop_front()
    }
}
