//! What the two applications do: who writes how much and when, how it is read, who closes.

use std::sync::OnceLock;

use anabranch_transport::{Connection, Event};
use anabranch_units::{Duration, Instant};
use bytes::Bytes;

/// Length of the pattern that is sent over and over; a prime, so that no power of two shifts it onto
/// itself.
const PERIOD: u64 = 65_521;

/// The bytes that `side` sends: pseudo-random, so that a shift of any length is seen.
fn pattern(side: usize) -> &'static Bytes {
    static PATTERNS: [OnceLock<Bytes>; 2] = [OnceLock::new(), OnceLock::new()];
    PATTERNS[side].get_or_init(|| {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ (side as u64 + 1);
        let mut byte = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        };
        (0..PERIOD).map(|_| byte()).collect()
    })
}

/// When a side says that it has finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Close {
    /// Once all is written.
    Written,
    /// Once all is written and the peer has finished.
    PeerFinished,
    /// Once all is written and all that the peer has to say is read.
    AllRead,
}

/// One side's part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// Bytes to write.
    pub(crate) total: u64,
    /// Bytes that the peer will write.
    pub(crate) expected: u64,
    /// How many bytes it may write at once, and how many more ...
    pub(crate) turn: u64,
    /// ... each time it has read this many bytes; 0: it may write everything from the start.
    pub(crate) per: u64,
    /// Speaks first.
    pub(crate) first: bool,
    /// Bytes of one write.
    pub(crate) chunk: u64,
    /// Bytes of one read, at most.
    pub(crate) gulp: usize,
    /// The least time between two reads.
    pub(crate) pause: Duration,
    pub(crate) close: Close,
}

/// One side's application on one connection.
#[derive(Clone, Debug)]
pub(crate) struct Application {
    part: Part,
    side: usize,
    pub(crate) written: u64,
    pub(crate) read: u64,
    /// It reads no more, for now or for good.
    pub(crate) stopped: bool,
    blocked: bool,
    next_read: Instant,
    pub(crate) shut: bool,
    pub(crate) peer_finished: bool,
    pub(crate) fell_back: bool,
    pub(crate) closed: bool,
    /// The position of a byte that it read and that was not sent there.
    pub(crate) wrong_at: Option<u64>,
}

impl Application {
    pub(crate) fn new(part: Part, side: usize) -> Self {
        // Made, and shared for the first time, before anybody measures memory.
        drop(pattern(side).clone());
        Self {
            part,
            side,
            written: 0,
            read: 0,
            stopped: false,
            blocked: false,
            next_read: Instant::ZERO,
            shut: false,
            peer_finished: false,
            fell_back: false,
            closed: false,
            wrong_at: None,
        }
    }

    /// All is written, all is read, and both sides have closed.
    pub(crate) fn complete(&self) -> bool {
        self.closed && self.peer_finished && self.has_all()
    }

    /// All is written and all is read.
    pub(crate) fn has_all(&self) -> bool {
        self.written == self.part.total && self.read == self.part.expected
    }

    pub(crate) fn take_event(&mut self, event: Event) {
        match event {
            Event::Writable => self.blocked = false,
            Event::PeerFinished => self.peer_finished = true,
            Event::FellBack => self.fell_back = true,
            Event::Closed => self.closed = true,
            _ => {}
        }
    }

    /// When it wants to read again even if nothing happens.
    pub(crate) fn wake(&self, connection: &Connection) -> Option<Instant> {
        let waits = !self.stopped && !self.part.pause.is_zero() && connection.readable() > 0;
        waits.then_some(self.next_read)
    }

    /// How far it may have written by now.
    fn allowed(&self) -> u64 {
        let Part { total, turn, per, first, .. } = self.part;
        if per == 0 {
            return total;
        }
        total.min(turn * (self.read / per + u64::from(first)))
    }

    /// Reads, writes and closes as far as it can; true when it did something.
    pub(crate) fn act(&mut self, now: Instant, connection: &mut Connection) -> bool {
        let done = (self.read, self.written, self.shut);
        self.take(now, connection);
        self.put(now, connection);
        let written = self.written == self.part.total;
        let close = match self.part.close {
            Close::Written => written,
            Close::PeerFinished => written && self.peer_finished,
            Close::AllRead => written && self.read >= self.part.expected,
        };
        if close && !self.shut {
            self.shut = true;
            connection.shutdown(now);
        }
        done != (self.read, self.written, self.shut)
    }

    fn take(&mut self, now: Instant, connection: &mut Connection) {
        while !self.stopped && now >= self.next_read {
            let Some(bytes) = connection.read(now, self.part.gulp) else { return };
            self.compare(&bytes);
            self.read += bytes.len() as u64;
            if !self.part.pause.is_zero() {
                self.next_read = now + self.part.pause;
            }
        }
    }

    fn compare(&mut self, bytes: &[u8]) {
        let sent = pattern(1 - self.side);
        let mut rest = bytes;
        let mut position = self.read;
        while !rest.is_empty() && self.wrong_at.is_none() {
            let at = (position % PERIOD) as usize;
            let (here, after) = rest.split_at(rest.len().min(sent.len() - at));
            let end = position + here.len() as u64;
            if here != &sent[at..at + here.len()] || end > self.part.expected {
                self.wrong_at = Some(position);
            }
            (position, rest) = (end, after);
        }
    }

    fn put(&mut self, now: Instant, connection: &mut Connection) {
        while !self.blocked && !self.shut && self.written < self.allowed() {
            let at = self.written % PERIOD;
            let left = self.allowed() - self.written;
            let length = left.min(self.part.chunk).min(PERIOD - at);
            let piece = pattern(self.side).slice(at as usize..(at + length) as usize);
            match connection.write(now, piece) {
                Ok(taken) => self.written += taken as u64,
                Err(_) => self.blocked = true,
            }
        }
    }
}
