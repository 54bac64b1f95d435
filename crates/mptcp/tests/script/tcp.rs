//! The options of the handshake, the times of acknowledgements, and the retransmission timeout.
//!
//! Linux's timeout (`tcp_rtt_estimator`, `__tcp_set_rto`) is that of RFC 6298 with three differences. The
//! minimum is 200 ms for the variation term instead of 1 s for the timeout. The variation rises at once, and
//! falls by a quarter of the difference once per round trip. A falling RTT hardly raises it. In the
//! calculations below, `V` is 4 RTTVAR.

use anabranch_mptcp::{Config, Event};

use anabranch_units::Duration;

use crate::dialect::{Script, tcp, thousands};

/// A server without tail loss probes, which need SACK. The handshake takes `rtt` ms.
fn without_probes(rtt: u64) -> Script {
    Script::plain_after(thousands(), rtt, "S nosack")
}

#[test]
fn syn_ack_window_and_options_match_linux() {
    let mut s = Script::server(tcp());
    s.peer(0, "S");
    // The window of a SYN/ACK is not scaled. The value is half of 128 KiB, in whole segments of 1460 bytes
    // (`tcp_select_initial_window`).
    let answer = s.us(0, "S. 0:0 ack=1 win=64240");
    // A shift of 7 is the smallest for which 65,535 * 2^shift reaches the 6 MiB of `tcp_rmem[2]`.
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
    // RFC 9293 section 3.7.1: space that options do not need is used for payload.
    assert!(s.us(100, ". 1:1461").timestamps.is_none());
    s.us(100, ". 1461:2001");
    // Without SACK, out-of-order data is answered with a bare duplicate acknowledgement.
    s.peer(110, ". 101:201 ack=1");
    assert!(s.us(110, ". 2001:2001 ack=1").sack.is_empty());
}

#[test]
fn a_client_opens_in_three_packets() {
    let mut s = Script::client(tcp(), 1);
    s.us(0, "S 0:0");
    s.peer(50, "S. ack=1");
    s.us(50, ". 1:1 ack=1");
    // RFC 6928: ten segments are sent at once, each with 1448 bytes and timestamps.
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

/// Takes RTT samples with segments of 100 bytes. Then returns the time until a retransmission timeout, in µs.
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
fn rising_rtt_updates_the_rto_as_in_rfc_6298() {
    // R = 100: SRTT 100, V 200. R' = 180 (2.3): RTTVAR = 3/4 50 + 1/4 80 = 57.5, V = 230;
    // SRTT = 7/8 100 + 1/8 180 = 110; RTO = 110 + 230.
    assert_eq!(timeout_after(&[100, 180]), 340_000);
    // R'' = 300: RTTVAR = 3/4 57.5 + 1/4 190 = 90.625, V = 362.5; SRTT = 7/8 110 + 300/8 = 133.75.
    assert_eq!(timeout_after(&[100, 180, 300]), 496_250);
}

#[test]
fn a_steady_rtt_lowers_the_variation_by_a_quarter_of_the_gap_and_no_deeper_than_200_ms() {
    // R = 200: SRTT 200, V 400. Each further sample of 200 belongs to a separate round trip. The first one
    // ends a round trip whose largest deviation is 400, so V stays. After that, the largest deviation has a
    // minimum of 200. V falls to 350, 312.5 and 284.375, where RFC 6298 has 300, 225 and 168.75.
    assert_eq!(timeout_after(&[200, 200]), 600_000);
    // The largest deviation of the second round trip is 400 * 3/4 * 3/4 = 225, so V = 400 - 175/4 = 356.25.
    assert_eq!(timeout_after(&[200, 200, 200]), 556_250);
    // 225 * 3/4 = 168.75 is below 200, so V = 356.25 - 156.25/4 = 317.1875.
    assert_eq!(timeout_after(&[200, 200, 200, 200]), 517_188);
    // V - 200 shrinks to 3/4 per round trip. After 40 of them, 156.25 * (3/4)^40 is 1.6 µs.
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
    // A rise of the same size is used completely: SRTT = 222.5, V = 480.
    assert_eq!(timeout_after(&[200, 380]), 702_500);
}

#[test]
fn the_timeout_doubles_until_two_minutes() {
    let mut s = without_probes(50);
    s.write(100, 1000);
    s.us(100, ". 1:1001");
    // RFC 6298 (5.5): the timeout doubles, starting at 250 ms. Linux's `TCP_RTO_MAX` is 120 s.
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
    // Karn (RFC 6298 section 3): without timestamps, it is unknown which transmission was acknowledged.
    let mut s = Script::plain_after(Config { mss: 1000, ..tcp() }, 50, "S nosack nots");
    s.write(100, 1000);
    s.us(100, ". 1:1001");
    s.us(350, ". 1:1001");
    s.us(850, ". 1:1001");
    s.peer(900, ". ack=1001");
    assert_eq!(s.sample(0).srtt, Some(Duration::from_millis(50)));
    s.write(1000, 1000);
    s.us(1000, ". 1001:2001");
    // 250 ms were doubled twice. The first unambiguous sample, 60 ms, ends the backoff: SRTT = 51.25, V =
    // 200.
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
fn ack_that_covers_a_retransmission_gives_no_rtt_sample() {
    // `tcp_clean_rtx_queue`, FLAG_RETRANS_DATA_ACKED: the acknowledgement of the second segment was delayed
    // by the loss of the first.
    let mut s = Script::plain_after(Config { mss: 1000, ..tcp() }, 50, "S nosack nots");
    s.write(100, 2000);
    s.us(100, ". 1:1001");
    s.us(100, ". 1001:2001");
    s.us(350, ". 1:1001");
    s.peer(400, ". ack=2001");
    assert_eq!(s.sample(0).srtt, Some(Duration::from_millis(50)));
    // The backoff remains: 500 ms.
    s.write(450, 1000);
    s.us(450, ". 2001:3001");
    s.us(950, ". 2001:3001");
}

#[test]
fn a_timestamp_resolves_the_ambiguity() {
    // RFC 7323 section 4: the echo identifies the transmission that was acknowledged.
    let mut s = without_probes(50);
    s.write(100, 1000);
    s.us(100, ". 1:1001");
    s.us(350, ". 1:1001");
    s.peer(400, ". ack=1001 ecr=350");
    // A sample of 50 ms ends the backoff: SRTT 50, V 200.
    s.write(500, 1000);
    s.us(500, ". 1001:2001");
    s.us(750, ". 1001:2001");

    // If the echo is that of the original, the sample is 300 ms: SRTT = 50 + 250/8 = 81.25, V = 3/4 * 100 +
    // 250 = 325.
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
    // `tcp_ack_update_rtt` prefers the stored send time. A late echo of the peer therefore has no effect.
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

/// A server that answered the peer's first request at once. The flow counts as interactive, so
/// acknowledgements are delayed (`inet_csk_enter_pingpong_mode`).
fn interactive() -> Script {
    let mut s = Script::plain(50);
    s.peer(100, ". 1:101 ack=1");
    // The first data uses one of 16 quick acknowledgements (`tcp_enter_quickack_mode`).
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
    // The delayed acknowledgement of 340 ms was sent with the data.
    s.peer(330, ". ack=1501");
    s.silence(400);
}

#[test]
fn out_of_order_data_is_acknowledged_at_once_with_the_latest_block_first() {
    let mut s = interactive();
    // RFC 2018 section 4: the first block contains the segment that caused the acknowledgement. With
    // timestamps there is space for three blocks.
    s.peer(300, ". 201:301 ack=1001");
    s.us(300, ". ack=101 sack=201:301");
    s.peer(310, ". 401:501 ack=1001");
    s.us(310, ". ack=101 sack=401:501,201:301");
    s.peer(320, ". 601:701 ack=1001");
    s.us(320, ". ack=101 sack=601:701,401:501,201:301");
    // From the fourth on, Linux may delay an acknowledgement by at most a millisecond
    // (`tcp_comp_sack_delay_ns`).
    s.peer(330, ". 301:401 ack=1001");
    s.us_within(0, 330, 331, ". ack=101 sack=201:501,601:701");
    // RFC 5681 section 4.2: a segment that fills all or part of a gap is acknowledged at once.
    s.peer(340, ". 101:201 ack=1001");
    s.us(340, ". ack=501 sack=601:701");
    s.peer(350, ". 501:601 ack=1001");
    assert!(s.us(350, ". ack=701").sack.is_empty());
}

#[test]
fn a_duplicate_is_reported() {
    // RFC 2883 section 4: the first block reports the duplicate, even if it lies below the acknowledgement.
    let mut s = interactive();
    s.peer(300, ". 1:101 ack=1001");
    s.us(300, ". ack=101 sack=1:101");
    s.peer(310, ". 201:301 ack=1001");
    s.us(310, ". ack=101 sack=201:301");
    s.peer(320, ". 201:301 ack=1001");
    s.us(320, ". ack=101 sack=201:301,201:301");
    // Half of this segment is new.
    s.peer(330, ". 51:151 ack=1001");
    s.us_within(0, 330, 331, ". ack=151 sack=51:101,201:301");
}

#[test]
fn a_keepalive_is_answered() {
    // RFC 9293 section 3.8.4: a segment with an old byte, or an empty one below the window, is answered with
    // an acknowledgement.
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
    // 12 bytes of timestamps and 12 of SACK. The dialect checks that no packet exceeds the MTU.
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
    // tcp_ack_update_rtt: if SYN_ACKED has no unambiguous sample, the echo is used.
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
    // tcp_ack_update_rtt: an `rx_opt.rcv_tsecr` of 0 is not an echo. The SYN/ACK was sent twice, so there is
    // no other sample.
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
    // `tcp_retries2` = 15: 0.2 s doubling up to 120 s make 924.6 s (tcp_model_timeout). The first timeout
    // after that ends the connection (RFC 9293 section 3.8.3, R2).
    let mut s = Script::plain_after(thousands(), 50, "S nosack");
    s.write(100, 1000);
    s.run_to(crate::dialect::at(1_300_000));
    assert!(s.has(Event::Closed), "still trying: {} times", s.rest().len());
}

#[test]
fn app_limited_samples_do_not_lower_the_delivery_rate() {
    // tcp_rate_check_app_limited, tcp_rate_gen: an application-limited sample is used only if it is higher
    // than the current rate.
    let mut s = Script::plain_with(thousands(), 50);
    s.write(100, 10_000);
    s.peer(150, ". ack=10001");
    // Ten segments are delivered in 50 ms.
    let rate = s.sample(0).delivery_rate;
    assert_eq!(rate.bytes_per_second(), 200_000);
    // One segment per round trip would give 20 kB/s if the samples were not marked.
    for n in 0..5 {
        s.write(200 + 100 * n, 1000);
        s.peer(250 + 100 * n, &format!(". ack={}", 11_001 + 1000 * n));
        assert_eq!(s.sample(0).delivery_rate, rate, "round {n}");
    }
    // Samples that are not application-limited may lower the rate. The window is full again, and half of it
    // is acknowledged late.
    s.write(800, 40_000);
    s.peer(1000, ". ack=25001");
    s.peer(1200, ". ack=35001");
    assert!(s.sample(0).delivery_rate < rate);
}
