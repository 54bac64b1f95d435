//! The reference work of the benchmark: bulk over two paths, one or many sessions at once.
//!
//! `workload [--sessions N] [--bytes B] [--scheduler S] [--congestion C]`: each session moves B bytes
//! (409 MB by default) over its own share of 50 ms, 5 Mbit/s, 0.5 % and 100 ms, 5 Mbit/s. With N
//! sessions the links are N times as fast and their queues N times as long, so that the work of a
//! session stays the same.

use anabranch_sim::{Plan, Silent, run};

fn plan(sessions: u64, bytes: u64, scheduler: &str, congestion: &str) -> String {
    let link = |name: &str, delay_ms: u64, loss: &str| {
        format!(
            r#"{{"name":"{name}","rate_bps":{},"queue":{{"packets":{}}},"delay_ns":{},"loss":{loss}}}"#,
            5_000_000 * sessions,
            100 * sessions,
            delay_ms * 1_000_000
        )
    };
    let links = [
        link("a.down", 25, r#"{"bernoulli":0.005}"#),
        link("a.up", 25, "null"),
        link("b.down", 50, "null"),
        link("b.up", 50, "null"),
    ]
    .join(",");
    format!(
        r#"{{"scenario":"workload","seed":1,"run":0,"clients":{sessions},
        "application":{{"kind":"bulk","bytes":{bytes}}},
        "transport":{{"scheduler":"{scheduler}","congestion":"{congestion}","path_manager":"full-mesh",
          "receive_buffer_initial":131072,"receive_buffer_max":33554432,"send_buffer_max":4194304,"mss":1460}},
        "links":[{links}],
        "paths":[{{"name":"a","down":["a.down"],"up":["a.up"]}},{{"name":"b","down":["b.down"],"up":["b.up"]}}],
        "time_limit_ns":100000000000000}}"#
    )
}

fn main() {
    let mut options = std::collections::BTreeMap::from([
        ("--sessions".to_owned(), "1".to_owned()),
        ("--bytes".to_owned(), "409000000".to_owned()),
        ("--scheduler".to_owned(), "min-rtt".to_owned()),
        ("--congestion".to_owned(), "cubic".to_owned()),
    ]);
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().unwrap_or_default();
        if options.insert(name.clone(), value).is_none() {
            eprintln!("workload: unknown option: {name}");
            std::process::exit(2);
        }
    }
    let number = |name: &str| -> u64 {
        options[name].parse().unwrap_or_else(|_| {
            eprintln!("workload: {name} takes a number");
            std::process::exit(2);
        })
    };
    let (sessions, bytes) = (number("--sessions"), number("--bytes"));
    let text = plan(sessions, bytes, &options["--scheduler"], &options["--congestion"]);
    let plan = Plan::from_json(&text).expect("the plan is valid");
    let trace = run(&plan, None, &mut Silent).expect("the run ends");
    let total = |table: &str, column: &str| -> f64 {
        trace.table(table).map(|t| t.numbers(column)).unwrap_or_default().iter().sum()
    };
    println!("sessions {sessions}");
    println!("data_segments {}", total("subflows", "data_segments"));
    println!("bytes_read {}", total("connections", "bytes_read"));
    println!("retransmissions {}", total("subflows", "retransmissions"));
    println!("virtual_s {:.3}", trace.summary.duration_s);
    println!("steps {}", trace.summary.steps);
    println!("digest {}", trace.summary.digest);
}
