//! The release of acknowledged data, and its reinjection (RFC 8684 sections 3.3.2, 3.3.3 and 3.3.6).

use anabranch_mptcp::Event;
use anabranch_units::SubflowId;

use crate::dialect::{Script, config, film};

#[test]
fn data_acked_segment_is_still_retransmitted_on_its_subflow() {
    let mut s = Script::multipath(config(), 50);
    s.write(100, 1000);
    s.us(100, ". 1:1001 map=0+1000@1");
    s.peer(150, ". ack=1 dack4=1000");
    // The subflow itself has not acknowledged the data, so TCP retransmits it.
    s.us(350, ". 1:1001 map=0+1000@1");
    s.peer(400, ". ack=1001 dack4=1000");
    s.silence(5000);
}

#[test]
fn subflow_acked_data_is_kept_until_its_data_ack() {
    let mut s = Script::multipath(config(), 50);
    s.join(1, 200, 100);
    s.write(300, 1000);
    let carried = s.rest();
    let first = carried[0].1;
    s.peer_on(first, 340, ". ack=1001 dack4=0");
    s.peer_on(first, 345, "R 1:1");
    // The host that acknowledged the data on the subflow may have dropped it before delivery.
    let other = 1 - first;
    s.us_on(other, 345, ". 1:1001 map=0+1000@1");
    s.peer_on(other, 400, ". ack=1001 dack4=1000");
    s.silence(5000);
}

#[test]
fn reinjected_data_is_also_retransmitted_on_its_first_subflow() {
    // RFC 8684 section 3.3.6: the subflow retransmits the data too, because middleboxes do not expect a gap
    // in a sequence space.
    let mut s = Script::multipath(config(), 50);
    s.join(1, 200, 100);
    s.write(300, 1000);
    let first = s.rest()[0].1;
    let other = 1 - first;
    let (mut original, mut reinjected) = (0, 0);
    for ms in (310..2000).step_by(10) {
        for (_, path, line) in s.rest_until(ms) {
            original += usize::from(path == first && line.starts_with(". 1:1001"));
            let again =
                path == other && line.starts_with(". 1:1001") && line.contains("map=0+1000@1");
            if again {
                reinjected += 1;
                s.peer_on(other, ms, ". ack=1001 dack4=1000");
            }
        }
    }
    assert_eq!(reinjected, 1, "by the connection's timer");
    assert!(original > 1, "also after its DATA_ACK came by the other way");
    s.peer_on(first, 2000, ". ack=1001 dack4=1000");
    s.rest();
    s.silence(8000);
}

#[test]
fn a_peer_that_never_acknowledges_data_is_sent_it_ever_more_seldom() {
    // The peer acknowledges every segment at once. 2 MiB in fragments of 10,000 bytes are 210 repetitions,
    // about 0.25 s apart. Then the interval doubles from 0.2 s: the next ten take 0.2 * (2^10 - 1) = 204.6 s.
    // After that, the interval is 120 s, which gives five in the rest of 900 s.
    let mut s = Script::multipath(config(), 50);
    s.write(100, 10_000);
    s.rest();
    for ms in (101..900_000).step_by(10) {
        s.peer(ms, &format!(". ack={} dack4=0", 1 + s.sent_on(0)));
    }
    let times = s.sent_on(0) / 10_000;
    assert!((222..=228).contains(&times), "sent {times} times");
    // Progress resets the interval.
    s.peer(900_000, &format!(". ack={} dack4=5000", 1 + s.sent_on(0)));
    s.rest();
    let before = s.sent_on(0);
    for ms in (900_010..902_500).step_by(10) {
        s.peer(ms, &format!(". ack={} dack4=5000", 1 + s.sent_on(0)));
    }
    let times = (s.sent_on(0) - before) / 5000;
    assert!((9..=12).contains(&times), "sent {times} times");
}

#[test]
fn window_without_a_data_ack_permits_no_new_data() {
    let mut s = Script::server(config());
    s.peer(0, "S mpc win=1024");
    s.us(0, "S. mpc-key");
    s.peer(50, ". mpc-keys win=8");
    s.write(60, 40_000);
    s.rest();
    let sent = s.sent_on(0);
    s.peer(110, &format!(". ack={} dack4={sent} win=8", sent + 1));
    s.rest();
    let sent = s.sent_on(0);
    // RFC 8684 section 3.3.1: the window is relative to the DATA_ACK, which this segment does not have.
    s.peer(120, &format!(". ack={} win=500 map=0+1@0 dfin", sent + 1));
    let more = s.sent_on(0) - sent;
    assert_eq!(more, 0, "{:?}", s.rest());
    s.peer(130, &format!(". ack={} dack4={sent} win=500", sent + 1));
    assert!(s.sent_on(0) > sent);
}

#[test]
fn a_data_ack_may_come_when_it_advances_only_or_always() {
    let mut s = Script::multipath(config(), 50);
    s.write(100, 1000);
    s.us(100, ". 1:1001");
    // Every segment with a DSS has a DATA_ACK, even if nothing new is acknowledged.
    s.peer(110, ". 1:101 ack=1 dack4=0 map=0+100@1");
    s.us(110, ". ack=101");
    s.peer(150, ". ack=1001 dack4=1000");
    // A DATA_ACK is not sent separately if it would be the same as before.
    s.peer(160, ". 101:201 ack=1001 map=100+100@101");
    s.peer(170, ". 201:301 ack=1001 map=200+100@201");
    s.rest();
    assert_eq!(s.received, film(0, 300));
    assert!(s.connection().is_multipath() && !s.has(Event::FellBack));
    s.silence(5000);
}

#[test]
fn no_subflow_is_closed_while_data_or_the_end_is_outstanding() {
    let mut s = Script::multipath(config(), 50);
    s.join(1, 200, 100);
    s.peer(290, ". map=0+1@0 dfin");
    s.rest();
    s.write(300, 1000);
    let first = s.rest()[0].1;
    s.shutdown(300);
    // The subflow has acknowledged the data, the connection has not.
    s.peer_on(first, 350, ". ack=1001 dack4=0");
    let open = s.rest_until(400);
    assert!(open.iter().all(|(_, _, line)| !line.starts_with('F')), "{open:?}");
    // Everything except the DATA_FIN is acknowledged.
    s.peer_on(first, 410, ". ack=1001 dack4=1000");
    let open = s.rest_until(600);
    assert!(open.iter().all(|(_, _, line)| !line.starts_with('F')), "{open:?}");
    s.peer_on(first, 610, ". ack=1001 dack4=1001");
    let closed = s.rest_until(615);
    for path in [0, 1] {
        let fin = closed.iter().any(|(_, on, line)| *on == path && line.starts_with('F'));
        assert!(fin, "FIN on every subflow: {closed:?}");
    }
    assert!(!s.has(Event::SubflowClosed(SubflowId(0))));
}
