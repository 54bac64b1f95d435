//! The real world and its event loop. Packets pass through the network of a plan, and each end of the network
//! is a kernel or our endpoint.

mod crossing;
mod moment;
mod setup;
mod tables;

use std::io::{self, Write};

use anabranch_host::WrongBytes;
use anabranch_host::rows::Numbers;
use anabranch_network::{EndpointNews, InterfaceChange};
use anabranch_plan::addresses::locate;
use anabranch_plan::{Media, Plan, PlanError};
use anabranch_plugin::Registry;
use anabranch_trace::{Rows, Trace};
use anabranch_units::{Duration, Instant};
use anabranch_wire::{CaptureError, EmitError, PcapngWriter, emit_packet};
use bytes::Bytes;
use thiserror::Error;

use crate::clock::Clock;
use crate::kernel::KernelEnd;
use crate::lateness::Lateness;
use crate::network::{Crossed, Delivery, Network};
use crate::origin::{Origin, Origins};
use crate::poller::{Poller, Ready};
use crate::side::Side;
use crate::tun::MOST;

use crossing::Crossing;

pub use moment::{Moment, PathMoment, SubflowMoment};

/// The largest number of packets read from a device at a time.
const TURN: usize = 64;
/// The period in which the observer is called.
const LOOK: Duration = Duration::from_millis(100);
/// The time for which a run continues after its client has finished, so that connections can close.
const FAREWELL: Duration = Duration::from_millis(200);

/// The number of the client. There is only one client.
const CLIENT: u32 = 0;

/// Tokens of the poller: the client's devices from 0 on, the server's devices, and the sockets of both ends.
const SERVER_DEVICES: u64 = 64;
const CLIENT_SOCKETS: u64 = 1 << 20;
const SERVER_SOCKETS: u64 = 1 << 40;

/// An observer of a run.
pub trait Observer {
    /// Called when all devices are open. The time of the plan begins when this call returns. The devices must
    /// be set up only now: a device that is up before a program has opened it drops packets for up to a
    /// second longer (`linkwatch`).
    ///
    /// # Errors
    /// Returns an error if the devices could not be set up.
    fn ready(&mut self) -> io::Result<()>;

    /// Called with the progress: `done_s` of at most `total_s` seconds have passed. Returning `false` stops
    /// the run. A stopped run still has a trace.
    fn progress(&mut self, done_s: f64, total_s: f64) -> bool;

    /// Returns whether [`Self::watch`] is called, before each [`Self::progress`] and at the end.
    fn watches(&self) -> bool {
        false
    }

    /// Called with the current state of the run.
    fn watch(&mut self, _moment: &Moment) {}

    /// Changes an interface of the client's kernel according to the plan's events.
    ///
    /// # Errors
    /// Returns an error if the interface could not be changed.
    fn interface(&mut self, change: InterfaceChange) -> io::Result<()>;
}

/// The reason why a run has no trace.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LiveError {
    /// The capture file cannot be written.
    #[error("capture: {0}")]
    Capture(#[from] CaptureError),
    /// Our endpoint produced a segment that cannot be encoded. This is a bug.
    #[error("a segment cannot be encoded: {0}")]
    Emit(#[from] EmitError),
    /// An operation on a device, a socket or a namespace failed.
    #[error("{what}: {error}")]
    Io {
        /// The operation that failed.
        what: &'static str,
        /// The system's error.
        error: io::Error,
    },
    /// The plan cannot run.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A user's plug-in failed.
    #[error("a plug-in failed")]
    Plugin,
    /// An application read bytes that were not sent.
    #[error(transparent)]
    WrongBytes(#[from] WrongBytes),
}

/// Returns a function that adds the name of the failed operation to an error.
fn tried(what: &'static str) -> impl Fn(io::Error) -> LiveError {
    move |error| LiveError::Io { what, error }
}

/// The two ends of a run, and its capture.
pub struct Ends {
    /// The kernel of the client. `None` if the client is our endpoint.
    pub client: Option<KernelEnd>,
    /// The kernel of the server. `None` if the server is our endpoint.
    pub server: Option<KernelEnd>,
    /// Whether the plan's application runs between the ends. If false, other programs use the client's
    /// kernel.
    pub application: bool,
    /// The paths on which our server announces its address (`ADD_ADDR`) to a client that does not know this
    /// address. The first path, 0, is never announced. A kernel announces the addresses that are configured
    /// in its namespace.
    pub announced: Vec<usize>,
    /// The origin to which our endpoint relays connections of other programs. Used if the plan's application
    /// does not run.
    pub origin: Option<Origin>,
    /// The output for a capture (pcapng) of the packets at the client.
    pub capture: Option<Box<dyn Write + Send>>,
}

/// The result of a run.
#[derive(Debug)]
pub struct Outcome {
    /// The tables of the run.
    pub trace: Trace,
    /// The lateness of the emulator for all packets that left the network.
    pub lateness: Lateness,
    /// The congestion control that the server's kernel actually used.
    pub congestion: Option<String>,
    /// The number of packets that left the network and were not accepted by a kernel.
    pub refused: u64,
    /// The number of segments from which a middlebox removed MPTCP options, by path.
    pub stripped: Vec<u64>,
    /// The number of SYNs that a firewall dropped, by path.
    pub blocked: Vec<u64>,
}

/// The state of one run.
struct World<'a> {
    plan: &'a Plan,
    registry: Registry,
    media: Media,
    clock: Clock,
    /// The start of the plan's time.
    begin: Instant,
    poller: Poller,
    network: Network<'a>,
    announced: Vec<usize>,
    client: Side,
    server: Side,
    crossing: Crossing<'a>,
    origins: Option<Origins>,
    rows: Rows,
    numbers: Numbers,
    lateness: Lateness,
    capture: Option<PcapngWriter<Box<dyn Write + Send>>>,
    next_sample: Instant,
    next_look: Instant,
    /// The number of connections that the client's endpoint has opened.
    ports: u16,
    /// The number of packets lost by the client's endpoint because the interface was down.
    refused: u64,
    notes: Vec<String>,
    delivered: u64,
    /// The number of bytes that left each path towards the client.
    carried: Vec<u64>,
}

/// Runs a plan over real packets until its application has finished, its time is over, or the observer stops
/// it.
///
/// # Errors
/// Returns an error if the plan cannot run here, if a device or namespace cannot be opened, or if the capture
/// cannot be written. A failed plug-in and wrong bytes at an application are errors, too.
pub fn run(
    plan: &Plan,
    registry: Registry,
    ends: Ends,
    observer: &mut dyn Observer,
) -> Result<Outcome, LiveError> {
    let mut world = World::build(plan, registry, ends, observer)?;
    world.run(observer)?;
    if let Some(capture) = world.capture.take() {
        capture.into_inner().flush().map_err(tried("writing the capture"))?;
    }
    Ok(world.finish()?)
}

impl World<'_> {
    fn seconds(&self, at: Instant) -> f64 {
        at.since(self.begin).as_secs_f64()
    }

    fn run(&mut self, observer: &mut dyn Observer) -> Result<(), LiveError> {
        let end = self.begin + Duration::from_nanos(self.plan.time_limit_ns);
        let span = self.plan.application.duration_ns.map(Duration::from_nanos);
        let mut end = span.map_or(end, |span| end.min(self.begin + span));
        let mut over = false;
        let mut buffer = vec![0; MOST];
        loop {
            let now = self.turn(observer)?;
            if self.registry.failed() {
                return Err(LiveError::Plugin);
            }
            if now >= end {
                break;
            }
            if !over && self.client.session().is_some_and(|session| session.over) {
                (over, end) = (true, end.min(now + FAREWELL));
            }
            if now >= self.next_look {
                self.next_look = now + LOOK;
                self.show(now, observer);
                if !observer.progress(self.seconds(now), self.seconds(end)) {
                    break;
                }
            }
            let until = [
                self.network.poll_timeout(),
                self.client.poll_timeout(),
                self.server.poll_timeout(),
                self.crossing.poll_timeout(now),
                Some(self.next_sample.min(self.next_look).min(end)),
            ];
            let until = until.into_iter().flatten().min();
            let ready =
                self.poller.wait(&self.clock, until).map_err(tried("waiting for events"))?;
            for ready in ready {
                self.handle_ready(ready, &mut buffer)?;
            }
        }
        let now = self.clock.now();
        if let Some(session) = self.client.session_mut() {
            session.cut_off(now);
        }
        self.show(now, observer);
        Ok(())
    }

    /// Handles all events that are due. Returns the time.
    fn turn(&mut self, observer: &mut dyn Observer) -> Result<Instant, LiveError> {
        loop {
            let now = self.clock.now();
            self.network.handle_timeout(now, &mut self.rows);
            while let Some((change, news)) = self.network.poll_change() {
                self.change_interface(now, change, news, observer)?;
            }
            let mut idle = true;
            while let Some(delivery) = self.network.poll_delivery() {
                idle = false;
                self.deliver(delivery)?;
            }
            while let Some(crossed) = self.network.poll_crossed() {
                idle = false;
                self.cross(crossed);
            }
            self.crossing.handle_timeout(now)?;
            for side in [&mut self.client, &mut self.server] {
                side.handle_timeout(now, &self.poller).map_err(tried("using a socket"))?;
                if let Some(fault) = side.fault() {
                    return Err(fault.into());
                }
            }
            self.pump(now)?;
            if let Some(origins) = &self.origins {
                origins.watch(&self.poller, SERVER_SOCKETS).map_err(tried("using a socket"))?;
            }
            if self.plan.application.kind.is_http() {
                self.client.tell(&mut self.rows);
            }
            if now >= self.next_sample {
                self.sample(now);
            }
            if idle && self.network.poll_timeout().is_none_or(|at| at > now) {
                return Ok(now);
            }
        }
    }

    /// Takes an interface of the client's kernel up or down. If the client is our endpoint, notifies it instead.
    fn change_interface(
        &mut self,
        now: Instant,
        change: InterfaceChange,
        news: Option<EndpointNews>,
        observer: &mut dyn Observer,
    ) -> Result<(), LiveError> {
        let Side::Endpoint(host) = &mut self.client else {
            return observer.interface(change).map_err(tried("changing an interface"));
        };
        if let Some(news) = news {
            let client = (CLIENT, &mut self.ports);
            self.network.interfaces().notify(now, change.path, news, client, host);
        }
        Ok(())
    }

    /// Handles a packet that has left a path.
    fn deliver(&mut self, delivery: Delivery) -> Result<(), LiveError> {
        let Delivery { at, path, down, passes, bytes } = delivery;
        let now = self.clock.now();
        self.lateness.note(now.since(at));
        self.delivered += 1;
        if down {
            self.carried[path] += bytes.len() as u64;
        }
        if !passes {
            self.refused += 1;
            self.network.recycle(bytes);
            return Ok(());
        }
        if down {
            self.captured(path, now, &bytes)?;
        }
        let side = if down { &mut self.client } else { &mut self.server };
        let bytes = Bytes::from(bytes);
        side.deliver(now, path, &bytes).map_err(tried("writing to a device"))?;
        self.recycle(bytes);
        Ok(())
    }

    /// Reuses the memory of a packet, unless its payload is still in use.
    fn recycle(&mut self, bytes: Bytes) {
        if let Ok(bytes) = bytes.try_into_mut() {
            self.network.recycle(bytes.into());
        }
    }

    /// Handles a packet of a background flow at the end of its route.
    fn cross(&mut self, crossed: Crossed) {
        let now = self.clock.now();
        match crossed {
            Crossed::Packet { at, down, bytes } => {
                self.lateness.note(now.since(at));
                let bytes = Bytes::from(bytes);
                self.crossing.handle_packet(now, down, &bytes);
                self.recycle(bytes);
            }
            // The delay of a datagram is that of the links, without the lateness of the emulator.
            Crossed::Datagram(at, datagram) => self.crossing.arrive(at, datagram),
            Crossed::Lost(datagram) => self.crossing.lose(datagram),
        }
    }

    /// Reads from a device or a socket that is ready.
    fn handle_ready(&mut self, ready: Ready, buffer: &mut [u8]) -> Result<(), LiveError> {
        let now = self.clock.now();
        let Self { client, server, origins, poller, .. } = self;
        let (path, down) = match ready.token {
            token @ SERVER_SOCKETS.. => {
                if let (Some(origins), Side::Endpoint(host)) = (&*origins, &mut *server) {
                    if let Some(handle) = origins.handle_ready(now, token - SERVER_SOCKETS, ready) {
                        host.wake(handle);
                    }
                    return Ok(());
                }
                return server
                    .handle_ready(now, poller, ready)
                    .map_err(tried("using a server's socket"));
            }
            CLIENT_SOCKETS.. => {
                return client
                    .handle_ready(now, poller, ready)
                    .map_err(tried("using a client's socket"));
            }
            token if token >= SERVER_DEVICES => (token - SERVER_DEVICES, true),
            token => (token, false),
        };
        for _ in 0..TURN {
            let side = if down { &self.server } else { &self.client };
            let read = side.read(path as usize, buffer).map_err(tried("reading a device"))?;
            let Some(packet) = read else { break };
            let mut bytes = self.network.buffer();
            bytes.extend_from_slice(packet);
            self.launch(now, path as usize, down, bytes)?;
        }
        Ok(())
    }

    /// Sends a packet of a host on a path.
    fn launch(
        &mut self,
        now: Instant,
        path: usize,
        down: bool,
        bytes: Vec<u8>,
    ) -> Result<(), LiveError> {
        if !down {
            self.captured(path, now, &bytes)?;
        }
        // Events that were due before this packet are handled first.
        self.network.handle_timeout(now, &mut self.rows);
        self.network.handle_packet(now, path, down, bytes);
        Ok(())
    }

    fn captured(&mut self, path: usize, now: Instant, bytes: &[u8]) -> Result<(), LiveError> {
        let at = Instant::ZERO + now.since(self.begin);
        match &mut self.capture {
            Some(capture) => Ok(capture.write_packet(path, at, bytes)?),
            None => Ok(()),
        }
    }

    /// Sends all segments of our endpoints and of the background flows.
    fn pump(&mut self, now: Instant) -> Result<(), LiveError> {
        loop {
            let mut bytes = self.network.buffer();
            let Some(sent) = self.crossing.poll_transmit(now, &mut bytes)? else {
                self.network.recycle(bytes);
                break;
            };
            self.network.handle_timeout(now, &mut self.rows);
            self.network.handle_crossing(now, sent.group, sent.down, sent.datagram, bytes);
        }
        for down in [false, true] {
            loop {
                let side = if down { &mut self.server } else { &mut self.client };
                let Side::Endpoint(host) = side else { break };
                if let Some(sent) = host.poll_transmit(now) {
                    let (from, to) = (sent.local, sent.remote);
                    let (path, _) = locate(if down { to } else { from });
                    if !down && !self.network.passes(path.into()) {
                        // The host has no route, so it does not send the packet.
                        self.refused += 1;
                        continue;
                    }
                    let mut bytes = self.network.buffer();
                    emit_packet(from.ip(), to.ip(), &sent.segment, &mut bytes)?;
                    self.launch(now, path.into(), down, bytes)?;
                } else if host.needs_connection() {
                    self.connect(now)?;
                } else {
                    break;
                }
            }
        }
        Ok(())
    }
}
