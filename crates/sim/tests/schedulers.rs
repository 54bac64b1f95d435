//! Schedulers on two paths, compared with the reasoning or the formulas of the papers.

mod common;

use std::sync::{Arc, Mutex};

use anabranch_plugin::{Foreign, PluginChoice, PluginError, Registry};
use anabranch_scheduler as scheduler;
use anabranch_scheduler::{
    Decision, PathScheduler, Schedulers, SendRequest, SubflowSet, SubflowView,
};
use anabranch_sim::{Plan, Silent, Trace, run, run_with};
use anabranch_units::{CongestionState, SubflowId};

use common::{numbers as column, total};

#[derive(Clone, Copy)]
struct Way {
    rtt_ms: u64,
    mbps: f64,
    loss: f64,
    queue: u64,
}

const fn way(rtt_ms: u64, mbps: f64, loss: f64) -> Way {
    Way { rtt_ms, mbps, loss, queue: 100 }
}

const fn shallow(rtt_ms: u64, mbps: f64) -> Way {
    Way { rtt_ms, mbps, loss: 0.0, queue: 20 }
}

/// The load of a run: its source, its duration and the receive buffer.
#[derive(Clone, Copy, Debug)]
struct Load {
    /// The rate of paced data. `None` sends as fast as possible.
    mbps: Option<f64>,
    seconds: u64,
    receive_buffer: u64,
}

const AMPLE: u64 = 6_291_456;

const fn paced(mbps: f64, seconds: u64) -> Load {
    Load { mbps: Some(mbps), seconds, receive_buffer: AMPLE }
}

const fn bulk(seconds: u64, receive_buffer: u64) -> Load {
    Load { mbps: None, seconds, receive_buffer }
}

fn simulate(scheduler: &str, ways: &[Way], load: Load, path_manager: &str) -> Trace {
    simulate_with(scheduler, ways, load, path_manager, "")
}

/// Runs a plan. `rest` has further keys of the plan, each followed by a comma.
fn simulate_with(
    scheduler: &str,
    ways: &[Way],
    load: Load,
    path_manager: &str,
    rest: &str,
) -> Trace {
    let plan = plan_with(scheduler, ways, load, path_manager, rest);
    run(&plan, None, &mut Silent).unwrap_or_else(|error| panic!("{error}"))
}

fn plan_with(scheduler: &str, ways: &[Way], load: Load, path_manager: &str, rest: &str) -> Plan {
    let (mut links, mut paths) = (Vec::new(), Vec::new());
    for (index, way) in ways.iter().enumerate() {
        for side in ["down", "up"] {
            let loss = if side == "down" { way.loss } else { 0.0 };
            links.push(format!(
                r#"{{"name":"p{index}.{side}","rate_bps":{},"queue":{{"packets":{}}},"delay_ns":{},"loss":{{"bernoulli":{loss}}}}}"#,
                (way.mbps * 1e6) as u64,
                way.queue,
                way.rtt_ms * 500_000
            ));
        }
        paths.push(format!(
            r#"{{"name":"p{index}","down":["p{index}.down"],"up":["p{index}.up"]}}"#
        ));
    }
    let application = match load.mbps {
        Some(mbps) => format!(r#""kind":"paced","rate_bps":{}"#, (mbps * 1e6) as u64),
        None => r#""kind":"bulk""#.to_owned(),
    };
    let text = format!(
        r#"{{"scenario":"schedulers","seed":3,"run":0,{rest}
        "application":{{{application},"duration_ns":{}}},
        "transport":{{"scheduler":"{scheduler}","congestion":"cubic","path_manager":"{path_manager}",
          "receive_buffer_initial":{},"receive_buffer_max":{},"send_buffer_max":4194304,"mss":1460}},
        "links":[{}],"paths":[{}],"time_limit_ns":600000000000}}"#,
        load.seconds * 1_000_000_000,
        load.receive_buffer.min(131_072),
        load.receive_buffer,
        links.join(","),
        paths.join(",")
    );
    Plan::from_json(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Returns the fraction of all bytes that was sent on the second path.
fn second_share(trace: &Trace) -> f64 {
    column(trace, "subflows", "bytes_sent")[1] / total(trace, "subflows", "bytes_sent")
}

fn goodput_mbps(trace: &Trace) -> f64 {
    total(trace, "connections", "bytes_read") * 8e-6 / total(trace, "connections", "duration_s")
}

fn meshed(scheduler: &str, ways: &[Way], load: Load) -> Trace {
    simulate(scheduler, ways, load, "full-mesh")
}

/// Two paths of 6 Mbit/s with 50 and 100 ms, and a film of 5.24 Mbit/s. One path is sufficient.
const EVEN: [Way; 2] = [way(50, 6.0, 0.0), way(100, 6.0, 0.0)];
const FILM: Load = paced(5.24, 60);

#[test]
fn one_path_that_is_enough_is_all_that_min_rtt_uses_until_losses_cut_its_window() {
    for name in ["min-rtt", "spd", "min-rtt-0.9x", "spdx", "gr-sty", "ecf", "blest"] {
        let share = second_share(&meshed(name, &EVEN, FILM));
        assert!(share < 0.01, "{name}: {share}");
    }
    let lossy = [Way { loss: 0.005, ..EVEN[0] }, EVEN[1]];
    let trace = meshed("min-rtt", &lossy, FILM);
    assert!(total(&trace, "links", "dropped_loss") > 50.0);
    assert!(second_share(&trace) > 0.2, "{}", second_share(&trace));
}

#[test]
fn linux_and_round_robin_use_both_paths_where_one_is_enough() {
    // The near path always has a round trip of data in flight. While the far path has nothing queued, its
    // linger time is shorter, so it gets the next write. The server writes every 10 ms. The data of a write
    // takes 9 ms of service, 100 ms of propagation and up to 40 ms for a delayed acknowledgement. The next
    // write follows within 10 ms. The far path therefore gets at least one of 16 writes.
    let linux = second_share(&meshed("linux", &EVEN, FILM));
    assert!(linux > 10.0 / (9.0 + 100.0 + 40.0 + 10.0), "{linux}");
    // Two segments of 1424 bytes every 10 ms: one for each path.
    let turns = second_share(&meshed("round-robin", &EVEN, paced(2.2784, 60)));
    assert!((turns - 0.5).abs() < 0.02, "{turns}");
    // For a film, the far path cannot take half of the segments. Its send buffer keeps its initial size of
    // 2 * 10 * 2304 bytes, because the application never waits for space (`tcp_new_space`). This is 21
    // segments, each with 1424 bytes of data and 832 bytes of overhead. A round trip takes from 100 ms to 159
    // ms, as above. The film has 460 segments per second.
    let full = second_share(&meshed("round-robin", &EVEN, FILM));
    assert!(full > 21.0 / 0.159 / 460.0 && full < 21.0 / 0.1 / 460.0, "{full}");
}

/// SD18 section V: "LPC uses a path with large RTT and plenty of bandwidth that SPD neglects".
#[test]
fn lpc_uses_a_far_path_with_plenty_of_bandwidth_that_spd_neglects() {
    let ways = [shallow(30, 6.0), way(150, 50.0, 0.0)];
    let [spd, lpc] = ["spd", "lpc"].map(|name| second_share(&meshed(name, &ways, paced(8.0, 60))));
    // The near path can carry at most 6 of 8 Mbit/s.
    assert!(spd > 0.2 && spd < 0.7, "{spd}");
    assert!(lpc > 0.9, "{lpc}");
}

/// SD18 section V: LET does not use a path with a short RTT and a small window. SPD continues to use it.
#[test]
fn let_leaves_a_near_path_whose_window_is_small_and_spd_does_not() {
    let ways = [way(50, 5.0, 0.01), way(100, 5.0, 0.0)];
    let [spd, by_throughput] = ["spd", "let"].map(|name| meshed(name, &ways, paced(3.0, 60)));
    assert!(total(&spd, "links", "dropped_loss") > 50.0);
    let (spd, by_throughput) = (second_share(&spd), second_share(&by_throughput));
    assert!(spd < 0.6 && by_throughput > 0.9, "{spd}, {by_throughput}");
}

/// Paths with 20 ms and 10 Mbit/s, and with 300 ms and 2 Mbit/s. The queues hold 20 packets. The receive
/// buffer is so small that the second path can block it.
const UNEVEN: [Way; 2] = [shallow(20, 10.0), shallow(300, 2.0)];
const HELD_UP: Load = bulk(30, 131_072);

#[test]
fn blest_ecf_and_waiting_avoid_the_stalls_of_a_small_receive_buffer() {
    let plain = meshed("min-rtt", &UNEVEN, HELD_UP);
    let stalls = column(&plain, "gaps", "gap_s").len();
    assert!(stalls > 50, "min-rtt is held up: {stalls}");
    for name in ["blest", "ecf", "wait-or-send", "blest(min-rtt-0.9x)", "ecf(min-rtt-0.9x)"] {
        let trace = meshed(name, &UNEVEN, HELD_UP);
        let stalls = column(&trace, "gaps", "gap_s").len();
        let (before, now) = (goodput_mbps(&plain), goodput_mbps(&trace));
        assert!(stalls < 5, "{name}: {stalls}");
        assert!(now > 2.0 * before, "{name}: {before} to {now}");
    }
    let sttf = goodput_mbps(&meshed("sttf", &UNEVEN, HELD_UP));
    assert!(sttf > 1.5 * goodput_mbps(&plain), "{sttf}");
}

#[test]
fn penalties_take_effect_and_relieve_a_small_receive_buffer() {
    for (plain, relieved) in [("min-rtt", "min-rtt-0.9x"), ("lpc", "penalising(lpc)")] {
        let [before, after] = [plain, relieved].map(|name| meshed(name, &UNEVEN, HELD_UP));
        let penalties = column(&after, "subflows", "penalties");
        assert!(penalties[0] < 1.0 && penalties[1] > 10.0, "{relieved}: {penalties:?}");
        assert!(total(&before, "subflows", "penalties") < 1.0, "{plain}");
        assert!(total(&after, "connections", "reinjected_bytes") > 1e5, "{relieved}");
        let (before, after) = (goodput_mbps(&before), goodput_mbps(&after));
        assert!(after > 1.4 * before, "{plain} {before}, {relieved} {after}");
    }
    // If both paths have enough capacity, the penalties have no effect.
    let [ample, plain] = ["min-rtt-0.9x", "min-rtt"].map(|name| meshed(name, &EVEN, FILM));
    assert!(total(&ample, "subflows", "penalties") < 1.0);
    assert_eq!(ample.summary.digest, plain.summary.digest);
}

#[test]
fn redundancy_hides_losses() {
    let ways = [way(50, 5.0, 0.02), way(60, 5.0, 0.02)];
    let [plain, twice] = ["min-rtt", "redundant"].map(|name| meshed(name, &ways, paced(1.0, 60)));
    assert!(total(&twice, "links", "dropped_loss") > 100.0);
    let gaps = |trace: &Trace| column(trace, "gaps", "gap_s").len();
    assert!(gaps(&plain) > 20 && gaps(&twice) < 5, "{} {}", gaps(&plain), gaps(&twice));
}

/// The decisions of a scheduler while subflows repaired losses (states Recovery and Loss).
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// The number of new bytes scheduled on a subflow in these states.
    repairing: u64,
    /// The number of scheduler calls during these states.
    asked_meanwhile: u64,
}

#[derive(Debug)]
struct Watched {
    inner: Box<dyn PathScheduler>,
    seen: Arc<Mutex<Seen>>,
    repairing: SubflowSet,
    next: u64,
}

impl PathScheduler for Watched {
    fn name(&self) -> &'static str {
        "watched"
    }

    fn schedule(&mut self, request: &SendRequest, subflows: &[SubflowView]) -> Decision {
        let repairs = |view: &&SubflowView| view.state >= CongestionState::Recovery;
        self.repairing = subflows.iter().filter(repairs).map(|view| view.id).collect();
        let meanwhile = u64::from(!self.repairing.is_empty());
        self.seen.lock().expect("one thread").asked_meanwhile += meanwhile;
        self.inner.schedule(request, subflows)
    }

    fn base_mut(&mut self) -> Option<&mut dyn PathScheduler> {
        Some(self.inner.as_mut())
    }

    fn on_sent(&mut self, id: SubflowId, from: u64, bytes: u64) {
        if from >= self.next {
            self.next = from + bytes;
            let counted = if self.repairing.contains(id) { bytes } else { 0 };
            self.seen.lock().expect("one thread").repairing += counted;
        }
        self.inner.on_sent(id, from, bytes);
    }
}

#[derive(Debug)]
struct Watching(&'static str, Arc<Mutex<Seen>>);

impl Foreign<Schedulers> for Watching {
    fn build(
        &self,
        choice: &PluginChoice,
        (): (),
    ) -> Option<Result<Box<dyn PathScheduler>, PluginError>> {
        let inner = PluginChoice::parse(self.0)
            .and_then(|inner| scheduler::build(&inner, &Registry::TABLES));
        let watched = |inner| {
            let seen = Arc::clone(&self.1);
            Box::new(Watched { inner, seen, repairing: SubflowSet::EMPTY, next: 0 }) as Box<_>
        };
        (choice.name == "watched").then(|| inner.map(watched))
    }

    fn failed(&self) -> bool {
        false
    }
}

fn watched(name: &'static str, ways: &[Way], load: Load) -> Seen {
    watched_run(name, &plan_with("watched", ways, load, "full-mesh", "")).0
}

/// Runs a plan with a watched scheduler. Returns the scheduler's decisions and the trace.
fn watched_run(name: &'static str, plan: &Plan) -> (Seen, Trace) {
    let seen = Arc::default();
    let registry = Registry::TABLES.with::<Schedulers>(Arc::new(Watching(name, Arc::clone(&seen))));
    let trace = run_with(plan, registry, None, &mut Silent);
    let trace = trace.unwrap_or_else(|error| panic!("{error}"));
    (*seen.lock().expect("it is over"), trace)
}

#[test]
fn rtx_aware_sends_nothing_new_where_losses_are_repaired() {
    // Every loss on the near path moves some of the film to the far path.
    let lossy = [Way { loss: 0.005, ..EVEN[0] }, EVEN[1]];
    for (plain, aware) in [("spd", "spdx"), ("round-robin", "rtx-aware(round-robin)")] {
        let [of_plain, of_aware] = [plain, aware].map(|name| watched(name, &lossy, FILM));
        assert!(of_plain.repairing > 100_000, "{plain} goes on: {of_plain:?}");
        assert_eq!(of_aware.repairing, 0, "{aware}: {of_aware:?}");
        assert!(of_aware.asked_meanwhile > 100, "{aware}: {of_aware:?}");
        let [plain, aware] = [plain, aware].map(|name| second_share(&meshed(name, &lossy, FILM)));
        assert!(aware > plain, "{plain} {aware}");
    }
}

#[test]
fn kept_choice_matches_a_scheduler_called_for_each_segment() {
    // The wrapper returns false from `keeps_choice`.
    let lossy = [Way { loss: 0.01, ..EVEN[0] }, EVEN[1]];
    let shallow = [shallow(20, 20.0), shallow(150, 3.0)];
    for profile in ["linux-6.18", "mptcp-0.94"] {
        for (ways, load) in [
            (&EVEN, bulk(20, AMPLE)),
            (&lossy, bulk(20, AMPLE)),
            (&lossy, bulk(20, 60_000)),
            (&shallow, bulk(20, AMPLE)),
            (&lossy, FILM),
        ] {
            let plan = |scheduler| {
                let mut plan = plan_with(scheduler, ways, load, "full-mesh", "");
                profile.clone_into(&mut plan.transport.profile);
                plan
            };
            let at_once = run(&plan("min-rtt"), None, &mut Silent).expect("a run");
            let (_, of_each) = watched_run("min-rtt", &plan("watched"));
            let told = format!("{profile}, {} Mbit/s, {load:?}", ways[0].mbps);
            assert_eq!(at_once.summary.digest, of_each.summary.digest, "{told}");
        }
    }
}

#[test]
fn a_path_out_of_range_is_not_joined() {
    let used = |ways: &[Way], path_manager: &str| {
        let trace = simulate("min-rtt", ways, bulk(10, AMPLE), path_manager);
        column(&trace, "subflows", "bytes_sent").iter().filter(|bytes| **bytes > 0.0).count()
    };
    let near = way(40, 5.0, 0.0);
    for (far, joined) in [(way(160, 1.3, 0.0), 2), (way(190, 5.0, 0.0), 1), (way(160, 1.2, 0.0), 1)]
    {
        assert_eq!(used(&[near, far], "range"), joined, "{} ms, {} Mbit/s", far.rtt_ms, far.mbps);
        assert_eq!(used(&[near, far], "full-mesh"), 2);
    }
}

/// Returns every scheduler. Schedulers that wrap another one are returned with min-rtt and with the kernel's
/// default, which reinjects, so that no subflow becomes stale.
fn over_both_bases() -> Vec<String> {
    let mut all = Vec::new();
    for known in scheduler::names() {
        let parameters = scheduler::parameters(known.name).expect("a known name");
        if parameters.iter().any(|parameter| parameter.key == "base") {
            all.extend(["min-rtt", "dft"].map(|base| format!("{}({base})", known.name)));
        } else {
            all.push(known.name.to_owned());
        }
    }
    all
}

#[test]
fn a_path_that_is_cut_for_good_ends_no_film() {
    let ways = [way(20, 6.0, 0.0), way(100, 6.0, 0.0)];
    let cut = ["down", "up"]
        .map(|side| format!(r#"{{"at_ns":10000000000,"link":"p0.{side}","change":"down"}}"#));
    let rest = format!(r#""events":[{}],"#, cut.join(","));
    let all = over_both_bases();
    assert!(all.iter().any(|name| name == "blest(dft)"), "{all:?}");
    let slow: Vec<_> = all
        .iter()
        .map(|name| {
            let trace = simulate_with(name, &ways, paced(0.5, 120), "full-mesh", &rest);
            assert!(total(&trace, "links", "dropped_down") > 0.0, "{name}: the path is not cut");
            (name, goodput_mbps(&trace))
        })
        // The data in flight is repaired within seconds, and then the film continues at its rate.
        .filter(|(_, goodput)| *goodput < 0.48)
        .collect();
    assert!(slow.is_empty(), "{slow:?}");
}

#[test]
fn every_composition_delivers_every_byte_and_repeats_itself() {
    let ways = [way(40, 4.0, 0.01), way(150, 2.0, 0.005), shallow(80, 3.0)];
    for name in [
        "dft",
        "lpc",
        "let",
        "spdx",
        "lpcx",
        "letx",
        "gr-sty",
        "blest",
        "ecf",
        "sttf",
        "daps",
        "wait-or-send",
        "penalising(rtx-aware(let))",
        "rtx-aware(sticky(blest(lambda=1.1)))",
        "ecf(min-rtt-0.9x)",
        "sticky(linux)",
        "round-robin(num_segments=4, cwnd_limited=false)",
    ] {
        let [one, two] = [(); 2].map(|()| meshed(name, &ways, bulk(8, 262_144)));
        assert_eq!(one.summary.digest, two.summary.digest, "{name}");
        assert!(total(&one, "links", "dropped_loss") > 10.0, "{name}: losses");
        let goodput = goodput_mbps(&one);
        assert!(goodput > 0.8, "{name}: {goodput}");
    }
}
