//! Where segments between two addresses belong, found in one step whether or not they belong to anybody.
//!
//! The table is keyed by a secret (SipHash-1-3), so that nobody can choose addresses that collide, and it is
//! never walked: its order reaches no output.

use std::hash::Hash;

use hashbrown::HashMap;

use crate::config::FourTuple;
use crate::secrets::{Keyed, Packed};

/// Tables of fewer entries keep the memory they have.
const SMALL: usize = 64;

/// Whose a four-tuple is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A join that waits for its third packet.
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
    /// The connection.
    pub(super) fn slot(self) -> Option<u32> {
        match self {
            Self::HalfOpen { slot } | Self::Subflow { slot, .. } => Some(slot),
            Self::TimeWait { .. } => None,
        }
    }
}

/// The table.
#[derive(Debug)]
pub(super) struct Places {
    table: HashMap<Packed, Place, Keyed>,
    /// The last that were found: packets come in trains.
    recent: [Option<(Packed, Place)>; 2],
}

impl Places {
    pub(super) fn new(keyed: Keyed) -> Self {
        Self { table: HashMap::with_hasher(keyed), recent: [None; 2] }
    }

    #[inline(always)]
    pub(super) fn find(&mut self, tuple: &FourTuple) -> Option<Place> {
        let key = Packed::from(tuple);
        for (known, place) in self.recent.iter().flatten() {
            if *known == key {
                return Some(*place);
            }
        }
        self.look_up(key)
    }

    #[inline(never)]
    fn look_up(&mut self, key: Packed) -> Option<Place> {
        let place = *self.table.get(&key)?;
        self.recent = [Some((key, place)), self.recent[0]];
        Some(place)
    }

    /// As [`Self::find`], for one look.
    pub(super) fn peek(&self, tuple: &FourTuple) -> Option<Place> {
        self.table.get(&Packed::from(tuple)).copied()
    }

    pub(super) fn insert(&mut self, tuple: &FourTuple, place: Place) {
        self.recent = [None; 2];
        self.table.insert(tuple.into(), place);
    }

    /// Forgets a four-tuple if it is `whose`.
    pub(super) fn remove(&mut self, tuple: &FourTuple, whose: impl FnOnce(Place) -> bool) {
        let key = Packed::from(tuple);
        if self.table.get(&key).is_some_and(|place| whose(*place)) {
            self.recent = [None; 2];
            self.table.remove(&key);
            shrink(&mut self.table);
        }
    }
}

/// Gives memory back when most of a table is empty.
pub(super) fn shrink<K: Eq + Hash, V>(table: &mut HashMap<K, V, Keyed>) {
    if table.is_empty() {
        table.shrink_to_fit();
    } else if table.capacity() > SMALL && table.len() < table.capacity() / 8 {
        table.shrink_to(2 * table.len());
    }
}
