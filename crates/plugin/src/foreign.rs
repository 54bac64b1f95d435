//! Plug-ins outside the tables: classes written in another language, found by their names.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use crate::choice::PluginChoice;
use crate::fault::PluginError;
use crate::kind::Kind;
use crate::registry::{Lookup, Registry};

/// A lookup of plug-ins of a kind that are not in its table.
pub trait Foreign<K: Kind>: fmt::Debug + Send + Sync {
    /// Builds the plug-in that `choice` names. Returns `None` if the name is unknown here.
    fn build(
        &self,
        choice: &PluginChoice,
        input: K::Input,
    ) -> Option<Result<K::Plugin, PluginError>>;

    /// Returns whether one of these plug-ins has failed. The caller must then stop the run and
    /// report the error.
    fn failed(&self) -> bool;
}

impl Registry {
    /// Returns a registry with `foreign` as the lookup for names outside a kind's table. It replaces an
    /// earlier lookup of that kind.
    #[must_use]
    pub fn with<K: Kind>(&self, foreign: Arc<dyn Foreign<K>>) -> Self {
        self.replacing(Of(foreign))
    }
}

/// Returns the lookup for names outside a kind's table.
pub(crate) fn foreign<K: Kind>(registry: &Registry) -> Option<&dyn Foreign<K>> {
    registry.find::<Of<K>>().map(|of| &*of.0)
}

#[derive(Debug)]
struct Of<K: Kind>(Arc<dyn Foreign<K>>);

impl<K: Kind> Lookup for Of<K> {
    fn failed(&self) -> bool {
        self.0.failed()
    }

    fn any(&self) -> &dyn Any {
        self
    }
}
