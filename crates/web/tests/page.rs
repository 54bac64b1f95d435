//! Tests of the module's interface, called as the page calls it, but from Rust.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use anabranch_web::{Answer, Buffer, Instance, Notice, Page, run};
use serde_json::Value;

/// An encoded decision, as in `views.rs`: kind, burst, first byte, time, number of subflows, subflows.
type Written = [f64; 6];

const NONE: f64 = f64::NAN;
/// The decision to wait without a time.
const WAIT: Written = [0.0, NONE, NONE, NONE, 0.0, 0.0];

/// A page whose scheduler always makes the same decision.
#[derive(Debug)]
struct Fixed {
    answer: Option<Written>,
    builds_on: Option<&'static str>,
    keeps_on: bool,
    has_progress: AtomicBool,
    refused: Mutex<Vec<String>>,
}

impl Fixed {
    fn new(answer: Written) -> Self {
        Self {
            answer: Some(answer),
            builds_on: None,
            keeps_on: true,
            has_progress: AtomicBool::new(false),
            refused: Mutex::default(),
        }
    }

    /// Runs the transfer with this page's scheduler. Returns the result, and the reports of invalid
    /// decisions.
    fn run(self) -> (Answer, Vec<String>) {
        let page = Arc::new(self);
        let answer =
            run(&plan("js:mine"), r#"{"schedulers":["js:mine"]}"#, Arc::<Self>::clone(&page));
        let refused = page.refused.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (answer, refused)
    }
}

impl Page for Fixed {
    fn progress(&self, share: f64) -> bool {
        assert!((0.0..=1.0).contains(&share));
        self.has_progress.store(true, Ordering::Relaxed);
        self.keeps_on
    }

    fn build(&self, name: &str, parameters: &str, seed: f64) -> Option<Instance> {
        assert_eq!((name, parameters), ("js:mine", "{}"));
        assert!(seed.fract() == 0.0 && seed < 9_007_199_254_740_992.0);
        let builds_on = self.builds_on.map(str::to_owned);
        Some(Instance { number: 4, builds_on, ..Instance::default() })
    }

    fn schedule(&self, number: u32, numbers: &mut [f64]) -> bool {
        assert_eq!(number, 4);
        let Some(answer) = self.answer else { return false };
        numbers[..answer.len()].copy_from_slice(&answer);
        true
    }

    fn notify(&self, _number: u32, _notice: Notice, _values: &[f64]) -> bool {
        true
    }

    fn refuse(&self, _number: u32, method: &str, reason: &str) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.push(format!("{method}: {reason}"));
    }
}

/// Returns a plan for 20 kB over one path of 8 Mbit/s.
fn plan(scheduler: &str) -> String {
    let link = |name| {
        format!(
            r#"{{"name":"{name}","rate_bps":8000000,"queue":{{"packets":40}},"delay_ns":15000000}}"#
        )
    };
    let (down, up) = (link("a.down"), link("a.up"));
    format!(
        r#"{{"scenario":"web","seed":7,"run":0,"application":{{"kind":"bulk","bytes":20000}},
        "transport":{{"multipath":true,"scheduler":"{scheduler}","congestion":"cubic","path_manager":"full-mesh",
        "receive_buffer_initial":131072,"receive_buffer_max":6291456,"send_buffer_max":4194304,"mss":1460,
        "checksum":false,"pacing":false}},
        "links":[{down},{up}],"paths":[{{"name":"a","down":["a.down"],"up":["a.up"]}}],
        "time_limit_ns":20000000000}}"#
    )
}

fn header(answer: &Answer) -> Value {
    serde_json::from_str(&answer.header).expect("the header is JSON")
}

#[test]
fn the_base_s_proposal_gives_the_base_s_run() {
    let native = run(&plan("min-rtt"), "{}", Arc::new(Fixed::new(WAIT)));
    let digest = &header(&native)["summary"]["digest"];
    assert_eq!(digest.as_str().map(str::len), Some(64));
    let proposal = [3.0, NONE, NONE, NONE, 0.0, 0.0];
    let page = Fixed { builds_on: Some("min-rtt"), ..Fixed::new(proposal) };
    let (answer, refused) = page.run();
    assert_eq!((&header(&answer)["summary"]["digest"], refused), (digest, Vec::new()));
}

#[test]
fn columns_are_buffers_of_equal_length() {
    let answer = run(&plan("min-rtt"), "{}", Arc::new(Fixed::new(WAIT)));
    let found = header(&answer);
    // All 20 kB are read over the only path.
    assert_eq!(found["metrics"]["qos"]["paths"][0]["bytes_share"], 1.0);
    for table in found["tables"].as_array().expect("a list") {
        for column in table["columns"].as_array().expect("a list") {
            let place = column["buffer"].as_u64().expect("an index") as usize;
            let rows = match &answer.buffers[place] {
                Buffer::Flags(values) => values.len(),
                Buffer::Numbers(values) => values.len(),
                Buffer::Words(values) => values.len(),
            };
            assert_eq!(Some(rows as u64), table["rows"].as_u64());
        }
    }
}

#[test]
fn another_run_has_another_digest() {
    let of = |options| header(&run(&plan("min-rtt"), options, Arc::new(Fixed::new(WAIT))));
    let digest = |found: Value| found["summary"]["digest"].as_str().map(str::to_owned);
    assert_eq!(digest(of("{}")), digest(of(r#"{"run":0}"#)));
    assert_ne!(digest(of("{}")), digest(of(r#"{"run":1}"#)));
    assert_eq!(of(r#"{"rum":1}"#)["faults"][0]["key"], "");
}

#[test]
fn invalid_answers_are_refused_with_their_reason() {
    let send = |burst, from, subflow| [1.0, burst, from, NONE, 1.0, subflow];
    let reasons = [
        (send(NONE, NONE, 9.0), "schedule: the subflows that can be chosen now are 0"),
        (send(0.0, NONE, 0.0), "schedule: burst_bytes is a whole number of bytes, 1 or more"),
        (send(1.5, NONE, 0.0), "schedule: burst_bytes is a whole number of bytes, 1 or more"),
        (
            send(NONE, 20_000.0, 0.0),
            "schedule: from_byte must be from data_una, 0, to below data_end, 20000",
        ),
        ([1.0, NONE, NONE, NONE, 0.0, 0.0], "schedule: no subflow is named; return null to wait"),
        ([3.0, NONE, NONE, NONE, 0.0, 0.0], "schedule: unknown kind of answer"),
    ];
    for (answer, reason) in reasons {
        let (found, refused) = Fixed::new(answer).run();
        assert_eq!(refused, [reason]);
        assert_eq!(header(&found)["faults"], Value::Array(Vec::new()), "the page knows the reason");
    }
    let (_, refused) = Fixed::new([0.0, NONE, NONE, 0.5, 0.0, 0.0]).run();
    assert!(refused[0].starts_with("schedule: until_ms is a time in ms, not before now_ms"));
    let (_, refused) = Fixed { builds_on: Some("min-rt"), ..Fixed::new(WAIT) }.run();
    assert!(refused[0].starts_with("builds_on: is \"min-rt\": unknown scheduler"));
}

#[test]
fn a_scheduler_that_throws_and_a_page_that_stops_end_the_run() {
    let (found, refused) = Fixed { answer: None, ..Fixed::new(WAIT) }.run();
    assert_eq!((&header(&found)["faults"], refused), (&Value::Array(Vec::new()), Vec::new()));
    let page = Fixed { keeps_on: false, ..Fixed::new(WAIT) };
    let stopped = run(&plan("min-rtt"), "{}", Arc::new(page));
    assert_eq!(header(&stopped)["faults"][0]["message"], "the run was stopped");
}

#[test]
fn the_faults_of_a_plan_have_their_keys() {
    let page = || Arc::new(Fixed::new(WAIT));
    let found = header(&run(&plan("min-rt"), "{}", page()));
    assert_eq!(found["faults"][0]["key"], "transport.scheduler");
    assert!(found["faults"][0]["hint"].as_str().is_some_and(|hint| hint.contains("min-rtt")));
    let text = plan("min-rtt").replace(r#""down":["a.down"]"#, r#""down":[5]"#);
    assert_eq!(header(&run(&text, "{}", page()))["faults"][0]["key"], "paths[0].down[0]");
}
