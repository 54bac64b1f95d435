//! The events of a scenario during a run: changes of links and of the clients' network interfaces.

use anabranch_network::{Due, EndpointNews, Happened};

use super::hosts::Station;
use super::{RunError, World};

impl World<'_> {
    /// Applies the next event of the plan.
    pub(super) fn handle_event(&mut self) -> Result<(), RunError> {
        match self.network.handle_event(self.now, &mut self.rows) {
            Some(Happened::Link { medium: Some(medium) }) => {
                self.schedule.set(medium, self.network.due_at(Due::Medium(medium)));
            }
            Some(Happened::Interface { change, news: Some(news) }) => {
                self.notify_clients(change.path, news)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Notifies every client of a change of its interface on a path.
    fn notify_clients(&mut self, path: usize, news: EndpointNews) -> Result<(), RunError> {
        for client in 0..self.plan.clients {
            let Station { host, ports, .. } = &mut self.stations[client as usize];
            self.network.interfaces().notify(self.now, path, news, (client, ports), host);
            if !host.needs_connection() {
                self.drive(client as usize)?;
            }
        }
        Ok(())
    }
}
