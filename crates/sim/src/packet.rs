//! The packets of the simulator. They are values that contain a segment or a datagram.

use std::net::{Ipv4Addr, SocketAddr};

use anabranch_link::{Damage, Label};
use anabranch_mptcp::FourTuple;
use anabranch_network::{self as network, Journey, Router};
use anabranch_plan::{StripsPlan, is_mptcp_syn};
use anabranch_units::{ByteCount, Instant, SeqNumber};
use anabranch_wire::{Ecn, Segment};

/// A packet. It is boxed because it is moved into and out of every link.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) load: Load,
    /// The length on the wire in bytes, including the IP header.
    pub(crate) size: u64,
    /// The number of the client or background flow. Background flows have the numbers after the last client.
    pub(crate) host: u32,
    pub(crate) journey: Journey,
    /// The addresses of a segment, from its receiver's point of view. Not used for a datagram.
    pub(crate) tuple: FourTuple,
    /// The segment in flight that the packet contains. `None` if it contains no data that is counted.
    pub(crate) followed: Option<Followed>,
}

impl Default for Packet {
    fn default() -> Self {
        let nowhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        Self {
            load: Load::default(),
            size: 0,
            host: 0,
            journey: Journey::default(),
            tuple: FourTuple { local: nowhere, remote: nowhere },
            followed: None,
        }
    }
}

/// The content of a packet.
#[derive(Clone, Debug)]
pub(crate) enum Load {
    /// A segment of a TCP connection.
    Segment(Segment),
    /// A datagram. It has a size, but no content.
    Datagram(Datagram),
}

impl Default for Load {
    fn default() -> Self {
        Self::Segment(Segment::default())
    }
}

/// A datagram of a background flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Datagram {
    /// The number of the datagram within its flow, from 1.
    pub(crate) number: u64,
    /// The time at which the datagram was sent.
    pub(crate) sent: Instant,
}

/// The identity of a segment that is counted in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Followed {
    /// The connection of the server.
    pub(crate) connection: u32,
    pub(crate) subflow: u8,
    pub(crate) number: u32,
}

impl Packet {
    /// Creates a packet with a datagram for the downlink direction of a route.
    pub(crate) fn datagram(datagram: Datagram, size: u64, host: u32, route: u16) -> Box<Self> {
        let (load, journey) = (Load::Datagram(datagram), Journey::new(route, true));
        Box::new(Self { load, size, host, journey, ..Self::default() })
    }

    /// Returns the segment of the packet. The packet must not contain a datagram.
    #[inline]
    pub(crate) fn segment(&self) -> &Segment {
        match &self.load {
            Load::Segment(segment) => segment,
            Load::Datagram(_) => unreachable!("endpoints send and receive segments"),
        }
    }

    /// Returns the segment of the packet to overwrite it.
    #[inline]
    pub(crate) fn segment_mut(&mut self) -> &mut Segment {
        match &mut self.load {
            Load::Segment(segment) => segment,
            Load::Datagram(_) => unreachable!("endpoints send and receive segments"),
        }
    }

    /// Sets the segment in flight that the packet contains: the connection, the subflow and the number.
    pub(crate) fn follow(&mut self, connection: usize, followed: Option<(u8, u32)>) {
        let connection = connection as u32;
        self.followed = followed.map(|(subflow, number)| Followed { connection, subflow, number });
    }
}

/// A router's message that a packet was too large, with the quoted parts of that packet.
pub(crate) struct Notice {
    pub(crate) journey: Journey,
    pub(crate) host: u32,
    pub(crate) source_port: u16,
    pub(crate) destination_port: u16,
    pub(crate) seq: SeqNumber,
    /// The MTU of the link, bytes.
    pub(crate) mtu: u32,
}

impl network::Packet for Box<Packet> {
    type Notice = Notice;

    #[inline]
    fn journey(&self) -> Journey {
        self.journey
    }

    #[inline]
    fn journey_mut(&mut self) -> &mut Journey {
        &mut self.journey
    }

    #[inline]
    fn size(&self) -> u64 {
        self.size
    }

    /// A flow is one direction of a TCP connection. It is identified by host, route and ports.
    fn label(&self) -> Label {
        let (ports, ecn) = match &self.load {
            Load::Segment(Segment { source_port, destination_port, ecn, .. }) => {
                (u64::from(*source_port) << 16 | u64::from(*destination_port), *ecn)
            }
            Load::Datagram(_) => (0, Ecn::default()),
        };
        let host = u64::from(self.host) << 32 | (self.journey.route() as u64) << 48;
        Label { size: ByteCount(self.size), flow: host ^ ports, ect: ecn.is_capable() }
    }

    fn mark(&mut self) {
        if let Load::Segment(segment) = &mut self.load {
            segment.ecn = Ecn::Ce;
        }
    }

    /// Modifies only the payload of this packet. The sender retransmits the original bytes.
    fn damage(&mut self, damage: Damage) -> bool {
        let Load::Segment(segment) = &mut self.load else { return false };
        let mut payload = segment.payload.to_vec();
        let changed = damage.apply(&mut payload);
        if changed {
            segment.payload = payload.into();
        }
        changed
    }

    fn strip(&mut self, kinds: StripsPlan) -> bool {
        let Packet { load: Load::Segment(segment), size, .. } = &mut **self else { return false };
        let options = segment.options_len();
        let stripped = kinds.strip(segment);
        if stripped {
            *size -= (options - segment.options_len()) as u64;
        }
        stripped
    }

    fn is_mptcp_syn(&self) -> bool {
        matches!(&self.load, Load::Segment(segment) if is_mptcp_syn(segment))
    }

    fn notice(&self, router: Router) -> Option<Notice> {
        let Load::Segment(segment) = &self.load else { return None };
        Some(Notice {
            journey: self.journey,
            host: self.host,
            source_port: segment.source_port,
            destination_port: segment.destination_port,
            seq: segment.seq,
            mtu: router.mtu,
        })
    }
}
