//! Whose a segment is: a subflow's, a half-open join's, a listener's, or nobody's.

use std::num::NonZeroU16;

use anabranch_units::{Instant, SeqNumber};
use anabranch_wire::{Flags, MpJoin, MptcpOption, Segment};

use super::places::Place;
use super::time_wait::Verdict;
use super::{ConnectionHandle, Endpoint};
use crate::config::FourTuple;
use crate::connection::{REASON_MPTCP, Transmit, join, refusal};

/// Returns the `MP_JOIN` of a SYN, unless the SYN also has `MP_CAPABLE` (`subflow_check_req`).
fn asks_to_join(syn: &Segment) -> Option<MpJoin> {
    let offers = syn.mptcp.iter().any(|option| matches!(option, MptcpOption::Capable(_)));
    join(syn).filter(|_| !offers)
}

impl Endpoint {
    /// Input: a segment between two addresses, as one packet brought it. Returns the connection it reached.
    pub fn handle_segment(
        &mut self,
        now: Instant,
        tuple: FourTuple,
        segment: &Segment,
    ) -> Option<ConnectionHandle> {
        self.handle_merged(now, tuple, segment, None)
    }

    /// As [`Self::handle_segment`], of consecutive segments that were made one on the way: by GRO, or because
    /// the sender's kernel had an offloading device to cut them (TSO). `segment_size` is the payload of each of
    /// them in bytes, of the last one at most (`gso_size`); `None` where the segment came as it was sent.
    ///
    /// All of them must have the same header, options and ECN field included, but for the sequence number, and
    /// for PSH and FIN, which only the last one has (`tcp_gro_receive` makes sure of that; [`Segment::split`] cuts
    /// so). Then one DSS speaks for all of them: its mapping covers the whole payload. Where DSS checksums are in
    /// use that is so if the sender took the sum over all of it, as Linux does.
    ///
    /// The payload is taken as it is, never copied. What Linux counts by segments is counted by
    /// `segment_size` (`tcp_measure_rcv_mss`): of an arrival of more than one segment each draws an
    /// acknowledgement of its own, not each segment.
    ///
    /// ```
    /// use std::num::NonZeroU16;
    ///
    /// use anabranch_transport::{Endpoint, FourTuple};
    /// use anabranch_units::{Instant, Seed};
    /// use anabranch_wire::{Flags, Segment};
    /// use bytes::Bytes;
    ///
    /// let mut endpoint = Endpoint::new("host", Seed { seed: 1, run: 0 });
    /// let (local, remote) = (([10, 0, 0, 1], 80).into(), ([10, 0, 0, 2], 1024).into());
    /// // Three packets of 1000, 1000 and 400 bytes. Nobody knows them here: a RST is the answer.
    /// let merged = Segment {
    ///     flags: Flags::ACK,
    ///     payload: Bytes::from(vec![0; 2400]),
    ///     ..Segment::default()
    /// };
    /// let tuple = FourTuple { local, remote };
    /// let reached = endpoint.handle_merged(Instant::ZERO, tuple, &merged, NonZeroU16::new(1000));
    /// assert_eq!(reached, None);
    /// let answer = endpoint.poll_transmit(Instant::ZERO).expect("a RST");
    /// assert!(answer.segment.flags.contains(Flags::RST));
    /// ```
    pub fn handle_merged(
        &mut self,
        now: Instant,
        tuple: FourTuple,
        segment: &Segment,
        segment_size: Option<NonZeroU16>,
    ) -> Option<ConnectionHandle> {
        if self.lent.is_some() {
            self.catch_up(now);
        }
        let place = self.places.find(&tuple);
        if let Some(Place::Subflow { slot, index }) = place
            && let Some(entry) = self.table.slot(slot)
        {
            entry.connection.handle_merged_on(now, usize::from(index), segment, segment_size);
            return self.after_input(now, slot);
        }
        self.handle_stranger(now, tuple, segment, segment_size, place)
    }

    /// Input: news of a router that a packet between two addresses was larger than `mtu` bytes; see
    /// [`Connection::handle_path_mtu`]. Returns the connection that believes it.
    pub fn handle_path_mtu(
        &mut self,
        now: Instant,
        tuple: FourTuple,
        mtu: u32,
        seq: SeqNumber,
    ) -> Option<ConnectionHandle> {
        if self.lent.is_some() {
            self.catch_up(now);
        }
        let Some(Place::Subflow { slot, .. }) = self.places.find(&tuple) else { return None };
        let believed = self.table.slot(slot)?.connection.handle_path_mtu(now, tuple, mtu, seq);
        if believed { self.after_input(now, slot) } else { None }
    }

    /// A connection has taken something in.
    #[inline(always)]
    pub(super) fn after_input(&mut self, now: Instant, slot: u32) -> Option<ConnectionHandle> {
        let entry = self.table.slot(slot)?;
        let handle = ConnectionHandle { slot, generation: entry.generation };
        if !std::mem::replace(&mut entry.ready, true) {
            self.ready.push(slot);
        }
        if !entry.news && entry.connection.has_news() {
            entry.news = true;
            self.news.push_back(slot);
        }
        if entry.has_changed() {
            self.note_change(now, slot);
        }
        Some(handle)
    }

    /// A connection has other addresses than before.
    #[cold]
    pub(super) fn note_change(&mut self, now: Instant, slot: u32) {
        self.register(now, slot);
    }

    /// A segment between two addresses that no subflow has, or has any more.
    #[cold]
    fn handle_stranger(
        &mut self,
        now: Instant,
        tuple: FourTuple,
        segment: &Segment,
        segment_size: Option<NonZeroU16>,
        place: Option<Place>,
    ) -> Option<ConnectionHandle> {
        let opens = segment.flags.contains(Flags::SYN) && !segment.flags.contains(Flags::ACK);
        if let Some(Place::TimeWait { number }) = place {
            return self.handle_late(now, tuple, segment, number);
        }
        if let Some(id) = self.requests.find(&tuple) {
            return self.handle_requested(now, id, segment, segment_size);
        }
        if opens {
            return self.handle_syn(now, tuple, segment, None);
        }
        if let Some(Place::HalfOpen { slot }) = place
            && let Some(entry) = self.table.slot(slot)
        {
            entry.connection.handle_half_open(now, tuple, segment, segment_size);
            return self.after_input(now, slot);
        }
        let redeemed = self.redeem(now, tuple, segment, segment_size);
        if redeemed.is_none() {
            self.refuse(tuple, segment, REASON_MPTCP);
        }
        redeemed
    }

    /// A segment for a subflow in TIME-WAIT.
    fn handle_late(
        &mut self,
        now: Instant,
        tuple: FourTuple,
        segment: &Segment,
        number: u32,
    ) -> Option<ConnectionHandle> {
        let welcome = match asks_to_join(segment) {
            Some(MpJoin::Syn { token, .. }) => self.by_token.contains(&token),
            _ => self.listeners.at(tuple.local).is_some(),
        };
        match self.time_wait.take(now, number, segment, welcome) {
            Verdict::Answer(segment) => self.reply(tuple, segment),
            Verdict::Ignore => {}
            Verdict::End => self.end_time_wait(tuple, number),
            Verdict::Open(iss) => {
                self.end_time_wait(tuple, number);
                return self.handle_syn(now, tuple, segment, Some(iss));
            }
        }
        None
    }

    fn end_time_wait(&mut self, tuple: FourTuple, number: u32) {
        self.time_wait.end(number);
        self.places.remove(&tuple, |place| place == Place::TimeWait { number });
    }

    /// A SYN; `iss` is where our sequence numbers are to begin, if that is settled.
    fn handle_syn(
        &mut self,
        now: Instant,
        tuple: FourTuple,
        segment: &Segment,
        iss: Option<SeqNumber>,
    ) -> Option<ConnectionHandle> {
        if let Some(MpJoin::Syn { token, .. }) = asks_to_join(segment) {
            // Joins are told apart by token, never by port (RFC 8684 section 3.2).
            let slot = self.by_token.get(&token);
            let Some((slot, entry)) = slot.and_then(|slot| Some((slot, self.table.slot(slot)?)))
            else {
                if self.refusals.take(now) {
                    self.refuse(tuple, segment, REASON_MPTCP);
                }
                return None;
            };
            if let Err(reason) = entry.connection.accept_join(now, tuple, segment) {
                self.refuse(tuple, segment, reason);
                return None;
            }
            return self.after_input(now, slot);
        }
        let Some(number) = self.listeners.at(tuple.local) else {
            self.refuse(tuple, segment, REASON_MPTCP);
            return None;
        };
        self.admit(now, number, tuple, segment, iss);
        None
    }

    /// Answers with a RST what belongs to nobody (RFC 9293 section 3.10.7.1).
    pub(super) fn refuse(&mut self, tuple: FourTuple, segment: &Segment, reason: u8) {
        if !segment.flags.contains(Flags::RST) {
            self.reply(tuple, refusal(segment, reason));
        }
    }

    pub(super) fn reply(&mut self, tuple: FourTuple, segment: Segment) {
        let FourTuple { local, remote } = tuple;
        self.replies.push_back(Transmit { local, remote, segment, segment_size: None });
    }

    /// A four-tuple is a connection's from now on, or no more. What another connection's subflow has stays
    /// its own: whoever came later gets no answers.
    pub(super) fn claim(&mut self, slot: u32, tuple: FourTuple, place: Option<Place>) {
        let Some(place) = place else {
            return self.places.remove(&tuple, |place| place.slot() == Some(slot));
        };
        let taken = match self.places.peek(&tuple) {
            Some(Place::Subflow { slot: other, .. }) => other != slot,
            Some(Place::HalfOpen { slot: other }) => {
                other != slot && matches!(place, Place::HalfOpen { .. })
            }
            Some(Place::TimeWait { .. }) | None => false,
        };
        if !taken {
            self.places.insert(&tuple, place);
        }
    }
}
