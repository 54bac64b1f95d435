//! The Python module `anabranch._anabranch`: thin, and every error is mapped in one file.

mod error;
mod trace;

use std::fs::File;
use std::io::{BufWriter, Write};

use anabranch_sim::{Observer, Plan, Silent, plugin_faults, record, run};
use anabranch_transport::plugin::{PluginName, Registry};
use anabranch_transport::{congestion, path_manager, scheduler};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Calls a Python function with the virtual seconds done and expected; its exception stops the run.
struct Callback {
    function: Py<PyAny>,
    raised: Option<PyErr>,
}

impl Observer for Callback {
    fn progress(&mut self, done_s: f64, total_s: f64) -> bool {
        Python::attach(|py| {
            let outcome =
                self.function.call1(py, (done_s, total_s)).and_then(|_| py.check_signals());
            match outcome {
                Ok(()) => true,
                Err(raised) => {
                    self.raised = Some(raised);
                    false
                }
            }
        })
    }
}

/// Runs a plan (docs/plan-and-trace.md) and returns `{"summary": ..., "tables": ...}`.
///
/// `pcapng` names a capture file; `progress` is called with the virtual seconds done and expected.
#[pyfunction]
#[pyo3(signature = (plan_json, pcapng=None, progress=None))]
fn simulate<'py>(
    py: Python<'py>,
    plan_json: &str,
    pcapng: Option<std::path::PathBuf>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let plan = Plan::from_json(plan_json).map_err(|fault| error::plan(&fault))?;
    let capture = pcapng
        .map(|path| {
            File::create(path).map(|file| Box::new(BufWriter::new(file)) as Box<dyn Write + Send>)
        })
        .transpose()?;
    let mut callback = progress.map(|function| Callback { function, raised: None });
    let outcome = py.detach(|| match callback.as_mut() {
        Some(callback) => run(&plan, capture, callback),
        None => run(&plan, capture, &mut Silent),
    });
    match outcome {
        Ok(trace) => trace::to_dict(py, &trace),
        Err(fault) => Err(callback.and_then(|c| c.raised).unwrap_or_else(|| error::run(fault))),
    }
}

/// What a link of a plan does by itself: bits a second in so many windows of time while it is kept
/// busy, and the delay in seconds of a small packet every `ping_ns`, NaN for a lost one.
#[pyfunction]
fn record_link(
    py: Python<'_>,
    plan_json: &str,
    link: &str,
    window_ns: u64,
    windows: usize,
    ping_ns: u64,
) -> PyResult<(Vec<f64>, Vec<f64>)> {
    let plan = Plan::from_json(plan_json).map_err(|fault| error::plan(&fault))?;
    let found = py.detach(|| record(&plan, link, window_ns, windows, ping_ns));
    let found = found.map_err(|fault| error::plan(&fault))?;
    Ok((found.rates_bps, found.delays_s))
}

/// Names with what they are; a note of a plug-in stands behind its first sentence.
fn listed(names: impl Iterator<Item = PluginName>) -> Vec<(&'static str, String)> {
    names
        .map(|plugin| {
            let sentences = std::iter::once(plugin.summary).chain(plugin.note);
            (plugin.name, sentences.collect::<Vec<_>>().join(" "))
        })
        .collect()
}

/// Names of the path schedulers, each with the first sentence of its documentation.
#[pyfunction]
fn schedulers() -> Vec<(&'static str, String)> {
    listed(scheduler::names())
}

/// Names of the congestion controllers, each with the first sentence of its documentation.
#[pyfunction]
fn congestion_controls() -> Vec<(&'static str, String)> {
    listed(congestion::names())
}

/// Names of the path managers, each with the first sentence of their documentation.
#[pyfunction]
fn path_managers() -> Vec<(&'static str, String)> {
    listed(path_manager::names())
}

/// The parameters of a plug-in of a kind (`scheduler`, `congestion`, `path_manager`), each as key,
/// default and what is allowed; an unknown name has none.
#[pyfunction]
fn plugin_parameters(kind: &str, name: &str) -> Vec<(&'static str, String, String)> {
    let found = match kind {
        "scheduler" => scheduler::parameters(name),
        "congestion" => congestion::parameters(name),
        _ => path_manager::parameters(name),
    };
    found
        .unwrap_or_default()
        .into_iter()
        .map(|info| (info.key, info.default, info.allowed))
        .collect()
}

/// A fault: the keys that lead to it, what it is, what could have been meant.
type Found = (Vec<String>, String, Vec<&'static str>);

/// What is wrong with a plug-in as a plan names it: for each fault the keys that lead to it, what it
/// is, and what could have been meant.
#[pyfunction]
fn check_plugin(kind: &str, text: &str) -> PyResult<Vec<Found>> {
    let faults =
        plugin_faults(kind, text, &Registry::TABLES).map_err(|fault| error::plan(&fault))?;
    Ok(faults.into_iter().map(|fault| (fault.path, fault.message, fault.known)).collect())
}

#[pymodule]
fn _anabranch(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("PlanError", module.py().get_type::<error::PlanError>())?;
    module.add("SimulationError", module.py().get_type::<error::SimulationError>())?;
    module.add_function(wrap_pyfunction!(simulate, module)?)?;
    module.add_function(wrap_pyfunction!(record_link, module)?)?;
    module.add_function(wrap_pyfunction!(schedulers, module)?)?;
    module.add_function(wrap_pyfunction!(congestion_controls, module)?)?;
    module.add_function(wrap_pyfunction!(path_managers, module)?)?;
    module.add_function(wrap_pyfunction!(plugin_parameters, module)?)?;
    module.add_function(wrap_pyfunction!(check_plugin, module)?)?;
    Ok(())
}
