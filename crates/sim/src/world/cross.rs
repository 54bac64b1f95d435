//! Background flows: plain TCP between two hosts of their own, or datagrams, over links that clients may use.
//!
//! Nobody waits for them: a run ends with its clients, and only their packets are signs of life.

use anabranch_host::Session;
use anabranch_network::crossing::{
    Arrivals, Beginning, CrossFlow, Source, Witnesses, beginnings, hosts,
};
use anabranch_plan::PlanError;
use anabranch_units::Instant;

use super::hosts::Station;
use super::{Node, RunError, World};
use crate::topology::{Datagram, Load, Packet};

/// What a background flow consists of.
enum Carries {
    /// A client that reads, at this station, and a server that sends, at the next one.
    Connection {
        client: usize,
    },
    Datagrams {
        source: Box<Source>,
        node: usize,
    },
}

/// One background flow.
pub(super) struct Flow {
    life: CrossFlow,
    carries: Carries,
    /// It is known to stand still.
    pub(super) stands: bool,
}

impl Flow {
    /// The station of its client.
    #[inline(always)]
    pub(super) fn client(&self) -> usize {
        match &self.carries {
            Carries::Connection { client } => *client,
            Carries::Datagrams { .. } => unreachable!("datagrams go between no hosts"),
        }
    }

    /// The station of its client; `None` if it sends datagrams.
    pub(super) fn connects(&self) -> Option<usize> {
        match &self.carries {
            Carries::Connection { client } => Some(*client),
            Carries::Datagrams { .. } => None,
        }
    }

    /// When it begins.
    pub(super) fn start(&self) -> Instant {
        self.life.start
    }

    /// Returns whether it has begun and is not done.
    pub(super) fn is_running(&self, session: Option<&Session>, now: Instant) -> bool {
        self.life.end(session, now).0 == "running"
    }

    /// The source of its datagrams, if that is what it is made of.
    fn source_mut(&mut self) -> Option<&mut Source> {
        match &mut self.carries {
            Carries::Connection { .. } => None,
            Carries::Datagrams { source, .. } => Some(&mut **source),
        }
    }

    /// Who knows of it.
    fn witnesses<'a>(&'a self, stations: &'a [Station]) -> Witnesses<'a> {
        match &self.carries {
            Carries::Connection { client } => {
                Witnesses::of(&stations[*client].host, &stations[client + 1].host)
            }
            Carries::Datagrams { source, .. } => {
                Witnesses { source: Some(&**source), ..Witnesses::default() }
            }
        }
    }
}

impl World<'_> {
    /// Adds every flow of the plan, each to be woken at its start.
    pub(super) fn add_flows(&mut self) -> Result<(), PlanError> {
        for beginning in beginnings(self.plan, self.begin) {
            match beginning {
                Beginning::Connection(flow, name) => self.add_flow(flow, &name)?,
                Beginning::Datagrams(flow, source) => self.add_datagrams(flow, source),
                Beginning::Arrivals(arrivals, first) => {
                    let node = self.add_node(Node::Arrivals(self.arrivals.len()));
                    self.schedule.set(node, Some(first));
                    self.arrivals.push(*arrivals);
                }
            }
        }
        Ok(())
    }

    /// The next transfer of a group whose flows begin as the run goes on.
    pub(super) fn begin_transfer(&mut self, node: usize, number: usize) -> Result<(), RunError> {
        let arrivals: &mut Arrivals = &mut self.arrivals[number];
        let Some((name, next)) = arrivals.next(self.plan, self.now) else {
            self.schedule.set(node, None);
            return Ok(());
        };
        let flow = CrossFlow::new(arrivals.group, self.now, None);
        self.schedule.set(node, Some(next));
        self.add_flow(flow, &name)?;
        Ok(())
    }

    /// The route of a group's packets.
    fn crossing(&self, group: usize) -> u16 {
        (self.topology.paths.len() + group) as u16
    }

    /// A flow of datagrams.
    fn add_datagrams(&mut self, flow: CrossFlow, source: Box<Source>) {
        let node = self.add_node(Node::Datagram(self.flows.len() as u32));
        self.schedule.set(node, Some(flow.start));
        self.flows.push(Flow {
            life: flow,
            carries: Carries::Datagrams { source, node },
            stands: false,
        });
    }

    /// A TCP flow.
    fn add_flow(&mut self, flow: CrossFlow, name: &str) -> Result<(), PlanError> {
        let (number, station) = (self.flows.len() as u32, self.stations.len());
        let route = self.crossing(flow.group);
        let [client, server] = hosts(self.plan, &self.registry, &flow, (number, name))?;
        for (host, serves) in [(client, false), (server, true)] {
            let node = self.add_node(Node::Station(self.stations.len()));
            let place = Station::new(host, node, self.plan.clients + number, serves);
            self.stations.push(Station { route: Some(route), ..place });
        }
        self.schedule.set(self.stations[station].node, Some(flow.start));
        if flow.stop.is_some() {
            let cut = self.add_node(Node::Cut(number));
            self.schedule.set(cut, flow.stop);
        }
        self.flows.push(Flow {
            life: flow,
            carries: Carries::Connection { client: station },
            stands: false,
        });
        Ok(())
    }

    /// The time of a flow is over: who sends, or would have sent, ends it.
    pub(super) fn cut_flow(&mut self, flow: u32) -> Result<(), RunError> {
        let flow = &self.flows[flow as usize];
        let Witnesses { session, connection, .. } = flow.witnesses(&self.stations);
        if session.is_some_and(|session| session.finished) {
            return Ok(());
        }
        // A server that has not heard of it yet has nothing to end.
        let sender = flow.client() + usize::from(connection.is_some());
        self.stations[sender].host.abort();
        self.drive(sender)
    }

    /// Notes that something happens to a flow, and a connection that ends before its time.
    pub(super) fn note_flow(&mut self, flow: u32) {
        let Self { flows, stations, now, .. } = self;
        let Flow { life, carries, .. } = &mut flows[flow as usize];
        if let Carries::Connection { client } = carries {
            let witnesses = Witnesses::of(&stations[*client].host, &stations[*client + 1].host);
            life.note(*now, witnesses);
        }
    }

    /// It is time for a flow's next datagram.
    pub(super) fn send_datagram(&mut self, flow: u32) -> Result<(), RunError> {
        let now = self.now;
        let Flow { life: at, carries, .. } = &mut self.flows[flow as usize];
        at.last_event = Some(now);
        let Carries::Datagrams { source, node } = carries else { return Ok(()) };
        if at.is_cut_off(now) {
            self.schedule.set(*node, None);
            return Ok(());
        }
        let next = source.send(at.start, now);
        self.schedule.set(*node, Some(next));
        let datagram = Datagram { number: source.sent, sent: now };
        let (size, host, group) = (source.size(), self.plan.clients + flow, at.group);
        self.forward(Packet::datagram(datagram, size, host, self.crossing(group)))
    }

    /// A datagram has crossed its links.
    pub(super) fn arrive_datagram(&mut self, packet: &Packet) {
        let flow = (packet.host - self.plan.clients) as usize;
        if let (Load::Datagram(datagram), Some(source)) =
            (&packet.load, self.flows[flow].source_mut())
        {
            source.arrive(self.now, datagram.sent);
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

    /// One row a flow whose connection stands, as its server sees it.
    pub(super) fn sample_flows(&mut self) {
        let t_s = self.seconds(self.now);
        let Self { plan, flows, stations, rows, .. } = self;
        for (index, flow) in flows.iter().enumerate() {
            flow.life.sample(plan, t_s, index, flow.witnesses(stations), rows);
        }
    }

    /// One row a flow, when the run is over.
    pub(super) fn report_flows(&mut self) -> Result<(), PlanError> {
        let Self { plan, flows, stations, rows, begin, now, .. } = self;
        for (index, flow) in flows.iter().enumerate() {
            let witnesses = flow.witnesses(stations);
            flow.life.report(plan, (*begin, *now), index, witnesses, rows)?;
        }
        Ok(())
    }
}
