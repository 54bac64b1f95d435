//! Tests of the endpoint's private tables.

use std::hash::BuildHasher;
use std::net::SocketAddr;

use anabranch_units::{Instant, Seed, SeqNumber};
use anabranch_wire::{Flags, Segment};

use super::Endpoint;
use super::places::Place;
use crate::config::Config;
use crate::path_manager::Candidate;
use crate::secrets::Packed;
use anabranch_tcp::config::FourTuple;

const NOW: Instant = Instant::ZERO;

fn endpoint() -> Endpoint {
    Endpoint::new("host", Seed { seed: 5, run: 0 })
}

fn tuple(number: u32) -> FourTuple {
    let [a, b, c, d] = number.to_be_bytes();
    FourTuple {
        local: SocketAddr::from(([10, 0, 0, 1], 80)),
        remote: SocketAddr::from(([10, a, b, c], 1024 + u16::from(d))),
    }
}

fn config(number: u32) -> Config {
    let FourTuple { local, remote } = tuple(number);
    let first = Candidate { address_id: 0, local, remote, backup: false, rate: None };
    Config { candidates: vec![first], ..Config::default() }
}

#[test]
fn a_token_that_a_connection_has_stays_its_own() {
    // RFC 8684 section 3.1: if another connection has the token, a new key is drawn.
    let drawn = {
        let mut other = endpoint();
        let handle = other.connect(NOW, config(1)).expect("free addresses");
        other.connection(handle).token()
    };
    let mut host = endpoint();
    host.by_token.insert(drawn, 77);
    let handle = host.connect(NOW, config(1)).expect("free addresses");
    let token = host.connection(handle).token();
    assert_ne!(token, drawn);
    assert_eq!(
        (host.by_token.get(&drawn), host.by_token.get(&token)),
        (Some(77), Some(handle.slot))
    );
    // Removing a connection removes its own token only.
    host.remove(handle);
    assert_eq!(host.by_token.get(&token), None);
    assert_eq!(host.by_token.get(&drawn), Some(77));
}

/// Returns four-tuples whose hashes collide. Only the owner of the secret can compute them.
fn colliding(host: &Endpoint, count: usize) -> Vec<FourTuple> {
    let hash = |tuple: &FourTuple| host.secrets.tables.hash_one(Packed::from(tuple));
    let wanted = hash(&tuple(0)) & 0xfff;
    (0..).map(tuple).filter(|tuple| hash(tuple) & 0xfff == wanted).take(count).collect()
}

fn segment(tuple: &FourTuple, flags: Flags) -> Segment {
    Segment {
        source_port: tuple.remote.port(),
        destination_port: 80,
        seq: SeqNumber(7),
        flags,
        window: 1000,
        ..Segment::default()
    }
}

#[test]
fn colliding_four_tuples_reach_their_own_connections() {
    let mut host = endpoint();
    let plain = Config { multipath: false, ..Config::default() };
    host.listen(SocketAddr::from(([0, 0, 0, 0], 80)), plain).expect("the first");
    let tuples = colliding(&host, 100);
    let (known, strange) = tuples.split_at(50);
    let mut answers = Vec::new();
    for tuple in known {
        assert_eq!(host.handle_segment(NOW, *tuple, &segment(tuple, Flags::SYN)), None);
        answers.push(host.poll_transmit(NOW).expect("a SYN/ACK").segment);
    }
    for (tuple, answer) in known.iter().zip(&answers) {
        // A repeated SYN gets the SYN/ACK of its connection.
        host.handle_segment(NOW, *tuple, &segment(tuple, Flags::SYN));
        let again = host.poll_transmit(NOW).expect("a SYN/ACK").segment;
        assert_eq!((again.seq, again.destination_port), (answer.seq, tuple.remote.port()));
    }
    let third = |answer: &Segment, tuple: &FourTuple| Segment {
        seq: SeqNumber(8),
        ack: answer.seq.add(1),
        ..segment(tuple, Flags::ACK)
    };
    let handles: Vec<_> = known
        .iter()
        .zip(&answers)
        .map(|(tuple, answer)| {
            host.handle_segment(NOW, *tuple, &third(answer, tuple)).expect("its own")
        })
        .collect();
    assert_eq!((host.half_open(), host.len()), (0, 50));
    for (tuple, handle) in known.iter().zip(&handles) {
        let again = host.handle_segment(NOW, *tuple, &segment(tuple, Flags::ACK));
        assert_eq!(again, Some(*handle));
    }
    for tuple in strange {
        assert_eq!(host.handle_segment(NOW, *tuple, &segment(tuple, Flags::ACK)), None);
    }
    for (at, (tuple, handle)) in known.iter().zip(&handles).enumerate() {
        host.remove(*handle);
        assert_eq!(host.places.peek(tuple), None);
        for (other, handle) in known.iter().zip(&handles).skip(at + 1) {
            let place = Some(Place::Subflow { slot: handle.slot, index: 0 });
            assert_eq!(host.places.peek(other), place);
        }
    }
}
