//! Captures for Python.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anabranch_capture::{Analysis, FileError, Frame, Frames, Journal, Pair};
use pyo3::create_exception;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::trace;

create_exception!(_anabranch, CaptureFileError, PyValueError, "The file is no capture.");

/// The number of frames between two calls of `progress`.
const FRAMES_BETWEEN: u64 = 65_536;

/// A file that counts the bytes read from it.
struct Counted {
    file: File,
    bytes: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.bytes.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// Reads a capture and returns `{"json": ..., "tables": ..., "damage": ...}`.
///
/// `json` is an object (docs/guide/capture.md). `tables` contains the values over time. `damage` is a
/// sentence if only a part of the file could be read; otherwise it is None. `progress` is called with the
/// bytes read so far and the bytes of the file.
#[pyfunction]
#[pyo3(signature = (path, progress=None))]
pub(crate) fn read_capture(
    py: Python<'_>,
    path: PathBuf,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'_, PyDict>> {
    let file = File::open(path)?;
    let total = file.metadata()?.len();
    let bytes = Arc::new(AtomicU64::new(0));
    let counted = Counted { file, bytes: Arc::clone(&bytes) };
    let mut analysis = Analysis::default();
    let taken = &mut analysis;
    let damage = py.detach(move || {
        read(
            counted,
            |frame| taken.on_frame(frame),
            || {
                Python::attach(|py| {
                    py.check_signals()?;
                    if let Some(function) = progress.as_ref() {
                        function.call1(py, (bytes.load(Ordering::Relaxed), total))?;
                    }
                    Ok(())
                })
            },
        )
    })?;
    let tables = PyDict::new(py);
    for table in analysis.tables() {
        tables.set_item(table.name, trace::table(table))?;
    }
    let whole = PyDict::new(py);
    whole.set_item("json", analysis.to_json().to_string())?;
    whole.set_item("tables", tables)?;
    whole.set_item("damage", damage)?;
    Ok(whole)
}

/// Matches two captures of the same sessions, and returns `{"json": ..., "tables": ..., "damage": ...}` like
/// `read_capture`. `damage` has a sentence for each file that could be read in part only.
#[pyfunction]
pub(crate) fn match_captures(
    py: Python<'_>,
    first: PathBuf,
    second: PathBuf,
) -> PyResult<Bound<'_, PyDict>> {
    let mut damage = Vec::new();
    let mut journals = Vec::new();
    for path in [first, second] {
        let counted = Counted { file: File::open(path)?, bytes: Arc::default() };
        let mut journal = Journal::default();
        let found = py.detach(|| {
            let report = || {
                Python::attach(|py| {
                    py.check_signals()?;
                    Ok(())
                })
            };
            read(counted, |frame| journal.on_frame(frame), report)
        })?;
        damage.extend(found);
        journals.push(journal);
    }
    let (Some(second), Some(first)) = (journals.pop(), journals.pop()) else {
        return Err(PyValueError::new_err("two files are needed"));
    };
    let pair = py.detach(move || Pair::new(first, second));
    let tables = PyDict::new(py);
    let delays = pair.delays();
    tables.set_item(delays.name, trace::table(delays))?;
    let whole = PyDict::new(py);
    whole.set_item("json", pair.to_json().to_string())?;
    whole.set_item("tables", tables)?;
    whole.set_item("damage", damage)?;
    Ok(whole)
}

/// Reads all frames. An error of `report`, which is called from time to time, ends the reading. Returns why the file
/// could be read in part only.
fn read(
    input: Counted,
    mut take: impl FnMut(&Frame<'_>),
    mut report: impl FnMut() -> PyResult<()>,
) -> PyResult<Option<String>> {
    let refused = |error: FileError| match error {
        FileError::Read(error) => PyOSError::new_err(error.to_string()),
        other => CaptureFileError::new_err(other.to_string()),
    };
    let mut frames = Frames::open(input).map_err(refused)?;
    let mut count = 0;
    loop {
        match frames.next_frame() {
            Ok(Some(frame)) => take(&frame),
            Ok(None) => return Ok(None),
            Err(FileError::Read(error)) => return Err(PyOSError::new_err(error.to_string())),
            Err(damage) => return Ok(Some(damage.to_string())),
        }
        count += 1;
        if count % FRAMES_BETWEEN == 0 {
            report()?;
        }
    }
}
