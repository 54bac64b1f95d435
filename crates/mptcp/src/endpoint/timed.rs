//! A slab of items with wake-up times. Numbers are reused, memory is freed when most items are removed, and
//! the earliest wake-up is found in constant time.

use anabranch_units::{Instant, Schedule};
use slab::Slab;

/// The number of items below which no memory is freed.
const SMALL: usize = 64;

/// The items.
#[derive(Debug)]
pub(super) struct Timed<T> {
    slab: Slab<T>,
    wakes: Schedule,
    /// The largest number of items since memory was last freed.
    most: usize,
}

impl<T> Default for Timed<T> {
    fn default() -> Self {
        Self { slab: Slab::new(), wakes: Schedule::default(), most: 0 }
    }
}

impl<T> Timed<T> {
    pub(super) fn len(&self) -> usize {
        self.slab.len()
    }

    /// Adds an item without a wake-up time. Returns its number: the one freed last, or a new one.
    pub(super) fn insert(&mut self, thing: T) -> usize {
        let number = self.slab.insert(thing);
        while self.wakes.len() <= number {
            self.wakes.add();
        }
        self.most = self.most.max(self.slab.len());
        number
    }

    pub(super) fn remove(&mut self, number: usize) -> Option<T> {
        let thing = self.slab.try_remove(number)?;
        self.wakes.set(number, None);
        if self.slab.is_empty() {
            *self = Self::default();
        } else if self.most > SMALL && self.slab.len() <= self.most / 4 {
            self.most = self.slab.len();
            self.slab.shrink_to_fit();
            let last = self.slab.iter().next_back().map_or(0, |(number, _)| number + 1);
            self.wakes.truncate(last);
        }
        Some(thing)
    }

    #[inline]
    pub(super) fn get(&self, number: usize) -> Option<&T> {
        self.slab.get(number)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, number: usize) -> Option<&mut T> {
        self.slab.get_mut(number)
    }

    /// Returns all items, by number.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (usize, &T)> {
        self.slab.iter()
    }

    /// Sets the wake-up time of an item. `FAR_FUTURE` means never.
    #[inline]
    pub(super) fn set_wake(&mut self, number: usize, at: Instant) {
        self.wakes.set(number, Some(at));
    }

    /// Returns the earliest wake-up time and its item. Of several items with the same time, the lowest number
    /// is returned.
    #[inline]
    pub(super) fn first(&self) -> Option<(Instant, usize)> {
        if self.wakes.is_empty() {
            return None;
        }
        Some(self.wakes.first()).filter(|(at, _)| *at != Instant::FAR_FUTURE)
    }

    /// Returns the earliest wake-up time. `FAR_FUTURE` if no item has one.
    #[inline]
    pub(super) fn wake(&self) -> Instant {
        if self.wakes.is_empty() { Instant::FAR_FUTURE } else { self.wakes.first().0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_given_again_and_memory_goes_back() {
        let at = Instant::from_nanos;
        let mut timed = Timed::default();
        for thing in 0..1000u64 {
            let number = timed.insert(thing);
            timed.set_wake(number, at(2000 - thing));
        }
        assert_eq!(timed.first(), Some((at(1001), 999)));
        for number in (10..1000).rev() {
            assert_eq!(timed.remove(number), Some(number as u64));
        }
        assert_eq!(timed.remove(10), None, "it has gone");
        assert_eq!((timed.len(), timed.first()), (10, Some((at(1991), 9))));
        assert!(timed.slab.capacity() < 1000 && timed.wakes.len() < 1000);
        timed.remove(3);
        assert_eq!(timed.insert(77), 3);
        assert_eq!(timed.first(), Some((at(1991), 9)), "a new one sleeps");
        for number in 0..10 {
            timed.remove(number);
        }
        assert_eq!((timed.len(), timed.first(), timed.slab.capacity()), (0, None, 0));
    }
}
