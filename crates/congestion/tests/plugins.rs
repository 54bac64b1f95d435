//! All controllers: names, parameters, and growth compared with closed forms.

use anabranch_congestion as congestion;
use anabranch_congestion::{AckSample, CongestionEvent, CongestionKind, RateSample, Window};
use anabranch_plugin::{PluginChoice, PluginError, Registry, Value};
use anabranch_units::{Duration, Instant, RandomStream, Rate, Seed, SubflowId};

fn named(name: &str) -> PluginChoice {
    PluginChoice::named(name)
}

fn random() -> RandomStream {
    Seed { seed: 0, run: 0 }.stream("test")
}

#[test]
fn controllers_build_by_name_and_reject_unknown_parameters() {
    let odd = |name: &str| named(name).with("lamda", Value::Number(1.0));
    let refused = |error: PluginError| {
        let fault = error.faults.into_iter().find(|fault| fault.path == ["lamda"]);
        assert!(fault.expect("the unknown key").message.contains("lamda"));
    };
    for plugin in congestion::names() {
        let built = congestion::build(&odd(plugin.name), &Registry::TABLES, random());
        refused(built.expect_err("unknown"));
        let built = congestion::build(&named(plugin.name), &Registry::TABLES, random());
        assert_eq!(built.expect("no parameters needed").name(), plugin.name);
        assert!(!plugin.summary.is_empty());
    }
}

#[test]
fn reconstruction_note_lists_its_parameters() {
    let said = |choice: &PluginChoice| congestion::note(choice, &Registry::TABLES);
    for name in ["cubic", "bbr", "mine.py:Own"] {
        assert_eq!(said(&named(name)), Ok(None), "{name} is not one");
    }
    let ccpd = named("ccpd").with("kd", Value::Number(0.75));
    let note = said(&ccpd).expect("a parameter that it has").expect("a reconstruction");
    assert!(note.starts_with("Congestion control ccpd: "), "{note}");
    assert!(note.contains("kd = 0.75"), "{note}");
    assert!(said(&named("ccpd").with("kx", Value::Number(1.0))).is_err());
}

#[test]
fn a_parameter_without_effect_is_refused() {
    let faults = |short: &str| {
        let choice = PluginChoice::parse(short).expect("a choice");
        let built = congestion::build(&choice, &Registry::TABLES, random());
        built.err().map_or(0, |error| error.faults.len())
    };
    assert_eq!(faults("bbr3(ecn=true, ecn_max_rtt_ms=20)"), 0);
    // Without ECN, marks are ignored, so the parameter for the longest RTT is rejected.
    assert_eq!(faults("bbr3(ecn_max_rtt_ms=20)"), 1);
    assert_eq!(faults("bbr3(ecn=false, ecn_max_rtt_ms=20)"), 1);
}

fn acknowledgement(now: Instant, acked: u32, rtt: Duration) -> AckSample<'static> {
    AckSample {
        now,
        coarse_now: now,
        tick: Duration::ZERO,
        acked,
        acked_bytes: u64::from(acked) * 1448,
        newly_lost: 0,
        delivered: 1000,
        delivered_ce: 0,
        echo: false,
        mss: 1448,
        next_departure: Instant::ZERO,
        prior_in_flight: 100,
        in_flight: 100,
        rtt: Some(rtt),
        maybe_delayed: false,
        srtt: Some(rtt),
        min_rtt: Some(rtt),
        rate: RateSample::default(),
        snd_nxt: 1 << 40,
        snd_una: 0,
        cwnd_limited: true,
        may_grow: true,
        paced: false,
        pacing_rate: Rate::from_bps(10_000_000),
        multipath: true,
        id: SubflowId(0),
        siblings: &[],
    }
}

/// Runs a controller for `seconds` on a path without loss, after one loss at `window`. There is one
/// acknowledgement per segment. Returns (time since the loss, cwnd) once per round trip.
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
    // W(t) = C (t - K)^3 + W_max with C = 0.4, K = cbrt(W_max 0.3 / C) (RFC 9438 section 4.2), one RTT ahead.
    // The path is long, so that the Reno-friendly region does not apply.
    let (window, rtt) = (400.0_f64, 0.2);
    let k = (window * 0.3 / 0.4).cbrt();
    let curve = after_a_loss("cubic", 400, 200, 10);
    assert_eq!(curve[0].1, 280);
    let mut compared = 0;
    for (t, cwnd) in curve.into_iter().filter(|(t, _)| *t > 1.0 && *t < 9.0) {
        let target = 0.4 * (t + rtt - k).powi(3) + window;
        // The window follows the target one round trip later.
        let slack = 2.0 + 1.2 * (rtt + 0.05) * 1.2 * (t + rtt - k).powi(2).max(1.0);
        assert!((f64::from(cwnd) - target).abs() < slack, "{t}: {cwnd} against {target}");
        compared += 1;
    }
    assert!(compared > 30);
}

#[test]
fn cubic_is_never_slower_than_reno_would_be() {
    // With a small window and a short RTT, the Reno-friendly region applies, with slope 3 (1-b)/(1+b) = 0.53.
    let curve = after_a_loss("cubic", 20, 20, 4);
    let (t, cwnd) = *curve.last().expect("a curve");
    let reno = 14.0 + 0.5294 * t / 0.02;
    assert!(f64::from(cwnd) > 0.9 * reno, "{cwnd} after {t} s, Reno-friendly {reno}");
}

/// RFC 9438 section 4.7: after a loss below the last maximum, the new maximum is W (1 + beta) / 2. After
/// losses at 400 and then at 300, it is 255. The window grows from 210 to 255 in K = cbrt(45 / 0.4) = 4.8 s.
#[test]
fn cubic_releases_more_when_it_did_not_come_back() {
    let mut cubic = congestion::build(&named("cubic"), &Registry::TABLES, random()).expect("cubic");
    let rtt = Duration::from_millis(200);
    let mut now = Instant::ZERO + Duration::from_secs(10);
    let mut state = Window { cwnd: 400, ssthresh: 400 };
    for (window, remains) in [(400, 280), (300, 210)] {
        state.cwnd = window;
        let event = CongestionEvent { now, kind: CongestionKind::Loss, in_flight: window };
        cubic.on_congestion(&event, &mut state);
        assert_eq!(state.ssthresh, remains, "717 / 1024 of {window}");
        state.cwnd = remains;
    }
    let plateau = 300.0 * 1.7 / 2.0;
    let k = ((plateau - 210.0) / 0.4_f64).cbrt();
    let start = now;
    while now.since(start).as_secs_f64() < k {
        now += rtt / u64::from(state.cwnd);
        cubic.on_ack(&acknowledgement(now, 1, rtt), &mut state);
    }
    assert!((f64::from(state.cwnd) - plateau).abs() <= 2.0, "{} and not {plateau}", state.cwnd);
}

/// RFC 5681: slow start adds the acknowledged segments and stops at ssthresh. A loss leaves half of the
/// window, at least two segments. An unused window does not grow. CUBIC differs only in the fraction.
#[test]
fn slow_start_halving_and_an_unused_window() {
    let rtt = Duration::from_millis(100);
    let now = Instant::ZERO + Duration::from_secs(10);
    for (name, remains) in [("reno", 50), ("cubic", 70)] {
        let mut controller =
            congestion::build(&named(name), &Registry::TABLES, random()).expect("a controller");
        let mut state = Window { cwnd: 10, ssthresh: 40 };
        for grown in [17, 24, 31, 38, 40] {
            controller.on_ack(&acknowledgement(now, 7, rtt), &mut state);
            assert_eq!(state.cwnd, grown, "{name}");
        }
        for held in [
            AckSample { cwnd_limited: false, ..acknowledgement(now, 1000, rtt) },
            AckSample { may_grow: false, ..acknowledgement(now, 1000, rtt) },
        ] {
            controller.on_ack(&held, &mut state);
            assert_eq!(state.cwnd, 40, "{name}");
        }
        for (cwnd, ssthresh) in [(100, remains), (3, 2), (1, 2)] {
            state.cwnd = cwnd;
            let event = CongestionEvent { now, kind: CongestionKind::Loss, in_flight: cwnd };
            controller.on_congestion(&event, &mut state);
            assert_eq!(state.ssthresh, ssthresh, "{name} at {cwnd}");
        }
    }
}

/// Whether each controller replaces proportional rate reduction (`cong_control`), the number of windows in
/// the send buffer (`sndbuf_expand`: 3 for BBR, otherwise 2), and whether it reads its siblings.
#[test]
fn controllers_declare_the_needs_of_their_algorithm() {
    let coupled = ["lia", "olia", "balia", "wvegas"];
    let whole = ["bbr", "bbr3", "ccp(recovery=law)", "ccpd(recovery=law)"];
    let forms = ["cubic(form=printed)", "ccp(recovery=law)", "ccpd(recovery=law)"];
    let names = congestion::names().map(|known| known.name).chain(forms);
    for name in names {
        let choice = PluginChoice::parse(name).expect(name);
        let mut built =
            congestion::build(&choice, &Registry::TABLES, random()).expect("a controller");
        assert_eq!(built.name(), choice.name, "{name}");
        assert_eq!(built.owns_recovery(), whole.contains(&name), "{name}");
        let windows = if name.starts_with("bbr") { 3 } else { 2 };
        assert_eq!(built.send_buffer_factor(), windows, "{name}");
        assert_eq!(built.least_burst(), 2, "{name}");
        assert_eq!(built.wants_siblings(), coupled.contains(&name), "{name}");
        assert!(!built.marks_application_limited(), "{name}");
        assert!(built.published_rate().is_none() && built.pacing_rate().is_none(), "{name}");
        // `tcp_reno_undo_cwnd` returns the larger of the two windows. BBR version 1 does not change the
        // window.
        let undone =
            [60, 140].map(|prior| built.undo_cwnd(&Window { cwnd: 100, ssthresh: 50 }, prior));
        let expected = if name.starts_with("bbr") { [100, 100] } else { [100, 140] };
        assert_eq!(undone, expected, "{name}");
    }
}

/// `tcp_reno_cong_avoid`: segments used in slow start do not count in congestion avoidance. This also holds
/// if an unused window was reduced below the counter.
#[test]
fn slow_start_leaves_the_count_alone() {
    let now = Instant::ZERO + Duration::from_secs(10);
    let rtt = Duration::from_millis(100);
    for name in ["reno", "lia", "balia", "compound"] {
        let mut controller =
            congestion::build(&named(name), &Registry::TABLES, random()).expect("a controller");
        let mut state = Window { cwnd: 20, ssthresh: 10 };
        controller.on_ack(&acknowledgement(now, 15, rtt), &mut state);
        assert_eq!(state.cwnd, 20, "{name}");
        state = Window { cwnd: 10, ssthresh: 15 };
        controller.on_ack(&acknowledgement(now, 1, rtt), &mut state);
        assert_eq!(state.cwnd, 11, "{name}");
        // In congestion avoidance, the window then grows by one segment at once (`tcp_cong_avoid_ai`).
        state.ssthresh = 11;
        controller.on_ack(&acknowledgement(now, 1, rtt), &mut state);
        assert_eq!(state.cwnd, 12, "{name}");
    }
}
