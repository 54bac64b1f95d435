//! Full mesh: a subflow between every pair of addresses (RFC 8684 section 3.2; Linux `fullmesh`).

use anabranch_plugin::Parameters;
use anabranch_units::Instant;

use super::{Candidate, OpenPath, PathManager};

/// Joins every unused pair at once.
#[derive(Debug, Default)]
pub struct FullMesh;

impl FullMesh {
    pub(super) fn build(_parameters: &mut Parameters<'_>) -> Box<dyn PathManager> {
        Box::new(Self)
    }
}

impl PathManager for FullMesh {
    fn name(&self) -> &'static str {
        "full-mesh"
    }

    fn on_established(
        &mut self,
        _now: Instant,
        unused: &[Candidate],
        _open: &[OpenPath],
    ) -> Vec<Candidate> {
        unused.to_vec()
    }

    fn on_announced(
        &mut self,
        _now: Instant,
        pairs: &[Candidate],
        _open: &[OpenPath],
    ) -> Vec<Candidate> {
        pairs.to_vec()
    }
}
