//! Half-open connections (Linux's request sockets). A record has the values that are needed to repeat the
//! SYN/ACK and to create the connection.
//!
//! A connection's key and other random values are drawn from the random stream with the connection's number.
//! Only that number is stored.

mod ends;
mod index;
mod locals;
mod pool;
mod record;
mod wakes;

use anabranch_units::{Duration, Instant, RandomStream, SeqNumber};
use anabranch_wire::crypto::Key;
use anabranch_wire::{Flags, Segment};

use super::listen::Listeners;
use crate::config::Config;
use crate::connection::{KeyDrawn, capable_answer};
use crate::secrets::{Keyed, Secrets};
use anabranch_tcp::config::FourTuple;
use anabranch_tcp::{Answered, SYN_ACK_RETRIES, SynAnswer};

use ends::{Family, V4, V6};
use pool::Pool;
use record::{CHECKSUM, MULTIPATH, SynRecord};

pub(super) use record::LONGEST_WAIT;

/// The identifier of a record: the address family and a number within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestId {
    V4(u32),
    V6(u32),
}

/// A half-open connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    /// The addresses and ports.
    pub(super) tuple: FourTuple,
    listener: u32,
    kept: SynRecord,
}

impl Request {
    /// Creates the record of a SYN. `drawn` is the number of the connection and the number of keys drawn for
    /// it.
    pub(super) fn new(
        now: Instant,
        tuple: FourTuple,
        syn: &Segment,
        config: &Config,
        listener: u32,
        drawn: (u64, u32),
        iss: SeqNumber,
    ) -> Self {
        Self { tuple, listener, kept: SynRecord::new(now, syn, config, drawn, iss) }
    }

    /// Returns the number of the listener.
    pub(super) fn listener(&self) -> u32 {
        self.listener
    }

    /// Returns the full number of the connection, of which the record stores 32 bits. `made` is the number of
    /// connections created so far.
    pub(super) fn number(&self, made: u64) -> u64 {
        made - u64::from((made as u32).wrapping_sub(self.kept.number))
    }

    /// Draws the connection's key again from its random stream. The stream is then positioned after the key.
    pub(super) fn key(&self, stream: &mut RandomStream) -> Key {
        KeyDrawn::again(stream, self.kept.keys()).key
    }

    /// Returns whether the connection uses MPTCP.
    pub(super) fn is_multipath(&self) -> bool {
        self.kept.has(MULTIPATH)
    }

    /// Returns our initial sequence number.
    pub(super) fn iss(&self) -> SeqNumber {
        self.kept.iss
    }

    /// Returns whether a RST has the expected sequence number and therefore ends the request.
    pub(super) fn is_reset_by(&self, segment: &Segment) -> bool {
        segment.seq == self.kept.peer.add(1)
    }

    /// Returns whether a segment acknowledges our SYN/ACK.
    pub(super) fn is_answered_by(&self, segment: &Segment) -> bool {
        segment.flags.contains(Flags::ACK) && segment.ack == self.kept.iss.add(1)
    }

    /// Returns the time of the last SYN/ACK and the number of SYN/ACKs, for the new subflow.
    pub(super) fn answered(&self, now: Instant) -> Answered {
        Answered::At { sent_at: self.kept.sent_at(now), times: self.kept.answers() }
    }

    /// Returns the parts of the SYN that the handshake still needs.
    pub(super) fn syn(&self) -> Segment {
        self.kept.syn(&self.tuple)
    }

    /// Builds the SYN/ACK. The SYN/ACK carries our key if the SYN offered MPTCP.
    pub(super) fn answer(
        &self,
        now: Instant,
        config: &Config,
        secrets: &Secrets,
        key: u64,
    ) -> Segment {
        let (syn, tuple) = (self.syn(), self.tuple);
        let checksum = self.kept.has(CHECKSUM);
        let option = self.is_multipath().then(|| capable_answer(config, key, checksum));
        let answer = SynAnswer {
            syn: &syn,
            iss: self.kept.iss,
            timestamp_offset: secrets.stamp_offset(&tuple),
            mss: config.mss_at(tuple.local.ip()),
        };
        let mut segment = answer.segment(now, &config.tcp());
        segment.mptcp.extend(option);
        segment
    }

    /// Returns whether the wait is over: the SYN/ACK was repeated often enough, or `patience` has passed.
    pub(super) fn is_over(&self, now: Instant, patience: Duration) -> bool {
        self.kept.answers() > SYN_ACK_RETRIES || self.kept.waited(now) >= patience
    }
}

/// All half-open connections.
#[derive(Debug)]
pub(super) struct Requests {
    v4: Pool<V4>,
    v6: Pool<V6>,
}

/// Returns a function that computes the due time of a record from its listener's configuration.
fn due(listeners: &Listeners) -> impl Fn(u32, &SynRecord, Instant) -> Instant {
    |listener, kept, seen| {
        let told = listeners.patience(listener);
        told.map_or(Instant::FAR_FUTURE, |(config, patience)| kept.due(config, patience, seen))
    }
}

impl Requests {
    pub(super) fn new(keyed: Keyed) -> Self {
        Self { v4: Pool::new(keyed), v6: Pool::new(keyed) }
    }

    pub(super) fn len(&self) -> usize {
        self.v4.len() + self.v6.len()
    }

    /// Finds the record of a four-tuple.
    pub(super) fn find(&self, tuple: &FourTuple) -> Option<RequestId> {
        if self.len() == 0 {
            return None;
        }
        match Family::from(tuple) {
            Family::V4(ends) => self.v4.find(&ends).map(RequestId::V4),
            Family::V6(ends) => self.v6.find(&ends).map(RequestId::V6),
        }
    }

    pub(super) fn get(&self, id: RequestId) -> Option<Request> {
        match id {
            RequestId::V4(number) => {
                let (ends, listener, kept) = self.v4.get(number)?;
                Some(Request { tuple: ends.into(), listener, kept })
            }
            RequestId::V6(number) => {
                let (ends, listener, kept) = self.v6.get(number)?;
                Some(Request { tuple: ends.into(), listener, kept })
            }
        }
    }

    /// Adds a record. There must be none with its four-tuple.
    pub(super) fn insert(
        &mut self,
        now: Instant,
        request: &Request,
        listeners: &Listeners,
    ) -> RequestId {
        let Request { tuple, listener, kept } = *request;
        let due = due(listeners);
        match Family::from(&tuple) {
            Family::V4(ends) => RequestId::V4(self.v4.insert(now, &ends, listener, kept, due)),
            Family::V6(ends) => RequestId::V6(self.v6.insert(now, &ends, listener, kept, due)),
        }
    }

    pub(super) fn remove(&mut self, id: RequestId, listeners: &Listeners) {
        match id {
            RequestId::V4(number) => self.v4.remove(number, due(listeners)),
            RequestId::V6(number) => self.v6.remove(number, due(listeners)),
        };
    }

    /// Returns the records of one listener.
    pub(super) fn of_listener(&self, listener: u32) -> Vec<RequestId> {
        let v4 = self.v4.of_listener(listener).into_iter().map(RequestId::V4);
        v4.chain(self.v6.of_listener(listener).into_iter().map(RequestId::V6)).collect()
    }

    /// Counts a sent SYN/ACK and schedules its repetition.
    pub(super) fn note_answer(&mut self, now: Instant, id: RequestId, listeners: &Listeners) {
        let (note, due) = (|kept: &mut SynRecord| kept.note_answer(now), due(listeners));
        match id {
            RequestId::V4(number) => self.v4.update(now, number, note, due),
            RequestId::V6(number) => self.v6.update(now, number, note, due),
        }
    }

    /// Returns the record that is due first, and its due time.
    #[inline]
    fn first(&self) -> Option<(Instant, RequestId)> {
        let v4 = self.v4.first().map(|(at, number)| (at, RequestId::V4(number)));
        let v6 = self.v6.first().map(|(at, number)| (at, RequestId::V6(number)));
        v4.into_iter().chain(v6).min_by_key(|(at, _)| *at)
    }

    /// Returns the due time of the first record. `FAR_FUTURE` if there are none.
    #[inline]
    pub(super) fn wake(&self) -> Instant {
        self.v4.wake().min(self.v6.wake())
    }

    /// Returns a record whose due time has passed.
    pub(super) fn due(&self, now: Instant) -> Option<RequestId> {
        self.first().filter(|(at, _)| *at <= now).map(|(_, id)| id)
    }
}
