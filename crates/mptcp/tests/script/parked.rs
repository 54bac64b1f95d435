//! Data that arrives while the receive buffer is full stays with its subflow (`mptcp_data_ready`).

use anabranch_mptcp::{Config, Event};

use crate::dialect::{Script, config, film};

/// The payload of a segment, bytes. Its memory is 1280, so that 103 segments fill the buffer of 128 KiB.
const PIECE: u64 = 300;
/// The number of segments that the peer sends. About fifty of them arrive at a full buffer.
const SEGMENTS: u64 = 150;
const ALL: u64 = SEGMENTS * PIECE;

/// A configuration whose receive buffer cannot grow.
fn fixed() -> Config {
    Config { receive_buffer_initial: 131_072, receive_buffer_max: 131_072, ..config() }
}

/// The application does not read the data of one path, so that later data waits there.
fn full(mut s: Script, path: usize) -> Script {
    s.reading = false;
    for n in 0..SEGMENTS {
        let (at, next) = (1 + n * PIECE, 1 + (n + 1) * PIECE);
        s.peer_on(
            path,
            300,
            &format!(". {at}:{next} ack=1 dack4=0 map={}+{PIECE}@{at}", n * PIECE),
        );
    }
    let held = s.connection().view().receiver();
    assert_eq!((held.unread, held.in_subflows), (103 * PIECE, ALL - 103 * PIECE), "{held:?}");
    s
}

#[test]
fn parked_data_is_acknowledged_on_its_subflow_and_read_last() {
    let mut s = full(Script::multipath(fixed(), 50), 0);
    let last = s.rest_until(600).pop().expect("an acknowledgement");
    assert!(last.2.contains(&format!("ack={}", 1 + ALL)), "{last:?}");
    assert!(last.2.contains(&format!("dack8={}", 103 * PIECE)), "{last:?}");
    s.read(700, ALL as usize);
    assert_eq!(s.received, film(0, ALL as usize));
    let held = s.connection().view().receiver();
    assert_eq!((held.in_order, held.unread, held.in_subflows), (ALL, 0, 0));
}

#[test]
fn new_data_moves_parked_data_once_there_is_room() {
    let mut s = full(Script::multipath(fixed(), 50), 0);
    s.read(700, 3000);
    let at = 1 + ALL;
    s.peer(800, &format!(". {at}:{} ack=1 dack4=0 map={ALL}+{PIECE}@{at}", at + PIECE));
    // There is space for ten more segments, and for the one that fills the buffer.
    let held = s.connection().view().receiver();
    assert_eq!(
        (held.unread, held.in_subflows),
        (103 * PIECE, ALL + PIECE - 113 * PIECE),
        "{held:?}"
    );
}

#[test]
fn data_fin_is_delivered_after_parked_data() {
    let mut s = full(Script::multipath(fixed(), 50), 0);
    s.peer(400, &format!(". ack=1 dack4=0 map={ALL}+1@0 dfin"));
    assert!(!s.has(Event::PeerFinished));
    s.read(700, ALL as usize);
    s.rest_until(800);
    assert!(s.has(Event::PeerFinished));
}

#[test]
fn closed_subflow_keeps_its_parked_data_readable() {
    let mut s = Script::multipath(fixed(), 50);
    s.join(1, 200, 100);
    let mut s = full(s, 1);
    s.peer_on(1, 400, &format!("R {}:{}", 1 + ALL, 1 + ALL));
    let held = s.connection().view().receiver();
    assert_eq!((held.unread, held.in_subflows), (ALL, 0), "{held:?}");
    s.read(700, ALL as usize);
    assert_eq!(s.received, film(0, ALL as usize));
}

#[test]
fn mptcp_may_end_while_something_waits() {
    let mut s = full(Script::multipath(fixed(), 50), 0);
    let at = 1 + ALL;
    s.peer(400, &format!(". {at}:{} ack=1 map={ALL}+0@{at}", at + 100));
    assert!(s.has(Event::FellBack));
    s.read(700, ALL as usize + 100);
    assert_eq!(s.received, film(0, ALL as usize + 100));
}
