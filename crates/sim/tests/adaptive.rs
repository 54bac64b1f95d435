//! Tests of adaptive playback over the simulated transport: its connections, idle periods, and tables.

use anabranch_sim::{Column, Plan, Silent, Table, Trace, run};

/// Returns a plan with one path per rate. Each path has a round trip of 40 ms and a queue of 100 packets.
fn plan(rates_bps: &[u64], application: &str, rest: &str) -> String {
    let mut links = Vec::new();
    let mut paths = Vec::new();
    for (index, rate) in rates_bps.iter().enumerate() {
        for way in ["down", "up"] {
            links.push(format!(
                r#"{{"name":"p{index}.{way}","rate_bps":{rate},"queue":{{"packets":100}},"delay_ns":20000000}}"#
            ));
        }
        paths.push(format!(
            r#"{{"name":"p{index}","down":["p{index}.down"],"up":["p{index}.up"]}}"#
        ));
    }
    format!(
        r#"{{"scenario":"adaptive","seed":1,"run":0,
        "transport":{{"multipath":{},"scheduler":"min-rtt","congestion":"cubic",
          "path_manager":"full-mesh","receive_buffer_initial":131072,"receive_buffer_max":6291456,
          "send_buffer_max":4194304,"mss":1460}},
        "application":{{"kind":"adaptive","adaptive":{application}}},
        "ladder":{{"synthetic":{{"name":"uq18-jp","duration_ns":120000000000}}}},
        "links":[{}],"paths":[{}],"time_limit_ns":600000000000{rest}}}"#,
        rates_bps.len() > 1,
        links.join(","),
        paths.join(",")
    )
}

fn played(rates_bps: &[u64], application: &str, rest: &str) -> Trace {
    let plan = Plan::from_json(&plan(rates_bps, application, rest)).expect("the plan is sound");
    run(&plan, None, &mut Silent).expect("the run ends")
}

fn table<'a>(trace: &'a Trace, name: &str) -> &'a Table {
    trace.table(name).expect("every trace has the table")
}

fn words<'a>(table: &'a Table, column: &str) -> Vec<&'a str> {
    match table.column(column) {
        Some(Column::Text(words)) => words.iter().collect(),
        other => panic!("{column} holds words, not {other:?}"),
    }
}

/// Returns the times of all playback events of a kind.
fn times(trace: &Trace, event: &str) -> Vec<f64> {
    let playback = table(trace, "playback");
    let at = playback.numbers("t_s");
    let named = words(playback, "event").into_iter().zip(at);
    named.filter(|(name, _)| *name == event).map(|(_, t)| t).collect()
}

const LOWEST: &str = r#"{"abr":{"name":"fixed","rendition":0}}"#;
const TOP: &str = r#"{"abr":{"name":"fixed"}}"#;

#[test]
fn every_file_is_requested_by_name_and_arrives_complete() {
    let trace = played(&[20_000_000], LOWEST, "");
    let requests = table(&trace, "requests");
    let names = words(requests, "resource");
    assert_eq!(
        names[..4],
        [
            "uq18-jp/master.m3u8",
            "uq18-jp/240p/index.m3u8",
            "uq18-jp/240p/0.ts",
            "uq18-jp/audio/index.m3u8"
        ]
    );
    // Three playlists, twelve video chunks and twelve audio chunks.
    assert_eq!(names.len(), 27);
    assert!(requests.numbers("done_s").iter().all(|done| done.is_finite()));
    let chunks = table(&trace, "chunks");
    let bytes: f64 = chunks.numbers("bytes").iter().sum();
    assert!((bytes - (246_000.0 + 65_000.0) / 8.0 * 120.0).abs() < 1.0, "no byte is missing");
    let start = times(&trace, "start")[0];
    // Playback starts after the handshake, four requests of one round trip each, and 6 s of the lowest rate
    // at 20 Mb/s.
    assert!((0.2..0.6).contains(&start), "it starts after {start} s");
    let end = times(&trace, "end")[0];
    assert!((end - start - 120.0).abs() < 1e-6);
    assert_eq!(table(&trace, "renditions").numbers("height")[..2], [240.0, 288.0]);
    let again = played(&[20_000_000], LOWEST, "");
    assert_eq!(trace.summary.digest, again.summary.digest);
}

#[test]
fn a_full_buffer_leaves_the_connection_idle_and_its_window_decays() {
    let trace = played(&[20_000_000], TOP, "");
    let gaps = table(&trace, "gaps").numbers("gap_s");
    let idle = gaps.iter().filter(|gap| **gap > 5.0).count();
    assert!(idle >= 6, "a chunk of 10 s takes less than 2 s: {gaps:?}");
    // After each period of one RTO without transmission, the congestion window is halved, at least to the
    // initial window (RFC 2861; Linux's `tcp_cwnd_restart`). A sample within three round trips shows the
    // result.
    let samples = table(&trace, "samples");
    let (times, windows) = (samples.numbers("t_s"), samples.numbers("cwnd_segments"));
    let began = table(&trace, "gaps").numbers("t_s");
    for (began, gap) in began.iter().zip(&gaps).filter(|(_, gap)| **gap > 5.0) {
        let first = times.iter().position(|t| *t > began + gap).expect("the run goes on");
        let (before, after) = (windows[first - 10], windows[first]);
        assert!(after < 0.7 * before, "a window of {before} segments is {after} after {gap} s");
    }
}

#[test]
fn a_rate_that_is_too_high_stalls_and_one_more_path_mends_it() {
    let one = played(&[2_500_000], TOP, "");
    assert!(!times(&one, "underflow").is_empty());
    assert_eq!(times(&one, "underflow").len(), times(&one, "resume").len());
    let two = played(&[2_500_000, 2_500_000], TOP, "");
    assert!(times(&two, "underflow").len() < times(&one, "underflow").len());
    assert!(times(&two, "end")[0] < times(&one, "end")[0] - 10.0);
}

/// Returns pairs of requests whose responses overlapped in time.
fn side_by_side(trace: &Trace) -> Vec<(String, String)> {
    let requests = table(trace, "requests");
    let names = words(requests, "resource");
    let (first, done) = (requests.numbers("first_byte_s"), requests.numbers("done_s"));
    let all = || (0..names.len()).filter(|at| done[*at].is_finite());
    let overlap = |one: usize, other: usize| first[other] < done[one] && first[one] < done[other];
    let pairs = all().flat_map(|one| all().skip(one + 1).map(move |other| (one, other)));
    pairs
        .filter(|(one, other)| overlap(*one, *other))
        .map(|(one, other)| (names[one].to_owned(), names[other].to_owned()))
        .collect()
}

#[test]
fn hlsjs_has_pictures_and_sound_come_at_the_same_moment_over_two_connections() {
    let hlsjs = r#"{"abr":{"name":"fixed","rendition":0},"player":{"model":"hlsjs"}}"#;
    let trace = played(&[2_000_000], hlsjs, "");
    let pairs = side_by_side(&trace);
    let both = |(one, other): &&(String, String)| {
        one.contains("/audio/") != other.contains("/audio/") && !one.contains("m3u8")
    };
    let both = pairs.iter().filter(both).count();
    // While the connection of the video was idle, an audio chunk may have arrived before the first byte of
    // the video.
    assert!(both > 6, "more than half of twelve chunks have sound beside them: {pairs:?}");
    assert_eq!(both, pairs.iter().filter(|(one, _)| !one.contains("m3u8")).count());
    // Both connections had bytes in flight at the same time, and each has its row.
    let samples = table(&trace, "samples");
    let (times, of) = (samples.numbers("t_s"), samples.numbers("subflow"));
    let flying = samples.numbers("in_flight_segments");
    let busy = |number: u8| -> Vec<u64> {
        let rows = (0..times.len()).filter(|at| of[*at] as u8 == number && flying[*at] > 0.0);
        rows.map(|at| times[at].to_bits()).collect()
    };
    let (one, other) = (busy(0), busy(1));
    assert!(one.iter().filter(|at| other.contains(at)).count() >= 5);
    let subflows = table(&trace, "subflows");
    assert_eq!(subflows.numbers("subflow"), [0.0, 1.0]);
    assert!(subflows.numbers("bytes").iter().all(|bytes| *bytes > 1e5));
    let read = table(&trace, "connections").numbers("bytes_read");
    let sent: f64 = subflows.numbers("bytes").iter().sum();
    assert_eq!(read, [sent], "what came over both was read");
    // One request at a time needs only one connection, and no two responses overlap.
    let turns = hlsjs.replace(r#""hlsjs"}"#, r#""hlsjs","requests":"one-at-a-time"}"#);
    let trace = played(&[2_000_000], &turns, "");
    assert!(side_by_side(&trace).is_empty());
    assert_eq!(table(&trace, "subflows").numbers("subflow"), [0.0]);
}

#[test]
fn abandoned_chunk_closes_its_connection() {
    let hlsjs = r#"{"abr":{"name":"hlsjs"},
        "player":{"model":"hlsjs","max_buffer_ns":10000000000,"max_buffer_bytes":0}}"#;
    let change =
        r#","events":[{"at_ns":41000000000,"link":"p0.down","change":{"rate_bps":400000}}]"#;
    let trace = played(&[10_000_000], hlsjs, change);
    let chunks = table(&trace, "chunks");
    let Some(Column::Bool(abandoned)) = chunks.column("abandoned") else {
        panic!("abandoned is true or false");
    };
    let given_up = abandoned.iter().filter(|given_up| **given_up).count();
    assert!(given_up >= 1);
    let done = chunks.numbers("done_s");
    assert_eq!(done.iter().filter(|done| done.is_nan()).count(), given_up);
    let subflows = table(&trace, "subflows").numbers("subflow");
    assert_eq!(subflows.len(), 2 + given_up, "each chunk given up cost a connection");
    // The connection of the audio was not closed, so each of its chunks arrived once.
    let sound = words(chunks, "track").into_iter().filter(|track| *track == "audio").count();
    assert_eq!(sound, 12);
    assert_eq!(times(&trace, "end").len(), 1);
}

/// The carrier of UQ18 that drops `MP_CAPABLE`: the film plays over plain TCP on the first path.
#[test]
fn a_first_path_that_strips_options_leaves_plain_tcp() {
    let text = plan(&[4_000_000, 4_000_000], LOWEST, "");
    let stripped = |path: usize| {
        let up = format!(r#""up":["p{path}.up"]"#);
        let plan = Plan::from_json(&text.replace(&up, &format!(r#"{up},"strips_mptcp":true"#)));
        run(&plan.expect("the plan is sound"), None, &mut Silent).expect("the run ends")
    };
    let bytes = |trace: &Trace| -> Vec<(String, f64)> {
        let subflows = table(trace, "subflows");
        let paths = words(subflows, "path").into_iter().map(str::to_owned);
        paths.zip(subflows.numbers("bytes")).filter(|(_, bytes)| *bytes > 0.0).collect()
    };
    let first = stripped(0);
    assert_eq!(table(&first, "connections").column("fallback"), Some(&Column::Bool(vec![true])));
    assert_eq!(bytes(&first).len(), 1);
    assert_eq!(bytes(&first)[0].0, "p0");
    // On the second path, only the join fails.
    let second = stripped(1);
    assert_eq!(table(&second, "connections").column("fallback"), Some(&Column::Bool(vec![false])));
    assert_eq!(bytes(&second).len(), 1);
    assert_eq!(bytes(&second)[0].0, "p0");
    for trace in [&first, &second] {
        assert_eq!(times(trace, "end").len(), 1);
    }
}

#[test]
fn missing_or_unknown_adaptive_settings_are_rejected() {
    let refused = |text: &str| {
        let plan = Plan::from_json(text).and_then(|plan| {
            run(&plan, None, &mut Silent).map(drop).map_err(|error| match error {
                anabranch_sim::RunError::Plan(error) => error,
                other => panic!("{other}"),
            })
        });
        plan.expect_err("it cannot run").to_string()
    };
    let sound = plan(&[1_000_000], LOWEST, "");
    assert_eq!(
        refused(&sound.replace(r#","adaptive":{"abr":{"name":"fixed","rendition":0}}"#, "")),
        "application: adaptive playback needs a ladder and a rule"
    );
    assert_eq!(
        refused(&sound.replace(r#""name":"fixed","rendition""#, r#""name":"bola","gama_p""#)),
        "application.adaptive.abr: unknown parameter of bola: `gama_p`"
    );
    assert_eq!(refused(&sound.replace("uq18-jp", "uq18")), "ladder: unknown ladder: `uq18`");
}
