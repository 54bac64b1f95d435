//! DSS checksums and `MP_FAIL` (RFC 8684 sections 3.3.1 and 3.7; `validate_data_csum`).

use anabranch_mptcp::{Config, Event};
use anabranch_units::SubflowId;

use crate::dialect::{Script, config, film};

/// A server whose client requires checksums.
fn summed() -> Script {
    let mut s = Script::server(config());
    s.peer(0, "S mpc A");
    s.us(0, "S. mpc-key A");
    s.peer(50, ". mpc-keys A");
    s
}

fn summed_twice() -> Script {
    let mut s = summed();
    s.join(1, 200, 100);
    s
}

#[test]
fn a_mapping_is_delivered_when_all_of_it_is_there_and_right() {
    let mut s = summed();
    s.peer(100, ". 1:501 ack=1 dack4=0 map=0+1001@1 csum");
    // The subflow acknowledges the data, but the connection does not yet.
    s.us(100, ". ack=501 dack8=0");
    assert!(s.received.is_empty());
    s.peer(110, ". 501:1002 ack=1 dack4=0 map=0+1001@1 csum");
    s.us(110, ". ack=1002 dack8=1001");
    assert_eq!(s.received, film(0, 1001));
    // A segment has parts of two mappings, and the second one is not complete.
    s.peer(120, ". 1102:1152 ack=1 dack4=0 map=1101+100@1102 csum");
    s.peer(130, ". 1002:1102 ack=1 dack4=0 map=1001+100@1002 csum");
    assert_eq!(s.received, film(0, 1101));
    s.peer(140, ". 1152:1202 ack=1");
    assert_eq!(s.received, film(0, 1201));
}

#[test]
fn the_rest_of_a_segment_may_come_with_a_mapping_of_its_own() {
    // A middlebox has split a segment, and the rest is retransmitted unchanged. The first mapping remains
    // valid, and all of it is verified (RFC 8684 section 3.3.1).
    let mut s = summed();
    s.peer(100, ". 1:36 ack=1 dack4=0 map=0+100@1 csum");
    s.peer(110, ". 101:201 ack=1 dack4=0 map=100+100@101 csum");
    assert!(s.received.is_empty());
    s.peer(120, ". 36:101 ack=1 dack4=0 map=35+65@36 csum");
    assert_eq!(s.received, film(0, 200));
    assert!(!s.has(Event::FellBack));
}

#[test]
fn the_first_data_has_its_checksum_in_the_capable_option() {
    for (sum, good) in [("csum", true), ("badsum", false)] {
        let mut s = Script::server(config());
        s.peer(0, "S mpc A");
        s.us(0, "S. mpc-key A");
        s.peer(50, &format!(". 1:101 mpc-data A {sum}"));
        let said = s.us(50, ". ack=101");
        assert_eq!(s.received.len() == 100, good);
        assert_eq!(said.mptcp.is_empty(), good, "{said:?}");
    }
}

#[test]
fn a_wrong_checksum_beside_another_subflow_resets_the_one() {
    for what in ["badsum", "csum altered"] {
        let mut s = summed_twice();
        s.peer_on(1, 250, ". 1:101 ack=1 dack4=0 map=0+100@1 csum");
        s.rest();
        s.peer_on(1, 300, &format!(". 101:201 ack=1 dack4=0 map=100+100@101 {what}"));
        s.us_on(1, 300, "R. fail=100 rst=6");
        assert!(s.has(Event::SubflowClosed(SubflowId(1))) && !s.has(Event::FellBack));
        assert_eq!(s.received, film(0, 100), "failed data is not delivered");
        // The data is not acknowledged at data level either, so it is reinjected on the other subflow.
        s.peer(310, ". 1:101 ack=1 dack4=0 map=100+100@1 csum");
        s.us(310, ". ack=101 dack8=200");
        assert_eq!(s.received, film(0, 200));
    }
}

#[test]
fn data_behind_the_failed_mapping_is_discarded() {
    let mut s = summed_twice();
    s.peer_on(1, 250, ". 101:201 ack=1 dack4=0 map=100+100@101 csum");
    s.rest();
    s.peer_on(1, 300, ". 1:101 ack=1 dack4=0 map=0+100@1 badsum");
    s.us_on(1, 300, "R. fail=0 rst=6");
    s.peer(310, ". 1:101 ack=1 dack4=0 map=0+100@1 csum");
    s.us(310, ". ack=101 dack8=100");
    assert_eq!(s.received, film(0, 100));
}

#[test]
fn a_wrong_checksum_resets_the_only_subflow_when_the_data_may_lie_elsewhere() {
    // Another subflow existed before, so unacknowledged data need not be contiguous (RFC 8684 section 3.7).
    let mut s = summed_twice();
    s.peer_on(1, 250, "R 1:1");
    s.peer(300, ". 1:101 ack=1 dack4=0 map=0+100@1 badsum");
    s.us(300, "R. fail=0 rst=6");
    assert!(s.received.is_empty() && !s.has(Event::FellBack));
    // Our own data was sent twice, like a probe of a closed window.
    let mut s = Script::server(config());
    s.peer(0, "S mpc A win=1024");
    s.us(0, "S. mpc-key A");
    s.peer(50, ". mpc-keys A win=8");
    s.write(60, 3000);
    s.rest();
    s.peer(110, ". ack=1025 dack4=1024 win=0");
    s.run_to(crate::dialect::at(2000));
    s.rest();
    s.peer(2010, ". 1:101 ack=1025 dack4=1024 map=0+100@1 badsum win=0");
    s.us(2010, "R. fail=0 rst=6");
}

#[test]
fn small_pieces_of_a_large_mapping_are_kept_together() {
    let mut s = summed();
    for n in 1..=2000 {
        s.peer(100, &format!(". {n}:{} ack=1 dack4=0 map=0+2000@1 csum", n + 1));
    }
    assert_eq!(s.received, film(0, 2000));
}

#[test]
fn a_wrong_checksum_on_the_only_subflow_is_reported_and_the_data_waits() {
    let mut s = summed();
    s.peer(100, ". 1:101 ack=1 dack4=0 map=0+100@1 csum");
    s.us(100, ". ack=101 dack8=100");
    s.peer(110, ". 101:201 ack=1 dack4=0 map=100+100@101 csum altered");
    s.us(110, ". ack=201 dack8=100 fail=100");
    s.peer(115, ". 201:301 ack=1 dack4=0 map=200+100@201 csum");
    s.us(115, ". ack=301 dack8=100 fail=100");
    assert_eq!(s.received, film(0, 100));
    assert!(!s.has(Event::FellBack));
    // The peer falls back. The altered data is delivered, as plain TCP would have done.
    s.peer(160, ". 301:401 ack=1 map=100+0@101");
    let answer = s.us(160, ". ack=401");
    assert!(answer.dss.is_none() && s.has(Event::FellBack));
    let altered = film(100, 100).iter().map(|byte| byte ^ 0x55).collect::<Vec<_>>();
    assert_eq!(s.received, [&film(0, 100)[..], &altered, &film(200, 200)].concat());
    // Our infinite mapping has a checksum of zero. The dialect checks this.
    s.write(170, 100);
    s.us(170, ". 1:101 map=0+0@1 checksum");
}

#[test]
fn the_peers_answer_alone_completes_the_fallback() {
    let mut s = summed();
    s.peer(110, ". 1:101 ack=1 dack4=0 map=0+100@1 badsum");
    s.us(110, ". ack=101 dack8=0 fail=0");
    s.peer(160, ". ack=1 fail=0");
    assert!(s.has(Event::FellBack));
    assert_eq!(s.received, film(0, 100));
    s.write(170, 100);
    s.us(170, ". 1:101 map=0+0@1 checksum");
}

#[test]
fn unanswered_mp_fail_ends_the_subflow_after_two_minutes() {
    // `fail_tout`: the wait is two minutes.
    let mut s = summed();
    s.peer(110, ". 1:101 ack=1 dack4=0 map=0+100@1 badsum");
    s.us(110, ". ack=101 dack8=0 fail=0");
    s.silence(120_000);
    s.us_within(0, 120_100, 120_120, "R. fail=0 rst=6");
    assert!(s.received.is_empty() && !s.has(Event::FellBack));
}

#[test]
fn a_report_is_answered_and_obeyed_on_the_only_subflow() {
    let mut s = summed();
    s.write(100, 2000);
    s.us(100, ". 1:1425 map=0+1424@1 checksum");
    s.us(100, ". 1425:2001 map=1424+576@1425 checksum");
    s.peer(150, ". ack=2001 dack4=1424 fail=1424");
    let answer = s.us(150, ". fail=0");
    assert!(answer.dss.is_none() && s.has(Event::FellBack));
    s.write(160, 100);
    s.us(160, ". 2001:2101 map=1424+0@1425 checksum");
    s.peer(210, ". ack=2101");
    s.silence(3000);
}

#[test]
fn a_report_is_answered_when_everything_was_acknowledged() {
    // RFC 8684 section 3.7: "a receiver of MP_FAIL MUST respond with MP_FAIL"; `mptcp_pm_mp_fail_received`.
    // The peer's DSN is the next byte that we would send, with or without checksums.
    for sent in [0, 2000] {
        let mut s = Script::multipath(config(), 50);
        s.peer(60, ". 1:101 ack=1 dack4=0 map=0+100@1");
        s.rest_until(110);
        if sent > 0 {
            s.write(110, sent);
            s.rest();
        }
        let ack = format!("ack={} dack8={sent}", sent + 1);
        s.peer(150, &format!(". {ack}"));
        s.peer(160, &format!(". {ack} fail={sent}"));
        s.us(160, ". fail=100");
        assert!(s.has(Event::FellBack), "{sent}");
        s.write(170, 100);
        s.us(170, &format!(". map={sent}+0@{}", sent + 1));
        s.peer(180, &format!(". 101:201 ack={}", sent + 101));
        assert_eq!(s.received, film(0, 200));
    }
}

#[test]
fn a_forged_report_changes_nothing() {
    // The DSN was acknowledged already, or was never sent.
    for dsn in [0, 1999, 2001, 1_u64 << 40] {
        let mut s = summed();
        s.write(100, 2000);
        s.rest();
        s.peer(150, ". ack=2001 dack4=2000");
        s.peer(160, &format!(". ack=2001 dack4=2000 fail={dsn}"));
        assert!(s.rest().is_empty() && s.connection().is_multipath(), "{dsn}");
    }
    // With another subflow, an `MP_FAIL` has no effect.
    let mut s = summed_twice();
    s.write(300, 1000);
    s.rest();
    s.peer(310, ". ack=1 dack4=0 fail=0");
    s.peer_on(1, 310, ". ack=1 dack4=0 fail=0");
    s.silence(320);
    assert!(!s.has(Event::FellBack) && s.connection().is_multipath());
}

#[test]
fn a_report_on_a_reset_sends_the_data_elsewhere() {
    let mut s = summed_twice();
    s.write(300, 1000);
    let first = s.rest()[0].1;
    s.peer_on(first, 310, "R. 1:1 ack=1001 fail=0");
    s.us_on(1 - first, 310, ". 1:1001 map=0+1000@1 checksum");
}

#[test]
fn a_checksum_that_was_not_agreed_on_or_is_missing_ends_the_subflow() {
    let mut s = Script::multipath(config(), 50);
    s.peer(100, ". 1:101 ack=1 dack4=0 map=0+100@1 csum");
    s.us(100, "R. rst=1");
    assert!(s.received.is_empty() && !s.has(Event::FellBack));
    let mut s = summed();
    s.peer(100, ". 1:101 ack=1 dack4=0 map=0+100@1");
    s.us(100, "R. rst=1");
    assert!(s.received.is_empty() && !s.has(Event::FellBack));
}

#[test]
fn either_side_enables_checksums_in_both_directions() {
    let mut s = Script::client(Config { checksum: true, ..config() }, 1);
    s.us(0, "S mpc A");
    s.peer(50, "S. mpc-key");
    s.us(50, ". mpc-keys A");
    s.peer(60, ". 1:101 ack=1 dack4=0 map=0+100@1");
    s.us(60, "R. rst=1");
    let mut s = Script::client(config(), 1);
    s.us(0, "S mpc");
    s.peer(50, "S. mpc-key A");
    s.us(50, ". mpc-keys A");
    s.write(60, 100);
    s.us(60, ". 1:101 mpc-data=100 A");
    s.peer(110, ". 1:101 ack=101 dack4=100 map=0+100@1 badsum");
    s.us(110, ". ack=101 fail=0");
}

#[test]
fn an_end_is_believed_with_its_checksum_only() {
    let mut s = summed();
    s.peer(100, ". map=0+1@0 dfin badsum");
    assert!(!s.has(Event::PeerFinished));
    s.peer(110, ". map=0+1@0 dfin csum");
    assert!(s.has(Event::PeerFinished));
    let mut s = summed();
    s.peer(100, ". map=0+1@0 dfin");
    s.us(100, "R. rst=1");
    assert!(!s.has(Event::PeerFinished));
    // The DATA_FIN is included in the length, which the checksum covers.
    let mut s = summed();
    s.peer(100, ". 1:101 ack=1 dack4=0 map=0+101@1 dfin csum");
    s.us(100, ". ack=101 dack8=101");
    assert!(s.has(Event::PeerFinished));
    assert_eq!(s.received, film(0, 100));
    let mut s = summed_twice();
    s.peer(300, ". 1:101 ack=1 dack4=0 map=0+101@1 dfin badsum");
    s.us(300, "R. fail=0");
    assert!(!s.has(Event::PeerFinished));
}

#[test]
fn more_than_a_window_of_data_after_mp_fail_is_reset() {
    // RFC 8684 section 3.7: data after the failed mapping is useless. The receiver keeps the data for a
    // possible fallback. A peer that sends its window repeatedly could otherwise fill all memory.
    let buffer = 20_000;
    let mut s = Script::server(Config {
        receive_buffer_initial: buffer,
        receive_buffer_max: buffer,
        ..config()
    });
    s.peer(0, "S mpc A");
    s.us(0, "S. mpc-key A");
    s.peer(50, ". mpc-keys A");
    s.peer(100, ". 1:1001 ack=1 dack4=0 map=0+1000@1 badsum");
    s.us(100, ". ack=1001 dack8=0 fail=0");
    let mut reset_after = None;
    for n in 1..100_u64 {
        let (from, to) = (1 + 1000 * n, 1001 + 1000 * n);
        s.peer(100 + n, &format!(". {from}:{to} ack=1 dack4=0 map=0+1000@{from} csum"));
        if s.rest().iter().any(|(_, _, line)| line.starts_with('R')) {
            reset_after.get_or_insert(to - 1);
        }
    }
    // The RST is sent after more than a window of data, and before the buffer is exceeded.
    let held = reset_after.expect("a reset");
    assert!((8_000..=buffer + 1000).contains(&held), "{held} bytes");
    assert!(s.received.is_empty());
}
