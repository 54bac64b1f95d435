//! A trace as Python dictionaries and lists; missing numbers become `None`.

use anabranch_sim::{Column, Trace};
use pyo3::prelude::*;
use pyo3::types::PyDict;

fn column<'py>(py: Python<'py>, column: &Column) -> PyResult<Bound<'py, PyAny>> {
    Ok(match column {
        Column::Bool(values) => values.into_pyobject(py)?.into_any(),
        Column::Float(values) => values
            .iter()
            .map(|value| (!value.is_nan()).then_some(*value))
            .collect::<Vec<_>>()
            .into_pyobject(py)?
            .into_any(),
        Column::Int(values) => values.into_pyobject(py)?.into_any(),
        Column::Text(values) => values.into_pyobject(py)?.into_any(),
    })
}

pub(crate) fn to_dict<'py>(py: Python<'py>, trace: &Trace) -> PyResult<Bound<'py, PyDict>> {
    let summary = PyDict::new(py);
    summary.set_item("world", "simulated")?;
    summary.set_item("digest", &trace.summary.digest)?;
    summary.set_item("duration_s", trace.summary.duration_s)?;
    summary.set_item("steps", trace.summary.steps)?;
    summary.set_item("notes", &trace.summary.notes)?;
    let tables = PyDict::new(py);
    for table in &trace.tables {
        let columns = PyDict::new(py);
        for (name, values) in &table.columns {
            columns.set_item(name, column(py, values)?)?;
        }
        tables.set_item(table.name, columns)?;
    }
    let whole = PyDict::new(py);
    whole.set_item("summary", summary)?;
    whole.set_item("tables", tables)?;
    Ok(whole)
}
