//! What the server has: a film, or the files of a ladder.

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_media::{Ladder, Timeline};

use crate::fault::PlanError;
use crate::plan::{FilmPlan, LadderPlan, Plan};

fn timeline(film: &FilmPlan) -> Result<Arc<Timeline>, PlanError> {
    Ok(Arc::new(match film {
        FilmPlan::Synthetic(film) => Timeline::try_from(film)?,
        FilmPlan::Recorded(film) => Timeline::try_from(film)?,
    }))
}

/// What all sessions share; cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Media {
    film: Option<Arc<Timeline>>,
    ladder: Option<Arc<Ladder>>,
    /// The ladder's files with their sizes.
    files: Arc<BTreeMap<String, u64>>,
}

impl Media {
    /// The film and the ladder of a plan.
    pub(crate) fn new(plan: &Plan) -> Result<Self, PlanError> {
        let film =
            plan.film.as_ref().map(timeline).transpose().map_err(|error| error.at("film"))?;
        let ladder = plan.ladder.as_ref().map(LadderPlan::ladder).transpose();
        let ladder = ladder.map_err(|error| error.at("ladder"))?;
        let files = ladder.as_ref().map(|ladder| ladder.files()).unwrap_or_default();
        Ok(Self { film, ladder, files: Arc::new(files) })
    }

    pub(crate) fn film(&self) -> Option<&Arc<Timeline>> {
        self.film.as_ref()
    }

    pub(crate) fn ladder(&self) -> Option<&Arc<Ladder>> {
        self.ladder.as_ref()
    }

    /// The size of a resource that a request names, if the server has it.
    pub(crate) fn size_of(&self, target: &str) -> Option<u64> {
        let path = target.trim_start_matches('/');
        let film = self.film.as_ref().filter(|film| path == film.resource());
        film.map(|film| film.size_bytes()).or_else(|| self.files.get(path).copied())
    }
}
