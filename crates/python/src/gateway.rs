//! The gateway, run for a function of Python's that watches it.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use anabranch_live::gateway::{GatewayError, Limits, Record, Settings, Watcher, Wish, serve};
use anabranch_plan::choice;
use anabranch_plugin::Registry;
use anabranch_transport::{Announcement, Config};
use anabranch_units::{Duration, Seed};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error;
use crate::foreign::Classes;

/// The settings of a gateway, as attributes of an object.
#[derive(FromPyObject)]
struct Given {
    tun: String,
    offload: bool,
    listen: Vec<String>,
    origin: Vec<String>,
    announce: Vec<String>,
    scheduler: String,
    congestion: String,
    multipath: bool,
    proxy_protocol: bool,
    metrics: Option<String>,
    backlog: u32,
    half_open_s: f64,
    connect_s: f64,
    idle_s: f64,
    grace_s: f64,
    connections: u32,
    per_source: u32,
    memory: u64,
    receive_buffer: u64,
    send_buffer: u64,
}

/// An address, or what is wrong with it.
fn read<T: std::str::FromStr>(text: &str) -> PyResult<T> {
    text.parse().map_err(|_| PyValueError::new_err(format!("not an address: {text}")))
}

fn span(seconds: f64) -> Duration {
    Duration::from_nanos((seconds * 1e9) as u64)
}

impl Given {
    fn settings(&self, registry: Registry) -> PyResult<Settings> {
        let addresses = |given: &[String]| {
            given.iter().map(|it| read(it)).collect::<PyResult<Vec<SocketAddr>>>()
        };
        let announce = self.announce.iter().zip(1..);
        let announce = announce.map(|(text, address_id)| {
            Ok(Announcement { address_id, address: read::<IpAddr>(text)?, port: None })
        });
        let plugin = |text: &str| choice(text).map_err(|fault| error::plan(&fault));
        let usual = Config::default();
        Ok(Settings {
            device: self.tun.clone(),
            offload: self.offload,
            listen: addresses(&self.listen)?,
            origin: addresses(&self.origin)?,
            config: Config {
                multipath: self.multipath,
                scheduler: plugin(&self.scheduler)?,
                congestion: plugin(&self.congestion)?,
                receive_buffer_max: self.receive_buffer,
                receive_buffer_initial: self.receive_buffer.min(usual.receive_buffer_initial),
                send_buffer_max: self.send_buffer,
                // What the origin's kernel has put together is not held back a second time.
                nodelay: true,
                registry,
                announce: announce.collect::<PyResult<_>>()?,
                ..usual
            },
            proxy_protocol: self.proxy_protocol,
            metrics: self.metrics.as_deref().map(read).transpose()?,
            backlog: self.backlog,
            half_open: span(self.half_open_s),
            connect: span(self.connect_s),
            idle: span(self.idle_s),
            grace: span(self.grace_s),
            limits: Limits {
                connections: self.connections,
                per_source: self.per_source,
                memory: self.memory,
            },
        })
    }
}

/// A function that watches.
struct Watch {
    called: Py<PyAny>,
    classes: Arc<Classes>,
    lines: Vec<String>,
    notes: Vec<String>,
    raised: Option<PyErr>,
    /// It has been asked once, so that the gateway has served.
    looked: bool,
}

impl Watcher for Watch {
    fn look(&mut self) -> Wish {
        self.looked = true;
        let lines = std::mem::take(&mut self.lines);
        let notes = std::mem::take(&mut self.notes);
        Python::attach(|py| {
            let failures = self.classes.failures().into_iter().map(|error| error.into_value(py));
            let failures: Vec<_> = failures.collect();
            let answer = py
                .check_signals()
                .and_then(|()| self.called.call1(py, (lines, failures, notes)))
                .and_then(|answer| answer.extract::<u8>(py));
            match answer {
                Ok(0) => Wish::Serve,
                Ok(1) => Wish::Finish,
                Ok(_) => Wish::Stop,
                Err(raised) => {
                    self.raised.get_or_insert(raised);
                    Wish::Stop
                }
            }
        })
    }

    fn ended(&mut self, record: &Record) {
        self.lines.push(record.to_string());
    }

    fn note(&mut self, what: &str) {
        self.notes.push(what.to_owned());
    }
}

/// Runs a gateway with the settings of an object.
///
/// `watch` is called ten times a second with the lines that the log has got since, one a connection that is over,
/// with what plug-ins raised, each of which has cost its own connection, and with what an operator may want to know of
/// the host; it returns 0 to go on, 1 to let nobody else in and finish, and 2 to stop. What it raises ends the gateway, and is raised here. Its last call, when the
/// gateway has ended, returns to nobody; of one that has not begun there is none. `plugins` holds the classes that the
/// settings name, as for `simulate`.
#[pyfunction]
#[pyo3(signature = (settings, watch, plugins=None))]
pub(crate) fn gateway(
    py: Python<'_>,
    settings: &Bound<'_, PyAny>,
    watch: Py<PyAny>,
    plugins: Option<&Bound<'_, PyDict>>,
) -> PyResult<()> {
    let none = PyDict::new(py);
    // What plug-ins draw is no secret; keys and sequence numbers are drawn elsewhere.
    let seed = Seed { seed: 0, run: 0 };
    let classes = Arc::new(Classes::new(plugins.unwrap_or(&none), seed)?.apart());
    let settings = settings.extract::<Given>()?.settings(classes.registry())?;
    let (lines, notes, raised) = (Vec::new(), Vec::new(), None);
    let mut watcher = Watch { called: watch, classes, lines, notes, raised, looked: false };
    let outcome = py.detach(|| serve(&settings, &mut watcher));
    if watcher.looked && watcher.raised.is_none() {
        watcher.look();
    }
    match (watcher.raised, outcome) {
        (Some(raised), _) => Err(raised),
        (None, Err(fault)) => Err(told(&fault)),
        (None, Ok(())) => Ok(()),
    }
}

/// The exception of a gateway that does not run.
fn told(fault: &GatewayError) -> PyErr {
    let number = match fault {
        GatewayError::Device { error, .. } | GatewayError::Io { error, .. } => error.raw_os_error(),
        _ => None,
    };
    PyOSError::new_err((number.unwrap_or(0), fault.to_string()))
}
