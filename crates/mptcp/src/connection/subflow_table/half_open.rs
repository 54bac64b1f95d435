//! Half-open joins: joins whose third packet has not arrived (RFC 8684 section 3.2). A half-open join is
//! stored separately from the subflows and has little more than addresses and nonces, like Linux's request
//! sockets. Only a peer that knows the keys gets a subflow. A flood of SYNs with an overheard token therefore
//! does not block later joins.
//!
//! Each arriving SYN is answered once. No timer repeats the answer, so an attacker with a forged address gets
//! only one packet per packet (RFC 7430 section 4). The initiator repeats its SYN and its third packet until
//! it gets an answer.

use std::collections::VecDeque;

use anabranch_units::{Duration, Instant, RandomStream, SeqNumber};
use anabranch_wire::{Flags, MpJoin, MptcpOption, Segment, crypto};

use crate::connection::Moved;
use crate::connection::connect::{REASON_MPTCP, REASON_PROHIBITED, join, reset_option};
use crate::connection::session::Session;
use crate::subflow::Subflow;
use anabranch_tcp::config::FourTuple;
use anabranch_tcp::{State, SynAnswer};

/// The largest number of half-open joins. Beyond it, the oldest one is dropped. A join from the same host as
/// the new one is preferred.
const MOST_HALF_OPEN: usize = 128;
/// The longest wait for a third packet. Linux repeats a SYN/ACK for as long (1 + 2 + 4 + 8 + 16 + 32 s).
const LIFETIME: Duration = Duration::from_secs(63);
/// The number of subflows that may be open at one time in addition to the first (`MPTCP_PM_ADDR_MAX`, the
/// highest limit of Linux's path manager).
const MOST_JOINED: usize = 8;

/// A join whose SYN was answered.
#[derive(Debug)]
struct HalfOpen {
    tuple: FourTuple,
    /// The SYN without its MPTCP option.
    syn: Segment,
    iss: SeqNumber,
    /// Our nonce, and the peer's.
    nonces: (u32, u32),
    /// The identifiers of our address and of the peer's.
    ids: (u8, u8),
    backup: bool,
    /// The key of the random stream for the congestion controller of the later subflow.
    chance: [u8; 32],
    since: Instant,
}

/// All half-open joins, oldest first.
#[derive(Debug, Default)]
pub(super) struct HalfOpenJoins {
    entries: VecDeque<HalfOpen>,
    /// Queued answers.
    answers: VecDeque<(FourTuple, Segment)>,
    /// Whether the first answer was polled. Its entry is removed at the next poll, because the caller borrows
    /// the four-tuple.
    taken: bool,
}

/// Returns whether the peer may have one more subflow.
pub(super) fn has_room(subflows: &[Subflow]) -> bool {
    subflows.iter().skip(1).filter(|s| s.tcp.state() != State::Closed).count() < MOST_JOINED
}

/// Checks whether a join to this address is allowed.
///
/// # Errors
/// The join is refused. The value is the reason code of `MP_TCPRST`.
pub(super) fn check(session: &Session, subflows: &[Subflow], tuple: FourTuple) -> Result<(), u8> {
    if !session.is_multipath() || !session.is_confirmed() {
        return Err(REASON_MPTCP);
    }
    let denied = session.config().deny_join_initial_address
        && subflows.first().is_some_and(|s| s.tcp.tuple().local == tuple.local);
    if denied || !has_room(subflows) {
        return Err(REASON_PROHIBITED);
    }
    Ok(())
}

impl HalfOpenJoins {
    fn position(&self, tuple: FourTuple) -> Option<usize> {
        self.entries.iter().position(|entry| entry.tuple == tuple)
    }

    pub(super) fn has(&self, tuple: FourTuple) -> bool {
        self.position(tuple).is_some()
    }

    /// Removes expired joins, and one more if the limit is reached. The four-tuples of removed joins are
    /// added to `moved`.
    fn remove_expired(&mut self, now: Instant, tuple: FourTuple, moved: &mut Vec<Moved>) {
        self.entries.retain(|entry| {
            let stays = now.since(entry.since) < LIFETIME;
            moved.extend((!stays).then_some(entry.tuple).map(Moved::from));
            stays
        });
        if self.entries.len() >= MOST_HALF_OPEN {
            let host = tuple.remote.ip();
            let own = self.entries.iter().position(|entry| entry.tuple.remote.ip() == host);
            let oldest = self.entries.remove(own.unwrap_or(0));
            moved.extend(oldest.map(|entry| Moved::from(entry.tuple)));
        }
    }

    /// Returns the four-tuples of all half-open joins.
    pub(super) fn tuples(&self) -> impl Iterator<Item = FourTuple> {
        self.entries.iter().map(|entry| entry.tuple)
    }

    /// Returns whether no answer is queued, and the last polled answer has been removed.
    #[inline]
    pub(super) fn rests(&self) -> bool {
        self.answers.is_empty()
    }

    /// Returns whether an answer is queued.
    pub(super) fn owes(&self) -> bool {
        self.answers.len() > usize::from(self.taken)
    }

    /// Writes the next answer into `segment`. Returns its four-tuple.
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

    /// Answers a SYN with `MP_JOIN`. `local_id` is the identifier of our address.
    ///
    /// # Errors
    /// The segment has no such option. The value is the reason code of `MP_TCPRST`.
    pub(super) fn accept(
        &mut self,
        now: Instant,
        session: &mut Session,
        local_id: u8,
        tuple: FourTuple,
        syn: &Segment,
        moved: &mut Vec<Moved>,
    ) -> Result<(), u8> {
        let Some(MpJoin::Syn { backup, address_id, nonce, .. }) = join(syn) else {
            return Err(REASON_MPTCP);
        };
        let again = self.position(tuple).filter(|at| {
            let entry = &self.entries[*at];
            entry.nonces.1 == nonce && entry.syn.seq == syn.seq
        });
        let at = again.unwrap_or_else(|| {
            if let Some(other) = self.position(tuple) {
                self.entries.remove(other);
            }
            self.remove_expired(now, tuple, moved);
            let chance = session.draw(RandomStream::draw_key);
            let iss = session.draw_initial_sequence(now, &tuple);
            let own_nonce = session.draw(RandomStream::next_u64) as u32;
            let syn = Segment { mptcp: Vec::new(), payload: bytes::Bytes::new(), ..syn.clone() };
            moved.push(tuple.into());
            self.entries.push_back(HalfOpen {
                tuple,
                syn,
                iss,
                nonces: (own_nonce, nonce),
                ids: (local_id, address_id),
                backup,
                chance,
                since: now,
            });
            self.entries.len() - 1
        });
        let answer = self.entries[at].answer(session, now);
        self.answers.push_back((tuple, answer));
        Ok(())
    }

    /// Handles a segment without SYN for a half-open join. If it is the third packet with a valid HMAC,
    /// returns the random stream and the initial sequence number of the new subflow. `refusal` is a reason
    /// code: if it is set, the join is then refused.
    pub(super) fn check_third(
        &mut self,
        session: &mut Session,
        refusal: Option<u8>,
        tuple: FourTuple,
        segment: &Segment,
        moved: &mut Vec<Moved>,
    ) -> Option<(RandomStream, SeqNumber)> {
        let at = self.position(tuple)?;
        let entry = &self.entries[at];
        // A segment outside the window is ignored, and so is a RST without the expected number (RFC 9293
        // section 3.10.7.4, RFC 5961).
        let expected = entry.syn.seq.add(1);
        if segment.flags.contains(Flags::RST) {
            if segment.seq == expected {
                self.entries.remove(at);
                moved.push(tuple.into());
            }
            return None;
        }
        let ahead = segment.seq.offset(expected);
        let placed = (0..65_536).contains(&ahead) && segment.ack == entry.iss.add(1);
        if !placed || !segment.flags.contains(Flags::ACK) {
            return None;
        }
        if !entry.is_proven_by(session, segment) {
            session.counters_mut().refused_joins += 1;
            self.refuse(tuple, REASON_MPTCP, moved);
            return None;
        }
        if let Some(reason) = refusal {
            self.refuse(tuple, reason, moved);
            return None;
        }
        Some((RandomStream::from_key(entry.chance), entry.iss))
    }

    /// Removes the join with a subflow's four-tuple, and moves its state into the subflow.
    pub(super) fn resume(&mut self, subflow: &mut Subflow, session: &Session) {
        let Some(at) = self.position(subflow.tcp.tuple()) else { return };
        let Some(entry) = self.entries.remove(at) else { return };
        let option = entry.option(session);
        subflow.context.accept_join(entry.ids, entry.backup);
        subflow.tcp.supply().begin_tags();
        subflow.resume_join(&entry.syn, session.config(), option);
    }

    /// Ends all joins with a RST that has this reason code.
    pub(super) fn refuse_all(&mut self, reason: u8, moved: &mut Vec<Moved>) {
        while let Some(first) = self.entries.front() {
            self.refuse(first.tuple, reason, moved);
        }
    }

    /// Ends a join with a RST that has this reason code.
    pub(super) fn refuse(&mut self, tuple: FourTuple, reason: u8, moved: &mut Vec<Moved>) {
        let Some(entry) = self.position(tuple).and_then(|at| self.entries.remove(at)) else {
            return;
        };
        moved.push(entry.tuple.into());
        let reset = Segment {
            source_port: entry.tuple.local.port(),
            destination_port: entry.tuple.remote.port(),
            seq: entry.iss.add(1),
            ack: entry.syn.seq.add(1),
            flags: Flags::RST.with(Flags::ACK),
            mptcp: vec![reset_option(reason)],
            ..Segment::default()
        };
        self.answers.push_back((entry.tuple, reset));
    }
}

impl HalfOpen {
    /// Returns the `MP_JOIN` of the SYN/ACK.
    fn option(&self, session: &Session) -> MptcpOption {
        let remote = session.remote_key().map_or(0, |key| key.value);
        let (own_nonce, nonce) = self.nonces;
        let mac = crypto::join_hmac(session.local_key().value, remote, own_nonce, nonce);
        MptcpOption::Join(MpJoin::SynAck {
            backup: false,
            address_id: self.ids.0,
            hmac: crypto::leftmost_64(&mac),
            nonce: own_nonce,
        })
    }

    /// Returns the SYN/ACK.
    fn answer(&self, session: &Session, now: Instant) -> Segment {
        let timestamp_offset = session.stamp_offset(&self.tuple);
        let mss = session.config().mss_at(self.tuple.local.ip());
        let answer = SynAnswer { syn: &self.syn, iss: self.iss, timestamp_offset, mss };
        let mut segment = answer.segment(now, &session.config().tcp());
        segment.mptcp.push(self.option(session));
        segment
    }

    /// Returns whether the HMAC of a third packet is valid.
    fn is_proven_by(&self, session: &Session, segment: &Segment) -> bool {
        let (own_nonce, peer_nonce) = self.nonces;
        let remote = session.remote_key().map_or(0, |key| key.value);
        let mac = crypto::join_hmac(remote, session.local_key().value, peer_nonce, own_nonce);
        matches!(join(segment), Some(MpJoin::Ack { hmac })
            if crypto::mac_eq(&crypto::leftmost_160(&mac), &hmac))
    }
}
