//! Who is asked for the metrics over HTTP: one page, to few at a time.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use anabranch_units::{Duration, Instant};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto, sockopt};

use crate::poller::Poller;

/// The most visitors at one time.
const MOST: usize = 16;
/// The longest request, bytes.
const LONGEST: usize = 4096;
/// The time that a visitor has to ask and to read.
const PATIENCE: Duration = Duration::from_secs(5);

/// Somebody who asks.
struct Visitor {
    fd: OwnedFd,
    since: Instant,
    request: Vec<u8>,
    /// What is left to be written, once it is known.
    answer: Option<Vec<u8>>,
}

/// The listener and those who ask.
pub(super) struct Responder {
    listener: OwnedFd,
    visitors: BTreeMap<u64, Visitor>,
    /// The listener's number; those of visitors follow.
    first_token: u64,
    made: u64,
}

impl Responder {
    /// One that listens at an address.
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
        rustix::net::listen(&listener, MOST as i32)?;
        poller.add(&listener, first_token)?;
        Ok(Self { listener, visitors: BTreeMap::new(), first_token, made: 0 })
    }

    /// A descriptor of this number is ready; `page` is made when somebody asks for it.
    pub(super) fn handle_ready(
        &mut self,
        now: Instant,
        poller: &Poller,
        token: u64,
        page: impl FnOnce() -> String,
    ) {
        if token == self.first_token {
            self.accept(now, poller);
        } else if let Some(visitor) = self.visitors.get_mut(&token)
            && !visitor.serve(page)
        {
            self.visitors.remove(&token);
        }
    }

    /// Time has come: who takes too long is turned away.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.visitors.retain(|_, visitor| now.since(visitor.since) < PATIENCE);
    }

    fn accept(&mut self, now: Instant, poller: &Poller) {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        while let Ok(fd) = rustix::net::accept_with(&self.listener, flags) {
            if self.visitors.len() >= MOST {
                continue;
            }
            self.made += 1;
            let token = self.first_token + self.made;
            if poller.add_edges(&fd, token).is_ok() {
                let visitor = Visitor { fd, since: now, request: Vec::new(), answer: None };
                self.visitors.insert(token, visitor);
            }
        }
    }
}

impl Visitor {
    /// Reads and answers what can be; false when it is done with.
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

/// The answer to a request.
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
mod tests {
    use super::*;

    fn said(request: &str) -> String {
        String::from_utf8(answer(request.as_bytes(), || "page\n".to_owned())).expect("text")
    }

    #[test]
    fn the_page_is_given_to_who_asks_for_it() {
        let answer = said("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(
            answer.ends_with("Content-Length: 5\r\nConnection: close\r\n\r\npage\n"),
            "{answer}"
        );
        assert!(said("GET /other HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
        assert!(said("POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
        assert!(said("\r\n\r\n").starts_with("HTTP/1.1 405 "));
    }
}
