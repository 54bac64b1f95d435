//! Background flows: plain TCP between two separate hosts, or datagrams, over links that clients may also
//! use.
//!
//! A run does not wait for background flows to end. Only packets of clients count as progress of the run.

use anabranch_host::Host;
use anabranch_network::crossing::{Aborts, Beginning, CrossFlow, FlowDue, beginnings};
use anabranch_plan::PlanError;

use super::hosts::Station;
use super::{Node, RunError, World};
use crate::packet::{Datagram, Load, Packet};

/// The stations of the two hosts of a TCP flow: a client that reads, and a server that sends. `client` is the
/// index of the client's station. The server's station has the next index.
pub(super) struct Pair {
    client: usize,
    /// Whether a standstill of this flow has been recorded.
    stands: bool,
}

impl Pair {
    /// Returns the station of the client.
    #[inline]
    pub(super) fn client(&self) -> usize {
        self.client
    }

    /// Returns the station of the client, unless a standstill of the flow has been recorded.
    pub(super) fn moving(&self) -> Option<usize> {
        (!self.stands).then_some(self.client)
    }

    /// Records a standstill of the flow.
    pub(super) fn note_standstill(&mut self) {
        self.stands = true;
    }

    fn hosts<'s>(&self, stations: &'s [Station]) -> [&'s Host; 2] {
        [&stations[self.client].host, &stations[self.client + 1].host]
    }
}

impl World<'_> {
    /// Returns the hosts of a TCP flow.
    #[inline]
    pub(super) fn pair(&self, flow: u32) -> &Pair {
        match self.flows.ends(flow) {
            Some(pair) => pair,
            None => unreachable!("datagrams have no hosts"),
        }
    }

    /// Adds all flows of the plan to the schedule. Each is due at its start.
    pub(super) fn add_flows(&mut self) -> Result<(), PlanError> {
        for beginning in beginnings(self.plan, self.begin) {
            match beginning {
                Beginning::Connection(flow, name) => self.add_flow(flow, &name)?,
                Beginning::Datagrams(flow, source) => {
                    let due = self.flows.add_datagrams(flow, source);
                    self.add_flow_node(due);
                }
                Beginning::Arrivals(arrivals, first) => {
                    let due = self.flows.add_arrivals(*arrivals, first);
                    self.add_flow_node(due);
                }
            }
        }
        Ok(())
    }

    fn add_flow_node(&mut self, due: FlowDue) {
        let node = self.add_node(Node::Flow(due));
        self.schedule.set(node, self.flows.due_at(due));
    }

    /// Adds a TCP flow.
    fn add_flow(&mut self, flow: CrossFlow, name: &str) -> Result<(), PlanError> {
        let (number, client) = (self.flows.next_number(), self.stations.len());
        let route = self.network.crossing(flow.group);
        for (host, serves) in self.flows.hosts(&flow, name)?.into_iter().zip([false, true]) {
            let node = self.add_node(Node::Station(self.stations.len()));
            let place = Station::new(host, node, self.plan.clients + number, serves);
            self.stations.push(Station { route: Some(route), ..place });
        }
        self.schedule.set(self.stations[client].node, Some(flow.start));
        if let Some(due) = self.flows.add_connection(flow, Pair { client, stands: false }) {
            self.add_flow_node(due);
        }
        Ok(())
    }

    /// Handles an event of a background flow that is due.
    pub(super) fn wake_flow(&mut self, due: FlowDue) -> Result<(), RunError> {
        match due {
            FlowDue::Transfer(place) => {
                if let Some((flow, name)) = self.flows.begin_transfer(place, self.now) {
                    self.add_flow(flow, &name)?;
                }
                Ok(())
            }
            FlowDue::End(flow) => self.end_flow(flow),
            FlowDue::Datagram(flow) => self.send_datagram(flow),
        }
    }

    /// Ends a TCP flow whose time is over.
    fn end_flow(&mut self, flow: u32) -> Result<(), RunError> {
        let client = self.pair(flow).client();
        let Self { flows, stations, .. } = self;
        let station = match flows.end(flow, |pair| pair.hosts(stations)) {
            Some(Aborts::Client) => client,
            Some(Aborts::Server) => client + 1,
            None => return Ok(()),
        };
        stations[station].host.abort();
        self.drive(station)
    }

    /// Records an event of a TCP flow. If its connection has ended early, that is recorded too.
    pub(super) fn note_flow(&mut self, flow: u32) {
        let Self { flows, stations, now, .. } = self;
        flows.note(flow, *now, |pair| pair.hosts(stations));
    }

    /// Sends the next datagram of a flow.
    fn send_datagram(&mut self, flow: u32) -> Result<(), RunError> {
        let Some(sent) = self.flows.send_datagram(flow, self.now) else { return Ok(()) };
        let datagram = Datagram { number: sent.number, sent: self.now };
        let (host, route) = (self.plan.clients + flow, self.network.crossing(sent.group));
        let packet = Packet::datagram(datagram, sent.size, host, route);
        let onward = self.network.send(self.now, packet);
        self.proceed(onward)
    }

    /// Counts a datagram that has crossed its links.
    pub(super) fn arrive_datagram(&mut self, packet: &Packet) {
        if let Load::Datagram(datagram) = &packet.load {
            self.flows.arrive(packet.host - self.plan.clients, self.now, datagram.sent);
        }
    }

    /// Counts a datagram that was dropped by a link or a router.
    #[cold]
    pub(super) fn lose_datagram(&mut self, packet: &Packet) {
        self.flows.lose(packet.host - self.plan.clients);
    }

    /// Adds one row for each flow whose server has a connection.
    pub(super) fn sample_flows(&mut self) {
        let t_s = self.seconds(self.now);
        let Self { flows, stations, rows, .. } = self;
        flows.sample(t_s, |pair| pair.hosts(stations), rows);
    }

    /// Adds one row for each flow at the end of the run.
    pub(super) fn report_flows(&mut self) -> Result<(), PlanError> {
        let Self { flows, stations, rows, now, .. } = self;
        flows.report(*now, |pair| pair.hosts(stations), rows)
    }
}
