//! Delegation: if an acknowledgement on one subflow leads to data for another, that data is sent later, when
//! the other subflow is processed (`mptcp_subflow_delegate`, `MPTCP_DELEGATE_SEND`). On one processor, an
//! application that the acknowledgement woke runs first. The kernel leaves the rest of the packet processing
//! to a thread (`need_resched` in `handle_softirqs`). Data that the application then writes follows the
//! existing decision, because the scheduler is not called while a subflow is `scheduled`
//! (`mptcp_sched_get_send`). It fills a segment that would otherwise be short.

use anabranch_tcp::config::Moment;
use anabranch_units::{Instant, SubflowId};

use super::{Outgoing, Session, Subflows};
use anabranch_scheduler::{Ask, SubflowSet};

/// A decision of the scheduler that is executed later.
#[derive(Debug, Default)]
pub(super) struct Delegation {
    /// The subflow whose acknowledgement is being processed.
    answered: Option<SubflowId>,
    /// Whether data queued on that subflow was already sent.
    pushed: bool,
    /// The subflow that will get data.
    decided: Option<SubflowId>,
    /// The number of bytes for that subflow.
    burst: u64,
    /// Whether a subflow's send buffer has grown and the connection does not use the new size yet
    /// (`MPTCP_DELEGATE_SNDBUF`).
    grew: bool,
}

impl Delegation {
    /// Returns whether a decision waits to be executed.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.decided.is_some()
    }

    /// Returns whether an acknowledgement is being processed.
    #[inline]
    pub(super) fn answers(&self) -> bool {
        self.answered.is_some()
    }
}

impl Outgoing {
    /// Begins to process an acknowledgement on a subflow, until [`Self::end_answer`].
    #[inline]
    pub(in crate::connection) fn begin_answer(&mut self, session: &Session, id: SubflowId) {
        if session.stack().mptcp.delegates_sending {
            self.delegation.answered = Some(id);
            self.delegation.pushed = false;
        }
    }

    /// Ends the processing of an acknowledgement.
    #[inline]
    pub(in crate::connection) fn end_answer(&mut self) {
        self.delegation.answered = None;
    }

    /// Returns whether a delegated decision can be executed now, because the application has run.
    #[inline]
    pub(in crate::connection) fn has_delegated(&self, session: &Session) -> bool {
        self.delegation.is_due() && !session.wakes_application()
    }

    /// Applies the new sizes of grown send buffers if the application has run.
    #[inline]
    pub(in crate::connection) fn update_grown_buffers(
        &mut self,
        session: &mut Session,
        subflows: &mut Subflows,
    ) {
        if self.delegation.grew && !session.wakes_application() {
            self.update_send_buffers(session, subflows);
        }
    }

    /// Handles a subflow's grown send buffer, which may wake the application. The connection uses the new
    /// size after the application has run, or at once if none was woken (`subflow_write_space`).
    #[inline]
    pub(in crate::connection) fn note_growth(
        &mut self,
        session: &mut Session,
        subflows: &mut Subflows,
    ) {
        self.stream.report_writable(session, subflows);
        if session.config().defers_sending() {
            self.delegation.grew = true;
            if !session.wakes_application() {
                self.update_send_buffers(session, subflows);
            }
        }
    }

    /// Updates the connection's copies of the sizes of its subflows' send buffers, which may free
    /// space (`__mptcp_sync_sndbuf`). Linux also does this after a write (`mptcp_release_cb`).
    #[inline]
    pub(super) fn update_send_buffers(&mut self, session: &mut Session, subflows: &mut Subflows) {
        if std::mem::take(&mut self.delegation.grew) {
            for subflow in subflows.iter_mut() {
                subflow.tcp.supply().report_buffer();
            }
            self.stream.report_writable(session, subflows);
        }
    }

    /// Postpones new data for one subflow until the application has run. Returns false if that is not
    /// necessary. Data for several subflows is sent at once.
    #[inline]
    pub(super) fn set_delegated(&mut self, session: &Session, on: SubflowSet, burst: u64) -> bool {
        if !session.config().defers_sending()
            || self.request.ask != Ask::NewData
            || !session.wakes_application()
        {
            return false;
        }
        let Some(only) = on.only() else { return false };
        (self.delegation.decided, self.delegation.burst) = (Some(only), burst);
        true
    }

    /// Returns whether the scheduler did not choose the subflow whose acknowledgement is being processed.
    /// `first` is the first subflow of `on`.
    #[inline]
    pub(super) fn answers_elsewhere(&self, first: Option<SubflowId>, on: SubflowSet) -> bool {
        self.delegation.answered.is_some_and(|id| first != Some(id) && !on.contains(id))
    }

    /// Sends the data queued on the acknowledged subflow before another subflow gets data.
    #[inline]
    pub(super) fn push_answered(
        &mut self,
        now: Instant,
        session: &mut Session,
        subflows: &mut Subflows,
    ) {
        if let Some(id) = self.delegation.answered
            && !std::mem::replace(&mut self.delegation.pushed, true)
        {
            self.push_now(now, session, subflows, id);
        }
    }

    #[inline(never)]
    fn push_now(
        &mut self,
        now: Instant,
        session: &mut Session,
        subflows: &mut Subflows,
        id: SubflowId,
    ) {
        let Some(subflow) = subflows.get_mut(id.index()).filter(|s| s.usable()) else {
            return;
        };
        subflow.tcp.supply().push_answered(Moment { host: session.host(), now });
        if let Some(view) = self.scheduling.views.iter_mut().find(|view| view.id == id) {
            subflow.update_view(view);
        }
        if subflow.tcp.supply().take_buffer_growth() {
            self.note_growth(session, subflows);
        }
    }

    /// Removes the decision for a subflow that is closed, or for any subflow if `gone` is `None`.
    pub(in crate::connection) fn clear_decided(&mut self, gone: Option<SubflowId>) {
        if gone.is_none() || gone == self.delegation.decided {
            self.delegation.decided = None;
        }
    }

    /// Executes the delegated decision. Returns false if no data could be queued.
    pub(super) fn push_delegated(
        &mut self,
        session: &mut Session,
        subflows: &mut Subflows,
    ) -> bool {
        let Some(id) = self.delegation.decided.take() else { return true };
        !self.update_request(session, subflows, false)
            || self.send_on(session, subflows, SubflowSet::one(id), None, self.delegation.burst)
    }
}

#[cfg(test)]
mod tests;
