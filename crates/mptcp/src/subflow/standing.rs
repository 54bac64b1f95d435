//! The counters and states of a subflow from which events for schedulers are derived.

use super::Subflow;
use anabranch_congestion::CongestionState;
use anabranch_scheduler::SubflowEvent;

/// The counters and states at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    ordinal: u32,
    usable: bool,
    timeouts: u64,
    consecutive_timeouts: u32,
    delivered: u64,
    bytes_acked: u64,
    lost: u64,
    state: CongestionState,
    stale: bool,
    backup: bool,
}

impl Standing {
    /// Returns the values of a new subflow. The segment of the handshake counts as delivered.
    fn fresh(ordinal: u32) -> Self {
        Self {
            ordinal,
            usable: false,
            timeouts: 0,
            consecutive_timeouts: 0,
            delivered: 1,
            bytes_acked: 0,
            lost: 0,
            state: CongestionState::Open,
            stale: false,
            backup: false,
        }
    }

    /// Returns the values to compare with: `known`, or those of a new subflow if the identifier
    /// then belonged to another one.
    pub(crate) fn before(known: Option<Self>, subflow: &Subflow) -> Self {
        let same = known.filter(|known| known.ordinal == subflow.context.ordinal());
        same.unwrap_or_else(|| Self::fresh(subflow.context.ordinal()))
    }

    /// Returns the events that happened between `before` and now.
    pub(crate) fn events_since(&self, before: &Self) -> impl Iterator<Item = SubflowEvent> {
        let delivered = SubflowEvent::Delivered {
            segments: self.delivered - before.delivered,
            bytes: self.bytes_acked - before.bytes_acked,
        };
        let lost = SubflowEvent::Lost { segments: self.lost - before.lost };
        let timeout = SubflowEvent::Timeout { consecutive: self.consecutive_timeouts };
        let happened = [
            (self.usable && !before.usable, SubflowEvent::Opened),
            (self.timeouts > before.timeouts, timeout),
            (self.delivered > before.delivered || self.bytes_acked > before.bytes_acked, delivered),
            (self.lost > before.lost, lost),
            (self.state != before.state, SubflowEvent::Congestion(self.state)),
            (self.stale != before.stale, SubflowEvent::Stale(self.stale)),
            (self.backup != before.backup, SubflowEvent::Backup(self.backup)),
            (!self.usable && before.usable, SubflowEvent::Closed),
        ];
        happened.into_iter().filter_map(|(did, event)| did.then_some(event))
    }
}

impl Subflow {
    /// Returns the current counters and states.
    pub(crate) fn standing(&self) -> Standing {
        let totals = self.tcp.sending().totals();
        Standing {
            ordinal: self.context.ordinal(),
            usable: self.usable(),
            timeouts: totals.timeouts,
            consecutive_timeouts: self.tcp.sending().consecutive_timeouts(),
            delivered: self.tcp.sending().flight().rate().delivered(),
            bytes_acked: totals.bytes_acked,
            lost: self.tcp.sending().flight().rate().lost(),
            state: self.tcp.sending().cwnd().state(),
            stale: self.context.staleness().is_stale(),
            backup: self.context.signals().is_backup(),
        }
    }
}
