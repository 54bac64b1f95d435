//! Links, paths, routes and addresses of one world.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anabranch_link::{ConfigError, Label};
use anabranch_units::{ByteCount, Duration, Instant, Rate, Seed};
use anabranch_wire::{Ecn, Segment};

use crate::fault::PlanError;
use crate::links::Links;
use crate::plan::{ChangePlan, Family, LinkPlan, Plan};

/// The server's port for films.
pub(crate) const HTTP_PORT: u16 = 80;
/// The server's port for data without a protocol of its own.
pub(crate) const DATA_PORT: u16 = 9999;
/// The number of the server as a host, on every network.
const SERVER_HOST: u32 = 1;
/// The number of client 0 as a host: addresses begin at .1.1.
const FIRST_HOST: u32 = 257;
/// The port of each client's first connection.
const CLIENT_PORT: u16 = 40_000;
/// The network number of the hosts of cross traffic, above those of all paths.
const CROSS_NETWORK: usize = 99;

/// The unique local prefix of every IPv6 network (RFC 4193 section 3.1).
const IPV6_PREFIX: u16 = 0xfd00;

/// Bytes of an IPv4 header without options.
const IPV4_HEADER: u64 = 20;
/// Bytes of an IPv6 header.
const IPV6_HEADER: u64 = 40;

/// A packet on its way; boxed, since it changes hands at every hop.
#[derive(Clone, Debug, Default)]
pub(crate) struct Packet {
    pub(crate) load: Load,
    /// Bytes on the wire, IP header included.
    pub(crate) size: u64,
    /// Whose it is: a client, or a flow of cross traffic, counted on behind the last client.
    pub(crate) host: u32,
    /// Which route of the topology it takes.
    pub(crate) route: u16,
    pub(crate) hop: u8,
    /// Server to client.
    pub(crate) down: bool,
    /// Whose flight it is counted in.
    pub(crate) followed: Option<Followed>,
}

/// What a packet carries.
#[derive(Clone, Debug)]
pub(crate) enum Load {
    /// A segment of a TCP connection.
    Segment(Segment),
    /// A datagram, of which only the size matters.
    Datagram(Datagram),
}

impl Default for Load {
    fn default() -> Self {
        Self::Segment(Segment::default())
    }
}

/// A datagram of cross traffic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Datagram {
    /// Its number within its flow, from 1.
    pub(crate) number: u64,
    /// When it was sent.
    pub(crate) sent: Instant,
}

/// A packet that carries a sender's data: by which it is known when it leaves the links.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Followed {
    /// The server's connection; of no meaning with cross traffic.
    pub(crate) connection: u32,
    pub(crate) subflow: u8,
    pub(crate) number: u32,
}

impl Packet {
    /// What links may know of it. A flow is one direction of a TCP connection: a host's, on a route,
    /// between two ports.
    pub(crate) fn label(&self) -> Label {
        let (ports, ecn) = match &self.load {
            Load::Segment(Segment { source_port, destination_port, ecn, .. }) => {
                (u64::from(*source_port) << 16 | u64::from(*destination_port), *ecn)
            }
            Load::Datagram(_) => (0, Ecn::default()),
        };
        let host = u64::from(self.host) << 32 | u64::from(self.route) << 48;
        Label { size: ByteCount(self.size), flow: host ^ ports, ect: ecn.is_capable() }
    }

    /// One with a datagram, which goes down a route of its own.
    pub(crate) fn datagram(datagram: Datagram, size: u64, host: u32, route: u16) -> Box<Self> {
        let load = Load::Datagram(datagram);
        Box::new(Self { load, size, host, route, down: true, ..Self::default() })
    }

    /// The segment of a packet that is known to carry one.
    #[inline(always)]
    pub(crate) fn segment(&self) -> &Segment {
        match &self.load {
            Load::Segment(segment) => segment,
            Load::Datagram(_) => unreachable!("endpoints send and receive segments"),
        }
    }

    /// The same, to be written over.
    #[inline(always)]
    pub(crate) fn segment_mut(&mut self) -> &mut Segment {
        match &mut self.load {
            Load::Segment(segment) => segment,
            Load::Datagram(_) => unreachable!("endpoints send and receive segments"),
        }
    }

    /// A queue marked it.
    pub(crate) fn mark(&mut self) {
        if let Load::Segment(segment) = &mut self.load {
            segment.ecn = Ecn::Ce;
        }
    }

    /// It departs on a connection as the segment of this subflow under this number, if it is one.
    pub(crate) fn follow(&mut self, connection: usize, followed: Option<(u8, u32)>) {
        let connection = connection as u32;
        self.followed = followed.map(|(subflow, number)| Followed { connection, subflow, number });
    }
}

/// The way between two hosts as indexes of links, each in the packets' order.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    down: Vec<usize>,
    up: Vec<usize>,
    /// What the addresses of its ends are of.
    pub(crate) family: Family,
}

impl Route {
    /// Bytes of the IP header of its packets.
    pub(crate) fn ip_header(&self) -> u64 {
        match self.family {
            Family::Ipv4 => IPV4_HEADER,
            Family::Ipv6 => IPV6_HEADER,
        }
    }

    /// The links of one direction.
    pub(crate) fn links(&self, down: bool) -> &[usize] {
        if down { &self.down } else { &self.up }
    }
}

/// What a router knows of the link behind it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    /// The largest packet that it takes, bytes; `u64::MAX` where it takes any.
    pub(crate) mtu: u64,
    /// Senders of larger ones are told.
    pub(crate) icmp: bool,
    /// Packets that were too large.
    pub(crate) dropped: u64,
    delay: Duration,
    up: bool,
}

impl Way {
    fn new(plan: &LinkPlan) -> Self {
        Self {
            mtu: plan.mtu.unwrap_or(u64::MAX),
            icmp: plan.icmp,
            dropped: 0,
            delay: Duration::from_nanos(plan.delay_ns),
            up: true,
        }
    }

    /// The link changes.
    pub(crate) fn follow(&mut self, change: ChangePlan) {
        match change {
            ChangePlan::Mtu(bytes) => self.mtu = bytes,
            ChangePlan::DelayNs(ns) => self.delay = Duration::from_nanos(ns),
            ChangePlan::Down => self.up = false,
            ChangePlan::Up => self.up = true,
            ChangePlan::RateBps(_) | ChangePlan::Loss(_) => {}
        }
    }
}

/// A path: what clients know of a route, and their interface on it.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    pub(crate) name: String,
    pub(crate) backup: bool,
    pub(crate) strips_mptcp: bool,
    /// The rate of its slowest link towards the client when the scenario begins.
    pub(crate) rate: Option<Rate>,
    pub(crate) interface: Interface,
}

/// The network interface of every client on a path.
#[derive(Clone, Debug)]
pub(crate) struct Interface {
    /// Whether packets pass.
    pub(crate) up: bool,
    /// Whether it is an end point of MPTCP.
    pub(crate) endpoint: bool,
    /// The end point's identifier.
    pub(crate) address_id: u8,
}

impl Interface {
    /// New connections use it.
    pub(crate) fn usable(&self) -> bool {
        self.up && self.endpoint
    }
}

impl Path {
    /// The candidate's identifier of this path's client address; not 0, the initial subflow's.
    pub(crate) fn address_id(&self) -> u8 {
        self.interface.address_id
    }
}

/// The network between server and clients.
pub(crate) struct Topology {
    pub(crate) links: Links<Box<Packet>>,
    /// In the links' order.
    pub(crate) ways: Vec<Way>,
    pub(crate) names: Vec<String>,
    pub(crate) paths: Vec<Path>,
    /// The paths' routes in their order, then one for each group of cross traffic.
    pub(crate) routes: Vec<Route>,
    last_address_id: u8,
}

impl Topology {
    pub(crate) fn build(plan: &Plan) -> Result<Self, PlanError> {
        let seed = Seed { seed: plan.seed, run: plan.run };
        let links =
            Links::build(&plan.links, seed).map_err(|error| blamed(&plan.links, seed, error))?;
        let names: Vec<String> = plan.links.iter().map(|link| link.name.clone()).collect();
        let find = |key: &'static str, chain: &[String]| -> Result<Vec<usize>, PlanError> {
            let number = |(place, name): (usize, &String)| {
                let unknown = || PlanError::UnknownLink(name.clone()).at_element(key, place);
                names.iter().position(|other| other == name).ok_or_else(unknown)
            };
            chain.iter().enumerate().map(number).collect()
        };
        let mut routes = Vec::new();
        let mut paths = Vec::new();
        for (index, path) in plan.paths.iter().enumerate() {
            let below = |error: PlanError| error.at_element("paths", index);
            let down = find("down", &path.down).map_err(below)?;
            let up = find("up", &path.up).map_err(below)?;
            let slowest = down.iter().filter_map(|link| plan.links[*link].rate_bps).min();
            routes.push(Route { down, up, family: path.family });
            paths.push(Path {
                name: path.name.clone(),
                backup: path.backup,
                strips_mptcp: path.strips_mptcp,
                rate: slowest.map(Rate::from_bps),
                interface: Interface { up: true, endpoint: true, address_id: index as u8 + 1 },
            });
        }
        let last_address_id = paths.len() as u8;
        for (index, group) in plan.cross_traffic.iter().enumerate() {
            let below = |error: PlanError| error.at_element("cross_traffic", index);
            let down = find("data", &group.data).map_err(below)?;
            let up = find("acks", &group.acks).map_err(below)?;
            routes.push(Route { down, up, family: group.family });
        }
        let ways = plan.links.iter().map(Way::new).collect();
        Ok(Self { links, ways, names, paths, routes, last_address_id })
    }

    /// The link of that name.
    pub(crate) fn link(&self, name: &str) -> Result<usize, PlanError> {
        self.names
            .iter()
            .position(|other| other == name)
            .ok_or_else(|| PlanError::UnknownLink(name.to_owned()))
    }
}

impl Topology {
    /// How long news takes back to the sender of a packet that goes `down` a route, or up; `None` when it does
    /// not arrive.
    pub(crate) fn way_back(&self, route: usize, down: bool) -> Option<Duration> {
        let mut links = self.routes[route].links(!down).iter().map(|link| &self.ways[*link]);
        links.try_fold(Duration::ZERO, |delay, way| way.up.then_some(delay + way.delay))
    }

    /// The path of that name.
    pub(crate) fn path(&self, name: &str) -> Result<usize, PlanError> {
        self.paths
            .iter()
            .position(|path| path.name == name)
            .ok_or_else(|| PlanError::UnknownPath(name.to_owned()))
    }

    /// An identifier for an end point that is added again: the next one that none has
    /// (`mptcp_pm_nl_append_new_local_addr`).
    pub(crate) fn fresh_address_id(&mut self) -> u8 {
        loop {
            self.last_address_id = self.last_address_id.checked_add(1).unwrap_or(1);
            let used = |path: &Path| path.interface.address_id == self.last_address_id;
            if !self.paths.iter().any(used) {
                return self.last_address_id;
            }
        }
    }
}

/// The first link whose settings cannot be built.
fn blamed(plans: &[LinkPlan], seed: Seed, error: ConfigError) -> PlanError {
    let fails = |plan: &LinkPlan| Links::<()>::build(std::slice::from_ref(plan), seed).is_err();
    let error = PlanError::from(error);
    match plans.iter().position(fails) {
        Some(index) => error.at_element("links", index),
        None => error.at("links"),
    }
}

/// Every address of a server in a family, at a port.
pub(crate) fn anywhere(family: Family, port: u16) -> SocketAddr {
    match family {
        Family::Ipv4 => (Ipv4Addr::UNSPECIFIED, port).into(),
        Family::Ipv6 => (Ipv6Addr::UNSPECIFIED, port).into(),
    }
}

/// The address of a host on a network: 10.1.0.1 or `fd00:0:0:1::1` for the first host on the first.
fn host_address(family: Family, network: usize, host: u32) -> IpAddr {
    let network = network as u8 + 1;
    match family {
        Family::Ipv4 => Ipv4Addr::new(10, network, (host >> 8) as u8, host as u8).into(),
        Family::Ipv6 => {
            let [high, low] = [(host >> 16) as u16, host as u16];
            Ipv6Addr::new(IPV6_PREFIX, 0, 0, network.into(), 0, 0, high, low).into()
        }
    }
}

/// The server's address on a path.
pub(crate) fn server_address(family: Family, path: usize, port: u16) -> SocketAddr {
    SocketAddr::new(host_address(family, path, SERVER_HOST), port)
}

/// A client's address on a path, for its `connection`-th connection.
pub(crate) fn client_address(
    family: Family,
    path: usize,
    client: u32,
    connection: u16,
) -> SocketAddr {
    SocketAddr::new(host_address(family, path, client + FIRST_HOST), CLIENT_PORT + connection)
}

/// The addresses of a flow of cross traffic: its server's and its client's, a host each flow.
pub(crate) fn cross_addresses(family: Family, flow: u32) -> (SocketAddr, SocketAddr) {
    let server = server_address(family, CROSS_NETWORK, DATA_PORT);
    (server, client_address(family, CROSS_NETWORK, flow, 0))
}

/// The path and client of a client's address.
pub(crate) fn locate(address: SocketAddr) -> (u8, u32) {
    let (network, host) = match address.ip() {
        IpAddr::V4(ip) => {
            let [_, network, high, low] = ip.octets();
            (network, u32::from(high) << 8 | u32::from(low))
        }
        IpAddr::V6(ip) => {
            let [_, _, _, network, .., high, low] = ip.segments();
            (network as u8, u32::from(high) << 16 | u32::from(low))
        }
    };
    (network - 1, host - FIRST_HOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_tells_its_path_and_client_in_both_families() {
        for family in [Family::Ipv4, Family::Ipv6] {
            for (path, client) in [(0, 0), (7, 9999), (3, 254), (1, 255)] {
                let address = client_address(family, path, client, 5);
                assert_eq!(address.is_ipv6(), family == Family::Ipv6);
                assert_eq!((locate(address), address.port()), ((path as u8, client), 40_005));
                assert_ne!(address.ip(), server_address(family, path, 80).ip());
            }
        }
        let text = |address: SocketAddr| address.to_string();
        assert_eq!(text(server_address(Family::Ipv4, 1, 80)), "10.2.0.1:80");
        assert_eq!(text(client_address(Family::Ipv4, 1, 0, 0)), "10.2.1.1:40000");
        assert_eq!(text(server_address(Family::Ipv6, 1, 80)), "[fd00:0:0:2::1]:80");
        assert_eq!(text(client_address(Family::Ipv6, 1, 0, 0)), "[fd00:0:0:2::101]:40000");
    }
}
