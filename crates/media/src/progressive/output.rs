//! The decoder and the display: what becomes of each picture.
//!
//! A picture leaves the decoder once enough later ones are in (reordering, frame threads), and is
//! shown at its time, or thrown away when it comes more than half a picture late
//! (`video_output.c`, `ThreadDisplayPreparePicture`). That happens *behind* the decoder: a picture
//! thrown away late still serves as a reference. References are lost only by a flush, which empties
//! the decoder: what follows up to the next I picture is then predicted from nothing.
//!
//! Not modelled: the decoder's own haste (`avcodec-hurry-up`), which skips pictures after a row of
//! late ones without counting them; decoding takes no time.

use super::clock::Clock;
use super::config::{BrokenReferences, PlayerConfig};
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
    /// Pictures whose references were lost, by display rank.
    broken: Vec<bool>,
    discards_broken: bool,
    threshold: Duration,
    /// Pictures that must be in the decoder before one leaves it.
    hold: usize,
    /// The furthest that a picture is decoded ahead of its display rank.
    ahead: usize,
    /// Pictures decoded.
    decoded: usize,
    /// The first picture, in decoding order, since the decoder was last emptied.
    decoder_start: usize,
    /// The next picture to leave the decoder, by display rank.
    next: usize,
    /// The picture that was shown at once while buffering.
    forced: Option<usize>,
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
        let ahead = (0u32..)
            .zip(film.pictures())
            .map(|(rank, picture)| rank.saturating_sub(picture.decode_rank))
            .max();
        let period = film.frame_period().as_secs_f64();
        Self {
            broken: vec![false; frames.len()],
            frames,
            discards_broken: match config.broken_references {
                BrokenReferences::Auto => *film.container() == Container::MpegTs,
                BrokenReferences::Discard => true,
                BrokenReferences::Show => false,
            },
            threshold: Duration::from_secs_f64(period * config.late_threshold_pictures),
            hold: (film.reorder_depth() + config.decoder_delay_pictures) as usize,
            ahead: ahead.unwrap_or(0) as usize,
            decoded: 0,
            decoder_start: 0,
            next: 0,
            forced: None,
        }
    }

    pub(super) fn frames(&self) -> &[FrameRecord] {
        &self.frames
    }

    /// The next picture in decoding order enters the decoder.
    pub(super) fn decode(&mut self, film: &Timeline) {
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
        }
    }

    /// No further picture will enter: what the decoder holds back may leave.
    pub(super) fn end(&mut self) {
        self.hold = 0;
    }

    /// The next picture that may leave the decoder.
    fn next_ready(&mut self) -> Option<usize> {
        while self.next + self.hold < self.decoded && self.next < self.frames.len() {
            if self.frames[self.next].fate == Fate::Unplayed {
                return Some(self.next);
            }
            self.next += 1;
        }
        None
    }

    /// Shows the first picture at once while the player buffers, as VLC does (`decoder.c`,
    /// `DecoderPlayVideo`, `b_force`); the others wait.
    pub(super) fn force_first(&mut self, now: Instant) {
        if self.forced.is_some() {
            return;
        }
        if let Some(rank) = self.next_ready() {
            self.frames[rank].fate = Fate::Displayed;
            self.frames[rank].shown = Some(now);
            self.forced = Some(rank);
            self.next += 1;
        }
    }

    /// The clock starts to run.
    pub(super) fn start(&mut self, now: Instant, clock: &Clock) {
        if let Some(rank) = self.forced.take() {
            self.frames[rank].due = clock.due(self.frames[rank].pts);
        }
        self.show(now, clock);
    }

    /// Sends what the decoder has ready to the display. Its fate is decided here, ahead of its
    /// time; a flush before that time still takes it back.
    pub(super) fn show(&mut self, now: Instant, clock: &Clock) {
        while let Some(rank) = self.next_ready() {
            let frame = &mut self.frames[rank];
            frame.due = clock.due(frame.pts);
            // Without a clock a picture has no time and is dropped (`decoder.c`).
            match frame.due {
                Some(due) if now.since(due) <= self.threshold => {
                    frame.fate = Fate::Displayed;
                    frame.shown = Some(due.max(now));
                }
                _ => frame.fate = Fate::Discarded(Cause::Late),
            }
            self.next += 1;
        }
    }

    /// Throws away all that is not on the screen yet, in the display's queue and in the decoder.
    pub(super) fn flush(&mut self, now: Instant, film: &Timeline) {
        for frame in self.frames[..self.next].iter_mut().rev() {
            if frame.shown.is_some_and(|shown| shown <= now) {
                break;
            }
            if frame.shown.take().is_some() {
                frame.fate = Fate::Flushed;
            }
        }
        let from = self.next.saturating_sub(self.ahead).min(self.decoded);
        for &rank in &film.decode_order()[from..self.decoded] {
            let frame = &mut self.frames[rank as usize];
            if frame.fate == Fate::Unplayed {
                frame.fate = Fate::Flushed;
            }
        }
        self.decoder_start = self.decoded;
        self.forced = None;
    }

    /// When the last picture sent to the display is shown.
    pub(super) fn last_shown(&self) -> Option<Instant> {
        self.frames[..self.next].iter().rev().find_map(|frame| frame.shown)
    }
}
