//! Packets between the network and the hosts, and records of their fates.

use std::net::SocketAddr;

use anabranch_link::DropReason;
use anabranch_mptcp::FourTuple;
use anabranch_network::{Due, Journey, Onward, Passage};
use anabranch_plan::addresses::{client_address, cross_addresses, locate, server_address};
use anabranch_wire::Segment;

use super::{RunError, World};
use crate::checks::Violation;
use crate::digest::mix;
use crate::flight::Flights;
use crate::packet::{Followed, Load, Packet};

/// Length of a TCP header without options, bytes.
const TCP_HEADER: u64 = 20;

impl World<'_> {
    #[inline]
    pub(super) fn wake_medium(&mut self, medium: usize) -> Result<(), RunError> {
        while let Some(passage) = self.network.poll_medium(self.now, medium) {
            match passage {
                Passage::Passed { link, mut packet, marked, copy, changed } => {
                    let mut place = link as u64;
                    if marked || copy || changed {
                        place |= u64::from(marked) << 16
                            | u64::from(copy) << 17
                            | u64::from(changed) << 18;
                        self.follow_copy(&mut packet, copy);
                    }
                    self.note(place, &packet);
                    self.live(&packet);
                    let onward = self.network.forward(self.now, packet);
                    self.proceed(onward)?;
                }
                Passage::Dropped { link, mut packet, why, copy } => {
                    if copy {
                        // The copy is not counted in flight yet.
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
                    self.settle_lost(&packet);
                    self.live(&packet);
                }
            }
            if let Some(until) = self.network.quiet_until(self.now, medium) {
                self.schedule.set(medium, Some(until));
                return Ok(());
            }
        }
        self.schedule.set(medium, self.network.due_at(Due::Medium(medium)));
        Ok(())
    }

    /// Adds the fate of a packet to the digest.
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

    /// Handles the result of sending or forwarding a packet.
    // A run of 20 MB calls it 28,262 times.
    #[inline(always)]
    pub(super) fn proceed(&mut self, onward: Onward<Box<Packet>>) -> Result<(), RunError> {
        match onward {
            Onward::Entered { medium, eager } => {
                // The medium is already scheduled for a delivery. Another packet makes it wake earlier only
                // if links share it.
                if eager || !self.schedule.is_set(medium) {
                    self.schedule.set(medium, self.network.due_at(Due::Medium(medium)));
                }
                Ok(())
            }
            Onward::Arrived(packet) => self.arrive(packet),
            Onward::Refused(mut packet) => {
                self.settle_lost(&packet);
                packet.followed = None;
                self.stations[packet.host as usize].refused += 1;
                self.spare.push(packet);
                Ok(())
            }
            Onward::Blocked(packet) => {
                self.live(&packet);
                self.spare.push(packet);
                Ok(())
            }
            Onward::TooLarge { link, packet } => {
                self.drop_large(link, packet);
                Ok(())
            }
        }
    }

    /// Delivers a packet to the host at the end of its route.
    fn arrive(&mut self, mut packet: Box<Packet>) -> Result<(), RunError> {
        if let Some(Followed { connection, subflow, number }) = packet.followed.take() {
            self.flights_of(&packet, connection).settle(subflow, number, true);
        }
        let Load::Segment(segment) = &packet.load else {
            self.arrive_datagram(&packet);
            return Ok(());
        };
        let outcome = self.receive(&packet, segment);
        self.spare.push(packet);
        outcome
    }

    fn receive(&mut self, packet: &Packet, segment: &Segment) -> Result<(), RunError> {
        let station = self.station(packet.host, !packet.journey.is_down());
        self.record_receipt(packet, segment);
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

    /// Captures a segment that arrives at a host, and records one that arrives at a client.
    #[inline]
    fn record_receipt(&mut self, packet: &Packet, segment: &Segment) {
        if (self.capture.is_none() && self.record.is_none()) || self.crosses(packet) {
            return;
        }
        let down = packet.journey.is_down();
        let FourTuple { local, remote } = &packet.tuple;
        if let Some(capture) = self.capture.as_mut().filter(|capture| capture.sees_arrival(down)) {
            let path = packet.journey.route();
            capture.packet(path, self.now, remote.ip(), local.ip(), segment);
        }
        if down && self.record.is_some() {
            self.record_arrival(*local, remote.port(), segment);
        }
    }

    /// Returns the addresses of the server and the client of a packet, from its ports.
    #[inline]
    pub(super) fn ends(
        &self,
        host: u32,
        journey: Journey,
        (source, destination): (u16, u16),
    ) -> (SocketAddr, SocketAddr) {
        let path = journey.route();
        let family = self.network.route(path).family;
        if self.network.is_crossing(path) {
            return cross_addresses(family, host - self.plan.clients);
        }
        let (server, own) =
            if journey.is_down() { (source, destination) } else { (destination, source) };
        let mut client = client_address(family, path, host, 0);
        client.set_port(own);
        (server_address(family, path, server), client)
    }

    /// Returns the packet into which a segment was written, and replaces it by an empty packet.
    pub(super) fn written(&mut self) -> Box<Packet> {
        std::mem::replace(&mut self.blank, self.spare.pop().unwrap_or_default())
    }

    /// Chooses the path for a packet of a client's connection by its addresses. Returns false if the client has no
    /// route.
    #[inline]
    pub(super) fn put_on_path(
        &mut self,
        packet: &mut Packet,
        down: bool,
        tuple: &FourTuple,
    ) -> bool {
        let (path, client) = locate(if down { tuple.remote } else { tuple.local });
        self.stations[client as usize].last_event = self.now;
        if !down && !self.network.passes(usize::from(path)) {
            // The host has no route, so it does not send the packet. Its connection may still be given up
            // after a time.
            self.stations[client as usize].refused += 1;
            return false;
        }
        if let Some(capture) = self.capture.as_mut().filter(|file| file.sees_departure(down)) {
            let (source, destination) = (tuple.local.ip(), tuple.remote.ip());
            capture.packet(usize::from(path), self.now, source, destination, packet.segment());
        }
        packet.host = client;
        packet.journey = Journey::new(u16::from(path), down);
        true
    }

    /// Sends a packet with a segment on the first link of its route.
    #[inline]
    pub(super) fn launch(&mut self, mut packet: Box<Packet>) -> Result<(), RunError> {
        let segment = packet.segment();
        let options = segment.options_len();
        if options > 40 {
            return Err(Violation::OptionSpace { bytes: options }.into());
        }
        let header = self.network.route(packet.journey.route()).ip_header();
        packet.size = header + TCP_HEADER + options as u64 + segment.payload.len() as u64;
        let onward = self.network.send(self.now, packet);
        self.proceed(onward)
    }

    /// Returns whether a packet belongs to a background flow.
    pub(super) fn crosses(&self, packet: &Packet) -> bool {
        self.network.is_crossing(packet.journey.route())
    }

    /// Counts a copy made by a link as another packet of its segment.
    #[cold]
    fn follow_copy(&mut self, packet: &mut Packet, copy: bool) {
        if let Some(Followed { connection, subflow, number }) = packet.followed
            && copy
            && !self.flights_of(packet, connection).copy(subflow, number)
        {
            packet.followed = None;
        }
    }

    /// Returns the segments in flight of the connection to which a packet belongs.
    #[inline]
    fn flights_of(&mut self, packet: &Packet, connection: u32) -> &mut Flights {
        let sender = self.station(packet.host, packet.journey.is_down());
        &mut self.stations[sender].flights[connection as usize]
    }

    /// Records that a packet with data was dropped.
    #[cold]
    pub(super) fn settle_lost(&mut self, packet: &Packet) {
        let Some(Followed { connection, subflow, number }) = packet.followed else { return };
        self.flights_of(packet, connection).settle(subflow, number, false);
    }

    /// Records the time of a packet's delivery or loss for the client or background flow. Packets of clients
    /// are also recorded when they are sent ([`Self::put_on_path`]).
    #[inline]
    pub(super) fn live(&mut self, packet: &Packet) {
        if let Load::Segment(_) = packet.load {
            let client = self.station(packet.host, false);
            self.stations[client].last_event = self.now;
        }
    }
}
