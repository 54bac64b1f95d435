//! Plug-ins that are in no table: classes of another language, found by their names.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use crate::choice::PluginChoice;
use crate::fault::PluginError;
use crate::kind::Kind;
use crate::registry::{Lookup, Registry};

/// Where plug-ins of a kind are looked up that no table has.
pub trait Foreign<K: Kind>: fmt::Debug + Send + Sync {
    /// Builds the plug-in that `choice` names; `None` when the name is not one of these.
    fn build(
        &self,
        choice: &PluginChoice,
        input: K::Input,
    ) -> Option<Result<K::Plugin, PluginError>>;

    /// One of them has failed: whoever runs them is to stop, and ask for the reason.
    fn failed(&self) -> bool;
}

impl Registry {
    /// The same with `foreign` behind a kind's table, in place of another one there.
    #[must_use]
    pub fn with<K: Kind>(&self, foreign: Arc<dyn Foreign<K>>) -> Self {
        self.replacing(Of(foreign))
    }
}

/// What stands behind a kind's table.
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
