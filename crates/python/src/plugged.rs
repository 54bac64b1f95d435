//! An instance of a plug-in that is written in Python, and the record of its first failure.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use anabranch_plugin::{PluginChoice, Value};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::{AnswerError, RaisedError};

/// The first failure of a run's plug-ins, or of one instance. Later failures are ignored.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    failed: AtomicBool,
    first: OnceLock<PyErr>,
    /// The list to which the failure is added, if a failure ends only its own instance.
    news: Option<Arc<Failures>>,
}

/// The failures of plug-ins that were not reported yet.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    any: AtomicBool,
    errors: Mutex<Vec<PyErr>>,
}

impl Failures {
    fn add(&self, error: PyErr) {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner).push(error);
        self.any.store(true, Ordering::Relaxed);
    }

    /// Returns whether a failure was added since the last call.
    pub(crate) fn take_any(&self) -> bool {
        self.any.load(Ordering::Relaxed) && self.any.swap(false, Ordering::Relaxed)
    }

    /// Returns the failures since the last call.
    pub(crate) fn take(&self) -> Vec<PyErr> {
        std::mem::take(&mut *self.errors.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Outcome {
    /// Creates the outcome of one instance. Its failure is added to `news`.
    pub(crate) fn of_instance(news: &Arc<Failures>) -> Self {
        Self { news: Some(Arc::clone(news)), ..Self::default() }
    }

    pub(crate) fn failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    pub(crate) fn fail(&self, error: PyErr) {
        match &self.news {
            Some(news) if !self.failed() => news.add(error),
            Some(_) => {}
            None => drop(self.first.set(error)),
        }
        self.failed.store(true, Ordering::Relaxed);
    }

    /// Returns the exception to raise, if a plug-in has failed.
    pub(crate) fn error(&self, py: Python<'_>) -> Option<PyErr> {
        self.first.get().map(|error| error.clone_ref(py))
    }
}

/// The reason why a call of a plug-in failed.
pub(crate) enum Failure {
    /// The plug-in raised an exception.
    Raised(PyErr),
    /// The plug-in's return value or attribute is invalid, with the reason.
    Answer(String),
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Self {
        Self::Raised(error)
    }
}

/// An instance of a plug-in's class.
#[derive(Debug)]
pub(crate) struct Plugged {
    kind: &'static str,
    name: String,
    object: Py<PyAny>,
    outcome: Arc<Outcome>,
}

impl Plugged {
    pub(crate) fn new(
        kind: &'static str,
        name: String,
        object: Py<PyAny>,
        outcome: Arc<Outcome>,
    ) -> Self {
        Self { kind, name, object, outcome }
    }

    /// Returns a method; `None` if the class does not have it.
    fn method(&self, py: Python<'_>, name: &str) -> PyResult<Option<Py<PyAny>>> {
        self.object.bind(py).getattr_opt(name).map(|found| found.map(Bound::unbind))
    }

    /// Returns a method that the class must have. Records a failure and returns `None` if it is missing.
    pub(crate) fn required(&self, py: Python<'_>, name: &str) -> Option<Py<PyAny>> {
        let found = self.optional(py, name)?;
        let missing = || Failure::Answer("is missing".to_owned());
        self.checked(py, name, found.ok_or_else(missing))
    }

    /// Returns a method; `Some(None)` if the class does not have it. Records a failure and returns `None` if
    /// looking it up raises.
    #[expect(clippy::option_option, reason = "the outer one is `None` after a failure")]
    pub(crate) fn optional(&self, py: Python<'_>, name: &str) -> Option<Option<Py<PyAny>>> {
        self.checked(py, name, self.method(py, name).map_err(Failure::from))
    }

    /// Returns the present value of an attribute; `None` if the class does not have it. Returns a failure if
    /// the value is invalid.
    pub(crate) fn value<'py, T: for<'a> FromPyObject<'a, 'py>>(
        &self,
        py: Python<'py>,
        name: &str,
        expected: &str,
    ) -> Result<Option<T>, Failure> {
        let Some(found) = self.object.bind(py).getattr_opt(name)? else { return Ok(None) };
        found
            .extract()
            .map(Some)
            .map_err(|_| Failure::Answer(format!("is {}: expected {expected}", shown(&found))))
    }

    /// Returns whether this run has failed, or this instance if failures end only their own instance. If so,
    /// no method is called any more.
    pub(crate) fn is_over(&self) -> bool {
        self.outcome.failed()
    }

    /// Returns the result of a call. Records a failure and returns `None` if the call failed.
    pub(crate) fn checked<T>(
        &self,
        py: Python<'_>,
        method: &str,
        result: Result<T, Failure>,
    ) -> Option<T> {
        result.map_err(|failure| self.outcome.fail(self.error(py, method, failure))).ok()
    }

    fn error(&self, py: Python<'_>, method: &str, failure: Failure) -> PyErr {
        match failure {
            Failure::Raised(error) => raised(py, self.kind, &self.name, error),
            Failure::Answer(what) => {
                let class = self.object.bind(py).get_type();
                let class = class.name().map_or_else(|_| "plug-in".to_owned(), |n| n.to_string());
                let message = format!("{class}.{method} {what}");
                AnswerError::new_err((self.kind, self.name.clone(), method.to_owned(), message))
            }
        }
    }
}

/// Wraps the exception of a plug-in in a `RaisedError`, to distinguish it from exceptions of the simulator.
pub(crate) fn raised(py: Python<'_>, kind: &'static str, name: &str, error: PyErr) -> PyErr {
    if error.is_instance_of::<PyKeyboardInterrupt>(py) {
        return error;
    }
    RaisedError::new_err((kind, name.to_owned(), error.into_value(py)))
}

/// Returns a value as text for a message, at most 100 characters.
pub(crate) fn shown(value: &Bound<'_, PyAny>) -> String {
    const LONGEST: usize = 100;
    let text = value.repr().map_or_else(|_| format!("{:?}", value.get_type()), |r| r.to_string());
    if text.chars().count() <= LONGEST {
        return text;
    }
    text.chars().take(LONGEST).chain("...".chars()).collect()
}

/// Converts parameters to keyword arguments. A whole number becomes an `int`.
pub(crate) fn parameters<'py>(
    py: Python<'py>,
    choice: &PluginChoice,
) -> PyResult<Bound<'py, PyDict>> {
    let given = PyDict::new(py);
    for (key, value) in &choice.parameters {
        match value {
            Value::Flag(flag) => given.set_item(key, flag)?,
            Value::Number(number) => given.set_item(key, as_number(py, *number)?)?,
            Value::Text(text) => given.set_item(key, text)?,
            Value::Plugin(base) => given.set_item(key, base.to_string())?,
        }
    }
    Ok(given)
}

/// Returns an `int` if the number is whole and small enough to be exact, and a `float` otherwise.
pub(crate) fn as_number(py: Python<'_>, number: f64) -> PyResult<Bound<'_, PyAny>> {
    const EXACT: f64 = (1_u64 << 53) as f64;
    Ok(if number.fract() == 0.0 && number.abs() <= EXACT {
        (number as i64).into_pyobject(py)?.into_any()
    } else {
        number.into_pyobject(py)?.into_any()
    })
}
