//! The table of a connection's subflows: slots, half-open joins, and the reports to the endpoint.
//!
//! A subflow's identifier is its slot number. A connection has 128 slots. When all have been used, a new
//! subflow takes the slot of a closed one.

mod access;
mod half_open;

use std::collections::VecDeque;

use anabranch_plugin::PluginError;
use anabranch_units::{DataSeq, Instant, RandomStream, SeqNumber, SubflowId};
use anabranch_wire::{Mapping, MappingDsn, MpJoin, MptcpOption, Segment, crypto};

use super::connect::{REASON_MPTCP, REASON_PROHIBITED, join};
use super::events::summary;
use super::session::Session;
use super::{Event, Moved, Owner, SubflowSummary};
use crate::config::Config;
use crate::path_manager::Candidate;
use crate::subflow::Subflow;
use anabranch_congestion::{self as congestion, SiblingView};
use anabranch_tcp::State;
use anabranch_tcp::config::{FourTuple, HostModel};
use half_open::HalfOpenJoins;

/// The number of slots.
const MOST_SUBFLOWS: usize = 128;
/// The number of replaced subflows whose totals are stored separately. If there are more, the two oldest
/// entries are merged.
const MOST_REMEMBERED: usize = 1024;

/// The subflows of a connection. It dereferences to a slice, indexed by slot. Each access that may change a subflow ends
/// the subflow's rest ([`Subflow::poll_ready`]).
#[derive(Debug, Default)]
pub(crate) struct Subflows {
    list: Vec<Subflow>,
    /// The number of subflows that were ever opened.
    opened: u32,
    /// The slot where the search for a closed subflow starts.
    next_slot: usize,
    /// Summaries of replaced subflows.
    retired: VecDeque<SubflowSummary>,
    /// The half-open joins. Allocated at the first join, which most connections never have.
    half_open: Option<Box<HalfOpenJoins>>,
    /// Address pairs that were added or released since the endpoint last called [`Self::take_moved`].
    moved: Vec<Moved>,
    /// The slot that is polled first for a segment.
    turn: usize,
    /// The subflow views for a coupled congestion controller, reused for every acknowledgement.
    siblings: Vec<SiblingView>,
}

/// The result of [`Subflows::insert`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Installed {
    /// The slot of the new subflow.
    pub(super) index: usize,
    /// Whether the slot belonged to another subflow before.
    pub(super) replaces: bool,
}

impl Subflows {
    /// Adds a subflow with the given random stream and initial sequence number. Returns `None` if no slot is
    /// free: all 128 belong to subflows that are not closed.
    ///
    /// # Errors
    /// The name or parameters of the congestion control are unknown.
    pub(super) fn insert(
        &mut self,
        session: &Session,
        tuple: FourTuple,
        active: bool,
        stream: RandomStream,
        iss: SeqNumber,
    ) -> Result<Option<Installed>, PluginError> {
        let Some(index) = self.free_slot(tuple) else { return Ok(None) };
        let Config { congestion, registry, .. } = &**session.config();
        let controller = congestion::build(congestion, registry, stream)?;
        let id = SubflowId(index as u8);
        let mut subflow = Subflow::new(id, tuple, active, iss, controller, session.config());
        subflow.context.set_ordinal(self.opened);
        subflow.tcp.set_timestamp_offset(session.stamp_offset(&tuple));
        self.moved.push(tuple.into());
        self.opened += 1;
        let replaces = index < self.list.len();
        if replaces {
            self.set_slot(index, subflow);
        } else {
            self.list.push(subflow);
        }
        Ok(Some(Installed { index, replaces }))
    }

    /// Finds a slot for a new subflow, in this order: a closed subflow with the same addresses, an unused
    /// slot, any closed subflow.
    fn free_slot(&self, tuple: FourTuple) -> Option<usize> {
        // The initial subflow keeps its slot.
        let over = |index: &usize| {
            let subflow = &self.list[*index];
            *index > 0 && subflow.tcp.state() == State::Closed && !subflow.tcp.has_pending_reset()
        };
        let count = self.list.len();
        let same = (0..count).filter(over).find(|index| self.list[*index].tcp.tuple() == tuple);
        if same.is_some() || count < MOST_SUBFLOWS {
            return same.or(Some(count));
        }
        (0..count).map(|step| (self.next_slot + step) % count).find(over)
    }

    #[cold]
    fn set_slot(&mut self, index: usize, subflow: Subflow) {
        let gone = std::mem::replace(&mut self.list[index], subflow);
        self.moved.push(gone.tcp.tuple().into());
        self.retired.push_back(summary(&gone));
        if self.retired.len() > MOST_REMEMBERED
            && let Some(oldest) = self.retired.pop_front()
            && let Some(next) = self.retired.front_mut()
        {
            next.totals += oldest.totals;
        }
        self.next_slot = index + 1;
    }

    /// Returns the summaries of all subflows: first the current ones by slot, then the replaced ones.
    pub(super) fn summaries(&self) -> impl Iterator<Item = SubflowSummary> {
        self.list.iter().map(summary).chain(self.retired.iter().copied())
    }

    /// Returns the slot of the subflow with this four-tuple. A live subflow is preferred to a closed one.
    pub(super) fn position_of(&self, tuple: FourTuple) -> Option<usize> {
        self.live_position(tuple).or_else(|| self.list.iter().position(|s| s.tcp.tuple() == tuple))
    }

    fn live_position(&self, tuple: FourTuple) -> Option<usize> {
        self.list.iter().position(|s| s.tcp.tuple() == tuple && s.tcp.state() != State::Closed)
    }

    /// Returns the four-tuple of a new join. If an earlier subflow used the local port, the next free port is
    /// taken.
    pub(super) fn unused_tuple(&self, candidate: &Candidate) -> FourTuple {
        let mut tuple = FourTuple { local: candidate.local, remote: candidate.remote };
        while self.position_of(tuple).is_some() {
            tuple.local.set_port(tuple.local.port().wrapping_add(1));
        }
        tuple
    }

    /// Prepares the SYN with `MP_JOIN` of a new subflow.
    pub(super) fn open_join(
        &mut self,
        index: usize,
        candidate: &Candidate,
        local_id: u8,
        token: u32,
        nonce: u32,
    ) {
        let subflow = &mut self[index];
        subflow.context.open_join(local_id, candidate.backup, nonce);
        subflow.tcp.supply().begin_tags();
        let option = MptcpOption::Join(MpJoin::Syn {
            backup: candidate.backup,
            address_id: local_id,
            token,
            nonce,
        });
        subflow.demand_syn(Some(option));
    }

    /// Starts MPTCP on the initial subflow after both sides have negotiated it.
    pub(super) fn begin_multipath(&mut self) {
        if let Some(initial) = self.get_first_mut() {
            initial.begin_multipath();
        }
    }

    /// Handles the SYN/ACK of a join. Returns false if the segment has no `MP_JOIN` with a valid HMAC.
    pub(super) fn take_join_answer(
        &mut self,
        session: &Session,
        now: Instant,
        index: usize,
        segment: &Segment,
    ) -> bool {
        let subflow = &mut self[index];
        let answer = join(segment).zip(session.remote_key());
        let Some((MpJoin::SynAck { hmac, nonce, backup, address_id }, remote)) = answer else {
            return false;
        };
        let (own, remote) = (session.local_key().value, remote.value);
        let expected = crypto::join_hmac(remote, own, nonce, subflow.context.nonce());
        if !crypto::mac_eq(&crypto::leftmost_64(&expected).to_be_bytes(), &hmac.to_be_bytes()) {
            return false;
        }
        let mac = crypto::join_hmac(own, remote, subflow.context.nonce(), nonce);
        subflow.context.on_join_answer(address_id, backup);
        let third = MpJoin::Ack { hmac: crypto::leftmost_160(&mac) };
        subflow.context.third_mut().set(MptcpOption::Join(third));
        subflow.take_syn_ack(session.host(), now, segment);
        true
    }

    /// Handles the third packet of a join that the peer opened. The join is then complete.
    pub(super) fn complete_join(&mut self, index: usize) -> SubflowId {
        let subflow = &mut self[index];
        subflow.context.complete();
        // Our acknowledgement allows the initiator to send data (RFC 8684 section 3.2).
        subflow.tcp.demand_ack();
        subflow.tcp.id()
    }

    /// Completes a join that we opened if the segment has a `DATA_ACK`. Returns whether the subflow must be
    /// reset because the segment has data but no DSS.
    pub(super) fn complete_own_join(
        &mut self,
        session: &mut Session,
        index: usize,
        segment: &Segment,
    ) -> bool {
        let subflow = &mut self[index];
        let confirms = segment.dss.is_some_and(|dss| dss.data_ack.is_some());
        if subflow.tcp.is_active() && confirms {
            subflow.context.complete();
            subflow.context.third_mut().end_repetition();
            session.report(Event::SubflowEstablished(subflow.tcp.id()));
        }
        subflow.tcp.is_active() && !confirms && !segment.payload.is_empty()
    }

    /// Returns the slots of the live subflows for which `which` is true.
    pub(super) fn live_positions(&self, which: impl Fn(&Subflow) -> bool) -> Vec<usize> {
        let live = self.list.iter().enumerate().filter(|(_, s)| s.tcp.state() != State::Closed);
        live.filter(|(_, s)| which(s)).map(|(index, _)| index).collect()
    }

    /// Returns the slot of a usable subflow to send a signal on. The first one that `avoid` does not exclude
    /// is taken (`mptcp_pm_addr_send_ack_avoid_list`).
    pub(super) fn signal_on(&self, avoid: impl Fn(&Subflow) -> bool) -> Option<usize> {
        self.list.iter().position(|s| s.usable() && !avoid(s))
    }

    /// Returns whether there are subflows and all of them are closed.
    pub(super) fn is_deserted(&self) -> bool {
        !self.list.is_empty() && self.list.iter().all(|s| s.tcp.state() == State::Closed)
    }

    /// Ends a subflow at once and reports its four-tuple to the endpoint.
    pub(super) fn cut_off(&mut self, index: usize) -> SubflowId {
        let subflow = &mut self[index];
        subflow.cut_off();
        let (id, tuple) = (subflow.tcp.id(), subflow.tcp.tuple());
        self.moved.push(tuple.into());
        id
    }

    /// Returns whether the next segment of a subflow must be examined even if it has no options. Examples are
    /// segments of the handshake, or while a priority change of the peer waits.
    #[inline]
    pub(super) fn awaits_options(&self, session: &Session, index: usize) -> bool {
        let subflow = &self.list[index];
        !subflow.context.is_fully_established()
            || subflow.context.signals().has_wish()
            || (index == 0 && session.is_client() && !session.is_confirmed())
    }

    /// Closes a subflow whose two directions have ended, and reports its four-tuple to the endpoint.
    pub(super) fn close(&mut self, index: usize) -> SubflowId {
        let subflow = &mut self[index];
        subflow.tcp.close();
        let (id, tuple, remains) = (subflow.tcp.id(), subflow.tcp.tuple(), subflow.tcp.remains());
        self.moved.push(Moved { tuple, remains });
        id
    }

    /// Handles the acknowledgement number of a segment on its subflow. An acknowledgement on a stale subflow
    /// shows that its path works again (`mptcp_subflow_active`).
    pub(super) fn handle_ack(
        &mut self,
        host: &HostModel,
        now: Instant,
        index: usize,
        segment: &Segment,
    ) {
        let subflow = &mut self.list[index];
        subflow.end_rest();
        self.siblings.clear();
        // A controller is notified only while data is outstanding.
        if !subflow.tcp.sending().flight().is_empty()
            && subflow.tcp.sending().cwnd().controller().wants_siblings()
        {
            self.siblings.extend(self.list.iter().map(Subflow::sibling_view));
        }
        let subflow = &mut self.list[index];
        subflow.handle_ack(host, now, segment, &mut self.siblings);
        let last_ack = subflow.tcp.sending().last_ack_at();
        subflow.context.staleness_mut().on_ack(last_ack);
    }

    /// Uses `DATA_ACK`s of 64 bits from now on. The longer option reduces the payload of a segment.
    #[inline]
    pub(super) fn set_wide_data_acks(&mut self, session: &mut Session) {
        if session.set_wide_data_acks() {
            for index in 0..self.list.len() {
                self.update_segment_size(session, index);
            }
        }
    }

    /// Recomputes the payload size of a subflow's segments. If the subflow sends a DSS, its length is
    /// subtracted.
    pub(super) fn update_segment_size(&mut self, session: &Session, index: usize) {
        let subflow = &mut self[index];
        subflow.tcp.update_mss(if subflow.reserves_dss() { session.dss_bytes() } else { 0 });
    }

    /// Stores the mapping of the first data, which comes with `MP_CAPABLE` and without a DSS: IDSN + 1 at
    /// subflow position 1 (RFC 8684 section 3.1).
    pub(super) fn add_first_mapping(
        &mut self,
        session: &mut Session,
        segment: &Segment,
        length: u16,
        checksum: Option<u16>,
    ) {
        let base = session.peer_base();
        self.set_wide_data_acks(session);
        let terms = session.terms(base);
        let mapping = Mapping { dsn: MappingDsn::Long(DataSeq(base)), ssn: 1, length, checksum };
        if !segment.payload.is_empty() {
            self[0].note_first_mapping(&mapping, segment, terms);
        }
    }

    /// Requests an immediate acknowledgement on every subflow.
    pub(super) fn demand_ack(&mut self) {
        for subflow in self.iter_mut() {
            subflow.tcp.demand_ack();
        }
    }

    /// Returns the slot that is polled first for a segment.
    #[inline]
    pub(super) fn turn(&self) -> usize {
        self.turn
    }

    /// Sets the slot that is polled first for a segment.
    #[inline]
    pub(super) fn set_turn(&mut self, index: usize) {
        self.turn = index;
    }

    /// Returns whether four-tuples were added or released since [`Self::take_moved`].
    #[inline]
    pub(crate) fn has_moved(&self) -> bool {
        !self.moved.is_empty()
    }

    /// Returns the four-tuples that were added or released, and clears the list.
    pub(super) fn take_moved(&mut self) -> Vec<Moved> {
        std::mem::take(&mut self.moved)
    }

    /// Returns the subflow or half-open join that receives segments of a four-tuple.
    pub(crate) fn owner_of(&self, tuple: FourTuple) -> Option<Owner> {
        let lives = self.live_position(tuple);
        lives.map(Owner::Subflow).or_else(|| self.awaits(tuple).then_some(Owner::HalfOpen))
    }

    fn half_open_tuples(&self) -> impl Iterator<Item = FourTuple> {
        self.half_open.iter().flat_map(|joins| joins.tuples())
    }

    /// Returns all four-tuples for which the connection may receive segments.
    pub(crate) fn known_tuples(&self) -> impl Iterator<Item = FourTuple> {
        self.list.iter().map(|s| s.tcp.tuple()).chain(self.half_open_tuples())
    }

    /// Returns whether a half-open join with this four-tuple waits for its third packet.
    pub(super) fn awaits(&self, tuple: FourTuple) -> bool {
        self.half_open.as_ref().is_some_and(|joins| joins.has(tuple))
    }

    /// Answers a SYN with `MP_JOIN`. `local_id` is the identifier of our address.
    ///
    /// # Errors
    /// The join is refused. The value is the reason code of `MP_TCPRST`.
    pub(super) fn accept_join(
        &mut self,
        now: Instant,
        session: &mut Session,
        local_id: u8,
        tuple: FourTuple,
        syn: &Segment,
    ) -> Result<(), u8> {
        half_open::check(session, &self.list, tuple)?;
        let joins = self.half_open.get_or_insert_default();
        joins.accept(now, session, local_id, tuple, syn, &mut self.moved)
    }

    /// Handles a segment for a half-open join. If it is the third packet with a valid HMAC, returns the
    /// random stream and the initial sequence number of the new subflow.
    pub(super) fn check_third(
        &mut self,
        session: &mut Session,
        closed: bool,
        tuple: FourTuple,
        segment: &Segment,
    ) -> Option<(RandomStream, SeqNumber)> {
        // MPTCP may have ended after the SYN was answered.
        let refusal = if closed || !session.is_multipath() {
            Some(REASON_MPTCP)
        } else {
            (!half_open::has_room(&self.list)).then_some(REASON_PROHIBITED)
        };
        let joins = self.half_open.as_mut()?;
        joins.check_third(session, refusal, tuple, segment, &mut self.moved)
    }

    /// Moves the state of a half-open join into the subflow that was installed for it.
    pub(super) fn resume_join(&mut self, index: usize, session: &Session) {
        if let Some(joins) = &mut self.half_open {
            let subflow = &mut self.list[index];
            subflow.end_rest();
            joins.resume(subflow, session);
        }
    }

    /// Ends a half-open join with a RST that has this reason code.
    pub(super) fn refuse_join(&mut self, tuple: FourTuple, reason: u8) {
        if let Some(joins) = &mut self.half_open {
            joins.refuse(tuple, reason, &mut self.moved);
        }
    }

    /// Ends all half-open joins with a RST that has this reason code.
    pub(super) fn refuse_joins(&mut self, reason: u8) {
        if let Some(joins) = &mut self.half_open {
            joins.refuse_all(reason, &mut self.moved);
        }
    }

    /// Removes all half-open joins without a RST.
    pub(super) fn clear_joins(&mut self) {
        if let Some(joins) = self.half_open.take() {
            self.moved.extend(joins.tuples().map(Moved::from));
        }
    }

    /// Returns whether no answer to a join is queued, and the last polled answer has been removed.
    #[inline]
    pub(super) fn rests_half_open(&self) -> bool {
        self.half_open.as_ref().is_none_or(|joins| joins.rests())
    }

    /// Returns whether an answer to a join is queued.
    pub(super) fn has_queued_answer(&self) -> bool {
        self.half_open.as_ref().is_some_and(|joins| joins.owes())
    }

    /// Writes the next answer to a join into `segment`. Returns its four-tuple.
    #[cold]
    pub(super) fn poll_answer(&mut self, segment: &mut Segment) -> Option<&FourTuple> {
        self.half_open.as_mut()?.poll(segment)
    }
}
