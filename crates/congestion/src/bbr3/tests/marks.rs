//! ECN marks. Expected values are computed by hand from `tcp_bbr.c` (google/bbr branch v3).

use super::*;

/// An acknowledgement that reports a mark.
const MARKED: Said = Said { echo: true, ..FULL };

/// Like [`Bench::in_state`], but the controller reacts to marks on any path.
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
    // alpha starts at 256. After each round it is 15/16 of itself plus 1/16 of the fraction of marked data. A
    // bound is reduced by a third of alpha: 1000 segments become 1000 (256 - 85) / 256 = 667. After a round
    // without marks, alpha is 240, and a third of it is 79.
    let mut bench = counting(State::Cruise);
    assert_eq!(marks(&bench).cut(1000), 667);
    bench.hear(FULL);
    assert_eq!(marks(&bench).cut(1000), 691);
    bench.hear(WITHIN);
    assert_eq!(marks(&bench).cut(1000), 691, "once a round");
    for _ in 0..100 {
        bench.hear(FULL);
    }
    // In whole numbers, alpha falls to zero.
    assert!(marks(&bench).cut(1000) > 980, "{}", marks(&bench).cut(1000));
    for _ in 0..100 {
        bench.hear(MARKED);
    }
    // In whole numbers, alpha rises to 241 and stays there.
    assert!((667..690).contains(&marks(&bench).cut(1000)), "{}", marks(&bench).cut(1000));
}

#[test]
fn a_round_with_marks_bounds_the_flight_and_not_the_rate() {
    let mut bench = counting(State::Cruise);
    bench.hear(FULL);
    bench.window.cwnd = 100;
    bench.hear(Said { echo: true, acked: 0, ..WITHIN });
    bench.hear(FULL);
    // After two rounds without marked data, alpha is 225. A third of it is 74, so 182/256 of the window of
    // 100 remain.
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
    // A path that was eligible once stays eligible, even if its RTT grows.
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
    // A sample that the application limited sets no bound.
    let mut bench = counting(State::Up);
    bench.cc.probe.sampled = true;
    bench.hear(FULL);
    bench.hear(Said { marked: 100, app_limited: true, ..WITHIN });
    assert_eq!((bench.cc.state, bench.cc.bounds.long_inflight), (State::Down, UNBOUNDED));
    // Outside a probe there is nothing to end.
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
            // The rate doubles in every round, so only marks can end Startup.
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
    // The bound is now 150, because 150 segments were in flight. The growth continues with ilog2(64) = 6
    // doublings.
    let mut growth = std::mem::take(&mut bench.cc.probe.growth);
    assert_eq!(growth.grow(200 >> 6), 1, "one for each three acknowledged");
    assert_eq!(ceased(1, CongestionState::Open).cc.state, State::Cruise, "after a loss");
    assert_eq!(ceased(0, CongestionState::Cwr).cc.state, State::Cruise, "while the window is cut");
}
