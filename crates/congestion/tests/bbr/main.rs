//! Compares BBR version 1 with a second, simple implementation of the formulas in `tcp_bbr.c`. It uses
//! floating point, where the kernel uses fixed point.

mod model;
mod saved;

use anabranch_congestion as congestion;
use anabranch_congestion::{
    AckSample, CongestionController, CongestionEvent, CongestionKind, CongestionState, Opened,
    RateSample, TransmitStart, Window,
};
use anabranch_plugin::{PluginChoice, Registry};
use anabranch_units::{Duration, Instant, RandomStream, Rate, Seed, SubflowId};

const MSS: u32 = 1448;
const HIGH_GAIN: f64 = 2.885;
const RTT: Duration = Duration::from_millis(100);

/// The contents of one acknowledgement.
#[derive(Clone, Copy)]
struct Said {
    acked: u32,
    /// Segments delivered over `interval`.
    rate: u32,
    interval: Duration,
    /// Whether the acknowledgement begins a round: it is for data sent after the last acknowledgement.
    round: bool,
    prior_in_flight: u32,
    in_flight: u32,
    newly_lost: u32,
    app_limited: bool,
    rtt: Duration,
    /// Whether the receiver may have delayed the acknowledgement.
    delayed: bool,
    /// The time for which pacing delays the next segment.
    departs: Duration,
    /// The time since the previous acknowledgement.
    after: Duration,
}

/// Delivers 1000 segments per second over an RTT of 100 ms. The bandwidth-delay product of 100 segments is in
/// flight.
const FULL: Said = Said {
    acked: 2,
    rate: 100,
    interval: RTT,
    round: true,
    prior_in_flight: 102,
    in_flight: 100,
    newly_lost: 0,
    app_limited: false,
    rtt: RTT,
    delayed: false,
    departs: Duration::ZERO,
    after: Duration::from_millis(2),
};

/// A controller, its window and its path.
struct Flow {
    bbr: Box<dyn CongestionController>,
    window: Window,
    now: Instant,
    delivered: u64,
}

impl Flow {
    fn new(seed: u64) -> Self {
        let random = Seed { seed, run: 0 }.stream("bbr");
        let bbr = congestion::build(&PluginChoice::named("bbr"), &Registry::TABLES, random);
        let mut flow = Self {
            bbr: bbr.expect("a controller"),
            window: Window { cwnd: 10, ssthresh: u32::MAX },
            now: Instant::ZERO + Duration::from_secs(100),
            delivered: 0,
        };
        flow.start(false);
        flow
    }

    /// Creates a flow that has just drained its full pipe. Its window is at the target.
    fn probing(seed: u64, said: Said) -> Self {
        let mut flow = Self::new(seed);
        for _ in 0..4 {
            flow.hear(Said { in_flight: 1 << 20, ..said });
        }
        assert!(flow.window.ssthresh < u32::MAX, "the startup is over");
        flow.window.cwnd = 1 << 20;
        flow.hear(Said { in_flight: 1, ..said });
        flow
    }

    /// Creates such a flow in the phase with a gain of 5/4.
    fn raised() -> Self {
        let mut flows = (0..100).map(|seed| Self::probing(seed, FULL));
        flows.find(|flow| flow.gain(1000.0) > 1.2).expect("a cycle begins with it")
    }

    /// Returns the window target of the model, after one more acknowledged segment.
    fn target(&mut self) -> u32 {
        self.window.cwnd = 1 << 20;
        self.hear(Said { acked: 1, round: false, ..FULL });
        self.window.cwnd
    }

    /// Data is sent after nothing was in flight.
    fn start(&mut self, app_limited: bool) {
        let (now, last_sent) = (self.now, Instant::ZERO);
        let start = TransmitStart { now, coarse_now: now, last_sent, app_limited, min_rtt: None };
        self.bbr.on_transmit_start(&start, &mut self.window);
    }

    fn hear(&mut self, said: Said) {
        self.now += said.after;
        let before = self.delivered;
        self.delivered += u64::from(said.acked);
        let ack = AckSample {
            now: self.now,
            coarse_now: self.now,
            tick: Duration::ZERO,
            acked: said.acked,
            acked_bytes: u64::from(said.acked * MSS),
            newly_lost: said.newly_lost,
            delivered: self.delivered,
            delivered_ce: 0,
            echo: false,
            mss: MSS,
            next_departure: self.now + said.departs,
            prior_in_flight: said.prior_in_flight,
            in_flight: said.in_flight,
            rtt: Some(said.rtt),
            maybe_delayed: said.delayed,
            srtt: Some(said.rtt),
            min_rtt: Some(said.rtt),
            rate: RateSample {
                delivered: said.rate,
                prior_delivered: if said.round { before } else { 0 },
                interval: said.interval,
                app_limited: said.app_limited,
                in_flight_at_send: said.prior_in_flight,
                lost: 0,
                delivered_ce: 0,
            },
            snd_nxt: 1 << 40,
            snd_una: 0,
            cwnd_limited: true,
            may_grow: true,
            paced: true,
            pacing_rate: Rate::ZERO,
            multipath: true,
            id: SubflowId(0),
            siblings: &[],
        };
        self.bbr.on_ack(&ack, &mut self.window);
    }

    fn enter(&mut self, state: CongestionState) {
        let kind = match state {
            CongestionState::Loss => CongestionKind::Timeout,
            _ => CongestionKind::Loss,
        };
        let event = CongestionEvent { now: self.now, kind, in_flight: self.window.cwnd };
        match state {
            CongestionState::Loss => self.bbr.on_rto(&event, &mut self.window),
            CongestionState::Recovery => self.bbr.on_congestion(&event, &mut self.window),
            _ => {}
        }
        self.bbr.on_state(self.now, state, &mut self.window);
    }

    /// Returns the pacing rate in bytes per second.
    fn pace(&self) -> f64 {
        self.bbr.pacing_rate().expect("BBR paces").bytes_per_second() as f64
    }

    /// Returns the pacing gain, if the bandwidth is `per_second` segments per second.
    fn gain(&self, per_second: f64) -> f64 {
        self.pace() / paced(1.0, per_second)
    }
}

/// The formula of `bbr_bw_to_pacing_rate`, in bytes per second.
fn paced(gain: f64, per_second: f64) -> f64 {
    0.99 * gain * per_second * f64::from(MSS)
}

/// The formula of `bbr_tso_segs_goal` for a pacing rate.
fn goal(pace: f64) -> f64 {
    let least = if pace < 1.2e6 / 8.0 { 1.0 } else { 2.0 };
    ((pace / 1024.0).floor().min(65_200.0) / f64::from(MSS)).floor().clamp(least, 127.0)
}

/// The formulas of `bbr_target_cwnd` and `bbr_quantization_budget`. `raised` is true in phase 0 of the cycle.
fn target(bdp: f64, gain: f64, extra: f64, pace: f64, raised: bool) -> u32 {
    let cwnd = (bdp * gain - 1e-3).ceil() + extra + 3.0 * goal(pace);
    (2.0 * (cwnd / 2.0).ceil()) as u32 + if raised { 2 } else { 0 }
}

fn close(found: f64, expected: f64, slack: f64) -> bool {
    (found - expected).abs() <= slack * expected
}

/// Draws a number from the range, uniformly in its logarithm.
fn any(random: &mut RandomStream, least: f64, most: f64) -> f64 {
    least * (most / least).powf(random.uniform())
}

#[test]
fn the_first_pace_is_the_initial_window_over_the_round_trip() {
    // `bbr_init` uses the handshake's RTT, or one millisecond if it was not measured.
    for (rtt, seconds) in [(Some(RTT), 0.1), (None, 0.001)] {
        let mut flow = Flow::new(1);
        let opened = Opened { coarse_now: flow.now, rtt, mss: MSS };
        flow.bbr.on_open(&opened, &mut flow.window);
        assert!(close(flow.pace(), paced(HIGH_GAIN, 10.0 / seconds), 2e-3), "{}", flow.pace());
    }
    let mut flow = Flow::new(1);
    assert!(flow.bbr.pacing_rate().is_none());
    // This sample is slower: one segment in 100 ms. Before the pipe is full, the pacing rate only rises.
    flow.hear(Said { rate: 1, acked: 1, ..FULL });
    assert!(close(flow.pace(), paced(HIGH_GAIN, 10.0 / 0.1), 2e-3), "{}", flow.pace());
    flow.hear(Said { rate: 200, ..FULL });
    let risen = paced(HIGH_GAIN, 2000.0);
    assert!(close(flow.pace(), risen, 2e-3), "{} and not {risen}", flow.pace());
    flow.hear(Said { rate: 20, ..FULL });
    assert!(close(flow.pace(), risen, 2e-3));
}

/// `bbr_min_tso_segs` is one below 1.2 Mbit/s, and otherwise two.
#[test]
fn segments_leave_one_by_one_below_a_pace_of_1_2_megabits() {
    for (rate, least) in [(103, 1), (104, 1), (105, 2), (106, 2)] {
        // At 104.6 segments per second, 0.99 times 1448 bytes are 150 kB/s, which is 1.2 Mbit/s.
        let mut flow = Flow::probing(1, Said { rate, interval: Duration::from_secs(1), ..FULL });
        while flow.gain(f64::from(rate)) > 1.01 || flow.gain(f64::from(rate)) < 0.99 {
            flow.hear(Said {
                rate,
                interval: Duration::from_secs(1),
                after: RTT * 2,
                in_flight: 1,
                ..FULL
            });
        }
        assert_eq!(flow.bbr.least_burst(), least, "{rate}");
    }
}

/// Random paths, random bursts of acknowledgements, and every phase of the cycle.
#[test]
fn probe_cycle_pacing_and_window_match_the_formulas() {
    let mut random = Seed { seed: 7, run: 0 }.stream("formulas");
    let mut phases = [0; 3];
    for seed in 0..4000 {
        let rtt = Duration::from_micros(any(&mut random, 500.0, 5e5) as u64);
        let rate = any(&mut random, 5.0, 5000.0) as u32;
        let burst = any(&mut random, 1.0, 500.0) as u32;
        let flight = 4 * rate + 1000;
        let said = Said {
            rate,
            interval: rtt,
            rtt,
            acked: 1,
            after: rtt + Duration::from_micros(1),
            prior_in_flight: flight,
            in_flight: flight,
            ..FULL
        };
        let mut flow = Flow::probing(seed, said);
        // Each acknowledgement arrives after more than the minimum RTT and with a full pipe, so each begins a
        // phase.
        for _ in 0..seed % 8 {
            flow.hear(said);
        }
        flow.window.cwnd = 1 << 20;
        flow.hear(Said { acked: burst, after: rtt, ..said });

        let per_second = f64::from(rate) / rtt.as_secs_f64();
        let gain = flow.gain(per_second);
        let gains = [1.25, 0.75, 1.0];
        let phase = gains.iter().position(|known| (gain - known).abs() < 0.1).expect("a gain");
        phases[phase] += 1;
        // One unit of the bandwidth is 2^-24 segments per microsecond.
        let digit = rtt.as_micros() as f64 / f64::from(rate) * 2f64.powi(-24);
        let exact = paced(gains[phase], per_second);
        assert!((flow.pace() - exact).abs() <= digit * exact + 2.0, "{}: {exact}", flow.pace());

        let most = ((u64::from(rate) << 24) / rtt.as_micros() * 100_000) >> 24;
        let extra = f64::from(burst).min(most as f64);
        let expected = target(f64::from(rate), 2.0, extra, flow.pace(), phase == 0);
        assert_eq!(flow.window.cwnd, expected, "{rate} in {rtt}, {burst} at once, gain {gain}");
    }
    assert!(phases[0] > 200 && phases[1] > 200 && phases[2] > 2000, "{phases:?}");
}

/// The cycle begins in any phase except the one with gain 3/4, and keeps its order.
#[test]
fn the_cycle_goes_up_down_and_cruises_six_round_trips() {
    let mut firsts = [0; 8];
    for seed in 0..300 {
        let mut flow = Flow::probing(seed, FULL);
        let full = Said { prior_in_flight: 1000, after: RTT + Duration::from_millis(1), ..FULL };
        let mut gains = String::new();
        for _ in 0..17 {
            gains.push(match flow.gain(1000.0) {
                gain if close(gain, 1.25, 1e-3) => 'u',
                gain if close(gain, 0.75, 1e-3) => 'd',
                gain if close(gain, 1.0, 1e-3) => '-',
                gain => panic!("{gain}"),
            });
            flow.hear(full);
        }
        let up = gains.find('u').expect("it probes");
        let cycles = "ud------".repeat(4);
        let first = (8 - up) % 8;
        assert_eq!(gains, cycles[first..first + 17]);
        firsts[first] += 1;
    }
    assert_eq!(firsts[1], 0);
    assert!(firsts.iter().filter(|count| **count > 20).count() == 7, "{firsts:?}");

    // The phase with gain 5/4 ends after one RTT, if the pipe holds a quarter more or a segment was lost. The
    // phase with gain 3/4 ends when the queue is drained.
    let mut flow = Flow::raised();
    // One segment less than the target is in the network when the current burst has left.
    let goal = goal(flow.pace()) as u32;
    let short = target(100.0, 1.25, 0.0, flow.pace(), true) - goal - 1;
    flow.hear(Said { prior_in_flight: short, after: RTT * 2, ..FULL });
    assert!(close(flow.gain(1000.0), 1.25, 1e-3));
    flow.hear(Said { prior_in_flight: short + 1, ..FULL });
    assert!(close(flow.gain(1000.0), 0.75, 1e-3));
    let drained = target(100.0, 1.0, 0.0, flow.pace(), false);
    flow.hear(Said { prior_in_flight: drained + 1, ..FULL });
    assert!(close(flow.gain(1000.0), 0.75, 1e-3));
    flow.hear(Said { prior_in_flight: drained, ..FULL });
    assert!(close(flow.gain(1000.0), 1.0, 1e-3));
}

#[test]
fn startup_ends_after_three_rounds_under_a_quarter_more() {
    let over = |flow: &Flow| flow.window.ssthresh < u32::MAX;
    let mut flow = Flow::new(1);
    for rate in [64, 80, 100, 125] {
        for _ in 0..2 {
            flow.hear(Said { rate, ..FULL });
            // Rates within the round do not count. Rates that the application limited do not count either.
            flow.hear(Said { rate, round: false, ..FULL });
            flow.hear(Said { rate, app_limited: true, ..FULL });
        }
    }
    // The baseline is 125. A rate of 156 is less than 1.25 times this, which is 156.25.
    flow.hear(Said { rate: 156, ..FULL });
    assert!(!over(&flow));
    assert!(close(flow.pace(), paced(HIGH_GAIN, 1560.0), 2e-3));
    let before = flow.window.cwnd;
    flow.hear(Said { rate: 156, in_flight: 1000, ..FULL });
    assert!(over(&flow));
    // Gains are multiples of 1/256: the inverse of the high gain is 88/256, not 88.7/256.
    assert!(close(flow.pace(), paced(1.0 / HIGH_GAIN, 1560.0), 1e-2), "{}", flow.pace());
    // The window still has the high gain, and grows by the acknowledged segments.
    assert_eq!(flow.window.cwnd, before + 2);
    // ssthresh is computed with the pacing rate of Startup.
    let full = target(156.0, 1.0, 0.0, paced(HIGH_GAIN, 1560.0), false);
    assert_eq!(flow.window.ssthresh, full);
    // Drain ends when the data in flight is this target, computed with the pacing rate of Drain.
    let full = target(156.0, 1.0, 0.0, flow.pace(), false);
    flow.hear(Said { rate: 156, in_flight: full + 1, ..FULL });
    assert!(flow.gain(1560.0) < 0.5);
    flow.hear(Said { rate: 156, in_flight: full, ..FULL });
    assert!(flow.gain(1560.0) > 0.7);
}

/// In Startup, the window grows by the acknowledged segments up to the target, and always to at least ten.
#[test]
fn startup_grows_to_its_target() {
    let mut flow = Flow::new(1);
    flow.hear(Said { rate: 1, acked: 9, ..FULL });
    assert_eq!(flow.window.cwnd, 19, "fewer than ten are delivered");
    flow.hear(Said { rate: 1, acked: 9, ..FULL });
    assert_eq!(flow.window.cwnd, 19, "above the target");
    flow.hear(Said { rate: 100, acked: 50, ..FULL });
    assert_eq!(flow.window.cwnd, 69);
}

#[test]
fn after_ten_seconds_four_segments_for_200_ms_and_a_round() {
    let mut flow = Flow::probing(1, FULL);
    let said = Said { after: Duration::from_millis(10), ..FULL };
    while flow.window.cwnd > 4 {
        flow.hear(said);
        assert!(flow.now < Instant::ZERO + Duration::from_secs(111));
    }
    // The first acknowledgement measured the minimum RTT, 2 ms after the start at 100 s.
    let began = flow.now.since(Instant::ZERO + Duration::from_millis(100_002));
    assert!(began > Duration::from_secs(10), "{began}");
    assert!(began <= Duration::from_millis(10_010), "{began}");
    assert!(close(flow.gain(1000.0), 1.0, 1e-3));
    assert!(flow.bbr.marks_application_limited());
    let before = target(100.0, 2.0, 0.0, flow.pace(), false);
    // The 200 ms begin when four segments are in flight.
    let held = |in_flight: u32| Said { in_flight, acked: 1, ..said };
    for _ in 0..50 {
        flow.hear(held(5));
    }
    flow.hear(held(4));
    let since = flow.now;
    while flow.window.cwnd == 4 {
        flow.hear(held(4));
        assert!(flow.now.since(since) < Duration::from_secs(1));
    }
    assert_eq!(flow.now.since(since), Duration::from_millis(210), "the first past 200 ms");
    assert!(flow.window.cwnd >= before, "{} and not {before}", flow.window.cwnd);
    // Data in flight at the end of the phase still counts as sent in it.
    assert!(flow.bbr.marks_application_limited());
    flow.hear(said);
    assert!(!flow.bbr.marks_application_limited());

    // After an idle period nothing is in flight, so `ProbeRtt` is not entered.
    let mut flow = Flow::probing(1, FULL);
    flow.now += Duration::from_secs(11);
    flow.start(true);
    assert!(close(flow.gain(1000.0), 1.0, 1e-3));
    flow.hear(FULL);
    assert!(flow.window.cwnd > 4);
}

#[test]
fn a_recovery_conserves_packets_for_a_round_and_gives_the_window_back() {
    let mut flow = Flow::probing(1, FULL);
    let (before, pace) = (flow.window.cwnd, flow.gain(1000.0));
    flow.enter(CongestionState::Recovery);
    assert_eq!(flow.window.cwnd, before, "BBR's ssthresh cuts nothing");
    let within = Said { round: false, newly_lost: 3, ..FULL };
    flow.hear(Said { in_flight: 60, ..within });
    assert_eq!(flow.window.cwnd, 62, "what is in flight and what was acknowledged");
    flow.hear(Said { in_flight: 40, newly_lost: 1, ..within });
    assert_eq!(flow.window.cwnd, 61, "less the lost, as that is more");
    flow.hear(Said { in_flight: 80, newly_lost: 0, ..within });
    assert_eq!(flow.window.cwnd, 82);
    assert!((flow.gain(1000.0) - pace).abs() < 1e-3 || pace > 1.2, "losses do not slow it down");
    // After one round, the window grows by the acknowledged segments again. Losses still reduce it.
    flow.hear(Said { in_flight: 80, ..FULL });
    assert_eq!(flow.window.cwnd, 84);
    flow.hear(Said { in_flight: 80, newly_lost: 10, ..within });
    assert_eq!(flow.window.cwnd, 76);
    flow.enter(CongestionState::Open);
    flow.hear(Said { newly_lost: 0, acked: 1, ..within });
    assert!(flow.window.cwnd >= before, "{} and not {before}", flow.window.cwnd);

    // Losses reduce the window to at least one segment. After the recovery it has at least four.
    let mut flow = Flow::probing(1, FULL);
    flow.hear(Said { newly_lost: 10_000, ..within });
    assert_eq!(flow.window.cwnd, 4);
}

#[test]
fn after_a_timeout_the_window_comes_back_with_the_state() {
    let mut flow = Flow::probing(1, FULL);
    let before = flow.window.cwnd;
    flow.enter(CongestionState::Loss);
    assert_eq!(flow.window.cwnd, before, "the core sets it");
    flow.window.cwnd = 1;
    flow.hear(Said { in_flight: 1, ..FULL });
    assert_eq!(flow.window.cwnd, 4, "1 + 2, and four at least");
    flow.hear(FULL);
    assert_eq!(flow.window.cwnd, 6, "no conservation in state Loss");
    flow.enter(CongestionState::Open);
    flow.hear(Said { acked: 1, ..FULL });
    assert!(flow.window.cwnd >= before.min(target(100.0, 2.0, 0.0, flow.pace(), false)));

    // After the undo, Startup measures the growth again, so three more rounds are needed.
    let mut flow = Flow::new(1);
    for _ in 0..3 {
        flow.hear(FULL);
    }
    flow.enter(CongestionState::Loss);
    flow.hear(FULL);
    assert_eq!(flow.window.ssthresh, u32::MAX, "this is the new base, from zero");
    for _ in 0..2 {
        flow.hear(FULL);
        assert_eq!(flow.window.ssthresh, u32::MAX);
    }
    flow.hear(FULL);
    assert!(flow.window.ssthresh < u32::MAX);
}

#[test]
fn a_policer_sets_the_pace_for_48_rounds_of_the_cycle() {
    // `bbr_lt_bw_sampling`: acknowledgements arrive at 2000 segments per second, and each round of 100 ms
    // delivers 100 of 140 segments. If two intervals of four rounds agree, their throughput becomes the
    // bandwidth, with gain 1.
    let lossy = Said { acked: 100, rate: 200, newly_lost: 40, after: RTT, ..FULL };
    let mut flow = Flow::probing(1, Said { rate: 200, ..FULL });
    let policed = |flow: &Flow| close(flow.gain(1000.0), 1.0, 2e-3);
    let found = (1..=20).find(|_| {
        flow.hear(lossy);
        policed(&flow)
    });
    assert_eq!(found, Some(8));
    // `bbr_lt_bw_max_rtts`: after this number of rounds, the policer's rate is released. The cycle then
    // restarts in any phase except the one with gain 3/4.
    let released = (1..=100).find(|_| {
        flow.hear(lossy);
        !policed(&flow)
    });
    assert_eq!(released, Some(48));
    assert!(flow.gain(2000.0) > 0.99, "{}", flow.gain(2000.0));
}
