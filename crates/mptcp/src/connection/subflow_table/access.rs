//! Access to the subflows of a table. Each access that may change a subflow ends its rest ([`Subflow::poll_ready`]).

use std::ops::{Deref, Index, IndexMut, Range};

use super::Subflows;
use crate::subflow::Subflow;

impl Deref for Subflows {
    type Target = [Subflow];

    #[inline]
    fn deref(&self) -> &[Subflow] {
        &self.list
    }
}

impl Index<usize> for Subflows {
    type Output = Subflow;

    #[inline]
    fn index(&self, index: usize) -> &Subflow {
        &self.list[index]
    }
}

impl IndexMut<usize> for Subflows {
    #[inline]
    fn index_mut(&mut self, index: usize) -> &mut Subflow {
        end_rest(&mut self.list[index])
    }
}

#[inline]
fn end_rest(subflow: &mut Subflow) -> &mut Subflow {
    subflow.end_rest();
    subflow
}

impl Subflows {
    /// Returns the subflow in a slot, to change it.
    #[inline]
    pub(in crate::connection) fn get_mut(&mut self, index: usize) -> Option<&mut Subflow> {
        self.list.get_mut(index).map(end_rest)
    }

    /// Returns the initial subflow, to change it.
    #[inline]
    pub(in crate::connection) fn get_first_mut(&mut self) -> Option<&mut Subflow> {
        self.get_mut(0)
    }

    /// Returns all subflows, to change them.
    #[inline]
    pub(in crate::connection) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Subflow> {
        self.list.iter_mut().map(end_rest)
    }

    /// Returns the subflows whose values for a scheduler may have changed since the last call.
    #[inline]
    pub(in crate::connection) fn poll_changed(&mut self) -> impl Iterator<Item = &Subflow> {
        self.list.iter_mut().filter_map(|subflow| subflow.take_change().then_some(&*subflow))
    }

    /// Returns the first of `slots` whose subflow may have something to send.
    #[inline]
    pub(in crate::connection) fn next_ready(&mut self, slots: Range<usize>) -> Option<usize> {
        let first = slots.start;
        self.list[slots].iter_mut().position(Subflow::poll_ready).map(|step| first + step)
    }
}
