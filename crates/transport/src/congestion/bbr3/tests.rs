//! Each rule against values worked out by hand from the draft.

mod formulas;

use anabranch_units::{Duration, Seed, SubflowId};

use super::cycle::Growth;
use super::loss::{exceeds_threshold, inflight_at_loss, with_headroom};
use super::*;
use crate::congestion::RateSample;

const RTT: Duration = Duration::from_millis(100);
const MSS: u32 = 1448;

/// A controller and the path it believes in.
struct Bench {
    cc: Bbr3,
    window: Window,
    now: Instant,
    delivered: u64,
}

/// What an acknowledgement says.
#[derive(Clone, Copy)]
struct Said {
    acked: u32,
    /// Segments delivered over one RTT.
    rate: u32,
    /// It acknowledges what was sent after the last acknowledgement: a round begins.
    round: bool,
    in_flight: u32,
    prior_in_flight: u32,
    in_flight_at_send: u32,
    lost: u32,
    app_limited: bool,
    cwnd_limited: bool,
    rtt: Duration,
}

/// 100 segments a round trip, and a full round trip later.
const FULL: Said = Said {
    acked: 2,
    rate: 100,
    round: true,
    in_flight: 150,
    prior_in_flight: 152,
    in_flight_at_send: 149,
    lost: 0,
    app_limited: false,
    cwnd_limited: false,
    rtt: RTT,
};
/// Within a round.
const WITHIN: Said = Said { round: false, ..FULL };

/// That, with so much delivered up to now and before.
fn acknowledgement(now: Instant, delivered: u64, before: u64, said: &Said) -> AckSample<'static> {
    AckSample {
        now,
        coarse_now: now,
        acked: said.acked,
        acked_bytes: u64::from(said.acked * MSS),
        newly_lost: 0,
        delivered,
        mss: MSS,
        next_departure: now,
        prior_in_flight: said.prior_in_flight,
        in_flight: said.in_flight,
        rtt: Some(said.rtt),
        srtt: Some(said.rtt),
        min_rtt: Some(RTT),
        rate: RateSample {
            delivered: said.rate,
            prior_delivered: if said.round { before } else { 0 },
            interval: RTT,
            app_limited: said.app_limited,
            in_flight_at_send: said.in_flight_at_send,
            lost: said.lost,
        },
        snd_nxt: 1 << 40,
        snd_una: 0,
        cwnd_limited: said.cwnd_limited,
        may_grow: true,
        paced: true,
        pacing_rate: Rate::ZERO,
        id: SubflowId(0),
        siblings: &[],
    }
}

impl Bench {
    fn new() -> Self {
        let mut bench = Self {
            cc: Bbr3::new(Seed { seed: 1, run: 0 }.stream("test")),
            window: Window { cwnd: 10, ssthresh: u32::MAX },
            now: Instant::ZERO + Duration::from_secs(100),
            delivered: 0,
        };
        let start = TransmitStart {
            now: bench.now,
            last_sent: Instant::ZERO,
            app_limited: false,
            min_rtt: Some(RTT),
        };
        bench.cc.on_transmit_start(&start, &mut bench.window);
        bench
    }

    /// A flow in that state on a path of 1000 segments a second and 100 ms: 100 segments.
    fn in_state(state: State) -> Self {
        let mut bench = Self::new();
        for _ in 0..4 {
            bench.hear(FULL);
        }
        bench.hear(Said { in_flight: 90, ..FULL });
        assert_eq!(bench.cc.state, State::Cruise, "nothing to drain");
        bench.cc.state = state;
        bench.cc.probe.stopping = false;
        bench.cc.pipe.restart(bench.cc.bw);
        bench.window.cwnd = 200;
        bench
    }

    fn hear(&mut self, said: Said) {
        self.now += Duration::from_millis(1);
        let prior = self.delivered;
        self.delivered += u64::from(said.acked);
        let ack = acknowledgement(self.now, self.delivered, prior, &said);
        self.cc.on_ack(&ack, &mut self.window);
    }

    /// A segment of `place` is lost, `lost` of the `in_flight` before it are, itself included.
    fn lose(&mut self, place: u64, in_flight: u32, lost: u32) {
        self.lose_as(place, in_flight, lost, |_| {});
    }

    fn lose_as(
        &mut self,
        place: u64,
        in_flight: u32,
        lost: u32,
        other: impl FnOnce(&mut LostSegment),
    ) {
        let mut segment = LostSegment {
            now: self.now,
            start: 1 + place * u64::from(MSS),
            end: 1 + (place + 1) * u64::from(MSS),
            in_flight_at_send: in_flight,
            lost_since_send: lost,
            app_limited: false,
            delivered: self.delivered,
            selective_acks: true,
        };
        other(&mut segment);
        self.cc.on_lost(&segment, &self.window);
    }

    fn enter(&mut self, state: CongestionState) {
        let kind = match state {
            CongestionState::Loss => CongestionKind::Timeout,
            _ => CongestionKind::Loss,
        };
        let event = CongestionEvent { now: self.now, kind, in_flight: 0 };
        self.cc.on_congestion(&event, &mut self.window);
        self.cc.on_state(self.now, state, &mut self.window);
    }

    /// The pacing rate over 1000 segments a second less the margin of 1 %.
    fn pace(&self) -> f64 {
        let rate = self.cc.pacing_rate().expect("paced").bytes_per_second();
        (rate as f64 / (1000.0 * f64::from(MSS) * 0.99) * 1000.0).round() / 1000.0
    }
}

/// So many segments a second.
fn per_second(segments: u32) -> Bandwidth {
    Bandwidth::of(segments, Duration::from_secs(1))
}

#[test]
fn the_first_pace_is_the_initial_window_over_the_handshakes_round_trip() {
    let mut bench = Bench::new();
    let rate = |bench: &Bench| bench.cc.pacing_rate().expect("paced").bytes_per_second() as f64;
    let expected = 2.77 * 10.0 * f64::from(MSS) / 0.1;
    assert!((rate(&bench) / expected - 1.0).abs() < 1e-3, "{}, not {expected}", rate(&bench));
    // 50 segments a second are less than 100, but say little yet.
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
    // A burst of twelve and two in flight are all that 10 segments a second want.
    assert_eq!(windows, [12, 14, 16, 18, 18, 18]);
}

#[test]
fn startup_ends_after_three_rounds_without_a_quarter_more() {
    let mut bench = Bench::new();
    for rate in [100, 124, 125, 150, 156] {
        // 124 is too little over 100, 125 is enough: from there on it counts anew.
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
    // Of 150: four are more than 2 %, three are not. The path delivered 120, more than its 100.
    assert_eq!(ends(&apart, 4, true), Some(120));
    assert_eq!(ends(&apart, 3, true), None, "few");
    assert_eq!(ends(&apart, 4, false), None, "no recovery");
    assert_eq!(ends(&[1, 2, 3, 5, 7, 9], 6, true), None, "four ranges");

    // Three ranges a round are three, however many rounds it goes on.
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
        // Where all is drained there is nothing to go down for.
        let next = if in_flight == 100 { State::Cruise } else { State::Down };
        assert_eq!(bench.cc.state, next, "{in_flight}");
    }
}

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
    // The window: 2.25 times 100, what was aggregated, and two.
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
            // Counting begins at zero or one.
            seen[(rounds - count) as usize] += 1;
        }
        assert!(seen.iter().all(|times| *times > 8), "{rounds}: {seen:?}");
    }
}

#[test]
fn a_probe_that_loses_more_than_two_per_cent_bounds_the_flight() {
    // 120 in flight before the segment and two lost of 121 are fine, three are not: 117.6 of 120 is
    // what 2 % leaves of three, so that none of the third fits.
    let mut bench = Bench::in_state(State::Up);
    bench.cc.probe.sampled = true;
    bench.lose(1, 120, 2);
    assert_eq!((bench.cc.state, bench.cc.bounds.long_inflight), (State::Up, UNBOUNDED));
    bench.lose(5, 120, 3);
    assert_eq!((bench.cc.state, bench.cc.bounds.long_inflight), (State::Down, 120));
    // Once a probe.
    bench.lose(9, 60, 4);
    assert_eq!(bench.cc.bounds.long_inflight, 120);

    // At least 0.7 of what was wanted in flight: the product of 100, or the window where it is less.
    for (cwnd, bound) in [(200, 70), (80, 56)] {
        let mut bench = Bench::in_state(State::Up);
        bench.cc.probe.sampled = true;
        bench.window.cwnd = cwnd;
        bench.lose(1, 30, 1);
        assert_eq!((bench.cc.state, bench.cc.bounds.long_inflight), (State::Down, bound));
    }

    // Nobody tried the path while the application held the flow back; but the probe ends.
    let mut bench = Bench::in_state(State::Up);
    bench.cc.probe.sampled = true;
    bench.lose_as(1, 30, 1, |segment| segment.app_limited = true);
    assert_eq!((bench.cc.state, bench.cc.bounds.long_inflight), (State::Down, UNBOUNDED));

    // What is lost in the round behind a probe was sent in it; what is lost later was not.
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
    // What the application held back tells of no slower path, and makes no cycle.
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
        // 80 at once.
        bench.hear(Said { acked: 80, rate: 125, ..WITHIN });
        assert_eq!(bench.cc.extra_acked.get(), 80, "{state:?}");
        for round in 1..=rounds {
            assert_eq!(bench.cc.extra_acked.get(), 80, "{state:?} {round}");
            bench.now += Duration::from_millis(100);
            bench.hear(Said { acked: 1, app_limited: true, ..FULL });
        }
        assert!(bench.cc.extra_acked.get() < 80, "{state:?}");
    }
    // Idleness is no aggregation: what came in a burst before it is not in the next epoch.
    let mut bench = Bench::in_state(State::Cruise);
    bench.hear(Said { acked: 150, ..WITHIN });
    bench.cc.extra_acked = WindowedMax::default();
    let start = TransmitStart {
        now: bench.now + Duration::from_millis(20),
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
fn what_is_lost_while_nothing_probes_leaves_the_long_term_bound() {
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
    // A probe within what is bounded, its segments sent into 100.
    let calm = Said { in_flight_at_send: 99, prior_in_flight: 118, in_flight: 117, ..FULL };
    bench.hear(Said { round: true, ..calm });
    bench.cc.start_refill();
    bench.hear(calm);
    assert_eq!(bench.cc.state, State::Up);
    bench.hear(Said { round: false, ..calm });
    assert_eq!(bench.cc.state, State::Up);
    let at_bound = Said { prior_in_flight: 119, round: false, ..calm };
    bench.hear(at_bound);
    assert_eq!((bench.cc.state, bench.cc.probe.precautionary), (State::Down, true));
    // Nothing lost in the round after it: again, and this time on and beyond.
    bench.hear(calm);
    assert_eq!((bench.cc.state, bench.cc.probe.precautionary), (State::Refill, false));
    bench.hear(calm);
    bench.hear(at_bound);
    assert_eq!(bench.cc.state, State::Up);

    // Had it lost too much again, it would be down.
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
        // Two of 64 lost are too many.
        Said { lost: 2, ..limited },
    ] {
        let mut bench = up();
        bench.hear(other);
        assert_eq!(bench.cc.bounds.long_inflight, 64);
    }
    // Each probe begins with the gentlest slope.
    for _ in 0..5 {
        bench.cc.probe.growth.steepen(64);
    }
    bench.cc.start_refill();
    bench.hear(Said { round: true, ..limited });
    bench.window.cwnd = 65;
    bench.hear(Said { acked: 65, ..limited });
    assert_eq!((bench.cc.state, bench.cc.bounds.long_inflight), (State::Up, 66));
    // While the bound holds it back, no plateau is the path's.
    let mut bench = up();
    for _ in 0..6 {
        for n in 0..64 {
            bench.window.cwnd = bench.cc.bounds.long_inflight;
            bench.hear(Said { acked: 1, round: n == 0, ..limited });
            assert_eq!(bench.cc.state, State::Up);
        }
    }
    // The slope is steeper from the first round's start on: 2, 4, 8, 16, 32 and 64.
    let bound = bench.cc.bounds.long_inflight;
    assert!((64 + 100..64 + 127).contains(&bound), "{bound}: the window has grown meanwhile");
    // A flight that came through safely raises the bound at any time.
    let mut bench = up();
    bench.cc.state = State::Cruise;
    bench.hear(Said { in_flight_at_send: 69, ..WITHIN });
    assert_eq!(bench.cc.bounds.long_inflight, 70);
}

#[test]
fn a_loss_between_probes_bounds_rate_and_flight_once_a_round_to_what_was_delivered() {
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
    // 0.7 of 1000 a second and of a window of 202, as 60 over 100 ms are less.
    bench.window.cwnd = 200;
    near(round(&mut bench, 60), 700, 141);
    assert!((bench.pace() - 0.7).abs() < 1e-3, "{}", bench.pace());
    // 0.7 of 700 are less than the 600 delivered; of 141 they are 98.
    near(round(&mut bench, 60), 600, 98);
    assert_eq!(bench.window.cwnd, 98);
    near(round(&mut bench, 60), 600, 68);
    near(round(&mut bench, 60), 600, 60);
    // The next probe forgets them.
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
    // Down is left only when the room is there.
    let mut bench = Bench::in_state(State::Down);
    bench.cc.bounds.long_inflight = 100;
    bench.hear(Said { in_flight_at_send: 50, in_flight: 86, ..WITHIN });
    assert_eq!(bench.cc.state, State::Down);
    bench.hear(Said { in_flight_at_send: 50, in_flight: 85, ..WITHIN });
    assert_eq!(bench.cc.state, State::Cruise);
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
    assert!(!bench.cc.marks_application_limited());
    // The next is due five seconds later.
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
    // Its ten seconds began when it was measured.
    assert_eq!(at(&mut bench, 15_500, 150), Some(110));
    assert_eq!(at(&mut bench, 15_700, 150), Some(150));
    assert_eq!(at(&mut bench, 15_800, 90), Some(90));
}

#[test]
fn a_timeout_cuts_nothing_here_and_the_window_comes_back() {
    let mut bench = Bench::in_state(State::Cruise);
    bench.window.cwnd = 180;
    bench.lose(1, 99, 1);
    bench.enter(CongestionState::Loss);
    assert_eq!(bench.window.cwnd, 180);
    // The core: one segment beyond what is in flight.
    bench.window.cwnd = 1;
    bench.hear(Said { in_flight: 1, ..WITHIN });
    assert_eq!(bench.window.cwnd, MIN_PIPE, "from there by what is acknowledged");
    bench.hear(Said { in_flight: 1, ..WITHIN });
    assert_eq!(bench.window.cwnd, 6);
    // A second timeout does not forget what was good.
    bench.enter(CongestionState::Loss);
    bench.cc.on_state(bench.now, CongestionState::Open, &mut bench.window);
    assert_eq!(bench.window.cwnd, 180);
}

#[test]
fn a_spurious_recovery_leads_back_to_where_losses_led_away() {
    // Three losses at once: the third ends the probe, a fourth comes behind it.
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

    // Short-term bounds are undone to what they were before the episode, not before its last round.
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

    // The next episode is another: what was before it is returned to, and a plateau sought anew.
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
