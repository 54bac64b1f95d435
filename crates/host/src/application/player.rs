//! A client that plays a film, which it asks for over HTTP/1.1.

mod playing;

use std::sync::Arc;

use anabranch_media::http::{GetRequest, ResponseEvent, ResponseReader};
use anabranch_media::{
    AbrRule, AdaptiveConfig, AdaptivePlayer, Ladder, PlayerConfig, ProgressivePlayer, Request,
    Timeline,
};
use anabranch_trace::{RequestRow, Rows};
use anabranch_units::Instant;
use bytes::Bytes;

use super::{Application, Former, Next, WrongBytes};
use crate::pattern;
use crate::session::{Session, Viewing};
use crate::stream::Stream;

use playing::Playing;
pub use playing::report_ladder;

/// The most room that a response head needs, bytes.
const HEAD_ROOM: usize = 4096;

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

/// A player with its HTTP client. It asks for a new connection where its player gives a request another one.
pub struct Player {
    session: Session,
    playing: Playing,
    reader: ResponseReader,
    exchanges: Vec<Exchange>,
    outgoing: Bytes,
    /// The player's number of the connection that it asked over last.
    connection: Option<u32>,
    /// Underflows that were told.
    underflows: u64,
}

impl Player {
    /// A player of one file, as VLC plays it.
    pub fn progressive(session: Session, settings: PlayerConfig, film: Arc<Timeline>) -> Self {
        let player = ProgressivePlayer::new(settings, film);
        Self::new(session, Playing::Progressive(Box::new(player)))
    }

    /// A player of a ladder, which must have passed [`Ladder::check`], with a rule that chooses.
    pub fn adaptive(
        session: Session,
        settings: &AdaptiveConfig,
        ladder: Arc<Ladder>,
        rule: Box<dyn AbrRule>,
    ) -> Self {
        let player = AdaptivePlayer::new(settings, ladder, rule);
        Self::new(session, Playing::Adaptive(Box::new(player)))
    }

    fn new(session: Session, playing: Playing) -> Self {
        Self {
            session,
            playing,
            reader: ResponseReader::new(),
            exchanges: Vec::new(),
            outgoing: Bytes::new(),
            connection: None,
            underflows: 0,
        }
    }

    fn watch(&mut self, now: Instant, connection: &mut dyn Stream) -> Result<Next, WrongBytes> {
        self.playing.handle_timeout(now);
        loop {
            self.read_responses(now, connection)?;
            let Some(request) = self.playing.poll_request(now) else { break };
            if self.ask(now, &request) {
                self.reader = ResponseReader::new();
                let closes = request.closes_before;
                let former = if closes { Former::Closed } else { Former::KeptUntilAnswer };
                return Ok(Next::OnNewConnection(former));
            }
        }
        while !self.outgoing.is_empty() && connection.connected_at().is_some() {
            match connection.write(now, self.outgoing.clone()) {
                Ok(taken) => drop(self.outgoing.split_to(taken)),
                Err(_) => break,
            }
        }
        Ok(Next::AtAnything)
    }

    /// Makes a request of what the player asks for; true when it needs another connection.
    fn ask(&mut self, now: Instant, request: &Request) -> bool {
        let known = self.connection == Some(request.connection);
        self.connection = Some(request.connection);
        let get = GetRequest {
            host: "server".to_owned(),
            target: format!("/{}", request.resource),
            range: request.range,
        };
        self.outgoing = get.encode();
        self.exchanges.push(Exchange {
            id: request.id,
            resource: request.resource.clone(),
            asked: now,
            first_byte: None,
            done: None,
            bytes: 0,
            position: request.range.map_or(0, |range| range.first),
        });
        !known && self.exchanges.len() > 1
    }

    fn read_responses(
        &mut self,
        now: Instant,
        connection: &mut dyn Stream,
    ) -> Result<(), WrongBytes> {
        loop {
            let room = self.playing.readable(now) as usize;
            let waiting_for_head = self.exchanges.last().is_some_and(|e| e.first_byte.is_none());
            let limit = if waiting_for_head { room.max(HEAD_ROOM) } else { room };
            if limit == 0 {
                return Ok(());
            }
            let Some(bytes) = connection.read(now, limit) else { return Ok(()) };
            self.session.note_read(now, bytes.len() as u64);
            self.take_response(now, &bytes)?;
        }
    }

    /// What was read is part of a response.
    fn take_response(&mut self, now: Instant, bytes: &Bytes) -> Result<(), WrongBytes> {
        let wrong = |client, position| Err(WrongBytes { client, position });
        if self.reader.handle_bytes(bytes).is_err() {
            return wrong(self.session.id, self.session.bytes_read);
        }
        while let Some(event) = self.reader.poll_event() {
            let Some(exchange) = self.exchanges.last_mut() else { break };
            match event {
                ResponseEvent::Head(_) => exchange.first_byte = Some(now),
                ResponseEvent::Body(n) => {
                    // Responses are not pipelined: the body is the tail of what was read.
                    let body = &bytes[bytes.len() - (n as usize).min(bytes.len())..];
                    if !pattern::matches(exchange.position, body) {
                        return wrong(self.session.id, exchange.position);
                    }
                    exchange.position += n;
                    exchange.bytes += n;
                    self.playing.handle_bytes(now, exchange.id, n);
                }
                ResponseEvent::End => {
                    exchange.done = Some(now);
                    self.playing.handle_end(now, exchange.id);
                }
            }
        }
        Ok(())
    }
}

impl Application for Player {
    fn drive(&mut self, now: Instant, connection: &mut dyn Stream) -> Result<Next, WrongBytes> {
        while let Some(event) = connection.poll_event() {
            self.session.note_event(now, event);
        }
        let next = self.watch(now, connection)?;
        if self.playing.is_finished() {
            self.session.finish(now);
        }
        Ok(next)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        if self.session.over { None } else { self.playing.poll_timeout() }
    }

    fn is_answered(&self) -> bool {
        self.exchanges.last().is_some_and(|exchange| exchange.first_byte.is_some())
    }

    fn session(&self) -> Option<&Session> {
        Some(&self.session)
    }

    fn session_mut(&mut self) -> Option<&mut Session> {
        Some(&mut self.session)
    }

    fn viewing(&self, now: Instant) -> Option<Viewing> {
        Some(self.playing.viewing(now, self.underflows))
    }

    fn tell(&mut self, rows: &mut Rows) {
        self.underflows += self.playing.tell(self.session.id, self.session.start, rows);
    }

    fn sample(&self, now: Instant, rows: &mut Rows) {
        self.session.sample(now, Some(self.playing.buffer(now)), rows);
    }

    fn report(&self, rows: &mut Rows) {
        self.session.report(rows);
        let start = self.session.start;
        let since = |at: Option<Instant>| at.map_or(f64::NAN, |at| at.since(start).as_secs_f64());
        self.playing.report(self.session.id, start, rows);
        for exchange in &self.exchanges {
            rows.requests.push(RequestRow {
                client: i64::from(self.session.id),
                id: exchange.id as i64,
                t_s: exchange.asked.since(start).as_secs_f64(),
                resource: &exchange.resource,
                first_byte_s: since(exchange.first_byte),
                done_s: since(exchange.done),
                bytes: exchange.bytes as i64,
            });
        }
    }
}
