//! A player of one file over HTTP, modelled on VLC 3.0.
//!
//! ```text
//! bytes -> prefetch ring -> demuxer -> decoder -> display
//!          (intake)         (demux)    (output)
//!                              |          |
//!                              +- clock --+
//! ```
//!
//! The demuxer reads from the ring in steps. After each step, it reports the value of the stream's
//! clock.
//!
//! - While the player *buffers*, the demuxer reads without pause. Buffering ends when the reports
//!   cover more film than the network delay (1 s).
//! - While the player *plays*, the clock runs. The demuxer stays ahead of the clock by the network
//!   delay plus up to 100 ms.
//! - If a report is late by more than the network delay, the buffer has underflowed. The player
//!   discards everything that is not on the screen. It increases the delay by the median of the
//!   last three lateness values, and buffers again.
//!
//! The player is driven by [`handle_bytes`](ProgressivePlayer::handle_bytes) and by one timer for
//! the next step of the demuxer. The fate of a picture is decided when it leaves the decoder, which
//! needs no timer.

mod clock;
mod config;
mod decoder;
mod demux;
mod intake;
mod output;

pub use config::{BrokenReferences, PlayerConfig};
pub use intake::Request;
pub use output::{Cause, Fate, FrameRecord};

use crate::http::ClientData;
use crate::timeline::{MediaTime, Stream, Timeline};
use anabranch_units::{Duration, Instant};
use clock::Clock;
use demux::{Demux, Step, media_ahead};
use intake::Intake;
use output::Output;
use std::collections::VecDeque;
use std::sync::Arc;

/// A playback event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaybackEvent {
    /// Time of the event.
    pub time: Instant,
    /// Type of the event.
    pub kind: PlaybackEventKind,
    /// The film time on the screen.
    pub pts: MediaTime,
    /// The network delay after the event.
    pub delay: Duration,
}

/// The type of a playback event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaybackEventKind {
    /// The buffer contains as much film as the network delay, which VLC shows as 100 %. Playback
    /// starts or resumes when it contains *more*. If both are equal, that is one clock report
    /// later.
    Full,
    /// Playback started, because the buffer was filled for the first time.
    Start,
    /// Playback stopped because data arrived too late.
    Underflow,
    /// Playback resumed after an underflow.
    Resume,
    /// The last picture has been shown.
    End,
}

impl PlaybackEventKind {
    /// Returns the event's name in the trace.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Start => "start",
            Self::Underflow => "underflow",
            Self::Resume => "resume",
            Self::End => "end",
        }
    }
}

/// The media that was received and not yet shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buffer {
    /// The film time between the picture on the screen and the last received packet.
    pub media: Duration,
    /// The bytes in the prefetch ring that the demuxer has not read.
    pub bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Buffering,
    Playing,
    Ended,
}

/// A player that plays one file over HTTP.
#[derive(Clone, Debug)]
pub struct ProgressivePlayer {
    config: PlayerConfig,
    film: Arc<Timeline>,
    intake: Intake,
    demux: Demux,
    clock: Clock,
    output: Output,
    state: State,
    started: bool,
    /// Whether the buffer contains as much film as the network delay.
    full: bool,
    /// The current step of the demuxer. `None` when the whole file has been read.
    step: Option<Step>,
    /// The index of the next packet to leave the demuxer.
    next_packet: usize,
    /// The player can continue when the file is received up to this position.
    needed: u64,
    /// The earliest time of the current step.
    wake: Option<Instant>,
    /// The end of the display time of the last picture. Set when the whole file has been read.
    end_at: Option<Instant>,
    /// The film time on the screen while the clock does not run.
    frozen: MediaTime,
    events: VecDeque<PlaybackEvent>,
}

impl ProgressivePlayer {
    /// Creates a player that has not opened the film.
    pub fn new(config: PlayerConfig, film: Arc<Timeline>) -> Self {
        let mut demux = Demux::new(&config, &film);
        let step = demux.next_step(&film);
        Self {
            intake: Intake::new(&config, &film),
            clock: Clock::new(&config),
            output: Output::new(&config, &film),
            state: State::Buffering,
            started: false,
            full: false,
            step,
            next_packet: 0,
            needed: 0,
            wake: None,
            end_at: None,
            frozen: film.pictures().first().map_or(MediaTime::default(), |first| first.pts),
            events: VecDeque::new(),
            config,
            demux,
            film,
        }
    }

    /// Returns the next request to send. Call this after every input until it returns `None`.
    pub fn poll_request(&mut self, now: Instant) -> Option<Request> {
        let mut request = self.intake.poll_request(&self.film)?;
        if self.config.cmcd {
            let plays = self.state == State::Playing;
            request.client_data = ClientData::of_buffer(self.buffer(now).media, plays);
        }
        Some(request)
    }

    /// Receives the next `n` bytes of the response body to request `id`. If a later request has
    /// replaced it, the bytes are ignored.
    pub fn handle_bytes(&mut self, now: Instant, id: u64, n: u64) {
        if self.intake.handle_bytes(now, id, n) && self.intake.received() >= self.needed {
            self.run(now);
        }
    }

    /// Handles the end of the response to request `id`. This is needed only for a response without
    /// a body (status 416).
    pub fn handle_end(&mut self, _now: Instant, id: u64) {
        self.intake.handle_end(id);
    }

    /// Returns the number of bytes that the player accepts now. If it is zero, the caller must stop
    /// reading the connection, so that TCP flow control stops the server. Call this again after
    /// [`handle_timeout`](Self::handle_timeout).
    pub fn readable(&self, _now: Instant) -> u64 {
        self.intake.room(self.consumed())
    }

    /// Handles the timer. The caller calls this at the time of
    /// [`poll_timeout`](Self::poll_timeout).
    pub fn handle_timeout(&mut self, now: Instant) {
        let is_film = self.intake.advance(now);
        if is_film || self.poll_timeout().is_some_and(|timeout| timeout <= now) {
            self.run(now);
        }
    }

    /// Returns the time of the next timer. There are at most as many timers as clock reports: four
    /// (MP4) or ten (MPEG-TS) per second of film.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.state == State::Ended {
            return None;
        }
        [self.end_at.or(self.wake), self.intake.timeout()].into_iter().flatten().min()
    }

    /// Returns the next playback event.
    pub fn poll_event(&mut self) -> Option<PlaybackEvent> {
        self.events.pop_front()
    }

    /// Returns whether the film has been played to the end.
    pub fn is_finished(&self) -> bool {
        self.state == State::Ended
    }

    /// Returns the media that was received and not yet shown.
    pub fn buffer(&self, now: Instant) -> Buffer {
        let last = self.demux.last_whole(self.intake.received());
        Buffer {
            media: media_ahead(&self.film, last, self.position(now)),
            bytes: self.intake.held(self.consumed()),
        }
    }

    /// Returns the film time on the screen.
    pub fn position(&self, now: Instant) -> MediaTime {
        let running = self.state != State::Buffering;
        let position = self.clock.position(now).filter(|_| running).unwrap_or(self.frozen);
        let last = self.film.pictures().last().map_or(self.frozen, |last| last.pts);
        position.min(last).max(self.frozen)
    }

    /// Returns all pictures of the film in display order, with their fates so far. A picture counts
    /// as displayed when its display time is set.
    pub fn frames(&self) -> &[FrameRecord] {
        self.output.frames()
    }

    /// Returns the current network delay.
    pub fn delay(&self) -> Duration {
        self.clock.delay()
    }

    /// Returns the file position up to which the demuxer has read. While it waits for bytes, it
    /// reads each byte on arrival.
    fn consumed(&self) -> u64 {
        if self.wake.is_none() && self.step.is_some() {
            self.intake.received()
        } else {
            // The current step has not begun, so the demuxer is at the end of the previous step.
            self.step_begin()
        }
    }

    fn step_begin(&self) -> u64 {
        match self.step {
            Some(_) => self.demux.read_before(),
            None => self.film.size_bytes(),
        }
    }

    /// Runs the demuxer as far as the received bytes and the time allow.
    fn run(&mut self, now: Instant) {
        while let Some(step) = self.step {
            if self.wake.is_some_and(|wake| now < wake) {
                break;
            }
            self.wake = None;
            if !self.read_step(now, step) {
                return;
            }
            self.step = self.demux.next_step(&self.film);
            self.report_clock(now, step.clock);
            self.wake = match self.state {
                State::Playing => self.clock.wake(),
                State::Buffering | State::Ended => None,
            };
            self.needed = if self.wake.is_some() { u64::MAX } else { 0 };
        }
        if self.step.is_none() {
            self.finish(now);
        }
    }

    /// Passes the received packets of the step to their decoders. Returns whether the step is
    /// complete.
    fn read_step(&mut self, now: Instant, step: Step) -> bool {
        let received = self.intake.received();
        while self.next_packet < step.packets_end {
            let end = self.demux.end_of(self.next_packet);
            if received < end {
                self.needed = end;
                return false;
            }
            if self.film.packets()[self.next_packet].stream == Stream::Video {
                self.output.feed(now, &self.film, &self.clock);
            }
            self.next_packet += 1;
        }
        self.needed = step.bytes_end;
        received >= step.bytes_end
    }

    /// Processes a clock report of the demuxer (`es_out.c`, `ES_OUT_SET_PCR`).
    fn report_clock(&mut self, now: Instant, stream: MediaTime) {
        let was_tied = self.clock.is_tied();
        let late = self.clock.update(now, stream);
        if self.state == State::Buffering && self.clock.span() >= self.clock.delay() {
            self.fill(now);
        }
        match self.state {
            State::Buffering if self.clock.span() > self.clock.delay() => self.start(now),
            State::Playing if !was_tied => self.emit(now, PlaybackEventKind::Resume),
            State::Playing if !late.is_zero() => self.underflow(now),
            State::Buffering | State::Playing | State::Ended => {}
        }
    }

    fn fill(&mut self, now: Instant) {
        if !std::mem::replace(&mut self.full, true) {
            self.emit(now, PlaybackEventKind::Full);
        }
    }

    /// Ends the buffering and starts playback (`es_out.c`, `EsOutDecodersStopBuffering`).
    fn start(&mut self, now: Instant) {
        self.fill(now);
        self.state = State::Playing;
        self.clock.start(now, Duration::from_nanos(self.config.start_margin_ns));
        self.output.start(now, &self.film, &self.clock);
        let again = std::mem::replace(&mut self.started, true);
        self.emit(now, if again { PlaybackEventKind::Resume } else { PlaybackEventKind::Start });
    }

    /// Handles a clock report that is late by more than the network delay.
    ///
    /// The network delay does not grow beyond its limit. VLC then only resets the clock ("jitter
    /// ignored") and does not flush. Playback resumes at the next report, one network delay later.
    /// The viewer sees this as an underflow too, so it is reported as one.
    fn underflow(&mut self, now: Instant) {
        self.frozen = self.position(now);
        let delay = self.clock.wanted_delay();
        self.clock.reset();
        if delay <= self.config.delay_cap() {
            self.output.flush(now, &self.film);
            self.clock.grow_delay(delay);
            self.state = State::Buffering;
            self.full = false;
        }
        self.emit(now, PlaybackEventKind::Underflow);
    }

    /// Plays the remaining pictures when the whole file has been read.
    fn finish(&mut self, now: Instant) {
        if self.end_at.is_none() {
            self.output.end(now, &self.clock);
            if self.state == State::Buffering && self.clock.is_tied() {
                self.start(now);
            } else if self.state == State::Buffering {
                self.output.flush(now, &self.film);
            }
            let last = self.output.last_shown().map_or(now, |last| last + self.film.frame_period());
            self.end_at = Some(last.max(now));
            self.wake = None;
            self.needed = u64::MAX;
        }
        if self.state != State::Ended && self.end_at.is_some_and(|end| end <= now) {
            self.frozen = self.position(now);
            self.state = State::Ended;
            self.emit(now, PlaybackEventKind::End);
        }
    }

    fn emit(&mut self, time: Instant, kind: PlaybackEventKind) {
        let (pts, delay) = (self.position(time), self.clock.delay());
        self.events.push_back(PlaybackEvent { time, kind, pts, delay });
    }
}
