//! The media on the server: a film, or the files of a ladder.

use std::sync::Arc;

use anabranch_host::Files;
use anabranch_media::{Ladder, Timeline};

use crate::fault::PlanError;
use crate::plan::{FilmPlan, LadderPlan, Plan};

fn timeline(film: &FilmPlan) -> Result<Arc<Timeline>, PlanError> {
    Ok(Arc::new(match film {
        FilmPlan::Synthetic(film) => Timeline::try_from(film)?,
        FilmPlan::Recorded(film) => Timeline::try_from(film)?,
    }))
}

/// The media that all sessions share.
pub struct Media {
    /// The film of progressive playback.
    pub film: Option<Arc<Timeline>>,
    /// The ladder of adaptive playback.
    pub ladder: Option<Arc<Ladder>>,
    /// All files with their sizes.
    pub files: Arc<Files>,
}

impl Media {
    /// Builds the film and the ladder of a plan.
    ///
    /// # Errors
    /// Returns an error for a film or a ladder that cannot be played.
    pub fn new(plan: &Plan) -> Result<Self, PlanError> {
        let film =
            plan.film.as_ref().map(timeline).transpose().map_err(|error| error.at("film"))?;
        let ladder = plan.ladder.as_ref().map(LadderPlan::ladder).transpose();
        let ladder = ladder.map_err(|error| error.at("ladder"))?;
        let mut files = ladder.as_ref().map(|ladder| ladder.files()).unwrap_or_default();
        if let Some(film) = &film {
            files.insert(film.resource().clone(), film.size_bytes());
        }
        Ok(Self { film, ladder, files: Arc::new(files) })
    }
}
