//! Threads that read from sockets. A read copies up to four pieces from the kernel. If the peer is on the
//! same host, this call also includes the work of sending the peer's next data.
//!
//! A socket submits one read at a time ([`Submitter`]). Completed reads wait in [`Readers`], whose descriptor
//! is readable while there are any. The owner of [`Readers`] passes each read to its socket.

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

/// The largest number of pieces of a read.
pub(crate) const PIECES: usize = 4;

/// The lengths of the pieces of a read that the receiver prefers, bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lengths {
    /// The length of the first piece.
    pub(crate) first: usize,
    /// The length of each further piece.
    pub(crate) further: usize,
}

/// The state of the socket after a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// All pieces are full, and there may be more data.
    Full,
    /// No more data is available now.
    Empty,
    /// The peer has closed its side.
    Finished,
    /// The connection failed with this error.
    Broken(Errno),
}

/// The result of a read. Each piece can be freed separately.
#[derive(Debug)]
pub(crate) struct Read {
    /// The data, in the order of the stream.
    pub(crate) pieces: Vec<Bytes>,
    /// The state of the socket after these pieces.
    pub(crate) ending: Ending,
}

impl Read {
    /// Reads from a non-blocking descriptor until no more data is available or the pieces are full.
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

/// A submitted read.
struct Request {
    number: u64,
    fd: Arc<OwnedFd>,
    lengths: Lengths,
}

/// A completed read.
#[derive(Debug)]
pub(crate) struct Completion {
    /// The number of the socket that submitted the read.
    pub(crate) number: u64,
    /// The descriptor from which data was read.
    pub(crate) fd: Arc<OwnedFd>,
    /// The result.
    pub(crate) read: Read,
}

/// The completed reads that were not collected yet.
#[derive(Debug)]
struct Completions {
    waiting: Mutex<Vec<Completion>>,
    /// An eventfd that is readable while there are completed reads.
    event: OwnedFd,
}

impl Completions {
    fn with<T>(&self, change: impl FnOnce(&mut Vec<Completion>) -> T) -> T {
        // `change` does not panic, so the state is valid even if the lock is poisoned.
        change(&mut self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn put(&self, completion: Completion) {
        let first = self.with(|waiting| {
            waiting.push(completion);
            waiting.len() == 1
        });
        if first {
            // The eventfd's counter cannot overflow in practice.
            let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        }
    }

    fn take(&self) -> Vec<Completion> {
        let mut sum = [0; 8];
        // The read fails if the counter is zero, which has no effect.
        let _ = rustix::io::read(&self.event, &mut sum);
        self.with(std::mem::take)
    }
}

/// Submits the reads of one socket.
#[derive(Clone, Debug)]
pub(crate) struct Submitter {
    number: u64,
    requests: Sender<Request>,
}

impl Submitter {
    /// Submits a read. [`Readers::completed`] returns the result. Returns false if the reading thread has
    /// ended.
    pub(crate) fn submit(&self, fd: &Arc<OwnedFd>, lengths: Lengths) -> bool {
        self.requests.send(Request { number: self.number, fd: Arc::clone(fd), lengths }).is_ok()
    }
}

/// The reading threads. A thread ends after its current read when this value and every [`Submitter`] are
/// dropped.
pub(crate) struct Readers {
    requests: Vec<Sender<Request>>,
    completions: Arc<Completions>,
}

impl Readers {
    /// Starts one thread per processor, at most four. The threads read into memory of the pool.
    ///
    /// # Errors
    /// Returns an error if the system has no thread or descriptor left.
    #[expect(clippy::disallowed_methods, reason = "the real world has threads")]
    pub(crate) fn start(pool: &Pool) -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let completions = Arc::new(Completions { waiting: Mutex::default(), event });
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

    /// Returns a submitter for a socket with this number. Reads with the same number always use the same
    /// thread.
    pub(crate) fn submitter(&self, number: u64) -> Submitter {
        let place = (number % self.requests.len() as u64) as usize;
        Submitter { number, requests: self.requests[place].clone() }
    }

    /// Returns the reads completed since the last call.
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

/// The descriptor is readable while there are completed reads.
impl AsFd for Readers {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.completions.event.as_fd()
    }
}
