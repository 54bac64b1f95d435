//! The end of subflows and of the connection: the steps that involve several parts of it.

use anabranch_units::Instant;
use anabranch_wire::{MpTcpRst, MptcpOption, Segment};

use super::closing::{End, fast_close};
use super::connect::reset_option;
use super::{Connection, Event};
use crate::subflow::Reset;
use crate::subflow::deliver::Failure;
use anabranch_tcp::State;

impl Connection {
    /// Closes the sending side. Data that was written earlier is still delivered.
    pub fn shutdown(&mut self, now: Instant) {
        if self.closing.close() {
            self.closing.end_deserted(&mut self.session);
        }
        self.push(now);
    }

    /// Returns whether all subflows are closed and no new one is expected. Received data may still be read.
    /// After that, [`crate::Event::Drained`] follows.
    pub fn is_closed(&self) -> bool {
        self.closing.is_closed(&self.subflows)
    }

    /// Closes the connection at once and discards undelivered data. Every subflow ends with a RST. With
    /// MPTCP, the RST carries `MP_FASTCLOSE` with the peer's key (RFC 8684 section 3.5, option R;
    /// `mptcp_do_fastclose`).
    pub fn abort(&mut self) {
        let key = self.session.remote_key().filter(|_| self.session.is_multipath());
        self.end_at_once(key.map(|key| key.value));
    }

    /// Ends every subflow with a RST. Also used if the peer has closed the connection at once
    /// (`mptcp_check_fastclose`).
    pub(super) fn end_at_once(&mut self, fast_close: Option<u64>) {
        self.closing.abort(&mut self.session, &mut self.subflows, fast_close);
        self.outgoing.scheduling_mut().clear_views();
        self.signals.clear_timers();
    }

    /// Handles a RST if its sequence number is acceptable. The RST may carry a reason (`MP_TCPRST`), or close
    /// the whole connection (`MP_FASTCLOSE`). See RFC 8684 sections 3.5 and 3.6.
    pub(super) fn handle_reset(&mut self, now: Instant, index: usize, segment: &Segment) {
        let subflow = &mut self.subflows[index];
        let joining = index > 0 && subflow.tcp.state() == State::SynSent;
        if subflow.tcp.state() == State::Closed || !subflow.tcp.check_reset(now, segment) {
            return;
        }
        let reason = segment.mptcp.iter().find_map(|option| match option {
            MptcpOption::TcpRst(reset) => Some(*reset),
            _ => None,
        });
        if joining || reason.is_some_and(|reset| !reset.transient) {
            self.signals.refuse(&subflow.tcp.tuple());
        }
        if let Some(MpTcpRst { transient, reason }) = reason {
            let id = subflow.tcp.id();
            self.session.report(Event::SubflowReset { id, reason, transient });
        }
        let closes = fast_close(segment).filter(|_| self.session.is_multipath());
        let genuine = closes.is_some_and(|key| self.session.is_our_key(key));
        self.session.counters_mut().forged_fast_closes += u64::from(closes.is_some() && !genuine);
        if genuine {
            // This subflow is closed without a RST, because the peer has reset it.
            let id = self.subflows.cut_off(index);
            self.session.report(Event::SubflowClosed(id));
            self.session.report(Event::Aborted);
            self.end_at_once(None);
        } else {
            self.remove_subflow(now, index);
        }
    }

    /// Ends a subflow. Its undelivered data is sent again on other subflows.
    pub(super) fn remove_subflow(&mut self, now: Instant, index: usize) {
        let subflow = &self.subflows[index];
        if subflow.tcp.state() == State::Closed {
            return;
        }
        let carried = subflow.context.is_fully_established();
        self.incoming.take_last_parked(&mut self.session, &mut self.subflows, index);
        let id = self.subflows.cut_off(index);
        self.outgoing.scheduling_mut().clear_views();
        self.session.report(Event::SubflowClosed(id));
        if carried {
            // This applies even if no subflow is left. A later one then begins with the lost data.
            self.outgoing.send_again(id);
        }
        if self.subflows.is_deserted() {
            self.closing.on_deserted(now, &mut self.session, &self.incoming);
        } else if carried {
            self.push(now);
        }
    }

    /// Resets a subflow with a reason code (RFC 8684 section 3.6).
    pub(super) fn reset_subflow(&mut self, now: Instant, index: usize, reason: u8) {
        let option = Some(reset_option(reason));
        self.subflows[index].demand_reset(Reset::because(option));
        self.remove_subflow(now, index);
    }

    /// Ends these subflows with a RST. Linux sends a FIN here, and a RST in response to later segments. The
    /// result for the peer is the same one round trip later.
    pub(super) fn end_subflows(&mut self, now: Instant, indices: Vec<usize>) {
        for index in indices {
            let subflow = &mut self.subflows[index];
            if subflow.tcp.state() != State::SynSent {
                subflow.demand_reset(Reset::because(None));
            }
            self.remove_subflow(now, index);
        }
    }

    /// Ends MPTCP on a subflow.
    pub(super) fn end_mptcp(&mut self, now: Instant, index: usize, end: End) {
        match end {
            End::FallBack => self.fall_back(),
            End::Reset(reason) => self.reset_subflow(now, index, reason),
        }
    }

    /// Continues as plain TCP on the initial subflow.
    pub(super) fn fall_back(&mut self) {
        if self.session.is_plain() {
            return;
        }
        let Self { session, subflows, outgoing, incoming, .. } = self;
        self.closing.fall_back(session, subflows, outgoing, incoming);
        self.signals.clear_timers();
    }

    /// Handles data of a subflow that cannot be delivered.
    #[cold]
    pub(super) fn handle_failure(&mut self, now: Instant, index: usize, failure: Failure) {
        let Self { session, subflows, outgoing, incoming, .. } = self;
        let what = (index, failure);
        let end = self.closing.handle_failure(now, session, subflows, outgoing, incoming, what);
        if let Some(end) = end {
            self.end_mptcp(now, index, end);
        }
    }
}
