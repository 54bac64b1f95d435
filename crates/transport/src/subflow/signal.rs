//! MPTCP options that are sent once, on an acknowledgement: `ADD_ADDR`, `REMOVE_ADDR`, `MP_PRIO`
//! (`__mptcp_subflow_send_ack`, `mptcp_established_options`).

use anabranch_units::{Duration, Instant};
use anabranch_wire::{MptcpOption, RemoveAddr};

use super::intent::Intent;
use super::scoreboard::Scoreboard;
use super::{State, Subflow};

/// Options that wait to go out, at most: a peer that asks for ever more echoes gets no memory.
const MOST_POSTED: usize = 16;

/// Options on their way out.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    pub(super) options: Vec<MptcpOption>,
    /// An acknowledgement is to go out for them.
    pub(super) due: bool,
}

/// Changes of priority that a peer is granted in [`PRIORITY_PERIOD`]: more would only move data to and
/// fro (Munir et al., ICNP 2017).
const PRIORITY_CHANGES: u32 = 4;
/// The period.
const PRIORITY_PERIOD: Duration = Duration::from_secs(1);

/// What the peer wishes of a subflow's priority (`MP_PRIO`).
#[derive(Debug)]
pub(super) struct Priority {
    wish: Option<bool>,
    left: u32,
    since: Instant,
}

impl Default for Priority {
    fn default() -> Self {
        Self { wish: None, left: PRIORITY_CHANGES, since: Instant::ZERO }
    }
}

impl Subflow {
    /// The peer wants the subflow used as a backup, or no longer so.
    pub(crate) fn wish_priority(&mut self, backup: bool) {
        self.priority.wish = Some(backup).filter(|wish| *wish != self.backup);
    }

    /// A wish has not been granted.
    #[inline(always)]
    pub(crate) fn has_wish(&self) -> bool {
        self.priority.wish.is_some()
    }

    /// Grants the wish if not too many were lately: then it waits for another segment to ask again.
    #[cold]
    pub(crate) fn grant_priority(&mut self, now: Instant) -> Option<bool> {
        if now.since(self.priority.since) >= PRIORITY_PERIOD {
            (self.priority.left, self.priority.since) = (PRIORITY_CHANGES, now);
        }
        self.priority.left = self.priority.left.checked_sub(1)?;
        self.backup = self.priority.wish.take()?;
        self.touched = true;
        Some(self.backup)
    }

    /// Sends an option once: on an acknowledgement of its own now, or on a later one when there is
    /// no room beside what that has to carry.
    pub(crate) fn post(&mut self, option: MptcpOption) {
        let options = &mut self.outbox.options;
        if matches!(option, MptcpOption::Prio { .. }) {
            // Only the last word counts.
            options.retain(|waiting| !matches!(waiting, MptcpOption::Prio { .. }));
        }
        if let MptcpOption::RemoveAddr(more) = option
            && let Some(MptcpOption::RemoveAddr(last)) = options.last_mut()
            && let Some(both) = RemoveAddr::new(&[last.ids(), more.ids()].concat())
        {
            *last = both;
        } else if !options.contains(&option) && options.len() < MOST_POSTED {
            options.push(option);
        }
        self.outbox.due = true;
    }

    /// Options are posted, whether it is their turn or not.
    #[inline(always)]
    pub(super) fn has_posted(&self) -> bool {
        self.outbox.due
    }

    /// Options are posted that have not gone out, or may go out again.
    #[inline(always)]
    pub(super) fn has_options(&self) -> bool {
        self.outbox.due | !self.outbox.options.is_empty()
    }

    /// An acknowledgement is to go out for the posted options. They wait while the third packet's
    /// option, which may not be lost, takes the room.
    pub(crate) fn signal_due(&self) -> bool {
        self.outbox.due && self.handshake.third.is_none() && self.state == State::Established
    }

    /// MPTCP has ended: of what waits only an `MP_FAIL` still goes out, which may be the answer that ends
    /// it for the peer (RFC 8684 section 3.7).
    pub(crate) fn end_signals(&mut self) {
        let options = &mut self.outbox.options;
        options.retain(|option| matches!(option, MptcpOption::Fail { .. }));
        self.outbox.due &= !options.is_empty();
    }

    /// Either side wants it used only when no regular subflow works (RFC 8684 section 3.3.8).
    pub(crate) fn is_backup(&self) -> bool {
        self.backup || self.request_backup
    }

    /// Cuts the subflow off: what it held is let go, and nothing but a RST goes out any more.
    pub(crate) fn cut_off(&mut self) {
        self.state = State::Closed;
        self.send.drain_unsent();
        self.send.forget_unacknowledged();
        self.board = Scoreboard::default();
        self.send.intent = Intent::New;
        self.receive.discard();
        self.outbox = Outbox::default();
    }
}
