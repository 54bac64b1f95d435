//! Closing: FIN (RFC 9293 section 3.6), `DATA_FIN` (RFC 8684 section 3.3.3), RST.

use anabranch_mptcp::Event;
use anabranch_units::SubflowId;

use crate::dialect::{Script, at, config, film, tcp};

#[test]
fn a_fin_goes_behind_the_data_and_takes_a_number() {
    let mut s = Script::plain(50);
    s.write(100, 2000);
    s.shutdown(100);
    s.us(100, ". 1:1449");
    s.us(100, ". 1449:2001");
    s.us(100, "F. 2001:2001 ack=1");
    s.peer(150, ". ack=2002");
    assert!(!s.has(Event::Closed), "half closed");
    s.peer(200, "F. 1:1 ack=2002");
    s.us(200, ". 2002:2002 ack=2");
    assert!(s.has(Event::PeerFinished) && s.has(Event::Closed));
    // In TIME-WAIT, a repeated FIN is acknowledged, because the first acknowledgement was lost.
    s.peer(400, "F. 1:1 ack=2002");
    s.us(400, ". ack=2");
    s.silence(5000);
}

#[test]
fn a_fin_is_repeated_like_data() {
    let mut s = Script::plain_after(tcp(), 50, "S nosack");
    s.shutdown(100);
    for ms in [100, 350, 850, 1850] {
        s.us(ms, "F. 1:1");
    }
    s.peer(1900, ". ack=2");
    s.silence(10_000);
}

#[test]
fn host_may_send_after_receiving_a_fin() {
    let mut s = Script::plain(50);
    s.peer(100, "F. 1:101 ack=1");
    s.us(100, ". ack=102");
    assert!(s.has(Event::PeerFinished) && !s.has(Event::Closed));
    assert_eq!(s.received, film(0, 100));
    s.write(110, 500);
    s.us(110, ". 1:501 ack=102");
    s.peer(160, ". ack=501");
    s.shutdown(170);
    s.us(170, "F. 501:501");
    s.peer(220, ". ack=502");
    assert!(s.has(Event::Closed));
}

#[test]
fn a_fin_beyond_a_hole_waits_for_it() {
    let mut s = Script::plain(50);
    s.peer(100, "F. 101:201 ack=1");
    s.us(100, ". ack=1 sack=101:201");
    assert!(!s.has(Event::PeerFinished));
    s.peer(110, ". 1:101 ack=1");
    s.us(110, ". ack=202");
    assert!(s.has(Event::PeerFinished));
    assert_eq!(s.received, film(0, 200));
}

#[test]
fn both_sides_may_close_at_once() {
    let mut s = Script::plain(50);
    s.shutdown(100);
    s.us(100, "F. 1:1 ack=1");
    s.peer(120, "F. 1:1 ack=1");
    s.us(120, ". 2:2 ack=2");
    assert!(!s.has(Event::Closed), "ours is on its way (CLOSING)");
    s.peer(150, ". ack=2");
    assert!(s.has(Event::Closed));
}

#[test]
fn a_reset_counts_with_the_next_number_only() {
    // RFC 5961 section 3.2: only a RST with exactly RCV.NXT ends the connection.
    let mut s = Script::plain(50);
    s.peer(100, ". 1:101 ack=1");
    s.rest();
    s.peer(110, "R 50:50");
    s.peer(111, "R 102:102");
    s.peer(112, "R 900000000:900000000");
    assert!(!s.has(Event::Closed));
    s.peer(113, "R 101:101");
    assert!(s.has(Event::Closed));
    s.rest();
    s.silence(5000);
}

#[test]
fn a_data_fin_closes_the_stream_and_then_fin_each_subflow() {
    let mut s = Script::multipath(config(), 50);
    s.write(100, 1000);
    s.us(100, ". 1:1001 map=0+1000@1");
    s.shutdown(100);
    // A mapping of length 1 at subflow position 0, without payload.
    s.us(100, ". 1001:1001 map=1000+1@0 dfin");
    s.peer(150, ". ack=1001 dack4=1001");
    s.silence(1000);
    assert!(!s.has(Event::Closed), "half closed");
    s.peer(1100, ". ack=1001 dack4=1001 map=0+1@0 dfin");
    assert!(s.has(Event::PeerFinished));
    // The `DATA_FIN` is acknowledged at data level. Then the subflow's own FIN follows.
    s.us(1100, "F. 1001:1001 ack=1 dack8=1");
    s.peer(1150, "F. 1:1 ack=1002 dack4=1001");
    s.us(1150, ". 1002:1002 ack=2");
    assert!(s.has(Event::Closed));
}

#[test]
fn a_data_fin_is_repeated_doubling_from_200_ms() {
    // `mptcp_set_datafin_timeout`: TCP_RTO_MIN << retransmits.
    let mut s = Script::multipath(config(), 50);
    s.shutdown(100);
    for ms in [100, 300, 700, 1500, 3100] {
        s.us(ms, ". 1:1 map=0+1@0 dfin");
    }
    s.peer(3200, ". dack4=1");
    s.silence(20_000);
}

#[test]
fn a_data_fin_rides_the_last_data_that_is_sent_again_where_no_checksum_covers_it() {
    // `mptcp_write_data_fin`: a mapping that ends at the end of the data is one byte longer.
    let mut s = Script::server(config());
    s.peer(0, "S mpc nosack");
    s.us(0, "S. mpc-key");
    s.peer(50, ". mpc-keys");
    s.write(100, 1000);
    s.us(100, ". 1:1001 map=0+1000@1");
    s.shutdown(100);
    s.us(100, ". 1001:1001 map=1000+1@0 dfin");
    s.us(300, ". 1001:1001 map=1000+1@0 dfin");
    s.us(350, ". 1:1001 map=0+1001@1 dfin");
}

#[test]
fn a_data_fin_may_ride_the_last_data() {
    let mut s = Script::multipath(config(), 50);
    // The length includes the DATA_FIN (RFC 8684 section 3.3.3).
    s.peer(100, ". 1:101 ack=1 dack4=0 map=0+101@1 dfin");
    s.us(100, ". ack=101 dack8=101");
    assert!(s.has(Event::PeerFinished));
    assert_eq!(s.received, film(0, 100));
}

#[test]
fn a_data_fin_waits_for_data_on_another_subflow() {
    let mut s = Script::multipath(config(), 50);
    s.join(1, 200, 100);
    s.peer_on(1, 300, ". 1:101 ack=1 dack4=0 map=100+101@1 dfin");
    s.us_on(1, 300, ". ack=101 dack8=0");
    assert!(!s.has(Event::PeerFinished));
    s.peer(310, ". 1:101 ack=1 dack4=0 map=0+100@1");
    assert!(s.has(Event::PeerFinished));
    assert_eq!(s.received, film(0, 200));
    let said = s.rest();
    assert!(said.iter().all(|(_, _, line)| line.contains("dack8=201")), "{said:?}");
}

#[test]
fn lone_data_fin_is_answered_unless_both_sides_wait() {
    // Data before the end is missing, and the acknowledgement reports that.
    let mut s = Script::multipath(config(), 50);
    s.peer(100, ". ack=1 dack4=0 map=100+1@0 dfin");
    s.us(100, ". ack=1 dack8=0");
    // We also send a DATA_FIN. If we answered the peer's DATA_FIN, the peer would answer in turn, without
    // end.
    s.shutdown(200);
    s.us(200, ". 1:1 map=0+1@0 dfin");
    s.peer(250, ". ack=1 dack4=0 map=100+1@0 dfin");
    s.silence(399);
    s.us(400, ". 1:1 map=0+1@0 dfin");
    // After all data has arrived, a repeated DATA_FIN is acknowledged, even while ours is unacknowledged.
    s.peer(450, ". 1:101 ack=1 dack4=0 map=0+100@1");
    s.us(450, ". ack=101 dack8=101");
    s.peer(460, ". 101:101 ack=1 dack4=0 map=100+1@0 dfin");
    s.us(460, ". ack=101 dack8=101");
}

#[test]
fn data_of_a_reset_subflow_is_resent_on_another() {
    let mut s = Script::multipath(config(), 50);
    s.join(1, 200, 100);
    s.write(300, 2000);
    let carried = s.rest();
    let first = carried.first().expect("a segment").1;
    assert!(carried.iter().all(|(_, path, _)| *path == first), "{carried:?}");
    let other = 1 - first;
    s.peer_on(first, 310, "R 1:1");
    assert!(s.has(Event::SubflowClosed(SubflowId(first as u8))) && !s.has(Event::Closed));
    s.us_on(other, 310, ". 1:1425 map=0+2000@1");
    s.us_on(other, 310, ". 1425:2001 map=0+2000@1");
}

#[test]
fn a_fin_on_one_subflow_leaves_the_other() {
    let mut s = Script::multipath(config(), 50);
    s.join(1, 200, 100);
    s.peer_on(1, 300, "F. 1:1 ack=1 dack4=0");
    // RFC 8684 section 3.3.3: a subflow's FIN does not end the data stream.
    s.us_on(1, 300, "F. 1:1 ack=2");
    s.peer_on(1, 350, ". ack=2");
    assert!(s.has(Event::SubflowClosed(SubflowId(1))));
    assert!(!s.has(Event::PeerFinished) && !s.has(Event::Closed));
    s.write(400, 1000);
    s.us(400, ". 1:1001 map=0+1000@1");
}

#[test]
fn a_fin_ahead_of_its_turn_ends_the_stream_where_it_stands() {
    // RFC 9293 section 3.10.7.4: the FIN is the last octet. Data after it is ignored, whether it arrives
    // before the FIN or later (`tcp_fin` purges the out-of-order queue).
    for behind_first in [false, true] {
        let mut s = Script::plain(50);
        let behind = [". 201:301 ack=1", ". 351:401 ack=1"];
        if behind_first {
            for line in behind {
                s.peer(90, line);
            }
        }
        s.peer(100, "F. 101:201 ack=1");
        for line in behind {
            s.peer(110, line);
        }
        s.peer(120, ". 1:101 ack=1");
        let said = s.rest();
        let last = said.last().expect("an acknowledgement");
        assert!(last.2.contains("ack=202") && !last.2.contains("sack"), "{last:?}");
        assert_eq!(s.received, film(0, 200));
        assert!(s.has(Event::PeerFinished));
        // Later data after the FIN is ignored too.
        s.peer(130, ". 202:302 ack=1");
        s.run_to(at(200));
        assert_eq!(s.received.len(), 200);
        assert!(s.rest().iter().all(|(_, _, line)| line.contains("ack=202")), "not acknowledged");
    }
}

#[test]
fn subflow_ack_does_not_acknowledge_connection_data() {
    // RFC 8684 section 4: a middlebox may acknowledge data that the peer never received.
    let mut s = Script::multipath(config(), 50);
    s.join(1, 200, 100);
    s.write(300, 1000);
    let path = s.rest()[0].1;
    s.peer_on(path, 350, ". ack=1001 dack4=0");
    s.peer_on(path, 400, "R 1:1");
    s.us_on(1 - path, 400, ". 1:1001 map=0+1000@1");
}

#[test]
fn no_data_is_sent_after_a_fin() {
    let mut s = Script::multipath(config(), 50);
    s.join(1, 200, 100);
    s.write(300, 1000);
    let first = s.rest().first().expect("a segment").1;
    let other = 1 - first;
    // The peer closes the idle subflow, and we do the same.
    s.peer_on(other, 310, "F. 1:1 ack=1 dack4=0");
    s.us_on(other, 310, "F. 1:1 ack=2");
    s.peer_on(other, 320, ". 2:2 ack=1 dack4=0");
    // Data on the other subflow is lost and would be reinjected. Reinjected data must not be sent here after
    // the FIN (RFC 9293 section 3.10.4).
    s.peer_on(first, 2_000, ". ack=1 dack4=0");
    let said = s.rest();
    let late = said.iter().filter(|(_, path, line)| *path == other && line.contains("map="));
    assert_eq!(late.count(), 0, "{said:?}");
}

/// Checks the times of the FIN's repetitions, and when the subflow is given up without an answer. The first
/// repetition is sent 250 ms after the FIN, and each interval is twice the one before.
fn given_up(s: &mut Script, from: u64) {
    for repetition in 0..9 {
        s.us(from + 250 * ((1 << repetition) - 1), "F. 1:1");
    }
    // `tcp_orphan_retries` 8 from 200 ms are 102.2 s (`tcp_model_timeout`), counted from the first
    // repetition. The 9th timer ends the subflow, 511 * 250 ms after the FIN.
    s.silence(from + 127_749);
    assert!(!s.has(Event::Closed));
    s.run_to(at(from + 127_750));
    assert!(s.has(Event::Closed));
    s.silence(1_000_000);
}

/// A connection that both hosts have closed at 150 ms. `words` are added to the peer's last segment.
fn both_ended(words: &str) -> Script {
    let mut s = Script::server(config());
    s.peer(0, "S mpc nosack");
    s.us(0, "S. mpc-key");
    s.peer(50, ". mpc-keys");
    s.shutdown(100);
    s.us(100, ". 1:1 map=0+1@0 dfin");
    s.peer(150, &format!(". dack4=1 map=0+1@0 dfin {words}"));
    s
}

#[test]
fn the_last_fin_of_two_that_have_agreed_is_not_repeated_for_a_quarter_of_an_hour() {
    let mut s = both_ended("");
    given_up(&mut s, 150);
}

#[test]
fn a_closed_window_does_not_keep_an_orphan() {
    // `tcp_retransmit_timer` exempts a peer that closed its window only if `!sock_flag(sk, SOCK_DEAD)`. Both hosts have
    // agreed on the end. The peer answers with a window of 0. The 9th timeout ends the subflow: 511 * 250 ms = 127.75 s
    // after the FIN.
    let mut s = both_ended("win=0");
    for second in 1..=128 {
        s.run_to(at(150 + 1000 * second));
        s.rest();
        if !s.has(Event::Closed) {
            s.peer(150 + 1000 * second, ". ack=1 dack4=1 win=0");
        }
    }
    assert!(s.has(Event::Closed));
}

#[test]
fn the_peers_last_fin_is_waited_for_a_minute() {
    // `tcp_fin_timeout`: both sides have closed, and our FIN is acknowledged, but the peer's FIN never
    // arrives.
    let mut s = Script::multipath(config(), 50);
    s.shutdown(100);
    s.us(100, ". 1:1 map=0+1@0 dfin");
    s.peer(150, ". dack4=1 map=0+1@0 dfin");
    s.us(150, "F. 1:1");
    s.peer(200, ". ack=2 dack4=1");
    s.silence(60_199);
    assert!(!s.has(Event::Closed));
    s.silence(60_200);
    assert!(s.has(Event::Closed));
}

#[test]
fn nor_is_that_of_plain_tcp_behind_the_peers() {
    let mut s = Script::plain_after(tcp(), 50, "S nosack");
    s.peer(90, "F. 1:1 ack=1");
    s.us(90, ". ack=2");
    s.shutdown(100);
    given_up(&mut s, 100);
}

#[test]
fn a_half_closed_side_repeats_its_fin_for_as_long_as_tcp_tries() {
    let mut s = Script::plain_after(tcp(), 50, "S nosack");
    s.shutdown(100);
    let said = s.rest_until(900_000);
    assert!(!s.has(Event::Closed) && said.len() > 12, "{said:?}");
    // In a half-closed connection, the other side may send forever.
    let mut s = Script::plain_after(tcp(), 50, "S nosack");
    s.shutdown(100);
    s.us(100, "F. 1:1");
    s.peer(150, ". ack=2");
    s.silence(3_000_000);
    s.peer(3_000_000, ". 1:101 ack=2");
    assert_eq!(s.received, film(0, 100));
}
