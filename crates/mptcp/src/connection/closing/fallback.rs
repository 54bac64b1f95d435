//! Falling back to plain TCP, and cutting off a subflow whose path damages MPTCP (RFC 8684 section 3.7;
//! `subflow_check_data_avail`, `__mptcp_try_fallback`, `mptcp_pm_mp_fail_received`).
//!
//! In mid-connection a fallback is possible while the stream and the first subflow's bytes are the same: no other
//! subflow ever carried data, and nothing was reinjected, in either direction.

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

/// The subflow's bytes are the stream in both directions, and no other subflow knows of it.
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

/// MPTCP does not work on a subflow: the connection falls back if that is possible. Otherwise the subflow is reset.
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

/// Judges a segment without a DSS. If it acknowledges data, has no MPTCP option at all, and no `DATA_ACK` ever
/// came, options do not pass. Later the timers judge again. A FIN without options ends MPTCP, too: a FIN of MPTCP
/// would have brought the `DATA_ACK` of the end.
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

/// Looks for a subflow that lost its options, when the connection makes no progress: one on which everything was
/// acknowledged without any option.
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

/// Handles an agreed end of MPTCP: `MP_FAIL`, or an infinite mapping on the only subflow. Returns whether the
/// connection falls back.
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
    // An `MP_FAIL` that does not answer ours is answered. With more than one subflow the peer would have sent a
    // reset. Its DSN must lie between the first unacknowledged byte and the next one to be sent, both included.
    // Linux answers any number (`mptcp_pm_mp_fail_received`). Here a blind attacker must guess it.
    if believed && subflow.context.delivery().failure_report().is_none() {
        let answer = DataSeq(incoming.receive_dsn(session));
        subflow.context.signals_mut().post(MptcpOption::Fail { dsn: answer });
    }
    believed || is_infinite(segment)
}

impl Closing {
    /// Continues the connection as plain TCP on its initial subflow. If MPTCP was in use, an infinite mapping informs
    /// the peer.
    pub(in crate::connection) fn fall_back(
        &mut self,
        session: &mut Session,
        subflows: &mut Subflows,
        outgoing: &mut Outgoing,
        incoming: &mut Incoming,
    ) {
        incoming.release_parked(session, subflows);
        let in_use = session.end_mptcp();
        self.report_until = None;
        outgoing.forget_decided(None);
        end_joins(session, subflows);
        outgoing.scheduling_mut().forget_views();
        let (una, checksum) = (outgoing.stream().una(), session.config().checksum);
        if let Some(initial) = subflows.first_mut() {
            initial.fall_back();
            if in_use {
                initial.context.queue_final_mapping(una, checksum);
                incoming.continue_plain(session, initial);
            } else {
                initial.tcp.update_mss(0);
            }
        }
        session.report(Event::FellBack);
    }

    /// All data but the `DATA_FIN` was acknowledged, and the `DATA_FIN` was repeated without an answer:
    /// acknowledgements lose their options. Returns whether the connection can end as plain TCP.
    pub(in crate::connection) fn may_end_as_plain(
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

    /// Handles data of a subflow that cannot be delivered.
    #[cold]
    pub(in crate::connection) fn judge_failure(
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
            // The peer's options pass, so it would not know of a fallback. Data that it then sends again for the
            // connection would be new bytes here.
            Failure::BadMapping | Failure::Unagreed => Some(End::Reset(REASON_MPTCP)),
            Failure::Checksum(_) => {
                let may = may_fall_back(session, subflows, outgoing, incoming, index);
                // Data that arrived in the window before the report is held. A peer that sends more ignores it.
                if !may || incoming.exceeds_window(subflows[index].context.delivery().held_bytes())
                {
                    return Some(End::Reset(REASON_MIDDLEBOX));
                }
                self.report_failure(now, session, subflows, index);
                None
            }
        }
    }

    /// Asks the peer with `MP_FAIL` to end MPTCP on its only subflow.
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
            subflow.context.signals_mut().post(report);
        }
    }

    /// Handles a DSS on plain TCP. A peer that does not know of the end of MPTCP may send data again with new sequence
    /// numbers of the subflow. Its mapping shows that it is not new data. A repetition that has lost its DSS cannot be
    /// recognised.
    #[cold]
    pub(in crate::connection) fn judge_repetition(
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

    /// Handles the missing answer to our `MP_FAIL` (`mptcp_mp_fail_no_response`).
    pub(in crate::connection) fn on_report_timeout(&mut self, session: &Session) -> Option<End> {
        self.report_until = None;
        session.is_multipath().then_some(End::Reset(REASON_MIDDLEBOX))
    }
}

/// The mapping of a segment is infinite: it ends MPTCP.
pub(in crate::connection) fn is_infinite(segment: &Segment) -> bool {
    matches!(&segment.dss, Some(Dss { mapping: Some(Mapping { length: 0, .. }), .. }))
}

/// Ends all joins, because MPTCP ends.
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
