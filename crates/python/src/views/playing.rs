//! The values that an ABR rule receives.

use anabranch_media::{self as media, ChunkSample as Sample};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

use super::Settle;

view! {
    /// A rendition of the ladder.
    Rendition {
        /// The rendition's name.
        name: String = String::new(),
        /// The declared peak rate, including audio, Mb/s.
        peak_mbps: f64 = 1.0,
        /// The declared mean rate, or the peak rate if none is declared, Mb/s.
        mean_mbps: f64 = 1.0,
        /// Width of the picture, pixels; 0 if it is not declared.
        width: u32 = 0,
        /// Height of the picture, pixels; 0 if it is not declared.
        height: u32 = 0,
        /// The playing time of each chunk, s.
        chunk_s: Vec<f64> = Vec::new(),
        /// The size of each chunk, bytes.
        chunk_bytes: Vec<u64> = Vec::new(),
    }
}

impl Settle for Rendition {}

impl From<&media::Rendition> for Rendition {
    fn from(rendition: &media::Rendition) -> Self {
        let chunks = &rendition.chunks;
        Self {
            name: rendition.name.clone(),
            peak_mbps: rendition.bandwidth_bps as f64 / 1e6,
            mean_mbps: rendition.mean_bps() / 1e6,
            width: rendition.width,
            height: rendition.height,
            chunk_s: chunks.iter().map(|chunk| chunk.duration().as_secs_f64()).collect(),
            chunk_bytes: chunks.iter().map(|chunk| chunk.bytes).collect(),
        }
    }
}

view! {
    /// The measurements of a finished or abandoned download of a chunk.
    ChunkSample {
        /// The index of the rendition.
        rendition: usize = 0,
        /// Bytes received.
        received_bytes: u64 = 500_000,
        /// Time from the request to the first byte, s.
        first_byte_s: f64 = 0.0,
        /// Time from the request to the last byte, or until the download was abandoned, s.
        fetch_s: f64 = 1.0,
        /// The playing time of the chunk, s.
        duration_s: f64 = 4.0,
        /// The rate since the request, Mb/s; None if the download took no time.
        throughput_mbps: Option<f64> = None,
    }
}

impl ChunkSample {
    fn mbps(&self) -> Option<f64> {
        (self.fetch_s > 0.0).then(|| self.received_bytes as f64 * 8.0 / self.fetch_s / 1e6)
    }
}

impl Settle for ChunkSample {
    fn settle(&mut self) {
        self.throughput_mbps = self.mbps();
    }
}

impl From<&Sample> for ChunkSample {
    fn from(sample: &Sample) -> Self {
        let mut view = Self {
            rendition: sample.rendition,
            received_bytes: sample.bytes,
            first_byte_s: sample.first_byte_s,
            fetch_s: sample.fetch_s,
            duration_s: sample.duration_s,
            throughput_mbps: None,
        };
        view.settle();
        view
    }
}

view! {
    /// A chunk that is being downloaded.
    Loading {
        /// The index of the rendition.
        rendition: usize = 0,
        /// The playing time of the chunk, s.
        duration_s: f64 = 4.0,
        /// The size of the chunk, bytes.
        size_bytes: u64 = 500_000,
        /// Bytes received so far.
        received_bytes: u64 = 0,
        /// Time since the request, s.
        since_s: f64 = 0.0,
        /// Time from the request to the first byte, s; None before that byte.
        first_byte_s: Option<f64> = None,
    }
}

impl Settle for Loading {}

impl From<&media::Loading> for Loading {
    fn from(loading: &media::Loading) -> Self {
        Self {
            rendition: loading.rendition,
            duration_s: loading.duration_s,
            size_bytes: loading.bytes,
            received_bytes: loading.received,
            since_s: loading.since_s,
            first_byte_s: loading.first_byte_s,
        }
    }
}

/// The state of the player when a rendition is chosen.
#[pyclass(frozen, get_all, module = "anabranch.plugins")]
#[derive(Debug)]
pub(crate) struct PlayerView {
    /// The renditions of the ladder, the lowest rate first.
    pub(crate) renditions: Py<PyTuple>,
    /// The index of the chunk for which a rendition is chosen.
    pub(crate) next_chunk: usize,
    /// The rendition of the previous chunk; None for the first chunk.
    pub(crate) last_rendition: Option<usize>,
    /// The duration of the film that was received and not yet shown, s.
    pub(crate) buffer_s: f64,
    /// The largest buffer that the player allows, s.
    pub(crate) max_buffer_s: f64,
}

#[pymethods]
impl PlayerView {
    #[new]
    #[pyo3(signature = (renditions, *, next_chunk=0, last_rendition=None, buffer_s=0.0, max_buffer_s=30.0))]
    fn new(
        py: Python<'_>,
        renditions: Vec<Rendition>,
        next_chunk: usize,
        last_rendition: Option<usize>,
        buffer_s: f64,
        max_buffer_s: f64,
    ) -> PyResult<Self> {
        let renditions = PyTuple::new(py, renditions)?.unbind();
        Ok(Self { renditions, next_chunk, last_rendition, buffer_s, max_buffer_s })
    }

    /// Returns the highest rendition whose peak rate is at most `mbps`. If none is, returns the lowest.
    fn highest_within(&self, py: Python<'_>, mbps: f64) -> PyResult<usize> {
        for (index, one) in self.renditions.bind(py).iter().enumerate().rev() {
            if one.cast::<Rendition>()?.get().peak_mbps <= mbps {
                return Ok(index);
            }
        }
        Ok(0)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let last = self.last_rendition.map_or_else(|| "None".to_owned(), |last| last.to_string());
        Ok(format!(
            "PlayerView(renditions={}, next_chunk={}, last_rendition={last}, buffer_s={:?}, max_buffer_s={:?})",
            self.renditions.bind(py).repr()?,
            self.next_chunk,
            self.buffer_s,
            self.max_buffer_s,
        ))
    }
}
