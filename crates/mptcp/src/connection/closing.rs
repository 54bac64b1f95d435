//! Closing: `DATA_FIN` in both directions, then FIN on every subflow (RFC 8684 section 3.3.3); resets; the
//! end of MPTCP.

mod fallback;

use anabranch_units::{Duration, Instant};
use anabranch_wire::{MptcpOption, Segment};
pub(super) use fallback::{find_lost_options, handle_end_of_signals, is_infinite, judge_bare};

use super::Event;
use super::connect::reset_option;
use super::incoming::Incoming;
use super::outgoing::Outgoing;
use super::session::Session;
use super::subflow_table::Subflows;
use crate::subflow::Reset;
use anabranch_tcp::{State, earliest};

/// The wait before the `DATA_FIN` is repeated for the first time. The wait doubles with each repetition.
const FIN_REPEAT: Duration = Duration::from_millis(200);
/// The largest number of doublings (`mptcp_set_datafin_timeout`).
const FIN_DOUBLINGS: u32 = 9;
/// The number of `DATA_FIN`s without an answer (25.4 s) after which the only subflow is closed with a FIN.
const FIN_UNANSWERED: u32 = 6;

/// The time for which a connection without subflows waits for a new one (`mptcp_close_timeout`).
const CLOSE_TIMEOUT: Duration = Duration::from_secs(60);

/// Reason code: unspecified (RFC 8684 section 3.6).
const REASON_UNSPECIFIED: u8 = 0;

/// The state of the close, and its timers.
#[derive(Debug, Default)]
pub(super) struct Closing {
    /// Whether the application has closed its sending side.
    requested: bool,
    /// Whether the `DATA_FIN` was sent or is about to be sent.
    signalled: bool,
    /// Whether the peer has acknowledged the `DATA_FIN`.
    acknowledged: bool,
    /// The number of times that the `DATA_FIN` was sent.
    attempts: u32,
    /// The time at which the `DATA_FIN` is repeated.
    deadline: Option<Instant>,
    /// The time until which a connection whose subflows are all closed waits for a new one. `None` if it does
    /// not wait.
    deserted_until: Option<Instant>,
    /// Whether `Event::Closed` was reported.
    reported: bool,
    /// Whether MPTCP ended because of data without a mapping, and the peer may not know that yet.
    alone: bool,
    /// The time until which the answer to our `MP_FAIL` is awaited.
    report_until: Option<Instant>,
}

/// The way in which MPTCP ends on a subflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The connection continues as plain TCP.
    FallBack,
    /// The subflow is reset. The value is the reason code of `MP_TCPRST`.
    Reset(u8),
}

impl Closing {
    /// Closes the sending side. Returns whether the connection ends at once because it has no subflows.
    pub(super) fn close(&mut self) -> bool {
        self.requested = true;
        self.deserted_until.is_some()
    }

    /// Returns whether the application has closed its sending side.
    pub(super) fn requested(&self) -> bool {
        self.requested
    }

    /// Returns whether our `DATA_FIN` waits for its acknowledgement.
    #[inline]
    pub(super) fn signals(&self) -> bool {
        self.signalled && !self.acknowledged
    }

    /// Returns whether the peer has acknowledged our `DATA_FIN`.
    #[inline]
    pub(super) fn is_acknowledged(&self) -> bool {
        self.acknowledged
    }

    /// Returns the time of the earliest timer.
    pub(super) fn deadline(&self) -> Option<Instant> {
        earliest(earliest(self.deadline, self.deserted_until), self.report_until)
    }

    /// Returns whether a timer is running.
    #[inline]
    pub(super) fn waits(&self) -> bool {
        self.deadline.is_some() | self.deserted_until.is_some() | self.report_until.is_some()
    }

    /// Returns whether the `DATA_FIN` must be repeated.
    pub(super) fn is_fin_due(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|at| now >= at)
    }

    /// Returns whether the wait for a new subflow is over.
    pub(super) fn is_given_up(&self, now: Instant) -> bool {
        self.deserted_until.is_some_and(|at| now >= at)
    }

    /// Returns whether the wait for the answer to our `MP_FAIL` is over.
    pub(super) fn is_report_due(&self, now: Instant) -> bool {
        self.report_until.is_some_and(|at| now >= at)
    }

    /// Returns whether every subflow is closed and no new one is awaited.
    pub(super) fn is_closed(&self, subflows: &Subflows) -> bool {
        subflows.is_deserted() && self.deserted_until.is_none()
    }

    /// Stops the wait for a new subflow, because one is being opened.
    pub(super) fn end_wait(&mut self) {
        self.deserted_until = None;
    }

    /// Handles an acknowledgement of data up to `position` after the `DATA_FIN` was sent. Our data ends at `end`, and
    /// a larger position acknowledges the `DATA_FIN`.
    #[inline]
    pub(super) fn on_data_ack(&mut self, position: u64, end: u64) {
        if position > end {
            self.acknowledged = true;
            self.deadline = None;
        }
    }

    /// Ends a connection that has no subflows.
    pub(super) fn end_deserted(&mut self, session: &mut Session) {
        self.deserted_until = None;
        self.report_closed(session);
    }

    /// Handles the end of the last subflow. If the peer may still send data, the connection waits for a new
    /// subflow (`__mptcp_close_ssk`).
    pub(super) fn on_deserted(&mut self, now: Instant, session: &mut Session, incoming: &Incoming) {
        let open = session.is_confirmed() && session.is_multipath() && !self.reported;
        if open && !self.requested && !incoming.fin_taken() {
            self.deserted_until = Some(session.host().expiry(now, CLOSE_TIMEOUT));
        } else {
            self.report_closed(session);
        }
    }

    /// Sends the `DATA_FIN` that the application has requested, after all data was scheduled.
    pub(super) fn push_fin(
        &mut self,
        now: Instant,
        session: &Session,
        subflows: &mut Subflows,
        outgoing: &Outgoing,
        incoming: &Incoming,
    ) {
        if !outgoing.stream().is_scheduled() {
            return;
        }
        if session.is_plain() {
            if let Some(only) = subflows.get_first_mut() {
                only.tcp.supply().queue_fin();
            }
            return;
        }
        if !self.signalled {
            self.signalled = true;
            self.repeat_fin(now, session, subflows);
        }
        self.close_subflows(subflows, incoming);
    }

    /// Closes the subflows with FIN if both directions of the data stream have ended.
    fn close_subflows(&self, subflows: &mut Subflows, incoming: &Incoming) {
        if incoming.fin_taken() && self.acknowledged {
            for subflow in subflows.iter_mut() {
                subflow.tcp.supply().queue_fin();
            }
        }
    }

    /// Returns whether the `DATA_FIN` was sent more than [`FIN_UNANSWERED`] times without an answer.
    pub(super) fn is_unanswered(&self, session: &Session) -> bool {
        !self.acknowledged && !session.is_plain() && self.attempts > FIN_UNANSWERED
    }

    /// Sends or repeats the `DATA_FIN` on every subflow.
    pub(super) fn repeat_fin(&mut self, now: Instant, session: &Session, subflows: &mut Subflows) {
        if self.acknowledged || session.is_plain() {
            self.deadline = None;
            return;
        }
        subflows.demand_ack();
        let wait = FIN_REPEAT * (1 << self.attempts.min(FIN_DOUBLINGS));
        self.attempts += 1;
        self.deadline = Some(session.host().expiry(now, wait));
    }

    /// Ends every subflow with a RST. If `fast_close` has the peer's key, the RSTs carry `MP_FASTCLOSE`.
    pub(super) fn abort(
        &mut self,
        session: &mut Session,
        subflows: &mut Subflows,
        fast_close: Option<u64>,
    ) {
        let multipath = session.is_multipath();
        let reason = Some(reset_option(REASON_UNSPECIFIED)).filter(|_| multipath);
        for index in 0..subflows.len() {
            let subflow = &mut subflows[index];
            if subflow.tcp.state() == State::Closed {
                continue;
            }
            // A join whose SYN was not answered needs no RST.
            if subflow.tcp.state() != State::SynSent || subflow.tcp.id().index() == 0 {
                subflow.demand_reset(Reset { fast_close, reason });
            }
            let id = subflows.cut_off(index);
            if multipath {
                session.report(Event::SubflowClosed(id));
            }
        }
        subflows.clear_joins();
        self.deadline = None;
        self.end_deserted(session);
    }

    /// Handles the peer's FIN on a subflow, or the acknowledgement of our FIN.
    pub(super) fn handle_subflow_fin(
        &mut self,
        session: &mut Session,
        subflows: &mut Subflows,
        outgoing: &mut Outgoing,
        incoming: &mut Incoming,
        index: usize,
    ) {
        if subflows[index].tcp.receive().assembly().is_closed() {
            if session.is_multipath() {
                // The subflow is closed unless data on it is unacknowledged.
                subflows[index].tcp.supply().queue_fin();
            } else {
                incoming.on_delivery(session, subflows, index, false);
            }
        }
        self.close_subflows(subflows, incoming);
        if subflows[index].tcp.finished() {
            incoming.take_last_parked(session, subflows, index);
            let id = subflows.close(index);
            outgoing.scheduling_mut().clear_views();
            session.report(Event::SubflowClosed(id));
            if self.is_closed(subflows) {
                self.report_closed(session);
            }
        }
    }

    fn report_closed(&mut self, session: &mut Session) {
        if !std::mem::replace(&mut self.reported, true) {
            session.report(Event::Closed);
        }
    }
}

/// Returns the key in the `MP_FASTCLOSE` of a segment.
pub(super) fn fast_close(segment: &Segment) -> Option<u64> {
    segment.mptcp.iter().find_map(|option| match option {
        MptcpOption::FastClose { key } => Some(*key),
        _ => None,
    })
}
