//! Background flows: plain TCP between two hosts of their own, or datagrams, over links that clients may use.
//!
//! Each TCP flow has both its endpoints to itself, so that neither its keys nor its sequence numbers are
//! drawn from a stream that a client's connection draws from. Nobody waits for it: a run ends with
//! its clients, and only their packets are signs of life.

use anabranch_host::{Host, Reader, Session, rows};
use anabranch_plan::addresses::{DATA_PORT, anywhere, cross_addresses};
use anabranch_plan::{CrossKind, CrossPlan, PlanError, application};
use anabranch_trace::{CrossRow, CrossSampleRow};
use anabranch_transport::path_manager::Candidate;
use anabranch_transport::{Config, Connection, Endpoint};
use anabranch_units::{Duration, Instant, RandomStream, Seed};

use super::datagrams::{Source, exponential};
use super::hosts::{Station, unconnected};
use super::{Node, RunError, STALL, World};
use crate::checks::Violation;
use crate::topology::{Load, Packet};

/// What a background flow consists of.
enum Carries {
    /// A client that reads, at this station, and a server that sends, at the next one.
    Connection {
        client: usize,
    },
    Datagrams(Box<Source>),
}

/// A group of the plan whose flows begin at random.
pub(super) struct Arrivals {
    group: usize,
    /// How many have begun.
    begun: u32,
    stop: Option<Instant>,
    random: RandomStream,
}

/// One background flow.
pub(super) struct Flow {
    /// Which group of the plan it is of.
    group: usize,
    pub(super) start: Instant,
    /// When it is cut off.
    stop: Option<Instant>,
    carries: Carries,
    /// When anything last happened to it; `None` before its start.
    pub(super) last_event: Option<Instant>,
    /// When its connection ended with bytes left to read.
    broken_at: Option<Instant>,
}

impl Flow {
    /// The station of its client.
    #[inline(always)]
    pub(super) fn client(&self) -> usize {
        match &self.carries {
            Carries::Connection { client } => *client,
            Carries::Datagrams(_) => unreachable!("datagrams go between no hosts"),
        }
    }

    /// Its datagrams, if that is what it is made of.
    pub(super) fn source_mut(&mut self) -> Option<&mut Source> {
        match &mut self.carries {
            Carries::Connection { .. } => None,
            Carries::Datagrams(source) => Some(&mut **source),
        }
    }

    /// Its connection as its server has it, if it is one and that has heard of it.
    fn served<'a>(&self, stations: &'a [Station]) -> Option<&'a Connection> {
        let Carries::Connection { client } = self.carries else { return None };
        let endpoint = stations[client + 1].host.endpoint();
        endpoint.connections().next().map(|(_, connection)| connection)
    }

    /// What its client has measured.
    fn session<'a>(&self, stations: &'a [Station]) -> Option<&'a Session> {
        let Carries::Connection { client } = self.carries else { return None };
        stations[client].host.session()
    }

    /// Its time is over.
    pub(super) fn is_cut_off(&self, now: Instant) -> bool {
        self.stop.is_some_and(|stop| now >= stop)
    }

    /// How it ended, in a word, and when.
    fn end(&self, stations: &[Station], now: Instant) -> (&'static str, Option<Instant>) {
        let finished = self.session(stations).filter(|session| session.finished);
        if self.last_event.is_none() {
            ("unstarted", None)
        } else if let Some(session) = finished {
            ("finished", session.finished_at)
        } else if self.broken_at.is_some() {
            ("broken", self.broken_at)
        } else if self.is_cut_off(now) {
            ("stopped", self.stop)
        } else {
            ("running", Some(now))
        }
    }
}

impl World<'_> {
    /// Adds every flow of the plan, each to be woken at its start.
    pub(super) fn add_flows(&mut self) -> Result<(), PlanError> {
        let plan = self.plan;
        let seed = Seed { seed: plan.seed, run: plan.run };
        for (index, group) in plan.cross_traffic.iter().enumerate() {
            if group.kind == CrossKind::Transfers {
                self.await_transfers(index, group, seed);
                continue;
            }
            for (number, after) in group.starts(seed).into_iter().enumerate() {
                let start = self.begin + after;
                if group.kind.is_datagrams() {
                    let stream = format!("cross_traffic.{}.{number}.datagrams", group.name);
                    self.add_datagrams(index, group, seed.stream(&stream), start);
                    continue;
                }
                let name = format!("cross.{}.{number}", group.name);
                let duration = group.duration_ns.map(Duration::from_nanos);
                self.add_flow(index, &name, start, duration)?;
            }
        }
        Ok(())
    }

    /// A group whose flows begin as the run goes on.
    fn await_transfers(&mut self, group: usize, plan: &CrossPlan, seed: Seed) {
        let start = self.begin + Duration::from_nanos(plan.start_ns);
        let stop = plan.duration_ns.map(|span| start + Duration::from_nanos(span));
        let mut random = seed.stream(&format!("cross_traffic.{}.arrivals", plan.name));
        let first = start + next_arrival(plan, &mut random);
        let node = self.add_node(Node::Arrivals(self.arrivals.len()));
        self.schedule.set(node, Some(first));
        self.arrivals.push(Arrivals { group, begun: 0, stop, random });
    }

    /// The next transfer of such a group.
    pub(super) fn begin_transfer(&mut self, node: usize, number: usize) -> Result<(), RunError> {
        let arrivals = &mut self.arrivals[number];
        if arrivals.stop.is_some_and(|stop| self.now >= stop) {
            self.schedule.set(node, None);
            return Ok(());
        }
        let (group, plan) = (arrivals.group, &self.plan.cross_traffic[arrivals.group]);
        let name = format!("cross.{}.{}", plan.name, arrivals.begun);
        arrivals.begun += 1;
        let next = self.now + next_arrival(plan, &mut arrivals.random);
        self.schedule.set(node, Some(next));
        self.add_flow(group, &name, self.now, None)?;
        Ok(())
    }

    /// A flow of datagrams.
    fn add_datagrams(
        &mut self,
        group: usize,
        plan: &CrossPlan,
        random: RandomStream,
        start: Instant,
    ) {
        let flow = self.flows.len() as u32;
        let route = (self.topology.paths.len() + group) as u16;
        let node = self.add_node(Node::Datagram(flow));
        self.schedule.set(node, Some(start));
        let stop = plan.duration_ns.map(|span| start + Duration::from_nanos(span));
        let source = Source::new(plan, random, node, route);
        let carries = Carries::Datagrams(Box::new(source));
        self.flows.push(Flow { group, start, stop, carries, last_event: None, broken_at: None });
    }

    /// A TCP flow of a group, which is cut off after `duration`.
    fn add_flow(
        &mut self,
        group: usize,
        name: &str,
        start: Instant,
        duration: Option<Duration>,
    ) -> Result<(), PlanError> {
        let plan = &self.plan.cross_traffic[group];
        let below = |error: PlanError| error.at_element("cross_traffic", group);
        let seed = Seed { seed: self.plan.seed, run: self.plan.run };
        let (flow, station) = (self.flows.len() as u32, self.stations.len());
        let number = self.plan.clients + flow;
        let route = (self.topology.paths.len() + group) as u16;
        let mut config = plan.config(self.plan, &self.registry).map_err(below)?;
        let mut server = Endpoint::new(&format!("{name}.server"), seed);
        let ecn = self.plan.transport.ecn.server.mode();
        let listening = Config { ecn, ..config.clone() };
        server.listen(anywhere(plan.family, DATA_PORT), listening).expect("a port of its own");
        let server = Host::server(server, application::serve_across(plan));
        let reader = Reader::new(Session::new(number, start, duration));
        let mut client =
            Host::client(Endpoint::new(&format!("{name}.client"), seed), Box::new(reader));
        let (remote, local) = cross_addresses(plan.family, flow);
        config.candidates =
            vec![Candidate { address_id: 1, local, remote, backup: false, rate: None }];
        // Nothing is sent before the client is driven, which its start does.
        client.connect(start, config).map_err(|error| below(unconnected(error)))?;
        for (host, serves) in [(client, false), (server, true)] {
            let node = self.add_node(Node::Station(self.stations.len()));
            let place = Station::new(host, node, number, serves);
            self.stations.push(Station { route: Some(route), ..place });
        }
        self.schedule.set(self.stations[station].node, Some(start));
        let stop = duration.map(|span| start + span);
        if stop.is_some() {
            let cut = self.add_node(Node::Cut(flow));
            self.schedule.set(cut, stop);
        }
        let carries = Carries::Connection { client: station };
        self.flows.push(Flow { group, start, stop, carries, last_event: None, broken_at: None });
        Ok(())
    }

    /// The time of a flow is over: who sends, or would have sent, ends it.
    pub(super) fn cut_flow(&mut self, flow: u32) -> Result<(), RunError> {
        let flow = &self.flows[flow as usize];
        if flow.session(&self.stations).is_some_and(|session| session.finished) {
            return Ok(());
        }
        // A server that has not heard of it yet has nothing to end.
        let heard = flow.served(&self.stations).is_some();
        let sender = flow.client() + usize::from(heard);
        self.stations[sender].host.abort();
        self.drive(sender)
    }

    /// Notes that something happens to a flow, and a connection that ends before its time.
    pub(super) fn note_flow(&mut self, flow: u32) {
        let flow = &mut self.flows[flow as usize];
        flow.last_event = Some(self.now);
        let server_gone = flow.served(&self.stations).is_some_and(Connection::is_closed);
        let Some(session) = flow.session(&self.stations) else { return };
        let over = session.over || server_gone;
        if over && !session.finished && !flow.is_cut_off(self.now) {
            flow.broken_at.get_or_insert(self.now);
        }
    }

    /// A datagram has crossed its links.
    pub(super) fn arrive_datagram(&mut self, packet: &Packet) {
        let flow = (packet.host - self.plan.clients) as usize;
        if let (Load::Datagram(datagram), Some(source)) =
            (&packet.load, self.flows[flow].source_mut())
        {
            source.arrive(self.now, *datagram);
        }
    }

    /// A datagram was dropped by a link.
    #[cold]
    pub(super) fn lose_datagram(&mut self, packet: &Packet) {
        let flow = (packet.host - self.plan.clients) as usize;
        if let Some(source) = self.flows[flow].source_mut() {
            source.lost += 1;
        }
    }

    /// A flow that has something to do and does nothing for so long never will again.
    pub(super) fn check_flows(&self) -> Result<(), Violation> {
        let silent = |flow: &&Flow| flow.last_event.is_some_and(|at| self.now.since(at) > STALL);
        for flow in self.flows.iter().filter(silent) {
            if flow.end(&self.stations, self.now).0 == "running" {
                let at = flow.last_event.unwrap_or(flow.start);
                let at_ns = at.since(self.begin).as_nanos();
                return Err(Violation::Stalled { at_ns });
            }
        }
        Ok(())
    }

    /// One row a flow whose connection stands, as its server sees it.
    pub(super) fn sample_flows(&mut self) {
        for (index, flow) in self.flows.iter().enumerate() {
            let Some(connection) = flow.served(&self.stations) else { continue };
            for sample in connection.samples() {
                self.rows.cross_samples.push(CrossSampleRow {
                    t_s: self.seconds(self.now),
                    flow: index as i64,
                    name: &self.plan.cross_traffic[flow.group].name,
                    cwnd_segments: i64::from(sample.cwnd_segments),
                    ssthresh_segments: rows::threshold(sample.ssthresh_segments),
                    in_flight_segments: i64::from(sample.in_flight_segments),
                    srtt_ms: rows::ms(sample.srtt),
                    delivery_rate_mbps: sample.delivery_rate.bps() as f64 / 1e6,
                    bytes_acked: sample.totals.bytes_acked as i64,
                    retransmissions: sample.totals.retransmissions as i64,
                    state: sample.state.name(),
                });
            }
        }
    }

    /// One row a flow, when the run is over.
    pub(super) fn report_flows(&mut self) -> Result<(), PlanError> {
        for (index, flow) in self.flows.iter().enumerate() {
            let group = &self.plan.cross_traffic[flow.group];
            let (fate, end) = flow.end(&self.stations, self.now);
            let seconds = |at: Option<Instant>| at.map_or(f64::NAN, |at| self.seconds(at));
            let lasted = end.map_or(f64::NAN, |end| end.since(flow.start).as_secs_f64());
            let since = |at: Instant| at.since(flow.start).as_secs_f64();
            let session = flow.session(&self.stations);
            let connected = session.and_then(|session| session.connected_at);
            let connection = flow.served(&self.stations);
            let totals = connection.and_then(|c| c.summaries().next()).map(|s| s.totals);
            let totals = totals.unwrap_or_default();
            let source = match &flow.carries {
                Carries::Datagrams(source) => Some(&**source),
                Carries::Connection { .. } => None,
            };
            let bytes = source.map(Source::bytes).or(session.map(|session| session.bytes_read));
            let bytes = bytes.unwrap_or(0);
            let controller = group.controller()?.map_or("none".to_owned(), |own| own.to_string());
            let count = |of: fn(&Source) -> u64| source.map_or(0, |source| of(source) as i64);
            self.rows.cross_traffic.push(CrossRow {
                flow: index as i64,
                name: &group.name,
                congestion: &controller,
                start_s: self.seconds(flow.start),
                connect_s: connected.map_or(f64::NAN, since),
                end_s: seconds(end),
                fate,
                bytes_read: bytes as i64,
                goodput_mbps: if lasted > 0.0 { bytes as f64 * 8e-6 / lasted } else { f64::NAN },
                data_segments: totals.data_segments as i64,
                retransmissions: totals.retransmissions as i64,
                timeouts: totals.timeouts as i64,
                datagrams_sent: count(|source| source.sent),
                datagrams_delivered: count(|source| source.delivered),
                datagrams_lost: count(|source| source.lost),
                datagram_delay_ms: source.map_or(f64::NAN, Source::delay_ms),
            });
        }
        Ok(())
    }
}

/// How long after a transfer of a group the next one begins. A plan without a gap is refused where it is read.
fn next_arrival(plan: &CrossPlan, random: &mut RandomStream) -> Duration {
    let mean = plan.gap_ns.unwrap_or(1) as f64 * 1e-9;
    Duration::from_secs_f64(exponential(random, mean))
}
