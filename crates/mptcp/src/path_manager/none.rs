//! No path manager: the connection keeps its initial subflow.

use anabranch_plugin::Parameters;
use anabranch_units::Instant;

use super::{Candidate, OpenPath, PathManager};

/// Opens no further subflows.
#[derive(Debug, Default)]
pub struct NoManager;

impl NoManager {
    pub(super) fn build(_parameters: &mut Parameters<'_>) -> Box<dyn PathManager> {
        Box::new(Self)
    }
}

impl PathManager for NoManager {
    fn name(&self) -> &'static str {
        "none"
    }

    fn on_established(
        &mut self,
        _now: Instant,
        _unused: &[Candidate],
        _open: &[OpenPath],
    ) -> Vec<Candidate> {
        Vec::new()
    }
}
