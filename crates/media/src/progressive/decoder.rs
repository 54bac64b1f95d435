//! The decoder: the pictures that it holds back, and the pictures that it drops after several late
//! ones.
//!
//! This models VLC's `avcodec-hurry-up` (`modules/codec/avcodec/video.c`). The decoder counts
//! consecutive late pictures at its output. Above four, it drops pictures that are no references,
//! and decodes references without output. From twelve on, it drops each packet undecoded and
//! decrements the counter. VLC does not count these pictures as lost.

use super::config::PlayerConfig;
use crate::timeline::Timeline;
use anabranch_units::{Duration, Instant};
use std::collections::BTreeSet;

/// Above this number of consecutive late pictures, the decoder has no output
/// (`check_frame_should_be_dropped`).
const LATE_HIDDEN: u32 = 4;
/// From this number of consecutive late pictures on, packets are dropped undecoded
/// (`check_frame_should_be_dropped`).
const LATE_DROPPED: u32 = 12;
/// If pictures have been late for longer than this, packets are dropped regardless of the number of
/// late pictures (`check_block_being_late`).
const LATE_TOO_LONG: Duration = Duration::from_secs(5);

/// The handling of a packet by the decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// The packet is decoded. The picture that leaves the decoder next is displayed.
    Decoded,
    /// The packet is decoded. The picture that leaves the decoder next is not displayed.
    Hidden,
    /// The packet is not decoded.
    Dropped,
}

#[derive(Clone, Debug)]
pub(super) struct Decoder {
    /// The decoder returns a picture when it holds more than this number of pictures.
    hold: usize,
    /// A picture that leaves the decoder with less lateness than this is in time.
    threshold: Duration,
    /// The pictures in the decoder, by display rank.
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

    /// Passes the next packet to the decoder. Returns how it is handled.
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

    /// Removes the next output picture. Returns `None` if the decoder holds all its pictures back.
    pub(super) fn leave(&mut self) -> Option<usize> {
        if self.inside.len() > self.hold { self.inside.pop_first() } else { None }
    }

    /// Counts a picture that leaves the decoder as late or in time (`update_late_frame_count`).
    /// `due` is `None` while the player buffers, because the clock does not run.
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

    /// Stops holding pictures back, because no more packets follow.
    pub(super) const fn drain(&mut self) {
        self.hold = 0;
    }

    /// Empties the decoder and resets the counter of late pictures.
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

    /// Returns how a decoder handles its packets if all pictures leave it 40 ms late, at 25
    /// pictures per second.
    fn hasty(rows: usize, gap_ms: u64, reference: bool) -> Vec<Entry> {
        let film = SyntheticFilm {
            frame_rate: Some(25.0),
            duration_ns: Some(1_000_000_000),
            ..SyntheticFilm::named("short")
        };
        let film = Timeline::try_from(&film).expect("the film is valid");
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
    fn output_stops_after_five_late_pictures_and_every_second_packet_is_dropped_after_twelve() {
        use Entry::{Decoded, Dropped, Hidden};
        let expected = [&[Decoded; 5][..], &[Hidden; 7], &[Dropped, Hidden], &[Dropped, Hidden]];
        assert_eq!(hasty(16, 40, true), expected.concat());
        // Pictures that are no references are not decoded, so the counter does not change.
        assert_eq!(hasty(8, 40, false), [&[Decoded; 5][..], &[Dropped; 3]].concat());
    }

    #[test]
    fn packets_are_dropped_after_five_seconds_of_late_pictures() {
        // After five seconds, the counter is two, so two packets are dropped.
        assert_eq!(hasty(5, 2_600, true)[2..], [Entry::Dropped, Entry::Dropped, Entry::Decoded]);
    }

    #[test]
    fn a_picture_in_time_resets_the_counter() {
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
