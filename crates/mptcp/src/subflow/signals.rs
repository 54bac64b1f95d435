//! The MPTCP options that are sent once, on an acknowledgement (`ADD_ADDR`, `REMOVE_ADDR`, `MP_PRIO`), and the
//! subflow's priority (`__mptcp_subflow_send_ack`, `mptcp_established_options`).

use anabranch_units::{Duration, Instant};
use anabranch_wire::{MAX_OPTIONS_LEN, MptcpOption, RemoveAddr, Segment};

/// The largest number of waiting options. It bounds the memory for echoes that a peer requests.
const MOST_POSTED: usize = 16;
/// The number of changes of priority that a peer may make in [`PRIORITY_PERIOD`]. More would only move data between
/// subflows (Munir et al., ICNP 2017).
const PRIORITY_CHANGES: u32 = 4;
/// The period.
const PRIORITY_PERIOD: Duration = Duration::from_secs(1);

/// The waiting options and the priority of a subflow.
#[derive(Debug)]
pub(crate) struct Signals {
    options: Vec<MptcpOption>,
    /// An acknowledgement must go out for the options.
    due: bool,
    /// The peer asked us to use the subflow as a backup (B of `MP_JOIN`, `MP_PRIO`).
    backup_for_peer: bool,
    /// We asked the peer to do the same.
    backup_for_us: bool,
    /// The priority that the peer asked for and that is not in force yet.
    wish: Option<bool>,
    /// Changes left in the period that began at `since`.
    changes_left: u32,
    since: Instant,
}

impl Default for Signals {
    fn default() -> Self {
        Self {
            options: Vec::new(),
            due: false,
            backup_for_peer: false,
            backup_for_us: false,
            wish: None,
            changes_left: PRIORITY_CHANGES,
            since: Instant::ZERO,
        }
    }
}

impl Signals {
    /// Sets the priority that the peer gave the subflow when it joined.
    pub(crate) fn set_peer_backup(&mut self, backup: bool) {
        self.backup_for_peer = backup;
    }

    /// Sets the priority that we give the subflow.
    pub(crate) fn set_own_backup(&mut self, backup: bool) {
        self.backup_for_us = backup;
    }

    /// Returns whether either side wants the subflow used only if no regular subflow works (RFC 8684 section 3.3.8).
    pub(crate) fn is_backup(&self) -> bool {
        self.backup_for_peer || self.backup_for_us
    }

    /// Stores the priority that an `MP_PRIO` of the peer asks for.
    pub(crate) fn wish_priority(&mut self, backup: bool) {
        self.wish = Some(backup).filter(|wish| *wish != self.backup_for_peer);
    }

    /// Returns whether the peer asked for a priority that is not in force yet.
    #[inline]
    pub(crate) fn has_wish(&self) -> bool {
        self.wish.is_some()
    }

    /// Puts the peer's wish into force and returns it. After too many changes in a period it returns `None`, and the
    /// wish waits for another segment.
    #[cold]
    pub(crate) fn grant_priority(&mut self, now: Instant) -> Option<bool> {
        if now.since(self.since) >= PRIORITY_PERIOD {
            (self.changes_left, self.since) = (PRIORITY_CHANGES, now);
        }
        self.changes_left = self.changes_left.checked_sub(1)?;
        self.backup_for_peer = self.wish.take()?;
        Some(self.backup_for_peer)
    }

    /// Queues an option to send once, on the next acknowledgement that has room for it. One goes out now.
    pub(crate) fn post(&mut self, option: MptcpOption) {
        if matches!(option, MptcpOption::Prio { .. }) {
            // A later priority replaces an earlier one.
            self.options.retain(|waiting| !matches!(waiting, MptcpOption::Prio { .. }));
        }
        if let MptcpOption::RemoveAddr(more) = option
            && let Some(MptcpOption::RemoveAddr(last)) = self.options.last_mut()
            && let Some(both) = RemoveAddr::new(&[last.ids(), more.ids()].concat())
        {
            *last = both;
        } else if !self.options.contains(&option) && self.options.len() < MOST_POSTED {
            self.options.push(option);
        }
        self.due = true;
    }

    /// Returns whether an acknowledgement must go out for the options, now or later.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.due
    }

    /// Keeps only an `MP_FAIL`, as MPTCP has ended. The peer may need it to end MPTCP too (RFC 8684 section 3.7).
    pub(crate) fn end(&mut self) {
        self.options.retain(|option| matches!(option, MptcpOption::Fail { .. }));
        self.due &= !self.options.is_empty();
    }

    /// Removes all options.
    pub(super) fn clear(&mut self) {
        self.options.clear();
        self.due = false;
    }

    /// Returns whether options wait to be sent.
    pub(super) fn waits(&self) -> bool {
        !self.options.is_empty()
    }

    /// Puts waiting options on an acknowledgement.
    #[cold]
    pub(super) fn attach(&mut self, segment: &mut Segment) {
        let posted = self.options.len();
        let Some(&first) = self.options.first() else { return };
        if matches!(first, MptcpOption::AddAddr(_)) {
            // For TCP a plain repetition (`mptcp_established_options_add_addr`).
            segment.dss = None;
            segment.mptcp.push(self.options.remove(0));
            if segment.options_len() > MAX_OPTIONS_LEN {
                // An IPv6 address with a port and its HMAC leaves no room for timestamps.
                segment.timestamps = None;
            }
        } else {
            while let Some(&option) = self.options.first() {
                if matches!(option, MptcpOption::AddAddr(_)) || !fits(segment, option) {
                    break;
                }
                self.options.remove(0);
            }
        }
        let left = self.options.len();
        self.due = left > 0 && left < posted;
    }
}

/// Adds an option if there is room for it, without the `DATA_FIN` if need be.
fn fits(segment: &mut Segment, option: MptcpOption) -> bool {
    segment.mptcp.push(option);
    if segment.options_len() > MAX_OPTIONS_LEN
        && segment.mptcp.len() == 1
        && let Some(dss) = &mut segment.dss
    {
        (dss.mapping, dss.data_fin) = (None, false);
    }
    let fits = segment.options_len() <= MAX_OPTIONS_LEN;
    if !fits {
        segment.mptcp.pop();
    }
    fits
}
