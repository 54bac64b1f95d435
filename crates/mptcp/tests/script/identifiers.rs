//! The identifiers of addresses, and the state that is removed with an address (RFC 8684 sections 3.2, 3.4.1
//! and 3.4.2; `mptcp_pm_get_local_id`, `mptcp_nl_remove_subflow_and_signal_addr`).

use std::net::{IpAddr, SocketAddr};

use anabranch_mptcp::path_manager::Candidate;
use anabranch_mptcp::{Announcement, Config, Event};
use anabranch_units::SubflowId;
use anabranch_wire::{MpJoin, MptcpOption};

use crate::dialect::{Script, at, config};

fn announcing(what: &[(u8, &str)]) -> Config {
    let announce = what.iter().map(|(address_id, address)| Announcement {
        address_id: *address_id,
        address: ip(address),
        port: None,
    });
    Config { announce: announce.collect(), ..config() }
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn end_point(address_id: u8, local: &str) -> Candidate {
    let local = SocketAddr::new(ip(local), 80);
    let remote = SocketAddr::from(([10, 9, 9, 2], 40_000));
    Candidate { address_id, local, remote, backup: false, rate: None }
}

fn add(s: &mut Script, what: Candidate) {
    let now = s.now;
    s.connection().handle_address_added(now, what);
}

fn remove(s: &mut Script, ms: u64, address: &str) {
    s.run_to(at(ms));
    let now = s.now;
    s.connection().handle_address_removed(now, ip(address));
}

/// The peer joins at our address 10.(path + 1).0.1. Returns the identifier in our answer.
fn joined_as(s: &mut Script, path: usize, ms: u64) -> u8 {
    s.run_to(at(ms));
    s.rest();
    s.peer_on(path, ms, "S join");
    let answer = s.us_on(path, ms, "S. join-hmac");
    s.peer_on(path, ms + 50, ". join-ack");
    s.rest();
    match answer.mptcp[..] {
        [MptcpOption::Join(MpJoin::SynAck { address_id, .. })] => address_id,
        _ => panic!("{answer:?}"),
    }
}

#[test]
fn an_address_that_was_announced_is_joined_under_its_identifier() {
    let config = announcing(&[(4, "10.9.0.1"), (5, "10.2.0.1"), (6, "10.9.0.2")]);
    let mut s = Script::multipath(config, 50);
    assert_eq!(joined_as(&mut s, 1, 200), 5);
}

#[test]
fn an_end_point_is_joined_under_its_identifier() {
    let mut s = Script::multipath(config(), 50);
    for (id, local) in [(8, "10.9.0.1"), (9, "10.2.0.1"), (7, "10.9.0.2")] {
        add(&mut s, end_point(id, local));
    }
    assert_eq!(joined_as(&mut s, 1, 200), 9);
}

#[test]
fn another_address_gets_the_first_identifier_that_none_has() {
    // An identifier belongs to one address (RFC 8684 section 3.4.1). A new one must differ from those of
    // announced addresses, endpoints and subflows. 0 belongs to the initial subflow (section 3.2).
    let mut s = Script::multipath(config(), 50);
    assert_eq!(joined_as(&mut s, 1, 200), 1);
    assert_eq!(joined_as(&mut s, 2, 300), 2);

    let mut s = Script::multipath(announcing(&[(1, "10.9.0.1")]), 50);
    assert_eq!(joined_as(&mut s, 1, 200), 2);

    let mut s = Script::multipath(config(), 50);
    add(&mut s, end_point(1, "10.9.0.1"));
    assert_eq!(joined_as(&mut s, 1, 200), 2);
}

#[test]
fn two_subflows_at_one_address_have_one_identifier() {
    let mut s = Script::multipath(config(), 50);
    assert_eq!(joined_as(&mut s, 1, 200), 1);
    assert_eq!(joined_as(&mut s, 2, 300), 2);
    s.speak_from(2, 50_000);
    assert_eq!(joined_as(&mut s, 2, 400), 2);
    // The address of the initial subflow has identifier 0.
    s.speak_from(0, 50_000);
    assert_eq!(joined_as(&mut s, 0, 500), 0);
}

#[test]
fn removal_of_an_unused_address_sends_no_signal() {
    let mut s = Script::multipath(announcing(&[(5, "10.9.0.1")]), 50);
    s.us(50, ". add=5,10.9.0.1");
    s.peer(100, ". ack=1 dack4=0 echo=5,10.9.0.1");
    s.join(1, 300, 100);
    s.rest();
    remove(&mut s, 400, "10.9.0.7");
    s.silence(2000);
    // The initial address still has identifier 0.
    remove(&mut s, 2000, "10.1.0.1");
    s.us(2000, "R.");
    s.us_on(1, 2000, ". remove=0");
    assert!(
        s.has(Event::SubflowClosed(SubflowId(0))) && !s.has(Event::SubflowClosed(SubflowId(1)))
    );
}

#[test]
fn an_announcement_is_withdrawn_once() {
    let mut s = Script::multipath(announcing(&[(5, "10.9.0.1"), (6, "10.9.0.2")]), 50);
    s.us(50, ". add=5,10.9.0.1");
    s.peer(100, ". ack=1 dack4=0 echo=5,10.9.0.1");
    s.us(100, ". add=6,10.9.0.2");
    s.peer(150, ". ack=1 dack4=0 echo=6,10.9.0.2");
    remove(&mut s, 200, "10.9.0.1");
    s.us(200, ". remove=5");
    remove(&mut s, 300, "10.9.0.1");
    s.silence(400);
    remove(&mut s, 400, "10.9.0.2");
    s.us(400, ". remove=6");
}

#[test]
fn an_address_that_goes_is_not_announced_any_more() {
    // The removed address waits to be announced. The others are announced as before.
    let three = [(5, "10.9.0.1"), (6, "10.9.0.2"), (7, "10.9.0.3")];
    let mut s = Script::multipath(announcing(&three), 50);
    s.us(50, ". add=5,10.9.0.1");
    remove(&mut s, 60, "10.9.0.2");
    // The handshake took 50 ms, so an announcement is repeated after 50 + 200 ms. The removed address is not
    // announced.
    s.us(300, ". add=5,10.9.0.1");
    s.peer(310, ". ack=1 dack4=0 echo=5,10.9.0.1");
    s.us(310, ". add=7,10.9.0.3");
    // The removed address waits for its echo. The announcement is withdrawn and not repeated.
    remove(&mut s, 320, "10.9.0.3");
    s.us(320, ". remove=7");
    s.silence(10_000);
}

/// A client with one address. The connection is confirmed by `confirm`.
fn client() -> Script {
    let mut s = Script::multipath_client(config(), 1);
    s.elsewhere = Some(Vec::new());
    s
}

/// Returns the local address of each attempted join.
fn joins_from(s: &Script) -> Vec<IpAddr> {
    let mut tuples = Vec::new();
    for (_, tuple, segment) in s.elsewhere.iter().flatten() {
        let joins = matches!(segment.mptcp[..], [MptcpOption::Join(MpJoin::Syn { .. })]);
        if joins && !tuples.contains(tuple) {
            tuples.push(*tuple);
        }
    }
    tuples.iter().map(|tuple| tuple.local.ip()).collect()
}

#[test]
fn an_end_point_that_goes_before_it_was_used_is_not_joined_from() {
    let mut s = client();
    add(&mut s, end_point(1, "10.7.0.1"));
    add(&mut s, end_point(2, "10.8.0.1"));
    remove(&mut s, 60, "10.7.0.1");
    s.peer(100, ". ack=1 dack4=0");
    assert_eq!(joins_from(&s), [ip("10.8.0.1")]);
    // A second port of the same address is not another path, and an address of the other family is not used
    // (`fill_local_addresses_vec`).
    add(
        &mut s,
        Candidate { local: "10.1.0.1:81".parse().expect("an address"), ..end_point(0, "10.1.0.1") },
    );
    add(
        &mut s,
        Candidate {
            remote: "[fd00::9]:80".parse().expect("an address"),
            ..end_point(3, "fd00::1")
        },
    );
    s.run_to(at(200));
    // The removed address is not used for later announcements of the peer. The others are.
    s.elsewhere = Some(Vec::new());
    s.peer(200, ". ack=1 dack4=0 add=5,10.2.0.2");
    assert_eq!(joins_from(&s), [ip("10.1.0.1"), ip("10.8.0.1")]);
}

#[test]
fn two_hundred_subflows_follow_one_another_in_a_life() {
    // RFC 8684 limits address identifiers (8 bits), but not the number of subflows over time. Each subflow is
    // reset by its peer before the next one joins from another port. Data is sent over the last one as over
    // the first.
    let mut s = Script::multipath(config(), 50);
    for number in 0..200u64 {
        s.speak_from(1, 20_000 + number as u16);
        s.join(1, 1000 + 200 * number, 50);
        s.peer_on(1, 1100 + 200 * number, "R");
        s.rest();
    }
    s.speak_from(1, 30_000);
    s.join(1, 50_000, 50);
    let ordinals: Vec<u32> =
        s.connection().view().summaries().map(|subflow| subflow.ordinal).collect();
    assert_eq!(ordinals.len(), 202, "each is remembered");
    assert_eq!(ordinals.iter().max(), Some(&201));
    s.peer_on(0, 50_500, "R");
    s.write(51_000, 10_000);
    let said = s.rest();
    assert!(said.iter().any(|(_, path, _)| *path == 1), "data goes over the last: {said:?}");
    // Segments of closed subflows are answered with a RST, even if their slot is used again.
    s.speak_from(1, 20_000);
    s.peer_on(1, 51_001, ". 1:1 ack=1");
    let answers = s.rest();
    assert!(
        answers.iter().any(|(_, path, line)| *path == 1 && line.starts_with('R')),
        "{answers:?}"
    );
}
