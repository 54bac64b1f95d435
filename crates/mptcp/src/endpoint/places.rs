//! The table of four-tuples. A look-up finds the subflow, half-open join or TIME-WAIT record for a segment.

use super::lookup::Lookup;
use crate::secrets::{Keyed, Packed};
use anabranch_tcp::config::FourTuple;

/// The receiver of segments with a four-tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A join whose third packet has not arrived.
    HalfOpen {
        slot: u32,
    },
    Subflow {
        slot: u32,
        index: u8,
    },
    TimeWait {
        number: u32,
    },
}

impl Place {
    /// Returns the slot of the connection, or `None` in TIME-WAIT.
    pub(super) fn slot(self) -> Option<u32> {
        match self {
            Self::HalfOpen { slot } | Self::Subflow { slot, .. } => Some(slot),
            Self::TimeWait { .. } => None,
        }
    }
}

/// The number of bits of a position in the cache.
const POSITION_BITS: u32 = 8;
/// The number of cached entries.
const CACHED: usize = 1 << POSITION_BITS;
/// The fraction of the golden ratio, times 2^64 (Knuth, volume 3, section 6.4).
const MIXER: u64 = 0x9e37_79b9_7f4a_7c15;

/// The table of four-tuples.
#[derive(Debug)]
pub(super) struct Places {
    table: Lookup<Packed, Place>,
    /// Entries that were found before, at the position that [`Places::position`] returns. A look-up in this cache needs
    /// no keyed hash. A peer can choose addresses whose entries replace each other here; the table has no such weakness.
    cache: Vec<Option<(Packed, Place)>>,
}

impl Places {
    pub(super) fn new(keyed: Keyed) -> Self {
        Self { table: Lookup::new(keyed), cache: vec![None; CACHED] }
    }

    /// Returns the position of a four-tuple in the cache.
    #[inline]
    fn position(Packed(words): &Packed) -> usize {
        // A multiplication moves the differences of addresses and ports to the highest bits.
        let mixed = words[1] ^ words[3].rotate_left(20) ^ words[4];
        (mixed.wrapping_mul(MIXER) >> (u64::BITS - POSITION_BITS)) as usize
    }

    #[inline]
    pub(super) fn find(&mut self, tuple: &FourTuple) -> Option<Place> {
        let key = Packed::from(tuple);
        match &self.cache[Self::position(&key)] {
            Some((known, place)) if *known == key => Some(*place),
            _ => self.find_packed(key),
        }
    }

    #[inline(never)]
    fn find_packed(&mut self, key: Packed) -> Option<Place> {
        let place = self.table.get(&key)?;
        self.cache[Self::position(&key)] = Some((key, place));
        Some(place)
    }

    /// Like [`Self::find`], but does not change the cache.
    pub(super) fn peek(&self, tuple: &FourTuple) -> Option<Place> {
        self.table.get(&Packed::from(tuple))
    }

    pub(super) fn insert(&mut self, tuple: &FourTuple, place: Place) {
        self.cache[Self::position(&tuple.into())] = None;
        self.table.insert(tuple.into(), place);
    }

    /// Removes a four-tuple if `whose` returns true for its receiver.
    pub(super) fn remove(&mut self, tuple: &FourTuple, whose: impl FnOnce(Place) -> bool) {
        self.cache[Self::position(&tuple.into())] = None;
        self.table.remove(&tuple.into(), whose);
    }
}

#[cfg(test)]
mod tests {
    use anabranch_units::Seed;

    use super::*;
    use crate::secrets::Secrets;

    /// Four-tuples of which many have the same position in the cache.
    fn tuple(number: u16) -> FourTuple {
        FourTuple {
            local: ([10, 0, 0, 1], 80).into(),
            remote: ([10, 0, 0, 2], number % 4 * 1024 + number).into(),
        }
    }

    #[test]
    fn cache_never_differs_from_the_table() {
        let secrets = Secrets::draw(&mut Seed { seed: 1, run: 0 }.stream("secrets"));
        let mut places = Places::new(secrets.tables);
        for number in 0..600 {
            places.insert(&tuple(number), Place::Subflow { slot: u32::from(number), index: 0 });
        }
        for round in 0..3 {
            for number in 0..600 {
                let found = places.find(&tuple(number));
                assert_eq!(found, places.peek(&tuple(number)), "{number} in round {round}");
                assert_eq!(found.is_none(), round > u32::from(number % 3), "{number}");
                if number % 3 == round as u16 {
                    places.remove(&tuple(number), |_| true);
                    assert_eq!(places.find(&tuple(number)), None);
                }
            }
        }
        // A replaced entry is not found in the cache either.
        places.insert(&tuple(2), Place::HalfOpen { slot: 7 });
        assert_eq!(places.find(&tuple(2)), Some(Place::HalfOpen { slot: 7 }));
        places.insert(&tuple(2), Place::TimeWait { number: 9 });
        assert_eq!(places.find(&tuple(2)), Some(Place::TimeWait { number: 9 }));
    }
}
