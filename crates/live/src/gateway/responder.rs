//! The HTTP server of the metrics: one page, to a bounded number of visitors.
//!
//! No visitor can block the page for others. A request that has arrived is answered when its visitor is accepted. If
//! there are too many visitors, one of the source with the most visitors is closed. If the host has no descriptor left, one from a small reserve is
//! used.

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

/// The most visitors at one time.
const MOST: usize = 16;
/// The most visitors accepted for one event. If all have one source, none is closed in favour of another one of the event.
const ACCEPTS: usize = MOST;
/// The longest request, bytes.
const LONGEST: usize = 4096;
/// The longest time for a visitor to send its request and read the answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Descriptors reserved for visitors that arrive when the host has none left.
const RESERVE: usize = 2;
/// The backlog of visitors that the kernel keeps until they are accepted.
const BACKLOG: i32 = 128;

/// A client of the metrics.
struct Visitor {
    fd: OwnedFd,
    /// The source of its address; `None` if the kernel returned no address.
    source: Option<IpAddr>,
    since: Instant,
    request: Vec<u8>,
    /// The rest of the answer; set after the request is complete.
    answer: Option<Vec<u8>>,
}

/// The listener and its visitors.
pub(super) struct Responder {
    listener: OwnedFd,
    visitors: BTreeMap<u64, Visitor>,
    /// Descriptors that are closed when an accept needs one.
    reserve: Vec<OwnedFd>,
    /// An accept failed, so the listener is not polled until the next timeout.
    rests: bool,
    /// The listener's number; those of visitors follow.
    first_token: u64,
    made: u64,
}

impl Responder {
    /// Creates a responder that listens at an address.
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

    /// Handles a ready descriptor, given by its number. `page` is called when a request is complete.
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

    /// Handles the timer: closes visitors who take too long, and accepts again after a failure.
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

    /// Accepts visitors. The listener stays ready while more of them wait.
    fn accept(&mut self, now: Instant, poller: &Poller, page: impl Fn() -> String) {
        for accepted in 0..ACCEPTS {
            match self.accept_one() {
                Ok(accepted) => self.welcome(now, poller, accepted, &page),
                // accept(2) takes a descriptor before it looks at the queue, so the queue may be empty.
                Err(Errno::MFILE | Errno::NFILE) if accepted > 0 => return,
                Err(Errno::MFILE | Errno::NFILE) if self.free_a_descriptor() => {
                    let visitor = self.accept_one();
                    if let Ok(accepted) = visitor {
                        self.welcome(now, poller, accepted, &page);
                    }
                    // Before another connection takes the descriptor.
                    return self.fill_reserve();
                }
                Err(Errno::AGAIN) => return,
                // The visitor has left already (accept(2) also returns the network's errors).
                Err(Errno::INTR | Errno::CONNABORTED | Errno::PROTO) => {}
                Err(_) => {
                    // The listener stays readable, so without a pause the accept would be retried in a busy loop.
                    self.rests = poller.remove(&self.listener).is_ok();
                    return;
                }
            }
        }
    }

    /// Accepts a visitor. Returns its descriptor and its source.
    fn accept_one(&self) -> Result<(OwnedFd, Option<IpAddr>), Errno> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (fd, address) = rustix::net::acceptfrom_with(&self.listener, flags)?;
        let address = address.and_then(|it| SocketAddr::try_from(it).ok());
        Ok((fd, address.map(|it| source(it.ip()))))
    }

    /// Closes a reserved descriptor, or else a visitor. Returns false if there is neither.
    fn free_a_descriptor(&mut self) -> bool {
        self.reserve.pop().is_some() || self.close_one()
    }

    /// Closes the oldest visitor of the source with the most visitors; of equal sources, that of the oldest visitor.
    /// Returns false if there is no visitor.
    fn close_one(&mut self) -> bool {
        let mut of_source: BTreeMap<Option<IpAddr>, (usize, Reverse<u64>)> = BTreeMap::new();
        for (token, visitor) in &self.visitors {
            of_source.entry(visitor.source).or_insert((0, Reverse(*token))).0 += 1;
        }
        let most = of_source.into_values().max();
        most.is_some_and(|(_, Reverse(oldest))| self.visitors.remove(&oldest).is_some())
    }

    /// Serves a new visitor at once. It is kept if it has to wait.
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
    /// Reads the request and writes the answer as far as possible. Returns false if the visitor can be closed.
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

    const GET: &[u8] = b"GET /metrics HTTP/1.1\r\n\r\n";

    fn said(request: &str) -> String {
        String::from_utf8(answer(request.as_bytes(), || "page\n".to_owned())).expect("text")
    }

    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::process::Command;

    use crate::clock::Clock;

    /// Creates a responder on a free port, its poller, and its address.
    fn responder() -> (Responder, Poller, SocketAddr) {
        let poller = Poller::new().unwrap();
        let responder = Responder::listen(([127, 0, 0, 1], 0).into(), &poller, 1).unwrap();
        let address = rustix::net::getsockname(&responder.listener).unwrap();
        (responder, poller, SocketAddr::try_from(address).unwrap())
    }

    /// Handles everything that is ready now.
    fn turn(responder: &mut Responder, poller: &mut Poller, now: Instant) {
        let clock = Clock::start();
        for ready in poller.wait(&clock, Some(clock.now())).unwrap() {
            responder.handle_ready(now, poller, ready.token, || "page\n".to_owned());
        }
    }

    /// Connects a visitor. A read that gets nothing for ten seconds fails.
    fn visit(address: SocketAddr, said: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
        stream.write_all(said).unwrap();
        stream
    }

    /// Reads until the visitor is closed.
    fn heard(mut stream: TcpStream) -> String {
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    /// Reads the answer to a request on this stream.
    fn ask(responder: &mut Responder, poller: &mut Poller, stream: &mut TcpStream) -> String {
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        for _ in 0..3 {
            turn(responder, poller, Instant::ZERO);
        }
        let mut heard = String::new();
        stream.read_to_string(&mut heard).unwrap();
        heard
    }

    #[test]
    fn silent_visitors_give_way_to_later_ones_oldest_first() {
        let (mut responder, mut poller, address) = responder();
        let silent: Vec<_> = (0..MOST).map(|_| visit(address, b"")).collect();
        turn(&mut responder, &mut poller, Instant::ZERO);
        assert_eq!(responder.visitors.len(), MOST);
        let mut last = visit(address, b"");
        turn(&mut responder, &mut poller, Instant::ZERO);
        assert_eq!(responder.visitors.len(), MOST);
        let answer = ask(&mut responder, &mut poller, &mut last);
        assert!(answer.ends_with("\r\n\r\npage\n"), "{answer}");
        // The first visitor was closed, and the others were not.
        assert_eq!((&silent[0]).read(&mut [0; 1]).unwrap(), 0);
        silent[1].set_nonblocking(true).unwrap();
        let waits = (&silent[1]).read(&mut [0; 1]).unwrap_err();
        assert_eq!(waits.kind(), io::ErrorKind::WouldBlock);
        assert_eq!(responder.visitors.len(), MOST - 1);
    }

    /// Connects a silent visitor from an address of the loopback network. A read that gets nothing for ten seconds fails.
    fn visit_from(last: u8, to: SocketAddr) -> TcpStream {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        rustix::net::bind(&socket, &SocketAddr::from(([127, 0, 0, last], 0))).unwrap();
        rustix::net::connect(&socket, &to).unwrap();
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
        stream
    }

    #[test]
    fn a_visitor_of_the_source_with_the_most_visitors_is_closed_first() {
        let (mut responder, mut poller, address) = responder();
        let mut scraper = visit(address, b"");
        turn(&mut responder, &mut poller, Instant::ZERO);
        // 32 silent visitors come before the scraper's request.
        let many: Vec<_> = (0..2 * MOST).map(|_| visit_from(2, address)).collect();
        for _ in 0..2 {
            turn(&mut responder, &mut poller, Instant::ZERO);
        }
        assert_eq!(responder.visitors.len(), MOST);
        // The last 15 of the 32 are left, oldest first.
        assert_eq!((&many[MOST]).read(&mut [0; 1]).unwrap(), 0);
        many[MOST + 1].set_nonblocking(true).unwrap();
        let waits = (&many[MOST + 1]).read(&mut [0; 1]).unwrap_err();
        assert_eq!(waits.kind(), io::ErrorKind::WouldBlock);
        let answer = ask(&mut responder, &mut poller, &mut scraper);
        assert!(answer.ends_with("page\n"), "{answer}");
    }

    #[test]
    fn a_visitor_has_so_much_time() {
        let (mut responder, mut poller, address) = responder();
        let _slow = TcpStream::connect(address).unwrap();
        turn(&mut responder, &mut poller, Instant::ZERO);
        let nearly = Instant::ZERO + (PATIENCE - Duration::from_millis(1));
        responder.handle_timeout(nearly, &poller);
        assert_eq!(responder.visitors.len(), 1);
        responder.handle_timeout(Instant::ZERO + PATIENCE, &poller);
        assert_eq!(responder.visitors.len(), 0);
    }

    #[test]
    fn a_request_may_come_in_pieces_and_has_a_longest_length() {
        let (mut responder, mut poller, address) = responder();
        let mut slow = visit(address, b"");
        turn(&mut responder, &mut poller, Instant::ZERO);
        for piece in [&b"GET /metr"[..], b"ics HTTP/1.1\r\n", b"Host: x\r\n\r"] {
            slow.write_all(piece).unwrap();
            turn(&mut responder, &mut poller, Instant::ZERO);
            assert_eq!(responder.visitors.len(), 1);
        }
        slow.write_all(b"\n").unwrap();
        turn(&mut responder, &mut poller, Instant::ZERO);
        let mut heard = String::new();
        slow.read_to_string(&mut heard).unwrap();
        assert!(heard.starts_with("HTTP/1.1 200 "), "{heard}");
        let mut endless = TcpStream::connect(address).unwrap();
        turn(&mut responder, &mut poller, Instant::ZERO);
        endless.write_all(&[b'x'; LONGEST + 1]).unwrap();
        turn(&mut responder, &mut poller, Instant::ZERO);
        assert_eq!(responder.visitors.len(), 0);
    }

    #[test]
    fn a_request_is_answered_before_later_visitors_are_accepted() {
        let (mut responder, mut poller, address) = responder();
        let scrape = visit(address, GET);
        let _silent: Vec<_> = (0..=MOST).map(|_| visit(address, b"")).collect();
        turn(&mut responder, &mut poller, Instant::ZERO);
        assert!(heard(scrape).ends_with("page\n"));
        // One event accepts 16 of the 18 visitors, and of these the first is gone.
        assert_eq!(responder.visitors.len(), ACCEPTS - 1);
        turn(&mut responder, &mut poller, Instant::ZERO);
        assert_eq!(responder.visitors.len(), MOST);
    }

    /// The environment of a test that runs in a process of its own, which has no descriptor left.
    const EXHAUSTED: &str = "ANABRANCH_TEST_EXHAUSTED";

    #[test]
    fn without_descriptors_every_request_is_answered_and_the_reserve_is_kept() {
        if std::env::var_os(EXHAUSTED).is_none() {
            let name = "gateway::responder::tests::\
                        without_descriptors_every_request_is_answered_and_the_reserve_is_kept";
            let shell = r#"ulimit -n 64 && exec "$0" --exact "$1""#;
            let mut again = Command::new("sh");
            again.arg("-c").arg(shell).arg(std::env::current_exe().unwrap()).arg(name);
            let done = again.env(EXHAUSTED, "1").output().unwrap();
            let text = String::from_utf8_lossy(&done.stdout);
            assert!(done.status.success() && text.contains("1 passed"), "{text}");
            return;
        }
        let (mut responder, mut poller, address) = responder();
        let scrapes = [GET; 4].map(|said| visit(address, said));
        let silent = [b""; 3].map(|said| visit(address, said));
        let last = visit(address, GET);
        let mut taken = Vec::new();
        while let Ok(fd) = fcntl_dupfd_cloexec(&responder.listener, 0) {
            taken.push(fd);
        }
        for scrape in scrapes {
            turn(&mut responder, &mut poller, Instant::ZERO);
            assert_eq!((responder.reserve.len(), responder.visitors.len()), (RESERVE, 0));
            let answer = heard(scrape);
            assert!(answer.ends_with("page\n"), "{answer}");
            // The client's descriptor is taken by another part of the program.
            taken.push(fcntl_dupfd_cloexec(&responder.listener, 0).unwrap());
        }
        // Two of those who say nothing have the reserve, and the first of them gives way to the third.
        for reserved in [1, 0, 0] {
            turn(&mut responder, &mut poller, Instant::ZERO);
            assert_eq!(responder.reserve.len(), reserved);
        }
        let [first, second, _third] = silent;
        assert_eq!(heard(first), "");
        taken.push(fcntl_dupfd_cloexec(&responder.listener, 0).unwrap());
        turn(&mut responder, &mut poller, Instant::ZERO);
        assert_eq!(heard(second), "");
        assert!(heard(last).ends_with("page\n"));
        assert_eq!((responder.reserve.len(), responder.visitors.len()), (1, 1));
        drop(taken);
    }

    #[test]
    fn the_reserve_and_then_the_oldest_visitor_give_their_descriptors() {
        let (mut responder, mut poller, address) = responder();
        assert_eq!(responder.reserve.len(), RESERVE);
        let _silent = TcpStream::connect(address).unwrap();
        turn(&mut responder, &mut poller, Instant::ZERO);
        for _ in 0..RESERVE {
            assert!(responder.free_a_descriptor());
        }
        assert_eq!((responder.reserve.len(), responder.visitors.len()), (0, 1));
        assert!(responder.free_a_descriptor());
        assert_eq!(responder.visitors.len(), 0);
        assert!(!responder.free_a_descriptor());
        // The host has descriptors again.
        responder.handle_timeout(Instant::ZERO, &poller);
        assert_eq!(responder.reserve.len(), RESERVE);
    }

    #[test]
    fn a_listener_that_rested_is_heard_again_after_the_timeout() {
        let (mut responder, mut poller, address) = responder();
        poller.remove(&responder.listener).unwrap();
        responder.rests = true;
        let mut visitor = visit(address, b"");
        turn(&mut responder, &mut poller, Instant::ZERO);
        assert_eq!(responder.visitors.len(), 0);
        responder.handle_timeout(Instant::ZERO, &poller);
        let answer = ask(&mut responder, &mut poller, &mut visitor);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
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
