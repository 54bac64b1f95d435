//! The validation of segments: windows, timestamps, RSTs, SYNs (RFC 9293 section 3.10.7, RFC 5961, RFC 7323
//! section 5).

use anabranch_mptcp::Event;

use crate::dialect::{Script, config, tcp};

#[test]
fn signals_of_a_segment_outside_the_window_mean_nothing() {
    // RFC 8684 section 3: the checks of TCP come first.
    let mut s = Script::multipath(config(), 50);
    s.write(100, 1000);
    s.us(100, ". 1:1001");
    s.peer(150, ". 900000000:900000000 ack=1001 dack8=1000");
    s.us(150, ". ack=1");
    s.us(350, ". 1:1001 map=0+1000@1");
}

#[test]
fn a_reset_that_acknowledges_nothing_of_ours_does_not_end_the_attempt() {
    // RFC 9293 section 3.10.7.3: in SYN-SENT, a RST is accepted only if it acknowledges the SYN.
    let mut s = Script::client(config(), 1);
    s.us(0, "S mpc");
    s.peer(30, "R 0:0");
    s.peer(31, "R. 0:0 ack=77");
    assert!(!s.has(Event::Closed), "blind resets");
    s.peer(32, "R. 0:0 ack=1");
    assert!(s.has(Event::Closed), "connection refused");
}

#[test]
fn a_reset_within_the_window_draws_a_challenge() {
    // RFC 5961 section 3.2: a RST in the window but not at RCV.NXT is answered with an acknowledgement.
    let mut s = Script::plain(50);
    s.peer(100, ". 1:101 ack=1");
    s.rest();
    s.peer(110, "R 102:102");
    s.us(110, ". ack=101");
    assert!(!s.has(Event::Closed));
}

#[test]
fn an_old_timestamp_marks_an_old_segment() {
    // RFC 7323 section 5.3, R1: a segment whose timestamp is before TS.Recent is acknowledged and dropped.
    let mut s = Script::plain(50);
    let mut old = s.composed(". 1:101 ack=1");
    s.peer(100, ". 1:101 ack=1");
    s.rest();
    if let Some(t) = old.timestamps.as_mut() {
        t.value = t.value.wrapping_sub(1_000_000);
    }
    old.seq = old.seq.add(100);
    s.deliver(110, &old);
    s.us(110, ". ack=101");
}

#[test]
fn reset_after_out_of_order_data_is_accepted() {
    // RFC 5961 section 3.2 with Linux's extension: the RST may follow out-of-order data.
    let mut s = Script::plain(50);
    s.peer(100, ". 101:201 ack=1");
    s.rest();
    s.peer(110, "R 201:201");
    assert!(s.has(Event::Closed));
}

#[test]
fn a_syn_on_an_open_connection_draws_a_challenge() {
    // RFC 5961 section 4.2. At most one challenge ACK per 500 ms (`tcp_invalid_ratelimit`).
    let mut s = Script::plain(50);
    s.peer(100, "S 0:0");
    s.us(100, ". ack=1");
    s.peer(200, "S 0:0");
    s.silence(599);
    s.peer(600, "S 0:0");
    s.us(600, ". ack=1");
    assert!(!s.has(Event::Closed));
}

#[test]
fn an_acknowledgement_of_unsent_data_is_answered_and_dropped_whole() {
    // RFC 9293 section 3.10.7.4: "If the ACK acks something not yet sent, then send an ACK, drop the segment";
    // RFC 5961 section 5.2; tcp_ack: `tcp_send_challenge_ack`, twice a second at most (`tcp_invalid_ratelimit`).
    for multipath in [false, true] {
        let (mut s, map) = if multipath {
            (Script::multipath(config(), 50), " dack4=0 map=0+100@1")
        } else {
            (Script::plain(50), "")
        };
        for (ms, ack) in [(100, 2), (600, 100_000), (1100, 2_000_000_000_u32)] {
            s.peer(ms, &format!(". 1:101 ack={ack}{map}"));
            s.us(ms, ". ack=1");
            s.peer(ms + 499, &format!(". 1:101 ack={ack}{map}"));
            s.silence(ms + 499);
        }
        assert!(s.received.is_empty());
        s.peer(1600, &format!(". 1:101 ack=1{map}"));
        s.us_within(0, 1600, 1640, ". ack=101");
    }
}

#[test]
fn a_third_packet_that_acknowledges_another_number_is_reset_and_the_handshake_goes_on() {
    // RFC 9293 section 3.10.7.4, SYN-RECEIVED: "If the segment acknowledgment is not acceptable, form a reset segment
    // <SEQ=SEG.ACK><CTL=RST> and send it."
    for ack in [0, 2, 5000, u32::MAX] {
        let mut s = Script::server(tcp());
        s.peer(0, "S");
        s.us(0, "S.");
        s.peer(50, &format!(". ack={ack}"));
        s.us(50, &format!("R {ack}:{ack}"));
        s.peer(60, ". ack=1");
        s.peer(70, ". 1:101 ack=1");
        s.us_within(0, 70, 110, ". ack=101");
    }
}

#[test]
fn syn_ack_for_an_unknown_syn_gets_a_reset() {
    // RFC 9293 section 3.10.7.3: a RST with the acknowledgement number of the segment as its sequence number.
    let mut s = Script::client(config(), 1);
    s.us(0, "S mpc");
    s.peer(40, "S. ack=999");
    s.us(40, "R 999:999");
    s.peer(50, "S. ack=1 mpc-key");
    s.us(50, ". mpc-keys");
}
