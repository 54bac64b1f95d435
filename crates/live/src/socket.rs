//! A stream socket of a kernel, for MPTCP or plain TCP, with the interface that applications use.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use anabranch_host::Stream;
use anabranch_mptcp::{Event, WriteError};
use anabranch_units::Instant;
use bytes::Bytes;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, Shutdown, SocketFlags, SocketType, ipproto, sockopt};

use crate::pool::{PIECE, Pool};
use crate::readers::{Completion, Ending, Lengths, PIECES, Read, Submitter};

/// Another read is submitted when at most this number of pieces is left.
const AHEAD: usize = PIECES / 2;

/// The kind of a socket.
#[derive(Clone, Debug)]
pub(crate) struct Kind {
    /// Whether the socket uses MPTCP. If false, it uses plain TCP.
    pub(crate) multipath: bool,
    /// The congestion control. `None` for the default of the namespace.
    pub(crate) congestion: Option<String>,
}

impl Kind {
    /// Sockets to an origin: plain TCP with the default congestion control of the namespace.
    pub(crate) const TO_ORIGIN: Self = Self { multipath: false, congestion: None };

    /// Opens a non-blocking socket for the family of an address.
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

/// A stream over a non-blocking socket.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: Arc<OwnedFd>,
    connected_at: Option<Instant>,
    events: VecDeque<Event>,
    /// Whether there may be data to read.
    readable: bool,
    /// Whether there may be room to write.
    writable: bool,
    /// Whether the application waits for room to write. It is notified when there is room.
    blocked: bool,
    /// Whether the peer has closed its side or the connection has failed.
    ended: bool,
    /// The error with which the connection failed.
    error: Option<Errno>,
    /// Whether the kernel has reported an error. Data that was not read yet may precede this error.
    pending: bool,
    /// The memory for reads.
    pool: Pool,
    /// Data that was read from the kernel and not yet returned to the application.
    read: VecDeque<Bytes>,
    /// The length of the longest read that the application has requested, bytes.
    longest: usize,
    /// The number of bytes that may still be read from the kernel.
    room: u64,
    /// The error with which the connection fails after the data in `read`.
    breaks: Option<Errno>,
    /// The submitter of reads to a reading thread, if there is one.
    submitter: Option<Submitter>,
    /// Whether reads are submitted to the reading thread. If false, the calling thread reads.
    submits: bool,
    /// Whether a submitted read is in progress.
    submitted: bool,
    /// Whether the kernel has reported more data since the last read began.
    more: bool,
}

impl Socket {
    /// Creates a stream for a socket that was accepted at `now`.
    pub(crate) fn accepted(fd: OwnedFd, now: Instant) -> Self {
        let mut socket = Self::new(fd, Pool::default());
        socket.connected(now);
        socket
    }

    /// Creates a socket that connects from one address to another.
    pub(crate) fn connect(kind: &Kind, local: SocketAddr, remote: SocketAddr) -> io::Result<Self> {
        let fd = kind.open(remote)?;
        rustix::net::bind(&fd, &SocketAddr::new(local.ip(), 0))?;
        Self::begin(fd, remote, Pool::default())
    }

    /// Creates a socket that connects to `remote` from an address chosen by the kernel. Reads use the memory
    /// of the pool. Nagle's algorithm is off (`TCP_NODELAY`), and keepalives detect a dead peer
    /// (`SO_KEEPALIVE`).
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

    /// Handles a report of the kernel that the socket is ready.
    pub(crate) fn handle_ready(&mut self, now: Instant, readable: bool, writable: bool) {
        if self.connected_at.is_none() && (readable || writable) {
            match sockopt::socket_error(&self.fd) {
                Ok(Ok(())) if writable => self.connected(now),
                Ok(Ok(())) => {}
                Ok(Err(error)) | Err(error) => {
                    // A refused connection attempt ends with ECONNREFUSED. These two errors mean that the
                    // peer has accepted the connection and then reset it (`tcp_reset`).
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

    /// Handles a pending error (`EPOLLERR`). If the peer has closed its side before, it accepts no more data,
    /// and the event `Closed` follows `PeerFinished`. Otherwise the next read returns the error, after all
    /// data that can still be read.
    pub(crate) fn handle_error(&mut self) {
        self.pending = self.connected_at.is_some();
        if self.ended {
            self.take_pending();
        }
    }

    /// Emits the pending error of a socket whose peer has closed its side.
    fn take_pending(&mut self) {
        if !std::mem::take(&mut self.pending) || self.error.is_some() {
            return;
        }
        if let Ok(Err(error)) = sockopt::socket_error(&self.fd) {
            self.error = Some(error);
            self.events.push_back(Event::Closed);
        }
    }

    /// Returns the error with which the connection failed.
    pub(crate) fn error(&self) -> Option<Errno> {
        self.error
    }

    /// Returns whether there are events that the application has not polled.
    pub(crate) fn has_news(&self) -> bool {
        !self.events.is_empty()
    }

    /// Resets the connection (RST). If a read is in progress, the reset follows when the read is complete.
    pub(crate) fn reset(self) {
        // The call fails only if the connection has already ended.
        let _ = sockopt::set_socket_linger(&self.fd, Some(std::time::Duration::ZERO));
    }

    fn broke(&mut self, error: Errno) {
        if !std::mem::replace(&mut self.ended, true) {
            self.error = Some(error);
            self.events.push_back(Event::Closed);
        }
    }

    /// Returns the congestion control that the kernel uses.
    pub(crate) fn congestion(&self) -> Option<String> {
        sockopt::tcp_congestion(&self.fd).ok()
    }
}

impl Socket {
    /// Returns this socket with a submitter. The caller must pass its completed reads to [`Self::complete`].
    pub(crate) fn submitting(self, submitter: Submitter) -> Self {
        Self { submitter: Some(submitter), ..self }
    }

    /// Sets whether further reads are submitted. Without a submitter, they never are. A read that is already
    /// submitted must be completed first in both cases.
    pub(crate) fn set_submits(&mut self, submits: bool) {
        self.submits = submits && self.submitter.is_some();
    }

    /// Reads several pieces, or submits the read. The first piece has at most `limit` bytes. Each further
    /// piece has at most the length of the longest requested read.
    fn fill(&mut self, limit: usize) {
        let done = self.ended || self.breaks.is_some() || self.submitted;
        // A socket that never connected must close at once. A submitted read would keep it open, and its
        // events would have the token of the next socket of the connection.
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

    /// Handles a completed read. If the read is of a previous socket of the connection, it is dropped.
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
            // More data may have arrived during the read. The kernel reports it only once.
            Ending::Empty => self.readable = self.more,
            Ending::Finished => {
                self.ended = true;
                self.events.push_back(Event::PeerFinished);
                self.take_pending();
            }
            Ending::Broken(error) => self.breaks = Some(error),
        }
    }

    /// Sets the number of bytes that may be read from the kernel. Data that was read before is not limited.
    pub(crate) fn set_room(&mut self, room: u64) {
        self.room = room;
    }

    /// Returns the number of bytes that were read from the kernel and not yet returned to the application.
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
                // EPIPE means a reset after the peer had closed its side (`tcp_reset` in CLOSE_WAIT). The
                // data and the end of the peer can still be read. Any other error means that data of the peer
                // was lost, so it is reported here.
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
        // The call fails only if the connection has already ended.
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
