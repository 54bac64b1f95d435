//! The Python module `anabranch._anabranch`, a thin binding. `error.rs` converts all errors.

mod abr;
mod capture;
mod congestion;
mod error;
mod foreign;
mod gateway;
mod live;
mod metrics;
mod plugged;
mod scheduler;
mod trace;
mod views;

use std::fs::File;
use std::io::BufWriter;
use std::sync::Arc;

use anabranch_congestion as congestion_control;
use anabranch_mptcp::profile::{PARTS, PROFILES};
use anabranch_mptcp::{Config, ListenConfig, RTO_MAX_DEFAULT, RTO_MAX_LEAST, path_manager};
use anabranch_plan::addresses::{client_address, server_address};
use anabranch_plan::{
    Family, Form, HostPlan, KINDS, LIMITS, MODELS, ModelPlan, Plan, Usual, abr_names,
    plugin_faults, queue, record, resolve_ladder,
};
use anabranch_plugin::PluginName;
use anabranch_scheduler as path_scheduler;
use anabranch_sim::{CaptureFile, CapturePoint, Observer, Silent, run_with};
use anabranch_units::{Duration, Seed};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::foreign::Classes;

/// Calls a Python function with the simulated seconds that have passed and the expected seconds of the run.
/// An exception of the function stops the run.
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
/// `pcapng` is the path of a capture file. It is taken at every client, or with `at_server` at the server, and begins
/// `start_ns` after 1970. `progress` is called with the simulated seconds that have passed and the expected seconds of
/// the run. `plugins` contains the classes that the plan names, by kind and name.
#[pyfunction]
#[pyo3(signature = (plan_json, pcapng=None, progress=None, plugins=None, at_server=false, start_ns=0))]
fn simulate<'py>(
    py: Python<'py>,
    plan_json: &str,
    pcapng: Option<std::path::PathBuf>,
    progress: Option<Py<PyAny>>,
    plugins: Option<&Bound<'py, PyDict>>,
    at_server: bool,
    start_ns: u64,
) -> PyResult<Bound<'py, PyDict>> {
    let plan = Plan::from_json(plan_json).map_err(|fault| error::plan(&fault))?;
    let classes = classes(py, plugins, Seed { seed: plan.seed, run: plan.run })?;
    let point = if at_server { CapturePoint::Server } else { CapturePoint::Client };
    let start = Duration::from_nanos(start_ns);
    let capture = pcapng
        .map(|path| {
            File::create(path).map(|file| CaptureFile {
                output: Box::new(BufWriter::new(file)),
                point,
                start,
            })
        })
        .transpose()?;
    let mut callback = progress.map(|function| Callback { function, raised: None });
    let run = || {
        let registry = classes.registry();
        match callback.as_mut() {
            Some(callback) => run_with(&plan, registry, capture, callback),
            None => run_with(&plan, registry, capture, &mut Silent),
        }
    };
    // With plug-ins, the run keeps the interpreter lock. Otherwise each call of a plug-in would wait up to 5
    // ms for the thread that holds the lock (sys.getswitchinterval). Other threads run during the calls.
    let outcome = if classes.is_empty() { py.detach(run) } else { run() };
    match outcome {
        Ok(trace) => trace::to_dict(py, trace),
        Err(fault) => Err(callback
            .and_then(|callback| callback.raised)
            .or_else(|| classes.error(py))
            .unwrap_or_else(|| error::run(fault))),
    }
}

/// Measures a link of a plan without other traffic. Returns its rate in bit/s in each window of time while it
/// is saturated. Also returns the delays in seconds of small packets that are sent every `ping_ns`; NaN for a
/// lost packet.
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

fn classes(
    py: Python<'_>,
    plugins: Option<&Bound<'_, PyDict>>,
    seed: Seed,
) -> PyResult<Arc<Classes>> {
    let none = PyDict::new(py);
    Classes::new(plugins.unwrap_or(&none), seed).map(Arc::new)
}

/// Returns names with their descriptions. The note of a plug-in is appended to its description.
fn listed(names: impl Iterator<Item = PluginName>) -> Vec<(&'static str, String)> {
    names
        .map(|plugin| {
            let sentences = std::iter::once(plugin.summary).chain(plugin.note);
            (plugin.name, sentences.collect::<Vec<_>>().join(" "))
        })
        .collect()
}

/// Returns the names of the path schedulers, each with a description.
#[pyfunction]
fn schedulers() -> Vec<(&'static str, String)> {
    listed(path_scheduler::names())
}

/// Returns the names of the congestion controllers, each with a description.
#[pyfunction]
fn congestion_controls() -> Vec<(&'static str, String)> {
    listed(congestion_control::names())
}

/// Returns the names of the path managers, each with a description.
#[pyfunction]
fn path_managers() -> Vec<(&'static str, String)> {
    listed(path_manager::names())
}

/// Returns the names of the rules of bitrate adaptation, each with a description.
#[pyfunction]
fn abr_rules() -> Vec<(&'static str, String)> {
    listed(abr_names())
}

/// Returns the names of the kernel generations, each with a description.
#[pyfunction]
fn profiles() -> Vec<(&'static str, &'static str)> {
    PROFILES.iter().map(|profile| (profile.name, profile.summary)).collect()
}

/// Returns the names of the parts of a profile that can be changed, each with a description.
#[pyfunction]
fn profile_parts() -> Vec<(&'static str, &'static str)> {
    PARTS.iter().map(|part| (part.name, part.summary)).collect()
}

/// Returns the addresses of the client and the server on a path, given by its index in a plan.
#[pyfunction]
fn path_addresses(path: usize, ipv6: bool) -> (String, String) {
    let family = if ipv6 { Family::Ipv6 } else { Family::Ipv4 };
    let client = client_address(family, path, 0, 0).ip();
    (client.to_string(), server_address(family, path, 0).ip().to_string())
}

/// Returns the default properties of hosts, by the plan's keys.
#[pyfunction]
fn host_defaults() -> Vec<(&'static str, u64)> {
    HostPlan::default().named().to_vec()
}

/// Returns the defaults of the transport in bytes, by the scenario's keys.
#[pyfunction]
fn transport_defaults() -> Vec<(&'static str, u64)> {
    let usual = Config::default();
    vec![
        ("receive_buffer", usual.receive_buffer_max),
        ("receive_buffer_initial", usual.receive_buffer_initial),
        ("send_buffer", usual.send_buffer_max),
        ("mss", usual.mss.into()),
    ]
}

/// Returns the default plug-ins of the transport, by kind.
#[pyfunction]
fn plugin_defaults() -> Vec<(&'static str, String)> {
    let Config { scheduler, congestion, path_manager, .. } = Config::default();
    let named =
        [("scheduler", scheduler), ("congestion", congestion), ("path_manager", path_manager)];
    named.into_iter().map(|(kind, choice)| (kind, choice.name)).collect()
}

/// Returns the limits of values in a scenario or gateway, by name.
#[pyfunction]
fn limits() -> Vec<(&'static str, u64)> {
    let times = [
        ("most_half_open_ns", ListenConfig::HALF_OPEN_MAX),
        ("least_rto_max_ns", RTO_MAX_LEAST),
        ("most_rto_max_ns", RTO_MAX_DEFAULT),
    ];
    LIMITS.into_iter().chain(times.map(|(name, time)| (name, time.as_nanos()))).collect()
}

/// A parameter of a model: key in a scenario, key in a plan, form, valid words, default, default by the word of another
/// parameter, smallest value, largest value, whether the largest value itself is invalid, meaning.
type ModelParameter = (
    &'static str,
    &'static str,
    &'static str,
    Vec<&'static str>,
    Option<f64>,
    Option<(&'static str, Vec<(&'static str, f64)>)>,
    f64,
    f64,
    bool,
    &'static str,
);
/// A model of a link: its name, its name in reports, whether it includes the delay, its short names, and its
/// parameters.
type LinkModel = (
    &'static str,
    &'static str,
    bool,
    Vec<(&'static str, &'static str, &'static str)>,
    Vec<ModelParameter>,
);

/// Returns the models that a link may follow. A parameter's form is `way`, `place`, `shared`, `word`, or the unit of a
/// number: `count`, `decibels`, `rate` (bit/s), `share`, `time` (nanoseconds) or `width` (MHz).
#[pyfunction]
fn link_models() -> Vec<LinkModel> {
    let parameter = |it: &anabranch_plan::ModelParameter| -> ModelParameter {
        let plain =
            |form, words| (it.key, it.plan, form, words, None, None, 0.0, 0.0, false, it.meaning);
        match it.form {
            Form::Way => plain("way", Vec::new()),
            Form::Place => plain("place", Vec::new()),
            Form::Shared => plain("shared", Vec::new()),
            Form::Word(words) => plain("word", words.to_vec()),
            Form::Quantity { unit, usual, least, most, below } => {
                let (default, by) = match usual {
                    Usual::Open => (None, None),
                    Usual::Is(number) => (Some(number), None),
                    Usual::By(key, table) => (None, Some((key, table.to_vec()))),
                };
                let unit = unit.name();
                (it.key, it.plan, unit, Vec::new(), default, by, least, most, below, it.meaning)
            }
        }
    };
    let model = |kind: &anabranch_plan::ModelKind| {
        let parameters = kind.parameters.iter().map(parameter).collect();
        (kind.name, kind.called, kind.delays, kind.short.to_vec(), parameters)
    };
    MODELS.iter().map(model).collect()
}

/// Parses a link's model, which is a part of a plan, from JSON.
fn link_model(text: &str) -> PyResult<ModelPlan> {
    ModelPlan::from_json(text).map_err(|fault| error::plan(&fault))
}

/// Returns a low estimate of TCP's throughput over a model, bit/s; None for a recording.
#[pyfunction]
fn likely_bps(model: &str) -> PyResult<Option<f64>> {
    Ok(link_model(model)?.likely_bps())
}

/// Returns the faults of a model's parameters that are valid separately but not together. Each has a key, a
/// message and a hint.
#[pyfunction]
fn link_model_faults(model: &str) -> PyResult<Vec<(&'static str, String, String)>> {
    let faults = link_model(model)?.faults();
    Ok(faults.into_iter().map(|fault| (fault.key, fault.message, fault.hint)).collect())
}

/// A parameter of a queue: key, unit, default, smallest value, largest value and meaning.
type QueueParameter = (&'static str, &'static str, u64, u64, u64, &'static str);
/// A kind of queue: name, description, default limit as a unit and a number, and parameters.
type QueueKind = (&'static str, &'static str, Option<(&'static str, u64)>, Vec<QueueParameter>);

/// Returns the kinds of queue, each with its default limit and its parameters. The unit of a parameter is `count`,
/// `flag`, `size` (bytes) or `time` (nanoseconds).
#[pyfunction]
fn queue_disciplines() -> Vec<QueueKind> {
    let kinds = queue::disciplines().map(|(kind, limit)| {
        let found = queue::parameters(kind.name).unwrap_or_default();
        let parameters = found.iter().filter_map(|info| info.measure).map(|it| {
            let (least, most) = it.range;
            (it.key, it.unit.name(), it.default, least, most, it.meaning)
        });
        (kind.name, kind.summary, limit.named(), parameters.collect())
    });
    kinds.collect()
}

/// Returns the parameters of a plug-in of a kind (`scheduler`, `congestion`, `path_manager`, `abr`), each
/// with its key, its default and its valid values. Returns an empty list for an unknown name.
#[pyfunction]
fn plugin_parameters(kind: &str, name: &str) -> Vec<(&'static str, String, String)> {
    let kind = KINDS.iter().find(|known| known.key == kind);
    let found = kind.and_then(|kind| kind.parameters(name).ok()).unwrap_or_default();
    found.into_iter().map(|info| (info.key, info.default, info.allowed)).collect()
}

/// A fault: the keys that lead to it, its message, and similar valid names.
type Found = (Vec<String>, String, Vec<&'static str>);

/// Returns the faults of a plug-in, given as in a plan. Each has the keys that lead to it, its message, and
/// similar valid names. `plugins` is the same as for `simulate`.
#[pyfunction]
#[pyo3(signature = (kind, text, plugins=None))]
fn check_plugin(
    py: Python<'_>,
    kind: &str,
    text: &str,
    plugins: Option<&Bound<'_, PyDict>>,
) -> PyResult<Vec<Found>> {
    let classes = classes(py, plugins, Seed { seed: 0, run: 0 })?;
    let faults =
        plugin_faults(kind, text, &classes.registry()).map_err(|fault| error::plan(&fault))?;
    if let Some(error) = classes.error(py) {
        return Err(error);
    }
    Ok(faults.into_iter().map(|fault| (fault.path, fault.message, fault.known)).collect())
}

/// Returns the plug-ins in a composition. Each has the keys that lead to it, its name and its parameters.
///
/// The list is empty if the value does not describe a plug-in. `check_plugin` reports that fault.
#[pyfunction]
fn plugin_parts<'py>(py: Python<'py>, text: &str) -> PyResult<Vec<Part<'py>>> {
    anabranch_plan::plugin_parts(text)
        .into_iter()
        .map(|(path, choice)| Ok((path, choice.name.clone(), plugged::parameters(py, &choice)?)))
        .collect()
}

/// A plug-in in a composition: the keys that lead to it, its name, and its parameters.
type Part<'py> = (Vec<String>, String, Bound<'py, PyDict>);

/// Returns a plan's ladder with all values resolved, as JSON. Also returns the texts of its playlists with their paths;
/// the master playlist is the first.
#[pyfunction]
fn ladder(plan: &str) -> PyResult<(String, Vec<(String, String)>)> {
    resolve_ladder(plan).map_err(|fault| error::plan(&fault))
}

#[pymodule]
fn _anabranch(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("CaptureFileError", module.py().get_type::<capture::CaptureFileError>())?;
    module.add("PlanError", module.py().get_type::<error::PlanError>())?;
    module.add("SimulationError", module.py().get_type::<error::SimulationError>())?;
    module.add("RaisedError", module.py().get_type::<error::RaisedError>())?;
    module.add("AnswerError", module.py().get_type::<error::AnswerError>())?;
    module.add_function(wrap_pyfunction!(simulate, module)?)?;
    module.add_function(wrap_pyfunction!(live::live, module)?)?;
    module.add_function(wrap_pyfunction!(capture::read_capture, module)?)?;
    module.add_function(wrap_pyfunction!(capture::match_captures, module)?)?;
    module.add_function(wrap_pyfunction!(metrics::client_metrics, module)?)?;
    module.add_function(wrap_pyfunction!(metrics::mean_metrics, module)?)?;
    module.add_function(wrap_pyfunction!(metrics::whole_metrics, module)?)?;
    module.add_function(wrap_pyfunction!(metrics::strips, module)?)?;
    module.add_function(wrap_pyfunction!(metrics::renditions, module)?)?;
    module.add_function(wrap_pyfunction!(metrics::standing_times, module)?)?;
    module.add_function(wrap_pyfunction!(metrics::stall_times, module)?)?;
    module.add_function(wrap_pyfunction!(path_addresses, module)?)?;
    module.add_function(wrap_pyfunction!(gateway::gateway, module)?)?;
    module.add_function(wrap_pyfunction!(record_link, module)?)?;
    module.add_function(wrap_pyfunction!(schedulers, module)?)?;
    module.add_function(wrap_pyfunction!(congestion_controls, module)?)?;
    module.add_function(wrap_pyfunction!(path_managers, module)?)?;
    module.add_function(wrap_pyfunction!(profiles, module)?)?;
    module.add_function(wrap_pyfunction!(profile_parts, module)?)?;
    module.add_function(wrap_pyfunction!(abr_rules, module)?)?;
    module.add_function(wrap_pyfunction!(host_defaults, module)?)?;
    module.add_function(wrap_pyfunction!(transport_defaults, module)?)?;
    module.add_function(wrap_pyfunction!(plugin_defaults, module)?)?;
    module.add_function(wrap_pyfunction!(limits, module)?)?;
    module.add_function(wrap_pyfunction!(queue_disciplines, module)?)?;
    module.add_function(wrap_pyfunction!(link_models, module)?)?;
    module.add_function(wrap_pyfunction!(link_model_faults, module)?)?;
    module.add_function(wrap_pyfunction!(likely_bps, module)?)?;
    module.add_function(wrap_pyfunction!(ladder, module)?)?;
    module.add_function(wrap_pyfunction!(plugin_parameters, module)?)?;
    module.add_function(wrap_pyfunction!(check_plugin, module)?)?;
    module.add_function(wrap_pyfunction!(plugin_parts, module)?)?;
    module.add_function(wrap_pyfunction!(scheduler::candidates, module)?)?;
    trace::register(module)?;
    module.add_class::<views::SubflowView>()?;
    module.add_class::<views::SubflowEvent>()?;
    module.add_class::<views::SendRequest>()?;
    module.add_class::<views::AckSample>()?;
    module.add_class::<views::SiblingView>()?;
    module.add_class::<views::CongestionEvent>()?;
    module.add_class::<views::LostSegment>()?;
    module.add_class::<views::TransmitStart>()?;
    module.add_class::<views::PlayerView>()?;
    module.add_class::<views::Rendition>()?;
    module.add_class::<views::ChunkSample>()?;
    module.add_class::<views::Loading>()?;
    module.add_class::<congestion::Window>()?;
    module.add_class::<scheduler::Send>()?;
    module.add_class::<scheduler::Penalise>()?;
    module.add_class::<scheduler::Wait>()?;
    module.add_class::<abr::Pause>()?;
    Ok(())
}
