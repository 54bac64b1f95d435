//! Links, paths, routes and addresses of one world.

use std::net::{Ipv4Addr, SocketAddr};

use anabranch_link::{Damage, Label};
use anabranch_network::{Interfaces, Route, Way, routes, way_back, ways};
use anabranch_plan::{Links, Plan, PlanError, StripsPlan};
use anabranch_transport::FourTuple;
use anabranch_units::{ByteCount, Duration, Instant, Seed};
use anabranch_wire::{Ecn, Segment};

/// A packet on its way; boxed, since it changes hands at every hop.
#[derive(Clone, Debug)]
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
    /// The addresses of a segment, as its receiver sees them; a datagram has none.
    pub(crate) tuple: FourTuple,
    /// Whose flight it is counted in.
    pub(crate) followed: Option<Followed>,
}

impl Default for Packet {
    fn default() -> Self {
        let nowhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        Self {
            load: Load::default(),
            size: 0,
            host: 0,
            route: 0,
            hop: 0,
            down: false,
            tuple: FourTuple { local: nowhere, remote: nowhere },
            followed: None,
        }
    }
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

    /// Its payload is not what it was, and its TCP checksum is right; false where it has none. What is sent again is the
    /// sender's own.
    pub(crate) fn damage(&mut self, damage: Damage) -> bool {
        let Load::Segment(segment) = &mut self.load else { return false };
        let mut payload = segment.payload.to_vec();
        let changed = damage.apply(&mut payload);
        if changed {
            segment.payload = payload.into();
        }
        changed
    }

    /// It departs on a connection as the segment of this subflow under this number, if it is one.
    pub(crate) fn follow(&mut self, connection: usize, followed: Option<(u8, u32)>) {
        let connection = connection as u32;
        self.followed = followed.map(|(subflow, number)| Followed { connection, subflow, number });
    }
}

/// A path: a route and what is on it.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    pub(crate) name: String,
    pub(crate) strips_mptcp: StripsPlan,
}

/// The network between server and clients.
pub(crate) struct Topology {
    pub(crate) links: Links<Box<Packet>>,
    /// In the links' order.
    pub(crate) ways: Vec<Way>,
    pub(crate) names: Vec<String>,
    pub(crate) paths: Vec<Path>,
    pub(crate) interfaces: Interfaces,
    /// The paths' routes in their order, then one for each group of cross traffic.
    pub(crate) routes: Vec<Route>,
}

impl Topology {
    pub(crate) fn build(plan: &Plan) -> Result<Self, PlanError> {
        let seed = Seed { seed: plan.seed, run: plan.run };
        let links = Links::build(&plan.links, seed)?;
        let names = plan.links.iter().map(|link| link.name.clone()).collect();
        let (paths, crossing) = routes(plan)?;
        let known = plan
            .paths
            .iter()
            .map(|path| Path { name: path.name.clone(), strips_mptcp: path.strips_mptcp });
        let (known, interfaces) = (known.collect(), Interfaces::new(plan, &paths));
        let routes = paths.into_iter().chain(crossing).collect();
        let ways = ways(plan);
        Ok(Self { links, ways, names, paths: known, interfaces, routes })
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
        way_back(&self.ways, &self.routes[route], down)
    }

    /// The path of that name.
    pub(crate) fn path(&self, name: &str) -> Result<usize, PlanError> {
        self.paths
            .iter()
            .position(|path| path.name == name)
            .ok_or_else(|| PlanError::UnknownPath(name.to_owned()))
    }
}
