//! Falling back to plain TCP, and cutting off a subflow whose path spoils MPTCP (RFC 8684 section 3.7;
//! `subflow_check_data_avail`, `__mptcp_try_fallback`, `mptcp_pm_mp_fail_received`).
//!
//! In mid-connection a fallback is possible while the stream and the first subflow's bytes are one and
//! the same: no other subflow ever carried data and nothing was reinjected, either way.

use anabranch_units::{DataSeq, Duration, Instant};
use anabranch_wire::{Dss, Flags, MappingDsn, MptcpOption, Segment, promote};

use super::connect::{REASON_MPTCP, reset_option};
use super::{Connection, Event, Mode};
use crate::subflow::deliver::Failure;
use crate::subflow::{Reset, State};

/// Reason code: middlebox interference (RFC 8684 section 3.6).
const REASON_MIDDLEBOX: u8 = 6;
/// How long the answer to our `MP_FAIL` may take (`fail_tout`, `TCP_RTO_MAX`).
const REPORT_TIMEOUT: Duration = Duration::from_secs(120);

/// What decides whether a fallback is possible, and how far one has come.
#[derive(Debug, Default)]
pub(super) struct Fallback {
    /// Data went to the first subflow otherwise than once and in order.
    crooked: bool,
    /// Data without a mapping has ended MPTCP, and the peer may not know yet.
    alone: bool,
    /// Until then the answer to our `MP_FAIL` may come.
    report_until: Option<Instant>,
}

impl Fallback {
    /// Data at stream position `at` is queued on a subflow where its next byte stands at `position`.
    #[inline(always)]
    pub(super) fn on_queued(&mut self, at: u64, position: u64) {
        self.crooked |= at.wrapping_add(1) != position;
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.report_until
    }
}

impl Connection {
    /// The subflow's bytes are the stream in both directions, and no other one knows of it.
    fn may_fall_back(&self, index: usize) -> bool {
        let Some((initial, joined)) = self.subflows.split_first() else { return false };
        index == 0
            && self.mode == Mode::Multipath
            && matches!(initial.handshake.first, Some(MptcpOption::Capable(_)))
            && initial.state == State::Established
            && joined.iter().all(|subflow| !subflow.fully_established)
            && !self.fallback.crooked
            && self.out.cursor + 1 == initial.send.write_end()
            && self.input.stands_at(initial.receive.handed() - self.input.parked.bytes_at(index))
    }

    /// The connection goes on as plain TCP on its initial subflow. Once MPTCP was in use the peer is
    /// told by an infinite mapping.
    pub(super) fn fall_back(&mut self) {
        if self.mode == Mode::Plain {
            return;
        }
        if !self.input.parked.is_empty() && self.take_all_parked() {
            self.events.push_back(Event::Readable);
        }
        let in_use = std::mem::replace(&mut self.mode, Mode::Plain) == Mode::Multipath;
        self.fallback.report_until = None;
        self.forget_decided(None);
        self.addresses.stop();
        self.end_joins();
        let (una, checksum) = (self.out.una, self.config.checksum);
        if let Some(initial) = self.subflows.first_mut() {
            initial.multipath = false;
            initial.fully_established = true;
            initial.touched = true;
            initial.handshake.confirm_third();
            initial.signals.end();
            if in_use {
                initial.send_final_mapping(una, checksum);
                self.input.forget_end();
                let (input, mut readable) = (&mut self.input, false);
                initial.receive.release(&mut |position, payload, memory| {
                    readable |= input.accept(0, position, (payload, memory), u64::MAX);
                });
                if readable {
                    self.events.push_back(Event::Readable);
                }
            } else {
                initial.update_mss(0);
            }
        }
        self.events.push_back(Event::FellBack);
    }

    /// Subflows under way are nobody's any more.
    fn end_joins(&mut self) {
        self.end_half_open(REASON_MIDDLEBOX);
        for subflow in self.subflows.iter_mut().skip(1).filter(|s| s.state != State::Closed) {
            if subflow.state != State::SynSent {
                let reason = Some(reset_option(REASON_MIDDLEBOX));
                subflow.reset = Some(Box::new(Reset::because(reason)));
            }
            subflow.cut_off();
            self.events.push_back(Event::SubflowClosed(subflow.id));
        }
        self.views.clear();
    }

    /// MPTCP does not work on a subflow: plain TCP where that is possible, else it ends for `reason`,
    /// and what it carried goes elsewhere.
    fn give_up_signals(&mut self, now: Instant, index: usize, reason: u8) {
        if self.may_fall_back(index) {
            self.fall_back();
        } else {
            self.reset_subflow(now, index, reason);
        }
    }

    /// Everything was acknowledged but the `DATA_FIN`, again and again: acknowledgements lose their
    /// options on the way there, and the end has to be told without. False where it cannot be.
    pub(super) fn end_as_plain_tcp(&mut self) -> bool {
        let may = self.out.una == self.out.end && self.may_fall_back(0);
        if may {
            self.fall_back();
        }
        may
    }

    /// A segment without a DSS. One that acknowledges data and has no MPTCP option at all tells that
    /// options do not pass, if no `DATA_ACK` ever came; later the timers look again. A FIN without any
    /// ends more than the subflow: that of MPTCP would have brought the `DATA_ACK` of the end.
    #[cold]
    pub(super) fn handle_bare(&mut self, now: Instant, index: usize, segment: &Segment) {
        if !segment.mptcp.is_empty() || !segment.flags.contains(Flags::ACK) {
            return;
        }
        let subflow = &mut self.subflows[index];
        subflow.passage.on_bare();
        if subflow.passage.is_unproven() && subflow.send.una() > 1 {
            self.give_up_signals(now, index, REASON_MIDDLEBOX);
        } else if segment.flags.contains(Flags::FIN) && self.may_fall_back(index) {
            self.fall_back();
        }
    }

    /// The connection makes no progress. A subflow on which everything was acknowledged, and without
    /// any option, has lost them.
    pub(super) fn check_passage(&mut self, now: Instant) {
        let una = self.out.una;
        let lost = self.subflows.iter().position(|subflow| {
            let ahead = !self.fallback.crooked && subflow.send.una() > una + 1;
            subflow.usable()
                && subflow.passage.is_in_doubt()
                && (ahead || subflow.send.held_bytes() == 0)
        });
        if let Some(index) = lost.filter(|_| self.mode == Mode::Multipath) {
            self.give_up_signals(now, index, REASON_MIDDLEBOX);
            self.acknowledge_by_subflow();
            self.push(now);
        }
    }

    /// On plain TCP the subflow's acknowledgements are the connection's.
    pub(super) fn acknowledge_by_subflow(&mut self) {
        if self.mode == Mode::Plain
            && let Some(only) = self.subflows.first()
        {
            let una = only.send.una().saturating_sub(1).min(self.out.next);
            self.out.acknowledge(una);
            self.notify_writable();
        }
    }

    /// What a subflow brought cannot be delivered as it is.
    #[cold]
    pub(super) fn handle_failure(&mut self, now: Instant, index: usize, failure: Failure) {
        match failure {
            Failure::Unmapped => {
                self.give_up_signals(now, index, REASON_MIDDLEBOX);
                self.fallback.alone = self.mode == Mode::Plain;
            }
            // The peer's options pass, so that it does not know of an end of MPTCP that we decide on: what
            // it sent again for the connection would be new bytes to us.
            Failure::BadMapping | Failure::Unagreed => self.reset_subflow(now, index, REASON_MPTCP),
            Failure::Checksum(_) => self.report_failure(now, index),
        }
    }

    /// The peer is asked to end MPTCP on its only subflow; of several the one is reset. `MP_FAIL` rides
    /// either.
    fn report_failure(&mut self, now: Instant, index: usize) {
        if !self.may_fall_back(index) {
            return self.reset_subflow(now, index, REASON_MIDDLEBOX);
        }
        let window = self.budget.promised().saturating_sub(self.input.acknowledged());
        if self.subflows[index].receive.held_bytes() > window.max(self.budget.limit()) {
            // What came in the window before the report did is held; who sends more has not heeded it.
            return self.reset_subflow(now, index, REASON_MIDDLEBOX);
        }
        let wait = || self.config.host.expiry(now, REPORT_TIMEOUT);
        let until = self.fallback.report_until.unwrap_or_else(wait);
        self.fallback.report_until = Some(until);
        let subflow = &mut self.subflows[index];
        if let Some(report) = subflow.failed_mapping().filter(|_| !subflow.signal_due()) {
            subflow.signals.post(report);
        }
    }

    /// A DSS on plain TCP. A peer that does not know yet of the end that we decided on may send data again
    /// as MPTCP does, under new numbers of the subflow: its mapping shows that it is no more of the stream.
    /// A repetition that has lost its DSS too cannot be told from new data.
    #[cold]
    pub(super) fn watch_repetitions(&mut self, now: Instant, index: usize, segment: &Segment) {
        let Some(Dss { mapping: Some(mapping), .. }) = &segment.dss else { return };
        self.fallback.alone &= mapping.length > 0;
        if !self.fallback.alone || mapping.ssn == 0 {
            return;
        }
        let dsn = match mapping.dsn {
            MappingDsn::Long(dsn) => dsn.0,
            MappingDsn::Short(low) => promote(low, DataSeq(self.receive_dsn())).0,
        };
        let base = self.peer_base();
        if dsn.wrapping_sub(base).wrapping_add(1) as u32 != mapping.ssn {
            self.reset_subflow(now, index, REASON_MIDDLEBOX);
        }
    }

    /// Nobody has answered our `MP_FAIL` (`mptcp_mp_fail_no_response`).
    pub(super) fn on_report_timeout(&mut self, now: Instant) {
        self.fallback.report_until = None;
        if self.mode == Mode::Multipath {
            self.reset_subflow(now, 0, REASON_MIDDLEBOX);
        }
    }

    /// Handles an `MP_FAIL` on a segment without RST. It answers ours, or the peer could not verify our data from `dsn`
    /// on. With more than one subflow the peer would have sent a reset.
    ///
    /// `dsn` must lie between the first unacknowledged byte and the next byte to be sent, both included. Linux answers
    /// any number (`mptcp_pm_mp_fail_received`). Here a blind attacker must guess it.
    fn handle_report(&mut self, index: usize, dsn: u64) {
        if !self.may_fall_back(index) {
            return;
        }
        if self.subflows[index].failed_mapping().is_none() {
            let una = self.local_key.idsn.0.wrapping_add(1).wrapping_add(self.out.una);
            if dsn.wrapping_sub(una) > self.out.next - self.out.una {
                return;
            }
            let answer = DataSeq(self.receive_dsn());
            self.subflows[index].signals.post(MptcpOption::Fail { dsn: answer });
        }
        self.fall_back();
    }

    /// What ends MPTCP by agreement: `MP_FAIL`, or an infinite mapping on the only subflow.
    #[cold]
    pub(super) fn handle_end_of_signals(
        &mut self,
        index: usize,
        segment: &Segment,
        infinite: bool,
    ) {
        let report = segment.mptcp.iter().find_map(|option| match option {
            MptcpOption::Fail { dsn } => Some(dsn.0),
            _ => None,
        });
        if let Some(dsn) = report {
            self.handle_report(index, dsn);
        }
        if infinite && self.may_fall_back(index) {
            self.fall_back();
        }
    }
}
