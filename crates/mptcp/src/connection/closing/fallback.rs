//! Fallback to plain TCP, and the reset of a subflow whose path damages MPTCP (RFC 8684 section 3.7;
//! `subflow_check_data_avail`, `__mptcp_try_fallback`, `mptcp_pm_mp_fail_received`).
//!
//! After the handshake, a fallback is possible only while the data stream equals the bytes of the first
//! subflow, in both directions. No other subflow may have carried data, and nothing may have been reinjected.

use anabranch_units::{DataSeq, Duration, Instant};
use anabranch_wire::{Dss, Flags, Mapping, MappingDsn, MptcpOption, Segment, promote};

use super::{Closing, End, Incoming, Outgoing, Session, Subflows};
use crate::connection::Event;
use crate::connection::connect::{REASON_MPTCP, reset_option};
use crate::subflow::Reset;
use crate::subflow::deliver::Failure;
use anabranch_tcp::State;

/// Reason code: middlebox interference (RFC 8684 section 3.6).
const REASON_MIDDLEBOX: u8 = 6;
/// The wait for the answer to our `MP_FAIL` (`fail_tout`, `TCP_RTO_MAX`).
const REPORT_TIMEOUT: Duration = Duration::from_secs(120);

/// Returns whether a fallback is possible: the subflow's bytes are the data stream in both directions, and no
/// other subflow is in use.
pub(super) fn may_fall_back(
    session: &Session,
    subflows: &Subflows,
    outgoing: &Outgoing,
    incoming: &Incoming,
    index: usize,
) -> bool {
    let Some((initial, joined)) = subflows.split_first() else { return false };
    index == 0
        && session.is_multipath()
        && initial.context.offers_capable()
        && initial.tcp.state() == State::Established
        && joined.iter().all(|subflow| !subflow.context.is_fully_established())
        && outgoing.is_straight(initial.tcp.sending().queue().write_end())
        && incoming
            .is_straight(index, initial.context.delivery().handed(initial.tcp.receive().next()))
}

/// Returns how MPTCP ends on a subflow where it does not work: with a fallback if possible, otherwise with a
/// reset.
fn end_of(
    session: &Session,
    subflows: &Subflows,
    outgoing: &Outgoing,
    incoming: &Incoming,
    index: usize,
) -> End {
    let may = may_fall_back(session, subflows, outgoing, incoming, index);
    if may { End::FallBack } else { End::Reset(REASON_MIDDLEBOX) }
}

/// Handles a segment without a DSS. If it acknowledges data without any MPTCP option, and no `DATA_ACK` ever
/// arrived, options are removed on the path. The timers check this again later. A FIN without MPTCP options
/// also ends MPTCP, because a FIN of an MPTCP peer carries a `DATA_ACK`.
#[cold]
pub(in crate::connection) fn judge_bare(
    session: &Session,
    subflows: &mut Subflows,
    outgoing: &Outgoing,
    incoming: &Incoming,
    (index, segment): (usize, &Segment),
) -> Option<End> {
    if !segment.mptcp.is_empty() || !segment.flags.contains(Flags::ACK) {
        return None;
    }
    let subflow = &mut subflows[index];
    let passage = subflow.context.on_bare_ack();
    let unproven = passage.is_unproven() && subflow.tcp.sending().queue().una() > 1;
    if !unproven && !segment.flags.contains(Flags::FIN) {
        return None;
    }
    let end = end_of(session, subflows, outgoing, incoming, index);
    (unproven || end == End::FallBack).then_some(end)
}

/// Finds a subflow that lost its options when the connection makes no progress: all of its data was
/// acknowledged without any MPTCP option.
pub(in crate::connection) fn find_lost_options(
    session: &Session,
    subflows: &Subflows,
    outgoing: &Outgoing,
    incoming: &Incoming,
) -> Option<(usize, End)> {
    let lost = subflows.iter().position(|subflow| {
        subflow.usable()
            && subflow.context.passage().is_in_doubt()
            && (outgoing.lags_behind(subflow.tcp.sending().queue().una())
                || subflow.tcp.sending().queue().held_bytes() == 0)
    });
    let index = lost.filter(|_| session.is_multipath())?;
    Some((index, end_of(session, subflows, outgoing, incoming, index)))
}

/// Handles the peer's request to end MPTCP: `MP_FAIL`, or an infinite mapping on the only subflow. Returns
/// whether the connection falls back.
#[cold]
pub(in crate::connection) fn handle_end_of_signals(
    session: &Session,
    subflows: &mut Subflows,
    outgoing: &Outgoing,
    incoming: &Incoming,
    (index, segment): (usize, &Segment),
) -> bool {
    if !may_fall_back(session, subflows, outgoing, incoming, index) {
        return false;
    }
    let report = segment.mptcp.iter().find_map(|option| match option {
        MptcpOption::Fail { dsn } => Some(dsn.0),
        _ => None,
    });
    let subflow = &mut subflows[index];
    let believed = report.is_some_and(|dsn| {
        subflow.context.delivery().failure_report().is_some() || outgoing.is_in_flight(session, dsn)
    });
    // An `MP_FAIL` is answered unless it answers ours. A peer with more than one subflow would have sent a
    // RST instead. The DSN must lie between the first unacknowledged byte and the next byte to send, both
    // included. Linux accepts any number (`mptcp_pm_mp_fail_received`); here a blind attacker must guess it.
    if believed && subflow.context.delivery().failure_report().is_none() {
        let answer = DataSeq(incoming.receive_dsn(session));
        subflow.context.signals_mut().push(MptcpOption::Fail { dsn: answer });
    }
    believed || is_infinite(segment)
}

impl Closing {
    /// Continues the connection as plain TCP on its initial subflow. If MPTCP was in use, an infinite mapping
    /// notifies the peer.
    pub(in crate::connection) fn fall_back(
        &mut self,
        session: &mut Session,
        subflows: &mut Subflows,
        outgoing: &mut Outgoing,
        incoming: &mut Incoming,
    ) {
        incoming.deliver_parked(session, subflows);
        let in_use = session.end_mptcp();
        self.report_until = None;
        outgoing.clear_decided(None);
        end_joins(session, subflows);
        outgoing.scheduling_mut().clear_views();
        let (una, checksum) = (outgoing.stream().una(), session.config().checksum);
        if let Some(initial) = subflows.get_first_mut() {
            initial.fall_back();
            if in_use {
                initial.context.set_final_mapping(una, checksum);
                incoming.begin_plain(session, initial);
            } else {
                initial.tcp.update_mss(0);
            }
        }
        session.report(Event::FellBack);
    }

    /// Returns whether the connection can end as plain TCP. All data except the `DATA_FIN` was acknowledged,
    /// and the `DATA_FIN` was repeated without an answer. Acknowledgements then probably lose their options
    /// on the path.
    pub(in crate::connection) fn check_plain_end(
        &mut self,
        session: &Session,
        subflows: &Subflows,
        outgoing: &Outgoing,
        incoming: &Incoming,
    ) -> bool {
        let may = self.is_unanswered(session)
            && outgoing.stream().is_acknowledged()
            && may_fall_back(session, subflows, outgoing, incoming, 0);
        if may {
            self.deadline = None;
        }
        may
    }

    /// Handles data of a subflow that cannot be delivered, and returns how MPTCP ends.
    #[cold]
    pub(in crate::connection) fn handle_failure(
        &mut self,
        now: Instant,
        session: &Session,
        subflows: &mut Subflows,
        outgoing: &Outgoing,
        incoming: &Incoming,
        (index, failure): (usize, Failure),
    ) -> Option<End> {
        match failure {
            Failure::Unmapped => {
                let end = end_of(session, subflows, outgoing, incoming, index);
                self.alone = session.is_plain() || end == End::FallBack;
                Some(end)
            }
            // The peer's options pass, so it would not notice a fallback. Data that it reinjects would then
            // be taken for new bytes.
            Failure::BadMapping | Failure::Unagreed => Some(End::Reset(REASON_MPTCP)),
            Failure::Checksum(_) => {
                let may = may_fall_back(session, subflows, outgoing, incoming, index);
                // Data within the window that arrived before the peer received our report is kept. A peer
                // that sends more ignores the report.
                if !may || incoming.exceeds_window(subflows[index].context.delivery().held_bytes())
                {
                    return Some(End::Reset(REASON_MIDDLEBOX));
                }
                self.report_failure(now, session, subflows, index);
                None
            }
        }
    }

    /// Requests with `MP_FAIL` that the peer ends MPTCP on its only subflow.
    fn report_failure(
        &mut self,
        now: Instant,
        session: &Session,
        subflows: &mut Subflows,
        index: usize,
    ) {
        let wait = || session.host().expiry(now, REPORT_TIMEOUT);
        self.report_until = Some(self.report_until.unwrap_or_else(wait));
        let subflow = &mut subflows[index];
        if let Some(report) =
            subflow.context.delivery().failure_report().filter(|_| !subflow.signal_due())
        {
            subflow.context.signals_mut().push(report);
        }
    }

    /// Handles a segment with a DSS on plain TCP. A peer that does not know that MPTCP has ended may reinject
    /// data with new subflow sequence numbers. The mapping shows that the data is not new. Reinjected data
    /// whose DSS was removed cannot be recognised.
    #[cold]
    pub(in crate::connection) fn handle_repetition(
        &mut self,
        session: &Session,
        incoming: &Incoming,
        segment: &Segment,
    ) -> Option<End> {
        let Some(Dss { mapping: Some(mapping), .. }) = &segment.dss else { return None };
        self.alone &= mapping.length > 0;
        if !self.alone || mapping.ssn == 0 {
            return None;
        }
        let dsn = match mapping.dsn {
            MappingDsn::Long(dsn) => dsn.0,
            MappingDsn::Short(low) => promote(low, DataSeq(incoming.receive_dsn(session))).0,
        };
        let position = dsn.wrapping_sub(session.peer_base()).wrapping_add(1) as u32;
        (position != mapping.ssn).then_some(End::Reset(REASON_MIDDLEBOX))
    }

    /// Ends the wait for the answer to our `MP_FAIL` (`mptcp_mp_fail_no_response`).
    pub(in crate::connection) fn on_report_timeout(&mut self, session: &Session) -> Option<End> {
        self.report_until = None;
        session.is_multipath().then_some(End::Reset(REASON_MIDDLEBOX))
    }
}

/// Returns whether a segment has an infinite mapping, which ends MPTCP.
pub(in crate::connection) fn is_infinite(segment: &Segment) -> bool {
    matches!(&segment.dss, Some(Dss { mapping: Some(Mapping { length: 0, .. }), .. }))
}

/// Resets all joined subflows, because MPTCP ends.
fn end_joins(session: &mut Session, subflows: &mut Subflows) {
    subflows.refuse_joins(REASON_MIDDLEBOX);
    for subflow in subflows.iter_mut().skip(1).filter(|s| s.tcp.state() != State::Closed) {
        if subflow.tcp.state() != State::SynSent {
            let reason = Some(reset_option(REASON_MIDDLEBOX));
            subflow.demand_reset(Reset::because(reason));
        }
        subflow.cut_off();
        session.report(Event::SubflowClosed(subflow.tcp.id()));
    }
}
