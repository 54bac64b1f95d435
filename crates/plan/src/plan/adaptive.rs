//! The plan of adaptive playback: ladder, ABR rule and player.

use std::sync::Arc;

use anabranch_media::{AbrRule, AdaptiveConfig, Ladder, SyntheticLadder, build_abr};
use anabranch_plugin::{PluginChoice, Registry};
use serde::Deserialize;

use crate::fault::PlanError;

/// The source of the ladder.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LadderPlan {
    /// A generated ladder.
    Synthetic(SyntheticLadder),
    /// A ladder read from playlists.
    Recorded(Box<Ladder>),
}

impl LadderPlan {
    /// Checks the ladder, and returns it.
    ///
    /// # Errors
    /// Returns an error for a ladder that cannot be played.
    pub fn ladder(&self) -> Result<Arc<Ladder>, PlanError> {
        let ladder = match self {
            Self::Synthetic(ladder) => Ladder::try_from(ladder)?,
            Self::Recorded(ladder) => (**ladder).clone(),
        };
        ladder.check()?;
        Ok(Arc::new(ladder))
    }
}

/// The player of an adaptive application.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdaptivePlan {
    /// The ABR rule.
    pub abr: PluginChoice,
    /// The player's parameters.
    #[serde(default)]
    pub player: AdaptiveConfig,
}

impl AdaptivePlan {
    /// Builds the ABR rule.
    ///
    /// # Errors
    /// Returns an error for an unknown rule, or for a parameter that is unknown or out of range.
    pub(crate) fn rule(&self, registry: &Registry) -> Result<Box<dyn AbrRule>, PlanError> {
        let built = build_abr(&self.abr, registry);
        built.map_err(|error| PlanError::from(error).at("abr").at("adaptive").at("application"))
    }
}

/// Resolves a ladder. Returns its JSON, as in the key `recorded` of a plan, and the path and text of each
/// playlist. The master playlist is first.
///
/// # Errors
/// Returns an error for an invalid ladder, or one that cannot be played.
pub fn resolve_ladder(plan: &str) -> Result<(String, Vec<(String, String)>), PlanError> {
    let ladder = serde_json::from_str::<LadderPlan>(plan)?;
    let ladder = ladder.ladder().map_err(|error| error.at("ladder"))?;
    let mut playlists = vec![(ladder.master.path.clone(), ladder.master_playlist())];
    for rendition in ladder.renditions.iter().chain(ladder.sounds()) {
        playlists.push((rendition.playlist.path.clone(), rendition.media_playlist()));
    }
    Ok((serde_json::to_string(&*ladder)?, playlists))
}
