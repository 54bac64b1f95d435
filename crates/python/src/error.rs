//! The conversion of every Rust error to a Python exception.

use anabranch_live::LiveError;
use anabranch_plan::{KeyPath, Step};
use anabranch_sim::RunError;
use pyo3::create_exception;
use pyo3::exceptions::{PyKeyboardInterrupt, PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

create_exception!(_anabranch, PlanError, PyValueError, "The plan cannot run.");
create_exception!(_anabranch, SimulationError, PyRuntimeError, "The run broke a rule: a defect.");
create_exception!(
    _anabranch,
    RaisedError,
    PyRuntimeError,
    "A plug-in raised an exception. Arguments: kind, name, exception."
);
create_exception!(
    _anabranch,
    AnswerError,
    PyRuntimeError,
    "A plug-in's answer is invalid. Arguments: kind, name, method, message."
);

/// Returns the exception for an invalid plan. Its attribute `faults` has three values for each fault: the
/// keys of the plan that lead to it, the message, and similar valid names.
pub(crate) fn plan(error: &anabranch_plan::PlanError) -> PyErr {
    Python::attach(|py| {
        let faults: PyResult<Vec<_>> = error
            .faults()
            .into_iter()
            .map(|fault| Ok((keys(py, &fault.path)?, fault.message, fault.known)))
            .collect();
        let raised = PlanError::new_err(error.to_string());
        match faults.and_then(|faults| raised.value(py).setattr("faults", faults)) {
            Ok(()) => raised,
            Err(other) => other,
        }
    })
}

fn keys<'py>(py: Python<'py>, path: &KeyPath) -> PyResult<Bound<'py, PyTuple>> {
    let steps: PyResult<Vec<Bound<'py, PyAny>>> = path
        .0
        .iter()
        .map(|step| match step {
            Step::Key(key) => Ok(key.into_pyobject(py)?.into_any()),
            Step::Index(index) => Ok(index.into_pyobject(py)?.into_any()),
        })
        .collect();
    PyTuple::new(py, steps?)
}

pub(crate) fn run(error: RunError) -> PyErr {
    match error {
        RunError::Capture(error) => PyOSError::new_err(error.to_string()),
        RunError::Plan(error) => plan(&error),
        RunError::Stopped => PyKeyboardInterrupt::new_err("the run was stopped"),
        other => SimulationError::new_err(other.to_string()),
    }
}

pub(crate) fn live(error: LiveError) -> PyErr {
    match error {
        LiveError::Plan(error) => plan(&error),
        LiveError::Io { what, error } => match error.raw_os_error() {
            Some(number) => PyOSError::new_err((number, format!("{what}: {error}"))),
            None => PyOSError::new_err(format!("{what}: {error}")),
        },
        LiveError::Capture(error) => PyOSError::new_err(error.to_string()),
        other => SimulationError::new_err(other.to_string()),
    }
}
