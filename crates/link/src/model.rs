//! The models of varying links, and the table of the models that a scenario may name.
//!
//! Each model has its own file with its settings (as in a plan), its [`ModelKind`] and its behaviour. It also
//! has an entry in [`MODELS`] and a variant of [`Model`].

pub(crate) mod kind;
pub(crate) mod lte;
pub(crate) mod nr;
mod radio;
pub(crate) mod starlink;

use anabranch_units::Seed;

use crate::ConfigError;
use crate::load::{LoadDependentService, LoadDependentTrace};
use crate::service::{Service, Stepwise};
use crate::trace::{Opportunities, Recorded, Trace};

use starlink::Starlink;

pub use kind::{Form, ModelFault, ModelKind, ModelParameter, Usual};
pub use lte::LteModel;
pub use nr::NrModel;
pub use starlink::StarlinkModel;

/// The models that a scenario may name.
pub const MODELS: &[ModelKind] = &[crate::wifi::KIND, lte::KIND, nr::KIND, starlink::KIND];

/// The model of a varying link's rate, delay and loss.
#[derive(Clone, Debug, PartialEq)]
pub enum Model {
    /// A cellular radio.
    Lte(LteModel),
    /// A 5G radio.
    Nr(NrModel),
    /// A constellation of satellites in low Earth orbit.
    Starlink(StarlinkModel),
    /// A recording.
    Trace(Trace),
    /// Two recordings, for light and for heavy load.
    LoadDependent(LoadDependentTrace),
}

impl Model {
    /// Checks whether a link can follow this model.
    ///
    /// # Errors
    ///
    /// Returns an error if a probability lies outside [0, 1] or the mean rate is zero. A trace must serve packets and
    /// must not go back in time.
    pub fn check(&self) -> Result<(), ConfigError> {
        match self {
            Self::Lte(model) => model.check(),
            Self::Nr(model) => model.check(),
            Self::Starlink(model) => model.check(),
            Self::Trace(trace) => trace.check(),
            Self::LoadDependent(trace) => trace.check(),
        }
    }

    /// Creates the service of a link with this name.
    pub(crate) fn service(&self, name: &str, seed: Seed) -> Box<dyn Service + Send> {
        let luck = || seed.stream(&format!("link.{name}.model"));
        let recorded = |trace: &Trace, luck| -> Box<dyn Service + Send> {
            match trace {
                Trace::Steps { steps, repeat } => {
                    Box::new(Stepwise::new(Recorded::new(steps.clone(), *repeat), luck))
                }
                Trace::Opportunities { at, bytes } => {
                    Box::new(Opportunities::new(at.clone(), *bytes))
                }
            }
        };
        match self {
            Self::Lte(model) => Box::new(model.radio(name, seed)),
            Self::Nr(model) => Box::new(model.radio(name, seed)),
            Self::Starlink(model) => {
                Box::new(Stepwise::new(Starlink::new(model, name, seed), luck()))
            }
            Self::Trace(trace) => recorded(trace, luck()),
            Self::LoadDependent(trace) => {
                let light =
                    recorded(&trace.light, seed.stream(&format!("link.{name}.model.light")));
                Box::new(LoadDependentService::new(trace, light, recorded(&trace.heavy, luck())))
            }
        }
    }
}

/// Returns the factor that scales rates with the mean `natural` to the wanted mean; 1 if there is no wanted mean.
pub(crate) fn scale(mean: Option<u64>, natural: f64) -> f64 {
    mean.map_or(1.0, |mean| mean as f64 / natural)
}
