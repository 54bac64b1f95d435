//! The gateway: our endpoint on a TUN device, behind which an origin is served to clients over MPTCP and TCP.
//!
//! Its addresses are its own, not the host's: the host routes them into the device. Every connection that a client
//! completes is passed on, byte by byte, over a socket of the host to one origin, and to nobody else. Nothing of the
//! host is changed: the device is there before.

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
mod writer;
mod writers;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};

use anabranch_transport::{
    Config, ConnectionHandle, Endpoint, ListenConfig, ListenError, Stack, SubflowSummary,
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

/// The headers of a packet over IPv4, bytes.
const HEADERS: u16 = 40;

/// The numbers of descriptors: the device, those of the metrics, that of the reads that are done, those of origins.
const DEVICE: u64 = 0;
const METRICS: u64 = 1;
const READERS: u64 = (1 << 40) - 1;
const ORIGINS: u64 = 1 << 40;

/// What a gateway is to do.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The device, made before.
    pub device: String,
    /// The device cuts bursts, merges segments and finishes checksums.
    pub offload: bool,
    /// Where connections are accepted: addresses of the gateway's own.
    pub listen: Vec<SocketAddr>,
    /// The origin; one address is tried after the other.
    pub origin: Vec<SocketAddr>,
    /// What connections are accepted with. The segment size follows from the device's MTU, and addresses to
    /// announce are the gateway's own.
    pub config: Config,
    /// The origin is told of its client by a header of the PROXY protocol, version 2.
    pub proxy_protocol: bool,
    /// The origin is connected only after the client has sent a byte.
    pub wait_for_client: bool,
    /// Where the metrics are asked for, if anywhere.
    pub metrics: Option<SocketAddr>,
    /// Handshakes that may be incomplete; further SYNs are answered by cookies.
    pub backlog: u32,
    /// How long a handshake may stay incomplete.
    pub half_open: Duration,
    /// The longest time for an attempt to connect to one address of the origin.
    pub connect: Duration,
    /// How long a connection may go without a byte either way.
    pub idle: Duration,
    /// How long connections may go on once the gateway is told to finish.
    pub grace: Duration,
    /// Who is let in.
    pub limits: Limits,
}

/// Settings that can be changed while a gateway runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Like [`Settings::limits`].
    pub limits: Limits,
    /// Like [`Settings::idle`].
    pub idle: Duration,
    /// Like [`Settings::grace`].
    pub grace: Duration,
}

/// What the watcher wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Go on.
    Serve,
    /// Continue with changed settings.
    Change(Change),
    /// Let nobody else in, and end when the last connection has, or its time is up.
    Finish,
    /// End at once.
    Stop,
}

/// Who watches a gateway.
pub trait Watcher {
    /// Called ten times a second.
    fn look(&mut self) -> Wish;

    /// A connection is over.
    fn ended(&mut self, record: &Record);

    /// The gateway runs, but not as well as it might: what an operator may want to change.
    fn note(&mut self, what: &str);

    /// Returns the counts of written and dropped log lines.
    fn log_counts(&self) -> LogCounts;
}

/// Why a gateway does not run any more.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum GatewayError {
    /// The device cannot be had.
    #[error("the device `{name}`: {error}")]
    Device {
        /// Its name.
        name: String,
        /// What the system said.
        error: io::Error,
    },
    /// A socket or the like.
    #[error("{what}: {error}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        error: io::Error,
    },
    /// An address to listen at is given twice.
    #[error(transparent)]
    Listen(#[from] ListenError),
}

/// The gateway while it runs.
struct Gateway<'a> {
    settings: &'a Settings,
    watcher: &'a mut dyn Watcher,
    clock: Clock,
    poller: Poller,
    tun: Tun,
    /// What writes to it.
    writers: Writers,
    /// What of their obstacle the watcher was told last.
    told: Option<Errno>,
    /// The most segments that it takes at once.
    burst: u32,
    endpoint: Endpoint,
    /// Addresses that are ours.
    own: BTreeSet<IpAddr>,
    /// What origins and long packets are read into.
    pool: Pool,
    /// The threads that read origins while connections wait for this one.
    readers: Readers,
    admission: Admission,
    shares: Shares,
    /// The earliest time of the next note about memory.
    next_memory_note: Instant,
    flood: Flood,
    shortage: Shortage,
    metrics: Metrics,
    responder: Option<Responder>,
    /// Those that are served, by the number of their descriptor.
    served: BTreeMap<u64, Served>,
    /// Connections there have been.
    made: u64,
    /// The number of a connection, by the place of its handle.
    places: Vec<Option<(ConnectionHandle, u64)>>,
    agenda: Agenda,
    /// Like [`Settings::idle`], but may change at run time.
    idle: Duration,
    grace: Duration,
    /// The gateway is to finish, until then at the latest.
    closing: Option<Instant>,
    /// What is written over for every packet.
    segment: Segment,
    rest: Vec<Bytes>,
    packet: Vec<u8>,
}

/// Runs a gateway until its watcher ends it.
///
/// # Errors
/// The device cannot be opened or is gone, or an address cannot be listened at.
pub fn serve(settings: &Settings, watcher: &mut dyn Watcher) -> Result<(), GatewayError> {
    Gateway::open(settings, watcher)?.run()
}

/// Names what was tried.
fn tried(what: &'static str) -> impl Fn(io::Error) -> GatewayError {
    move |error| GatewayError::Io { what, error }
}

impl<'a> Gateway<'a> {
    fn open(settings: &'a Settings, watcher: &'a mut dyn Watcher) -> Result<Self, GatewayError> {
        let device = |error| GatewayError::Device { name: settings.device.clone(), error };
        let open = if settings.offload { Tun::open_offloading } else { Tun::open };
        let tun = open(&settings.device, None).map_err(device)?;
        let mtu = tun.mtu().map_err(device)?;
        let writers = Writers::start(&tun).map_err(tried("a thread for the device"))?;
        let poller = Poller::new().map_err(tried("waiting"))?;
        poller.add(&tun, DEVICE).map_err(tried("waiting"))?;
        let pool = Pool::default();
        let readers = Readers::start(&pool).map_err(tried("threads for origins"))?;
        poller.add(&readers, READERS).map_err(tried("waiting"))?;
        let secret = secret_seed().map_err(tried("random numbers"))?;
        let mut endpoint = Endpoint::new("gateway", secret);
        // What a kernel leaves with its subflow where its buffer is full may hold a client's upload up for seconds.
        let stack = Stack { parks_data: false, ..settings.config.stack };
        let mss = mtu.saturating_sub(HEADERS);
        let config = Config { mss, stack, ..settings.config.clone() };
        let mut own: BTreeSet<IpAddr> = config.announce.iter().map(|it| it.address).collect();
        for address in &settings.listen {
            own.insert(address.ip());
            // How many there may be is looked at before, for all addresses together.
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
        let responder = responder.map_err(tried("listening for requests of the metrics"))?;
        let clock = Clock::start();
        Ok(Self {
            settings,
            watcher,
            clock,
            poller,
            // As many as one packet has room for.
            burst: if tun.offloads() { u32::MAX } else { 1 },
            tun,
            writers,
            told: None,
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
                // What expired has packets to send.
                more = true;
            }
            self.hand_on()?;
            let timeout = self.endpoint.poll_timeout();
            let until = if more { now } else { self.agenda.wake(now, timeout) };
            let ready = self.poller.wait(&self.clock, Some(until)).map_err(tried("waiting"))?;
            for ready in ready {
                self.handle_ready(ready, &mut inlet)?;
            }
        }
    }

    /// Does what there is to do until there is no more, or a turn of packets was written: then it is true, and what
    /// has come is heard first.
    fn settle(&mut self, now: Instant) -> Result<bool, GatewayError> {
        loop {
            self.hear(now);
            while let Some(number) = self.agenda.pop() {
                self.drive(now, number);
                // So much was read that the rest of this turn could exceed the limit.
                if self.agenda.count_is_due(now) {
                    self.count_memory(now);
                }
            }
            let more = self.transmit(now)?;
            let ended = self.end_failed(now);
            if more || !self.hear(now) && !self.agenda.has_touched() && !ended {
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

    /// Looks at what has grown old, and asks the watcher. True when the gateway is to end.
    fn look(&mut self, now: Instant) -> Result<bool, GatewayError> {
        self.pool.tidy();
        // Its reserve of descriptors comes before connections that wait for one.
        if let Some(responder) = &mut self.responder {
            responder.handle_timeout(now, &self.poller);
        }
        self.expire(now);
        self.tell_obstacle();
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
        // At the end everybody's last word is said, however many turns it takes.
        while self.settle(now)? && now >= until {}
        Ok(self.served.is_empty() || now >= until)
    }

    /// Applies changed settings. Existing connections stay even if they exceed the new limits.
    fn change(&mut self, Change { limits, idle, grace }: Change) {
        self.admission.set_limits(limits);
        self.shares.set_limit(limits.memory);
        (self.idle, self.grace) = (idle, grace);
    }

    /// Tells the watcher why each packet is a system call of its own; the same reason once.
    fn tell_obstacle(&mut self) {
        let obstacle = self.writers.obstacle();
        if let Some(why) = obstacle.filter(|why| self.told != Some(*why)) {
            self.told = obstacle;
            self.watcher.note(&format!("no io_uring, a system call for each packet: {why}"));
        }
    }

    /// Lets nobody else in, and ends at a time, or before when that was settled.
    fn close(&mut self, until: Instant) {
        if self.closing.is_none() {
            for address in &self.settings.listen {
                self.endpoint.stop_listening(*address);
            }
        }
        self.closing = Some(self.closing.map_or(until, |before| before.min(until)));
    }

    /// The metrics as they stand.
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
            let known = connection.into_iter().flat_map(anabranch_transport::Connection::summaries);
            known.map(|it: SubflowSummary| PathRecord::new(&it, &served.received))
        });
        self.metrics.page(&Moment {
            open: [multipath, self.served.len() as u64 - multipath],
            half_open: self.endpoint.half_open() as u64,
            half_open_expired: self.endpoint.half_open_expired(),
            relayed,
            paths: summaries.collect(),
            admission: &self.admission,
            shares: &self.shares,
            refused_packets: self.writers.refused(),
            io_uring: self.writers.obstacle().is_none(),
            closing: self.closing.is_some(),
            log: self.watcher.log_counts(),
        })
    }
}
