//! Marks, against values worked out by hand from `tcp_bbr.c` (google/bbr branch v3).

use super::*;

/// An acknowledgement that reports a mark.
const MARKED: Said = Said { echo: true, ..FULL };

/// Like [`Bench::in_state`], with marks that count on any path.
fn counting(state: State) -> Bench {
    let mut bench = Bench::in_state(state);
    bench.cc.marks = Some(Marks::new(None));
    bench
}

fn marks(bench: &Bench) -> &Marks {
    bench.cc.marks.as_ref().expect("they count")
}

#[test]
fn the_share_of_marks_is_averaged_over_rounds() {
    // ecn_alpha: 256 at first, 15/16 of it and 1/16 of the round's share; a bound on 1000 segments is cut by a
    // third of it: 256 - 85 of 256; without a mark for a round alpha is 240 and the cut 79.
    let mut bench = counting(State::Cruise);
    assert_eq!(marks(&bench).cut(1000), 667);
    bench.hear(FULL);
    assert_eq!(marks(&bench).cut(1000), 691);
    bench.hear(WITHIN);
    assert_eq!(marks(&bench).cut(1000), 691, "once a round");
    for _ in 0..100 {
        bench.hear(FULL);
    }
    // Whole numbers: 15 is the least that 15/16 lets go on falling, and then 14.
    assert!(marks(&bench).cut(1000) > 980, "{}", marks(&bench).cut(1000));
    for _ in 0..100 {
        bench.hear(MARKED);
    }
    // Towards the whole, less what rounding takes.
    assert!((667..690).contains(&marks(&bench).cut(1000)), "{}", marks(&bench).cut(1000));
}

#[test]
fn a_round_with_marks_bounds_the_flight_and_not_the_rate() {
    let mut bench = counting(State::Cruise);
    bench.hear(FULL);
    bench.window.cwnd = 100;
    bench.hear(Said { echo: true, acked: 0, ..WITHIN });
    bench.hear(FULL);
    // Two rounds without marked data: alpha is 225, a third of it 74, and 182 of 256 remain of the window.
    assert_eq!(bench.cc.bounds.short_inflight, 71);
    assert_eq!(bench.cc.bounds.short_bw, Bandwidth::UNBOUNDED);
    bench.hear(FULL);
    assert_eq!(bench.cc.bounds.short_inflight, 71, "a round without a mark");
    for state in [State::Refill, State::Up] {
        let mut bench = counting(state);
        bench.hear(MARKED);
        bench.hear(FULL);
        assert_eq!(bench.cc.bounds.short_inflight, UNBOUNDED, "{state:?} probes");
    }
}

#[test]
fn marks_count_on_short_paths_only() {
    let mut bench = counting(State::Cruise);
    bench.cc.marks = Some(Marks::new(Some(Duration::from_millis(5))));
    for _ in 0..10 {
        bench.hear(Said { marked: 100, ..MARKED });
    }
    assert_eq!((bench.cc.state, bench.cc.bounds.short_inflight), (State::Cruise, UNBOUNDED));
    assert!(!marks(&bench).eligible);
    // `ecn_eligible` once is always.
    for rtt in [5, 100] {
        bench.hear(Said { rtt: Duration::from_millis(rtt), ..WITHIN });
        bench.hear(MARKED);
        assert!(marks(&bench).eligible);
    }
}

#[test]
fn more_than_half_of_the_data_marked_ends_a_probe() {
    for (marked, ends) in [(50, false), (51, true)] {
        let mut bench = counting(State::Up);
        bench.cc.probe.sampled = true;
        bench.cc.bounds.long_inflight = 400;
        bench.hear(FULL);
        bench.hear(Said { marked, in_flight_at_send: 179, ..WITHIN });
        let reached = (bench.cc.state, bench.cc.probe.too_high);
        assert_eq!(
            reached,
            if ends { (State::Down, true) } else { (State::Up, false) },
            "{marked}"
        );
        let flight = if ends { 180 } else { 400 };
        assert_eq!(bench.cc.bounds.long_inflight, flight, "what was in flight when it was sent");
    }
    // An application-limited sample does not limit the flight.
    let mut bench = counting(State::Up);
    bench.cc.probe.sampled = true;
    bench.hear(FULL);
    bench.hear(Said { marked: 100, app_limited: true, ..WITHIN });
    assert_eq!((bench.cc.state, bench.cc.bounds.long_inflight), (State::Down, UNBOUNDED));
    // Nor is there anything to end where nothing was probed.
    let mut bench = counting(State::Cruise);
    bench.hear(FULL);
    bench.hear(Said { marked: 100, ..WITHIN });
    assert_eq!((bench.cc.state, bench.cc.bounds.long_inflight), (State::Cruise, UNBOUNDED));
}

#[test]
fn two_rounds_in_a_row_with_half_of_the_data_marked_end_startup() {
    let after = |rounds: &[bool]| {
        let mut bench = Bench::new();
        bench.cc.marks = Some(Marks::new(None));
        for (round, marked) in rounds.iter().enumerate() {
            // The rate doubles: nothing else ends Startup.
            bench.hear(Said { echo: *marked, rate: 20 << round, ..FULL });
        }
        (bench.cc.pipe.reached, bench.cc.bounds.long_inflight < UNBOUNDED)
    };
    assert_eq!(after(&[true]), (false, false));
    assert_eq!(after(&[true, false, true]), (false, false));
    assert_eq!(after(&[true, true]), (true, true));
}

#[test]
fn when_marks_cease_a_probe_begins_at_once_and_as_large_as_half_of_the_bound() {
    let ceased = |lost: u32, state: CongestionState| {
        let mut bench = counting(State::Cruise);
        bench.cc.bounds.long_inflight = 128;
        bench.enter(CongestionState::Cwr);
        bench.hear(Said { marked: 1, lost, ..MARKED });
        assert_eq!(bench.cc.state, State::Cruise, "marks go on");
        bench.cc.on_state(bench.now, state, &mut bench.window);
        bench.hear(WITHIN);
        bench
    };
    let mut bench = ceased(0, CongestionState::Open);
    assert_eq!(bench.cc.state, State::Refill);
    bench.window.cwnd = 200;
    bench.hear(FULL);
    assert_eq!(bench.cc.state, State::Up);
    // The current bound: 150 segments were in flight, so the bound grew from 128 to 150. The growth continues with
    // ilog2(64) = 6 doublings.
    let mut growth = std::mem::take(&mut bench.cc.probe.growth);
    assert_eq!(growth.grow(200 >> 6), 1, "one for each three acknowledged");
    assert_eq!(ceased(1, CongestionState::Open).cc.state, State::Cruise, "after a loss");
    assert_eq!(ceased(0, CongestionState::Cwr).cc.state, State::Cruise, "while the window is cut");
}
