//! Tables that are recorded on request: they do not change the run, and they contain every segment.

mod common;

use std::collections::BTreeSet;

use anabranch_sim::{Column, Trace};

use common::{numbers, simulate, total};

fn plan(kind: &str, multipath: bool, record: &str) -> String {
    let link = |name: &str, delay: u64, loss: &str| {
        format!(
            r#"{{"name":"{name}","rate_bps":8000000,"queue":{{"packets":40}},"delay_ns":{delay}000000{loss}}}"#
        )
    };
    let lossy = r#","loss":{"bernoulli":0.01}"#;
    let links = [
        link("a.down", 10, lossy),
        link("a.up", 10, ""),
        link("b.down", 60, lossy),
        link("b.up", 60, ""),
    ];
    format!(
        r#"{{"scenario":"record","seed":3,"run":0,{kind},
        "transport":{{"multipath":{multipath},"scheduler":"min-rtt","congestion":"reno",
          "path_manager":"full-mesh","receive_buffer_initial":131072,
          "receive_buffer_max":6291456,"send_buffer_max":4194304,"mss":1460}},
        "links":[{}],
        "paths":[{{"name":"a","down":["a.down"],"up":["a.up"]}},
                 {{"name":"b","down":["b.down"],"up":["b.up"]}}],
        {record}"time_limit_ns":600000000000}}"#,
        links.join(",")
    )
}

const BULK: &str = r#""application":{"kind":"bulk","bytes":4000000}"#;
const FILM: &str = r#""application":{"kind":"progressive"},
    "film":{"synthetic":{"name":"papers-film","rate_bps":2000000,"duration_ns":20000000000}}"#;
const ASKED: &str = r#""record":["receiver"],"#;

fn rows(trace: &Trace, table: &str, columns: [&str; 3]) -> Vec<[u64; 3]> {
    let [one, other, third] = columns.map(|column| numbers(trace, table, column));
    (0..one.len()).map(|at| [one[at] as u64, other[at] as u64, third[at] as u64]).collect()
}

fn words<'a>(trace: &'a Trace, table: &str, column: &str) -> Vec<&'a str> {
    match trace.table(table).and_then(|table| table.column(column)) {
        Some(Column::Text(words)) => words.iter().collect(),
        other => panic!("{column}: {other:?}"),
    }
}

#[test]
fn a_run_is_the_same_whether_it_is_recorded_or_not() {
    for kind in [BULK, FILM] {
        let (without, with) = (simulate(&plan(kind, true, "")), simulate(&plan(kind, true, ASKED)));
        assert_eq!(without.summary, with.summary);
        for (one, other) in without.tables.iter().zip(&with.tables) {
            let recorded = ["departures", "arrivals", "receivers"].contains(&one.name);
            assert_eq!(one.is_empty() && !other.is_empty(), recorded, "{}", one.name);
            // Missing numbers are NaN, which is not equal to itself, so text is compared.
            assert!(recorded || format!("{one:?}") == format!("{other:?}"), "{}", one.name);
        }
    }
}

#[test]
fn every_segment_leaves_and_comes_and_together_they_are_the_data() {
    for (kind, multipath) in [(BULK, true), (BULK, false), (FILM, true)] {
        let trace = simulate(&plan(kind, multipath, ASKED));
        let sent = rows(&trace, "departures", ["subflow", "position", "bytes"]);
        let came = rows(&trace, "arrivals", ["subflow", "position", "bytes"]);
        // The last acknowledgements may not have arrived at the end of the run, but every sent segment is
        // recorded.
        assert_eq!(sent.len() as u64, total(&trace, "subflows", "data_segments") as u64);
        assert!(came.iter().all(|segment| sent.contains(segment)), "what came was sent");
        assert!(came.len() < sent.len(), "some was lost");
        // New data on a subflow begins at the end of the last segment.
        let subflows: BTreeSet<u64> = sent.iter().map(|segment| segment[0]).collect();
        assert_eq!(subflows.len() > 1, multipath);
        for subflow in subflows {
            let mut end = 0;
            for [_, position, bytes] in sent.iter().filter(|segment| segment[0] == subflow) {
                assert!(*position <= end, "a hole before {position}");
                end = end.max(position + bytes);
            }
        }
        // Every byte of each connection's data stream arrived, over any of the paths.
        let mapped = rows(&trace, "departures", ["subflow", "position", "data_position"]);
        let of = numbers(&trace, "arrivals", "connection");
        let mut pieces: Vec<(u64, u64, u64)> = came
            .iter()
            .zip(of)
            .map(|([subflow, position, bytes], connection)| {
                let found = mapped.iter().find(|sent| sent[..2] == [*subflow, *position]);
                let start = found.expect("it was sent")[2];
                (connection as u64, start, start + bytes)
            })
            .collect();
        pieces.sort_unstable();
        let last = pieces.last().expect("something came").0;
        let mut ends = [0; 4];
        let mut has_hole = [false; 4];
        for (connection, from, to) in pieces {
            let (end, hole) = (&mut ends[connection as usize], &mut has_hole[connection as usize]);
            *hole |= from > *end;
            if !*hole {
                *end = to.max(*end);
            }
        }
        // A player closes its earlier connections. Losses on them are then not repaired.
        assert!(has_hole.iter().zip(0..).all(|(hole, of)| !hole || kind == FILM && of < last));
        let (came_in_order, read): (u64, _) =
            (ends.iter().sum(), total(&trace, "connections", "bytes_read") as u64);
        // A player also leaves data unread on connections that it closes.
        assert!(if kind == FILM { came_in_order >= read } else { came_in_order == read });
        if multipath {
            let pairs = rows(&trace, "departures", ["nearest", "subflow", "bytes"]);
            let paths = words(&trace, "departures", "path");
            let path_of =
                |number| pairs.iter().position(|pair| pair[1] == number).map(|at| &paths[at]);
            let near = pairs.iter().filter(|pair| path_of(pair[0]) == Some(&"a"));
            assert!(near.count() * 10 > pairs.len() * 9, "the first path is the nearer one");
        }
    }
}

#[test]
fn receiver_samples_match_the_arrived_bytes() {
    let trace = simulate(&plan(BULK, true, ASKED));
    let column = |name| numbers(&trace, "receivers", name);
    let arrived: Vec<(f64, f64)> = numbers(&trace, "arrivals", "t_s")
        .into_iter()
        .zip(numbers(&trace, "arrivals", "bytes"))
        .collect();
    let (times, in_order) = (column("t_s"), column("in_order_bytes"));
    let (ahead, below, limit) =
        (column("ahead_bytes"), column("subflow_bytes"), column("limit_bytes"));
    assert!(times.len() > 20);
    assert!(ahead.iter().any(|bytes| *bytes > 0.0) && below.iter().any(|bytes| *bytes > 0.0));
    for at in 0..times.len() {
        let came: f64 =
            arrived.iter().filter(|(t, _)| *t < times[at]).map(|(_, bytes)| bytes).sum();
        let held = in_order[at] + ahead[at] + below[at];
        // Data that arrives twice is held only once.
        assert!(
            held <= came + 1460.0 && came - held < 60_000.0,
            "{held} of {came} at {}",
            times[at]
        );
        assert!(ahead[at] + below[at] <= limit[at]);
    }
}
