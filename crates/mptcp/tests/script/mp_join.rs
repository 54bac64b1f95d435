//! `MP_JOIN` (RFC 8684 section 3.2). The dialect verifies token and HMACs of every `join…`.

use anabranch_mptcp::Event;
use anabranch_units::SubflowId;

use crate::dialect::{Script, config, film};

#[test]
fn the_server_answers_a_join_and_acknowledges_its_third_packet_at_once() {
    let mut s = Script::multipath(config(), 50);
    s.peer_on(1, 100, "S join");
    s.us_on(1, 100, "S. 0:0 ack=1 join-hmac");
    assert!(!s.has(Event::SubflowEstablished(SubflowId(1))));
    s.peer_on(1, 180, ". join-ack");
    s.us_on(1, 180, ". 1:1 ack=1 dack4=0");
    assert!(s.has(Event::SubflowEstablished(SubflowId(1))));
    s.silence(3000);
}

#[test]
fn the_answer_to_a_join_has_the_options_of_any_syn() {
    // RFC 8684 section 3.2: a join is a TCP handshake with one more option.
    let mut s = Script::server(config());
    s.peer(0, "S mpc");
    let first = s.us(0, "S. mpc-key");
    s.peer(50, ". mpc-keys");
    s.peer_on(1, 100, "S join");
    let joined = s.us_on(1, 100, "S. join-hmac");
    assert!(first.mss.is_some() && first.window_scale.is_some() && first.sack_permitted);
    assert_eq!((joined.mss, joined.window_scale), (first.mss, first.window_scale));
    assert_eq!((joined.sack_permitted, joined.window), (first.sack_permitted, first.window));
    assert!(joined.timestamps.is_some());
}

#[test]
fn a_third_packet_for_a_connection_that_is_over_is_refused() {
    let mut s = Script::multipath(config(), 50);
    s.peer_on(1, 100, "S join");
    s.us_on(1, 100, "S. join-hmac");
    s.shutdown(105);
    s.us(105, ". dfin");
    s.peer(110, "R 1:1");
    assert!(s.connection().is_closed());
    s.peer_on(1, 150, ". 1:1 ack=1 join-ack");
    s.us_on(1, 150, "R. 1:1 rst=1");
    assert!(s.connection().is_closed() && !s.has(Event::SubflowEstablished(SubflowId(1))));
}

#[test]
fn a_place_is_given_away_in_turn() {
    // A connection has 128 slots. The slot that was assigned longest ago is reused next. A slot therefore stays
    // unused for as long as possible, so that late segments of its closed subflow do not reach another one.
    let mut s = Script::multipath(config(), 50);
    for n in 0..130_u16 {
        s.speak_from(1, 10_000 + n);
        s.join(1, 200 + 100 * u64::from(n), 50);
        s.peer_on(1, 250 + 100 * u64::from(n), "R 1:1");
    }
    let opened = s.events.iter().filter_map(|(_, event)| match event {
        Event::SubflowEstablished(id) => Some(id.index()),
        _ => None,
    });
    let opened: Vec<_> = opened.filter(|id| *id > 0).collect();
    let expected: Vec<_> = (1..128).chain(1..4).collect();
    assert_eq!(opened, expected);
}

#[test]
fn the_client_joins_once_a_data_ack_has_come_and_sends_once_the_fourth_packet_has() {
    let mut s = Script::multipath_client(config(), 2);
    s.silence(300);
    s.peer(300, ". ack=1 dack4=0");
    s.us_on(1, 300, "S 0:0 join");
    s.peer_on(1, 400, "S. join-hmac");
    s.us_on(1, 400, ". 1:1 ack=1 join-ack");
    // The join is not usable yet. Written data is sent on the first subflow, ten segments of its window.
    s.write(410, 14_240);
    let said = s.rest();
    assert!(said.len() == 10 && said.iter().all(|(_, path, _)| *path == 0), "{said:?}");
    s.peer_on(1, 500, ". ack=1 dack8=0");
    assert!(s.has(Event::SubflowEstablished(SubflowId(1))));
    // The first subflow's window is full, and its queue is longer.
    s.write(501, 1000);
    s.us_on(1, 501, ". 1:1001 map=14240+1000@1");
}

#[test]
fn the_third_packet_is_repeated_every_two_round_trips() {
    let mut s = Script::multipath_client(config(), 2);
    s.peer(100, ". ack=1 dack4=0");
    s.us_on(1, 100, "S join");
    s.peer_on(1, 200, "S. join-hmac");
    for ms in [200, 400, 600] {
        s.us_on(1, ms, ". ack=1 join-ack");
    }
    s.peer_on(1, 700, ". ack=1 dack4=0");
    s.silence(3000);
}

#[test]
fn an_unknown_token_is_refused_with_a_reason() {
    let mut s = Script::multipath(config(), 50);
    s.peer_on(1, 100, "S join forged");
    s.us_on(1, 100, "R. 0:0 ack=1 rst=1");
    s.silence(2000);
}

#[test]
fn a_forged_third_packet_is_refused_with_a_reason() {
    for third in [". join-ack forged", ". ack=1", ". 1:11 ack=1 dack4=0 map=0+10@1"] {
        let mut s = Script::multipath(config(), 50);
        s.peer_on(1, 100, "S join");
        s.us_on(1, 100, "S. join-hmac");
        s.peer_on(1, 200, third);
        s.us_on(1, 200, "R. 1:1 rst=1");
        assert!(s.received.is_empty());
        s.write(300, 100);
        s.us(300, ". 1:101 map=0+100@1");
    }
}

#[test]
fn no_data_is_sent_on_a_join_before_its_third_packet() {
    let mut s = Script::multipath(config(), 50);
    s.peer_on(1, 60, "S join");
    s.us_on(1, 60, "S. join-hmac");
    s.write(70, 14_240);
    let said = s.rest();
    assert!(said.len() == 10 && said.iter().all(|(_, path, _)| *path == 0), "{said:?}");
    s.peer_on(1, 160, ". join-ack");
    s.us_on(1, 160, ". dack4=0");
}

#[test]
fn data_of_two_subflows_is_one_stream() {
    let mut s = Script::multipath(config(), 50);
    s.join(1, 200, 100);
    s.peer_on(1, 300, ". 1:101 ack=1 dack4=0 map=100+100@1");
    s.us_on(1, 300, ". ack=101 dack8=0");
    assert!(s.received.is_empty());
    s.peer(320, ". 1:101 ack=1 dack4=0 map=0+100@1");
    assert_eq!(s.received, film(0, 200));
    s.us(320, ". ack=101 dack8=200");
}

#[test]
fn a_join_that_completes_after_the_first_subflow_was_reset_is_used() {
    let mut s = Script::multipath(config(), 50);
    s.write(60, 100);
    s.us(60, ". 1:101 map=0+100@1");
    s.peer(110, ". ack=101 dack8=100");
    s.peer_on(1, 200, "S join");
    s.us_on(1, 200, "S. join-hmac");
    s.peer(300, "R. 1:1");
    assert!(s.has(Event::SubflowClosed(SubflowId(0))));
    s.peer_on(1, 400, ". join-ack");
    s.us_on(1, 400, ".");
    s.write(500, 100);
    s.us_on(1, 500, ". 1:101 map=100+100@1");
}

#[test]
fn a_third_packet_that_comes_again_is_acknowledged_again() {
    // The fourth packet was lost, and the initiator may not send data without it.
    let mut s = Script::multipath(config(), 50);
    s.join(1, 200, 100);
    s.peer_on(1, 400, ". 1:1 ack=1 join-ack");
    s.us_on(1, 400, ". ack=1 dack4=0");
}

#[test]
fn a_forged_answer_is_refused_in_terms_the_peer_accepts() {
    for answer in ["S. join-hmac forged", "S.", "S. mpc-key"] {
        let mut s = Script::multipath_client(config(), 2);
        s.peer(100, ". ack=1 dack4=0");
        s.us_on(1, 100, "S join");
        s.peer_on(1, 200, answer);
        // A Linux server that waits for the third packet drops a RST with another acknowledgement number.
        s.us_on(1, 200, "R. 1:1 ack=1 rst=1");
        s.write(210, 100);
        s.us(210, ". 1:101");
    }
}

#[test]
fn a_syn_that_comes_again_gets_the_same_answer_and_none_comes_unasked() {
    let mut s = Script::multipath(config(), 50);
    s.peer_on(1, 100, "S join");
    let first = s.us_on(1, 100, "S. 0:0 ack=1 join-hmac");
    // RFC 7430 section 4: a SYN with a forged source address causes only one packet to that address.
    s.silence(1099);
    s.peer_on(1, 1100, "S join");
    let second = s.us_on(1, 1100, "S. 0:0 ack=1 join-hmac");
    assert_eq!((first.seq, &first.mptcp), (second.seq, &second.mptcp));
    s.silence(90_000);
    s.peer_on(1, 90_000, ". 1:1 ack=1 join-ack");
    s.us_on(1, 90_000, ". ack=1 dack4=0");
}

#[test]
fn join_over_the_subflow_limit_is_reset_as_prohibited() {
    // Eight subflows in addition to the first (`MPTCP_PM_ADDR_MAX`); reason 3 (RFC 8684 section 3.6).
    let mut s = Script::multipath(config(), 50);
    for port in 0..7u16 {
        s.speak_from(1, 50_000 + port);
        s.join(1, 200 + 50 * u64::from(port), 50);
    }
    // Two joins compete for the last slot. The second third packet is refused.
    s.peer_on(2, 600, "S join");
    s.us_on(2, 600, "S. join-hmac");
    s.peer_on(3, 600, "S join");
    s.us_on(3, 600, "S. join-hmac");
    s.peer_on(2, 650, ". 1:1 ack=1 join-ack");
    s.us_on(2, 650, ". ack=1 dack4=0");
    s.peer_on(3, 650, ". 1:1 ack=1 join-ack");
    s.us_on(3, 650, "R. 1:1 ack=1 rst=3");
    s.speak_from(1, 50_008);
    s.peer_on(1, 700, "S join");
    s.us_on(1, 700, "R. ack=1 rst=3");
    // A slot that becomes free is used again.
    s.peer_on(2, 710, "R 1:1");
    s.join(1, 800, 50);
}
