//! A player of one file over HTTP, modelled on VLC 3.0.
//!
//! ```text
//! bytes -> prefetch ring -> demuxer -> decoder -> display
//!          (intake)         (demux)    (output)
//!                              |          |
//!                              +- clock --+
//! ```
//!
//! The demuxer reads from the ring in steps and reports the stream's clock after each. While the
//! player *buffers* it reads on at once, until more film lies between the first and the last report
//! than the network delay (1 s); then it *plays*: the clock runs, and the demuxer keeps a delay and
//! up to 100 ms ahead of it. A report that comes late by more than the delay stops the player: it
//! throws away all that is not on the screen, grows the delay by the median of the last three
//! latenesses, and buffers again. That is a buffer underflow. All of it is driven by
//! [`handle_bytes`](ProgressivePlayer::handle_bytes) and one timer, the demuxer's next step; a
//! picture's fate needs no timer, because it is settled when the picture leaves the decoder.

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

/// News of the playback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaybackEvent {
    /// When it happened.
    pub time: Instant,
    /// What happened.
    pub kind: PlaybackEventKind,
    /// The film time on the screen.
    pub pts: MediaTime,
    /// The network delay from now on.
    pub delay: Duration,
}

/// What happened to the playback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaybackEventKind {
    /// Buffering reached the network delay: what VLC tells its user as 100 %. Playing begins or
    /// goes on once *more* than that is read, which is a clock report later when they are equal.
    Full,
    /// It began: buffering was complete for the first time.
    Start,
    /// It stopped for want of data.
    Underflow,
    /// It goes on after an underflow.
    Resume,
    /// The last picture has been shown.
    End,
}

impl PlaybackEventKind {
    /// The event's name in the trace.
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

/// What a player holds that has not been shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buffer {
    /// Film between what is on the screen and the last packet received.
    pub media: Duration,
    /// Bytes in the prefetch ring; what the demuxer has taken out is not counted.
    pub bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Buffering,
    Playing,
    Ended,
}

/// A player of one file over HTTP.
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
    /// Buffering has reached the network delay.
    full: bool,
    /// The step under way; none when the file is read.
    step: Option<Step>,
    /// The next packet to leave the demuxer.
    next_packet: usize,
    /// The position that the file must be received to before anything moves.
    needed: u64,
    /// When the step under way may begin.
    wake: Option<Instant>,
    /// When the last picture has been shown, once the file is read.
    end_at: Option<Instant>,
    /// The film time on the screen while no clock runs.
    frozen: MediaTime,
    events: VecDeque<PlaybackEvent>,
}

impl ProgressivePlayer {
    /// A player that is about to open the film.
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

    /// The next request to send, if any. Ask after every input.
    pub fn poll_request(&mut self, now: Instant) -> Option<Request> {
        let mut request = self.intake.poll_request(&self.film)?;
        if self.config.cmcd {
            let plays = self.state == State::Playing;
            request.client_data = ClientData::of_buffer(self.buffer(now).media, plays);
        }
        Some(request)
    }

    /// Takes `n` bytes of the body that answers request `id`, in order. Bytes of a request that a
    /// later one has replaced are ignored.
    pub fn handle_bytes(&mut self, now: Instant, id: u64, n: u64) {
        if self.intake.handle_bytes(now, id, n) && self.intake.received() >= self.needed {
            self.run(now);
        }
    }

    /// Takes the end of the response to request `id`. Needed for one without a body (a 416); at the
    /// end of any other it changes nothing.
    pub fn handle_end(&mut self, _now: Instant, id: u64) {
        self.intake.handle_end(id);
    }

    /// How many bytes the player will take now. Zero stops the reading of the connection, whose
    /// window then closes; ask again after [`handle_timeout`](Self::handle_timeout).
    pub fn readable(&self, _now: Instant) -> u64 {
        self.intake.room(self.consumed())
    }

    /// Must be called when the time of [`poll_timeout`](Self::poll_timeout) has come.
    pub fn handle_timeout(&mut self, now: Instant) {
        let is_film = self.intake.advance(now);
        if is_film || self.poll_timeout().is_some_and(|timeout| timeout <= now) {
            self.run(now);
        }
    }

    /// When the player must be woken: at most once for every clock report of the film, which are
    /// four (MP4) or ten (MPEG-TS) a second.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.state == State::Ended {
            return None;
        }
        [self.end_at.or(self.wake), self.intake.timeout()].into_iter().flatten().min()
    }

    /// The next playback event.
    pub fn poll_event(&mut self) -> Option<PlaybackEvent> {
        self.events.pop_front()
    }

    /// Whether the film has been played to its end.
    pub fn is_finished(&self) -> bool {
        self.state == State::Ended
    }

    /// What the player holds that has not been shown.
    pub fn buffer(&self, now: Instant) -> Buffer {
        let last = self.demux.last_whole(self.intake.received());
        Buffer {
            media: media_ahead(&self.film, last, self.position(now)),
            bytes: self.intake.held(self.consumed()),
        }
    }

    /// The film time on the screen.
    pub fn position(&self, now: Instant) -> MediaTime {
        let running = self.state != State::Buffering;
        let position = self.clock.position(now).filter(|_| running).unwrap_or(self.frozen);
        let last = self.film.pictures().last().map_or(self.frozen, |last| last.pts);
        position.min(last).max(self.frozen)
    }

    /// Every picture of the film in display order, and what became of it so far. A picture that is
    /// settled to be shown later already counts as displayed.
    pub fn frames(&self) -> &[FrameRecord] {
        self.output.frames()
    }

    /// The network delay now.
    pub fn delay(&self) -> Duration {
        self.clock.delay()
    }

    /// How far the demuxer has read. One that waits for bytes takes each as it comes.
    fn consumed(&self) -> u64 {
        if self.wake.is_none() && self.step.is_some() {
            self.intake.received()
        } else {
            // The step under way has not begun; the demuxer stands where the one before ended.
            self.step_begin()
        }
    }

    fn step_begin(&self) -> u64 {
        match self.step {
            Some(_) => self.demux.read_before(),
            None => self.film.size_bytes(),
        }
    }

    /// Goes as far as bytes and time allow.
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

    /// Sends the step's packets to their decoders as far as they are received; true if all were.
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

    /// The demuxer reports the stream's clock (`es_out.c`, `ES_OUT_SET_PCR`).
    fn report_clock(&mut self, now: Instant, stream: MediaTime) {
        let was_tied = self.clock.is_tied();
        let late = self.clock.update(now, stream);
        if self.state == State::Buffering && self.clock.span() >= self.clock.delay() {
            self.fill(now);
        }
        match self.state {
            State::Buffering if self.clock.span() > self.clock.delay() => self.start(now),
            State::Playing if !was_tied => self.tell(now, PlaybackEventKind::Resume),
            State::Playing if !late.is_zero() => self.underflow(now),
            State::Buffering | State::Playing | State::Ended => {}
        }
    }

    fn fill(&mut self, now: Instant) {
        if !std::mem::replace(&mut self.full, true) {
            self.tell(now, PlaybackEventKind::Full);
        }
    }

    /// Buffering is complete (`es_out.c`, `EsOutDecodersStopBuffering`).
    fn start(&mut self, now: Instant) {
        self.fill(now);
        self.state = State::Playing;
        self.clock.start(now, Duration::from_nanos(self.config.start_margin_ns));
        self.output.start(now, &self.film, &self.clock);
        let again = std::mem::replace(&mut self.started, true);
        self.tell(now, if again { PlaybackEventKind::Resume } else { PlaybackEventKind::Start });
    }

    /// The clock's report came too late.
    ///
    /// A delay beyond the cap is not granted: then VLC only unties the clock ("jitter ignored") and
    /// plays on from the next report, a network delay later, without a flush. To the viewer that is
    /// an underflow too, and so it is told.
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
        self.tell(now, PlaybackEventKind::Underflow);
    }

    /// The file is read: what is left plays out.
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
            self.tell(now, PlaybackEventKind::End);
        }
    }

    fn tell(&mut self, time: Instant, kind: PlaybackEventKind) {
        let (pts, delay) = (self.position(time), self.clock.delay());
        self.events.push_back(PlaybackEvent { time, kind, pts, delay });
    }
}
