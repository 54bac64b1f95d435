//! The gateway: an endpoint on a TUN device that serves an origin server to clients over MPTCP and TCP.
//!
//! The gateway has its own IP addresses, and the host routes them to the device. The gateway relays each
//! client connection, byte by byte, to the configured origin over a socket of the host. The device must exist
//! before the gateway starts. The gateway does not change any setting of the host.

mod admission;
mod agenda;
mod calling;
mod candidates;
mod connections;
mod flood;
mod log;
mod memory;
mod metrics;
mod packets;
mod phase;
mod progress;
mod proxy_protocol;
mod record;
mod responder;
mod served;
mod shares;
mod source;
mod subflows;
mod writer;
mod writers;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};

use anabranch_mptcp::{
    Config, ConnectionHandle, Endpoint, ListenConfig, ListenError, SubflowSummary,
};
use anabranch_units::{Duration, Instant};
use anabranch_wire::Segment;
use bytes::Bytes;
use rustix::io::Errno;
use thiserror::Error;

use crate::clock::Clock;
use crate::poller::{Poller, Ready};
use crate::pool::{Inlet, Pool};
use crate::readers::Readers;
use crate::secret::secret_seed;
use crate::tun::Tun;

use admission::Admission;
use agenda::Agenda;
use calling::Shortage;
use flood::Flood;
use metrics::{Metrics, Moment};
use responder::Responder;
use served::Served;
use shares::Shares;
use writers::Writers;

pub use admission::Limits;
pub use log::{Log, LogCounts, Sink};
pub use record::{End, PathRecord, Record};

/// The length of an IPv4 and a TCP header without options, bytes.
const HEADERS: u16 = 40;

/// Tokens of the poller: the device, the metrics (the listener and its clients), completed reads, and sockets
/// to origins.
const DEVICE: u64 = 0;
const METRICS: u64 = 1;
const READERS: u64 = (1 << 40) - 1;
const ORIGINS: u64 = 1 << 40;

/// The settings of a gateway.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name of the device, which must exist.
    pub device: String,
    /// Whether the device offloads: it segments bursts, merges segments, and computes checksums.
    pub offload: bool,
    /// The addresses and ports on which connections are accepted. The addresses belong to the gateway.
    pub listen: Vec<SocketAddr>,
    /// The addresses of the origin. They are tried one after the other.
    pub origin: Vec<SocketAddr>,
    /// The configuration of accepted connections. Its announced addresses belong to the gateway. The MSS is
    /// computed from the device's MTU.
    pub config: Config,
    /// Whether the origin receives the client's address in a PROXY protocol header, version 2.
    pub proxy_protocol: bool,
    /// Whether the gateway connects to the origin only after the client has sent a byte or closed its side.
    pub wait_for_client: bool,
    /// The address of the HTTP server for the metrics. `None` for no server.
    pub metrics: Option<SocketAddr>,
    /// The largest number of incomplete handshakes. Further SYNs are answered with SYN cookies.
    pub backlog: u32,
    /// The time limit for a handshake.
    pub half_open: Duration,
    /// The time limit for a connection attempt to one address of the origin.
    pub connect: Duration,
    /// The time limit for a connection without a byte in either direction.
    pub idle: Duration,
    /// The time limit for open connections after [`Wish::Finish`].
    pub grace: Duration,
    /// The limits on connections and memory.
    pub limits: Limits,
}

/// The settings that can change while a gateway runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Like [`Settings::limits`].
    pub limits: Limits,
    /// Like [`Settings::idle`].
    pub idle: Duration,
    /// Like [`Settings::grace`].
    pub grace: Duration,
}

/// An instruction of the watcher to the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Continue.
    Serve,
    /// Continue with changed settings.
    Change(Change),
    /// Accept no further connections. The gateway ends when its last connection has ended or
    /// [`Settings::grace`] is over.
    Finish,
    /// Reset all connections and end at once.
    Stop,
}

/// An observer that controls a gateway.
pub trait Watcher {
    /// Returns the next instruction. Called ten times per second.
    fn look(&mut self) -> Wish;

    /// Called when a connection has ended.
    fn ended(&mut self, record: &Record);

    /// Called with a note for the operator. The gateway runs, but another setting of the host or the gateway
    /// would be better.
    fn note(&mut self, what: &str);

    /// Returns the numbers of written and dropped log lines.
    fn log_counts(&self) -> LogCounts;
}

/// The reason why a gateway cannot start or has stopped.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum GatewayError {
    /// The device cannot be opened, or it failed.
    #[error("the device `{name}`: {error}")]
    Device {
        /// The name of the device.
        name: String,
        /// The system's error.
        error: io::Error,
    },
    /// A system call failed.
    #[error("{what}: {error}")]
    Io {
        /// The operation that failed.
        what: &'static str,
        /// The system's error.
        error: io::Error,
    },
    /// The list of addresses contains an address twice.
    #[error(transparent)]
    Listen(#[from] ListenError),
}

/// The state of a running gateway.
struct Gateway<'a> {
    settings: &'a Settings,
    watcher: &'a mut dyn Watcher,
    clock: Clock,
    poller: Poller,
    tun: Tun,
    /// The threads that write packets to the device.
    writers: Writers,
    /// The last error of `io_uring` that was reported to the watcher.
    noted_obstacle: Option<Errno>,
    /// The largest number of segments in a burst.
    burst: u32,
    endpoint: Endpoint,
    /// The gateway's own addresses.
    own: BTreeSet<IpAddr>,
    /// The buffers for reads from origins and for long packets.
    pool: Pool,
    /// The threads that read from origins while other connections wait for the main thread.
    readers: Readers,
    admission: Admission,
    shares: Shares,
    /// The earliest time of the next note about a shortage of memory.
    next_memory_note: Instant,
    flood: Flood,
    shortage: Shortage,
    metrics: Metrics,
    responder: Option<Responder>,
    /// The served connections by poller token.
    served: BTreeMap<u64, Served>,
    /// The number of connections served since the start.
    made: u64,
    /// The handle and the number of each served connection, indexed by the handle.
    places: Vec<Option<(ConnectionHandle, u64)>>,
    agenda: Agenda,
    /// The same as [`Settings::idle`], but can change while the gateway runs.
    idle: Duration,
    grace: Duration,
    /// The time at which the gateway ends. Set when it stops accepting connections.
    closing: Option<Instant>,
    /// Buffers that are reused for every packet.
    segment: Segment,
    rest: Vec<Bytes>,
    packet: Vec<u8>,
}

/// Runs a gateway until the watcher ends it.
///
/// # Errors
/// Returns an error if the device cannot be opened or fails, if listening on an address fails, or if the
/// system has no thread or descriptor left.
pub fn serve(settings: &Settings, watcher: &mut dyn Watcher) -> Result<(), GatewayError> {
    Gateway::open(settings, watcher)?.run()
}

/// Returns a function that adds the name of the failed operation to an error.
fn tried(what: &'static str) -> impl Fn(io::Error) -> GatewayError {
    move |error| GatewayError::Io { what, error }
}

impl<'a> Gateway<'a> {
    fn open(settings: &'a Settings, watcher: &'a mut dyn Watcher) -> Result<Self, GatewayError> {
        let device = |error| GatewayError::Device { name: settings.device.clone(), error };
        let open = if settings.offload { Tun::open_offloading } else { Tun::open };
        let tun = open(&settings.device, None).map_err(device)?;
        let mtu = tun.mtu().map_err(device)?;
        let writers =
            Writers::start(&tun).map_err(tried("starting the threads that write to the device"))?;
        let poller = Poller::new().map_err(tried("waiting for events"))?;
        poller.add(&tun, DEVICE).map_err(tried("waiting for events"))?;
        let pool = Pool::default();
        let readers =
            Readers::start(&pool).map_err(tried("starting the threads that read from origins"))?;
        poller.add(&readers, READERS).map_err(tried("waiting for events"))?;
        let secret = secret_seed().map_err(tried("reading random numbers"))?;
        let mut endpoint = Endpoint::new("gateway", secret);
        let mss = mtu.saturating_sub(HEADERS);
        let mut config = Config { mss, ..settings.config.clone() };
        // Linux leaves data in the subflow's queue while the receive buffer is full. This can delay a
        // client's upload by seconds, so it is disabled.
        config.stack.mptcp.parks_data = false;
        let mut own: BTreeSet<IpAddr> = config.announce.iter().map(|it| it.address).collect();
        for address in &settings.listen {
            own.insert(address.ip());
            // `Admission` limits connections first, for all addresses together.
            let listen = ListenConfig {
                config: config.clone(),
                backlog: settings.backlog,
                half_open: settings.half_open,
                cookies: true,
                connections: u32::MAX,
            };
            endpoint.listen(*address, listen)?;
        }
        let respond = |at| Responder::listen(at, &poller, METRICS);
        let responder = settings.metrics.map(respond).transpose();
        let responder = responder.map_err(tried("listening for requests to the metrics"))?;
        let clock = Clock::start();
        Ok(Self {
            settings,
            watcher,
            clock,
            poller,
            // With offload, only the maximum length of an IP packet limits a burst.
            burst: if tun.offloads() { u32::MAX } else { 1 },
            tun,
            writers,
            noted_obstacle: None,
            endpoint,
            own,
            pool,
            readers,
            admission: Admission::new(settings.limits),
            shares: Shares::new(settings.limits.memory),
            next_memory_note: clock.now(),
            flood: Flood::new(clock.now()),
            shortage: Shortage::default(),
            metrics: Metrics::default(),
            responder,
            served: BTreeMap::new(),
            made: 0,
            places: Vec::new(),
            agenda: Agenda::new(clock.now()),
            idle: settings.idle,
            grace: settings.grace,
            closing: None,
            segment: Segment::default(),
            rest: Vec::new(),
            packet: Vec::new(),
        })
    }

    fn run(&mut self) -> Result<(), GatewayError> {
        let mut inlet = Inlet::new(self.pool.clone());
        loop {
            let now = self.clock.now();
            while self.endpoint.handle_timeout(now).is_some() {}
            let mut more = self.settle(now)?;
            if self.agenda.count_is_due(now) {
                self.count_memory(now);
            }
            if self.agenda.take_look(now) {
                if self.look(now)? {
                    return Ok(());
                }
                // Connections whose timer expired may have packets to send.
                more = true;
            }
            self.hand_on()?;
            let timeout = self.endpoint.poll_timeout();
            let until = if more { now } else { self.agenda.wake(now, timeout) };
            let ready =
                self.poller.wait(&self.clock, Some(until)).map_err(tried("waiting for events"))?;
            for ready in ready {
                self.handle_ready(ready, &mut inlet)?;
            }
        }
    }

    /// Relays data and writes packets until no work is left, or until a fixed number of packets was written.
    /// Returns true in the second case. The caller then handles incoming packets before it calls this again.
    fn settle(&mut self, now: Instant) -> Result<bool, GatewayError> {
        loop {
            self.handle_events(now);
            while let Some(number) = self.agenda.pop() {
                self.drive(now, number);
                // After many reads, memory must be counted before the loop ends.
                if self.agenda.count_is_due(now) {
                    self.count_memory(now);
                }
            }
            let more = self.transmit(now)?;
            let ended = self.end_failed(now);
            if more || !self.handle_events(now) && !self.agenda.has_touched() && !ended {
                return Ok(more);
            }
        }
    }

    fn handle_ready(&mut self, ready: Ready, inlet: &mut Inlet) -> Result<(), GatewayError> {
        let now = self.clock.now();
        match ready.token {
            DEVICE => self.read_device(now, inlet),
            READERS => {
                for completion in self.readers.completed() {
                    if let Some(origin) = self.touch(completion.number) {
                        origin.complete(completion);
                    }
                }
                Ok(())
            }
            ORIGINS.. => {
                if let Some(origin) = self.touch(ready.token) {
                    origin.handle_ready(now, ready.readable, ready.writable);
                    if ready.broken {
                        origin.handle_error();
                    }
                }
                Ok(())
            }
            token => {
                if let Some(mut responder) = self.responder.take() {
                    responder.handle_ready(now, &self.poller, token, || self.page());
                    self.responder = Some(responder);
                }
                Ok(())
            }
        }
    }

    /// Handles timeouts and the next instruction of the watcher. Returns true if the gateway must end.
    fn look(&mut self, now: Instant) -> Result<bool, GatewayError> {
        self.pool.tidy();
        // The reserved descriptors of the metrics are opened first, before waiting connections open sockets.
        if let Some(responder) = &mut self.responder {
            responder.handle_timeout(now, &self.poller);
        }
        self.expire(now);
        self.note_obstacle();
        match self.watcher.look() {
            Wish::Serve => {}
            Wish::Change(change) => self.change(change),
            Wish::Finish => self.close(now + self.grace),
            Wish::Stop => self.close(now),
        }
        let Some(until) = self.closing else { return Ok(false) };
        if now >= until {
            let left: Vec<u64> = self.served.keys().copied().collect();
            for number in left {
                self.fail(number, End::Shutdown, None);
            }
        }
        // Before the gateway ends, it writes the last segments of all connections.
        while self.settle(now)? && now >= until {}
        Ok(self.served.is_empty() || now >= until)
    }

    /// Applies changed settings. Existing connections stay, even if they exceed the new limits.
    fn change(&mut self, Change { limits, idle, grace }: Change) {
        self.admission.set_limits(limits);
        self.shares.set_limit(limits.memory);
        (self.idle, self.grace) = (idle, grace);
    }

    /// Notifies the watcher if `io_uring` is not used. Each reason is reported once.
    fn note_obstacle(&mut self) {
        let obstacle = self.writers.obstacle();
        if let Some(why) = obstacle.filter(|why| self.noted_obstacle != Some(*why)) {
            self.noted_obstacle = obstacle;
            self.watcher.note(&format!("no io_uring, so each packet takes a system call: {why}"));
        }
    }

    /// Stops listening, and sets the time at which the gateway ends, unless it is already set.
    fn close(&mut self, until: Instant) {
        if self.closing.is_none() {
            for address in &self.settings.listen {
                self.endpoint.stop_listening(*address);
            }
        }
        self.closing = Some(self.closing.map_or(until, |before| before.min(until)));
    }

    /// Returns the page with the current metrics.
    fn page(&self) -> String {
        let multipath = self.served.values().filter(|served| served.multipath).count() as u64;
        let mut relayed = [0; 2];
        for served in self.served.values() {
            for (all, moved) in relayed.iter_mut().zip(served.relay.moved()) {
                *all += moved;
            }
        }
        let summaries = self.served.values().flat_map(|served| {
            let connection = served.handle.and_then(|handle| self.endpoint.get(handle));
            let known = connection.into_iter().flat_map(|it| it.view().summaries());
            known.map(|it: SubflowSummary| PathRecord::new(&it, &served.received))
        });
        let mut groups = subflows::Groups::new();
        for served in self.served.values() {
            if let Some(connection) = served.handle.and_then(|it| self.endpoint.get(it)) {
                subflows::add(&mut groups, connection);
            }
        }
        self.metrics.page(&Moment {
            open: [multipath, self.served.len() as u64 - multipath],
            half_open: self.endpoint.half_open() as u64,
            half_open_expired: self.endpoint.half_open_expired(),
            relayed,
            paths: summaries.collect(),
            subflows: groups,
            admission: &self.admission,
            shares: &self.shares,
            refused_packets: self.writers.refused(),
            io_uring: self.writers.obstacle().is_none(),
            closing: self.closing.is_some(),
            log: self.watcher.log_counts(),
        })
    }
}
