//! From the demuxer to the screen: what becomes of each picture.
//!
//! A picture leaves the decoder once enough later ones are in (reordering, frame threads), and is
//! shown at its time, or thrown away when it comes more than half a picture late
//! (`video_output.c`, `ThreadDisplayPreparePicture`). That happens *behind* the decoder: a picture
//! thrown away late still serves as a reference. References are lost by a flush, which empties the
//! decoder: what follows up to the next I picture is then predicted from nothing.
//!
//! While the player buffers, the first picture out of the decoder is put on the screen at once, the
//! second waits at the display's door and keeps the decoder from going on (`decoder.c`,
//! `DecoderPlayVideo`, `DecoderWaitUnblock`); what is read meanwhile waits before the decoder. All
//! of it is decoded at the moment when playing starts. Decoding takes no time.

use super::clock::Clock;
use super::config::{BrokenReferences, PlayerConfig};
use super::decoder::{Decoder, Entry};
use crate::timeline::{Container, MediaTime, PacketKind, Timeline};
use anabranch_units::{Duration, Instant};

/// What became of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was shown.
    Displayed,
    /// It was read, and not shown, for this cause.
    Discarded(Cause),
    /// It was read, and thrown away when the player stopped to buffer again.
    Flushed,
    /// It was not read, or its time never came.
    Unplayed,
}

/// Why a picture was discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It came too late to be shown: what VLC counts as a lost picture.
    Late,
    /// A picture that it is predicted from was lost. VLC does not count these.
    Reference,
    /// The decoder, in haste after a row of late pictures, did not give it out. VLC does not count
    /// these either.
    Haste,
}

impl Fate {
    /// The fate's name in the trace.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Displayed => "displayed",
            Self::Discarded(_) => "discarded",
            Self::Flushed => "flushed",
            Self::Unplayed => "unplayed",
        }
    }

    /// The cause's name in the trace; empty unless discarded.
    pub const fn why(self) -> &'static str {
        match self {
            Self::Discarded(Cause::Late) => "late",
            Self::Discarded(Cause::Reference) => "reference",
            Self::Discarded(Cause::Haste) => "haste",
            _ => "",
        }
    }
}

/// One picture of the film and what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameRecord {
    /// Its display rank.
    pub index: u32,
    /// When it is presented, in film time.
    pub pts: MediaTime,
    /// How it is coded.
    pub kind: PacketKind,
    /// Coded size in bytes.
    pub size: u32,
    /// What became of it.
    pub fate: Fate,
    /// When it was to be shown, if that was ever set.
    pub due: Option<Instant>,
    /// When it was shown.
    pub shown: Option<Instant>,
}

#[derive(Clone, Debug)]
pub(super) struct Output {
    frames: Vec<FrameRecord>,
    decoder: Decoder,
    /// Pictures whose references were lost, by display rank.
    broken: Vec<bool>,
    discards_broken: bool,
    /// Whether a picture that the decoder dropped breaks those that refer to it. VLC's packetizer,
    /// which discards after a flush, knows nothing of the decoder's haste.
    haste_breaks: bool,
    threshold: Duration,
    /// Pictures read, in decoding order; those from `decoded` on wait before the decoder.
    read: usize,
    /// Pictures that the decoder has taken, in decoding order.
    decoded: usize,
    /// The first picture, in decoding order, since the decoder was last emptied.
    decoder_start: usize,
    /// The player buffers: the decoder waits.
    waiting: bool,
    /// The picture that was shown at once while buffering.
    forced: Option<usize>,
    /// The picture that waits at the display's door.
    at_door: Option<usize>,
    /// The pictures sent to the screen and not taken back, in their order.
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
            haste_breaks: config.broken_references == BrokenReferences::Discard,
            threshold: Duration::from_secs_f64(period * config.late_threshold_pictures),
            read: 0,
            decoded: 0,
            decoder_start: 0,
            waiting: true,
            forced: None,
            at_door: None,
            sent: Vec::new(),
        }
    }

    pub(super) fn frames(&self) -> &[FrameRecord] {
        &self.frames
    }

    /// The next picture in decoding order is read.
    pub(super) fn feed(&mut self, now: Instant, film: &Timeline, clock: &Clock) {
        self.read += 1;
        self.decode(now, film, clock);
    }

    /// No further picture will be read: what the decoder holds back may leave.
    pub(super) fn end(&mut self, now: Instant, clock: &Clock) {
        self.decoder.drain();
        self.give_out(now, clock, true);
    }

    /// The decoder takes what waits before it, unless it is kept from going on itself.
    fn decode(&mut self, now: Instant, film: &Timeline, clock: &Clock) {
        while self.decoded < self.read && self.at_door.is_none() {
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
                self.broken[rank] |= self.haste_breaks;
            }
            self.give_out(now, clock, entry != Entry::Hidden);
        }
    }

    /// Takes what leaves the decoder, to the display or not.
    fn give_out(&mut self, now: Instant, clock: &Clock, shown: bool) {
        while self.at_door.is_none()
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
                self.at_door = Some(rank);
            }
        }
    }

    /// The clock starts to run: the decoder goes on.
    pub(super) fn start(&mut self, now: Instant, film: &Timeline, clock: &Clock) {
        self.waiting = false;
        if let Some(rank) = self.forced.take() {
            self.frames[rank].due = clock.due(self.frames[rank].pts);
        }
        if let Some(rank) = self.at_door.take() {
            self.show(now, clock, rank);
            self.give_out(now, clock, true);
        }
        self.decode(now, film, clock);
    }

    /// Sends a picture to the display. Its fate is decided here, ahead of its time; a flush before
    /// that time still takes it back.
    fn show(&mut self, now: Instant, clock: &Clock, rank: usize) {
        let frame = &mut self.frames[rank];
        frame.due = clock.due(frame.pts);
        // Without a clock a picture has no time and is dropped (`decoder.c`).
        match frame.due {
            Some(due) if now.since(due) <= self.threshold => {
                frame.fate = Fate::Displayed;
                frame.shown = Some(due.max(now));
                self.sent.push(rank);
            }
            _ => frame.fate = Fate::Discarded(Cause::Late),
        }
    }

    /// Throws away all that is not on the screen yet: in the display's queue, in the decoder and
    /// before it. The player buffers.
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
        self.at_door = None;
    }

    /// When the last picture sent to the display is shown.
    pub(super) fn last_shown(&self) -> Option<Instant> {
        self.sent.last().and_then(|&rank| self.frames[rank].shown)
    }
}
