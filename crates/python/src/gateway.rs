//! The gateway for Python, controlled by a Python function.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration as Span;

use anabranch_live::gateway::{
    Change, GatewayError, Limits, Log, LogCounts, Record, Settings, Sink, Watcher, Wish, serve,
};
use anabranch_mptcp::profile::{OutageRule, TcpStack};
use anabranch_mptcp::{Announcement, Config, RTO_MAX_DEFAULT, RTO_MAX_LEAST, Stack};
use anabranch_plan::choice;
use anabranch_plugin::Registry;
use anabranch_units::{Duration, Seed};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error;
use crate::foreign::Classes;

/// The default limit of a site is this multiple of the limit of a source.
const SITE_SOURCES: u32 = 4;
/// The longest wait for the last lines of the log after the gateway has ended.
const LAST_LINES: Span = Span::from_secs(1);

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
    rto_max_s: f64,
    outage: String,
    multipath: bool,
    proxy_protocol: bool,
    wait_for_client: bool,
    metrics: Option<String>,
    log: Option<PathBuf>,
    backlog: u32,
    half_open_s: f64,
    connect_s: f64,
    idle_s: f64,
    grace_s: f64,
    connections: u32,
    per_source: u32,
    per_site: Option<u32>,
    memory: u64,
    receive_buffer: u64,
    send_buffer: u64,
}

/// Parses an address.
fn read<T: std::str::FromStr>(text: &str) -> PyResult<T> {
    text.parse().map_err(|_| PyValueError::new_err(format!("not an address: {text}")))
}

/// Converts the largest retransmission timeout from `seconds`. Returns an error if it is out of range.
fn rto_max(seconds: f64) -> PyResult<Duration> {
    let given = span(seconds);
    if (RTO_MAX_LEAST..=RTO_MAX_DEFAULT).contains(&given) {
        return Ok(given);
    }
    let (least, most) = (RTO_MAX_LEAST.as_secs_f64(), RTO_MAX_DEFAULT.as_secs_f64());
    Err(PyValueError::new_err(format!("rto_max_s is not between {least} and {most} s: {seconds}")))
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
        let rule = OutageRule::named(&self.outage)
            .ok_or_else(|| PyValueError::new_err(format!("unknown outage: {}", self.outage)))?;
        Ok(Settings {
            device: self.tun.clone(),
            offload: self.offload,
            listen: addresses(&self.listen)?,
            origin: addresses(&self.origin)?,
            config: Config {
                multipath: self.multipath,
                scheduler: plugin(&self.scheduler)?,
                congestion: plugin(&self.congestion)?,
                stack: Stack { tcp: TcpStack { outage: rule, ..usual.stack.tcp }, ..usual.stack },
                rto_max: rto_max(self.rto_max_s)?,
                receive_buffer_max: self.receive_buffer,
                receive_buffer_initial: self.receive_buffer.min(usual.receive_buffer_initial),
                send_buffer_max: self.send_buffer,
                // The origin's kernel has already coalesced small writes, so Nagle's algorithm must not delay the data
                // again.
                nodelay: true,
                registry,
                announce: announce.collect::<PyResult<_>>()?,
                ..usual
            },
            proxy_protocol: self.proxy_protocol,
            wait_for_client: self.wait_for_client,
            metrics: self.metrics.as_deref().map(read).transpose()?,
            backlog: self.backlog,
            half_open: span(self.half_open_s),
            connect: span(self.connect_s),
            idle: span(self.idle_s),
            grace: span(self.grace_s),
            limits: self.change().limits,
        })
    }

    /// Returns the settings that can change while a gateway runs.
    fn change(&self) -> Change {
        Change {
            limits: Limits {
                connections: self.connections,
                per_source: self.per_source,
                per_site: self.per_site.unwrap_or(SITE_SOURCES.saturating_mul(self.per_source)),
                memory: self.memory,
            },
            idle: span(self.idle_s),
            grace: span(self.grace_s),
        }
    }
}

/// The Python function that controls the gateway, and the gateway's logs.
struct Watch {
    called: Py<PyAny>,
    classes: Arc<Classes>,
    /// The log of ended connections.
    log: Log,
    /// Notes for the operator.
    notes: Log,
    raised: Option<PyErr>,
    /// Whether the function was called at least once, which implies that the gateway has started.
    looked: bool,
}

/// The function's result: the action, notes for the operator, and changed settings.
type Answer = (u8, Vec<String>, Option<Given>);

impl Watch {
    fn ask(&mut self) -> PyResult<Answer> {
        Python::attach(|py| {
            let failures = self.classes.failures().into_iter().map(|error| error.into_value(py));
            let failures: Vec<_> = failures.collect();
            py.check_signals()?;
            self.called.call1(py, (failures,))?.extract::<Answer>(py)
        })
    }

    /// Waits until the last lines are written.
    fn finish(&self) {
        self.log.finish(LAST_LINES);
        self.notes.finish(LAST_LINES);
    }
}

impl Watcher for Watch {
    fn look(&mut self) -> Wish {
        self.looked = true;
        match self.ask() {
            Ok((wish, notes, changed)) => {
                for note in notes {
                    self.notes.line(&note);
                }
                if changed.is_some() {
                    self.log.reopen();
                }
                match (wish, changed) {
                    (0, Some(given)) => Wish::Change(given.change()),
                    (0, None) => Wish::Serve,
                    (1, _) => Wish::Finish,
                    _ => Wish::Stop,
                }
            }
            Err(raised) => {
                self.raised.get_or_insert(raised);
                Wish::Stop
            }
        }
    }

    fn ended(&mut self, record: &Record) {
        self.log.record(&record.to_string());
    }

    fn note(&mut self, what: &str) {
        self.notes.line(what);
    }

    fn log_counts(&self) -> LogCounts {
        self.log.counts()
    }
}

/// Runs a gateway with the settings of an object.
///
/// `watch` is called ten times a second with the exceptions that plug-ins raised. Each exception has ended
/// the connection of its plug-in. `watch` returns a tuple of three values. The first is 0 to continue, 1 to
/// refuse new connections and finish, or 2 to stop. The second is a list of lines for stderr. The third
/// contains changed limits and times, or is None. If settings change, the log is opened again.
///
/// An exception of `watch` ends the gateway and is raised here. After the gateway has ended, `watch` is
/// called a last time, and its result is ignored. This call is omitted if the gateway never started.
/// `plugins` contains the classes that the settings name, as for `simulate`.
///
/// A line for each ended connection is written to the file `settings.log`, or to stdout if it is None.
/// Separate threads write the log and stderr, so they do not delay connections.
#[pyfunction]
#[pyo3(signature = (settings, watch, plugins=None))]
pub(crate) fn gateway(
    py: Python<'_>,
    settings: &Bound<'_, PyAny>,
    watch: Py<PyAny>,
    plugins: Option<&Bound<'_, PyDict>>,
) -> PyResult<()> {
    let none = PyDict::new(py);
    // Plug-ins do not need a secret seed. Keys and sequence numbers use another source of random numbers.
    let seed = Seed { seed: 0, run: 0 };
    let classes = Arc::new(Classes::new(plugins.unwrap_or(&none), seed)?.apart());
    let given = settings.extract::<Given>()?;
    let settings = given.settings(classes.registry())?;
    let notes = Log::start(Sink::Stderr, None)?;
    let sink = given.log.map_or(Sink::Stdout, Sink::File);
    let log = Log::start(sink.clone(), Some(notes.clone())).map_err(|error| {
        let number = error.raw_os_error().unwrap_or(0);
        PyOSError::new_err((number, format!("the log {sink}: {error}")))
    })?;
    let mut watcher = Watch { called: watch, classes, log, notes, raised: None, looked: false };
    let outcome = py.detach(|| serve(&settings, &mut watcher));
    if watcher.looked && watcher.raised.is_none() {
        watcher.look();
    }
    py.detach(|| watcher.finish());
    match (watcher.raised, outcome) {
        (Some(raised), _) => Err(raised),
        (None, Err(fault)) => Err(exception(&fault)),
        (None, Ok(())) => Ok(()),
    }
}

/// Converts an error that ended the gateway to an exception.
fn exception(fault: &GatewayError) -> PyErr {
    let number = match fault {
        GatewayError::Device { error, .. } | GatewayError::Io { error, .. } => error.raw_os_error(),
        _ => None,
    };
    PyOSError::new_err((number.unwrap_or(0), fault.to_string()))
}
