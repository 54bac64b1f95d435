//! SYNs that were answered and whose third packet has not come (Linux's request sockets): as much of each as
//! makes its SYN/ACK again, and its connection once it comes about.
//!
//! The key and all other chance of a connection come from the stream of its number, of which nothing but that
//! number is kept.

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
use crate::config::{Config, FourTuple};
use crate::connection::{KeyDrawn, capable_answer};
use crate::secrets::{Keyed, Secrets};
use crate::subflow::{Answered, SYN_ACK_RETRIES, SynAnswer};

use ends::{Family, V4, V6};
use pool::Pool;
use record::{CHECKSUM, MULTIPATH, SynRecord};

pub(super) use record::LONGEST_WAIT;

/// Which SYN: the family of its addresses, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestId {
    V4(u32),
    V6(u32),
}

/// A SYN that was answered, or is to be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    /// The addresses and ports.
    pub(super) tuple: FourTuple,
    listener: u32,
    kept: SynRecord,
}

impl Request {
    /// That of a SYN; `number` is its connection's, `keys` how many keys were drawn for it.
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

    /// Whose it is.
    pub(super) fn listener(&self) -> u32 {
        self.listener
    }

    /// The number of its connection, when so many have been.
    pub(super) fn number(&self, made: u64) -> u64 {
        made - u64::from((made as u32).wrapping_sub(self.kept.number))
    }

    /// The key of its connection, from the stream of its number, which then stands behind it.
    pub(super) fn key(&self, stream: &mut RandomStream) -> Key {
        KeyDrawn::again(stream, self.kept.keys()).key
    }

    /// Its connection was to be one of MPTCP.
    pub(super) fn is_multipath(&self) -> bool {
        self.kept.has(MULTIPATH)
    }

    /// Our initial sequence number.
    pub(super) fn iss(&self) -> SeqNumber {
        self.kept.iss
    }

    /// A RST ends it.
    pub(super) fn is_reset_by(&self, segment: &Segment) -> bool {
        segment.seq == self.kept.peer.add(1)
    }

    /// A segment acknowledges our SYN/ACK.
    pub(super) fn is_answered_by(&self, segment: &Segment) -> bool {
        segment.flags.contains(Flags::ACK) && segment.ack == self.kept.iss.add(1)
    }

    /// What its subflow has to know of the SYN/ACKs.
    pub(super) fn answered(&self, now: Instant) -> Answered {
        Answered::At { sent_at: self.kept.sent_at(now), times: self.kept.answers() }
    }

    /// The SYN as far as it matters.
    pub(super) fn syn(&self) -> Segment {
        self.kept.syn(&self.tuple)
    }

    /// The SYN/ACK, with our key where MPTCP was offered.
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
            option,
            timestamp_offset: secrets.stamp_offset(&tuple),
            mss: config.mss_at(tuple.local.ip()),
        };
        answer.segment(now, config)
    }

    /// It has been answered as often as may be, or for as long, which is `patience`.
    pub(super) fn is_over(&self, now: Instant, patience: Duration) -> bool {
        self.kept.answers() > SYN_ACK_RETRIES || self.kept.waited(now) >= patience
    }
}

/// Every one of them.
#[derive(Debug)]
pub(super) struct Requests {
    v4: Pool<V4>,
    v6: Pool<V6>,
}

/// When one is due, as its listener has it.
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

    /// What waits between two addresses.
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

    /// Adds one, between addresses that have none.
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

    /// Those of one listener.
    pub(super) fn of_listener(&self, listener: u32) -> Vec<RequestId> {
        let v4 = self.v4.of_listener(listener).into_iter().map(RequestId::V4);
        v4.chain(self.v6.of_listener(listener).into_iter().map(RequestId::V6)).collect()
    }

    /// The SYN/ACK of one goes out now; it comes again after its time.
    pub(super) fn note_answer(&mut self, now: Instant, id: RequestId, listeners: &Listeners) {
        let (note, due) = (|kept: &mut SynRecord| kept.note_answer(now), due(listeners));
        match id {
            RequestId::V4(number) => self.v4.change(now, number, note, due),
            RequestId::V6(number) => self.v6.change(now, number, note, due),
        }
    }

    /// The one that is to be looked at first, and when.
    #[inline]
    fn first(&self) -> Option<(Instant, RequestId)> {
        let v4 = self.v4.first().map(|(at, number)| (at, RequestId::V4(number)));
        let v6 = self.v6.first().map(|(at, number)| (at, RequestId::V6(number)));
        v4.into_iter().chain(v6).min_by_key(|(at, _)| *at)
    }

    /// When the first of them is to be looked at; `FAR_FUTURE` without any.
    #[inline(always)]
    pub(super) fn wake(&self) -> Instant {
        self.v4.wake().min(self.v6.wake())
    }

    /// One whose time has come.
    pub(super) fn due(&self, now: Instant) -> Option<RequestId> {
        self.first().filter(|(at, _)| *at <= now).map(|(_, id)| id)
    }
}
