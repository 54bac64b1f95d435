//! An adaptive player: a film in chunks over HTTP, each in the rendition that a rule chooses.
//!
//! ```text
//! master playlist -> rule -> media playlist -> [init] -> chunk -> buffer -> display
//!                     ^         (of a rendition, once)     |
//!                     +------------------------------------+
//! ```
//!
//! Sound of its own is a second track. VLC has one request under way at a time, of the track that is
//! behind; hls.js one of each track, side by side. A connection that has answered serves the next
//! request, and is idle while the buffer is full. The film plays at its own pace as soon as enough of
//! it is in, and stops where what is in ends.

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

/// The interval at which a rule that watches downloads is asked about the current chunk (hls.js,
/// `setInterval(this._abandonRulesCheck, 100)`).
const WATCH: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing has been shown.
    Starting,
    /// The film time `from` was shown at `since`.
    Playing {
        since: Instant,
        from: Duration,
    },
    /// What was received is shown; film time.
    Stalled(Duration),
    Ended,
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Master,
    Piece { track: Track, piece: Piece, rendition: usize },
}

impl Wanted {
    /// The track that it is fetched for; the master playlist is the pictures'.
    const fn track(self) -> Track {
        match self {
            Self::Master => Track::Video,
            Self::Piece { track, .. } => track,
        }
    }
}

/// A request under way.
#[derive(Clone, Copy, Debug)]
struct UnderWay {
    id: u64,
    wanted: Wanted,
    connection: u32,
    /// The place of its record, if it is of a chunk.
    record: Option<usize>,
    bytes: u64,
    received: u64,
    asked: Instant,
    first_byte: Option<Instant>,
    next_watch: Option<Instant>,
}

/// A player of one ladder over HTTP.
#[derive(Debug)]
pub struct AdaptivePlayer {
    settings: Settings,
    ladder: Arc<Ladder>,
    rule: Box<dyn AbrRule>,
    video: Progress,
    audio: Option<Progress>,
    /// The number of the sound that belongs to the rendition chosen last.
    sound: usize,
    master: bool,
    under_way: Vec<UnderWay>,
    next_id: u64,
    /// Connections that have been asked for.
    connections: u32,
    /// Those that wait for a request, the one that was used last at the end. A browser takes that one
    /// (Chromium, `TransportClientSocketPool::AssignIdleSocketToRequest`).
    free: Vec<u32>,
    /// The connection of a chunk that was given up, which the next request closes.
    left: Option<u32>,
    /// When the rule wants to be asked again.
    wait_until: Option<Instant>,
    state: State,
    total: Duration,
    /// How many of the switches have been shown.
    switches_shown: usize,
    chunks: Vec<ChunkRecord>,
    events: VecDeque<AdaptiveEvent>,
}

impl AdaptivePlayer {
    /// A player that is about to fetch the master playlist. The ladder must have passed
    /// [`Ladder::check`].
    pub fn new(config: &AdaptiveConfig, ladder: Arc<Ladder>, rule: Box<dyn AbrRule>) -> Self {
        Self {
            settings: Settings::new(config),
            rule,
            video: Progress::default(),
            audio: ladder.audio.as_ref().map(|_| Progress::default()),
            sound: 0,
            master: false,
            under_way: Vec::new(),
            next_id: 0,
            connections: 0,
            free: Vec::new(),
            left: None,
            wait_until: None,
            state: State::Starting,
            total: Duration::ZERO,
            switches_shown: 0,
            chunks: Vec::new(),
            events: VecDeque::new(),
            ladder,
        }
    }

    /// The next request to send, if any. Ask after every input, until there is none.
    pub fn poll_request(&mut self, now: Instant) -> Option<Request> {
        self.advance(now);
        self.follow_pictures(now);
        let (wanted, resource, bytes, range) = if self.master {
            self.next_piece(now)?
        } else if self.under_way.is_empty() {
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
        self.under_way.push(UnderWay {
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

    /// Takes `n` bytes of the body that answers request `id`, in order.
    pub fn handle_bytes(&mut self, now: Instant, id: u64, n: u64) {
        self.advance(now);
        let Some(at) = self.place(id) else {
            return;
        };
        let under_way = &mut self.under_way[at];
        under_way.first_byte.get_or_insert(now);
        under_way.received = under_way.received.saturating_add(n).min(under_way.bytes);
        let UnderWay { wanted, received, bytes, .. } = *under_way;
        if received == bytes {
            self.take(now, at);
        } else if let Wanted::Piece { track, piece: Piece::Chunk, rendition } = wanted {
            let duration = self.chunk(track, rendition).duration();
            let append = self.settings.append;
            self.progress(track).grow(append, duration, received, bytes);
        }
        self.play(now);
    }

    /// Takes the end of the response to request `id`: what is not in by then will not come, and
    /// counts as received. A playlist may be shorter than the ladder says; a chunk is not.
    pub fn handle_end(&mut self, now: Instant, id: u64) {
        self.advance(now);
        if let Some(at) = self.place(id) {
            self.take(now, at);
            self.play(now);
        }
    }

    /// How many bytes the player will take now: all there are, it stops by not asking.
    pub fn readable(&self, _now: Instant) -> u64 {
        u64::MAX
    }

    /// Must be called when the time of [`poll_timeout`](Self::poll_timeout) has come.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.advance(now);
        self.watch(now);
    }

    /// When [`handle_timeout`](Self::handle_timeout), and then
    /// [`poll_request`](Self::poll_request), must be called at the latest.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let shown = match self.state {
            State::Playing { since, from } => {
                let end = self.available().min(self.next_switch());
                Some(since + end.saturating_sub(from))
            }
            _ => None,
        };
        let watch = self.under_way.iter().find_map(|under_way| under_way.next_watch);
        let [one, other] =
            self.askable(None).map(|track| track.and_then(|track| self.asks_at(track)));
        [shown, watch, one, other].into_iter().flatten().min()
    }

    /// What happened, in order.
    pub fn poll_event(&mut self) -> Option<AdaptiveEvent> {
        self.events.pop_front()
    }

    /// True once the whole film has been shown.
    pub fn is_finished(&self) -> bool {
        self.state == State::Ended
    }

    /// The film time on the screen.
    pub fn position(&self, now: Instant) -> Duration {
        match self.state {
            State::Starting => Duration::ZERO,
            State::Playing { since, from } => (from + now.since(since)).min(self.available()),
            State::Stalled(at) => at,
            State::Ended => self.total,
        }
    }

    /// What is received and not shown. Bytes are those of whole chunks of pictures.
    pub fn buffer(&self, now: Instant) -> Buffer {
        let position = self.position(now);
        let (mut end, mut bytes) = (Duration::ZERO, 0);
        for record in self.chunks.iter().filter(|chunk| chunk.is_in(Track::Video)) {
            end += record.duration;
            bytes += if end > position { record.bytes } else { 0 };
        }
        Buffer { media: self.available().saturating_sub(position), bytes }
    }

    /// Every chunk that was asked for, in order.
    pub fn chunks(&self) -> &[ChunkRecord] {
        &self.chunks
    }

    /// The ladder.
    pub fn ladder(&self) -> &Ladder {
        &self.ladder
    }

    /// Returns the buffer of a track and the deadline, if the player reports them.
    fn client_data(&mut self, now: Instant, track: Track) -> ClientData {
        if !self.settings.cmcd {
            return ClientData::default();
        }
        let position = self.position(now);
        let buffered = self.progress(track).end().saturating_sub(position);
        ClientData::of_buffer(buffered, matches!(self.state, State::Playing { .. }))
    }

    /// The place of a request under way.
    fn place(&self, id: u64) -> Option<usize> {
        self.under_way.iter().position(|under_way| under_way.id == id)
    }

    fn progress(&mut self, track: Track) -> &mut Progress {
        match (track, &mut self.audio) {
            (Track::Audio, Some(audio)) => audio,
            _ => &mut self.video,
        }
    }

    fn video_is_in(&self) -> bool {
        self.video.next >= self.ladder.chunks()
    }

    fn audio_is_in(&self) -> bool {
        let all = self.ladder.sound(self.sound).map_or(0, |audio| audio.chunks.len());
        self.audio.as_ref().is_none_or(|audio| audio.next >= all)
    }

    /// How far the film can be shown: where the first of the tracks ends, unless it is complete.
    fn available(&self) -> Duration {
        match &self.audio {
            Some(audio) if !self.audio_is_in() => self.video.end().min(audio.end()),
            _ => self.video.end(),
        }
    }

    /// Where the next change of rendition is shown.
    fn next_switch(&self) -> Duration {
        let next = self.video.switches.get(self.switches_shown);
        next.map_or(Duration::from_nanos(u64::MAX), |&(at, _)| at)
    }

    /// Shows what was to be shown until now.
    fn advance(&mut self, now: Instant) {
        let State::Playing { since, from } = self.state else {
            return;
        };
        let shown_at = |film: Duration| since + film.saturating_sub(from);
        let end = self.available();
        while self.next_switch() < end && shown_at(self.next_switch()) <= now {
            let at = self.next_switch();
            self.switches_shown += 1;
            self.tell(shown_at(at), AdaptiveEventKind::Switch, at);
        }
        if shown_at(end) > now {
            return;
        }
        if self.video_is_in() && self.audio_is_in() {
            self.state = State::Ended;
            self.tell(shown_at(end), AdaptiveEventKind::End, end);
        } else {
            self.state = State::Stalled(end);
            self.tell(shown_at(end), AdaptiveEventKind::Underflow, end);
        }
    }

    /// Begins to play, or goes on, once enough is in.
    fn play(&mut self, now: Instant) {
        let all = self.video_is_in() && self.audio_is_in();
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
            // The first rendition is no change.
            self.switches_shown = 1;
        }
        self.tell(now, kind, from);
        self.advance(now);
    }

    fn tell(&mut self, time: Instant, kind: AdaptiveEventKind, film: Duration) {
        let pts = MediaTime::from_nanos(film.as_nanos() as i64);
        self.events.push_back(AdaptiveEvent { time, kind, pts });
    }
}
