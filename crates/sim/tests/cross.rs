//! Background TCP flows: their effect on the clients, and their end.

mod common;

use std::ops::Range;

use anabranch_sim::{Column, Plan, RunError, Silent, Table, Trace, run};
use anabranch_units::Seed;

use common::simulate;

/// Two pairs of links, `near` and `far`, of 12 Mbit/s. A full packet takes one millisecond.
const LINKS: &str = r#"
  {"name":"near.down","rate_bps":12000000,"queue":{"packets":100},"delay_ns":25000000},
  {"name":"near.up","rate_bps":12000000,"queue":{"packets":100},"delay_ns":25000000},
  {"name":"far.down","rate_bps":12000000,"queue":{"packets":100},"delay_ns":25000000},
  {"name":"far.up","rate_bps":12000000,"queue":{"packets":100},"delay_ns":25000000}"#;
/// The payload rate of a full link.
const FULL_MBPS: f64 = 12.0 * 1448.0 / 1500.0;

/// Returns a plan with a client over `near` for `seconds`, with Reno and plain TCP. `rest` has further keys,
/// such as cross traffic.
fn plan(seed: u64, seconds: u64, rest: &str) -> String {
    format!(
        r#"{{"scenario":"cross","seed":{seed},"run":0,
        "application":{{"kind":"bulk","duration_ns":{}}},
        "transport":{{"multipath":false,"scheduler":"linux","congestion":"reno",
          "path_manager":"none","receive_buffer_initial":131072,"receive_buffer_max":6291456,
          "send_buffer_max":4194304,"mss":1460}},
        "links":[{LINKS}],
        "paths":[{{"name":"near","down":["near.down"],"up":["near.up"]}}],
        "time_limit_ns":100000000000000{rest}}}"#,
        seconds * 1_000_000_000
    )
}

/// Returns a group of flows over one pair of links, which start at `start_s`.
fn group(name: &str, over: &str, kind: &str, count: u32, start_s: u64, more: &str) -> String {
    format!(
        r#"{{"name":"{name}","data":["{over}.down"],"acks":["{over}.up"],{kind},
        "congestion":"reno","count":{count},"start_ns":{}{more}}}"#,
        start_s * 1_000_000_000
    )
}

const BULK: &str = r#""kind":"bulk""#;

fn crossed(groups: &[String]) -> String {
    format!(r#","cross_traffic":[{}]"#, groups.join(","))
}

fn table<'a>(trace: &'a Trace, name: &str) -> &'a Table {
    trace.table(name).expect("a table")
}

fn words(trace: &Trace, name: &str, column: &str) -> Vec<String> {
    match table(trace, name).column(column) {
        Some(Column::Text(words)) => words.iter().map(str::to_owned).collect(),
        other => panic!("{column}: {other:?}"),
    }
}

fn goodput(trace: &Trace, seconds: u64) -> f64 {
    table(trace, "connections").numbers("bytes_read")[0] * 8e-6 / seconds as f64
}

/// Returns the first rows of a table.
fn head(trace: &Trace, name: &str, rows: usize) -> String {
    let columns = &table(trace, name).columns;
    let rows: Vec<usize> = (0..rows).collect();
    // As text, because a missing number (NaN) is not equal to another one.
    let cuts: Vec<_> = columns.iter().map(|(name, column)| (name, column.take(&rows))).collect();
    format!("{cuts:?}")
}

#[test]
fn reno_flows_and_a_reno_client_share_a_bottleneck_evenly() {
    share_evenly(&[3]);
}

#[test]
#[ignore = "long: up to eight flows for 600 s"]
fn any_number_of_reno_flows_shares_a_bottleneck_evenly() {
    share_evenly(&[1, 7]);
}

fn share_evenly(counts: &[u32]) {
    for &count in counts {
        let rest = crossed(&[group("load", "near", BULK, count, 0, "")]);
        let trace = simulate(&plan(1, 600, &rest));
        let mut each = table(&trace, "cross_traffic").numbers("goodput_mbps");
        each.push(goodput(&trace, 600));
        let fair = FULL_MBPS / each.len() as f64;
        assert_eq!(each.len(), count as usize + 1);
        assert!(each.iter().all(|one| (one / fair - 1.0).abs() < 0.12), "{each:?}, not {fair}");
        let used = each.iter().sum::<f64>() / FULL_MBPS;
        assert!((0.99..1.005).contains(&used), "{used} of the link");
    }
}

#[test]
fn a_flow_takes_nothing_before_its_start_and_its_share_after_it() {
    let alone = simulate(&plan(1, 60, ""));
    let trace = simulate(&plan(1, 60, &crossed(&[group("late", "near", BULK, 1, 30, "")])));
    let flows = table(&trace, "cross_traffic");
    assert_eq!(flows.numbers("start_s"), [30.0]);
    assert!((0.05..0.2).contains(&flows.numbers("connect_s")[0]));
    assert!(table(&trace, "cross_samples").numbers("t_s").iter().all(|t| *t > 30.0));

    let before = table(&alone, "samples").numbers("t_s").iter().filter(|t| **t < 30.05).count();
    assert!(before > 250);
    assert_eq!(head(&trace, "samples", before), head(&alone, "samples", before));
    let (whole, left) = (goodput(&alone, 60), goodput(&trace, 60));
    let taken = flows.numbers("bytes_read")[0] * 8e-6 / 60.0;
    assert!(taken > 0.1 * whole, "{taken} of {whole}");
    assert!((left + taken - whole).abs() < 0.02 * whole, "{left} and {taken}, not {whole}");
}

#[test]
fn flows_on_other_links_move_nothing_of_a_client() {
    // The client's link draws losses and jitter. If the draws were shifted, the results would differ.
    let lossy = |text: String| {
        let clean = r#""delay_ns":25000000},
  {"name":"near.up""#;
        assert!(text.contains(clean));
        let rough = clean.replace('}', r#","jitter_ns":3000000,"loss":{"bernoulli":0.01}}"#);
        text.replace(clean, &rough)
    };
    let groups = [group("load", "far", BULK, 5, 3, ""), group("more", "far", BULK, 2, 8, "")];
    let alone = simulate(&lossy(plan(4, 40, "")));
    let beside = simulate(&lossy(plan(4, 40, &crossed(&groups))));
    assert!(table(&alone, "links").numbers("dropped_loss")[0] > 50.0);
    assert!(table(&beside, "links").numbers("delivered")[2] > 10_000.0, "the flows ran");
    for name in ["connections", "subflows", "samples", "player", "gaps"] {
        assert_eq!(table(&alone, name).columns[0].1.len(), table(&beside, name).columns[0].1.len());
        let rows = table(&alone, name).columns[0].1.len();
        assert_eq!(head(&alone, name, rows), head(&beside, name, rows), "{name}");
    }
    assert_eq!(head(&alone, "links", 2), head(&beside, "links", 2));

    // A further group does not change the start times of the first group.
    let first = simulate(&lossy(plan(4, 40, &crossed(&groups[..1]))));
    let starts = |trace: &Trace| table(trace, "cross_traffic").numbers("start_s");
    assert_eq!(starts(&first), starts(&beside)[..5]);
    assert_eq!(starts(&first)[..1], [3.0]);
    assert!(starts(&first)[1..].iter().all(|t| *t > 3.0 && *t < 4.0), "{:?}", starts(&first));
}

#[test]
fn a_paced_flow_carries_its_rate() {
    let paced = r#""kind":"paced","rate_bps":3000000"#;
    for over in ["far", "near"] {
        let trace = simulate(&plan(1, 120, &crossed(&[group("call", over, paced, 1, 0, "")])));
        let rate = table(&trace, "cross_traffic").numbers("goodput_mbps")[0];
        assert!((2.97..3.01).contains(&rate), "{over}: {rate}");
        let left = if over == "near" { FULL_MBPS - rate } else { FULL_MBPS };
        let client = goodput(&trace, 120);
        assert!((0.97 * left..left).contains(&client), "{over}: {client} of {left}");
    }
}

#[test]
fn a_flow_ends_when_its_bytes_are_read_or_its_time_is_over() {
    let groups = [
        group("file", "near", BULK, 1, 5, r#","bytes":3000000"#),
        group("burst", "near", BULK, 2, 10, r#","duration_ns":10000000000"#),
        group("rest", "far", BULK, 1, 0, ""),
        group("never", "far", BULK, 1, 50, ""),
    ];
    let trace = simulate(&plan(1, 40, &crossed(&groups)));
    let flows = table(&trace, "cross_traffic");
    let fates = words(&trace, "cross_traffic", "fate");
    assert_eq!(fates, ["finished", "stopped", "stopped", "running", "unstarted"]);
    let (start, end) = (flows.numbers("start_s"), flows.numbers("end_s"));
    assert_eq!(flows.numbers("bytes_read")[..1], [3_000_000.0]);
    assert!(end[0] > 5.0 && end[0] < 15.0, "{end:?}");
    assert!((end[1] - start[1] - 10.0).abs() < 1e-9 && (end[2] - start[2] - 10.0).abs() < 1e-9);
    assert_eq!(end[3..4], [40.0]);
    assert!(end[4].is_nan() && flows.numbers("goodput_mbps")[4].is_nan());
    assert_eq!(flows.numbers("bytes_read")[4..], [0.0]);

    // A finished flow sends nothing, so the client can use the whole link again.
    let samples = table(&trace, "cross_samples");
    let (t, flow) = (samples.numbers("t_s"), samples.numbers("flow"));
    let last = |which: usize| {
        t.iter()
            .zip(&flow)
            .filter(|(_, f)| **f as usize == which)
            .map(|(t, _)| *t)
            .fold(0.0, f64::max)
    };
    assert!(last(0) < end[0] + 0.2 && last(1) <= end[1] && last(2) <= end[2]);
    let (t, acked) =
        (table(&trace, "samples").numbers("t_s"), table(&trace, "samples").numbers("bytes_acked"));
    let by = |time: f64| acked[t.iter().position(|t| *t > time).expect("a sample")];
    let rate = |from: f64, to: f64| (by(to) - by(from)) * 8e-6 / (to - from);
    assert!(rate(12.0, 20.0) < 0.6 * FULL_MBPS, "{}", rate(12.0, 20.0));
    assert!(rate(28.0, 39.0) > 0.97 * FULL_MBPS, "{}", rate(28.0, 39.0));
}

#[test]
fn no_flow_keeps_a_run_alive() {
    let text = plan(1, 1, &crossed(&[group("load", "near", BULK, 4, 0, "")]))
        .replace(r#""duration_ns":1000000000"#, r#""bytes":2000000"#);
    let trace = simulate(&text);
    let took = table(&trace, "connections").numbers("duration_s")[0];
    assert!((trace.summary.duration_s - took).abs() < 1e-9);
    assert_eq!(words(&trace, "cross_traffic", "fate"), ["running"; 4]);
}

#[test]
fn links_that_fail_hit_flows_and_interfaces_of_clients_do_not() {
    let acked = |events: &str| {
        let load = crossed(&[group("load", "near", BULK, 1, 0, "")]);
        let trace = simulate(&plan(1, 30, &format!(r#"{load},"events":[{events}]"#)));
        table(&trace, "cross_traffic").numbers("bytes_read")[0]
    };
    let undisturbed = acked("");
    let down = r#"{"at_ns":10000000000,"link":"near.down","change":"down"}"#;
    let up = r#"{"at_ns":20000000000,"link":"near.down","change":"up"}"#;
    let cut = acked(&format!("{down},{up}"));
    assert!(cut < 0.8 * undisturbed, "{cut} of {undisturbed}");
    let interface = r#"{"at_ns":10000000000,"path":"near","interface":"down"}"#;
    let freed = acked(interface);
    assert!(freed > 1.3 * undisturbed, "the flow has the link to itself: {freed}, {undisturbed}");
}

#[test]
fn flow_on_permanently_failed_links_is_reported_broken() {
    // The server gives up with the first timeout after 924.6 s (`tcp_retries2`). Timeouts are two minutes
    // apart then. A flow that starts in the meantime never connects.
    let text = plan(
        1,
        1200,
        &format!(
            r#"{},"events":[{{"at_ns":10000000000,"link":"far.down","change":"down"}}]"#,
            crossed(&[group("cut", "far", BULK, 1, 0, ""), group("late", "far", BULK, 1, 20, "")])
        ),
    )
    .replace(r#""kind":"bulk","duration_ns""#, r#""kind":"paced","rate_bps":100000,"duration_ns""#);
    let trace = simulate(&text);
    let flows = table(&trace, "cross_traffic");
    assert_eq!(words(&trace, "cross_traffic", "fate"), ["broken", "broken"]);
    let end = flows.numbers("end_s");
    assert!((934.0..1055.0).contains(&end[0]), "{end:?}");
    // The SYN is repeated ten times, the last time after 67 s, and then the client waits for 64 s
    // (`tcp_syn_retries`). The timer wheel may extend six of these waits by 32 ms each, three by 256 ms
    // each and two by 2.048 s each (`calc_wheel_index`). It never shortens a wait.
    assert!((151.0..156.1).contains(&end[1]), "{end:?}");
    assert!(flows.numbers("connect_s")[1].is_nan());
}

#[test]
fn a_client_that_waits_in_vain_ends_the_run_beside_flows_that_go_on() {
    // The server of the flow gives up after a quarter of an hour. The client is not notified.
    let cut = r#""events":[{"at_ns":5000000000,"link":"near.down","change":"down"}]"#;
    let outcome = |rest: &str| {
        let text = plan(1, 1, &format!("{rest},{cut}"))
            .replace(r#""duration_ns":1000000000"#, r#""bytes":2000000000"#);
        run(&Plan::from_json(&text).expect("a plan"), None, &mut Silent)
    };
    let paced = r#""kind":"paced","rate_bps":1000000"#;
    for rest in [String::new(), crossed(&[group("load", "far", paced, 1, 0, "")])] {
        // The flow is given up between 929 and 1050 s. The last packet is followed by a timeout of 120 to 123
        // s, and by 300 s without packets.
        let trace = outcome(&rest).expect("a run that ends");
        let connections = trace.table("connections").expect("a table");
        assert_eq!(connections.column("finished"), Some(&Column::Bool(vec![false])));
        let ended = trace.summary.duration_s;
        assert!((1106.0..1230.0).contains(&ended), "{ended}");
    }
}

#[test]
fn random_cross_traffic_passes_every_check() {
    let fates = cross(0..20);
    for fate in ["finished", "stopped", "running"] {
        assert!(fates.iter().filter(|other| *other == fate).count() > 5, "{fate}: {fates:?}");
    }
}

#[test]
#[ignore = "long: 100 more worlds of random cross traffic, twice each"]
fn much_random_cross_traffic_passes_every_check() {
    let fates = cross(20..120);
    for fate in ["finished", "stopped", "running"] {
        assert!(fates.iter().filter(|other| *other == fate).count() > 30, "{fate}: {fates:?}");
    }
}

/// Runs a random world twice for each seed. Returns the fates of the flows.
fn cross(seeds: Range<u64>) -> Vec<String> {
    let mut fates: Vec<String> = Vec::new();
    for seed in seeds {
        let mut draw = Seed { seed, run: 0 }.stream("cross");
        let groups: Vec<String> = (0..=draw.below(3))
            .map(|index| {
                let kind = if draw.chance(0.3) {
                    format!(r#""kind":"paced","rate_bps":{}"#, 10_000 + draw.below(8_000_000))
                } else {
                    BULK.to_owned()
                };
                let limits = [(r#","bytes":"#, 2_000_000), (r#","duration_ns":"#, 5_000_000_000)]
                    .map(|(key, most)| {
                        (draw.chance(0.4), format!("{key}{}", 1 + draw.below(most)))
                    });
                let more: String = limits
                    .into_iter()
                    .filter_map(|(given, limit)| given.then_some(limit))
                    .collect();
                let over = if draw.chance(0.5) { "near" } else { "far" };
                let control = ["reno", "cubic", "bbr"][draw.below(3) as usize];
                group(
                    &format!("g{index}"),
                    over,
                    &kind,
                    1 + draw.below(6) as u32,
                    draw.below(8),
                    &more,
                )
                .replace(r#""reno""#, &format!(r#""{control}""#))
            })
            .collect();
        let at = 1_000_000_000 + draw.below(5_000_000_000);
        let back = at + draw.below(3_000_000_000);
        let link = if draw.chance(0.5) { "near.down" } else { "far.up" };
        let event =
            |at: u64, what: &str| format!(r#"{{"at_ns":{at},"link":"{link}","change":"{what}"}}"#);
        let events = format!(r#","events":[{},{}]"#, event(at, "down"), event(back, "up"));
        let loss = r#""loss":{"bernoulli":0.01},"delay_ns":25000000"#;
        let text =
            plan(seed, 12, &(crossed(&groups) + &events)).replace(r#""delay_ns":25000000"#, loss);
        let trace = simulate(&text);
        let flows = table(&trace, "cross_traffic");
        let (bytes, goodput) = (flows.numbers("bytes_read"), flows.numbers("goodput_mbps"));
        let (start, end) = (flows.numbers("start_s"), flows.numbers("end_s"));
        for (index, fate) in words(&trace, "cross_traffic", "fate").into_iter().enumerate() {
            let read = goodput[index] * (end[index] - start[index]) / 8e-6;
            assert!((read - bytes[index]).abs() < 1.0, "seed {seed}, flow {index}: {fate}");
            fates.push(fate);
        }
        assert_eq!(simulate(&text).summary.digest, trace.summary.digest, "seed {seed}");
    }
    fates
}

#[test]
fn a_plan_without_cross_traffic_has_the_digest_of_one_that_names_none() {
    let digest = |rest: &str| simulate(&plan(1, 5, rest)).summary.digest;
    assert_eq!(digest(""), digest(r#","cross_traffic":[]"#));
    assert_ne!(digest(""), digest(&crossed(&[group("load", "far", BULK, 1, 9, "")])));
}

#[test]
fn cross_traffic_that_cannot_run_is_refused() {
    let good = group("load", "near", BULK, 2, 0, "");
    for (from, to, says) in [
        (r#""near.down""#, r#""nar.down""#, "cross_traffic[0].data[0]: unknown link: `nar.down`"),
        (r#"["near.up"]"#, "[]", "cross_traffic[0]: it needs a link in each direction"),
        (r#""reno""#, r#""rino""#, "cross_traffic[0].congestion: "),
        (r#""bulk""#, r#""paced""#, "cross_traffic[0]: paced flows need a rate"),
        (r#""count":2"#, r#""count":0"#, "cross_traffic[0]: it has no flow"),
        (r#""count":2"#, r#""count":10001"#, "at most 10000 flows"),
        (r#""count":2"#, r#""cuont":2"#, "unknown field"),
    ] {
        let text = plan(1, 1, &crossed(&[good.replace(from, to)]));
        let outcome = Plan::from_json(&text)
            .map_err(RunError::from)
            .and_then(|plan| run(&plan, None, &mut Silent));
        let Err(RunError::Plan(error)) = outcome else { panic!("{to} runs") };
        assert!(error.to_string().contains(says), "{error}");
    }
    let twice = plan(1, 1, &crossed(&[good.clone(), good]));
    let error = Plan::from_json(&twice).expect_err("one name twice");
    assert_eq!(error.to_string(), "cross_traffic[1]: another group has the same name");
}
