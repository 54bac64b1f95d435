//! Output of an endpoint: the segments, events and timeouts of all its connections.

use std::collections::VecDeque;
use std::num::NonZeroU16;

use anabranch_units::Instant;
use anabranch_wire::Segment;
use bytes::{Bytes, BytesMut};

use super::{ConnectionHandle, Endpoint};
use crate::connection::{Event, Transmit};
use anabranch_tcp::config::FourTuple;

use super::places::Place;

/// An empty queue with a capacity of at most this many elements keeps its memory.
const SMALL: usize = 64;

/// The addresses, connection and segment size of an outgoing segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// The addresses and ports of both ends.
    pub tuple: FourTuple,
    /// The connection that sends the segment. `None` if the segment answers a packet of no connection.
    pub connection: Option<ConnectionHandle>,
    /// The payload of each segment of a burst, in bytes. The last segment may be shorter. `None` means one
    /// ordinary segment. See [`Endpoint::poll_burst`].
    pub segment_size: Option<NonZeroU16>,
}

impl Endpoint {
    /// Returns the next segment to send. Call it until it returns `None`, after every input and after
    /// every change of a connection.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        self.poll_burst(now, 1)
    }

    /// Like [`Self::poll_transmit`], but writes into the caller's segment.
    #[inline]
    pub fn poll_transmit_into(&mut self, now: Instant, segment: &mut Segment) -> Option<Outgoing> {
        self.poll_burst_into(now, 1, segment)
    }

    /// Like [`Self::poll_transmit`], but returns up to `most` consecutive segments as one burst. The burst
    /// must be split into segments of `segment_size` bytes, by the network device (GSO, TSO) or by
    /// [`Segment::split`]. The resulting segments and the connection's state are the same as after separate
    /// calls of [`Self::poll_transmit`]. With `most` = 1, the two functions are equal.
    ///
    /// A burst consists of new data of one subflow under one mapping. The size of a burst is limited by the
    /// congestion window, the peer's window, and one socket buffer (1 ms at the pacing rate,
    /// `tcp_tso_autosize`). Only its last segment has PSH and FIN. The payload is a slice of the written
    /// data, or a copy if the data was written in several parts. [`Self::poll_gather`] avoids the copy.
    ///
    /// Segments with individual options are sent separately: retransmissions, probes, the first data with its
    /// `MP_CAPABLE`, and segments with SACK blocks. With DSS checksums, all segments are separate, because
    /// each needs its own mapping.
    ///
    /// ```
    /// use std::num::NonZeroU16;
    ///
    /// use anabranch_mptcp::path_manager::Candidate;
    /// use anabranch_mptcp::{Config, Endpoint, FourTuple};
    /// use anabranch_units::{Instant, Seed};
    ///
    /// let (here, there) = (([10, 0, 0, 1], 1024).into(), ([10, 0, 0, 2], 80).into());
    /// let first = Candidate { address_id: 0, local: here, remote: there, backup: false, rate: None };
    /// let now = Instant::ZERO;
    /// let mut client = Endpoint::new("client", Seed { seed: 1, run: 0 });
    /// let config = Config { candidates: vec![first], ..Config::default() };
    /// let handle = client.connect(now, config).expect("free addresses");
    /// let mut server = Endpoint::new("server", Seed { seed: 1, run: 0 });
    /// server.listen(there, Config::default()).expect("the address is free");
    ///
    /// // Both endpoints exchange segments until neither has one to send. Bursts are not split.
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

    /// Like [`Self::poll_burst`], but writes into the caller's segment.
    #[inline]
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

    /// Like [`Self::poll_burst_into`], for callers that write from several buffers (`writev`). The
    /// segment holds the first contiguous part of the payload. `rest` receives the following parts, in
    /// order.
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

    /// Returns the parts of a burst's payload that are not in its segment.
    fn rest_of(&self, out: &Outgoing) -> impl Iterator<Item = Bytes> {
        let of = out.connection.filter(|_| out.segment_size.is_some());
        let entry = of.and_then(|handle| self.table.get(handle));
        entry.into_iter().flat_map(|entry| entry.connection.rest_of_burst())
    }

    /// Like [`Self::poll_burst_into`], but does not add the parts of the payload after the first.
    #[inline]
    fn next_out(&mut self, now: Instant, most: u32, segment: &mut Segment) -> Option<Outgoing> {
        if !self.replies.is_empty() {
            return self.next_reply(segment);
        }
        while let Some(slot) = self.ready.front() {
            if let Some(entry) = self.table.get_slot(slot).filter(|entry| entry.ready) {
                let handle = ConnectionHandle { slot, generation: entry.generation };
                if let Some((&tuple, written)) = entry.connection.next_segment(now, most, segment) {
                    let segment_size = written.segment_size;
                    return Some(Outgoing { tuple, connection: Some(handle), segment_size });
                }
                // The connection has nothing more to send now.
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

    /// Returns the time at which [`Self::handle_timeout`] must be called next. Call it after
    /// [`Self::poll_transmit`] has returned `None`.
    #[inline]
    pub fn poll_timeout(&mut self) -> Option<Instant> {
        if self.ready.front().is_some() {
            self.set_wakes();
        }
        let others = self.time_wait.wake().min(self.requests.wake());
        Some(self.table.wake().min(others)).filter(|at| *at != Instant::FAR_FUTURE)
    }

    /// Updates the wake-up times of connections that may still have segments to send.
    #[cold]
    fn set_wakes(&mut self) {
        for place in 0..self.ready.len() {
            if let Some(slot) = self.ready.at(place)
                && let Some(entry) = self.table.get_slot(slot)
            {
                let wake = entry.connection.wake();
                self.table.set_wake(slot, wake);
            }
        }
    }

    /// Handles the expired timers of the connection whose timer was due first, and returns that connection.
    /// Call it until it returns `None`.
    #[inline]
    pub fn handle_timeout(&mut self, now: Instant) -> Option<ConnectionHandle> {
        while let Some((number, tuple)) = self.time_wait.pop_expired(now) {
            self.places.remove(&tuple, |place| place == Place::TimeWait { number });
        }
        while let Some(id) = self.requests.due(now) {
            self.repeat_answer(now, id);
        }
        let slot = self.table.first_due(now)?;
        let slot = slot as u32;
        let entry = self.table.get_slot(slot)?;
        entry.connection.handle_timeout(now);
        // The timer is set again after the connection has sent all its segments.
        self.table.set_wake(slot, Instant::FAR_FUTURE);
        self.on_input(now, slot)
    }

    /// Returns the next event of any connection. The last event of a connection is [`Event::Drained`]. The
    /// next call frees that connection; until then it can still be read. If the caller changes a connection
    /// directly, the resulting events appear after [`Self::poll_transmit`] has returned `None`.
    pub fn poll_event(&mut self) -> Option<(ConnectionHandle, Event)> {
        if let Some(spent) = self.spent.take() {
            self.remove(spent);
        }
        while let Some(&slot) = self.news.front() {
            let told = self.table.get_slot(slot).filter(|entry| entry.news).and_then(|entry| {
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
