//! Tests of schedulers that build on others: names, nested parameters, and notifications to the innermost
//! one.

use std::sync::{Arc, Mutex};

use anabranch_plugin::{Foreign, PluginChoice, PluginError, Registry, Value};
use anabranch_scheduler as scheduler;
use anabranch_scheduler::{
    Ask, Decision, PathScheduler, Schedulers, SendRequest, SubflowEvent, SubflowView,
};
use anabranch_units::{Instant, SubflowId};

use super::{build, chosen, named, questions, request, view};

/// A base that records its calls.
#[derive(Clone, Debug, Default)]
struct Probe(Arc<Mutex<Vec<String>>>);

impl Probe {
    fn note(&self, what: &str) {
        self.0.lock().expect("one thread").push(what.to_owned());
    }
}

impl PathScheduler for Probe {
    fn name(&self) -> &'static str {
        "probe"
    }

    fn schedule(&mut self, request: &SendRequest, _subflows: &[SubflowView]) -> Decision {
        self.note(match request.ask {
            Ask::NewData => "new",
            Ask::Reinject(_) => "reinject",
            Ask::WindowBlocked { .. } => "blocked",
            Ask::BufferFull { .. } => "full",
            Ask::Idle => "idle",
        });
        Decision::WAIT
    }

    fn on_sent(&mut self, _id: SubflowId, _from: u64, _bytes: u64) {
        self.note("sent");
    }

    fn on_data_ack(&mut self, _now: Instant, _data_una: u64) {
        self.note("acknowledged");
    }

    fn on_penalised(&mut self, _id: SubflowId) {
        self.note("penalised");
    }

    fn on_event(&mut self, _now: Instant, _id: SubflowId, _event: SubflowEvent) {
        self.note("event");
    }

    fn watches(&self) -> bool {
        true
    }

    fn wants_idle(&self) -> bool {
        true
    }

    fn reinjects(&self) -> bool {
        true
    }
}

impl Foreign<Schedulers> for Probe {
    fn build(
        &self,
        choice: &PluginChoice,
        (): (),
    ) -> Option<Result<Box<dyn PathScheduler>, PluginError>> {
        (choice.name == "probe").then(|| Ok(Box::new(self.clone()) as Box<dyn PathScheduler>))
    }

    fn failed(&self) -> bool {
        false
    }
}

#[test]
fn every_wrapper_passes_every_piece_of_news_on() {
    let wrappers = ["rtx-aware(probe)", "sticky(probe)", "blest(probe)", "ecf(probe)"];
    for name in wrappers.into_iter().chain(["rtx-aware(sticky(blest(ecf(probe))))"]) {
        let probe = Probe::default();
        let registry = Registry::TABLES.with::<Schedulers>(Arc::new(probe.clone()));
        let mut outer = scheduler::build(&named(name), &registry).expect("a probe inside");
        assert!(outer.wants_idle() && outer.reinjects() && outer.watches(), "{name}");
        outer.on_sent(SubflowId(0), 0, 1);
        outer.on_data_ack(Instant::ZERO, 1);
        outer.on_penalised(SubflowId(0));
        outer.on_event(Instant::ZERO, SubflowId(0), SubflowEvent::Opened);
        for ask in questions() {
            let decision = outer.schedule(&SendRequest { ask, ..request() }, &[view(0, 50, 9, 0)]);
            assert_eq!(decision, Decision::WAIT);
        }
        let news = probe.0.lock().expect("one thread").join(" ");
        let all = "sent acknowledged penalised event new reinject blocked full idle";
        assert_eq!(news, all, "{name}");
    }
    // `penalising` handles most requests itself, and calls its base only for new data.
    let probe = Probe::default();
    let registry = Registry::TABLES.with::<Schedulers>(Arc::new(probe.clone()));
    let mut outer = scheduler::build(&named("penalising(probe)"), &registry).expect("a probe");
    outer.on_penalised(SubflowId(0));
    outer.on_event(Instant::ZERO, SubflowId(0), SubflowEvent::Closed);
    outer.on_data_ack(Instant::ZERO, 1);
    outer.on_sent(SubflowId(0), 0, 1);
    outer.schedule(&SendRequest { ask: Ask::Idle, ..request() }, &[view(0, 50, 9, 0)]);
    let news = probe.0.lock().expect("one thread").join(" ");
    assert_eq!(news, "penalised event acknowledged sent idle");
}

#[test]
fn base_scheduler_is_called_only_for_requests_it_handles() {
    for name in ["rtx-aware", "sticky", "ecf", "spdx", "gr-sty"] {
        assert!(!build(name).wants_idle() && !build(name).reinjects(), "{name}");
    }
    for name in ["rtx-aware(blest)", "sticky(rtx-aware(redundant))", "ecf(min-rtt-0.9x)"] {
        assert!(build(name).wants_idle(), "{name}");
    }
    // min-rtt under BLEST would send for any request.
    let idle = SendRequest { ask: Ask::Idle, ..request() };
    assert_eq!(build("blest").schedule(&idle, &[view(0, 50, 9, 0)]), Decision::WAIT);
}

#[test]
fn aliases_are_their_compositions() {
    for (alias, name) in [
        ("spd", "min-rtt"),
        ("dft", "min-rtt-0.9x"),
        ("spdx", "rtx-aware"),
        ("lpcx", "rtx-aware"),
        ("letx", "rtx-aware"),
        ("gr-sty", "sticky"),
    ] {
        assert_eq!(build(alias).name(), name);
        let keys = scheduler::parameters(alias).expect("known");
        assert!(keys.iter().all(|known| known.key != "base"), "{alias} is one thing");
    }
    for known in scheduler::names() {
        assert!(!build(known.name).name().is_empty(), "{}", known.name);
    }
}

#[test]
fn parameters_work_at_any_depth_and_faults_name_their_place() {
    let blest = named("blest").with("lambda", Value::Number(1.1));
    let nested = named("rtx-aware").with("base", Value::Plugin(blest));
    assert_eq!(named("rtx-aware(blest(lambda=1.1))"), nested);
    scheduler::build(&nested, &Registry::TABLES).expect("a parameter of the base");
    build("rtx-aware(sticky(blest(lambda=1.1)))");
    build("penalising(rtx-aware(let))");
    build("blest(min-rtt-0.9x, lambda=1.1, lambda_rise=0)");
    let fault = |text: &str| {
        let error = scheduler::build(&named(text), &Registry::TABLES).expect_err(text);
        error.faults.into_iter().map(|fault| fault.path.join(".")).collect::<Vec<_>>()
    };
    assert_eq!(fault("rtx-aware(sticky(blest(lambda=1.4)))"), ["base.base.lambda"]);
    assert_eq!(fault("sticky(rtx-aware(lamda=1), base2=3)"), ["base.lamda", "base2"]);
    assert_eq!(fault("spdx(lpc)"), ["base"], "an alias is one thing");
    assert_eq!(fault("round-robin(num_segments=0)"), ["num_segments"]);
    assert_eq!(fault("ecf(nobody, beta=2)"), ["beta", "base"]);
}

#[test]
fn the_kernels_own_blest_and_ecf_are_those_over_its_default() {
    let silent = SubflowView { potentially_failed: true, ..view(0, 50, 10, 0) };
    let views = [silent, view(1, 90, 10, 0)];
    for name in ["blest", "ecf", "sticky", "rtx-aware"] {
        let over =
            |base: &str| chosen(&build(&format!("{name}({base})")).schedule(&request(), &views));
        assert_eq!(over("min-rtt"), Some(0), "{name}");
        assert_eq!(over("min-rtt-0.9x"), Some(1), "{name}");
    }
}

#[test]
fn schedulers_do_not_wait_for_an_unresponsive_near_subflow() {
    let few = SendRequest { data_end: 10_000, window_end: 20_000, ..request() };
    let near = view(0, 20, 10, 10);
    let views =
        |silent: bool| [SubflowView { potentially_failed: silent, ..near }, view(1, 400, 10, 0)];
    for name in ["blest", "ecf", "blest(dft)", "ecf(dft)"] {
        let [answers, silent] =
            [false, true].map(|silent| super::choice_of(name, &few, &views(silent)));
        assert_eq!((answers, silent), (None, Some(1)), "{name}");
    }
}
