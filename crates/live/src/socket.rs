//! A kernel's stream socket, of MPTCP or plain TCP, as an application sees its connection.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use anabranch_host::Stream;
use anabranch_transport::{Event, WriteError};
use anabranch_units::Instant;
use bytes::Bytes;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, Shutdown, SocketFlags, SocketType, ipproto, sockopt};

use crate::pool::{PIECE, Pool};

/// Pieces at most that one call reads: each call that empties the buffer of a socket has its peer told.
const PIECES: usize = 4;

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
    fd: OwnedFd,
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
    /// What is read into comes from here.
    pool: Pool,
    /// Pieces that were read and not asked for.
    read: VecDeque<Bytes>,
    /// The longest piece that was asked for, bytes.
    longest: usize,
    /// Nothing more is read of the kernel for now.
    rests: bool,
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
            fd,
            connected_at: None,
            events: VecDeque::new(),
            readable: false,
            writable: false,
            blocked: false,
            ended: false,
            pool,
            read: VecDeque::new(),
            longest: 0,
            rests: false,
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
                Ok(Err(_)) | Err(_) => self.broke(),
            }
        }
        self.readable |= readable;
        if writable {
            self.writable = true;
            if std::mem::take(&mut self.blocked) {
                self.events.push_back(Event::Writable);
            }
        }
    }

    /// There is news that the application has not had.
    pub(crate) fn has_news(&self) -> bool {
        !self.events.is_empty()
    }

    /// Breaks the connection off, so that the peer is told (RST).
    pub(crate) fn reset(self) {
        // Where it is over already there is nobody to tell.
        let _ = sockopt::set_socket_linger(&self.fd, Some(std::time::Duration::ZERO));
    }

    fn broke(&mut self) {
        if !std::mem::replace(&mut self.ended, true) {
            self.events.push_back(Event::Closed);
        }
    }

    /// The congestion control really in use.
    pub(crate) fn congestion(&self) -> Option<String> {
        sockopt::tcp_congestion(&self.fd).ok()
    }
}

impl Socket {
    /// Reads what there is in one call, into several pieces: the first one of `limit` bytes at most, and the others as
    /// long as any that was asked for.
    fn fill(&mut self, limit: usize) {
        if !self.readable || self.ended || self.rests || limit == 0 {
            return;
        }
        let limit = limit.min(PIECE);
        self.longest = self.longest.max(limit);
        let mut pieces: [Vec<u8>; PIECES] = std::array::from_fn(|_| self.pool.take());
        let lengths: [usize; PIECES] =
            std::array::from_fn(|at| if at == 0 { limit } else { self.longest });
        let mut at = lengths.iter();
        let mut rooms = pieces.each_mut().map(|piece| {
            let length = at.next().copied().unwrap_or_default();
            IoSliceMut::new(&mut piece[..length])
        });
        let got = rustix::io::readv(&self.fd, &mut rooms);
        let mut left = *got.as_ref().unwrap_or(&0);
        for (piece, length) in pieces.into_iter().zip(lengths) {
            let filled = left.min(length);
            left -= filled;
            if filled > 0 {
                self.read.push_back(self.pool.keep(piece, filled));
            } else {
                self.pool.give(piece);
            }
        }
        match got {
            Ok(0) => {
                self.ended = true;
                self.events.push_back(Event::PeerFinished);
            }
            Ok(_) => {}
            Err(Errno::AGAIN | Errno::INTR) => self.readable = false,
            Err(_) => self.broke(),
        }
    }

    /// Whether more is read of the kernel; what was read before is given all the same.
    pub(crate) fn rest(&mut self, rests: bool) {
        self.rests = rests;
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
        if self.read.is_empty() {
            self.fill(limit);
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
                if error != Errno::PIPE {
                    self.broke();
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
