//! What the peer says of its addresses, `ADD_ADDR` and `REMOVE_ADDR` (RFC 8684 section 3.4), and how far
//! it is followed. Who holds the keys, or is let in by who does, could else make this host knock at any
//! address of the network (RFC 7430 section 2): addresses are few, attempts are spaced, and what nobody
//! but this host itself may be asked for is not asked for.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use anabranch_units::{Duration, Instant};
use anabranch_wire::{AddAddr, MpCapable, MptcpOption, RemoveAddr, Segment, crypto};

use super::Connection;
use crate::config::Announcement;
use crate::path_manager::Candidate;
use crate::subflow::State;

/// Addresses of the peer that are remembered at one time (`MPTCP_PM_ADDR_MAX`).
const MOST_ANNOUNCED: usize = 8;
/// Announced addresses that are joined at once, at most; one more comes with every [`BUDGET_PERIOD`].
const JOIN_BUDGET: u32 = 8;
/// The time in which the budget grows by one.
const BUDGET_PERIOD: Duration = Duration::from_secs(30);
/// The wait before an address and port is tried a second time; it doubles with each time.
const RETRY_WAIT: Duration = Duration::from_secs(10);
/// Doublings of the wait at most: a day.
const RETRY_DOUBLINGS: u32 = 13;
/// Addresses whose attempts, and pairs whose refusals, are remembered; of more the oldest is forgotten.
const MOST_ATTEMPTS: usize = 64;

/// An address and port that was tried because the peer announced it.
#[derive(Debug)]
struct Attempt {
    remote: SocketAddr,
    times: u32,
    /// Not again before.
    until: Instant,
}

/// What is known of the peer's addresses.
#[derive(Debug)]
pub(super) struct PeerAddresses {
    /// Those it has announced and not taken back.
    known: Vec<Announcement>,
    /// The address and port that the connection began with is not to be joined (flag C).
    denies_initial: bool,
    attempts: VecDeque<Attempt>,
    /// Pairs that the peer refused for good: our address, its address and port.
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
    /// Heeds flag C of the peer's `MP_CAPABLE` (RFC 8684 section 3.1).
    pub(super) fn heed(&mut self, capable: &MpCapable) {
        self.denies_initial |= capable.deny_join_initial_address;
    }

    /// Takes one join from the budget and notes the attempt; false when it is to be left.
    fn spend(&mut self, now: Instant, remote: SocketAddr) -> bool {
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

    /// The peer has refused a subflow between these addresses for good.
    pub(super) fn refuse(&mut self, local: IpAddr, remote: SocketAddr) {
        if !self.refused.contains(&(local, remote)) {
            self.refused.push_back((local, remote));
        }
        if self.refused.len() > MOST_ATTEMPTS {
            self.refused.pop_front();
        }
    }
}

/// Nobody else can be reached there, or everybody.
fn unreachable(address: IpAddr) -> bool {
    let address = address.to_canonical();
    let everybody = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    everybody || address.is_loopback() || address.is_multicast() || address.is_unspecified()
}

/// The `ADD_ADDR` of a segment, announcement or echo.
pub(super) fn announcement(segment: &Segment) -> Option<AddAddr> {
    segment.mptcp.iter().find_map(|option| match option {
        MptcpOption::AddAddr(add) => Some(*add),
        _ => None,
    })
}

impl Connection {
    /// A join between these addresses may be tried: they are of one family
    /// (`mptcp_pm_addr_families_match`), and the peer has not said no.
    pub(super) fn may_join(&self, candidate: &Candidate) -> bool {
        if candidate.local.is_ipv4() != candidate.remote.is_ipv4() {
            return false;
        }
        let initial = self.subflows.first().map(|first| first.tuple.remote);
        let denied = self.peer_addresses.denies_initial && Some(candidate.remote) == initial;
        let pair = (candidate.local.ip(), candidate.remote);
        !denied && !self.peer_addresses.refused.contains(&pair)
    }

    /// An `ADD_ADDR` that came on a subflow: an echo, or an announcement, which is echoed where its HMAC
    /// is right.
    pub(super) fn handle_add_addr(&mut self, now: Instant, index: usize, add: AddAddr) {
        let AddAddr { address_id, address, port, hmac } = add;
        let what = Announcement { address_id, address, port };
        let Some(hmac) = hmac else { return self.handle_echo(now, what) };
        let Some(remote) = self.remote_key else { return };
        let expected =
            crypto::add_addr_hmac(remote.value, self.local_key.value, address_id, address, port);
        if !crypto::mac_eq(&expected.to_be_bytes(), &hmac.to_be_bytes()) {
            self.counters.forged_announcements += 1;
            return;
        }
        if self.names_another(address_id, address) {
            self.counters.refused_announcements += 1;
            return;
        }
        if let Some(index) = self.signal_on(|_| false) {
            self.subflows[index].signals.post(MptcpOption::AddAddr(AddAddr { hmac: None, ..add }));
        }
        if self.peer_addresses.known.contains(&what) {
            // Repeated, or replayed: it says nothing new.
            return;
        }
        // The identifier's port is another one now (RFC 8684 section 3.4.1).
        self.peer_addresses.known.retain(|known| known.address_id != address_id);
        let full = self.peer_addresses.known.len() >= MOST_ANNOUNCED;
        if full || port == Some(0) || unreachable(address) || self.is_ours(address) {
            self.counters.refused_announcements += 1;
            return;
        }
        self.peer_addresses.known.push(what);
        let port = port.unwrap_or_else(|| self.subflows[index].tuple.remote.port());
        let remote = SocketAddr::new(address, port);
        let in_use = |s: &crate::subflow::Subflow| {
            let same = if what.port.is_some() {
                s.tuple.remote == remote
            } else {
                s.tuple.remote.ip() == address
            };
            same && s.state != State::Closed
        };
        if self.client && !self.subflows.iter().any(in_use) {
            self.join_announced(now, address_id, remote);
        }
    }

    /// An identifier keeps its address while it is in use (RFC 8684 section 3.4.1).
    fn names_another(&self, id: u8, address: IpAddr) -> bool {
        let announced = &self.peer_addresses.known;
        let mut used = self.subflows.iter().filter(|s| s.state != State::Closed);
        announced.iter().any(|known| known.address_id == id && known.address != address)
            || used.any(|s| s.remote_id == id && s.tuple.remote.ip() != address)
    }

    fn is_ours(&self, address: IpAddr) -> bool {
        self.addresses.has(address) || self.subflows.iter().any(|s| s.tuple.local.ip() == address)
    }

    /// Offers the path manager every one of our addresses with the announced one
    /// (`fill_local_addresses_vec`).
    fn join_announced(&mut self, now: Instant, id: u8, remote: SocketAddr) {
        let pairs = self.addresses.pairs(remote);
        let open = self.open_paths();
        let chosen = self.path_manager.on_announced(now, &pairs, &open);
        if chosen.is_empty() {
            return;
        }
        if !self.peer_addresses.spend(now, remote) {
            self.counters.refused_announcements += 1;
            return;
        }
        // Announced anew, it may be tried anew (section 3.9).
        self.peer_addresses.refused.retain(|(_, refused)| *refused != remote);
        for candidate in chosen {
            if let Some(index) = self.join(now, candidate) {
                self.subflows[index].remote_id = id;
            }
        }
    }

    /// Takes addresses of the peer back (`mptcp_pm_nl_rm_addr_received`): their subflows end. One that
    /// works always stays, whatever is said, for who says it may have no more than a place on one path.
    pub(super) fn handle_remove_addr(&mut self, now: Instant, index: usize, remove: RemoveAddr) {
        let ids = remove.ids();
        self.peer_addresses.known.retain(|known| !ids.contains(&known.address_id));
        let stays = |s: &crate::subflow::Subflow| s.usable() && !ids.contains(&s.remote_id);
        let mut spared = None;
        if !self.subflows.iter().any(stays) {
            let working = |index: &usize| self.subflows[*index].usable();
            spared = Some(index).filter(working).or_else(|| self.signal_on(|_| false));
            self.counters.refused_removals += u64::from(spared.is_some());
        }
        let spared = spared.map(|index| self.subflows[index].id);
        self.end_subflows(now, |s| ids.contains(&s.remote_id) && Some(s.id) != spared);
    }
}
