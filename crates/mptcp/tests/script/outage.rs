//! A path that loses all packets for a while: the interpretation of the first acknowledgement afterwards (RFC
//! 2883, RFC 3522, RFC 5682), and the times of retransmissions (`tcp_rto_max_ms`, `tcp_retries2`).
//!
//! The RTT is 50 ms and the timeout 250 ms. Ten segments leave at 100 ms. No acknowledgement arrives, so a
//! loss probe repeats the last one at 202 ms (RFC 8985 section 7.2). The first one is retransmitted 250 ms
//! later, at 452, 952 and 1952 ms (RFC 6298 section 5.5). A Linux receiver that already has a segment drops
//! the copy before it stores the timestamp (`tcp_sequence`). Its answer therefore echoes the last new
//! segment, sent at 100 ms.

use anabranch_congestion::CongestionState;
use anabranch_mptcp::profile::{LINUX_6_18, OutageRule};
use anabranch_mptcp::{Config, Event};
use anabranch_plugin::{PluginChoice, Value};
use anabranch_units::Duration;

use crate::dialect::{Script, at, config, thousands};

const RULES: [OutageRule; 3] = [OutageRule::Kernel, OutageRule::Timeouts, OutageRule::Dsack];

fn ruled(outage: OutageRule) -> Config {
    let mut stack = LINUX_6_18;
    stack.tcp.outage = outage;
    Config { stack, ..thousands() }
}

/// Ten segments that are unacknowledged until `ms`. `options` are those of the SYN.
fn unanswered(config: Config, options: &str, ms: u64) -> Script {
    let mut s = Script::plain_after(config, 50, &format!("S {options}"));
    s.write(100, 10_000);
    s.rest_until(ms);
    s
}

/// Returns the number of undone timeouts, the state and the smoothed RTT in ms after an acknowledgement.
fn after(s: &Script) -> (u64, CongestionState, u64) {
    let sample = s.sample(0);
    let srtt = sample.srtt.expect("a sample of the handshake");
    (sample.totals.undos, sample.state, srtt.as_millis())
}

/// Returns the state after `line` arrives at `ms`, for each rule.
fn judged(options: &str, ms: u64, line: &str) -> [(u64, CongestionState, u64); 3] {
    RULES.map(|rule| {
        let mut s = unanswered(ruled(rule), options, ms);
        s.peer(ms, line);
        after(&s)
    })
}

use CongestionState::{Loss, Open};

#[test]
fn an_outage_is_no_spurious_timeout_and_no_round_trip() {
    // Three segments arrived, and their acknowledgements were lost. The copy sent at 1952 ms is answered at
    // 2000 ms. Eifel: the echo of 100 ms is older than the first retransmission. SRTT = 7/8 * 50 + 1/8 *
    // (2000 - 100) = 281.25.
    assert_eq!(
        judged("", 2000, ". ack=3001 sack=1:1001 ecr=100"),
        [(1, Open, 281), (0, Loss, 50), (0, Loss, 50)]
    );
}

#[test]
fn lost_data_is_retransmitted_at_once_after_an_outage() {
    for rule in [OutageRule::Timeouts, OutageRule::Dsack] {
        let mut s = unanswered(ruled(rule), "", 2000);
        s.peer(2000, ". ack=3001 sack=1:1001 ecr=100");
        // Slow start from one segment (RFC 5681 section 3.1). Four segments were delivered, including the
        // duplicate (`tcp_dsack_seen`).
        for n in 3..8 {
            s.us(2000, &format!(". {}:{}", 1000 * n + 1, 1000 * n + 1001));
        }
        // The backoff ends because a duplicate was reported: 250 ms.
        s.silence(2249);
        s.us(2250, ". 3001:4001");
    }
    // Linux assumes that the seven others are in flight.
    let mut s = unanswered(ruled(OutageRule::Kernel), "", 2000);
    s.peer(2000, ". ack=3001 sack=1:1001 ecr=100");
    assert_eq!(s.sample(0).in_flight_segments, 7);
}

#[test]
fn a_single_timeout_is_one_of_an_outage_if_a_duplicate_is_reported() {
    // SRTT = 7/8 * 50 + 1/8 * (500 - 100) = 93.75.
    assert_eq!(
        judged("", 500, ". ack=3001 sack=1:1001 ecr=100"),
        [(1, Open, 93), (1, Open, 93), (0, Loss, 50)]
    );
}

#[test]
fn a_spurious_timeout_is_undone_unless_timeouts_are_counted() {
    // The flight was only delayed. The first acknowledgement is that of an original and reports no duplicate.
    assert_eq!(judged("", 500, ". ack=1001 ecr=100"), [(1, Open, 93); 3]);
    // After two timeouts: SRTT = 7/8 * 50 + 1/8 * (1000 - 100) = 156.25.
    assert_eq!(
        judged("", 1000, ". ack=1001 ecr=100"),
        [(1, Open, 156), (0, Loss, 50), (1, Open, 156)]
    );
}

#[test]
fn a_duplicate_that_follows_a_spurious_timeout_changes_nothing() {
    let mut s = unanswered(ruled(OutageRule::Dsack), "", 500);
    s.peer(500, ". ack=1001 ecr=100");
    s.peer(501, ". ack=10001 ecr=100");
    s.peer(502, ". ack=10001 sack=1:1001 ecr=100");
    assert_eq!((s.sample(0).totals.undos, s.sample(0).state), (1, Open));
    // One probe and one timeout.
    assert_eq!(s.sample(0).totals.retransmissions, 2);
}

#[test]
fn an_outage_of_acknowledgements_alone_costs_the_window_nothing() {
    // All ten segments arrived. Nothing is left to retransmit, so the recovery is undone as spurious
    // (`tcp_try_undo_recovery`). Only the RTT differs.
    assert_eq!(
        judged("", 2000, ". ack=10001 sack=1:1001 ecr=100"),
        [(1, Open, 281), (1, Open, 50), (1, Open, 50)]
    );
}

#[test]
fn an_outage_during_an_outage_is_judged_again() {
    for rule in [OutageRule::Timeouts, OutageRule::Dsack] {
        let mut s = unanswered(ruled(rule), "", 2000);
        s.peer(2000, ". ack=3001 sack=1:1001 ecr=100");
        // No acknowledgements again: timeouts at 2250 and 2750 ms. Three of the five copies of 2000 ms
        // arrived, but their acknowledgements were lost.
        s.rest_until(2800);
        s.peer(2800, ". ack=6001 sack=3001:4001 ecr=2000");
        assert_eq!(after(&s), (0, Loss, 50), "{rule:?}");
        s.rest_until(2840);
        s.peer(2850, ". ack=10001");
        assert_eq!(s.sample(0).state, Open, "{rule:?}");
    }
}

#[test]
fn without_sack_two_timeouts_tell_an_outage() {
    let line = ". ack=3001 ecr=100";
    assert_eq!(judged("nosack", 900, line), [(1, Open, 143), (0, Loss, 50), (0, Loss, 50)]);
    assert_eq!(judged("nosack", 400, line), [(1, Open, 81); 3]);
}

#[test]
fn without_sack_a_path_that_became_slower_is_learnt() {
    // The RTT changes from 50 ms to 1 s. Timeouts occur at 350 and 850 ms, and the first acknowledgement
    // arrives at 1100 ms. Its sample began before the last timeout and is ignored, but the backoff remains:
    // 250 ms doubled twice.
    let mut s = unanswered(ruled(OutageRule::Timeouts), "nosack", 1100);
    s.peer(1100, ". ack=10001 ecr=100");
    // Without SACK, the state stays Loss until newer data is acknowledged (`tcp_try_undo_recovery`).
    assert_eq!(after(&s), (1, Loss, 50));
    s.rest_until(2000);
    s.write(2000, 1000);
    s.us(2000, ". 10001:11001");
    s.silence(2989);
    // The sample of 990 ms is used: 7/8 * 50 + 1/8 * 990 = 167.5.
    s.peer(2990, ". ack=11001 ecr=2000");
    assert_eq!(after(&s), (1, Open, 167));
}

#[test]
fn a_peer_that_reports_no_duplicates_is_judged_as_by_the_kernel() {
    // `net.ipv4.tcp_dsack` = 0: an outage cannot be distinguished from a delay.
    assert_eq!(
        judged("", 2000, ". ack=3001 ecr=100"),
        [(1, Open, 281), (0, Loss, 50), (1, Open, 281)]
    );
}

#[test]
fn without_timestamps_an_outage_has_no_round_trip_anyway() {
    // Karn (RFC 6298 section 3). F-RTO (RFC 5682 section 3.1): data that was sent only once is acknowledged.
    assert_eq!(
        judged("nots", 2000, ". ack=3001 sack=1:1001"),
        [(1, Open, 50), (0, Loss, 50), (0, Loss, 50)]
    );
}

#[test]
fn the_longest_timeout_bounds_every_wait() {
    let config = Config { rto_max: Duration::from_secs(1), ..thousands() };
    let mut s = Script::plain_after(config, 50, "S nosack");
    s.write(100, 1000);
    // 250 ms and 500 ms, then always 1000 ms instead of doubling further.
    for ms in [100, 350, 850, 1850, 2850, 3850, 4850] {
        s.us(ms, ". 1:1001");
    }
    // `tcp_probe0_when`: the limit applies to window probes too.
    s.peer(4900, ". ack=1001 win=0 ecr=4850");
    s.write(4910, 1000);
    let probes: Vec<u64> = s.rest_until(12_000).iter().map(|(ms, ..)| ms % 100_000).collect();
    assert!(probes.len() >= 7, "{probes:?}");
    assert!(probes.windows(2).all(|pair| pair[1] - pair[0] <= 1000), "{probes:?}");
}

#[test]
fn a_join_over_a_silent_path_is_tried_every_second() {
    // tcp_syn_linear_timeouts = 4, one second apart, then tcp_syn_retries = 6, doubling from one second: 131
    // s, including the last wait of 64 s. With a limit of 1 s, the retries are one second apart and last as
    // long, even if tcp_retries2 (for data) is set.
    let doubling = vec![1, 1, 1, 1, 1, 2, 4, 8, 16, 32];
    let settings = [(120, None, doubling), (1, None, vec![1; 130]), (1, Some(60), vec![1; 130])];
    for (rto_max, retries, waits) in settings {
        let config = Config { rto_max: Duration::from_secs(rto_max), retries, ..config() };
        let mut s = Script::multipath_client(config, 2);
        s.peer(100, ". ack=1 dack4=0");
        let mut ms = 100;
        s.us_on(1, ms, "S join");
        for wait in waits {
            ms += 1000 * wait;
            s.us_on(1, ms, "S join");
        }
        s.silence(ms + 150_000);
    }
}

#[test]
fn a_syn_ack_is_repeated_every_second() {
    // tcp_synack_retries = 5, doubling from one second.
    let config = Config { rto_max: Duration::from_secs(1), ..thousands() };
    let mut s = Script::server(config);
    s.peer(0, "S");
    for ms in [0, 1000, 2000, 3000, 4000, 5000] {
        s.us(ms, "S. 0:0 ack=1");
    }
    s.silence(100_000);
}

#[test]
fn a_round_trip_longer_than_the_longest_timeout_is_repaired_each_time() {
    // RFC 6298 (2.5) requires a limit of at least 60 s. The handshake took 900 ms, the data takes 1.1 s, and
    // Linux limits the timeout to 1 s.
    for rule in RULES {
        let config = Config { rto_max: Duration::from_secs(1), ..ruled(rule) };
        let mut s = Script::plain_after(config.clone(), 900, "S nosack");
        s.write(2000, 2000);
        s.rest();
        s.us(3000, ". 1:1001");
        s.peer(3100, ". ack=1001 ecr=2000");
        // SRTT = 7/8 * 900 + 1/8 * 1100 = 925.
        assert_eq!(after(&s), (1, Open, 925), "{rule:?}");
        s.peer(3101, ". ack=2001 ecr=2000");
        s.silence(6000);

        // With SACK, a loss probe is sent instead of the timeout, and its duplicate is reported one RTT
        // later.
        let mut s = Script::plain_after(config, 900, "S");
        s.write(2000, 2000);
        s.rest();
        s.us(3000, ". 1001:2001");
        s.peer(3100, ". ack=2001 ecr=2000");
        s.peer(4100, ". ack=2001 sack=1001:2001 ecr=2000");
        assert_eq!(after(&s), (0, Open, 925), "{rule:?}");
        assert_eq!((s.sample(0).totals.timeouts, s.cwnd() >= 10), (0, true), "{rule:?}");
    }
}

/// Returns the time at which plain TCP gives up data sent at 100 ms, in ms.
fn given_up(retries: Option<u16>, rto_max: u64) -> Option<u64> {
    let config = Config { rto_max: Duration::from_secs(rto_max), retries, ..thousands() };
    let mut s = Script::plain_after(config, 50, "S nosack");
    s.write(100, 1000);
    s.run_to(at(2_000_000));
    let closed = s.events.iter().find(|(_, event)| *event == Event::Closed);
    closed.map(|(at, _)| at.as_nanos() / 1_000_000)
}

#[test]
fn retries_are_counted_as_linux_counts_them() {
    // tcp_model_timeout: 0.2 s doubles while it is below the limit, ilog2(1 / 0.2) = 2 times: 0.2 + 0.4 + 0.8
    // = 1.4 s. Each further retry takes one second. The first timeout after that time, counted from the first
    // retransmission at 350 ms, ends the connection. 15 retries take 14.4 s, so the timeout at 14.85 s ends
    // it.
    assert_eq!(given_up(Some(15), 1), Some(14_850));
    assert_eq!(given_up(Some(3), 1), Some(2850));
    assert_eq!(given_up(Some(255), 1), Some(254_850));
    // 0.2 s doubled nine times is less than 120 s: 204.6 s, plus six retries of 120 s.
    assert_eq!(given_up(Some(15), 120), given_up(None, 120));
    // Without a number, the time is the same: 926 retries take 1.4 + 924 s.
    assert_eq!(given_up(None, 1), Some(925_850));
    assert_eq!(given_up(Some(926), 1), Some(925_850));
}

#[test]
fn bbr_keeps_its_minimum_rtt_over_an_outage_if_configured() {
    // bbr_update_min_rtt: a minimum of 50 ms that is older than ten seconds is measured again, with a window
    // of four segments.
    for (probe, least) in [(true, true), (false, false)] {
        let congestion = PluginChoice::named("bbr").with("outage_probe", Value::Flag(probe));
        let config = Config { congestion, ..ruled(OutageRule::Dsack) };
        let mut s = unanswered(config, "", 16_000);
        s.peer(16_000, ". ack=3001 sack=1:1001 ecr=100");
        s.rest_until(16_040);
        s.peer(16_050, ". ack=10001");
        s.write(16_060, 80_000);
        let sent = s.rest_until(16_095).len();
        assert_eq!(sent <= 4, least, "{probe}: {sent}");
    }
}
