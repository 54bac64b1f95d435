//! The cycle of `ProbeBW`: when a probe begins, how far it goes, and when it ends.

use super::*;

#[test]
fn the_cycle_goes_down_cruises_refills_a_round_and_goes_up() {
    let mut bench = Bench::in_state(State::Down);
    bench.hear(Said { in_flight: 101, ..WITHIN });
    assert_eq!((bench.cc.state, bench.pace()), (State::Down, 0.9));
    bench.hear(Said { in_flight: 100, ..WITHIN });
    assert_eq!((bench.cc.state, bench.pace()), (State::Cruise, 1.0));
    bench.now += Duration::from_secs(3);
    bench.hear(WITHIN);
    assert_eq!((bench.cc.state, bench.pace()), (State::Refill, 1.0));
    bench.hear(WITHIN);
    assert_eq!(bench.cc.state, State::Refill, "for a round");
    bench.hear(FULL);
    assert_eq!((bench.cc.state, bench.pace()), (State::Up, 1.25));
    // The window is 2.25 times the product of 100, plus the extra acknowledged segments, plus two.
    bench.window.cwnd = 1000;
    bench.hear(WITHIN);
    let extra = bench.cc.extra_acked.get();
    assert_eq!(bench.window.cwnd, 225 + extra + 2);
    for _ in 0..3 {
        assert_eq!(bench.cc.state, State::Up);
        bench.hear(FULL);
    }
    assert_eq!((bench.cc.state, bench.pace()), (State::Down, 0.9));
}

#[test]
fn a_probe_comes_after_two_to_three_seconds_or_as_many_rounds_as_reno_would_take() {
    let mut waits = Vec::new();
    for _ in 0..200 {
        let mut bench = Bench::in_state(State::Up);
        bench.cc.random = Seed { seed: waits.len() as u64, run: 0 }.stream("test");
        bench.cc.start_down(bench.now);
        bench.cc.state = State::Cruise;
        let began = bench.now;
        while bench.cc.state == State::Cruise {
            bench.now += Duration::from_millis(9);
            bench.hear(WITHIN);
        }
        waits.push(bench.now.since(began).as_secs_f64());
    }
    assert!(waits.iter().all(|wait| (2.0..3.011).contains(wait)), "{waits:?}");
    let mean = waits.iter().sum::<f64>() / 200.0;
    assert!((2.43..2.58).contains(&mean), "uniform between: {mean}");

    for (cwnd, rounds) in [(200, 63), (40, 40)] {
        let mut seen = [0; 2];
        for seed in 0..40 {
            let mut bench = Bench::in_state(State::Up);
            bench.cc.random = Seed { seed, run: 0 }.stream("test");
            bench.cc.start_down(bench.now);
            bench.cc.state = State::Cruise;
            bench.cc.bounds.short_inflight = cwnd;
            bench.window.cwnd = cwnd;
            let mut count = 0;
            while bench.cc.state == State::Cruise {
                bench.hear(FULL);
                count += 1;
            }
            // The count of rounds begins at zero or one, at random.
            seen[(rounds - count) as usize] += 1;
        }
        assert!(seen.iter().all(|times| *times > 8), "{rounds}: {seen:?}");
    }
}

#[test]
fn a_probe_that_loses_more_than_two_per_cent_bounds_the_flight() {
    // Two of 121 segments lost are below the threshold of 2 %, and three are above it.
    let mut bench = Bench::in_state(State::Up);
    bench.cc.probe.sampled = true;
    bench.lose(1, 120, 2);
    assert_eq!((bench.cc.state, bench.cc.bounds.long_inflight), (State::Up, UNBOUNDED));
    bench.lose(5, 120, 3);
    assert_eq!((bench.cc.state, bench.cc.bounds.long_inflight), (State::Down, 120));
    // The bound is set at most once per probe.
    bench.lose(9, 60, 4);
    assert_eq!(bench.cc.bounds.long_inflight, 120);

    // The bound is at least 0.7 times the target. The target is the product of 100, or the window if that is
    // smaller.
    for (cwnd, bound) in [(200, 70), (80, 56)] {
        let mut bench = Bench::in_state(State::Up);
        bench.cc.probe.sampled = true;
        bench.window.cwnd = cwnd;
        bench.lose(1, 30, 1);
        assert_eq!((bench.cc.state, bench.cc.bounds.long_inflight), (State::Down, bound));
    }

    // If the application limited the flow, the probe ends without a bound.
    let mut bench = Bench::in_state(State::Up);
    bench.cc.probe.sampled = true;
    bench.lose_as(1, 30, 1, |segment| segment.app_limited = true);
    assert_eq!((bench.cc.state, bench.cc.bounds.long_inflight), (State::Down, UNBOUNDED));

    // A loss in the first round after a probe is of data sent during the probe. A later loss is not.
    for (rounds, bound) in [(0, 70), (1, UNBOUNDED)] {
        let mut bench = Bench::in_state(State::Up);
        bench.cc.probe.sampled = true;
        bench.cc.start_down(bench.now);
        for _ in 0..rounds {
            bench.hear(FULL);
        }
        bench.lose(1, 30, 1);
        assert_eq!(bench.cc.bounds.long_inflight, bound);
    }
    let mut bench = Bench::in_state(State::Up);
    bench.cc.probe.sampled = true;
    bench.now += Duration::from_secs(6);
    bench.hear(Said { rtt: RTT * 2, ..WITHIN });
    assert_eq!((bench.cc.state, bench.cc.probe.sampled), (State::ProbeRtt, true));
    bench.hear(FULL);
    assert!(!bench.cc.probe.sampled, "a visit ends a probe as well");
    let mut bench = Bench::in_state(State::Cruise);
    bench.lose(1, 30, 20);
    assert_eq!((bench.cc.state, bench.cc.bounds.long_inflight), (State::Cruise, UNBOUNDED));
}

#[test]
fn after_a_probe_too_high_the_next_stops_where_that_one_lost_and_then_goes_on() {
    let mut bench = Bench::in_state(State::Up);
    bench.cc.probe.sampled = true;
    bench.lose(1, 119, 3);
    assert_eq!(bench.cc.bounds.long_inflight, 119);
    // A probe within the bound, whose segments were sent with 99 others in flight.
    let calm = Said { in_flight_at_send: 99, prior_in_flight: 118, in_flight: 117, ..FULL };
    bench.hear(Said { round: true, ..calm });
    bench.cc.start_refill(0);
    bench.hear(calm);
    assert_eq!(bench.cc.state, State::Up);
    bench.hear(Said { round: false, ..calm });
    assert_eq!(bench.cc.state, State::Up);
    let at_bound = Said { prior_in_flight: 119, round: false, ..calm };
    bench.hear(at_bound);
    assert_eq!((bench.cc.state, bench.cc.probe.precautionary), (State::Down, true));
    // If nothing is lost in the round after the probe, the next probe begins at once and goes further.
    bench.hear(calm);
    assert_eq!((bench.cc.state, bench.cc.probe.precautionary), (State::Refill, false));
    bench.hear(calm);
    bench.hear(at_bound);
    assert_eq!(bench.cc.state, State::Up);

    // If too many segments were lost, the flow stays in Down.
    let mut bench = Bench::in_state(State::Down);
    bench.cc.bounds.long_inflight = 119;
    bench.cc.probe.stopping = true;
    bench.cc.probe.precautionary = true;
    bench.cc.probe.too_high = true;
    bench.hear(Said { in_flight: 110, ..calm });
    assert_eq!(bench.cc.state, State::Down);
}

#[test]
fn a_probe_raises_its_bound_only_where_the_bound_holds_it_back() {
    let up = || {
        let mut bench = Bench::in_state(State::Up);
        bench.cc.bounds.long_inflight = 64;
        bench.window.cwnd = 64;
        bench.cc.probe.growth = Growth::default();
        bench.cc.probe.growth.steepen(64);
        bench
    };
    let limited = Said { acked: 64, in_flight_at_send: 63, cwnd_limited: true, ..WITHIN };
    let mut bench = up();
    bench.hear(limited);
    assert_eq!(bench.cc.bounds.long_inflight, 65, "one segment for a window acknowledged");
    for other in [
        Said { cwnd_limited: false, ..limited },
        // Two lost segments of 64 exceed the threshold.
        Said { lost: 2, ..limited },
    ] {
        let mut bench = up();
        bench.hear(other);
        assert_eq!(bench.cc.bounds.long_inflight, 64);
    }
    // Every probe begins with one segment per round.
    for _ in 0..5 {
        bench.cc.probe.growth.steepen(64);
    }
    bench.cc.start_refill(0);
    bench.hear(Said { round: true, ..limited });
    bench.window.cwnd = 65;
    bench.hear(Said { acked: 65, ..limited });
    assert_eq!((bench.cc.state, bench.cc.bounds.long_inflight), (State::Up, 66));
    // A plateau does not end the probe while the bound limits the flow.
    let mut bench = up();
    for _ in 0..6 {
        for n in 0..64 {
            bench.window.cwnd = bench.cc.bounds.long_inflight;
            bench.hear(Said { acked: 1, round: n == 0, ..limited });
            assert_eq!(bench.cc.state, State::Up);
        }
    }
    // In the rounds, the bound grows by 2, 4, 8, 16, 32 and 64 segments.
    let bound = bench.cc.bounds.long_inflight;
    assert!((64 + 100..64 + 127).contains(&bound), "{bound}: the window has grown meanwhile");
    // If more data is delivered without loss than the bound allows, the bound rises in any state.
    let mut bench = up();
    bench.cc.state = State::Cruise;
    bench.hear(Said { in_flight_at_send: 69, ..WITHIN });
    assert_eq!(bench.cc.bounds.long_inflight, 70);
}

#[test]
fn a_probe_waits_for_more_than_its_time() {
    let mut bench = Bench::in_state(State::Up);
    bench.cc.start_down(bench.now);
    bench.cc.state = State::Cruise;
    bench.now += bench.cc.probe.wait - Duration::from_millis(1);
    bench.hear(WITHIN);
    assert_eq!(bench.cc.state, State::Cruise);
    bench.hear(WITHIN);
    assert_eq!(bench.cc.state, State::Refill);
}

/// The lost segment counts as in flight: 1 of 50 is exactly 2 %, and 1 of 49 is more. Without SACK, any loss
/// exceeds the threshold. The bound still tolerates 2 % of 60, which is more than one segment: 60 + 1.
#[test]
fn the_lost_segment_is_one_of_its_flight() {
    for (in_flight, state) in [(49, State::Up), (48, State::Down)] {
        let mut bench = Bench::in_state(State::Up);
        bench.cc.probe.sampled = true;
        bench.lose(1, in_flight, 1);
        assert_eq!(bench.cc.state, state, "{in_flight}");
    }
    let mut bench = Bench::in_state(State::Up);
    bench.cc.probe.sampled = true;
    bench.window.cwnd = 40;
    bench.lose_as(1, 60, 1, |segment| segment.selective_acks = false);
    assert_eq!((bench.cc.state, bench.cc.bounds.long_inflight), (State::Down, 61));
}
