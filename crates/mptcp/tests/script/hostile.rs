//! Attacks on plain TCP by a peer or by an attacker that injects segments (RFC 5961; Savage et al., ACM CCR
//! 1999; CVE-2018-5390, CVE-2019-11477).

use anabranch_units::Duration;

use crate::dialect::{Script, at, config, film, tcp, thousands};

/// Four segments of 1000 bytes sent at 200 ms, of which the second and third are SACKed.
fn reported(rtt: u64) -> Script {
    let mut s = Script::plain_with(thousands(), rtt);
    s.write(200, 4000);
    for n in 0..4 {
        s.us(200, &format!(". {}:{}", 1 + 1000 * n, 1001 + 1000 * n));
    }
    s.peer(200 + rtt, ". ack=1 sack=1001:3001");
    s
}

#[test]
fn a_peer_may_take_its_reports_back() {
    // RFC 2018 section 8: "after a retransmit timeout the data sender SHOULD turn off all of the SACKed
    // bits", and must retransmit the segment at the left edge even if it was SACKed.
    // `tcp_check_sack_reneging`: an acknowledgement up to the start of a SACKed range shows that the receiver
    // reneged. After half an SRTT, at least 10 ms, everything is lost (`tcp_timeout_mark_lost`).
    for (rtt, wait) in [(50, 25), (12, 10)] {
        let mut s = reported(rtt);
        s.rest();
        let ms = 200 + rtt + 2;
        s.peer(ms, ". ack=1001");
        s.silence(ms + wait - 1);
        s.us(ms + wait, ". 1001:2001");
        assert_eq!(s.sample(0).in_flight_segments, 1, "the three of them are lost");
        s.peer(ms + wait + rtt, ". ack=2001");
        s.us(ms + wait + rtt, ". 2001:3001");
        s.us(ms + wait + rtt, ". 3001:4001");
        s.peer(ms + wait + 2 * rtt, ". ack=4001");
        assert_eq!(s.sample(0).in_flight_segments, 0);
        s.silence(10_000);
    }
}

#[test]
fn two_step_ack_of_sacked_data_is_not_reneging() {
    // The peer had the data and only acknowledged it in two steps.
    let mut s = reported(50);
    s.rest();
    s.peer(252, ". ack=1001");
    s.peer(260, ". ack=4001");
    s.silence(10_000);
    assert_eq!(s.sample(0).in_flight_segments, 0);
}

#[test]
fn an_acknowledgement_from_long_ago_is_not_believed() {
    // RFC 5961 section 5.2: SND.UNA - MAX.SND.WND <= SEG.ACK <= SND.NXT. Otherwise the segment is dropped
    // with its data, and an acknowledgement is sent, rate-limited like other challenges (`tcp_ack`). The
    // largest window was 500 * 2^7 = 64,000 bytes.
    let mut s = Script::plain_with(thousands(), 50);
    let mut acked = 1;
    let mut ms = 100;
    while acked < 90_001 {
        ms += 50;
        s.write(ms, 10_000);
        acked = 1 + s.sent_on(0);
        ms += 50;
        s.peer(ms, &format!(". ack={acked}"));
    }
    s.rest();
    let end = acked;
    let old = |s: &mut Script, ms: u64, behind: i64| {
        let mut segment = s.composed(". 1:101");
        segment.ack = segment.ack.add((-behind) as u32);
        s.deliver(ms, &segment);
    };
    let ms = ms + 1000;
    old(&mut s, ms, 1 << 30);
    s.us(ms, &format!(". {end}:{end} ack=1"));
    old(&mut s, ms + 1, 64_001);
    s.silence(ms + 100);
    assert!(s.received.is_empty(), "the data is not taken");
    old(&mut s, ms + 600, 64_001);
    s.us(ms + 600, &format!(". {end}:{end} ack=1"));
    old(&mut s, ms + 700, 64_000);
    assert_eq!(s.received.len(), 100, "an old acknowledgement, as reordering brings it");
}

#[test]
fn the_smallest_segments_are_of_48_bytes_with_their_options() {
    // `TCP_MIN_SND_MSS`: 12 bytes of timestamps and 36 of payload. With a DSS of 28 bytes (RFC 8684 section
    // 3.3, all values with 64 bits), 8 bytes of payload.
    for asked in [0, 8, 48] {
        let mut s = Script::server(tcp());
        let mut syn = s.composed("S");
        syn.mss = Some(asked);
        s.deliver(0, &syn);
        s.us(0, "S.");
        s.peer(50, ". 1:1");
        s.write(100, 1000);
        s.us(100, ". 1:37");
        s.us(100, ". 37:73");

        let mut s = Script::server(config());
        let mut syn = s.composed("S mpc");
        syn.mss = Some(asked);
        s.deliver(0, &syn);
        s.us(0, "S. mpc-key");
        s.peer(50, ". 1:1 mpc-keys");
        s.peer(60, ". 1:101 ack=1 map=0+100@1");
        s.rest();
        s.write(100, 1000);
        for n in 0..10 {
            s.us(100, &format!(". {}:{}", 1 + 8 * n, 9 + 8 * n));
        }
    }
}

/// Returns the window after three round trips in which each segment is acknowledged in `pieces` steps.
fn window_after(pieces: u64) -> u32 {
    let mut s = Script::plain_with(thousands(), 50);
    s.write(100, 60_000);
    let mut acked = 1;
    for round in 1..4 {
        let end = 1 + s.sent_on(0);
        for from in (acked..end).step_by(1000) {
            for piece in 1..=pieces {
                s.peer(100 + 50 * round, &format!(". ack={}", from + 1000 * piece / pieces));
            }
        }
        acked = end;
    }
    s.cwnd()
}

#[test]
fn acknowledging_a_segment_in_pieces_gains_nothing() {
    // Savage et al. section 3.1. Slow start counts segments (`tcp_slow_start`; RFC 3465: bytes). The window
    // doubles each round trip, from 10 to 20 and 40, and is then limited by the 60 segments.
    let honest = window_after(1);
    assert!(honest >= 40, "{honest}");
    for pieces in [2, 10, 250] {
        assert_eq!(window_after(pieces), honest, "{pieces} pieces");
    }
}

#[test]
fn made_up_duplicates_gain_nothing() {
    // Savage et al. section 3.2: each duplicate counts as one delivered segment, but never more than were
    // sent (`tcp_limit_reno_sacked`).
    let mut s = Script::plain_after(thousands(), 50, "S nosack");
    s.write(100, 60_000);
    for n in 0..10 {
        s.us(100, &format!(". {}:{}", 1 + 1000 * n, 1001 + 1000 * n));
    }
    for _ in 0..30 {
        s.peer(150, ". ack=1");
        assert!(s.cwnd() <= 10 && s.sample(0).in_flight_segments <= 10);
    }
    // RFC 6937: no more data is sent than was reported as delivered, and unused permission is not kept.
    let sent = s.rest().len();
    assert!(sent <= 30, "{sent} segments for thirty words");
    s.peer(200, &format!(". ack={}", 1 + s.sent_on(0)));
    s.peer(210, &format!(". ack={}", 1 + s.sent_on(0)));
    assert!(s.cwnd() <= 10, "more than before the loss: {}", s.cwnd());
    // With SACK, a duplicate without SACK blocks has no effect.
    let mut s = Script::plain_with(thousands(), 50);
    s.write(100, 60_000);
    s.rest();
    for _ in 0..500 {
        s.peer(150, ". ack=1");
        s.peer(150, ". ack=1 sack=20001:30001");
    }
    assert_eq!((s.cwnd(), s.sample(0).in_flight_segments), (10, 10));
    assert!(s.rest().is_empty());
}

#[test]
fn an_echo_that_cannot_be_is_no_sample() {
    // RFC 7323 section 4.1 requires an echo of our own timestamp. An echo from the future, or 0, gives no
    // sample if the send time is ambiguous.
    for echo in [450, 100_000_000] {
        let mut s = Script::plain_after(thousands(), 50, "S nosack");
        s.write(100, 1000);
        s.us(100, ". 1:1001");
        s.us(350, ". 1:1001");
        s.peer(400, &format!(". ack=1001 ecr={echo}"));
        assert_eq!(s.sample(0).srtt, Some(Duration::from_millis(50)), "{echo}");
    }
}

#[test]
fn holes_of_one_byte_cost_the_receiver_little_and_the_stream_nothing() {
    // CVE-2018-5390: every second byte of our window, in reverse order. The stored data is limited
    // (`reassembly.rs`), and dropped data is sent again.
    let mut s = Script::plain(50);
    let last = 60_001;
    for at in (1..last).rev().step_by(2).filter(|at| at % 2 == 0) {
        s.peer(100, &format!(". {at}:{} ack=1", at + 1));
    }
    let told = s.rest();
    // Every second segment is acknowledged, with the SACK blocks of the one before
    // (`tcp_sack_compress_send_ack`).
    assert!(told.len() >= 14_000 && told.iter().all(|(_, _, line)| line.contains("ack=1 ")));
    for from in (1..last).step_by(1000) {
        s.peer(200, &format!(". {from}:{} ack=1", from + 1000));
    }
    s.run_to(at(300));
    assert_eq!(s.received, film(0, 60_000));
}

#[test]
fn reports_that_were_not_agreed_on_say_nothing() {
    // RFC 2018 section 2: SACK blocks are valid only if both sides permitted them (`tcp_parse_options`
    // ignores others). Otherwise four segments would count as delivered twice: by the blocks and by
    // duplicates.
    let mut s = Script::plain_after(thousands(), 50, "S nosack");
    s.write(200, 5000);
    for n in 0..5 {
        s.us(200, &format!(". {}:{}", 1 + 1000 * n, 1001 + 1000 * n));
    }
    for ms in [250, 251] {
        s.peer(ms, ". ack=1 sack=1001:5001");
        assert_eq!(s.sample(0).in_flight_segments, 5 - (ms - 249) as u32, "one a duplicate");
    }
    for ms in 252..260 {
        s.peer(ms, ". ack=1 sack=1001:5001");
    }
    s.us(252, ". 1:1001");
    s.peer(310, ". ack=5001");
    assert_eq!(s.sample(0).in_flight_segments, 0);
}
