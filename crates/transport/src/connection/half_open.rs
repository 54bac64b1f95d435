//! Joins whose third packet has not come (RFC 8684 section 3.2). They live apart from the subflows, with
//! little more than addresses and nonces, as Linux's request sockets do: only who knows the keys gets a
//! subflow, and a flood of SYNs with a token that was overheard takes nothing from those who join later.
//!
//! A SYN is answered once and again when it comes again, and never by a timer: who does not hold the
//! address that a SYN came from gets one packet sent there for one of his own (RFC 7430 section 4). The
//! initiator repeats its SYN, and its third packet, until it is answered.

use std::collections::VecDeque;
use std::num::NonZeroU16;
use std::sync::Arc;

use anabranch_units::{Duration, Instant, RandomStream, SeqNumber};
use anabranch_wire::{Flags, MpJoin, MptcpOption, Segment, crypto};

use super::connect::{REASON_MPTCP, REASON_PROHIBITED, join, reset_option};
use super::ownership::Moved;
use super::rare::Nothing;
use super::{Connection, Mode};
use crate::config::FourTuple;
use crate::subflow::{State, SynAnswer, Written};

/// Joins that wait for their third packets, at most: of more the oldest goes, if there is one, of the
/// host that the new one comes from.
const MOST_HALF_OPEN: usize = 128;
/// The wait for a third packet: as long as Linux repeats a SYN/ACK (1 + 2 + 4 + 8 + 16 + 32 s).
const LIFETIME: Duration = Duration::from_secs(63);
/// Subflows that the peer may have beside the first at one time (`MPTCP_PM_ADDR_MAX`, the highest
/// that the limit of Linux's path manager goes).
const MOST_JOINED: usize = 8;

/// A join whose SYN was answered.
#[derive(Debug)]
struct HalfOpen {
    tuple: FourTuple,
    /// The SYN without its MPTCP option.
    syn: Segment,
    iss: SeqNumber,
    /// Ours and the peer's.
    nonces: (u32, u32),
    /// Identifiers of our address and of the peer's.
    ids: (u8, u8),
    backup: bool,
    /// Chance for the congestion control of the subflow that it may become.
    chance: [u8; 32],
    since: Instant,
}

/// Every join that waits for its third packet, oldest first.
#[derive(Debug, Default)]
pub(super) struct HalfOpenJoins {
    entries: VecDeque<HalfOpen>,
    /// Answers to be sent.
    answers: VecDeque<(FourTuple, Segment)>,
    /// The first of them was taken; its addresses stay until the next look.
    taken: bool,
}

impl Nothing for HalfOpenJoins {
    const NOTHING: &'static Self = {
        static NOTHING: HalfOpenJoins =
            HalfOpenJoins { entries: VecDeque::new(), answers: VecDeque::new(), taken: false };
        &NOTHING
    };
}

impl HalfOpenJoins {
    fn position(&self, tuple: FourTuple) -> Option<usize> {
        self.entries.iter().position(|entry| entry.tuple == tuple)
    }

    /// Makes room for one more that comes from the host of `tuple`; those that go are told of in `gone`.
    fn make_room(&mut self, now: Instant, tuple: FourTuple, gone: &mut Vec<Moved>) {
        self.entries.retain(|entry| {
            let stays = now.since(entry.since) < LIFETIME;
            gone.extend((!stays).then_some(entry.tuple).map(Moved::from));
            stays
        });
        if self.entries.len() >= MOST_HALF_OPEN {
            let host = tuple.remote.ip();
            let own = self.entries.iter().position(|entry| entry.tuple.remote.ip() == host);
            let oldest = self.entries.remove(own.unwrap_or(0));
            gone.extend(oldest.map(|entry| Moved::from(entry.tuple)));
        }
    }

    /// The addresses of every join that waits.
    pub(super) fn tuples(&self) -> impl Iterator<Item = FourTuple> {
        self.entries.iter().map(|entry| entry.tuple)
    }

    /// There is nothing to send, nor to tidy up after sending.
    #[inline(always)]
    pub(super) fn rests(&self) -> bool {
        self.answers.is_empty()
    }

    /// An answer is to be sent.
    pub(super) fn owes(&self) -> bool {
        self.answers.len() > usize::from(self.taken)
    }

    fn answer(&mut self, tuple: FourTuple, segment: Segment) {
        self.answers.push_back((tuple, segment));
    }

    /// The next answer to send.
    #[inline]
    pub(super) fn poll(&mut self, segment: &mut Segment) -> Option<&FourTuple> {
        if std::mem::take(&mut self.taken) {
            self.answers.pop_front();
        }
        let (tuple, answer) = self.answers.front_mut()?;
        *segment = std::mem::take(answer);
        self.taken = true;
        Some(tuple)
    }
}

impl Connection {
    #[cold]
    pub(super) fn next_half_open(
        &mut self,
        segment: &mut Segment,
    ) -> Option<(&FourTuple, Written)> {
        self.half_open.poll(segment).map(|tuple| (tuple, Written::default()))
    }

    /// A SYN with `MP_JOIN` for this connection: answers it.
    ///
    /// # Errors
    /// It is refused, for the reason (of `MP_TCPRST`) that is told.
    pub fn accept_join(&mut self, now: Instant, tuple: FourTuple, syn: &Segment) -> Result<(), u8> {
        let Some(MpJoin::Syn { backup, address_id, nonce, .. }) = join(syn) else {
            return Err(REASON_MPTCP);
        };
        if self.mode != Mode::Multipath || !self.confirmed || self.is_closed() {
            return Err(REASON_MPTCP);
        }
        let denied = self.config.deny_join_initial_address
            && self.subflows.first().is_some_and(|s| s.tuple.local == tuple.local);
        if denied || !self.has_room() {
            return Err(REASON_PROHIBITED);
        }
        let again = self.half_open.position(tuple).and_then(|at| {
            let entry = &self.half_open.entries[at];
            (entry.nonces.1 == nonce && entry.syn.seq == syn.seq).then_some(at)
        });
        let at = again.unwrap_or_else(|| {
            if let Some(other) = self.half_open.position(tuple) {
                self.half_open.entries.remove(other);
            }
            self.half_open.make_room(now, tuple, &mut self.moved);
            let local_id = self.identifier_of(tuple.local.ip());
            let chance = self.random.draw(RandomStream::draw_key);
            let iss = self.initial_sequence(now, &tuple);
            let own_nonce = self.random.draw(RandomStream::next_u64) as u32;
            let syn = Segment { mptcp: Vec::new(), payload: bytes::Bytes::new(), ..syn.clone() };
            self.moved.push(tuple.into());
            self.half_open.entries.push_back(HalfOpen {
                tuple,
                syn,
                iss,
                nonces: (own_nonce, nonce),
                ids: (local_id, address_id),
                backup,
                chance,
                since: now,
            });
            self.half_open.entries.len() - 1
        });
        let answer = self.join_answer(at).segment(now, &self.config);
        self.half_open.answer(tuple, answer);
        Ok(())
    }

    /// The peer may have one more subflow.
    fn has_room(&self) -> bool {
        let joined = self.subflows.iter().skip(1).filter(|s| s.state != State::Closed).count();
        joined < MOST_JOINED
    }

    fn join_answer(&self, at: usize) -> SynAnswer<'_> {
        let entry = &self.half_open.entries[at];
        let remote = self.remote_key.map_or(0, |key| key.value);
        let (own_nonce, nonce) = entry.nonces;
        let mac = crypto::join_hmac(self.local_key.value, remote, own_nonce, nonce);
        let option = MptcpOption::Join(MpJoin::SynAck {
            backup: false,
            address_id: entry.ids.0,
            hmac: crypto::leftmost_64(&mac),
            nonce: own_nonce,
        });
        let timestamp_offset = self.secrets.stamp_offset(&entry.tuple);
        let mss = self.config.mss_at(entry.tuple.local.ip());
        SynAnswer { syn: &entry.syn, iss: entry.iss, option: Some(option), timestamp_offset, mss }
    }

    /// A join between these addresses waits for its third packet.
    pub(crate) fn awaits(&self, tuple: FourTuple) -> bool {
        self.half_open.position(tuple).is_some()
    }

    /// Input: a segment without SYN for a join that is half open. Where it is the third packet and knows
    /// the keys, the join becomes a subflow.
    pub(crate) fn handle_half_open(
        &mut self,
        now: Instant,
        tuple: FourTuple,
        segment: &Segment,
        segment_size: Option<NonZeroU16>,
    ) {
        let Some(at) = self.half_open.position(tuple) else { return };
        let entry = &self.half_open.entries[at];
        // RFC 9293 section 3.10.7.4, RFC 5961: what is out of place says nothing, not even a RST.
        let expected = entry.syn.seq.add(1);
        if segment.flags.contains(Flags::RST) {
            if segment.seq == expected {
                self.half_open.entries.remove(at);
                self.moved.push(tuple.into());
            }
            return;
        }
        let ahead = segment.seq.offset(expected);
        let placed = (0..65_536).contains(&ahead) && segment.ack == entry.iss.add(1);
        if !placed || !segment.flags.contains(Flags::ACK) {
            return;
        }
        let (own_nonce, peer_nonce) = entry.nonces;
        let remote = self.remote_key.map_or(0, |key| key.value);
        let mac = crypto::join_hmac(remote, self.local_key.value, peer_nonce, own_nonce);
        let knows = matches!(join(segment), Some(MpJoin::Ack { hmac })
            if crypto::mac_eq(&crypto::leftmost_160(&mac), &hmac));
        if !knows {
            self.counters.refused_joins += 1;
            return self.refuse_half_open(at, REASON_MPTCP);
        }
        if self.mode != Mode::Multipath || self.is_closed() {
            // There was MPTCP when the SYN came.
            return self.refuse_half_open(at, REASON_MPTCP);
        }
        if !self.has_room() {
            return self.refuse_half_open(at, REASON_PROHIBITED);
        }
        let chance = RandomStream::from_key(entry.chance);
        let Ok(Some(index)) = self.install_subflow(tuple, false, chance, entry.iss) else {
            return self.refuse_half_open(at, REASON_PROHIBITED);
        };
        let config = Arc::clone(&self.config);
        let option = self.join_answer(at).option;
        let Some(entry) = self.half_open.entries.remove(at) else { return };
        self.closing.revive();
        let subflow = &mut self.subflows[index];
        (subflow.local_id, subflow.remote_id) = entry.ids;
        subflow.signals.set_peer_backup(entry.backup);
        subflow.multipath = true;
        subflow.send.use_mappings();
        subflow.resume_join(&entry.syn, &config, option);
        self.handle_merged_on(now, index, segment, segment_size);
        if self.subflows[index].state == State::SynReceived {
            // It was not believed after all, and nothing would ever ask again.
            self.reset_subflow(now, index, REASON_MPTCP);
        }
    }

    /// MPTCP is over: joins that wait for their third packets end.
    pub(super) fn end_half_open(&mut self, reason: u8) {
        while !self.half_open.entries.is_empty() {
            self.refuse_half_open(0, reason);
        }
    }

    /// Ends a join with a RST that tells why.
    fn refuse_half_open(&mut self, at: usize, reason: u8) {
        let Some(entry) = self.half_open.entries.remove(at) else { return };
        self.moved.push(entry.tuple.into());
        let reset = Segment {
            source_port: entry.tuple.local.port(),
            destination_port: entry.tuple.remote.port(),
            seq: entry.iss.add(1),
            ack: entry.syn.seq.add(1),
            flags: Flags::RST.with(Flags::ACK),
            mptcp: vec![reset_option(reason)],
            ..Segment::default()
        };
        self.half_open.answer(entry.tuple, reset);
    }
}
