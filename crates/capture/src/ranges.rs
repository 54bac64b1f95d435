//! Sets of byte ranges.

use std::collections::BTreeMap;

/// The most ranges of a set.
const MOST_RANGES: usize = 65_536;

/// A set of numbers kept as ranges that neither overlap nor touch.
///
/// If there are more than 65,536 ranges, the gap between the lowest two is filled, so that memory stays bounded. A real
/// session has as many gaps as segments in flight.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges {
    ends: BTreeMap<u64, u64>,
}

impl Ranges {
    /// Adds `[start, end)` and returns how many numbers of it are new.
    pub(crate) fn add(&mut self, start: u64, end: u64) -> u64 {
        if start >= end {
            return 0;
        }
        let (mut from, mut to, mut known) = (start, end, 0);
        while let Some((&other_start, &other_end)) = self.ends.range(..=to).next_back() {
            if other_end < from {
                break;
            }
            known += overlap([start, end], [other_start, other_end]);
            from = from.min(other_start);
            to = to.max(other_end);
            self.ends.remove(&other_start);
        }
        self.ends.insert(from, to);
        if self.ends.len() > MOST_RANGES {
            self.fill_lowest_gap();
        }
        end - start - known
    }

    fn fill_lowest_gap(&mut self) {
        if let Some((first, _)) = self.ends.pop_first()
            && let Some((_, end)) = self.ends.pop_first()
        {
            self.ends.insert(first, end);
        }
    }

    /// Returns how many numbers of `[start, end)` are in the set.
    pub(crate) fn count(&self, start: u64, end: u64) -> u64 {
        let mut known = 0;
        for (&other_start, &other_end) in self.ends.range(..end).rev() {
            if other_end <= start {
                break;
            }
            known += overlap([start, end], [other_start, other_end]);
        }
        known
    }

    /// Returns the end of the range that contains `at` or ends there, or `at`.
    pub(crate) fn end_from(&self, at: u64) -> u64 {
        match self.ends.range(..=at).next_back() {
            Some((_, &end)) => end.max(at),
            None => at,
        }
    }

    /// Returns the highest number, plus one.
    pub(crate) fn end(&self) -> Option<u64> {
        self.ends.last_key_value().map(|(_, &end)| end)
    }

    /// Returns how many numbers the set contains.
    pub(crate) fn total(&self) -> u64 {
        self.ends.iter().map(|(start, end)| end - start).sum()
    }
}

fn overlap(left: [u64; 2], right: [u64; 2]) -> u64 {
    left[1].min(right[1]).saturating_sub(left[0].max(right[0]))
}
