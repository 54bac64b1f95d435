//! Ends of connections between two endpoints that the drill found.

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
    // The third packet's MP_CAPABLE gives way to the DSS that ends the data
    // (`snd_data_fin_enable` in `mptcp_established_options_mp`).
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
    // A second of lost data: each side repeats its data and its DATA_FIN at doubling intervals from
    // 200 ms on, which is 2 of each, with probes and acknowledgements not 20.
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
    // RFC 9293 section 3.10.7.4: in TIME-WAIT, too, what is not acceptable is answered by an ACK.
    assert!(closed(&pair.server_events), "{:?}", pair.log.last());
    assert!(pair.got(&film(1_000)));
}
