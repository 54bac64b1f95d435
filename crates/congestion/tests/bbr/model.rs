//! The inputs of the model and the samples that it keeps.

use super::*;

/// `bbr_update_min_rtt`: `rtt_us < min_rtt_us || (filter_expired && !is_ack_delayed)`. The window after ten
/// seconds shows the minimum RTT in use, at 1000 segments per second.
#[test]
fn an_acknowledgement_that_may_be_delayed_takes_no_old_minimums_place() {
    let window = |rtt_ms: u64, delayed: bool| {
        let mut flow = Flow::probing(1, FULL);
        flow.now += Duration::from_secs(11);
        let said = Said { rtt: Duration::from_millis(rtt_ms), delayed, in_flight: 4, ..FULL };
        flow.hear(said);
        assert_eq!(flow.window.cwnd, 4, "the visit comes in any case");
        flow.hear(Said { after: Duration::from_millis(250), ..said });
        flow.window.cwnd = 1 << 20;
        flow.hear(Said { rtt: Duration::from_secs(1), in_flight: 100, acked: 1, ..FULL });
        flow.window.cwnd
    };
    let (short, kept, long) = (window(50, false), window(100, false), window(150, false));
    assert_eq!(long - kept, 2 * 50);
    assert_eq!(kept - short, 2 * 50);
    assert_eq!(window(150, true), kept);
    assert_eq!(window(50, true), short, "a lower one it is all the same");
}

/// The bandwidth filter has ten rounds (`bbr_bw_rtts`). A sample that the application limited counts only if
/// it is faster.
#[test]
fn the_best_rate_is_remembered_for_ten_rounds() {
    let believed = |flow: &mut Flow| f64::from(flow.target()) / 200.0;
    let mut flow = Flow::probing(1, FULL);
    flow.hear(Said { rate: 200, ..FULL });
    for round in 1..=11 {
        flow.hear(FULL);
        let rate = if round <= 10 { 2.0..2.2 } else { 1.0..1.2 };
        let found = believed(&mut flow);
        assert!(rate.contains(&found), "round {round}: {found}");
    }
    for _ in 0..30 {
        flow.hear(Said { rate: 50, app_limited: true, ..FULL });
    }
    assert!((1.0..1.2).contains(&believed(&mut flow)), "no slower path");
    flow.hear(Said { rate: 200, app_limited: true, ..FULL });
    assert!((2.0..2.2).contains(&believed(&mut flow)), "but a faster one");
}

/// `bbr_update_ack_aggregation`: 40 segments are acknowledged at once, and 40 more a millisecond later. The
/// bandwidth explains one of them. A sample without an interval is ignored.
#[test]
fn aggregation_adds_up_over_an_epoch_and_needs_a_valid_sample() {
    for (interval, extra) in [(RTT, 79.0_f64), (Duration::ZERO, 0.0)] {
        let mut flow = Flow::probing(1, FULL);
        let burst = Said { acked: 40, interval, round: false, ..FULL };
        flow.hear(Said { after: RTT, ..burst });
        flow.hear(Said { after: Duration::from_millis(1), ..burst });
        // Later acknowledgements arrive so late that the bandwidth explains them.
        flow.now += RTT;
        let found = flow.target();
        let raised = flow.gain(1000.0) > 1.2;
        let least = if interval.is_zero() { 1.0 } else { 0.0 };
        let expected = target(100.0, 2.0, extra.max(least), flow.pace(), raised);
        assert!(
            found.abs_diff(expected) <= if interval.is_zero() { 2 } else { 0 },
            "{found}: {expected}"
        );
    }
}

/// The phase that probes ends after more than the minimum RTT, if a segment was lost or the pipe holds a
/// quarter more.
#[test]
fn up_ends_after_a_whole_round_trip_with_a_loss_or_a_full_pipe() {
    let up = |flow: &Flow| close(flow.gain(1000.0), 1.25, 1e-3);
    let full = Said { prior_in_flight: 1000, after: RTT, ..FULL };
    let mut flow = Flow::raised();
    flow.hear(full);
    assert!(up(&flow), "one RTT to the nanosecond");
    flow.hear(Said { after: Duration::from_nanos(1), ..full });
    assert!(!up(&flow));

    let mut flow = Flow::raised();
    let low = Said { prior_in_flight: 10, after: RTT * 2, ..FULL };
    flow.hear(Said { newly_lost: 1, ..low });
    assert!(!up(&flow), "a loss");

    let mut flow = Flow::raised();
    flow.hear(Said { acked: 0, ..full });
    flow.hear(Said { acked: 0, ..full });
    assert!(up(&flow), "nothing was delivered");
}

/// `bbr_packets_in_net_at_edt`: segments that will be delivered before the next departure do not count as in
/// flight. At 1000 segments per second, these are 10 segments in 10.5 ms.
#[test]
fn segments_drained_before_the_next_departure_are_not_in_flight() {
    for (more, drained) in [(10, true), (11, false)] {
        let mut flow = Flow::raised();
        flow.hear(Said { prior_in_flight: 1000, after: RTT * 2, ..FULL });
        assert!(close(flow.gain(1000.0), 0.75, 1e-3));
        let least = target(100.0, 1.0, 0.0, flow.pace(), false);
        let departs = Duration::from_micros(10_500);
        flow.hear(Said { prior_in_flight: least + more, departs, ..FULL });
        assert_eq!(close(flow.gain(1000.0), 1.0, 1e-3), drained, "{more} more");
    }
}

/// `bbr_lt_bw_sampling` detects a policer: two intervals of four rounds lose more than 50/256 of their
/// segments at the same throughput. The policer's rate is 1000 segments per second, although samples
/// show 2000. It is used for 48 rounds.
#[test]
fn a_policer_sets_the_pace_for_48_rounds() {
    let round = Said { acked: 100, rate: 200, newly_lost: 30, after: RTT, ..FULL };
    let policed = |flow: &Flow| close(flow.pace(), paced(1.0, 1000.0), 2e-3);
    let mut flow = Flow::probing(1, FULL);
    for n in 1..=8 {
        assert!(!policed(&flow) || n == 1, "round {n}");
        flow.hear(round);
    }
    assert!(policed(&flow), "{}", flow.gain(1000.0));
    for n in 1..48 {
        flow.hear(Said { newly_lost: 0, ..round });
        assert!(policed(&flow), "round {n}");
    }
    flow.hear(Said { newly_lost: 0, ..round });
    assert!(flow.gain(2000.0) > 0.7, "{}", flow.gain(2000.0));

    // An interval ends only in a round with losses. If the fourth round has no loss, the interval ends one
    // round later.
    let mut flow = Flow::probing(1, FULL);
    for n in 1..=10 {
        assert!(!policed(&flow) || n == 1, "round {n}");
        flow.hear(Said { newly_lost: if n % 5 == 4 { 0 } else { 40 }, ..round });
    }
    assert!(policed(&flow));

    // After a recovery proved spurious, its losses do not count.
    let mut flow = Flow::probing(1, FULL);
    (0..7).for_each(|_| flow.hear(round));
    flow.window.cwnd = 123;
    let window = flow.window;
    assert_eq!(flow.bbr.undo_cwnd(&window, 500), 123, "`bbr_undo_cwnd` leaves the window");
    flow.hear(round);
    assert!(!policed(&flow));
    // After a timeout that ended a round, they do not count either.
    let mut flow = Flow::probing(1, FULL);
    (0..7).for_each(|_| flow.hear(round));
    flow.enter(CongestionState::Loss);
    assert!(!policed(&flow), "the pace is set with the next acknowledgement");
}

/// An undo restarts the search for a plateau (`bbr_undo_cwnd`).
#[test]
fn an_undone_recovery_restarts_the_search_for_the_plateau() {
    let mut flow = Flow::new(1);
    for _ in 0..3 {
        flow.hear(FULL);
    }
    let window = flow.window;
    flow.bbr.undo_cwnd(&window, 0);
    for _ in 0..3 {
        flow.hear(FULL);
        assert_eq!(flow.window.ssthresh, u32::MAX, "a base and two rounds");
    }
    flow.hear(FULL);
    assert!(flow.window.ssthresh < u32::MAX);
}

/// In Startup, the window does not grow at the target itself, nor with the tenth delivered segment.
#[test]
fn startup_stops_at_its_target_exactly() {
    let mut flow = Flow::new(1);
    flow.hear(Said { acked: 50, ..FULL });
    let full = target(100.0, 739.0 / 256.0, 0.0, flow.pace(), false);
    for (cwnd, grown) in [(full - 1, full + 1), (full, full)] {
        flow.window.cwnd = cwnd;
        flow.hear(FULL);
        assert_eq!(flow.window.cwnd, grown);
    }
    // For 10 segments per second, the target is ceil(2.89) plus 3 bursts of two, rounded up to 10.
    let mut flow = Flow::new(1);
    flow.hear(Said { rate: 1, acked: 10, ..FULL });
    assert_eq!(flow.window.cwnd, 10);
}
