//! Plug-ins that are in no table: classes of another language, found by their names.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use crate::{Kind, PluginChoice, PluginError};

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

/// Where names are looked up: in the tables, and behind them with at most one [`Foreign`] a kind.
#[derive(Clone, Debug, Default)]
pub struct Registry(Option<Arc<[Arc<dyn Lookup>]>>);

impl Registry {
    /// The tables alone.
    pub const TABLES: Self = Self(None);

    /// The same with `foreign` behind a kind's table, in place of another one there.
    #[must_use]
    pub fn with<K: Kind>(&self, foreign: Arc<dyn Foreign<K>>) -> Self {
        let others = self.lookups().filter(|lookup| !lookup.any().is::<Of<K>>()).cloned();
        let one: Arc<dyn Lookup> = Arc::new(Of(foreign));
        Self(Some(others.chain([one]).collect()))
    }

    /// A plug-in that is in no table has failed.
    pub fn failed(&self) -> bool {
        self.0.as_ref().is_some_and(|lookups| lookups.iter().any(|lookup| lookup.failed()))
    }

    pub(crate) fn foreign<K: Kind>(&self) -> Option<&dyn Foreign<K>> {
        let found = self.lookups().find_map(|lookup| lookup.any().downcast_ref::<Of<K>>());
        found.map(|of| &*of.0)
    }

    fn lookups(&self) -> impl Iterator<Item = &Arc<dyn Lookup>> {
        self.0.iter().flat_map(|lookups| lookups.iter())
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

/// A [`Foreign`] whatever its kind.
trait Lookup: fmt::Debug + Send + Sync {
    fn failed(&self) -> bool;
    fn any(&self) -> &dyn Any;
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
