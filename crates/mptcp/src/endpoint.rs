//! An endpoint: every connection of one host, from the first SYN to the end of TIME-WAIT.
//!
//! A caller passes in segments ([`Endpoint::handle_segment`]) and the time ([`Endpoint::handle_timeout`]). It
//! then polls all connections together, in this order: events ([`Endpoint::poll_event`]), segments
//! ([`Endpoint::poll_transmit`]) until none is left, and the next timeout ([`Endpoint::poll_timeout`]). The
//! cost of a call does not depend on the number of connections, except for timers, which are in a tree.

mod accept;
mod cookie;
mod demultiplex;
mod listen;
mod lookup;
mod output;
mod places;
mod ready;
mod refusals;
mod requests;
mod table;
mod time_wait;
mod timed;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use std::net::SocketAddr;
use std::sync::Arc;

use anabranch_plugin::PluginError;
use anabranch_units::{Instant, RandomStream, Seed};
use thiserror::Error;

use crate::config::Config;
use crate::connection::{Connection, Moved, Origin, Owner, Transmit};
use crate::secrets::Secrets;
use anabranch_tcp::config::FourTuple;

use listen::Listeners;
use lookup::Lookup;
use places::{Place, Places};
use ready::Ready;
use refusals::Refusals;
use requests::Requests;
use table::Table;
use time_wait::TimeWait;

pub use listen::{ListenConfig, ListenError};
pub use output::Outgoing;
pub use table::ConnectionHandle;

/// The reason why a connection could not be opened.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The four-tuple belongs to another connection, or is in TIME-WAIT (one minute).
    #[error("the addresses and ports are in use")]
    AddressInUse,
    /// The name or the parameters of a plug-in are invalid.
    #[error(transparent)]
    Plugin(#[from] PluginError),
}

/// All connections of one host.
#[derive(Debug)]
pub struct Endpoint {
    name: String,
    seed: Seed,
    secrets: Arc<Secrets>,
    listeners: Listeners,
    table: Table,
    places: Places,
    by_token: Lookup<u32, u32>,
    time_wait: TimeWait,
    requests: Requests,
    /// The number of half-open connections that have timed out.
    expired: u64,
    /// Connections that may have something to send, or whose timers or addresses may have changed.
    ready: Ready,
    /// Connections that may have events.
    news: VecDeque<u32>,
    /// The connection whose [`Event::Drained`](crate::Event::Drained) was returned last. The next
    /// [`Endpoint::poll_event`] frees it.
    spent: Option<ConnectionHandle>,
    /// A connection returned by [`Endpoint::get_mut`] whose addresses may have changed since then. Further
    /// such connections are in `also_lent`.
    lent: Option<u32>,
    also_lent: Vec<u32>,
    replies: VecDeque<Transmit>,
    refusals: Refusals,
}

impl Endpoint {
    /// Creates an endpoint. Keys, initial sequence numbers and the secrets of the hash tables are derived
    /// from `seed` and `name`. On a real network, the seed must come from the system's random source and
    /// differ at every program start.
    pub fn new(name: &str, seed: Seed) -> Self {
        let secrets = Secrets::draw(&mut seed.stream(&format!("endpoint.{name}.secrets")));
        Self {
            name: name.to_owned(),
            seed,
            secrets: Arc::new(secrets),
            listeners: Listeners::default(),
            table: Table::default(),
            places: Places::new(secrets.tables),
            by_token: Lookup::new(secrets.tables),
            time_wait: TimeWait::default(),
            requests: Requests::new(secrets.tables),
            expired: 0,
            ready: Ready::default(),
            news: VecDeque::new(),
            spent: None,
            lent: None,
            also_lent: Vec::new(),
            replies: VecDeque::new(),
            refusals: Refusals::default(),
        }
    }

    /// Accepts connections at an address. An unspecified IP address means all addresses of the host. Joins of
    /// existing connections are accepted at any address and port.
    ///
    /// # Errors
    ///
    /// The endpoint already listens at this address.
    pub fn listen(
        &mut self,
        address: SocketAddr,
        listen: impl Into<ListenConfig>,
    ) -> Result<(), ListenError> {
        self.listeners.add(address, listen.into())
    }

    /// Stops accepting connections at an address and returns its configuration. Existing connections
    /// continue. Half-open connections are dropped (`inet_csk_listen_stop`).
    pub fn stop_listening(&mut self, address: SocketAddr) -> Option<ListenConfig> {
        let (number, listener) = self.listeners.remove(address)?;
        for request in self.requests.of_listener(number) {
            self.requests.remove(request, &self.listeners);
        }
        Some(listener)
    }

    /// Opens a connection over the first of `config.candidates`.
    ///
    /// # Errors
    /// The name or the parameters of a plug-in are invalid, or the addresses are in use.
    pub fn connect(
        &mut self,
        now: Instant,
        config: Config,
    ) -> Result<ConnectionHandle, ConnectError> {
        if self.lent.is_some() {
            self.catch_up(now);
        }
        if let Some(first) = config.candidates.first() {
            let tuple = FourTuple { local: first.local, remote: first.remote };
            if self.places.peek(&tuple).is_some() || self.requests.find(&tuple).is_some() {
                return Err(ConnectError::AddressInUse);
            }
        }
        let number = self.table.made();
        let connection = Connection::connect(config, self.origin(now, number, &self.is_taken()))?;
        let handle = self.adopt(number, connection, None);
        self.table.next_number();
        self.register(now, handle.slot);
        Ok(handle)
    }

    /// Returns a function that checks whether a connection already uses a token.
    fn is_taken(&self) -> impl Fn(u32) -> bool {
        |token| self.by_token.contains(&token)
    }

    /// Returns the inputs for creating connection `number`.
    fn origin<'a>(&self, now: Instant, number: u64, taken: &'a dyn Fn(u32) -> bool) -> Origin<'a> {
        Origin { now, random: self.stream(number), secrets: Arc::clone(&self.secrets), taken }
    }

    fn stream(&self, number: u64) -> RandomStream {
        self.seed.stream(&format!("endpoint.{}.{number}", self.name))
    }

    fn adopt(
        &mut self,
        number: u64,
        connection: Connection,
        listener: Option<u32>,
    ) -> ConnectionHandle {
        let token = connection.token();
        let handle = self.table.insert(number, connection, listener);
        // If another connection already has the token, this connection uses plain TCP.
        if !self.by_token.contains(&token) {
            self.by_token.insert(token, handle.slot);
        }
        if let Some(entry) = self.table.get_slot(handle.slot) {
            entry.ready = true;
            self.ready.push(handle.slot);
        }
        handle
    }

    /// Returns all connections that are not freed, by table slot.
    pub fn connections(&self) -> impl DoubleEndedIterator<Item = (ConnectionHandle, &Connection)> {
        self.table.iter().map(|(slot, entry)| {
            let handle = ConnectionHandle { slot: slot as u32, generation: entry.generation };
            (handle, &*entry.connection)
        })
    }

    /// Returns the number of connections that are not freed.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Returns the number of half-open connections. Their SYN was answered, but the final ACK of the
    /// handshake has not arrived.
    pub fn half_open(&self) -> usize {
        self.requests.len()
    }

    /// Returns the number of half-open connections that have timed out since the endpoint was created.
    pub fn half_open_expired(&self) -> u64 {
        self.expired
    }

    /// Returns whether the endpoint has no connections.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a connection, or `None` if it was freed.
    #[inline]
    pub fn get(&self, handle: ConnectionHandle) -> Option<&Connection> {
        self.table.get(handle).map(|entry| &*entry.connection)
    }

    /// Returns a connection.
    ///
    /// # Panics
    ///
    /// The connection was freed.
    #[inline]
    pub fn connection(&self, handle: ConnectionHandle) -> &Connection {
        self.get(handle).expect("a connection that was not freed")
    }

    /// Returns a mutable reference to a connection, or `None` if it was freed. Afterwards, the caller must
    /// poll the endpoint.
    #[inline]
    pub fn get_mut(&mut self, handle: ConnectionHandle) -> Option<&mut Connection> {
        let entry = self.table.get_mut(handle)?;
        if !std::mem::replace(&mut entry.ready, true) {
            self.ready.push(handle.slot);
        }
        if self.lent.is_none() {
            self.lent = Some(handle.slot);
        } else if self.lent != Some(handle.slot) {
            self.also_lent.push(handle.slot);
        }
        Some(&mut *entry.connection)
    }

    /// Returns a mutable reference to a connection. Afterwards, the caller must poll the endpoint.
    ///
    /// # Panics
    ///
    /// The connection was freed.
    #[inline]
    pub fn connection_mut(&mut self, handle: ConnectionHandle) -> &mut Connection {
        self.get_mut(handle).expect("a connection that was not freed")
    }

    /// Removes a connection in any state. The endpoint then sends nothing for it and treats its segments as
    /// unknown. Its subflows in TIME-WAIT stay in the endpoint.
    pub fn remove(&mut self, handle: ConnectionHandle) -> Option<Connection> {
        self.table.get(handle)?;
        let entry = self.table.remove(handle)?;
        self.on_removed(&entry);
        self.by_token.remove(&entry.connection.token(), |slot| slot == handle.slot);
        for tuple in entry.connection.subflows().known_tuples() {
            self.places.remove(&tuple, |place| place.slot() == Some(handle.slot));
        }
        Some(*entry.connection)
    }

    /// Frees all drained connections, even those with unread events, and returns their handles. Callers that
    /// poll each connection ([`Connection::poll_event`]) need this. With [`Endpoint::poll_event`], the
    /// endpoint frees each connection after its [`crate::Event::Drained`].
    pub fn free_drained(&mut self) -> Vec<ConnectionHandle> {
        let ended = self.connections().filter(|(_, connection)| connection.is_drained());
        let ended: Vec<_> = ended.map(|(handle, _)| handle).collect();
        for &handle in &ended {
            self.remove(handle);
        }
        ended
    }

    /// Registers the address changes of all connections returned by [`Endpoint::get_mut`].
    #[cold]
    fn catch_up(&mut self, now: Instant) {
        let others = std::mem::take(&mut self.also_lent);
        for slot in self.lent.take().into_iter().chain(others) {
            self.register(now, slot);
        }
    }

    /// Updates the table of four-tuples after those of a connection changed.
    #[cold]
    fn register(&mut self, now: Instant, slot: u32) {
        let Some(entry) = self.table.get_slot(slot) else { return };
        for Moved { tuple, remains } in entry.connection.take_moved() {
            let Some(entry) = self.table.get_slot(slot) else { return };
            let place = entry.connection.subflows().owner_of(tuple).map(|owner| match owner {
                Owner::HalfOpen => Place::HalfOpen { slot },
                Owner::Subflow(index) => Place::Subflow { slot, index: index as u8 },
            });
            self.set_place(slot, tuple, place);
            if let Some(remains) = remains
                && self.places.peek(&tuple).is_none()
            {
                let offset = self.secrets.stamp_offset(&tuple);
                if let Some(number) = self.time_wait.begin(now, tuple, remains, offset) {
                    self.places.insert(&tuple, Place::TimeWait { number });
                }
            }
        }
    }
}
