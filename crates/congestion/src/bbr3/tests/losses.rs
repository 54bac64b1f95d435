//! Losses outside of probes, timeouts, and spurious losses.

use super::*;

#[test]
fn loss_without_a_probe_keeps_the_long_term_bound() {
    let mut bench = Bench::in_state(State::Cruise);
    bench.lose(1, 30, 20);
    assert_eq!((bench.cc.state, bench.cc.bounds.long_inflight), (State::Cruise, UNBOUNDED));
}

#[test]
fn loss_between_probes_lowers_short_term_bounds_once_per_round() {
    let mut bench = Bench::in_state(State::Cruise);
    bench.cc.signals.reset();
    let round = |bench: &mut Bench, rate: u32| {
        bench.lose(1, 99, 1);
        bench.lose(2, 99, 2);
        bench.hear(Said { rate, ..WITHIN });
        bench.hear(Said { rate, ..FULL });
        (bench.cc.bounds.short_bw, bench.cc.bounds.short_inflight)
    };
    let near = |(bw, inflight): (Bandwidth, u32), segments: u32, flight: u32| {
        let off =
            bw.delivers(Duration::from_secs(1_000_000)).abs_diff(u64::from(segments) * 1_000_000);
        assert!(off < 100_000, "{bw:?}: {off} off {segments} a second");
        assert_eq!(inflight, flight);
    };
    // The bounds are 0.7 times 1000 segments per second and 0.7 times the window of 202. The 60 segments
    // delivered per round are below both bounds.
    bench.window.cwnd = 200;
    near(round(&mut bench, 60), 700, 141);
    assert!((bench.pace() - 0.7).abs() < 1e-3, "{}", bench.pace());
    // The bound on the rate is the 600 segments per second delivered, because 0.7 times 700 is less. The
    // bound on the flight is 0.7 times 141.
    near(round(&mut bench, 60), 600, 98);
    assert_eq!(bench.window.cwnd, 98);
    near(round(&mut bench, 60), 600, 68);
    near(round(&mut bench, 60), 600, 60);
    // The next probe resets the bounds.
    bench.now += Duration::from_secs(3);
    bench.hear(WITHIN);
    let bounds = bench.cc.bounds;
    assert_eq!((bounds.short_bw, bounds.short_inflight), (Bandwidth::UNBOUNDED, UNBOUNDED));
    assert!((bench.pace() - 1.0).abs() < 1e-3, "{}", bench.pace());

    for state in [State::Startup, State::Refill, State::Up] {
        let mut bench = Bench::in_state(state);
        bench.cc.pipe.reached = state != State::Startup;
        assert_eq!(round(&mut bench, 60).1, UNBOUNDED, "{state:?} probes");
    }
}

#[test]
fn headroom_is_left_while_cruising() {
    assert_eq!([100, 64, 10, 5, 4].map(with_headroom), [85, 55, 9, 4, 4]);
    assert_eq!(with_headroom(UNBOUNDED), UNBOUNDED);
    for (state, cwnd) in [(State::Down, 100), (State::Cruise, 85), (State::Drain, 200)] {
        let mut bench = Bench::in_state(State::Cruise);
        bench.cc.state = state;
        bench.cc.drain_round = bench.cc.rounds.count;
        bench.cc.bounds.long_inflight = 100;
        bench.hear(Said { in_flight_at_send: 50, in_flight: 120, lost: 9, ..WITHIN });
        assert_eq!((bench.cc.state, bench.window.cwnd.min(200)), (state, cwnd));
    }
    // The flow leaves Down only when the data in flight is below the bound minus the headroom.
    let mut bench = Bench::in_state(State::Down);
    bench.cc.bounds.long_inflight = 100;
    bench.hear(Said { in_flight_at_send: 50, in_flight: 86, ..WITHIN });
    assert_eq!(bench.cc.state, State::Down);
    bench.hear(Said { in_flight_at_send: 50, in_flight: 85, ..WITHIN });
    assert_eq!(bench.cc.state, State::Cruise);
}

#[test]
fn a_timeout_cuts_nothing_here_and_the_window_comes_back() {
    let mut bench = Bench::in_state(State::Cruise);
    bench.window.cwnd = 180;
    bench.lose(1, 99, 1);
    bench.enter(CongestionState::Loss);
    assert_eq!(bench.window.cwnd, 180);
    // The caller has set the window to one segment after the timeout.
    bench.window.cwnd = 1;
    bench.hear(Said { in_flight: 1, ..WITHIN });
    assert_eq!(bench.window.cwnd, MIN_PIPE, "from there by what is acknowledged");
    bench.hear(Said { in_flight: 1, ..WITHIN });
    assert_eq!(bench.window.cwnd, 6);
    // A second timeout does not overwrite the saved state.
    bench.enter(CongestionState::Loss);
    bench.cc.on_state(bench.now, CongestionState::Open, &mut bench.window);
    assert_eq!(bench.window.cwnd, 180);
}

#[test]
fn a_spurious_recovery_leads_back_to_where_losses_led_away() {
    // Three segments are lost at once. The third loss ends the probe, and a fourth one follows.
    let mut bench = Bench::in_state(State::Up);
    bench.cc.probe.sampled = true;
    bench.cc.bounds.long_inflight = 160;
    for lost in 1..=4 {
        bench.lose(u64::from(lost) * 2, 119, lost);
    }
    bench.enter(CongestionState::Recovery);
    assert_eq!((bench.cc.state, bench.cc.bounds.long_inflight), (State::Down, 119));
    bench.window.cwnd = 20;
    assert_eq!(bench.cc.undo_cwnd(&bench.window, 0), 200);
    assert_eq!((bench.cc.state, bench.cc.bounds.long_inflight), (State::Refill, 160));

    let mut bench = Bench::new();
    bench.hear(FULL);
    for place in [1, 3, 5, 7, 9, 11] {
        bench.lose(place, 99, 6);
    }
    bench.enter(CongestionState::Recovery);
    bench.hear(Said { lost: 6, ..FULL });
    assert_eq!((bench.cc.state, bench.window.ssthresh < u32::MAX), (State::Drain, true));
    bench.cc.undo_cwnd(&bench.window, 0);
    assert_eq!((bench.cc.state, bench.cc.bounds.long_inflight), (State::Startup, UNBOUNDED));
    bench.hear(WITHIN);
    assert_eq!(bench.window.ssthresh, u32::MAX);

    // An undo restores the short-term bounds from before the recovery, not those from before its last round.
    let mut bench = Bench::in_state(State::Cruise);
    bench.cc.bounds.short_inflight = 190;
    bench.cc.bounds.short_bw = per_second(950);
    bench.lose(1, 99, 1);
    bench.enter(CongestionState::Recovery);
    for round in 1..4 {
        bench.hear(Said { rate: 60, ..FULL });
        bench.lose(2 * round, 99, 1);
    }
    assert!(bench.cc.bounds.short_inflight < 140);
    bench.cc.undo_cwnd(&bench.window, 0);
    assert_eq!(bench.cc.bounds.short_inflight, 190);
    assert_eq!(bench.cc.bounds.short_bw, per_second(950));

    // The next recovery saves its own bounds. Its undo restores them and restarts the search for a plateau.
    bench.cc.on_state(bench.now, CongestionState::Open, &mut bench.window);
    bench.cc.bounds.short_inflight = 150;
    bench.lose(50, 99, 1);
    bench.enter(CongestionState::Recovery);
    bench.hear(FULL);
    bench.hear(FULL);
    assert!(bench.cc.bounds.short_inflight < 150);
    bench.cc.pipe.restart(per_second(1000));
    bench.hear(FULL);
    bench.hear(FULL);
    bench.cc.undo_cwnd(&bench.window, 0);
    assert_eq!(bench.cc.bounds.short_inflight, 150);
    for _ in 0..3 {
        bench.hear(FULL);
        assert!(!bench.cc.pipe.now, "the first sets the baseline");
    }
}

#[test]
fn a_tail_loss_counts_as_a_loss_of_its_round() {
    let mut bench = Bench::in_state(State::Cruise);
    bench.hear(FULL);
    let kind = CongestionKind::TailLoss;
    let event = CongestionEvent { now: bench.now, kind, in_flight: 0 };
    bench.cc.on_congestion(&event, &mut bench.window);
    bench.hear(FULL);
    assert!(bench.cc.bounds.short_inflight < UNBOUNDED);
}

/// `RestoreCwnd` runs only at the end of a recovery, and restores the window from before that recovery.
#[test]
fn the_window_before_the_trouble_comes_back_once() {
    let mut bench = Bench::in_state(State::Cruise);
    let state = |bench: &mut Bench, state: CongestionState, cwnd: u32| {
        bench.window.cwnd = cwnd;
        bench.cc.on_state(bench.now, state, &mut bench.window);
        bench.window.cwnd
    };
    bench.window.cwnd = 180;
    bench.enter(CongestionState::Recovery);
    assert_eq!(state(&mut bench, CongestionState::Loss, 50), 50, "it goes on");
    assert_eq!(state(&mut bench, CongestionState::Open, 50), 180);
    assert_eq!(state(&mut bench, CongestionState::Disorder, 60), 60, "there was none");
    bench.enter(CongestionState::Recovery);
    assert_eq!(state(&mut bench, CongestionState::Open, 30), 60, "60 it was now");

    // The window saved during `ProbeRTT` is not restored.
    bench.window.cwnd = 150;
    bench.cc.save_cwnd(150);
    bench.cc.state = State::ProbeRtt;
    bench.window.cwnd = 50;
    bench.enter(CongestionState::Recovery);
    assert_eq!(state(&mut bench, CongestionState::Open, 50), 150);
}

/// The round of loss counting begins with its first loss (`NoteLoss`).
#[test]
fn the_round_of_losses_begins_with_the_first() {
    let mut bench = Bench::in_state(State::Cruise);
    bench.cc.signals.loss_in_round = false;
    bench.lose(1, 99, 1);
    let began = bench.delivered;
    assert_eq!((bench.cc.signals.round_end, bench.cc.signals.loss_in_round), (began, true));
    bench.delivered += 10;
    bench.lose(2, 99, 2);
    assert_eq!(bench.cc.signals.round_end, began);
}

/// A `ProbeRTT` phase continues when losses prove spurious.
#[test]
fn a_visit_goes_on_after_a_spurious_recovery() {
    for before in [State::Startup, State::Up] {
        let mut bench = Bench::in_state(State::Cruise);
        bench.cc.state = State::ProbeRtt;
        bench.cc.undo.state = Some(before);
        bench.cc.undo_cwnd(&bench.window, 0);
        assert_eq!(bench.cc.state, State::ProbeRtt, "{before:?}");
        assert_eq!(bench.cc.pipe.reached, before != State::Startup);
    }
}
