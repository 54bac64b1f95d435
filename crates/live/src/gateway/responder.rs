//! The HTTP server for the metrics, with a bounded number of clients.
//!
//! A client cannot block the page for others. If the request of a new client has already arrived, it is
//! answered at once. If there are too many clients, one of the source with the most clients is closed. If the
//! host has no descriptor left, one from a small reserve is used.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use anabranch_units::{Duration, Instant};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto, sockopt};

use super::source::source;
use crate::poller::Poller;

/// The largest number of clients at a time.
const MOST: usize = 16;
/// The largest number of clients accepted per event. With this limit, clients of one source do not close each
/// other within one event.
const ACCEPTS: usize = MOST;
/// The longest request, bytes.
const LONGEST: usize = 4096;
/// The time limit for a client to send its request and read the response.
const PATIENCE: Duration = Duration::from_secs(5);
/// The number of descriptors reserved for clients that connect when the host has none left.
const RESERVE: usize = 2;
/// The largest number of clients that wait in the kernel to be accepted.
const BACKLOG: i32 = 128;

/// A client of the metrics.
struct Visitor {
    fd: OwnedFd,
    /// The source of the client's address. `None` if the kernel returned no address.
    source: Option<IpAddr>,
    since: Instant,
    request: Vec<u8>,
    /// The rest of the response. `None` until the request is complete.
    answer: Option<Vec<u8>>,
}

/// The listener and the connected clients.
pub(super) struct Responder {
    listener: OwnedFd,
    visitors: BTreeMap<u64, Visitor>,
    /// Descriptors that are closed when an accepted client needs one.
    reserve: Vec<OwnedFd>,
    /// Whether an accept has failed. The listener is then not polled until the next timeout.
    rests: bool,
    /// The token of the listener. The tokens of clients follow it.
    first_token: u64,
    made: u64,
}

impl Responder {
    /// Creates a responder that listens on an address.
    pub(super) fn listen(
        address: SocketAddr,
        poller: &Poller,
        first_token: u64,
    ) -> io::Result<Self> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let tcp = Some(ipproto::TCP);
        let listener = rustix::net::socket_with(family, SocketType::STREAM, flags, tcp)?;
        sockopt::set_socket_reuseaddr(&listener, true)?;
        rustix::net::bind(&listener, &address)?;
        rustix::net::listen(&listener, BACKLOG)?;
        poller.add(&listener, first_token)?;
        let visitors = BTreeMap::new();
        let mut made =
            Self { listener, visitors, reserve: Vec::new(), rests: false, first_token, made: 0 };
        made.fill_reserve();
        Ok(made)
    }

    /// Handles a descriptor that is ready, given by its token. `page` is called when a request is complete.
    pub(super) fn handle_ready(
        &mut self,
        now: Instant,
        poller: &Poller,
        token: u64,
        page: impl Fn() -> String,
    ) {
        if token == self.first_token {
            self.accept(now, poller, page);
        } else if let Some(visitor) = self.visitors.get_mut(&token)
            && !visitor.serve(page)
        {
            self.visitors.remove(&token);
            self.fill_reserve();
        }
    }

    /// Handles the timer. Closes clients that have exceeded the time limit, and polls the listener again
    /// after a failure.
    pub(super) fn handle_timeout(&mut self, now: Instant, poller: &Poller) {
        self.visitors.retain(|_, visitor| now.since(visitor.since) < PATIENCE);
        self.fill_reserve();
        if self.rests && poller.add(&self.listener, self.first_token).is_ok() {
            self.rests = false;
        }
    }

    fn fill_reserve(&mut self) {
        while self.reserve.len() < RESERVE {
            match fcntl_dupfd_cloexec(&self.listener, 0) {
                Ok(fd) => self.reserve.push(fd),
                Err(_) => return,
            }
        }
    }

    /// Accepts waiting clients. If more clients wait, the listener stays ready.
    fn accept(&mut self, now: Instant, poller: &Poller, page: impl Fn() -> String) {
        for accepted in 0..ACCEPTS {
            match self.accept_one() {
                Ok(accepted) => self.welcome(now, poller, accepted, &page),
                // accept(2) needs a descriptor before it looks at its queue, so the queue may be empty.
                Err(Errno::MFILE | Errno::NFILE) if accepted > 0 => return,
                Err(Errno::MFILE | Errno::NFILE) if self.free_a_descriptor() => {
                    if let Ok(accepted) = self.accept_one() {
                        self.welcome(now, poller, accepted, &page);
                    }
                    // The reserve is filled again before another connection takes the descriptor.
                    return self.fill_reserve();
                }
                Err(Errno::AGAIN) => return,
                // The client has already closed. accept(2) also returns network errors.
                Err(Errno::INTR | Errno::CONNABORTED | Errno::PROTO) => {}
                Err(_) => {
                    // The listener stays readable. Without a pause, the event loop would not wait any longer.
                    self.rests = poller.remove(&self.listener).is_ok();
                    return;
                }
            }
        }
    }

    /// Accepts a client. Returns its descriptor and its source.
    fn accept_one(&self) -> Result<(OwnedFd, Option<IpAddr>), Errno> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (fd, address) = rustix::net::acceptfrom_with(&self.listener, flags)?;
        let address = address.and_then(|it| SocketAddr::try_from(it).ok());
        Ok((fd, address.map(|it| source(it.ip()))))
    }

    /// Closes a reserved descriptor, or a client if the reserve is empty. Returns false if neither exists.
    fn free_a_descriptor(&mut self) -> bool {
        self.reserve.pop().is_some() || self.close_one()
    }

    /// Closes the oldest client of the source with the most clients. If several sources have equally many,
    /// the oldest client of these is closed. Returns false if there is no client.
    fn close_one(&mut self) -> bool {
        let mut of_source: BTreeMap<Option<IpAddr>, (usize, Reverse<u64>)> = BTreeMap::new();
        for (token, visitor) in &self.visitors {
            of_source.entry(visitor.source).or_insert((0, Reverse(*token))).0 += 1;
        }
        let most = of_source.into_values().max();
        most.is_some_and(|(_, Reverse(oldest))| self.visitors.remove(&oldest).is_some())
    }

    /// Serves a new client. If it has to wait, it is stored.
    fn welcome(
        &mut self,
        now: Instant,
        poller: &Poller,
        (fd, source): (OwnedFd, Option<IpAddr>),
        page: impl FnOnce() -> String,
    ) {
        self.made += 1;
        let token = self.first_token + self.made;
        let mut visitor = Visitor { fd, source, since: now, request: Vec::new(), answer: None };
        if poller.add_edges(&visitor.fd, token).is_err() || !visitor.serve(page) {
            return;
        }
        self.visitors.insert(token, visitor);
        if self.visitors.len() > MOST {
            self.close_one();
        }
    }
}

impl Visitor {
    /// Reads the request and writes the response as far as possible. Returns false if the client can be
    /// closed.
    fn serve(&mut self, page: impl FnOnce() -> String) -> bool {
        let mut piece = [0; 1024];
        while self.answer.is_none() {
            match rustix::net::recv(&self.fd, &mut piece, RecvFlags::empty()) {
                Ok((0, _)) => return false,
                Ok((length, _)) => self.request.extend_from_slice(&piece[..length]),
                Err(Errno::AGAIN | Errno::INTR) => return true,
                Err(_) => return false,
            }
            if self.request.len() > LONGEST {
                return false;
            }
            if self.request.windows(4).any(|end| end == b"\r\n\r\n") {
                break;
            }
        }
        let answer = self.answer.get_or_insert_with(|| answer(&self.request, page));
        while !answer.is_empty() {
            match rustix::net::send(&self.fd, answer, SendFlags::NOSIGNAL) {
                Ok(taken) => drop(answer.drain(..taken)),
                Err(Errno::AGAIN | Errno::INTR) => return true,
                Err(_) => return false,
            }
        }
        false
    }
}

/// Returns the response to a request.
fn answer(request: &[u8], page: impl FnOnce() -> String) -> Vec<u8> {
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (status, body) = match (method, path) {
        (b"GET", b"/metrics" | b"/") => ("200 OK", page()),
        (b"GET", _) => ("404 Not Found", "the metrics are at /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", "only GET\n".to_owned()),
    };
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests;
