//! A server that sends at a rate.

use anabranch_units::{Duration, Instant, Rate};

use super::writing::take_news;
use super::{Application, Next, WrongBytes};
use crate::pattern;
use crate::stream::Stream;

/// The time for which a paced application sleeps when too little is due.
const PACE: Duration = Duration::from_millis(10);
/// The least that it writes, bytes (one segment of plain TCP).
const PACE_LEAST: u64 = 1448;

/// An application that writes at a rate: what is due and was not written goes out in one call, once
/// poll(2) has told that there is room for it; when too little is due it sleeps.
#[derive(Debug)]
pub struct Paced {
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
    /// One that sends `bytes` at a rate, and closes; `None` is without end.
    pub fn new(rate: Rate, bytes: Option<u64>) -> Self {
        Self {
            written: 0,
            limit: bytes.unwrap_or(u64::MAX),
            rate_bps: rate.bps(),
            since: None,
            next: Instant::ZERO,
            wanted: None,
        }
    }

    /// Writes what is due; true when all is written. `room` tells that it was waited for, and has come.
    fn write(&mut self, now: Instant, connection: &mut dyn Stream, room: bool) -> bool {
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

impl Application for Paced {
    fn drive(&mut self, now: Instant, connection: &mut dyn Stream) -> Result<Next, WrongBytes> {
        let room = take_news(connection);
        if connection.connected_at().is_some()
            && self.written < self.limit
            && self.write(now, connection, room)
        {
            connection.shutdown(now);
        }
        Ok(Next::AtNews)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let sleeps = self.since.is_some() && self.wanted.is_none() && self.written < self.limit;
        sleeps.then_some(self.next)
    }
}
