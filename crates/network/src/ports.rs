//! The routers' ports: the properties of links that only the router in front of a link knows.

use anabranch_plan::{ChangePlan, LinkPlan, Plan};
use anabranch_trace::LinkRow;
use anabranch_units::Duration;

use crate::routes::Route;

/// A router's port to a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Port {
    /// The largest packet, bytes; `u64::MAX` without a limit.
    mtu: u64,
    /// The router notifies senders of larger packets.
    icmp: bool,
    /// Packets that were too large.
    rejected: u64,
    /// Packets that came out of the link with another payload.
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

    /// Whether a packet of this size fits.
    #[inline]
    pub(crate) fn fits(&self, size: u64) -> bool {
        size <= self.mtu
    }

    /// Counts a packet that is too large. Returns the MTU, bytes, if the sender is notified.
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

/// The ports to a plan's links, in their order.
pub(crate) fn ports(plan: &Plan) -> Vec<Port> {
    plan.links.iter().map(Port::new).collect()
}

/// The time that a router's message takes back to the sender of a packet that goes `down` a route, or up: the propagation
/// delay of all links of the other direction. `None` if one of them is down and the message is lost.
pub(crate) fn way_back(ports: &[Port], route: &Route, down: bool) -> Option<Duration> {
    let mut links = route.links(!down).iter().map(|link| &ports[*link]);
    links.try_fold(Duration::ZERO, |delay, port| port.up.then_some(delay + port.delay))
}
