//! A table that is asked and never walked: its order, which its secret decides, reaches no output.

use std::hash::{BuildHasher, Hash};

use hashbrown::HashTable;

use crate::secrets::Keyed;

/// Tables of fewer entries keep the memory they have.
const SMALL: usize = 64;

/// The table. Nobody without its secret can choose keys that collide.
#[derive(Debug)]
pub(super) struct Lookup<K, V> {
    entries: HashTable<(K, V)>,
    keyed: Keyed,
}

impl<K: Hash + Eq, V: Copy> Lookup<K, V> {
    pub(super) fn new(keyed: Keyed) -> Self {
        Self { entries: HashTable::new(), keyed }
    }

    #[inline]
    pub(super) fn get(&self, key: &K) -> Option<V> {
        let found = self.entries.find(self.keyed.hash_one(key), |(known, _)| known == key);
        found.map(|(_, value)| *value)
    }

    pub(super) fn contains(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    /// Puts a value under a key, in the place of another one if there is.
    pub(super) fn insert(&mut self, key: K, value: V) {
        let Self { entries, keyed } = self;
        let hash = keyed.hash_one(&key);
        match entries.find_mut(hash, |(known, _)| *known == key) {
            Some((_, known)) => *known = value,
            None => {
                entries.insert_unique(hash, (key, value), |(key, _)| keyed.hash_one(key));
            }
        }
    }

    /// Forgets a key whose value is one of `which`.
    pub(super) fn remove(&mut self, key: &K, which: impl FnOnce(V) -> bool) {
        let Self { entries, keyed } = self;
        let hash = keyed.hash_one(key);
        let Ok(entry) = entries.find_entry(hash, |(known, _)| known == key) else { return };
        if !which(entry.get().1) {
            return;
        }
        entry.remove();
        // Memory goes back when most of the table is empty.
        let (len, capacity) = (entries.len(), entries.capacity());
        if len == 0 {
            *entries = HashTable::new();
        } else if capacity > SMALL && len < capacity / 8 {
            entries.shrink_to(2 * len, |(key, _)| keyed.hash_one(key));
        }
    }
}
