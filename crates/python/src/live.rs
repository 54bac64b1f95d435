//! Runs over real packets, for Python.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::SocketAddr;
use std::path::PathBuf;

use anabranch_live::{
    Ends, InterfaceChange, KernelEnd, Lateness, LiveError, Moment, Observer, Origin, PathMoment,
    run,
};
use anabranch_plan::Plan;
use anabranch_units::{Duration, Seed};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::{classes, error, trace};

/// A kernel at one end of the network: the file of its namespace, its device on each path, whether its
/// sockets use MPTCP, and their congestion control.
type End = (Option<PathBuf>, Vec<String>, bool, Option<String>);

fn kernel((namespace, devices, multipath, congestion): End) -> KernelEnd {
    KernelEnd { namespace, devices, multipath, congestion }
}

/// Creates an origin from the file of its namespace and from its address with a port.
fn found((namespace, address): (Option<PathBuf>, String)) -> PyResult<Origin> {
    let refused = |_| PyValueError::new_err(format!("not an address with a port: {address}"));
    let address = address.parse::<SocketAddr>().map_err(refused)?;
    Ok(Origin { namespace, address })
}

/// An observer that calls Python functions. An exception stops the run.
struct Follower {
    plan_paths: Vec<String>,
    ready: Py<PyAny>,
    progress: Py<PyAny>,
    interface: Py<PyAny>,
    watch: Option<Py<PyAny>>,
    raised: Option<PyErr>,
}

impl Observer for Follower {
    fn ready(&mut self) -> io::Result<()> {
        let called = Python::attach(|py| self.ready.call0(py).map(drop));
        called.map_err(|raised| self.failed(raised))
    }

    fn progress(&mut self, done_s: f64, total_s: f64) -> bool {
        if self.raised.is_some() {
            return false;
        }
        Python::attach(|py| {
            let answer = self.progress.call1(py, (done_s, total_s));
            let goes_on = answer.and_then(|answer| {
                py.check_signals()?;
                answer.extract::<Option<bool>>(py)
            });
            goes_on.map_or_else(
                |raised| {
                    self.raised = Some(raised);
                    false
                },
                |goes_on| goes_on != Some(false),
            )
        })
    }

    fn watches(&self) -> bool {
        self.watch.is_some() && self.raised.is_none()
    }

    fn watch(&mut self, moment: &Moment) {
        let Some(function) = &self.watch else { return };
        let called = Python::attach(|py| function.call1(py, (moment_dict(py, moment)?,)).map(drop));
        if let Err(raised) = called {
            self.raised = Some(raised);
        }
    }

    fn interface(&mut self, change: InterfaceChange) -> io::Result<()> {
        let function = &self.interface;
        let arguments = (self.plan_paths[change.path].clone(), change.what.name());
        let called = Python::attach(|py| function.call1(py, arguments).map(drop));
        called.map_err(|raised| self.failed(raised))
    }
}

impl Follower {
    /// Stores an exception, which is raised after the run has stopped. Returns an error that stops the run.
    fn failed(&mut self, raised: PyErr) -> io::Error {
        let error = io::Error::other(raised.to_string());
        self.raised = Some(raised);
        error
    }
}

/// Converts the state of a run to a dictionary.
fn moment_dict<'py>(py: Python<'py>, moment: &Moment) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("t_s", moment.t_s)?;
    dict.set_item("bytes_read", moment.bytes_read)?;
    let paths: PyResult<Vec<_>> = moment.paths.iter().map(|path| path_dict(py, path)).collect();
    dict.set_item("paths", paths?)?;
    let player = moment.viewing.map(|viewing| {
        let player = PyDict::new(py);
        player.set_item("buffer_s", viewing.buffer.as_secs_f64())?;
        player.set_item("position_s", viewing.position_s)?;
        player.set_item("discards", viewing.discards)?;
        player.set_item("underflows", viewing.underflows)?;
        PyResult::Ok(player)
    });
    dict.set_item("player", player.transpose()?)?;
    Ok(dict)
}

/// Converts the state of a path to a dictionary.
fn path_dict<'py>(py: Python<'py>, path: &PathMoment) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("bytes", path.bytes)?;
    dict.set_item("queue_packets", path.queued.packets)?;
    dict.set_item("queue_bytes", path.queued.bytes.0)?;
    let subflow = path.subflow;
    dict.set_item("bytes_acked", subflow.map(|it| it.bytes_acked))?;
    dict.set_item("cwnd_segments", subflow.and_then(|it| it.cwnd_segments))?;
    dict.set_item("in_flight_segments", subflow.and_then(|it| it.in_flight_segments))?;
    let srtt = subflow.and_then(|it| it.srtt);
    dict.set_item("srtt_ms", srtt.map(|srtt| srtt.as_secs_f64() * 1e3))?;
    Ok(dict)
}

/// Converts the lateness of packets to a dictionary, in milliseconds.
fn lateness<'py>(py: Python<'py>, lateness: &Lateness) -> PyResult<Bound<'py, PyDict>> {
    let ms = |span: Duration| span.as_secs_f64() * 1e3;
    let dict = PyDict::new(py);
    dict.set_item("packets", lateness.count())?;
    dict.set_item("median_ms", ms(lateness.quantile(0.5)))?;
    dict.set_item("p99_ms", ms(lateness.quantile(0.99)))?;
    dict.set_item("max_ms", ms(lateness.max()))?;
    Ok(dict)
}

/// Runs a plan over real packets. `client` and `server` describe kernels (namespace, devices, MPTCP,
/// congestion control); None selects our endpoint. The result is that of `simulate`. The summary also has
/// `lateness`, `server_congestion` and `refused_packets`, and by path `stripped_segments` and `blocked_syns`.
///
/// `announced` contains the indexes of the paths on which the server announces its address, because the
/// client does not know it. `ready` is called when the devices are open. `progress` is called ten times a
/// second, and stops the run by returning False.
///
/// With `application`, the plan's application runs, and the run ends when it is done. Without it, programs of
/// the client run, and both ends are kernels or our endpoint relays to `origin`, an address in a namespace.
/// Values in `connections` that only these programs could report are then NaN.
///
/// `interface` is called with a path and a change of the client kernel's interface on that path. `watch` is
/// called with the state of the run before each `progress` and at the end: `t_s`, `bytes_read`, `paths` (a
/// dictionary for each path, in the plan's order) and `player`.
#[pyfunction]
#[pyo3(signature = (plan_json, client, server, application, ready, progress, interface, pcapng=None, plugins=None, announced=Vec::new(), origin=None, watch=None))]
#[expect(clippy::too_many_arguments, reason = "each is a keyword in Python")]
pub(crate) fn live<'py>(
    py: Python<'py>,
    plan_json: &str,
    client: Option<End>,
    server: Option<End>,
    application: bool,
    ready: Py<PyAny>,
    progress: Py<PyAny>,
    interface: Py<PyAny>,
    pcapng: Option<PathBuf>,
    plugins: Option<&Bound<'py, PyDict>>,
    announced: Vec<usize>,
    origin: Option<(Option<PathBuf>, String)>,
    watch: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let plan = Plan::from_json(plan_json).map_err(|fault| error::plan(&fault))?;
    let classes = classes(py, plugins, Seed { seed: plan.seed, run: plan.run })?;
    let capture = pcapng.map(|path| {
        File::create(path).map(|file| Box::new(BufWriter::new(file)) as Box<dyn Write + Send>)
    });
    let ends = Ends {
        client: client.map(kernel),
        server: server.map(kernel),
        application,
        announced,
        origin: origin.map(found).transpose()?,
        capture: capture.transpose()?,
    };
    let plan_paths = plan.paths.iter().map(|path| path.name.clone()).collect();
    let mut follower = Follower { plan_paths, ready, progress, interface, watch, raised: None };
    let go = || run(&plan, classes.registry(), ends, &mut follower);
    // As in `simulate`, calls of plug-ins must not wait for the interpreter.
    let outcome = if classes.is_empty() { py.detach(go) } else { go() };
    if let Some(raised) = follower.raised {
        return Err(raised);
    }
    let names = plan.paths.iter().map(|path| &path.name);
    let outcome = outcome
        .map_err(|fault: LiveError| classes.error(py).unwrap_or_else(|| error::live(fault)))?;
    let dict = trace::to_dict(py, outcome.trace)?;
    let summary = dict.get_item("summary")?.expect("a trace has a summary");
    summary.set_item("world", "live")?;
    summary.set_item("lateness", lateness(py, &outcome.lateness)?)?;
    summary.set_item("server_congestion", outcome.congestion)?;
    summary.set_item("refused_packets", outcome.refused)?;
    let tables = [("stripped_segments", &outcome.stripped), ("blocked_syns", &outcome.blocked)];
    for (key, counts) in tables {
        let by_path = PyDict::new(py);
        for (name, count) in names.clone().zip(counts) {
            by_path.set_item(name, count)?;
        }
        summary.set_item(key, by_path)?;
    }
    Ok(dict)
}
