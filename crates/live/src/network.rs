//! Real packets in the network of a plan, sans-IO. Time is an argument, so tests need no device.

use std::collections::VecDeque;

use anabranch_link::{Damage, Label, Queued};
use anabranch_network::{
    self as network, Due, EndpointNews, Happened, Interfaces, Journey, Onward,
};
use anabranch_network::{InterfaceChange, Passage, Router};
use anabranch_plan::addresses::router_address;
use anabranch_plan::{Plan, PlanError, StripsPlan, is_mptcp_syn};
use anabranch_trace::Rows;
use anabranch_units::{ByteCount, Instant};
use anabranch_wire::{Segment, emit_packet, parse_packet};
use bytes::Bytes;

use crate::{header, icmp};

/// The largest number of free buffers that are kept.
const SPARE: usize = 4096;

/// A datagram of a background flow. On the wire, only its size and its addresses exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// The number of the flow, from 0.
    pub flow: u32,
    /// The time at which the datagram was sent.
    pub sent: Instant,
}

/// A packet that is in the network.
#[derive(Clone, Debug)]
struct Packet {
    bytes: Vec<u8>,
    journey: Journey,
    datagram: Option<Datagram>,
}

impl Packet {
    /// Rewrites the packet with a modified segment and new checksums. Returns whether `change` modified the
    /// segment.
    fn rewrite(&mut self, change: impl FnOnce(&mut Segment) -> bool) -> bool {
        let Ok(mut packet) = parse_packet(&Bytes::copy_from_slice(&self.bytes)) else {
            return false;
        };
        let mut bytes = Vec::with_capacity(self.bytes.len());
        let changed = change(&mut packet.segment)
            && emit_packet(packet.source, packet.destination, &packet.segment, &mut bytes).is_ok();
        if changed {
            self.bytes = bytes;
        }
        changed
    }
}

impl network::Packet for Packet {
    /// An ICMP packet.
    type Notice = Self;

    fn journey(&self) -> Journey {
        self.journey
    }

    fn journey_mut(&mut self) -> &mut Journey {
        &mut self.journey
    }

    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn label(&self) -> Label {
        Label {
            size: ByteCount(self.bytes.len() as u64),
            flow: header::flow(&self.bytes),
            ect: header::is_ect(&self.bytes),
        }
    }

    fn mark(&mut self) {
        header::mark(&mut self.bytes);
    }

    fn damage(&mut self, damage: Damage) -> bool {
        self.rewrite(|segment| {
            let mut payload = segment.payload.to_vec();
            let changed = damage.apply(&mut payload);
            segment.payload = payload.into();
            changed
        })
    }

    fn strip(&mut self, kinds: StripsPlan) -> bool {
        self.rewrite(|segment| kinds.strip(segment))
    }

    fn is_mptcp_syn(&self) -> bool {
        let packet = parse_packet(&Bytes::copy_from_slice(&self.bytes));
        packet.is_ok_and(|packet| is_mptcp_syn(&packet.segment))
    }

    fn notice(&self, router: Router) -> Option<Self> {
        if self.datagram.is_some() {
            return None;
        }
        let address = router_address(router.family, router.route);
        let bytes = icmp::too_large(&self.bytes, address, router.mtu)?;
        let journey = Journey::new(router.route as u16, !self.journey.is_down());
        Some(Self { bytes, journey, datagram: None })
    }
}

/// A packet that has left a path.
#[derive(Debug)]
pub struct Delivery {
    /// The time at which the packet left the network. Not later than the `now` of the last call.
    pub at: Instant,
    /// The number of the path, from 0.
    pub path: usize,
    /// Whether the packet goes to the client.
    pub down: bool,
    /// Whether the interface of the client accepts the packet.
    pub passes: bool,
    /// The packet.
    pub bytes: Vec<u8>,
}

/// A packet or datagram of a background flow that has reached the end of its route, or was lost.
#[derive(Debug)]
pub enum Crossed {
    /// A segment or a router's message, for the flow's client (`down`) or its server.
    Packet {
        /// The time at which the packet left the network.
        at: Instant,
        /// Whether the packet is for the client.
        down: bool,
        /// The packet.
        bytes: Vec<u8>,
    },
    /// A datagram.
    Datagram(Instant, Datagram),
    /// A datagram was dropped.
    Lost(Datagram),
}

/// The network of a plan with real packets in it.
pub struct Network<'a> {
    links: network::Network<'a, Packet>,
    deliveries: VecDeque<Delivery>,
    crossed: VecDeque<Crossed>,
    changes: VecDeque<(InterfaceChange, Option<EndpointNews>)>,
    spare: Vec<Vec<u8>>,
}

impl<'a> Network<'a> {
    /// Creates the network of a plan without packets. The time of the plan begins at `begin`.
    ///
    /// # Errors
    /// Returns an error if a link or path is unknown, or if the settings of a link are invalid.
    pub fn new(plan: &'a Plan, begin: Instant) -> Result<Self, PlanError> {
        Ok(Self {
            links: network::Network::new(plan, begin)?,
            deliveries: VecDeque::new(),
            crossed: VecDeque::new(),
            changes: VecDeque::new(),
            spare: Vec::new(),
        })
    }

    /// Sets that the client is a kernel. The plan's interfaces then do not drop packets, because the kernel
    /// has its own.
    #[must_use]
    pub fn with_kernel_client(mut self) -> Self {
        self.links = self.links.with_kernel_clients();
        self
    }

    /// Returns an empty buffer for a packet.
    pub fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Returns a buffer to the network for reuse.
    pub fn recycle(&mut self, mut buffer: Vec<u8>) {
        if self.spare.len() < SPARE {
            buffer.clear();
            self.spare.push(buffer);
        }
    }

    /// Handles a packet that a host sends on a path, to the client (`down`) or from it. Call
    /// [`Self::handle_timeout`] with the same time first.
    pub fn handle_packet(&mut self, now: Instant, path: usize, down: bool, bytes: Vec<u8>) {
        let journey = Journey::new(path as u16, down);
        self.send(now, Packet { bytes, journey, datagram: None });
    }

    /// Handles a packet that a background flow of a group sends, to its client (`down`) or from it. Call
    /// [`Self::handle_timeout`] with the same time first.
    pub fn handle_crossing(
        &mut self,
        now: Instant,
        group: usize,
        down: bool,
        datagram: Option<Datagram>,
        bytes: Vec<u8>,
    ) {
        let journey = Journey::new(self.links.crossing(group), down);
        self.send(now, Packet { bytes, journey, datagram });
    }

    fn send(&mut self, now: Instant, packet: Packet) {
        let onward = self.links.send(now, packet);
        self.proceed(now, onward);
    }

    /// Handles all events that were due by `now`, each at its own time.
    pub fn handle_timeout(&mut self, now: Instant, rows: &mut Rows) {
        while let Some((at, due)) = self.links.poll_timeout().filter(|(at, _)| *at <= now) {
            match due {
                Due::Medium(medium) => self.handle_medium(at, medium),
                Due::Event => {
                    if let Some(Happened::Interface { change, news }) =
                        self.links.handle_event(at, rows)
                    {
                        self.changes.push_back((change, news));
                    }
                }
                Due::Notice => {
                    while let Some(message) = self.links.poll_notice(at) {
                        self.arrive(at, message, true);
                    }
                }
            }
        }
    }

    /// Returns the next packet that has left a path.
    pub fn poll_delivery(&mut self) -> Option<Delivery> {
        self.deliveries.pop_front()
    }

    /// Returns the next packet of a background flow at the end of its route.
    pub fn poll_crossed(&mut self) -> Option<Crossed> {
        self.crossed.pop_front()
    }

    /// Returns the next change of an interface, and the notification for the client's MPTCP.
    pub fn poll_change(&mut self) -> Option<(InterfaceChange, Option<EndpointNews>)> {
        self.changes.pop_front()
    }

    /// Returns the time at which [`Self::handle_timeout`] must be called.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.links.poll_timeout().map(|(at, _)| at)
    }

    /// Adds the row of each link at the end of the run.
    pub fn report(&self, rows: &mut Rows) {
        self.links.report(rows);
    }

    /// Returns the client's interfaces.
    pub fn interfaces(&self) -> &Interfaces {
        self.links.interfaces()
    }

    /// Returns whether the client's interface on a path accepts packets.
    pub fn passes(&self, path: usize) -> bool {
        self.links.passes(path)
    }

    /// Returns the packets in the queues of a path towards the client.
    pub fn queued(&self, now: Instant, path: usize) -> Queued {
        self.links.queued(now, path)
    }

    /// Returns the number of segments from which MPTCP options were removed, by path.
    pub fn stripped(&self) -> &[u64] {
        self.links.stripped()
    }

    /// Returns the number of SYNs that a firewall dropped, by path.
    pub fn blocked(&self) -> &[u64] {
        self.links.blocked()
    }

    fn handle_medium(&mut self, at: Instant, medium: usize) {
        while let Some(passage) = self.links.poll_medium(at, medium) {
            match passage {
                Passage::Passed { packet, .. } => {
                    let onward = self.links.forward(at, packet);
                    self.proceed(at, onward);
                }
                Passage::Dropped { packet, copy, .. } => self.discard(packet, copy),
            }
        }
    }

    fn proceed(&mut self, at: Instant, onward: Onward<Packet>) {
        match onward {
            Onward::Entered { .. } => {}
            Onward::TooLarge { packet, .. } | Onward::Blocked(packet) => {
                self.discard(packet, false);
            }
            Onward::Arrived(packet) => self.arrive(at, packet, true),
            Onward::Refused(packet) => self.arrive(at, packet, false),
        }
    }

    /// Frees a dropped packet. If the packet is a copy that a link made, its datagram is not lost.
    fn discard(&mut self, packet: Packet, copy: bool) {
        self.crossed.extend(packet.datagram.filter(|_| !copy).map(Crossed::Lost));
        self.recycle(packet.bytes);
    }

    /// Handles a packet at the end of its route.
    fn arrive(&mut self, at: Instant, packet: Packet, passes: bool) {
        let Packet { bytes, journey, datagram } = packet;
        let (path, down) = (journey.route(), journey.is_down());
        if !self.links.is_crossing(path) {
            self.deliveries.push_back(Delivery { at, path, down, passes, bytes });
        } else if let Some(datagram) = datagram {
            self.recycle(bytes);
            self.crossed.push_back(Crossed::Datagram(at, datagram));
        } else {
            self.crossed.push_back(Crossed::Packet { at, down, bytes });
        }
    }
}
