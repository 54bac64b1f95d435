//! What is kept of one SYN: its addresses, of IPv4 in 12 bytes and of IPv6 in 40, and 40 bytes besides.
//!
//! Nothing is kept that can be found out again: keys come from the stream of the connection's number, the moment at
//! which the SYN/ACK comes again from the one at which the last was sent.

use anabranch_units::{Duration, Instant, SeqNumber};
use anabranch_wire::{CapableKeys, Flags, MpCapable, MptcpOption, Segment, Timestamps};

use crate::config::{Config, FourTuple};
use crate::connection::understood;
use crate::secrets::{Keyed, Packed};
use crate::subflow::{SynAnswer, accepts_ecn, timestamp_clock};

/// What a SYN had and its answer takes up, a bit each.
const SACK: u16 = 1;
const STAMPS: u16 = 1 << 1;
const ECN: u16 = 1 << 2;
/// MPTCP, with flags A and C of its option.
pub(super) const MULTIPATH: u16 = 1 << 3;
pub(super) const CHECKSUM: u16 = 1 << 4;
const DENIES_JOIN: u16 = 1 << 5;
/// Where the window scale stands, in four bits: the highest is 14 (RFC 7323 section 2.3), and 15 is none.
const SCALE: u16 = 6;
const NO_SCALE: u16 = 15;
/// Where it stands how many keys were drawn, in four bits: at most eight, and without any there is no SYN.
const KEYS: u16 = 10;
const FOUR_BITS: u16 = 15;
/// The segment size of who names none (RFC 9293 section 3.7.1).
const MSS_UNNAMED: u16 = 536;

/// A SYN that was answered, or is to be; of its addresses nothing. Times and numbers are 32 bits wide, and so have no
/// gaps before them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    /// When the last SYN/ACK went out: nanoseconds, the low half first.
    sent_at: [u32; 2],
    /// The clock of timestamps when the SYN came, ms.
    came_at: u32,
    pub(super) listener: u32,
    /// Of the connection that it may become: how many there were before, but for the highest bits.
    pub(super) number: u32,
    /// Our initial sequence number, and the peer's.
    pub(super) iss: SeqNumber,
    pub(super) peer: SeqNumber,
    stamp: u32,
    mss: u16,
    window: u16,
    /// Bits as above.
    said: u16,
    /// SYN/ACKs that went out.
    pub(super) answers: u8,
}

impl Kept {
    /// In the place of a record that has gone.
    pub(super) const NOTHING: Self = Self {
        sent_at: [0; 2],
        came_at: 0,
        listener: 0,
        number: 0,
        iss: SeqNumber(0),
        peer: SeqNumber(0),
        stamp: 0,
        mss: 0,
        window: 0,
        said: 0,
        answers: 0,
    };

    /// That of a SYN; `number` is its connection's, `keys` how many keys were drawn for it.
    pub(super) fn new(
        now: Instant,
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
        let bits: u16 = bits.iter().filter(|(has, _)| *has).map(|(_, bit)| bit).sum();
        let scale = syn.window_scale.map_or(NO_SCALE, |scale| u16::from(scale).min(NO_SCALE - 1));
        let keys = (keys as u16).clamp(1, FOUR_BITS);
        let mut kept = Self {
            came_at: timestamp_clock(now),
            listener,
            number: number as u32,
            iss,
            peer: syn.seq,
            stamp: syn.timestamps.map_or(0, |stamps| stamps.value),
            mss: syn.mss.unwrap_or(MSS_UNNAMED),
            window: syn.window,
            said: bits | scale << SCALE | keys << KEYS,
            ..Self::NOTHING
        };
        kept.set_sent_at(now);
        kept
    }

    /// There is a SYN here.
    pub(super) fn exists(&self) -> bool {
        self.said >> KEYS != 0
    }

    pub(super) fn has(&self, bit: u16) -> bool {
        self.said & bit != 0
    }

    /// Keys that were drawn; the last one is the connection's.
    pub(super) fn keys(&self) -> u32 {
        u32::from(self.said >> KEYS)
    }

    pub(super) fn sent_at(&self) -> Instant {
        let [low, high] = self.sent_at.map(u64::from);
        Instant::from_nanos(high << 32 | low)
    }

    fn set_sent_at(&mut self, at: Instant) {
        let nanos = at.as_nanos();
        self.sent_at = [nanos as u32, (nanos >> 32) as u32];
    }

    /// A SYN/ACK goes out now.
    pub(super) fn note_answer(&mut self, now: Instant) {
        self.set_sent_at(now);
        self.answers = self.answers.saturating_add(1);
    }

    /// How long it has been waiting, in whole milliseconds.
    pub(super) fn waited(&self, now: Instant) -> Duration {
        Duration::from_millis(u64::from(timestamp_clock(now).wrapping_sub(self.came_at)))
    }

    /// When it is to be looked at again: its SYN/ACK comes again, or its time is over, which is `patience`. Never,
    /// where none has gone out yet.
    pub(super) fn due(&self, config: &Config, patience: Duration) -> Instant {
        let Some(before) = self.answers.checked_sub(1).filter(|_| self.exists()) else {
            return Instant::FAR_FUTURE;
        };
        let sent_at = self.sent_at();
        let again = SynAnswer::due_again(&config.host, sent_at, u32::from(before));
        again.min(sent_at + patience.saturating_sub(self.waited(sent_at)))
    }

    /// The SYN as far as it matters.
    pub(super) fn syn(&self, tuple: &FourTuple) -> Segment {
        let asks = if self.has(ECN) { Flags::ECE.with(Flags::CWR) } else { Flags::default() };
        let offer = MpCapable {
            checksum_required: self.has(CHECKSUM),
            deny_join_initial_address: self.has(DENIES_JOIN),
            ..MpCapable::with_keys(CapableKeys::None)
        };
        let offer = self.has(MULTIPATH).then_some(MptcpOption::Capable(offer));
        let scale = self.said >> SCALE & FOUR_BITS;
        Segment {
            source_port: tuple.remote.port(),
            destination_port: tuple.local.port(),
            seq: self.peer,
            flags: Flags::SYN.with(asks),
            window: self.window,
            mss: Some(self.mss),
            window_scale: (scale != NO_SCALE).then_some(scale as u8),
            sack_permitted: self.has(SACK),
            timestamps: self.has(STAMPS).then_some(Timestamps { value: self.stamp, echo: 0 }),
            mptcp: offer.into_iter().collect(),
            ..Segment::default()
        }
    }
}

/// Addresses and ports, as small as their family lets them be.
pub(super) trait Ends: Copy + Eq + std::fmt::Debug {
    fn keyed_hash(&self, keyed: Keyed) -> u64;
}

/// Of IPv4: our address, the peer's, both ports.
pub(super) type V4 = [u32; 3];

/// Of IPv6, as [`Packed`] has them, in halves.
pub(super) type V6 = [u32; 10];

impl Ends for V4 {
    fn keyed_hash(&self, keyed: Keyed) -> u64 {
        let [own, peer, ports] = self.map(u64::from);
        keyed.hash([own << 32 | peer, ports])
    }
}

impl Ends for V6 {
    fn keyed_hash(&self, keyed: Keyed) -> u64 {
        keyed.hash(words(self))
    }
}

fn words(halves: &V6) -> [u64; 5] {
    std::array::from_fn(|at| u64::from(halves[2 * at]) << 32 | u64::from(halves[2 * at + 1]))
}

/// What an address of IPv4 has before it, mapped into IPv6.
const MAPPED: u64 = 0xffff;

/// Addresses and ports of either family.
#[derive(Clone, Copy, Debug)]
pub(super) enum Family {
    V4(V4),
    V6(V6),
}

impl From<&FourTuple> for Family {
    fn from(tuple: &FourTuple) -> Self {
        let Packed(packed) = Packed::from(tuple);
        let mapped = |high: u64, low: u64| high == 0 && low >> 32 == MAPPED;
        let [own_high, own, peer_high, peer, rest] = packed;
        if mapped(own_high, own) && mapped(peer_high, peer) && rest >> 32 == 0 {
            return Self::V4([own as u32, peer as u32, rest as u32]);
        }
        let half = |at: usize| packed[at / 2] >> (32 * (1 - at % 2)) & u64::from(u32::MAX);
        Self::V6(std::array::from_fn(|at| half(at) as u32))
    }
}

impl From<Family> for FourTuple {
    fn from(ends: Family) -> Self {
        let packed = match ends {
            Family::V4([own, peer, ports]) => {
                let mapped = |ip: u32| MAPPED << 32 | u64::from(ip);
                [0, mapped(own), 0, mapped(peer), u64::from(ports)]
            }
            Family::V6(halves) => words(&halves),
        };
        Self::from(&Packed(packed))
    }
}
