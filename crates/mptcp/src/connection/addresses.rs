//! Local and remote addresses that are added and removed during a connection.

use std::net::IpAddr;

use anabranch_units::{Instant, RandomStream};
use anabranch_wire::{MptcpOption, Segment};

use super::{Connection, signals};
use crate::path_manager::Candidate;

impl Connection {
    /// Announces addresses and opens subflows after the connection is confirmed.
    pub(super) fn update_paths(&mut self, now: Instant) {
        if !self.signals.has_work(&self.session) {
            return;
        }
        if self.signals.set_initial_backup(&mut self.subflows) {
            self.push(now);
        }
        for candidate in self.signals.update_paths(now, &self.session, &mut self.subflows) {
            self.open_join(now, candidate);
        }
    }

    /// Handles a new local address that can reach `candidate.remote`. The path manager decides whether to
    /// join over it (`mptcp_nl_add_subflow_or_signal_addr`).
    pub fn handle_address_added(&mut self, now: Instant, candidate: Candidate) {
        self.signals.add_address(now, &self.session, candidate);
        while self.signals.add_next_address(now) {
            self.update_paths(now);
        }
    }

    /// Handles the address timer: joins delayed addresses and resends `ADD_ADDR`.
    pub(super) fn on_address_timeout(&mut self, now: Instant) {
        while self.signals.add_next_address(now) {
            self.update_paths(now);
        }
        let closed = self.is_closed();
        self.signals.repeat_announcement(now, &self.session, &mut self.subflows, closed);
    }

    /// Handles the removal of a local address. Its subflows end, and their undelivered data is sent again on
    /// others.
    pub fn handle_address_removed(&mut self, now: Instant, address: IpAddr) {
        if self.signals.remove_address(&self.session, &mut self.subflows, address) {
            let ends = self.subflows.live_positions(|s| s.tcp.tuple().local.ip() == address);
            self.end_subflows(now, ends);
        }
    }

    /// Requests that the peer uses the subflows of one of our addresses as backups, or no longer. Sets the
    /// same priority here.
    pub fn set_backup(&mut self, now: Instant, address: IpAddr, backup: bool) {
        self.signals.set_backup(&mut self.subflows, address, backup);
        self.push(now);
    }

    /// Handles the options about addresses on a segment of an established subflow.
    pub(super) fn handle_address_options(&mut self, now: Instant, index: usize, segment: &Segment) {
        for option in &segment.mptcp {
            let (session, subflows) = (&mut self.session, &mut self.subflows);
            match *option {
                MptcpOption::AddAddr(add) => {
                    let joins = self.signals.handle_add_addr(now, session, subflows, index, add);
                    for candidate in joins {
                        if let Some(index) = self.open_join(now, candidate) {
                            self.subflows[index].context.set_remote_id(add.address_id);
                        }
                    }
                }
                MptcpOption::RemoveAddr(remove) => {
                    let spared = self.signals.handle_remove_addr(session, subflows, index, &remove);
                    let ids = remove.ids();
                    let ends = self.subflows.live_positions(|s| {
                        ids.contains(&s.context.remote_id()) && Some(s.tcp.id()) != spared
                    });
                    self.end_subflows(now, ends);
                }
                MptcpOption::Prio { backup } => {
                    subflows[index].context.signals_mut().set_wished_priority(backup);
                }
                _ => {}
            }
        }
        if self.subflows[index].context.signals().has_wish() {
            signals::grant_priority(now, &mut self.session, &mut self.subflows, index);
        }
    }

    /// Opens a further subflow. Returns `None` if the pair must not be tried, its addresses are of different
    /// families, or no slot is free.
    pub(super) fn open_join(&mut self, now: Instant, candidate: Candidate) -> Option<usize> {
        let remote = self.session.remote_key()?;
        if !self.signals.may_join(&self.subflows, &candidate) {
            return None;
        }
        let tuple = self.subflows.unused_tuple(&candidate);
        let local_id = self.signals.identifier(&candidate);
        let (stream, iss) = self.session.draw_opening(now, &tuple);
        let index = self.insert_subflow(tuple, true, stream, iss).ok()??;
        let nonce = self.session.draw(RandomStream::next_u64) as u32;
        self.closing.end_wait();
        self.subflows.open_join(index, &candidate, local_id, remote.token, nonce);
        Some(index)
    }
}
