//! Data for a subflow other than the one that an acknowledgement has come on: the kernel leaves it to that subflow's
//! own turn (`mptcp_subflow_delegate`, `MPTCP_DELEGATE_SEND`). Where there is one processor, an application that the
//! same acknowledgement has woken comes before: what is left of the packets' work goes to a thread as soon as somebody
//! else is to run (`need_resched` in `handle_softirqs`). What the application writes then goes by the decision that is
//! there (`mptcp_sched_get_send` asks nobody while a subflow is `scheduled`), and fills a segment that would have been
//! a short one.

use anabranch_units::{Instant, SubflowId};

use super::{Connection, Event};
use anabranch_scheduler::{Ask, SubflowSet};

/// What was decided and is left to another turn.
#[derive(Debug, Default)]
pub(super) struct Delegation {
    /// The subflow whose acknowledgement is being answered.
    answered: Option<SubflowId>,
    /// It has been pushed.
    pushed: bool,
    /// The subflow that is to be given data.
    decided: Option<SubflowId>,
    /// How many bytes it is to be given.
    burst: u64,
    /// A subflow's send buffer has grown, and the connection was not told (`MPTCP_DELEGATE_SNDBUF`).
    grew: bool,
}

impl Delegation {
    /// Something was decided and not carried out.
    #[inline(always)]
    pub(super) fn is_due(&self) -> bool {
        self.decided.is_some()
    }

    /// An acknowledgement is being answered.
    #[inline(always)]
    pub(super) fn answers(&self) -> bool {
        self.answered.is_some()
    }
}

impl Connection {
    /// Hands data over because of an acknowledgement on a subflow.
    #[inline(always)]
    pub(super) fn push_behind_ack(&mut self, now: Instant, index: usize) {
        if self.config.stack.mptcp.delegates_sending {
            self.delegation.answered = Some(self.subflows[index].id);
            self.delegation.pushed = false;
        }
        self.push(now);
        self.delegation.answered = None;
    }

    /// The application has had its turn: what was left to it goes without what it might have written.
    #[inline(always)]
    pub(super) fn push_delegated(&mut self, now: Instant) {
        if self.delegation.is_due() && !self.wakes_application() {
            self.push(now);
        }
        if self.delegation.grew && !self.wakes_application() {
            self.tell_buffers();
        }
    }

    /// A subflow's send buffer has grown, which may wake the application. What the connection knows of it is left to
    /// the turn behind the application's, or changes at once where nobody was woken (`subflow_write_space`).
    #[inline]
    pub(super) fn note_growth(&mut self) {
        self.notify_writable();
        if self.config.leaves_to_turns() {
            self.delegation.grew = true;
            if !self.wakes_application() {
                self.tell_buffers();
            }
        }
    }

    /// The connection learns how large its subflows' buffers are, which may be room (`__mptcp_sync_sndbuf`): behind a
    /// write, too, in whose time the turns fall that were left (`mptcp_release_cb`).
    #[inline]
    pub(super) fn tell_buffers(&mut self) {
        if std::mem::take(&mut self.delegation.grew) {
            for subflow in &mut self.subflows {
                subflow.send.tell_buffer();
            }
            self.notify_writable();
        }
    }

    /// Leaves new data for `on` to the turn behind the application's; false when there is no reason to. What goes on
    /// several subflows at once goes at once.
    #[inline(always)]
    pub(super) fn delegates(&mut self, on: SubflowSet, burst: u64) -> bool {
        if !self.config.leaves_to_turns()
            || self.request.ask != Ask::NewData
            || !self.wakes_application()
        {
            return false;
        }
        let Some(only) = on.only() else { return false };
        (self.delegation.decided, self.delegation.burst) = (Some(only), burst);
        true
    }

    /// Data goes `on`, whose `first` is this, in answer to an acknowledgement on another subflow.
    #[inline(always)]
    pub(super) fn answers_elsewhere(&self, first: Option<SubflowId>, on: SubflowSet) -> bool {
        let answered = self.delegation.answered;
        answered.is_some_and(|id| first != Some(id) && !on.contains(id))
    }

    /// Data goes elsewhere than on the subflow whose acknowledgement it answers: that one comes first.
    #[inline(always)]
    pub(super) fn push_answered(&mut self, now: Instant) {
        if let Some(id) = self.delegation.answered
            && !std::mem::replace(&mut self.delegation.pushed, true)
        {
            self.push_now(now, id);
        }
    }

    #[inline(never)]
    fn push_now(&mut self, now: Instant, id: SubflowId) {
        let Some(subflow) = self.subflows.get_mut(id.index()).filter(|s| s.usable()) else {
            return;
        };
        subflow.push_answered(&self.config.host, now);
        if let Some(view) = self.views.iter_mut().find(|view| view.id == id) {
            subflow.update_view(view);
        }
        if std::mem::take(&mut subflow.send.grew) {
            self.note_growth();
        }
    }

    /// What was decided for a subflow that is gone, or for any on what is plain TCP from now on, is forgotten.
    pub(super) fn forget_decided(&mut self, gone: Option<SubflowId>) {
        if gone.is_none() || gone == self.delegation.decided {
            self.delegation.decided = None;
        }
    }

    /// What was decided before goes first; false when nothing of it could be handed over.
    pub(super) fn carry_out_delegated(&mut self) -> bool {
        let Some(id) = self.delegation.decided.take() else { return true };
        !self.put_question(false) || self.send_on(SubflowSet::one(id), None, self.delegation.burst)
    }

    /// The application was told that there is room, and has not heard it yet.
    fn wakes_application(&self) -> bool {
        self.events.contains(&Event::Writable)
    }
}

#[cfg(test)]
mod tests;
