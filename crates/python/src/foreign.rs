//! The table of plug-in classes that are written in Python, by name.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anabranch_congestion::{CongestionController, Controllers};
use anabranch_media::{AbrRule, AbrRules};
use anabranch_plugin::{Foreign, Kind, PluginChoice, PluginError, Registry};
use anabranch_scheduler::{PathScheduler, Schedulers};
use anabranch_units::{RandomStream, Seed};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::abr::PythonRule;
use crate::congestion::PythonController;
use crate::plugged::{Failures, Outcome, Plugged, parameters, raised};
use crate::scheduler::PythonScheduler;

/// The classes that a run may use. Each has a method `build(parameters, seed)` that returns an instance.
#[derive(Debug)]
pub(crate) struct Classes {
    schedulers: BTreeMap<String, Py<PyAny>>,
    congestion: BTreeMap<String, Py<PyAny>>,
    rules: BTreeMap<String, Py<PyAny>>,
    seed: Seed,
    /// The number of schedulers that were built. It selects a separate random stream for each.
    schedulers_made: AtomicU64,
    /// The same for ABR rules.
    rules_made: AtomicU64,
    outcome: Arc<Outcome>,
    /// The failures of instances, if a failure ends only its own instance; `None` if it ends the whole run.
    failures: Option<Arc<Failures>>,
}

impl Classes {
    /// Reads `{"scheduler": {name: class}, "congestion": {name: class}, "abr": {name: class}}`.
    pub(crate) fn new(given: &Bound<'_, PyDict>, seed: Seed) -> PyResult<Self> {
        let of = |kind: &str| match given.get_item(kind)? {
            Some(found) => found.extract(),
            None => Ok(BTreeMap::new()),
        };
        Ok(Self {
            schedulers: of(Schedulers::KEY)?,
            congestion: of(Controllers::KEY)?,
            rules: of(AbrRules::KEY)?,
            seed,
            schedulers_made: AtomicU64::new(0),
            rules_made: AtomicU64::new(0),
            outcome: Arc::default(),
            failures: None,
        })
    }

    /// Makes a failure end only its own instance.
    pub(crate) fn apart(mut self) -> Self {
        self.failures = Some(Arc::default());
        self
    }

    /// Returns the failures since the last call; empty if a failure ends the whole run.
    pub(crate) fn failures(&self) -> Vec<PyErr> {
        self.failures.as_ref().map_or_else(Vec::new, |failures| failures.take())
    }

    /// Returns the record for a failure of the next instance.
    fn next_outcome(&self) -> Arc<Outcome> {
        let shared = || Arc::clone(&self.outcome);
        let own = |failures| Arc::new(Outcome::of_instance(failures));
        self.failures.as_ref().map_or_else(shared, own)
    }

    /// Returns whether a plug-in of this run has failed. If failures end only their own instance, returns
    /// whether one has failed since the last call.
    fn has_failed(&self) -> bool {
        self.failures.as_ref().map_or_else(|| self.outcome.failed(), |failures| failures.take_any())
    }

    /// Returns whether there are no classes.
    pub(crate) fn is_empty(&self) -> bool {
        self.schedulers.is_empty() && self.congestion.is_empty() && self.rules.is_empty()
    }

    /// Returns a registry of the built-in tables and these classes.
    pub(crate) fn registry(self: &Arc<Self>) -> Registry {
        let mut registry = Registry::TABLES;
        if !self.schedulers.is_empty() {
            registry = registry.with::<Schedulers>(Arc::<Self>::clone(self));
        }
        if !self.congestion.is_empty() {
            registry = registry.with::<Controllers>(Arc::<Self>::clone(self));
        }
        if !self.rules.is_empty() {
            registry = registry.with::<AbrRules>(Arc::<Self>::clone(self));
        }
        registry
    }

    /// Returns the exception to raise, if a plug-in has failed.
    pub(crate) fn error(&self, py: Python<'_>) -> Option<PyErr> {
        self.outcome.error(py)
    }

    /// Returns the random stream of the next instance of a kind, which `made` counts.
    fn next_stream(&self, kind: &str, made: &AtomicU64) -> RandomStream {
        let number = made.fetch_add(1, Ordering::Relaxed);
        self.seed.stream(&format!("plugin.{kind}.{number}"))
    }

    /// Creates an instance of `class`. `wrap` finds its methods.
    fn instance<T>(
        &self,
        kind: &'static str,
        class: &Py<PyAny>,
        choice: &PluginChoice,
        mut random: RandomStream,
        wrap: impl FnOnce(Python<'_>, Plugged) -> Option<T>,
    ) -> Result<T, PluginError> {
        let outcome = self.next_outcome();
        let made = Python::attach(|py| {
            let instance = parameters(py, choice)
                .and_then(|given| class.bind(py).call_method1("build", (given, random.next_u64())));
            let object = match instance {
                Ok(object) => object.unbind(),
                Err(error) => {
                    outcome.fail(raised(py, kind, &choice.name, error));
                    return None;
                }
            };
            let name = choice.name.clone();
            wrap(py, Plugged::new(kind, name, object, outcome))
        });
        made.ok_or_else(|| {
            PluginError::one(&[], format!("cannot be built: `{}`", choice.name), Vec::new())
        })
    }
}

impl Foreign<Schedulers> for Classes {
    fn build(
        &self,
        choice: &PluginChoice,
        (): (),
    ) -> Option<Result<Box<dyn PathScheduler>, PluginError>> {
        let class = self.schedulers.get(&choice.name)?;
        let random = self.next_stream(Schedulers::KEY, &self.schedulers_made);
        let built = self.instance(Schedulers::KEY, class, choice, random, PythonScheduler::new);
        Some(built.map(|scheduler| Box::new(scheduler) as Box<dyn PathScheduler>))
    }

    fn failed(&self) -> bool {
        self.has_failed()
    }
}

impl Foreign<Controllers> for Classes {
    fn build(
        &self,
        choice: &PluginChoice,
        random: RandomStream,
    ) -> Option<Result<Box<dyn CongestionController>, PluginError>> {
        let class = self.congestion.get(&choice.name)?;
        // The base draws the same numbers as when it is used alone.
        let of_base = random.clone();
        let wrap = |py: Python<'_>, plugged| PythonController::new(py, plugged, of_base);
        let built = self.instance(Controllers::KEY, class, choice, random, wrap);
        Some(built.map(|controller| Box::new(controller) as Box<dyn CongestionController>))
    }

    fn failed(&self) -> bool {
        self.has_failed()
    }
}

impl Foreign<AbrRules> for Classes {
    fn build(
        &self,
        choice: &PluginChoice,
        (): (),
    ) -> Option<Result<Box<dyn AbrRule>, PluginError>> {
        let class = self.rules.get(&choice.name)?;
        let random = self.next_stream(AbrRules::KEY, &self.rules_made);
        let built = self.instance(AbrRules::KEY, class, choice, random, PythonRule::new);
        Some(built.map(|rule| Box::new(rule) as Box<dyn AbrRule>))
    }

    fn failed(&self) -> bool {
        self.has_failed()
    }
}
