//! Addresses that come and go: `ADD_ADDR`, `REMOVE_ADDR`, `MP_PRIO` (RFC 8684 sections 3.3.8 and
//! 3.4), as Linux's in-kernel path manager handles them (`net/mptcp/pm.c`, `pm_kernel.c`).

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use anabranch_units::{Duration, Instant};
use anabranch_wire::{AddAddr, MptcpOption, RemoveAddr, Segment, crypto};

use super::{Connection, Event, Mode};
use crate::config::{Announcement, Config};
use crate::path_manager::{Candidate, OpenPath};
use crate::subflow::{Reset, State, Subflow, earliest};

/// The number of repetitions of an announcement without an echo (`ADD_ADDR_RETRANS_MAX`).
const REPETITIONS: u32 = 3;
/// The longest wait before the first repetition (`net.mptcp.add_addr_timeout`).
const ECHO_TIMEOUT: Duration = Duration::from_secs(120);

/// How long after an address has come up joins are tried over it where that is late.
const LATE_JOIN: Duration = Duration::from_millis(500);

/// The reason "unacceptable performance" of a RST (RFC 8684 section 3.6).
const REASON_PERFORMANCE: u8 = 5;

/// What a connection knows of addresses.
#[derive(Debug)]
pub(super) struct Addresses {
    /// The initial subflow's address has the identifier 0, until it is removed.
    initial: Option<IpAddr>,
    /// Our end points, to join addresses that the peer announces.
    endpoints: Vec<Candidate>,
    /// Those for which no subflow was opened yet.
    unused: Vec<Candidate>,
    /// The initial subflow is to be a backup, which only `MP_PRIO` can say.
    demote_initial: bool,
    to_announce: VecDeque<Announcement>,
    announced: Vec<Announcement>,
    /// Addresses that have come up and are not used yet, and from when on they may be (`address_worker`).
    upcoming: VecDeque<(Instant, Candidate)>,
    /// The announcement that has not been echoed, and how often it was repeated.
    pending: Option<(Announcement, u32, Instant)>,
}

impl Addresses {
    pub(super) fn new(config: &Config) -> Self {
        let first = config.candidates.first();
        Self {
            initial: first.map(|candidate| candidate.local.ip()),
            endpoints: config.candidates.clone(),
            unused: config.candidates.iter().skip(1).copied().collect(),
            demote_initial: first.is_some_and(|candidate| candidate.backup),
            to_announce: config.announce.iter().copied().collect(),
            announced: Vec::new(),
            upcoming: VecDeque::new(),
            pending: None,
        }
    }

    /// The side that accepted learns its first address from the SYN.
    pub(super) fn accepted_at(&mut self, address: IpAddr) {
        self.initial = Some(address);
    }

    /// There is a deadline.
    #[inline(always)]
    pub(super) fn waits(&self) -> bool {
        self.pending.is_some() | !self.upcoming.is_empty()
    }

    /// When the announcement is to be repeated, or an address that has come up may be used.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let usable = self.upcoming.front().map(|(at, _)| *at);
        earliest(self.pending.map(|(_, _, at)| at), usable)
    }

    /// The identifier of a candidate's local address (`mptcp_endp_get_local_id`).
    pub(super) fn identifier(&self, candidate: &Candidate) -> u8 {
        if self.initial == Some(candidate.local.ip()) { 0 } else { candidate.address_id }
    }

    /// Every one of our addresses with this one of the peer's.
    pub(super) fn pairs(&self, remote: SocketAddr) -> Vec<Candidate> {
        let mut pairs: Vec<Candidate> = Vec::new();
        for endpoint in &self.endpoints {
            let seen = pairs.iter().any(|pair| pair.local.ip() == endpoint.local.ip());
            if !seen && endpoint.local.is_ipv4() == remote.is_ipv4() {
                pairs.push(Candidate { remote, ..*endpoint });
            }
        }
        pairs
    }

    /// An address of ours.
    pub(super) fn has(&self, address: IpAddr) -> bool {
        self.initial == Some(address)
            || self.endpoints.iter().any(|endpoint| endpoint.local.ip() == address)
            || self.announced.iter().any(|announced| announced.address == address)
            || self.to_announce.iter().any(|next| next.address == address)
    }

    /// The connection is over, or MPTCP is: nothing is repeated any more.
    pub(super) fn stop(&mut self) {
        self.upcoming.clear();
        self.pending = None;
    }

    /// Nothing is left to open or to announce.
    fn settled(&self) -> bool {
        self.unused.is_empty() && self.to_announce.is_empty() && !self.demote_initial
    }
}

impl Connection {
    /// Once the connection is confirmed: announces addresses and asks the path manager (client
    /// side) which subflows to open (`mptcp_pm_create_subflow_or_signal_addr`).
    #[inline(always)]
    pub(super) fn manage_paths(&mut self, now: Instant) {
        if !self.addresses.settled() && self.confirmed && self.mode == Mode::Multipath {
            self.settle_paths(now);
        }
    }

    #[cold]
    fn settle_paths(&mut self, now: Instant) {
        if std::mem::take(&mut self.addresses.demote_initial)
            && let Some(address) = self.addresses.initial
        {
            self.set_backup(now, address, true);
        }
        self.announce_next(now);
        if self.client && !self.addresses.unused.is_empty() {
            let open = self.open_paths();
            let chosen = self.path_manager.on_established(now, &self.addresses.unused, &open);
            self.addresses.unused.retain(|candidate| !chosen.contains(candidate));
            for candidate in chosen {
                self.join(now, candidate);
            }
        }
    }

    fn open_path(&self, subflow: &Subflow) -> OpenPath {
        let local = subflow.tuple.local;
        let here = self.addresses.endpoints.iter().find(|c| c.local.ip() == local.ip());
        OpenPath { local, srtt: subflow.rtt.srtt(), rate: here.and_then(|c| c.rate) }
    }

    pub(super) fn open_paths(&self) -> Vec<OpenPath> {
        self.subflows.iter().filter(|s| s.usable()).map(|s| self.open_path(s)).collect()
    }

    /// The answer to a join has come, and with it the path's delay: the path manager may not want the
    /// subflow. Then the peer is told so, and the address may be tried another time.
    pub(super) fn keep_or_reset_join(&mut self, now: Instant, index: usize) {
        let (joining, open) = (self.open_path(&self.subflows[index]), self.open_paths());
        if self.path_manager.admits(now, &joining, &open) {
            return;
        }
        let tuple = self.subflows[index].tuple;
        let same = |c: &&Candidate| c.local.ip() == tuple.local.ip();
        let candidate = self.addresses.endpoints.iter().find(same).copied();
        let remote = tuple.remote;
        self.addresses.unused.extend(candidate.map(|c| Candidate { remote, ..c }));
        self.reset_subflow(now, index, REASON_PERFORMANCE);
    }

    /// The identifier of one of our addresses; a new one for an address not seen before.
    pub(super) fn identifier_of(&self, address: IpAddr) -> u8 {
        if self.addresses.initial == Some(address) {
            return 0;
        }
        let used = self.subflows.iter().filter(|s| s.tuple.local.ip() == address);
        let endpoints = self.addresses.endpoints.iter().filter(|c| c.local.ip() == address);
        let announced = self.config.announce.iter().filter(|a| a.address == address);
        let known = announced
            .map(|a| a.address_id)
            .chain(endpoints.map(|c| c.address_id))
            .chain(used.map(|s| s.local_id))
            .next();
        known.unwrap_or_else(|| {
            let taken = |id: u8| {
                self.config.announce.iter().any(|a| a.address_id == id)
                    || self.addresses.endpoints.iter().any(|c| c.address_id == id)
                    || self.subflows.iter().any(|s| s.local_id == id)
            };
            // 0 names the address of the first subflow.
            (1..=u8::MAX).find(|id| !taken(*id)).unwrap_or(u8::MAX)
        })
    }

    /// The first working subflow, if possible not one that `avoid` names
    /// (`mptcp_pm_addr_send_ack_avoid_list`).
    pub(super) fn signal_on(&self, avoid: impl Fn(&Subflow) -> bool) -> Option<usize> {
        self.subflows.iter().position(|s| s.usable() && !avoid(s))
    }

    /// Input: one of our addresses can be used from now on, to reach `candidate.remote`. The path
    /// manager is asked whether to join over it (`mptcp_nl_add_subflow_or_signal_addr`).
    pub fn handle_address_added(&mut self, now: Instant, candidate: Candidate) {
        let wait = if self.config.stack.mptcp.joins_late { LATE_JOIN } else { Duration::ZERO };
        let at = now + wait;
        self.addresses.upcoming.push_back((at, candidate));
        self.use_addresses(now);
    }

    /// Time has come for addresses that came up a while ago, or for an announcement once more.
    pub(super) fn on_address_timeout(&mut self, now: Instant) {
        self.use_addresses(now);
        if self.addresses.pending.is_some_and(|(_, _, at)| now >= at) {
            self.repeat_announcement(now);
        }
    }

    fn use_addresses(&mut self, now: Instant) {
        while self.addresses.upcoming.front().is_some_and(|(at, _)| *at <= now) {
            let Some((_, candidate)) = self.addresses.upcoming.pop_front() else { return };
            self.addresses.endpoints.push(candidate);
            self.addresses.unused.push(candidate);
            self.manage_paths(now);
        }
    }

    /// Input: one of our addresses is gone. The peer is told over another subflow, once and without
    /// an echo; the subflows of the address end and what they had not delivered goes elsewhere
    /// (`mptcp_nl_remove_subflow_and_signal_addr`; RFC 8684 section 3.4.2).
    ///
    /// Plain TCP and a connection still in its first handshake have nobody to tell and keep trying.
    pub fn handle_address_removed(&mut self, now: Instant, address: IpAddr) {
        // The name it goes by now, before it is forgotten: a returned address has another one.
        let id = self.identifier_of(address);
        self.addresses.endpoints.retain(|c| c.local.ip() != address);
        self.addresses.unused.retain(|c| c.local.ip() != address);
        self.addresses.upcoming.retain(|(_, c)| c.local.ip() != address);
        if self.mode != Mode::Multipath {
            return;
        }
        let here = |s: &Subflow| s.tuple.local.ip() == address;
        let announced = self.addresses.announced.iter().any(|a| a.address == address);
        let in_use = self.subflows.iter().any(|s| here(s) && s.state != State::Closed);
        self.addresses.to_announce.retain(|a| a.address != address);
        self.addresses.announced.retain(|a| a.address != address);
        self.addresses.pending = self.addresses.pending.filter(|(a, _, _)| a.address != address);
        if in_use || announced {
            if let (Some(index), Some(option)) = (self.signal_on(here), RemoveAddr::new(&[id])) {
                self.subflows[index].signals.post(MptcpOption::RemoveAddr(option));
            }
            self.end_subflows(now, here);
        }
        if self.addresses.initial == Some(address) {
            // Should it return it has an identifier of its own.
            self.addresses.initial = None;
        }
    }

    /// Ends the subflows that `which` names with a RST. Linux sends a FIN here and a RST to whatever
    /// still comes: the same for the peer, a round trip later.
    pub(super) fn end_subflows(&mut self, now: Instant, which: impl Fn(&Subflow) -> bool) {
        for index in 0..self.subflows.len() {
            let subflow = &mut self.subflows[index];
            if which(subflow) && subflow.state != State::Closed {
                if subflow.state != State::SynSent {
                    subflow.reset = Some(Box::new(Reset::because(None)));
                }
                self.drop_subflow(now, index);
            }
        }
    }

    /// Asks the peer to use the subflows of one of our addresses as backups, or no longer so, and
    /// does the same here (`mptcp_pm_mp_prio_send_ack`; RFC 8684 section 3.3.8).
    pub fn set_backup(&mut self, now: Instant, address: IpAddr, backup: bool) {
        for endpoint in &mut self.addresses.endpoints {
            if endpoint.local.ip() == address {
                endpoint.backup = backup;
            }
        }
        for subflow in &mut self.subflows {
            if subflow.usable() && subflow.multipath && subflow.tuple.local.ip() == address {
                subflow.signals.set_own_backup(backup);
                subflow.touched = true;
                subflow.signals.post(MptcpOption::Prio { backup });
            }
        }
        self.push(now);
    }

    /// Announces the next address when none is waiting for its echo.
    fn announce_next(&mut self, now: Instant) {
        if self.addresses.pending.is_some() {
            return;
        }
        let Some(next) = self.addresses.to_announce.pop_front() else { return };
        self.addresses.announced.push(next);
        self.announce(now, next, 0);
    }

    fn announce(&mut self, now: Instant, what: Announcement, repetition: u32) {
        let Announcement { address_id, address, port } = what;
        if let (Some(remote), Some(index)) = (self.remote_key, self.signal_on(|_| false)) {
            let keys = (self.local_key.value, remote.value);
            let hmac = crypto::add_addr_hmac(keys.0, keys.1, address_id, address, port);
            let option = AddAddr { address_id, address, port, hmac: Some(hmac) };
            self.subflows[index].signals.post(MptcpOption::AddAddr(option));
        }
        // `mptcp_adjust_add_addr_timeout`: the longest retransmission timeout, doubled each time.
        let timeouts = self.subflows.iter().filter(|s| s.usable()).map(|s| s.rtt.rto());
        let wait = timeouts.max().unwrap_or(ECHO_TIMEOUT).min(ECHO_TIMEOUT) * (1 << repetition);
        let deadline = self.config.host.expiry(now, wait);
        self.addresses.pending = Some((what, repetition, deadline));
    }

    /// No echo has come: announces again, or goes on to the next address (`mptcp_pm_add_timer`).
    fn repeat_announcement(&mut self, now: Instant) {
        let Some((what, repetition, _)) = self.addresses.pending.take() else { return };
        if repetition < REPETITIONS && !self.is_closed() {
            self.announce(now, what, repetition + 1);
        } else if !self.is_closed() {
            self.announce_next(now);
        }
    }

    /// The options about addresses on a segment of an established subflow.
    pub(super) fn handle_address_options(&mut self, now: Instant, index: usize, segment: &Segment) {
        for option in &segment.mptcp {
            match *option {
                MptcpOption::AddAddr(add) => self.handle_add_addr(now, index, add),
                MptcpOption::RemoveAddr(remove) => self.handle_remove_addr(now, index, remove),
                MptcpOption::Prio { backup } => self.subflows[index].signals.wish_priority(backup),
                _ => {}
            }
        }
        if self.subflows[index].signals.has_wish() {
            self.grant_priority(now, index);
        }
    }

    /// Does as the peer wishes with a subflow's priority, unless it has changed its mind too often.
    fn grant_priority(&mut self, now: Instant, index: usize) {
        let subflow = &mut self.subflows[index];
        let id = subflow.id;
        match subflow.signals.grant_priority(now) {
            Some(backup) => {
                subflow.touched = true;
                self.events.push_back(Event::PriorityChanged { id, backup });
            }
            None => self.counters.deferred_priorities += u64::from(subflow.signals.has_wish()),
        }
    }

    /// An echo of an announcement of ours; any other says nothing.
    pub(super) fn handle_echo(&mut self, now: Instant, what: Announcement) {
        if self.addresses.pending.is_some_and(|(pending, _, _)| pending == what) {
            self.addresses.pending = None;
            self.announce_next(now);
        }
    }
}
