//! Ends of connections between two endpoints that the random tests of crate drill found.

mod pair;

use anabranch_mptcp::{Config, Event};
use pair::{Pair, Way, at, config, film};

fn closed(events: &[(anabranch_units::Instant, Event)]) -> bool {
    events.iter().any(|(_, event)| *event == Event::Closed)
}

#[test]
fn a_connection_that_closes_at_once_closes() {
    let mut pair = Pair::new(&[50], config(), config());
    let now = pair.now;
    pair.client().shutdown(now);
    pair.run_until(at(1_000));
    // The DATA_FIN's DSS replaces the MP_CAPABLE of the third packet (`snd_data_fin_enable` in
    // `mptcp_established_options_mp`).
    assert!(pair.server_events.iter().any(|(_, event)| *event == Event::PeerFinished));
    let now = pair.now;
    pair.server().shutdown(now);
    pair.run_until(at(2_000));
    assert!(closed(&pair.client_events) && closed(&pair.server_events), "{:?}", pair.log);
    assert!(pair.client().is_multipath() && pair.server().is_multipath());
}

#[test]
fn ends_that_wait_for_data_on_both_sides_do_not_answer_each_other_without_end() {
    let mut pair = Pair::new(&[50], config(), config());
    pair.run_until(at(200));
    pair.filter = Box::new(|_, _, _, segment| segment.payload.is_empty());
    let now = pair.now;
    pair.client().write(now, film(1_000).into()).expect("room");
    pair.client().shutdown(now);
    pair.serve(&film(1_000));
    pair.end();
    pair.run_until(at(1_200));
    // All packets are lost for a second. Each side repeats its data and its DATA_FIN at doubling intervals
    // from 200 ms on. With probes and acknowledgements, each side sends fewer than 20 segments.
    for way in [Way::ToClient, Way::ToServer] {
        let sent = pair.sent(way, 0).filter(|(when, ..)| *when >= at(200)).count();
        assert!((4..20).contains(&sent), "{way:?}: {sent} segments");
    }
    pair.filter = Box::new(|_, _, _, _| true);
    pair.run_until(at(20_000));
    assert!(closed(&pair.client_events) && closed(&pair.server_events));
    assert!(pair.got(&film(1_000)));
}

#[test]
fn data_that_comes_again_after_the_end_is_acknowledged() {
    let plain = Config { multipath: false, ..config() };
    let mut pair = Pair::new(&[50], plain.clone(), plain);
    pair.run_until(at(200));
    let now = pair.now;
    pair.client().shutdown(now);
    pair.run_until(at(300));
    // The client's acknowledgements of the last data and the FIN are lost, including those of FIN probes.
    pair.filter = Box::new(|_, way, _, _| way == Way::ToClient);
    pair.serve(&film(1_000));
    pair.end();
    pair.run_until(at(1_500));
    assert!(closed(&pair.client_events) && !closed(&pair.server_events));
    pair.filter = Box::new(|_, _, _, _| true);
    pair.run_until(at(10_000));
    // RFC 9293 section 3.10.7.4: in TIME-WAIT, an unacceptable segment is answered with an ACK too.
    assert!(closed(&pair.server_events), "{:?}", pair.log.last());
    assert!(pair.got(&film(1_000)));
}
