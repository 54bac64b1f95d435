//! The wake-up time of a connection, and its timers.

use anabranch_tcp::config::Moment;
use anabranch_units::Instant;

use super::{Connection, closing};
use anabranch_tcp::{State, earliest};

impl Connection {
    /// Returns the time at which [`Self::handle_timeout`] must be called.
    #[inline]
    pub fn poll_timeout(&self) -> Option<Instant> {
        Some(self.wake()).filter(|at| *at != Instant::FAR_FUTURE)
    }

    /// Like [`Self::poll_timeout`], but returns `FAR_FUTURE` instead of `None`.
    #[inline]
    pub(crate) fn wake(&self) -> Instant {
        let mut first = self.outgoing.wake();
        // Fast path: while data flows, none of these timers is usually running.
        if self.closing.waits() | self.signals.waits() {
            let rare = earliest(self.closing.deadline(), self.signals.deadline());
            first = first.min(rare.unwrap_or(Instant::FAR_FUTURE));
        }
        for subflow in self.subflows.iter() {
            first = first.min(subflow.wake());
        }
        first
    }

    /// Handles every timer that is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        let host = *self.session.host();
        let mut again = false;
        for index in 0..self.subflows.len() {
            if self.subflows[index].tcp.state() == State::Closed {
                continue;
            }
            self.subflows[index].note_change();
            let timeouts = self.subflows[index].tcp.totals().timeouts;
            let subflow = &mut self.subflows[index];
            if !subflow.handle_handshake_timeout(&host, now)
                || !subflow.tcp.handle_timeout(Moment { host: &host, now })
            {
                self.remove_subflow(now, index);
                continue;
            }
            let rto = self.subflows[index].tcp.sending().rtt().rto();
            self.subflows[index].tcp.receive_mut().handle_timeout(now, rto);
            let fired = self.subflows[index].tcp.totals().timeouts > timeouts;
            again |= fired && self.outgoing.on_subflow_timeout(self.subflows[index].tcp.id());
        }
        let unacknowledged = self.outgoing.retransmission_deadline().is_some_and(|at| now >= at);
        if unacknowledged || self.closing.is_fin_due(now) {
            self.check_options(now);
        }
        if self.closing.is_report_due(now)
            && let Some(end) = self.closing.on_report_timeout(&self.session)
        {
            self.end_mptcp(now, 0, end);
        }
        if self.outgoing.retransmission_deadline().is_some_and(|at| now >= at) {
            self.outgoing.on_retransmission_timeout(now, &mut self.session, &mut self.subflows);
            self.push(now);
            self.outgoing.arm_retransmission(now, &self.session, &self.subflows);
        }
        if self.closing.is_fin_due(now) {
            self.repeat_fin(now);
        }
        if self.closing.is_given_up(now) {
            self.closing.end_deserted(&mut self.session);
        }
        if self.signals.deadline().is_some_and(|at| now >= at) {
            self.on_address_timeout(now);
        }
        self.outgoing.scheduling_mut().report_events(now, &self.session, &self.subflows);
        if again || self.outgoing.is_scheduling_due(now) {
            self.push(now);
        }
    }

    /// Ends MPTCP on a subflow that lost its options, when the connection makes no progress.
    fn check_options(&mut self, now: Instant) {
        let Self { session, subflows, outgoing, incoming, .. } = self;
        let lost = closing::find_lost_options(session, subflows, outgoing, incoming);
        if let Some((index, end)) = lost {
            self.end_mptcp(now, index, end);
            self.outgoing.acknowledge_by_subflow(&mut self.session, &mut self.subflows);
            self.push(now);
        }
    }

    /// Repeats the `DATA_FIN`. If it was never answered, the connection ends as plain TCP if
    /// possible.
    fn repeat_fin(&mut self, now: Instant) {
        let Self { session, subflows, outgoing, incoming, .. } = self;
        if self.closing.check_plain_end(session, subflows, outgoing, incoming) {
            self.fall_back();
            self.push(now);
        } else {
            self.closing.repeat_fin(now, session, subflows);
        }
    }
}
