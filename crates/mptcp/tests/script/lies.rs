//! Peers with false data sequence signals: data is not reordered or lost, and memory stays limited.

use anabranch_mptcp::Event;

use crate::dialect::{Script, config, film};

#[test]
fn data_ack_of_unsent_data_is_refused() {
    // The peer's window delays most of the data, so the acknowledged data was not sent yet.
    let mut s = Script::server(config());
    s.peer(0, "S mpc");
    s.us(0, "S. mpc-key");
    s.peer(50, ". mpc-keys win=8");
    s.write(100, 60_000);
    s.rest();
    let sent = s.sent_on(0);
    assert!(sent < 20_000, "{sent}");
    let cwnd = s.cwnd();
    s.peer(150, &format!(". ack=1 dack8={} win=500", sent + 1));
    s.peer(151, ". ack=1 dack8=30000 win=500");
    assert!(s.rest().is_empty(), "its window counts from what it may acknowledge");
    assert_eq!(s.cwnd(), cwnd);
    assert_eq!(s.connection().view().counters().refused_data_acks, 2);
    // A valid DATA_ACK permits the next byte, and no byte is skipped.
    s.peer(160, &format!(". ack={} dack8={sent} win=500", sent + 1));
    let next = s.rest().remove(0).2;
    assert!(next.contains(&format!("map={sent}+")), "{next}");
    assert_eq!(s.connection().view().counters().refused_data_acks, 2, "that was true");
}

#[test]
fn the_end_cannot_be_acknowledged_before_it_is_sent() {
    let mut s = Script::server(config());
    s.peer(0, "S mpc");
    s.us(0, "S. mpc-key");
    s.peer(50, ". mpc-keys win=8");
    s.write(100, 60_000);
    s.shutdown(100);
    s.rest();
    let sent = s.sent_on(0);
    s.peer(150, &format!(". ack={} dack8={}", sent + 1, sent + 1));
    s.peer(160, &format!(". ack={} dack8={sent} win=500", sent + 1));
    let next = s.rest().remove(0).2;
    assert!(next.contains(&format!("map={sent}+")), "the byte behind was not acknowledged: {next}");
    assert_eq!(s.connection().view().counters().refused_data_acks, 1);
}

#[test]
fn far_mappings_are_not_remembered() {
    // In-order data is delivered despite mappings 2^31 ahead, one with each segment.
    let mut s = Script::multipath(config(), 50);
    s.join(1, 200, 100);
    s.peer(300, ". 1:101 ack=1 dack4=0 map=0+100@1");
    for n in 0..200u64 {
        let (from, at) = (101 + 100 * n, 300 + n);
        s.peer(at, &format!(". {from}:{} ack=1 dack4=0 map={}+100@{from}", from + 100, from - 1));
    }
    assert_eq!(s.received, film(0, 20_100));
}

#[test]
fn a_mapping_beyond_the_window_is_acknowledged_on_the_subflow_only() {
    let mut s = Script::multipath(config(), 50);
    s.join(1, 200, 100);
    s.peer(300, ". 1:101 ack=1 dack4=0 map=70000000+100@1");
    s.us(300, ". ack=101 dack8=0");
    s.peer(310, ". 101:201 ack=1 dack4=0 map=0+100@101");
    s.us(310, ". ack=201 dack8=100");
    assert_eq!(s.received, film(0, 100));
}

#[test]
fn the_longest_mapping_is_taken_and_none_is_needed_for_nothing() {
    let mut s = Script::multipath(config(), 50);
    s.join(1, 200, 100);
    s.peer(300, ". 1:1001 ack=1 dack4=0 map=0+65535@1");
    s.peer(301, ". 1001:2001 ack=1");
    s.peer(302, ". ack=1 dack4=0 map=2000+0@2001");
    assert_eq!(s.received, film(0, 2000));
    assert!(!s.has(Event::FellBack));
    assert!(s.rest().iter().all(|(_, _, line)| !line.starts_with('R')));
}

#[test]
fn data_behind_the_end_is_not_part_of_the_stream() {
    let mut s = Script::multipath(config(), 50);
    s.peer(100, ". 1:101 ack=1 dack4=0 map=0+101@1 dfin");
    assert!(s.has(Event::PeerFinished));
    s.rest();
    s.peer(110, ". 101:201 ack=1 dack4=0 map=100+100@101");
    s.peer(120, ". 201:301 ack=1 dack4=0 map=101+100@201");
    assert_eq!(s.received, film(0, 100), "the application was told that it had ended");
    let said = s.rest();
    assert!(said.iter().all(|(_, _, line)| line.contains("dack8=101")), "{said:?}");
}

#[test]
fn an_end_in_the_middle_of_data_cuts_it_there() {
    // The DATA_FIN arrived first, on another path.
    let mut s = Script::multipath(config(), 50);
    s.join(1, 200, 100);
    s.peer_on(1, 300, ". ack=1 dack4=0 map=50+1@0 dfin");
    s.rest();
    s.peer(310, ". 1:101 ack=1 dack4=0 map=0+100@1");
    assert_eq!(s.received, film(0, 50));
    assert!(s.has(Event::PeerFinished));
    s.us(310, ". ack=101 dack8=51");
}

#[test]
fn an_end_that_lies_in_the_past_is_not_the_end() {
    let mut s = Script::multipath(config(), 50);
    s.peer(100, ". 1:101 ack=1 dack4=0 map=0+100@1");
    s.peer(110, ". ack=1 dack4=0 map=20+1@0 dfin");
    assert!(!s.has(Event::PeerFinished));
    s.peer(120, ". 101:201 ack=1 dack4=0 map=100+100@101");
    s.peer(130, ". ack=1 dack4=0 map=200+1@0 dfin");
    assert!(s.has(Event::PeerFinished));
    assert_eq!(s.received, film(0, 200));
    // A repeated DATA_FIN is acknowledged again, and the application gets one event.
    s.rest();
    s.peer(140, ". ack=1 dack4=0 map=200+1@0 dfin");
    s.us(140, ". dack8=201");
    let ends = s.events.iter().filter(|(_, event)| *event == Event::PeerFinished).count();
    assert_eq!(ends, 1);
}

#[test]
fn an_end_may_come_with_the_third_packet() {
    let mut s = Script::server(config());
    s.peer(0, "S mpc");
    s.us(0, "S. mpc-key");
    s.peer(50, ". mpc-keys map=0+1@0 dfin");
    assert!(s.has(Event::PeerFinished) && s.received.is_empty());
    // A contradictory end in the third packet of a join is ignored.
    s.peer(60, ". 1:101 ack=1 dack4=0 map=0+100@1");
    assert!(s.received.is_empty());
}

#[test]
fn a_data_ack_alone_releases_no_memory() {
    // RFC 8684 section 3.3.2: data is dropped once both levels have acknowledged it. Until then the subflow may have
    // to retransmit it.
    let mut s = Script::multipath(config(), 50);
    s.join(1, 200, 100);
    s.write(300, 5000);
    let first = s.rest()[0].1;
    assert_eq!(s.connection().view().memory_held(), [0, 5000]);
    s.peer_on(first, 310, ". ack=1 dack4=5000");
    assert_eq!(s.connection().view().memory_held(), [0, 5000]);
    // 1000 bytes are acknowledged on the subflow, and 700 more are written.
    s.peer_on(first, 320, ". ack=1001 dack4=5000");
    s.write(330, 700);
    assert_eq!(s.connection().view().memory_held(), [0, 4000 + 700]);
}

#[test]
fn a_subflow_that_is_reset_releases_its_memory() {
    // A closed subflow retransmits nothing. Otherwise a peer that joins and resets repeatedly would make the host
    // keep a window of data for each subflow.
    let mut s = Script::multipath(config(), 50);
    s.join(1, 200, 100);
    s.write(300, 5000);
    let first = s.rest()[0].1;
    s.peer_on(first, 310, ". ack=1 dack4=5000");
    s.peer_on(first, 320, "R 1:1");
    assert_eq!(s.connection().view().memory_held(), [0, 0]);
}
