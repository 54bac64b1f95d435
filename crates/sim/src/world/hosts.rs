//! What hosts do when they are woken: connections first, then applications, then what they send.

use anabranch_transport::path_manager::Candidate;
use anabranch_transport::{ConnectionHandle, earliest};

use super::setup::config;
use super::{RunError, World};
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
        for handle in 0..host.endpoint.connections().len() {
            host.endpoint.connection_mut(ConnectionHandle(handle)).handle_timeout(self.now);
        }
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
                local: client_address(path, client, number),
                remote: server_address(path, port),
                backup: p.backup,
                rate: p.rate,
            })
            .collect();
        let fault = |error| PlanError::from(error).at("transport");
        host.current = Some(host.endpoint.connect(config).map_err(fault)?);
        Ok(())
    }

    pub(super) fn drive_client(&mut self, client: u32) -> Result<(), RunError> {
        let index = client as usize;
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
        for handle in 0..self.hosts[index].endpoint.connections().len() {
            let handle = ConnectionHandle(handle);
            while let Some(tuple) = self.hosts[index]
                .endpoint
                .connection_mut(handle)
                .poll_transmit_into(self.now, &mut self.blank.segment)
            {
                let packet = self.written();
                self.send(packet, tuple, false)?;
            }
        }
        while let Some(reply) = self.hosts[index].endpoint.poll_transmit() {
            self.answer(reply, false)?;
        }
        let host = &self.hosts[index];
        let own = self.clients[index].poll_timeout();
        let connections = host.endpoint.connections().iter();
        let wake = connections.fold(own, |first, c| earliest(first, c.poll_timeout()));
        self.schedule.set(host.node, wake);
        Ok(())
    }

    pub(super) fn drive_serving(&mut self, handle: usize) -> Result<(), RunError> {
        let connection = self.server.connection_mut(ConnectionHandle(handle));
        self.serving[handle].drive(self.now, connection);
        loop {
            let connection = self.server.connection_mut(ConnectionHandle(handle));
            let segment = &mut self.blank.segment;
            let Some(tuple) = connection.poll_transmit_into(self.now, segment) else { break };
            let followed = self.flights[handle].depart(self.now, connection, segment)?;
            let mut packet = self.written();
            packet.follow(handle, followed);
            self.send(packet, tuple, true)?;
        }
        let connection = self.server.connection(ConnectionHandle(handle));
        let wake = earliest(connection.poll_timeout(), self.serving[handle].poll_timeout());
        self.schedule.set(self.serving_nodes[handle], wake);
        Ok(())
    }
}
