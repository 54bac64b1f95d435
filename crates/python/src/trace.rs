//! A trace for Python. Tables are mappings of columns, and columns are sequences.
//!
//! Tables and columns implement Arrow's `PyCapsule` interface, so a data frame or a query can import a whole
//! table at once. A value becomes a Python object only when it is read. Missing numbers are `None`.

use std::sync::Arc;

use anabranch_trace::{Column as Values, Trace, Words};
use arrow_array::ffi::to_ffi;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, LargeStringArray, RecordBatch,
    RecordBatchIterator,
};
use arrow_buffer::NullBuffer;
use arrow_schema::{ArrowError, Field, Schema};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyKeyError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};

fn arrow_error(error: &ArrowError) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

/// The result of `__reduce__`: the function that restores a pickled value, and its arguments.
type Reduced<'py, T> = (Bound<'py, PyAny>, T);

/// A column of a trace's table.
#[pyclass(frozen, sequence, module = "anabranch._anabranch")]
pub(crate) struct Column {
    values: Arc<Values>,
}

impl Column {
    /// Returns the values.
    pub(crate) fn values(&self) -> Arc<Values> {
        Arc::clone(&self.values)
    }
}

#[pymethods]
impl Column {
    /// Creates a column of a kind (`bool`, `float`, `int`, `text`). Only `pickle` calls this.
    #[new]
    fn new(kind: &str, values: &Bound<'_, PyAny>) -> PyResult<Self> {
        let values = match kind {
            "bool" => Values::Bool(values.extract()?),
            "float" => {
                let known: Vec<Option<f64>> = values.extract()?;
                Values::Float(known.into_iter().map(|value| value.unwrap_or(f64::NAN)).collect())
            }
            "int" => Values::Int(values.extract()?),
            "text" => {
                let words: Vec<String> = values.extract()?;
                Values::Text(words.iter().map(String::as_str).collect::<Words>())
            }
            _ => return Err(PyValueError::new_err(format!("no kind of column: {kind}"))),
        };
        Ok(Self { values: Arc::new(values) })
    }

    /// The kind of the values: `bool`, `float`, `int` or `text`.
    #[getter]
    fn kind(&self) -> &'static str {
        match &*self.values {
            Values::Bool(_) => "bool",
            Values::Float(_) => "float",
            Values::Int(_) => "int",
            Values::Text(_) => "text",
        }
    }

    /// Returns the values as a list.
    fn to_list<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        match &*self.values {
            Values::Bool(values) => PyList::new(py, values),
            Values::Float(values) => {
                PyList::new(py, values.iter().map(|value| (!value.is_nan()).then_some(*value)))
            }
            Values::Int(values) => PyList::new(py, values),
            Values::Text(words) => {
                let known = PyList::new(py, words.known())?;
                let items: PyResult<Vec<_>> =
                    words.numbers().iter().map(|number| known.get_item(*number as usize)).collect();
                PyList::new(py, items?)
            }
        }
    }

    fn __len__(&self) -> usize {
        self.values.len()
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        place: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let Ok(at) = place.extract::<isize>() else {
            return self.to_list(py)?.into_any().get_item(place);
        };
        let len = self.values.len();
        let row = if at < 0 { at.checked_add_unsigned(len) } else { Some(at) };
        let row = row.and_then(|row| usize::try_from(row).ok()).filter(|row| *row < len);
        let Some(row) = row else {
            return Err(pyo3::exceptions::PyIndexError::new_err("column index out of range"));
        };
        match &*self.values {
            Values::Bool(values) => values[row].into_bound_py_any(py),
            Values::Float(values) => {
                let value = values[row];
                (!value.is_nan()).then_some(value).into_bound_py_any(py)
            }
            Values::Int(values) => values[row].into_bound_py_any(py),
            Values::Text(words) => words.get(row).into_bound_py_any(py),
        }
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.to_list(py)?.try_iter()?.into_any())
    }

    fn __contains__(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.to_list(py)?.contains(value)
    }

    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        if let Ok(other) = other.cast::<Self>() {
            return self.to_list(py)?.eq(other.get().to_list(py)?);
        }
        self.to_list(py)?.eq(other)
    }

    /// Returns the index of the first occurrence of a value.
    fn index(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<usize> {
        self.to_list(py)?.index(value)
    }

    /// Returns the number of occurrences of a value.
    fn count(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<usize> {
        self.to_list(py)?.as_sequence().count(value)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.to_list(py)?.repr()?.to_string())
    }

    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<Reduced<'py, (&'static str, Bound<'py, PyList>)>> {
        Ok((py.get_type::<Self>().into_any(), (self.kind(), self.to_list(py)?)))
    }

    /// Returns Arrow's schema and array. `requested_schema` is ignored, so the consumer must convert.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        let _ = requested_schema;
        let (array, schema) =
            to_ffi(&array(&self.values).to_data()).map_err(|error| arrow_error(&error))?;
        Ok((
            PyCapsule::new(py, schema, Some(c"arrow_schema".to_owned()))?,
            PyCapsule::new(py, array, Some(c"arrow_array".to_owned()))?,
        ))
    }
}

/// Returns a column as an Arrow array.
fn array(values: &Values) -> ArrayRef {
    match values {
        Values::Bool(values) => Arc::new(BooleanArray::from(values.clone())),
        Values::Float(values) => {
            let missing = values.iter().any(|value| value.is_nan());
            let known = || values.iter().map(|value| !value.is_nan()).collect::<NullBuffer>();
            Arc::new(Float64Array::new(values.clone().into(), missing.then(known)))
        }
        Values::Int(values) => Arc::new(Int64Array::from(values.clone())),
        Values::Text(words) => Arc::new(LargeStringArray::from_iter_values(words.iter())),
    }
}

/// A table of a trace: its columns by name.
#[pyclass(frozen, mapping, module = "anabranch._anabranch")]
pub(crate) struct Table {
    columns: Vec<(Arc<str>, Arc<Values>)>,
}

impl Table {
    /// Returns the columns by name.
    pub(crate) fn columns(&self) -> &[(Arc<str>, Arc<Values>)] {
        &self.columns
    }

    fn find(&self, name: &str) -> Option<Column> {
        let (_, values) = self.columns.iter().find(|(other, _)| &**other == name)?;
        Some(Column { values: values.clone() })
    }
}

#[pymethods]
impl Table {
    /// Creates a table of columns. Only `pickle` calls this.
    #[new]
    fn new(columns: Vec<(String, Bound<'_, Column>)>) -> Self {
        let columns = columns
            .into_iter()
            .map(|(name, column)| (Arc::from(name), column.get().values.clone()))
            .collect();
        Self { columns }
    }

    fn __len__(&self) -> usize {
        self.columns.len()
    }

    fn __getitem__(&self, name: &str) -> PyResult<Column> {
        self.find(name).ok_or_else(|| PyKeyError::new_err(name.to_owned()))
    }

    fn __contains__(&self, name: &Bound<'_, PyAny>) -> bool {
        name.extract::<String>().is_ok_and(|name| self.find(&name).is_some())
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(PyList::new(py, self.keys())?.try_iter()?.into_any())
    }

    /// Returns the names of the columns.
    fn keys(&self) -> Vec<&str> {
        self.columns.iter().map(|(name, _)| &**name).collect()
    }

    /// Returns the columns.
    fn values(&self) -> Vec<Column> {
        self.columns.iter().map(|(_, values)| Column { values: values.clone() }).collect()
    }

    /// Returns the names and the columns.
    fn items(&self) -> Vec<(&str, Column)> {
        self.keys().into_iter().zip(self.values()).collect()
    }

    /// Returns a column, or the default if the table has no such column.
    #[pyo3(signature = (name, default=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match self.find(name) {
            Some(column) => Ok(Bound::new(py, column)?.into_any()),
            None => Ok(default.unwrap_or_else(|| py.None().into_bound(py))),
        }
    }

    /// Splits the rows by the whole numbers in a column, in one pass. Returns the numbers in ascending order,
    /// each with the table of its rows.
    fn split(&self, py: Python<'_>, name: &str) -> PyResult<Vec<(i64, Self)>> {
        let groups = self.__getitem__(name)?;
        let part = |rows: &[usize]| Self {
            columns: self
                .columns
                .iter()
                .map(|(name, values)| (name.clone(), Arc::new(values.take(rows))))
                .collect(),
        };
        let split = || groups.values.group().iter().map(|(at, rows)| (*at, part(rows))).collect();
        Ok(py.detach(split))
    }

    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        if !(other.is_instance_of::<Self>() || other.is_instance_of::<PyDict>())
            || other.len()? != self.columns.len()
        {
            return Ok(false);
        }
        for (name, column) in self.items() {
            if !other.contains(name)? || !column.__eq__(py, &other.get_item(name)?)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn __repr__(&self) -> String {
        let rows = self.columns.first().map_or(0, |(_, values)| values.len());
        format!("<table of {rows} rows: {}>", self.keys().join(", "))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> Reduced<'py, (Vec<(&str, Column)>,)> {
        (py.get_type::<Self>().into_any(), (self.items(),))
    }

    /// Returns the table as an Arrow stream with one batch.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let arrays: Vec<ArrayRef> = self.columns.iter().map(|(_, values)| array(values)).collect();
        let fields: Vec<Field> = self
            .columns
            .iter()
            .zip(&arrays)
            .map(|((name, values), array)| {
                let nullable = matches!(**values, Values::Float(_));
                Field::new(&**name, array.data_type().clone(), nullable)
            })
            .collect();
        let schema = Arc::new(Schema::new(fields));
        let batch =
            RecordBatch::try_new(schema.clone(), arrays).map_err(|error| arrow_error(&error))?;
        let batches = RecordBatchIterator::new([Ok(batch)], schema);
        let stream = FFI_ArrowArrayStream::new(Box::new(batches));
        PyCapsule::new(py, stream, Some(c"arrow_array_stream".to_owned()))
    }
}

/// Adds both classes to the module. They are not registered with `collections.abc`. A data frame that
/// recognises a `Mapping` or a `Sequence` copies it value by value, and does not use Arrow.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Table>()?;
    module.add_class::<Column>()
}

/// Converts a table for Python.
pub(crate) fn table(values: anabranch_trace::Table) -> Table {
    let columns = values
        .columns
        .into_iter()
        .map(|(name, values)| (Arc::from(name), Arc::new(values)))
        .collect();
    Table { columns }
}

/// Converts a trace to `{"summary": ..., "tables": ...}`.
pub(crate) fn to_dict(py: Python<'_>, trace: Trace) -> PyResult<Bound<'_, PyDict>> {
    let summary = PyDict::new(py);
    summary.set_item("world", "simulated")?;
    summary.set_item("digest", &trace.summary.digest)?;
    summary.set_item("duration_s", trace.summary.duration_s)?;
    summary.set_item("steps", trace.summary.steps)?;
    summary.set_item("notes", &trace.summary.notes)?;
    if !trace.summary.standstills.is_empty() {
        let stands = trace.summary.standstills.iter().map(|one| {
            let found = PyDict::new(py);
            found.set_item("message", &one.message)?;
            found.set_item("at_s", one.at_s)?;
            found.set_item("could_send", one.could_send)?;
            Ok(found)
        });
        summary.set_item("standstills", stands.collect::<PyResult<Vec<_>>>()?)?;
    }
    let tables = PyDict::new(py);
    for one in trace.tables {
        tables.set_item(one.name, table(one))?;
    }
    let whole = PyDict::new(py);
    whole.set_item("summary", summary)?;
    whole.set_item("tables", tables)?;
    Ok(whole)
}
