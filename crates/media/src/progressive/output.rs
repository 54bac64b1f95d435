//! The path of the pictures from the demuxer to the screen, and their fates.
//!
//! A picture leaves the decoder when enough later pictures are in the decoder (because of
//! reordering and frame threads). It is shown at its display time. If it is more than half a
//! picture period late, it is discarded (`video_output.c`, `ThreadDisplayPreparePicture`). This
//! happens *after* the decoder, so a late picture is still a reference for others. A flush empties
//! the decoder, and the references are lost. All pictures up to the next I picture then depend on
//! missing references.
//!
//! While the player buffers, the first picture from the decoder is shown at once. The second one
//! waits for the display and blocks the decoder (`decoder.c`, `DecoderPlayVideo`,
//! `DecoderWaitUnblock`). Packets that are read in the meantime wait before the decoder. All of
//! them are decoded when playback starts. Decoding takes no time.

use super::clock::Clock;
use super::config::{BrokenReferences, PlayerConfig};
use super::decoder::{Decoder, Entry};
use crate::timeline::{Container, MediaTime, PacketKind, Timeline};
use anabranch_units::{Duration, Instant};

/// The fate of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The picture was displayed.
    Displayed,
    /// The picture was read but not displayed, for this reason.
    Discarded(Cause),
    /// The picture was read, and discarded by an underflow.
    Flushed,
    /// The picture was not read, or its display time was not reached.
    Unplayed,
}

/// The reason why a picture was discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The picture was too late for the display. VLC counts it as a lost picture.
    Late,
    /// A reference of the picture was lost. VLC does not count it.
    Reference,
    /// The decoder dropped the picture after several late pictures. VLC does not count it.
    Haste,
}

impl Fate {
    /// Returns the fate's name in the trace.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Displayed => "displayed",
            Self::Discarded(_) => "discarded",
            Self::Flushed => "flushed",
            Self::Unplayed => "unplayed",
        }
    }

    /// Returns the name of the reason in the trace. Empty if the picture was not discarded.
    pub const fn why(self) -> &'static str {
        match self {
            Self::Discarded(Cause::Late) => "late",
            Self::Discarded(Cause::Reference) => "reference",
            Self::Discarded(Cause::Haste) => "haste",
            _ => "",
        }
    }
}

/// The record of one picture of the film.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameRecord {
    /// The display rank of the picture.
    pub index: u32,
    /// The presentation time, in film time.
    pub pts: MediaTime,
    /// The coding type of the picture.
    pub kind: PacketKind,
    /// The coded size in bytes.
    pub size: u32,
    /// The fate of the picture.
    pub fate: Fate,
    /// The display time of the picture, if it has been set.
    pub due: Option<Instant>,
    /// The time at which the picture was displayed.
    pub shown: Option<Instant>,
}

#[derive(Clone, Debug)]
pub(super) struct Output {
    frames: Vec<FrameRecord>,
    decoder: Decoder,
    /// Whether the references of each picture were lost, by display rank.
    broken: Vec<bool>,
    discards_broken: bool,
    /// Whether a picture that the decoder dropped counts as a lost reference. VLC's packetizer
    /// discards pictures after a flush, but does not know which pictures the decoder dropped.
    drops_break: bool,
    threshold: Duration,
    /// The number of pictures read. In decoding order, the pictures from `decoded` to `read` wait
    /// before the decoder.
    read: usize,
    /// The number of pictures that entered the decoder.
    decoded: usize,
    /// The first picture that entered the decoder after it was last emptied, in decoding order.
    decoder_start: usize,
    /// Whether the player buffers, so that the decoder waits for the display.
    waiting: bool,
    /// The picture that was shown at once during buffering.
    forced: Option<usize>,
    /// The picture that waits for the display.
    waiting_picture: Option<usize>,
    /// The pictures sent to the display, in order, without those that a flush has removed.
    sent: Vec<usize>,
}

impl Output {
    pub(super) fn new(config: &PlayerConfig, film: &Timeline) -> Self {
        let record = |(index, picture): (u32, &crate::Picture)| FrameRecord {
            index,
            pts: picture.pts,
            kind: picture.kind,
            size: picture.size,
            fate: Fate::Unplayed,
            due: None,
            shown: None,
        };
        let frames: Vec<FrameRecord> = (0u32..).zip(film.pictures()).map(record).collect();
        let period = film.frame_period().as_secs_f64();
        Self {
            broken: vec![false; frames.len()],
            frames,
            decoder: Decoder::new(config, film),
            discards_broken: match config.broken_references {
                BrokenReferences::Auto => *film.container() == Container::MpegTs,
                BrokenReferences::Discard => true,
                BrokenReferences::Show => false,
            },
            drops_break: config.broken_references == BrokenReferences::Discard,
            threshold: Duration::from_secs_f64(period * config.late_threshold_pictures),
            read: 0,
            decoded: 0,
            decoder_start: 0,
            waiting: true,
            forced: None,
            waiting_picture: None,
            sent: Vec::new(),
        }
    }

    pub(super) fn frames(&self) -> &[FrameRecord] {
        &self.frames
    }

    /// Reads the next picture in decoding order.
    pub(super) fn feed(&mut self, now: Instant, film: &Timeline, clock: &Clock) {
        self.read += 1;
        self.decode(now, film, clock);
    }

    /// Releases all pictures in the decoder, because no more will be read.
    pub(super) fn end(&mut self, now: Instant, clock: &Clock) {
        self.decoder.drain();
        self.give_out(now, clock, true);
    }

    /// Decodes the pictures that wait before the decoder, unless a picture waits for the display.
    fn decode(&mut self, now: Instant, film: &Timeline, clock: &Clock) {
        while self.decoded < self.read && self.waiting_picture.is_none() {
            let rank = film.decode_order()[self.decoded] as usize;
            self.decoded += 1;
            let lost = |&reference: &u32| {
                let decode_rank = film.pictures()[reference as usize].decode_rank as usize;
                decode_rank < self.decoder_start || self.broken[reference as usize]
            };
            let picture = &film.pictures()[rank];
            self.broken[rank] = picture.depends_on.iter().flatten().any(lost);
            if self.broken[rank] && self.discards_broken {
                self.frames[rank].fate = Fate::Discarded(Cause::Reference);
                continue;
            }
            let reference = film.packets()[picture.packet as usize].reference;
            let entry = self.decoder.enter(now, rank, reference);
            if entry == Entry::Dropped {
                self.frames[rank].fate = Fate::Discarded(Cause::Haste);
                self.broken[rank] |= self.drops_break;
            }
            self.give_out(now, clock, entry != Entry::Hidden);
        }
    }

    /// Passes pictures from the decoder to the display. If `shown` is false, they are discarded
    /// instead.
    fn give_out(&mut self, now: Instant, clock: &Clock, shown: bool) {
        while self.waiting_picture.is_none()
            && let Some(rank) = self.decoder.leave()
        {
            let due = clock.due(self.frames[rank].pts).filter(|_| !self.waiting);
            self.decoder.count(now, due);
            if !shown {
                self.frames[rank].fate = Fate::Discarded(Cause::Haste);
            } else if !self.waiting {
                self.show(now, clock, rank);
            } else if self.forced.is_none() {
                self.frames[rank].fate = Fate::Displayed;
                self.frames[rank].shown = Some(now);
                self.sent.push(rank);
                self.forced = Some(rank);
            } else {
                self.waiting_picture = Some(rank);
            }
        }
    }

    /// Resumes decoding when the clock starts.
    pub(super) fn start(&mut self, now: Instant, film: &Timeline, clock: &Clock) {
        self.waiting = false;
        if let Some(rank) = self.forced.take() {
            self.frames[rank].due = clock.due(self.frames[rank].pts);
        }
        if let Some(rank) = self.waiting_picture.take() {
            self.show(now, clock, rank);
            self.give_out(now, clock, true);
        }
        self.decode(now, film, clock);
    }

    /// Sends a picture to the display. The fate of the picture is recorded now, before its display
    /// time. A flush before that time cancels it.
    fn show(&mut self, now: Instant, clock: &Clock, rank: usize) {
        let frame = &mut self.frames[rank];
        frame.due = clock.due(frame.pts);
        // Before the clock is set, the picture has no display time and is dropped (`decoder.c`).
        match frame.due {
            Some(due) if now.since(due) <= self.threshold => {
                frame.fate = Fate::Displayed;
                frame.shown = Some(due.max(now));
                self.sent.push(rank);
            }
            _ => frame.fate = Fate::Discarded(Cause::Late),
        }
    }

    /// Discards all pictures that are not on the screen: in the display's queue, in the decoder,
    /// and before the decoder. The player buffers after that.
    pub(super) fn flush(&mut self, now: Instant, film: &Timeline) {
        while let Some(&rank) = self.sent.last()
            && self.frames[rank].shown.is_some_and(|shown| shown > now)
        {
            self.frames[rank].shown = None;
            self.frames[rank].fate = Fate::Flushed;
            self.sent.pop();
        }
        for &rank in &film.decode_order()[self.decoder_start..self.read] {
            let frame = &mut self.frames[rank as usize];
            if frame.fate == Fate::Unplayed {
                frame.fate = Fate::Flushed;
            }
        }
        self.decoder.flush();
        self.decoded = self.read;
        self.decoder_start = self.read;
        self.waiting = true;
        self.forced = None;
        self.waiting_picture = None;
    }

    /// Returns the display time of the last picture sent to the display.
    pub(super) fn last_shown(&self) -> Option<Instant> {
        self.sent.last().and_then(|&rank| self.frames[rank].shown)
    }
}
