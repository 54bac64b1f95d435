//! A client that plays a film over HTTP/1.1.

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

use super::{Application, Former, Lanes, Next, WrongBytes};
use crate::session::{Session, Viewing};
use crate::stream::Stream;

use playing::Playing;
pub use playing::report_ladder;

/// The bytes to read while a response head is expected.
const HEAD_ROOM: usize = 4096;

/// An HTTP request, in progress or complete.
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

/// The state of an HTTP connection.
struct Channel {
    /// The number that the player gave to the connection.
    connection: u32,
    reader: ResponseReader,
    /// The index of the latest exchange on the connection.
    exchange: usize,
    outgoing: Bytes,
}

/// A player with its HTTP client. The client opens a connection when a request has a new connection number.
pub struct Player {
    session: Session,
    playing: Playing,
    /// The connections by lane; `None` in a lane whose connection was abandoned.
    channels: Vec<Option<Channel>>,
    /// The lane of the newest connection.
    newest: usize,
    exchanges: Vec<Exchange>,
    /// The number of underflows that were added as rows so far.
    underflows: u64,
}

impl Player {
    /// Creates a player of one file, which behaves like VLC.
    pub fn progressive(session: Session, settings: PlayerConfig, film: Arc<Timeline>) -> Self {
        let player = ProgressivePlayer::new(settings, film);
        Self::new(session, Playing::Progressive(Box::new(player)))
    }

    /// Creates a player of a ladder of renditions with an ABR rule. The ladder must have passed
    /// [`Ladder::check`].
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
            channels: Vec::new(),
            newest: 0,
            exchanges: Vec::new(),
            underflows: 0,
        }
    }

    fn watch(&mut self, now: Instant, lanes: &mut dyn Lanes) -> Result<Next, WrongBytes> {
        self.playing.handle_timeout(now);
        loop {
            for lane in 0..self.channels.len() {
                self.read_responses(now, lane, lanes)?;
            }
            let Some(request) = self.playing.poll_request(now) else { break };
            if let Some(next) = self.ask(now, &request) {
                return Ok(next);
            }
        }
        for (lane, channel) in self.channels.iter_mut().enumerate() {
            let (Some(channel), Some(connection)) = (channel, lanes.get(lane)) else { continue };
            while !channel.outgoing.is_empty() && connection.connected_at().is_some() {
                match connection.write(now, channel.outgoing.clone()) {
                    Ok(taken) => drop(channel.outgoing.split_to(taken)),
                    Err(_) => break,
                }
            }
        }
        Ok(Next::AtAnything)
    }

    /// Starts a request of the player. Returns the change of connections that must come first, if there is
    /// one.
    fn ask(&mut self, now: Instant, request: &Request) -> Option<Next> {
        let get = GetRequest {
            host: "server".to_owned(),
            target: format!("/{}", request.resource),
            range: request.range,
            client_data: request.client_data,
        };
        let (outgoing, exchange) = (get.encode(), self.exchanges.len());
        self.exchanges.push(Exchange {
            id: request.id,
            resource: request.resource.clone(),
            asked: now,
            first_byte: None,
            done: None,
            bytes: 0,
            position: request.range.map_or(0, |range| range.first),
        });
        let left = request.leaves.and_then(|left| self.lane_of(left));
        if let Some(channel) =
            self.lane_of(request.connection).and_then(|at| self.channels[at].as_mut())
        {
            (channel.outgoing, channel.exchange) = (outgoing, exchange);
            let left = left?;
            self.channels[left] = None;
            return Some(Next::Without(left));
        }
        let unused = || self.channels.iter().position(Option::is_none);
        let lane = left.or_else(unused).unwrap_or(self.channels.len());
        if lane == self.channels.len() {
            self.channels.push(None);
        }
        let (connection, reader) = (request.connection, ResponseReader::new());
        self.channels[lane] = Some(Channel { connection, reader, exchange, outgoing });
        self.newest = lane;
        let former = if request.closes_before { Former::Closed } else { Former::KeptUntilAnswer };
        // The first connection exists from the start.
        (exchange > 0).then_some(Next::OnNewConnection { lane, former })
    }

    /// Returns the lane of one of the player's connections.
    fn lane_of(&self, connection: u32) -> Option<usize> {
        let has = |channel: &Option<Channel>| {
            channel.as_ref().is_some_and(|it| it.connection == connection)
        };
        self.channels.iter().position(has)
    }

    fn read_responses(
        &mut self,
        now: Instant,
        lane: usize,
        lanes: &mut dyn Lanes,
    ) -> Result<(), WrongBytes> {
        let Some(connection) = lanes.get(lane) else { return Ok(()) };
        loop {
            let Some(channel) = &self.channels[lane] else { return Ok(()) };
            let room = self.playing.readable(now) as usize;
            let waiting_for_head = self.exchanges[channel.exchange].first_byte.is_none();
            let limit = if waiting_for_head { room.max(HEAD_ROOM) } else { room };
            if limit == 0 {
                return Ok(());
            }
            let Some(bytes) = connection.read(now, limit) else { return Ok(()) };
            self.session.note_read(now, bytes.len() as u64);
            self.take_response(now, lane, &bytes)?;
        }
    }

    /// Parses bytes that were read from a lane as a part of a response.
    fn take_response(
        &mut self,
        now: Instant,
        lane: usize,
        bytes: &Bytes,
    ) -> Result<(), WrongBytes> {
        let Some(channel) = &mut self.channels[lane] else { return Ok(()) };
        if channel.reader.handle_bytes(bytes).is_err() {
            return self.session.give_up(now);
        }
        while let Some(event) = channel.reader.poll_event() {
            let exchange = &mut self.exchanges[channel.exchange];
            match event {
                ResponseEvent::Head(_) => exchange.first_byte = Some(now),
                ResponseEvent::Body(n) => {
                    // Requests are not pipelined, so the body is at the end of the bytes read.
                    let body = &bytes[bytes.len() - (n as usize).min(bytes.len())..];
                    self.session.check(now, exchange.position, body)?;
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
    fn drive_all(&mut self, now: Instant, lanes: &mut dyn Lanes) -> Result<Next, WrongBytes> {
        // Lane 0 has a connection even before the first request creates its channel.
        for lane in 0..self.channels.len().max(1) {
            while let Some(event) = lanes.get(lane).and_then(Stream::poll_event) {
                self.session.note_event(now, event);
            }
        }
        let next = self.watch(now, lanes)?;
        if self.playing.is_finished() {
            self.session.finish(now);
        }
        Ok(next)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        if self.session.over { None } else { self.playing.poll_timeout() }
    }

    fn is_answered(&self) -> bool {
        let newest = self.channels.get(self.newest).and_then(Option::as_ref);
        newest.is_some_and(|channel| self.exchanges[channel.exchange].first_byte.is_some())
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
