//! The start of a flow: the first pacing rate and window, and the ends of Startup and Drain.

use super::*;

#[test]
fn the_first_pace_is_the_initial_window_over_the_handshakes_round_trip() {
    let mut bench = Bench::new();
    let rate = |bench: &Bench| bench.cc.pacing_rate().expect("paced").bytes_per_second() as f64;
    let expected = 2.77 * 10.0 * f64::from(MSS) / 0.1;
    assert!((rate(&bench) / expected - 1.0).abs() < 1e-3, "{}, not {expected}", rate(&bench));
    // 50 segments per second are less than 100, but a single round does not end the search for a plateau.
    bench.hear(Said { rate: 5, ..FULL });
    assert!((rate(&bench) / expected - 1.0).abs() < 1e-3, "slower only once the pipe was full");
}

#[test]
fn the_first_window_is_acknowledged_before_the_model_bounds_it() {
    let mut bench = Bench::new();
    let mut windows = Vec::new();
    for _ in 0..6 {
        bench.hear(Said { rate: 1, ..WITHIN });
        windows.push(bench.window.cwnd);
    }
    // The window for 10 segments per second is the budget of three bursts, twelve segments. It grows by two
    // per acknowledgement until it exceeds this target.
    assert_eq!(windows, [12, 14, 16, 18, 18, 18]);
}

#[test]
fn startup_ends_after_three_rounds_without_a_quarter_more() {
    let mut bench = Bench::new();
    for rate in [100, 124, 125, 150, 156] {
        // 124 is less than 1.25 times 100. 125 is enough, and becomes the new baseline.
        bench.hear(Said { rate, ..FULL });
    }
    assert_eq!(bench.cc.state, State::Startup);
    bench.hear(Said { rate: 156, app_limited: true, ..FULL });
    bench.hear(Said { rate: 156, ..WITHIN });
    assert_eq!(bench.cc.state, State::Startup, "neither is a round that counts");
    assert!((bench.pace() - 2.77 * 1.56).abs() < 2e-3, "{}", bench.pace());
    bench.hear(Said { rate: 156, in_flight: 157, ..FULL });
    assert_eq!((bench.cc.state, bench.cc.pipe.reached), (State::Drain, true));
    assert!((bench.pace() - 0.5 * 1.56).abs() < 2e-3, "{}", bench.pace());
}

#[test]
fn startup_ends_after_a_round_of_six_lost_ranges_and_more_than_two_per_cent() {
    let ends = |places: &[u64], lost: u32, recovering: bool| {
        let mut bench = Bench::new();
        bench.hear(Said { rate: 80, ..FULL });
        bench.hear(Said { rate: 100, ..FULL });
        for (n, place) in places.iter().enumerate() {
            bench.lose(*place, 149, n as u32 + 1);
        }
        if recovering {
            bench.enter(CongestionState::Recovery);
        }
        bench.hear(Said { lost, ..WITHIN });
        assert_eq!(bench.cc.state, State::Startup, "the round is not over");
        bench.hear(Said { lost, rate: 120, ..FULL });
        (bench.cc.state == State::Drain).then_some(bench.cc.bounds.long_inflight)
    };
    let apart = [1, 3, 5, 7, 9, 11];
    // 150 segments were in flight. Four lost segments are more than 2 %, three are not. The bound is the 120
    // segments delivered in the round, which exceed the product of 100.
    assert_eq!(ends(&apart, 4, true), Some(120));
    assert_eq!(ends(&apart, 3, true), None, "few");
    assert_eq!(ends(&apart, 4, false), None, "no recovery");
    assert_eq!(ends(&[1, 2, 3, 5, 7, 9], 6, true), None, "four ranges");

    // The number of lost ranges is counted per round, not over several rounds.
    let mut bench = Bench::new();
    bench.hear(Said { rate: 60, ..FULL });
    for round in 0..4 {
        for place in [1, 3, 5] {
            bench.lose(6 * round + place, 149, 4);
        }
        bench.enter(CongestionState::Recovery);
        bench.hear(Said { lost: 4, rate: 80 + 30 * round as u32, ..FULL });
    }
    assert_eq!(bench.cc.state, State::Startup);
}

#[test]
fn without_selective_acknowledgements_any_loss_in_recovery_ends_startup() {
    let mut bench = Bench::new();
    bench.hear(FULL);
    bench.lose_as(1, 149, 1, |segment| segment.selective_acks = false);
    bench.enter(CongestionState::Recovery);
    bench.hear(Said { lost: 1, ..WITHIN });
    assert_eq!(bench.cc.state, State::Drain);
}

#[test]
fn drain_ends_when_the_flight_fits_the_path_or_after_three_rounds() {
    for (in_flight, rounds) in [(100, 0), (101, 4)] {
        let mut bench = Bench::new();
        for _ in 0..4 {
            bench.hear(FULL);
        }
        assert_eq!(bench.cc.state, State::Drain);
        for _ in 0..rounds {
            assert_eq!(bench.cc.state, State::Drain);
            bench.hear(Said { in_flight, ..FULL });
        }
        if rounds == 0 {
            bench.hear(Said { in_flight, ..WITHIN });
        }
        // If the queue is already empty, the flow skips Down.
        let next = if in_flight == 100 { State::Cruise } else { State::Down };
        assert_eq!(bench.cc.state, next, "{in_flight}");
    }
}

/// If the handshake had no RTT, one millisecond is assumed until the first sample. The initial rate is then
/// computed again, once (`InitPacingRate`, `SetPacingRateWithGain`).
#[test]
fn the_first_pace_waits_for_a_round_trip() {
    let mut bench = Bench::new();
    bench.cc.pacing = None;
    bench.cc.init_pacing(10, None);
    let rate = |bench: &Bench| bench.cc.pacing_rate().expect("paced").bytes_per_second() as f64;
    let near =
        |found: f64, rtt: f64| (found / (2.77 * 10.0 * f64::from(MSS) / rtt) - 1.0).abs() < 1e-3;
    assert!(near(rate(&bench), 1e-3), "{}", rate(&bench));
    bench.hear(Said { rate: 1, ..WITHIN });
    assert!(near(rate(&bench), 0.1), "{}", rate(&bench));
    bench.hear(Said { rate: 1, rtt: RTT * 2, ..WITHIN });
    assert!(near(rate(&bench), 0.1), "{}", rate(&bench));
}

/// Before the pipe is full, the window grows by the acknowledged segments while it is below the target
/// (`SetCwnd`).
#[test]
fn startup_window_grows_up_to_its_target() {
    let mut bench = Bench::new();
    bench.hear(Said { acked: 20, ..FULL });
    assert_eq!(bench.window.cwnd, 30);
    bench.hear(Said { acked: 5, ..WITHIN });
    assert_eq!(bench.window.cwnd, 35);
    // The target is twice the product of 100, plus the extra acknowledged segments.
    let most = 200 + bench.cc.extra_acked.get();
    for (cwnd, grown) in [(most - 1, most + 1), (most, most)] {
        bench.window.cwnd = cwnd;
        // This acknowledgement arrives much later, so its segments do not count as extra.
        bench.now += RTT * 2;
        bench.hear(Said { app_limited: true, ..WITHIN });
        assert_eq!(bench.window.cwnd, grown);
    }
}

#[test]
fn without_selective_acknowledgements_a_recovery_without_a_loss_ends_nothing() {
    let mut bench = Bench::new();
    bench.hear(FULL);
    bench.lose_as(1, 149, 1, |segment| segment.selective_acks = false);
    bench.hear(Said { rate: 200, ..FULL });
    bench.enter(CongestionState::Recovery);
    bench.hear(Said { rate: 200, ..WITHIN });
    assert_eq!(bench.cc.state, State::Startup, "that of the round before is forgotten");
}
