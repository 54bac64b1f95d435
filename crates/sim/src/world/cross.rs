//! Background TCP flows: plain TCP between two hosts of their own, over links that clients may use.
//!
//! Each flow has both its endpoints to itself, so that neither its keys nor its sequence numbers are
//! drawn from a stream that a client's connection draws from. Nobody waits for it: a run ends with
//! its clients, and only their packets are signs of life.

use anabranch_host::{Host, Reader, Session};
use anabranch_trace::{CrossRow, CrossSampleRow};
use anabranch_transport::path_manager::Candidate;
use anabranch_transport::{Config, Connection, Endpoint};
use anabranch_units::{Duration, Instant, Seed};

use super::hosts::{Station, unconnected};
use super::{Node, RunError, STALL, World};
use crate::application;
use crate::checks::Violation;
use crate::fault::PlanError;
use crate::plan::CrossPlan;
use crate::topology::{DATA_PORT, anywhere, cross_addresses};

/// One background flow: a server that sends and a client that reads.
pub(super) struct Flow {
    /// Which group of the plan it is of.
    group: usize,
    start: Instant,
    /// When it is cut off.
    stop: Option<Instant>,
    /// The station of its client; its server's is the next.
    client: usize,
    /// When anything last happened to it; `None` before its start.
    last_event: Option<Instant>,
    /// When its connection ended with bytes left to read.
    broken_at: Option<Instant>,
}

impl Flow {
    /// Its connection as its server has it, if that has heard of it.
    fn served<'a>(&self, stations: &'a [Station]) -> Option<&'a Connection> {
        let endpoint = stations[self.client + 1].host.endpoint();
        endpoint.connections().next().map(|(_, connection)| connection)
    }

    /// What its client has measured.
    fn session<'a>(&self, stations: &'a [Station]) -> &'a Session {
        stations[self.client].host.session().expect("every client has one")
    }

    /// Its time is over.
    fn is_cut_off(&self, now: Instant) -> bool {
        self.stop.is_some_and(|stop| now >= stop)
    }

    /// How it ended, in a word, and when.
    fn end(&self, session: &Session, now: Instant) -> (&'static str, Option<Instant>) {
        if self.last_event.is_none() {
            ("unstarted", None)
        } else if session.finished {
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
        let seed = Seed { seed: self.plan.seed, run: self.plan.run };
        for (index, group) in self.plan.cross_traffic.iter().enumerate() {
            for (number, start) in group.starts(seed).into_iter().enumerate() {
                let name = format!("cross.{}.{number}", group.name);
                let below = |error: PlanError| error.at_element("cross_traffic", index);
                self.add_flow(index, group, &name, start).map_err(below)?;
            }
        }
        Ok(())
    }

    fn add_flow(
        &mut self,
        group: usize,
        plan: &CrossPlan,
        name: &str,
        start: Instant,
    ) -> Result<(), PlanError> {
        let seed = Seed { seed: self.plan.seed, run: self.plan.run };
        let (flow, station) = (self.flows.len() as u32, self.stations.len());
        let number = self.plan.clients + flow;
        let route = (self.topology.paths.len() + group) as u16;
        let duration = plan.duration_ns.map(Duration::from_nanos);
        let mut config = plan.config(self.plan, &self.registry)?;
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
        client.connect(start, config).map_err(unconnected)?;
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
        let (last_event, broken_at) = (None, None);
        self.flows.push(Flow { group, start, stop, client: station, last_event, broken_at });
        Ok(())
    }

    /// The time of a flow is over: who sends, or would have sent, ends it.
    pub(super) fn cut_flow(&mut self, flow: u32) -> Result<(), RunError> {
        let flow = &self.flows[flow as usize];
        if flow.session(&self.stations).finished {
            return Ok(());
        }
        // A server that has not heard of it yet has nothing to end.
        let heard = flow.served(&self.stations).is_some();
        let sender = flow.client + usize::from(heard);
        self.stations[sender].host.abort();
        self.drive(sender)
    }

    /// Notes that something happens to a flow, and a connection that ends before its time.
    pub(super) fn note_flow(&mut self, flow: u32) {
        let flow = &mut self.flows[flow as usize];
        flow.last_event = Some(self.now);
        let server_gone = flow.served(&self.stations).is_some_and(Connection::is_closed);
        let session = flow.session(&self.stations);
        let over = session.over || server_gone;
        if over && !session.finished && !flow.is_cut_off(self.now) {
            flow.broken_at.get_or_insert(self.now);
        }
    }

    /// A flow that has something to do and does nothing for so long never will again.
    pub(super) fn check_flows(&self) -> Result<(), Violation> {
        let silent = |flow: &&Flow| flow.last_event.is_some_and(|at| self.now.since(at) > STALL);
        for flow in self.flows.iter().filter(silent) {
            if flow.end(flow.session(&self.stations), self.now).0 == "running" {
                let at_ns = flow.last_event.unwrap_or(flow.start).as_nanos();
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
                    t_s: self.now.as_secs_f64(),
                    flow: index as i64,
                    name: &self.plan.cross_traffic[flow.group].name,
                    cwnd_segments: i64::from(sample.cwnd_segments),
                    ssthresh_segments: super::sampling::threshold(sample.ssthresh_segments),
                    in_flight_segments: i64::from(sample.in_flight_segments),
                    srtt_ms: super::sampling::ms(sample.srtt),
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
            let session = flow.session(&self.stations);
            let (fate, end) = flow.end(session, self.now);
            let seconds = |at: Option<Instant>| at.map_or(f64::NAN, Instant::as_secs_f64);
            let lasted = end.map_or(f64::NAN, |end| end.since(flow.start).as_secs_f64());
            let since = |at: Instant| at.since(flow.start).as_secs_f64();
            let bytes = session.bytes_read;
            let connection = flow.served(&self.stations);
            let totals = connection.and_then(|c| c.summaries().next()).map(|s| s.totals);
            let totals = totals.unwrap_or_default();
            self.rows.cross_traffic.push(CrossRow {
                flow: index as i64,
                name: &group.name,
                congestion: &group.controller()?.to_string(),
                start_s: flow.start.as_secs_f64(),
                connect_s: session.connected_at.map_or(f64::NAN, since),
                end_s: seconds(end),
                fate,
                bytes_read: bytes as i64,
                goodput_mbps: if lasted > 0.0 { bytes as f64 * 8e-6 / lasted } else { f64::NAN },
                data_segments: totals.data_segments as i64,
                retransmissions: totals.retransmissions as i64,
                timeouts: totals.timeouts as i64,
            });
        }
        Ok(())
    }
}
