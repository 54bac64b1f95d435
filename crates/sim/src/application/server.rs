//! The server's side of a connection: bulk, paced, or HTTP.

use std::collections::VecDeque;
use std::ops::Range;

use anabranch_media::http::{Answer, RequestReader};
use anabranch_transport::{Connection, Event};
use anabranch_units::{Duration, Instant};
use bytes::Bytes;

use super::media::Media;
use crate::pattern;
use crate::plan::{ApplicationKind, CrossKind, CrossPlan, Plan};

/// A paced application writes what is due every so often.
const PACE: Duration = Duration::from_millis(10);
/// It waits until so much is due (one segment of plain TCP).
const PACE_LEAST: u64 = 1448;

/// An application that writes at a rate: what is due and was not written goes out in one call, once
/// poll(2) has told that there is room for it; when too little is due it sleeps.
struct Paced {
    written: u64,
    limit: u64,
    rate_bps: u64,
    since: Option<Instant>,
    /// It sleeps until then.
    next: Instant,
    /// What it will write when there is room: as much as was due when it began to wait.
    wanted: Option<u64>,
}

impl Paced {
    /// Writes what is due; true when all is written. `room` tells that it was waited for, and has come.
    fn drive(&mut self, now: Instant, connection: &mut Connection, room: bool) -> bool {
        let since = *self.since.get_or_insert(now);
        let waits = if self.wanted.is_some() { !room } else { now < self.next };
        if waits {
            return false;
        }
        while self.written < self.limit {
            let due = u128::from(now.since(since).as_nanos()) * u128::from(self.rate_bps);
            let due = ((due / 8_000_000_000) as u64).min(self.limit) - self.written;
            if self.wanted.is_none() && due < PACE_LEAST && self.written + due < self.limit {
                self.next = now + PACE;
                return false;
            }
            let wanted = self.wanted.take().unwrap_or(due);
            if !connection.poll_writable() {
                self.wanted = Some(wanted);
                return false;
            }
            match connection.write(now, pattern::piece(self.written, wanted)) {
                Ok(taken) => self.written += taken as u64,
                Err(_) => self.wanted = Some(wanted),
            }
        }
        true
    }
}

/// The server's side of one connection.
pub(crate) struct Serving {
    kind: Kind,
    /// The send buffer was full; nothing is written until the connection says so.
    blocked: bool,
}

enum Kind {
    Bulk { written: u64, limit: u64 },
    Paced(Paced),
    Http { reader: RequestReader, media: Media, heads: VecDeque<(Bytes, Range<u64>)> },
}

impl Kind {
    /// So many bytes, or without end.
    fn bulk(bytes: Option<u64>) -> Self {
        Self::Bulk { written: 0, limit: bytes.unwrap_or(u64::MAX) }
    }

    /// The same at a rate; a plan without one is refused where it is read.
    fn paced(bytes: Option<u64>, rate_bps: Option<u64>) -> Self {
        Self::Paced(Paced {
            written: 0,
            limit: bytes.unwrap_or(u64::MAX),
            rate_bps: rate_bps.unwrap_or(0),
            since: None,
            next: Instant::ZERO,
            wanted: None,
        })
    }
}

impl Serving {
    pub(crate) fn new(plan: &Plan, media: &Media) -> Self {
        let application = &plan.application;
        let kind = match application.kind {
            ApplicationKind::Bulk => Kind::bulk(application.bytes),
            ApplicationKind::Paced => Kind::paced(application.bytes, application.rate_bps),
            ApplicationKind::Progressive | ApplicationKind::Adaptive => Kind::Http {
                reader: RequestReader::new(),
                media: media.clone(),
                heads: VecDeque::new(),
            },
        };
        Self { kind, blocked: false }
    }

    /// The sender of a flow of cross traffic.
    pub(crate) fn across(group: &CrossPlan) -> Self {
        let kind = match group.kind {
            CrossKind::Bulk => Kind::bulk(group.bytes),
            CrossKind::Paced => Kind::paced(group.bytes, group.rate_bps),
        };
        Self { kind, blocked: false }
    }

    /// When the application itself wants to be woken.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        match &self.kind {
            Kind::Paced(paced)
                if paced.since.is_some()
                    && paced.wanted.is_none()
                    && paced.written < paced.limit =>
            {
                Some(paced.next)
            }
            _ => None,
        }
    }

    /// Reads and writes whatever is possible now.
    pub(crate) fn drive(&mut self, now: Instant, connection: &mut Connection) {
        let mut room = false;
        while let Some(event) = connection.poll_event() {
            room |= event == Event::Writable;
        }
        self.blocked &= !room;
        if connection.connected_at().is_none() {
            return;
        }
        let blocked = &mut self.blocked;
        match &mut self.kind {
            Kind::Bulk { written, limit } => {
                if *written < *limit && write_polled(now, connection, blocked, written, *limit) {
                    connection.shutdown(now);
                }
            }
            Kind::Paced(paced) => {
                let over = paced.written == paced.limit;
                if !over && paced.drive(now, connection, room) {
                    connection.shutdown(now);
                }
            }
            Kind::Http { reader, media, heads } => {
                while let Some(bytes) = connection.read(now, usize::MAX) {
                    reader.handle_bytes(&bytes);
                }
                while let Ok(Some(request)) = reader.poll_request() {
                    let answer = Answer::new(&request, media.size_of(&request.target));
                    heads.push_back((answer.head, answer.body));
                }
                write_answers(now, connection, blocked, heads);
            }
        }
    }
}

/// Writes the pattern up to `limit` as a program does that asks poll(2) before each call: a piece at
/// a time, and only while a third of the send buffer is free. True when all is written.
fn write_polled(
    now: Instant,
    connection: &mut Connection,
    blocked: &mut bool,
    written: &mut u64,
    limit: u64,
) -> bool {
    while *written < limit && !*blocked {
        let piece = pattern::piece(*written, limit - *written);
        match connection.poll_writable().then(|| connection.write(now, piece)) {
            Some(Ok(taken)) => *written += taken as u64,
            _ => *blocked = true,
        }
    }
    *written >= limit
}

/// Writes the pattern up to `limit`, until the send buffer is full; true when all is written.
fn write_pattern(
    now: Instant,
    connection: &mut Connection,
    blocked: &mut bool,
    written: &mut u64,
    limit: u64,
) -> bool {
    while *written < limit && !*blocked {
        match connection.write(now, pattern::piece(*written, limit - *written)) {
            Ok(taken) => *written += taken as u64,
            Err(_) => *blocked = true,
        }
    }
    *written >= limit
}

fn write_answers(
    now: Instant,
    connection: &mut Connection,
    blocked: &mut bool,
    answers: &mut VecDeque<(Bytes, Range<u64>)>,
) {
    while let Some((head, body)) = answers.front_mut() {
        while !head.is_empty() && !*blocked {
            match connection.write(now, head.clone()) {
                Ok(taken) => drop(head.split_to(taken)),
                Err(_) => *blocked = true,
            }
        }
        if *blocked || !write_pattern(now, connection, blocked, &mut body.start, body.end) {
            return;
        }
        answers.pop_front();
    }
}
