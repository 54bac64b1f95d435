//! Where packets go: over links to the hosts, and from the hosts onto links.

use std::net::SocketAddr;

use anabranch_link::{Damage, DropReason, Fate};
use anabranch_plan::addresses::{client_address, cross_addresses, locate, server_address};
use anabranch_transport::FourTuple;
use anabranch_units::ByteCount;
use anabranch_wire::Segment;

use super::{RunError, World};
use crate::checks::Violation;
use crate::digest::mix;
use crate::flight::Flights;
use crate::topology::{Followed, Load, Packet};

/// Bytes of a TCP header without options.
const TCP_HEADER: u64 = 20;

impl World<'_> {
    #[inline(always)]
    pub(super) fn wake_medium(&mut self, medium: usize) -> Result<(), RunError> {
        while let Some((link, fate)) = self.topology.links.poll_fate(self.now, medium) {
            match fate {
                Fate::Delivered { mut packet, marked, copy, damage, .. } => {
                    let mut place = link as u64;
                    if marked || copy || damage.is_some() {
                        place |= u64::from(marked) << 16 | u64::from(copy) << 17;
                        self.alter(&mut packet, marked, copy);
                        place |= u64::from(self.damage(&mut packet, link, damage)) << 18;
                    }
                    self.note(place, &packet);
                    self.live(&packet);
                    packet.hop += 1;
                    self.forward(packet)?;
                }
                Fate::Dropped { mut packet, why, copy, .. } => {
                    if copy {
                        // It was not counted as under way yet.
                        packet.followed = None;
                    } else if let Load::Datagram(_) = packet.load {
                        self.lose_datagram(&packet);
                    }
                    let reason = match why {
                        DropReason::Down => 1,
                        DropReason::Loss => 2,
                        DropReason::QueueFull => 3,
                        DropReason::Aqm => 4,
                        DropReason::Corrupt => 5,
                    };
                    self.note((link as u64) << 8 | reason, &packet);
                    self.settle(&packet, false);
                    self.live(&packet);
                }
            }
            if let Some(until) = self.topology.links.quiet_until(self.now, medium) {
                self.schedule.set(medium, Some(until));
                return Ok(());
            }
        }
        self.schedule.set(medium, self.topology.links.poll_timeout(medium));
        Ok(())
    }

    /// Folds one packet's fate into the digest.
    pub(super) fn note(&mut self, place: u64, packet: &Packet) {
        let (numbers, rest) = match &packet.load {
            Load::Segment(segment) => (
                u64::from(segment.seq.0) << 32 | u64::from(segment.ack.0),
                (segment.payload.len() as u64) << 24
                    | u64::from(segment.window) << 8
                    | u64::from(segment.flags.0),
            ),
            Load::Datagram(datagram) => (datagram.number, packet.size),
        };
        let place = place << 32 | u64::from(packet.host);
        let words = [self.now.as_nanos(), place, numbers, rest];
        for word in words {
            self.digest = mix(self.digest, word);
        }
    }

    /// Puts a packet on a link.
    #[inline(always)]
    fn enter(&mut self, link: usize, packet: Box<Packet>) {
        if packet.size > self.topology.ways[link].mtu {
            self.refuse_large(link, packet);
            return;
        }
        let size = ByteCount(packet.size);
        let links = &mut self.topology.links;
        let (medium, eager) = links.enter(self.now, link, packet, size, |it| it.label());
        // A link that waits for a delivery already will not wake earlier for this one, unless it
        // shares its medium.
        if eager || !self.schedule.is_set(medium) {
            self.schedule.set(medium, self.topology.links.poll_timeout(medium));
        }
    }

    /// Puts a packet on its next link, or hands it to its host.
    pub(super) fn forward(&mut self, mut packet: Box<Packet>) -> Result<(), RunError> {
        let route = self.topology.routes[usize::from(packet.route)].links(packet.down);
        if let Some(&link) = route.get(usize::from(packet.hop)) {
            self.enter(link, packet);
            return Ok(());
        }
        if packet.followed.is_some() {
            let crosses = self.crosses(&packet);
            let path = usize::from(packet.route);
            self.settle(&packet, crosses || self.topology.interfaces.is_up(path));
            packet.followed = None;
        }
        let Load::Segment(segment) = &packet.load else {
            self.arrive_datagram(&packet);
            return Ok(());
        };
        let outcome = self.arrive(&packet, segment);
        self.spare.push(packet);
        outcome
    }

    /// A packet has crossed its links.
    fn arrive(&mut self, packet: &Packet, segment: &Segment) -> Result<(), RunError> {
        let station = self.station(packet.host, !packet.down);
        if !self.receive(packet, segment) {
            return Ok(());
        }
        let at = &mut self.stations[station];
        let handle = at.host.handle_segment(self.now, packet.tuple, segment);
        if let Some(handle) = handle
            && at.serves
            && handle.index() == at.flights.len()
        {
            at.flights.push(Flights::default());
            if at.route.is_none() {
                self.served.push(packet.host);
            }
        }
        self.drive(station)
    }

    /// Whether a packet gets from its last link to its host: an interface that is down does not let it pass.
    #[inline(always)]
    fn receive(&mut self, packet: &Packet, segment: &Segment) -> bool {
        if !packet.down || self.crosses(packet) {
            return true;
        }
        let path = usize::from(packet.route);
        if !self.topology.interfaces.is_up(path) {
            self.stations[packet.host as usize].refused += 1;
            return false;
        }
        let FourTuple { local: client, remote: server } = &packet.tuple;
        if let Some(capture) = &mut self.capture {
            capture.packet(path, self.now, server.ip(), client.ip(), segment);
        }
        if self.record.is_some() {
            self.record_arrival(*client, server.port(), segment);
        }
        true
    }

    /// The addresses of the server and the client of a packet from one port to another.
    #[inline(always)]
    pub(super) fn ends(
        &self,
        host: u32,
        route: u16,
        down: bool,
        (source, destination): (u16, u16),
    ) -> (SocketAddr, SocketAddr) {
        let path = usize::from(route);
        let family = self.topology.routes[path].family;
        if path >= self.topology.paths.len() {
            return cross_addresses(family, host - self.plan.clients);
        }
        let (server, own) = if down { (source, destination) } else { (destination, source) };
        let mut client = client_address(family, path, host, 0);
        client.set_port(own);
        (server_address(family, path, server), client)
    }

    /// The packet just written; another blank takes its place.
    pub(super) fn written(&mut self) -> Box<Packet> {
        std::mem::replace(&mut self.blank, self.spare.pop().unwrap_or_default())
    }

    /// Sends a packet of a client's connection on the path of its addresses.
    #[inline(always)]
    pub(super) fn send_on_path(
        &mut self,
        mut packet: Box<Packet>,
        tuple: &FourTuple,
    ) -> Result<(), RunError> {
        let down = packet.down;
        let (path, client) = locate(if down { tuple.remote } else { tuple.local });
        self.stations[client as usize].last_event = self.now;
        if !down && !self.topology.interfaces.is_up(usize::from(path)) {
            // The host has no route: the packet never leaves it. The host may still give up after a time.
            self.stations[client as usize].refused += 1;
            self.spare.push(packet);
            return Ok(());
        }
        if let Some(capture) = self.capture.as_mut().filter(|_| !down) {
            let (source, destination) = (tuple.local.ip(), tuple.remote.ip());
            capture.packet(usize::from(path), self.now, source, destination, packet.segment());
        }
        self.topology.paths[usize::from(path)].strips_mptcp.strip(packet.segment_mut());
        packet.host = client;
        packet.route = u16::from(path);
        self.launch(packet)
    }

    /// Puts a packet with its segment on the first link of its route.
    #[inline(always)]
    pub(super) fn launch(&mut self, mut packet: Box<Packet>) -> Result<(), RunError> {
        let segment = packet.segment();
        let options = segment.options_len();
        if options > 40 {
            return Err(Violation::OptionSpace { bytes: options }.into());
        }
        let route = &self.topology.routes[usize::from(packet.route)];
        packet.size =
            route.ip_header() + TCP_HEADER + options as u64 + segment.payload.len() as u64;
        packet.hop = 0;
        match route.links(packet.down).first() {
            Some(&link) => self.enter(link, packet),
            None => self.forward(packet)?,
        }
        Ok(())
    }

    /// Whether a packet is one of cross traffic.
    pub(super) fn crosses(&self, packet: &Packet) -> bool {
        usize::from(packet.route) >= self.topology.paths.len()
    }

    /// A packet was marked on its link, or was made there of another.
    #[cold]
    fn alter(&mut self, packet: &mut Packet, marked: bool, copy: bool) {
        if marked {
            packet.mark();
        }
        if let Some(Followed { connection, subflow, number }) = packet.followed
            && copy
            && !self.flights_of(packet, connection).copy(subflow, number)
        {
            packet.followed = None;
        }
    }

    /// A packet's payload is changed on a link, if it has one: true when it was.
    #[cold]
    fn damage(&mut self, packet: &mut Packet, link: usize, damage: Option<Damage>) -> bool {
        let changed = damage.is_some_and(|damage| packet.damage(damage));
        self.topology.ways[link].changed += u64::from(changed);
        changed
    }

    /// The flights that a packet is counted in.
    #[inline(always)]
    fn flights_of(&mut self, packet: &Packet, connection: u32) -> &mut Flights {
        let sender = self.station(packet.host, packet.down);
        &mut self.stations[sender].flights[connection as usize]
    }

    /// A packet leaves the links: one of a sender's data is not under way any more.
    #[inline(always)]
    pub(super) fn settle(&mut self, packet: &Packet, arrived: bool) {
        let Some(Followed { connection, subflow, number }) = packet.followed else { return };
        self.flights_of(packet, connection).settle(subflow, number, arrived);
    }

    /// Records the time of a packet's delivery or loss: its client or background flow does not stand still. A client's
    /// packets are recorded when they are sent, too ([`Self::send_on_path`]).
    #[inline(always)]
    pub(super) fn live(&mut self, packet: &Packet) {
        if let Load::Segment(_) = packet.load {
            let client = self.station(packet.host, false);
            self.stations[client].last_event = self.now;
        }
    }
}
