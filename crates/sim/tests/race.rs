//! Complete runs of clients that race connection attempts over their paths (RFC 8305 section 5). Expected
//! times are computed by hand from the round trips and the delay between attempts.

mod common;

use anabranch_sim::{Column, Trace};

use common::{numbers, paths, simulate, total};

/// Returns a plan with two paths of these round trips in ms. If the client races, it waits 100 ms between two
/// attempts.
fn plan(rtts: &[(u64, &str)], race: bool, application: &str, rest: &str) -> String {
    let (mut links, mut paths) = (Vec::new(), Vec::new());
    for (index, (rtt, keys)) in rtts.iter().enumerate() {
        for side in ["down", "up"] {
            links.push(format!(
                r#"{{"name":"p{index}.{side}","queue":{{"packets":500}},"rate_bps":8000000,"delay_ns":{}}}"#,
                rtt * 500_000
            ));
        }
        paths.push(format!(
            r#"{{"name":"p{index}","down":["p{index}.down"],"up":["p{index}.up"]{keys}}}"#
        ));
    }
    let delay = if race { r#","attempt_delay_ns":100000000"# } else { "" };
    format!(
        r#"{{"scenario":"race","seed":1,"run":0,"application":{application},
        "transport":{{"scheduler":"linux","congestion":"cubic",
          "path_manager":"full-mesh","receive_buffer_initial":131072,"receive_buffer_max":6291456,
          "send_buffer_max":4194304,"mss":1460{delay}}},"host":{{"timer_tick_ns":0}},
        "links":[{}],"paths":[{}],"time_limit_ns":600000000000{rest}}}"#,
        links.join(","),
        paths.join(",")
    )
}

const BULK: &str = r#"{"kind":"bulk","bytes":4000000}"#;

/// Returns the time at which the client was connected, rounded to ms.
fn connected_ms(trace: &Trace) -> u64 {
    (numbers(trace, "connections", "connect_s")[0] * 1e3).round() as u64
}

#[test]
fn the_connection_begins_over_the_path_that_answers_first() {
    for (rtts, first, race) in [
        // The second attempt begins at 100 ms and succeeds 20 ms later.
        ([(600, ""), (20, "")], 600, 120),
        // The first attempt succeeds before the second one begins.
        ([(60, ""), (20, "")], 60, 60),
        // The second attempt would succeed at 180 ms.
        ([(160, ""), (80, "")], 160, 160),
    ] {
        let trace = simulate(&plan(&rtts, false, BULK, ""));
        assert_eq!(connected_ms(&trace), first);
        let trace = simulate(&plan(&rtts, true, BULK, ""));
        assert_eq!(connected_ms(&trace), race);
        assert!((total(&trace, "connections", "bytes_read") - 4e6).abs() < 0.5);
        // The slower attempt does not become a subflow, so its path joins later.
        let mut used = paths(&trace);
        assert_eq!(used[0], if race == 120 { "p1" } else { "p0" });
        used.sort();
        assert_eq!(used, ["p0", "p1"]);
    }
}

#[test]
fn a_race_over_one_path_is_none() {
    let [race, none] = [true, false].map(|race| simulate(&plan(&[(50, "")], race, BULK, "")));
    assert_eq!(race.summary.digest, none.summary.digest);
}

#[test]
fn a_path_that_is_down_at_the_start_costs_the_delay() {
    let down = ["up", "down"]
        .map(|side| format!(r#"{{"at_ns":0,"link":"p0.{side}","change":"down"}}"#))
        .join(",");
    let events = format!(r#","events":[{down}]"#);
    let trace = simulate(&plan(&[(40, ""), (20, "")], true, BULK, &events));
    assert_eq!(connected_ms(&trace), 120);
    assert_eq!(paths(&trace)[0], "p1");
    // The interface goes down after the first SYN. The second attempt does not use this path.
    let events = r#","events":[{"at_ns":0,"path":"p0","interface":"down"}]"#;
    let trace = simulate(&plan(&[(40, ""), (20, "")], true, BULK, events));
    assert_eq!((connected_ms(&trace), paths(&trace)), (120, vec!["p1".to_owned()]));
}

#[test]
fn families_and_backups_take_part() {
    let rtts = [(600, r#","family":"ipv6""#), (20, "")];
    assert_eq!(connected_ms(&simulate(&plan(&rtts, true, BULK, ""))), 120);
    let rtts = [(600, ""), (20, r#","family":"ipv6""#)];
    assert_eq!(connected_ms(&simulate(&plan(&rtts, true, BULK, ""))), 120);
    // A backup path is tried last, even if it is the first path.
    let rtts = [(20, r#","backup":true"#), (60, "")];
    let trace = simulate(&plan(&rtts, true, BULK, ""));
    assert_eq!((connected_ms(&trace), &*paths(&trace)[0]), (60, "p1"));
}

#[test]
fn plain_tcp_uses_the_path_that_answers_first() {
    let text = plan(&[(600, ""), (20, "")], true, BULK, "");
    let trace = simulate(&text.replace(r#""transport":{"#, r#""transport":{"multipath":false,"#));
    assert_eq!((connected_ms(&trace), paths(&trace)), (120, vec!["p1".to_owned()]));
    assert!((total(&trace, "connections", "bytes_read") - 4e6).abs() < 0.5);
}

/// Plays a film or a ladder over both paths. Returns the trace.
fn played(application: &str, media: &str) -> Trace {
    let trace = simulate(&plan(&[(600, ""), (20, "")], true, application, media));
    let finished = trace.table("connections").and_then(|table| table.column("finished"));
    assert!(matches!(finished, Some(Column::Bool(done)) if done.iter().all(|done| *done)));
    // The player sends its request at the start. The request leaves the host when the connection is
    // established.
    assert!(numbers(&trace, "requests", "t_s")[0].abs() < 1e-9);
    let first_byte = numbers(&trace, "requests", "first_byte_s")[0] * 1e3;
    assert!((140.0..145.0).contains(&first_byte), "{first_byte} ms: 120 and a round trip");
    trace
}

#[test]
fn a_film_and_a_ladder_are_played_over_raced_connections() {
    let film = r#","film":{"synthetic":{"name":"f","rate_bps":2000000,"duration_ns":4000000000}}"#;
    let trace = played(r#"{"kind":"progressive"}"#, film);
    assert_eq!(paths(&trace)[0], "p1");
    let ladder = r#","ladder":{"synthetic":{"name":"uq18-va","duration_ns":20000000000}}"#;
    let adaptive = r#"{"kind":"adaptive","adaptive":{"abr":{"name":"fixed","rendition":0}}}"#;
    let trace = played(adaptive, ladder);
    let begun = paths(&trace).iter().filter(|path| *path == "p1").count();
    assert_eq!(begun, paths(&trace).len() / 2, "every connection has both paths");
}
