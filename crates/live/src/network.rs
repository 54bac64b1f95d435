//! The network between client and server, sans-IO: the links of a plan with real packets in them. Time is an
//! argument, so that what holds of it can be tested without a device.

use std::collections::{BTreeMap, VecDeque};

use anabranch_link::{Fate, Queued};
use anabranch_network::{Route, Way, routes, way_back, ways};
use anabranch_plan::addresses::router_address;
use anabranch_plan::{
    ChangePlan, Happening, InterfacePlan, Links, Plan, PlanError, StripsPlan, link_row,
};
use anabranch_trace::{EventRow, Rows};
use anabranch_units::{ByteCount, Duration, Instant, Seed};
use anabranch_wire::{emit_packet, parse_packet};
use bytes::Bytes;

use crate::{header, icmp};

/// Buffers that are kept for packets to come.
const SPARE: usize = 4096;

/// A datagram of a background flow, of which nothing but its size and its addresses is on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// The flow, from 0.
    pub flow: u32,
    /// When it was sent.
    pub sent: Instant,
}

/// A packet on its way.
#[derive(Clone, Debug)]
struct Packet {
    bytes: Vec<u8>,
    /// A path, or behind them a group of cross traffic.
    route: u16,
    hop: u8,
    /// Server to client.
    down: bool,
    datagram: Option<Datagram>,
}

/// A packet that has come out of a path.
#[derive(Debug)]
pub struct Delivery {
    /// When it came out; never later than the time that was handed in.
    pub at: Instant,
    /// The path, from 0.
    pub path: usize,
    /// It goes to the client.
    pub down: bool,
    /// The packet.
    pub bytes: Vec<u8>,
}

/// A packet of a background flow that has come to the end of its way.
#[derive(Debug)]
pub enum Crossed {
    /// A segment, or a router's message of one, for the flow's client (`down`) or its server.
    Packet {
        /// When it came out.
        at: Instant,
        /// It goes to the client.
        down: bool,
        /// The packet.
        bytes: Vec<u8>,
    },
    /// A datagram.
    Datagram(Instant, Datagram),
    /// A datagram was dropped.
    Lost(Datagram),
}

/// What a plan does to the client's interface on a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceChange {
    /// The path, from 0.
    pub path: usize,
    /// What befalls the interface.
    pub what: InterfacePlan,
}

/// What happens next.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    /// On a medium.
    Medium(usize),
    /// By the plan.
    Event,
    /// News of a packet that was too large arrives.
    TooBig,
}

/// The links of a plan, and its events.
pub struct Network<'a> {
    plan: &'a Plan,
    /// When the plan's time begins.
    begin: Instant,
    links: Links<Packet>,
    /// What routers know of them, in their order.
    ways: Vec<Way>,
    routes: Vec<Route>,
    next_event: usize,
    /// News of routers that packets were too large, by when it arrives and how much there was before. As in the simulator
    /// it takes the propagation delay of the way back, and waits in no queue.
    too_big: BTreeMap<(Instant, u64), Packet>,
    too_big_before: u64,
    deliveries: VecDeque<Delivery>,
    crossed: VecDeque<Crossed>,
    changes: VecDeque<InterfaceChange>,
    /// Segments that lost their MPTCP options, by path.
    stripped: Vec<u64>,
    spare: Vec<Vec<u8>>,
}

impl<'a> Network<'a> {
    /// The links of a plan, idle, its time beginning at `begin`.
    ///
    /// # Errors
    /// An unknown link or path, or invalid settings of a link.
    pub fn new(plan: &'a Plan, begin: Instant) -> Result<Self, PlanError> {
        let seed = Seed { seed: plan.seed, run: plan.run };
        let (paths, crossing) = routes(plan)?;
        plan.check_events()?;
        Ok(Self {
            plan,
            begin,
            links: Links::build(&plan.links, seed)?,
            ways: ways(plan),
            routes: paths.into_iter().chain(crossing).collect(),
            next_event: 0,
            too_big: BTreeMap::new(),
            too_big_before: 0,
            deliveries: VecDeque::new(),
            crossed: VecDeque::new(),
            changes: VecDeque::new(),
            stripped: vec![0; plan.paths.len()],
            spare: Vec::new(),
        })
    }

    /// A buffer for a packet, empty.
    pub fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Takes back a buffer.
    pub fn recycle(&mut self, mut buffer: Vec<u8>) {
        if self.spare.len() < SPARE {
            buffer.clear();
            self.spare.push(buffer);
        }
    }

    /// Input: a host sends a packet on a path, to the client (`down`) or from it. What was due before has to be
    /// done: [`Self::handle_timeout`] at the same time goes first.
    pub fn handle_packet(&mut self, now: Instant, path: usize, down: bool, bytes: Vec<u8>) {
        let bytes = match without_options(self.plan.paths[path].strips_mptcp, &bytes) {
            Some(without) => {
                self.stripped[path] += 1;
                self.recycle(bytes);
                without
            }
            None => bytes,
        };
        self.forward(now, Packet { bytes, route: path as u16, hop: 0, down, datagram: None });
    }

    /// Input: a background flow of a group sends a packet, to its client (`down`) or from it. As
    /// [`Self::handle_packet`].
    pub fn handle_crossing(
        &mut self,
        now: Instant,
        group: usize,
        down: bool,
        datagram: Option<Datagram>,
        bytes: Vec<u8>,
    ) {
        let route = (self.plan.paths.len() + group) as u16;
        self.forward(now, Packet { bytes, route, hop: 0, down, datagram });
    }

    /// Time has come: what was due by `now` happens, each thing at its own time.
    pub fn handle_timeout(&mut self, now: Instant, rows: &mut Rows) {
        while let Some((at, next)) = self.next().filter(|(at, _)| *at <= now) {
            match next {
                Next::Medium(medium) => self.settle(at, medium),
                Next::Event => self.change(at, rows),
                Next::TooBig => {
                    if let Some((_, message)) = self.too_big.pop_first() {
                        self.arrive(at, message);
                    }
                }
            }
        }
    }

    /// Output: the next packet that came out of a path.
    pub fn poll_delivery(&mut self) -> Option<Delivery> {
        self.deliveries.pop_front()
    }

    /// Output: the next packet of a background flow that has come to the end of its way.
    pub fn poll_crossed(&mut self) -> Option<Crossed> {
        self.crossed.pop_front()
    }

    /// Output: the next change of an interface.
    pub fn poll_change(&mut self) -> Option<InterfaceChange> {
        self.changes.pop_front()
    }

    /// When [`Self::handle_timeout`] is to be called.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.next().map(|(at, _)| at)
    }

    /// Writes down the totals of the links.
    pub fn report(&self, rows: &mut Rows) {
        for ((name, stats, inside), way) in self.links.totals().zip(&self.ways) {
            let mut row = link_row(name, stats, inside);
            row.dropped_mtu = way.dropped as i64;
            rows.links.push(row);
        }
    }

    /// The routes of the paths, in their order.
    pub fn routes(&self) -> &[Route] {
        &self.routes[..self.plan.paths.len()]
    }

    /// What waits in the queues of a path towards the client.
    pub fn queued(&self, now: Instant, path: usize) -> Queued {
        let links = self.routes[path].links(true).iter();
        links.map(|link| self.links.queued(now, *link)).fold(Queued::default(), |sum, of| Queued {
            packets: sum.packets + of.packets,
            bytes: ByteCount(sum.bytes.0 + of.bytes.0),
        })
    }

    /// How many segments lost their MPTCP options on each path.
    pub fn stripped(&self) -> &[u64] {
        &self.stripped
    }

    /// What happens next, and when.
    fn next(&self) -> Option<(Instant, Next)> {
        let event = self.plan.events.get(self.next_event);
        let event =
            event.map(|event| (self.begin + Duration::from_nanos(event.at_ns), Next::Event));
        let message = self.too_big.first_key_value().map(|((at, _), _)| (*at, Next::TooBig));
        let due = |medium| Some((self.links.poll_timeout(medium)?, Next::Medium(medium)));
        (0..self.links.media()).filter_map(due).chain(event).chain(message).min()
    }

    fn settle(&mut self, at: Instant, medium: usize) {
        while let Some((_, fate)) = self.links.poll_fate(at, medium) {
            match fate {
                Fate::Delivered { mut packet, marked, .. } => {
                    if marked {
                        header::mark(&mut packet.bytes);
                    }
                    packet.hop += 1;
                    self.forward(at, packet);
                }
                Fate::Dropped { packet, copy, .. } => {
                    self.crossed.extend(packet.datagram.filter(|_| !copy).map(Crossed::Lost));
                    self.recycle(packet.bytes);
                }
            }
        }
    }

    fn forward(&mut self, at: Instant, packet: Packet) {
        let route = self.routes[usize::from(packet.route)].links(packet.down);
        if let Some(&link) = route.get(usize::from(packet.hop)) {
            let size = ByteCount(packet.bytes.len() as u64);
            if size.0 > self.ways[link].mtu {
                return self.refuse_large(at, link, packet);
            }
            let label = |packet: &Packet| anabranch_link::Label {
                size,
                flow: header::flow(&packet.bytes),
                ect: header::is_ect(&packet.bytes),
            };
            self.links.enter(at, link, packet, size, label);
            return;
        }
        self.arrive(at, packet);
    }

    /// A packet has come to the end of its way.
    fn arrive(&mut self, at: Instant, packet: Packet) {
        let Packet { bytes, route, down, datagram, .. } = packet;
        let path = usize::from(route);
        if path < self.plan.paths.len() {
            self.deliveries.push_back(Delivery { at, path, down, bytes });
        } else if let Some(datagram) = datagram {
            self.recycle(bytes);
            self.crossed.push_back(Crossed::Datagram(at, datagram));
        } else {
            self.crossed.push_back(Crossed::Packet { at, down, bytes });
        }
    }

    /// A packet does not fit on its next link: it is dropped, whether or not it asks not to be fragmented, and its
    /// sender told unless that link is silent.
    fn refuse_large(&mut self, at: Instant, link: usize, packet: Packet) {
        let way = &mut self.ways[link];
        way.dropped += 1;
        let (tells, mtu) = (way.icmp, way.mtu as u32);
        if let Some(datagram) = packet.datagram {
            self.crossed.push_back(Crossed::Lost(datagram));
            return self.recycle(packet.bytes);
        }
        let route = &self.routes[usize::from(packet.route)];
        let router = router_address(route.family, packet.route.into());
        if let Some(delay) = way_back(&self.ways, route, packet.down).filter(|_| tells)
            && let Some(message) = icmp::too_large(&packet.bytes, router, mtu)
        {
            let message = Packet { bytes: message, down: !packet.down, ..packet };
            self.too_big.insert((at + delay, self.too_big_before), message);
            self.too_big_before += 1;
        }
        self.recycle(packet.bytes);
    }

    /// The next event of the plan takes place.
    fn change(&mut self, at: Instant, rows: &mut Rows) {
        let event = &self.plan.events[self.next_event];
        self.next_event += 1;
        let (name, what) = match event.happening() {
            Some(Happening::Link(name, change)) => {
                self.change_link(at, name, change);
                (name, change.describe())
            }
            Some(Happening::Interface(name, what)) => {
                let path = self.plan.paths.iter().position(|path| path.name == name);
                self.changes.extend(path.map(|path| InterfaceChange { path, what }));
                (name, what.name().to_owned())
            }
            None => return,
        };
        let t_s = at.since(self.begin).as_secs_f64();
        rows.events.push(EventRow { t_s, link: name, what: &what });
    }

    fn change_link(&mut self, at: Instant, name: &str, change: ChangePlan) {
        let link = self.plan.links.iter().position(|link| link.name == name);
        let Some(link) = link else { return };
        self.ways[link].follow(change);
        if let Some(change) = change.change() {
            self.links.set(at, link, change);
        }
    }
}

/// A packet without the MPTCP options of its segment; `None` where it keeps what it has: it is not of these kinds,
/// carries none, or is no TCP.
fn without_options(strips: StripsPlan, bytes: &[u8]) -> Option<Vec<u8>> {
    if strips == StripsPlan::NONE {
        return None;
    }
    let mut packet = parse_packet(&Bytes::copy_from_slice(bytes)).ok()?;
    if !strips.strip(&mut packet.segment) {
        return None;
    }
    let mut without = Vec::with_capacity(bytes.len());
    emit_packet(packet.source, packet.destination, &packet.segment, &mut without).ok()?;
    Some(without)
}
