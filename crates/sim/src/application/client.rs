//! The client's side: a reader that checks what it reads, or a player over HTTP.

use anabranch_media::http::{GetRequest, ResponseEvent, ResponseReader};
use anabranch_trace::{GapRow, PlayerRow, RequestRow, Rows};
use anabranch_transport::{Connection, Event};
use anabranch_units::{Duration, Instant};
use bytes::Bytes;

use super::media::Media;
use super::player::Player;
use crate::checks::Violation;
use crate::pattern;
use crate::plan::Plan;

/// A response head needs so much room at most.
const HEAD_ROOM: usize = 4096;

/// A silence of this length or more between two reads is written down; shorter ones are how packets
/// come on a slow path.
const GAP: Duration = Duration::from_millis(100);

/// What a client asks of the world after it was driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientNeed {
    /// Nothing.
    Nothing,
    /// A new connection; all earlier ones are to be aborted.
    NewConnection,
}

/// One HTTP request under way or done.
#[derive(Clone, Debug)]
struct Exchange {
    id: u64,
    resource: String,
    asked: Instant,
    first_byte: Option<Instant>,
    done: Option<Instant>,
    bytes: u64,
    position: u64,
}

struct Watching {
    player: Player,
    reader: ResponseReader,
    exchanges: Vec<Exchange>,
    outgoing: Bytes,
    connection: Option<u32>,
}

/// One client, or the reader of a flow of cross traffic: its application and what it measured.
pub(crate) struct Client {
    pub(crate) id: u32,
    pub(crate) start: Instant,
    /// When the session is cut off, if it is.
    until: Instant,
    pub(crate) connect: Option<Instant>,
    /// Bytes read within the session's time.
    pub(crate) bytes_read: u64,
    /// Where the next byte of the stream stands, for the check of its value.
    position: u64,
    last_read: Option<Instant>,
    pub(crate) max_gap: Duration,
    /// Silences of [`GAP`] or more: the read before each, and how long it lasted.
    gaps: Vec<(Instant, Duration)>,
    pub(crate) fallback: bool,
    /// All that was asked has been done.
    pub(crate) finished: bool,
    /// The session has ended, one way or the other.
    pub(crate) over: bool,
    pub(crate) finished_at: Option<Instant>,
    watching: Option<Box<Watching>>,
}

impl Client {
    pub(crate) fn new(id: u32, start: Instant, plan: &Plan, media: &Media) -> Self {
        let watching = Player::new(plan, media).map(|player| Watching {
            player,
            reader: ResponseReader::new(),
            exchanges: Vec::new(),
            outgoing: Bytes::new(),
            connection: None,
        });
        let span = plan.application.duration_ns;
        Self { watching: watching.map(Box::new), ..Self::reader(id, start, span) }
    }

    /// One that reads all that comes, for so long or to the end.
    pub(crate) fn reader(id: u32, start: Instant, duration_ns: Option<u64>) -> Self {
        Self {
            id,
            start,
            until: duration_ns
                .map_or(Instant::FAR_FUTURE, |span| start + Duration::from_nanos(span)),
            connect: None,
            bytes_read: 0,
            position: 0,
            last_read: None,
            max_gap: Duration::ZERO,
            gaps: Vec::new(),
            fallback: false,
            finished: false,
            over: false,
            finished_at: None,
            watching: None,
        }
    }

    /// When the application itself wants to be woken.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        if self.over {
            return None;
        }
        self.watching.as_ref().and_then(|watching| watching.player.poll_timeout())
    }

    fn finish(&mut self, now: Instant) {
        if !self.over {
            self.finished = true;
            self.over = true;
            self.finished_at = Some(now);
        }
    }

    /// Reads what came, asks for what is wanted.
    pub(crate) fn drive(
        &mut self,
        now: Instant,
        mut connection: Option<&mut Connection>,
        rows: &mut Rows,
    ) -> Result<ClientNeed, Violation> {
        if let Some(connection) = connection.as_deref_mut() {
            while let Some(event) = connection.poll_event() {
                match event {
                    Event::Connected => {
                        self.connect.get_or_insert(now);
                    }
                    Event::FellBack => self.fallback = true,
                    Event::PeerFinished if self.watching.is_none() => {
                        connection.shutdown(now);
                        self.read_all(now, connection)?;
                        self.finish(now);
                    }
                    Event::Closed if !self.over => {
                        // The connection broke: nothing more will come.
                        self.over = true;
                        self.finished_at = Some(now);
                    }
                    _ => {}
                }
            }
        }
        if self.watching.is_some() {
            return self.watch(now, connection, rows);
        }
        if let Some(connection) = connection {
            self.read_all(now, connection)?;
        }
        Ok(ClientNeed::Nothing)
    }

    #[inline(always)]
    fn read_all(&mut self, now: Instant, connection: &mut Connection) -> Result<(), Violation> {
        while let Some(bytes) = connection.read(now, usize::MAX) {
            if !pattern::matches(self.position, &bytes) {
                return Err(Violation::Bytes { client: self.id, position: self.position });
            }
            self.position += bytes.len() as u64;
            self.note_read(now, bytes.len() as u64);
        }
        Ok(())
    }

    fn note_read(&mut self, now: Instant, bytes: u64) {
        // What arrives after the cut is read, to keep the others' links as they were, and not counted.
        if now > self.until {
            return;
        }
        if let Some(last) = self.last_read {
            let gap = now.since(last);
            self.max_gap = self.max_gap.max(gap);
            if gap >= GAP {
                self.gaps.push((last, gap));
            }
        }
        self.last_read = Some(now);
        self.bytes_read += bytes;
    }

    fn watch(
        &mut self,
        now: Instant,
        connection: Option<&mut Connection>,
        rows: &mut Rows,
    ) -> Result<ClientNeed, Violation> {
        let Some(mut watching) = self.watching.take() else {
            return Ok(ClientNeed::Nothing);
        };
        let outcome = self.watch_with(now, &mut watching, connection);
        watching.player.tell(self.id, self.start, rows);
        if watching.player.is_finished() {
            self.finish(now);
        }
        self.watching = Some(watching);
        outcome
    }

    fn watch_with(
        &mut self,
        now: Instant,
        watching: &mut Watching,
        connection: Option<&mut Connection>,
    ) -> Result<ClientNeed, Violation> {
        watching.player.handle_timeout(now);
        let mut connection = connection;
        loop {
            if let Some(connection) = connection.as_deref_mut() {
                self.read_responses(now, watching, connection)?;
            }
            let Some(request) = watching.player.poll_request(now) else {
                break;
            };
            let known = watching.connection == Some(request.connection);
            watching.connection = Some(request.connection);
            let get = GetRequest {
                host: "server".to_owned(),
                target: format!("/{}", request.resource),
                range: request.range,
            };
            watching.outgoing = get.encode();
            watching.exchanges.push(Exchange {
                id: request.id,
                resource: request.resource,
                asked: now,
                first_byte: None,
                done: None,
                bytes: 0,
                position: request.range.map_or(0, |range| range.first),
            });
            if !known && watching.exchanges.len() > 1 {
                watching.reader = ResponseReader::new();
                return Ok(ClientNeed::NewConnection);
            }
        }
        if let Some(connection) = connection {
            while !watching.outgoing.is_empty() && connection.connected_at().is_some() {
                match connection.write(now, watching.outgoing.clone()) {
                    Ok(taken) => drop(watching.outgoing.split_to(taken)),
                    Err(_) => break,
                }
            }
        }
        Ok(ClientNeed::Nothing)
    }

    fn read_responses(
        &mut self,
        now: Instant,
        watching: &mut Watching,
        connection: &mut Connection,
    ) -> Result<(), Violation> {
        loop {
            let room = watching.player.readable(now) as usize;
            let waiting_for_head =
                watching.exchanges.last().is_some_and(|e| e.first_byte.is_none());
            let limit = if waiting_for_head { room.max(HEAD_ROOM) } else { room };
            if limit == 0 {
                return Ok(());
            }
            let Some(bytes) = connection.read(now, limit) else {
                return Ok(());
            };
            self.note_read(now, bytes.len() as u64);
            if watching.reader.handle_bytes(&bytes).is_err() {
                return Err(Violation::Bytes { client: self.id, position: self.bytes_read });
            }
            while let Some(event) = watching.reader.poll_event() {
                let Some(exchange) = watching.exchanges.last_mut() else {
                    break;
                };
                match event {
                    ResponseEvent::Head(_) => exchange.first_byte = Some(now),
                    ResponseEvent::Body(n) => {
                        // Responses are not pipelined: the body is the tail of what was read.
                        let body = &bytes[bytes.len() - (n as usize).min(bytes.len())..];
                        if !pattern::matches(exchange.position, body) {
                            let position = exchange.position;
                            return Err(Violation::Bytes { client: self.id, position });
                        }
                        exchange.position += n;
                        exchange.bytes += n;
                        watching.player.handle_bytes(now, exchange.id, n);
                    }
                    ResponseEvent::End => {
                        exchange.done = Some(now);
                        watching.player.handle_end(now, exchange.id);
                    }
                }
            }
        }
    }

    /// A sample of the player.
    pub(crate) fn sample(&self, now: Instant, rows: &mut Rows) {
        let buffer = self.watching.as_ref().map(|w| w.player.buffer(now));
        rows.player.push(PlayerRow {
            t_s: now.since(self.start).as_secs_f64(),
            client: i64::from(self.id),
            bytes_read: self.bytes_read as i64,
            buffer_s: buffer.map_or(f64::NAN, |b| b.media.as_secs_f64()),
            buffer_bytes: buffer.map_or(0, |b| b.bytes as i64),
        });
    }

    /// The silences, pictures and requests, when the run is over.
    pub(crate) fn report(&self, rows: &mut Rows) {
        for (last, gap) in &self.gaps {
            rows.gaps.push(GapRow {
                client: i64::from(self.id),
                t_s: last.since(self.start).as_secs_f64(),
                gap_s: gap.as_secs_f64(),
            });
        }
        let Some(watching) = &self.watching else {
            return;
        };
        let since =
            |at: Option<Instant>| at.map_or(f64::NAN, |at| at.since(self.start).as_secs_f64());
        watching.player.report(self.id, self.start, rows);
        for exchange in &watching.exchanges {
            rows.requests.push(RequestRow {
                client: i64::from(self.id),
                id: exchange.id as i64,
                t_s: exchange.asked.since(self.start).as_secs_f64(),
                resource: &exchange.resource,
                first_byte_s: since(exchange.first_byte),
                done_s: since(exchange.done),
                bytes: exchange.bytes as i64,
            });
        }
    }
}
