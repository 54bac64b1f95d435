//! Closing: `DATA_FIN` both ways, then FIN on every subflow (RFC 8684 section 3.3.3); resets.

use anabranch_units::{Duration, Instant};
use anabranch_wire::{MpTcpRst, MptcpOption, Segment, crypto};

use super::connect::reset_option;
use super::ownership::Moved;
use super::rare::Rare;
use super::{Connection, Event, Mode};
use crate::subflow::{Reset, State};

/// `DATA_FIN` is repeated after 200 ms, doubling.
const FIN_REPEAT: Duration = Duration::from_millis(200);
/// Doublings at most (`mptcp_set_datafin_timeout`).
const FIN_DOUBLINGS: u32 = 9;
/// `DATA_FIN`s without an answer (25.4 s) after which the end of an only subflow is told by FIN.
const FIN_UNANSWERED: u32 = 6;

/// The time for which a connection waits for a new subflow when all are gone (`mptcp_close_timeout`).
const CLOSE_TIMEOUT: Duration = Duration::from_secs(60);

/// Reason code: unspecified (RFC 8684 section 3.6).
const REASON_UNSPECIFIED: u8 = 0;

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

    /// `DATA_FIN` has gone out, or is about to.
    pub(super) fn signals(&self) -> bool {
        self.signalled
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

    /// Every subflow is gone, and no other will come. What was received may still be read
    /// ([`crate::Event::Drained`] follows when it was).
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

    /// A RST arrived: where it counts, what it says of the reason (`MP_TCPRST`) and of the whole
    /// connection (`MP_FASTCLOSE`) does too (RFC 8684 sections 3.5 and 3.6).
    pub(super) fn handle_reset(&mut self, now: Instant, index: usize, segment: &Segment) {
        let joining = index > 0 && self.subflows[index].state == State::SynSent;
        if self.subflows[index].state == State::Closed
            || !self.subflows[index].reset_counts(now, segment)
        {
            return;
        }
        let told = segment.mptcp.iter().find_map(|option| match option {
            MptcpOption::TcpRst(reset) => Some(*reset),
            _ => None,
        });
        let tuple = self.subflows[index].tuple;
        if joining || told.is_some_and(|reset| !reset.transient) {
            self.peer_addresses.refuse(tuple.local.ip(), tuple.remote);
        }
        if let Some(MpTcpRst { transient, reason }) = told {
            let id = self.subflows[index].id;
            self.events.push_back(Event::SubflowReset { id, reason, transient });
        }
        let closes = fast_close(segment).filter(|_| self.mode == Mode::Multipath);
        let genuine = closes.is_some_and(|key| self.is_our_key(key));
        self.counters.forged_fast_closes += u64::from(closes.is_some() && !genuine);
        if genuine {
            // Nobody is there to be answered.
            self.subflows[index].cut_off();
            self.moved.push(tuple.into());
            let id = self.subflows[index].id;
            self.events.push_back(Event::SubflowClosed(id));
            self.be_aborted();
        } else {
            self.drop_subflow(now, index);
        }
    }

    fn is_our_key(&self, key: u64) -> bool {
        crypto::mac_eq(&key.to_be_bytes(), &self.local_key.value.to_be_bytes())
    }

    /// The `MP_FASTCLOSE` of an acknowledgement: one without our key draws a challenge (RFC 5961).
    pub(super) fn handle_fast_close(&mut self, now: Instant, index: usize, segment: &Segment) {
        let Some(key) = fast_close(segment) else { return };
        if self.is_our_key(key) {
            self.be_aborted();
        } else {
            self.counters.forged_fast_closes += 1;
            self.subflows[index].challenge(now);
        }
    }

    /// The peer has ended the connection: a RST goes out on every subflow (`mptcp_check_fastclose`).
    fn be_aborted(&mut self) {
        self.events.push_back(Event::Aborted);
        self.end_at_once(None);
    }

    /// Cuts every subflow off with a RST; `fast_close` is the key of a peer that is to do so too.
    fn end_at_once(&mut self, fast_close: Option<u64>) {
        let multipath = self.mode == Mode::Multipath;
        let reason = Some(reset_option(REASON_UNSPECIFIED)).filter(|_| multipath);
        for subflow in &mut self.subflows {
            if subflow.state == State::Closed {
                continue;
            }
            // A join whose answer has not come has nobody to reset.
            if subflow.state != State::SynSent || subflow.id.index() == 0 {
                subflow.reset = Some(Box::new(Reset { fast_close, reason, answers: None }));
            }
            subflow.cut_off();
            self.moved.push(subflow.tuple.into());
            if multipath {
                self.events.push_back(Event::SubflowClosed(subflow.id));
            }
        }
        self.views.clear();
        self.moved.extend(self.half_open.tuples().map(Moved::from));
        self.half_open = Rare::default();
        self.addresses.stop();
        self.closing.deadline = None;
        self.give_up();
    }

    /// A subflow ends: what it had not delivered goes elsewhere.
    pub(super) fn drop_subflow(&mut self, now: Instant, index: usize) {
        let subflow = &mut self.subflows[index];
        if subflow.state == State::Closed {
            return;
        }
        let carried = subflow.fully_established;
        self.take_last_parked(index);
        let subflow = &mut self.subflows[index];
        subflow.cut_off();
        self.moved.push(subflow.tuple.into());
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
        let option = Some(reset_option(reason));
        self.subflows[index].reset = Some(Box::new(Reset::because(option)));
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
            self.take_last_parked(index);
            let subflow = &mut self.subflows[index];
            subflow.state = State::Closed;
            self.moved.push(Moved { tuple: subflow.tuple, remains: subflow.remains() });
            let id = subflow.id;
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
    /// Ends the connection at once: nothing more is delivered. Every subflow ends with a RST, which over
    /// MPTCP carries `MP_FASTCLOSE` with the peer's key (RFC 8684 section 3.5, option R;
    /// `mptcp_do_fastclose`).
    pub fn abort(&mut self) {
        let multipath = self.mode == Mode::Multipath;
        self.end_at_once(self.remote_key.filter(|_| multipath).map(|key| key.value));
    }
}

/// The key in the `MP_FASTCLOSE` of a segment.
fn fast_close(segment: &Segment) -> Option<u64> {
    segment.mptcp.iter().find_map(|option| match option {
        MptcpOption::FastClose { key } => Some(*key),
        _ => None,
    })
}
