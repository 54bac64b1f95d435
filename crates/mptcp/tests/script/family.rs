//! IPv6, alone and together with IPv4: segment sizes, and the addresses that are joined.

use std::net::IpAddr;

use anabranch_mptcp::path_manager::Candidate;
use anabranch_mptcp::{Announcement, Config, FourTuple};
use anabranch_plugin::PluginChoice;

use crate::dialect::{Script, config, tcp};

/// A client with an IPv4 and an IPv6 path, both established. Joins to other addresses are recorded.
fn mixed() -> Script {
    let mut s = Script::client_over(config(), &[false, true]);
    s.us(0, "S mpc");
    s.peer(50, "S. mpc-key");
    s.us(50, ". mpc-keys");
    s.peer(100, ". ack=1 dack4=0");
    let syn = s.us_on(1, 100, "S join");
    assert_eq!(syn.mss, Some(1440));
    s.peer_on(1, 150, "S. join-hmac");
    s.us_on(1, 150, ". join-ack");
    s.peer_on(1, 200, ". ack=1 dack4=0");
    s.rest();
    s.elsewhere = Some(Vec::new());
    s
}

/// Returns the four-tuples outside the script's paths that were tried.
fn tried(s: &Script) -> Vec<FourTuple> {
    let mut all: Vec<_> = s.elsewhere.iter().flatten().map(|(_, tuple, _)| *tuple).collect();
    all.dedup();
    all
}

#[test]
fn a_segment_leaves_room_for_the_longer_header() {
    let mut s = Script::server(tcp());
    s.make_v6(0);
    s.peer(0, "S");
    let answer = s.us(0, "S. 0:0 ack=1");
    // tcp_select_initial_window: 65,535 bytes hold 45 whole segments of 1440 bytes; over IPv4, 44 of
    // 1460.
    assert_eq!((answer.mss, answer.window), (Some(1440), 64_800));
    s.peer(50, ".");
    s.write(60, 5000);
    // ip6_default_advmss: 1500 - 40 - 20, minus 12 bytes of timestamps. The dialect checks the limit of 1500.
    s.us(60, ". 1:1429 ack=1");
    s.us(60, ". 1429:2857 ack=1");
}

#[test]
fn one_connection_has_segments_of_both_sizes() {
    let scheduler = PluginChoice::named("round-robin");
    let mut s = Script::multipath(Config { scheduler, ..config() }, 50);
    s.peer(60, ". 1:101 ack=1 dack4=0 map=0+100@1");
    s.rest();
    s.make_v6(1);
    s.peer_on(1, 70, "S join");
    let answer = s.us_on(1, 70, "S. join-hmac");
    assert_eq!(answer.mss, Some(1440));
    s.peer_on(1, 120, ". join-ack");
    s.us_on(1, 120, ". ack=1");
    s.write(200, 90_000);
    let said = s.rest();
    let longest = |path: usize| {
        let range = |text: &String| {
            let (from, to) = text.split_whitespace().find_map(|word| word.split_once(':'))?;
            Some(to.parse::<u32>().ok()? - from.parse::<u32>().ok()?)
        };
        said.iter().filter(|said| said.1 == path).filter_map(|said| range(&said.2)).max()
    };
    // 12 bytes of timestamps and 28 of a DSS with a DATA_ACK of 8 bytes: 1460 - 40 and 1440 - 40.
    assert_eq!((longest(0), longest(1)), (Some(1420), Some(1400)));
}

#[test]
fn an_announced_address_is_joined_from_those_of_its_family_alone() {
    let mut s = mixed();
    s.peer(300, ". ack=1 dack4=0 add=5,fd00:0:0:9::2");
    s.us(300, ". echo=5,fd00:0:0:9::2");
    let joined = tried(&s);
    assert_eq!(joined.len(), 1, "{joined:?}");
    assert_eq!(joined[0].remote, "[fd00:0:0:9::2]:40000".parse().unwrap());
    assert_eq!(joined[0].local.ip(), "fd00:0:0:2::1".parse::<IpAddr>().unwrap());
    s.peer(400, ". ack=1 dack4=0 add=6,10.9.0.2");
    s.us(400, ". echo=6,10.9.0.2");
    let joined = tried(&s);
    assert_eq!(joined.len(), 2, "{joined:?}");
    assert_eq!(joined[1].remote, "10.9.0.2:40000".parse().unwrap());
    assert_eq!(joined[1].local.ip(), "10.1.0.1".parse::<IpAddr>().unwrap());
}

#[test]
fn address_of_an_unavailable_family_is_echoed_but_not_joined() {
    let mut s = Script::multipath_client(config(), 1);
    s.peer(100, ". ack=1 dack4=0");
    s.rest();
    s.elsewhere = Some(Vec::new());
    s.peer(200, ". ack=1 dack4=0 add=5,2001:db8::5");
    s.us(200, ". echo=5,2001:db8::5");
    assert_eq!(tried(&s), []);
    // An IPv6 address with a wrong HMAC is not echoed.
    s.peer(300, ". ack=1 dack4=0 add=6,2001:db8::6 forged");
    s.silence(400);
}

#[test]
fn addresses_of_two_families_are_no_pair() {
    let mut s = mixed();
    let now = s.now;
    let local = "10.9.0.1:80".parse().unwrap();
    for remote in ["[fd00:0:0:9::2]:40000", "10.9.0.2:40000"] {
        let remote = remote.parse().unwrap();
        let candidate = Candidate { address_id: 7, local, remote, backup: false, rate: None };
        s.connection().handle_address_added(now, candidate);
    }
    s.run_to(crate::dialect::at(2000));
    let joined = tried(&s);
    assert!(!joined.is_empty() && joined.iter().all(|tuple| tuple.remote.is_ipv4()), "{joined:?}");
}

#[test]
fn an_announced_ipv6_address_fits_beside_timestamps_without_a_port() {
    let announce = [None, Some(81)].map(|port| Announcement {
        address_id: if port.is_some() { 6 } else { 5 },
        address: if port.is_some() { "2001:db8::6" } else { "2001:db8::5" }.parse().unwrap(),
        port,
    });
    let mut s = Script::multipath(Config { announce: announce.to_vec(), ..config() }, 50);
    // Kind, length, subtype and identifier, 16 bytes of address and 8 of HMAC: 28. With 12 bytes of
    // timestamps, all 40 are used.
    let add = s.us(50, ". add=5,2001:db8::5");
    assert!(add.timestamps.is_some() && add.dss.is_none());
    assert_eq!(add.options_len(), 40);
    s.peer(60, ". ack=1 dack4=0 echo=5,2001:db8::5");
    let add = s.us(60, ". add=6,2001:db8::6,81");
    assert!(add.timestamps.is_none() && add.options_len() == 32);
    // Without an echo, the option is repeated after the RTO of a 50 ms sample.
    s.us(310, ". add=6,2001:db8::6,81");
}

#[test]
fn an_ipv6_address_that_is_gone_is_named_by_its_identifier_to_the_other_family() {
    let mut s = mixed();
    let now = s.now;
    s.connection().handle_address_removed(now, "fd00:0:0:2::1".parse().unwrap());
    let told = s.us(200, ". remove=1");
    assert_eq!(told.options_len(), 12 + 8 + 4);
}
