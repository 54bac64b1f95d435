//! Background TCP flows: plain TCP between two hosts of their own, over links that clients may use.
//!
//! Each flow has both its endpoints to itself, so that neither its keys nor its sequence numbers are
//! drawn from a stream that a client's connection draws from. Nobody waits for it: a run ends with
//! its clients, and only their packets are signs of life.

use anabranch_trace::{CrossRow, CrossSampleRow};
use anabranch_transport::path_manager::Candidate;
use anabranch_transport::{Config, ConnectionHandle, Endpoint, FourTuple, earliest};
use anabranch_units::{Duration, Instant, Seed, SeqNumber};

use super::{Node, RunError, STALL, World};
use crate::application::{Client, Serving};
use crate::checks::Violation;
use crate::fault::PlanError;
use crate::flight::Flights;
use crate::plan::CrossPlan;
use crate::topology::{DATA_PORT, Packet, anywhere, cross_addresses};

/// The one connection of a flow's endpoint, if it has it yet.
fn only(endpoint: &Endpoint) -> Option<ConnectionHandle> {
    endpoint.connections().next().map(|(handle, _)| handle)
}

/// One background flow: a server that sends and a client that reads.
pub(super) struct Flow {
    /// Which group of the plan it is of.
    group: usize,
    start: Instant,
    /// When it is cut off.
    stop: Option<Instant>,
    client: Endpoint,
    /// The client's connection.
    handle: ConnectionHandle,
    server: Endpoint,
    reader: Client,
    sender: Serving,
    client_node: usize,
    server_node: usize,
    /// When anything last happened to it; `None` before its start.
    last_event: Option<Instant>,
    /// When its connection ended with bytes left to read.
    broken_at: Option<Instant>,
    /// What its server has under way.
    pub(super) flights: Flights,
}

impl Flow {
    /// Its time is over.
    fn is_cut_off(&self, now: Instant) -> bool {
        self.stop.is_some_and(|stop| now >= stop)
    }

    /// How it ended, in a word, and when.
    fn end(&self, now: Instant) -> (&'static str, Option<Instant>) {
        if self.last_event.is_none() {
            ("unstarted", None)
        } else if self.reader.finished {
            ("finished", self.reader.finished_at)
        } else if self.broken_at.is_some() {
            ("broken", self.broken_at)
        } else if self.is_cut_off(now) {
            ("stopped", self.stop)
        } else {
            ("running", Some(now))
        }
    }

    /// It goes on, with something left to do.
    fn is_running(&self, now: Instant) -> bool {
        self.end(now).0 == "running"
    }

    /// Notes that something happens to it, and a connection that ends before its time.
    fn note(&mut self, now: Instant) {
        self.last_event = Some(now);
        let served = self.server.connections().next();
        let server_gone = served.is_some_and(|(_, connection)| connection.is_closed());
        let over = self.reader.over || server_gone;
        if over && !self.reader.finished && !self.is_cut_off(now) {
            self.broken_at.get_or_insert(now);
        }
    }
}

impl World<'_> {
    /// Adds every flow of the plan, each to be woken at its start.
    pub(super) fn add_flows(&mut self) -> Result<(), PlanError> {
        let seed = Seed { seed: self.plan.seed, run: self.plan.run };
        for (index, group) in self.plan.cross_traffic.iter().enumerate() {
            for (number, start) in group.starts(seed).into_iter().enumerate() {
                self.add_flow(index, group, &format!("cross.{}.{number}", group.name), start)?;
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
        let flow = self.flows.len() as u32;
        let below = |error: PlanError| error.at_element("cross_traffic", group);
        let mut config = plan.config(self.plan, &self.registry).map_err(below)?;
        let mut server = Endpoint::new(&format!("{name}.server"), seed);
        let ecn = self.plan.transport.ecn.server.mode();
        let listening = Config { ecn, ..config.clone() };
        server.listen(anywhere(plan.family, DATA_PORT), listening).expect("a port of its own");
        let (remote, local) = cross_addresses(plan.family, flow);
        config.candidates =
            vec![Candidate { address_id: 1, local, remote, backup: false, rate: None }];
        let mut client = Endpoint::new(&format!("{name}.client"), seed);
        // Nothing is sent before the client is driven, which its start does.
        let opened = client.connect(start, config);
        let handle = opened.map_err(|error| below(super::hosts::unconnected(error)))?;
        let client_node = self.add_node(Node::CrossClient(flow));
        let server_node = self.add_node(Node::CrossServer(flow));
        self.schedule.set(client_node, Some(start));
        let stop = plan.duration_ns.map(|span| start + Duration::from_nanos(span));
        self.schedule.set(server_node, stop);
        self.flows.push(Flow {
            group,
            start,
            stop,
            client,
            handle,
            server,
            reader: Client::reader(self.plan.clients + flow, start, plan.duration_ns),
            sender: Serving::across(plan),
            client_node,
            server_node,
            last_event: None,
            broken_at: None,
            flights: Flights::default(),
        });
        Ok(())
    }

    pub(super) fn wake_cross_client(&mut self, flow: u32) -> Result<(), RunError> {
        while self.flows[flow as usize].client.handle_timeout(self.now).is_some() {}
        self.drive_cross_client(flow)
    }

    pub(super) fn wake_cross_server(&mut self, flow: u32) -> Result<(), RunError> {
        let hosts = &mut self.flows[flow as usize];
        if hosts.server.is_empty() {
            // Its time is over, and the server has not heard of it yet.
            hosts.client.connection_mut(hosts.handle).abort();
            self.schedule.set(hosts.server_node, None);
            return self.drive_cross_client(flow);
        }
        while hosts.server.handle_timeout(self.now).is_some() {}
        self.drive_cross_server(flow)
    }

    /// A packet of a flow has crossed its links.
    pub(super) fn arrive_across(&mut self, packet: &Packet) -> Result<(), RunError> {
        let flow = packet.host - self.plan.clients;
        let hosts = &mut self.flows[flow as usize];
        let family = self.plan.cross_traffic[hosts.group].family;
        let (server, client) = cross_addresses(family, flow);
        if packet.down {
            let tuple = FourTuple { local: client, remote: server };
            hosts.client.handle_segment(self.now, tuple, &packet.segment);
            self.drive_cross_client(flow)
        } else {
            let tuple = FourTuple { local: server, remote: client };
            hosts.server.handle_segment(self.now, tuple, &packet.segment);
            self.drive_cross_server(flow)
        }
    }

    /// News of the path's MTU for one side of a flow.
    pub(super) fn tell_across(
        &mut self,
        flow: u32,
        down: bool,
        mtu: u32,
        seq: SeqNumber,
    ) -> Result<(), RunError> {
        let (now, hosts) = (self.now, &mut self.flows[flow as usize]);
        let family = self.plan.cross_traffic[hosts.group].family;
        let (server, client) = cross_addresses(family, flow);
        if down {
            let tuple = FourTuple { local: server, remote: client };
            hosts.server.handle_path_mtu(now, tuple, mtu, seq);
            self.drive_cross_server(flow)
        } else {
            let tuple = FourTuple { local: client, remote: server };
            hosts.client.handle_path_mtu(now, tuple, mtu, seq);
            self.drive_cross_client(flow)
        }
    }

    fn drive_cross_client(&mut self, flow: u32) -> Result<(), RunError> {
        let hosts = &mut self.flows[flow as usize];
        let connection = hosts.client.connection_mut(hosts.handle);
        hosts.reader.drive(self.now, Some(connection), &mut self.rows)?;
        hosts.note(self.now);
        self.send_across(flow, false)?;
        let hosts = &mut self.flows[flow as usize];
        self.schedule.set(hosts.client_node, hosts.client.poll_timeout());
        Ok(())
    }

    fn drive_cross_server(&mut self, flow: u32) -> Result<(), RunError> {
        let hosts = &mut self.flows[flow as usize];
        let Some(served) = only(&hosts.server) else {
            return self.send_across(flow, true);
        };
        let cut_off = hosts.is_cut_off(self.now) && !hosts.reader.finished;
        let connection = hosts.server.connection_mut(served);
        if !cut_off {
            hosts.sender.drive(self.now, connection);
        } else if !connection.is_closed() {
            connection.abort();
        }
        hosts.note(self.now);
        self.send_across(flow, true)?;
        let hosts = &mut self.flows[flow as usize];
        let mut wake = hosts.server.poll_timeout();
        if !hosts.server.connection(served).is_closed() && !cut_off {
            let stop = hosts.stop.filter(|stop| *stop > self.now);
            wake = earliest(wake, earliest(hosts.sender.poll_timeout(), stop));
        }
        self.schedule.set(hosts.server_node, wake);
        Ok(())
    }

    /// Sends what one end of a flow has to send.
    fn send_across(&mut self, flow: u32, down: bool) -> Result<(), RunError> {
        loop {
            let hosts = &mut self.flows[flow as usize];
            let group = hosts.group;
            let mut followed = None;
            let endpoint = if down { &mut hosts.server } else { &mut hosts.client };
            let segment = &mut self.blank.segment;
            let Some(sent) = endpoint.poll_transmit_into(self.now, segment) else { return Ok(()) };
            if let Some(handle) = sent.connection.filter(|_| down) {
                let connection = endpoint.connection(handle);
                followed = hosts.flights.depart(self.now, connection, segment)?;
            }
            let mut packet = self.written();
            packet.follow(0, followed);
            packet.host = self.plan.clients + flow;
            packet.route = (self.topology.paths.len() + group) as u16;
            packet.down = down;
            self.launch(packet)?;
        }
    }

    /// A flow that has something to do and does nothing for so long never will again.
    pub(super) fn check_flows(&self) -> Result<(), Violation> {
        let silent = |flow: &&Flow| flow.last_event.is_some_and(|at| self.now.since(at) > STALL);
        for flow in self.flows.iter().filter(silent) {
            if flow.is_running(self.now) {
                let at_ns = flow.last_event.unwrap_or(flow.start).as_nanos();
                return Err(Violation::Stalled { at_ns });
            }
        }
        Ok(())
    }

    /// One row a flow whose connection stands, as its server sees it.
    pub(super) fn sample_flows(&mut self) {
        for (index, flow) in self.flows.iter().enumerate() {
            let Some((_, connection)) = flow.server.connections().next() else { continue };
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
            let (fate, end) = flow.end(self.now);
            let seconds = |at: Option<Instant>| at.map_or(f64::NAN, Instant::as_secs_f64);
            let lasted = end.map_or(f64::NAN, |end| end.since(flow.start).as_secs_f64());
            let since = |at: Instant| at.since(flow.start).as_secs_f64();
            let bytes = flow.reader.bytes_read;
            let connection = flow.server.connections().next();
            let totals = connection.and_then(|(_, c)| c.summaries().next()).map(|s| s.totals);
            let totals = totals.unwrap_or_default();
            self.rows.cross_traffic.push(CrossRow {
                flow: index as i64,
                name: &group.name,
                congestion: &group.controller()?.to_string(),
                start_s: flow.start.as_secs_f64(),
                connect_s: flow.reader.connect.map_or(f64::NAN, since),
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
