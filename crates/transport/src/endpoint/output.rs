//! What an endpoint has to say, of all its connections: segments, news, and when it is to be woken.

use std::collections::VecDeque;
use std::num::NonZeroU16;

use anabranch_units::Instant;
use anabranch_wire::Segment;
use bytes::{Bytes, BytesMut};

use super::{ConnectionHandle, Endpoint};
use crate::config::FourTuple;
use crate::connection::{Event, Transmit};

use super::places::Place;

/// Queues of fewer entries keep the memory they have.
const SMALL: usize = 64;

/// Where a segment goes, and from whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Between these addresses.
    pub tuple: FourTuple,
    /// The connection that sends it; `None` for an answer that belongs to none.
    pub connection: Option<ConnectionHandle>,
    /// Of several segments written as one ([`Endpoint::poll_burst`]) the payload of each, of the last one at
    /// most, bytes; `None` is one segment.
    pub segment_size: Option<NonZeroU16>,
}

impl Endpoint {
    /// Output: the next segment to put on the wire. To be called until there is none, after everything that
    /// was handed in and after every connection that was driven.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        self.poll_burst(now, 1)
    }

    /// As [`Self::poll_transmit`], written over a segment the caller has.
    // Joined to its caller: most of a segment's way is within the connection.
    #[inline(always)]
    pub fn poll_transmit_into(&mut self, now: Instant, segment: &mut Segment) -> Option<Outgoing> {
        self.poll_burst_into(now, 1, segment)
    }

    /// As [`Self::poll_transmit`], of up to `most` segments that were to leave one behind the other, written as
    /// one: for a device that cuts them (GSO, TSO), or [`Segment::split`] by the `segment_size` that comes with
    /// it. Cut, they are the segments that as many calls of [`Self::poll_transmit`] would have returned, and the
    /// connection is in the state it would be in. `most` = 1 is that call.
    ///
    /// A burst is data that was not sent before, of one subflow: no more than the congestion window, the peer's
    /// window and one socket buffer have (a millisecond at the pacing rate, `tcp_tso_autosize`), all of it under
    /// one mapping; PSH and FIN stand on its last segment. Its payload is a slice of what was written, or a copy
    /// where that was written in several pieces ([`Self::poll_gather`] copies nothing). What differs from segment to
    /// segment leaves alone: retransmissions, probes, the first data with its `MP_CAPABLE`, whatever has SACK blocks;
    /// and everything where DSS checksums are in use, since each segment then has a mapping of its own.
    ///
    /// ```
    /// use std::num::NonZeroU16;
    ///
    /// use anabranch_transport::path_manager::Candidate;
    /// use anabranch_transport::{Config, Endpoint, FourTuple};
    /// use anabranch_units::{Instant, Seed};
    ///
    /// let (here, there) = (([10, 0, 0, 1], 1024).into(), ([10, 0, 0, 2], 80).into());
    /// let first = Candidate { address_id: 0, local: here, remote: there, backup: false, rate: None };
    /// let now = Instant::ZERO;
    /// let mut client = Endpoint::new("client", Seed { seed: 1, run: 0 });
    /// let config = Config { candidates: vec![first], ..Config::default() };
    /// let handle = client.connect(now, config).expect("free addresses");
    /// let mut server = Endpoint::new("server", Seed { seed: 1, run: 0 });
    /// server.listen(there, Config::default()).expect("nobody listens");
    ///
    /// // Whatever either says the other hears, super-segments as they are.
    /// let mut sizes = Vec::new();
    /// client.connection_mut(handle).write(now, vec![7; 20_000].into()).expect("there is room");
    /// loop {
    ///     let from_client = client.poll_burst(now, 40).map(|told| (told, &mut server));
    ///     let (told, to) = match from_client {
    ///         Some(found) => found,
    ///         None => match server.poll_burst(now, 40) {
    ///             Some(told) => (told, &mut client),
    ///             None => break,
    ///         },
    ///     };
    ///     sizes.extend(told.segment_size.map(|size| (told.segment.payload.len(), size.get())));
    ///     let tuple = FourTuple { local: told.remote, remote: told.local };
    ///     to.handle_merged(now, tuple, &told.segment, told.segment_size);
    /// }
    /// let handle = server.connections().next().expect("one").0;
    /// assert_eq!(server.connection(handle).readable(), 20_000);
    /// assert!(sizes.iter().any(|(length, size)| length > &usize::from(*size)));
    /// ```
    pub fn poll_burst(&mut self, now: Instant, most: u32) -> Option<Transmit> {
        let mut segment = Segment::default();
        let Outgoing { tuple, segment_size, .. } = self.poll_burst_into(now, most, &mut segment)?;
        Some(Transmit { local: tuple.local, remote: tuple.remote, segment, segment_size })
    }

    /// As [`Self::poll_burst`], written over a segment the caller has.
    #[inline(always)]
    pub fn poll_burst_into(
        &mut self,
        now: Instant,
        most: u32,
        segment: &mut Segment,
    ) -> Option<Outgoing> {
        if most > 1 {
            self.next_joined(now, most, segment)
        } else {
            self.next_out(now, most, segment)
        }
    }

    fn next_joined(&mut self, now: Instant, most: u32, segment: &mut Segment) -> Option<Outgoing> {
        let out = self.next_out(now, most, segment)?;
        let mut rest = self.rest_of(&out).peekable();
        if rest.peek().is_some() {
            let mut whole = BytesMut::from(segment.payload.as_ref());
            rest.for_each(|piece| whole.extend_from_slice(&piece));
            segment.payload = whole.freeze();
        }
        Some(out)
    }

    /// As [`Self::poll_burst_into`], for who writes from several places at once (`writev`): the segment has the
    /// payload as far as it lies together, and `rest` is made what follows behind it, in order.
    pub fn poll_gather(
        &mut self,
        now: Instant,
        most: u32,
        segment: &mut Segment,
        rest: &mut Vec<Bytes>,
    ) -> Option<Outgoing> {
        rest.clear();
        let out = self.next_out(now, most, segment)?;
        rest.extend(self.rest_of(&out));
        Some(out)
    }

    /// What of the payload of what was just written lies apart: of a burst alone anything does.
    fn rest_of(&self, out: &Outgoing) -> impl Iterator<Item = Bytes> {
        let of = out.connection.filter(|_| out.segment_size.is_some());
        let entry = of.and_then(|handle| self.table.get(handle));
        entry.into_iter().flat_map(|entry| entry.connection.rest_of_burst())
    }

    /// As [`Self::poll_burst_into`], without what lies apart.
    #[inline(always)]
    fn next_out(&mut self, now: Instant, most: u32, segment: &mut Segment) -> Option<Outgoing> {
        if !self.replies.is_empty() {
            return self.next_reply(segment);
        }
        while let Some(slot) = self.ready.front() {
            if let Some(entry) = self.table.slot(slot).filter(|entry| entry.ready) {
                let handle = ConnectionHandle { slot, generation: entry.generation };
                if let Some((&tuple, written)) = entry.connection.next_segment(now, most, segment) {
                    let segment_size = written.segment_size;
                    return Some(Outgoing { tuple, connection: Some(handle), segment_size });
                }
                // It has said all it has to say for now.
                entry.ready = false;
                let wake = entry.connection.wake();
                let rests = wake == Instant::FAR_FUTURE;
                if entry.has_untold(rests) {
                    entry.news = true;
                    self.news.push_back(slot);
                }
                let changed = entry.has_changed();
                self.table.set_wake(slot, wake);
                if changed {
                    self.note_change(now, slot);
                }
            }
            self.ready.pop();
        }
        self.lent = None;
        if !self.also_lent.is_empty() {
            self.also_lent = Vec::new();
        }
        None
    }

    #[cold]
    fn next_reply(&mut self, segment: &mut Segment) -> Option<Outgoing> {
        let Transmit { local, remote, segment: reply, segment_size } = self.replies.pop_front()?;
        if self.replies.is_empty() && self.replies.capacity() > SMALL {
            self.replies = VecDeque::new();
        }
        *segment = reply;
        Some(Outgoing { tuple: FourTuple { local, remote }, connection: None, segment_size })
    }

    /// When [`Self::handle_timeout`] is to be called; to be asked once [`Self::poll_transmit`] has no more
    /// to give.
    #[inline(always)]
    pub fn poll_timeout(&mut self) -> Option<Instant> {
        if self.ready.front().is_some() {
            self.set_wakes();
        }
        let others = self.time_wait.wake().min(self.requests.wake());
        Some(self.table.wake().min(others)).filter(|at| *at != Instant::FAR_FUTURE)
    }

    /// Sets the timers of connections that have not been asked for their segments yet.
    #[cold]
    fn set_wakes(&mut self) {
        for place in 0..self.ready.len() {
            if let Some(slot) = self.ready.at(place)
                && let Some(entry) = self.table.slot(slot)
            {
                let wake = entry.connection.wake();
                self.table.set_wake(slot, wake);
            }
        }
    }

    /// Time has come: fires what is due of one connection, of several the one that waits longest, and tells
    /// which it was. To be called until nothing is due.
    #[inline]
    pub fn handle_timeout(&mut self, now: Instant) -> Option<ConnectionHandle> {
        while let Some((number, tuple)) = self.time_wait.expire(now) {
            self.places.remove(&tuple, |place| place == Place::TimeWait { number });
        }
        while let Some(id) = self.requests.due(now) {
            self.repeat_answer(now, id);
        }
        let slot = self.table.first_due(now)?;
        let slot = slot as u32;
        let entry = self.table.slot(slot)?;
        entry.connection.handle_timeout(now);
        // It is asked anew once it has said what it has to say.
        self.table.set_wake(slot, Instant::FAR_FUTURE);
        self.after_input(now, slot)
    }

    /// The next piece of news of any connection. A connection's last is [`Event::Drained`]: it is freed by the
    /// call after that, and may be looked at until then. What a call of a connection brings about is news once
    /// [`Self::poll_transmit`] has come to its end.
    pub fn poll_event(&mut self) -> Option<(ConnectionHandle, Event)> {
        if let Some(spent) = self.spent.take() {
            self.remove(spent);
        }
        while let Some(&slot) = self.news.front() {
            let told = self.table.slot(slot).filter(|entry| entry.news).and_then(|entry| {
                let handle = ConnectionHandle { slot, generation: entry.generation };
                if let Some(event) = entry.connection.poll_event() {
                    return Some((handle, event));
                }
                entry.news = false;
                entry.connection.is_drained().then_some((handle, Event::Drained))
            });
            let last = matches!(told, Some((_, Event::Drained)));
            if last || told.is_none() {
                self.news.pop_front();
            }
            let Some((handle, _)) = told else { continue };
            if last {
                self.spent = Some(handle);
            }
            return told;
        }
        if self.news.capacity() > SMALL {
            self.news = VecDeque::new();
        }
        None
    }
}
