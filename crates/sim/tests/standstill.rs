//! Tests of clients for which no event will occur any longer: the run ends soon and reports this.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anabranch_congestion::{AckSample, CongestionController, CongestionEvent, Controllers, Window};
use anabranch_plugin::{Foreign, PluginChoice, PluginError, Registry};
use anabranch_scheduler::{Decision, PathScheduler, Schedulers, SendRequest, SubflowView};
use anabranch_sim::{Column, Plan, RunError, Silent, Trace, run_with};
use anabranch_trace::Standstill;
use anabranch_units::{Duration, RandomStream};

use common::simulate;

/// A scheduler that refuses every subflow from a given byte of the data stream on.
#[derive(Clone, Copy, Debug)]
struct Refusing {
    from: u64,
    /// Whether the scheduler requests to be called again every 10 ms.
    wakes: bool,
}

impl PathScheduler for Refusing {
    fn name(&self) -> &'static str {
        "refusing"
    }

    fn schedule(&mut self, request: &SendRequest, subflows: &[SubflowView]) -> Decision {
        let open = subflows.iter().find(|view| view.can_send());
        match open {
            Some(view) if request.data_next < self.from => Decision::next_on(view.id, 1448),
            _ if self.wakes => {
                Decision::Wait { until: Some(request.now + Duration::from_millis(10)) }
            }
            _ => Decision::WAIT,
        }
    }
}

impl Foreign<Schedulers> for Refusing {
    fn build(
        &self,
        choice: &PluginChoice,
        (): (),
    ) -> Option<Result<Box<dyn PathScheduler>, PluginError>> {
        (choice.name == "refusing").then(|| Ok(Box::new(*self) as Box<_>))
    }

    fn failed(&self) -> bool {
        false
    }
}

/// Returns a plan with two paths, an application and a scheduler.
fn plan(application: &str, scheduler: &str, events: &str) -> String {
    format!(
        r#"{{"scenario":"standstill","seed":1,"run":0,"application":{application},
        "film":{{"synthetic":{{"name":"papers-film","rate_bps":2000000,"duration_ns":600000000000}}}},
        "transport":{{"multipath":true,"scheduler":"{scheduler}","congestion":"cubic",
          "path_manager":"full-mesh","receive_buffer_initial":131072,
          "receive_buffer_max":6291456,"send_buffer_max":4194304,"mss":1460}},
        "links":[
          {{"name":"d","rate_bps":20000000,"queue":{{"packets":100}},"delay_ns":25000000}},
          {{"name":"u","rate_bps":20000000,"queue":{{"packets":100}},"delay_ns":25000000}},
          {{"name":"e","rate_bps":20000000,"queue":{{"packets":100}},"delay_ns":25000000}},
          {{"name":"v","rate_bps":20000000,"queue":{{"packets":100}},"delay_ns":25000000}}],
        "paths":[{{"name":"p","down":["d"],"up":["u"]}},{{"name":"q","down":["e"],"up":["v"]}}],
        "events":[{events}],"time_limit_ns":10000000000000}}"#
    )
}

const BULK: &str = r#"{"kind":"bulk","bytes":5000000}"#;
const FILM: &str = r#"{"kind":"progressive","player":{"prefetch_bytes":1000000}}"#;

/// Returns for each client whether it received all requested data.
fn finished(trace: &Trace) -> Vec<bool> {
    match trace.table("connections").and_then(|table| table.column("finished")) {
        Some(Column::Bool(values)) => values.clone(),
        other => panic!("{other:?}"),
    }
}

fn refused(application: &str, refusing: Refusing) -> Result<Trace, RunError> {
    let plan = Plan::from_json(&plan(application, "refusing", "")).expect("a plan");
    let registry = Registry::TABLES.with::<Schedulers>(Arc::new(refusing));
    run_with(&plan, registry, None, &mut Silent)
}

#[test]
fn a_session_whose_scheduler_refuses_every_subflow_stands_still() {
    for application in [BULK, FILM] {
        for wakes in [false, true] {
            let trace = refused(application, Refusing { from: 1_000_000, wakes }).expect("a trace");
            let [Standstill { message, at_s, could_send }] = &*trace.summary.standstills else {
                panic!("{application}: {:?}", trace.summary.standstills);
            };
            // 1 MB over 40 Mb/s takes 0.2 s, plus some round trips of 50 ms in slow start.
            assert!(*at_s < 3.0, "{application}: {at_s}");
            // No data is in flight on either subflow, so the scheduler could have used both.
            assert!(
                *could_send && message.contains("0 Open with 0 of"),
                "{application}: {message}"
            );
            // The session is ended after 300 s without an event, or when the player has reached the end of
            // the film at 600 s.
            assert_eq!(finished(&trace), [false], "{application}");
            let end_s = trace.summary.duration_s;
            let earliest_s = if application == BULK { at_s + 300.0 } else { 600.0 };
            assert!((earliest_s..earliest_s + 2.0).contains(&end_s), "{application}: {end_s}");
        }
    }
}

/// A scheduler that refuses every subflow after 1 MB, but only in the connection that reaches this position
/// first.
#[derive(Debug, Default)]
struct OneRefuses {
    number: usize,
    /// The number of schedulers built so far.
    built: Arc<AtomicUsize>,
    /// The number of the scheduler that refuses. Zero if none does.
    refuses: Arc<AtomicUsize>,
}

impl PathScheduler for OneRefuses {
    fn name(&self) -> &'static str {
        "refusing"
    }

    fn schedule(&mut self, request: &SendRequest, subflows: &[SubflowView]) -> Decision {
        let mut from = u64::MAX;
        if request.data_next >= 1_000_000 {
            let (old, order) = (0, Ordering::Relaxed);
            let first = self.refuses.compare_exchange(old, self.number, order, order);
            let is_first = first.map_or_else(|first| first == self.number, |_| true);
            from = if is_first { 1_000_000 } else { u64::MAX };
        }
        Refusing { from, wakes: true }.schedule(request, subflows)
    }
}

impl Foreign<Schedulers> for OneRefuses {
    fn build(
        &self,
        choice: &PluginChoice,
        (): (),
    ) -> Option<Result<Box<dyn PathScheduler>, PluginError>> {
        let (built, refuses) = (self.built.clone(), self.refuses.clone());
        let number = built.fetch_add(1, Ordering::Relaxed) + 1;
        let one = Self { number, built, refuses };
        (choice.name == "refusing").then(|| Ok(Box::new(one) as Box<_>))
    }

    fn failed(&self) -> bool {
        false
    }
}

#[test]
fn a_client_that_stands_still_is_noticed_while_another_one_is_served() {
    // At 100 kb/s, 6.25 MB take 500 s and 1 MB takes 80 s. The check waits for 300 s.
    let paced = r#"{"kind":"paced","rate_bps":100000,"bytes":6250000}"#;
    let plan = plan(paced, "refusing", "").replacen('{', r#"{"clients":2,"#, 1);
    let plan = Plan::from_json(&plan).expect("a plan");
    let registry = Registry::TABLES.with::<Schedulers>(Arc::<OneRefuses>::default());
    let trace = run_with(&plan, registry, None, &mut Silent).expect("a trace");
    let [Standstill { message, at_s, .. }] = &*trace.summary.standstills else {
        panic!("{:?}", trace.summary.standstills);
    };
    let done = finished(&trace);
    assert_eq!(done.iter().filter(|done| **done).count(), 1, "{done:?}");
    let dead = done.iter().position(|done| !done).expect("one is not");
    assert!(message.starts_with(&format!("client {dead} stands still from")), "{message}");
    assert!((79.0..82.0).contains(at_s), "{at_s}");
    // The run ends when the other client has finished.
    assert!((500.0..503.0).contains(&trace.summary.duration_s), "{}", trace.summary.duration_s);
}

/// A congestion controller that closes the window after 100 segments.
#[derive(Clone, Copy, Debug, Default)]
struct Closing(u32);

impl CongestionController for Closing {
    fn name(&self) -> &'static str {
        "closing"
    }

    fn on_ack(&mut self, ack: &AckSample<'_>, window: &mut Window) {
        self.0 += ack.acked;
        if self.0 > 100 {
            window.cwnd = 0;
        }
    }

    fn on_congestion(&mut self, _event: &CongestionEvent, _window: &mut Window) {}
}

impl Foreign<Controllers> for Closing {
    fn build(
        &self,
        choice: &PluginChoice,
        _random: RandomStream,
    ) -> Option<Result<Box<dyn CongestionController>, PluginError>> {
        (choice.name == "closing").then(|| Ok(Box::new(*self) as Box<_>))
    }

    fn failed(&self) -> bool {
        false
    }
}

#[test]
fn a_background_flow_that_stands_still_is_noticed_and_the_run_goes_on() {
    // 5 MB at 100 kb/s take 400 s.
    let paced = r#"{"kind":"paced","rate_bps":100000,"bytes":5000000}"#;
    let flow = r#"{"cross_traffic":[{"name":"x","data":["d"],"acks":["u"],"kind":"bulk",
        "congestion":"closing","count":1,"start_ns":1000000000}],"#;
    let plan = Plan::from_json(&plan(paced, "linux", "").replacen('{', flow, 1)).expect("a plan");
    let registry = Registry::TABLES.with::<Controllers>(Arc::new(Closing::default()));
    let trace = run_with(&plan, registry, None, &mut Silent).expect("a trace");
    let [Standstill { message, at_s, .. }] = &*trace.summary.standstills else {
        panic!("{:?}", trace.summary.standstills);
    };
    // 100 segments need some round trips of 50 ms.
    assert!(message.starts_with("background flow 0 stands still from 1."), "{message}");
    assert!((1.1..2.0).contains(at_s), "{at_s}");
    assert_eq!(finished(&trace), [true]);
}

#[test]
fn a_long_film_that_plays_without_a_packet_does_not_stand_still() {
    // The prefetch ring can hold the whole film of 150 MB. The film lasts ten minutes and is received within
    // 90 s.
    let film = r#"{"kind":"progressive","player":{"prefetch_bytes":200000000}}"#;
    let trace = simulate(&plan(film, "linux", ""));
    let connections = trace.table("connections").expect("a table");
    assert_eq!(connections.column("finished"), Some(&Column::Bool(vec![true])));
}

#[test]
fn a_session_that_waits_for_a_change_of_the_world_does_not_stand_still() {
    // The link is down from 1 s to 700 s. Retransmission timeouts are at most 120 s apart (TCP_RTO_MAX), and
    // the server gives up only after 15 of them, at 924 s.
    let change = |ms: u64, what: &str| {
        ["d", "u", "e", "v"]
            .map(|link| {
                format!(r#"{{"at_ns":{},"link":"{link}","change":"{what}"}}"#, ms * 1_000_000)
            })
            .join(",")
    };
    let events = [change(1_000, "down"), change(700_000, "up")].join(",");
    let trace = simulate(&plan(BULK, "linux", &events));
    let connections = trace.table("connections").expect("a table");
    assert_eq!(connections.column("finished"), Some(&Column::Bool(vec![true])));
}

#[test]
fn a_slow_source_may_wait_longer_than_the_check() {
    // 1,448 bytes at 24 bit/s take 483 s.
    let paced = r#"{"kind":"paced","rate_bps":24,"bytes":3000}"#;
    let trace = simulate(&plan(paced, "linux", ""));
    let connections = trace.table("connections").expect("a table");
    assert_eq!(connections.column("finished"), Some(&Column::Bool(vec![true])));
}
