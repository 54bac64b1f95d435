//! The packets that a network carries, and their positions on their routes.

use anabranch_link::{Damage, Label};
use anabranch_plan::{Family, StripsPlan};

/// A packet's position on its route. The caller sets the route and the direction, and the network counts the
/// links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Journey {
    route: u16,
    hop: u8,
    down: bool,
}

impl Journey {
    /// Creates the position at the start of a route. The packet goes to the client (`down`) or from it.
    pub const fn new(route: u16, down: bool) -> Self {
        Self { route, hop: 0, down }
    }

    /// Returns the number of the route. Numbers above those of the paths are groups of background flows.
    pub const fn route(self) -> usize {
        self.route as usize
    }

    /// Returns whether the packet goes from the server to the client.
    pub const fn is_down(self) -> bool {
        self.down
    }

    /// Returns the number of links that the packet has passed.
    pub(crate) const fn hop(self) -> usize {
        self.hop as usize
    }

    pub(crate) fn advance(&mut self) {
        self.hop += 1;
    }
}

/// The router in front of a link whose MTU a packet exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Router {
    /// The route of the packet.
    pub route: usize,
    /// The address family of the route.
    pub family: Family,
    /// The link's MTU, bytes.
    pub mtu: u32,
}

/// A packet: a value in the simulator, or bytes with an IP header in the emulator.
pub trait Packet: Clone + 'static {
    /// The message to the sender of a packet that is too large (RFC 1191, RFC 8201).
    type Notice;

    /// Returns the packet's position on its route.
    fn journey(&self) -> Journey;

    /// Returns the packet's position on its route, mutably.
    fn journey_mut(&mut self) -> &mut Journey;

    /// Returns the packet's bytes on the wire, IP header included.
    fn size(&self) -> u64;

    /// Returns the properties that queues read.
    fn label(&self) -> Label;

    /// Sets the ECN field to CE (RFC 3168).
    fn mark(&mut self);

    /// Changes the payload in a way that no checksum detects. Returns false if there is no payload.
    fn damage(&mut self, damage: Damage) -> bool;

    /// Removes the MPTCP options if the segment is of one of these kinds. Returns whether it had any.
    fn strip(&mut self, kinds: StripsPlan) -> bool;

    /// Returns whether the packet is a SYN with an MPTCP option.
    fn is_mptcp_syn(&self) -> bool;

    /// Returns the message of a router that cannot forward the packet; `None` if the packet's sender is not
    /// notified.
    fn notice(&self, router: Router) -> Option<Self::Notice>;
}
