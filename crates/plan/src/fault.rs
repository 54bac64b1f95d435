//! The faults of a plan, and the keys at which they are.

use std::fmt;

use anabranch_link::ConfigError;
use anabranch_media::{LadderError, RecordedFilmError, SyntheticFilmError, SyntheticLadderError};
use anabranch_plugin::PluginError;
use thiserror::Error;

/// A step of a key path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A key of a table.
    Key(String),
    /// An element of an array, from 0.
    Index(usize),
}

impl From<&str> for Step {
    fn from(key: &str) -> Self {
        Self::Key(key.to_owned())
    }
}

impl From<usize> for Step {
    fn from(index: usize) -> Self {
        Self::Index(index)
    }
}

/// The keys that lead to an element of a plan, outermost first: `paths[1].down[0]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyPath(pub Vec<Step>);

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, step) in self.0.iter().enumerate() {
            match step {
                Step::Index(index) => write!(f, "[{index}]")?,
                Step::Key(key) if place == 0 => f.write_str(key)?,
                Step::Key(key) => write!(f, ".{key}")?,
            }
        }
        Ok(())
    }
}

/// The reason why a plan is invalid.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A fault of the element under these keys.
    #[error("{path}: {error}")]
    At {
        /// The keys.
        path: KeyPath,
        /// The fault.
        error: Box<PlanError>,
    },
    /// An invalid film.
    #[error(transparent)]
    Film(#[from] RecordedFilmError),
    /// The text is not the JSON of a plan.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// A ladder that cannot be played.
    #[error(transparent)]
    Ladder(#[from] LadderError),
    /// Invalid parameters of a link.
    #[error(transparent)]
    Link(#[from] ConfigError),
    /// A value is missing or out of range.
    #[error("{0}")]
    Invalid(&'static str),
    /// An invalid name or invalid parameters of a plug-in.
    #[error(transparent)]
    Plugin(#[from] PluginError),
    /// Invalid parameters of a synthetic film.
    #[error(transparent)]
    Synthetic(#[from] SyntheticFilmError),
    /// Invalid parameters of a synthetic ladder.
    #[error(transparent)]
    SyntheticLadder(#[from] SyntheticLadderError),
    /// A link name that does not exist.
    #[error("unknown link: `{0}`")]
    UnknownLink(String),
    /// A profile name that does not exist.
    #[error("unknown profile: `{0}`")]
    UnknownProfile(String),
    /// A name that is not a part of a profile.
    #[error("unknown part of a profile: `{0}`")]
    UnknownPart(String),
    /// A path name that does not exist.
    #[error("unknown path: `{0}`")]
    UnknownPath(String),
}

/// One fault of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanFault {
    /// The keys that lead to the fault; empty for the plan as a whole.
    pub path: KeyPath,
    /// The message.
    pub message: String,
    /// The known names or keys that the author may have meant.
    pub known: Vec<&'static str>,
}

impl PlanError {
    /// Adds an outer key to the fault's path.
    #[must_use]
    pub fn at(self, step: impl Into<Step>) -> Self {
        let step = step.into();
        match self {
            Self::At { mut path, error } => {
                path.0.insert(0, step);
                Self::At { path, error }
            }
            other => Self::At { path: KeyPath(vec![step]), error: Box::new(other) },
        }
    }

    /// Adds an element of an array to the fault's path.
    #[must_use]
    pub fn at_element(self, array: &str, index: usize) -> Self {
        self.at(index).at(array)
    }

    /// Returns all faults, each with the keys that lead to it.
    pub fn faults(&self) -> Vec<PlanFault> {
        match self {
            Self::At { path, error } => {
                let mut faults = error.faults();
                for fault in &mut faults {
                    fault.path.0.splice(0..0, path.0.iter().cloned());
                }
                faults
            }
            Self::Plugin(error) => {
                let keys = |path: &[String]| path.iter().map(|key| Step::from(&**key)).collect();
                let fault = |fault: &anabranch_plugin::PluginFault| PlanFault {
                    path: KeyPath(keys(&fault.path)),
                    message: fault.message.clone(),
                    known: fault.known.clone(),
                };
                error.faults.iter().map(fault).collect()
            }
            other => vec![PlanFault {
                path: KeyPath::default(),
                message: other.to_string(),
                known: Vec::new(),
            }],
        }
    }
}

impl From<serde_path_to_error::Error<serde_json::Error>> for PlanError {
    fn from(error: serde_path_to_error::Error<serde_json::Error>) -> Self {
        use serde_path_to_error::Segment;
        let path: Vec<Step> = error
            .path()
            .iter()
            .filter_map(|segment| match segment {
                Segment::Seq { index } => Some(Step::Index(*index)),
                Segment::Map { key } => Some(Step::Key(key.clone())),
                // A variant's name is its key.
                Segment::Enum { variant } => Some(Step::Key(variant.clone())),
                Segment::Unknown => None,
            })
            .collect();
        let inner = Self::Json(error.into_inner());
        path.into_iter().rev().fold(inner, Self::at)
    }
}
