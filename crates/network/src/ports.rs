//! The routers' ports: the properties of a link that belong to the router in front of it.

use anabranch_plan::{ChangePlan, LinkPlan, Plan};
use anabranch_trace::LinkRow;
use anabranch_units::Duration;

use crate::routes::Route;

/// A router's port to a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Port {
    /// The MTU in bytes; `u64::MAX` for no limit.
    mtu: u64,
    /// Whether the router notifies the senders of packets that are too large.
    icmp: bool,
    /// The number of packets that were too large.
    rejected: u64,
    /// The number of packets that the link delivered with a changed payload.
    changed: u64,
    /// The link's propagation delay.
    delay: Duration,
    up: bool,
}

impl Port {
    fn new(plan: &LinkPlan) -> Self {
        Self {
            mtu: plan.mtu.unwrap_or(u64::MAX),
            icmp: plan.icmp,
            rejected: 0,
            changed: 0,
            delay: Duration::from_nanos(plan.delay_ns),
            up: true,
        }
    }

    /// Returns whether a packet of this size fits the MTU.
    #[inline]
    pub(crate) fn fits(&self, size: u64) -> bool {
        size <= self.mtu
    }

    /// Counts a packet that is too large. Returns the MTU in bytes, if the sender is notified.
    pub(crate) fn reject(&mut self) -> Option<u32> {
        self.rejected += 1;
        self.icmp.then_some(self.mtu as u32)
    }

    /// Counts a packet whose payload the link changed.
    pub(crate) fn count_change(&mut self) {
        self.changed += 1;
    }

    /// Applies a change of the link.
    pub(crate) fn apply(&mut self, change: ChangePlan) {
        match change {
            ChangePlan::Mtu(bytes) => self.mtu = bytes,
            ChangePlan::DelayNs(ns) => self.delay = Duration::from_nanos(ns),
            ChangePlan::Down => self.up = false,
            ChangePlan::Up => self.up = true,
            ChangePlan::RateBps(_) | ChangePlan::Loss(_) => {}
        }
    }

    /// Writes the port's counts to the row of its link.
    pub(crate) fn report(&self, row: &mut LinkRow<'_>) {
        row.dropped_mtu = self.rejected as i64;
        row.changed = self.changed as i64;
    }
}

/// Creates the ports to a plan's links, in the order of the links.
pub(crate) fn ports(plan: &Plan) -> Vec<Port> {
    plan.links.iter().map(Port::new).collect()
}

/// Returns the time that a router's message takes back to the sender of a packet. It is the propagation delay
/// of all links in the opposite direction of the packet, which is `down` or up. Returns `None` if one of
/// those links is down, so that the message is lost.
pub(crate) fn way_back(ports: &[Port], route: &Route, down: bool) -> Option<Duration> {
    let mut links = route.links(!down).iter().map(|link| &ports[*link]);
    links.try_fold(Duration::ZERO, |delay, port| port.up.then_some(delay + port.delay))
}
