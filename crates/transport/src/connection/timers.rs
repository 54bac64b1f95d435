//! One wake-up time for everything, and what to do when it comes.

use anabranch_units::Instant;

use super::Connection;
use crate::subflow::earliest;

impl Connection {
    /// When `handle_timeout` wants to be called.
    #[inline]
    pub fn poll_timeout(&self) -> Option<Instant> {
        Some(self.wake()).filter(|at| *at != Instant::FAR_FUTURE)
    }

    /// As [`Self::poll_timeout`]; `FAR_FUTURE` is never.
    #[inline(always)]
    pub(crate) fn wake(&self) -> Instant {
        let never = Instant::FAR_FUTURE;
        let mut first = self.scheduler_wake.min(self.retransmission.deadline().unwrap_or(never));
        // While data flows none of these waits: one look at all.
        let rarely = self.closing.deadline().is_some()
            | self.closing.deserted_until().is_some()
            | self.addresses.waits()
            | self.fallback.deadline().is_some();
        if rarely {
            first = first.min(self.rare_timeout());
        }
        for subflow in &self.subflows {
            first = first.min(subflow.wake());
        }
        first
    }

    #[cold]
    fn rare_timeout(&self) -> Instant {
        let closing = earliest(self.closing.deadline(), self.closing.deserted_until());
        let addresses = earliest(self.addresses.deadline(), self.fallback.deadline());
        earliest(closing, addresses).unwrap_or(Instant::FAR_FUTURE)
    }

    /// Time has come: fires every timer that is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        let host = self.config.host;
        let mut again = false;
        for index in 0..self.subflows.len() {
            if self.subflows[index].state == crate::subflow::State::Closed {
                continue;
            }
            self.subflows[index].touched = true;
            let timeouts = self.subflows[index].totals.timeouts;
            let subflow = &mut self.subflows[index];
            if !subflow.fire_handshake(&host, now) || !subflow.fire_timer(&host, now) {
                self.drop_subflow(now, index);
                continue;
            }
            self.subflows[index].fire_delayed_ack(now);
            self.subflows[index].fire_reports(now);
            let fired = self.subflows[index].totals.timeouts > timeouts;
            if fired && self.tracks && self.scheduler.reinjects() {
                self.carried.reinject(self.subflows[index].id);
                again = true;
            }
        }
        let stalled = earliest(self.retransmission.deadline(), self.closing.deadline());
        if stalled.is_some_and(|at| now >= at) {
            self.check_passage(now);
        }
        if self.fallback.deadline().is_some_and(|at| now >= at) {
            self.on_report_timeout(now);
        }
        if self.retransmission.deadline().is_some_and(|at| now >= at) {
            self.on_retransmission_timeout(now);
        }
        if self.closing.deadline().is_some_and(|at| now >= at) {
            self.repeat_fin(now);
        }
        if self.closing.deserted_until().is_some_and(|at| now >= at) {
            self.give_up();
        }
        if self.addresses.deadline().is_some_and(|at| now >= at) {
            self.on_address_timeout(now);
        }
        self.report_events(now);
        if again || now >= self.scheduler_wake {
            self.push(now);
        }
    }
}
