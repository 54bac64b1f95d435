//! The record of one SYN: 36 bytes, plus the peer's address (4 bytes for IPv4, 16 for IPv6).
//!
//! Values that can be computed are not stored. Keys are drawn again from the random stream of the
//! connection's number. The time of the next SYN/ACK is computed from the time of the last one. The local
//! address is stored as a number, because many records share it. Times have only as many bits as the lifetime
//! of a record needs.

use anabranch_units::{Duration, Instant, SeqNumber};
use anabranch_wire::{CapableKeys, Flags, MpCapable, MptcpOption, Segment};

use crate::config::Config;
use crate::connection::understood;
use anabranch_tcp::config::FourTuple;
use anabranch_tcp::{REMEMBERED_BITS, SynAnswer, accepts_ecn, recall, remember};

/// Bits for those flags of the SYN that decide the content of the SYN/ACK. They follow the bits of
/// its [options](remember).
const ECN: u16 = 1 << REMEMBERED_BITS;
/// The SYN offered MPTCP. The next two bits are flags A and C of the option.
pub(super) const MULTIPATH: u16 = 1 << (REMEMBERED_BITS + 1);
pub(super) const CHECKSUM: u16 = 1 << (REMEMBERED_BITS + 2);
const DENIES_JOIN: u16 = 1 << (REMEMBERED_BITS + 3);
/// The shift of the number of drawn keys, which takes the highest four bits. The number is zero only in a
/// free record.
const KEYS: u32 = REMEMBERED_BITS + 4;
const MOST_KEYS: u16 = 15;
/// The segment size of a peer that sends no MSS option, in bytes (RFC 9293 section 3.7.1).
const MSS_UNNAMED: u16 = 536;

/// The widths of the bit fields of [`SynRecord::when`], from the lowest bit: the number of sent SYN/ACKs; the
/// age of the SYN at the last one, in milliseconds; and the time of the last one, in nanoseconds without its
/// highest bits.
const ANSWERS: u32 = 4;
const WAITED: u32 = 18;
const SENT: u32 = u64::BITS - ANSWERS - WAITED;
/// The largest age of a SYN that a record can hold: 262 s.
pub(in crate::endpoint) const LONGEST_WAIT: Duration = Duration::from_millis(ones(WAITED));

const fn ones(bits: u32) -> u64 {
    (1 << bits) - 1
}

/// Whole milliseconds since time zero.
fn millis(at: Instant) -> u64 {
    at.as_nanos() / 1_000_000
}

/// A stored SYN, with the peer's port and the number of the local address. No field is wider than 32 bits,
/// which avoids padding.
#[derive(Clone, Copy, Debug)]
pub(super) struct SynRecord {
    /// The fields described at [`ANSWERS`], low half first.
    when: [u32; 2],
    /// The number of the local address.
    pub(super) own: u32,
    /// The low bits of the connection's number.
    pub(super) number: u32,
    /// Our initial sequence number. The peer's follows.
    pub(super) iss: SeqNumber,
    pub(super) peer: SeqNumber,
    stamp: u32,
    pub(super) port: u16,
    mss: u16,
    window: u16,
    /// The bits of the options, then the flags, then the number of drawn keys.
    flags: u16,
}

impl SynRecord {
    /// The content of a free record.
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

    /// Creates the record of a SYN from the number of the connection and the number of drawn keys. The local
    /// address is set later.
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

    /// Returns whether the record is in use.
    pub(super) fn exists(&self) -> bool {
        self.flags >> KEYS != 0
    }

    pub(super) fn has(&self, bit: u16) -> bool {
        self.flags & bit != 0
    }

    /// Returns the number of drawn keys. The last one is the connection's key.
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

    /// Returns the number of sent SYN/ACKs, at most 15.
    pub(super) fn answers(&self) -> u32 {
        (self.when() & ones(ANSWERS)) as u32
    }

    fn waited_when_sent(&self) -> u64 {
        self.when() >> ANSWERS & ones(WAITED)
    }

    /// Returns the time of the last SYN/ACK, or of the SYN's arrival if none was sent. `seen` is any later
    /// time, at most 73 minutes later. Beyond that, the result is too late, because the highest bits are not
    /// stored.
    pub(super) fn sent_at(&self, seen: Instant) -> Instant {
        let sent = self.when() >> (ANSWERS + WAITED);
        let before = seen.as_nanos().wrapping_sub(sent) & ones(SENT);
        Instant::from_nanos(seen.as_nanos().saturating_sub(before))
    }

    /// Counts a SYN/ACK that is sent now.
    pub(super) fn note_answer(&mut self, now: Instant) {
        let waited = self.waited_at(now);
        self.set_when(now, waited, self.answers() + 1);
    }

    fn waited_at(&self, now: Instant) -> u64 {
        self.waited_when_sent() + millis(now) - millis(self.sent_at(now))
    }

    /// Returns the age of the SYN, in whole milliseconds.
    pub(super) fn waited(&self, now: Instant) -> Duration {
        Duration::from_millis(self.waited_at(now))
    }

    /// Returns the time at which the SYN/ACK is repeated or the wait, `patience`, ends. The result is
    /// `FAR_FUTURE` if no SYN/ACK was sent yet. `seen` is as in [`Self::sent_at`].
    pub(super) fn due(&self, config: &Config, patience: Duration, seen: Instant) -> Instant {
        let Some(before) = self.answers().checked_sub(1).filter(|_| self.exists()) else {
            return Instant::FAR_FUTURE;
        };
        let sent_at = self.sent_at(seen);
        let again = SynAnswer::due_again(&config.tcp(), sent_at, before);
        let waited = Duration::from_millis(self.waited_when_sent());
        again.min(sent_at + patience.saturating_sub(waited))
    }

    /// Returns the parts of the SYN that the handshake still needs.
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
    fn request_record_keeps_send_times_to_the_nanosecond() {
        // Start times in nanoseconds, up to a century, including the wrap of the stored bits.
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
    fn request_unattended_for_hours_is_due_within_seconds() {
        let mut kept = kept(Instant::from_nanos(5));
        kept.note_answer(Instant::from_nanos(5));
        let seen = Instant::from_nanos(5) + Duration::from_secs(7 * 3600);
        assert!(kept.sent_at(seen) <= seen);
        let due = kept.due(&Config::default(), LONGEST_WAIT, seen);
        assert!(due <= seen + Duration::from_secs(2));
    }
}
