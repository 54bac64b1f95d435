//! Background traffic other than a permanent TCP flow: datagrams and transfers, compared with arithmetic and
//! theory.

mod common;

use anabranch_sim::{Column, Trace};

use common::simulate;

/// Two pairs of links of 12 Mbit/s and 25 ms: `near` for the client, and `far` for the background traffic. A
/// packet of 1,500 bytes takes one millisecond.
const LINKS: &str = r#"
  {"name":"near.down","rate_bps":12000000,"queue":{"packets":100},"delay_ns":25000000},
  {"name":"near.up","rate_bps":12000000,"queue":{"packets":100},"delay_ns":25000000},
  {"name":"far.down","rate_bps":12000000,"queue":{"packets":100},"delay_ns":25000000},
  {"name":"far.up","rate_bps":12000000,"queue":{"packets":100},"delay_ns":25000000}"#;
/// A client with almost no traffic, and a client that transfers as fast as possible.
const QUIET: &str = r#""kind":"paced","rate_bps":8000"#;
const BULK: &str = r#""kind":"bulk""#;

/// Runs a client over `near` for `seconds`, together with groups of cross traffic.
fn world(seed: u64, seconds: u64, client: &str, groups: &[&str]) -> Trace {
    simulate(&format!(
        r#"{{"scenario":"random traffic","seed":{seed},"run":0,
        "application":{{{client},"duration_ns":{seconds}000000000}},
        "transport":{{"multipath":false,"scheduler":"linux","congestion":"reno",
          "path_manager":"none","receive_buffer_initial":131072,"receive_buffer_max":6291456,
          "send_buffer_max":4194304,"mss":1460}},
        "links":[{LINKS}],
        "paths":[{{"name":"near","down":["near.down"],"up":["near.up"]}}],
        "cross_traffic":[{}],
        "time_limit_ns":100000000000000}}"#,
        groups.join(",")
    ))
}

/// Returns a group over `far` that starts at the beginning.
fn far(kind: &str, more: &str) -> String {
    format!(
        r#"{{"name":"{kind}","data":["far.down"],"acks":["far.up"],"kind":"{kind}","count":1,"start_ns":0{more}}}"#
    )
}

fn flows(trace: &Trace, column: &str) -> Vec<f64> {
    trace.table("cross_traffic").expect("a table").numbers(column)
}

fn flow(trace: &Trace, column: &str) -> f64 {
    let values = flows(trace, column);
    assert_eq!(values.len(), 1);
    values[0]
}

/// Returns an integer from the row of the only flow.
fn count(trace: &Trace, column: &str) -> i64 {
    flow(trace, column) as i64
}

fn link(trace: &Trace, column: &str) -> Vec<f64> {
    trace.table("links").expect("a table").numbers(column)
}

fn fates(trace: &Trace) -> Vec<String> {
    match trace.table("cross_traffic").expect("a table").column("fate") {
        Some(Column::Text(words)) => words.iter().map(str::to_owned).collect(),
        other => panic!("{other:?}"),
    }
}

/// Returns the mean and its standard error.
fn mean(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean, (variance / n).sqrt())
}

#[test]
fn datagrams_at_a_rate_leave_at_even_times_and_arrive_after_the_delay() {
    let group = far("udp", r#","rate_bps":3000000,"size":1500,"duration_ns":60000000000"#);
    let trace = world(1, 100, QUIET, &[&group]);
    // One datagram every 4 ms for 60 s. Each takes one millisecond of service and 25 ms of propagation.
    let counts =
        ["sent", "delivered", "lost"].map(|what| count(&trace, &format!("datagrams_{what}")));
    assert_eq!(counts, [15_000, 15_000, 0]);
    assert!((flow(&trace, "datagram_delay_ms") - 26.0).abs() < 1e-9);
    assert!((flow(&trace, "goodput_mbps") - 3.0).abs() < 1e-9);
    assert_eq!((count(&trace, "end_s"), fates(&trace)), (60, vec!["stopped".to_owned()]));
    assert!(flow(&trace, "connect_s").is_nan());
    assert_eq!(count(&trace, "bytes_read"), 15_000 * 1500);
    assert_eq!(link(&trace, "bytes_delivered")[2..], [15_000.0 * 1500.0, 0.0]);
}

#[test]
fn datagrams_beyond_the_rate_of_a_link_are_lost() {
    let group = far("udp", r#","rate_bps":24000000,"size":1500"#);
    let trace = world(1, 60, QUIET, &[&group]);
    let (sent, lost) = (count(&trace, "datagrams_sent"), count(&trace, "datagrams_lost"));
    assert_eq!(sent, 120_000);
    // A link reports a drop with its next event, so the last drop may not be reported at the end of the run.
    let untold = link(&trace, "dropped_queue")[2] as i64 - lost;
    assert!((0..=1).contains(&untold), "{untold}");
    // Half of the datagrams are lost. Packets in transit at the end count neither as lost nor as delivered:
    // at most 100 in the queue and 25 on the link.
    assert!((59_870..=60_000).contains(&lost), "{lost}");
    let delay = flow(&trace, "datagram_delay_ms");
    assert!((120.0..127.0).contains(&delay), "a queue of 100 packets of 1 ms, and 25 ms: {delay}");
    assert_eq!(fates(&trace), ["running"]);
}

#[test]
fn datagram_traffic_reduces_client_goodput_by_its_rate() {
    let group = far("udp", r#","rate_bps":4000000,"size":1500"#).replace("far.", "near.");
    let (alone, beside) = (world(1, 60, BULK, &[]), world(1, 60, BULK, &[&group]));
    let mbps = |trace: &Trace| {
        trace.table("connections").expect("a table").numbers("bytes_read")[0] * 8e-6 / 60.0
    };
    let carried = flow(&beside, "goodput_mbps") * 1448.0 / 1500.0;
    assert!(carried > 3.7, "{carried}");
    let left = mbps(&alone) - carried;
    assert!((mbps(&beside) / left - 1.0).abs() < 0.03, "{} of {left}", mbps(&beside));
}

#[test]
#[ignore = "long: 24 runs of 200 s"]
fn datagrams_at_random_wait_as_the_queue_of_m_d_1_does() {
    // Pollaczek and Khinchine: the mean wait is rho s / (2 (1 - rho)), with a service time s of 1 ms.
    for (rho, runs) in [(0.5, 8), (0.7, 16)] {
        let rate = (rho * 12e6) as u64;
        let group = far("poisson", &format!(r#","rate_bps":{rate},"size":1500"#));
        let expected = rho / (2.0 * (1.0 - rho));
        let mut waits = Vec::new();
        for seed in 0..runs {
            let trace = world(seed, 200, QUIET, &[&group]);
            let sent = flow(&trace, "datagrams_sent");
            let many = rho * 1000.0 * 200.0;
            assert!((sent - many).abs() < 4.0 * many.sqrt(), "{sent} of {many}");
            assert_eq!(count(&trace, "datagrams_lost"), 0, "the queue is as good as endless");
            waits.push(flow(&trace, "datagram_delay_ms") - 26.0);
        }
        let (found, error) = mean(&waits);
        assert!(error < 0.01 * expected, "too few: {error} ms");
        assert!((found - expected).abs() < 4.0 * error, "{found} ms, not {expected}, +- {error}");
    }
}

#[test]
fn bursts_have_the_rate_of_their_share_of_time_and_are_bursts() {
    let (on, off): (f64, f64) = (0.1, 0.3);
    // Returns the seconds during which datagrams were sent, the expected value, and its standard deviation.
    let sent = |rate_mbps: u64, seconds: u64| {
        let group = format!(
            r#","rate_bps":{rate_mbps}000000,"size":1500,"on_ns":100000000,"off_ns":300000000"#
        );
        let trace = world(3, seconds, QUIET, &[&far("on-off", &group)]);
        let found = flow(&trace, "datagrams_sent") * 0.012 / rate_mbps as f64;
        // The time for which an alternating renewal process is on, and its variance in the long run (Cox,
        // Renewal Theory, 1962, section 7.4), with exponential times.
        let expected = seconds as f64 * on / (on + off);
        let variance = 2.0 * (on * off).powi(2) / (on + off).powi(3) * seconds as f64;
        let bound = 4.0 * variance.sqrt();
        assert!((found - expected).abs() < bound, "{found} s, not {expected} +- {bound}");
        (trace, bound / expected)
    };
    let (even, bound) = sent(4, 5000);
    assert!(bound < 0.04 && count(&even, "datagrams_lost") == 0);
    // The mean rate is half of the link's rate, and the rate of a burst is twice the link's rate. Bursts
    // overflow the queue of 100 packets. The same mean rate without bursts does not.
    let (bursts, _) = sent(24, 400);
    assert!(flow(&bursts, "datagrams_lost") > 0.05 * flow(&bursts, "datagrams_sent"));
    let single = world(3, 400, QUIET, &[&far("poisson", r#","rate_bps":6000000,"size":1500"#)]);
    assert!(flow(&single, "datagrams_sent") > 190_000.0);
    assert_eq!(count(&single, "datagrams_lost"), 0);
}

#[test]
fn transfers_begin_at_random_and_carry_their_bytes() {
    let reno = r#","congestion":"reno","gap_ns":250000000,"bytes":30000"#;
    let group = far("transfers", &format!(r#"{reno},"duration_ns":390000000000"#));
    let trace = world(2, 400, QUIET, &[&group]);
    let (start, bytes) = (flows(&trace, "start_s"), flows(&trace, "bytes_read"));
    let expected: f64 = 390.0 / 0.25;
    assert!((start.len() as f64 - expected).abs() < 4.0 * expected.sqrt(), "{}", start.len());
    assert!(start.iter().all(|at| *at < 390.0) && start.is_sorted());
    assert!(fates(&trace).iter().all(|fate| fate == "finished"));
    assert!(bytes.iter().all(|bytes| *bytes as u64 == 30_000));
    // Exponentially distributed gaps have a standard deviation equal to the mean, and a fraction of 1/e is
    // above the mean.
    let gaps: Vec<f64> = start.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let (found, error) = mean(&gaps);
    assert!((found - 0.25).abs() < 4.0 * error, "{found} +- {error}");
    let deviation = error * (gaps.len() as f64).sqrt();
    assert!((deviation / found - 1.0).abs() < 0.1, "{deviation}");
    let long = gaps.iter().filter(|gap| **gap > 0.25).count() as f64 / gaps.len() as f64;
    let share = (-1.0f64).exp();
    let bound = 4.0 * (share * (1.0 - share) / gaps.len() as f64).sqrt();
    assert!((long - share).abs() < bound, "{long}, not {share} +- {bound}");
    // The packets are on this link, and no others are.
    assert!(link(&trace, "bytes_delivered")[2] > 30_000.0 * expected * 0.9);
}

#[test]
fn random_traffic_on_other_links_moves_nothing_of_a_client() {
    let groups = [
        far("udp", r#","rate_bps":1000000,"size":200"#),
        far("poisson", r#","rate_bps":1000000,"size":1500"#),
        far("on-off", r#","rate_bps":2000000,"size":700,"on_ns":50000000,"off_ns":90000000"#),
        far("transfers", r#","congestion":"cubic","gap_ns":700000000,"bytes":90000"#),
    ];
    let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
    let (alone, beside) = (world(4, 30, BULK, &[]), world(4, 30, BULK, &groups));
    assert!(flows(&beside, "bytes_read").iter().filter(|bytes| **bytes > 0.0).count() > 20);
    for name in ["connections", "subflows", "samples", "player", "gaps"] {
        let table = |trace: &Trace| format!("{:?}", trace.table(name).expect("a table").columns);
        assert_eq!(table(&alone), table(&beside), "{name}");
    }
    // Each group has its own random stream, so it draws the same values with and without the other groups.
    let one = world(4, 30, BULK, &groups[1..2]);
    assert_eq!(count(&one, "datagrams_sent"), flows(&beside, "datagrams_sent")[1] as i64);
    let again = world(4, 30, BULK, &groups);
    assert_eq!(again.summary.digest, beside.summary.digest);
    assert_ne!(one.summary.digest, beside.summary.digest);
}
