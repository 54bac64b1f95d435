//! Simulations with endpoints that use ECN (RFC 3168), over queues that mark and queues that do not.

mod common;

use anabranch_sim::Trace;
use common::{numbers, simulate, srtt, total};

/// The duration of a session, seconds.
const SECONDS: u64 = 30;

/// A `CoDel` queue that marks.
const MARKS: &str = r#","discipline":{"name":"codel","values":{"ecn":1}}"#;
/// A `CoDel` queue that drops.
const DROPS: &str = r#","discipline":{"name":"codel","values":{"ecn":0}}"#;

/// Returns the ECN configuration of both sides.
fn ecn(client: &str, server: &str) -> String {
    format!(r#","ecn":{{"client":"{client}","server":"{server}"}}"#)
}

/// Returns a plan with a bulk session over `paths` paths of 10 Mb/s and 20 ms each way. The queues hold 400
/// packets, about 480 ms. `down` has further keys of the links towards the client.
fn plan(paths: usize, congestion: &str, ecn: &str, down: &str) -> String {
    let (multipath, nanos) = (paths > 1, SECONDS * 1_000_000_000);
    let link = r#""rate_bps":10000000,"queue":{"packets":400},"delay_ns":20000000"#;
    let links: Vec<_> = (0..paths)
        .map(|n| format!(r#"{{"name":"p{n}.down",{link}{down}}},{{"name":"p{n}.up",{link}}}"#))
        .collect();
    let chains: Vec<_> = (0..paths)
        .map(|n| format!(r#"{{"name":"p{n}","down":["p{n}.down"],"up":["p{n}.up"]}}"#))
        .collect();
    format!(
        r#"{{"scenario":"ecn","seed":1,"run":0,"application":{{"kind":"bulk","duration_ns":{nanos}}},
        "transport":{{"multipath":{multipath},"scheduler":"linux","congestion":"{congestion}",
          "path_manager":"full-mesh","receive_buffer_initial":131072,"receive_buffer_max":6291456,
          "send_buffer_max":4194304,"mss":1460{ecn}}},
        "links":[{}],"paths":[{}],"time_limit_ns":600000000000}}"#,
        links.join(","),
        chains.join(",")
    )
}

fn goodput(trace: &Trace) -> f64 {
    total(trace, "connections", "bytes_read") * 8e-6 / SECONDS as f64
}

/// Returns the number of packets that were dropped by any link.
fn dropped(trace: &Trace) -> f64 {
    ["dropped_aqm", "dropped_queue", "dropped_loss"].iter().map(|c| total(trace, "links", c)).sum()
}

#[test]
fn a_queue_that_marks_stays_short_and_drops_nothing() {
    let asks = ecn("request", "accept");
    for congestion in ["reno", "cubic", "lia", "olia", "balia", "compound"] {
        let with = simulate(&plan(1, congestion, &asks, MARKS));
        let without = simulate(&plan(1, congestion, "", DROPS));
        assert!(dropped(&without) > 0.0, "{congestion}: there is congestion to tell of");
        assert!(dropped(&with) < 1.0, "{congestion}: {} dropped", dropped(&with));
        assert!(total(&with, "subflows", "retransmissions") < 1.0, "{congestion}");
        let marked = total(&with, "links", "marked");
        let told = total(&with, "subflows", "delivered_ce");
        let reductions = total(&with, "subflows", "ecn_reductions");
        assert!(marked > 0.0 && told >= marked / 2.0, "{congestion}: {told} of {marked}");
        // The window is reduced at most once per round trip, and there is a mark for each reduction.
        assert!(reductions > 0.0 && reductions <= marked, "{congestion}: {reductions}, {marked}");
        assert!(srtt(&with) < 70.0, "{congestion}: {} ms", srtt(&with));
        let share = goodput(&with) / goodput(&without);
        assert!((0.95..1.1).contains(&share), "{congestion}: {share}");
    }
}

#[test]
fn every_subflow_speaks_it_for_itself() {
    let trace = simulate(&plan(2, "lia", &ecn("request", "accept"), MARKS));
    let reductions = numbers(&trace, "subflows", "ecn_reductions");
    assert!(reductions.len() == 2 && reductions.iter().all(|n| *n > 0.0), "{reductions:?}");
    assert!(dropped(&trace) < 1.0);
}

#[test]
fn a_queue_that_only_drops_marks_nothing() {
    let trace = simulate(&plan(1, "cubic", &ecn("request", "request"), ""));
    assert!(total(&trace, "links", "dropped_queue") > 0.0, "the buffer was full");
    for (table, column) in
        [("links", "marked"), ("subflows", "delivered_ce"), ("subflows", "ecn_reductions")]
    {
        assert!(total(&trace, table, column) < 1.0, "{column}");
    }
}

#[test]
fn ecn_needs_both_sides_and_is_not_requested_by_default() {
    let by_default = simulate(&plan(1, "cubic", "", MARKS));
    assert!(total(&by_default, "links", "marked") < 1.0 && dropped(&by_default) > 0.0);
    for (client, server) in [("accept", "accept"), ("off", "request"), ("off", "off")] {
        let trace = simulate(&plan(1, "cubic", &ecn(client, server), MARKS));
        assert_eq!(trace.summary.digest, by_default.summary.digest, "{client}, {server}");
    }
    let refused = simulate(&plan(1, "cubic", &ecn("request", "off"), MARKS));
    assert!(total(&refused, "links", "marked") < 1.0 && dropped(&refused) > 0.0);
}

#[test]
fn bbr_ignores_ecn_marks_by_default() {
    // Linux's version 1 ignores marks. Version 3 ignores them except on paths with a short RTT.
    for congestion in ["bbr", "bbr3"] {
        let with = simulate(&plan(1, congestion, &ecn("request", "accept"), MARKS));
        let tail = simulate(&plan(1, congestion, "", ""));
        assert!(total(&with, "links", "marked") > 0.0, "{congestion}");
        let share = goodput(&with) / goodput(&tail);
        assert!((0.99..1.01).contains(&share), "{congestion}: {share}");
    }
}

#[test]
fn bbr_flows_that_count_marks_share_a_short_queue() {
    let early =
        r#","discipline":{"name":"codel","values":{"target":5000000,"interval":5000000,"ecn":1}}"#;
    let asks = ecn("request", "accept");
    let told = |congestion: &str, clients: u32| {
        let plan = plan(1, congestion, &asks, early);
        let trace = simulate(&plan.replacen('{', &format!(r#"{{"clients":{clients},"#), 1));
        let marked = total(&trace, "links", "marked");
        assert!(marked > 0.0, "{congestion}");
        // 40 ms of the RTT are propagation delay.
        (goodput(&trace), srtt(&trace) - 40.0, total(&trace, "subflows", "delivered_ce") / marked)
    };
    for clients in [2, 4] {
        let deaf = told("bbr3", clients);
        let counting = told("bbr3(ecn = true, ecn_max_rtt_ms = \\\"none\\\")", clients);
        assert!(deaf.1 > 40.0, "each holds more than its share in flight: {deaf:?}");
        assert!(counting.1 < deaf.1 / 2.0, "{counting:?}, {deaf:?}");
        assert!(counting.0 > 0.95 * deaf.0, "{counting:?}, {deaf:?}");
        // Each mark is reported separately.
        assert!((0.95..1.05).contains(&counting.2), "{counting:?}");
        // With an RTT above 40 ms, marks are ignored unless the configuration requests them.
        let far = told("bbr3(ecn = true)", clients);
        assert!(far.1 > 40.0, "{far:?}, {deaf:?}");
    }
}
