//! Tests of the real world between two endpoints of ours: its event loop, clock and tables. The tests need no
//! device, namespace or privilege. They check counts and no times.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use anabranch_live::{Ends, InterfaceChange, Moment, Observer, Outcome, run};
use anabranch_plan::Plan;
use anabranch_plugin::Registry;
use anabranch_trace::{Column, Table};
use anabranch_units::Duration;

/// The number of bytes that the application transfers. One link needs 0.2 s for them.
const BYTES: u64 = 300_000;

/// Returns a plan with two paths of 12 Mbit/s and 5 ms. The arguments are further keys of the plan.
fn plan(application: &str, path: &str, rest: &str) -> Plan {
    plan_of("bulk", application, path, rest)
}

/// Like [`plan`], for another kind of application.
fn plan_of(kind: &str, application: &str, path: &str, rest: &str) -> Plan {
    let links: Vec<_> = ["a.down", "a.up", "b.down", "b.up"]
        .map(|name| format!(r#"{{"name":"{name}","rate_bps":12000000,"delay_ns":5000000}}"#))
        .into();
    let text = format!(
        r#"{{"scenario":"t","seed":1,"run":0,"application":{{"kind":"{kind}"{application}}},
        "transport":{{"scheduler":"linux","congestion":"cubic","path_manager":"full-mesh",
          "receive_buffer_initial":131072,"receive_buffer_max":1048576,"send_buffer_max":4194304,"mss":1400}},
        "links":[{}],
        "paths":[{{"name":"a","down":["a.down"],"up":["a.up"]{path}}},{{"name":"b","down":["b.down"],"up":["b.up"]}}],
        "time_limit_ns":20000000000{rest}}}"#,
        links.join(",")
    );
    Plan::from_json(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn bulk() -> String {
    format!(r#","bytes":{BYTES}"#)
}

/// An observer that stops the run after a number of calls.
#[derive(Default)]
struct Follower {
    looks: u32,
    stops_at: Option<u32>,
    watches: bool,
    moments: Vec<Moment>,
    readies: u32,
}

impl Observer for Follower {
    fn ready(&mut self) -> io::Result<()> {
        self.readies += 1;
        Ok(())
    }

    fn progress(&mut self, done_s: f64, total_s: f64) -> bool {
        assert!(done_s <= total_s + 1.0, "{done_s} of {total_s}");
        self.looks += 1;
        self.stops_at.is_none_or(|most| self.looks < most)
    }

    fn watches(&self) -> bool {
        self.watches
    }

    fn watch(&mut self, moment: &Moment) {
        self.moments.push(moment.clone());
    }

    fn interface(&mut self, change: InterfaceChange) -> io::Result<()> {
        panic!("no kernel has an interface: {change:?}")
    }
}

/// A writer that stores all bytes.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("a valid lock").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn through(plan: &Plan, follower: &mut Follower, capture: Option<Kept>) -> Outcome {
    let ends = Ends {
        client: None,
        server: None,
        application: true,
        announced: Vec::new(),
        origin: None,
        capture: capture.map(|kept| Box::new(kept) as Box<dyn Write + Send>),
    };
    run(plan, Registry::default(), ends, follower).expect("a run")
}

fn table<'a>(outcome: &'a Outcome, name: &str) -> &'a Table {
    outcome.trace.tables.iter().find(|table| table.name == name).expect("a table")
}

fn sum(outcome: &Outcome, name: &str, column: &str) -> u64 {
    table(outcome, name).numbers(column).iter().sum::<f64>() as u64
}

fn finished(outcome: &Outcome) -> bool {
    table(outcome, "connections").column("finished") == Some(&Column::Bool(vec![true]))
}

fn texts(outcome: &Outcome, name: &str, column: &str) -> Vec<String> {
    let Some(Column::Text(words)) = table(outcome, name).column(column) else {
        panic!("{name} has no texts {column}")
    };
    words.iter().map(str::to_owned).collect()
}

/// Returns the number of packets in a capture. An enhanced packet block has type 6 (pcapng, section 4.3).
fn captured(kept: &Kept) -> usize {
    let bytes = kept.0.lock().expect("a valid lock");
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let (mut at, mut packets) = (0, 0);
    while at < bytes.len() {
        packets += usize::from(word(at) == 6);
        at += word(at + 4) as usize;
    }
    packets
}

#[test]
fn a_transfer_over_two_paths_is_recorded_completely() {
    let plan = plan(&bulk(), "", "");
    let (mut follower, kept) = (Follower { watches: true, ..Follower::default() }, Kept::default());
    let outcome = through(&plan, &mut follower, Some(kept.clone()));
    assert!(finished(&outcome));
    assert_eq!(sum(&outcome, "connections", "bytes_read"), BYTES);
    assert_eq!(sum(&outcome, "connections", "refused_packets"), 0);
    assert_eq!(texts(&outcome, "subflows", "path"), ["a", "b"]);
    let sent = table(&outcome, "subflows").numbers("bytes_sent");
    assert!(sent.iter().all(|bytes| *bytes > 0.0), "{sent:?}");
    // Every packet that left a link was delivered, and its lateness was counted.
    let delivered = sum(&outcome, "links", "delivered");
    assert_eq!((outcome.lateness.count(), outcome.trace.summary.steps), (delivered, delivered));
    assert_eq!((outcome.refused, &outcome.stripped[..]), (0, &[0, 0][..]));
    // The capture contains each packet that the client received or sent once.
    let links = table(&outcome, "links");
    let [down, up] = [("delivered", ".down"), ("enqueued", ".up")].map(|(column, end)| {
        let (names, counts) = (texts(&outcome, "links", "link"), links.numbers(column));
        let of = names.iter().zip(counts).filter(|(name, _)| name.ends_with(end));
        of.map(|(_, count)| count as usize).sum::<usize>()
    });
    assert_eq!(captured(&kept), down + up);
    // Samples are taken every 100 ms.
    let times = table(&outcome, "player").numbers("t_s");
    assert!(!times.is_empty() && times.is_sorted_by(|before, after| before < after), "{times:?}");
    // If no packet was late by 50 ms or more, the first sample was taken during the transfer.
    let punctual = outcome.lateness.max() < Duration::from_millis(50);
    assert!(!punctual || (0.1..0.2).contains(&times[0]), "{times:?}");
    assert_eq!(follower.readies, 1);
    let last = follower.moments.last().expect("a moment at the end");
    assert_eq!((last.bytes_read, last.paths.len()), (Some(BYTES), 2));
    let acked = |of: &anabranch_live::PathMoment| of.subflow.expect("our server").bytes_acked;
    assert!(last.paths.iter().map(acked).sum::<u64>() >= BYTES);
    assert!(last.paths.iter().all(|path| path.bytes > acked(path)), "headers count");
    assert!(last.viewing.is_none());
}

#[test]
fn an_observer_that_does_not_watch_gets_no_moments_and_can_stop_the_run() {
    let plan = plan("", "", "");
    let mut follower = Follower { stops_at: Some(3), ..Follower::default() };
    let outcome = through(&plan, &mut follower, None);
    assert_eq!((follower.looks, follower.moments.len()), (3, 0));
    assert!(!finished(&outcome));
    assert!(sum(&outcome, "connections", "bytes_read") > 0);
}

#[test]
fn a_run_ends_when_its_time_is_up() {
    let plan = plan(r#","duration_ns":300000000"#, "", "");
    let outcome = through(&plan, &mut Follower::default(), None);
    assert!(outcome.trace.summary.duration_s >= 0.3, "{}", outcome.trace.summary.duration_s);
    assert_eq!(table(&outcome, "connections").numbers("planned_s"), [0.3]);
    assert!(sum(&outcome, "connections", "bytes_read") > 0);
}

#[test]
fn packets_of_a_client_whose_interface_is_down_are_refused() {
    let events = r#","events":[{"at_ns":60000000,"path":"b","interface":"down"}]"#;
    // Data in flight on the lost path arrives over the other path. On a busy machine, nothing may be in
    // flight at that moment.
    let reinjects = (0..5).any(|_| {
        let outcome = through(&plan(&bulk(), "", events), &mut Follower::default(), None);
        assert!(finished(&outcome));
        assert_eq!(sum(&outcome, "connections", "bytes_read"), BYTES);
        assert!(sum(&outcome, "connections", "refused_packets") > 0);
        assert_eq!(texts(&outcome, "events", "what"), ["link-down"]);
        sum(&outcome, "connections", "reinjected_bytes") > 0
    });
    assert!(reinjects);
}

#[test]
fn a_middlebox_on_one_path_is_counted_there() {
    let outcome =
        through(&plan(&bulk(), r#","strips_mptcp":true"#, ""), &mut Follower::default(), None);
    assert!(finished(&outcome));
    assert!(outcome.stripped[0] > 0 && outcome.stripped[1] == 0, "{:?}", outcome.stripped);
    let fell_back = table(&outcome, "connections").column("fallback");
    assert_eq!(fell_back, Some(&Column::Bool(vec![true])), "its first SYN had no MPTCP options");
}

#[test]
fn background_flows_run_with_the_client_and_are_recorded_separately() {
    let flows = r#","cross_traffic":[
        {"name":"calls","kind":"udp","count":1,"start_ns":0,"data":["a.down"],"acks":["a.up"],
         "rate_bps":1200000,"size":1500},
        {"name":"downloads","kind":"bulk","count":1,"start_ns":0,"data":["b.down"],"acks":["b.up"],
         "congestion":"cubic","bytes":50000}]"#;
    let outcome = through(&plan(&bulk(), "", flows), &mut Follower::default(), None);
    assert!(finished(&outcome));
    assert_eq!(sum(&outcome, "connections", "bytes_read"), BYTES);
    let cross = table(&outcome, "cross_traffic");
    let at = |name: &str| {
        let names = texts(&outcome, "cross_traffic", "name");
        names.iter().position(|known| known == name).expect("a flow of this name")
    };
    let (calls, downloads) = (at("calls"), at("downloads"));
    let [sent, came, lost] = ["datagrams_sent", "datagrams_delivered", "datagrams_lost"]
        .map(|column| cross.numbers(column)[calls]);
    assert!(came > 0.0 && sent >= came + lost, "{sent} {came} {lost}");
    assert_eq!(cross.numbers("bytes_read")[downloads] as u64, 50_000);
    assert!(cross.numbers("data_segments")[downloads] >= 50_000.0 / 1460.0);
}

#[test]
fn a_film_is_played_in_real_time_and_shown_to_the_observer() {
    let film = r#","film":{"synthetic":{"name":"papers-film","rate_bps":2000000,"duration_ns":800000000}}"#;
    let mut follower = Follower { watches: true, ..Follower::default() };
    let outcome = through(&plan_of("progressive", "", "", film), &mut follower, None);
    assert!(finished(&outcome));
    let events = texts(&outcome, "playback", "event");
    let count = |wanted: &str| events.iter().filter(|event| *event == wanted).count();
    assert_eq!((count("start"), count("underflow"), count("end")), (1, 0, 1), "{events:?}");
    // 0.8 s at 30 pictures per second are 24 pictures. On a busy machine, some of them may be late.
    let shown = table(&outcome, "frames").numbers("shown_s");
    assert_eq!(shown.len(), 24);
    assert!(shown.iter().any(|at| at.is_finite()));
    let viewings: Vec<_> =
        follower.moments.iter().map(|it| it.viewing.expect("a viewer")).collect();
    assert!(viewings.iter().all(|it| it.discards.is_some() && it.underflows == 0));
    assert!(viewings.last().expect("a moment").position_s > viewings[0].position_s);
}

#[test]
fn a_client_that_races_uses_the_path_that_answers() {
    let down =
        ["a.down", "a.up"].map(|link| format!(r#"{{"at_ns":0,"link":"{link}","change":"down"}}"#));
    let events = format!(r#","events":[{}]"#, down.join(","));
    let mut plan = plan(&bulk(), "", &events);
    plan.transport.attempt_delay_ns = Some(50_000_000);
    let outcome = through(&plan, &mut Follower::default(), None);
    assert!(finished(&outcome));
    assert_eq!(sum(&outcome, "connections", "bytes_read"), BYTES);
    // The attempt over the path that loses all packets leaves no subflow.
    assert_eq!(texts(&outcome, "subflows", "path"), ["b"]);
}
