//! A congestion controller written in Python.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use anabranch_congestion as congestion;
use anabranch_congestion::{CongestionController, CongestionState, Window as Core, WindowChange};
use anabranch_plan::choice;
use anabranch_plugin::Registry;
use anabranch_units::{Instant, RandomStream, Rate};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;

use crate::plugged::{Failure, Plugged, shown};
use crate::scheduler::{refused, whole};
use crate::views::{AckSample, Cause, CongestionEvent, LostSegment, State, TransmitStart, at_ms};

const FACTOR: &str = "a whole number from 1 to 16";

/// A subflow's window in segments, which a controller sets.
#[pyclass(frozen, module = "anabranch.plugins")]
#[derive(Debug)]
pub(crate) struct Window {
    cwnd: AtomicU32,
    ssthresh: AtomicU32,
    /// The pacing rate of the base, bit/s; 0 if the base does not pace.
    base_rate: AtomicU64,
}

impl Window {
    fn set(&self, window: Core) {
        self.cwnd.store(window.cwnd, Ordering::Relaxed);
        self.ssthresh.store(window.ssthresh, Ordering::Relaxed);
    }

    fn set_base_rate(&self, rate: Option<Rate>) {
        self.base_rate.store(rate.map_or(0, Rate::bps), Ordering::Relaxed);
    }

    fn get(&self) -> Core {
        Core {
            cwnd: self.cwnd.load(Ordering::Relaxed),
            ssthresh: self.ssthresh.load(Ordering::Relaxed),
        }
    }
}

/// Reads a number of segments, which must be 1 or more.
fn segments(name: &str, value: &Bound<'_, PyAny>) -> PyResult<u32> {
    whole(value)
        .and_then(|number| u32::try_from(number).ok())
        .filter(|number| *number > 0)
        .ok_or_else(|| {
            refused(&format!("window.{name} is a whole number from 1 to 2**32 - 1"), value)
        })
}

#[pymethods]
impl Window {
    #[new]
    #[pyo3(signature = (cwnd=10, ssthresh=u32::MAX))]
    fn new(cwnd: u32, ssthresh: u32) -> Self {
        let base_rate = AtomicU64::new(0);
        Self { cwnd: AtomicU32::new(cwnd), ssthresh: AtomicU32::new(ssthresh), base_rate }
    }

    #[getter]
    fn cwnd(&self) -> u32 {
        self.cwnd.load(Ordering::Relaxed)
    }

    #[setter]
    fn set_cwnd(&self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.cwnd.store(segments("cwnd", value)?, Ordering::Relaxed);
        Ok(())
    }

    #[getter]
    fn ssthresh(&self) -> u32 {
        self.ssthresh.load(Ordering::Relaxed)
    }

    #[setter]
    fn set_ssthresh(&self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.ssthresh.store(segments("ssthresh", value)?, Ordering::Relaxed);
        Ok(())
    }

    /// The pacing rate of the controller that this one builds on, Mb/s; None if it does not pace.
    #[getter]
    fn base_pacing_rate_mbps(&self) -> Option<f64> {
        let bps = self.base_rate.load(Ordering::Relaxed);
        (bps > 0).then_some(bps as f64 / 1e6)
    }

    /// True during slow start.
    #[getter]
    fn in_slow_start(&self) -> bool {
        self.get().in_slow_start()
    }

    fn __repr__(&self) -> String {
        let Core { cwnd, ssthresh } = self.get();
        format!("Window(cwnd={cwnd}, ssthresh={ssthresh})")
    }
}

/// An instance of a controller's class, with its methods.
#[derive(Debug)]
pub(crate) struct PythonController {
    plugged: Plugged,
    /// The built-in controller that the instance builds on. The base handles every event first.
    base: Option<Box<dyn CongestionController>>,
    on_ack: Option<Py<PyAny>>,
    on_congestion: Option<Py<PyAny>>,
    on_rto: Option<Py<PyAny>>,
    on_lost: Option<Py<PyAny>>,
    on_state: Option<Py<PyAny>>,
    on_transmit_start: Option<Py<PyAny>>,
    on_idle_restart: Option<Py<PyAny>>,
    on_window_changed: Option<Py<PyAny>>,
    undo_cwnd: Option<Py<PyAny>>,
    window: Py<Window>,
    owns_recovery: bool,
    counts_marks: bool,
    wants_siblings: bool,
    send_buffer_factor: u32,
    /// Whether the instance has `pacing_rate_mbps`, which is read after each call.
    paces: bool,
    pacing_rate: Option<Rate>,
    /// Whether the instance has `published_rate_mbps`, which is read after each call.
    publishes: bool,
    published_rate: Option<Rate>,
    /// Whether the instance has `marks_application_limited`, which is read after each call.
    marks: bool,
    application_limited: bool,
}

impl PythonController {
    /// Finds the methods and attributes of an instance. The base draws from `random`, as when it is used
    /// alone. Returns `None` if the instance is invalid, and records the failure.
    pub(crate) fn new(py: Python<'_>, plugged: Plugged, random: RandomStream) -> Option<Self> {
        let base = plugged.checked(py, "builds_on", Self::base_of(py, &plugged, random))?;
        let method = |name: &str| plugged.optional(py, name);
        let needed = |name: &str| {
            let missing = || Failure::Answer("is missing".to_owned());
            let found = method(name)?;
            let there = found.is_some() || base.is_some();
            plugged.checked(py, name, there.then_some(found).ok_or_else(missing))
        };
        let flag = |name: &str, of_base: fn(&dyn CongestionController) -> bool| {
            let found = plugged.value(py, name, "True or False");
            let default = base.as_deref().is_some_and(of_base);
            plugged.checked(py, name, found).map(|flag| flag.unwrap_or(default))
        };
        let factor =
            plugged.value(py, "send_buffer_factor", FACTOR).and_then(|found| match found {
                Some(0 | 17..) => {
                    Err(Failure::Answer(format!("is out of range: expected {FACTOR}")))
                }
                Some(factor) => Ok(factor),
                None => Ok(base.as_ref().map_or(2, |base| base.send_buffer_factor())),
            });
        let mut made = Self {
            on_ack: needed("on_ack")?,
            on_congestion: needed("on_congestion")?,
            on_rto: method("on_rto")?,
            on_lost: method("on_lost")?,
            on_state: method("on_state")?,
            on_transmit_start: method("on_transmit_start")?,
            on_idle_restart: method("on_idle_restart")?,
            on_window_changed: method("on_window_changed")?,
            undo_cwnd: method("undo_cwnd")?,
            window: Py::new(py, Window::new(1, 1)).ok()?,
            owns_recovery: flag("owns_recovery", |base| base.owns_recovery())?,
            counts_marks: flag("counts_marks", |base| base.counts_marks())?,
            // The built-in controller on which a class builds may need the siblings even if the
            // class does not request them.
            wants_siblings: flag("wants_siblings", |_| false)?
                || base.as_ref().is_some_and(|base| base.wants_siblings()),
            send_buffer_factor: plugged.checked(py, "send_buffer_factor", factor)?,
            paces: method("pacing_rate_mbps")?.is_some(),
            pacing_rate: None,
            publishes: method("published_rate_mbps")?.is_some(),
            published_rate: None,
            marks: method("marks_application_limited")?.is_some(),
            application_limited: false,
            base,
            plugged,
        };
        made.read(py);
        (!made.plugged.is_over()).then_some(made)
    }

    /// Builds the built-in controller that an instance builds on.
    fn base_of(
        py: Python<'_>,
        plugged: &Plugged,
        random: RandomStream,
    ) -> Result<Option<Box<dyn CongestionController>>, Failure> {
        let expected = "a congestion control's name";
        let Some(text) = plugged.value::<String>(py, "builds_on", expected)? else {
            return Ok(None);
        };
        let bad = |error: &dyn std::fmt::Display| Failure::Answer(format!("is {text:?}: {error}"));
        let choice = choice(&text).map_err(|error| bad(&error))?;
        let built = congestion::build(&choice, &Registry::TABLES, random);
        built.map(Some).map_err(|error| bad(&error))
    }

    /// Calls the base, if there is one.
    fn first(&mut self, handle: impl FnOnce(&mut dyn CongestionController)) {
        if let Some(base) = self.base.as_deref_mut() {
            handle(base);
        }
    }

    /// Reads the attributes that may change with every call.
    fn read(&mut self, py: Python<'_>) {
        if self.paces {
            self.pacing_rate = self.rate(py, "pacing_rate_mbps");
        }
        if self.publishes {
            self.published_rate = self.rate(py, "published_rate_mbps");
        }
        if self.marks {
            let flag = self.plugged.value(py, "marks_application_limited", "True or False");
            let flag = self.plugged.checked(py, "marks_application_limited", flag);
            self.application_limited = flag.flatten().unwrap_or(false);
        }
    }

    fn rate(&self, py: Python<'_>, name: &str) -> Option<Rate> {
        let expected = "None or a rate in Mb/s, more than 0";
        let found: Result<Option<Option<f64>>, _> = self.plugged.value(py, name, expected);
        let rate = found.and_then(|rate| match rate.flatten() {
            None => Ok(None),
            Some(rate) if rate > 0.0 => Ok(Some(Rate::from_bps((rate * 1e6).round() as u64))),
            Some(rate) => Err(Failure::Answer(format!("is {rate}: expected {expected}"))),
        });
        self.plugged.checked(py, name, rate).flatten()
    }

    /// Calls a method that may set the window and returns nothing.
    fn call(
        &mut self,
        name: &'static str,
        method: fn(&Self) -> Option<&Py<PyAny>>,
        window: &mut Core,
        arguments: impl FnOnce(Python<'_>) -> PyResult<Bound<'_, PyAny>>,
    ) {
        if self.plugged.is_over() || method(self).is_none() {
            return;
        }
        let base_rate = self.base.as_ref().and_then(|base| base.pacing_rate());
        Python::attach(|py| {
            self.window.get().set(*window);
            self.window.get().set_base_rate(base_rate);
            let done = self.called(py, method, arguments);
            if self.plugged.checked(py, name, done).is_some() {
                *window = self.window.get().get();
                self.read(py);
            }
        });
    }

    fn called(
        &self,
        py: Python<'_>,
        method: fn(&Self) -> Option<&Py<PyAny>>,
        argument: impl FnOnce(Python<'_>) -> PyResult<Bound<'_, PyAny>>,
    ) -> Result<(), Failure> {
        let Some(method) = method(self) else { return Ok(()) };
        let answer = method.bind(py).call1((argument(py)?, self.window.bind(py)))?;
        if answer.is_none() {
            return Ok(());
        }
        let what = format!("returned {}: expected nothing; it sets window", shown(&answer));
        Err(Failure::Answer(what))
    }

    fn call_on_congestion(&mut self, event: &congestion::CongestionEvent, window: &mut Core) {
        self.call(
            "on_congestion",
            |s| s.on_congestion.as_ref(),
            window,
            |py| CongestionEvent::from(event).into_bound_py_any(py),
        );
    }
}

impl CongestionController for PythonController {
    fn name(&self) -> &'static str {
        "python"
    }

    fn failed(&self) -> bool {
        self.plugged.is_over()
    }

    fn on_open(&mut self, opened: &congestion::Opened, window: &mut Core) {
        self.first(|base| base.on_open(opened, window));
    }

    fn on_ack(&mut self, ack: &congestion::AckSample<'_>, window: &mut Core) {
        self.first(|base| base.on_ack(ack, window));
        self.call(
            "on_ack",
            |s| s.on_ack.as_ref(),
            window,
            |py| AckSample::from(ack).into_bound_py_any(py),
        );
    }

    fn on_congestion(&mut self, event: &congestion::CongestionEvent, window: &mut Core) {
        self.first(|base| base.on_congestion(event, window));
        self.call_on_congestion(event, window);
    }

    fn on_rto(&mut self, event: &congestion::CongestionEvent, window: &mut Core) {
        self.first(|base| base.on_rto(event, window));
        if self.on_rto.is_none() {
            self.call_on_congestion(event, window);
            return;
        }
        self.call(
            "on_rto",
            |s| s.on_rto.as_ref(),
            window,
            |py| CongestionEvent::from(event).into_bound_py_any(py),
        );
    }

    fn on_lost(&mut self, segment: &congestion::LostSegment, window: &Core) {
        self.first(|base| base.on_lost(segment, window));
        let mut read = *window;
        self.call(
            "on_lost",
            |s| s.on_lost.as_ref(),
            &mut read,
            |py| LostSegment::from(segment).into_bound_py_any(py),
        );
        if read != *window {
            Python::attach(|py| {
                let what = "sets window, which is read-only here; on_congestion may set it";
                let wrong: Result<(), _> = Err(Failure::Answer(what.to_owned()));
                self.plugged.checked(py, "on_lost", wrong);
            });
        }
    }

    fn on_state(&mut self, now: Instant, state: CongestionState, window: &mut Core) {
        self.first(|base| base.on_state(now, state, window));
        self.call(
            "on_state",
            |s| s.on_state.as_ref(),
            window,
            |py| State(state.name()).into_bound_py_any(py),
        );
    }

    fn on_transmit_start(&mut self, start: &congestion::TransmitStart, window: &mut Core) {
        self.first(|base| base.on_transmit_start(start, window));
        self.call(
            "on_transmit_start",
            |s| s.on_transmit_start.as_ref(),
            window,
            |py| TransmitStart::from(start).into_bound_py_any(py),
        );
    }

    fn on_idle_restart(&mut self, now: Instant) {
        self.first(|base| base.on_idle_restart(now));
        let Some(method) = self.on_idle_restart.as_ref().filter(|_| !self.plugged.is_over()) else {
            return;
        };
        Python::attach(|py| {
            let done = method.bind(py).call1((at_ms(now),)).map(drop).map_err(Failure::from);
            self.plugged.checked(py, "on_idle_restart", done);
        });
    }

    fn on_window_changed(&mut self, cause: WindowChange, window: &mut Core) {
        self.first(|base| base.on_window_changed(cause, window));
        self.call(
            "on_window_changed",
            |s| s.on_window_changed.as_ref(),
            window,
            |py| Cause::from(cause).into_bound_py_any(py),
        );
    }

    fn undo_cwnd(&mut self, window: &Core, prior_cwnd: u32) -> u32 {
        let linux = match &mut self.base {
            Some(base) => base.undo_cwnd(window, prior_cwnd),
            None => window.cwnd.max(prior_cwnd),
        };
        let prior_cwnd = if self.base.is_some() { linux } else { prior_cwnd };
        let Some(method) = self.undo_cwnd.as_ref().filter(|_| !self.plugged.is_over()) else {
            return linux;
        };
        Python::attach(|py| {
            self.window.get().set(*window);
            let answer = method.bind(py).call1((self.window.bind(py), prior_cwnd));
            let cwnd = answer.map_err(Failure::from).and_then(|answer| {
                let found = whole(&answer).and_then(|cwnd| u32::try_from(cwnd).ok());
                found.filter(|cwnd| *cwnd > 0).ok_or_else(|| {
                    let what = format!("returned {}: expected segments, 1 or more", shown(&answer));
                    Failure::Answer(what)
                })
            });
            self.plugged.checked(py, "undo_cwnd", cwnd).unwrap_or(linux)
        })
    }

    fn pacing_rate(&self) -> Option<Rate> {
        self.pacing_rate.or_else(|| self.base.as_ref()?.pacing_rate())
    }

    fn least_burst(&self) -> u32 {
        self.base.as_ref().map_or(2, |base| base.least_burst())
    }

    fn owns_recovery(&self) -> bool {
        self.owns_recovery
    }

    fn counts_marks(&self) -> bool {
        self.counts_marks
    }

    fn send_buffer_factor(&self) -> u32 {
        self.send_buffer_factor
    }

    fn marks_application_limited(&self) -> bool {
        match &self.base {
            Some(base) if !self.marks => base.marks_application_limited(),
            _ => self.application_limited,
        }
    }

    fn published_rate(&self) -> Option<Rate> {
        match &self.base {
            Some(base) if !self.publishes => base.published_rate(),
            _ => self.published_rate,
        }
    }

    fn wants_siblings(&self) -> bool {
        self.wants_siblings
    }
}
