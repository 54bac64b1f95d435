//! Tests of the responder: its clients, and a host without free descriptors.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use crate::clock::Clock;

use super::*;

const GET: &[u8] = b"GET /metrics HTTP/1.1\r\n\r\n";

fn said(request: &str) -> String {
    String::from_utf8(answer(request.as_bytes(), || "page\n".to_owned())).expect("text")
}

/// Creates a responder on a free port. Returns it with its poller and its address.
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

/// Connects a client from 127.0.0.`last` that sends nothing. A read fails after ten seconds without data.
fn visit_from(last: u8, to: SocketAddr) -> TcpStream {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &SocketAddr::from(([127, 0, 0, last], 0))).unwrap();
    rustix::net::connect(&socket, &to).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
    stream
}

/// Connects a client from 127.0.0.1 that sends `said`.
fn visit(address: SocketAddr, said: &[u8]) -> TcpStream {
    let mut stream = visit_from(1, address);
    stream.write_all(said).unwrap();
    stream
}

/// Reads until the connection is closed.
fn heard(mut stream: TcpStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// Sends a request on a connection and returns the response.
fn ask(responder: &mut Responder, poller: &mut Poller, stream: &mut TcpStream) -> String {
    stream.write_all(GET).unwrap();
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
    // The first client was closed, and the others were not.
    assert_eq!((&silent[0]).read(&mut [0; 1]).unwrap(), 0);
    silent[1].set_nonblocking(true).unwrap();
    let waits = (&silent[1]).read(&mut [0; 1]).unwrap_err();
    assert_eq!(waits.kind(), io::ErrorKind::WouldBlock);
    assert_eq!(responder.visitors.len(), MOST - 1);
}

#[test]
fn a_visitor_of_the_source_with_the_most_visitors_is_closed_first() {
    let (mut responder, mut poller, address) = responder();
    let mut scraper = visit(address, b"");
    turn(&mut responder, &mut poller, Instant::ZERO);
    // 32 clients that send nothing connect before the request.
    let many: Vec<_> = (0..2 * MOST).map(|_| visit_from(2, address)).collect();
    for _ in 0..2 {
        turn(&mut responder, &mut poller, Instant::ZERO);
    }
    assert_eq!(responder.visitors.len(), MOST);
    // The last 15 of these 32 clients are left. The oldest of them is closed next.
    assert_eq!((&many[MOST]).read(&mut [0; 1]).unwrap(), 0);
    many[MOST + 1].set_nonblocking(true).unwrap();
    let waits = (&many[MOST + 1]).read(&mut [0; 1]).unwrap_err();
    assert_eq!(waits.kind(), io::ErrorKind::WouldBlock);
    let answer = ask(&mut responder, &mut poller, &mut scraper);
    assert!(answer.ends_with("page\n"), "{answer}");
}

#[test]
fn a_slow_visitor_is_closed_after_its_time_limit() {
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
    // One event accepts 16 of the 18 clients, and the first of them is closed.
    assert_eq!(responder.visitors.len(), ACCEPTS - 1);
    turn(&mut responder, &mut poller, Instant::ZERO);
    assert_eq!(responder.visitors.len(), MOST);
}

/// The environment variable that tells the test that it runs in a separate process without a free descriptor.
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
        // Another part of the program takes the descriptor that closing the client has freed.
        taken.push(fcntl_dupfd_cloexec(&responder.listener, 0).unwrap());
    }
    // Two clients that send nothing use the reserve. The first one is closed for the third client.
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
    // The host has free descriptors again.
    responder.handle_timeout(Instant::ZERO, &poller);
    assert_eq!(responder.reserve.len(), RESERVE);
}

#[test]
fn a_paused_listener_is_polled_again_after_the_timeout() {
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
fn only_a_get_of_the_page_is_answered_with_it() {
    let answer = said("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.ends_with("Content-Length: 5\r\nConnection: close\r\n\r\npage\n"), "{answer}");
    assert!(said("GET /other HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
    assert!(said("POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
    assert!(said("\r\n\r\n").starts_with("HTTP/1.1 405 "));
}
