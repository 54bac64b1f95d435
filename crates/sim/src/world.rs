//! The event loop: who wakes next, what it sends, where packets go.

mod sampling;

use std::io::Write;
use std::sync::Arc;

use anabranch_link::{DropReason, Fate};
use anabranch_media::Timeline;
use anabranch_transport::path_manager::Candidate;
use anabranch_transport::{
    Config, ConnectionHandle, Endpoint, FourTuple, HostModel, Transmit, earliest,
};
use anabranch_units::{ByteCount, Duration, Instant, Seed};
use thiserror::Error;

use crate::application::{Client, ClientNeed, Film, Serving};
use crate::capture::Capture;
use crate::checks::{Violation, WINDOW_SLACK};
use crate::plan::{ApplicationKind, FilmPlan, Plan, PlanError, choice};
use crate::schedule::Schedule;
use crate::topology::{
    DATA_PORT, HTTP_PORT, Packet, Topology, client_address, locate, server_address,
};
use crate::trace::{Rows, Trace};

/// Bytes of an IPv4 header without options.
const IP_HEADER: u64 = 20;
/// Bytes of a TCP header without options.
const TCP_HEADER: u64 = 20;

/// A world in which nothing happens for so long stands still: no timer is set for longer.
const STALL: Duration = Duration::from_secs(300);

/// Who follows a run.
pub trait Observer {
    /// `done` of at most `total` virtual seconds have passed; `false` stops the run.
    fn progress(&mut self, done_s: f64, total_s: f64) -> bool;
}

/// Nobody follows.
pub struct Silent;

impl Observer for Silent {
    fn progress(&mut self, _done_s: f64, _total_s: f64) -> bool {
        true
    }
}

/// Why a run has no trace.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RunError {
    /// The capture file.
    #[error("capture: {0}")]
    Capture(#[from] std::io::Error),
    /// The plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The observer stopped it.
    #[error("the run was stopped")]
    Stopped,
    /// A rule was broken: a defect of the simulator.
    #[error(transparent)]
    Violation(#[from] Violation),
}

/// What a node of the schedule is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    Client(u32),
    Event,
    Link(usize),
    Sampler,
    Serving(usize),
}

/// A client's endpoint with the connection it uses now.
struct ClientHost {
    endpoint: Endpoint,
    current: Option<ConnectionHandle>,
    connections: u16,
    node: usize,
}

/// The world of one run.
pub(crate) struct World<'a> {
    plan: &'a Plan,
    now: Instant,
    /// When something other than a sample last happened.
    last_event: Instant,
    topology: Topology,
    schedule: Schedule,
    nodes: Vec<Node>,
    server: Endpoint,
    serving: Vec<Serving>,
    serving_nodes: Vec<usize>,
    /// Which client each of the server's connections belongs to.
    served: Vec<u32>,
    hosts: Vec<ClientHost>,
    clients: Vec<Client>,
    film: Film,
    next_event: usize,
    unfinished: usize,
    steps: u64,
    digest: u64,
    rows: Rows,
    capture: Option<Capture>,
    /// The packet that the next segment is written into.
    blank: Box<Packet>,
    /// Boxes of packets that have arrived, for those to come.
    spare: Vec<Box<Packet>>,
}

/// Folds a word into a running hash (Fx: fast, and order matters).
fn mix(hash: u64, word: u64) -> u64 {
    (hash.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95)
}

/// Runs a plan to its end.
///
/// # Errors
/// A plan that cannot run, a capture file that cannot be written, an observer's stop, or a
/// violated rule.
pub fn run(
    plan: &Plan,
    capture: Option<Box<dyn Write + Send>>,
    observer: &mut dyn Observer,
) -> Result<Trace, RunError> {
    let mut world = World::build(plan, capture)?;
    world.run(observer)?;
    world.finish()
}

fn film(plan: &Plan) -> Result<Option<Arc<Timeline>>, PlanError> {
    Ok(match plan.film.clone() {
        None => None,
        Some(FilmPlan::Synthetic(film)) => Some(Arc::new(Timeline::try_from(&film)?)),
        Some(FilmPlan::Recorded(film)) => Some(Arc::new(Timeline::try_from(&film)?)),
    })
}

fn config(plan: &Plan) -> Result<Config, PlanError> {
    let transport = &plan.transport;
    let config = Config {
        multipath: transport.multipath,
        scheduler: choice(&transport.scheduler)?,
        congestion: choice(&transport.congestion)?,
        path_manager: choice(&transport.path_manager)?,
        mss: transport.mss,
        receive_buffer_initial: transport.receive_buffer_initial,
        receive_buffer_max: transport.receive_buffer_max,
        send_buffer_max: transport.send_buffer_max,
        checksum: transport.checksum,
        pacing: transport.pacing,
        host: HostModel {
            timer_tick: Duration::from_nanos(plan.host.timer_tick_ns),
            ..HostModel::default()
        },
        candidates: Vec::new(),
    };
    let fault = |what| move |error| PlanError::Plugin { what, error };
    use anabranch_transport::{congestion, path_manager, scheduler};
    scheduler::build(config.scheduler.as_parameters()).map_err(fault("scheduler"))?;
    congestion::build(
        config.congestion.as_parameters(),
        Seed { seed: 0, run: 0 }.stream("check"),
    )
    .map_err(fault("congestion"))?;
    path_manager::build(config.path_manager.as_parameters()).map_err(fault("path_manager"))?;
    Ok(config)
}

impl<'a> World<'a> {
    fn build(plan: &'a Plan, capture: Option<Box<dyn Write + Send>>) -> Result<Self, RunError> {
        let topology = Topology::build(plan)?;
        let config = config(plan)?;
        let film = film(plan)?;
        let seed = Seed {
            seed: plan.seed,
            run: plan.run,
        };
        let names: Vec<String> = topology.paths.iter().map(|p| p.name.clone()).collect();
        for event in &plan.events {
            topology.link(&event.link)?;
        }
        let mut server = Endpoint::new("server", seed);
        server.listen(config);
        let mut world = Self {
            plan,
            now: Instant::ZERO,
            last_event: Instant::ZERO,
            topology,
            schedule: Schedule::default(),
            nodes: Vec::new(),
            server,
            serving: Vec::new(),
            serving_nodes: Vec::new(),
            served: Vec::new(),
            hosts: Vec::new(),
            clients: Vec::new(),
            film,
            next_event: 0,
            unfinished: plan.clients as usize,
            steps: 0,
            digest: 0,
            rows: Rows::default(),
            capture: capture
                .map(|output| Capture::new(output, &names))
                .transpose()?,
            blank: Box::default(),
            spare: Vec::new(),
        };
        for link in 0..world.topology.links.len() {
            world.add_node(Node::Link(link));
        }
        let mut starts = seed.stream("clients.start");
        for id in 0..plan.clients {
            let offset = if id == 0 { 0.0 } else { starts.uniform() };
            let start = Instant::ZERO + Duration::from_secs_f64(offset);
            let node = world.add_node(Node::Client(id));
            world.schedule.set(node, Some(start));
            let endpoint = Endpoint::new(&format!("client.{id}"), seed);
            world.hosts.push(ClientHost {
                endpoint,
                current: None,
                connections: 0,
                node,
            });
            world
                .clients
                .push(Client::new(id, start, plan, world.film.as_ref()));
        }
        let sampler = world.add_node(Node::Sampler);
        world
            .schedule
            .set(sampler, Some(Instant::ZERO + sampling::PERIOD));
        let event = world.add_node(Node::Event);
        world.schedule.set(event, world.next_change());
        Ok(world)
    }

    fn add_node(&mut self, node: Node) -> usize {
        self.nodes.push(node);
        self.schedule.add()
    }

    fn next_change(&self) -> Option<Instant> {
        self.plan
            .events
            .get(self.next_event)
            .map(|event| Instant::from_nanos(event.at_ns))
    }

    fn run(&mut self, observer: &mut dyn Observer) -> Result<(), RunError> {
        let limit = Instant::from_nanos(self.plan.time_limit_ns);
        let mut stop_at = self.plan.application.duration_ns.map(Duration::from_nanos);
        if let (Some(span), true) = (stop_at, self.clients.len() > 1) {
            stop_at = Some(span + Duration::from_secs(1));
        }
        let end = stop_at.map_or(limit, |span| (Instant::ZERO + span).min(limit));
        let mut report = Instant::ZERO;
        while self.unfinished > 0 {
            let (at, node) = self.schedule.next();
            if at >= end {
                self.now = end;
                break;
            }
            self.now = self.now.max(at);
            self.steps += 1;
            if self.now >= report {
                report = self.now + Duration::from_millis(500);
                if !observer.progress(self.now.as_secs_f64(), end.as_secs_f64()) {
                    return Err(RunError::Stopped);
                }
            }
            self.wake(node)?;
        }
        if let Some(span) = self.plan.application.duration_ns.map(Duration::from_nanos) {
            for client in &mut self.clients {
                // Who was still reading when the time was up has done all that was asked.
                let over = client.start + span;
                if !client.over && self.now >= over {
                    client.finished = true;
                    client.finished_at = Some(over.min(self.now));
                }
            }
        }
        Ok(())
    }

    fn wake(&mut self, node: usize) -> Result<(), RunError> {
        if self.nodes[node] != Node::Sampler {
            self.last_event = self.now;
        }
        match self.nodes[node] {
            Node::Link(link) => self.wake_link(link)?,
            Node::Client(client) => self.wake_client(client)?,
            Node::Serving(handle) => {
                let connection = self.server.connection_mut(ConnectionHandle(handle));
                connection.handle_timeout(self.now);
                self.drive_serving(handle)?;
            }
            Node::Sampler => {
                if self.now.since(self.last_event) > STALL {
                    return Err(Violation::Stalled {
                        at_ns: self.last_event.as_nanos(),
                    }
                    .into());
                }
                self.sample();
                self.schedule.set(node, Some(self.now + sampling::PERIOD));
            }
            Node::Event => {
                let event = &self.plan.events[self.next_event];
                self.next_event += 1;
                let link = self.topology.link(&event.link)?;
                self.topology.links[link].set(self.now, event.change.change());
                self.rows.events.push(
                    self.now.as_secs_f64(),
                    event.link.clone(),
                    event.change.describe(),
                );
                self.schedule
                    .set(link, self.topology.links[link].poll_timeout());
                self.schedule.set(node, self.next_change());
            }
        }
        Ok(())
    }

    fn wake_link(&mut self, link: usize) -> Result<(), RunError> {
        while let Some(fate) = self.topology.links[link].poll_fate(self.now) {
            match fate {
                Fate::Delivered { mut packet, .. } => {
                    self.note(link as u64, &packet);
                    packet.hop += 1;
                    self.forward(packet)?;
                }
                Fate::Dropped { packet, why, .. } => {
                    let reason = match why {
                        DropReason::Down => 1,
                        DropReason::Loss => 2,
                        DropReason::QueueFull => 3,
                    };
                    self.note((link as u64) << 8 | reason, &packet);
                }
            }
        }
        self.schedule
            .set(link, self.topology.links[link].poll_timeout());
        Ok(())
    }

    /// Folds one packet's fate into the digest.
    fn note(&mut self, place: u64, packet: &Packet) {
        let segment = &packet.segment;
        let words = [
            self.now.as_nanos(),
            place << 32 | u64::from(packet.client),
            u64::from(segment.seq.0) << 32 | u64::from(segment.ack.0),
            (segment.payload.len() as u64) << 24
                | u64::from(segment.window) << 8
                | u64::from(segment.flags.0),
        ];
        for word in words {
            self.digest = mix(self.digest, word);
        }
    }

    /// Puts a packet on its next link, or hands it to its host.
    fn forward(&mut self, packet: Box<Packet>) -> Result<(), RunError> {
        let route = self.topology.paths[usize::from(packet.path)].route(packet.down);
        if let Some(&link) = route.get(usize::from(packet.hop)) {
            let size = ByteCount(packet.size);
            self.topology.links[link].enqueue(self.now, packet, size);
            // A link that waits for a delivery already will not wake earlier for this one.
            if !self.schedule.is_set(link) {
                self.schedule
                    .set(link, self.topology.links[link].poll_timeout());
            }
            return Ok(());
        }
        let outcome = if packet.down {
            self.arrive_at_client(&packet)
        } else {
            self.arrive_at_server(&packet)
        };
        self.spare.push(packet);
        outcome
    }

    fn arrive_at_client(&mut self, packet: &Packet) -> Result<(), RunError> {
        let &Packet {
            ref segment,
            client,
            path,
            ..
        } = packet;
        let server = server_address(usize::from(path), segment.source_port);
        let mut local = client_address(usize::from(path), client, 0);
        local.set_port(segment.destination_port);
        if let Some(capture) = &mut self.capture {
            capture.packet(
                usize::from(path),
                self.now,
                server.ip(),
                local.ip(),
                segment,
            );
        }
        let tuple = FourTuple {
            local,
            remote: server,
        };
        self.hosts[client as usize]
            .endpoint
            .handle_segment(self.now, tuple, segment);
        self.drive_client(client)
    }

    fn arrive_at_server(&mut self, packet: &Packet) -> Result<(), RunError> {
        let &Packet {
            ref segment,
            client,
            path,
            ..
        } = packet;
        let mut remote = client_address(usize::from(path), client, 0);
        remote.set_port(segment.source_port);
        let local = server_address(usize::from(path), segment.destination_port);
        let tuple = FourTuple { local, remote };
        let handle = self.server.handle_segment(self.now, tuple, segment);
        while let Some(reply) = self.server.poll_transmit() {
            self.answer(reply, true)?;
        }
        let Some(ConnectionHandle(handle)) = handle else {
            return Ok(());
        };
        if handle == self.serving.len() {
            self.serving.push(Serving::new(self.plan, &self.film));
            let node = self.add_node(Node::Serving(handle));
            self.serving_nodes.push(node);
            self.served.push(client);
        }
        self.drive_serving(handle)
    }

    fn wake_client(&mut self, client: u32) -> Result<(), RunError> {
        if self.hosts[client as usize].current.is_none() {
            self.open_connection(client)?;
        }
        let host = &mut self.hosts[client as usize];
        for handle in 0..host.endpoint.connections().len() {
            host.endpoint
                .connection_mut(ConnectionHandle(handle))
                .handle_timeout(self.now);
        }
        self.drive_client(client)
    }

    fn open_connection(&mut self, client: u32) -> Result<(), RunError> {
        let mut config = config(self.plan)?;
        let host = &mut self.hosts[client as usize];
        let number = host.connections;
        host.connections += 1;
        let port = match self.plan.application.kind {
            ApplicationKind::Progressive => HTTP_PORT,
            ApplicationKind::Bulk | ApplicationKind::Paced => DATA_PORT,
        };
        config.candidates = self
            .topology
            .paths
            .iter()
            .enumerate()
            .map(|(path, p)| Candidate {
                address_id: path as u8,
                local: client_address(path, client, number),
                remote: server_address(path, port),
                backup: p.backup,
            })
            .collect();
        let fault = |error| PlanError::Plugin {
            what: "transport",
            error,
        };
        host.current = Some(host.endpoint.connect(config).map_err(fault)?);
        Ok(())
    }

    fn drive_client(&mut self, client: u32) -> Result<(), RunError> {
        let index = client as usize;
        loop {
            let host = &mut self.hosts[index];
            let connection = host
                .current
                .map(|handle| host.endpoint.connection_mut(handle));
            let was = self.clients[index].over;
            let need = self.clients[index].drive(self.now, connection, &mut self.rows)?;
            self.unfinished -= usize::from(!was && self.clients[index].over);
            if need == ClientNeed::Nothing {
                break;
            }
            if let Some(handle) = self.hosts[index].current {
                self.hosts[index].endpoint.connection_mut(handle).abort();
            }
            self.open_connection(client)?;
        }
        for handle in 0..self.hosts[index].endpoint.connections().len() {
            let handle = ConnectionHandle(handle);
            while let Some(tuple) = self.hosts[index]
                .endpoint
                .connection_mut(handle)
                .poll_transmit_into(self.now, &mut self.blank.segment)
            {
                let packet = self.written();
                self.send(packet, tuple, false)?;
            }
        }
        while let Some(reply) = self.hosts[index].endpoint.poll_transmit() {
            self.answer(reply, false)?;
        }
        let host = &self.hosts[index];
        let own = self.clients[index].poll_timeout();
        let connections = host.endpoint.connections().iter();
        let wake = connections.fold(own, |first, c| earliest(first, c.poll_timeout()));
        self.schedule.set(host.node, wake);
        Ok(())
    }

    fn drive_serving(&mut self, handle: usize) -> Result<(), RunError> {
        let connection = self.server.connection_mut(ConnectionHandle(handle));
        self.serving[handle].drive(self.now, connection);
        while let Some(tuple) = self
            .server
            .connection_mut(ConnectionHandle(handle))
            .poll_transmit_into(self.now, &mut self.blank.segment)
        {
            let packet = self.written();
            self.send(packet, tuple, true)?;
        }
        let connection = self.server.connection(ConnectionHandle(handle));
        for (subflow, in_flight, cwnd) in connection.windows() {
            // A cut window may leave more in flight; nothing new may have gone out then.
            if in_flight > cwnd + WINDOW_SLACK && connection.sent_beyond_window(subflow) {
                return Err(Violation::InFlight {
                    subflow: subflow.0,
                    in_flight,
                    cwnd,
                }
                .into());
            }
        }
        let wake = earliest(
            connection.poll_timeout(),
            self.serving[handle].poll_timeout(),
        );
        self.schedule.set(self.serving_nodes[handle], wake);
        Ok(())
    }

    /// The packet just written; another blank takes its place.
    fn written(&mut self) -> Box<Packet> {
        std::mem::replace(&mut self.blank, self.spare.pop().unwrap_or_default())
    }

    /// Sends what an endpoint answers on behalf of no connection.
    fn answer(&mut self, reply: Transmit, down: bool) -> Result<(), RunError> {
        let packet = Packet {
            segment: reply.segment,
            ..Packet::default()
        };
        self.send(
            Box::new(packet),
            FourTuple {
                local: reply.local,
                remote: reply.remote,
            },
            down,
        )
    }

    /// Puts a packet with its segment on the first link of its path.
    fn send(
        &mut self,
        mut packet: Box<Packet>,
        tuple: FourTuple,
        down: bool,
    ) -> Result<(), RunError> {
        let (path, client) = locate(if down { tuple.remote } else { tuple.local });
        let segment = &packet.segment;
        let options = segment.options_len();
        if options > 40 {
            return Err(Violation::OptionSpace { bytes: options }.into());
        }
        let size = IP_HEADER + TCP_HEADER + options as u64 + segment.payload.len() as u64;
        if let Some(capture) = self.capture.as_mut().filter(|_| !down) {
            let (source, destination) = (tuple.local.ip(), tuple.remote.ip());
            capture.packet(usize::from(path), self.now, source, destination, segment);
        }
        packet.size = size;
        packet.client = client;
        packet.path = path;
        packet.hop = 0;
        packet.down = down;
        self.forward(packet)
    }

    /// Closes the books.
    fn finish(mut self) -> Result<Trace, RunError> {
        if let Some(error) = self
            .capture
            .as_mut()
            .and_then(|capture| capture.error.take())
        {
            return Err(error.into());
        }
        self.check_conservation()?;
        self.report();
        Ok(self.into_trace())
    }

    fn check_conservation(&self) -> Result<(), Violation> {
        for link in &self.topology.links {
            let stats = link.stats();
            let accounted = stats.delivered + stats.dropped() + link.in_transit();
            if stats.enqueued != accounted {
                return Err(Violation::Conservation {
                    link: link.name().to_owned(),
                    enqueued: stats.enqueued,
                    accounted,
                });
            }
        }
        Ok(())
    }
}
