//! The Python module `anabranch._anabranch`: thin, and every error is mapped in one file.

mod congestion;
mod error;
mod foreign;
mod gateway;
mod live;
mod plugged;
mod scheduler;
mod trace;
mod views;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::sync::Arc;

use anabranch_congestion as congestion_control;
use anabranch_plan::addresses::{client_address, server_address};
use anabranch_plan::{
    Family, Form, HostPlan, KINDS, LIMITS, MODELS, ModelPlan, Plan, Usual, abr_names,
    plugin_faults, queue, record, resolve_ladder,
};
use anabranch_plugin::PluginName;
use anabranch_scheduler as path_scheduler;
use anabranch_sim::{Observer, Silent, run_with};
use anabranch_transport::profile::{PARTS, PROFILES};
use anabranch_transport::{Config, ListenConfig, RTO_MAX_DEFAULT, RTO_MAX_LEAST, path_manager};
use anabranch_units::Seed;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::foreign::Classes;

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
/// `pcapng` names a capture file; `progress` is called with the virtual seconds done and expected;
/// `plugins` holds the classes that the plan names, by kind and name.
#[pyfunction]
#[pyo3(signature = (plan_json, pcapng=None, progress=None, plugins=None))]
fn simulate<'py>(
    py: Python<'py>,
    plan_json: &str,
    pcapng: Option<std::path::PathBuf>,
    progress: Option<Py<PyAny>>,
    plugins: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyDict>> {
    let plan = Plan::from_json(plan_json).map_err(|fault| error::plan(&fault))?;
    let classes = classes(py, plugins, Seed { seed: plan.seed, run: plan.run })?;
    let capture = pcapng
        .map(|path| {
            File::create(path).map(|file| Box::new(BufWriter::new(file)) as Box<dyn Write + Send>)
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
    // Detached, each call of a plug-in would wait for the thread that has the interpreter just then, up
    // to 5 ms (sys.getswitchinterval); attached throughout, others get their turns within the calls.
    let outcome = if classes.is_empty() { py.detach(run) } else { run() };
    match outcome {
        Ok(trace) => trace::to_dict(py, trace),
        Err(fault) => Err(callback
            .and_then(|callback| callback.raised)
            .or_else(|| classes.error(py))
            .unwrap_or_else(|| error::run(fault))),
    }
}

/// What a link of a plan does by itself: bits a second in each window of time while it is kept
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

fn classes(
    py: Python<'_>,
    plugins: Option<&Bound<'_, PyDict>>,
    seed: Seed,
) -> PyResult<Arc<Classes>> {
    let none = PyDict::new(py);
    Classes::new(plugins.unwrap_or(&none), seed).map(Arc::new)
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
    listed(path_scheduler::names())
}

/// Names of the congestion controllers, each with the first sentence of its documentation.
#[pyfunction]
fn congestion_controls() -> Vec<(&'static str, String)> {
    listed(congestion_control::names())
}

/// Names of the path managers, each with the first sentence of their documentation.
#[pyfunction]
fn path_managers() -> Vec<(&'static str, String)> {
    listed(path_manager::names())
}

/// Names of the rules of adaptation, each with what it is in one sentence.
#[pyfunction]
fn abr_rules() -> Vec<(&'static str, String)> {
    listed(abr_names())
}

/// Names of the kernel generations, each with what it is in one sentence.
#[pyfunction]
fn profiles() -> Vec<(&'static str, &'static str)> {
    PROFILES.iter().map(|profile| (profile.name, profile.summary)).collect()
}

/// Names of the parts of a profile that can be switched, each with what it is.
#[pyfunction]
fn profile_parts() -> Vec<(&'static str, &'static str)> {
    PARTS.iter().map(|part| (part.name, part.summary)).collect()
}

/// The addresses of the client and the server on a path, by its place in a plan.
#[pyfunction]
fn path_addresses(path: usize, ipv6: bool) -> (String, String) {
    let family = if ipv6 { Family::Ipv6 } else { Family::Ipv4 };
    let client = client_address(family, path, 0, 0).ip();
    (client.to_string(), server_address(family, path, 0).ip().to_string())
}

/// What hosts add to the protocol where a plan says nothing, under the plan's keys.
#[pyfunction]
fn host_defaults() -> Vec<(&'static str, u64)> {
    HostPlan::default().named().to_vec()
}

/// What the transport has where a scenario says nothing, under the scenario's keys: sizes in bytes.
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

/// The plug-ins of a transport where a scenario names none, by kind.
#[pyfunction]
fn plugin_defaults() -> Vec<(&'static str, String)> {
    let Config { scheduler, congestion, path_manager, .. } = Config::default();
    let named =
        [("scheduler", scheduler), ("congestion", congestion), ("path_manager", path_manager)];
    named.into_iter().map(|(kind, choice)| (kind, choice.name)).collect()
}

/// What a scenario or a gateway may have at most, or must have at least, by name.
#[pyfunction]
fn limits() -> Vec<(&'static str, u64)> {
    let times = [
        ("most_half_open_ns", ListenConfig::HALF_OPEN_MAX),
        ("least_rto_max_ns", RTO_MAX_LEAST),
        ("most_rto_max_ns", RTO_MAX_DEFAULT),
    ];
    LIMITS.into_iter().chain(times.map(|(name, time)| (name, time.as_nanos()))).collect()
}

/// A parameter of a model: its keys in a scenario and a plan, its form, the words that it may be, its default,
/// or that by the word of another, least, most and whether that itself is too much, meaning.
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
/// A model of a link: name, what a report calls it, whether it has delays, short names, parameters.
type LinkModel = (
    &'static str,
    &'static str,
    bool,
    Vec<(&'static str, &'static str, &'static str)>,
    Vec<ModelParameter>,
);

/// The models that a link may follow. A parameter's form is `way`, `place`, `shared`, `word`, or what a number
/// measures: `count`, `decibels`, `rate` (bits a second), `share`, `time` (nanoseconds), `width` (MHz).
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

/// A link's model from its part of a plan, as JSON.
fn link_model(text: &str) -> PyResult<ModelPlan> {
    ModelPlan::from_json(text).map_err(|fault| error::plan(&fault))
}

/// What TCP may be expected to get of a model, bits a second, rather too little; None of a recording.
#[pyfunction]
fn likely_bps(model: &str) -> PyResult<Option<f64>> {
    Ok(link_model(model)?.likely_bps())
}

/// What is wrong with a model's parameters that are right one by one: key, message, hint.
#[pyfunction]
fn link_model_faults(model: &str) -> PyResult<Vec<(&'static str, String, String)>> {
    let faults = link_model(model)?.faults();
    Ok(faults.into_iter().map(|fault| (fault.key, fault.message, fault.hint)).collect())
}

/// A parameter of a queue: key, what it measures, default, least, most, meaning.
type QueueParameter = (&'static str, &'static str, u64, u64, u64, &'static str);
/// A kind of queue: name, what it is, limit as its unit and number, parameters.
type QueueKind = (&'static str, &'static str, Option<(&'static str, u64)>, Vec<QueueParameter>);

/// The kinds of queue, each with its limit where none is given and its own parameters: key, what it
/// measures (`count`, `flag`, `size` in bytes, `time` in nanoseconds), default, least, most, meaning.
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

/// The parameters of a plug-in of a kind (`scheduler`, `congestion`, `path_manager`, `abr`), each as key,
/// default and what is allowed; an unknown name has none.
#[pyfunction]
fn plugin_parameters(kind: &str, name: &str) -> Vec<(&'static str, String, String)> {
    let kind = KINDS.iter().find(|known| known.key == kind);
    let found = kind.and_then(|kind| kind.parameters(name).ok()).unwrap_or_default();
    found.into_iter().map(|info| (info.key, info.default, info.allowed)).collect()
}

/// A fault: the keys that lead to it, what it is, what could have been meant.
type Found = (Vec<String>, String, Vec<&'static str>);

/// What is wrong with a plug-in as a plan names it: for each fault the keys that lead to it, what it
/// is, and what could have been meant. `plugins` is as for `simulate`.
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

/// The plug-ins in a composition: for each the keys that lead to it, its name and its parameters.
///
/// A value that does not describe a plug-in gives an empty list; `check_plugin` reports its fault.
#[pyfunction]
fn plugin_parts<'py>(py: Python<'py>, text: &str) -> PyResult<Vec<Part<'py>>> {
    anabranch_plan::plugin_parts(text)
        .into_iter()
        .map(|(path, choice)| Ok((path, choice.name.clone(), plugged::parameters(py, &choice)?)))
        .collect()
}

/// A plug-in in a composition: where it stands, its name, its parameters.
type Part<'py> = (Vec<String>, String, Bound<'py, PyDict>);

/// A ladder of a plan with everything resolved, as JSON, and the text of its playlists by their
/// paths, the master playlist first.
#[pyfunction]
fn ladder(plan: &str) -> PyResult<(String, Vec<(String, String)>)> {
    resolve_ladder(plan).map_err(|fault| error::plan(&fault))
}

#[pymodule]
fn _anabranch(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("PlanError", module.py().get_type::<error::PlanError>())?;
    module.add("SimulationError", module.py().get_type::<error::SimulationError>())?;
    module.add("RaisedError", module.py().get_type::<error::RaisedError>())?;
    module.add("AnswerError", module.py().get_type::<error::AnswerError>())?;
    module.add_function(wrap_pyfunction!(simulate, module)?)?;
    module.add_function(wrap_pyfunction!(live::live, module)?)?;
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
    module.add_class::<congestion::Window>()?;
    module.add_class::<scheduler::Send>()?;
    module.add_class::<scheduler::Penalise>()?;
    module.add_class::<scheduler::Wait>()?;
    Ok(())
}
