//! Ranges that do not touch each other. Few ranges are stored in an array, which is fastest. Many are stored
//! in a tree, so that no order of arrival is expensive.

use std::collections::{BTreeMap, VecDeque};

/// The largest number of runs in the array. Eight paths with different delays need several hundred. Moving half of
/// this number takes as long as an insertion into the tree.
const FEW: usize = 1024;

/// The start and end of each run, in ascending order.
#[derive(Debug, Default)]
pub(super) struct Runs {
    /// The array. The array is empty while the tree is in use.
    few: VecDeque<(u64, u64)>,
    /// The tree: the start of each run, by its end. The tree is used after the array was full, until no run
    /// is left.
    many: BTreeMap<u64, u64>,
}

impl Runs {
    pub(super) fn len(&self) -> usize {
        self.few.len() + self.many.len()
    }

    /// Returns the lowest run.
    #[inline]
    pub(super) fn first(&self) -> Option<(u64, u64)> {
        if let Some(first) = self.few.front() {
            return Some(*first);
        }
        if self.many.is_empty() { None } else { self.first_of_many() }
    }

    #[cold]
    fn first_of_many(&self) -> Option<(u64, u64)> {
        self.many.first_key_value().map(|(end, start)| (*start, *end))
    }

    /// Removes the bytes before `start` from the lowest run, which ends at `end`.
    #[inline]
    pub(super) fn cut_first(&mut self, start: u64, end: u64) {
        match self.few.front_mut() {
            Some(_) if start == end => {
                self.few.pop_front();
            }
            Some(first) => first.0 = start,
            None => self.cut_first_of_many(start, end),
        }
    }

    #[cold]
    fn cut_first_of_many(&mut self, start: u64, end: u64) {
        if start == end {
            self.many.remove(&end);
        } else {
            self.many.insert(end, start);
        }
    }

    /// Returns the lowest run that ends at or after `position`.
    pub(super) fn ending_from(&self, position: u64) -> Option<(u64, u64)> {
        if self.many.is_empty() {
            return self.few.get(self.place(position)).copied();
        }
        self.many.range(position..).next().map(|(end, start)| (*start, *end))
    }

    /// Returns the number of runs in the array that end before `position`.
    fn place(&self, position: u64) -> usize {
        match self.few.back() {
            Some(last) if last.1 >= position => {
                self.few.partition_point(|(_, end)| *end < position)
            }
            _ => self.few.len(),
        }
    }

    /// Adds a run that touches no other.
    pub(super) fn insert(&mut self, start: u64, end: u64) {
        if self.few.len() == FEW {
            self.many = self.few.drain(..).map(|(start, end)| (end, start)).collect();
        }
        if !self.many.is_empty() {
            self.many.insert(end, start);
            return;
        }
        let place = self.place(end);
        if place == self.few.len() {
            self.few.push_back((start, end));
        } else {
            self.few.insert(place, (start, end));
        }
    }

    /// Removes the run that ends at `end`.
    pub(super) fn remove(&mut self, end: u64) {
        if !self.many.is_empty() {
            self.many.remove(&end);
            return;
        }
        let place = self.place(end);
        if self.few.get(place).is_some_and(|run| run.1 == end) {
            self.few.remove(place);
        }
    }

    /// Removes the highest run.
    pub(super) fn pop_last(&mut self) -> Option<(u64, u64)> {
        self.few.pop_back().or_else(|| self.many.pop_last().map(|(end, start)| (start, end)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn more_than_a_few_are_in_the_tree_until_none_is_left() {
        let mut runs = Runs::default();
        for i in 0..FEW as u64 {
            runs.insert(10 * i, 10 * i + 5);
        }
        assert_eq!((runs.few.len(), runs.many.len()), (FEW, 0));
        runs.insert(7, 9);
        assert_eq!((runs.few.len(), runs.many.len(), runs.len()), (0, FEW + 1, FEW + 1));
        for _ in 0..=FEW {
            let (_, end) = runs.first().expect("one is left");
            runs.cut_first(end, end);
        }
        assert_eq!((runs.first(), runs.len()), (None, 0));
        runs.insert(1, 2);
        assert_eq!((runs.few.len(), runs.many.len()), (1, 0));
    }

    proptest! {
        #[test]
        fn runs_match_a_sorted_list_at_any_size(
            steps in proptest::collection::vec((0u8..9, 0u64..600), 1..1500),
        ) {
            let mut runs = Runs::default();
            let mut list: Vec<(u64, u64)> = Vec::new();
            for (step, at) in steps {
                match step {
                    0 => {
                        let last = list.pop();
                        prop_assert_eq!(runs.pop_last(), last);
                    }
                    1 if !list.is_empty() => {
                        // Remove the first run or a part of it.
                        let (start, end) = list[0];
                        let cut = (start + at % 4 + 1).min(end);
                        runs.cut_first(cut, end);
                        list[0].0 = cut;
                        list.retain(|run| run.0 < run.1);
                    }
                    2 if !list.is_empty() => {
                        let (_, end) = list.remove(at as usize % list.len());
                        runs.remove(end);
                    }
                    _ if list.iter().all(|run| run.0 / 10 != at) => {
                        list.push((10 * at, 10 * at + 8));
                        list.sort_unstable();
                        runs.insert(10 * at, 10 * at + 8);
                    }
                    _ => {}
                }
                prop_assert_eq!((runs.len(), runs.first()), (list.len(), list.first().copied()));
                let from = list.iter().find(|run| run.1 >= 10 * at).copied();
                prop_assert_eq!(runs.ending_from(10 * at), from);
            }
        }
    }
}
