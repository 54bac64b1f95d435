//! IPv4 and IPv6 paths together: the payload rate of a full link, compared with arithmetic.

mod common;

use anabranch_sim::Trace;

use common::{numbers, paths, simulate, total};

/// The rate of every link in Mbit/s, and the size of a full packet in bytes.
const RATE: f64 = 12.0;
const PACKET: f64 = 1500.0;
/// The sizes of the headers: IP of both families, TCP with timestamps, and a DSS with a `DATA_ACK` of 8
/// bytes.
const IP: [(&str, f64); 2] = [("ipv4", 20.0), ("ipv6", 40.0)];
const TCP: f64 = 20.0 + 12.0;
const DSS: f64 = 28.0;

/// Returns a plan for 40 s with a path of each of these families. `rest` has further keys, such as cross
/// traffic.
fn plan(families: &[&str], rest: &str) -> String {
    let (mut links, mut paths) = (Vec::new(), Vec::new());
    for (index, family) in families.iter().enumerate() {
        for side in ["down", "up"] {
            links.push(format!(
                r#"{{"name":"p{index}.{side}","rate_bps":12000000,"queue":{{"packets":1000}},"delay_ns":10000000}}"#
            ));
        }
        paths.push(format!(
            r#"{{"name":"p{index}","down":["p{index}.down"],"up":["p{index}.up"],"family":"{family}"}}"#
        ));
    }
    format!(
        r#"{{"scenario":"family","seed":1,"run":0,
        "application":{{"kind":"bulk","duration_ns":40000000000}},
        "transport":{{"multipath":{},"scheduler":"linux","congestion":"reno",
          "path_manager":"full-mesh","receive_buffer_initial":131072,"receive_buffer_max":1048576,
          "send_buffer_max":4194304,"mss":1460}},
        "links":[{}],"paths":[{}],"time_limit_ns":100000000000000{rest}}}"#,
        families.len() > 1,
        links.join(","),
        paths.join(",")
    )
}

/// Returns the rate acknowledged on a subflow or flow from 20 s to 40 s, Mbit/s. The data is from a table of
/// samples.
fn steady(trace: &Trace, table: &str, key: &str, which: usize) -> f64 {
    let (times, keys) = (numbers(trace, table, "t_s"), numbers(trace, table, key));
    let bytes = numbers(trace, table, "bytes_acked");
    let rows: Vec<usize> =
        (0..times.len()).filter(|&row| keys[row] as usize == which && times[row] >= 20.0).collect();
    let (first, last) = (rows[0], rows[rows.len() - 1]);
    (bytes[last] - bytes[first]) * 8e-6 / (times[last] - times[first])
}

#[test]
fn a_full_link_carries_less_payload_by_the_longer_header() {
    for (family, header) in IP {
        let trace = simulate(&plan(&[family], ""));
        assert!(total(&trace, "links", "dropped_queue") < 1.0, "the receive buffer is the limit");
        let expected = RATE * (PACKET - header - TCP) / PACKET;
        let goodput = steady(&trace, "samples", "subflow", 0);
        // At each end of the 20 s, one acknowledgement of two segments may be missing or additional, of
        // 20,000 segments.
        assert!((goodput / expected - 1.0).abs() < 2e-4, "{family}: {goodput}, not {expected}");
        // Full packets have 1500 bytes in both families.
        let down = numbers(&trace, "links", "bytes_delivered")[0];
        let packets = numbers(&trace, "links", "delivered")[0];
        assert!((0.0..3.0).contains(&(PACKET - down / packets)), "{} bytes", down / packets);
    }
}

#[test]
fn one_connection_fills_a_path_of_each_family() {
    for order in [[0, 1], [1, 0]] {
        let families = order.map(|index| IP[index]);
        let trace = simulate(&plan(&families.map(|(family, _)| family), ""));
        assert_eq!(paths(&trace), ["p0", "p1"]);
        for (path, (family, header)) in families.into_iter().enumerate() {
            let expected = RATE * (PACKET - header - TCP - DSS) / PACKET;
            let goodput = steady(&trace, "samples", "subflow", path);
            assert!((goodput / expected - 1.0).abs() < 5e-3, "{family}: {goodput}, not {expected}");
        }
    }
}

#[test]
fn background_flows_have_a_family_of_their_own() {
    for (family, header) in IP {
        let cross = format!(
            r#","cross_traffic":[{{"name":"load","data":["p1.down"],"acks":["p1.up"],"kind":"bulk",
            "congestion":"reno","count":1,"start_ns":0,"family":"{family}"}}]"#
        );
        let text =
            plan(&["ipv4", "ipv4"], &cross).replace(r#""multipath":true"#, r#""multipath":false"#);
        let trace = simulate(&text);
        let expected = RATE * (PACKET - header - TCP) / PACKET;
        let goodput = steady(&trace, "cross_samples", "flow", 0);
        assert!((goodput / expected - 1.0).abs() < 2e-4, "{family}: {goodput}, not {expected}");
    }
}

#[test]
fn an_ipv6_interface_goes_and_comes_beside_one_of_ipv4() {
    let change = |second: u64, what: &str| {
        format!(r#"{{"at_ns":{second}000000000,"path":"p1","interface":"{what}"}}"#)
    };
    let events = format!(r#","events":[{},{}]"#, change(10, "removed"), change(20, "up"));
    let trace = simulate(&plan(&["ipv4", "ipv6"], &events));
    // The first subflow over IPv6 has ended, and another subflow has replaced it.
    assert_eq!(paths(&trace), ["p0", "p1", "p1"]);
    let bytes = numbers(&trace, "subflows", "bytes");
    assert!(bytes.iter().all(|bytes| *bytes > 10e6), "{bytes:?}");
}
