//! What hosts do when they are woken: connections first, then applications, then what they send.

use anabranch_transport::path_manager::Candidate;
use anabranch_transport::{ConnectError, Outgoing, earliest};

use super::setup::config;
use super::{Node, RunError, World};
use crate::application::ClientNeed;
use crate::fault::PlanError;
use crate::plan::ApplicationKind;
use crate::topology::{DATA_PORT, HTTP_PORT, client_address, server_address};

impl World<'_> {
    pub(super) fn wake_client(&mut self, client: u32) -> Result<(), RunError> {
        if self.hosts[client as usize].current.is_none() {
            self.open_connection(client)?;
        }
        let host = &mut self.hosts[client as usize];
        while host.endpoint.handle_timeout(self.now).is_some() {}
        self.drive_client(client)
    }

    pub(super) fn open_connection(&mut self, client: u32) -> Result<(), RunError> {
        let mut config = config(self.plan, &self.registry)?;
        let host = &mut self.hosts[client as usize];
        let number = host.ports;
        host.ports += 1;
        let port = match self.plan.application.kind {
            ApplicationKind::Progressive | ApplicationKind::Adaptive => HTTP_PORT,
            ApplicationKind::Bulk | ApplicationKind::Paced => DATA_PORT,
        };
        // A host has no route over an interface that is down; without any it tries them all.
        let paths = &self.topology.paths;
        let none = !paths.iter().any(|path| path.interface.usable());
        config.candidates = paths
            .iter()
            .enumerate()
            .filter(|(_, path)| none || path.interface.usable())
            .map(|(path, p)| Candidate {
                address_id: p.address_id(),
                local: client_address(p.family, path, client, number),
                remote: server_address(p.family, path, port),
                backup: p.backup,
                rate: p.rate,
            })
            .collect();
        let fault = |error| unconnected(error).at("transport");
        host.current = Some(host.endpoint.connect(self.now, config).map_err(fault)?);
        Ok(())
    }

    pub(super) fn drive_client(&mut self, client: u32) -> Result<(), RunError> {
        let index = client as usize;
        // What a segment is answered with goes out before the application runs (`tcp_ack_snd_check`).
        self.transmit_client(client)?;
        loop {
            let host = &mut self.hosts[index];
            let connection = host.current.map(|handle| host.endpoint.connection_mut(handle));
            let was = self.clients[index].over;
            let need = self.clients[index].drive(self.now, connection, &mut self.rows)?;
            self.unfinished -= usize::from(!was && self.clients[index].over);
            if need == ClientNeed::Nothing {
                break;
            }
            if let Some(handle) = self.hosts[index].current {
                self.hosts[index].endpoint.connection_mut(handle).abort();
            }
            self.open_connection(client)?;
        }
        self.transmit_client(client)?;
        let host = &mut self.hosts[index];
        let wake = earliest(self.clients[index].poll_timeout(), host.endpoint.poll_timeout());
        self.schedule.set(host.node, wake);
        Ok(())
    }

    #[inline(always)]
    fn transmit_client(&mut self, client: u32) -> Result<(), RunError> {
        let index = client as usize;
        while let Some(Outgoing { tuple, .. }) =
            self.hosts[index].endpoint.poll_transmit_into(self.now, &mut self.blank.segment)
        {
            let packet = self.written();
            self.send(packet, tuple, false)?;
        }
        Ok(())
    }

    pub(super) fn drive_serving(&mut self, handle: usize) -> Result<(), RunError> {
        // What a segment lets out goes out before the application writes more.
        self.transmit_server()?;
        let connection = self.server.connection_mut(self.served_by[handle]);
        self.serving[handle].drive(self.now, connection);
        if let wake @ Some(_) = self.serving[handle].poll_timeout() {
            let node = self.serving_nodes[handle];
            let node = node.unwrap_or_else(|| self.add_node(Node::Serving(handle)));
            self.serving_nodes[handle] = Some(node);
            self.schedule.set(node, wake);
        } else if let Some(node) = self.serving_nodes[handle] {
            self.schedule.set(node, None);
        }
        self.drive_server()
    }

    /// Sends what the server has to send.
    #[inline(always)]
    pub(super) fn drive_server(&mut self) -> Result<(), RunError> {
        self.transmit_server()?;
        self.set_server_wake();
        Ok(())
    }

    #[inline(always)]
    fn transmit_server(&mut self) -> Result<(), RunError> {
        loop {
            let segment = &mut self.blank.segment;
            let Some(sent) = self.server.poll_transmit_into(self.now, segment) else { break };
            let followed = match sent.connection {
                Some(handle) => {
                    let connection = self.server.connection(handle);
                    self.flights[handle.index()].depart(self.now, connection, segment)?
                }
                None => None,
            };
            let mut packet = self.written();
            if let Some(handle) = sent.connection {
                packet.follow(handle.index(), followed);
            }
            self.send(packet, sent.tuple, true)?;
        }
        Ok(())
    }

    #[inline(always)]
    pub(super) fn set_server_wake(&mut self) {
        self.schedule.set(self.server_node, self.server.poll_timeout());
    }
}

/// What is wrong with a plan whose connection cannot be opened.
pub(super) fn unconnected(error: ConnectError) -> PlanError {
    match error {
        ConnectError::Plugin(error) => error.into(),
        error => unreachable!("every connection has ports of its own: {error}"),
    }
}
