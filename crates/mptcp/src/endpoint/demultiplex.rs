//! Demultiplexing: finds the subflow, half-open connection or listener of a segment.

use std::num::NonZeroU16;

use anabranch_units::{Instant, SeqNumber};
use anabranch_wire::{Flags, MpJoin, MptcpOption, Segment};

use super::places::Place;
use super::time_wait::Verdict;
use super::{ConnectionHandle, Endpoint};
use crate::connection::{REASON_MPTCP, Transmit, join, refusal};
use anabranch_tcp::config::FourTuple;

/// Returns the `MP_JOIN` of a SYN, unless the SYN also has `MP_CAPABLE` (`subflow_check_req`).
fn asks_to_join(syn: &Segment) -> Option<MpJoin> {
    let offers = syn.mptcp.iter().any(|option| matches!(option, MptcpOption::Capable(_)));
    join(syn).filter(|_| !offers)
}

impl Endpoint {
    /// Handles a segment that arrived as one packet. Returns the connection that it reached.
    pub fn handle_segment(
        &mut self,
        now: Instant,
        tuple: FourTuple,
        segment: &Segment,
    ) -> Option<ConnectionHandle> {
        self.handle_merged(now, tuple, segment, None)
    }

    /// Like [`Self::handle_segment`], for consecutive segments that arrive merged: by GRO, or because the
    /// sender's kernel left segmentation to the device (TSO). `segment_size` is the payload of each segment
    /// in bytes; the last one may be shorter (`gso_size`). `None` means that the segment was not merged.
    ///
    /// All segments must have the same header, options and ECN field. Only the sequence numbers may differ,
    /// and only the last segment may have PSH and FIN. `tcp_gro_receive` and [`Segment::split`] guarantee
    /// this. One DSS mapping then covers the whole payload. With DSS checksums, the sender must have computed
    /// the checksum over the whole payload, as Linux does.
    ///
    /// The payload is not copied. Per-segment counts use `segment_size`, as in Linux (`tcp_measure_rcv_mss`).
    /// Merged segments cause one acknowledgement, not one each.
    ///
    /// ```
    /// use std::num::NonZeroU16;
    ///
    /// use anabranch_mptcp::{Endpoint, FourTuple};
    /// use anabranch_units::{Instant, Seed};
    /// use anabranch_wire::{Flags, Segment};
    /// use bytes::Bytes;
    ///
    /// let mut endpoint = Endpoint::new("host", Seed { seed: 1, run: 0 });
    /// let (local, remote) = (([10, 0, 0, 1], 80).into(), ([10, 0, 0, 2], 1024).into());
    /// // Three packets of 1000, 1000 and 400 bytes of an unknown connection. The answer is a RST.
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
            && let Some(entry) = self.table.get_slot(slot)
        {
            entry.connection.handle_merged_on(now, usize::from(index), segment, segment_size);
            return self.on_input(now, slot);
        }
        self.handle_stranger(now, tuple, segment, segment_size, place)
    }

    /// Handles an ICMP report that a packet exceeded the path MTU of `mtu` bytes. See
    /// [`crate::Connection::handle_path_mtu`]. Returns the connection if it accepts the report.
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
        let Some(Place::Subflow { slot, .. }) = self.places.peek(&tuple) else { return None };
        let believed = self.table.get_slot(slot)?.connection.handle_path_mtu(now, tuple, mtu, seq);
        if believed { self.on_input(now, slot) } else { None }
    }

    /// Queues a connection for output and events after it received input.
    #[inline]
    pub(super) fn on_input(&mut self, now: Instant, slot: u32) -> Option<ConnectionHandle> {
        let entry = self.table.get_slot(slot)?;
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

    /// Registers a connection's changed addresses.
    #[cold]
    pub(super) fn note_change(&mut self, now: Instant, slot: u32) {
        self.register(now, slot);
    }

    /// Handles a segment whose four-tuple belongs to no open subflow.
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
            && let Some(entry) = self.table.get_slot(slot)
        {
            entry.connection.handle_half_open(now, tuple, segment, segment_size);
            return self.on_input(now, slot);
        }
        let redeemed = self.accept_cookie(now, tuple, segment, segment_size);
        if redeemed.is_none() {
            self.refuse(tuple, segment, REASON_MPTCP);
        }
        redeemed
    }

    /// Handles a segment for a subflow in TIME-WAIT.
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
            Verdict::Answer(segment) => self.push_reply(tuple, segment),
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

    /// Handles a SYN. `iss` is our initial sequence number if TIME-WAIT already chose one.
    fn handle_syn(
        &mut self,
        now: Instant,
        tuple: FourTuple,
        segment: &Segment,
        iss: Option<SeqNumber>,
    ) -> Option<ConnectionHandle> {
        if let Some(MpJoin::Syn { token, .. }) = asks_to_join(segment) {
            // A join selects its connection by token, not by port (RFC 8684 section 3.2).
            let slot = self.by_token.get(&token);
            let Some((slot, entry)) =
                slot.and_then(|slot| Some((slot, self.table.get_slot(slot)?)))
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
            return self.on_input(now, slot);
        }
        let Some(number) = self.listeners.at(tuple.local) else {
            self.refuse(tuple, segment, REASON_MPTCP);
            return None;
        };
        self.admit(now, number, tuple, segment, iss);
        None
    }

    /// Answers a segment that belongs to no connection with a RST (RFC 9293 section 3.10.7.1).
    pub(super) fn refuse(&mut self, tuple: FourTuple, segment: &Segment, reason: u8) {
        if !segment.flags.contains(Flags::RST) {
            self.push_reply(tuple, refusal(segment, reason));
        }
    }

    pub(super) fn push_reply(&mut self, tuple: FourTuple, segment: Segment) {
        let FourTuple { local, remote } = tuple;
        self.replies.push_back(Transmit { local, remote, segment, segment_size: None });
    }

    /// Assigns a four-tuple to a connection, or releases it if `place` is `None`. A four-tuple that belongs
    /// to another connection's subflow is not reassigned.
    pub(super) fn set_place(&mut self, slot: u32, tuple: FourTuple, place: Option<Place>) {
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
