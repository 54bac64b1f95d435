//! A keyed hash table without iteration, so that the order of its entries cannot affect any output.

use std::hash::{BuildHasher, Hash};

use hashbrown::HashTable;

use crate::secrets::Keyed;

/// A table with a capacity of at most this many entries keeps its memory.
const SMALL: usize = 64;

/// A hash table with a secret key. A peer without the key cannot choose colliding entries.
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

    /// Inserts or replaces a value.
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

    /// Removes a key if `which` returns true for its value.
    pub(super) fn remove(&mut self, key: &K, which: impl FnOnce(V) -> bool) {
        let Self { entries, keyed } = self;
        let hash = keyed.hash_one(key);
        let Ok(entry) = entries.find_entry(hash, |(known, _)| known == key) else { return };
        if !which(entry.get().1) {
            return;
        }
        entry.remove();
        // Memory is freed when most of the table is empty.
        let (len, capacity) = (entries.len(), entries.capacity());
        if len == 0 {
            *entries = HashTable::new();
        } else if capacity > SMALL && len < capacity / 8 {
            entries.shrink_to(2 * len, |(key, _)| keyed.hash_one(key));
        }
    }
}
