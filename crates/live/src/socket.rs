//! A kernel's stream socket, of MPTCP or plain TCP, as an application sees its connection.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use anabranch_host::Stream;
use anabranch_transport::{Event, WriteError};
use anabranch_units::Instant;
use bytes::Bytes;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, Shutdown, SocketFlags, SocketType, ipproto, sockopt};

use crate::pool::{PIECE, Pool};
use crate::readers::{Completion, Ending, Lengths, PIECES, Read, Submitter};

/// Pieces at most that are left when a further read is submitted.
const AHEAD: usize = PIECES / 2;

/// A socket of a kernel.
#[derive(Clone, Debug)]
pub(crate) struct Kind {
    /// MPTCP, or plain TCP.
    pub(crate) multipath: bool,
    /// The congestion control; the namespace's where there is none.
    pub(crate) congestion: Option<String>,
}

impl Kind {
    /// Plain TCP, by the namespace's own congestion control, as an origin is called.
    pub(crate) const TO_ORIGIN: Self = Self { multipath: false, congestion: None };

    /// A socket that does not block.
    pub(crate) fn open(&self, address: SocketAddr) -> io::Result<OwnedFd> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let protocol = if self.multipath { ipproto::MPTCP } else { ipproto::TCP };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let fd = rustix::net::socket_with(family, SocketType::STREAM, flags, Some(protocol))?;
        if let Some(name) = &self.congestion {
            sockopt::set_tcp_congestion(&fd, name)?;
        }
        Ok(fd)
    }
}

/// A stream over a socket that does not block.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: Arc<OwnedFd>,
    connected_at: Option<Instant>,
    events: VecDeque<Event>,
    /// There may be something to read.
    readable: bool,
    /// There may be room to write.
    writable: bool,
    /// Somebody waits for room.
    blocked: bool,
    /// The peer has finished, or the connection broke.
    ended: bool,
    /// The error that broke the connection.
    error: Option<Errno>,
    /// An error is pending that may belong after data that is not read yet.
    pending: bool,
    /// What is read into comes from here.
    pool: Pool,
    /// Pieces that were read and not asked for.
    read: VecDeque<Bytes>,
    /// The longest piece that was asked for, bytes.
    longest: usize,
    /// Bytes that may still be read from the kernel.
    room: u64,
    /// The connection breaks behind what was read, with this error.
    breaks: Option<Errno>,
    /// Where it submits reads, if anywhere.
    submitter: Option<Submitter>,
    /// Its reads are submitted; it reads by itself otherwise.
    submits: bool,
    /// A read was submitted that has not been completed.
    submitted: bool,
    /// More has come since the last read began.
    more: bool,
}

impl Socket {
    /// A socket that was accepted, at `now`.
    pub(crate) fn accepted(fd: OwnedFd, now: Instant) -> Self {
        let mut socket = Self::new(fd, Pool::default());
        socket.connected(now);
        socket
    }

    /// A socket that connects from one address to another.
    pub(crate) fn connect(kind: &Kind, local: SocketAddr, remote: SocketAddr) -> io::Result<Self> {
        let fd = kind.open(remote)?;
        rustix::net::bind(&fd, &SocketAddr::new(local.ip(), 0))?;
        Self::begin(fd, remote, Pool::default())
    }

    /// A socket that connects from wherever the kernel chooses, and reads into memory of a pool. What is written
    /// goes out at once, and a peer that is gone is found out.
    pub(crate) fn call(kind: &Kind, remote: SocketAddr, pool: Pool) -> io::Result<Self> {
        let fd = kind.open(remote)?;
        sockopt::set_tcp_nodelay(&fd, true)?;
        sockopt::set_socket_keepalive(&fd, true)?;
        Self::begin(fd, remote, pool)
    }

    fn begin(fd: OwnedFd, remote: SocketAddr, pool: Pool) -> io::Result<Self> {
        match rustix::net::connect(&fd, &remote) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(Self::new(fd, pool)),
            Err(error) => Err(error.into()),
        }
    }

    fn new(fd: OwnedFd, pool: Pool) -> Self {
        Self {
            fd: Arc::new(fd),
            connected_at: None,
            events: VecDeque::new(),
            readable: false,
            writable: false,
            blocked: false,
            ended: false,
            error: None,
            pending: false,
            pool,
            read: VecDeque::new(),
            longest: 0,
            room: u64::MAX,
            breaks: None,
            submitter: None,
            submits: false,
            submitted: false,
            more: false,
        }
    }

    fn connected(&mut self, now: Instant) {
        self.connected_at = Some(now);
        self.events.push_back(Event::Connected);
    }

    /// The kernel says that something changed.
    pub(crate) fn handle_ready(&mut self, now: Instant, readable: bool, writable: bool) {
        if self.connected_at.is_none() && (readable || writable) {
            match sockopt::socket_error(&self.fd) {
                Ok(Ok(())) if writable => self.connected(now),
                Ok(Ok(())) => {}
                Ok(Err(error)) | Err(error) => {
                    // A connection attempt that is refused ends with ECONNREFUSED. These two errors mean that the
                    // peer accepted the connection and then reset it (`tcp_reset`).
                    if matches!(error, Errno::CONNRESET | Errno::PIPE) {
                        self.connected(now);
                    }
                    self.broke(error);
                }
            }
        }
        self.readable |= readable;
        self.more |= readable;
        if writable {
            self.writable = true;
            if std::mem::take(&mut self.blocked) {
                self.events.push_back(Event::Writable);
            }
        }
    }

    /// Handles a pending error (`EPOLLERR`). If the peer had finished before, it takes no more data, and `Closed`
    /// follows `PeerFinished`. Otherwise the next read returns the error after the data that can still be read.
    pub(crate) fn handle_error(&mut self) {
        self.pending = self.connected_at.is_some();
        if self.ended {
            self.take_pending();
        }
    }

    /// Reports the error that is pending on a socket whose peer has finished.
    fn take_pending(&mut self) {
        if !std::mem::take(&mut self.pending) || self.error.is_some() {
            return;
        }
        if let Ok(Err(error)) = sockopt::socket_error(&self.fd) {
            self.error = Some(error);
            self.events.push_back(Event::Closed);
        }
    }

    /// The error that broke the connection.
    pub(crate) fn error(&self) -> Option<Errno> {
        self.error
    }

    /// There is news that the application has not had.
    pub(crate) fn has_news(&self) -> bool {
        !self.events.is_empty()
    }

    /// Breaks the connection off, so that the peer is told (RST), as soon as no read of it is on its way.
    pub(crate) fn reset(self) {
        // Where it is over already there is nobody to tell.
        let _ = sockopt::set_socket_linger(&self.fd, Some(std::time::Duration::ZERO));
    }

    fn broke(&mut self, error: Errno) {
        if !std::mem::replace(&mut self.ended, true) {
            self.error = Some(error);
            self.events.push_back(Event::Closed);
        }
    }

    /// The congestion control really in use.
    pub(crate) fn congestion(&self) -> Option<String> {
        sockopt::tcp_congestion(&self.fd).ok()
    }
}

impl Socket {
    /// The same, whose reads may be submitted; they are to be given to [`Self::complete`].
    pub(crate) fn submitting(self, submitter: Submitter) -> Self {
        Self { submitter: Some(submitter), ..self }
    }

    /// Whether reads are submitted from now on, where there is anybody to submit them to. One that is on its way is
    /// waited for either way.
    pub(crate) fn set_submits(&mut self, submits: bool) {
        self.submits = submits && self.submitter.is_some();
    }

    /// Reads what there is into several pieces, the first one of `limit` bytes at most, and the others as long as any
    /// that was asked for; or submits that.
    fn fill(&mut self, limit: usize) {
        let done = self.ended || self.breaks.is_some() || self.submitted;
        // A socket that never connected is closed at once: its number is the next one's, and so would its news be.
        let room = usize::try_from(self.room).unwrap_or(usize::MAX);
        if self.connected_at.is_none() || !self.readable || done || room == 0 || limit == 0 {
            return;
        }
        let limit = limit.min(PIECE);
        self.longest = self.longest.max(limit);
        let first = limit.min(room);
        let lengths = Lengths { first, further: self.longest.min((room - first) / (PIECES - 1)) };
        self.more = false;
        let submitter = self.submitter.as_ref().filter(|_| self.submits);
        self.submitted = submitter.is_some_and(|it| it.submit(&self.fd, lengths));
        if !self.submitted {
            self.keep(Read::of(&self.fd, &self.pool, lengths));
        }
    }

    /// Takes a read that it submitted. A read of the connection's former socket is dropped.
    pub(crate) fn complete(&mut self, completion: Completion) {
        if Arc::ptr_eq(&completion.fd, &self.fd) {
            self.submitted = false;
            self.keep(completion.read);
        }
    }

    fn keep(&mut self, read: Read) {
        let bytes = read.pieces.iter().map(|piece| piece.len() as u64).sum();
        self.room = self.room.saturating_sub(bytes);
        self.read.extend(read.pieces);
        match read.ending {
            Ending::Full => {}
            // What came after that was told since, and is told only once.
            Ending::Empty => self.readable = self.more,
            Ending::Finished => {
                self.ended = true;
                self.events.push_back(Event::PeerFinished);
                self.take_pending();
            }
            Ending::Broken(error) => self.breaks = Some(error),
        }
    }

    /// Sets how many bytes may be read from the kernel. Bytes that were read before are returned all the same.
    pub(crate) fn set_room(&mut self, room: u64) {
        self.room = room;
    }

    /// Bytes that were read and not asked for.
    pub(crate) fn held(&self) -> u64 {
        self.read.iter().map(|piece| piece.len() as u64).sum()
    }
}

impl Stream for Socket {
    fn connected_at(&self) -> Option<Instant> {
        self.connected_at
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn read(&mut self, _now: Instant, limit: usize) -> Option<Bytes> {
        let ahead = if self.submits { AHEAD } else { 0 };
        if self.read.len() <= ahead {
            self.fill(limit);
        }
        if self.read.is_empty()
            && let Some(error) = self.breaks.take()
        {
            self.broke(error);
        }
        let mut piece = self.read.pop_front()?;
        if piece.len() > limit {
            let rest = piece.split_off(limit);
            self.read.push_front(rest);
        }
        Some(piece)
    }

    fn write(&mut self, _now: Instant, bytes: Bytes) -> Result<usize, WriteError> {
        match rustix::net::send(&self.fd, &bytes, SendFlags::NOSIGNAL) {
            Ok(taken) => Ok(taken),
            Err(Errno::AGAIN | Errno::INTR) => {
                (self.writable, self.blocked) = (false, true);
                Err(WriteError::Blocked)
            }
            Err(error) => {
                // EPIPE is a reset behind the peer's end (`tcp_reset` in CLOSE_WAIT): what it said before can still
                // be read, to that end. Any other error is the first that is told of a stream that was cut short.
                if error == Errno::PIPE {
                    self.error.get_or_insert(error);
                } else {
                    self.broke(error);
                }
                Err(WriteError::Closed)
            }
        }
    }

    fn poll_writable(&mut self) -> bool {
        self.blocked |= !self.writable;
        self.writable
    }

    fn shutdown(&mut self, _now: Instant) {
        // It may be over already; then nothing is left to be done.
        let _ = rustix::net::shutdown(&self.fd, Shutdown::Write);
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests;
