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

/// The table of four-tuples.
#[derive(Debug)]
pub(super) struct Places {
    table: Lookup<Packed, Place>,
    /// The two entries found last. A look-up checks these first, because segments of one subflow often arrive
    /// back to back.
    recent: [Option<(Packed, Place)>; 2],
}

impl Places {
    pub(super) fn new(keyed: Keyed) -> Self {
        Self { table: Lookup::new(keyed), recent: [None; 2] }
    }

    #[inline]
    pub(super) fn find(&mut self, tuple: &FourTuple) -> Option<Place> {
        let key = Packed::from(tuple);
        for (known, place) in self.recent.iter().flatten() {
            if *known == key {
                return Some(*place);
            }
        }
        self.find_packed(key)
    }

    #[inline(never)]
    fn find_packed(&mut self, key: Packed) -> Option<Place> {
        let place = self.table.get(&key)?;
        self.recent = [Some((key, place)), self.recent[0]];
        Some(place)
    }

    /// Like [`Self::find`], but does not change the cache.
    pub(super) fn peek(&self, tuple: &FourTuple) -> Option<Place> {
        self.table.get(&Packed::from(tuple))
    }

    pub(super) fn insert(&mut self, tuple: &FourTuple, place: Place) {
        self.recent = [None; 2];
        self.table.insert(tuple.into(), place);
    }

    /// Removes a four-tuple if `whose` returns true for its receiver.
    pub(super) fn remove(&mut self, tuple: &FourTuple, whose: impl FnOnce(Place) -> bool) {
        self.recent = [None; 2];
        self.table.remove(&tuple.into(), whose);
    }
}
