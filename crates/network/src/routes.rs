//! Routes: the links that packets pass, in order.

use anabranch_plan::{Family, Plan, PlanError};
use anabranch_units::Rate;

/// The bytes of an IPv4 header without options.
const IPV4_HEADER: u64 = 20;
/// The bytes of an IPv6 header.
const IPV6_HEADER: u64 = 40;

/// The links between two hosts, as indexes in the plan.
#[derive(Clone, Debug)]
pub struct Route {
    down: Vec<usize>,
    up: Vec<usize>,
    /// The address family of the hosts.
    pub family: Family,
}

impl Route {
    /// Returns the bytes of the IP header of packets on this route.
    pub fn ip_header(&self) -> u64 {
        match self.family {
            Family::Ipv4 => IPV4_HEADER,
            Family::Ipv6 => IPV6_HEADER,
        }
    }

    /// Returns the links of one direction, in order.
    pub fn links(&self, down: bool) -> &[usize] {
        if down { &self.down } else { &self.up }
    }

    /// Returns the rate of the slowest link towards the client at the start of the plan. Returns `None` if no
    /// link has a rate.
    pub fn slowest(&self, plan: &Plan) -> Option<Rate> {
        let rates = self.down.iter().filter_map(|link| plan.links[*link].rate_bps);
        rates.min().map(Rate::from_bps)
    }
}

/// Returns the routes of a plan's paths and those of its groups of cross traffic, both in the plan's order.
///
/// # Errors
/// Returns an error for an unknown link.
pub(crate) fn routes(plan: &Plan) -> Result<(Vec<Route>, Vec<Route>), PlanError> {
    let find = |key: &'static str, chain: &[String]| -> Result<Vec<usize>, PlanError> {
        let number = |(place, name): (usize, &String)| {
            let unknown = || PlanError::UnknownLink(name.clone()).at_element(key, place);
            plan.links.iter().position(|link| link.name == *name).ok_or_else(unknown)
        };
        chain.iter().enumerate().map(number).collect()
    };
    let mut paths = Vec::new();
    for (index, path) in plan.paths.iter().enumerate() {
        let below = |error: PlanError| error.at_element("paths", index);
        let down = find("down", &path.down).map_err(below)?;
        let up = find("up", &path.up).map_err(below)?;
        paths.push(Route { down, up, family: path.family });
    }
    let mut crossing = Vec::new();
    for (index, group) in plan.cross_traffic.iter().enumerate() {
        let below = |error: PlanError| error.at_element("cross_traffic", index);
        let down = find("data", &group.data).map_err(below)?;
        let up = find("acks", &group.acks).map_err(below)?;
        crossing.push(Route { down, up, family: group.family });
    }
    Ok((paths, crossing))
}
