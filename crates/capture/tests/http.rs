//! HTTP/1.1 in clear text: heads, lengths and times, with segments out of order and with cut frames.

use std::net::IpAddr;

use anabranch_capture::{Analysis, Exchange, Frame, Http};
use anabranch_units::SeqNumber;
use anabranch_wire::{Flags, Segment, emit_packet};
use bytes::Bytes;

/// The sender of a segment.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Host {
    Client,
    Server,
}

/// Reads one TCP connection: for each segment the sender, its sequence number, the time in milliseconds, and the
/// payload. The first byte of the client has the number 100, that of the server 500. Of each packet `snap` bytes are
/// captured; the headers of IP and TCP take 40.
fn read(segments: &[(Host, u32, i64, &[u8])], snap: usize) -> Vec<Exchange> {
    let mut analysis = Analysis::default();
    let mut feed = |host: Host, time_ms: i64, segment: Segment| {
        let (client, server): (IpAddr, IpAddr) = ([10, 1, 0, 1].into(), [10, 9, 0, 1].into());
        let from_client = host == Host::Client;
        let (source, destination) = if from_client { (client, server) } else { (server, client) };
        let (source_port, destination_port) = if from_client { (40_000, 80) } else { (80, 40_000) };
        let segment = Segment { source_port, destination_port, ..segment };
        let mut packet = Vec::new();
        emit_packet(source, destination, &segment, &mut packet).expect("a valid segment");
        analysis.on_frame(&Frame {
            time_ns: Some(time_ms * 1_000_000),
            link_type: 101,
            original_len: packet.len() as u32,
            data: &packet[..packet.len().min(snap)],
        });
    };
    let seq = SeqNumber(99);
    feed(Host::Client, 0, Segment { seq, flags: Flags::SYN, ..Segment::default() });
    let (seq, ack) = (SeqNumber(499), SeqNumber(100));
    let flags = Flags::SYN.with(Flags::ACK);
    feed(Host::Server, 1, Segment { seq, ack, flags, ..Segment::default() });
    for &(host, seq, time_ms, payload) in segments {
        let payload = Bytes::copy_from_slice(payload);
        let segment = Segment { seq: SeqNumber(seq), payload, ..Segment::default() };
        feed(host, time_ms, segment);
    }
    match &analysis.streams()[0].http {
        Http::Read(found) => found.list.clone(),
        Http::Unknown | Http::Other => Vec::new(),
    }
}

const GET: &[u8] = b"GET /a.ts?x=1 HTTP/1.1\r\nHost: films\r\nRange: bytes=0-9\r\n\r\n";

#[test]
fn a_request_has_its_lengths_and_times() {
    let head = b"HTTP/1.1 206 Partial Content\r\nContent-Length: 10\r\n\r\n01234";
    let rest = 500 + head.len() as u32;
    let found = read(
        &[
            (Host::Client, 100, 10, GET),
            (Host::Server, 500, 60, head),
            (Host::Server, rest, 75, b"56789"),
        ],
        usize::MAX,
    );
    let [one] = found.as_slice() else { panic!("one exchange: {found:?}") };
    assert_eq!((one.method.as_str(), one.target.as_str()), ("GET", "/a.ts?x=1"));
    assert_eq!(one.range.as_deref(), Some("bytes=0-9"));
    assert_eq!((one.status, one.content_length, one.body_bytes), (Some(206), Some(10), 10));
    assert_eq!(one.asked_ns, 10_000_000);
    assert_eq!((one.first_byte_ns, one.done_ns), (Some(60_000_000), Some(75_000_000)));
    assert!(!one.is_length_guessed);
}

#[test]
fn the_last_byte_counts_when_it_is_in_order() {
    // The end of the body comes at 50 ms, and the beginning, which was lost, at 90 ms.
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab";
    let end = 500 + head.len() as u32;
    let found = read(
        &[
            (Host::Client, 100, 10, GET),
            (Host::Server, end, 50, b"cd"),
            (Host::Server, 500, 90, head),
        ],
        usize::MAX,
    );
    assert_eq!((found[0].body_bytes, found[0].done_ns), (4, Some(90_000_000)));
    assert_eq!(found[0].first_byte_ns, Some(90_000_000));
}

#[test]
fn chunked_bodies_and_playlists_are_read() {
    let first = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: application/vnd.apple.mpegurl\r\n\r\n7\r\n#EXTM3U\r";
    let second = b"\n3;x=y\r\n\nab\r\n0\r\n\r\n";
    let at = 500 + first.len() as u32;
    let found = read(
        &[
            (Host::Client, 100, 1, GET),
            (Host::Server, 500, 2, first),
            (Host::Server, at, 3, second),
        ],
        usize::MAX,
    );
    assert_eq!(found[0].playlist.as_deref(), Some(b"#EXTM3U\nab".as_slice()));
    assert_eq!((found[0].body_bytes, found[0].done_ns), (10, Some(3_000_000)));
}

#[test]
fn a_cut_head_ends_with_the_next_request() {
    // 20 bytes of IP, 20 of TCP, and 24 of each payload are kept.
    let head = b"HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: 400\r\n\r\n";
    let body = [b'x'; 400];
    let next = 100 + GET.len() as u32;
    let found = read(
        &[
            (Host::Client, 100, 1, GET),
            (Host::Server, 500, 20, head),
            (Host::Server, 500 + head.len() as u32, 30, &body),
            (Host::Client, next, 40, GET),
        ],
        64,
    );
    assert_eq!(found.len(), 2);
    assert!(found[0].is_length_guessed);
    assert_eq!((found[0].status, found[0].content_length), (Some(200), None));
    assert_eq!(found[0].done_ns, Some(30_000_000));
    assert_eq!(found[0].target, "/a.ts?x=1");
}

#[test]
fn other_protocols_are_left_alone() {
    assert!(read(&[(Host::Client, 100, 1, b"\x16\x03\x01\x02\x00")], usize::MAX).is_empty());
    // The server speaks first.
    assert!(
        read(&[(Host::Server, 500, 1, b"220 x"), (Host::Client, 100, 2, GET)], usize::MAX)
            .is_empty()
    );
}
