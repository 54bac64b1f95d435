//! What a scheduler sees of a connection's subflows.

use super::Connection;
use crate::subflow::Subflow;
use anabranch_scheduler::SubflowView;

impl Connection {
    /// Brings the schedulers' views up to date: those whose subflow was touched.
    #[inline(always)]
    pub(super) fn refresh_views(&mut self) {
        self.refresh_touched();
        if self.watch.is_some() {
            self.refresh_times();
        }
    }

    #[inline(always)]
    fn refresh_touched(&mut self) {
        let mut views = self.views.iter_mut();
        for subflow in self.subflows.iter_mut().filter(|s| s.usable()) {
            let Some(view) = views.next().filter(|view| view.id == subflow.id) else {
                return self.renew_views();
            };
            if std::mem::take(&mut subflow.touched) {
                subflow.update_view(view);
            }
        }
        if views.next().is_some() {
            self.renew_views();
        }
    }

    /// Makes all views anew: subflows have come or gone.
    #[cold]
    fn renew_views(&mut self) {
        self.views.clear();
        self.views.extend(self.subflows.iter().filter(|s| s.usable()).map(Subflow::view));
    }

    /// The scheduler would only say that it waits: every window is full. Most often the segment that an
    /// acknowledgement lets out has just been handed over.
    #[inline(always)]
    pub(super) fn lacks_room(&self) -> bool {
        self.scheduler.waits_for_room() && !self.views.iter().any(SubflowView::can_send)
    }
}
