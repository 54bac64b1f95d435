//! What a scenario changes while it runs: links, and the clients' network interfaces.

use anabranch_plan::{ChangePlan, Happening, InterfacePlan};
use anabranch_trace::EventRow;

use super::hosts::Station;
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

    /// Every client's interface on a path.
    fn change_interface(&mut self, path: usize, what: InterfacePlan) -> Result<(), RunError> {
        let Some(news) = self.topology.interfaces.change(path, what) else { return Ok(()) };
        for client in 0..self.plan.clients {
            let Station { host, ports, .. } = &mut self.stations[client as usize];
            let interfaces = &self.topology.interfaces;
            interfaces.tell(self.now, path, news, (client, ports), host);
            if !host.needs_connection() {
                self.drive(client as usize)?;
            }
        }
        Ok(())
    }
}
