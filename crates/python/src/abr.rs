//! An ABR rule written in Python.

use anabranch_media::{AbrDecision, AbrRule, AbrView, ChunkSample as Sample, Loading as Download};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::plugged::{Failure, Plugged, shown};
use crate::scheduler::whole;
use crate::views::{ChunkSample, Loading, PlayerView, Rendition};

/// The longest pause in seconds; the player waits no longer.
const LONGEST_PAUSE_S: f64 = 3600.0;

/// The decision to fetch nothing for some time.
#[pyclass(frozen, get_all, module = "anabranch.plugins")]
#[derive(Debug)]
pub(crate) struct Pause {
    wait_s: Py<PyAny>,
}

#[pymethods]
impl Pause {
    #[new]
    fn new(wait_s: Py<PyAny>) -> Self {
        Self { wait_s }
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        format!("Pause({})", shown(self.wait_s.bind(py)))
    }
}

/// An instance of a rule's class, with its methods.
#[derive(Debug)]
pub(crate) struct PythonRule {
    plugged: Plugged,
    choose: Py<PyAny>,
    on_chunk: Option<Py<PyAny>>,
    abandons: Option<Py<PyAny>>,
    /// The renditions as Python objects. They are made at the first call, because a session has one ladder.
    renditions: Option<Py<PyTuple>>,
}

impl PythonRule {
    pub(crate) fn new(py: Python<'_>, plugged: Plugged) -> Option<Self> {
        let choose = plugged.required(py, "choose")?;
        let on_chunk = plugged.optional(py, "on_chunk")?;
        let abandons = plugged.optional(py, "abandons")?;
        Some(Self { plugged, choose, on_chunk, abandons, renditions: None })
    }

    /// Converts a view to its Python object.
    fn player(&mut self, py: Python<'_>, view: &AbrView<'_>) -> PyResult<PlayerView> {
        let renditions = if let Some(known) = &self.renditions {
            known.clone_ref(py)
        } else {
            let all = view.ladder.renditions.iter().map(Rendition::from);
            let all = PyTuple::new(py, all.collect::<Vec<_>>())?.unbind();
            self.renditions.insert(all).clone_ref(py)
        };
        Ok(PlayerView {
            renditions,
            next_chunk: view.next,
            last_rendition: view.last,
            buffer_s: view.buffer_s,
            max_buffer_s: view.max_buffer_s,
        })
    }

    fn call_choose(&mut self, py: Python<'_>, view: &AbrView<'_>) -> Result<AbrDecision, Failure> {
        let player = self.player(py, view)?;
        decision(&self.choose.bind(py).call1((player,))?, view.renditions())
    }

    fn call_abandons(
        &mut self,
        py: Python<'_>,
        view: &AbrView<'_>,
        download: &Download,
    ) -> Result<bool, Failure> {
        let player = self.player(py, view)?;
        let Some(abandons) = &self.abandons else { return Ok(false) };
        let answer = abandons.bind(py).call1((player, Loading::from(download)))?;
        let bad =
            || Failure::Answer(format!("returned {}: expected True or False", shown(&answer)));
        answer.extract().map_err(|_| bad())
    }
}

/// Converts the result of `choose` for a ladder of `renditions`.
fn decision(answer: &Bound<'_, PyAny>, renditions: usize) -> Result<AbrDecision, Failure> {
    let bad = |why: &str| Failure::Answer(format!("returned {}: {why}", shown(answer)));
    if let Ok(pause) = answer.cast::<Pause>() {
        let wait_s: Option<f64> = pause.get().wait_s.bind(answer.py()).extract().ok();
        return wait_s
            .filter(|wait_s| (0.0..=LONGEST_PAUSE_S).contains(wait_s))
            .map(AbrDecision::Wait)
            .ok_or_else(|| bad("wait_s is a number of seconds, 0 to 3600"));
    }
    let chosen = whole(answer).filter(|chosen| *chosen < renditions as u64);
    chosen.map(|chosen| AbrDecision::Fetch(chosen as usize)).ok_or_else(|| {
        let last = renditions - 1;
        bad(&format!("expected the number of a rendition, 0 to {last}, or Pause(...)"))
    })
}

impl AbrRule for PythonRule {
    fn choose(&mut self, view: &AbrView<'_>) -> AbrDecision {
        // After a failure the run ends before the next event.
        const NOTHING: AbrDecision = AbrDecision::Wait(1.0);
        if self.plugged.is_over() {
            return NOTHING;
        }
        Python::attach(|py| {
            let decision = self.call_choose(py, view);
            self.plugged.checked(py, "choose", decision).unwrap_or(NOTHING)
        })
    }

    fn on_chunk(&mut self, sample: &Sample) {
        let Some(method) = self.on_chunk.as_ref().filter(|_| !self.plugged.is_over()) else {
            return;
        };
        Python::attach(|py| {
            let called = method.bind(py).call1((ChunkSample::from(sample),));
            self.plugged.checked(py, "on_chunk", called.map(drop).map_err(Failure::from));
        });
    }

    fn watches(&self) -> bool {
        self.abandons.is_some()
    }

    fn abandons(&mut self, view: &AbrView<'_>, loading: &Download) -> bool {
        if self.plugged.is_over() {
            return false;
        }
        Python::attach(|py| {
            let answer = self.call_abandons(py, view, loading);
            self.plugged.checked(py, "abandons", answer).unwrap_or(false)
        })
    }
}
