//! The way of pictures from the demuxer to the screen, and their fates.
//!
//! A picture leaves the decoder once enough later ones are in it (reordering, frame threads). It is
//! shown at its time, or discarded if it is more than half a picture period late (`video_output.c`,
//! `ThreadDisplayPreparePicture`). This happens *after* the decoder, so a picture that is discarded
//! as late still serves as a reference. References are lost by a flush, which empties the decoder.
//! The pictures up to the next I picture are then predicted from missing ones.
//!
//! While the player buffers, the first picture from the decoder is shown at once. The second one
//! waits for the display and blocks the decoder (`decoder.c`, `DecoderPlayVideo`,
//! `DecoderWaitUnblock`). Packets that are read meanwhile wait before the decoder, and all are
//! decoded when playback starts. Decoding takes no time.

use super::clock::Clock;
use super::config::{BrokenReferences, PlayerConfig};
use super::decoder::{Decoder, Entry};
use crate::timeline::{Container, MediaTime, PacketKind, Timeline};
use anabranch_units::{Duration, Instant};

/// The fate of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was displayed.
    Displayed,
    /// It was read but not displayed, for this reason.
    Discarded(Cause),
    /// It was read but discarded by an underflow.
    Flushed,
    /// It was not read, or its display time was not reached.
    Unplayed,
}

/// The reason why a picture was discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It came too late for the display. VLC counts it as a lost picture.
    Late,
    /// A picture that it is predicted from was lost. VLC does not count it.
    Reference,
    /// The decoder dropped it after a row of late pictures. VLC does not count it.
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

    /// Returns the reason's name in the trace; empty unless the picture was discarded.
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
    /// Its display rank.
    pub index: u32,
    /// Its presentation time in film time.
    pub pts: MediaTime,
    /// Its coding type.
    pub kind: PacketKind,
    /// Coded size in bytes.
    pub size: u32,
    /// Its fate.
    pub fate: Fate,
    /// Its scheduled display time, if one was set.
    pub due: Option<Instant>,
    /// The time at which it was displayed.
    pub shown: Option<Instant>,
}

#[derive(Clone, Debug)]
pub(super) struct Output {
    frames: Vec<FrameRecord>,
    decoder: Decoder,
    /// For each picture by display rank, whether its references were lost.
    broken: Vec<bool>,
    discards_broken: bool,
    /// Whether a picture that the decoder dropped breaks the pictures that refer to it. VLC's
    /// packetizer, which discards pictures after a flush, does not know which ones the decoder
    /// dropped.
    drops_break: bool,
    threshold: Duration,
    /// The number of pictures read. In decoding order, those from `decoded` on wait before the
    /// decoder.
    read: usize,
    /// The number of pictures that entered the decoder.
    decoded: usize,
    /// The first picture in decoding order since the decoder was last emptied.
    decoder_start: usize,
    /// Whether the player buffers, so that the decoder waits.
    waiting: bool,
    /// The picture that was shown at once during buffering.
    forced: Option<usize>,
    /// The picture that waits for the display.
    waiting_picture: Option<usize>,
    /// The pictures sent to the display and not revoked, in order.
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

    /// Releases the pictures in the decoder, because no more will be read.
    pub(super) fn end(&mut self, now: Instant, clock: &Clock) {
        self.decoder.drain();
        self.give_out(now, clock, true);
    }

    /// Decodes the pictures that wait, unless a waiting picture blocks the decoder.
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

    /// Passes pictures from the decoder to the display. They are discarded if `shown` is false.
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

    /// Resumes decoding because the clock starts to run.
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

    /// Sends a picture to the display. This decides its fate before its display time, but a flush
    /// before that time revokes it.
    fn show(&mut self, now: Instant, clock: &Clock, rank: usize) {
        let frame = &mut self.frames[rank];
        frame.due = clock.due(frame.pts);
        // A picture without a clock has no display time and is dropped (`decoder.c`).
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
    /// and before it. The player then buffers.
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
