//! Opening connections and joining subflows: `MP_CAPABLE` and `MP_JOIN` (RFC 8684 sections 3.1, 3.2).

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use anabranch_plugin::PluginError;
use anabranch_units::{Instant, RandomStream, SeqNumber};
use anabranch_wire::crypto::{self, Key};
use anabranch_wire::{CapableKeys, Flags, MpCapable, MpJoin, MpTcpRst, MptcpOption, Segment};

use super::{Connection, Event, Mode, Origin, announced};
use crate::config::{Config, FourTuple};
use crate::path_manager::Candidate;
use crate::subflow::{Answered, Reset, State};

/// Reason code: MPTCP-specific error (RFC 8684 section 3.6).
pub(crate) const REASON_MPTCP: u8 = 1;
/// Reason code: administratively prohibited.
pub(crate) const REASON_PROHIBITED: u8 = 3;

/// Our `MP_CAPABLE` with these keys.
pub(crate) fn capable(config: &Config, keys: CapableKeys) -> MptcpOption {
    MptcpOption::Capable(MpCapable {
        checksum_required: config.checksum,
        deny_join_initial_address: config.deny_join_initial_address,
        ..MpCapable::with_keys(keys)
    })
}

/// The `MP_CAPABLE` that answers one, with our key: either side may ask for checksums.
pub(crate) fn capable_answer(config: &Config, key: u64, checksum_asked: bool) -> MptcpOption {
    MptcpOption::Capable(MpCapable {
        checksum_required: config.checksum || checksum_asked,
        deny_join_initial_address: config.deny_join_initial_address,
        ..MpCapable::with_keys(CapableKeys::Responder(key))
    })
}

/// Returns the `MP_CAPABLE` of a segment if this endpoint understands it: version 1, B clear, H set, in the form for
/// this kind of segment. A SYN may offer a later version, and the answer has the highest version supported here. A SYN
/// that also asks for a join opens plain TCP (`subflow_check_req`).
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

/// Returns whether a segment may carry `MP_CAPABLE` in this form. A SYN has no key, and a SYN/ACK has one. A later
/// segment has both keys, and also a length if it has data (RFC 8684 section 3.1; `mptcp_parse_option`,
/// "strict size checking").
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

/// An `MP_TCPRST` of what will not pass.
pub(super) fn reset_option(reason: u8) -> MptcpOption {
    MptcpOption::TcpRst(MpTcpRst { transient: false, reason })
}

pub(crate) fn join(segment: &Segment) -> Option<MpJoin> {
    segment.mptcp.iter().find_map(|option| match option {
        MptcpOption::Join(join) => Some(*join),
        _ => None,
    })
}

/// A SYN that opens a connection, and what is settled already.
pub(crate) struct Offer<'a> {
    pub(crate) tuple: FourTuple,
    pub(crate) syn: &'a Segment,
    /// Our initial sequence number, where it is not this moment's.
    pub(crate) iss: Option<SeqNumber>,
    /// Our key, where it was told already.
    pub(crate) key: Option<Key>,
    /// It was answered already.
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
            connection.add_subflow(now, tuple, true)?;
            let offer = capable(&connection.config, CapableKeys::None);
            let offer = Some(offer).filter(|_| connection.config.multipath);
            let subflow = &mut connection.subflows[0];
            subflow.handshake.first = offer;
            subflow.handshake.due = true;
        }
        Ok(connection)
    }

    /// Accepts a connection whose SYN has arrived.
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

    /// As [`Self::accept`], with what is settled already.
    pub(crate) fn accept_offer(
        config: Arc<Config>,
        origin: Origin<'_>,
        offer: &Offer<'_>,
    ) -> Result<Self, PluginError> {
        let &Offer { tuple, syn, iss, key, .. } = offer;
        let now = origin.now;
        let mut connection = Self::build(config, false, origin, key, tuple.local.ip())?;
        let chance = connection.random.draw(RandomStream::fork);
        let drawn = connection.initial_sequence(now, &tuple);
        connection.install_subflow(tuple, false, chance, iss.unwrap_or(drawn))?;
        connection.addresses.accepted_at(tuple.local.ip());
        let offered = understood(syn).filter(|_| connection.config.multipath);
        let option = offered.map(|option| {
            connection.heed_checksum(&option);
            connection.peer_addresses.heed(&option);
            capable(&connection.config, CapableKeys::Responder(connection.local_key.value))
        });
        if option.is_none() {
            connection.mode = Mode::Plain;
        }
        let config = Arc::clone(&connection.config);
        connection.subflows[0].answer_syn(syn, &config, option);
        if let Some(answered) = offer.told {
            connection.subflows[0].has_answered(answered);
        }
        Ok(connection)
    }

    /// A SYN/ACK for a SYN of ours.
    pub(super) fn handle_syn_ack(&mut self, now: Instant, index: usize, segment: &Segment) {
        let wanted = segment.flags.contains(Flags::SYN) && segment.flags.contains(Flags::ACK);
        if !wanted {
            return;
        }
        if !self.subflows[index].acknowledges_syn(segment) {
            // It answers an old SYN, or none (RFC 9293 section 3.10.7.3).
            self.subflows[index].reset = Some(Box::new(Reset::answer(segment.ack)));
            return;
        }
        let host = self.config.host;
        // First, so that a reset that follows acknowledges the SYN/ACK, else it does not count.
        self.subflows[index].learn_peer(segment, &self.config);
        if index > 0 {
            return self.handle_join_syn_ack(now, index, segment);
        }
        let keys = understood(segment).filter(|_| self.subflows[0].handshake.first.is_some());
        if let Some(answer @ MpCapable { keys: CapableKeys::Responder(key), .. }) = keys {
            self.heed_checksum(&answer);
            self.peer_addresses.heed(&answer);
            self.become_multipath(key, 0);
            let both = CapableKeys::Both { initiator: self.local_key.value, responder: key };
            self.subflows[0].handshake.third = Some(capable(&self.config, both));
        } else if self.mode == Mode::Undecided {
            self.fall_back();
        }
        self.subflows[0].take_syn_ack(&host, now, segment);
        self.after_open(now, index);
    }

    /// Either side may ask for checksums.
    fn heed_checksum(&mut self, capable: &MpCapable) {
        if capable.checksum_required && !self.config.checksum {
            Arc::make_mut(&mut self.config).checksum = true;
        }
    }

    fn become_multipath(&mut self, remote_key: u64, index: usize) {
        self.mode = Mode::Multipath;
        self.remote_key = Some(Key::new(remote_key));
        let subflow = &mut self.subflows[index];
        subflow.multipath = true;
        subflow.fully_established = true;
        subflow.send.use_mappings();
    }

    fn after_open(&mut self, now: Instant, index: usize) {
        let subflow = &mut self.subflows[index];
        if !subflow.multipath {
            subflow.fully_established = true;
        }
        self.fit_segments(index);
        if index > 0 {
            let local = self.subflows[index].tuple.local.ip();
            self.budget.on_join(&self.config, self.config.mss_at(local));
        }
        if index == 0 {
            self.connected_at = Some(now);
            self.budget.begin(now);
            self.note_promise(0);
            let window = self.subflows[0].send_window();
            self.out.window_end = self.out.window_end.max(window);
            self.events.push_back(Event::Connected);
            self.events.push_back(Event::Writable);
        }
    }

    /// The third packet of a handshake we answered; false when the segment is to be dropped.
    pub(super) fn handle_third(&mut self, now: Instant, index: usize, segment: &Segment) -> bool {
        let host = self.config.host;
        if index > 0 {
            return self.handle_join_third(now, index, segment);
        }
        if !self.subflows[0].take_third(&host, now, segment) {
            return false;
        }
        if self.mode == Mode::Undecided {
            match understood(segment).map(|capable| capable.keys) {
                Some(
                    CapableKeys::Both { initiator, .. } | CapableKeys::WithData { initiator, .. },
                ) => {
                    self.become_multipath(initiator, 0);
                    self.confirmed = true;
                }
                _ => self.fall_back(),
            }
        }
        self.after_open(now, 0);
        true
    }

    /// Options of an established subflow that are not DSS signals.
    #[inline(always)]
    pub(super) fn handle_options(&mut self, now: Instant, index: usize, segment: &Segment) {
        let subflow = &self.subflows[index];
        let awaits = !subflow.fully_established
            || subflow.signals.has_wish()
            || (self.client && index == 0 && !self.confirmed);
        if self.mode == Mode::Multipath && (awaits || !segment.mptcp.is_empty()) {
            self.take_options(now, index, segment);
        }
    }

    // Apart: most segments have none, and nothing is awaited.
    #[inline(never)]
    fn take_options(&mut self, now: Instant, index: usize, segment: &Segment) {
        if let Some(MpCapable { keys: CapableKeys::WithData { length, checksum, .. }, .. }) =
            understood(segment).filter(|_| index == 0 && !self.client)
        {
            self.map_first_data(segment, length, checksum);
        }
        if self.client && index == 0 && !self.confirmed {
            // An announcement comes without a DSS (`check_fully_established`).
            let announced = announced::announcement(segment).is_some_and(|add| add.hmac.is_some());
            if announced || segment.dss.is_some_and(|dss| dss.data_ack.is_some()) {
                self.confirmed = true;
                self.subflows[0].handshake.confirm_third();
            } else if segment.dss.is_none() {
                self.fall_back();
            }
        }
        if !self.subflows[index].fully_established {
            self.confirm_join(now, index, segment);
        } else if !segment.mptcp.is_empty()
            && index > 0
            && matches!(join(segment), Some(MpJoin::Ack { .. }))
        {
            // The third packet again: the fourth was lost (`check_fully_established`).
            self.subflows[index].ack_now();
        }
        if !segment.mptcp.is_empty() || self.subflows[index].signals.has_wish() {
            self.handle_address_options(now, index, segment);
            self.handle_fast_close(now, index, segment);
        }
    }

    /// Opens a further subflow; `None` when the pair is not to be tried or is no pair, since its addresses
    /// are of two families, or every place is taken.
    pub(super) fn join(&mut self, now: Instant, candidate: Candidate) -> Option<usize> {
        let remote = self.remote_key.filter(|_| self.may_join(&candidate))?;
        let mut tuple = FourTuple { local: candidate.local, remote: candidate.remote };
        while self.subflow_of(tuple).is_some() {
            // A port that an earlier subflow had is not used again.
            tuple.local.set_port(tuple.local.port().wrapping_add(1));
        }
        let local_id = self.addresses.identifier(&candidate);
        let index = self.add_subflow(now, tuple, true).ok()??;
        let nonce = self.random.draw(RandomStream::next_u64) as u32;
        self.closing.revive();
        let subflow = &mut self.subflows[index];
        subflow.local_id = local_id;
        subflow.signals.set_own_backup(candidate.backup);
        subflow.multipath = true;
        subflow.send.use_mappings();
        subflow.nonce = nonce;
        subflow.handshake.first = Some(MptcpOption::Join(MpJoin::Syn {
            backup: candidate.backup,
            address_id: local_id,
            token: remote.token,
            nonce,
        }));
        subflow.handshake.due = true;
        Some(index)
    }

    fn handle_join_syn_ack(&mut self, now: Instant, index: usize, segment: &Segment) {
        let host = self.config.host;
        let own_nonce = self.subflows[index].nonce;
        let answer = join(segment).zip(self.remote_key);
        let Some((MpJoin::SynAck { hmac, nonce, backup, address_id }, remote)) = answer else {
            return self.give_up_join(now, index);
        };
        let expected = crypto::join_hmac(remote.value, self.local_key.value, nonce, own_nonce);
        if !crypto::mac_eq(&crypto::leftmost_64(&expected).to_be_bytes(), &hmac.to_be_bytes()) {
            return self.give_up_join(now, index);
        }
        let mac = crypto::join_hmac(self.local_key.value, remote.value, own_nonce, nonce);
        let subflow = &mut self.subflows[index];
        subflow.signals.set_peer_backup(backup);
        subflow.remote_id = address_id;
        let third = MpJoin::Ack { hmac: crypto::leftmost_160(&mac) };
        subflow.handshake.third = Some(MptcpOption::Join(third));
        subflow.take_syn_ack(&host, now, segment);
        self.after_open(now, index);
        self.keep_or_reset_join(now, index);
    }

    /// The answer to a join was none: neither is the pair tried again (RFC 8684 sections 3.2 and 3.9).
    fn give_up_join(&mut self, now: Instant, index: usize) {
        let tuple = self.subflows[index].tuple;
        self.peer_addresses.refuse(tuple.local.ip(), tuple.remote);
        self.reset_subflow(now, index, REASON_MPTCP);
    }

    /// The third packet of a join, which has shown that it knows the keys.
    fn handle_join_third(&mut self, now: Instant, index: usize, segment: &Segment) -> bool {
        let host = self.config.host;
        if !self.subflows[index].take_third(&host, now, segment) {
            return false;
        }
        self.after_open(now, index);
        let subflow = &mut self.subflows[index];
        subflow.fully_established = true;
        // The initiator may send only once this acknowledgement has come (section 3.2).
        subflow.ack_now();
        let id = subflow.id;
        self.events.push_back(Event::SubflowEstablished(id));
        // Its buffer is room, and its establishment wakes who waits for room (`__mptcp_sync_sndbuf`).
        self.notify_writable();
        true
    }

    /// On the initiator: any acknowledgement with a DSS completes the join.
    fn confirm_join(&mut self, now: Instant, index: usize, segment: &Segment) {
        let subflow = &mut self.subflows[index];
        if subflow.active && segment.dss.is_some_and(|dss| dss.data_ack.is_some()) {
            subflow.fully_established = true;
            subflow.handshake.confirm_third();
            let id = subflow.id;
            self.events.push_back(Event::SubflowEstablished(id));
        } else if subflow.active && !segment.payload.is_empty() {
            self.reset_subflow(now, index, REASON_MPTCP);
        }
    }

    /// The reset that answers a join nobody wants, or a segment that belongs to nobody; a join is told
    /// the reason.
    pub(crate) fn refusal(syn: &Segment, reason: u8) -> Segment {
        // What acknowledges is answered at the sequence number it expects (RFC 9293 3.10.7.1).
        let stray = syn.flags.contains(Flags::ACK);
        let none = anabranch_units::SeqNumber(0);
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

    /// A subflow in `SynReceived` or better exists for this four-tuple.
    pub fn owns(&self, tuple: FourTuple) -> bool {
        self.subflows.iter().any(|s| s.tuple == tuple && s.state != State::Closed)
    }
}
