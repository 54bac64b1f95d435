//! The peer's addresses: `ADD_ADDR` and `REMOVE_ADDR` (RFC 8684 section 3.4), and limits to them. Without
//! limits, a peer could make this host connect to any address of the network (RFC 7430 section 2). The number
//! of addresses and the rate of attempts are therefore limited, and addresses of this host are refused.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use anabranch_units::{Duration, Instant, SubflowId};
use anabranch_wire::{AddAddr, MpCapable, MptcpOption, RemoveAddr, Segment, crypto};

use super::{Session, Signals, Subflows};
use crate::config::Announcement;
use crate::path_manager::Candidate;
use crate::subflow::Subflow;
use anabranch_tcp::State;

/// The number of announced addresses that are stored (`MPTCP_PM_ADDR_MAX`).
const MOST_ANNOUNCED: usize = 8;
/// The number of announced addresses that may be joined in a row. The budget grows by one every
/// [`BUDGET_PERIOD`].
const JOIN_BUDGET: u32 = 8;
/// The time in which the budget grows by one.
const BUDGET_PERIOD: Duration = Duration::from_secs(30);
/// The wait before an address and port is tried a second time. The wait doubles with each attempt.
const RETRY_WAIT: Duration = Duration::from_secs(10);
/// The largest number of doublings. The wait is then about a day.
const RETRY_DOUBLINGS: u32 = 13;
/// The number of attempts, and of refused pairs, that are stored.
const MOST_ATTEMPTS: usize = 64;

/// An announced address and port that was tried.
#[derive(Debug)]
struct Attempt {
    remote: SocketAddr,
    times: u32,
    /// The time before which it is not tried again.
    until: Instant,
}

/// The known addresses of the peer.
#[derive(Debug)]
pub(super) struct PeerAddresses {
    /// Announced addresses that were not removed.
    known: Vec<Announcement>,
    /// Whether the peer does not allow joins to the address and port of the initial subflow (flag C).
    denies_initial: bool,
    attempts: VecDeque<Attempt>,
    /// Pairs that the peer refused permanently: our address, and its address and port.
    refused: VecDeque<(IpAddr, SocketAddr)>,
    budget: u32,
    budget_since: Instant,
}

impl Default for PeerAddresses {
    fn default() -> Self {
        Self {
            known: Vec::new(),
            denies_initial: false,
            attempts: VecDeque::new(),
            refused: VecDeque::new(),
            budget: JOIN_BUDGET,
            budget_since: Instant::ZERO,
        }
    }
}

impl PeerAddresses {
    /// Applies flag C of the peer's `MP_CAPABLE` (RFC 8684 section 3.1).
    pub(super) fn on_capable(&mut self, capable: &MpCapable) {
        self.denies_initial |= capable.deny_join_initial_address;
    }

    /// Reduces the budget by one join, and records the attempt. Returns false if the address may not be tried
    /// now.
    fn count_attempt(&mut self, now: Instant, remote: SocketAddr) -> bool {
        let periods = now.since(self.budget_since).as_nanos() / BUDGET_PERIOD.as_nanos();
        if self.budget == JOIN_BUDGET {
            self.budget_since = now;
        } else if periods > 0 {
            let missing = u64::from(JOIN_BUDGET - self.budget);
            self.budget += periods.min(missing) as u32;
            self.budget_since += BUDGET_PERIOD * periods.min(1 << 20);
        }
        let known = self.attempts.iter().position(|attempt| attempt.remote == remote);
        let waits = known.is_some_and(|at| now < self.attempts[at].until);
        if waits || self.budget == 0 {
            return false;
        }
        self.budget -= 1;
        let times = known.and_then(|at| self.attempts.remove(at)).map_or(0, |before| before.times);
        let until = now + RETRY_WAIT * (1 << times.min(RETRY_DOUBLINGS));
        self.attempts.push_back(Attempt { remote, times: times + 1, until });
        if self.attempts.len() > MOST_ATTEMPTS {
            self.attempts.pop_front();
        }
        true
    }

    /// Records that the peer has permanently refused a subflow between these addresses.
    pub(super) fn refuse(&mut self, local: IpAddr, remote: SocketAddr) {
        if !self.refused.contains(&(local, remote)) {
            self.refused.push_back((local, remote));
        }
        if self.refused.len() > MOST_ATTEMPTS {
            self.refused.pop_front();
        }
    }
}

/// Returns whether an address is not that of a single peer: unspecified, loopback, multicast or broadcast.
fn unreachable(address: IpAddr) -> bool {
    let address = address.to_canonical();
    let broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    broadcast || address.is_loopback() || address.is_multicast() || address.is_unspecified()
}

/// Returns the `ADD_ADDR` of a segment, which is an announcement or an echo.
pub(in crate::connection) fn announcement(segment: &Segment) -> Option<AddAddr> {
    segment.mptcp.iter().find_map(|option| match option {
        MptcpOption::AddAddr(add) => Some(*add),
        _ => None,
    })
}

impl Signals {
    /// Returns whether a join between these addresses may be tried. Both addresses must be of one family
    /// (`mptcp_pm_addr_families_match`), and the peer must not have refused the pair.
    pub(in crate::connection) fn may_join(
        &self,
        subflows: &Subflows,
        candidate: &Candidate,
    ) -> bool {
        if candidate.local.is_ipv4() != candidate.remote.is_ipv4() {
            return false;
        }
        let initial = subflows.first().map(|first| first.tcp.tuple().remote);
        let denied = self.peer.denies_initial && Some(candidate.remote) == initial;
        let pair = (candidate.local.ip(), candidate.remote);
        !denied && !self.peer.refused.contains(&pair)
    }

    /// Handles an `ADD_ADDR`: an echo, or an announcement, which is echoed if its HMAC is valid. Returns the
    /// subflows that the path manager wants to open.
    pub(in crate::connection) fn handle_add_addr(
        &mut self,
        now: Instant,
        session: &mut Session,
        subflows: &mut Subflows,
        index: usize,
        add: AddAddr,
    ) -> Vec<Candidate> {
        let AddAddr { address_id, address, port, hmac } = add;
        let what = Announcement { address_id, address, port };
        let Some(hmac) = hmac else {
            self.handle_echo(now, session, subflows, what);
            return Vec::new();
        };
        let Some(remote) = session.remote_key() else { return Vec::new() };
        let key = session.local_key().value;
        let expected = crypto::add_addr_hmac(remote.value, key, address_id, address, port);
        if !crypto::mac_eq(&expected.to_be_bytes(), &hmac.to_be_bytes()) {
            session.counters_mut().forged_announcements += 1;
            return Vec::new();
        }
        if self.names_another(subflows, address_id, address) {
            session.counters_mut().refused_announcements += 1;
            return Vec::new();
        }
        if let Some(index) = subflows.signal_on(|_| false) {
            subflows[index]
                .context
                .signals_mut()
                .push(MptcpOption::AddAddr(AddAddr { hmac: None, ..add }));
        }
        if self.peer.known.contains(&what) {
            // The announcement is a repetition or a replay.
            return Vec::new();
        }
        // The identifier now has another port (RFC 8684 section 3.4.1).
        self.peer.known.retain(|known| known.address_id != address_id);
        let full = self.peer.known.len() >= MOST_ANNOUNCED;
        if full || port == Some(0) || unreachable(address) || self.is_ours(subflows, address) {
            session.counters_mut().refused_announcements += 1;
            return Vec::new();
        }
        self.peer.known.push(what);
        let port = port.unwrap_or_else(|| subflows[index].tcp.tuple().remote.port());
        let remote = SocketAddr::new(address, port);
        let in_use = |s: &Subflow| {
            let same = if what.port.is_some() {
                s.tcp.tuple().remote == remote
            } else {
                s.tcp.tuple().remote.ip() == address
            };
            same && s.tcp.state() != State::Closed
        };
        if !session.is_client() || subflows.iter().any(in_use) {
            return Vec::new();
        }
        self.find_joins(now, session, subflows, remote)
    }

    /// Returns whether an identifier belongs to another address. An identifier keeps its address while it is
    /// in use (RFC 8684 section 3.4.1).
    fn names_another(&self, subflows: &Subflows, id: u8, address: IpAddr) -> bool {
        let announced = &self.peer.known;
        let mut used = subflows.iter().filter(|s| s.tcp.state() != State::Closed);
        announced.iter().any(|known| known.address_id == id && known.address != address)
            || used.any(|s| s.context.remote_id() == id && s.tcp.tuple().remote.ip() != address)
    }

    fn is_ours(&self, subflows: &Subflows, address: IpAddr) -> bool {
        self.own.has(address) || subflows.iter().any(|s| s.tcp.tuple().local.ip() == address)
    }

    /// Offers the path manager the announced address together with each of ours (`fill_local_addresses_vec`).
    fn find_joins(
        &mut self,
        now: Instant,
        session: &mut Session,
        subflows: &Subflows,
        remote: SocketAddr,
    ) -> Vec<Candidate> {
        let pairs = self.own.pairs(remote);
        let open = self.open_paths(subflows);
        let chosen = self.path_manager.on_announced(now, &pairs, &open);
        if chosen.is_empty() {
            return chosen;
        }
        if !self.peer.count_attempt(now, remote) {
            session.counters_mut().refused_announcements += 1;
            return Vec::new();
        }
        // A repeated announcement permits another attempt (RFC 8684 section 3.9).
        self.peer.refused.retain(|(_, refused)| *refused != remote);
        chosen
    }

    /// Handles a `REMOVE_ADDR`. If the removal would end the last working subflows, returns the one that is
    /// kept. The sender of the option may control only one path, so one working subflow always stays
    /// (`mptcp_pm_nl_rm_addr_received`).
    pub(in crate::connection) fn handle_remove_addr(
        &mut self,
        session: &mut Session,
        subflows: &Subflows,
        index: usize,
        remove: &RemoveAddr,
    ) -> Option<SubflowId> {
        let ids = remove.ids();
        self.peer.known.retain(|known| !ids.contains(&known.address_id));
        if subflows.iter().any(|s| s.usable() && !ids.contains(&s.context.remote_id())) {
            return None;
        }
        let working = Some(index).filter(|index| subflows[*index].usable());
        let spared = working.or_else(|| subflows.signal_on(|_| false))?;
        session.counters_mut().refused_removals += 1;
        Some(subflows[spared].tcp.id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_refused_pair_is_forgotten_first() {
        let mut peer = PeerAddresses::default();
        let local: IpAddr = [10, 0, 0, 1].into();
        let remote = |port: usize| SocketAddr::new([10, 0, 0, 2].into(), port as u16);
        for port in 1..=MOST_ATTEMPTS {
            peer.refuse(local, remote(port));
        }
        assert_eq!(peer.refused.len(), MOST_ATTEMPTS);
        assert_eq!(peer.refused.front(), Some(&(local, remote(1))));
        peer.refuse(local, remote(MOST_ATTEMPTS + 1));
        assert_eq!(peer.refused.len(), MOST_ATTEMPTS);
        assert_eq!(peer.refused.front(), Some(&(local, remote(2))));
    }
}
