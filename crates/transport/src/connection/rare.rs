//! What few connections have: memory is taken for it once somebody asks to change it.

use std::ops::{Deref, DerefMut};

/// Something that is most often nothing.
pub(super) trait Nothing: Default + 'static {
    /// What it is until then.
    const NOTHING: &'static Self;
}

/// A value in a box of its own, once there is one.
#[derive(Debug)]
pub(super) struct Rare<T>(Option<Box<T>>);

impl<T> Default for Rare<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Nothing> Deref for Rare<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or(T::NOTHING)
    }
}

impl<T: Nothing> DerefMut for Rare<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }
}
