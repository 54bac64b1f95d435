//! Where packets go: over links to the hosts, and from the hosts onto links.

use anabranch_link::{DropReason, Fate};
use anabranch_transport::FourTuple;
use anabranch_units::ByteCount;

use super::{RunError, World};
use crate::application::Serving;
use crate::checks::Violation;
use crate::digest::mix;
use crate::flight::Flights;
use crate::topology::{Followed, Packet, Path, client_address, locate, server_address};

/// Bytes of a TCP header without options.
const TCP_HEADER: u64 = 20;

impl World<'_> {
    pub(super) fn wake_medium(&mut self, medium: usize) -> Result<(), RunError> {
        while let Some((link, fate)) = self.topology.links.poll_fate(self.now, medium) {
            match fate {
                Fate::Delivered { mut packet, marked, copy, .. } => {
                    let mut place = link as u64;
                    if marked || copy {
                        place |= u64::from(marked) << 16 | u64::from(copy) << 17;
                        self.alter(&mut packet, marked, copy);
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
        }
        self.schedule.set(medium, self.topology.links.poll_timeout(medium));
        Ok(())
    }

    /// Folds one packet's fate into the digest.
    pub(super) fn note(&mut self, place: u64, packet: &Packet) {
        let segment = &packet.segment;
        let words = [
            self.now.as_nanos(),
            place << 32 | u64::from(packet.host),
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
    pub(super) fn forward(&mut self, mut packet: Box<Packet>) -> Result<(), RunError> {
        let route = self.topology.routes[usize::from(packet.route)].links(packet.down);
        if let Some(&link) = route.get(usize::from(packet.hop)) {
            if packet.size > self.topology.ways[link].mtu {
                self.refuse_large(link, packet);
                return Ok(());
            }
            let size = ByteCount(packet.size);
            let links = &mut self.topology.links;
            let (medium, eager) = links.enter(self.now, link, packet, size, |it| it.label());
            // A link that waits for a delivery already will not wake earlier for this one, unless it
            // shares its medium.
            if eager || !self.schedule.is_set(medium) {
                self.schedule.set(medium, self.topology.links.poll_timeout(medium));
            }
            return Ok(());
        }
        if packet.followed.is_some() {
            let crosses = self.crosses(&packet);
            let path = usize::from(packet.route);
            self.settle(&packet, crosses || self.topology.paths[path].interface.up);
            packet.followed = None;
        }
        let outcome = if self.crosses(&packet) {
            self.arrive_across(&packet)
        } else if packet.down {
            self.arrive_at_client(&packet)
        } else {
            self.arrive_at_server(&packet)
        };
        self.spare.push(packet);
        outcome
    }

    pub(super) fn arrive_at_client(&mut self, packet: &Packet) -> Result<(), RunError> {
        let &Packet { ref segment, host: client, route: path, .. } = packet;
        let path = usize::from(path);
        let &Path { family, ref interface, .. } = &self.topology.paths[path];
        if !interface.up {
            self.hosts[client as usize].refused += 1;
            return Ok(());
        }
        let server = server_address(family, path, segment.source_port);
        let mut local = client_address(family, path, client, 0);
        local.set_port(segment.destination_port);
        if let Some(capture) = &mut self.capture {
            capture.packet(path, self.now, server.ip(), local.ip(), segment);
        }
        let tuple = FourTuple { local, remote: server };
        self.hosts[client as usize].endpoint.handle_segment(self.now, tuple, segment);
        self.drive_client(client)
    }

    pub(super) fn arrive_at_server(&mut self, packet: &Packet) -> Result<(), RunError> {
        let &Packet { ref segment, host: client, route: path, .. } = packet;
        let path = usize::from(path);
        let family = self.topology.paths[path].family;
        let mut remote = client_address(family, path, client, 0);
        remote.set_port(segment.source_port);
        let local = server_address(family, path, segment.destination_port);
        let tuple = FourTuple { local, remote };
        let handle = self.server.handle_segment(self.now, tuple, segment);
        let Some(handle) = handle else {
            return self.drive_server();
        };
        if handle.index() == self.serving.len() {
            self.served_by.push(handle);
            self.serving.push(Serving::new(self.plan, &self.media));
            self.flights.push(Flights::default());
            self.serving_nodes.push(None);
            self.served.push(client);
        }
        self.drive_serving(handle.index())
    }

    /// The packet just written; another blank takes its place.
    pub(super) fn written(&mut self) -> Box<Packet> {
        std::mem::replace(&mut self.blank, self.spare.pop().unwrap_or_default())
    }

    /// Sends a packet of a client's connection on the path of its addresses.
    #[inline(always)]
    pub(super) fn send(
        &mut self,
        mut packet: Box<Packet>,
        tuple: FourTuple,
        down: bool,
    ) -> Result<(), RunError> {
        let (path, client) = locate(if down { tuple.remote } else { tuple.local });
        if !down && !self.topology.paths[usize::from(path)].interface.up {
            // The host has no route: the packet never leaves it.
            self.hosts[client as usize].refused += 1;
            self.spare.push(packet);
            return Ok(());
        }
        if let Some(capture) = self.capture.as_mut().filter(|_| !down) {
            let (source, destination) = (tuple.local.ip(), tuple.remote.ip());
            capture.packet(usize::from(path), self.now, source, destination, &packet.segment);
        }
        if self.topology.paths[usize::from(path)].strips_mptcp {
            packet.segment.dss = None;
            packet.segment.mptcp.clear();
        }
        packet.host = client;
        packet.route = u16::from(path);
        packet.down = down;
        self.launch(packet)
    }

    /// Puts a packet with its segment on the first link of its route.
    #[inline(always)]
    pub(super) fn launch(&mut self, mut packet: Box<Packet>) -> Result<(), RunError> {
        let segment = &packet.segment;
        let options = segment.options_len();
        if options > 40 {
            return Err(Violation::OptionSpace { bytes: options }.into());
        }
        let ip_header = self.topology.routes[usize::from(packet.route)].ip_header();
        packet.size = ip_header + TCP_HEADER + options as u64 + segment.payload.len() as u64;
        packet.hop = 0;
        self.forward(packet)
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

    /// The flights that a packet is counted in.
    #[inline(always)]
    fn flights_of(&mut self, packet: &Packet, connection: u32) -> &mut Flights {
        match self.flows.get_mut((packet.host as usize).wrapping_sub(self.clients.len())) {
            Some(flow) => &mut flow.flights,
            None => &mut self.flights[connection as usize],
        }
    }

    /// A packet leaves the links: one of a sender's data is not under way any more.
    #[inline(always)]
    pub(super) fn settle(&mut self, packet: &Packet, arrived: bool) {
        let Some(Followed { connection, subflow, number }) = packet.followed else { return };
        self.flights_of(packet, connection).settle(subflow, number, arrived);
    }

    /// Something happened to a client's packet: its world does not stand still. Cross traffic, which
    /// may go on for ever, says nothing of that.
    pub(super) fn live(&mut self, packet: &Packet) {
        if !self.crosses(packet) {
            self.last_event = self.now;
        }
    }
}
