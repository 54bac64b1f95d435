//! Tests of a socket with its peer.

use rustix::io::{read, write};
use rustix::net::socketpair;

use crate::clock::Clock;
use crate::poller::Poller;
use crate::readers::Readers;

use super::*;

const NOW: Instant = Instant::ZERO;

/// Returns a socket that submits its reads, the reading threads, and the peer.
fn submitting() -> (Socket, Readers, OwnedFd) {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let (ours, peer) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
    let readers = Readers::start(&Pool::default()).unwrap();
    let mut socket = Socket::accepted(ours, NOW).submitting(readers.submitter(7));
    assert_eq!(socket.poll_event(), Some(Event::Connected));
    socket.set_submits(true);
    (socket, readers, peer)
}

/// Waits for at least one completed read, and returns the completed reads.
fn completed(readers: &Readers) -> Vec<Completion> {
    let mut poller = Poller::new().unwrap();
    poller.add(readers, 1).unwrap();
    assert_eq!(poller.wait(&Clock::start(), None).unwrap().len(), 1);
    let completed = readers.completed();
    assert!(completed.iter().all(|it| it.number == 7));
    assert!(!completed.is_empty());
    completed
}

fn complete(socket: &mut Socket, readers: &Readers) {
    for completion in completed(readers) {
        socket.complete(completion);
    }
}

#[test]
fn submitted_reads_return_data_in_order_and_then_the_end() {
    let (mut socket, readers, peer) = submitting();
    let said: Vec<u8> = (0..2_000_000_u32).map(|at| (at / 7) as u8).collect();
    let (mut left, mut heard) = (&said[..], Vec::new());
    let mut peer = Some(peer);
    loop {
        if let Some(fd) = &peer {
            match write(fd, left) {
                Ok(taken) => left = &left[taken..],
                Err(error) => assert_eq!(error, Errno::AGAIN),
            }
            if left.is_empty() {
                peer = None;
            }
            socket.handle_ready(NOW, true, false);
        }
        match socket.read(NOW, 50_000) {
            Some(piece) => {
                assert!(piece.len() <= 50_000);
                assert!(socket.held() <= ((AHEAD + PIECES) * PIECE) as u64);
                heard.extend_from_slice(&piece);
            }
            None if socket.submitted => complete(&mut socket, &readers),
            None => break,
        }
    }
    assert!(heard == said);
    assert_eq!(socket.poll_event(), Some(Event::PeerFinished));
    assert_eq!(socket.poll_event(), None);
}

#[test]
fn data_that_arrives_during_a_read_is_read_later() {
    let (mut socket, readers, peer) = submitting();
    write(&peer, b"one").unwrap();
    socket.handle_ready(NOW, true, false);
    assert_eq!(socket.read(NOW, 100), None);
    let found_no_more = completed(&readers);
    write(&peer, b"two").unwrap();
    socket.handle_ready(NOW, true, false);
    for completion in found_no_more {
        socket.complete(completion);
    }
    assert_eq!(socket.read(NOW, 100).unwrap(), &b"one"[..]);
    complete(&mut socket, &readers);
    assert_eq!(socket.read(NOW, 100).unwrap(), &b"two"[..]);
    assert_eq!(socket.read(NOW, 100), None);
    assert!(!socket.submitted, "no data was reported");
}

#[test]
fn a_failure_is_reported_after_the_data() {
    let (mut socket, readers, peer) = submitting();
    // A peer that closes with unread data resets the connection.
    write(&socket, b"nobody reads this").unwrap();
    write(&peer, b"last words").unwrap();
    drop(peer);
    socket.handle_ready(NOW, true, false);
    assert_eq!(socket.read(NOW, 4), None);
    complete(&mut socket, &readers);
    let mut said = Vec::new();
    while let Some(piece) = socket.read(NOW, 4) {
        assert!(!socket.has_news());
        said.extend_from_slice(&piece);
    }
    assert_eq!(said, b"last words");
    assert_eq!(socket.poll_event(), Some(Event::Closed));
}

/// Returns a socket that is connected to a server over loopback, the server's end, and a poller.
fn over_tcp() -> (Socket, std::net::TcpStream, Poller) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut socket = Socket::call(&Kind::TO_ORIGIN, address, Pool::default()).unwrap();
    let poller = Poller::new().unwrap();
    poller.add_edges(&socket, 1).unwrap();
    let (peer, _) = listener.accept().unwrap();
    socket.handle_ready(NOW, false, true);
    assert_eq!(socket.poll_event(), Some(Event::Connected));
    (socket, peer, poller)
}

/// Passes reports of the kernel to a socket until the socket has an event.
fn hear(socket: &mut Socket, poller: &mut Poller) -> Option<Event> {
    let clock = Clock::start();
    for _ in 0..100 {
        let until = clock.now() + anabranch_units::Duration::from_millis(100);
        for ready in poller.wait(&clock, Some(until)).unwrap() {
            socket.handle_ready(NOW, ready.readable, ready.writable);
            if ready.broken {
                socket.handle_error();
            }
        }
        if socket.has_news() {
            break;
        }
        assert_eq!(socket.read(NOW, 100), None);
    }
    socket.poll_event()
}

#[test]
fn a_reset_after_the_peer_s_end_is_reported_with_its_error() {
    let (mut socket, peer, mut poller) = over_tcp();
    drop(peer);
    assert_eq!(hear(&mut socket, &mut poller), Some(Event::PeerFinished));
    assert_eq!(socket.error(), None);
    socket.write(NOW, Bytes::from_static(b"too late")).unwrap();
    assert_eq!(hear(&mut socket, &mut poller), Some(Event::Closed));
    // `tcp_reset` reports EPIPE for a connection in CLOSE_WAIT.
    assert_eq!(socket.error(), Some(Errno::PIPE));
    assert_eq!(socket.poll_event(), None);
}

#[test]
fn a_reset_before_the_end_was_read_is_reported_after_the_end() {
    use std::io::Write as _;
    let (mut socket, mut peer, mut poller) = over_tcp();
    peer.write_all(b"answer").unwrap();
    drop(peer);
    // The socket is not read when the reset arrives, as if its client had no room.
    socket.set_room(0);
    socket.write(NOW, Bytes::from_static(b"too late")).unwrap();
    let clock = Clock::start();
    while !socket.pending {
        for ready in poller.wait(&clock, None).unwrap() {
            socket.handle_ready(NOW, ready.readable, ready.writable);
            if ready.broken {
                socket.handle_error();
            }
        }
    }
    assert_eq!(socket.poll_event(), None);
    socket.set_room(u64::MAX);
    assert_eq!(socket.read(NOW, 100).unwrap(), &b"answer"[..]);
    assert_eq!(socket.read(NOW, 100), None);
    assert_eq!(socket.poll_event(), Some(Event::PeerFinished));
    assert_eq!(socket.poll_event(), Some(Event::Closed));
    assert_eq!(socket.error(), Some(Errno::PIPE));
}

#[test]
fn a_refused_attempt_has_its_error_and_was_never_connected() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let mut socket = Socket::call(&Kind::TO_ORIGIN, address, Pool::default()).unwrap();
    let mut poller = Poller::new().unwrap();
    poller.add_edges(&socket, 1).unwrap();
    assert_eq!(hear(&mut socket, &mut poller), Some(Event::Closed));
    assert_eq!((socket.error(), socket.connected_at()), (Some(Errno::CONNREFUSED), None));
}

#[test]
fn a_connection_that_was_accepted_and_reset_at_once_was_connected() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut socket = Socket::call(&Kind::TO_ORIGIN, address, Pool::default()).unwrap();
    let (peer, _) = listener.accept().unwrap();
    sockopt::set_socket_linger(&peer, Some(std::time::Duration::ZERO)).unwrap();
    drop(peer);
    let mut poller = Poller::new().unwrap();
    poller.add_edges(&socket, 1).unwrap();
    assert_eq!(hear(&mut socket, &mut poller), Some(Event::Connected));
    assert_eq!(socket.poll_event(), Some(Event::Closed));
    assert_eq!(socket.error(), Some(Errno::CONNRESET));
}

#[test]
fn a_failure_without_data_is_reported_to_the_reader() {
    for submits in [true, false] {
        let (mut socket, readers, peer) = submitting();
        socket.set_submits(submits);
        write(&socket, b"nobody reads this").unwrap();
        drop(peer);
        socket.handle_ready(NOW, true, false);
        assert_eq!(socket.read(NOW, 4), None);
        if submits {
            complete(&mut socket, &readers);
            assert_eq!(socket.poll_event(), None, "the application may still hold data");
            assert_eq!(socket.read(NOW, 4), None);
        }
        assert_eq!(socket.poll_event(), Some(Event::Closed));
    }
}

#[test]
fn a_read_of_the_previous_socket_is_dropped() {
    let (mut before, readers, peer) = submitting();
    write(&peer, b"too late").unwrap();
    before.handle_ready(NOW, true, false);
    assert_eq!(before.read(NOW, 100), None);
    let (mut socket, _others, _peer) = submitting();
    complete(&mut socket, &readers);
    assert_eq!((socket.read(NOW, 100), socket.held()), (None, 0));
}

#[test]
fn a_socket_that_does_not_submit_reads_at_once() {
    let (mut socket, readers, peer) = submitting();
    socket.set_submits(false);
    write(&peer, b"now").unwrap();
    socket.handle_ready(NOW, true, false);
    assert_eq!(socket.read(NOW, 100).unwrap(), &b"now"[..]);
    assert!(readers.completed().is_empty());
    assert_eq!(read(&peer, &mut [0; 1]), Err(Errno::AGAIN), "the peer received nothing");
}

#[test]
fn a_writer_that_waits_for_room_is_notified_once() {
    use std::io::Read as _;
    let (mut socket, mut peer, mut poller) = over_tcp();
    assert!(socket.poll_writable());
    let piece = Bytes::from(vec![7; 1 << 20]);
    let mut written = 0;
    while let Ok(taken) = socket.write(NOW, piece.clone()) {
        written += taken;
    }
    assert!(!socket.poll_writable());
    assert_eq!(socket.poll_event(), None);
    // After the peer has read all bytes, the kernel reports room.
    let mut left = written;
    let mut room = vec![0; 1 << 20];
    while left > 0 {
        left -= peer.read(&mut room).unwrap();
    }
    assert_eq!(hear(&mut socket, &mut poller), Some(Event::Writable));
    assert!(socket.poll_writable());
    assert_eq!(socket.poll_event(), None);
}

#[test]
fn a_shutdown_ends_one_half_and_the_other_continues() {
    use std::io::{Read as _, Write as _};
    let (mut socket, mut peer, mut poller) = over_tcp();
    socket.write(NOW, Bytes::from_static(b"all")).unwrap();
    socket.shutdown(NOW);
    let mut heard = Vec::new();
    peer.read_to_end(&mut heard).unwrap();
    assert_eq!(heard, b"all");
    peer.write_all(b"answer").unwrap();
    let clock = Clock::start();
    let answer = loop {
        for ready in poller.wait(&clock, None).unwrap() {
            socket.handle_ready(NOW, ready.readable, ready.writable);
        }
        if let Some(piece) = socket.read(NOW, 100) {
            break piece;
        }
    };
    assert_eq!(answer, &b"answer"[..]);
}

#[test]
fn a_reset_reaches_the_peer_and_a_drop_is_an_end() {
    use std::io::Read as _;
    let (socket, mut peer, _poller) = over_tcp();
    socket.reset();
    let error = peer.read(&mut [0; 1]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    let (socket, mut peer, _poller) = over_tcp();
    drop(socket);
    assert_eq!(peer.read(&mut [0; 1]).unwrap(), 0);
}

#[test]
fn sockets_to_an_origin_have_nodelay_and_keepalive() {
    let (socket, _peer, _poller) = over_tcp();
    assert!(sockopt::tcp_nodelay(&socket).unwrap());
    assert!(sockopt::socket_keepalive(&socket).unwrap());
}
