//! Tests of a served connection's counters, without packets.

use std::collections::VecDeque;

use anabranch_host::Stream;
use anabranch_mptcp::path_manager::Candidate;
use anabranch_mptcp::{Config, Endpoint, Event, WriteError};
use anabranch_units::Seed;
use bytes::Bytes;

use super::*;

const BEGIN: Instant = Instant::from_nanos(5_000_000_000);

/// A stream with some bytes to read. It accepts all writes.
struct Says(VecDeque<Bytes>);

impl Stream for Says {
    fn connected_at(&self) -> Option<Instant> {
        Some(BEGIN)
    }

    fn poll_event(&mut self) -> Option<Event> {
        None
    }

    fn read(&mut self, _now: Instant, _limit: usize) -> Option<Bytes> {
        self.0.pop_front()
    }

    fn write(&mut self, _now: Instant, bytes: Bytes) -> Result<usize, WriteError> {
        Ok(bytes.len())
    }

    fn poll_writable(&mut self) -> bool {
        true
    }

    fn shutdown(&mut self, _now: Instant) {}
}

fn says(bytes: usize) -> Says {
    Says(VecDeque::from([vec![0; bytes].into()]))
}

fn tuple(port: u16) -> FourTuple {
    FourTuple { local: ([10, 9, 0, 1], 443).into(), remote: ([192, 0, 2, 7], port).into() }
}

/// Returns an MPTCP connection from port 1, and its endpoint.
fn served() -> (Served, Endpoint) {
    let mut endpoint = Endpoint::new("test", Seed { seed: 1, run: 0 });
    let FourTuple { local, remote } = tuple(1);
    let candidates = vec![Candidate { address_id: 0, local, remote, backup: false, rate: None }];
    let config = Config { candidates, ..Config::default() };
    let handle = endpoint.connect(BEGIN, config).expect("an address that is free");
    let calling = Calling::new(Duration::from_secs(5));
    (Served::new(BEGIN, handle, tuple(1), true, Relay::default(), calling), endpoint)
}

#[test]
fn bytes_are_counted_by_addresses_and_the_last_entry_has_the_rest() {
    let (mut served, _endpoint) = served();
    for port in 1..=40 {
        served.note_received(tuple(port), 100 + u64::from(port));
    }
    served.note_received(tuple(1), 1000);
    assert_eq!(served.received.len(), MOST_PATHS);
    assert_eq!(served.received[0], (tuple(1), 1101));
    assert_eq!(served.received[30], (tuple(31), 131));
    // The ports from 32 to 40 have 100 bytes each, plus 32 + ... + 40.
    assert_eq!(served.received[31].1, 900 + 324);
}

#[test]
fn a_record_has_each_direction_the_time_and_each_path_s_bytes() {
    let (mut served, endpoint) = served();
    let now = BEGIN + Duration::from_millis(1500);
    served.relay.pump(now, &mut says(300), &mut says(7000), u64::MAX).expect("both take bytes");
    served.note_received(tuple(1), 310);
    served.note_received(tuple(2), 55);
    let handle = served.handle.expect("it was not freed");
    served.keep_records(endpoint.connection(handle));
    assert!(served.handle.is_none(), "the endpoint has freed it");
    served.fail(End::OriginBroke, Some(Errno::CONNRESET));
    let record = served.record(now);
    assert_eq!((record.up, record.down), (300, 7000));
    assert_eq!((record.client, record.local), (tuple(1).remote, tuple(1).local));
    assert_eq!((record.multipath, record.fell_back), (true, false));
    assert_eq!((record.lasted, record.end), (Duration::from_millis(1500), End::OriginBroke));
    assert_eq!(record.error, Some(104));
    let [path] = &record.paths[..] else { panic!("{:?}", record.paths) };
    assert_eq!((path.tuple, path.up, path.down), (tuple(1), 310, 0));
}

#[test]
fn bytes_in_all_buffers_of_a_connection_are_held() {
    let (mut served, _endpoint) = served();
    let (ours, peer) = rustix::net::socketpair(
        rustix::net::AddressFamily::UNIX,
        rustix::net::SocketType::STREAM,
        rustix::net::SocketFlags::NONBLOCK,
        None,
    )
    .expect("two sockets");
    let mut origin = Socket::accepted(ours, BEGIN);
    rustix::io::write(&peer, &[0; 1000]).expect("it has room");
    origin.handle_ready(BEGIN, true, false);
    // The socket reads all 1,000 bytes, and the application takes 300 of them.
    assert_eq!(origin.read(BEGIN, 300).expect("bytes").len(), 300);
    served.origin = Some(origin);
    // The endpoint's buffers contain 5 bytes from the client and 7 from the origin.
    assert_eq!(served.held([5, 7]), [5, 707]);
}
