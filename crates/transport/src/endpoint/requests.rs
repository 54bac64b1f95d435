//! SYNs that were answered and whose third packet has not come (Linux's request sockets): as much of each as
//! makes its SYN/ACK again, and its connection once it comes about.
//!
//! The key and all other chance of a connection come from the stream of its number, of which nothing but that
//! number is kept.

use std::hash::BuildHasher;
use std::num::NonZeroU8;

use anabranch_units::{Duration, Instant, RandomStream, SeqNumber};
use anabranch_wire::crypto::Key;
use anabranch_wire::{CapableKeys, Flags, MpCapable, MptcpOption, Segment, Timestamps};
use hashbrown::HashTable;

use super::timed::Timed;
use crate::config::{Config, FourTuple};
use crate::connection::{KeyDrawn, capable_answer, understood};
use crate::secrets::{Keyed, Packed, Secrets};
use crate::subflow::{Answered, SYN_ACK_RETRIES, SynAnswer, accepts_ecn, timestamp_clock};

/// What a SYN had and its answer takes up, a bit each.
const SACK: u8 = 1;
const STAMPS: u8 = 1 << 1;
const ECN: u8 = 1 << 2;
/// MPTCP, with flags A and C of its option.
const MULTIPATH: u8 = 1 << 3;
const CHECKSUM: u8 = 1 << 4;
const DENIES_JOIN: u8 = 1 << 5;
/// A window scale that was not offered; the highest one is 14.
const NO_SCALE: u8 = u8::MAX;
/// The segment size of who names none (RFC 9293 section 3.7.1).
const MSS_UNNAMED: u16 = 536;
/// Tables of fewer entries keep the memory they have.
const SMALL: usize = 64;

/// A SYN that was answered, or is to be.
#[derive(Debug)]
pub(super) struct Request {
    tuple: Packed,
    sent_at: Instant,
    /// The clock of timestamps when the SYN came, ms.
    came_at: u32,
    pub(super) listener: u32,
    /// Of the connection that it may become: how many there were before, but for the highest bits.
    number: u32,
    /// Our initial sequence number, and the peer's.
    iss: SeqNumber,
    peer: SeqNumber,
    stamp: u32,
    mss: u16,
    window: u16,
    scale: u8,
    /// Bits as above.
    flags: u8,
    /// Keys that were drawn; the last one is the connection's.
    keys: NonZeroU8,
    /// SYN/ACKs that went out.
    answers: u8,
}

impl Request {
    /// That of a SYN; `number` is its connection's, `keys` how many keys were drawn for it.
    pub(super) fn new(
        now: Instant,
        tuple: &FourTuple,
        syn: &Segment,
        config: &Config,
        listener: u32,
        (number, keys): (u64, u32),
        iss: SeqNumber,
    ) -> Self {
        let offer = understood(syn).filter(|_| config.multipath);
        let bits = [
            (syn.sack_permitted, SACK),
            (syn.timestamps.is_some(), STAMPS),
            (accepts_ecn(config.ecn, syn), ECN),
            (offer.is_some(), MULTIPATH),
            (offer.is_some_and(|it| it.checksum_required), CHECKSUM),
            (offer.is_some_and(|it| it.deny_join_initial_address), DENIES_JOIN),
        ];
        Self {
            tuple: tuple.into(),
            sent_at: now,
            came_at: timestamp_clock(now),
            listener,
            number: number as u32,
            iss,
            peer: syn.seq,
            stamp: syn.timestamps.map_or(0, |stamps| stamps.value),
            mss: syn.mss.unwrap_or(MSS_UNNAMED),
            window: syn.window,
            scale: syn.window_scale.unwrap_or(NO_SCALE),
            flags: bits.iter().filter(|(has, _)| *has).map(|(_, bit)| bit).sum(),
            keys: NonZeroU8::new(keys as u8).unwrap_or(NonZeroU8::MIN),
            answers: 0,
        }
    }

    fn has(&self, bit: u8) -> bool {
        self.flags & bit != 0
    }

    /// The addresses and ports.
    pub(super) fn tuple(&self) -> FourTuple {
        FourTuple::from(&self.tuple)
    }

    /// The number of its connection, when so many have been.
    pub(super) fn number(&self, made: u64) -> u64 {
        made - u64::from((made as u32).wrapping_sub(self.number))
    }

    /// The key of its connection, from the stream of its number, which then stands behind it.
    pub(super) fn key(&self, stream: &mut RandomStream) -> Key {
        KeyDrawn::again(stream, u32::from(self.keys.get())).key
    }

    /// Its connection was to be one of MPTCP.
    pub(super) fn is_multipath(&self) -> bool {
        self.has(MULTIPATH)
    }

    /// Our initial sequence number.
    pub(super) fn iss(&self) -> SeqNumber {
        self.iss
    }

    /// A RST ends it.
    pub(super) fn is_reset_by(&self, segment: &Segment) -> bool {
        segment.seq == self.peer.add(1)
    }

    /// A segment acknowledges our SYN/ACK.
    pub(super) fn is_answered_by(&self, segment: &Segment) -> bool {
        segment.flags.contains(Flags::ACK) && segment.ack == self.iss.add(1)
    }

    /// What its subflow has to know of the SYN/ACKs.
    pub(super) fn answered(&self) -> Answered {
        Answered::At { sent_at: self.sent_at, times: u32::from(self.answers) }
    }

    /// The SYN as far as it matters.
    pub(super) fn syn(&self) -> Segment {
        let tuple = self.tuple();
        let asks = if self.has(ECN) { Flags::ECE.with(Flags::CWR) } else { Flags::default() };
        let offer = MpCapable {
            checksum_required: self.has(CHECKSUM),
            deny_join_initial_address: self.has(DENIES_JOIN),
            ..MpCapable::with_keys(CapableKeys::None)
        };
        let offer = self.has(MULTIPATH).then_some(MptcpOption::Capable(offer));
        Segment {
            source_port: tuple.remote.port(),
            destination_port: tuple.local.port(),
            seq: self.peer,
            flags: Flags::SYN.with(asks),
            window: self.window,
            mss: Some(self.mss),
            window_scale: Some(self.scale).filter(|scale| *scale != NO_SCALE),
            sack_permitted: self.has(SACK),
            timestamps: self.has(STAMPS).then_some(Timestamps { value: self.stamp, echo: 0 }),
            mptcp: offer.into_iter().collect(),
            ..Segment::default()
        }
    }

    /// The SYN/ACK, with our key where MPTCP was offered.
    fn answer(&self, now: Instant, config: &Config, secrets: &Secrets, key: u64) -> Segment {
        let (syn, tuple) = (self.syn(), self.tuple());
        let option = self.is_multipath().then(|| capable_answer(config, key, self.has(CHECKSUM)));
        let answer = SynAnswer {
            syn: &syn,
            iss: self.iss,
            option,
            timestamp_offset: secrets.stamp_offset(&tuple),
            mss: config.mss_at(tuple.local.ip()),
        };
        answer.segment(now, config)
    }
}

/// Every one of them.
#[derive(Debug)]
pub(super) struct Requests {
    records: Timed<Request>,
    /// Their numbers, by addresses and ports.
    places: HashTable<u32>,
    keyed: Keyed,
}

impl Requests {
    pub(super) fn new(keyed: Keyed) -> Self {
        Self { records: Timed::default(), places: HashTable::new(), keyed }
    }

    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    /// The number here of what waits between two addresses.
    pub(super) fn find(&self, tuple: &FourTuple) -> Option<u32> {
        if self.places.is_empty() {
            return None;
        }
        let key = Packed::from(tuple);
        let is =
            |number: &u32| self.records.get(*number as usize).is_some_and(|it| it.tuple == key);
        self.places.find(self.keyed.hash_one(key), is).copied()
    }

    pub(super) fn get(&self, number: u32) -> Option<&Request> {
        self.records.get(number as usize)
    }

    /// Adds one, between addresses that have none; its number here.
    pub(super) fn insert(&mut self, request: Request) -> u32 {
        let hash = self.keyed.hash_one(request.tuple);
        let number = self.records.insert(request) as u32;
        let Self { records, places, keyed } = self;
        places.insert_unique(hash, number, |number| hash_of(records, *keyed, *number));
        number
    }

    pub(super) fn remove(&mut self, number: u32) -> Option<Request> {
        let hash = hash_of(&self.records, self.keyed, number);
        if let Ok(entry) = self.places.find_entry(hash, |known| *known == number) {
            entry.remove();
        }
        let request = self.records.remove(number as usize)?;
        let Self { records, places, keyed } = self;
        let (len, capacity) = (places.len(), places.capacity());
        if len == 0 {
            *places = HashTable::new();
        } else if capacity > SMALL && len < capacity / 8 {
            places.shrink_to(2 * len, |number| hash_of(records, *keyed, *number));
        }
        Some(request)
    }

    /// Those of one listener.
    pub(super) fn of_listener(&self, listener: u32) -> Vec<u32> {
        let own = self.records.iter().filter(|(_, request)| request.listener == listener);
        own.map(|(number, _)| number as u32).collect()
    }

    /// Writes the SYN/ACK of one; it comes again after its time, or the request is over after `patience`.
    pub(super) fn answer(
        &mut self,
        now: Instant,
        number: u32,
        config: &Config,
        patience: Duration,
        secrets: &Secrets,
        key: u64,
    ) -> Option<(FourTuple, Segment)> {
        let request = self.records.get_mut(number as usize)?;
        let again = SynAnswer::due_again(&config.host, now, u32::from(request.answers));
        let waited = timestamp_clock(now).wrapping_sub(request.came_at);
        let left = patience.saturating_sub(Duration::from_millis(u64::from(waited)));
        request.sent_at = now;
        request.answers = request.answers.saturating_add(1);
        let answer = request.answer(now, config, secrets, key);
        let tuple = request.tuple();
        self.records.set_wake(number as usize, again.min(now + left));
        Some((tuple, answer))
    }

    /// One has been answered as often as may be, or for as long.
    pub(super) fn is_over(&self, now: Instant, number: u32, patience: Duration) -> bool {
        self.get(number).is_some_and(|request| {
            let waited = timestamp_clock(now).wrapping_sub(request.came_at);
            u32::from(request.answers) > SYN_ACK_RETRIES
                || Duration::from_millis(u64::from(waited)) >= patience
        })
    }

    /// When the first of them is to be looked at.
    #[inline]
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.records.first().map(|(at, _)| at)
    }

    /// One whose time has come.
    pub(super) fn due(&self, now: Instant) -> Option<u32> {
        let (_, number) = self.records.first().filter(|(at, _)| *at <= now)?;
        Some(number as u32)
    }
}

fn hash_of(records: &Timed<Request>, keyed: Keyed, number: u32) -> u64 {
    records.get(number as usize).map_or(0, |request| keyed.hash_one(request.tuple))
}
