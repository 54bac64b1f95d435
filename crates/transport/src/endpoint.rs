//! An endpoint: every connection of one host, from the first SYN to the end of TIME-WAIT.
//!
//! A caller hands in what arrives ([`Endpoint::handle_segment`]) and the time
//! ([`Endpoint::handle_timeout`]), and asks for what there is, of all connections at once: news
//! ([`Endpoint::poll_event`]), segments ([`Endpoint::poll_transmit`]) until there are none, and then when it
//! is to be woken ([`Endpoint::poll_timeout`]). What any of these costs does not grow with the number of
//! connections, but for the timers, which stand in a tree.

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

use crate::config::{Config, FourTuple};
use crate::connection::{Connection, Moved, Origin, Owner, Transmit};
use crate::secrets::Secrets;

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

/// Why no connection was opened.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// Another connection has the pair of addresses and ports, or had it within the last minute
    /// (TIME-WAIT).
    #[error("the addresses and ports are in use")]
    AddressInUse,
    /// The name or the parameters of a plug-in.
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
    /// Of them, those that were given up.
    expired: u64,
    /// Connections that may have something to send, or whose timers or addresses may have changed.
    ready: Ready,
    /// Connections that may have news.
    news: VecDeque<u32>,
    /// The connection whose end was told last.
    spent: Option<ConnectionHandle>,
    /// The connection that was handed out, to be driven, since the table was brought up to all that were; and
    /// the others.
    lent: Option<u32>,
    also_lent: Vec<u32>,
    replies: VecDeque<Transmit>,
    refusals: Refusals,
}

impl Endpoint {
    /// An endpoint named `name`; everything that is drawn comes from `seed` and the name: keys, sequence
    /// numbers, and the secret of the table of addresses. Over a real network the seed has to come from the system's
    /// randomness, anew each time the program starts.
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

    /// Accepts connections from now on at an address; at every address of the host where its IP address
    /// is the unspecified one. Joins come to whatever address and port.
    ///
    /// # Errors
    /// It listens there already.
    pub fn listen(
        &mut self,
        address: SocketAddr,
        listen: impl Into<ListenConfig>,
    ) -> Result<(), ListenError> {
        self.listeners.add(address, listen.into())
    }

    /// Accepts no more connections at an address; those there are stay, and SYNs whose third packet has not come
    /// are forgotten (`inet_csk_listen_stop`). How it listened there.
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
    /// A plug-in's name or parameters are unknown, or the addresses are not free.
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
        self.table.number();
        self.register(now, handle.slot);
        Ok(handle)
    }

    /// Whether a connection has a token.
    fn is_taken(&self) -> impl Fn(u32) -> bool {
        |token| self.by_token.contains(&token)
    }

    /// What the connection of a number begins with.
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
        // A connection whose token another one has is one without MPTCP.
        if !self.by_token.contains(&token) {
            self.by_token.insert(token, handle.slot);
        }
        if let Some(entry) = self.table.slot(handle.slot) {
            entry.ready = true;
            self.ready.push(handle.slot);
        }
        handle
    }

    /// Every connection that was not freed, in the order of their places.
    pub fn connections(&self) -> impl DoubleEndedIterator<Item = (ConnectionHandle, &Connection)> {
        self.table.iter().map(|(slot, entry)| {
            let handle = ConnectionHandle { slot: slot as u32, generation: entry.generation };
            (handle, &*entry.connection)
        })
    }

    /// Connections that were not freed.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// SYNs that were answered and whose third packet has not come.
    pub fn half_open(&self) -> usize {
        self.requests.len()
    }

    /// Of those there have been, how many were given up because no third packet came in time.
    pub fn half_open_expired(&self) -> u64 {
        self.expired
    }

    /// Whether there is no connection.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One connection; `None` when it was freed.
    #[inline(always)]
    pub fn get(&self, handle: ConnectionHandle) -> Option<&Connection> {
        self.table.get(handle).map(|entry| &*entry.connection)
    }

    /// One connection.
    ///
    /// # Panics
    /// It was freed.
    #[inline(always)]
    pub fn connection(&self, handle: ConnectionHandle) -> &Connection {
        self.get(handle).expect("a connection that was not freed")
    }

    /// One connection, to drive it; `None` when it was freed. The endpoint has to be polled afterwards.
    #[inline(always)]
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

    /// One connection, to drive it. The endpoint has to be polled afterwards.
    ///
    /// # Panics
    /// It was freed.
    #[inline(always)]
    pub fn connection_mut(&mut self, handle: ConnectionHandle) -> &mut Connection {
        self.get_mut(handle).expect("a connection that was not freed")
    }

    /// Takes a connection out of the table, whatever its state: nothing more is sent for it, and what
    /// arrives for it is a stranger's. One that is over leaves its TIME-WAIT behind.
    pub fn remove(&mut self, handle: ConnectionHandle) -> Option<Connection> {
        self.table.get(handle)?;
        let entry = self.table.remove(handle)?;
        self.leave(&entry);
        self.by_token.remove(&entry.connection.token(), |slot| slot == handle.slot);
        for tuple in entry.connection.subflows().known_tuples() {
            self.places.remove(&tuple, |place| place.slot() == Some(handle.slot));
        }
        Some(*entry.connection)
    }

    /// Frees the connections that are over, whatever news of them was not asked for, and returns which they
    /// were. For who asks each connection for its news ([`Connection::poll_event`]) and not the endpoint, which
    /// frees them behind [`crate::Event::Drained`].
    pub fn free_drained(&mut self) -> Vec<ConnectionHandle> {
        let ended = self.connections().filter(|(_, connection)| connection.is_drained());
        let ended: Vec<_> = ended.map(|(handle, _)| handle).collect();
        for &handle in &ended {
            self.remove(handle);
        }
        ended
    }

    /// Brings the table up to what those connections have that were driven from outside.
    #[cold]
    fn catch_up(&mut self, now: Instant) {
        let others = std::mem::take(&mut self.also_lent);
        for slot in self.lent.take().into_iter().chain(others) {
            self.register(now, slot);
        }
    }

    /// Brings the table up to the addresses that a connection has now.
    #[cold]
    fn register(&mut self, now: Instant, slot: u32) {
        let Some(entry) = self.table.slot(slot) else { return };
        for Moved { tuple, remains } in entry.connection.take_moved() {
            let Some(entry) = self.table.slot(slot) else { return };
            let place = entry.connection.subflows().owner_of(tuple).map(|owner| match owner {
                Owner::HalfOpen => Place::HalfOpen { slot },
                Owner::Subflow(index) => Place::Subflow { slot, index: index as u8 },
            });
            self.claim(slot, tuple, place);
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
