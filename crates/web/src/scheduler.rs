//! Path schedulers that are written in the page.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anabranch_plan::choice;
use anabranch_plugin::{Foreign, PluginChoice, PluginError, Registry, Value};
use anabranch_scheduler::{
    self as scheduler, Decision, PathScheduler, Schedulers, SendRequest, SubflowEvent, SubflowSet,
    SubflowView,
};
use anabranch_units::{Instant, Seed, SubflowId};
use serde_json::{Map, json};

use crate::page::{Instance, Notice, Page};
use crate::views::{self, ANSWER, at_ms};

/// The page's schedulers by name.
#[derive(Debug)]
pub(crate) struct Classes {
    page: Arc<dyn Page>,
    names: BTreeSet<String>,
    seed: Seed,
    /// The number of schedulers that were built. Each scheduler has a separate random stream.
    made: AtomicU64,
    failed: Arc<AtomicBool>,
}

impl Classes {
    pub(crate) fn new(page: Arc<dyn Page>, names: BTreeSet<String>, seed: Seed) -> Self {
        Self { page, names, seed, made: AtomicU64::new(0), failed: Arc::default() }
    }

    /// Returns a registry of the built-in tables and these schedulers.
    pub(crate) fn registry(self) -> Registry {
        if self.names.is_empty() {
            return Registry::TABLES;
        }
        Registry::TABLES.with::<Schedulers>(Arc::new(self))
    }
}

impl Foreign<Schedulers> for Classes {
    fn build(
        &self,
        choice: &PluginChoice,
        (): (),
    ) -> Option<Result<Box<dyn PathScheduler>, PluginError>> {
        if !self.names.contains(&choice.name) {
            return None;
        }
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let mut random = self.seed.stream(&format!("plugin.scheduler.{number}"));
        // A double represents whole numbers below 2^53 exactly.
        let seed = (random.next_u64() >> 11) as f64;
        let made = self.page.build(&choice.name, &parameters(choice), seed);
        let built = made.and_then(|instance| {
            PageScheduler::new(Arc::clone(&self.page), instance, Arc::clone(&self.failed))
        });
        Some(built.map(|built| Box::new(built) as Box<dyn PathScheduler>).ok_or_else(|| {
            self.failed.store(true, Ordering::Relaxed);
            PluginError::one(&[], format!("cannot be built: `{}`", choice.name), Vec::new())
        }))
    }

    fn failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }
}

/// Returns a plug-in's parameters as JSON.
fn parameters(choice: &PluginChoice) -> String {
    let value = |value: &Value| match value {
        Value::Flag(flag) => json!(flag),
        Value::Number(number) => json!(number),
        Value::Text(text) => json!(text),
        Value::Plugin(base) => json!(base.to_string()),
    };
    let given: Map<_, _> =
        choice.parameters.iter().map(|(key, found)| (key.clone(), value(found))).collect();
    serde_json::Value::Object(given).to_string()
}

/// A scheduler of the page.
#[derive(Debug)]
struct PageScheduler {
    page: Arc<dyn Page>,
    number: u32,
    /// The built-in scheduler on which this one builds. The base is called first, and is notified of all
    /// events.
    base: Option<Box<dyn PathScheduler>>,
    wants_idle: bool,
    reinjects: bool,
    numbers: Vec<f64>,
    failed: Arc<AtomicBool>,
}

impl PageScheduler {
    fn new(page: Arc<dyn Page>, instance: Instance, failed: Arc<AtomicBool>) -> Option<Self> {
        let Instance { number, builds_on, wants_idle, reinjects } = instance;
        let built = |text: &str| {
            let base = choice(text).map_err(|error| error.to_string());
            base.and_then(|base| {
                scheduler::build(&base, &Registry::TABLES).map_err(|error| error.to_string())
            })
        };
        let base = match builds_on.as_deref().map(|text| (text, built(text))) {
            None => None,
            Some((_, Ok(base))) => Some(base),
            Some((text, Err(error))) => {
                page.refuse(number, "builds_on", &format!("is {text:?}: {error}"));
                return None;
            }
        };
        Some(Self {
            wants_idle: wants_idle.unwrap_or_else(|| base.as_ref().is_some_and(|b| b.wants_idle())),
            reinjects: reinjects.unwrap_or_else(|| base.as_ref().is_some_and(|b| b.reinjects())),
            numbers: Vec::new(),
            page,
            number,
            base,
            failed,
        })
    }

    /// Returns whether the run has failed. If so, no method is called any more.
    fn is_over(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    fn fail(&self) {
        self.failed.store(true, Ordering::Relaxed);
    }

    fn notify(&self, notice: Notice, values: &[f64]) {
        if !self.is_over() && !self.page.notify(self.number, notice, values) {
            self.fail();
        }
    }

    fn decision(&mut self, request: &SendRequest, views: &[SubflowView]) -> Option<Decision> {
        let proposal = self.base.as_deref_mut().map(|base| scheduler::ask(base, request, views));
        views::write(&mut self.numbers, request, views, proposal);
        if !self.page.schedule(self.number, &mut self.numbers) {
            return None;
        }
        let answer = Answer { numbers: &self.numbers, request, views };
        let decision = answer.decision(proposal);
        decision.map_err(|reason| self.page.refuse(self.number, "schedule", &reason)).ok()
    }
}

impl PathScheduler for PageScheduler {
    fn name(&self) -> &'static str {
        "page"
    }

    fn base(&self) -> Option<&dyn PathScheduler> {
        self.base.as_deref()
    }

    fn base_mut(&mut self) -> Option<&mut dyn PathScheduler> {
        self.base.as_deref_mut().map(|base| base as &mut dyn PathScheduler)
    }

    fn failed(&self) -> bool {
        self.is_over()
    }

    fn schedule(&mut self, request: &SendRequest, views: &[SubflowView]) -> Decision {
        if self.is_over() {
            return Decision::WAIT;
        }
        self.decision(request, views).unwrap_or_else(|| {
            self.fail();
            Decision::WAIT
        })
    }

    fn on_sent(&mut self, id: SubflowId, from: u64, bytes: u64) {
        if let Some(base) = &mut self.base {
            base.on_sent(id, from, bytes);
        }
        self.notify(Notice::Sent, &[f64::from(id.0), from as f64, bytes as f64]);
    }

    fn on_data_ack(&mut self, now: Instant, data_una: u64) {
        if let Some(base) = &mut self.base {
            base.on_data_ack(now, data_una);
        }
        self.notify(Notice::DataAck, &[at_ms(now), data_una as f64]);
    }

    fn on_penalised(&mut self, id: SubflowId) {
        if let Some(base) = &mut self.base {
            base.on_penalised(id);
        }
        self.notify(Notice::Penalised, &[f64::from(id.0)]);
    }

    fn on_event(&mut self, now: Instant, id: SubflowId, event: SubflowEvent) {
        if let Some(base) = &mut self.base {
            base.on_event(now, id, event);
        }
        let [kind, segments, bytes, timeouts, state] = views::event_numbers(event);
        let values = [at_ms(now), f64::from(id.0), kind, segments, bytes, timeouts, state];
        self.notify(Notice::Event, &values);
    }

    /// The views contain all attributes, as in Python.
    fn watches(&self) -> bool {
        true
    }

    fn reinjects(&self) -> bool {
        self.reinjects
    }

    fn wants_idle(&self) -> bool {
        self.wants_idle
    }
}

/// An encoded decision: kind (0 wait, 1 send, 2 penalise, 3 the base's proposal), burst in bytes, first byte,
/// time in ms, number of subflows, and the subflows. NaN stands for a missing number.
struct Answer<'a> {
    numbers: &'a [f64],
    request: &'a SendRequest,
    views: &'a [SubflowView],
}

impl Answer<'_> {
    fn decision(&self, proposal: Option<Decision>) -> Result<Decision, String> {
        let [kind, burst, from, until, ..] = *self.numbers else {
            return Err("no answer".to_owned());
        };
        match (kind as u8, proposal) {
            (0, _) => self.wait(until),
            (1, _) => self.send(burst, from),
            (2, _) => Ok(Decision::Penalise(self.on()?.0)),
            (3, Some(proposal)) => Ok(proposal),
            _ => Err("unknown kind of answer".to_owned()),
        }
    }

    fn send(&self, burst: f64, from: f64) -> Result<Decision, String> {
        let (on, segment) = self.on()?;
        let burst = if burst.is_nan() {
            segment
        } else {
            whole(burst)
                .filter(|burst| *burst > 0)
                .ok_or("burst_bytes is a whole number of bytes, 1 or more")?
        };
        let (una, end) = (self.request.data_una, self.request.data_end);
        let place = || format!("from_byte must be from data_una, {una}, to below data_end, {end}");
        let from = if from.is_nan() {
            None
        } else {
            Some(whole(from).filter(|from| (una..end).contains(from)).ok_or_else(place)?)
        };
        Ok(Decision::Send { on, from, burst })
    }

    fn wait(&self, until: f64) -> Result<Decision, String> {
        if until.is_nan() {
            return Ok(Decision::WAIT);
        }
        let now = self.request.now;
        // A wait lasts at most a day, as for a scheduler in Python.
        let nanos = (until.min(at_ms(now) + 86_400_000.0) * 1e6).round();
        if nanos < now.as_nanos() as f64 {
            return Err(format!("until_ms is a time in ms, not before now_ms, {}", at_ms(now)));
        }
        let nanos = (nanos as u64).max(now.as_nanos() + 1);
        Ok(Decision::Wait { until: Some(Instant::from_nanos(nanos)) })
    }

    /// Returns the subflows, and the largest MSS among them in bytes.
    fn on(&self) -> Result<(SubflowSet, u64), String> {
        let count = self.numbers[ANSWER - 1] as usize;
        let ids = self.numbers.get(ANSWER..ANSWER + count).unwrap_or_default();
        let (mut on, mut segment) = (SubflowSet::EMPTY, 0);
        for id in ids {
            let view =
                self.views.iter().find(|view| f64::from(view.id.0).eq(id)).ok_or_else(|| {
                    let ids: Vec<_> = self.views.iter().map(|view| view.id.0.to_string()).collect();
                    format!("the subflows that can be chosen now are {}", ids.join(", "))
                })?;
            on = on.with(view.id);
            segment = u64::from(view.mss).max(segment);
        }
        if on.is_empty() {
            return Err("no subflow is named; return null to wait".to_owned());
        }
        Ok((on, segment))
    }
}

/// Returns the number if it is whole, not negative, and exact in a double.
fn whole(number: f64) -> Option<u64> {
    const EXACT: f64 = (1_u64 << 53) as f64;
    (number.fract() == 0.0 && (0.0..=EXACT).contains(&number)).then_some(number as u64)
}
