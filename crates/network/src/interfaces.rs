//! The clients' network interfaces, one a path: which pass packets, which are end points of MPTCP, and what the
//! connections of a client are told when that changes; the same in every world.

use anabranch_host::Host;
use anabranch_plan::addresses::{client_address, server_address};
use anabranch_plan::{Family, InterfacePlan, PathPlan, Plan};
use anabranch_transport::Connection;
use anabranch_transport::path_manager::Candidate;
use anabranch_units::{Instant, Rate};

use crate::routes::Route;

/// The interface of every client on a path.
#[derive(Clone, Debug)]
struct Interface {
    family: Family,
    backup: bool,
    /// The rate of the path's slowest link towards the client when the plan begins.
    rate: Option<Rate>,
    /// Packets pass.
    up: bool,
    /// It is an end point of MPTCP.
    endpoint: bool,
    /// The end point's identifier; not 0, the initial subflow's.
    address_id: u8,
}

impl Interface {
    /// New connections use it.
    fn usable(&self) -> bool {
        self.up && self.endpoint
    }
}

/// What a host's MPTCP hears of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointNews {
    /// The end point is removed.
    Removed,
    /// It is added again.
    Added,
}

/// The interfaces of a plan's clients, which all go and come together.
#[derive(Clone, Debug)]
pub struct Interfaces {
    paths: Vec<Interface>,
    last_address_id: u8,
}

impl Interfaces {
    /// All of them up, one for each of a plan's paths, whose routes are given in their order.
    pub fn new(plan: &Plan, routes: &[Route]) -> Self {
        let interface = |(index, (path, route)): (usize, (&PathPlan, &Route))| Interface {
            family: path.family,
            backup: path.backup,
            rate: route.slowest(plan),
            up: true,
            endpoint: true,
            address_id: index as u8 + 1,
        };
        let paths: Vec<_> = plan.paths.iter().zip(routes).enumerate().map(interface).collect();
        let last_address_id = paths.len() as u8;
        Self { paths, last_address_id }
    }

    /// Whether packets pass the interface on a path.
    #[inline]
    pub fn is_up(&self, path: usize) -> bool {
        self.paths[path].up
    }

    /// The interface on a path changes. That it goes down tells a host's MPTCP nothing; that its end point is
    /// removed or added does: then that is returned, and [`Self::tell`] is to be called for every client.
    pub fn change(&mut self, path: usize, what: InterfacePlan) -> Option<EndpointNews> {
        let had = self.paths[path].endpoint;
        let has = match what {
            InterfacePlan::Down => had,
            InterfacePlan::Removed => false,
            InterfacePlan::Up => true,
        };
        let returns = has && !had;
        if returns {
            self.paths[path].address_id = self.fresh_address_id();
        }
        let interface = &mut self.paths[path];
        interface.up = what == InterfacePlan::Up;
        interface.endpoint = has;
        match (had, has) {
            (true, false) => Some(EndpointNews::Removed),
            (false, true) => Some(EndpointNews::Added),
            _ => None,
        }
    }

    /// An identifier for an end point that is added again: the next one that none has
    /// (`mptcp_pm_nl_append_new_local_addr`).
    fn fresh_address_id(&mut self) -> u8 {
        loop {
            self.last_address_id = self.last_address_id.checked_add(1).unwrap_or(1);
            if !self.paths.iter().any(|path| path.address_id == self.last_address_id) {
                return self.last_address_id;
            }
        }
    }

    /// Where a client's `connection`-th connection, to a port of the server, may have subflows. A host has no
    /// route over an interface that is down; without any it tries them all.
    pub fn candidates(&self, client: u32, connection: u16, port: u16) -> Vec<Candidate> {
        let none = !self.paths.iter().any(Interface::usable);
        let known = self.paths.iter().enumerate();
        known
            .filter(|(_, path)| none || path.usable())
            .map(|(path, _)| self.candidate(path, client, connection, port))
            .collect()
    }

    fn candidate(&self, path: usize, client: u32, connection: u16, port: u16) -> Candidate {
        let Interface { family, backup, rate, address_id, .. } = self.paths[path];
        let local = client_address(family, path, client, connection);
        let remote = server_address(family, path, port);
        Candidate { address_id, local, remote, backup, rate }
    }

    /// Every open connection of a client hears what became of its end point on a path. `ports` counts those that
    /// the client has used: a subflow that begins anew has one of its own, as the kernel would choose one.
    pub fn tell(
        &self,
        now: Instant,
        path: usize,
        news: EndpointNews,
        (client, ports): (u32, &mut u16),
        host: &mut Host,
    ) {
        let connections = host.endpoint().connections().filter(|(_, it)| !it.is_closed());
        let port = |it: &Connection| it.view().last_tuple().map(|last| last.remote.port());
        let open: Vec<_> = connections.filter_map(|(at, it)| Some((at, port(it)?))).collect();
        for (handle, port) in open {
            let candidate = self.candidate(path, client, *ports, port);
            let connection = host.endpoint_mut().connection_mut(handle);
            match news {
                EndpointNews::Removed => {
                    connection.handle_address_removed(now, candidate.local.ip());
                }
                EndpointNews::Added => {
                    *ports += 1;
                    connection.handle_address_added(now, candidate);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::routes;

    fn interfaces() -> Interfaces {
        let link = |name| format!(r#"{{"name":"{name}","rate_bps":1000000,"delay_ns":0}}"#);
        let path = |name: &str, keys| {
            format!(r#"{{"name":"{name}","down":["{name}.d"],"up":["{name}.u"]{keys}}}"#)
        };
        let text = format!(
            r#"{{"scenario":"t","seed":1,"run":0,"application":{{"kind":"bulk"}},
            "transport":{{"scheduler":"linux","congestion":"cubic","path_manager":"full-mesh",
              "receive_buffer_initial":1,"receive_buffer_max":1,"send_buffer_max":1,"mss":1460}},
            "links":[{}],"paths":[{},{}],"time_limit_ns":1}}"#,
            ["a.d", "a.u", "b.d", "b.u"].map(link).join(","),
            path("a", ""),
            path("b", r#","backup":true,"family":"ipv6""#),
        );
        let plan = Plan::from_json(&text).unwrap_or_else(|error| panic!("{error}"));
        Interfaces::new(&plan, &routes(&plan).expect("links that there are").0)
    }

    /// Path, identifier and backup of what a new connection may use.
    fn usable(interfaces: &Interfaces) -> Vec<(u8, bool)> {
        interfaces.candidates(0, 0, 80).iter().map(|it| (it.address_id, it.backup)).collect()
    }

    #[test]
    fn only_an_end_point_that_goes_or_comes_is_news() {
        let mut interfaces = interfaces();
        let [down, removed, up] = [InterfacePlan::Down, InterfacePlan::Removed, InterfacePlan::Up];
        assert_eq!(interfaces.change(1, down), None);
        assert!(interfaces.is_up(0) && !interfaces.is_up(1));
        assert_eq!(usable(&interfaces), [(1, false)]);
        assert_eq!(interfaces.change(1, up), None, "the end point was there all the time");
        assert_eq!(usable(&interfaces), [(1, false), (2, true)]);
        assert_eq!(interfaces.change(1, removed), Some(EndpointNews::Removed));
        assert_eq!(interfaces.change(1, removed), None, "it is gone already");
        assert_eq!(interfaces.change(1, up), Some(EndpointNews::Added));
        assert_eq!(usable(&interfaces), [(1, false), (3, true)], "an identifier of its own");
    }

    #[test]
    fn without_any_route_all_are_tried() {
        let mut interfaces = interfaces();
        for path in 0..2 {
            interfaces.change(path, InterfacePlan::Down);
        }
        assert_eq!(usable(&interfaces).len(), 2);
    }
}
