//! The clients' network interfaces, one for each path. They determine whether packets pass, whether MPTCP
//! uses the path, and which changes are signalled to a client's connections.

use anabranch_host::Host;
use anabranch_mptcp::Connection;
use anabranch_mptcp::path_manager::Candidate;
use anabranch_plan::addresses::{client_address, server_address};
use anabranch_plan::{Family, InterfacePlan, PathPlan, Plan};
use anabranch_units::{Instant, Rate};

use crate::routes::Route;

/// The interface that each client has on a path.
#[derive(Clone, Debug)]
struct Interface {
    family: Family,
    backup: bool,
    /// The rate of the path's slowest link towards the client at the start of the plan.
    rate: Option<Rate>,
    /// Whether packets pass.
    up: bool,
    /// Whether the interface's address is an MPTCP endpoint.
    endpoint: bool,
    /// The endpoint's address ID. ID 0 is reserved for the initial subflow.
    address_id: u8,
}

impl Interface {
    /// Returns whether new connections use the interface.
    fn usable(&self) -> bool {
        self.up && self.endpoint
    }
}

/// A notice to a client's MPTCP about an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointNews {
    /// The endpoint was removed.
    Removed,
    /// The endpoint was added again.
    Added,
}

/// The interfaces of a plan's clients. All clients' interfaces on a path change together.
#[derive(Clone, Debug)]
pub struct Interfaces {
    paths: Vec<Interface>,
    last_address_id: u8,
}

impl Interfaces {
    /// Creates an interface for each path of a plan. All of them are up. `routes` are the routes of the
    /// paths, in order.
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

    /// Returns whether the interface on a path is up, so that packets pass.
    #[inline]
    pub fn is_up(&self, path: usize) -> bool {
        self.paths[path].up
    }

    /// Changes the interface on a path. If its endpoint is removed or added, the caller must notify every
    /// client ([`Self::notify`]). MPTCP is not notified if an interface goes down.
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

    /// Returns an address ID for an endpoint that is added again: the next one that is not in use
    /// (`mptcp_pm_nl_append_new_local_addr`).
    fn fresh_address_id(&mut self) -> u8 {
        loop {
            self.last_address_id = self.last_address_id.checked_add(1).unwrap_or(1);
            if !self.paths.iter().any(|path| path.address_id == self.last_address_id) {
                return self.last_address_id;
            }
        }
    }

    /// Returns the pairs of addresses for the subflows of a client's `connection`-th connection to a port of
    /// the server. Interfaces that are down are excluded, because the host has no route over them. If all are
    /// down, none is excluded.
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

    /// Notifies every open connection of a client that its endpoint on a path was removed or added. `ports`
    /// counts the ports that the client has used. A new subflow gets a new port, as in the kernel.
    pub fn notify(
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
        Interfaces::new(&plan, &routes(&plan).expect("known links").0)
    }

    /// Returns the address ID and the backup flag of each candidate of a new connection.
    fn usable(interfaces: &Interfaces) -> Vec<(u8, bool)> {
        interfaces.candidates(0, 0, 80).iter().map(|it| (it.address_id, it.backup)).collect()
    }

    #[test]
    fn only_the_removal_or_addition_of_an_end_point_is_news() {
        let mut interfaces = interfaces();
        let [down, removed, up] = [InterfacePlan::Down, InterfacePlan::Removed, InterfacePlan::Up];
        assert_eq!(interfaces.change(1, down), None);
        assert!(interfaces.is_up(0) && !interfaces.is_up(1));
        assert_eq!(usable(&interfaces), [(1, false)]);
        assert_eq!(interfaces.change(1, up), None, "the end point was not removed");
        assert_eq!(usable(&interfaces), [(1, false), (2, true)]);
        assert_eq!(interfaces.change(1, removed), Some(EndpointNews::Removed));
        assert_eq!(interfaces.change(1, removed), None, "it is removed already");
        assert_eq!(interfaces.change(1, up), Some(EndpointNews::Added));
        assert_eq!(usable(&interfaces), [(1, false), (3, true)], "a new identifier");
    }

    #[test]
    fn all_paths_are_candidates_if_every_interface_is_down() {
        let mut interfaces = interfaces();
        for path in 0..2 {
            interfaces.change(path, InterfacePlan::Down);
        }
        assert_eq!(usable(&interfaces).len(), 2);
    }
}
