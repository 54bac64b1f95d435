//! The decoder: how many pictures it holds back, and its haste after a row of late ones.
//!
//! VLC's `avcodec-hurry-up` (`modules/codec/avcodec/video.c`): a picture that leaves the decoder too
//! late adds to a count, one in time sets it back to zero. Beyond four the decoder goes on decoding
//! references and gives nothing out; from twelve on it throws packets away undecoded, one for each
//! late picture more. Nobody counts these pictures as lost.

use super::config::PlayerConfig;
use crate::timeline::Timeline;
use anabranch_units::{Duration, Instant};
use std::collections::BTreeSet;

/// The number of late pictures in a row above which nothing leaves the decoder
/// (`check_frame_should_be_dropped`).
const LATE_HIDDEN: u32 = 4;
/// The number of late pictures in a row from which packets are dropped undecoded
/// (`check_frame_should_be_dropped`).
const LATE_DROPPED: u32 = 12;
/// The length of a row of late pictures beyond which packets are dropped whatever their number
/// (`check_block_being_late`).
const LATE_TOO_LONG: Duration = Duration::from_secs(5);

/// What the decoder does with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// It is decoded; what leaves the decoder in its turn goes to the display.
    Decoded,
    /// It is decoded, but what leaves the decoder in its turn is not shown.
    Hidden,
    /// It is not decoded.
    Dropped,
}

#[derive(Clone, Debug)]
pub(super) struct Decoder {
    /// Pictures that must be in the decoder before one leaves it.
    hold: usize,
    /// How late a picture may leave and not count as late.
    threshold: Duration,
    /// The pictures inside, by display rank.
    inside: BTreeSet<usize>,
    late: u32,
    late_since: Instant,
}

impl Decoder {
    pub(super) fn new(config: &PlayerConfig, film: &Timeline) -> Self {
        let period = film.frame_period().as_secs_f64();
        Self {
            hold: (film.reorder_depth() + config.decoder_delay_pictures) as usize,
            threshold: Duration::from_secs_f64(period * config.hurry_threshold_pictures),
            inside: BTreeSet::new(),
            late: 0,
            late_since: Instant::ZERO,
        }
    }

    /// A packet enters.
    pub(super) fn enter(&mut self, now: Instant, rank: usize, reference: bool) -> Entry {
        if self.late >= LATE_DROPPED
            || (self.late > 0 && now.since(self.late_since) > LATE_TOO_LONG)
        {
            self.late -= 1;
            return Entry::Dropped;
        }
        if self.late <= LATE_HIDDEN {
            self.inside.insert(rank);
            return Entry::Decoded;
        }
        if !reference {
            return Entry::Dropped;
        }
        self.inside.insert(rank);
        Entry::Hidden
    }

    /// The picture that leaves, if more are inside than the decoder holds back.
    pub(super) fn leave(&mut self) -> Option<usize> {
        if self.inside.len() > self.hold { self.inside.pop_first() } else { None }
    }

    /// Takes the time that a leaving picture is due (`update_late_frame_count`); none while the
    /// player buffers and has no clock.
    pub(super) fn count(&mut self, now: Instant, due: Option<Instant>) {
        if due.is_some_and(|due| due + self.threshold <= now) {
            self.late += 1;
            if self.late == 1 {
                self.late_since = now;
            }
        } else {
            self.late = 0;
        }
    }

    /// No further packet will enter: all may leave.
    pub(super) const fn drain(&mut self) {
        self.hold = 0;
    }

    /// Empties the decoder and forgets its haste.
    pub(super) fn flush(&mut self) {
        self.inside.clear();
        self.late = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::SyntheticFilm;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    /// A decoder whose every picture leaves 40 ms late, at 25 pictures a second.
    fn hasty(rows: usize, gap_ms: u64, reference: bool) -> Vec<Entry> {
        let film = SyntheticFilm {
            frame_rate: Some(25.0),
            duration_ns: Some(1_000_000_000),
            ..SyntheticFilm::named("short")
        };
        let film = Timeline::try_from(&film).expect("the film is sound");
        let config = PlayerConfig::default();
        let mut decoder = Decoder { hold: 0, ..Decoder::new(&config, &film) };
        let mut entries = Vec::new();
        for rank in 0..rows {
            let now = at(1_000 + gap_ms * rank as u64);
            entries.push(decoder.enter(now, rank, reference));
            if decoder.leave().is_some() {
                decoder.count(now, Some(at(960 + gap_ms * rank as u64)));
            }
        }
        entries
    }

    #[test]
    fn haste_hides_from_the_fifth_late_picture_and_drops_every_second_from_the_twelfth() {
        use Entry::{Decoded, Dropped, Hidden};
        let expected = [&[Decoded; 5][..], &[Hidden; 7], &[Dropped, Hidden], &[Dropped, Hidden]];
        assert_eq!(hasty(16, 40, true), expected.concat());
        // What nothing refers to is not decoded at all, so that the count stays.
        assert_eq!(hasty(8, 40, false), [&[Decoded; 5][..], &[Dropped; 3]].concat());
    }

    #[test]
    fn a_row_of_late_pictures_longer_than_five_seconds_drops_at_once() {
        // Two are late when five seconds are over: one packet each pays for them.
        assert_eq!(hasty(5, 2_600, true)[2..], [Entry::Dropped, Entry::Dropped, Entry::Decoded]);
    }

    #[test]
    fn a_picture_in_time_ends_the_haste() {
        let film = Timeline::papers_film();
        let mut decoder = Decoder::new(&PlayerConfig::default(), &film);
        for _ in 0..20 {
            decoder.count(at(100), Some(at(0)));
        }
        assert_eq!(decoder.enter(at(100), 0, true), Entry::Dropped);
        decoder.count(at(100), Some(at(70)));
        assert_eq!(decoder.enter(at(100), 0, true), Entry::Decoded);
    }
}
