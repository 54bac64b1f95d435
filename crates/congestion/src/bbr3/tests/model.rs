//! The model: rates, bounds, aggregation, the minimum RTT and the `ProbeRTT` phases.

use super::*;

#[test]
fn a_rate_is_remembered_for_this_cycle_and_the_next() {
    let probe = |bench: &mut Bench, said: Said| {
        bench.cc.start_down(bench.now);
        bench.hear(said);
        bench.cc.max_bw.get().delivers(Duration::from_secs(1000)) / 1000
    };
    let slower = Said { rate: 50, ..FULL };
    let fast = || {
        let mut bench = Bench::in_state(State::Up);
        bench.cc.max_bw = CycleMax::default();
        bench.cc.max_bw.take(per_second(1000));
        bench
    };
    let mut bench = fast();
    assert_eq!(probe(&mut bench, slower), 999, "1000 less the scale's last digit");
    assert_eq!(probe(&mut bench, slower), 499);
    // A sample that the application limited does not lower the bandwidth and begins no cycle.
    let mut bench = fast();
    for _ in 0..4 {
        assert_eq!(probe(&mut bench, Said { app_limited: true, ..slower }), 999);
    }
    bench.cc.max_bw.advance();
    bench.hear(Said { app_limited: true, ..slower });
    bench.cc.max_bw.advance();
    assert!(bench.cc.max_bw.get() > per_second(999));
}

#[test]
fn the_latest_rate_and_volume_are_the_best_of_one_round() {
    let mut bench = Bench::in_state(State::Cruise);
    let latest = |bench: &Bench| bench.cc.signals.inflight_latest;
    bench.hear(Said { rate: 70, ..FULL });
    assert_eq!(latest(&bench), 70, "a round begins with it");
    bench.hear(Said { rate: 90, ..WITHIN });
    bench.hear(Said { rate: 80, ..WITHIN });
    assert_eq!(latest(&bench), 90);
    bench.hear(Said { rate: 60, ..FULL });
    assert_eq!(latest(&bench), 60);
}

#[test]
fn aggregation_is_remembered_for_a_round_in_startup_and_for_ten_later() {
    for (state, rounds) in [(State::Startup, 2), (State::Cruise, 11)] {
        let mut bench = Bench::in_state(State::Cruise);
        bench.cc.state = state;
        bench.cc.pipe.reached = state != State::Startup;
        bench.cc.probe.wait = Duration::from_secs(100);
        bench.cc.extra_acked = WindowedMax::default();
        bench.now += Duration::from_secs(1);
        // 80 segments are acknowledged at once.
        bench.hear(Said { acked: 80, rate: 125, ..WITHIN });
        assert_eq!(bench.cc.extra_acked.get(), 80, "{state:?}");
        for round in 1..=rounds {
            assert_eq!(bench.cc.extra_acked.get(), 80, "{state:?} {round}");
            bench.now += Duration::from_millis(100);
            bench.hear(Said { acked: 1, app_limited: true, ..FULL });
        }
        assert!(bench.cc.extra_acked.get() < 80, "{state:?}");
    }
    // After an idle period a new epoch begins. Segments acknowledged before it do not count.
    let mut bench = Bench::in_state(State::Cruise);
    bench.hear(Said { acked: 150, ..WITHIN });
    bench.cc.extra_acked = WindowedMax::default();
    let start = TransmitStart {
        now: bench.now + Duration::from_millis(20),
        coarse_now: bench.now + Duration::from_millis(20),
        last_sent: bench.now,
        app_limited: true,
        min_rtt: Some(RTT),
    };
    bench.cc.on_transmit_start(&start, &mut bench.window);
    bench.now = start.now;
    bench.hear(WITHIN);
    assert_eq!(bench.cc.extra_acked.get(), 2);
}

#[test]
fn a_visit_remembers_the_larger_of_the_window_and_the_one_saved_before() {
    let mut bench = Bench::in_state(State::Cruise);
    bench.cc.prior_cwnd = 300;
    bench.now = Instant::ZERO + Duration::from_millis(105_010);
    bench.hear(Said { rtt: RTT * 2, in_flight: 90, ..WITHIN });
    assert_eq!((bench.cc.state, bench.cc.prior_cwnd), (State::ProbeRtt, 300));
}

#[test]
fn every_five_seconds_half_a_flight_for_200_ms_and_a_round() {
    let mut bench = Bench::in_state(State::Cruise);
    bench.cc.probe.wait = Duration::from_secs(100);
    let began = Instant::ZERO + Duration::from_secs(100);
    let quiet = Said { rtt: RTT * 2, in_flight: 90, ..WITHIN };
    bench.now = began + Duration::from_millis(4990);
    bench.hear(quiet);
    assert_eq!(bench.cc.state, State::Cruise);
    let before = bench.window.cwnd;
    bench.now = began + Duration::from_millis(5010);
    bench.hear(quiet);
    assert_eq!((bench.cc.state, bench.window.cwnd, bench.pace()), (State::ProbeRtt, 50, 1.0));
    assert!(bench.cc.marks_application_limited());
    bench.now += Duration::from_millis(300);
    bench.hear(Said { in_flight: 51, ..quiet });
    let emptied = bench.now;
    bench.hear(Said { in_flight: 50, ..quiet });
    bench.now = emptied + Duration::from_millis(190);
    bench.hear(Said { round: true, in_flight: 50, ..quiet });
    assert_eq!(bench.cc.state, State::ProbeRtt, "a round, but not 200 ms");
    bench.cc.bounds.short_inflight = 45;
    bench.now = emptied + Duration::from_millis(202);
    bench.hear(Said { in_flight: 50, ..quiet });
    assert_eq!((bench.cc.state, bench.cc.bounds.short_inflight), (State::Cruise, UNBOUNDED));
    assert!(bench.window.cwnd >= before, "{} after {before}", bench.window.cwnd);
    assert!(bench.cc.marks_application_limited(), "what is in flight now was sent in the visit");
    bench.hear(quiet);
    assert!(!bench.cc.marks_application_limited());
    // The next `ProbeRTT` phase begins five seconds later.
    bench.cc.probe.wait = Duration::from_secs(100);
    bench.now = emptied + Duration::from_millis(5190);
    bench.hear(quiet);
    assert_eq!(bench.cc.state, State::Cruise);
    bench.now = emptied + Duration::from_millis(5210);
    bench.hear(quiet);
    assert_eq!(bench.cc.state, State::ProbeRtt);
}

#[test]
fn a_visit_needs_a_round_and_is_spared_after_idleness_and_returns_to_startup() {
    let mut bench = Bench::new();
    bench.hear(FULL);
    bench.now += Duration::from_secs(6);
    bench.hear(Said { in_flight: 3, ..WITHIN });
    assert_eq!((bench.cc.state, bench.window.cwnd.min(50)), (State::ProbeRtt, bench.window.cwnd));
    bench.now += Duration::from_millis(300);
    bench.hear(Said { in_flight: 3, ..WITHIN });
    assert_eq!(bench.cc.state, State::ProbeRtt, "200 ms, but no round");
    bench.hear(Said { in_flight: 3, app_limited: true, ..FULL });
    assert_eq!(bench.cc.state, State::Startup);

    let mut bench = Bench::in_state(State::Cruise);
    bench.now += Duration::from_secs(6);
    let start = TransmitStart {
        now: bench.now,
        coarse_now: bench.now,
        last_sent: bench.now,
        app_limited: true,
        min_rtt: Some(RTT),
    };
    bench.cc.bounds.short_bw = per_second(500);
    bench.cc.bw = per_second(500);
    bench.cc.on_transmit_start(&start, &mut bench.window);
    assert!((bench.pace() - 0.5).abs() < 1e-3, "at the bandwidth: {}", bench.pace());
    bench.hear(Said { rtt: RTT * 2, ..WITHIN });
    assert_ne!(bench.cc.state, State::ProbeRtt);
}

#[test]
fn the_minimum_of_ten_seconds_is_that_of_the_visits() {
    let mut bench = Bench::in_state(State::Cruise);
    let began = Instant::ZERO + Duration::from_secs(100);
    let at = |bench: &mut Bench, ms: u64, rtt: u64| {
        bench.now = began + Duration::from_millis(ms);
        bench.hear(Said { rtt: Duration::from_millis(rtt), in_flight: 500, ..WITHIN });
        bench.cc.min_rtt.get().map(Duration::as_millis)
    };
    assert_eq!(at(&mut bench, 4000, 120), Some(100));
    assert_eq!(at(&mut bench, 5500, 130), Some(100), "the visit begins");
    assert_eq!(at(&mut bench, 5600, 110), Some(100));
    assert_eq!(at(&mut bench, 9900, 140), Some(100));
    assert_eq!(at(&mut bench, 10_100, 140), Some(110), "the path has grown longer");
    // The minimum expires ten seconds after it was measured.
    assert_eq!(at(&mut bench, 15_500, 150), Some(110));
    assert_eq!(at(&mut bench, 15_700, 150), Some(150));
    assert_eq!(at(&mut bench, 15_800, 90), Some(90));
}

#[test]
fn an_acknowledgement_that_may_be_delayed_takes_no_old_minimums_place() {
    for (delayed, rtt, expected) in [(false, 130, 130), (true, 130, 100), (true, 90, 90)] {
        let mut bench = Bench::in_state(State::Cruise);
        let began = bench.now;
        for ms in [5500, 10_200] {
            bench.now = began + Duration::from_millis(ms);
            let rtt = Duration::from_millis(rtt);
            bench.hear(Said { rtt, delayed, in_flight: 500, ..WITHIN });
        }
        let found = bench.cc.min_rtt.get().map(Duration::as_millis);
        assert_eq!(found, Some(expected), "delayed: {delayed}");
    }
}

/// A minimum expires after more than `ProbeRTTInterval` or `MinRTTFilterLen`, to the nanosecond.
#[test]
fn minimums_are_too_old_after_more_than_their_time() {
    let began = Instant::ZERO + Duration::from_secs(100);
    let said = Said { rtt: RTT * 2, in_flight: 500, ..WITHIN };
    let mut bench = Bench::in_state(State::Cruise);
    for (nanos, state) in [(0, State::Cruise), (1, State::ProbeRtt)] {
        bench.now = began + Duration::from_millis(4999) + Duration::from_nanos(nanos);
        bench.cc.probe.wait = Duration::from_secs(100);
        bench.hear(said);
        assert_eq!(bench.cc.state, state);
    }
    for (nanos, rtt) in [(0, RTT), (1, RTT * 2)] {
        bench.now = began + Duration::from_millis(9999) + Duration::from_nanos(nanos);
        bench.hear(said);
        assert_eq!(bench.cc.min_rtt.get(), Some(rtt));
    }
}

/// If `outage_probe` is off, the minimum from before an outage is kept for another full window.
#[test]
fn a_minimum_is_kept_over_an_outage() {
    for (probe, outage, kept) in [(false, true, true), (true, true, false), (false, false, false)] {
        let mut bench = Bench::in_state(State::Cruise);
        bench.cc.outage_probe = probe;
        bench.cc.probe.wait = Duration::from_secs(100);
        if outage {
            // The acknowledgement after a timeout may change the state back to Open at once.
            bench.cc.on_state(bench.now, CongestionState::Loss, &mut bench.window);
            bench.cc.on_state(bench.now, CongestionState::Open, &mut bench.window);
        }
        let said = Said { rtt: RTT * 2, in_flight: 500, ..WITHIN };
        bench.now = Instant::ZERO + Duration::from_secs(120);
        bench.hear(said);
        assert_eq!(bench.cc.min_rtt.get() == Some(RTT), kept, "{probe} {outage}");
        assert_eq!(bench.cc.state != State::ProbeRtt, kept, "{probe} {outage}");
        // Six seconds after the outage, the minimum expires as usual.
        bench.now = Instant::ZERO + Duration::from_secs(126);
        bench.hear(said);
        assert_eq!(bench.cc.state, State::ProbeRtt, "{probe} {outage}");
    }
}

/// An acknowledgement without a delivery rate begins no round, and does not end the effect of an idle period.
#[test]
fn ack_without_delivery_keeps_the_model_unchanged() {
    let mut bench = Bench::in_state(State::Cruise);
    let rounds = bench.cc.rounds.count;
    bench.hear(Said { rate: 0, ..FULL });
    assert_eq!(bench.cc.rounds.count, rounds);
    bench.cc.idle_restart = true;
    bench.hear(Said { rate: 0, ..WITHIN });
    assert!(bench.cc.idle_restart);
    bench.hear(WITHIN);
    assert!(!bench.cc.idle_restart);
    // The window does not change either, unless a bound applies.
    bench.window.cwnd = 1;
    bench.hear(Said { acked: 0, ..WITHIN });
    assert_eq!(bench.window.cwnd, 1);
}

/// A `ProbeRTT` phase ends after one round, even if more rounds follow, or after an idle period. In Drain, an
/// idle period does not change the pacing rate.
#[test]
fn a_visit_ends_after_a_round_or_with_idleness() {
    let start = |bench: &mut Bench| {
        let (now, last_sent) = (bench.now, bench.now);
        let start = TransmitStart {
            now,
            coarse_now: now,
            last_sent,
            app_limited: true,
            min_rtt: Some(RTT),
        };
        bench.cc.on_transmit_start(&start, &mut bench.window);
    };
    let visiting = || {
        let mut bench = Bench::in_state(State::Cruise);
        bench.now += Duration::from_secs(6);
        bench.cc.probe.wait = Duration::from_secs(100);
        bench.hear(Said { rtt: RTT * 2, in_flight: 4, ..WITHIN });
        assert_eq!(bench.cc.state, State::ProbeRtt);
        bench
    };
    let mut bench = visiting();
    bench.hear(Said { in_flight: 4, ..FULL });
    bench.hear(Said { in_flight: 4, ..FULL });
    bench.now += Duration::from_millis(200);
    bench.hear(Said { in_flight: 4, ..WITHIN });
    assert_ne!(bench.cc.state, State::ProbeRtt);

    let mut bench = visiting();
    bench.now += Duration::from_millis(200);
    start(&mut bench);
    assert_eq!(bench.cc.state, State::ProbeRtt, "200 ms, and not more");
    bench.now += Duration::from_nanos(1);
    start(&mut bench);
    assert_ne!(bench.cc.state, State::ProbeRtt);

    let mut bench = Bench::in_state(State::Drain);
    bench.cc.drain_round = bench.cc.rounds.count;
    bench.hear(WITHIN);
    start(&mut bench);
    assert!((bench.pace() - 0.5).abs() < 1e-3, "{}", bench.pace());
}
