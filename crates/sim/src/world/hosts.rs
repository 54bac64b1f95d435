//! Hosts: sends their segments and schedules their next timeouts.

use anabranch_host::Host;
use anabranch_mptcp::{ConnectError, Outgoing};
use anabranch_network::Journey;
use anabranch_plan::PlanError;
use anabranch_plan::addresses::served_at;
use anabranch_plan::endpoints::config;
use anabranch_units::Instant;

use super::{RunError, World};
use crate::checks::Violation;
use crate::flight::Flights;

/// A host with its state in the simulation.
pub(super) struct Station {
    pub(super) host: Host,
    /// The host's entry in the schedule.
    pub(super) node: usize,
    /// The number in the packets of a client or a background flow. Background flows have the numbers after
    /// the last client. Packets of the server have the number of their client.
    pub(super) number: u32,
    /// Whether the host is a server, so that its packets use the downlink.
    pub(super) serves: bool,
    /// The route of the packets of a background flow. For clients and the server it is `None`: their packets
    /// are routed by address.
    pub(super) route: Option<u16>,
    /// The segments in flight of each connection of a server, indexed by handle. An entry is kept until the
    /// run is over.
    pub(super) flights: Vec<Flights>,
    /// The number of ports that a client has used.
    pub(super) ports: u16,
    /// The number of packets that a client did not send because its interface was down.
    pub(super) refused: u64,
    /// Whether the session of a client has ended, or no event can occur for it any longer.
    pub(super) over: bool,
    /// For a client or the client of a flow: the last time at which one of its packets was sent, delivered or
    /// lost. Zero before the first packet.
    pub(super) last_event: Instant,
    /// The film time at the last check of a silent client. `None` before the first check.
    pub(super) film_position: Option<f64>,
}

impl Station {
    pub(super) fn new(host: Host, node: usize, number: u32, serves: bool) -> Self {
        Self {
            host,
            node,
            number,
            serves,
            route: None,
            flights: Vec::new(),
            ports: 0,
            refused: 0,
            over: false,
            last_event: Instant::ZERO,
            film_position: None,
        }
    }
}

impl World<'_> {
    /// Returns the station of a client or a background flow. If `serves` is true, the station of the server.
    #[inline]
    pub(super) fn station(&self, number: u32, serves: bool) -> usize {
        let (number, clients) = (number as usize, self.plan.clients as usize);
        match number.checked_sub(clients) {
            None if serves => clients,
            None => number,
            Some(flow) => self.pair(flow as u32).client() + usize::from(serves),
        }
    }

    pub(super) fn wake_station(&mut self, station: usize) -> Result<(), RunError> {
        let Station { host, serves, .. } = &mut self.stations[station];
        // A server runs the timers of one connection at a time, so that no connection waits for segments of
        // another.
        while host.handle_timeout(self.now) && !*serves {}
        self.drive(station)
    }

    /// Sends all segments that a host has to send: first those of its connections, then those of its
    /// applications, then those caused by them. The reply to a segment is sent before the application runs
    /// (`tcp_ack_snd_check`). The segments allowed by the reply are sent before the application writes more.
    // One function, so that the functions that it calls have a single caller and the compiler inlines them.
    #[inline(never)]
    pub(super) fn drive(&mut self, station: usize) -> Result<(), RunError> {
        loop {
            let at = &mut self.stations[station];
            let segment = self.blank.segment_mut();
            if let Some(sent) = at.host.poll_transmit_into(self.now, segment) {
                self.send(station, &sent)?;
            } else if at.host.needs_connection() {
                self.open_connection(station)?;
            } else {
                break;
            }
        }
        let Station { host, node, serves, route, .. } = &mut self.stations[station];
        self.schedule.set(*node, host.poll_timeout());
        if !*serves || route.is_some() { self.account(station) } else { Ok(()) }
    }

    /// Records the results after a host has sent its segments.
    #[inline]
    fn account(&mut self, station: usize) -> Result<(), RunError> {
        let Station { host, number, route, over, .. } = &mut self.stations[station];
        if let Some(fault) = host.fault() {
            return Err(Violation::from(fault).into());
        }
        if route.is_some() {
            let flow = *number - self.plan.clients;
            self.note_flow(flow);
            return Ok(());
        }
        if self.plan.application.kind.is_http() {
            host.tell(&mut self.rows);
        }
        if !*over && host.session().is_some_and(|session| session.over) {
            *over = true;
            self.unfinished -= 1;
        }
        Ok(())
    }

    #[cold]
    fn open_connection(&mut self, station: usize) -> Result<(), RunError> {
        let mut config = config(self.plan, &self.registry)?;
        let at = &mut self.stations[station];
        let number = at.ports;
        at.ports += 1;
        let port = served_at(self.plan.application.kind);
        config.candidates = self.network.interfaces().candidates(at.number, number, port);
        let fault = |error| unconnected(error).at("transport");
        at.host.connect(self.now, config).map_err(fault)?;
        Ok(())
    }

    /// Sends a packet of a host.
    // A separate function that takes a reference, so that the addresses are copied only once.
    #[inline(never)]
    fn send(&mut self, station: usize, sent: &Outgoing) -> Result<(), RunError> {
        let at = &mut self.stations[station];
        let (serves, number, route) = (at.serves, at.number, at.route);
        let mut followed = None;
        if serves && let Some(handle) = sent.connection {
            let connection = at.host.endpoint().connection(handle);
            let flights = &mut at.flights[handle.index()];
            followed = flights.depart(self.now, connection, self.blank.segment())?;
        }
        if self.record.is_some() {
            self.record_departure(station, sent);
        }
        let mut packet = self.written();
        // Each field is assigned separately, which avoids building and copying a whole value.
        packet.tuple.local = sent.tuple.remote;
        packet.tuple.remote = sent.tuple.local;
        if serves && let Some(handle) = sent.connection {
            packet.follow(handle.index(), followed);
        }
        if let Some(route) = route {
            (packet.host, packet.journey) = (number, Journey::new(route, serves));
        } else if !self.put_on_path(&mut packet, serves, &sent.tuple) {
            self.spare.push(packet);
            return Ok(());
        }
        self.launch(packet)
    }
}

/// Returns the error of a plan whose connection cannot be opened.
pub(super) fn unconnected(error: ConnectError) -> PlanError {
    match error {
        ConnectError::Plugin(error) => error.into(),
        error => unreachable!("every connection has ports of its own: {error}"),
    }
}
