//! Every Rust error becomes a Python exception here and nowhere else.

use anabranch_sim::RunError;
use pyo3::exceptions::{PyKeyboardInterrupt, PyOSError, PyRuntimeError, PyValueError};
use pyo3::{PyErr, create_exception};

create_exception!(_anabranch, PlanError, PyValueError, "The plan cannot run.");
create_exception!(_anabranch, SimulationError, PyRuntimeError, "A rule was broken: a defect.");
create_exception!(
    _anabranch,
    RaisedError,
    PyRuntimeError,
    "A plug-in raised: kind, name, exception."
);
create_exception!(
    _anabranch,
    AnswerError,
    PyRuntimeError,
    "A plug-in's answer is none: kind, name, method, message."
);

pub(crate) fn plan(error: &anabranch_sim::PlanError) -> PyErr {
    PlanError::new_err(error.to_string())
}

pub(crate) fn run(error: RunError) -> PyErr {
    match error {
        RunError::Capture(error) => PyOSError::new_err(error.to_string()),
        RunError::Plan(error) => plan(&error),
        RunError::Stopped => PyKeyboardInterrupt::new_err("the run was stopped"),
        other => SimulationError::new_err(other.to_string()),
    }
}
