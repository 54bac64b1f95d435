//! Tests of HTTP: each side can read the messages of the other, however they are segmented, and no
//! input causes a panic.

use anabranch_media::http::{
    Answer, ByteRange, ClientData, GetRequest, RequestReader, ResponseEvent, ResponseReader,
    encoded_path,
};
use proptest::prelude::*;

/// Splits bytes into pieces of the given sizes, repeatedly.
fn pieces<'a>(mut bytes: &'a [u8], sizes: &[usize]) -> Vec<&'a [u8]> {
    let mut cut = Vec::new();
    for &size in sizes.iter().cycle() {
        if bytes.is_empty() {
            break;
        }
        let (piece, rest) = bytes.split_at(size.clamp(1, bytes.len()));
        cut.push(piece);
        bytes = rest;
    }
    cut
}

/// Decodes percent-encoding (RFC 3986 section 2.1).
fn decoded(path: &str) -> String {
    let mut bytes = path.bytes();
    let mut found = Vec::new();
    while let Some(byte) = bytes.next() {
        let digits: Vec<u8> =
            if byte == b'%' { bytes.by_ref().take(2).collect() } else { Vec::new() };
        match std::str::from_utf8(&digits) {
            Ok(pair) if pair.len() == 2 => {
                found.push(
                    u8::from_str_radix(pair, 16)
                        .expect("two hexadecimal digits after a percent sign"),
                );
            }
            _ => found.push(byte),
        }
    }
    String::from_utf8(found).expect("names are text")
}

#[test]
fn a_path_is_encoded_as_in_the_rfc() {
    // RFC 3986 section 3.3: unreserved characters, sub-delims, `:` and `@` stay. All other bytes
    // are encoded.
    for (name, path) in [
        ("film-1.0_b~", "film-1.0_b~"),
        ("a b", "a%20b"),
        ("f\u{fc}", "f%C3%BC"),
        ("50 %", "50%20%25"),
        ("a#b?c", "a%23b%3Fc"),
        ("a%20b", "a%2520b"),
        ("x/y", "x/y"),
        ("[\"\\]", "%5B%22%5C%5D"),
    ] {
        assert_eq!(encoded_path(name), path);
    }
}

fn ranges() -> impl Strategy<Value = Option<ByteRange>> {
    let range = (0u64..3_000, proptest::option::of(0u64..3_000))
        .prop_map(|(first, length)| ByteRange { first, last: length.map(|length| first + length) });
    proptest::option::of(range)
}

fn requests() -> impl Strategy<Value = Vec<(String, Option<ByteRange>)>> {
    proptest::collection::vec(("/[a-z0-9./]{0,20}", ranges()), 1..5)
}

proptest! {
    #[test]
    fn requests_on_one_connection_are_answered_in_order(
        requests in requests(),
        resource in proptest::option::of(0u64..3_000),
        sizes in proptest::collection::vec(1usize..200, 1..8),
    ) {
        let mut server = RequestReader::new();
        let written: Vec<u8> = requests
            .iter()
            .flat_map(|(target, range)| {
                GetRequest { host: "host".into(), target: target.clone(), range: *range, client_data: ClientData::default() }.encode()
            })
            .collect();
        for piece in pieces(&written, &sizes) {
            server.handle_bytes(piece);
        }
        let mut response = Vec::new();
        let mut answers = Vec::new();
        for (target, range) in &requests {
            let head = server.poll_request().unwrap().expect("each request arrives");
            prop_assert_eq!((&head.target, head.range), (target, *range));
            let answer = Answer::new(&head, resource);
            response.extend_from_slice(&answer.head);
            response.extend((answer.body.start..answer.body.end).map(|at| at as u8));
            answers.push(answer);
        }
        prop_assert_eq!(server.poll_request(), Ok(None));

        let mut client = ResponseReader::new();
        for piece in pieces(&response, &sizes) {
            client.handle_bytes(piece).unwrap();
        }
        for answer in answers {
            let Some(ResponseEvent::Head(head)) = client.poll_event() else {
                return Err(TestCaseError::fail("a response begins with its head"));
            };
            let length = answer.body.end - answer.body.start;
            prop_assert_eq!((head.status, head.content_length), (answer.status, length));
            prop_assert!(head.keep_alive);
            if answer.status == 206 {
                let last = Some(answer.body.end - 1);
                let range = ByteRange { first: answer.body.start, last };
                prop_assert_eq!(head.content_range, Some(range));
            }
            let mut counted = 0;
            loop {
                match client.poll_event() {
                    Some(ResponseEvent::Body(n)) => counted += n,
                    Some(ResponseEvent::End) => break,
                    other => return Err(TestCaseError::fail(format!("{other:?} within a body"))),
                }
            }
            prop_assert_eq!(counted, length);
        }
        prop_assert_eq!(client.poll_event(), None);
    }

    /// For any name of a film, the server reads the path that the client wrote. The decoded path is
    /// the name.
    #[test]
    fn any_film_name_survives_a_request_line(name in "\\PC{0,20}|[ -~\\t\r\n]{0,20}") {
        let target = format!("/{}", encoded_path(&name));
        let request = GetRequest { host: "host".into(), target: target.clone(), range: None, client_data: ClientData::default() };
        let mut server = RequestReader::new();
        server.handle_bytes(&request.encode());
        let head = server.poll_request().unwrap().expect("a whole request");
        prop_assert_eq!(&head.target, &target);
        prop_assert_eq!(decoded(head.target.trim_start_matches('/')), name.trim_start_matches('/'));
    }

    #[test]
    fn random_bytes_are_read_the_same_at_any_segmentation(
        bytes in proptest::collection::vec(any::<u8>(), 0..2_000),
        sizes in proptest::collection::vec(1usize..200, 1..8),
    ) {
        total(&bytes, &sizes);
    }

    #[test]
    fn almost_valid_bytes_are_read_the_same_at_any_segmentation(
        parts in proptest::collection::vec(
            prop_oneof![
                Just("GET / HTTP/1.1\r\n"), Just("HTTP/1.1 206 x\r\n"), Just("HTTP/1.1 100 \r\n"),
                Just("Content-Length: 7\r\n"), Just("Content-Length: 99999999999999999999\r\n"),
                Just("Content-Range: bytes 9-/4\r\n"), Just("Range: bytes=5-\r\n"), Just("\r\n"),
                Just("Connection: close\r\n"), Just("\n"), Just("abc"), Just(": \r\n"),
            ],
            0..40,
        ),
        sizes in proptest::collection::vec(1usize..40, 1..8),
    ) {
        total(parts.concat().as_bytes(), &sizes);
    }
}

/// Passes the bytes to both readers, and checks that the results do not depend on the segmentation.
fn total(bytes: &[u8], sizes: &[usize]) {
    let read = |sizes: &[usize]| {
        let mut client = ResponseReader::new();
        let outcome =
            pieces(bytes, sizes).into_iter().try_for_each(|piece| client.handle_bytes(piece));
        let mut server = RequestReader::new();
        let mut requests = Vec::new();
        for piece in pieces(bytes, sizes) {
            server.handle_bytes(piece);
            while let Ok(Some(request)) = server.poll_request() {
                requests.push(request);
            }
        }
        let mut events: Vec<ResponseEvent> = Vec::new();
        while let Some(event) = client.poll_event() {
            match (events.last_mut(), event) {
                (Some(ResponseEvent::Body(before)), ResponseEvent::Body(n)) => *before += n,
                _ => events.push(event),
            }
        }
        (outcome, events, requests, server.poll_request())
    };
    assert_eq!(read(sizes), read(&[usize::MAX]));
}
