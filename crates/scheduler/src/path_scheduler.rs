//! The trait of path schedulers.

use std::fmt;

use anabranch_units::{Instant, SubflowId};

use super::{Ask, Decision, SendRequest, SubflowEvent, SubflowView};

/// A path scheduler. Each connection has its own.
///
/// If a scheduler builds on another one, `base` and `base_mut` return that one. The default methods then
/// forward every notification to it.
pub trait PathScheduler: fmt::Debug + Send {
    /// Returns the scheduler's name in the table; the first one if there are several.
    fn name(&self) -> &'static str;

    /// Chooses subflows. `subflows` contains every established subflow, in order of creation.
    fn schedule(&mut self, request: &SendRequest, subflows: &[SubflowView]) -> Decision;

    /// Returns the scheduler that this one builds on.
    fn base(&self) -> Option<&dyn PathScheduler> {
        None
    }

    /// Returns the scheduler that this one builds on, for calls that change it.
    fn base_mut(&mut self) -> Option<&mut dyn PathScheduler> {
        None
    }

    /// Notifies that a subflow received `bytes` of the data stream, starting at `from`.
    fn on_sent(&mut self, id: SubflowId, from: u64, bytes: u64) {
        if let Some(base) = self.base_mut() {
            base.on_sent(id, from, bytes);
        }
    }

    /// Notifies that everything before `data_una` is acknowledged at data level.
    fn on_data_ack(&mut self, now: Instant, data_una: u64) {
        if let Some(base) = self.base_mut() {
            base.on_data_ack(now, data_una);
        }
    }

    /// Notifies that a subflow was penalised.
    fn on_penalised(&mut self, id: SubflowId) {
        if let Some(base) = self.base_mut() {
            base.on_penalised(id);
        }
    }

    /// Notifies that a new subflow reuses the identifier of a closed one.
    fn on_replaced(&mut self, id: SubflowId) {
        if let Some(base) = self.base_mut() {
            base.on_replaced(id);
        }
    }

    /// Notifies that new data is waiting, but the connection-level window is closed, so `schedule` is not
    /// called.
    fn on_window_closed(&mut self, subflows: &[SubflowView]) {
        if let Some(base) = self.base_mut() {
            base.on_window_closed(subflows);
        }
    }

    /// Notifies of a change of a subflow. Only a scheduler that [watches](Self::watches) is notified.
    fn on_event(&mut self, now: Instant, id: SubflowId, event: SubflowEvent) {
        if let Some(base) = self.base_mut() {
            base.on_event(now, id, event);
        }
    }

    /// Returns whether the scheduler needs events, [`SubflowView::oldest_sent`] and
    /// [`SubflowView::timeout_at`]. It is called once, when the connection begins.
    fn watches(&self) -> bool {
        self.base().is_some_and(PathScheduler::watches)
    }

    /// Returns whether the plug-in has failed. Its decisions are then ignored, and the caller must close the
    /// connection.
    fn failed(&self) -> bool {
        self.base().is_some_and(PathScheduler::failed)
    }

    /// Returns whether the scheduler handles `Ask::Idle`, `Ask::WindowBlocked` and `Ask::BufferFull`.
    fn wants_idle(&self) -> bool {
        self.base().is_some_and(PathScheduler::wants_idle)
    }

    /// Returns true if the scheduler returns `Wait` whenever no subflow [can send](SubflowView::can_send),
    /// and keeps no state from such a call. It is then not called while every window is full.
    fn waits_for_room(&self) -> bool {
        false
    }

    /// Returns true if the scheduler would keep choosing the same subflow for new data while that subflow
    /// [can send](SubflowView::can_send) and nothing else happens. It may then be called once for all those
    /// segments, followed by one [`PathScheduler::on_sent`]. It is still called for each segment near the end
    /// of the send buffer, and if the profile schedules in whole segments or mappings.
    fn keeps_choice(&self) -> bool {
        false
    }

    /// Returns whether the scheduler handles `Ask::Reinject`. If so, data is reinjected as in the out-of-tree
    /// kernel (`mptcp_reinject_data`): once, when its subflow's retransmission timer fires or the subflow is
    /// closed. Otherwise all data is reinjected when a subflow becomes stale or is closed, as in upstream
    /// Linux.
    fn reinjects(&self) -> bool {
        self.base().is_some_and(PathScheduler::reinjects)
    }
}

/// Calls a base with a request, if it is for new data or if the base handles its kind. Returns `Wait`
/// otherwise.
pub fn ask(base: &mut dyn PathScheduler, request: &SendRequest, views: &[SubflowView]) -> Decision {
    let reads = match request.ask {
        Ask::NewData => true,
        Ask::Reinject(_) => base.reinjects(),
        Ask::WindowBlocked { .. } | Ask::BufferFull { .. } | Ask::Idle => base.wants_idle(),
    };
    if reads { base.schedule(request, views) } else { Decision::WAIT }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MinRtt;

    #[derive(Debug)]
    struct Broken;

    impl PathScheduler for Broken {
        fn name(&self) -> &'static str {
            "broken"
        }

        fn schedule(&mut self, _request: &SendRequest, _subflows: &[SubflowView]) -> Decision {
            Decision::WAIT
        }

        fn failed(&self) -> bool {
            true
        }
    }

    #[derive(Debug)]
    struct Over<B>(B);

    impl<B: PathScheduler> PathScheduler for Over<B> {
        fn name(&self) -> &'static str {
            "over"
        }

        fn schedule(&mut self, request: &SendRequest, subflows: &[SubflowView]) -> Decision {
            self.0.schedule(request, subflows)
        }

        fn base(&self) -> Option<&dyn PathScheduler> {
            Some(&self.0)
        }
    }

    #[test]
    fn failure_of_the_base_scheduler_propagates() {
        assert!(Over(Over(Broken)).failed());
        assert!(!Over(MinRtt).failed());
    }
}
