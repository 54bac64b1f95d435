//! Notifications for schedulers that watch their subflows: what has happened to each since the last look.

use anabranch_units::{Instant, SubflowId};

use super::{Connection, Mode};
use crate::subflow::Standing;

/// How each subflow stood at the last look, by identifier.
#[derive(Debug, Default)]
pub(super) struct Watch(Vec<Standing>);

impl Connection {
    /// Notifies the scheduler of what has happened to subflows, if it watches them.
    #[inline]
    pub(super) fn report_events(&mut self, now: Instant) {
        if self.watch.is_some() {
            self.compare_standings(now);
        }
    }

    #[cold]
    fn compare_standings(&mut self, now: Instant) {
        let Some(watch) = self.watch.as_mut().filter(|_| self.mode == Mode::Multipath) else {
            return;
        };
        for (index, subflow) in self.subflows.iter().enumerate() {
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

    /// Fills in the times of the views that only a watching scheduler reads.
    #[cold]
    pub(super) fn refresh_times(&mut self) {
        for view in &mut self.views {
            if let Some(subflow) = self.subflows.get(view.id.index()) {
                view.oldest_sent = subflow.oldest_sent();
                view.timeout_at = subflow.next_timeout();
            }
        }
    }
}
