//! The MPTCP options that are sent once, on a pure acknowledgement (`ADD_ADDR`, `REMOVE_ADDR`, `MP_PRIO`,
//! `MP_FAIL`), and the subflow's priority (`__mptcp_subflow_send_ack`, `mptcp_established_options`).

use anabranch_units::{Duration, Instant};
use anabranch_wire::{MAX_OPTIONS_LEN, MptcpOption, RemoveAddr, Segment};

/// The largest number of queued options. The limit bounds the memory for echoes that a peer can request.
const MOST_POSTED: usize = 16;
/// The number of priority changes that a peer may make per [`PRIORITY_PERIOD`]. Frequent changes would only
/// move data between subflows (Munir et al., ICNP 2017).
const PRIORITY_CHANGES: u32 = 4;
/// The period to which [`PRIORITY_CHANGES`] applies.
const PRIORITY_PERIOD: Duration = Duration::from_secs(1);

/// The queued options and the priority of a subflow.
#[derive(Debug)]
pub(crate) struct Signals {
    options: Vec<MptcpOption>,
    /// Whether an acknowledgement must be sent to carry the options.
    due: bool,
    /// Whether the peer asked us to use the subflow as a backup (flag B of `MP_JOIN` or `MP_PRIO`).
    backup_for_peer: bool,
    /// Whether we asked the peer to use the subflow as a backup.
    backup_for_us: bool,
    /// The priority that the peer requested and that is not applied yet.
    wish: Option<bool>,
    /// The number of changes left in the period that began at `since`.
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

    /// Returns whether either side wants the subflow used only if no regular subflow works (RFC 8684 section
    /// 3.3.8).
    pub(crate) fn is_backup(&self) -> bool {
        self.backup_for_peer || self.backup_for_us
    }

    /// Stores the priority that the peer requests with `MP_PRIO`.
    pub(crate) fn set_wished_priority(&mut self, backup: bool) {
        self.wish = Some(backup).filter(|wish| *wish != self.backup_for_peer);
    }

    /// Returns whether a requested priority is not applied yet.
    #[inline]
    pub(crate) fn has_wish(&self) -> bool {
        self.wish.is_some()
    }

    /// Applies the priority that the peer requested and returns it. After too many changes in a period it
    /// returns `None`, and the request waits for a later segment.
    #[cold]
    pub(crate) fn take_priority(&mut self, now: Instant) -> Option<bool> {
        if now.since(self.since) >= PRIORITY_PERIOD {
            (self.changes_left, self.since) = (PRIORITY_CHANGES, now);
        }
        self.changes_left = self.changes_left.checked_sub(1)?;
        self.backup_for_peer = self.wish.take()?;
        Some(self.backup_for_peer)
    }

    /// Queues an option. It is sent once, on the next pure acknowledgement with enough space. An
    /// acknowledgement is sent for it.
    pub(crate) fn push(&mut self, option: MptcpOption) {
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

    /// Returns whether an acknowledgement must be sent to carry the options.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.due
    }

    /// Removes all options except `MP_FAIL`, because MPTCP has ended. The peer may need the `MP_FAIL` to end
    /// MPTCP too (RFC 8684 section 3.7).
    pub(crate) fn end(&mut self) {
        self.options.retain(|option| matches!(option, MptcpOption::Fail { .. }));
        self.due &= !self.options.is_empty();
    }

    /// Removes all options.
    pub(super) fn clear(&mut self) {
        self.options.clear();
        self.due = false;
    }

    /// Returns whether options are queued.
    pub(super) fn waits(&self) -> bool {
        !self.options.is_empty()
    }

    /// Adds queued options to an acknowledgement.
    #[cold]
    pub(super) fn add_to(&mut self, segment: &mut Segment) {
        let posted = self.options.len();
        let Some(&first) = self.options.first() else { return };
        if matches!(first, MptcpOption::AddAddr(_)) {
            // An `ADD_ADDR` is sent without a DSS (`mptcp_established_options_add_addr`). The segment is then
            // a plain duplicate acknowledgement for TCP.
            segment.dss = None;
            segment.mptcp.push(self.options.remove(0));
            if segment.options_len() > MAX_OPTIONS_LEN {
                // An `ADD_ADDR` with an IPv6 address, a port and an HMAC leaves no space for timestamps.
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

/// Adds an option if it fits. For the first option, a `DATA_FIN` is removed if necessary. Returns whether the
/// option was added.
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

#[cfg(test)]
mod tests {
    use anabranch_wire::AddAddr;

    use super::*;

    #[test]
    fn a_peer_can_queue_only_a_limited_number_of_echoes() {
        let mut signals = Signals::default();
        for address_id in 0..=MOST_POSTED as u8 {
            let address = [10, 0, 0, address_id].into();
            signals.push(MptcpOption::AddAddr(AddAddr {
                address_id,
                address,
                port: None,
                hmac: None,
            }));
        }
        assert_eq!(signals.options.len(), MOST_POSTED);
    }
}
