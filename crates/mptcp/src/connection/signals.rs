//! Signals about addresses: `ADD_ADDR`, `REMOVE_ADDR`, `MP_PRIO` (RFC 8684 sections 3.3.8 and 3.4), as Linux's
//! in-kernel path manager handles them (`net/mptcp/pm.c`, `pm_kernel.c`).

mod peer_addresses;

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use anabranch_plugin::PluginError;
use anabranch_units::{Duration, Instant};
use anabranch_wire::{AddAddr, MpCapable, MptcpOption, RemoveAddr, crypto};

use super::Event;
use super::session::Session;
use super::subflow_table::Subflows;
use crate::config::{Announcement, Config};
use crate::path_manager::{self, Candidate, OpenPath, PathManager};
use crate::subflow::Subflow;
use anabranch_tcp::config::FourTuple;
use anabranch_tcp::{State, earliest};
use peer_addresses::PeerAddresses;
pub(super) use peer_addresses::announcement;

/// The number of times that an `ADD_ADDR` without an echo is repeated (`ADD_ADDR_RETRANS_MAX`).
const REPETITIONS: u32 = 3;
/// The upper limit of the wait before the first repetition (`net.mptcp.add_addr_timeout`).
const ECHO_TIMEOUT: Duration = Duration::from_secs(120);

/// The delay before an address that came up is used, in stacks with `joins_late`.
const LATE_JOIN: Duration = Duration::from_millis(500);

/// The addresses of both sides, and the path manager.
#[derive(Debug)]
pub(super) struct Signals {
    path_manager: Box<dyn PathManager>,
    own: Addresses,
    peer: PeerAddresses,
}

/// Our addresses.
#[derive(Debug)]
struct Addresses {
    /// The local IP address of the initial subflow, with identifier 0. `None` after it was removed.
    initial: Option<IpAddr>,
    /// Our endpoints. Each may join an address that the peer announces.
    endpoints: Vec<Candidate>,
    /// Endpoints without a subflow so far.
    unused: Vec<Candidate>,
    /// Whether the initial subflow must become a backup. The peer is notified by `MP_PRIO`, because
    /// `MP_CAPABLE` has no backup flag.
    demote_initial: bool,
    to_announce: VecDeque<Announcement>,
    announced: Vec<Announcement>,
    /// Addresses that have come up, each with the time from which it may be used (`address_worker`).
    upcoming: VecDeque<(Instant, Candidate)>,
    /// The announcement that waits for its echo, the number of its repetitions, and the time of the next one.
    pending: Option<(Announcement, u32, Instant)>,
}

impl Addresses {
    fn new(config: &Config) -> Self {
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

    /// Combines each of our addresses with this address of the peer.
    fn pairs(&self, remote: SocketAddr) -> Vec<Candidate> {
        let mut pairs: Vec<Candidate> = Vec::new();
        for endpoint in &self.endpoints {
            let seen = pairs.iter().any(|pair| pair.local.ip() == endpoint.local.ip());
            if !seen && endpoint.local.is_ipv4() == remote.is_ipv4() {
                pairs.push(Candidate { remote, ..*endpoint });
            }
        }
        pairs
    }

    /// Returns whether an address is ours.
    fn has(&self, address: IpAddr) -> bool {
        self.initial == Some(address)
            || self.endpoints.iter().any(|endpoint| endpoint.local.ip() == address)
            || self.announced.iter().any(|announced| announced.address == address)
            || self.to_announce.iter().any(|next| next.address == address)
    }

    /// Returns whether nothing is left to join or to announce.
    fn settled(&self) -> bool {
        self.unused.is_empty() && self.to_announce.is_empty() && !self.demote_initial
    }
}

impl Signals {
    /// Creates the address management of a connection.
    ///
    /// # Errors
    /// The name or parameters of the path manager are unknown.
    pub(super) fn new(config: &Config) -> Result<Self, PluginError> {
        Ok(Self {
            path_manager: path_manager::build(&config.path_manager)?,
            own: Addresses::new(config),
            peer: PeerAddresses::default(),
        })
    }

    /// Sets the initial local address on the side that accepts the connection.
    pub(super) fn set_initial_local(&mut self, address: IpAddr) {
        self.own.initial = Some(address);
    }

    /// Applies flag C of the peer's `MP_CAPABLE` (RFC 8684 section 3.1).
    pub(super) fn on_capable(&mut self, capable: &MpCapable) {
        self.peer.on_capable(capable);
    }

    /// Records that the peer has permanently refused a subflow between these addresses.
    pub(super) fn refuse(&mut self, tuple: &FourTuple) {
        self.peer.refuse(tuple.local.ip(), tuple.remote);
    }

    /// Returns whether a timer is running.
    #[inline]
    pub(super) fn waits(&self) -> bool {
        self.own.pending.is_some() | !self.own.upcoming.is_empty()
    }

    /// Returns the time at which an announcement must be repeated or a new address may be used.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let usable = self.own.upcoming.front().map(|(at, _)| *at);
        earliest(self.own.pending.map(|(_, _, at)| at), usable)
    }

    /// Stops all timers, because the connection or MPTCP has ended.
    pub(super) fn clear_timers(&mut self) {
        self.own.upcoming.clear();
        self.own.pending = None;
    }

    /// Returns whether addresses wait to be announced or joined and the connection is ready for that.
    #[inline]
    pub(super) fn has_work(&self, session: &Session) -> bool {
        !self.own.settled() && session.is_confirmed() && session.is_multipath()
    }

    /// Makes the initial subflow a backup if the configuration requires it. Returns whether the priority was
    /// changed.
    pub(super) fn set_initial_backup(&mut self, subflows: &mut Subflows) -> bool {
        let demotes = std::mem::take(&mut self.own.demote_initial);
        let address = self.own.initial.filter(|_| demotes);
        if let Some(address) = address {
            self.set_backup(subflows, address, true);
        }
        address.is_some()
    }

    /// Announces the next address. On a client, returns the subflows that the path manager wants to open
    /// (`mptcp_pm_create_subflow_or_signal_addr`).
    pub(super) fn update_paths(
        &mut self,
        now: Instant,
        session: &Session,
        subflows: &mut Subflows,
    ) -> Vec<Candidate> {
        self.announce_next(now, session, subflows);
        if !session.is_client() || self.own.unused.is_empty() {
            return Vec::new();
        }
        let open = self.open_paths(subflows);
        let chosen = self.path_manager.on_established(now, &self.own.unused, &open);
        self.own.unused.retain(|candidate| !chosen.contains(candidate));
        chosen
    }

    fn open_path(&self, subflow: &Subflow) -> OpenPath {
        let local = subflow.tcp.tuple().local;
        let here = self.own.endpoints.iter().find(|c| c.local.ip() == local.ip());
        OpenPath {
            local,
            srtt: subflow.tcp.sending().rtt().srtt(),
            rate: here.and_then(|c| c.rate),
        }
    }

    fn open_paths(&self, subflows: &Subflows) -> Vec<OpenPath> {
        subflows.iter().filter(|s| s.usable()).map(|s| self.open_path(s)).collect()
    }

    /// Returns whether the path manager still wants a join after its SYN/ACK, which measured the round-trip
    /// time. If not, the address may be tried again later.
    pub(super) fn admit_join(&mut self, now: Instant, subflows: &Subflows, index: usize) -> bool {
        let (joining, open) = (self.open_path(&subflows[index]), self.open_paths(subflows));
        if self.path_manager.admits(now, &joining, &open) {
            return true;
        }
        let FourTuple { local, remote } = subflows[index].tcp.tuple();
        let same = |c: &&Candidate| c.local.ip() == local.ip();
        let candidate = self.own.endpoints.iter().find(same).copied();
        self.own.unused.extend(candidate.map(|c| Candidate { remote, ..c }));
        false
    }

    /// Returns the identifier of a candidate's local address (`mptcp_endp_get_local_id`).
    pub(super) fn identifier(&self, candidate: &Candidate) -> u8 {
        if self.own.initial == Some(candidate.local.ip()) { 0 } else { candidate.address_id }
    }

    /// Returns the identifier of one of our addresses. A new address gets an unused identifier.
    pub(super) fn identifier_of(
        &self,
        session: &Session,
        subflows: &Subflows,
        address: IpAddr,
    ) -> u8 {
        if self.own.initial == Some(address) {
            return 0;
        }
        let announce = &session.config().announce;
        let used = subflows.iter().filter(|s| s.tcp.tuple().local.ip() == address);
        let endpoints = self.own.endpoints.iter().filter(|c| c.local.ip() == address);
        let announced = announce.iter().filter(|a| a.address == address);
        let known = announced
            .map(|a| a.address_id)
            .chain(endpoints.map(|c| c.address_id))
            .chain(used.map(|s| s.context.local_id()))
            .next();
        known.unwrap_or_else(|| {
            let taken = |id: u8| {
                announce.iter().any(|a| a.address_id == id)
                    || self.own.endpoints.iter().any(|c| c.address_id == id)
                    || subflows.iter().any(|s| s.context.local_id() == id)
            };
            // Identifier 0 belongs to the address of the initial subflow.
            (1..=u8::MAX).find(|id| !taken(*id)).unwrap_or(u8::MAX)
        })
    }

    /// Handles a local address that has come up and can reach `candidate.remote`.
    pub(super) fn add_address(&mut self, now: Instant, session: &Session, candidate: Candidate) {
        let wait = if session.stack().mptcp.joins_late { LATE_JOIN } else { Duration::ZERO };
        self.own.upcoming.push_back((now + wait, candidate));
    }

    /// Makes the next address that has come up usable. Returns false if no address is due (`address_worker`).
    pub(super) fn add_next_address(&mut self, now: Instant) -> bool {
        if self.own.upcoming.front().is_none_or(|(at, _)| *at > now) {
            return false;
        }
        let Some((_, candidate)) = self.own.upcoming.pop_front() else { return false };
        self.own.endpoints.push(candidate);
        self.own.unused.push(candidate);
        true
    }

    /// Handles the removal of one of our addresses. A `REMOVE_ADDR` informs the peer over another subflow,
    /// once and without an echo. Returns whether the subflows of the address must be closed
    /// (`mptcp_nl_remove_subflow_and_signal_addr`; RFC 8684 section 3.4.2).
    ///
    /// Plain TCP, and a connection in its first handshake, cannot inform the peer. Their subflow is kept.
    pub(super) fn remove_address(
        &mut self,
        session: &Session,
        subflows: &mut Subflows,
        address: IpAddr,
    ) -> bool {
        // Read the identifier before the address is removed. If the address returns, it gets another one.
        let id = self.identifier_of(session, subflows, address);
        let own = &mut self.own;
        own.endpoints.retain(|c| c.local.ip() != address);
        own.unused.retain(|c| c.local.ip() != address);
        own.upcoming.retain(|(_, c)| c.local.ip() != address);
        if !session.is_multipath() {
            return false;
        }
        let here = |s: &Subflow| s.tcp.tuple().local.ip() == address;
        let announced = own.announced.iter().any(|a| a.address == address);
        let in_use = subflows.iter().any(|s| here(s) && s.tcp.state() != State::Closed);
        own.to_announce.retain(|a| a.address != address);
        own.announced.retain(|a| a.address != address);
        own.pending = own.pending.filter(|(a, _, _)| a.address != address);
        own.initial = own.initial.filter(|initial| *initial != address);
        let ends = in_use || announced;
        if ends
            && let (Some(index), Some(option)) = (subflows.signal_on(here), RemoveAddr::new(&[id]))
        {
            subflows[index].context.signals_mut().push(MptcpOption::RemoveAddr(option));
        }
        ends
    }

    /// Requests with `MP_PRIO` that the peer uses the subflows of one of our addresses as backups, or no
    /// longer. Sets the same priority here (`mptcp_pm_mp_prio_send_ack`; RFC 8684 section 3.3.8).
    pub(super) fn set_backup(&mut self, subflows: &mut Subflows, address: IpAddr, backup: bool) {
        for endpoint in &mut self.own.endpoints {
            if endpoint.local.ip() == address {
                endpoint.backup = backup;
            }
        }
        for subflow in subflows.iter_mut() {
            if subflow.usable()
                && subflow.is_multipath()
                && subflow.tcp.tuple().local.ip() == address
            {
                subflow.context.signals_mut().set_own_backup(backup);
                subflow.note_change();
                subflow.context.signals_mut().push(MptcpOption::Prio { backup });
            }
        }
    }

    /// Announces the next address unless an earlier announcement still waits for its echo.
    fn announce_next(&mut self, now: Instant, session: &Session, subflows: &mut Subflows) {
        if self.own.pending.is_some() {
            return;
        }
        let Some(next) = self.own.to_announce.pop_front() else { return };
        self.own.announced.push(next);
        self.announce(now, session, subflows, next, 0);
    }

    fn announce(
        &mut self,
        now: Instant,
        session: &Session,
        subflows: &mut Subflows,
        what: Announcement,
        repetition: u32,
    ) {
        let Announcement { address_id, address, port } = what;
        if let (Some(remote), Some(index)) = (session.remote_key(), subflows.signal_on(|_| false)) {
            let key = session.local_key().value;
            let hmac = crypto::add_addr_hmac(key, remote.value, address_id, address, port);
            let option = AddAddr { address_id, address, port, hmac: Some(hmac) };
            subflows[index].context.signals_mut().push(MptcpOption::AddAddr(option));
        }
        // `mptcp_adjust_add_addr_timeout`: the longest retransmission timeout of the subflows, doubled with
        // each repetition.
        let timeouts = subflows.iter().filter(|s| s.usable()).map(|s| s.tcp.sending().rtt().rto());
        let wait = timeouts.max().unwrap_or(ECHO_TIMEOUT).min(ECHO_TIMEOUT) * (1 << repetition);
        let deadline = session.host().expiry(now, wait);
        self.own.pending = Some((what, repetition, deadline));
    }

    /// Repeats an announcement whose echo is overdue. After the last repetition, continues with the next
    /// address (`mptcp_pm_add_timer`).
    pub(super) fn repeat_announcement(
        &mut self,
        now: Instant,
        session: &Session,
        subflows: &mut Subflows,
        closed: bool,
    ) {
        let due = self.own.pending.take_if(|(_, _, at)| now >= *at);
        let Some((what, repetition, _)) = due.filter(|_| !closed) else { return };
        if repetition < REPETITIONS {
            self.announce(now, session, subflows, what, repetition + 1);
        } else {
            self.announce_next(now, session, subflows);
        }
    }

    /// Handles an echo of an `ADD_ADDR`. The next address is then announced.
    fn handle_echo(
        &mut self,
        now: Instant,
        session: &Session,
        subflows: &mut Subflows,
        what: Announcement,
    ) {
        if self.own.pending.is_some_and(|(pending, _, _)| pending == what) {
            self.own.pending = None;
            self.announce_next(now, session, subflows);
        }
    }
}

/// Applies a priority change that the peer requested, unless such requests are too frequent.
pub(super) fn grant_priority(
    now: Instant,
    session: &mut Session,
    subflows: &mut Subflows,
    index: usize,
) {
    let subflow = &mut subflows[index];
    let id = subflow.tcp.id();
    match subflow.context.signals_mut().take_priority(now) {
        Some(backup) => {
            subflow.note_change();
            session.report(Event::PriorityChanged { id, backup });
        }
        None => {
            session.counters_mut().deferred_priorities +=
                u64::from(subflow.context.signals().has_wish());
        }
    }
}
