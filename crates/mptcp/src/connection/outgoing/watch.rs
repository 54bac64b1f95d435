//! Notifications for schedulers that request subflow events: the changes of each subflow since the last
//! notification.

use anabranch_units::{Instant, SubflowId};

use super::{Scheduling, Session, Subflows};
use crate::subflow::Standing;

/// The counters and states of each subflow at the last notification, by identifier.
#[derive(Debug, Default)]
pub(super) struct Watch(Vec<Standing>);

impl Scheduling {
    /// Notifies the scheduler of changes of its subflows, if it requests that.
    #[inline]
    pub(in crate::connection) fn report_events(
        &mut self,
        now: Instant,
        session: &Session,
        subflows: &Subflows,
    ) {
        if self.watch.is_some() {
            self.check_standings(now, session, subflows);
        }
    }

    #[cold]
    fn check_standings(&mut self, now: Instant, session: &Session, subflows: &Subflows) {
        let Some(watch) = self.watch.as_mut().filter(|_| session.is_multipath()) else {
            return;
        };
        for (index, subflow) in subflows.iter().enumerate() {
            let before = Standing::before(watch.0.get(index).copied(), subflow);
            let standing = subflow.standing();
            for event in standing.events_since(&before) {
                self.scheduler.on_event(now, SubflowId(index as u8), event);
            }
            match watch.0.get_mut(index) {
                Some(known) => *known = standing,
                None => watch.0.push(standing),
            }
        }
    }

    /// Updates the times in the views that only such schedulers use.
    #[cold]
    pub(super) fn update_times(&mut self, subflows: &Subflows) {
        for view in &mut self.views {
            if let Some(subflow) = subflows.get(view.id.index()) {
                view.oldest_sent = subflow.tcp.sending().flight().oldest_sent();
                view.timeout_at = subflow.tcp.sending().next_timeout();
            }
        }
    }
}
