//! Tests of clients that wait in a world without further events: the run ends soon, with a fault.

mod common;

use std::sync::Arc;

use anabranch_plugin::{Foreign, PluginChoice, PluginError, Registry};
use anabranch_sim::{Column, Plan, RunError, Silent, Trace, Violation, run_with};
use anabranch_transport::scheduler::{
    Decision, PathScheduler, Schedulers, SendRequest, SubflowView,
};
use anabranch_units::Duration;

use common::simulate;

/// A scheduler that refuses every subflow after a given byte of the data stream.
#[derive(Clone, Copy, Debug)]
struct Refusing {
    from: u64,
    /// Whether it requests to be called again every 10 ms.
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

fn refused(application: &str, refusing: Refusing) -> Result<Trace, RunError> {
    let plan = Plan::from_json(&plan(application, "refusing", "")).expect("a plan");
    let registry = Registry::TABLES.with::<Schedulers>(Arc::new(refusing));
    run_with(&plan, registry, None, &mut Silent)
}

#[test]
fn a_session_whose_scheduler_refuses_every_subflow_stands_still() {
    for application in [BULK, FILM] {
        for wakes in [false, true] {
            let error =
                refused(application, Refusing { from: 1_000_000, wakes }).expect_err("a fault");
            let RunError::Violation(Violation::Stalled { at_ns, open, states }) = error else {
                panic!("{error}");
            };
            // 1 MB over 40 Mb/s takes 0.2 s and, in slow start, some round trips of 50 ms.
            assert!(at_ns < 3_000_000_000, "{application}: {at_ns}");
            // Nothing is in flight on either subflow, so the scheduler could have used it.
            assert!(open && states.contains("0 Open with 0 of"), "{application}: {states}");
        }
    }
}

#[test]
fn a_long_film_that_plays_without_a_packet_does_not_stand_still() {
    // The ring holds the whole film of 150 MB. The film lasts ten minutes and is received within 90 s.
    let film = r#"{"kind":"progressive","player":{"prefetch_bytes":200000000}}"#;
    let trace = simulate(&plan(film, "linux", ""));
    let connections = trace.table("connections").expect("a table");
    assert_eq!(connections.column("finished"), Some(&Column::Bool(vec![true])));
}

#[test]
fn a_session_that_waits_for_a_change_of_the_world_does_not_stand_still() {
    // The link is down from 1 s to 700 s. Retransmission timeouts are at most 120 s apart (TCP_RTO_MAX), and the
    // server gives up only after 15 of them, at 924 s.
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
