//! Addresses that are added and removed between two endpoints: `ADD_ADDR`, `REMOVE_ADDR`, `MP_PRIO`, backup
//! subflows, and a connection without any subflow (RFC 8684 sections 3.3.8 and 3.4).

mod pair;

use anabranch_mptcp::path_manager::Candidate;
use anabranch_mptcp::{Announcement, Config, Event};
use anabranch_units::{Duration, Instant};
use anabranch_wire::{AddAddr, Flags, MpJoin, MptcpOption, Segment};
use pair::{Pair, Way, address, at, candidate, config, film};

fn option<T>(segment: &Segment, which: impl Fn(&MptcpOption) -> Option<T>) -> Option<T> {
    segment.mptcp.iter().find_map(which)
}

fn add_addr(segment: &Segment) -> Option<AddAddr> {
    option(segment, |o| if let MptcpOption::AddAddr(add) = o { Some(*add) } else { None })
}

fn removed(segment: &Segment) -> Option<Vec<u8>> {
    option(segment, |o| {
        if let MptcpOption::RemoveAddr(remove) = o { Some(remove.ids().to_vec()) } else { None }
    })
}

fn prio(segment: &Segment) -> Option<bool> {
    option(segment, |o| if let MptcpOption::Prio { backup } = o { Some(*backup) } else { None })
}

fn join_syn(segment: &Segment) -> Option<(u8, bool)> {
    option(segment, |o| match o {
        MptcpOption::Join(MpJoin::Syn { address_id, backup, .. }) => Some((*address_id, *backup)),
        _ => None,
    })
}

/// Returns the time, direction and path of each segment with an option that `which` finds, and the option.
fn seen<T>(pair: &Pair, which: impl Fn(&Segment) -> Option<T>) -> Vec<(Instant, Way, usize, T)> {
    pair.log.iter().filter_map(|(t, way, path, s)| Some((*t, *way, *path, which(s)?))).collect()
}

fn payload(pair: &Pair, path: usize, from: Instant, to: Instant) -> usize {
    let sent = pair.sent(Way::ToClient, path);
    sent.filter(|(t, ..)| *t >= from && *t < to).map(|(.., s)| s.payload.len()).sum()
}

/// The number of bytes of a transfer that lasts some seconds.
const LONG: usize = 4_000_000;

/// A configuration whose receive buffer limits the rate.
fn slow() -> Config {
    Config { receive_buffer_max: 131_072, ..config() }
}

/// Two paths during a transfer. Path 1 carries data.
fn busy() -> Pair {
    let mut pair = Pair::new(&[50, 80], slow(), config());
    pair.run_until(at(100));
    pair.serve(&film(LONG));
    pair.run_until(at(1000));
    assert!(payload(&pair, 1, at(0), at(1000)) > 0);
    pair
}

/// The client's interface on a path goes down and is removed.
fn remove(pair: &mut Pair, path: usize) {
    pair.filter = Box::new(move |_, _, p, _| p != path);
    let now = pair.now;
    pair.client().handle_address_removed(now, address(2, path, 0).ip());
    pair.settle();
}

#[test]
fn a_removed_address_is_withdrawn_elsewhere_and_its_data_goes_there_at_once() {
    let mut pair = busy();
    let cut = pair.now;
    remove(&mut pair, 1);
    pair.run_until(at(1300));
    let told = seen(&pair, removed);
    assert_eq!(told.len(), 1, "once, and without an echo");
    assert_eq!((told[0].0, told[0].1, told[0].2), (cut, Way::ToServer, 0));
    assert_eq!(told[0].3, [1]);
    let closed = pair.server_events.iter().find(|(_, e)| matches!(e, Event::SubflowClosed(_)));
    assert_eq!(closed.expect("the server closes it").0, at(1025), "half an RTT later");
    assert!(pair.server().view().reinjected_bytes() > 0);
    pair.run_until(at(30_000));
    assert_eq!(payload(&pair, 1, at(1026), at(30_000)), 0);
    assert!(pair.got(&film(LONG)), "read {} bytes", pair.received.len());
}

#[test]
fn the_initial_address_is_withdrawn_as_0_and_returns_under_an_identifier_of_its_own() {
    let mut pair = busy();
    remove(&mut pair, 0);
    pair.run_until(at(2000));
    assert_eq!(seen(&pair, removed)[0].3, [0]);
    pair.filter = Box::new(|_, _, _, _| true);
    let (now, back) = (pair.now, candidate(0));
    pair.client().handle_address_added(now, Candidate { address_id: 7, ..back });
    pair.run_until(at(30_000));
    let joins = seen(&pair, join_syn);
    assert_eq!(joins.last().expect("a join").3, (7, false));
    assert_eq!(joins.last().expect("a join").2, 0);
    let port = pair.log.iter().rev().find(|(_, way, path, _)| (*way, *path) == (Way::ToServer, 0));
    assert_eq!(port.expect("a segment").3.source_port, 40_001, "the old port is spent");
    assert!(payload(&pair, 0, at(2000), at(30_000)) > 100_000, "it carries data again");
    assert!(pair.got(&film(LONG)), "read {} bytes", pair.received.len());
}

#[test]
fn without_any_subflow_a_connection_waits_a_minute_for_another() {
    let mut pair = busy();
    remove(&mut pair, 0);
    pair.filter = Box::new(|_, _, _, _| false);
    let now = pair.now;
    pair.client().handle_address_removed(now, address(2, 1, 0).ip());
    pair.run_until(at(20_000));
    let (before, now) = (pair.received.len(), pair.now);
    assert!(before < LONG && !pair.client().is_closed());
    pair.filter = Box::new(|_, _, _, _| true);
    pair.client().handle_address_added(now, Candidate { address_id: 9, ..candidate(1) });
    pair.run_until(at(60_000));
    assert!(pair.got(&film(LONG)), "read {} bytes", pair.received.len());
    // The timeout does not close a connection that has got a new subflow.
    pair.run_until(at(100_000));
    let closed = pair.client_events.iter().chain(&pair.server_events);
    assert_eq!(closed.filter(|(_, event)| *event == Event::Closed).count(), 0);
}

#[test]
fn after_a_minute_without_a_subflow_the_connection_is_over() {
    let mut pair = busy();
    remove(&mut pair, 0);
    pair.filter = Box::new(|_, _, _, _| false);
    let now = pair.now;
    pair.client().handle_address_removed(now, address(2, 1, 0).ip());
    // A timer of a minute fires up to 2.048 s later, on a multiple of 512 ticks (`calc_wheel_index`).
    pair.run_until(at(60_900));
    assert!(!pair.client().is_closed());
    pair.run_until(at(63_100));
    assert!(pair.client().is_closed());
    let closed = pair.client_events.iter().filter(|(_, e)| *e == Event::Closed).count();
    assert_eq!(closed, 1);
    assert_eq!(pair.client().poll_timeout(), None, "nothing is left to wait for");
}

#[test]
fn an_interface_may_come_and_go_hundreds_of_times() {
    // This is more than twice the number of slots for subflows, on both sides.
    let mut pair = Pair::new(&[50, 80], config(), config());
    pair.run_until(at(100));
    let mut whole = Vec::new();
    for round in 0..300_u64 {
        let now = pair.now;
        pair.client().handle_address_removed(now, address(2, 1, 0).ip());
        pair.run_until(at(200 + round * 600));
        let (now, back) = (pair.now, candidate(1));
        let back = Candidate { address_id: 2 + (round % 200) as u8, ..back };
        pair.client().handle_address_added(now, back);
        pair.run_until(at(400 + round * 600));
        whole.extend(film(40_000));
        pair.serve(&film(40_000));
        pair.run_until(at(700 + round * 600));
    }
    // The last subflow carries data too.
    let (now, last) = (pair.now, film(40_000));
    pair.client().set_backup(now, address(2, 0, 0).ip(), true);
    pair.run_until(now + Duration::from_millis(100));
    pair.serve(&last);
    whole.extend(&last);
    pair.run_until(now + Duration::from_millis(1000));
    assert!(pair.got(&whole), "read {} bytes of {}", pair.received.len(), whole.len());
    assert_eq!(payload(&pair, 1, now, pair.now), 40_000);
    assert_eq!(pair.client().view().samples().count(), 2);
    assert_eq!(pair.server().view().samples().count(), 2);
}

#[test]
fn segments_to_a_removed_address_are_reset() {
    let mut pair = busy();
    // The `REMOVE_ADDR` is lost, but the address still works. RSTs inform the peer.
    pair.filter = Box::new(|_, _, _, segment| removed(segment).is_none());
    let now = pair.now;
    pair.client().handle_address_removed(now, address(2, 1, 0).ip());
    pair.run_until(at(1500));
    let resets = pair.sent(Way::ToServer, 1).filter(|(.., s)| s.flags.contains(Flags::RST));
    assert!(resets.count() >= 1);
    assert!(pair.server_events.iter().any(|(_, e)| matches!(e, Event::SubflowClosed(_))));
    pair.run_until(at(30_000));
    assert!(pair.got(&film(LONG)), "read {} bytes", pair.received.len());
}

/// A client with one address, and a server that announces a second address.
fn announcing() -> Pair {
    let client = Config { candidates: vec![candidate(0)], ..config() };
    let second = Announcement { address_id: 5, address: address(1, 1, 0).ip(), port: None };
    Pair::new(&[50, 80], client, Config { announce: vec![second], ..config() })
}

#[test]
fn an_announced_address_is_echoed_and_joined() {
    let mut pair = announcing();
    pair.run_until(at(100));
    pair.serve(&film(1_000_000));
    pair.run_until(at(1000));
    let adds = seen(&pair, add_addr);
    assert_eq!(adds.len(), 2, "announced and echoed once: {adds:?}");
    assert_eq!((adds[0].1, adds[0].3.address_id, adds[0].3.port), (Way::ToClient, 5, None));
    assert!(adds[0].3.hmac.is_some() && adds[1].3.hmac.is_none());
    assert_eq!((adds[1].1, adds[1].3.address), (Way::ToServer, address(1, 1, 0).ip()));
    for (.., segment) in pair.log.iter().filter(|(.., s)| add_addr(s).is_some()) {
        assert!(segment.payload.is_empty() && segment.dss.is_none(), "alone on its segment");
    }
    assert_eq!(seen(&pair, join_syn).len(), 1);
    assert_eq!(pair.client().view().samples().count(), 2);
    let now = pair.now;
    // The server withdraws the address, and the client's subflow to it ends.
    pair.server().handle_address_removed(now, address(1, 1, 0).ip());
    pair.run_until(at(1500));
    assert_eq!(seen(&pair, removed)[0].3, [5]);
    assert_eq!(pair.client().view().samples().count(), 1);
}

#[test]
fn an_announcement_without_an_echo_is_repeated_three_times() {
    let mut pair = announcing();
    pair.filter = Box::new(|_, _, _, segment| add_addr(segment).is_none());
    pair.run_until(at(100));
    pair.serve(&film(100_000));
    pair.run_until(at(20_000));
    let times: Vec<_> = seen(&pair, add_addr).iter().map(|(t, ..)| t.as_nanos()).collect();
    assert_eq!(times.len(), 4, "{times:?}");
    let gaps: Vec<_> = times.windows(2).map(|w| (w[1] - w[0]) as f64 / 1e6).collect();
    assert!(gaps[0] >= 200.0 && gaps[1] > 1.5 * gaps[0] && gaps[2] > 1.5 * gaps[1], "{gaps:?}");
    assert!(seen(&pair, join_syn).is_empty(), "the client never heard of it");
}

#[test]
fn a_forged_announcement_is_ignored() {
    let mut pair = announcing();
    pair.filter = Box::new(|_, _, _, segment| {
        for option in &mut segment.mptcp {
            if let MptcpOption::AddAddr(AddAddr { hmac: Some(hmac), .. }) = option {
                *hmac ^= 1;
            }
        }
        true
    });
    pair.run_until(at(100));
    pair.serve(&film(10_000));
    pair.run_until(at(2000));
    let adds = seen(&pair, add_addr);
    assert!(!adds.is_empty() && adds.iter().all(|(_, way, ..)| *way == Way::ToClient), "no echo");
    assert!(seen(&pair, join_syn).is_empty());
}

#[test]
fn a_backup_carries_nothing_until_the_regular_subflow_is_gone() {
    let mut reserve = candidate(1);
    reserve.backup = true;
    let client = Config { candidates: vec![candidate(0), reserve], ..slow() };
    let mut pair = Pair::new(&[50, 80], client, config());
    pair.run_until(at(100));
    pair.serve(&film(LONG));
    pair.run_until(at(1000));
    assert_eq!(seen(&pair, join_syn)[0].3, (1, true));
    assert_eq!(payload(&pair, 1, at(0), at(1000)), 0);
    assert_eq!(pair.client().view().samples().count(), 2, "though it is there");
    remove(&mut pair, 0);
    pair.run_until(at(30_000));
    assert!(payload(&pair, 1, at(1000), at(30_000)) > 1_000_000);
    assert!(pair.got(&film(LONG)), "read {} bytes", pair.received.len());
}

#[test]
fn priorities_change_on_the_way() {
    let mut first = candidate(0);
    first.backup = true;
    let client = Config { candidates: vec![first, candidate(1)], ..slow() };
    let mut pair = Pair::new(&[50, 80], client, config());
    pair.run_until(at(100));
    pair.serve(&film(LONG));
    pair.run_until(at(2000));
    let told = seen(&pair, prio);
    assert_eq!(told.len(), 1, "the first subflow can be told in no other way");
    assert_eq!((told[0].1, told[0].2, told[0].3), (Way::ToServer, 0, true));
    assert!(payload(&pair, 0, at(0), at(1000)) > 0, "until the other one is there");
    assert_eq!(payload(&pair, 0, at(1000), at(2000)), 0);
    let now = pair.now;
    pair.client().set_backup(now, address(2, 0, 0).ip(), false);
    pair.client().set_backup(now, address(2, 1, 0).ip(), true);
    pair.run_until(at(2500));
    assert!(payload(&pair, 0, at(2000), at(2500)) > 0, "now it is the other way round");
    pair.run_until(at(3500));
    assert_eq!(payload(&pair, 1, at(2500), at(3500)), 0, "what it held is out");
}
