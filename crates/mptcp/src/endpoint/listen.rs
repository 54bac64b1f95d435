//! Listeners: the addresses where an endpoint accepts connections, and their limits.
//!
//! A SYN within the backlog is stored, so that the SYN/ACK can be repeated. Beyond the backlog, a SYN is
//! answered with a SYN cookie, which needs no memory, or ignored. The connection is created when the
//! handshake's final ACK arrives.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use anabranch_units::{Duration, Instant};
use thiserror::Error;

use super::requests::LONGEST_WAIT;
use crate::config::Config;

/// The default number of half-open connections (`SOMAXCONN`).
const BACKLOG: u32 = 4096;
/// The default wait for the final ACK. All repetitions of the SYN/ACK (1 + 2 + 4 + 8 + 16 + 32 s) take less
/// time.
const HALF_OPEN: Duration = Duration::from_secs(127);
/// The time for which cookies are accepted after the last one was sent (`TCP_SYNCOOKIE_VALID`).
const COOKIES_VALID: Duration = Duration::from_secs(120);

/// The configuration of a listener.
#[derive(Clone, Debug, PartialEq)]
pub struct ListenConfig {
    /// The configuration of each accepted connection.
    pub config: Config,
    /// The largest number of half-open connections.
    pub backlog: u32,
    /// The longest wait for the final ACK, at most [`Self::HALF_OPEN_MAX`]. By default the SYN/ACK is
    /// repeated five times, over 63 s.
    pub half_open: Duration,
    /// Whether SYNs are answered with cookies when the backlog is full (RFC 4987 section 3.6;
    /// `tcp_syncookies`). Otherwise they are ignored.
    pub cookies: bool,
    /// The largest number of connections, including half-open ones. Further SYNs are ignored.
    pub connections: u32,
}

impl ListenConfig {
    /// The longest wait that a stored SYN can represent: 262 s.
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

/// The reason why an endpoint cannot listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ListenError {
    /// The endpoint already listens at this address.
    #[error("the endpoint listens at {0} already")]
    AddressInUse(SocketAddr),
}

/// A listening address.
#[derive(Debug)]
pub(super) struct Listener {
    listen: ListenConfig,
    /// The configuration that accepted connections share.
    config: Arc<Config>,
    /// The number of half-open connections.
    half_open: u32,
    /// The number of half-open connections, plus accepted connections that are not freed.
    connections: u32,
    /// The time at which the last cookie was sent.
    cookie_at: Option<Instant>,
}

/// The decision about a SYN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    Accept,
    Cookie,
    Drop,
}

impl Listener {
    /// Decides how to treat a SYN now.
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

    /// Returns the configuration that accepted connections share.
    pub(super) fn config(&self) -> &Arc<Config> {
        &self.config
    }

    /// Returns the configuration that the application passed in.
    pub(super) fn given_config(&self) -> &Config {
        &self.listen.config
    }

    /// Counts a stored SYN.
    pub(super) fn on_request(&mut self) {
        self.half_open += 1;
        self.connections += 1;
    }

    /// Counts a removed SYN.
    pub(super) fn on_request_removed(&mut self) {
        self.half_open -= 1;
        self.connections -= 1;
    }

    /// Counts an accepted connection.
    pub(super) fn on_connection(&mut self) {
        self.connections += 1;
    }

    /// Counts a freed connection.
    pub(super) fn on_connection_freed(&mut self) {
        self.connections -= 1;
    }

    /// Returns whether a cookie may still be valid and the connection limit permits another connection.
    pub(super) fn may_accept_cookie(&self, now: Instant) -> bool {
        self.cookie_at.is_some_and(|at| now.since(at) <= COOKIES_VALID)
            && self.connections < self.listen.connections
    }
}

/// All addresses where an endpoint listens.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    by_address: BTreeMap<SocketAddr, u32>,
    by_number: BTreeMap<u32, Listener>,
    /// The number of listeners created so far.
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

    /// Removes a listener. Returns its number and configuration.
    pub(super) fn remove(&mut self, address: SocketAddr) -> Option<(u32, ListenConfig)> {
        let number = self.by_address.remove(&address)?;
        self.by_number.remove(&number).map(|listener| (number, listener.listen))
    }

    /// Finds the listener of an address: first the exact address, then the unspecified one.
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

    /// Returns the configuration of a listener, and how long it waits for a handshake's final ACK.
    pub(super) fn patience(&self, number: u32) -> Option<(&Config, Duration)> {
        let known = self.by_number.get(&number)?;
        Some((&*known.config, known.listen.half_open.min(ListenConfig::HALF_OPEN_MAX)))
    }

    pub(super) fn get(&mut self, number: u32) -> Option<&mut Listener> {
        self.by_number.get_mut(&number)
    }
}
