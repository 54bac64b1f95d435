//! The application of each endpoint: what and when it writes, how fast it reads, and when it closes.

use std::sync::OnceLock;

use anabranch_mptcp::{Connection, Event};
use anabranch_units::{Duration, Instant};
use bytes::Bytes;

/// The period of the pattern in bytes. It is a prime, so a shift by a power of two is detected.
const PERIOD: u64 = 65_521;

/// Returns the bytes that `side` sends. They are pseudo-random, so a shift of any length is detected.
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

/// The condition for closing the sending direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Close {
    /// Everything is written.
    Written,
    /// Everything is written and the peer has closed.
    PeerFinished,
    /// Everything is written and everything from the peer is read.
    AllRead,
}

/// The settings of one side's application.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// The number of bytes to write.
    pub(crate) total: u64,
    /// The number of bytes that the peer will write.
    pub(crate) expected: u64,
    /// The number of bytes that may be written for every `per` bytes read.
    pub(crate) turn: u64,
    /// See `turn`. If 0, everything may be written at once.
    pub(crate) per: u64,
    /// Whether the first `turn` bytes may be written before anything is read.
    pub(crate) first: bool,
    /// The bytes per write.
    pub(crate) chunk: u64,
    /// The most bytes per read.
    pub(crate) gulp: usize,
    /// The shortest time between two reads.
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
    /// Whether reading has stopped, for some time or for good.
    pub(crate) stopped: bool,
    blocked: bool,
    next_read: Instant,
    pub(crate) shut: bool,
    pub(crate) peer_finished: bool,
    pub(crate) fell_back: bool,
    pub(crate) closed: bool,
    /// The position of the first byte read that differs from the sent byte.
    pub(crate) wrong_at: Option<u64>,
}

impl Application {
    pub(crate) fn new(part: Part, side: usize) -> Self {
        // The pattern is created and first shared here, before memory is measured.
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

    /// Returns whether everything is written and read, and both sides have closed.
    pub(crate) fn complete(&self) -> bool {
        self.closed && self.peer_finished && self.has_all()
    }

    /// Returns whether everything is written and read.
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

    /// Returns the time of the next read, if there is a pause between reads.
    pub(crate) fn wake(&self, connection: &Connection) -> Option<Instant> {
        let waits = !self.stopped && !self.part.pause.is_zero() && connection.readable() > 0;
        waits.then_some(self.next_read)
    }

    /// Returns the number of bytes that may have been written by now.
    fn allowed(&self) -> u64 {
        let Part { total, turn, per, first, .. } = self.part;
        if per == 0 {
            return total;
        }
        total.min(turn * (self.read / per + u64::from(first)))
    }

    /// Reads, writes and closes as far as possible. Returns true if anything happened.
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
