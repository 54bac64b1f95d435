//! `ADD_ADDR` and `REMOVE_ADDR` (RFC 8684 section 3.4), and the limits for a peer's announcements (RFC 7430
//! section 2). The dialect verifies the HMAC of every `add=…`.

use std::net::{IpAddr, SocketAddr};

use anabranch_mptcp::path_manager::Candidate;
use anabranch_mptcp::{Announcement, Config, Event};
use anabranch_units::SubflowId;

use crate::dialect::{Script, at, config};

/// A client with one address, confirmed at 100 ms.
fn client() -> Script {
    let mut s = Script::multipath_client(config(), 1);
    s.peer(100, ". ack=1 dack4=0");
    s.rest();
    s.elsewhere = Some(Vec::new());
    s
}

fn announcing(what: &[(u8, &str, Option<u16>)]) -> Config {
    let announce = what.iter().map(|(address_id, address, port)| Announcement {
        address_id: *address_id,
        address: address.parse().expect("an address"),
        port: *port,
    });
    Config { announce: announce.collect(), ..config() }
}

fn socket(text: &str) -> SocketAddr {
    text.parse().expect("address and port")
}

#[test]
fn an_announcement_is_echoed_and_joined_at_the_port_it_came_from() {
    let mut s = client();
    s.peer(200, ". ack=1 dack4=0 add=5,10.2.0.2");
    let echo = s.us(200, ". 1:1 ack=1 echo=5,10.2.0.2");
    // The echo has no HMAC and is the only option on its acknowledgement.
    assert!(echo.dss.is_none() && echo.payload.is_empty() && echo.mptcp.len() == 1);
    assert_eq!(s.joins_elsewhere(), [socket("10.2.0.2:40000")]);
}

#[test]
fn an_announced_port_is_joined() {
    let mut s = client();
    s.peer(200, ". ack=1 dack4=0 add=5,10.2.0.2,81");
    s.us(200, ". echo=5,10.2.0.2,81");
    assert_eq!(s.joins_elsewhere(), [socket("10.2.0.2:81")]);
    // The same identifier with another port is also tried (RFC 8684 section 3.4.1).
    s.peer(300, ". ack=1 dack4=0 add=5,10.2.0.2,82");
    s.us(300, ". echo=5,10.2.0.2,82");
    assert_eq!(s.joins_elsewhere()[1..], [socket("10.2.0.2:82")]);
}

#[test]
fn a_forged_announcement_draws_nothing() {
    let mut s = client();
    for ms in 200..300 {
        s.peer(ms, ". ack=1 dack4=0 add=5,10.2.0.2 forged");
    }
    s.silence(5000);
    assert_eq!(s.joins_elsewhere(), []);
    assert_eq!(s.connection().view().counters().forged_announcements, 100);
}

#[test]
fn a_replayed_announcement_is_echoed_and_joined_once() {
    let mut s = client();
    for ms in 200..300 {
        s.peer(ms, ". ack=1 dack4=0 add=5,10.2.0.2");
        s.us(ms, ". echo=5,10.2.0.2");
    }
    assert_eq!(s.joins_elsewhere().len(), 1);
}

#[test]
fn unusable_announced_address_is_not_joined() {
    let ours = ["10.1.0.1"];
    let others = ["127.0.0.1", "127.9.9.9", "0.0.0.0", "224.0.0.1", "255.255.255.255"];
    let wide = ["::1", "::", "ff02::1", "::ffff:127.0.0.1"];
    for address in ours.iter().chain(&others).chain(&wide) {
        let mut s = client();
        s.peer(200, &format!(". ack=1 dack4=0 add=5,{address}"));
        s.rest();
        s.run_to(at(5000));
        assert_eq!(s.joins_elsewhere(), [], "{address}");
        assert_eq!(s.connection().view().counters().refused_announcements, 1, "{address}");
    }
    let mut s = client();
    s.peer(200, ". ack=1 dack4=0 add=5,10.2.0.2,0");
    assert_eq!(s.joins_elsewhere(), [], "nor port 0");
}

#[test]
fn a_storm_of_announcements_joins_few_and_spaces_them() {
    // The peer announces a thousand addresses and withdraws each at once.
    let mut s = client();
    for n in 0..1000u64 {
        let address = format!("10.9.{}.{}", n / 250, n % 250 + 1);
        s.peer(200 + n, &format!(". ack=1 dack4=0 add={},{address}", n % 250 + 1));
        s.peer(200 + n, &format!(". ack=1 dack4=0 remove={}", n % 250 + 1));
        s.rest();
    }
    assert_eq!(s.joins_elsewhere().len(), 8);
    assert_eq!(s.connection().view().counters().refused_announcements, 992);
    // After half a minute, one more join is permitted.
    s.run_to(at(31_500));
    for n in 0..10 {
        s.peer(31_500, &format!(". ack=1 dack4=0 add={},10.8.0.{}", n + 1, n + 1));
        s.rest();
    }
    assert_eq!(s.joins_elsewhere().len(), 9);
}

#[test]
fn an_address_that_comes_and_goes_is_tried_ever_more_seldom() {
    let mut s = client();
    let mut tried = Vec::new();
    for second in 1..200u64 {
        let before = s.joins_elsewhere().len();
        s.peer(second * 1000, ". ack=1 dack4=0 add=5,10.2.0.2");
        s.peer(second * 1000, ". ack=1 dack4=0 remove=5");
        s.rest();
        if s.joins_elsewhere().len() > before {
            tried.push(second);
        }
    }
    // The waits are 10, 20, 40 and 80 s.
    assert_eq!(tried, [1, 11, 31, 71, 151]);
}

#[test]
fn an_identifier_keeps_its_address() {
    let mut s = client();
    s.peer(200, ". ack=1 dack4=0 add=5,10.2.0.2");
    s.us(200, ". echo=5,10.2.0.2");
    s.peer(300, ". ack=1 dack4=0 add=5,10.3.0.2");
    // Identifier 0, that of the initial subflow, cannot get another address either.
    s.peer(310, ". ack=1 dack4=0 add=0,10.3.0.2");
    s.silence(5000);
    assert_eq!(s.joins_elsewhere(), [socket("10.2.0.2:40000")]);
    // After it was withdrawn, the identifier may get another address.
    s.peer(20_000, ". ack=1 dack4=0 remove=5");
    s.peer(20_000, ". ack=1 dack4=0 add=5,10.3.0.2");
    s.us(20_000, ". echo=5,10.3.0.2");
    assert_eq!(s.joins_elsewhere().len(), 2);
}

#[test]
fn more_than_eight_addresses_at_one_time_are_not_remembered() {
    let mut s = client();
    for n in 1..=9 {
        s.run_to(at(n * 60_000));
        s.peer(n * 60_000, &format!(". ack=1 dack4=0 add={n},10.4.0.{n}"));
        s.rest();
    }
    assert_eq!(s.joins_elsewhere().len(), 8);
}

#[test]
fn an_announcement_is_repeated_until_its_echo_and_another_waits_for_it() {
    let mut s =
        Script::multipath(announcing(&[(5, "10.2.0.1", None), (6, "10.3.0.1", Some(81))]), 50);
    s.us(50, ". 1:1 ack=1 add=5,10.2.0.1");
    // `mptcp_adjust_add_addr_timeout`: the largest RTO, 250 ms after one sample of 50 ms. The wait doubles
    // with each repetition.
    s.us(300, ". add=5,10.2.0.1");
    // Echoes of addresses that were not announced have no effect: another identifier, address or port.
    for echo in ["echo=6,10.2.0.1", "echo=5,10.9.0.1", "echo=5,10.2.0.1,81", "echo=6,10.3.0.1,81"] {
        s.peer(310, &format!(". ack=1 dack4=0 {echo}"));
    }
    s.us(800, ". add=5,10.2.0.1");
    s.peer(850, ". ack=1 dack4=0 echo=5,10.2.0.1");
    s.us(850, ". add=6,10.3.0.1,81");
    s.peer(900, ". ack=1 dack4=0 echo=6,10.3.0.1,81");
    s.silence(300_000);
}

#[test]
fn an_address_is_withdrawn_under_its_identifier() {
    let mut s = Script::multipath(announcing(&[(5, "10.2.0.1", None)]), 50);
    s.us(50, ". add=5,10.2.0.1");
    s.peer(100, ". ack=1 dack4=0 echo=5,10.2.0.1");
    s.run_to(at(200));
    let now = s.now;
    s.connection().handle_address_removed(now, IpAddr::from([10, 2, 0, 1]));
    s.us(200, ". dack4=0 remove=5");
    s.silence(5000);
}

#[test]
fn a_removal_ends_the_subflows_of_its_address() {
    let mut s = Script::multipath(config(), 50);
    s.join(1, 200, 100);
    s.peer(300, ". ack=1 dack4=0 remove=1");
    assert!(
        s.has(Event::SubflowClosed(SubflowId(1))) && !s.has(Event::SubflowClosed(SubflowId(0)))
    );
    s.us_on(1, 300, "R. 1:1 ack=1");
    // An unknown identifier is ignored (RFC 8684 section 3.8).
    s.peer(400, ". ack=1 dack4=0 remove=1,2,77");
    s.silence(5000);
    assert!(!s.connection().is_closed());
}

#[test]
fn a_removal_never_ends_the_last_working_subflow() {
    for (path, ids, left) in
        [(0, "0", 1), (1, "0", 1), (0, "0,1", 0), (1, "1,0", 1), (1, "0,1,0", 1)]
    {
        let mut s = Script::multipath(config(), 50);
        s.join(1, 200, 100);
        s.peer_on(path, 300, &format!(". ack=1 dack4=0 remove={ids}"));
        s.rest();
        assert_eq!(s.connection().view().samples().count(), 1, "{ids}");
        assert!(s.has(Event::SubflowClosed(SubflowId(1 - left as u8))), "{ids}");
        s.peer_on(left, 400, &format!(". ack=1 dack4=0 remove={left}"));
        s.write(500, 100);
        s.us_on(left, 500, ". 1:101");
        assert!(s.connection().view().counters().refused_removals > 0);
    }
}

/// A second interface of the client, for the initial remote address or another one.
fn second(remote: &str) -> Candidate {
    let local = socket("10.7.0.1:80");
    Candidate { address_id: 3, local, remote: socket(remote), backup: false, rate: None }
}

#[test]
fn the_initial_address_of_a_peer_that_denies_it_is_not_joined() {
    for (option, denied) in [("mpc-key C", true), ("mpc-key", false)] {
        let mut s = Script::client(config(), 1);
        s.us(0, "S mpc");
        s.peer(50, &format!("S. {option}"));
        s.us(50, ". mpc-keys");
        s.peer(100, ". ack=1 dack4=0");
        s.elsewhere = Some(Vec::new());
        let now = s.now;
        s.connection().handle_address_added(now, second("10.1.0.2:40000"));
        s.run_to(at(200));
        assert_eq!(s.joins_elsewhere().is_empty(), denied, "{option}");
        // An explicit announcement of the address is refused too. Another port or address is permitted.
        s.peer(300, ". ack=1 dack4=0 add=4,10.1.0.2,81");
        s.run_to(at(400));
        assert!(s.joins_elsewhere().contains(&socket("10.1.0.2:81")), "{option}");
    }
}

#[test]
fn host_refuses_joins_to_its_initial_address_if_configured() {
    let deny = Config { deny_join_initial_address: true, ..config() };
    let mut s = Script::server(deny.clone());
    s.peer(0, "S mpc");
    s.us(0, "S. mpc-key C");
    s.peer(50, ". mpc-keys");
    s.join(1, 200, 100);
    assert!(s.has(Event::SubflowEstablished(SubflowId(1))), "another address is open");
    s.speak_from(0, 50_000);
    s.peer(300, "S join");
    s.us(300, "R. ack=1 rst=3");

    let mut s = Script::client(deny, 1);
    s.us(0, "S mpc C");
    s.peer(50, "S. mpc-key");
    s.us(50, ". mpc-keys C");
}
