//! Hosts and how they are driven: each sends its segments and names the time of its next timeout.

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

/// A host in its place.
pub(super) struct Station {
    pub(super) host: Host,
    /// Its node of the schedule.
    pub(super) node: usize,
    /// Whose packets it sends: a client's, or those of a flow of cross traffic, counted on behind the last
    /// client. The server's are its clients'.
    pub(super) number: u32,
    /// It is a server: its packets go down.
    pub(super) serves: bool,
    /// The route of a flow's packets; those of clients and the server follow their addresses.
    pub(super) route: Option<u16>,
    /// The data in flight of each connection of a server, indexed by handle. No entry is freed before
    /// the run is over.
    pub(super) flights: Vec<Flights>,
    /// Ports that a client has used.
    pub(super) ports: u16,
    /// Packets that a client's downed interface did not let pass.
    pub(super) refused: u64,
    /// A client's session is known to be over, or nothing can happen to it any more.
    pub(super) over: bool,
    /// Of a client or a flow's client: the last time at which a packet from or to it was sent, delivered or lost; zero
    /// before.
    pub(super) last_event: Instant,
    /// The film time at the last check of a client that is silent; `None` before.
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
    /// The station of a client or a flow, at its client's or its server's end.
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
        // One connection of a server per turn: no connection waits for the segments of another one.
        while host.handle_timeout(self.now) && !*serves {}
        self.drive(station)
    }

    /// Sends all that a host has to send: first its connections, then its applications, then the segments
    /// that these caused. The reply to a segment is sent before the application runs
    /// (`tcp_ack_snd_check`), and the segments that it allows leave before the application writes more.
    // Joined to its callers: nearly always it is a segment's arrival that calls for it.
    // A run of 20 MB calls it 28,294 times.
    #[inline(always)]
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

    /// Records the results of a host that was driven.
    // A run of 20 MB calls it 14,410 times.
    #[inline(always)]
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

    /// Puts what a host has to say on its way.
    // Apart, and by reference: the addresses are copied once.
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
        // One assignment per field: a single value would first be built elsewhere and then copied.
        packet.tuple.local = sent.tuple.remote;
        packet.tuple.remote = sent.tuple.local;
        if serves && let Some(handle) = sent.connection {
            packet.follow(handle.index(), followed);
        }
        match route {
            None => self.send_on_path(packet, serves, &sent.tuple),
            Some(route) => {
                (packet.host, packet.journey) = (number, Journey::new(route, serves));
                self.launch(packet)
            }
        }
    }
}

/// The fault of a plan whose connection cannot be opened.
pub(super) fn unconnected(error: ConnectError) -> PlanError {
    match error {
        ConnectError::Plugin(error) => error.into(),
        error => unreachable!("every connection has ports of its own: {error}"),
    }
}
