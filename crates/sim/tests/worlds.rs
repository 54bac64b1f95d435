//! Complete simulations with all checks: random topologies and failures, determinism, and the final state of
//! every run. A failing case prints its plan, which is sufficient to repeat it.

mod common;

use anabranch_sim::{Plan, RunError, Silent, Trace, run};
use anabranch_units::{RandomStream, Seed};

use common::{simulate, total};

struct Way {
    rtt_ms: u64,
    rate_bps: u64,
    loss: f64,
    queue: u64,
}

fn way(rtt_ms: u64, rate_bps: u64, loss: f64) -> Way {
    Way { rtt_ms, rate_bps, loss, queue: 100 }
}

/// Returns an event for both links of a path.
fn links(at: u64, path: u64, change: &str) -> String {
    ["down", "up"]
        .map(|side| format!(r#"{{"at_ns":{at},"link":"p{path}.{side}","change":"{change}"}}"#))
        .join(",")
}

/// Returns an event for the client's interface on a path.
fn interface(at: u64, path: u64, what: &str) -> String {
    format!(r#"{{"at_ns":{at},"path":"p{path}","interface":"{what}"}}"#)
}

/// Returns a plan over these paths. `rest` has the application and further keys.
fn plan(ways: &[Way], scheduler: &str, congestion: &str, seed: u64, rest: &str) -> String {
    let mut links = Vec::new();
    let mut paths = Vec::new();
    for (index, way) in ways.iter().enumerate() {
        for side in ["down", "up"] {
            let loss = if side == "down" && way.loss > 0.0 {
                format!(r#"{{"bernoulli":{}}}"#, way.loss)
            } else {
                "null".to_owned()
            };
            links.push(format!(
                r#"{{"name":"p{index}.{side}","rate_bps":{},"queue":{{"packets":{}}},"delay_ns":{},"loss":{loss}}}"#,
                way.rate_bps,
                way.queue,
                way.rtt_ms * 500_000
            ));
        }
        paths.push(format!(
            r#"{{"name":"p{index}","down":["p{index}.down"],"up":["p{index}.up"]}}"#
        ));
    }
    format!(
        r#"{{"scenario":"test","seed":{seed},"run":0,
        "transport":{{"multipath":{},"scheduler":"{scheduler}","congestion":"{congestion}",
          "path_manager":"full-mesh","receive_buffer_initial":131072,"receive_buffer_max":6291456,
          "send_buffer_max":4194304,"mss":1460}},
        "links":[{}],"paths":[{}],"time_limit_ns":600000000000,{rest}}}"#,
        ways.len() > 1,
        links.join(","),
        paths.join(",")
    )
}

fn finished(trace: &Trace) -> bool {
    use anabranch_sim::Column;
    match trace.table("connections").and_then(|t| t.column("finished")) {
        Some(Column::Bool(values)) => values.iter().all(|done| *done),
        _ => false,
    }
}

const SCHEDULERS: &[&str] = &[
    "linux",
    "linux-6.1",
    "min-rtt",
    "round-robin",
    "round-robin(cwnd_limited=false)",
    "redundant",
    "dft",
    "lpcx",
    "penalising(rtx-aware(let))",
    "gr-sty",
    "blest(min-rtt-0.9x)",
    "ecf",
    "sttf",
    "daps",
    "wait-or-send",
];

const CONTROLLERS: &[&str] = &[
    "cubic",
    "cubic(form=printed)",
    "reno",
    "compound(gamma=auto)",
    "ccp",
    "ccpd",
    "lia",
    "olia(dead=stay)",
    "balia",
    "wvegas",
    "bbr",
    "bbr3",
];

const BULK: &str = r#""application":{"kind":"bulk","bytes":1500000}"#;

fn pick<'a>(stream: &mut RandomStream, from: &[&'a str]) -> &'a str {
    from[stream.below(from.len() as u64) as usize]
}

#[test]
fn random_worlds_deliver_every_byte_and_end() {
    let mut lost = 0.0;
    let mut dropped = 0.0;
    for seed in 0..150 {
        let mut draw = Seed { seed, run: 0 }.stream("world");
        let ways: Vec<Way> = (0..=draw.below(3))
            .map(|_| Way {
                rtt_ms: 2 + draw.below(300),
                rate_bps: 500_000 + draw.below(20_000_000),
                loss: if draw.chance(0.5) { draw.uniform() * 0.05 } else { 0.0 },
                queue: 5 + draw.below(150),
            })
            .collect();
        let scheduler = pick(&mut draw, SCHEDULERS);
        let congestion = pick(&mut draw, CONTROLLERS);
        let trace = simulate(&plan(&ways, scheduler, congestion, seed, BULK));
        assert!(finished(&trace), "seed {seed}: {scheduler}, {congestion}");
        assert_eq!(total(&trace, "connections", "bytes_read") as u64, 1_500_000, "seed {seed}");
        lost += total(&trace, "links", "dropped_loss");
        dropped += total(&trace, "links", "dropped_queue");
    }
    assert!(lost > 1000.0 && dropped > 1000.0, "the impairments took effect: {lost}, {dropped}");
}

#[test]
fn paths_that_fail_and_heal_cost_time_but_no_bytes() {
    let (mut down, mut refused, mut joined) = (0.0, 0.0, 0);
    for seed in 0..120 {
        let mut draw = Seed { seed, run: 0 }.stream("faults");
        let ways = [way(20 + draw.below(80), 5_000_000, 0.0), way(100, 5_000_000, 0.002)];
        let mut events = Vec::new();
        let mut at = 200_000_000 + draw.below(1_000_000_000);
        for _ in 0..3 {
            let path = draw.below(2);
            let back = at + 1 + draw.below(2_000_000_000);
            match pick(&mut draw, &["silent", "down", "removed"]) {
                "silent" => events.extend([links(at, path, "down"), links(back, path, "up")]),
                how => events.extend([interface(at, path, how), interface(back, path, "up")]),
            }
            at = back + 300_000_000;
        }
        let scheduler = pick(&mut draw, SCHEDULERS);
        let congestion = pick(&mut draw, CONTROLLERS);
        let rest = format!(r#"{BULK},"events":[{}]"#, events.join(","));
        let mut text = plan(&ways, scheduler, congestion, seed, &rest);
        if draw.chance(0.3) {
            let one = format!(r#""up":["p{}.up"]"#, draw.below(2));
            text = text.replace(&one, &format!(r#"{one},"backup":true"#));
        }
        let trace = simulate(&text);
        assert!(finished(&trace), "seed {seed}, {scheduler}: {text}");
        assert_eq!(total(&trace, "connections", "bytes_read") as u64, 1_500_000, "seed {seed}");
        down += total(&trace, "links", "dropped_down");
        refused += total(&trace, "connections", "refused_packets");
        joined +=
            trace.table("subflows").map_or(0, |t| t.numbers("subflow").len()).saturating_sub(2);
    }
    assert!(down > 100.0, "the cuts took effect: {down}");
    assert!(refused > 100.0, "and so did downed interfaces: {refused}");
    assert!(joined > 20, "and what was removed joined again: {joined}");
}

/// Runs a bulk transfer of 20 s in which path 0 fails at 8 s.
fn lose(congestion: &str, events: &[String]) -> Trace {
    let ways = [way(50, 18_000_000, 0.0), way(100, 18_000_000, 0.0)];
    let bulk = r#""application":{"kind":"bulk","duration_ns":20000000000}"#;
    let rest = format!(r#"{bulk},"events":[{}]"#, events.join(","));
    simulate(&plan(&ways, "linux", congestion, 1, &rest))
}

#[test]
fn a_withdrawn_path_is_replaced_sooner_than_one_that_falls_silent() {
    const CUT: u64 = 8_000_000_000;
    for congestion in ["cubic", "reno", "bbr"] {
        let gap = |trace: &Trace| total(trace, "connections", "max_read_gap_s");
        let removed = lose(congestion, &[interface(CUT, 0, "removed")]);
        let down = lose(congestion, &[interface(CUT, 0, "down")]);
        let silent = lose(congestion, &[links(CUT, 0, "down")]);
        // Linux's BBR takes 0.73 or 1.05 s if the path is removed, and 1.4 s if it becomes silent.
        let share = if congestion == "bbr" { 1.0 } else { 0.8 };
        assert!(
            gap(&removed) < share * gap(&down),
            "{congestion}: {} {}",
            gap(&removed),
            gap(&down)
        );
        // To the server, an interface that is down looks like a silent path. With BBR, the queues differ if
        // one more packet was acknowledged.
        let apart = (gap(&down) - gap(&silent)).abs();
        let most = if congestion == "bbr" { 0.5 } else { 0.2 };
        assert!(apart < most, "{congestion}: {} {}", gap(&down), gap(&silent));
        assert!(total(&removed, "connections", "refused_packets") > 0.0);
        assert!(total(&down, "connections", "refused_packets") > 0.0);
        assert!(total(&silent, "links", "dropped_down") > 0.0);
        assert!(total(&removed, "connections", "reinjected_bytes") > 0.0);
    }
}

#[test]
fn a_path_returns_as_it_went() {
    let acked = |trace: &Trace| trace.table("subflows").expect("a table").numbers("bytes");
    let (at, back) = (4_000_000_000, 6_000_000_000);
    let gone = lose("cubic", &[interface(at, 0, "removed")]);
    let anew = lose("cubic", &[interface(at, 0, "removed"), interface(back, 0, "up")]);
    assert_eq!((acked(&gone).len(), acked(&anew).len()), (2, 3), "joined anew");
    assert!(acked(&anew)[2] > 10e6, "and used: {:?}", acked(&anew));
    let on = lose("cubic", &[interface(at, 0, "down"), interface(back, 0, "up")]);
    assert_eq!(acked(&on).len(), 2, "the subflow goes on");
    assert!(acked(&on)[0] > acked(&gone)[0] + 10e6, "{:?} {:?}", acked(&on), acked(&gone));
}

#[test]
fn a_connection_outlives_a_minute_without_any_path() {
    let away = |seconds: u64| {
        let at = 500_000_000;
        let back = at + seconds * 1_000_000_000;
        let events =
            [interface(at, 0, "removed"), interface(at, 1, "removed"), interface(back, 1, "up")];
        let ways = [way(50, 5_000_000, 0.0), way(100, 5_000_000, 0.0)];
        let rest = format!(r#"{BULK},"events":[{}]"#, events.join(","));
        simulate(&plan(&ways, "linux", "cubic", 1, &rest))
    };
    assert!(finished(&away(20)));
    let late = away(70);
    assert!(!finished(&late), "the client gave up after a minute");
    assert!((60.0..62.1).contains(&late.summary.duration_s), "{}", late.summary.duration_s);
}

#[test]
fn a_backup_path_carries_nothing_until_the_regular_one_is_lost() {
    let ways = [way(50, 5_000_000, 0.0), way(100, 5_000_000, 0.0)];
    let bytes = |events: &str| {
        let rest = format!(
            r#""application":{{"kind":"bulk","duration_ns":20000000000}},"events":[{events}]"#
        );
        let text = plan(&ways, "linux", "cubic", 1, &rest);
        let backup = text.replace(r#""up":["p1.up"]"#, r#""up":["p1.up"],"backup":true"#);
        assert_ne!(text, backup);
        simulate(&backup).table("subflows").expect("a table").numbers("bytes")
    };
    let quiet = bytes("");
    assert!(quiet[0] > 10e6 && quiet[1] == 0.0, "{quiet:?}");
    for lost in [interface(8_000_000_000, 0, "removed"), links(8_000_000_000, 0, "down")] {
        let after = bytes(&lost);
        assert!(after[0] < 6e6 && after[1] > 4e6, "{lost}: {after:?}");
    }
}

#[test]
fn a_silent_cut_is_survived_within_two_seconds() {
    for congestion in ["cubic", "reno"] {
        let ways = [way(50, 18_000_000, 0.0), way(100, 18_000_000, 0.0)];
        let rest = r#""application":{"kind":"bulk","duration_ns":20000000000},
            "events":[{"at_ns":8000000000,"link":"p0.down","change":"down"},
                      {"at_ns":8000000000,"link":"p0.up","change":"down"}]"#;
        let trace = simulate(&plan(&ways, "linux", congestion, 1, rest));
        let gap = total(&trace, "connections", "max_read_gap_s");
        assert!((0.2..2.0).contains(&gap), "{congestion}: {gap} s without data");
        assert!(total(&trace, "links", "dropped_down") > 0.0);
        assert!(total(&trace, "connections", "reinjected_bytes") > 0.0);
    }
}

#[test]
fn redundancy_hides_a_cut() {
    let ways = [way(50, 6_000_000, 0.0), way(60, 6_000_000, 0.0)];
    let rest = r#""application":{"kind":"paced","rate_bps":1000000,"duration_ns":10000000000},
        "events":[{"at_ns":5000000000,"link":"p0.down","change":"down"},
                  {"at_ns":5000000000,"link":"p0.up","change":"down"}]"#;
    let gap = |scheduler: &str| {
        total(&simulate(&plan(&ways, scheduler, "cubic", 1, rest)), "connections", "max_read_gap_s")
    };
    let (redundant, single) = (gap("redundant"), gap("min-rtt"));
    assert!(redundant < 0.15, "{redundant}");
    assert!(single > 2.0 * redundant, "without it the cut shows: {single}");
}

#[test]
fn one_plan_gives_one_digest_and_another_seed_another() {
    let ways = [way(50, 5_000_000, 0.005), way(100, 5_000_000, 0.0)];
    let digest = |seed| simulate(&plan(&ways, "linux", "cubic", seed, BULK)).summary.digest;
    assert_eq!(digest(1), digest(1));
    assert_ne!(digest(1), digest(2));
}

#[test]
fn another_path_moves_no_draw_of_the_first() {
    // A second path does not change the random losses of the first path. The load is paced and needs only the
    // first path.
    let rest = r#""application":{"kind":"paced","rate_bps":800000,"duration_ns":20000000000}"#;
    let lost = |ways: &[Way]| {
        let trace = simulate(&plan(ways, "min-rtt", "cubic", 5, rest));
        let table = trace.table("links").expect("a table");
        (table.numbers("enqueued")[0], table.numbers("dropped_loss")[0])
    };
    let alone = lost(&[way(20, 5_000_000, 0.02)]);
    let beside = lost(&[way(20, 5_000_000, 0.02), way(300, 5_000_000, 0.0)]);
    assert!(alone.1 > 10.0, "losses took effect");
    let rate = |(sent, lost): (f64, f64)| lost / sent;
    assert!((rate(alone) - rate(beside)).abs() < 0.01, "{alone:?} {beside:?}");
}

#[test]
fn lossless_link_is_filled_up_to_header_overhead() {
    for congestion in ["reno", "cubic", "bbr"] {
        let rest = r#""application":{"kind":"bulk","duration_ns":30000000000}"#;
        let trace = simulate(&plan(&[way(40, 10_000_000, 0.0)], "linux", congestion, 1, rest));
        let goodput = total(&trace, "connections", "bytes_read") * 8.0 / 30e6;
        let most = 10.0 * 1448.0 / 1500.0;
        assert!(goodput < most && goodput > 0.93 * most, "{congestion}: {goodput} of {most}");
    }
}

#[test]
fn many_clients_share_a_bottleneck_and_no_more_than_it() {
    let rest = r#""clients":20,"application":{"kind":"bulk","duration_ns":20000000000}"#;
    let ways = [way(40, 10_000_000, 0.0), way(60, 10_000_000, 0.0)];
    let trace = simulate(&plan(&ways, "linux", "cubic", 1, rest));
    let each = trace.table("connections").expect("a table").numbers("bytes_read");
    assert_eq!(each.len(), 20);
    let sum: f64 = each.iter().sum::<f64>() * 8.0 / 20e6;
    assert!((16.0..20.0).contains(&sum), "{sum} Mb/s over 20");
    assert!(each.iter().all(|bytes| *bytes > 0.0));
}

#[test]
fn a_film_plays_through_where_the_path_is_fast_enough_and_stalls_where_it_is_not() {
    let rest = r#""application":{"kind":"progressive"},
        "film":{"synthetic":{"name":"papers-film","rate_bps":2000000,"duration_ns":20000000000}}"#;
    let watch = |rate| simulate(&plan(&[way(50, rate, 0.0)], "linux", "cubic", 1, rest));
    let events = |trace: &Trace, wanted: &str| {
        let table = trace.table("playback").expect("a table");
        match table.column("event") {
            Some(anabranch_sim::Column::Text(names)) => {
                names.iter().filter(|name| *name == wanted).count()
            }
            _ => 0,
        }
    };
    let fast = watch(6_000_000);
    assert!(finished(&fast));
    assert_eq!(
        (events(&fast, "start"), events(&fast, "underflow"), events(&fast, "end")),
        (1, 0, 1)
    );
    let slow = watch(1_600_000);
    assert!(events(&slow, "underflow") >= 1);
    assert!(finished(&slow));
}

#[test]
fn a_path_that_is_down_from_the_start_ends_the_session() {
    let rest = format!(
        r#"{BULK},"events":[{{"at_ns":0,"link":"p0.down","change":"down"}},{{"at_ns":0,"link":"p0.up","change":"down"}}]"#
    );
    let trace = simulate(&plan(&[way(50, 5_000_000, 0.0)], "linux", "cubic", 1, &rest));
    assert!(!finished(&trace));
    // The SYN is repeated ten times, the last time after 67 s, and then the client waits for 64 s
    // (`tcp_syn_retries`). The timer wheel may extend six of these waits by 32 ms each, three by 256 ms
    // each and two by 2.048 s each (`calc_wheel_index`). It never shortens a wait.
    let given_up = trace.summary.duration_s;
    assert!((131.0..136.1).contains(&given_up), "the SYN is given up: {given_up}");
}

#[test]
fn an_observer_can_stop_a_run() {
    struct Impatient;
    impl anabranch_sim::Observer for Impatient {
        fn progress(&mut self, done_s: f64, _total_s: f64) -> bool {
            done_s < 3.0
        }
    }
    let text = plan(&[way(50, 1_000_000, 0.0)], "linux", "cubic", 1, BULK);
    let plan = Plan::from_json(&text).expect("a plan");
    assert!(matches!(run(&plan, None, &mut Impatient), Err(RunError::Stopped)));
}

#[test]
fn a_plan_that_cannot_run_is_refused() {
    let good = plan(&[way(50, 1_000_000, 0.0)], "linux", "cubic", 1, BULK);
    for (from, to, keys, message) in [
        (r#""linux""#, r#""blesst""#, "transport.scheduler", "unknown scheduler: `blesst`"),
        (r#""linux""#, r#""blest(lambda=-1)""#, "transport.scheduler.lambda", "`lambda` "),
        (
            r#""linux""#,
            r#""rtx-aware(blest(labda=1))""#,
            "transport.scheduler.base.labda",
            "unknown",
        ),
        (r#""cubic""#, r#""cubik""#, "transport.congestion", "unknown congestion control: `cubik`"),
        (r#"["p0.down"]"#, r#"["p9.down"]"#, "paths[0].down[0]", "unknown link: `p9.down`"),
        (
            r#""kind":"bulk""#,
            r#""kind":"progressive""#,
            "film",
            "progressive playback needs a film",
        ),
        (
            r#""kind":"bulk""#,
            r#""kind":"paced""#,
            "application.rate_bps",
            "a paced application needs",
        ),
        (r#""kind":"bulk""#, r#""kind":"bulky""#, "application.kind", "unknown variant `bulky`"),
        (r#""delay_ns":25000000"#, r#""delay_ns":-1"#, "links[0].delay_ns", "invalid value"),
        (r#""seed":1"#, r#""seed":1,"clients":0"#, "clients", "clients must be 1 to 10000"),
        (
            r#""seed":1"#,
            r#""seed":1,"events":[{"at_ns":0,"path":"p9","interface":"up"}]"#,
            "events[0].path",
            "unknown path: `p9`",
        ),
        (
            r#""seed":1"#,
            r#""seed":1,"events":[{"at_ns":0,"path":"p0"}]"#,
            "events[0]",
            "an event changes a link",
        ),
        (r#""seed":1"#, r#""sede":1"#, "sede", "unknown field `sede`"),
    ] {
        let text = good.replace(from, to);
        assert_ne!(text, good, "{from}");
        let outcome = Plan::from_json(&text)
            .map_err(RunError::from)
            .and_then(|plan| run(&plan, None, &mut Silent));
        let Err(RunError::Plan(error)) = outcome else { panic!("{to} runs") };
        let faults = error.faults();
        assert_eq!(faults.len(), 1, "{error}");
        assert_eq!(faults[0].path.to_string(), keys, "{error}");
        assert!(faults[0].message.contains(message), "{error}");
    }
}
