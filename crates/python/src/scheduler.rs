//! A path scheduler written in Python.

use anabranch_plan::choice;
use anabranch_plugin::Registry;
use anabranch_scheduler as scheduler;
use anabranch_scheduler::{
    Decision, PathScheduler, SendRequest as Request, SubflowEvent, SubflowSet,
};
use anabranch_units::{Instant, SubflowId};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt, PyList, PyTuple};

use crate::plugged::{Failure, Plugged, shown};
use crate::views::{self, SendRequest, SubflowView, at_ms};

const EXPECTED: &str =
    "expected None, a subflow or its id, a tuple of them, Send(...), Penalise(...) or Wait(...)";

/// The decision "send": the subflows, the number of bytes, and the position of the first byte.
#[pyclass(frozen, get_all, module = "anabranch.plugins")]
#[derive(Debug)]
pub(crate) struct Send {
    on: Py<PyAny>,
    burst_bytes: Option<Py<PyAny>>,
    from_byte: Option<Py<PyAny>>,
}

#[pymethods]
impl Send {
    #[new]
    #[pyo3(signature = (on, *, burst_bytes=None, from_byte=None))]
    fn new(on: Py<PyAny>, burst_bytes: Option<Py<PyAny>>, from_byte: Option<Py<PyAny>>) -> Self {
        Self { on, burst_bytes, from_byte }
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let on = on_shown(self.on.bind(py));
        let mut parts = vec![format!("on={on}")];
        for (key, value) in [("burst_bytes", &self.burst_bytes), ("from_byte", &self.from_byte)] {
            parts.extend(value.as_ref().map(|value| format!("{key}={}", shown(value.bind(py)))));
        }
        format!("Send({})", parts.join(", "))
    }
}

/// The decision "wait": until the next event, or at most until a time.
#[pyclass(frozen, get_all, module = "anabranch.plugins")]
#[derive(Debug)]
pub(crate) struct Wait {
    until_ms: Option<Py<PyAny>>,
}

#[pymethods]
impl Wait {
    #[new]
    #[pyo3(signature = (*, until_ms=None))]
    fn new(until_ms: Option<Py<PyAny>>) -> Self {
        Self { until_ms }
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let until = self.until_ms.as_ref().map(|at| format!("until_ms={}", shown(at.bind(py))));
        format!("Wait({})", until.unwrap_or_default())
    }
}

/// The decision "penalise": halve the windows of one or more subflows, then call the scheduler again.
#[pyclass(frozen, get_all, module = "anabranch.plugins")]
#[derive(Debug)]
pub(crate) struct Penalise {
    on: Py<PyAny>,
}

#[pymethods]
impl Penalise {
    #[new]
    fn new(on: Py<PyAny>) -> Self {
        Self { on }
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        format!("Penalise(on={})", on_shown(self.on.bind(py)))
    }
}

/// Returns the subflows of a decision as text. A view is shown as its number.
fn on_shown(on: &Bound<'_, PyAny>) -> String {
    on.cast::<SubflowView>().map_or_else(|_| shown(on), |view| view.get().id.to_string())
}

/// Returns the subflows to choose from: the regular ones, or the backups if no regular one is usable (RFC 8684 section
/// 3.3.8).
#[pyfunction]
pub(crate) fn candidates<'py>(subflows: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyTuple>> {
    let given = match subflows.cast_exact::<PyTuple>() {
        Ok(tuple) => tuple.clone(),
        Err(_) => PyTuple::new(subflows.py(), subflows.try_iter()?.collect::<PyResult<Vec<_>>>()?)?,
    };
    let (mut regular, mut backups) = (false, false);
    for item in given.iter_borrowed() {
        let view = item.cast::<SubflowView>()?;
        let view = view.get();
        regular |= !view.backup && view.established && !view.stale;
        backups |= view.backup;
    }
    // Usually there is no backup, and all subflows are returned.
    if regular && !backups {
        return Ok(given);
    }
    let chosen = |item: &Bound<'_, PyAny>| {
        item.cast::<SubflowView>().is_ok_and(|view| view.get().backup != regular)
    };
    PyTuple::new(subflows.py(), given.iter().filter(chosen).collect::<Vec<_>>())
}

/// Converts the decision of a built-in scheduler to a Python object.
fn proposal(py: Python<'_>, decision: Decision) -> PyResult<Bound<'_, PyAny>> {
    let on = |set: SubflowSet| {
        let ids: Vec<_> = set.iter().map(|id| id.0).collect();
        PyTuple::new(py, ids)?.into_py_any(py)
    };
    match decision {
        Decision::Wait { until } => {
            let until_ms = until.map(|at| at_ms(at).into_py_any(py)).transpose()?;
            Wait { until_ms }.into_bound_py_any(py)
        }
        Decision::Penalise(set) => Penalise { on: on(set)? }.into_bound_py_any(py),
        Decision::Send { on: set, from, burst } => {
            let from_byte = from.map(|from| from.into_py_any(py)).transpose()?;
            let burst_bytes = Some(burst.into_py_any(py)?);
            Send { on: on(set)?, burst_bytes, from_byte }.into_bound_py_any(py)
        }
    }
}

/// An instance of a scheduler's class, with its methods.
#[derive(Debug)]
pub(crate) struct PythonScheduler {
    plugged: Plugged,
    /// The built-in scheduler that the instance builds on. The base is called first, and is notified of all
    /// events.
    base: Option<Box<dyn PathScheduler>>,
    schedule: Py<PyAny>,
    on_sent: Option<Py<PyAny>>,
    on_data_ack: Option<Py<PyAny>>,
    on_penalised: Option<Py<PyAny>>,
    on_event: Option<Py<PyAny>>,
    wants_idle: bool,
    reinjects: bool,
    /// The views of the last call. Unchanged views are reused.
    views: Vec<Py<SubflowView>>,
    subflows: Option<Py<PyTuple>>,
}

impl PythonScheduler {
    pub(crate) fn new(py: Python<'_>, plugged: Plugged) -> Option<Self> {
        let base = plugged.checked(py, "builds_on", Self::base_of(py, &plugged))?;
        let flag = |name: &str, default: bool| {
            let found = plugged.value(py, name, "True or False");
            plugged.checked(py, name, found).map(|found| found.unwrap_or(default))
        };
        let wants_idle = flag("wants_idle", base.as_ref().is_some_and(|base| base.wants_idle()))?;
        let reinjects = flag("reinjects", base.as_ref().is_some_and(|base| base.reinjects()))?;
        let schedule = plugged.required(py, "schedule")?;
        let [on_sent, on_data_ack, on_penalised, on_event] = [
            plugged.optional(py, "on_sent")?,
            plugged.optional(py, "on_data_ack")?,
            plugged.optional(py, "on_penalised")?,
            plugged.optional(py, "on_event")?,
        ];
        Some(Self {
            plugged,
            base,
            schedule,
            on_sent,
            on_data_ack,
            on_penalised,
            on_event,
            wants_idle,
            reinjects,
            views: Vec::new(),
            subflows: None,
        })
    }

    /// Builds the built-in scheduler that an instance builds on.
    fn base_of(
        py: Python<'_>,
        plugged: &Plugged,
    ) -> Result<Option<Box<dyn PathScheduler>>, Failure> {
        let Some(text) = plugged.value::<String>(py, "builds_on", "a scheduler's name")? else {
            return Ok(None);
        };
        let bad = |error: &dyn std::fmt::Display| Failure::Answer(format!("is {text:?}: {error}"));
        let choice = choice(&text).map_err(|error| bad(&error))?;
        scheduler::build(&choice, &Registry::TABLES).map(Some).map_err(|error| bad(&error))
    }

    /// Converts the views to a tuple of Python views.
    fn shown<'py>(
        &mut self,
        py: Python<'py>,
        subflows: &[scheduler::SubflowView],
    ) -> PyResult<Bound<'py, PyTuple>> {
        let mut same = self.views.len() == subflows.len();
        self.views.truncate(subflows.len());
        for (place, subflow) in subflows.iter().enumerate() {
            let view = SubflowView::from(subflow);
            if self.views.get(place).is_some_and(|known| *known.get() == view) {
                continue;
            }
            same = false;
            let view = Py::new(py, view)?;
            match self.views.get_mut(place) {
                Some(known) => *known = view,
                None => self.views.push(view),
            }
        }
        match &self.subflows {
            Some(known) if same => Ok(known.bind(py).clone()),
            _ => {
                let shown = PyTuple::new(py, self.views.iter().map(|view| view.bind(py)))?;
                self.subflows = Some(shown.clone().unbind());
                Ok(shown)
            }
        }
    }

    fn ask(
        &mut self,
        py: Python<'_>,
        request: &Request,
        subflows: &[scheduler::SubflowView],
    ) -> Result<Decision, Failure> {
        let shown = self.shown(py, subflows)?;
        let (asked, schedule) = (SendRequest::from(request), self.schedule.bind(py));
        let answer = match self.base.as_deref_mut() {
            None => schedule.call1((asked, shown))?,
            Some(base) => {
                let decision = scheduler::ask(base, request, subflows);
                let proposed = proposal(py, decision)?;
                let answer = schedule.call1((asked, shown, &proposed))?;
                if answer.is(&proposed) {
                    return Ok(decision);
                }
                answer
            }
        };
        Answer { value: &answer, request, subflows }.decision()
    }

    /// Notifies the plug-in, if it has a method for the event.
    fn tell(
        &self,
        name: &'static str,
        method: Option<&Py<PyAny>>,
        call: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<()>,
    ) {
        let Some(method) = method.filter(|_| !self.plugged.is_over()) else { return };
        Python::attach(|py| {
            self.plugged.checked(py, name, call(method.bind(py)).map_err(Failure::from));
        });
    }
}

impl PathScheduler for PythonScheduler {
    fn name(&self) -> &'static str {
        "python"
    }

    fn base(&self) -> Option<&dyn PathScheduler> {
        self.base.as_deref()
    }

    fn base_mut(&mut self) -> Option<&mut dyn PathScheduler> {
        self.base.as_deref_mut().map(|base| base as &mut dyn PathScheduler)
    }

    fn failed(&self) -> bool {
        self.plugged.is_over()
    }

    fn schedule(&mut self, request: &Request, subflows: &[scheduler::SubflowView]) -> Decision {
        if self.plugged.is_over() {
            return Decision::WAIT;
        }
        Python::attach(|py| {
            let decision = self.ask(py, request, subflows);
            self.plugged.checked(py, "schedule", decision).unwrap_or(Decision::WAIT)
        })
    }

    fn on_sent(&mut self, id: SubflowId, from: u64, bytes: u64) {
        if let Some(base) = &mut self.base {
            base.on_sent(id, from, bytes);
        }
        self.tell("on_sent", self.on_sent.as_ref(), |method| {
            method.call1((id.0, from, bytes)).map(drop)
        });
    }

    fn on_data_ack(&mut self, now: Instant, data_una: u64) {
        if let Some(base) = &mut self.base {
            base.on_data_ack(now, data_una);
        }
        self.tell("on_data_ack", self.on_data_ack.as_ref(), |method| {
            method.call1((at_ms(now), data_una)).map(drop)
        });
    }

    fn on_penalised(&mut self, id: SubflowId) {
        if let Some(base) = &mut self.base {
            base.on_penalised(id);
        }
        self.tell("on_penalised", self.on_penalised.as_ref(), |method| {
            method.call1((id.0,)).map(drop)
        });
    }

    fn on_event(&mut self, now: Instant, id: SubflowId, event: SubflowEvent) {
        if let Some(base) = &mut self.base {
            base.on_event(now, id, event);
        }
        self.tell("on_event", self.on_event.as_ref(), |method| {
            let event = views::SubflowEvent::from(event);
            method.call1((at_ms(now), id.0, event)).map(drop)
        });
    }

    /// The Python views contain all attributes, even if the class has no `on_event`.
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

/// The result of `schedule`, and the context for converting it to a decision.
struct Answer<'a, 'py> {
    value: &'a Bound<'py, PyAny>,
    request: &'a Request,
    subflows: &'a [scheduler::SubflowView],
}

impl Answer<'_, '_> {
    fn decision(&self) -> Result<Decision, Failure> {
        if self.value.is_none() {
            return Ok(Decision::WAIT);
        }
        if let Ok(send) = self.value.cast::<Send>() {
            return self.send(send.get());
        }
        if let Ok(penalise) = self.value.cast::<Penalise>() {
            let (on, _) = self.on(penalise.get().on.bind(self.value.py()))?;
            return Ok(Decision::Penalise(on));
        }
        if let Ok(wait) = self.value.cast::<Wait>() {
            return self.wait(wait.get());
        }
        let (on, segment) = self.on(self.value)?;
        Ok(Decision::Send { on, from: None, burst: segment })
    }

    fn send(&self, send: &Send) -> Result<Decision, Failure> {
        let py = self.value.py();
        let (on, segment) = self.on(send.on.bind(py))?;
        let burst = match &send.burst_bytes {
            None => segment,
            Some(burst) => whole(burst.bind(py))
                .filter(|burst| *burst > 0)
                .ok_or_else(|| self.bad("burst_bytes is a whole number of bytes, 1 or more"))?,
        };
        let (una, end) = (self.request.data_una, self.request.data_end);
        let from = match &send.from_byte {
            None => None,
            Some(from) => Some(
                whole(from.bind(py)).filter(|from| (una..end).contains(from)).ok_or_else(|| {
                    self.bad(&format!(
                        "from_byte must be from data_una, {una}, to below data_end, {end}"
                    ))
                })?,
            ),
        };
        Ok(Decision::Send { on, from, burst })
    }

    fn wait(&self, wait: &Wait) -> Result<Decision, Failure> {
        let Some(until) = &wait.until_ms else { return Ok(Decision::WAIT) };
        let now = self.request.now;
        // Milliseconds as a float lose the precision of a nanosecond after about an hour, so the wait is limited to a
        // day.
        let latest = at_ms(now) + 86_400_000.0;
        let until: Option<f64> = until.bind(self.value.py()).extract().ok();
        until
            .filter(|ms| !ms.is_nan())
            .map(|ms| (ms.min(latest) * 1e6).round())
            .filter(|nanos| *nanos >= now.as_nanos() as f64)
            // The connection ignores a time that is not later than now. If it is less than 50 us later, the connection
            // waits for 50 us.
            .map(|nanos| (nanos as u64).max(now.as_nanos() + 1))
            .map(|nanos| Decision::Wait { until: Some(Instant::from_nanos(nanos)) })
            .ok_or_else(|| {
                let now = at_ms(now);
                self.bad(&format!("until_ms is a time in ms, not before now_ms, {now}"))
            })
    }

    /// Returns the subflows that a value denotes, and the largest MSS among them in bytes.
    fn on(&self, value: &Bound<'_, PyAny>) -> Result<(SubflowSet, u64), Failure> {
        if let Some(one) = self.one(value)? {
            return Ok(one);
        }
        let several = match value.cast::<PyTuple>() {
            Ok(several) => several.clone(),
            Err(_) => value.cast::<PyList>().map_err(|_| self.bad(EXPECTED))?.to_tuple(),
        };
        let (mut on, mut segment) = (SubflowSet::EMPTY, 0);
        for item in several {
            let (one, mss) = self.one(&item)?.ok_or_else(|| self.bad(EXPECTED))?;
            on = one.iter().fold(on, SubflowSet::with);
            segment = mss.max(segment);
        }
        if on.is_empty() {
            Err(self.bad("no subflow is named; return None to wait"))
        } else {
            Ok((on, segment))
        }
    }

    /// Returns the subflow that a value denotes; `None` if it is neither a view nor a number.
    fn one(&self, value: &Bound<'_, PyAny>) -> Result<Option<(SubflowSet, u64)>, Failure> {
        let id = if let Ok(view) = value.cast_exact::<SubflowView>() {
            u64::from(view.get().id)
        } else if value.is_instance_of::<PyInt>() && !value.is_instance_of::<PyBool>() {
            value.extract().unwrap_or(u64::MAX)
        } else {
            return Ok(None);
        };
        let found = self.subflows.iter().find(|subflow| u64::from(subflow.id.0) == id);
        let found = found.ok_or_else(|| {
            let ids: Vec<_> = self.subflows.iter().map(|s| s.id.0.to_string()).collect();
            self.bad(&format!("the subflows that can be chosen now are {}", ids.join(", ")))
        })?;
        Ok(Some((SubflowSet::one(found.id), u64::from(found.mss))))
    }

    fn bad(&self, why: &str) -> Failure {
        Failure::Answer(format!("returned {}: {why}", shown(self.value)))
    }
}

/// Returns a whole number that is not negative. A bool is not valid.
pub(crate) fn whole(value: &Bound<'_, PyAny>) -> Option<u64> {
    let number = value.is_instance_of::<PyInt>() && !value.is_instance_of::<PyBool>();
    number.then(|| value.extract().ok()).flatten()
}

/// Returns the exception for an invalid assignment to a window.
pub(crate) fn refused(what: &str, value: &Bound<'_, PyAny>) -> PyErr {
    PyTypeError::new_err(format!("{what}, not {}", shown(value)))
}
