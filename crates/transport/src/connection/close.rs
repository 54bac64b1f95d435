//! Closing: `DATA_FIN` both ways, then FIN on every subflow (RFC 8684 section 3.3.3); resets.

use anabranch_units::{Duration, Instant};
use anabranch_wire::{MpTcpRst, MptcpOption, Segment};

use super::{Connection, Event, Mode};
use crate::subflow::{Reset, State};

/// `DATA_FIN` is repeated after 200 ms, doubling.
const FIN_REPEAT: Duration = Duration::from_millis(200);
/// Doublings at most (`mptcp_set_datafin_timeout`).
const FIN_DOUBLINGS: u32 = 9;
/// `DATA_FIN`s without an answer (25.4 s) after which the end of an only subflow is told by FIN.
const FIN_UNANSWERED: u32 = 6;

/// How long a connection waits for a new subflow when all are gone (`mptcp_close_timeout`).
const CLOSE_TIMEOUT: Duration = Duration::from_secs(60);

/// How far the close has come.
#[derive(Debug, Default)]
pub(super) struct Closing {
    requested: bool,
    signalled: bool,
    acknowledged: bool,
    attempts: u32,
    deadline: Option<Instant>,
    /// Every subflow is gone and no end was agreed: until then a new one may come.
    deserted_until: Option<Instant>,
    reported: bool,
}

impl Closing {
    pub(super) fn requested(&self) -> bool {
        self.requested
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    pub(super) fn deserted_until(&self) -> Option<Instant> {
        self.deserted_until
    }

    /// A subflow is being opened.
    pub(super) fn revive(&mut self) {
        self.deserted_until = None;
    }

    /// A data-level acknowledgement up to `position`; ours ends at `end`.
    pub(super) fn on_data_ack(&mut self, position: u64, end: u64) {
        if self.signalled && position > end {
            self.acknowledged = true;
            self.deadline = None;
        }
    }
}

impl Connection {
    /// No more data will be written. What was written is still delivered.
    pub fn shutdown(&mut self, now: Instant) {
        self.closing.requested = true;
        if self.closing.deserted_until.is_some() {
            // Nobody is there to agree with.
            self.give_up();
        }
        self.push(now);
    }

    /// Every subflow is gone, and no other will come.
    pub fn is_closed(&self) -> bool {
        self.is_deserted() && self.closing.deserted_until.is_none()
    }

    /// Every subflow is gone.
    pub(super) fn is_deserted(&self) -> bool {
        !self.subflows.is_empty() && self.subflows.iter().all(|s| s.state == State::Closed)
    }

    /// No subflow has come in time, or none is wanted.
    pub(super) fn give_up(&mut self) {
        self.closing.deserted_until = None;
        self.report_closed();
    }

    /// The last subflow is gone: the end, or while data may still flow a wait for another one
    /// (`__mptcp_close_ssk`).
    fn on_deserted(&mut self, now: Instant) {
        let open = self.confirmed && self.mode == Mode::Multipath && !self.closing.reported;
        if open && !self.closing.requested && !self.input.fin_taken() {
            self.closing.deserted_until = Some(self.config.host.expiry(now, CLOSE_TIMEOUT));
        } else {
            self.report_closed();
        }
    }

    /// The position of the `DATA_FIN` while it is to be signalled.
    pub(super) fn signalled_fin(&self) -> Option<u64> {
        (self.closing.signalled && !self.closing.acknowledged).then_some(self.out.end)
    }

    /// Signals the end once everything written has been scheduled.
    pub(super) fn push_fin(&mut self, now: Instant) {
        if !self.closing.requested || self.out.cursor < self.out.end {
            return;
        }
        if self.mode == Mode::Plain {
            if let Some(only) = self.subflows.first_mut() {
                only.send.fin_queued = true;
            }
            return;
        }
        if !self.closing.signalled {
            self.closing.signalled = true;
            self.repeat_fin(now);
        }
        self.close_subflows();
    }

    /// Both directions are done: the subflows close with FIN.
    fn close_subflows(&mut self) {
        let done = self.input.fin_taken() && self.closing.acknowledged;
        if done {
            for subflow in &mut self.subflows {
                subflow.send.fin_queued = true;
            }
        }
    }

    /// Sends the `DATA_FIN` (again) on every subflow.
    pub(super) fn repeat_fin(&mut self, now: Instant) {
        if self.closing.acknowledged || self.mode == Mode::Plain {
            self.closing.deadline = None;
            return;
        }
        if self.closing.attempts > FIN_UNANSWERED && self.end_as_plain_tcp() {
            self.closing.deadline = None;
            return self.push(now);
        }
        for subflow in &mut self.subflows {
            subflow.ack_now();
        }
        let wait = FIN_REPEAT * (1 << self.closing.attempts.min(FIN_DOUBLINGS));
        self.closing.attempts += 1;
        self.closing.deadline = Some(self.config.host.expiry(now, wait));
    }

    /// A RST arrived.
    pub(super) fn handle_reset(&mut self, now: Instant, index: usize, segment: &Segment) {
        if self.subflows[index].reset_counts(now, segment) {
            self.drop_subflow(now, index);
        }
    }

    /// A subflow ends: what it had not delivered goes elsewhere.
    pub(super) fn drop_subflow(&mut self, now: Instant, index: usize) {
        let subflow = &mut self.subflows[index];
        if subflow.state == State::Closed {
            return;
        }
        let carried = subflow.fully_established;
        subflow.cut_off();
        let id = subflow.id;
        self.views.clear();
        self.events.push_back(Event::SubflowClosed(id));
        if carried {
            // Also with nobody left: a subflow that joins later begins with what was lost.
            self.send_again(id);
        }
        if self.is_deserted() {
            self.on_deserted(now);
        } else if carried {
            self.push(now);
        }
    }

    /// Resets a subflow with a reason (RFC 8684 section 3.6).
    pub(super) fn reset_subflow(&mut self, now: Instant, index: usize, reason: u8) {
        let option = MptcpOption::TcpRst(MpTcpRst { transient: false, reason });
        self.subflows[index].reset = Some(Reset { reason: Some(option), answers: None });
        self.drop_subflow(now, index);
    }

    /// A FIN arrived on a subflow or ours was acknowledged.
    pub(super) fn follow_subflow_close(&mut self, index: usize) {
        if self.subflows[index].peer_closed {
            if self.mode == Mode::Multipath {
                // The peer closes this subflow; unless data is outstanding on it we follow.
                self.subflows[index].send.fin_queued = true;
            } else {
                self.after_delivery(index, false);
            }
        }
        self.close_subflows();
        if self.subflows[index].finished() {
            self.subflows[index].state = State::Closed;
            let id = self.subflows[index].id;
            self.views.clear();
            self.events.push_back(Event::SubflowClosed(id));
            if self.is_closed() {
                self.report_closed();
            }
        }
    }

    fn report_closed(&mut self) {
        if !std::mem::replace(&mut self.closing.reported, true) {
            self.events.push_back(Event::Closed);
        }
    }
}

impl Connection {
    /// Ends the connection at once: a RST on every subflow, nothing more is delivered.
    pub fn abort(&mut self) {
        for subflow in &mut self.subflows {
            if subflow.state != State::Closed {
                subflow.reset = Some(Reset { reason: None, answers: None });
                subflow.cut_off();
            }
        }
        self.views.clear();
        self.give_up();
    }
}
