//! Loss detection: RACK and tail loss probes (RFC 8985; Linux `tcp_recovery.c`, `tcp_output.c`), and the
//! detection of spurious retransmissions (RFC 2883, RFC 4015, RFC 5682).
//!
//! The RTT of the path is always 50 ms. The reordering window is a quarter of the minimum RTT, 12.5 ms (RFC
//! 8985 section 6.2), and its timer is 2 ms longer (`TCP_TIMEOUT_MIN_US`). The retransmission timeout is 250
//! ms.

use anabranch_congestion::CongestionState;
use anabranch_mptcp::Config;
use anabranch_units::Duration;

use crate::dialect::{Script, tcp, thousands};

/// Ten segments of 1000 bytes, the initial window, sent at 100 ms.
fn ten_sent() -> Script {
    sent(Script::plain_with(thousands(), 50), 10_000)
}

/// Like [`ten_sent`], on a path without timestamps.
fn ten_sent_without_timestamps() -> Script {
    sent(Script::plain_after(Config { mss: 1000, ..tcp() }, 50, "S nots"), 10_000)
}

fn sent(mut s: Script, bytes: usize) -> Script {
    s.write(100, bytes);
    for n in 0..10 {
        s.us(100, &format!(". {}:{}", 1 + 1000 * n, 1001 + 1000 * n));
    }
    s.silence(149);
    s
}

#[test]
fn the_third_sacked_segment_makes_the_first_one_lost_at_once() {
    let mut s = ten_sent();
    s.peer(150, ". ack=1 sack=1001:2001");
    s.peer(151, ". ack=1 sack=1001:3001");
    s.silence(151);
    assert_eq!(s.sample(0).state, CongestionState::Disorder);
    // RFC 8985 section 6.2 step 4: DupThresh is reached without reordering, so the reordering window is 0.
    s.peer(152, ". ack=1 sack=1001:4001");
    s.us(152, ". 1:1001");
    assert_eq!(s.sample(0).state, CongestionState::Recovery);
    // Reno halves the window of ten.
    assert_eq!(s.sample(0).ssthresh_segments, 5);
}

#[test]
fn three_segments_in_one_acknowledgement_do_as_well() {
    let mut s = ten_sent();
    s.peer(150, ". ack=1 sack=1001:2001,3001:4001,5001:6001");
    // Segments 1, 3 and 5 were sent before the sixth. PRR permits one retransmission.
    s.us(150, ". 1:1001");
}

#[test]
fn two_sacked_segments_wait_for_the_reordering_window() {
    let mut s = ten_sent();
    s.peer(150, ". ack=1 sack=1001:2001");
    s.peer(151, ". ack=1 sack=1001:3001");
    // RACK.rtt = 51. The first segment was sent at 100 ms and is lost at 100 + 51 + 12.5; the timer is 2 ms
    // later.
    s.us(165, ". 1:1001");
    assert_eq!(s.sample(0).state, CongestionState::Recovery);
}

#[test]
fn a_segment_that_comes_within_the_reordering_window_is_not_lost() {
    let mut s = ten_sent();
    s.peer(150, ". ack=1 sack=1001:2001");
    s.peer(160, ". ack=3001");
    s.peer(170, ". ack=10001");
    s.silence(2000);
    assert_eq!(s.sample(0).state, CongestionState::Open);
    assert_eq!(s.sample(0).totals.retransmissions, 0);
}

#[test]
fn once_reordering_was_seen_three_segments_are_not_enough() {
    let mut s = ten_sent();
    s.peer(150, ". ack=1 sack=1001:2001");
    // The original fills a hole below the highest SACK: reordering (`tcp_check_sack_reordering`).
    s.peer(155, ". ack=2001");
    s.peer(156, ". ack=2001 sack=3001:6001");
    s.silence(169);
    // RACK.rtt = 56: the timer expires at 100 + 56 + 12.5 + 2 ms.
    s.us(170, ". 2001:3001");
}

#[test]
fn an_original_sacked_below_the_highest_is_reordering_too() {
    // `tcp_sacktag_one`: a SACK for data that was sent once, below the highest SACKed byte.
    let mut s = ten_sent();
    s.peer(150, ". ack=1 sack=5001:6001");
    s.peer(152, ". ack=1 sack=1001:2001,5001:6001");
    // Three segments are SACKed, but the reordering window is still used.
    s.peer(153, ". ack=1 sack=5001:7001,1001:2001");
    s.silence(166);
    // RACK.rtt = 53: the timer expires at 100 + 53 + 12.5 + 2 ms.
    s.us(167, ". 1:1001");
}

#[test]
fn only_segments_sent_before_the_sacked_one_are_lost() {
    let mut s = ten_sent();
    s.peer(150, ". ack=1 sack=4001:5001");
    // Segments 1 to 4 are marked lost at the end of the window. 6 to 10 were sent after the fifth.
    let first = s.us(164, ". 1:1001");
    assert_eq!(first.payload.len(), 1000);
    // 10 outstanding - 4 lost - 1 SACKed + 1 retransmitted = 6.
    assert_eq!(s.sample(0).in_flight_segments, 6);
}

#[test]
fn lost_retransmission_is_detected_by_later_segments() {
    let mut s = sent(Script::plain_with(thousands(), 50), 40_000);
    // Limited transmit (RFC 3042): each SACKed segment permits a new one.
    s.peer(150, ". ack=1 sack=1001:2001");
    s.us(150, ". 10001:11001");
    s.peer(151, ". ack=1 sack=1001:3001");
    s.us(151, ". 11001:12001");
    s.peer(152, ". ack=1 sack=1001:4001");
    s.us(152, ". 1:1001");
    // Proportional part of PRR with ssthresh 5 of 10: every second acknowledgement permits a new segment.
    s.peer(153, ". ack=1 sack=1001:5001");
    s.peer(154, ". ack=1 sack=1001:6001");
    s.us(154, ". 12001:13001");
    s.peer(155, ". ack=1 sack=1001:7001");
    s.peer(156, ". ack=1 sack=1001:8001");
    s.us(156, ". 13001:14001");
    // The segments of 150 and 151 ms were sent before the retransmission, so their SACK does not show that it
    // was lost.
    s.peer(200, ". ack=1 sack=1001:8001,10001:12001");
    let said = s.rest();
    assert!(said.iter().all(|(_, _, line)| !line.contains(" 1:1001")), "{said:?}");
    // The segment of 154 ms was sent after the retransmission, and RACK.rtt = 50 has passed since 152 ms. The
    // retransmission is lost. In recovery, the reordering window is 0.
    s.peer(204, ". ack=1 sack=1001:8001,10001:13001");
    s.us(204, ". 1:1001");
    assert_eq!(s.sample(0).totals.retransmissions, 2 + 2, "8001 and 9001 as well");
}

#[test]
fn a_late_acknowledgement_of_the_original_is_no_rtt_of_the_retransmission() {
    // RFC 8985 section 6.2 step 2: a sample below the minimum RTT belongs to the original.
    let mut s = ten_sent_without_timestamps();
    s.peer(152, ". ack=1 sack=1001:4001");
    s.us(152, ". 1:1001");
    s.peer(160, ". ack=4001");
    // If RACK used 8 ms as the RTT, segments 5 to 10, sent at 100 ms, would be lost by now.
    s.silence(200);
    assert_eq!(s.sample(0).totals.retransmissions, 1);
}

#[test]
fn a_probe_repeats_the_last_segment_after_two_round_trips() {
    // RFC 8985 section 7.2: PTO = 2 SRTT. Linux adds 2 ms (`TCP_TIMEOUT_MIN_US`).
    let mut s = ten_sent();
    s.silence(201);
    s.us(202, ". 9001:10001");
    assert_eq!(s.sample(0).state, CongestionState::Open);
    // Only one probe may be outstanding (section 7.3).
    s.silence(300);
}

#[test]
fn a_probe_prefers_new_data() {
    let mut s = sent(Script::plain_with(thousands(), 50), 12_000);
    s.us(202, ". 10001:11001");
    s.silence(300);
}

#[test]
fn a_lone_segment_is_probed_when_the_timeout_would_come() {
    // 2 SRTT + 200 ms for a delayed acknowledgement (`TCP_RTO_MIN`), limited by the retransmission timeout.
    let mut s = Script::plain_with(thousands(), 50);
    s.write(100, 1000);
    s.us(100, ". 1:1001");
    s.us(350, ". 1:1001");
    assert_eq!(s.sample(0).state, CongestionState::Open, "a probe, no timeout");
    // The retransmission timeout starts at the probe.
    s.us(600, ". 1:1001");
    assert_eq!(s.sample(0).state, CongestionState::Loss);
}

#[test]
fn tail_loss_probe_reveals_earlier_losses() {
    let mut s = ten_sent();
    s.peer(150, ". ack=7001");
    // The last three segments are lost. RFC 8985 section 7.1: the SACK of the probe starts fast recovery.
    s.us(252, ". 9001:10001");
    s.peer(302, ". ack=7001 sack=9001:10001");
    // Segment 7001 was sent 202 ms ago, more than RACK.rtt + 12.5 = 62.5 ms. It is lost at once.
    s.us(302, ". 7001:8001");
    assert_eq!(s.sample(0).state, CongestionState::Recovery);
}

#[test]
fn a_probe_that_was_a_duplicate_leaves_the_window() {
    let mut s = ten_sent();
    s.us(202, ". 9001:10001");
    // RFC 8985 section 7.4.2: data after the probe is acknowledged, and the probe is reported as a duplicate.
    // Nothing was lost.
    s.peer(210, ". ack=10001");
    s.peer(252, ". ack=10001 sack=9001:10001");
    s.write(260, 1000);
    s.us(260, ". 10001:11001");
    s.peer(310, ". ack=11001");
    assert_eq!(s.sample(0).ssthresh_segments, u32::MAX);
    assert!(s.cwnd() >= 10);
}

#[test]
fn a_duplicate_reported_beside_newer_data_clears_a_probe() {
    let mut s = Script::plain_with(thousands(), 50);
    s.write(100, 5000);
    s.rest();
    s.us(202, ". 4001:5001");
    s.write(205, 1000);
    s.us(205, ". 5001:6001");
    // RFC 8985 section 7.4.2: the probe is reported as a duplicate (`FLAG_DSACK_TLP`).
    s.peer(255, ". ack=6001 sack=4001:5001");
    assert_eq!(s.sample(0).ssthresh_segments, u32::MAX);
    // Without that report, the probe repaired a loss.
    let mut s = Script::plain_with(thousands(), 50);
    s.write(100, 5000);
    s.rest();
    s.us(202, ". 4001:5001");
    s.write(205, 1000);
    s.us(205, ". 5001:6001");
    s.peer(255, ". ack=6001");
    assert_eq!(s.sample(0).ssthresh_segments, 5);
}

#[test]
fn a_probe_that_repaired_a_loss_halves_the_window() {
    let mut s = ten_sent();
    s.peer(150, ". ack=9001");
    // Nine segments were acknowledged in slow start.
    assert_eq!(s.cwnd(), 19);
    // The probe of a lone segment is sent min(2 SRTT + 200, RTO) after the acknowledgement.
    s.us(400, ". 9001:10001");
    s.peer(450, ". ack=10001");
    assert_eq!(s.sample(0).ssthresh_segments, u32::MAX, "its original may still have come");
    s.write(460, 1000);
    s.us(460, ". 10001:11001");
    let before = s.cwnd();
    // RFC 8985 section 7.4.2: no duplicate is reported, so the probe was the first copy to arrive.
    s.peer(510, ". ack=11001");
    assert_eq!((s.sample(0).ssthresh_segments, s.cwnd()), (before / 2, before / 2));
    assert_eq!(s.sample(0).state, CongestionState::Open, "reduced at once");
}

#[test]
fn timeout_does_not_mark_recent_segments_lost() {
    // RFC 8985 section 6.3: the head is lost, and so are segments older than RACK.rtt + the reordering
    // window.
    let mut s = Script::plain_after(thousands(), 50, "S nosack");
    s.write(50, 1000);
    s.us(50, ". 1:1001");
    s.peer(100, ". ack=1001");
    s.write(100, 1000);
    s.us(100, ". 1001:2001");
    s.write(320, 1000);
    s.us(320, ". 2001:3001");
    // RACK.rtt is 50 ms, and 30 ms have passed.
    s.us(350, ". 1001:2001");
    let sample = s.sample(0);
    assert_eq!(sample.state, CongestionState::Loss);
    // RFC 5681 equation 4 as in Linux, and cwnd = segments in flight + 1.
    assert_eq!((sample.ssthresh_segments, sample.cwnd_segments), (5, 2));
    assert_eq!(sample.in_flight_segments, 2, "the second segment still counts");
}

#[test]
fn a_duplicate_report_undoes_a_needless_recovery() {
    let mut s = ten_sent_without_timestamps();
    s.peer(152, ". ack=1 sack=1001:4001");
    s.us(152, ". 1:1001");
    assert_eq!(s.sample(0).ssthresh_segments, 5);
    // All data and the duplicate of the only retransmission are reported (RFC 2883, `tcp_try_undo_recovery`).
    s.peer(202, ". ack=10001 sack=1:1001");
    let sample = s.sample(0);
    assert_eq!((sample.ssthresh_segments, sample.totals.undos), (u32::MAX, 1));
    assert!(sample.cwnd_segments >= 10, "{}", sample.cwnd_segments);
}

#[test]
fn a_needed_recovery_is_not_undone() {
    for script in [ten_sent, ten_sent_without_timestamps] {
        let mut s = script();
        s.peer(152, ". ack=1 sack=1001:4001");
        s.us(152, ". 1:1001");
        s.peer(160, ". ack=1 sack=1001:10001");
        s.peer(202, ". ack=10001 ecr=152");
        let sample = s.sample(0);
        assert_eq!((sample.ssthresh_segments, sample.cwnd_segments), (5, 5));
        assert_eq!(sample.totals.undos, 0);
    }
}

#[test]
fn the_echo_of_an_original_undoes_a_recovery() {
    // RFC 4015: the acknowledgement of the retransmission echoes the timestamp of an earlier segment.
    let mut s = ten_sent();
    s.peer(152, ". ack=1 sack=1001:4001");
    s.us(152, ". 1:1001");
    s.peer(160, ". ack=10001 ecr=100");
    let sample = s.sample(0);
    assert_eq!((sample.ssthresh_segments, sample.totals.undos), (u32::MAX, 1));
    assert!(sample.cwnd_segments >= 10, "{}", sample.cwnd_segments);
}

/// Three segments whose acknowledgements are late, so that the timer expires. No timestamps and no SACK.
fn timed_out() -> Script {
    let mut s = Script::plain_after(Config { mss: 1000, ..tcp() }, 50, "S nots nosack");
    s.write(100, 3000);
    for _ in 0..3 {
        s.us(100, ".");
    }
    s.us(350, ". 1:1001");
    assert_eq!(s.sample(0).cwnd_segments, 1);
    s.write(360, 5000);
    s
}

#[test]
fn new_data_acknowledged_after_a_timeout_proves_it_spurious() {
    let mut s = timed_out();
    // RFC 5682 section 2.1 step 2b: the first acknowledgement advances, so two new segments are sent.
    s.peer(370, ". ack=1001");
    s.us(370, ". 3001:4001");
    s.us(370, ". 4001:5001");
    s.silence(379);
    // Step 3b: the second acknowledgement covers data that was sent once, so the timeout was spurious.
    s.peer(380, ". ack=2001");
    let sample = s.sample(0);
    assert_eq!((sample.ssthresh_segments, sample.totals.undos), (u32::MAX, 1));
    assert_eq!(sample.state, CongestionState::Open);
    assert!(sample.cwnd_segments >= 10);
}

#[test]
fn an_original_that_is_reported_after_a_timeout_proves_it_spurious() {
    // RFC 5682 section 3.1 step 3b, tcp_sacktag_one: FLAG_ORIG_SACK_ACKED requires data that was sent once,
    // before the timeout. The last segment was sent twice, as a probe.
    for (block, spurious) in [("4001:5001", true), ("9001:10001", false)] {
        let mut s = ten_sent_without_timestamps();
        let said = s.rest_until(600);
        let repeated: Vec<_> =
            said.iter().filter_map(|(_, _, line)| line.split(' ').nth(1)).collect();
        assert_eq!(repeated, ["9001:10001", "1:1001"], "a probe, and the timeout");
        assert_eq!((s.cwnd(), s.sample(0).state), (1, CongestionState::Loss));
        s.peer(600, &format!(". ack=1 sack={block}"));
        assert_eq!(s.sample(0).totals.undos, u64::from(spurious), "{block}");
        assert_eq!(s.sample(0).ssthresh_segments == u32::MAX, spurious, "{block}");
    }
}

#[test]
fn duplicate_ack_after_a_timeout_without_sack_sends_no_data() {
    // tcp_process_loss: duplicates are counted only after new data was sent. Earlier ones may be caused by
    // the originals.
    let mut s = Script::plain_after(Config { mss: 1000, ..tcp() }, 50, "S nots nosack");
    s.write(100, 3000);
    s.rest();
    s.us(350, ". 1:1001");
    s.peer(400, ". ack=1");
    s.peer(410, ". ack=1");
    s.silence(849);
}

#[test]
fn duplicates_of_one_round_trip_widen_the_reordering_window_once() {
    // tcp_rack_update_reo_wnd: DSACKs widen the window again only after a segment sent since the last
    // widening was delivered (rs->prior_delivered); RFC 8985 section 6.2 step 4: "per round trip".
    let mut s = Script::plain_after(Config { mss: 1000, ..tcp() }, 50, "S nots");
    s.write(100, 60_000);
    // Ten segments are outstanding. The second arrives after the sixth. Then 1 and 3 are retransmitted too
    // early, both originals arrive, and both copies are reported.
    s.peer(150, ". ack=1 sack=5001:6001");
    s.peer(151, ". ack=1 sack=1001:2001,3001:6001");
    s.peer(152, ". ack=1 sack=1001:2001,3001:8001");
    s.peer(201, ". ack=1 sack=1001:2001,3001:14001");
    let said = s.rest();
    for copy in [". 1:1001 ", ". 2001:3001 "] {
        let times = said.iter().filter(|(_, _, line)| line.starts_with(copy)).count();
        assert_eq!(times, 2, "{said:?}");
    }
    s.peer(202, ". ack=14001");
    s.peer(216, ". ack=15001 sack=1:1001");
    s.peer(251, ". ack=16001 sack=2001:3001");
    s.rest();
    // All data is acknowledged. Then a reordered segment shows the length of the timer: min_rtt / 4 * 2
    // steps.
    let mut ms = 301;
    while s.sample(0).in_flight_segments > 0 {
        let acked = s.sent_on(0) + 1;
        s.peer(ms, &format!(". ack={acked}"));
        s.rest();
        ms += 50;
    }
    s.write(1000, 5000);
    let first = s.sent_on(0) - 4999;
    s.rest();
    s.peer(1050, &format!(". ack={first} sack={}:{}", first + 1000, first + 2000));
    // A deferred burst was sent a millisecond after the acknowledgement that permitted it
    // (`tcp_tso_should_defer`). The timer expires at 1000 + 50 + 2 * 49 / 4 + 2 ms.
    assert_eq!(s.sample(0).min_rtt, Some(Duration::from_millis(49)));
    s.us(1076, &format!(". {first}:{}", first + 1000));
}

#[test]
fn a_duplicate_report_that_advances_nothing_undoes_in_recovery() {
    // tcp_fastretrans_alert, TCP_CA_Recovery: tcp_try_undo_dsack runs even if SND.UNA did not advance.
    let mut s = ten_sent_without_timestamps();
    s.peer(152, ". ack=1 sack=1001:4001");
    s.us(152, ". 1:1001");
    s.peer(160, ". ack=4001");
    s.peer(202, ". ack=4001 sack=1:1001");
    assert_eq!((s.sample(0).ssthresh_segments, s.sample(0).totals.undos), (u32::MAX, 1));
}

#[test]
fn a_duplicate_after_a_timeout_proves_it_right() {
    // RFC 5682 section 2.1, for connections without SACK (tcp_process_loss: num_dupack).
    let mut s = Script::plain_after(Config { mss: 1000, ..tcp() }, 50, "S nots nosack");
    s.write(100, 3000);
    s.rest();
    s.us(350, ". 1:1001");
    s.write(360, 5000);
    s.peer(400, ". ack=1001");
    s.us(400, ". 3001:4001");
    s.us(400, ". 4001:5001");
    // Step 3a: SND.UNA does not advance, so the rest of the window is lost and is sent again in slow start.
    s.peer(450, ". ack=1001");
    s.us(450, ". 1001:2001");
    assert_eq!(s.sample(0).ssthresh_segments, 5);
    assert_eq!(s.sample(0).totals.undos, 0);
}

#[test]
fn three_duplicate_acknowledgements_mean_loss_where_there_is_no_sack() {
    // RFC 5681 section 3.2, RFC 6582; tcp_add_reno_sack, tcp_newreno_mark_lost.
    let mut s = Script::plain_after(Config { mss: 1000, ..tcp() }, 50, "S nots nosack");
    s.write(100, 10_000);
    s.rest();
    for ms in [150, 151, 152] {
        s.peer(ms, ". ack=1");
    }
    s.us(152, ". 1:1001");
}

#[test]
fn partial_acknowledgements_find_the_other_losses_where_there_is_no_sack() {
    // RFC 6582 section 3.2: the first and the fourth of ten segments are lost.
    let mut s = Script::plain_after(Config { mss: 1000, ..tcp() }, 50, "S nots nosack");
    s.write(100, 20_000);
    s.rest();
    for ms in 150..158 {
        s.peer(ms, ". ack=1");
    }
    // Each of the first two duplicates permits a new segment (RFC 3042).
    assert_eq!(s.sample(0).totals.retransmissions, 1);
    assert_eq!(s.sample(0).ssthresh_segments, 5);
    s.rest();
    // The first segment arrived. The fourth is retransmitted at once without another reduction.
    s.peer(202, ". ack=3001");
    s.us(202, ". 3001:4001");
    s.rest();
    assert_eq!(s.sample(0).state, CongestionState::Recovery);
    // All data from before the recovery is acknowledged. Recovery is held, because duplicates may still
    // arrive.
    s.peer(252, ". ack=12001");
    assert_eq!(s.sample(0).state, CongestionState::Recovery);
    s.peer(255, ". ack=13001");
    let sample = s.sample(0);
    assert_eq!((sample.state, sample.ssthresh_segments), (CongestionState::Open, 5));
    assert_eq!(sample.totals.retransmissions, 2);
}

#[test]
fn in_recovery_two_round_trips_are_not_waited_for() {
    // RFC 8985 section 6.2 step 4: in recovery the reordering window is 0, even after few SACKs.
    let mut s = ten_sent();
    s.peer(150, ". ack=1 sack=1001:4001");
    s.us(150, ". 1:1001");
    s.rest();
    // The SACKed segment is the newest delivered one. Its sample, 99 ms after it was sent, is a millisecond
    // below the minimum.
    s.peer(199, ". ack=4001 ecr=150 sack=6001:7001");
    let said = s.rest();
    assert!(said.iter().any(|(_, _, line)| line.starts_with(". 4001:5001 ")), "{said:?}");
}
