//! Sockets read by threads of their own: a read copies up to four pieces out of the kernel, and has a peer on this host
//! send what it may send next, before it returns.
//!
//! A socket submits one read at a time ([`Submitter`]). Reads that are done wait in [`Readers`], whose descriptor is
//! readable while there are any; its owner gives each to its socket.

use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;

use bytes::Bytes;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use crate::pool::{PIECE, Pool};
use crate::threads;

/// The most pieces of a read.
pub(crate) const PIECES: usize = 4;

/// How long the pieces of a read may be, bytes: whoever takes them wants them so.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lengths {
    /// The first one, at most.
    pub(crate) first: usize,
    /// Each further one.
    pub(crate) further: usize,
}

/// How a read ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// There was no more room; there may be more to read.
    Full,
    /// There is no more for now.
    Empty,
    /// The peer has finished.
    Finished,
    /// The connection failed with this error.
    Broken(Errno),
}

/// What a read gave: pieces, each of which somebody may hold on its own.
#[derive(Debug)]
pub(crate) struct Read {
    /// In the order in which they came.
    pub(crate) pieces: Vec<Bytes>,
    /// What comes behind them.
    pub(crate) ending: Ending,
}

impl Read {
    /// Reads what a descriptor that does not block has, until there is no more or the pieces are full.
    pub(crate) fn of(fd: impl AsFd, pool: &Pool, lengths: Lengths) -> Self {
        let mut memory: [Vec<u8>; PIECES] = std::array::from_fn(|_| pool.take());
        let mut of_piece = [lengths.further.min(PIECE); PIECES];
        of_piece[0] = lengths.first.min(PIECE);
        let mut at = of_piece.iter();
        let mut rooms = memory.each_mut().map(|piece| {
            let length = at.next().copied().unwrap_or_default();
            IoSliceMut::new(&mut piece[..length])
        });
        let (mut rooms, mut read) = (&mut rooms[..], 0);
        let ending = loop {
            if rooms.is_empty() {
                break Ending::Full;
            }
            match rustix::io::readv(&fd, rooms) {
                Ok(0) => break Ending::Finished,
                Ok(more) => {
                    read += more;
                    IoSliceMut::advance_slices(&mut rooms, more);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break Ending::Empty,
                Err(error) => break Ending::Broken(error),
            }
        };
        let mut pieces = Vec::with_capacity(PIECES);
        for (piece, length) in memory.into_iter().zip(of_piece) {
            let filled = read.min(length);
            read -= filled;
            if filled > 0 {
                pieces.push(pool.keep(piece, filled));
            } else {
                pool.give(piece);
            }
        }
        Self { pieces, ending }
    }
}

/// A read to be done.
struct Request {
    number: u64,
    fd: Arc<OwnedFd>,
    lengths: Lengths,
}

/// A read that is done.
#[derive(Debug)]
pub(crate) struct Completion {
    /// The number under which it was submitted.
    pub(crate) number: u64,
    /// What was read of.
    pub(crate) fd: Arc<OwnedFd>,
    /// What it gave.
    pub(crate) read: Read,
}

/// Reads that are done and not taken.
#[derive(Debug)]
struct Completions {
    waiting: Mutex<Vec<Completion>>,
    /// Readable while there are any (eventfd).
    told: OwnedFd,
}

impl Completions {
    fn with<T>(&self, change: impl FnOnce(&mut Vec<Completion>) -> T) -> T {
        // Nothing of it panics halfway.
        change(&mut self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn put(&self, completion: Completion) {
        let first = self.with(|waiting| {
            waiting.push(completion);
            waiting.len() == 1
        });
        if first {
            // It is a sum, which no number of calls fills.
            let _ = rustix::io::write(&self.told, &1_u64.to_ne_bytes());
        }
    }

    fn take(&self) -> Vec<Completion> {
        let mut sum = [0; 8];
        // Nothing is lost where nobody has told of any.
        let _ = rustix::io::read(&self.told, &mut sum);
        self.with(std::mem::take)
    }
}

/// Where one socket submits its reads.
#[derive(Clone, Debug)]
pub(crate) struct Submitter {
    number: u64,
    requests: Sender<Request>,
}

impl Submitter {
    /// Submits a read; what it gives comes out of [`Readers::completed`]. False when its thread is gone.
    pub(crate) fn submit(&self, fd: &Arc<OwnedFd>, lengths: Lengths) -> bool {
        self.requests.send(Request { number: self.number, fd: Arc::clone(fd), lengths }).is_ok()
    }
}

/// The threads. Each ends by itself, behind the read that it does, when this and every [`Submitter`] are gone.
pub(crate) struct Readers {
    requests: Vec<Sender<Request>>,
    completions: Arc<Completions>,
}

impl Readers {
    /// A thread for each processor, four at most, which read into memory of a pool.
    ///
    /// # Errors
    /// The system has no thread or descriptor to give.
    #[expect(clippy::disallowed_methods, reason = "the real world has threads")]
    pub(crate) fn start(pool: &Pool) -> io::Result<Self> {
        let told = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let completions = Arc::new(Completions { waiting: Mutex::default(), told });
        let mut requests = Vec::new();
        for _ in 0..threads::count() {
            let (submit, submitted) = channel();
            let (completions, pool) = (Arc::clone(&completions), pool.clone());
            let work = move || serve(&submitted, &completions, &pool);
            Builder::new().name("origins".into()).spawn(work)?;
            requests.push(submit);
        }
        Ok(Self { requests, completions })
    }

    /// Where the socket of a number submits, always to the same thread.
    pub(crate) fn submitter(&self, number: u64) -> Submitter {
        let place = (number % self.requests.len() as u64) as usize;
        Submitter { number, requests: self.requests[place].clone() }
    }

    /// The reads that have been done since the last time.
    pub(crate) fn completed(&self) -> Vec<Completion> {
        self.completions.take()
    }
}

fn serve(submitted: &Receiver<Request>, completions: &Completions, pool: &Pool) {
    for Request { number, fd, lengths } in submitted {
        let read = Read::of(&fd, pool, lengths);
        completions.put(Completion { number, fd, read });
    }
}

/// Readable while there are reads that are done.
impl AsFd for Readers {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.completions.told.as_fd()
    }
}
