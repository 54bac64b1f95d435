//! A tournament tree that finds the record that is due first. Of several records with the same due time, the
//! one with the lowest number wins. The tree stores only the winners' numbers, four bytes per record. Due
//! times are read from the records.

use anabranch_units::Instant;

/// The smallest capacity of a tree, in records.
const FEWEST: usize = 8;

/// The tree. The leaves are the records by number, with the indices after the inner nodes. Node `n` holds the
/// winner of nodes `2n` and `2n + 1`. The root is node 1.
#[derive(Debug, Default)]
pub(super) struct Wakes {
    /// The winners of the inner nodes. The vector is as long as the number of leaves. Entry 0 is unused.
    winners: Vec<u32>,
}

impl Wakes {
    /// Grows the tree to hold `records` records. A leaf of the tree without a record has a due time
    /// in the infinite future.
    pub(super) fn grow(&mut self, records: usize, due: impl Fn(u32) -> Instant) {
        let leaves = self.winners.len();
        if records > leaves {
            self.rebuild(records.max(leaves + leaves / 16).max(FEWEST), due);
        }
    }

    /// Shrinks the tree to `records` records.
    pub(super) fn shrink(&mut self, records: usize, due: impl Fn(u32) -> Instant) {
        self.rebuild(records.max(FEWEST), due);
    }

    fn rebuild(&mut self, leaves: usize, due: impl Fn(u32) -> Instant) {
        self.winners = vec![0; leaves];
        for place in (1..leaves).rev() {
            self.winners[place] = self.play(place, &due);
        }
    }

    /// Returns the record that is due first.
    pub(super) fn first(&self) -> Option<u32> {
        self.winners.get(1).copied()
    }

    /// Updates the tree after the due time of a record changed.
    pub(super) fn update(&mut self, number: u32, due: impl Fn(u32) -> Instant) {
        let leaf = self.winners.len() + number as usize;
        let mut place = leaf / 2;
        while place > 0 {
            self.winners[place] = self.play(place, &due);
            place /= 2;
        }
    }

    fn winner(&self, place: usize) -> u32 {
        let leaf = place.checked_sub(self.winners.len());
        leaf.map_or_else(|| self.winners[place], |leaf| leaf as u32)
    }

    fn play(&self, place: usize, due: &impl Fn(u32) -> Instant) -> u32 {
        let (one, two) = (self.winner(2 * place), self.winner(2 * place + 1));
        if (due(two), two) < (due(one), one) { two } else { one }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_earliest_is_first_whatever_their_number(
            sets in proptest::collection::vec((0usize..70, 1u64..30), 1..200),
            left in 1usize..20,
        ) {
            let mut wakes = Wakes::default();
            let mut times: Vec<Instant> = Vec::new();
            let due = |times: &[Instant], number: u32| {
                times.get(number as usize).copied().unwrap_or(Instant::FAR_FUTURE)
            };
            let first = |times: &[Instant]| {
                (0..times.len()).min_by_key(|number| (times[*number], *number))
            };
            for (number, at) in sets {
                let number = number.min(times.len());
                let at = Instant::from_nanos(at);
                if number == times.len() {
                    times.push(at);
                    wakes.grow(times.len(), |number| due(&times, number));
                }
                times[number] = at;
                wakes.update(number as u32, |number| due(&times, number));
                prop_assert_eq!(wakes.first().map(|it| it as usize), first(&times));
            }
            times.truncate(left);
            wakes.shrink(times.len(), |number| due(&times, number));
            prop_assert_eq!(wakes.first().map(|it| it as usize), first(&times));
        }
    }
}
