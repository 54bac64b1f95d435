//! What is kept of one SYN: the peer's address, of IPv4 in 4 bytes and of IPv6 in 16, and 36 bytes besides.
//!
//! Nothing is kept that can be found out again: keys come from the stream of the connection's number, the moment at
//! which the SYN/ACK comes again from the one at which the last was sent. Our own address has a number, since many
//! records share it. Times have as many bits as the life of a record takes.

use anabranch_units::{Duration, Instant, SeqNumber};
use anabranch_wire::{CapableKeys, Flags, MpCapable, MptcpOption, Segment};

use crate::config::{Config, FourTuple};
use crate::connection::understood;
use crate::subflow::{REMEMBERED_BITS, SynAnswer, accepts_ecn, recall, remember};

/// The flags of what a SYN had and its answer takes up, a bit each, behind those of its [options](remember).
const ECN: u16 = 1 << REMEMBERED_BITS;
/// MPTCP, with flags A and C of its option.
pub(super) const MULTIPATH: u16 = 1 << (REMEMBERED_BITS + 1);
pub(super) const CHECKSUM: u16 = 1 << (REMEMBERED_BITS + 2);
const DENIES_JOIN: u16 = 1 << (REMEMBERED_BITS + 3);
/// The place of the number of keys that were drawn, the last four bits: at most eight, and without any there is no SYN.
const KEYS: u32 = REMEMBERED_BITS + 4;
const MOST_KEYS: u16 = 15;
/// The segment size of who names none (RFC 9293 section 3.7.1).
const MSS_UNNAMED: u16 = 536;

/// How [`SynRecord::when`] is divided, from its lowest bit on: how many SYN/ACKs went out; for how long, in whole
/// milliseconds, the SYN had waited when the last did; when that was, in nanoseconds, but for the highest bits.
const ANSWERS: u32 = 4;
const WAITED: u32 = 18;
const SENT: u32 = u64::BITS - ANSWERS - WAITED;
/// The longest that can be told that a SYN has waited: 262 s.
pub(in crate::endpoint) const LONGEST_WAIT: Duration = Duration::from_millis(ones(WAITED));

const fn ones(bits: u32) -> u64 {
    (1 << bits) - 1
}

/// Whole milliseconds since the beginning.
fn millis(at: Instant) -> u64 {
    at.as_nanos() / 1_000_000
}

/// A SYN that was answered, or is to be; of its addresses the peer's port, and the number of our own. All is at most 32
/// bits wide, and so has no gaps before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct SynRecord {
    /// Divided as above, the low half first.
    when: [u32; 2],
    /// The number of our own address.
    pub(super) own: u32,
    /// Of the connection that it may become: how many there were before, but for the highest bits.
    pub(super) number: u32,
    /// Our initial sequence number, and the peer's.
    pub(super) iss: SeqNumber,
    pub(super) peer: SeqNumber,
    stamp: u32,
    pub(super) port: u16,
    mss: u16,
    window: u16,
    /// Divided as above, the options' bits first.
    flags: u16,
}

impl SynRecord {
    /// In the place of a record that has gone.
    pub(super) const NOTHING: Self = Self {
        when: [0; 2],
        own: 0,
        number: 0,
        iss: SeqNumber(0),
        peer: SeqNumber(0),
        stamp: 0,
        port: 0,
        mss: 0,
        window: 0,
        flags: 0,
    };

    /// That of a SYN; `number` is its connection's, `keys` how many keys were drawn for it. The address that it came to
    /// has no number yet.
    pub(super) fn new(
        now: Instant,
        syn: &Segment,
        config: &Config,
        (number, keys): (u64, u32),
        iss: SeqNumber,
    ) -> Self {
        let offer = understood(syn).filter(|_| config.multipath);
        let bits = [
            (accepts_ecn(config.ecn, syn), ECN),
            (offer.is_some(), MULTIPATH),
            (offer.is_some_and(|it| it.checksum_required), CHECKSUM),
            (offer.is_some_and(|it| it.deny_join_initial_address), DENIES_JOIN),
        ];
        let bits: u16 = bits.iter().filter(|(has, _)| *has).map(|(_, bit)| bit).sum();
        let keys = (keys as u16).clamp(1, MOST_KEYS);
        let mut kept = Self {
            number: number as u32,
            iss,
            peer: syn.seq,
            stamp: syn.timestamps.map_or(0, |stamps| stamps.value),
            port: syn.source_port,
            mss: syn.mss.unwrap_or(MSS_UNNAMED),
            window: syn.window,
            flags: remember(syn) | bits | keys << KEYS,
            ..Self::NOTHING
        };
        kept.set_when(now, 0, 0);
        kept
    }

    /// There is a SYN here.
    pub(super) fn exists(&self) -> bool {
        self.flags >> KEYS != 0
    }

    pub(super) fn has(&self, bit: u16) -> bool {
        self.flags & bit != 0
    }

    /// Keys that were drawn; the last one is the connection's.
    pub(super) fn keys(&self) -> u32 {
        u32::from(self.flags >> KEYS)
    }

    fn when(&self) -> u64 {
        let [low, high] = self.when.map(u64::from);
        high << 32 | low
    }

    fn set_when(&mut self, sent_at: Instant, waited: u64, answers: u32) {
        let answers = u64::from(answers).min(ones(ANSWERS));
        let waited = waited.min(ones(WAITED));
        let when = sent_at.as_nanos() << (ANSWERS + WAITED) | waited << ANSWERS | answers;
        self.when = [when as u32, (when >> 32) as u32];
    }

    /// SYN/ACKs that went out; of more than 15 it tells 15.
    pub(super) fn answers(&self) -> u32 {
        (self.when() & ones(ANSWERS)) as u32
    }

    fn waited_when_sent(&self) -> u64 {
        self.when() >> ANSWERS & ones(WAITED)
    }

    /// When the last SYN/ACK went out; before any, when the SYN came. `seen` is a moment at which it was there already: of
    /// what lies more than 73 minutes before that, it tells a later moment.
    pub(super) fn sent_at(&self, seen: Instant) -> Instant {
        let sent = self.when() >> (ANSWERS + WAITED);
        let before = seen.as_nanos().wrapping_sub(sent) & ones(SENT);
        Instant::from_nanos(seen.as_nanos().saturating_sub(before))
    }

    /// A SYN/ACK goes out now.
    pub(super) fn note_answer(&mut self, now: Instant) {
        let waited = self.waited_at(now);
        self.set_when(now, waited, self.answers() + 1);
    }

    fn waited_at(&self, now: Instant) -> u64 {
        self.waited_when_sent() + millis(now) - millis(self.sent_at(now))
    }

    /// How long it has been waiting, in whole milliseconds.
    pub(super) fn waited(&self, now: Instant) -> Duration {
        Duration::from_millis(self.waited_at(now))
    }

    /// When it is to be looked at again: its SYN/ACK comes again, or its time is over, which is `patience`. Never,
    /// where none has gone out yet. `seen` is as for [`Self::sent_at`].
    pub(super) fn due(&self, config: &Config, patience: Duration, seen: Instant) -> Instant {
        let Some(before) = self.answers().checked_sub(1).filter(|_| self.exists()) else {
            return Instant::FAR_FUTURE;
        };
        let sent_at = self.sent_at(seen);
        let again = SynAnswer::due_again(config, sent_at, before);
        let waited = Duration::from_millis(self.waited_when_sent());
        again.min(sent_at + patience.saturating_sub(waited))
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
        let mut syn = Segment {
            source_port: tuple.remote.port(),
            destination_port: tuple.local.port(),
            seq: self.peer,
            flags: Flags::SYN.with(asks),
            window: self.window,
            mss: Some(self.mss),
            mptcp: offer.into_iter().collect(),
            ..Segment::default()
        };
        recall(self.flags, self.stamp, &mut syn);
        syn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(now: Instant) -> SynRecord {
        let syn = Segment::default();
        SynRecord::new(now, &syn, &Config::default(), (0, 1), SeqNumber(0))
    }

    #[test]
    fn a_record_has_no_gaps() {
        assert_eq!(size_of::<SynRecord>(), 36);
    }

    #[test]
    fn times_are_told_to_the_nanosecond_however_late_it_is() {
        // A century of nanoseconds, and what their low bits make of it.
        for began in [0, 1, ones(SENT) - 5_000_000, ones(SENT) + 1, 3_155_760_000_999_999_999] {
            let mut now = Instant::from_nanos(began);
            let mut kept = kept(now);
            assert_eq!((kept.sent_at(now), kept.answers()), (now, 0));
            kept.note_answer(now);
            for answers in 1..40_u32 {
                let seen = now + Duration::from_secs(120);
                assert_eq!((kept.sent_at(seen), kept.answers()), (now, answers.min(15)));
                let came = began / 1_000_000;
                let waited = (millis(now) - came).min(ones(WAITED)) + millis(seen) - millis(now);
                assert_eq!(kept.waited(seen), Duration::from_millis(waited));
                now += Duration::from_nanos(11_123_456_789);
                kept.note_answer(now);
            }
        }
    }

    #[test]
    fn who_was_forgotten_for_hours_is_looked_at_in_minutes() {
        let mut kept = kept(Instant::from_nanos(5));
        kept.note_answer(Instant::from_nanos(5));
        let seen = Instant::from_nanos(5) + Duration::from_secs(7 * 3600);
        assert!(kept.sent_at(seen) <= seen);
        let due = kept.due(&Config::default(), LONGEST_WAIT, seen);
        assert!(due <= seen + Duration::from_secs(2));
    }
}
