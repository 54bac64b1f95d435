//! What a scenario changes while it runs: links, and the clients' network interfaces.

use anabranch_plan::addresses::{client_address, server_address};
use anabranch_plan::{ChangePlan, Happening, InterfacePlan};
use anabranch_trace::EventRow;
use anabranch_transport::ConnectionHandle;
use anabranch_transport::path_manager::Candidate;

use super::{RunError, World};

impl World<'_> {
    /// The next event of the plan takes place.
    pub(super) fn next_event_happens(&mut self) -> Result<(), RunError> {
        let plan = self.plan;
        let event = &plan.events[self.next_event];
        self.next_event += 1;
        let (name, what) = match event.happening() {
            Some(Happening::Link(link, change)) => {
                self.change_link(link, change)?;
                (link, change.describe())
            }
            Some(Happening::Interface(path, what)) => {
                let index = self.topology.path(path)?;
                self.change_interface(index, what)?;
                (path, what.name().to_owned())
            }
            None => return Ok(()),
        };
        self.rows.events.push(EventRow { t_s: self.seconds(self.now), link: name, what: &what });
        Ok(())
    }

    fn change_link(&mut self, name: &str, change: ChangePlan) -> Result<(), RunError> {
        let link = self.topology.link(name)?;
        self.topology.ways[link].follow(change);
        let Some(change) = change.change() else { return Ok(()) };
        let medium = self.topology.links.set(self.now, link, change);
        self.schedule.set(medium, self.topology.links.poll_timeout(medium));
        Ok(())
    }

    /// Every client's interface on a path. That it goes down tells a host's MPTCP nothing; that its
    /// end point is removed or added does.
    fn change_interface(&mut self, path: usize, what: InterfacePlan) -> Result<(), RunError> {
        let had = self.topology.paths[path].interface.endpoint;
        let has = match what {
            InterfacePlan::Down => had,
            InterfacePlan::Removed => false,
            InterfacePlan::Up => true,
        };
        let returns = has && !had;
        if returns {
            let id = self.topology.fresh_address_id();
            self.topology.paths[path].interface.address_id = id;
        }
        let interface = &mut self.topology.paths[path].interface;
        interface.up = what == InterfacePlan::Up;
        interface.endpoint = has;
        if had == has {
            return Ok(());
        }
        for client in 0..self.plan.clients as usize {
            let endpoint = self.stations[client].host.endpoint();
            let all: Vec<_> = endpoint.connections().map(|(handle, _)| handle).collect();
            for handle in all {
                self.tell(path, client, handle, returns);
            }
            if !self.stations[client].host.needs_connection() {
                self.drive(client)?;
            }
        }
        Ok(())
    }

    /// A connection of a client hears that an end point came or went.
    fn tell(&mut self, path: usize, client: usize, handle: ConnectionHandle, returns: bool) {
        let at = &mut self.stations[client];
        let connection = at.host.endpoint().connection(handle);
        let (false, Some(last)) = (connection.is_closed(), connection.last_tuple()) else { return };
        let family = self.topology.routes[path].family;
        let local = client_address(family, path, client as u32, at.ports);
        let connection = at.host.endpoint_mut().connection_mut(handle);
        if !returns {
            connection.handle_address_removed(self.now, local.ip());
            return;
        }
        // A port of its own, as the kernel would choose one.
        at.ports += 1;
        let candidate = Candidate {
            address_id: self.topology.paths[path].address_id(),
            local,
            remote: server_address(family, path, last.remote.port()),
            backup: self.topology.paths[path].backup,
            rate: self.topology.paths[path].rate,
        };
        connection.handle_address_added(self.now, candidate);
    }
}
