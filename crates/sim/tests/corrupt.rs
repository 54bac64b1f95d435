//! Runs whose links modify payloads without invalidating the TCP checksum: detection, and the bytes that
//! clients read.

mod common;

use anabranch_sim::{Column, Trace};
use common::{numbers, simulate, total};

/// The length of the stream that the client reads, in bytes.
const LENGTH: u64 = 5_000_000;

/// The keys of a link that modifies the payload of one packet in a hundred.
const PASSES: &str = r#","corrupt":0.01,"corrupt_passes":1.0"#;

/// A transfer over paths of 10 Mb/s and 40 ms. The links to the client have the additional keys and drop
/// nothing.
struct World<'a> {
    seed: u64,
    multipath: bool,
    checksum: bool,
    down: &'a [&'a str],
    up: &'a str,
    application: String,
}

impl World<'_> {
    fn run(&self) -> Trace {
        let (mut links, mut paths) = (Vec::new(), Vec::new());
        for (path, down) in self.down.iter().enumerate() {
            let plain = r#""rate_bps":10000000,"delay_ns":20000000,"queue":{"packets":4000}"#;
            links.push(format!(r#"{{"name":"{path}.down",{plain}{down}}}"#));
            links.push(format!(r#"{{"name":"{path}.up",{plain}{}}}"#, self.up));
            paths.push(format!(r#"{{"name":"{path}","down":["{path}.down"],"up":["{path}.up"]}}"#));
        }
        simulate(&format!(
            r#"{{"scenario":"corrupt","seed":{},"run":0,"application":{},
            "transport":{{"multipath":{},"checksum":{},"scheduler":"linux","congestion":"cubic",
              "path_manager":"full-mesh","receive_buffer_initial":131072,"receive_buffer_max":6291456,
              "send_buffer_max":4194304,"mss":1460}},
            "links":[{}],"paths":[{}],"time_limit_ns":600000000000}}"#,
            self.seed,
            self.application,
            self.multipath,
            self.checksum,
            links.join(","),
            paths.join(",")
        ))
    }
}

fn bulk() -> String {
    format!(r#"{{"kind":"bulk","bytes":{LENGTH}}}"#)
}

fn transfer(multipath: bool, checksum: bool, down: &[&str]) -> Trace {
    World { seed: 1, multipath, checksum, down, up: "", application: bulk() }.run()
}

fn is(trace: &Trace, column: &str) -> bool {
    let table = trace.table("connections").expect("a table");
    table.column(column) == Some(&Column::Bool(vec![true]))
}

/// Returns the number of modified data packets, and the number of wrong bytes that were read.
fn changed_and_wrong(trace: &Trace) -> (f64, f64) {
    (total(trace, "links", "changed"), total(trace, "wrong_reads", "wrong_bytes"))
}

#[test]
fn tcp_reads_each_byte_that_was_changed() {
    let trace = transfer(false, false, &[PASSES]);
    let (changed, wrong) = changed_and_wrong(&trace);
    // One in a hundred of 3,454 segments of 1448 bytes: 35, with a tolerance of four standard deviations.
    assert!((12.0..58.0).contains(&changed), "{changed}");
    assert!(
        (wrong - changed).abs() < 0.5,
        "a byte a packet, none sent twice: {wrong} of {changed}"
    );
    assert!(is(&trace, "finished") && total(&trace, "subflows", "retransmissions") < 1.0);
    assert!(total(&trace, "links", "dropped_corrupt") < 1.0);
    let (at, position) =
        (numbers(&trace, "wrong_reads", "t_s"), numbers(&trace, "wrong_reads", "position"));
    assert!(
        at.is_sorted() && position.is_sorted() && position.iter().all(|&it| it < LENGTH as f64)
    );
    assert!(trace.summary.notes.iter().any(|note| note.contains("not those sent")));
    let again = transfer(false, false, &[PASSES]);
    assert_eq!(trace.summary.digest, again.summary.digest);
    let whole = transfer(false, false, &[""]);
    assert_ne!(
        trace.summary.digest, whole.summary.digest,
        "a changed payload is a fate of its own"
    );
    assert_eq!(changed_and_wrong(&whole), (0.0, 0.0));
}

#[test]
fn corrupted_packets_that_fail_the_checksum_are_dropped() {
    let some = transfer(false, false, &[r#","corrupt":0.02,"corrupt_passes":0.5"#]);
    let (changed, wrong) = changed_and_wrong(&some);
    assert!(changed > 10.0 && wrong > 10.0, "{changed}, {wrong}");
    assert!(total(&some, "links", "dropped_corrupt") > 10.0);
    // A modified packet has no effect if its data had already arrived.
    assert!(wrong <= changed, "{wrong} of {changed}");
}

#[test]
fn mptcp_without_checksums_reads_them_too() {
    let trace = transfer(true, false, &["", PASSES]);
    let (changed, wrong) = changed_and_wrong(&trace);
    assert!(wrong > 5.0 && wrong <= changed, "{wrong} of {changed}");
    assert!(is(&trace, "finished") && !is(&trace, "fallback"));
}

#[test]
fn checksums_find_the_first_and_the_other_path_brings_all() {
    let trace = transfer(true, true, &["", PASSES]);
    let (changed, wrong) = changed_and_wrong(&trace);
    assert!(changed > 0.0 && wrong < 0.5, "{wrong} of {changed}");
    assert!(is(&trace, "finished") && !is(&trace, "fallback"));
    assert!((total(&trace, "connections", "bytes_read") - LENGTH as f64).abs() < 0.5);
    // The second subflow is reset at the first modified packet. Without checksums, it would carry half of the
    // data.
    let bytes = numbers(&trace, "subflows", "bytes");
    assert!(bytes[1] < 0.2 * bytes[0], "{bytes:?}");
}

#[test]
fn checksums_on_the_only_path_end_mptcp_and_tcp_notices_nothing() {
    let trace = transfer(true, true, &[PASSES]);
    let (changed, wrong) = changed_and_wrong(&trace);
    assert!(is(&trace, "finished") && is(&trace, "fallback"));
    assert!((total(&trace, "connections", "bytes_read") - LENGTH as f64).abs() < 0.5);
    // The infinite mapping begins after the last data that was delivered intact (RFC 8684 section 3.7), so
    // the failed bytes are read too.
    assert!(changed > 12.0 && (wrong - changed).abs() < 0.5, "{wrong} of {changed}");
}

#[test]
fn corrupted_http_messages_leave_some_runs_unfinished() {
    // Requests and the heads of responses are modified too. Lengths are then wrong, and some responses never
    // arrive.
    let film = r#"{"kind":"adaptive","adaptive":{"abr":{"name":"fixed","rendition":0}}},
        "ladder":{"synthetic":{"name":"uq18-jp","duration_ns":60000000000}}"#;
    let hit = r#","corrupt":0.05,"corrupt_passes":1.0"#;
    let (mut unfinished, mut seen) = (0, 0.0);
    for seed in 0..40 {
        let application = film.to_owned();
        let (multipath, checksum, down) = (false, false, [hit]);
        let world = World { seed, multipath, checksum, down: &down, up: hit, application };
        let trace = world.run();
        unfinished += u32::from(!is(&trace, "finished"));
        seen += total(&trace, "wrong_reads", "wrong_bytes");
    }
    assert!((1..40).contains(&unfinished) && seen > 400.0, "{unfinished} of 40, {seen} bytes");
}

#[test]
fn every_checker_but_that_of_bytes_holds() {
    let all = r#","corrupt":0.02,"corrupt_passes":0.5,"duplicate":0.02,
        "reorder":{"share":0.02,"by_ns":8000000,"gap":1},"loss":{"bernoulli":0.005}"#;
    let mut ended = [0; 2];
    for seed in 0..24 {
        let (multipath, checksum, application) = (seed % 3 != 0, seed % 2 == 0, bulk());
        let world = World { seed, multipath, checksum, down: &[all, all], up: "", application };
        let trace = world.run();
        assert!(total(&trace, "links", "changed") > 0.0, "seed {seed}");
        ended[usize::from(is(&trace, "finished"))] += 1;
    }
    assert!(ended[1] > 12, "{ended:?}");
}
