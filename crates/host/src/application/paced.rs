//! A server that sends at a constant rate.

use anabranch_units::{Duration, Instant, Rate};

use super::writing::take_news;
use super::{Application, Next, WrongBytes};
use crate::pattern;
use crate::stream::Stream;

/// The time for which a paced application sleeps if less than [`PACE_LEAST`] is due.
const PACE: Duration = Duration::from_millis(10);
/// The smallest write in bytes (one segment of plain TCP).
const PACE_LEAST: u64 = 1448;

/// An application that writes at a constant rate. After poll(2) reports space, it writes all data that is due
/// in one call. If less than 1,448 bytes are due, it sleeps.
#[derive(Debug)]
pub struct Paced {
    written: u64,
    limit: u64,
    rate_bps: u64,
    since: Option<Instant>,
    /// The end of the current sleep.
    next: Instant,
    /// The number of bytes to write when there is space: the bytes that were due when the wait for space
    /// began.
    wanted: Option<u64>,
}

impl Paced {
    /// Creates an application that sends `bytes` at a rate and closes; `None` for no limit.
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

    /// Writes the data that is due. Returns true if everything is written. `room` is true if the stream has
    /// become writable since the last call.
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
