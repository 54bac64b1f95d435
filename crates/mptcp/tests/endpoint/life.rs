//! The life of connections: handles, stray segments, events, timers, and equal output for equal input.

use anabranch_mptcp::path_manager::Candidate;
use anabranch_mptcp::{Config, Endpoint, Event};
use anabranch_units::{Duration, Instant, Seed};
use anabranch_wire::{Flags, Segment};

use crate::host::{Host, at, plain, segment, stamped, syn, tuple};

#[test]
fn the_handle_of_a_freed_connection_is_refused_for_ever() {
    let mut host = Host::new(plain());
    let mut first = host.open(1000, 0, None);
    host.close(&mut first, None);
    let news = host.news();
    assert_eq!(news.last(), Some(&(first.handle, Event::Drained)), "the last of all news");
    assert!(host.endpoint.get(first.handle).is_none());
    let second = host.open(1001, 0, None);
    assert_eq!(second.handle.index(), first.handle.index(), "the place is given again");
    assert_ne!(second.handle, first.handle);
    assert!(host.endpoint.get(first.handle).is_none());
    assert!(host.endpoint.get_mut(first.handle).is_none());
    assert!(host.endpoint.remove(first.handle).is_none());
    assert!(host.endpoint.get(second.handle).is_some());
}

#[test]
fn a_connection_is_looked_at_until_the_call_after_its_end() {
    let mut host = Host::new(plain());
    let mut peer = host.open(1000, 0, None);
    host.close(&mut peer, None);
    while let Some((handle, event)) = host.endpoint.poll_event() {
        if event == Event::Drained {
            assert!(host.endpoint.connection(handle).is_closed());
            assert_eq!(host.endpoint.connection(handle).view().summaries().count(), 1);
        }
    }
    assert!(host.endpoint.is_empty());
}

#[test]
fn unread_data_keeps_the_connection() {
    let mut host = Host::new(plain());
    let mut peer = host.open(1000, 0, None);
    host.data(&mut peer, 100);
    host.close(&mut peer, None);
    assert!(host.news().iter().all(|(_, event)| *event != Event::Drained));
    let now = host.now;
    let read = host.connection(peer.handle).read(now, usize::MAX);
    assert_eq!(read.map(|bytes| bytes.len()), Some(100));
    assert_eq!(host.said(), []);
    assert_eq!(host.news(), [(peer.handle, Event::Drained)]);
    assert!(host.endpoint.is_empty());
}

#[test]
fn a_reset_connection_is_freed_and_leaves_nothing() {
    let mut host = Host::new(plain());
    let peer = host.open(1000, 0, None);
    assert_eq!(host.hear(&segment(1000, Flags::RST, peer.seq, 0)), []);
    assert_eq!(host.news().last(), Some(&(peer.handle, Event::Drained)));
    assert_eq!((host.endpoint.len(), host.endpoint.poll_timeout()), (0, None));
    host.open(1000, 0, None);
}

#[test]
fn strays_are_reset_and_stray_resets_are_not_answered() {
    // RFC 9293 section 3.10.7.1: "all data in the incoming segment is discarded. An incoming segment
    // containing a RST is discarded". A segment with ACK is answered with a RST that has its acknowledgement
    // number.
    let mut host = Host::new(plain());
    assert_eq!(host.hear(&segment(1, Flags::RST, 5, 0)), []);
    assert_eq!(host.hear(&segment(1, Flags::RST.with(Flags::ACK), 5, 9)), []);
    let answer = host.answer(&segment(1, Flags::ACK, 5, 9));
    assert_eq!((answer.flags, answer.seq.0), (Flags::RST, 9));
    let answer = host.answer(&segment(1, Flags::FIN, 5, 0));
    assert_eq!((answer.flags, answer.seq.0, answer.ack.0), (Flags::RST.with(Flags::ACK), 0, 6));
    let answer = host.answer(&segment(1, Flags::SYN.with(Flags::ACK), 5, 9));
    assert_eq!((answer.flags, answer.seq.0), (Flags::RST, 9));
    assert!(host.endpoint.is_empty());
}

#[test]
fn timers_of_all_connections_fire_in_their_order() {
    // A SYN/ACK is repeated after one second (RFC 6298 section 2.1).
    let mut host = Host::new(plain());
    for (ms, port) in [(0, 1), (100, 2), (200, 3)] {
        host.run_to(at(ms));
        host.answer(&syn(port, 0));
    }
    for (ms, port) in [(1000, 1), (1100, 2), (1200, 3)] {
        assert_eq!(host.endpoint.poll_timeout(), Some(at(ms)));
        let said = host.run_to(at(ms));
        assert_eq!(said.iter().map(|s| s.destination_port).collect::<Vec<_>>(), [port]);
    }
}

#[test]
fn sequence_numbers_and_timestamps_of_later_connections_are_later() {
    // RFC 6528: between the same addresses and ports they follow the clock, 64 ns per number as in Linux. RFC
    // 7323 section 5.4 with secure_tcp_ts_off: all connections between two hosts share one timestamp offset, so
    // TIME-WAIT receives increasing timestamps.
    let answers = |seed: u64, ms: u64, port: u16| {
        let mut host = Host::seeded(plain(), seed);
        host.run_to(at(ms));
        let answer = host.answer(&stamped(syn(port, 0), 1, 0));
        (answer.seq.0, answer.timestamps.expect("as in the SYN").value)
    };
    let (first, later) = (answers(1, 0, 9), answers(1, 2000, 9));
    assert_eq!(later.0.wrapping_sub(first.0), 2 * 15_625_000);
    assert_eq!(later.1.wrapping_sub(first.1), 2000);
    let other = answers(1, 0, 10);
    assert!(other.0 != first.0 && other.1 == first.1);
    let secret = answers(2, 0, 9);
    assert!(secret.0 != first.0 && secret.1 != first.1);
}

/// Returns all segments sent by a host with many connections. A pseudo-random generator chooses the input.
fn transcript(seed: u64) -> Vec<(Instant, Segment)> {
    let mut host = Host::seeded(Config { multipath: true, ..plain() }, seed);
    let mut state = 1u32;
    let mut said = Vec::new();
    for step in 0..400u64 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let port = 1000 + (state >> 16) as u16 % 50;
        let mut heard = host.run_to(at(step * 37));
        let flags = [Flags::SYN, Flags::ACK, Flags::FIN.with(Flags::ACK), Flags::RST];
        let flags = flags[(state >> 8) as usize % 4];
        let ack = said.last().map_or(0, |(_, last): &(Instant, Segment)| last.seq.0 + 1);
        heard.extend(host.hear(&segment(port, flags, state, ack)));
        host.news();
        said.extend(heard.into_iter().map(|segment| (host.now, segment)));
    }
    said
}

#[test]
fn equal_seeds_give_equal_bytes() {
    let first = transcript(11);
    assert!(first.len() > 200, "a life: {}", first.len());
    assert_eq!(first, transcript(11));
    assert_ne!(first, transcript(12));
}

#[test]
fn a_thousand_connections_have_a_thousand_tokens() {
    let mut endpoint = Endpoint::new("host", Seed { seed: 1, run: 0 });
    let tokens: std::collections::BTreeSet<u32> = (0..1000)
        .map(|port| {
            let anabranch_mptcp::FourTuple { local, remote } = tuple(port);
            let first = Candidate { address_id: 0, local, remote, backup: false, rate: None };
            let config = Config { candidates: vec![first], ..Config::default() };
            let handle = endpoint.connect(at(0), config).expect("addresses of its own");
            endpoint.connection(handle).token()
        })
        .collect();
    assert_eq!(tokens.len(), 1000);
}

#[test]
fn stale_timer_of_a_freed_connection_is_ignored() {
    let mut host = Host::new(plain());
    let anabranch_mptcp::FourTuple { local, remote } = tuple(1);
    let first = Candidate { address_id: 0, local, remote, backup: false, rate: None };
    let config = Config { candidates: vec![first], ..plain() };
    let half = host.endpoint.connect(at(0), config).expect("addresses of its own");
    assert_eq!(host.said().len(), 1, "its SYN");
    assert_eq!(host.endpoint.poll_timeout(), Some(at(1000)));
    assert!(host.endpoint.remove(half).is_some());
    assert_eq!(host.endpoint.poll_timeout(), None);
    assert_eq!(host.run_to(at(0) + Duration::from_secs(100)), []);
    assert_eq!(host.answer(&segment(1, Flags::ACK, 1, 1)).flags, Flags::RST);
}
