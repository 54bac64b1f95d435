//! What routers know of links that the links themselves do not: how large a packet they take, and the way that word
//! of one that was too large goes back to its sender.

use anabranch_plan::{ChangePlan, LinkPlan, Plan};
use anabranch_units::Duration;

use crate::routes::Route;

/// What a router knows of the link behind it.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// The largest packet that it takes, bytes; `u64::MAX` where it takes any.
    pub mtu: u64,
    /// Senders of larger ones are told.
    pub icmp: bool,
    /// Packets that were too large.
    pub dropped: u64,
    /// Packets that came out of the link with another payload.
    pub changed: u64,
    delay: Duration,
    up: bool,
}

impl Way {
    fn new(plan: &LinkPlan) -> Self {
        Self {
            mtu: plan.mtu.unwrap_or(u64::MAX),
            icmp: plan.icmp,
            dropped: 0,
            changed: 0,
            delay: Duration::from_nanos(plan.delay_ns),
            up: true,
        }
    }

    /// The link changes.
    pub fn follow(&mut self, change: ChangePlan) {
        match change {
            ChangePlan::Mtu(bytes) => self.mtu = bytes,
            ChangePlan::DelayNs(ns) => self.delay = Duration::from_nanos(ns),
            ChangePlan::Down => self.up = false,
            ChangePlan::Up => self.up = true,
            ChangePlan::RateBps(_) | ChangePlan::Loss(_) => {}
        }
    }
}

/// The ways of a plan's links, in their order.
pub fn ways(plan: &Plan) -> Vec<Way> {
    plan.links.iter().map(Way::new).collect()
}

/// How long news takes back to the sender of a packet that goes `down` a route, or up: the propagation delay of all its
/// links; `None` where one of them is down, and it does not arrive.
pub fn way_back(ways: &[Way], route: &Route, down: bool) -> Option<Duration> {
    let mut links = route.links(!down).iter().map(|link| &ways[*link]);
    links.try_fold(Duration::ZERO, |delay, way| way.up.then_some(delay + way.delay))
}
