//! An adaptive player: it fetches a film in chunks over HTTP, and an ABR rule chooses each
//! rendition.
//!
//! ```text
//! master playlist -> rule -> media playlist -> [init] -> chunk -> buffer -> display
//!                     ^         (of a rendition, once)     |
//!                     +------------------------------------+
//! ```
//!
//! Separate audio is a second track. VLC has one request at a time, for the track with less
//! received film. hls.js has one request per track at the same time. A connection is reused when
//! its response is complete, and is idle while the buffer is full. Playback starts when enough film
//! has been received, runs in real time, and stalls when all received film has been shown.

mod config;
mod download;
mod records;
mod track;

pub use config::{AdaptiveConfig, Append, PlayerModel, Requests};
pub use records::{AdaptiveEvent, AdaptiveEventKind, ChunkRecord};
pub use track::Track;

use crate::abr::AbrRule;
use crate::http::ClientData;
use crate::ladder::Ladder;
use crate::progressive::{Buffer, Request};
use crate::timeline::MediaTime;
use anabranch_units::{Duration, Instant};
use config::Settings;
use std::collections::VecDeque;
use std::sync::Arc;
use track::{Piece, Progress};

/// The interval at which a rule may decide to abandon the current download (hls.js,
/// `setInterval(this._abandonRulesCheck, 100)`).
const WATCH: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing has been shown.
    Starting,
    /// Playing since time `since`, from film time `from`.
    Playing {
        since: Instant,
        from: Duration,
    },
    /// All received film has been shown, up to this film time.
    Stalled(Duration),
    Ended,
}

/// The resource that a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Master,
    Piece { track: Track, piece: Piece, rendition: usize },
}

impl Wanted {
    /// Returns the track of the resource. The master playlist belongs to the video track.
    const fn track(self) -> Track {
        match self {
            Self::Master => Track::Video,
            Self::Piece { track, .. } => track,
        }
    }
}

/// A request whose response is not complete.
#[derive(Clone, Copy, Debug)]
struct PendingRequest {
    id: u64,
    wanted: Wanted,
    connection: u32,
    /// The index of the chunk's record, if the request is for a chunk.
    record: Option<usize>,
    bytes: u64,
    received: u64,
    asked: Instant,
    first_byte: Option<Instant>,
    next_watch: Option<Instant>,
}

/// A player that plays one ladder over HTTP.
#[derive(Debug)]
pub struct AdaptivePlayer {
    settings: Settings,
    ladder: Arc<Ladder>,
    rule: Box<dyn AbrRule>,
    video: Progress,
    audio: Option<Progress>,
    /// The index of the audio rendition that belongs to the current video rendition.
    sound: usize,
    master: bool,
    pending: Vec<PendingRequest>,
    next_id: u64,
    /// The number of connections used so far.
    connections: u32,
    /// The idle connections, in the order of their last use. The last one is reused first, as in
    /// Chromium (`TransportClientSocketPool::AssignIdleSocketToRequest`).
    free: Vec<u32>,
    /// The connection of an abandoned download. It is closed with the next request.
    left: Option<u32>,
    /// The time at which the rule is called again after
    /// [`AbrDecision::Wait`](crate::AbrDecision::Wait).
    wait_until: Option<Instant>,
    state: State,
    /// The time until which only the end of a response changes what the player does: no event is
    /// due and no request may be sent. `None` if this has to be found out again.
    idle_until: Option<Instant>,
    total: Duration,
    /// The number of switches that have been shown.
    switches_shown: usize,
    chunks: Vec<ChunkRecord>,
    events: VecDeque<AdaptiveEvent>,
}

impl AdaptivePlayer {
    /// Creates a player whose first request is for the master playlist. The ladder must have passed
    /// [`Ladder::check`].
    pub fn new(config: &AdaptiveConfig, ladder: Arc<Ladder>, rule: Box<dyn AbrRule>) -> Self {
        Self {
            settings: Settings::new(config),
            rule,
            video: Progress::default(),
            audio: ladder.audio.as_ref().map(|_| Progress::default()),
            sound: 0,
            master: false,
            pending: Vec::new(),
            next_id: 0,
            connections: 0,
            free: Vec::new(),
            left: None,
            wait_until: None,
            state: State::Starting,
            idle_until: None,
            total: Duration::ZERO,
            switches_shown: 0,
            chunks: Vec::new(),
            events: VecDeque::new(),
            ladder,
        }
    }

    /// Returns the next request to send. Call this after every input until it returns `None`.
    pub fn poll_request(&mut self, now: Instant) -> Option<Request> {
        if self.is_idle(now) {
            return None;
        }
        let request = self.next_request(now);
        self.idle_until = match request {
            Some(_) => None,
            None => Some(self.next_timeout().unwrap_or(Instant::FAR_FUTURE)),
        };
        request
    }

    /// Returns whether nothing is due and no request may be sent.
    fn is_idle(&self, now: Instant) -> bool {
        self.idle_until.is_some_and(|until| now < until)
    }

    fn next_request(&mut self, now: Instant) -> Option<Request> {
        self.advance(now);
        self.follow_video(now);
        let (wanted, resource, bytes, range) = if self.master {
            self.next_piece(now)?
        } else if self.pending.is_empty() {
            (Wanted::Master, self.ladder.master.path.clone(), self.ladder.master.bytes, None)
        } else {
            return None;
        };
        let id = self.next_id;
        self.next_id += 1;
        let connection = self.free.pop().unwrap_or(self.connections);
        self.connections = self.connections.max(connection + 1);
        let is_chunk = matches!(wanted, Wanted::Piece { piece: Piece::Chunk, .. });
        let watched = self.rule.watches() && is_chunk && wanted.track() == Track::Video;
        self.pending.push(PendingRequest {
            id,
            wanted,
            connection,
            record: is_chunk.then(|| self.chunks.len() - 1),
            bytes,
            received: 0,
            asked: now,
            first_byte: None,
            next_watch: watched.then(|| now + WATCH),
        });
        let leaves = self.left.take();
        let client_data = self.client_data(now, wanted.track());
        Some(Request { id, connection, leaves, closes_before: true, resource, range, client_data })
    }

    /// Receives the next `n` bytes of the response body to request `id`.
    pub fn handle_bytes(&mut self, now: Instant, id: u64, n: u64) {
        let Some(at) = self.place(id) else {
            return;
        };
        let waits = matches!(self.state, State::Playing { .. }) && self.is_idle(now);
        let pending = &mut self.pending[at];
        pending.first_byte.get_or_insert(now);
        let received = pending.received.saturating_add(n).min(pending.bytes);
        let is_complete = received == pending.bytes;
        if waits && !is_complete {
            // The film that these bytes add only delays the next event.
            pending.received = received;
            return;
        }
        self.idle_until = None;
        self.advance(now);
        self.pending[at].received = received;
        if is_complete {
            self.take(now, at);
        }
        self.play(now);
    }

    /// Handles the end of the response to request `id`. Missing bytes count as received. A playlist
    /// may be shorter than the ladder states, but a chunk may not.
    pub fn handle_end(&mut self, now: Instant, id: u64) {
        self.idle_until = None;
        self.advance(now);
        if let Some(at) = self.place(id) {
            self.take(now, at);
            self.play(now);
        }
    }

    /// Returns the number of bytes that the player accepts now. There is no limit, because the
    /// player limits the data by not sending requests.
    pub fn readable(&self, _now: Instant) -> u64 {
        u64::MAX
    }

    /// Handles the timer. The caller calls this at the time of
    /// [`poll_timeout`](Self::poll_timeout).
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.is_idle(now) {
            return;
        }
        self.idle_until = None;
        self.advance(now);
        self.watch(now);
    }

    /// Returns the time of the next timer. The caller then calls
    /// [`handle_timeout`](Self::handle_timeout) and [`poll_request`](Self::poll_request). It can be
    /// earlier than the next event, because bytes that arrive meanwhile delay the end of the film.
    pub fn poll_timeout(&self) -> Option<Instant> {
        match self.idle_until {
            Some(until) => Some(until).filter(|&until| until != Instant::FAR_FUTURE),
            None => self.next_timeout(),
        }
    }

    /// Returns the time of the next event or of the next possible request.
    fn next_timeout(&self) -> Option<Instant> {
        let shown = match self.state {
            State::Playing { since, from } => {
                let end = self.available().min(self.next_switch());
                Some(since + end.saturating_sub(from))
            }
            _ => None,
        };
        let watch = self.pending.iter().find_map(|pending| pending.next_watch);
        let [one, other] = self
            .tracks_to_request(None)
            .map(|track| track.and_then(|track| self.may_request_at(track)));
        [shown, watch, one, other].into_iter().flatten().min()
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<AdaptiveEvent> {
        self.events.pop_front()
    }

    /// Returns true after the whole film has been shown.
    pub fn is_finished(&self) -> bool {
        self.state == State::Ended
    }

    /// Returns the film time on the screen.
    pub fn position(&self, now: Instant) -> Duration {
        match self.state {
            State::Starting => Duration::ZERO,
            State::Playing { since, from } => (from + now.since(since)).min(self.available()),
            State::Stalled(at) => at,
            State::Ended => self.total,
        }
    }

    /// Returns the film that was received and not yet shown. The bytes count whole video chunks
    /// only.
    pub fn buffer(&self, now: Instant) -> Buffer {
        let position = self.position(now);
        let (mut end, mut bytes) = (Duration::ZERO, 0);
        for record in self.chunks.iter().filter(|chunk| chunk.is_complete_in(Track::Video)) {
            end += record.duration;
            bytes += if end > position { record.bytes } else { 0 };
        }
        Buffer { media: self.available().saturating_sub(position), bytes }
    }

    /// Returns all requested chunks in order of their requests.
    pub fn chunks(&self) -> &[ChunkRecord] {
        &self.chunks
    }

    /// Returns the ladder.
    pub fn ladder(&self) -> &Ladder {
        &self.ladder
    }

    /// Returns the buffer of a track and the deadline for CMCD, if CMCD is enabled.
    fn client_data(&mut self, now: Instant, track: Track) -> ClientData {
        if !self.settings.cmcd {
            return ClientData::default();
        }
        let position = self.position(now);
        let buffered = self.end(track).saturating_sub(position);
        ClientData::of_buffer(buffered, matches!(self.state, State::Playing { .. }))
    }

    /// Returns the index in `pending` of request `id`.
    fn place(&self, id: u64) -> Option<usize> {
        self.pending.iter().position(|pending| pending.id == id)
    }

    fn progress(&mut self, track: Track) -> &mut Progress {
        match (track, &mut self.audio) {
            (Track::Audio, Some(audio)) => audio,
            _ => &mut self.video,
        }
    }

    fn video_is_complete(&self) -> bool {
        self.video.next >= self.ladder.chunks()
    }

    fn audio_is_complete(&self) -> bool {
        let all = self.ladder.sound(self.sound).map_or(0, |audio| audio.chunks.len());
        self.audio.as_ref().is_none_or(|audio| audio.next >= all)
    }

    /// Returns the film time up to which a track can be shown, with the part of an incomplete chunk.
    fn end(&self, track: Track) -> Duration {
        let partial = match self.settings.append {
            Append::Stream => self.pending.iter().find_map(|pending| self.shown_of(pending, track)),
            Append::Whole => None,
        };
        self.received(track) + partial.unwrap_or(Duration::ZERO)
    }

    /// Returns the part of a track's incomplete chunk that can be shown.
    fn shown_of(&self, pending: &PendingRequest, track: Track) -> Option<Duration> {
        match pending.wanted {
            Wanted::Piece { track: of, piece: Piece::Chunk, rendition } if of == track => {
                let whole = u128::from(self.chunk(track, rendition).duration().as_nanos());
                let nanos =
                    (whole * u128::from(pending.received)).checked_div(pending.bytes.into());
                nanos.map(|nanos| Duration::from_nanos(nanos as u64))
            }
            _ => None,
        }
    }

    /// Returns the film time up to which playback can continue: the end of the track with less
    /// film. A complete audio track does not count.
    fn available(&self) -> Duration {
        match &self.audio {
            Some(_) if !self.audio_is_complete() => {
                self.end(Track::Video).min(self.end(Track::Audio))
            }
            _ => self.end(Track::Video),
        }
    }

    /// Returns the film time of the next switch to be shown.
    fn next_switch(&self) -> Duration {
        let next = self.video.switches.get(self.switches_shown);
        next.map_or(Duration::from_nanos(u64::MAX), |&(at, _)| at)
    }

    /// Advances playback to `now` and emits the events up to then.
    fn advance(&mut self, now: Instant) {
        let State::Playing { since, from } = self.state else {
            return;
        };
        let shown_at = |film: Duration| since + film.saturating_sub(from);
        let end = self.available();
        while self.next_switch() < end && shown_at(self.next_switch()) <= now {
            let at = self.next_switch();
            self.switches_shown += 1;
            self.emit(shown_at(at), AdaptiveEventKind::Switch, at);
        }
        if shown_at(end) > now {
            return;
        }
        if self.video_is_complete() && self.audio_is_complete() {
            self.state = State::Ended;
            self.emit(shown_at(end), AdaptiveEventKind::End, end);
        } else {
            self.state = State::Stalled(end);
            self.emit(shown_at(end), AdaptiveEventKind::Underflow, end);
        }
    }

    /// Starts or resumes playback if enough film has been received.
    fn play(&mut self, now: Instant) {
        let all = self.video_is_complete() && self.audio_is_complete();
        let (from, needed, kind) = match self.state {
            State::Starting => {
                (Duration::ZERO, self.settings.start_buffer, AdaptiveEventKind::Start)
            }
            State::Stalled(at) => (at, self.settings.resume_buffer, AdaptiveEventKind::Resume),
            State::Playing { .. } | State::Ended => return,
        };
        let ready = self.available().saturating_sub(from);
        if (ready.is_zero() || ready < needed) && !all {
            return;
        }
        self.state = State::Playing { since: now, from };
        if kind == AdaptiveEventKind::Start {
            // The first rendition is not a switch.
            self.switches_shown = 1;
        }
        self.emit(now, kind, from);
        self.advance(now);
    }

    fn emit(&mut self, time: Instant, kind: AdaptiveEventKind, film: Duration) {
        let pts = MediaTime::from_nanos(film.as_nanos() as i64);
        self.events.push_back(AdaptiveEvent { time, kind, pts });
    }
}
