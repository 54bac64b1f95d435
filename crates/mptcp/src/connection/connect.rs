//! Opening connections and joining subflows: `MP_CAPABLE` and `MP_JOIN` (RFC 8684 sections 3.1, 3.2).

use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU16;
use std::sync::Arc;

use anabranch_plugin::PluginError;
use anabranch_units::{Instant, RandomStream, SeqNumber};
use anabranch_wire::crypto::Key;
use anabranch_wire::{CapableKeys, Flags, MpCapable, MpJoin, MpTcpRst, MptcpOption, Segment};

use super::closing::fast_close;
use super::signals::announcement;
use super::subflow_table::Installed;
use super::{Connection, Event, Origin};
use crate::config::Config;
use anabranch_tcp::config::FourTuple;
use anabranch_tcp::{Answered, State};

/// Reason code: MPTCP-specific error (RFC 8684 section 3.6).
pub(crate) const REASON_MPTCP: u8 = 1;
/// Reason code: administratively prohibited.
pub(crate) const REASON_PROHIBITED: u8 = 3;
/// Reason code: unacceptable performance.
const REASON_PERFORMANCE: u8 = 5;

/// Builds our `MP_CAPABLE` with these keys.
pub(crate) fn capable(config: &Config, keys: CapableKeys) -> MptcpOption {
    MptcpOption::Capable(MpCapable {
        checksum_required: config.checksum,
        deny_join_initial_address: config.deny_join_initial_address,
        ..MpCapable::with_keys(keys)
    })
}

/// Builds the `MP_CAPABLE` with our key that answers the peer's. Checksums are used if either side requires
/// them.
pub(crate) fn capable_answer(config: &Config, key: u64, checksum_asked: bool) -> MptcpOption {
    MptcpOption::Capable(MpCapable {
        checksum_required: config.checksum || checksum_asked,
        deny_join_initial_address: config.deny_join_initial_address,
        ..MpCapable::with_keys(CapableKeys::Responder(key))
    })
}

/// Returns the `MP_CAPABLE` of a segment if it is valid here: version 1, flag B clear, flag H set, and the
/// keys that this kind of segment requires. A SYN may offer a later version, and the answer has the highest
/// version supported here. A SYN that also has `MP_JOIN` opens plain TCP (`subflow_check_req`).
pub(crate) fn understood(segment: &Segment) -> Option<MpCapable> {
    let opens = segment.flags.contains(Flags::SYN) && !segment.flags.contains(Flags::ACK);
    segment.mptcp.iter().find_map(|option| match option {
        MptcpOption::Capable(c)
            if (c.version == MpCapable::VERSION || (opens && c.version > MpCapable::VERSION))
                && !c.extensibility
                && c.crypto & 1 == 1
                && !(opens && join(segment).is_some())
                && has_right_form(segment, &c.keys) =>
        {
            Some(*c)
        }
        _ => None,
    })
}

/// Returns whether a segment may carry `MP_CAPABLE` with these keys. A SYN has no key, and a SYN/ACK has one.
/// A later segment has both keys, and also a length if it has data (RFC 8684 section 3.1;
/// `mptcp_parse_option`, "strict size checking").
fn has_right_form(segment: &Segment, keys: &CapableKeys) -> bool {
    let has = |flag| segment.flags.contains(flag);
    let data = !segment.payload.is_empty();
    match keys {
        CapableKeys::None => has(Flags::SYN) && !has(Flags::ACK),
        CapableKeys::Responder(_) => has(Flags::SYN) && has(Flags::ACK),
        CapableKeys::Both { .. } => !has(Flags::SYN) && !data,
        CapableKeys::WithData { .. } => !has(Flags::SYN) && data,
    }
}

/// Builds an `MP_TCPRST` for a permanent condition.
pub(super) fn reset_option(reason: u8) -> MptcpOption {
    MptcpOption::TcpRst(MpTcpRst { transient: false, reason })
}

pub(crate) fn join(segment: &Segment) -> Option<MpJoin> {
    segment.mptcp.iter().find_map(|option| match option {
        MptcpOption::Join(join) => Some(*join),
        _ => None,
    })
}

/// Builds the RST for a refused join, with its reason code, or for a segment of no connection.
pub(crate) fn refusal(syn: &Segment, reason: u8) -> Segment {
    // The RST for a segment with ACK takes its sequence number from the acknowledgement number (RFC 9293
    // section 3.10.7.1).
    let stray = syn.flags.contains(Flags::ACK);
    let none = SeqNumber(0);
    Segment {
        source_port: syn.destination_port,
        destination_port: syn.source_port,
        seq: if stray { syn.ack } else { none },
        ack: if stray { none } else { syn.seq.add(syn.sequence_len()) },
        flags: if stray { Flags::RST } else { Flags::RST.with(Flags::ACK) },
        mptcp: if join(syn).is_some() { vec![reset_option(reason)] } else { Vec::new() },
        ..Segment::default()
    }
}

/// A SYN that opens a connection, with values that were chosen before the connection is created.
pub(crate) struct Offer<'a> {
    pub(crate) tuple: FourTuple,
    pub(crate) syn: &'a Segment,
    /// Our initial sequence number, if it was chosen earlier.
    pub(crate) iss: Option<SeqNumber>,
    /// Our key, if it was already sent to the peer.
    pub(crate) key: Option<Key>,
    /// The SYN/ACK, if it was already sent.
    pub(crate) told: Option<Answered>,
}

impl Connection {
    /// Opens a connection over the first of `config.candidates`.
    ///
    /// # Errors
    /// A plug-in's name or parameters are unknown.
    pub fn connect(config: Config, origin: Origin<'_>) -> Result<Self, PluginError> {
        let first = config.candidates.first().copied();
        let now = origin.now;
        let local = first.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |first| first.local.ip());
        let mut connection = Self::build(config.settled(), true, origin, None, local)?;
        if let Some(candidate) = first {
            let tuple = FourTuple { local: candidate.local, remote: candidate.remote };
            let (stream, iss) = connection.session.draw_opening(now, &tuple);
            connection.insert_subflow(tuple, true, stream, iss)?;
            let offer = capable(connection.session.config(), CapableKeys::None);
            let offer = Some(offer).filter(|_| connection.session.config().multipath);
            let subflow = &mut connection.subflows[0];
            subflow.demand_syn(offer);
        }
        Ok(connection)
    }

    /// Accepts a connection when its SYN arrives.
    ///
    /// # Errors
    /// A plug-in's name or parameters are unknown.
    pub fn accept(
        config: Config,
        origin: Origin<'_>,
        tuple: FourTuple,
        syn: &Segment,
    ) -> Result<Self, PluginError> {
        Self::accept_offer(
            config.settled(),
            origin,
            &Offer { tuple, syn, iss: None, key: None, told: None },
        )
    }

    /// Like [`Self::accept`], with values that were chosen earlier.
    pub(crate) fn accept_offer(
        config: Arc<Config>,
        origin: Origin<'_>,
        offer: &Offer<'_>,
    ) -> Result<Self, PluginError> {
        let &Offer { tuple, syn, iss, key, .. } = offer;
        let now = origin.now;
        let mut connection = Self::build(config, false, origin, key, tuple.local.ip())?;
        let (stream, drawn) = connection.session.draw_opening(now, &tuple);
        connection.insert_subflow(tuple, false, stream, iss.unwrap_or(drawn))?;
        connection.signals.set_initial_local(tuple.local.ip());
        let offered = understood(syn).filter(|_| connection.session.config().multipath);
        let option = offered.map(|option| {
            connection.session.set_checksum(&option);
            connection.signals.on_capable(&option);
            capable(
                connection.session.config(),
                CapableKeys::Responder(connection.session.local_key().value),
            )
        });
        if option.is_none() {
            connection.session.end_mptcp();
        }
        let config = Arc::clone(connection.session.config());
        connection.subflows[0].answer_syn(syn, &config, option, offer.told);
        Ok(connection)
    }

    /// Adds a subflow with the given random stream and initial sequence number. Returns `None` if no slot is
    /// free: every slot belongs to a subflow that is not closed.
    ///
    /// # Errors
    /// The name or parameters of the congestion control are unknown.
    pub(super) fn insert_subflow(
        &mut self,
        tuple: FourTuple,
        active: bool,
        stream: RandomStream,
        iss: SeqNumber,
    ) -> Result<Option<usize>, PluginError> {
        let installed = self.subflows.insert(&self.session, tuple, active, stream, iss)?;
        let Some(Installed { index, replaces }) = installed else { return Ok(None) };
        self.outgoing.add_subflow(&mut self.subflows[index], replaces);
        Ok(Some(index))
    }

    /// Answers a SYN with `MP_JOIN` for this connection.
    ///
    /// # Errors
    /// The join is refused. The value is the reason code of `MP_TCPRST`.
    pub fn accept_join(&mut self, now: Instant, tuple: FourTuple, syn: &Segment) -> Result<(), u8> {
        if self.is_closed() {
            return Err(REASON_MPTCP);
        }
        let local_id = self.signals.identifier_of(&self.session, &self.subflows, tuple.local.ip());
        self.subflows.accept_join(now, &mut self.session, local_id, tuple, syn)
    }

    /// Handles a segment without SYN for a half-open join. If it is the third packet with a valid HMAC, the
    /// join becomes a subflow.
    pub(crate) fn handle_half_open(
        &mut self,
        now: Instant,
        tuple: FourTuple,
        segment: &Segment,
        segment_size: Option<NonZeroU16>,
    ) {
        let closed = self.is_closed();
        let proven = self.subflows.check_third(&mut self.session, closed, tuple, segment);
        let Some((stream, iss)) = proven else { return };
        let Ok(Some(index)) = self.insert_subflow(tuple, false, stream, iss) else {
            return self.subflows.refuse_join(tuple, REASON_PROHIBITED);
        };
        self.closing.end_wait();
        self.subflows.resume_join(index, &self.session);
        self.handle_merged_on(now, index, segment, segment_size);
        if self.subflows[index].tcp.state() == State::SynReceived {
            // The segment was not accepted, and no timer would repeat the handshake.
            self.reset_subflow(now, index, REASON_MPTCP);
        }
    }

    /// Handles the SYN/ACK that answers our SYN.
    pub(super) fn handle_syn_ack(&mut self, now: Instant, index: usize, segment: &Segment) {
        let wanted = segment.flags.contains(Flags::SYN) && segment.flags.contains(Flags::ACK);
        if !wanted {
            return;
        }
        if !self.subflows[index].tcp.sequence().is_acked_syn(segment) {
            // The segment answers an old SYN, or none (RFC 9293 section 3.10.7.3).
            self.subflows[index].demand_reset_for(segment);
            return;
        }
        let host = *self.session.host();
        // The SYN/ACK is recorded first. The peer ignores a later RST unless it acknowledges the SYN/ACK.
        self.subflows[index].tcp.on_peer_syn(segment, &self.session.config().tcp());
        if index > 0 {
            if !self.subflows.take_join_answer(&self.session, now, index, segment) {
                // This address pair is not tried again (RFC 8684 sections 3.2 and 3.9).
                self.signals.refuse(&self.subflows[index].tcp.tuple());
                return self.reset_subflow(now, index, REASON_MPTCP);
            }
            self.on_open(now, index);
            if !self.signals.admit_join(now, &self.subflows, index) {
                self.reset_subflow(now, index, REASON_PERFORMANCE);
            }
            return;
        }
        let keys = understood(segment).filter(|_| self.subflows[0].context.offers_mptcp());
        if let Some(answer @ MpCapable { keys: CapableKeys::Responder(key), .. }) = keys {
            self.session.set_checksum(&answer);
            self.signals.on_capable(&answer);
            self.session.on_negotiated(key);
            self.subflows.begin_multipath();
            let both =
                CapableKeys::Both { initiator: self.session.local_key().value, responder: key };
            self.subflows[0].context.third_mut().set(capable(self.session.config(), both));
        } else if !self.session.is_multipath() && !self.session.is_plain() {
            self.fall_back();
        }
        self.subflows[0].take_syn_ack(&host, now, segment);
        self.on_open(now, index);
    }

    fn on_open(&mut self, now: Instant, index: usize) {
        let subflow = &mut self.subflows[index];
        if !subflow.is_multipath() {
            subflow.context.complete();
        }
        self.subflows.update_segment_size(&self.session, index);
        if index > 0 {
            let local = self.subflows[index].tcp.tuple().local.ip();
            self.incoming.on_join(self.session.config(), self.session.config().mss_at(local));
        }
        if index == 0 {
            self.incoming.begin(now, &self.subflows);
            let window = self.subflows[0].tcp.sending().queue().window().initial();
            self.outgoing.stream_mut().admit(window);
            self.session.on_connected(now);
        }
    }

    /// Handles the third packet of a handshake on the accepting side. Returns false if the segment must be
    /// dropped.
    pub(super) fn handle_third(&mut self, now: Instant, index: usize, segment: &Segment) -> bool {
        if !self.subflows[index].take_third(self.session.host(), now, segment) {
            return false;
        }
        if index == 0 && !self.session.is_multipath() && !self.session.is_plain() {
            match understood(segment).map(|capable| capable.keys) {
                Some(
                    CapableKeys::Both { initiator, .. } | CapableKeys::WithData { initiator, .. },
                ) => {
                    self.session.on_negotiated(initiator);
                    self.subflows.begin_multipath();
                    self.session.on_confirmed();
                }
                _ => self.fall_back(),
            }
        }
        self.on_open(now, index);
        if index > 0 {
            let id = self.subflows.complete_join(index);
            self.session.report(Event::SubflowEstablished(id));
            // The send buffer of the new subflow is additional space for the application
            // (`__mptcp_sync_sndbuf`).
            self.outgoing.stream_mut().report_writable(&mut self.session, &mut self.subflows);
        }
        true
    }

    /// Handles the options of an established subflow other than the DSS. Also handles a segment without
    /// options if `Subflows::awaits_options`.
    #[cold]
    pub(super) fn handle_options(&mut self, now: Instant, index: usize, segment: &Segment) {
        if let Some(MpCapable { keys: CapableKeys::WithData { length, checksum, .. }, .. }) =
            understood(segment).filter(|_| index == 0 && !self.session.is_client())
        {
            self.subflows.add_first_mapping(&mut self.session, segment, length, checksum);
        }
        if self.session.is_client() && index == 0 && !self.session.is_confirmed() {
            // An `ADD_ADDR` comes without a DSS but also confirms the handshake (`check_fully_established`).
            let announced = announcement(segment).is_some_and(|add| add.hmac.is_some());
            if announced || segment.dss.is_some_and(|dss| dss.data_ack.is_some()) {
                self.session.on_confirmed();
                self.subflows[0].context.third_mut().end_repetition();
            } else if segment.dss.is_none() {
                self.fall_back();
            }
        }
        if !self.subflows[index].context.is_fully_established() {
            if self.subflows.complete_own_join(&mut self.session, index, segment) {
                self.reset_subflow(now, index, REASON_MPTCP);
            }
        } else if !segment.mptcp.is_empty()
            && index > 0
            && matches!(join(segment), Some(MpJoin::Ack { .. }))
        {
            // The third packet was repeated, so the peer has not received our acknowledgement
            // (`check_fully_established`).
            self.subflows[index].tcp.demand_ack();
        }
        if !segment.mptcp.is_empty() || self.subflows[index].context.signals().has_wish() {
            self.handle_address_options(now, index, segment);
            match fast_close(segment) {
                Some(key) if self.session.is_our_key(key) => {
                    self.session.report(Event::Aborted);
                    self.end_at_once(None);
                }
                // An `MP_FASTCLOSE` without our key is answered with a challenge ACK (RFC 5961).
                Some(_) => {
                    self.session.counters_mut().forged_fast_closes += 1;
                    self.subflows[index].tcp.demand_challenge_ack(now);
                }
                None => {}
            }
        }
    }
}
