//! Plug-ins by themselves: schedulers on hand-made views, path managers, controllers against closed
//! forms.

use anabranch_transport::congestion::{
    self, AckSample, CongestionEvent, CongestionKind, CongestionState, RateSample, Window,
};
use anabranch_transport::path_manager::{self, Candidate};
use anabranch_transport::plugin::{PluginChoice, PluginError, Registry, Value};
use anabranch_transport::scheduler::{self, Ask, Decision, SendRequest, SubflowView};
use anabranch_units::{Duration, Instant, RandomStream, Rate, Seed, SubflowId};

fn named(name: &str) -> PluginChoice {
    PluginChoice::named(name)
}

fn view(id: u8, srtt_ms: u64, cwnd: u32, in_flight: u32) -> SubflowView {
    SubflowView {
        id: SubflowId(id),
        srtt: Duration::from_millis(srtt_ms),
        rttvar: Duration::from_millis(5),
        min_rtt: Duration::from_millis(srtt_ms),
        cwnd,
        ssthresh: u32::MAX,
        in_flight,
        queued_bytes: 0,
        queued_memory: u64::from(in_flight) * 1424,
        send_buffer: 1 << 20,
        mss: 1424,
        pacing_rate: Rate::from_bps(5_000_000),
        delivery_rate: Rate::from_bps(5_000_000),
        state: CongestionState::Open,
        backup: false,
        stale: false,
        established: true,
        last_ack: Instant::ZERO,
    }
}

fn request() -> SendRequest {
    SendRequest {
        now: Instant::ZERO,
        ask: Ask::NewData,
        data_una: 0,
        data_next: 0,
        data_end: 1 << 20,
        window_end: 1 << 20,
        fragment: 32_728,
    }
}

/// Whom a fresh scheduler of that name sends on.
fn choice(name: &str, views: &[SubflowView]) -> Option<u8> {
    let mut scheduler = scheduler::build(&named(name), &Registry::TABLES).expect("a known name");
    chosen(&scheduler.schedule(&request(), views))
}

fn chosen(decision: &Decision) -> Option<u8> {
    match decision {
        Decision::Wait { .. } => None,
        Decision::Send { on, .. } => on.iter().next().map(|id| id.0),
    }
}

#[test]
fn min_rtt_prefers_low_rtt_until_its_window_fills() {
    assert_eq!(choice("min-rtt", &[view(0, 100, 10, 0), view(1, 50, 10, 0)]), Some(1));
    assert_eq!(choice("min-rtt", &[view(0, 100, 10, 0), view(1, 50, 10, 10)]), Some(0));
    assert_eq!(choice("min-rtt", &[view(0, 100, 10, 10), view(1, 50, 10, 10)]), None);
    assert_eq!(
        choice("spd", &[view(0, 50, 10, 0), view(1, 50, 10, 0)]),
        Some(0),
        "ties: the older"
    );
}

#[test]
fn window_schedulers_leave_out_what_is_in_loss_stale_or_not_established() {
    for name in ["min-rtt", "round-robin", "redundant"] {
        for spoil in 0..3 {
            let mut fast = view(0, 10, 10, 0);
            match spoil {
                0 => fast.state = CongestionState::Loss,
                1 => fast.stale = true,
                _ => fast.established = false,
            }
            assert_eq!(choice(name, &[fast, view(1, 90, 10, 0)]), Some(1), "{name} {spoil}");
        }
    }
}

#[test]
fn a_backup_serves_only_when_there_is_nothing_else() {
    for name in ["min-rtt", "linux", "linux-6.1", "round-robin", "redundant"] {
        let backup = SubflowView { backup: true, ..view(0, 10, 10, 0) };
        let full = SubflowView { send_buffer: 100, ..view(1, 90, 10, 10) };
        assert_eq!(
            choice(name, &[backup, full]),
            None,
            "{name}: a busy regular path is waited for"
        );
        assert_eq!(choice(name, &[backup]), Some(0), "{name}");
    }
}

#[test]
fn linux_takes_the_least_linger_and_waits_when_that_one_is_full() {
    // Linger is memory over rate: 100 kB at 5 Mb/s against 100 kB at 10 Mb/s.
    let slow = SubflowView { queued_memory: 100_000, ..view(0, 10, 50, 40) };
    let fast = SubflowView {
        queued_memory: 100_000,
        pacing_rate: Rate::from_bps(10_000_000),
        ..view(1, 200, 50, 40)
    };
    assert_eq!(choice("linux", &[slow, fast]), Some(1), "the RTT does not count");
    let full = SubflowView { send_buffer: 90_000, ..fast };
    assert_eq!(choice("linux", &[slow, full]), None, "no fall-back to the second best");
}

#[test]
fn linux_bursts_are_64_kib_or_what_the_window_leaves() {
    let mut linux = scheduler::build(&named("linux"), &Registry::TABLES).expect("known");
    let burst = |window_end: u64, linux: &mut dyn scheduler::PathScheduler| {
        let request = SendRequest { window_end, ..request() };
        match linux.schedule(&request, &[view(0, 10, 50, 0)]) {
            Decision::Send { burst, .. } => burst,
            Decision::Wait { .. } => 0,
        }
    };
    // 65,428 bytes end in the second piece of 32,728; the burst goes on to that piece's end.
    assert_eq!(burst(1 << 20, linux.as_mut()), 65_456);
    assert_eq!(burst(10_000, linux.as_mut()), 10_000);
    assert_eq!(burst(0, linux.as_mut()), 0);
}

#[test]
fn linux_6_1_keeps_its_choice_until_the_burst_is_used_up() {
    let mut kept = scheduler::build(&named("linux-6.1"), &Registry::TABLES).expect("known");
    let mut linux = scheduler::build(&named("linux"), &Registry::TABLES).expect("known");
    // What the first one takes makes it the longer queue at once.
    let empty = [view(0, 10, 50, 0), SubflowView { queued_memory: 9_000, ..view(1, 20, 50, 0) }];
    let held = [SubflowView { queued_memory: 90_000, ..empty[0] }, empty[1]];
    let ask = |s: &mut dyn scheduler::PathScheduler, from: u64, views: &[SubflowView]| {
        s.schedule(&SendRequest { data_next: from, ..request() }, views)
    };
    for scheduler in [kept.as_mut(), linux.as_mut()] {
        assert_eq!(ask(scheduler, 0, &empty), Decision::next_on(SubflowId(0), 65_456));
        scheduler.on_sent(SubflowId(0), 0, 5_428);
    }
    assert_eq!(chosen(&ask(linux.as_mut(), 5_428, &held)), Some(1), "a new choice at every push");
    assert_eq!(ask(kept.as_mut(), 5_428, &held), Decision::next_on(SubflowId(0), 60_028));
    // The retransmission timer's data is not of the burst; a full buffer only interrupts it.
    kept.on_sent(SubflowId(1), 0, 5_000);
    assert_eq!(ask(kept.as_mut(), 5_428, &held), Decision::next_on(SubflowId(0), 60_028));
    kept.on_sent(SubflowId(0), 5_428, 60_028);
    assert_eq!(chosen(&ask(kept.as_mut(), 65_456, &held)), Some(1), "the burst is used up");
    kept.on_sent(SubflowId(1), 65_456, 1_000);
    let back = ask(kept.as_mut(), 0, &empty);
    assert_eq!(chosen(&back), Some(0), "sending everything again ends a burst");
}

#[test]
fn round_robin_takes_turns_and_skips_the_full() {
    let mut turns = scheduler::build(&named("round-robin"), &Registry::TABLES).expect("known");
    let views = [view(0, 10, 10, 0), view(1, 20, 10, 10), view(2, 30, 10, 0)];
    let order: Vec<_> = (0..4).map(|_| chosen(&turns.schedule(&request(), &views))).collect();
    assert_eq!(order, [Some(0), Some(2), Some(0), Some(2)]);
}

#[test]
fn redundant_gives_every_subflow_all_data_from_its_own_position() {
    let mut all = scheduler::build(&named("redundant"), &Registry::TABLES).expect("known");
    let views = [view(0, 10, 10, 0), view(1, 20, 10, 0)];
    let mut positions = [0u64; 2];
    for _ in 0..20 {
        let Decision::Send { on, from: Some(from), burst } = all.schedule(&request(), &views)
        else {
            panic!("there is data and room");
        };
        let id = on.iter().next().expect("a subflow");
        assert_eq!(from, positions[id.index()]);
        positions[id.index()] += burst;
        all.on_sent(id, from, burst);
    }
    assert_eq!(positions, [10 * 1424; 2]);
    // What is acknowledged is not repeated.
    let ahead = SendRequest { data_una: 100_000, ..request() };
    let Decision::Send { from, .. } = all.schedule(&ahead, &views) else { panic!("room") };
    assert_eq!(from, Some(100_000));
}

fn random() -> RandomStream {
    Seed { seed: 0, run: 0 }.stream("test")
}

#[test]
fn every_name_builds_and_refuses_what_it_does_not_know() {
    let odd = |name: &str| named(name).with("lamda", Value::Number(1.0));
    let refused = |error: PluginError| {
        let fault = error.faults.into_iter().find(|fault| fault.path == ["lamda"]);
        assert!(fault.expect("the unknown key").message.contains("lamda"));
    };
    for plugin in scheduler::names() {
        refused(scheduler::build(&odd(plugin.name), &Registry::TABLES).expect_err("unknown"));
        scheduler::build(&named(plugin.name), &Registry::TABLES).expect("no parameters needed");
        assert!(!plugin.summary.is_empty());
    }
    for plugin in congestion::names() {
        let built = congestion::build(&odd(plugin.name), &Registry::TABLES, random());
        refused(built.expect_err("unknown"));
        let built = congestion::build(&named(plugin.name), &Registry::TABLES, random());
        assert_eq!(built.expect("no parameters needed").name(), plugin.name);
    }
    for plugin in path_manager::names() {
        refused(path_manager::build(&odd(plugin.name)).expect_err("unknown"));
    }
    let error = scheduler::build(&named("blesst"), &Registry::TABLES).expect_err("unknown");
    assert_eq!(error.to_string(), "unknown scheduler: `blesst`");
    assert!(error.faults[0].known.contains(&"linux"), "the names there are");
}

#[test]
fn the_short_form_says_what_a_table_says() {
    let lambda = named("blest").with("lambda", Value::Number(1.1));
    let whole = named("rtx-aware").with("base", Value::Plugin(lambda));
    let text = "rtx-aware(blest(lambda=1.1))";
    assert_eq!(PluginChoice::parse(text), Ok(whole.clone()));
    assert_eq!(whole.to_string(), text);
    let two = PluginChoice::parse(" a( b , k = auto, flag=true) ").expect("spaces do not count");
    assert_eq!(two.to_string(), "a(b, flag=true, k=auto)");
    for broken in ["", "a(", "a)", "a(b))", "a((b)", "a(b, c)", "a(k=1, k=2)", "a()", "(a)"] {
        let error = PluginChoice::parse(broken).expect_err(broken);
        assert_eq!(error.faults.len(), 1, "{broken}");
    }
}

#[test]
fn path_managers_join_all_or_nothing() {
    let address = |host: u8| std::net::SocketAddr::from(([10, host, 0, 1], 80));
    let unused = [1, 2].map(|host| Candidate {
        address_id: host,
        local: address(host),
        remote: address(host + 10),
        backup: false,
    });
    for (name, expected) in [("full-mesh", 2), ("none", 0)] {
        let mut manager = path_manager::build(&named(name)).expect("a known name");
        assert_eq!(manager.on_established(Instant::ZERO, &unused).len(), expected, "{name}");
    }
}

fn acknowledgement(now: Instant, acked: u32, rtt: Duration) -> AckSample<'static> {
    AckSample {
        now,
        coarse_now: now,
        acked,
        acked_bytes: u64::from(acked) * 1448,
        newly_lost: 0,
        delivered: 1000,
        mss: 1448,
        next_departure: Instant::ZERO,
        prior_in_flight: 100,
        in_flight: 100,
        rtt: Some(rtt),
        srtt: Some(rtt),
        min_rtt: Some(rtt),
        rate: RateSample::default(),
        snd_nxt: 1 << 40,
        snd_una: 0,
        cwnd_limited: true,
        may_grow: true,
        paced: false,
        pacing_rate: Rate::from_bps(10_000_000),
        id: SubflowId(0),
        siblings: &[],
    }
}

/// Runs a controller over a lossless path for `seconds` after one loss at `window`, an
/// acknowledgement for each segment, and returns (time since the loss, cwnd) once a round trip.
fn after_a_loss(name: &str, window: u32, rtt_ms: u64, seconds: u64) -> Vec<(f64, u32)> {
    let mut controller =
        congestion::build(&named(name), &Registry::TABLES, random()).expect("a known name");
    let rtt = Duration::from_millis(rtt_ms);
    let start = Instant::ZERO + Duration::from_secs(10);
    let mut state = Window { cwnd: window, ssthresh: window };
    controller.on_ack(&acknowledgement(start, 1, rtt), &mut state);
    state.cwnd = window;
    let event = CongestionEvent { now: start, kind: CongestionKind::Loss, in_flight: window };
    controller.on_congestion(&event, &mut state);
    state.cwnd = state.ssthresh;
    let mut now = start;
    let mut curve = Vec::new();
    while now < start + Duration::from_secs(seconds) {
        curve.push((now.since(start).as_secs_f64(), state.cwnd));
        let gap = rtt / u64::from(state.cwnd);
        for _ in 0..state.cwnd {
            now += gap;
            controller.on_ack(&acknowledgement(now, 1, rtt), &mut state);
        }
    }
    curve
}

#[test]
fn reno_halves_and_adds_one_segment_a_round_trip() {
    let curve = after_a_loss("reno", 100, 100, 5);
    assert_eq!(curve[0].1, 50);
    for (round, (_, cwnd)) in curve.iter().enumerate() {
        assert!(cwnd.abs_diff(50 + round as u32) <= 1, "round {round}: {cwnd}");
    }
}

#[test]
fn cubic_follows_the_curve_of_its_standard() {
    // W(t) = C (t - K)^3 + W_max with C = 0.4, K = cbrt(W_max 0.3 / C) (RFC 9438 section 4.2), one
    // RTT ahead; a long path, so that the Reno-friendly region does not take over.
    let (window, rtt) = (400.0_f64, 0.2);
    let k = (window * 0.3 / 0.4).cbrt();
    let curve = after_a_loss("cubic", 400, 200, 10);
    assert_eq!(curve[0].1, 280);
    let mut compared = 0;
    for (t, cwnd) in curve.into_iter().filter(|(t, _)| *t > 1.0 && *t < 9.0) {
        let target = 0.4 * (t + rtt - k).powi(3) + window;
        // The window follows the target within a round trip of its growth.
        let slack = 2.0 + 1.2 * (rtt + 0.05) * 1.2 * (t + rtt - k).powi(2).max(1.0);
        assert!((f64::from(cwnd) - target).abs() < slack, "{t}: {cwnd} against {target}");
        compared += 1;
    }
    assert!(compared > 30);
}

#[test]
fn cubic_is_never_slower_than_reno_would_be() {
    // Small windows and short round trips: the Reno-friendly region, slope 3 (1-b)/(1+b) = 0.53.
    let curve = after_a_loss("cubic", 20, 20, 4);
    let (t, cwnd) = *curve.last().expect("a curve");
    let reno = 14.0 + 0.5294 * t / 0.02;
    assert!(f64::from(cwnd) > 0.9 * reno, "{cwnd} after {t} s, Reno-friendly {reno}");
}
