//! Where an endpoint accepts connections, and how many at one time.
//!
//! Of a SYN within the backlog a record is kept, from which its SYN/ACK is repeated. Beyond the backlog a
//! SYN is answered by a cookie, which costs no memory, or not at all. A connection comes about with the third packet.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use anabranch_units::{Duration, Instant};
use thiserror::Error;

use super::requests::LONGEST_WAIT;
use crate::config::Config;

/// Connections whose handshake is not complete, unless told otherwise (`SOMAXCONN`).
const BACKLOG: u32 = 4096;
/// A wait that outlasts the SYN/ACK's repetitions (1 + 2 + 4 + 8 + 16 + 32 s).
const HALF_OPEN: Duration = Duration::from_secs(127);
/// The time for which cookies are accepted after the last was sent (`TCP_SYNCOOKIE_VALID`).
const COOKIES_VALID: Duration = Duration::from_secs(120);

/// How connections are accepted at an address.
#[derive(Clone, Debug, PartialEq)]
pub struct ListenConfig {
    /// What each is accepted with.
    pub config: Config,
    /// SYNs at most that were answered and whose third packet has not come.
    pub backlog: u32,
    /// The longest wait for a third packet, [`Self::HALF_OPEN_MAX`] or less. By default the SYN/ACK is repeated five
    /// times, over 63 s.
    pub half_open: Duration,
    /// When the backlog is full, SYNs are answered by cookies (RFC 4987 section 3.6; `tcp_syncookies`);
    /// otherwise by nothing.
    pub cookies: bool,
    /// Connections at most in all; further SYNs are not answered.
    pub connections: u32,
}

impl ListenConfig {
    /// The longest time that a SYN's record can tell: 262 s.
    pub const HALF_OPEN_MAX: Duration = LONGEST_WAIT;
}

impl From<Config> for ListenConfig {
    fn from(config: Config) -> Self {
        Self {
            config,
            backlog: BACKLOG,
            half_open: HALF_OPEN,
            cookies: true,
            connections: u32::MAX,
        }
    }
}

/// Why an endpoint does not listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ListenError {
    /// It listens there already.
    #[error("the endpoint listens at {0} already")]
    AddressInUse(SocketAddr),
}

/// One address.
#[derive(Debug)]
pub(super) struct Listener {
    listen: ListenConfig,
    /// The configuration that its connections share.
    config: Arc<Config>,
    /// SYNs that were answered and whose third packet has not come.
    half_open: u32,
    /// Those, and connections that were not freed.
    connections: u32,
    /// When the last cookie was sent.
    cookie_at: Option<Instant>,
}

/// What becomes of a SYN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    Accept,
    Cookie,
    Drop,
}

impl Listener {
    /// What becomes of a SYN now.
    pub(super) fn admit(&mut self, now: Instant) -> Admission {
        if self.connections >= self.listen.connections {
            Admission::Drop
        } else if self.half_open < self.listen.backlog {
            Admission::Accept
        } else if self.listen.cookies {
            self.cookie_at = Some(now);
            Admission::Cookie
        } else {
            Admission::Drop
        }
    }

    /// The configuration that its connections share.
    pub(super) fn config(&self) -> &Arc<Config> {
        &self.config
    }

    /// The configuration as the application gave it.
    pub(super) fn given_config(&self) -> &Config {
        &self.listen.config
    }

    /// A SYN is stored.
    pub(super) fn on_request(&mut self) {
        self.half_open += 1;
        self.connections += 1;
    }

    /// A stored SYN is removed.
    pub(super) fn on_request_removed(&mut self) {
        self.half_open -= 1;
        self.connections -= 1;
    }

    /// A connection is accepted.
    pub(super) fn on_connection(&mut self) {
        self.connections += 1;
    }

    /// A connection is freed.
    pub(super) fn on_connection_freed(&mut self) {
        self.connections -= 1;
    }

    /// A third packet may carry a cookie of this listener, and a connection more has room.
    pub(super) fn may_accept_cookie(&self, now: Instant) -> bool {
        self.cookie_at.is_some_and(|at| now.since(at) <= COOKIES_VALID)
            && self.connections < self.listen.connections
    }
}

/// Every address an endpoint listens at.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    by_address: BTreeMap<SocketAddr, u32>,
    by_number: BTreeMap<u32, Listener>,
    /// Listeners there have been.
    made: u32,
}

impl Listeners {
    pub(super) fn add(
        &mut self,
        address: SocketAddr,
        listen: ListenConfig,
    ) -> Result<(), ListenError> {
        if self.by_address.contains_key(&address) {
            return Err(ListenError::AddressInUse(address));
        }
        self.by_address.insert(address, self.made);
        let config = listen.config.clone().settled();
        let listener = Listener { listen, config, half_open: 0, connections: 0, cookie_at: None };
        self.by_number.insert(self.made, listener);
        self.made += 1;
        Ok(())
    }

    /// The number that it had, and how it listened.
    pub(super) fn remove(&mut self, address: SocketAddr) -> Option<(u32, ListenConfig)> {
        let number = self.by_address.remove(&address)?;
        self.by_number.remove(&number).map(|listener| (number, listener.listen))
    }

    /// Who listens at an address: by its own name, else at every address.
    pub(super) fn at(&self, address: SocketAddr) -> Option<u32> {
        if self.by_address.is_empty() {
            return None;
        }
        let any = match address.ip() {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let named = self.by_address.get(&address);
        named.or_else(|| self.by_address.get(&SocketAddr::new(any, address.port()))).copied()
    }

    /// What a listener accepts with, and how long it waits for a third packet.
    pub(super) fn patience(&self, number: u32) -> Option<(&Config, Duration)> {
        let known = self.by_number.get(&number)?;
        Some((&*known.config, known.listen.half_open.min(ListenConfig::HALF_OPEN_MAX)))
    }

    pub(super) fn get(&mut self, number: u32) -> Option<&mut Listener> {
        self.by_number.get_mut(&number)
    }
}
