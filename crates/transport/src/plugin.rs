//! How plug-ins are named and parameterised: each owns its parameters and refuses unknown keys.

mod choice;
mod parameters;

use std::fmt;
use std::sync::Arc;

use anabranch_units::RandomStream;
use thiserror::Error;

use crate::congestion::CongestionController;
use crate::scheduler::PathScheduler;

pub use choice::{LEVELS, PluginChoice, Value, too_deep};
pub use parameters::{ParameterInfo, Parameters};

/// A plug-in's name and the first sentence of its documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PluginName {
    /// The name used in scenarios.
    pub name: &'static str,
    /// What it is, in one sentence.
    pub summary: &'static str,
    /// What whoever shows a result of it has to say with it.
    pub note: Option<&'static str>,
}

impl PluginName {
    pub(crate) const fn new(name: &'static str, summary: &'static str) -> Self {
        Self { name, summary, note: None }
    }

    pub(crate) const fn with_note(self, note: &'static str) -> Self {
        Self { note: Some(note), ..self }
    }
}

/// One thing that is wrong with a plug-in's name or parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginFault {
    /// The keys that lead there: empty for the plug-in itself, `["base", "lambda"]` for a parameter
    /// of its base.
    pub path: Vec<String>,
    /// What is wrong.
    pub message: String,
    /// What could have been meant: the names or keys there are.
    pub known: Vec<&'static str>,
}

/// Everything that is wrong with a plug-in's name and parameters.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}", .faults.iter().map(|fault| fault.message.as_str()).collect::<Vec<_>>().join("; "))]
pub struct PluginError {
    /// At least one.
    pub faults: Vec<PluginFault>,
}

impl PluginError {
    pub(crate) fn one(path: &[&str], message: String, known: Vec<&'static str>) -> Self {
        let path = path.iter().map(|key| (*key).to_owned()).collect();
        Self { faults: vec![PluginFault { path, message, known }] }
    }

    /// No `kind` is called `name`.
    pub(crate) fn unknown_name(
        kind: &str,
        name: &str,
        known: impl Iterator<Item = PluginName>,
    ) -> Self {
        Self::one(&[], format!("unknown {kind}: `{name}`"), known.map(|known| known.name).collect())
    }
}

/// Plug-ins that are in no table: classes of another language, found by their names.
pub trait Foreign: fmt::Debug + Send + Sync {
    /// Builds the scheduler that `choice` names; `None` when the name is not one of these.
    fn scheduler(
        &self,
        choice: &PluginChoice,
    ) -> Option<Result<Box<dyn PathScheduler>, PluginError>>;

    /// Builds the controller that `choice` names; `None` when the name is not one of these.
    fn congestion(
        &self,
        choice: &PluginChoice,
        random: RandomStream,
    ) -> Option<Result<Box<dyn CongestionController>, PluginError>>;

    /// One of them has failed: whoever runs the endpoint is to stop, and ask for the reason.
    fn failed(&self) -> bool;
}

/// Where names are looked up that no table has.
#[derive(Clone, Debug, Default)]
pub struct Registry(Option<Arc<dyn Foreign>>);

impl Registry {
    /// The registry that finds the plug-ins of the tables alone.
    pub const TABLES: Self = Self(None);

    /// The tables, and behind them `foreign`.
    pub fn with(foreign: Arc<dyn Foreign>) -> Self {
        Self(Some(foreign))
    }

    /// Whether a plug-in that is in no table has failed.
    pub fn failed(&self) -> bool {
        self.0.as_ref().is_some_and(|foreign| foreign.failed())
    }

    pub(crate) fn foreign(&self) -> Option<&dyn Foreign> {
        self.0.as_deref()
    }
}

impl PartialEq for Registry {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(one), Some(two)) => Arc::ptr_eq(one, two),
            _ => false,
        }
    }
}
