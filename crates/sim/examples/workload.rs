//! The workload of the benchmark: transfers over two paths, in one or several sessions at the same time.
//!
//! `workload [--sessions N] [--bytes B] [--scheduler S] [--congestion C] [--mbps R] [--loss P] [--film S] [--paths N]`:
//! each session transfers B bytes (409 MB by default). The paths have 50 ms, 5 Mbit/s and 0.5 % loss, and 100 ms and 5
//! Mbit/s. With N sessions, the links are N times as fast and the queues N times as long, so that the work of
//! a session stays the same. `--mbps` sets the rate per session, and the queues grow with it. With `--film`,
//! each session plays S seconds of a ladder in its highest rendition instead, and `--bytes` is ignored. With
//! `--paths`, the two kinds of path alternate until there are N.

use anabranch_sim::{Plan, Silent, run};

/// The parameters of the workload.
struct Work<'a> {
    sessions: u64,
    bytes: u64,
    scheduler: &'a str,
    congestion: &'a str,
    /// The rate of each path per session, Mbit/s.
    mbps: u64,
    /// The fraction of packets lost on the first path.
    loss: f64,
    /// The length of an adaptive film, seconds; zero for a transfer.
    film: u64,
    /// The number of paths.
    paths: u64,
}

fn plan(work: &Work<'_>) -> String {
    let Work { sessions, bytes, scheduler, congestion, mbps, loss, film, paths } = work;
    let link = |name: &str, delay_ms: u64, loss: &str| {
        format!(
            r#"{{"name":"{name}","rate_bps":{},"queue":{{"packets":{}}},"delay_ns":{},"loss":{loss}}}"#,
            1_000_000 * mbps * sessions,
            20 * mbps * sessions,
            delay_ms * 1_000_000
        )
    };
    let lossy = format!(r#"{{"bernoulli":{loss}}}"#);
    let (mut links, mut routes) = (Vec::new(), Vec::new());
    for number in 0..*paths {
        let name = (b'a' + number as u8) as char;
        let (delay_ms, loss) = if number % 2 == 0 { (25, &*lossy) } else { (50, "null") };
        links.push(link(&format!("{name}.down"), delay_ms, loss));
        links.push(link(&format!("{name}.up"), delay_ms, "null"));
        routes.push(format!(r#"{{"name":"{name}","down":["{name}.down"],"up":["{name}.up"]}}"#));
    }
    let (links, routes) = (links.join(","), routes.join(","));
    let application = if *film == 0 {
        format!(r#""application":{{"kind":"bulk","bytes":{bytes}}}"#)
    } else {
        format!(
            r#""application":{{"kind":"adaptive","adaptive":{{"abr":{{"name":"fixed"}}}}}},
            "ladder":{{"synthetic":{{"name":"uq18-jp","duration_ns":{}}}}}"#,
            film * 1_000_000_000
        )
    };
    format!(
        r#"{{"scenario":"workload","seed":1,"run":0,"clients":{sessions},
        {application},
        "transport":{{"scheduler":"{scheduler}","congestion":"{congestion}","path_manager":"full-mesh",
          "receive_buffer_initial":131072,"receive_buffer_max":33554432,"send_buffer_max":4194304,"mss":1460}},
        "links":[{links}],
        "paths":[{routes}],
        "time_limit_ns":100000000000000}}"#
    )
}

fn main() {
    let mut options = std::collections::BTreeMap::from([
        ("--sessions".to_owned(), "1".to_owned()),
        ("--bytes".to_owned(), "409000000".to_owned()),
        ("--scheduler".to_owned(), "min-rtt".to_owned()),
        ("--congestion".to_owned(), "cubic".to_owned()),
        ("--mbps".to_owned(), "5".to_owned()),
        ("--loss".to_owned(), "0.005".to_owned()),
        ("--film".to_owned(), "0".to_owned()),
        ("--paths".to_owned(), "2".to_owned()),
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
    let sessions = number("--sessions");
    let text = plan(&Work {
        sessions,
        bytes: number("--bytes"),
        scheduler: &options["--scheduler"],
        congestion: &options["--congestion"],
        mbps: number("--mbps"),
        loss: options["--loss"].parse().expect("--loss takes a share"),
        film: number("--film"),
        paths: number("--paths"),
    });
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
