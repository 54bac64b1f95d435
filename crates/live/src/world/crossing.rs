//! Background flows between real packets: hosts of our own, and sources of datagrams, inside the emulator. Their packets
//! go over the plan's links among those of the client, and nobody else hears of them.

use anabranch_host::Host;
use anabranch_network::crossing::{
    Arrivals, Beginning, CrossFlow, Source, Witnesses, beginnings, hosts,
};
use anabranch_plan::addresses::{cross_addresses, locate};
use anabranch_plan::{Plan, PlanError};
use anabranch_plugin::Registry;
use anabranch_trace::Rows;
use anabranch_transport::{FourTuple, earliest};
use anabranch_units::Instant;
use anabranch_wire::{EmitError, emit_packet, parse_packet};
use bytes::Bytes;

use crate::header::datagram;
use crate::icmp::{self, Heard};
use crate::network::Datagram;

/// What a background flow consists of.
enum Carries {
    /// A client that reads, and a server that sends.
    Connection([Box<Host>; 2]),
    /// A source, and when its next datagram leaves.
    Datagrams(Box<Source>, Option<Instant>),
}

/// One background flow.
struct Flow {
    /// When it begins and ends.
    life: CrossFlow,
    carries: Carries,
    /// It was ended because its time was over.
    cut: bool,
}

/// A packet for a group's route.
pub(super) struct Sent {
    /// The group of the plan.
    pub(super) group: usize,
    /// It goes to the flow's client.
    pub(super) down: bool,
    /// The datagram that it is, if it is one.
    pub(super) datagram: Option<Datagram>,
}

/// All of them.
pub(super) struct Crossing<'a> {
    plan: &'a Plan,
    registry: Registry,
    begin: Instant,
    flows: Vec<Flow>,
    /// Groups whose flows begin as the run goes on, and when the next one does.
    arrivals: Vec<(Arrivals, Option<Instant>)>,
}

impl Flow {
    fn new(life: CrossFlow, carries: Carries) -> Self {
        Self { life, carries, cut: false }
    }

    fn has_begun(&self, now: Instant) -> bool {
        now >= self.life.start
    }

    /// Who knows of it.
    fn witnesses(&self) -> Witnesses<'_> {
        match &self.carries {
            Carries::Connection([client, server]) => Witnesses::of(client, server),
            Carries::Datagrams(source, _) => {
                Witnesses { source: Some(&**source), ..Witnesses::default() }
            }
        }
    }

    /// Something happens to it.
    fn note(&mut self, now: Instant) {
        match &self.carries {
            Carries::Connection([client, server]) => {
                self.life.note(now, Witnesses::of(client, server));
            }
            Carries::Datagrams(..) => self.life.last_event = Some(now),
        }
    }

    /// Time has come.
    fn handle_timeout(&mut self, now: Instant) {
        if !self.has_begun(now) {
            return;
        }
        let over = self.life.is_cut_off(now) && !self.cut;
        let Carries::Connection([client, server]) = &mut self.carries else { return };
        for host in [&mut *client, &mut *server] {
            while host.handle_timeout(now) {}
        }
        if over {
            self.cut = true;
            let Witnesses { session, connection, .. } = Witnesses::of(client, server);
            if session.is_some_and(|session| session.finished) {
                return;
            }
            // Who sends, or would have sent, ends it; a server that has not heard of it yet has nothing to end.
            let sender = if connection.is_some() { server } else { client };
            sender.abort();
        }
    }

    fn poll_timeout(&mut self, now: Instant) -> Option<Instant> {
        if !self.has_begun(now) || self.life.last_event.is_none() {
            return Some(self.life.start);
        }
        let cut = self.life.stop.filter(|_| !self.cut);
        match &mut self.carries {
            Carries::Connection([client, server]) => {
                earliest(earliest(client.poll_timeout(), server.poll_timeout()), cut)
            }
            Carries::Datagrams(_, next) => *next,
        }
    }
}

impl<'a> Crossing<'a> {
    /// Those of a plan.
    ///
    /// # Errors
    /// Names that no profile, part of one or plug-in has.
    pub(super) fn new(
        plan: &'a Plan,
        registry: &Registry,
        begin: Instant,
    ) -> Result<Self, PlanError> {
        let registry = registry.clone();
        let mut all = Self { plan, registry, begin, flows: Vec::new(), arrivals: Vec::new() };
        for beginning in beginnings(plan, begin) {
            match beginning {
                Beginning::Connection(flow, name) => all.add(flow, &name)?,
                Beginning::Datagrams(flow, source) => {
                    let first = Some(flow.start);
                    all.flows.push(Flow::new(flow, Carries::Datagrams(source, first)));
                }
                Beginning::Arrivals(arrivals, first) => all.arrivals.push((*arrivals, Some(first))),
            }
        }
        Ok(all)
    }

    fn add(&mut self, flow: CrossFlow, name: &str) -> Result<(), PlanError> {
        let number = self.flows.len() as u32;
        let ends = hosts(self.plan, &self.registry, &flow, (number, name))?;
        self.flows.push(Flow::new(flow, Carries::Connection(ends.map(Box::new))));
        Ok(())
    }

    /// Time has come.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub(super) fn handle_timeout(&mut self, now: Instant) -> Result<(), PlanError> {
        for place in 0..self.arrivals.len() {
            while let (arrivals, Some(at)) = &mut self.arrivals[place]
                && *at <= now
            {
                let (start, group) = (*at, arrivals.group);
                let next = arrivals.next(self.plan, start);
                self.arrivals[place].1 = next.as_ref().map(|(_, at)| *at);
                if let Some((name, _)) = next {
                    self.add(CrossFlow::new(group, start, None), &name)?;
                }
            }
        }
        for flow in &mut self.flows {
            flow.handle_timeout(now);
        }
        Ok(())
    }

    /// Input: a packet has crossed its links, or a router's word of one that was too large has come back. Its
    /// receiver may keep a slice of it.
    pub(super) fn handle_packet(&mut self, now: Instant, down: bool, bytes: &Bytes) {
        if let Ok(packet) = parse_packet(bytes) {
            let tuple = FourTuple::of_receiver(&packet);
            if let Some((host, flow)) = self.host(tuple, down) {
                host.handle_segment(now, tuple, &packet.segment);
                self.flows[flow].note(now);
            }
        } else if let Some(Heard::PathMtu { tuple, mtu, seq }) = icmp::hear(bytes)
            && let Some((host, _)) = self.host(tuple, down)
        {
            host.handle_path_mtu(now, tuple, mtu, seq);
        }
    }

    /// The client of a flow (`down`) or its server, by the addresses that it sends between.
    fn host(&mut self, tuple: FourTuple, down: bool) -> Option<(&mut Host, usize)> {
        let (_, flow) = locate(if down { tuple.local } else { tuple.remote });
        let Carries::Connection([client, server]) = &mut self.flows.get_mut(flow as usize)?.carries
        else {
            return None;
        };
        Some((if down { client } else { server }, flow as usize))
    }

    /// Input: a datagram has come out at the end of its links.
    pub(super) fn arrive(&mut self, now: Instant, datagram: Datagram) {
        if let Some(source) = self.source(datagram) {
            source.arrive(now, datagram.sent);
        }
    }

    /// Input: a link has dropped a datagram.
    pub(super) fn lose(&mut self, datagram: Datagram) {
        if let Some(source) = self.source(datagram) {
            source.lost += 1;
        }
    }

    fn source(&mut self, datagram: Datagram) -> Option<&mut Source> {
        match &mut self.flows.get_mut(datagram.flow as usize)?.carries {
            Carries::Datagrams(source, _) => Some(source),
            Carries::Connection(_) => None,
        }
    }

    /// Output: the next packet of any flow, written to `packet`; `None` when there is none before something else is
    /// handed in.
    ///
    /// # Errors
    /// A segment that cannot stand on the wire: a defect of our endpoint.
    pub(super) fn poll_transmit(
        &mut self,
        now: Instant,
        packet: &mut Vec<u8>,
    ) -> Result<Option<Sent>, EmitError> {
        for (number, at) in self.flows.iter_mut().enumerate() {
            if !at.has_begun(now) {
                continue;
            }
            let Flow { life, carries, .. } = at;
            let group = life.group;
            match carries {
                Carries::Connection([client, server]) => {
                    let asked = client.poll_transmit(now).map(|sent| (sent, false));
                    let sent = asked.or_else(|| Some((server.poll_transmit(now)?, true)));
                    let Some((sent, down)) = sent else { continue };
                    emit_packet(sent.local.ip(), sent.remote.ip(), &sent.segment, packet)?;
                    at.note(now);
                    return Ok(Some(Sent { group, down, datagram: None }));
                }
                Carries::Datagrams(source, next) => {
                    let Some(due) = next.filter(|due| *due <= now) else { continue };
                    life.last_event = Some(now);
                    if life.is_cut_off(due) {
                        *next = None;
                        continue;
                    }
                    *next = Some(source.send(life.start, due));
                    let family = self.plan.cross_traffic[group].family;
                    let (server, client) = cross_addresses(family, number as u32);
                    datagram((server, client), source.size() as usize, packet);
                    let datagram = Some(Datagram { flow: number as u32, sent: now });
                    return Ok(Some(Sent { group, down: true, datagram }));
                }
            }
        }
        Ok(None)
    }

    /// When [`Self::handle_timeout`] is to be called; to be asked once [`Self::poll_transmit`] has no more to give.
    pub(super) fn poll_timeout(&mut self, now: Instant) -> Option<Instant> {
        let arrivals = self.arrivals.iter().filter_map(|(_, at)| *at).min();
        let flows = self.flows.iter_mut().filter_map(|flow| flow.poll_timeout(now)).min();
        earliest(arrivals, flows)
    }

    /// One row a flow whose connection stands.
    pub(super) fn sample(&self, t_s: f64, rows: &mut Rows) {
        for (index, flow) in self.flows.iter().enumerate() {
            flow.life.sample(self.plan, t_s, index, flow.witnesses(), rows);
        }
    }

    /// One row a flow, when the run is over.
    ///
    /// # Errors
    /// A controller that no plug-in's name is.
    pub(super) fn report(&self, now: Instant, rows: &mut Rows) -> Result<(), PlanError> {
        for (index, flow) in self.flows.iter().enumerate() {
            flow.life.report(self.plan, (self.begin, now), index, flow.witnesses(), rows)?;
        }
        Ok(())
    }
}
