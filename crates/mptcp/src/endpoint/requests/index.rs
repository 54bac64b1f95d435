//! A compact hash index of record numbers, with open addressing and four bytes per entry. A full table grows
//! by a sixteenth. An entry has the number in its low bits and a part of the hash in its high bits. An
//! unsuccessful lookup therefore rarely compares records.

/// An empty entry.
const EMPTY: u32 = u32::MAX;
/// The smallest size of a table that is not empty.
const FEWEST: usize = 8;

/// The index.
#[derive(Debug, Default)]
pub(super) struct Index {
    places: Vec<u32>,
    len: usize,
    /// The bits of an entry that hold the number. No stored number has all of them set.
    mask: u32,
}

impl Index {
    /// Finds the number under a hash for which `is` returns true.
    pub(super) fn find(&self, hash: u64, is: impl Fn(u32) -> bool) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        let mut place = home(hash, self.places.len());
        while self.places[place] != EMPTY {
            let known = self.places[place];
            if (known ^ hash as u32) & !self.mask == 0 && is(known & self.mask) {
                return Some(known & self.mask);
            }
            place = after(place, self.places.len());
        }
        None
    }

    /// Adds a new number. `hash_of` computes the hash of a stored number.
    pub(super) fn insert(&mut self, hash: u64, number: u32, hash_of: impl Fn(u32) -> u64) {
        // At least a fifth of the entries stays empty, which keeps searches short.
        let places = self.places.len();
        if 5 * (self.len + 1) > 4 * places {
            self.rebuild((places + places / 16 + 2).max(FEWEST), number, &hash_of);
        } else if number >= self.mask {
            self.rebuild(places, number, &hash_of);
        }
        self.insert_at_free(hash, number);
    }

    /// Removes a number.
    pub(super) fn remove(&mut self, hash: u64, number: u32, hash_of: impl Fn(u32) -> u64) {
        let places = self.places.len();
        if places == 0 {
            return;
        }
        let mut gap = home(hash, places);
        while self.places[gap] & self.mask != number {
            if self.places[gap] == EMPTY {
                return;
            }
            gap = after(gap, places);
        }
        // An entry after the gap moves into it if the search for that entry passes the gap.
        let mut place = after(gap, places);
        while self.places[place] != EMPTY {
            let home = home(hash_of(self.places[place] & self.mask), places);
            let (from_home, from_gap) =
                ((place + places - home) % places, (place + places - gap) % places);
            if from_home >= from_gap {
                self.places[gap] = self.places[place];
                gap = place;
            }
            place = after(place, places);
        }
        self.places[gap] = EMPTY;
        self.len -= 1;
        if self.len == 0 {
            *self = Self::default();
        } else if places > FEWEST && self.len < places / 4 {
            self.rebuild((self.len * 3 / 2).max(FEWEST), 0, &hash_of);
        }
    }

    fn rebuild(&mut self, places: usize, number: u32, hash_of: &impl Fn(u32) -> u64) {
        let before = std::mem::replace(&mut self.places, vec![EMPTY; places]);
        let old = self.mask;
        let known = || before.iter().filter(|known| **known != EMPTY).map(|known| known & old);
        let most = known().max().unwrap_or(0).max(number);
        self.mask = u32::MAX >> (most + 1).leading_zeros();
        self.len = 0;
        for number in known() {
            self.insert_at_free(hash_of(number), number);
        }
    }

    fn insert_at_free(&mut self, hash: u64, number: u32) {
        let places = self.places.len();
        let mut place = home(hash, places);
        while self.places[place] != EMPTY {
            place = after(place, places);
        }
        self.places[place] = hash as u32 & !self.mask | number;
        self.len += 1;
    }
}

/// Returns the first position for a hash: its high half, scaled to the table size.
fn home(hash: u64, places: usize) -> usize {
    (((hash >> 32) * places as u64) >> 32) as usize
}

fn after(place: usize, places: usize) -> usize {
    if place + 1 == places { 0 } else { place + 1 }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Returns a hash with at most 16 different positions and two different tags.
    fn crowded(number: u32) -> u64 {
        u64::from(number % 16) << 60 | u64::from(number % 2) << 31
    }

    proptest! {
        #[test]
        fn numbers_are_found_until_they_are_taken_out(
            steps in proptest::collection::vec((0u32..300, any::<bool>()), 1..600),
        ) {
            let mut index = Index::default();
            let mut model = BTreeSet::new();
            for (number, adds) in steps {
                if adds && model.insert(number) {
                    index.insert(crowded(number), number, crowded);
                } else if !adds && model.remove(&number) {
                    index.remove(crowded(number), number, crowded);
                }
                prop_assert_eq!(index.len, model.len());
                let is = |wanted: u32| move |known: u32| known == wanted;
                for number in 0..300 {
                    let found = index.find(crowded(number), is(number));
                    prop_assert_eq!(found, model.get(&number).copied());
                }
            }
            for number in model {
                index.remove(crowded(number), number, crowded);
            }
            prop_assert_eq!(index.places.capacity(), 0);
        }
    }
}
