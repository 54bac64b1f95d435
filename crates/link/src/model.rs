//! What links follow, and the table of the models that a scenario may name.
//!
//! A model has its settings as a plan has them, its [`ModelKind`] and what it does in a file of its own; here
//! are its line in the table and its variant.

pub(crate) mod kind;
pub(crate) mod lte;
pub(crate) mod starlink;

use anabranch_units::Seed;

use crate::ConfigError;
use crate::service::{Service, Stepwise};
use crate::trace::{Opportunities, Recorded, Trace};

use lte::Lte;
use starlink::Starlink;

pub use kind::{Form, ModelFault, ModelKind, ModelParameter, Usual};
pub use lte::LteModel;
pub use starlink::StarlinkModel;

/// The models that a scenario may name.
pub const MODELS: &[ModelKind] = &[crate::wifi::KIND, lte::KIND, starlink::KIND];

/// What decides a varying link's rate, delay and loss.
#[derive(Clone, Debug, PartialEq)]
pub enum Model {
    /// A cellular radio.
    Lte(LteModel),
    /// A satellite constellation in low earth orbit.
    Starlink(StarlinkModel),
    /// What was recorded.
    Trace(Trace),
}

impl Model {
    /// Whether a link can follow it.
    ///
    /// # Errors
    ///
    /// A probability outside [0, 1], a mean of zero, or a trace that never serves or runs backwards.
    pub fn check(&self) -> Result<(), ConfigError> {
        match self {
            Self::Lte(model) => model.check(),
            Self::Starlink(model) => model.check(),
            Self::Trace(trace) => trace.check(),
        }
    }

    /// The server of a link of that name.
    pub(crate) fn service(&self, name: &str, seed: Seed) -> Box<dyn Service + Send> {
        let luck = || seed.stream(&format!("link.{name}.model"));
        match self {
            Self::Lte(model) => Box::new(Lte::new(model, name, seed)),
            Self::Starlink(model) => {
                Box::new(Stepwise::new(Starlink::new(model, name, seed), luck()))
            }
            Self::Trace(Trace::Steps { steps, repeat }) => {
                Box::new(Stepwise::new(Recorded::new(steps.clone(), *repeat), luck()))
            }
            Self::Trace(Trace::Opportunities { at, bytes }) => {
                Box::new(Opportunities::new(at.clone(), *bytes))
            }
        }
    }
}

/// The mean of a table of rates under a scale: the factor that gives the wanted mean.
pub(crate) fn scale(mean: Option<u64>, natural: f64) -> f64 {
    mean.map_or(1.0, |mean| mean as f64 / natural)
}
