//! Reports about the path's MTU (RFC 1191, RFC 8201; Linux's `tcp_v4_err`, `tcp_v4_mtu_reduced`,
//! `tcp_simple_retransmit`).

use anabranch_congestion::CongestionState;
use anabranch_mptcp::Config;
use anabranch_plugin::PluginChoice;

use crate::dialect::{Script, at, config, thousands};

/// Ten segments of 1000 bytes, the initial window, are sent at 100 ms in packets of 1052 bytes. An MTU of 652
/// permits segments of 600.
fn ten_sent(more: usize) -> Script {
    let mut s = Script::plain_with(thousands(), 50);
    s.write(100, 10_000 + more);
    for n in 0..10 {
        s.us(100, &format!(". {}:{}", 1 + 1000 * n, 1001 + 1000 * n));
    }
    s.silence(149);
    s
}

/// Returns the ranges sent since the last call.
fn ranges(s: &mut Script) -> Vec<String> {
    let range = |line: &str| line.split(' ').nth(1).expect("a range").to_owned();
    s.rest().iter().map(|(_, _, line)| range(line)).collect()
}

#[test]
fn oversized_segments_are_resent_in_pieces_at_the_same_window() {
    // tcp_simple_retransmit: all segments larger than the new size are lost, and "don't muck with the
    // congestion window here".
    let mut s = ten_sent(30_000);
    assert!(s.path_mtu(0, 150, 652, 1));
    let pieces = ["1:601", "601:1001", "1001:1601", "1601:2001", "2001:2601"];
    let said = ranges(&mut s);
    assert_eq!((&said[..5], said.len()), (&pieces.map(str::to_owned)[..], 10), "a window of ten");
    let sample = s.sample(0);
    assert_eq!((sample.cwnd_segments, sample.ssthresh_segments), (10, u32::MAX));
    assert_eq!((sample.state, sample.totals.timeouts), (CongestionState::Loss, 0));
    // The other half is retransmitted as these are acknowledged. New data follows in segments of the new
    // size.
    s.peer(200, ". ack=5001");
    let said = ranges(&mut s);
    assert_eq!(&said[..2], ["5001:5601", "5601:6001"]);
    assert_eq!(&said[10..12], ["10001:10601", "10601:11201"]);
    s.peer(250, ". ack=11201");
    assert_eq!(s.sample(0).state, CongestionState::Open);
    assert!(s.cwnd() > 10, "slow start goes on");
}

#[test]
fn segments_that_fit_the_new_path_mtu_are_not_resent() {
    let mut s = Script::plain_with(Config { nodelay: true, ..thousands() }, 50);
    for length in [1000, 500, 600] {
        s.write(100, length);
    }
    s.rest();
    assert!(s.path_mtu(0, 120, 652, 1));
    assert_eq!(ranges(&mut s), ["1:601", "601:1001"]);
    s.peer(170, ". ack=2101");
    assert_eq!(s.sample(0).state, CongestionState::Open);
    // Data that the peer has SACKed is not lost either, because it passed before the path changed.
    let mut s = ten_sent(0);
    s.peer(150, ". ack=1 sack=1001:9001");
    s.rest();
    s.path_mtu(0, 151, 652, 1);
    s.run_to(at(180));
    assert_eq!(ranges(&mut s), ["1:601", "601:1001", "9001:9601", "9601:10001"]);
}

#[test]
fn path_mtu_error_outside_the_flight_is_ignored() {
    // tcp_v4_err: `between(seq, snd_una, snd_nxt)`; RFC 5927 section 4.1.
    for (position, believed) in
        [(0, false), (1, true), (5500, true), (10_001, true), (10_002, false)]
    {
        let mut s = ten_sent(0);
        assert_eq!(s.path_mtu(0, 150, 652, position), believed, "{position}");
        assert_eq!(s.rest().is_empty(), !believed, "{position}");
    }
    let mut s = ten_sent(0);
    s.peer(150, ". ack=10001");
    assert!(!s.path_mtu(0, 160, 652, 5001), "it was acknowledged");
}

#[test]
fn an_mtu_that_segments_keep_changes_nothing() {
    let mut s = ten_sent(0);
    assert!(!s.path_mtu(0, 150, 1052, 1) && !s.path_mtu(0, 150, 1500, 1));
    s.silence(160);
    assert_eq!(s.sample(0).state, CongestionState::Open);
    // The same report arrives again, because of the other dropped packets.
    let mut s = ten_sent(0);
    assert!(s.path_mtu(0, 150, 652, 1));
    s.rest();
    assert!(!s.path_mtu(0, 150, 652, 1001));
    s.silence(160);
}

#[test]
fn path_mtu_below_the_minimum_is_raised_to_it() {
    // ip_rt_min_pmtu: an MTU of 552 leaves 552 - 40 - 12 bytes (timestamps).
    let mut s = ten_sent(0);
    assert!(s.path_mtu(0, 150, 68, 1));
    assert_eq!(ranges(&mut s)[..2], ["1:501", "501:1001"]);
}

#[test]
fn without_sack_it_is_the_same() {
    let mut s = Script::plain_after(thousands(), 50, "S nosack");
    s.write(100, 5000);
    s.rest();
    assert!(s.path_mtu(0, 150, 652, 1));
    assert_eq!(ranges(&mut s).len(), 10);
    // The state is kept until newer data is acknowledged (tcp_is_non_sack_preventing_reopen).
    s.peer(200, ". ack=5001");
    s.write(210, 600);
    s.us(210, ". 5001:5601");
    s.peer(260, ". ack=5601");
    assert_eq!(s.sample(0).state, CongestionState::Open);
}

#[test]
fn pieces_keep_the_mapping_that_they_were_sent_under() {
    // RFC 8684 section 3.3.1: a mapping does not change. 1500 - 40 - 12 (timestamps) - 28 (DSS) = 1420.
    let mut s = Script::multipath(config(), 50);
    s.peer(100, ". 1:19 dack4=0 map=0+18@1");
    s.rest();
    s.write(110, 2840);
    s.us(110, ". 1:1421 map=0+2840@1");
    s.us(110, ". 1421:2841 map=0+2840@1");
    assert!(s.path_mtu(0, 120, 1400, 1));
    for (from, to) in [(1, 1321), (1321, 1421), (1421, 2741), (2741, 2841)] {
        s.us(120, &format!(". {from}:{to} map=0+2840@1"));
    }
    s.write(130, 3000);
    s.us(130, ". 2841:4161 map=2840+3000@2841");
}

/// Returns the longest payload on each of two paths since the last call.
fn longest(s: &mut Script) -> [u64; 2] {
    let mut longest = [0, 0];
    for (_, path, line) in s.rest() {
        let range = line.split(' ').nth(1).and_then(|range| range.split_once(':'));
        let [from, to] = range
            .map(|(a, b)| [a, b].map(|n| n.parse::<u64>().expect("a number")))
            .expect("a range");
        longest[path] = longest[path].max(to - from);
    }
    longest
}

#[test]
fn each_subflow_has_a_path_of_its_own() {
    let scheduler = PluginChoice::named("redundant");
    let mut s = Script::multipath(Config { scheduler, ..config() }, 50);
    s.peer(100, ". 1:19 dack4=0 map=0+18@1");
    s.rest();
    s.join(1, 200, 50);
    s.write(210, 4000);
    assert_eq!(longest(&mut s), [1420, 1420]);
    assert!(s.path_mtu(1, 220, 1400, 1));
    assert_eq!(longest(&mut s), [0, 1320]);
    let all = s.sent_on(1) + 1;
    s.peer_on(1, 230, &format!(". ack={all} dack4=0"));
    s.write(240, 4000);
    assert_eq!(longest(&mut s), [1420, 1320]);
}
