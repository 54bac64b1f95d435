//! The metrics of a trace (crate `metrics`), from tables of the simulator or of lists.

use std::sync::Arc;

use anabranch_metrics as metrics;
use anabranch_metrics::{Object, Own, Tables, Value};
use anabranch_trace::{Column as Values, Words};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyMapping, PyString};

use crate::trace::{Column, Table};

/// The columns of a table by name.
type Columns = Vec<(Arc<str>, Arc<Values>)>;

/// The tables of a trace by name.
struct Given(Vec<(String, Columns)>);

impl Given {
    fn new(tables: &Bound<'_, PyAny>) -> PyResult<Self> {
        let mut found = Vec::new();
        for item in tables.cast::<PyMapping>()?.items()?.iter() {
            let (name, table): (String, Bound<'_, PyAny>) = item.extract()?;
            found.push((name, columns(&table)?));
        }
        Ok(Self(found))
    }

    fn tables(&self) -> Tables<'_> {
        let mut found = Vec::new();
        for (name, own) in &self.0 {
            found.push((
                name.as_str(),
                own.iter().map(|(name, values)| (&**name, &**values)).collect(),
            ));
        }
        Tables::new(found)
    }
}

fn columns(table: &Bound<'_, PyAny>) -> PyResult<Columns> {
    if let Ok(table) = table.cast::<Table>() {
        return Ok(table.get().columns().to_vec());
    }
    let mut found = Vec::new();
    for item in table.cast::<PyMapping>()?.items()?.iter() {
        let (name, values): (String, Bound<'_, PyAny>) = item.extract()?;
        let values = match values.cast::<Column>() {
            Ok(column) => column.get().values(),
            Err(_) => Arc::new(column(&values)?),
        };
        found.push((Arc::from(name), values));
    }
    Ok(found)
}

/// Converts a sequence to a column. The column is of text if any item is a string, of flags or whole numbers
/// if all items are, and of numbers otherwise. None is a missing number, or an empty text.
fn column(values: &Bound<'_, PyAny>) -> PyResult<Values> {
    let items: Vec<Bound<'_, PyAny>> = values.try_iter()?.collect::<PyResult<_>>()?;
    let all = |kind: fn(&Bound<'_, PyAny>) -> bool| !items.is_empty() && items.iter().all(kind);
    if items.iter().any(PyAnyMethods::is_instance_of::<PyString>) {
        let words: Vec<String> = items
            .iter()
            .map(|item| if item.is_none() { Ok(String::new()) } else { item.extract() })
            .collect::<PyResult<_>>()?;
        return Ok(Values::Text(words.iter().map(String::as_str).collect::<Words>()));
    }
    if all(|item| item.is_instance_of::<PyBool>()) {
        return Ok(Values::Bool(items.iter().map(PyAnyMethods::extract).collect::<PyResult<_>>()?));
    }
    if all(|item| item.is_instance_of::<PyInt>()) {
        return Ok(Values::Int(items.iter().map(PyAnyMethods::extract).collect::<PyResult<_>>()?));
    }
    let number = |item: &Bound<'_, PyAny>| {
        if item.is_none() { Ok(f64::NAN) } else { item.extract::<f64>() }
    };
    Ok(Values::Float(items.iter().map(number).collect::<PyResult<_>>()?))
}

fn to_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    match value {
        Value::Null => Ok(py.None().into_bound(py)),
        Value::Flag(flag) => flag.into_bound_py_any(py),
        Value::Whole(count) => count.into_bound_py_any(py),
        Value::Number(number) => number.into_bound_py_any(py),
        Value::Text(text) => text.into_bound_py_any(py),
        Value::List(values) => {
            let items: Vec<_> =
                values.iter().map(|value| to_python(py, value)).collect::<PyResult<_>>()?;
            PyList::new(py, items)?.into_bound_py_any(py)
        }
        Value::Object(object) => dict(py, object)?.into_bound_py_any(py),
    }
}

fn dict<'py>(py: Python<'py>, object: &Object) -> PyResult<Bound<'py, PyDict>> {
    let found = PyDict::new(py);
    for (key, value) in object {
        found.set_item(key, to_python(py, value)?)?;
    }
    Ok(found)
}

fn from_python(value: &Bound<'_, PyAny>) -> PyResult<Value> {
    if value.is_none() {
        return Ok(Value::Null);
    }
    if value.is_instance_of::<PyBool>() {
        return Ok(Value::Flag(value.extract()?));
    }
    if value.is_instance_of::<PyInt>() {
        return Ok(Value::Whole(value.extract()?));
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(Value::Number(value.extract()?));
    }
    if value.is_instance_of::<PyString>() {
        return Ok(Value::Text(value.extract()?));
    }
    if let Ok(list) = value.cast::<PyList>() {
        return list
            .iter()
            .map(|item| from_python(&item))
            .collect::<PyResult<_>>()
            .map(Value::List);
    }
    if let Ok(mapping) = value.cast::<PyMapping>() {
        return object(mapping).map(Value::Object);
    }
    Err(PyTypeError::new_err(format!("not a metric: {value:?}")))
}

fn object(mapping: &Bound<'_, PyMapping>) -> PyResult<Object> {
    let entry = |item: Bound<'_, PyAny>| {
        let (key, value): (String, Bound<'_, PyAny>) = item.extract()?;
        Ok((key, from_python(&value)?))
    };
    mapping.items()?.iter().map(entry).collect()
}

/// Returns the metrics of each client: dicts with `client`, `qoe` and `qos`.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "pyo3 extracts the argument")]
pub(crate) fn client_metrics<'py>(
    py: Python<'py>,
    tables: &Bound<'py, PyAny>,
    paths: Vec<String>,
) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let given = Given::new(tables)?;
    let paths: Vec<_> = paths.iter().map(String::as_str).collect();
    let clients = metrics::by_client(&given.tables(), &paths);
    clients.into_iter().map(|client| dict(py, &client.into_object())).collect()
}

/// Returns the mean of metrics with equal keys, number by number.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "pyo3 extracts the argument")]
pub(crate) fn mean_metrics<'py>(
    py: Python<'py>,
    each: Vec<Bound<'py, PyMapping>>,
) -> PyResult<Bound<'py, PyDict>> {
    let each: Vec<_> = each.iter().map(object).collect::<PyResult<_>>()?;
    dict(py, &metrics::mean(&each.iter().collect::<Vec<_>>()))
}

/// Adds the metrics of links and cross traffic to the mean of the clients' metrics.
#[pyfunction]
pub(crate) fn whole_metrics<'py>(
    py: Python<'py>,
    tables: &Bound<'py, PyAny>,
    clients: &Bound<'py, PyMapping>,
) -> PyResult<Bound<'py, PyDict>> {
    dict(py, &metrics::whole(&Given::new(tables)?.tables(), object(clients)?))
}

/// Returns the states of each client's screen: lists of dicts with `from_s`, `to_s` and `state`.
#[pyfunction]
pub(crate) fn strips<'py>(
    py: Python<'py>,
    tables: &Bound<'py, PyAny>,
) -> PyResult<Vec<Vec<Bound<'py, PyDict>>>> {
    let given = Given::new(tables)?;
    let strip = |spans: Vec<metrics::Span>| {
        spans.into_iter().map(|span| dict(py, &span.into_object())).collect::<PyResult<_>>()
    };
    metrics::strips(&given.tables()).into_iter().map(strip).collect()
}

/// Returns the renditions on the screen of a client with these tables: dicts with `from_s`, `to_s`, `mbps`, `name` and
/// `height`.
#[pyfunction]
pub(crate) fn renditions<'py>(
    py: Python<'py>,
    own: &Bound<'py, PyAny>,
) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let given = Given::new(own)?;
    let tables = given.tables();
    let shown = metrics::renditions(&Own::whole(&tables));
    shown.into_iter().map(|one| dict(py, &one.into_object())).collect()
}

/// Returns the freezes of the client to which the tables belong: start and end, seconds.
#[pyfunction]
pub(crate) fn standing_times(own: &Bound<'_, PyAny>) -> PyResult<Vec<(f64, f64)>> {
    let given = Given::new(own)?;
    let tables = given.tables();
    Ok(metrics::standing_times(&Own::whole(&tables)))
}

/// Returns the start and the end of each underflow, from the times and kinds of playback events.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "pyo3 extracts the argument")]
pub(crate) fn stall_times(events: Vec<(f64, String)>, until_s: f64) -> Vec<(f64, f64)> {
    let events: Vec<_> = events
        .iter()
        .map(|(t_s, event)| metrics::Event { t_s: *t_s, event, pts_s: f64::NAN })
        .collect();
    metrics::stall_times(&events, until_s)
}
