//! The packets that a network carries, and where each of them is on its route.

use anabranch_link::{Damage, Label};
use anabranch_plan::{Family, StripsPlan};

/// A packet's place on its route. The network counts the links; the world sets the route and the direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Journey {
    route: u16,
    hop: u8,
    down: bool,
}

impl Journey {
    /// The beginning of a route, to the client (`down`) or from it.
    pub const fn new(route: u16, down: bool) -> Self {
        Self { route, hop: 0, down }
    }

    /// The route: a path, or a number after the last path for a group of background flows.
    pub const fn route(self) -> usize {
        self.route as usize
    }

    /// Whether the packet goes from the server to the client.
    pub const fn is_down(self) -> bool {
        self.down
    }

    /// The number of links that the packet has crossed.
    pub(crate) const fn hop(self) -> usize {
        self.hop as usize
    }

    pub(crate) fn advance(&mut self) {
        self.hop += 1;
    }
}

/// The router in front of a link that a packet does not fit on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Router {
    /// The route of the packet.
    pub route: usize,
    /// The family of the route's addresses.
    pub family: Family,
    /// The link's MTU, bytes.
    pub mtu: u32,
}

/// A packet as the network sees it: a value of the simulator, or bytes with an IP header.
pub trait Packet: Clone + 'static {
    /// The message to the sender of a packet that is too large (RFC 1191, RFC 8201).
    type Notice;

    /// Its place on its route.
    fn journey(&self) -> Journey;

    /// The same, to change it.
    fn journey_mut(&mut self) -> &mut Journey;

    /// Bytes on the wire, IP header included.
    fn size(&self) -> u64;

    /// The properties that queues see.
    fn label(&self) -> Label;

    /// Sets the ECN field to CE (RFC 3168).
    fn mark(&mut self);

    /// Changes the payload so that no checksum detects it. Returns whether it had one.
    fn damage(&mut self, damage: Damage) -> bool;

    /// Removes the MPTCP options of a segment of these kinds. Returns whether it had any.
    fn strip(&mut self, kinds: StripsPlan) -> bool;

    /// The message of a router that cannot forward it. `None` if its sender would not be notified.
    fn notice(&self, router: Router) -> Option<Self::Notice>;
}
