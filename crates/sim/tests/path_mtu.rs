//! Links with an MTU below the size of the hosts' packets, with and without ICMP messages (RFC 1191, RFC
//! 2923).

mod common;

use anabranch_sim::{Plan, Trace};
use common::{numbers, simulate, total};

/// The size of the download in bytes. The client checks every byte.
const BYTES: u64 = 4_000_000;

/// Returns a plan with a session over `paths` paths of 10 Mb/s and 20 ms each way. The arguments have further
/// keys: of the last path's links (`down`, `up`) and of the plan (`more`).
fn plan(paths: usize, down: &str, up: &str, more: &str) -> String {
    let multipath = paths > 1;
    let link = r#""rate_bps":10000000,"queue":{"packets":200},"delay_ns":20000000"#;
    let only = |first: bool, text: &str| if first { text.to_owned() } else { String::new() };
    let links: Vec<_> = (0..paths)
        .map(|n| {
            let (down, up) = (only(n + 1 == paths, down), only(n + 1 == paths, up));
            format!(r#"{{"name":"p{n}.down",{link}{down}}},{{"name":"p{n}.up",{link}{up}}}"#)
        })
        .collect();
    let chains: Vec<_> = (0..paths)
        .map(|n| format!(r#"{{"name":"p{n}","down":["p{n}.down"],"up":["p{n}.up"]}}"#))
        .collect();
    format!(
        r#"{{"scenario":"mtu","seed":1,"run":0,"application":{{"kind":"bulk","bytes":{BYTES}}},
        "transport":{{"multipath":{multipath},"scheduler":"linux","congestion":"cubic",
          "path_manager":"full-mesh","receive_buffer_initial":131072,"receive_buffer_max":6291456,
          "send_buffer_max":4194304,"mss":1460}},
        "links":[{}],"paths":[{}]{more},"time_limit_ns":60000000000}}"#,
        links.join(","),
        chains.join(",")
    )
}

/// Returns the duration of the download in seconds. Asserts that all bytes were read.
fn lasted(trace: &Trace) -> f64 {
    assert!((total(trace, "connections", "bytes_read") - BYTES as f64).abs() < 1.0);
    numbers(trace, "connections", "duration_s")[0]
}

#[test]
fn path_mtu_message_shrinks_segments_at_little_cost() {
    let plain = simulate(&plan(1, "", "", ""));
    let small = simulate(&plan(1, r#","mtu":1400"#, "", ""));
    let dropped = numbers(&small, "links", "dropped_mtu");
    // The segments of the first window are too large, because they were sent before the ICMP message arrived.
    assert_eq!(dropped, [10.0, 0.0]);
    let resent = total(&small, "subflows", "retransmissions");
    assert!((20.0 - resent).abs() < 1.0, "each in two pieces: {resent}");
    assert!(total(&small, "subflows", "timeouts") < 1.0);
    // The difference is one round trip for the ICMP message, and the headers of more packets: their payload
    // is 1348 instead of 1448 bytes.
    let (with, without) = (lasted(&small), lasted(&plain));
    assert!(with > without && with < without * 1.02 + 0.1, "{with} s against {without} s");
    let segments = |trace: &Trace| total(trace, "subflows", "data_segments");
    assert!(segments(&small) >= BYTES as f64 / 1348.0 && segments(&plain) < BYTES as f64 / 1348.0);
}

#[test]
fn without_news_nothing_large_ever_arrives() {
    // RFC 2923 section 2.1: a black hole. Probing for a smaller MTU (RFC 4821) is not implemented.
    let text = plan(1, r#","mtu":1400,"icmp":false"#, "", "");
    let hole = simulate(&text);
    assert!(total(&hole, "links", "dropped_mtu") > 10.0);
    assert!(total(&hole, "subflows", "timeouts") > 3.0);
    assert!(total(&hole, "connections", "bytes_read") < 1.0);
    // If the uplink is down, the ICMP message is lost like other packets.
    let falls = r#"{"at_ns":1000000000,"link":"p0.down","change":{"mtu":1400}}"#;
    let cut = format!(
        r#","events":[{{"at_ns":999000000,"link":"p0.up","change":"down"}},{falls},
          {{"at_ns":1600000000,"link":"p0.up","change":"up"}}]"#
    );
    let late = simulate(&plan(1, "", "", &cut));
    let told = simulate(&plan(1, "", "", &format!(r#","events":[{falls}]"#)));
    assert!(total(&late, "subflows", "timeouts") > 0.0, "its sender waited");
    assert!(total(&told, "subflows", "timeouts") < 1.0);
    assert!(lasted(&late) > lasted(&told));
}

#[test]
fn mptcp_goes_on_over_its_other_path_where_one_is_a_black_hole() {
    let trace = simulate(&plan(2, r#","mtu":1000,"icmp":false"#, "", ""));
    assert!(numbers(&trace, "links", "dropped_mtu")[2] > 0.0);
    lasted(&trace);
    let told = simulate(&plan(2, r#","mtu":1000"#, "", ""));
    assert!(lasted(&told) < lasted(&trace), "both paths carry data");
    let bytes = numbers(&told, "subflows", "bytes");
    assert!(bytes.iter().all(|bytes| *bytes > 0.2 * BYTES as f64), "{bytes:?}");
}

#[test]
fn an_mtu_may_fall_and_rise_while_data_flows() {
    let events = r#","events":[{"at_ns":1000000000,"link":"p0.down","change":{"mtu":1200}},
        {"at_ns":2000000000,"link":"p0.down","change":{"mtu":800}},
        {"at_ns":2500000000,"link":"p0.down","change":{"mtu":1500}}]"#;
    let trace = simulate(&plan(1, "", "", events));
    let dropped = numbers(&trace, "links", "dropped_mtu")[0];
    assert!(dropped > 20.0, "a window of packets twice: {dropped}");
    assert!(total(&trace, "subflows", "timeouts") < 1.0);
    assert!(lasted(&trace) < 6.0);
    let again = simulate(&plan(1, "", "", events));
    assert_eq!(trace.summary.digest, again.summary.digest);
}

#[test]
fn background_flows_adapt_to_path_mtu_messages() {
    let flows = r#","cross_traffic":[
        {"name":"a","data":["p0.down"],"acks":["p0.up"],"kind":"bulk","congestion":"cubic","count":1,"start_ns":0,"bytes":500000},
        {"name":"b","data":["p0.up"],"acks":["p0.down"],"kind":"bulk","congestion":"cubic","count":1,"start_ns":0,"bytes":500000}]"#;
    let trace = simulate(&plan(1, r#","mtu":1400"#, r#","mtu":1300"#, flows));
    let dropped = numbers(&trace, "links", "dropped_mtu");
    assert!(dropped[0] >= 20.0 && dropped[1] >= 10.0, "{dropped:?}");
    let read = numbers(&trace, "cross_traffic", "bytes_read");
    assert_eq!(read, [500_000.0, 500_000.0]);
}

#[test]
fn an_mtu_that_nothing_exceeds_changes_nothing() {
    let plain = simulate(&plan(1, "", "", ""));
    let roomy = simulate(&plan(1, r#","mtu":1500"#, r#","mtu":1500,"icmp":false"#, ""));
    assert_eq!(roomy.summary.digest, plain.summary.digest);
    assert!(total(&roomy, "links", "dropped_mtu") < 1.0);
}

#[test]
fn an_mtu_that_no_link_has_is_refused() {
    for (down, more) in [
        (r#","mtu":575"#, ""),
        ("", r#","events":[{"at_ns":0,"link":"p0.down","change":{"mtu":0}}]"#),
    ] {
        let error = Plan::from_json(&plan(1, down, "", more)).expect_err("it is too small");
        assert!(error.to_string().contains("576"), "{error}");
    }
}
