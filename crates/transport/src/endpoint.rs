//! An endpoint: listening, demultiplexing by four-tuple, finding connections by token.

use std::collections::BTreeMap;
use std::collections::VecDeque;

use anabranch_units::{Duration, Instant, Seed};
use anabranch_wire::{Flags, MpJoin, MptcpOption, Segment};

use crate::config::{Config, FourTuple};
use crate::connection::{Connection, REASON_MPTCP, Transmit};
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
    refusals: Refusals,
}

/// Where segments between two addresses belong.
#[derive(Clone, Copy, Debug)]
struct Place {
    connection: ConnectionHandle,
    subflow: usize,
    /// As the connection counted its replacements then: after another one the place may be another's.
    replacements: u32,
}

/// Refusals of joins with unknown tokens that may go out at once, and how many a second then: who guesses
/// tokens gets no faster answers, and nobody is flooded by way of this host.
const REFUSALS: u32 = 64;

/// Who may be told how often that no connection has the token.
#[derive(Debug)]
struct Refusals {
    left: u32,
    since: Instant,
}

impl Refusals {
    fn take(&mut self, now: Instant) -> bool {
        if now.since(self.since) >= Duration::from_secs(1) {
            *self = Self { left: REFUSALS, since: now };
        }
        let some = self.left > 0;
        self.left -= u32::from(some);
        some
    }
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
            refusals: Refusals { left: REFUSALS, since: Instant::ZERO },
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
        let connection =
            Connection::connect(config, stream, &|token| self.by_token.contains_key(&token))?;
        Ok(self.adopt(connection))
    }

    fn stream(&self) -> anabranch_units::RandomStream {
        self.seed.stream(&format!("endpoint.{}.{}", self.name, self.connections.len()))
    }

    fn adopt(&mut self, connection: Connection) -> ConnectionHandle {
        let handle = ConnectionHandle(self.connections.len());
        self.by_token.insert(connection.token(), handle);
        for (subflow, tuple) in connection.tuples().enumerate() {
            let replacements = connection.replacements();
            let place = Place { connection: handle, subflow, replacements };
            self.by_tuple.insert(tuple, place);
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
        if let Some(Place { connection, subflow, .. }) = self.find(&tuple) {
            let owner = &mut self.connections[connection.0];
            if !owner.is_over(subflow) || !owner.begins_anew(tuple, segment) {
                owner.handle_segment_on(now, subflow, segment);
                return Some(connection);
            }
        }
        self.handle_stranger(now, tuple, segment)
    }

    /// A segment between two addresses that no subflow has, or has any more.
    #[cold]
    fn handle_stranger(
        &mut self,
        now: Instant,
        tuple: FourTuple,
        segment: &Segment,
    ) -> Option<ConnectionHandle> {
        if segment.flags.contains(Flags::SYN) && !segment.flags.contains(Flags::ACK) {
            return self.handle_syn(now, tuple, segment);
        }
        let joins = self.connections.iter().position(|c| c.awaits(tuple)).map(ConnectionHandle);
        if let Some(handle) = joins {
            self.connections[handle.0].handle_half_open(now, tuple, segment);
            if self.connections[handle.0].owns(tuple) {
                self.remember(tuple, handle);
            }
            return Some(handle);
        }
        self.refuse(tuple, segment, REASON_MPTCP);
        None
    }

    #[inline(always)]
    fn find(&mut self, tuple: &FourTuple) -> Option<Place> {
        for recent in &self.recent {
            if let Some((known, place)) = recent
                && known == tuple
                && self.holds(place)
            {
                return Some(*place);
            }
        }
        self.look_up(*tuple)
    }

    /// No subflow of the connection has another's place since this one was noted.
    #[inline(always)]
    fn holds(&self, place: &Place) -> bool {
        self.connections[place.connection.0].replacements() == place.replacements
    }

    #[inline(never)]
    fn look_up(&mut self, tuple: FourTuple) -> Option<Place> {
        let known = self.by_tuple.get(&tuple).copied();
        let place = known.filter(|place| self.holds(place)).or_else(|| {
            // A subflow that the connection opened itself is not in the table yet.
            let owner = self.connections.iter().position(|c| c.owns(tuple));
            let connection = owner.map(ConnectionHandle).or(known.map(|place| place.connection))?;
            self.remember(tuple, connection)
        })?;
        self.recent = [Some((tuple, place)), self.recent[0]];
        Some(place)
    }

    fn remember(&mut self, tuple: FourTuple, connection: ConnectionHandle) -> Option<Place> {
        self.recent = [None; 2];
        let owner = &self.connections[connection.0];
        let replacements = owner.replacements();
        let known = owner.subflow_of(tuple);
        let Some(subflow) = known else {
            self.by_tuple.remove(&tuple);
            return None;
        };
        if replacements > 0 {
            // Addresses of subflows that nobody remembers are not remembered here.
            self.by_tuple.retain(|old, place| {
                place.connection != connection || owner.subflow_of(*old).is_some()
            });
        }
        let place = Place { connection, subflow, replacements };
        self.by_tuple.insert(tuple, place);
        Some(place)
    }

    fn handle_syn(
        &mut self,
        now: Instant,
        tuple: FourTuple,
        segment: &Segment,
    ) -> Option<ConnectionHandle> {
        let token = segment.mptcp.iter().find_map(|option| match option {
            MptcpOption::Join(MpJoin::Syn { token, .. }) => Some(*token),
            _ => None,
        });
        if let Some(token) = token {
            // Joins are told apart by token, never by port (RFC 8684 section 3.2).
            let handle = self.by_token.get(&token).copied();
            let Some(handle) = handle else {
                if self.refusals.take(now) {
                    self.refuse(tuple, segment, REASON_MPTCP);
                }
                return None;
            };
            let refused = self.connections[handle.0].accept_join(now, tuple, segment).err();
            if let Some(reason) = refused {
                self.refuse(tuple, segment, reason);
            }
            return refused.is_none().then_some(handle);
        }
        let Some(config) = self.listening.clone() else {
            self.refuse(tuple, segment, REASON_MPTCP);
            return None;
        };
        let stream = self.stream();
        let used = |other: u32| self.by_token.contains_key(&other);
        let connection = Connection::accept(config, stream, tuple, segment, &used).ok()?;
        Some(self.adopt(connection))
    }

    fn refuse(&mut self, tuple: FourTuple, segment: &Segment, reason: u8) {
        if !segment.flags.contains(Flags::RST) {
            let segment = Connection::refusal(segment, reason);
            self.replies.push_back(Transmit { local: tuple.local, remote: tuple.remote, segment });
        }
    }

    /// Output: answers that belong to no connection. Each connection is polled by itself.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.replies.pop_front()
    }
}
