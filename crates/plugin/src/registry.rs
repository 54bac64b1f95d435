//! The registry, which finds plug-ins in the tables and outside them.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// The tables, and at most one lookup per kind for plug-ins outside the tables.
#[derive(Clone, Debug, Default)]
pub struct Registry(Option<Arc<[Arc<dyn Lookup>]>>);

impl Registry {
    /// The registry of the tables only.
    pub const TABLES: Self = Self(None);

    /// Returns whether a plug-in outside the tables has failed.
    pub fn failed(&self) -> bool {
        self.0.as_ref().is_some_and(|lookups| lookups.iter().any(|lookup| lookup.failed()))
    }

    /// Returns the lookup of this type.
    pub(crate) fn find<T: Lookup>(&self) -> Option<&T> {
        self.lookups().find_map(|lookup| lookup.any().downcast_ref())
    }

    /// Returns a registry with a lookup that replaces any other lookup of its type.
    pub(crate) fn replacing<T: Lookup>(&self, lookup: T) -> Self {
        let others = self.lookups().filter(|other| !other.any().is::<T>()).cloned();
        let one: Arc<dyn Lookup> = Arc::new(lookup);
        Self(Some(others.chain([one]).collect()))
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

/// A lookup for any kind of plug-in.
pub(crate) trait Lookup: Any + fmt::Debug + Send + Sync {
    fn failed(&self) -> bool;
    fn any(&self) -> &dyn Any;
}
