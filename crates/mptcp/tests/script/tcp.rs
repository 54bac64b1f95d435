//! The handshake's options, when acknowledgements go out, and the retransmission timeout.
//!
//! Linux's timeout (`tcp_rtt_estimator`, `__tcp_set_rto`) is RFC 6298's with other constants: no floor
//! of a second under the timeout, but one of 200 ms under its variation term; that term rises at once
//! and falls by a quarter of the gap once a round trip; and a falling RTT hardly raises it. In the
//! tables below `V` is 4 RTTVAR.

use anabranch_mptcp::{Config, Event};

use anabranch_units::Duration;

use crate::dialect::{Script, tcp, thousands};

/// A server whose SYN/ACK took `rtt` ms to be answered, without tail loss probes (they need SACK).
fn without_probes(rtt: u64) -> Script {
    Script::plain_after(thousands(), rtt, "S nosack")
}

#[test]
fn a_syn_ack_offers_what_linux_offers() {
    let mut s = Script::server(tcp());
    s.peer(0, "S");
    // Half of 128 KiB in whole segments of 1460 (`tcp_select_initial_window`); never scaled.
    let answer = s.us(0, "S. 0:0 ack=1 win=64240");
    // 6 MiB of `tcp_rmem[2]` take a shift of 7: 65,535 * 2^7 is the first to reach them.
    assert_eq!((answer.mss, answer.window_scale), (Some(1460), Some(7)));
    assert!(answer.sack_permitted);
    assert_eq!(answer.timestamps.map(|t| t.echo), Some(1), "the SYN's timestamp");
}

#[test]
fn options_the_peer_did_not_offer_are_not_used() {
    let mut s = Script::server(tcp());
    s.peer(0, "S nots nosack");
    let answer = s.us(0, "S.");
    assert!(answer.timestamps.is_none() && !answer.sack_permitted);
    s.peer(50, ".");
    s.write(100, 2000);
    // RFC 9293 section 3.7.1: what options do not take is payload.
    assert!(s.us(100, ". 1:1461").timestamps.is_none());
    s.us(100, ". 1461:2001");
    // Out of order and no SACK: a bare duplicate acknowledgement.
    s.peer(110, ". 101:201 ack=1");
    assert!(s.us(110, ". 2001:2001 ack=1").sack.is_empty());
}

#[test]
fn a_client_opens_in_three_packets() {
    let mut s = Script::client(tcp(), 1);
    s.us(0, "S 0:0");
    s.peer(50, "S. ack=1");
    s.us(50, ". 1:1 ack=1");
    // RFC 6928: ten segments at once, 1448 bytes each beside timestamps.
    s.write(60, 20_000);
    for n in 0..10 {
        s.us(60, &format!(". {}:{} ack=1", 1 + 1448 * n, 1449 + 1448 * n));
    }
    s.silence(100);
}

#[test]
fn a_first_sample_gives_three_times_the_rtt_or_200_ms_more_than_it() {
    // RFC 6298 (2.2): SRTT = R, RTTVAR = R/2, so RTO = R + 4 R/2 = 3 R; in Linux R + max(2 R, 200 ms).
    for (rtt, rto) in [(20, 220), (100, 300), (101, 303), (300, 900), (500, 1500)] {
        let mut s = without_probes(rtt);
        s.write(1000, 500);
        s.us(1000, ". 1:501");
        s.us(1000 + rto, ". 1:501");
    }
}

/// Takes one RTT sample after another with segments of 100 bytes, then lets one time out: after how
/// many microseconds.
fn timeout_after(samples: &[u64]) -> u64 {
    let mut s = without_probes(samples[0]);
    let (mut position, mut ms) = (1, 1000);
    for rtt in &samples[1..] {
        s.write(ms, 100);
        s.us(ms, &format!(". {position}:{}", position + 100));
        position += 100;
        s.peer(ms + rtt, &format!(". ack={position}"));
        ms += rtt + 10;
    }
    s.write(ms, 100);
    s.us(ms, &format!(". {position}:{}", position + 100));
    let wake = s.connection().poll_timeout().expect("the timeout");
    wake.since(crate::dialect::at(ms)).as_micros()
}

#[test]
fn a_rising_rtt_is_answered_as_rfc_6298_says() {
    // R = 100: SRTT 100, V 200. R' = 180 (2.3): RTTVAR = 3/4 50 + 1/4 80 = 57.5, V = 230;
    // SRTT = 7/8 100 + 1/8 180 = 110; RTO = 110 + 230.
    assert_eq!(timeout_after(&[100, 180]), 340_000);
    // R'' = 300: RTTVAR = 3/4 57.5 + 1/4 190 = 90.625, V = 362.5; SRTT = 7/8 110 + 300/8 = 133.75.
    assert_eq!(timeout_after(&[100, 180, 300]), 496_250);
}

#[test]
fn a_steady_rtt_lowers_the_variation_by_a_quarter_of_the_gap_and_no_deeper_than_200_ms() {
    // R = 200: SRTT 200, V 400. Each further sample of 200 is a separate round trip.
    // The first ends the window whose greatest deviation was 400: V stays; then the greatest counts
    // from 200 again and V falls to 350, 312.5, 284.375 where RFC 6298 goes 300, 225, 168.75, 126.6.
    assert_eq!(timeout_after(&[200, 200]), 600_000);
    // The second window's deviations: 400 3/4 3/4 = 225 is its greatest. V = 400 - 175/4 = 356.25.
    assert_eq!(timeout_after(&[200, 200, 200]), 556_250);
    // 225 3/4 = 168.75 is below 200: V = 356.25 - 156.25/4 = 317.1875.
    assert_eq!(timeout_after(&[200, 200, 200, 200]), 517_188);
    // V - 200 shrinks by 3/4 a round trip: 156.25 (3/4)^40 is 1.6 microseconds.
    let mut long = vec![200; 4];
    long.extend([200; 39]);
    let settled = timeout_after(&long);
    assert!((400_000..400_010).contains(&settled), "{settled}");
}

#[test]
fn a_falling_rtt_hardly_raises_the_variation() {
    // R = 200: SRTT 200, V 400. R' = 20: the error is -180, SRTT = 200 - 180/8 = 177.5.
    // RFC 6298: V = 3/4 400 + 180 = 480. Linux raises V by an eighth of that change, 80/8 = 10: 410.
    assert_eq!(timeout_after(&[200, 20]), 587_500);
    // Of a rise of the same size it takes all: SRTT = 222.5, V = 480.
    assert_eq!(timeout_after(&[200, 380]), 702_500);
}

#[test]
fn the_timeout_doubles_until_two_minutes() {
    let mut s = without_probes(50);
    s.write(100, 1000);
    s.us(100, ". 1:1001");
    // RFC 6298 (5.5), from 250 ms; Linux's `TCP_RTO_MAX` is 120 s.
    let (mut ms, mut rto) = (100, 250);
    for _ in 0..12 {
        ms += rto;
        s.us(ms, ". 1:1001");
        rto = (2 * rto).min(120_000);
    }
    assert_eq!(rto, 120_000);
}

#[test]
fn after_a_timeout_an_ambiguous_acknowledgement_leaves_the_back_off() {
    // Karn (RFC 6298 section 3): without timestamps it is unknown which transmission is answered.
    let mut s = Script::plain_after(Config { mss: 1000, ..tcp() }, 50, "S nosack nots");
    s.write(100, 1000);
    s.us(100, ". 1:1001");
    s.us(350, ". 1:1001");
    s.us(850, ". 1:1001");
    s.peer(900, ". ack=1001");
    assert_eq!(s.sample(0).srtt, Some(Duration::from_millis(50)));
    s.write(1000, 1000);
    s.us(1000, ". 1001:2001");
    // 250 ms doubled twice; the first clean sample, 60 ms, collapses it: SRTT = 51.25, V = 200.
    s.peer(1060, ". ack=2001");
    s.write(1100, 1000);
    s.us(1100, ". 2001:3001");
    s.us(1351, ". 2001:3001");

    let mut s = Script::plain_after(Config { mss: 1000, ..tcp() }, 50, "S nosack nots");
    s.write(100, 1000);
    for ms in [100, 350, 850] {
        s.us(ms, ". 1:1001");
    }
    s.peer(900, ". ack=1001");
    s.write(1000, 1000);
    s.us(1000, ". 1001:2001");
    s.us(2000, ". 1001:2001");
}

#[test]
fn what_is_acknowledged_with_a_retransmission_is_no_sample_either() {
    // `tcp_clean_rtx_queue`, FLAG_RETRANS_DATA_ACKED: the second segment waited for the first.
    let mut s = Script::plain_after(Config { mss: 1000, ..tcp() }, 50, "S nosack nots");
    s.write(100, 2000);
    s.us(100, ". 1:1001");
    s.us(100, ". 1001:2001");
    s.us(350, ". 1:1001");
    s.peer(400, ". ack=2001");
    assert_eq!(s.sample(0).srtt, Some(Duration::from_millis(50)));
    // The back-off stays: 500 ms.
    s.write(450, 1000);
    s.us(450, ". 2001:3001");
    s.us(950, ". 2001:3001");
}

#[test]
fn a_timestamp_resolves_the_ambiguity() {
    // RFC 7323 section 4: the echo names the transmission that is answered.
    let mut s = without_probes(50);
    s.write(100, 1000);
    s.us(100, ". 1:1001");
    s.us(350, ". 1:1001");
    s.peer(400, ". ack=1001 ecr=350");
    // A sample of 50 ms ends the back-off: SRTT 50, V 200.
    s.write(500, 1000);
    s.us(500, ". 1001:2001");
    s.us(750, ". 1001:2001");

    // The same acknowledgement echoing the original is a sample of 300 ms: SRTT = 50 + 250/8 = 81.25,
    // V = 3/4 100 + 250 = 325.
    let mut s = without_probes(50);
    s.write(100, 1000);
    s.us(100, ". 1:1001");
    s.us(350, ". 1:1001");
    s.peer(400, ". ack=1001 ecr=100");
    s.write(500, 1000);
    s.us(500, ". 1001:2001");
    s.us(906, ". 1001:2001");
}

#[test]
fn the_time_of_sending_is_trusted_before_an_echo() {
    // `tcp_ack_update_rtt` prefers the segment's own clock; a peer that echoes late does not matter.
    let mut s = without_probes(50);
    s.write(100, 1000);
    s.us(100, ". 1:1001");
    s.peer(150, ". ack=1001 ecr=120");
    assert_eq!(s.sample(0).srtt, Some(Duration::from_millis(50)));
}

#[test]
fn an_acknowledgement_restarts_the_timer() {
    // RFC 6298 (5.3): when new data is acknowledged the timer expires an RTO from then.
    let mut s = without_probes(50);
    s.write(100, 3000);
    for _ in 0..3 {
        s.us(100, ".");
    }
    s.peer(200, ". ack=1001 ecr=150");
    // SRTT = 50 + 50/8 = 56.25 (R' = 100), V = max(3/4 100 + 50, 200) = 200.
    s.us(456, ". 1001:2001");
}

/// A server that has answered the peer's first request at once: an interactive flow, which does not
/// acknowledge quickly (`inet_csk_enter_pingpong_mode`).
fn interactive() -> Script {
    let mut s = Script::plain(50);
    s.peer(100, ". 1:101 ack=1");
    // The first data finds 16 quick acknowledgements (`tcp_enter_quickack_mode`).
    s.us(100, ". 1:1 ack=101");
    s.write(110, 1000);
    s.us(110, ". 1:1001 ack=101");
    s.peer(160, ". ack=1001");
    s
}

#[test]
fn one_segment_waits_40_ms_for_its_acknowledgement() {
    // RFC 9293 section 3.8.6.3 allows 500 ms; `TCP_DELACK_MIN` is 40 ms.
    let mut s = interactive();
    s.peer(300, ". 101:201 ack=1001");
    s.us(340, ". 1001:1001 ack=201");
}

#[test]
fn two_full_segments_are_acknowledged_at_once() {
    // RFC 5681 section 4.2: "at least every second full-sized segment".
    let mut s = interactive();
    s.peer(300, ". 101:1549 ack=1001");
    s.silence(309);
    s.peer(310, ". 1549:2997 ack=1001");
    s.us(310, ". ack=2997");
}

#[test]
fn an_acknowledgement_rides_data() {
    let mut s = interactive();
    s.peer(300, ". 101:201 ack=1001");
    s.write(320, 500);
    s.us(320, ". 1001:1501 ack=201");
    // Nothing is owed any more at 340.
    s.peer(330, ". ack=1501");
    s.silence(400);
}

#[test]
fn out_of_order_data_is_acknowledged_at_once_with_the_latest_block_first() {
    let mut s = interactive();
    // RFC 2018 section 4: the first block holds the segment that caused the acknowledgement; beside
    // timestamps there is room for three.
    s.peer(300, ". 201:301 ack=1001");
    s.us(300, ". ack=101 sack=201:301");
    s.peer(310, ". 401:501 ack=1001");
    s.us(310, ". ack=101 sack=401:501,201:301");
    s.peer(320, ". 601:701 ack=1001");
    s.us(320, ". ack=101 sack=601:701,401:501,201:301");
    // From the fourth on Linux may hold one back, a millisecond at most (`tcp_comp_sack_delay_ns`).
    s.peer(330, ". 301:401 ack=1001");
    s.us_within(0, 330, 331, ". ack=101 sack=201:501,601:701");
    // RFC 5681 section 4.2: filling a gap, wholly or in part, is acknowledged at once.
    s.peer(340, ". 101:201 ack=1001");
    s.us(340, ". ack=501 sack=601:701");
    s.peer(350, ". 501:601 ack=1001");
    assert!(s.us(350, ". ack=701").sack.is_empty());
}

#[test]
fn a_duplicate_is_reported() {
    // RFC 2883 section 4: the first block is the duplicate, even below the acknowledgement.
    let mut s = interactive();
    s.peer(300, ". 1:101 ack=1001");
    s.us(300, ". ack=101 sack=1:101");
    s.peer(310, ". 201:301 ack=1001");
    s.us(310, ". ack=101 sack=201:301");
    s.peer(320, ". 201:301 ack=1001");
    s.us(320, ". ack=101 sack=201:301,201:301");
    // Half of it is new.
    s.peer(330, ". 51:151 ack=1001");
    s.us_within(0, 330, 331, ". ack=151 sack=51:101,201:301");
}

#[test]
fn a_keepalive_is_answered() {
    // RFC 9293 section 3.8.4: an old byte, or none before the window, draws an acknowledgement.
    let mut s = interactive();
    s.peer(300, ". 100:100 ack=1001");
    s.us(300, ". 1001:1001 ack=101");
}

#[test]
fn the_timeout_after_a_probe_counts_from_the_probe() {
    // tcp_send_loss_probe: "Reset s.t. tcp_rearm_rto will restart timer from now".
    let mut s = Script::plain_with(thousands(), 50);
    s.write(100, 2000);
    s.us(100, ". 1:1001");
    s.us(100, ". 1001:2001");
    s.us(202, ". 1001:2001");
    s.us(452, ". 1:1001");
}

#[test]
fn blocks_beside_data_leave_less_room_for_it() {
    // 12 of timestamps, 12 of SACK: the dialect checks that no packet is larger than the link.
    let mut s = Script::plain(50);
    s.peer(100, ". 101:201 ack=1");
    s.us(100, ". ack=1 sack=101:201");
    s.write(110, 5000);
    s.us(110, ". 1:1437 sack=101:201");
    s.us(110, ". 1437:2873 sack=101:201");
}

#[test]
fn a_syn_is_repeated_ten_times_within_67_seconds() {
    // ip-sysctl.rst: 6 `tcp_syn_retries` "correspond to 67 seconds (with tcp_syn_linear_timeouts = 4)
    // till the last retransmission ... the final timeout ... after 131 seconds"
    // (tcp_timer.c, tcp_write_timeout: max_retransmits = 6 + 4).
    let mut s = Script::client(tcp(), 1);
    for ms in [0, 1000, 2000, 3000, 4000, 5000, 7000, 11_000, 19_000, 35_000, 67_000] {
        s.us(ms, "S 0:0");
    }
    s.silence(130_999);
    assert!(!s.has(Event::Closed));
    s.silence(131_001);
    assert!(s.has(Event::Closed));
}

#[test]
fn a_syn_ack_is_repeated_five_times_doubling() {
    // `tcp_synack_retries` is 5; linear timeouts have "no effect on SYNACK" (ip-sysctl.rst).
    let mut s = Script::server(tcp());
    s.peer(0, "S");
    for ms in [0, 1000, 3000, 7000, 15_000, 31_000] {
        s.us(ms, "S. 0:0 ack=1");
    }
    s.silence(120_000);
}

#[test]
fn a_timestamp_measures_a_handshake_that_took_two_tries() {
    // tcp_ack_update_rtt: SYN_ACKED without a clean sample falls back on the echo.
    let mut s = Script::server(tcp());
    s.peer(0, "S");
    s.us(0, "S.");
    s.us(1000, "S.");
    s.peer(1050, ". ecr=1000");
    assert_eq!(s.sample(0).srtt, Some(Duration::from_millis(50)));
}

#[test]
fn a_handshake_that_measured_nothing_leaves_three_seconds() {
    // RFC 6298 (5.7), tcp_metrics.c: `TCP_TIMEOUT_FALLBACK`.
    let mut s = Script::server(tcp());
    s.peer(0, "S nots nosack");
    s.us(0, "S.");
    s.us(1000, "S.");
    s.peer(1050, ".");
    s.write(1100, 1000);
    s.us(1100, ". 1:1001");
    s.us(4100, ". 1:1001");
    s.us(10_100, ". 1:1001");
}

#[test]
fn an_echo_of_nothing_is_no_measurement() {
    // tcp_ack_update_rtt: `rx_opt.rcv_tsecr` 0 is not an echo. The SYN/ACK went twice, so nothing else tells.
    let mut s = Script::server(tcp());
    s.peer(0, "S nosack");
    s.us(0, "S.");
    s.us(1000, "S.");
    let mut third = s.composed(". ack=1");
    third.timestamps.as_mut().expect("timestamps").echo = 0;
    s.deliver(1050, &third);
    assert_eq!(s.sample(0).srtt, None);
    s.write(1100, 1000);
    s.us(1100, ". 1:1001");
    s.us(4100, ". 1:1001");
}

#[test]
fn a_subflow_of_plain_tcp_counts_once_it_is_established() {
    let mut s = Script::client(tcp(), 1);
    let established =
        |s: &mut Script| s.connection().view().summaries().next().map(|one| one.established);
    s.us(0, "S");
    assert_eq!(established(&mut s), Some(false));
    s.peer(50, "S.");
    assert_eq!(established(&mut s), Some(true));
}

#[test]
fn retransmissions_end_after_a_quarter_of_an_hour() {
    // `tcp_retries2` = 15: 0.2 s doubling to 120 s make 924.6 s (tcp_model_timeout); the timer that
    // passes them ends the connection (RFC 9293 section 3.8.3, R2).
    let mut s = Script::plain_after(thousands(), 50, "S nosack");
    s.write(100, 1000);
    s.run_to(crate::dialect::at(1_300_000));
    assert!(s.has(Event::Closed), "still trying: {} times", s.rest().len());
}

#[test]
fn what_the_application_holds_back_does_not_lower_the_delivery_rate() {
    // tcp_rate_check_app_limited, tcp_rate_gen: a sample of a limited phase counts only where it is faster.
    let mut s = Script::plain_with(thousands(), 50);
    s.write(100, 10_000);
    s.peer(150, ". ack=10001");
    // Ten segments in 50 ms.
    let rate = s.sample(0).delivery_rate;
    assert_eq!(rate.bytes_per_second(), 200_000);
    // A segment a round trip: 20 kB/s, were it not for the marks.
    for n in 0..5 {
        s.write(200 + 100 * n, 1000);
        s.peer(250 + 100 * n, &format!(". ack={}", 11_001 + 1000 * n));
        assert_eq!(s.sample(0).delivery_rate, rate, "round {n}");
    }
    // Without a limit less counts too: the window is full again, and half of it is acknowledged late.
    s.write(800, 40_000);
    s.peer(1000, ". ack=25001");
    s.peer(1200, ". ack=35001");
    assert!(s.sample(0).delivery_rate < rate);
}
