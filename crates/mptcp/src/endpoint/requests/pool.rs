//! The records of one address family, indexed by number. Freed numbers are reused in last-in, first-out
//! order. Memory is freed after most records were removed.

use anabranch_units::Instant;

use super::ends::{Ends, Peer};
use super::index::Index;
use super::locals::Locals;
use super::record::SynRecord;
use super::wakes::Wakes;
use crate::secrets::Keyed;

/// The number of records per page, a power of two. Allocation by pages limits the unused memory.
const PAGE: usize = 64;
/// An invalid number that marks the end of the free list.
const NOBODY: u32 = u32::MAX;

/// The record of one SYN.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record<P> {
    peer: P,
    pub(super) kept: SynRecord,
}

/// The records by number, and the values that they share.
#[derive(Debug)]
struct Records<P> {
    /// Pages of records. All pages except the last have their full length.
    pages: Vec<Vec<Record<P>>>,
    /// The local addresses.
    locals: Locals,
    /// The time of the latest SYN or SYN/ACK.
    seen: Instant,
}

/// The records, with their index and timers.
#[derive(Debug)]
pub(super) struct Pool<P> {
    records: Records<P>,
    index: Index,
    wakes: Wakes,
    keyed: Keyed,
    len: usize,
    /// The head of the free list. A free record stores the next free number in place of its sequence number.
    free: u32,
    /// The largest number of records since memory was last freed.
    most: usize,
    /// The due time of the first record.
    next: Instant,
}

impl<P: Peer> Pool<P> {
    pub(super) fn new(keyed: Keyed) -> Self {
        let locals = Locals::new(keyed);
        Self {
            records: Records { pages: Vec::new(), locals, seen: Instant::ZERO },
            index: Index::default(),
            wakes: Wakes::default(),
            keyed,
            len: 0,
            free: NOBODY,
            most: 0,
            next: Instant::FAR_FUTURE,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the due time of the first record. `FAR_FUTURE` if there are none.
    #[inline]
    pub(super) fn wake(&self) -> Instant {
        self.next
    }

    /// Returns the record that is due first, and its due time.
    #[inline]
    pub(super) fn first(&self) -> Option<(Instant, u32)> {
        if self.next == Instant::FAR_FUTURE {
            return None;
        }
        self.wakes.first().map(|number| (self.next, number))
    }

    pub(super) fn find(&self, ends: &Ends<P>) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        let is = |number| self.records.has(number, ends);
        self.index.find(P::keyed_hash(ends, self.keyed), is)
    }

    /// Returns the four-tuple of a record, its listener, and the SYN.
    pub(super) fn get(&self, number: u32) -> Option<(Ends<P>, u32, SynRecord)> {
        let (ends, listener) = self.records.ends(number)?;
        Some((ends, listener, self.records.get(number)?.kept))
    }

    /// Returns the numbers of all records of a listener.
    pub(super) fn of_listener(&self, listener: u32) -> Vec<u32> {
        let all = 0..self.records.made() as u32;
        let own = |number: &u32| self.records.ends(*number).is_some_and(|it| it.1 == listener);
        all.filter(own).collect()
    }

    /// Adds a record. `due` computes the due time of any record from its listener, its SYN, and the time
    /// of the latest SYN or SYN/ACK.
    pub(super) fn insert(
        &mut self,
        now: Instant,
        ends: &Ends<P>,
        listener: u32,
        mut kept: SynRecord,
        due: impl Fn(u32, &SynRecord, Instant) -> Instant,
    ) -> u32 {
        self.records.seen = self.records.seen.max(now);
        kept.own = self.records.locals.add(ends.own, listener);
        kept.port = ends.port;
        let number = self.insert_record(Record { peer: ends.peer, kept });
        self.len += 1;
        self.most = self.most.max(self.len);
        let Self { records, index, wakes, keyed, .. } = self;
        let hash = |number| records.hash(*keyed, number);
        index.insert(P::keyed_hash(ends, *keyed), number, hash);
        wakes.grow(records.made(), |number| records.due_at(number, &due));
        self.update_wake(number, due);
        number
    }

    /// Stores a record at a free number, or after the last record.
    fn insert_record(&mut self, record: Record<P>) -> u32 {
        let number = self.free;
        if let Some(free) = self.records.get_mut(number) {
            self.free = free.kept.peer.0;
            *free = record;
            return number;
        }
        let pages = &mut self.records.pages;
        let room = pages.last().is_some_and(|page| page.len() < PAGE);
        if !room {
            // The first page grows gradually, because most hosts never need a second one.
            let size = if pages.is_empty() { 1 } else { PAGE };
            if pages.len() == pages.capacity() {
                pages.reserve_exact(pages.len() / 8 + 1);
            }
            pages.push(Vec::with_capacity(size));
        }
        if let Some(page) = pages.last_mut() {
            page.push(record);
        }
        self.records.made() as u32 - 1
    }

    /// Changes a record and updates its timer.
    pub(super) fn update(
        &mut self,
        now: Instant,
        number: u32,
        change: impl FnOnce(&mut SynRecord),
        due: impl Fn(u32, &SynRecord, Instant) -> Instant,
    ) {
        self.records.seen = self.records.seen.max(now);
        if let Some(record) = self.records.get_mut(number) {
            change(&mut record.kept);
            self.update_wake(number, due);
        }
    }

    /// Removes a record. Returns false if the record does not exist.
    pub(super) fn remove(
        &mut self,
        number: u32,
        due: impl Fn(u32, &SynRecord, Instant) -> Instant,
    ) -> bool {
        let Some((ends, _, kept)) = self.get(number) else { return false };
        let Self { records, index, keyed, .. } = self;
        index.remove(P::keyed_hash(&ends, *keyed), number, |number| records.hash(*keyed, number));
        records.locals.remove(kept.own);
        if let Some(gone) = records.get_mut(number) {
            gone.kept = SynRecord::NOTHING;
            gone.kept.peer.0 = self.free;
        }
        self.free = number;
        self.len -= 1;
        if self.len == 0 {
            *self = Self::new(self.keyed);
        } else {
            self.update_wake(number, &due);
            if self.most > PAGE && self.len <= self.most / 4 {
                self.shrink(due);
            }
        }
        true
    }

    /// Frees the memory after the last used record.
    fn shrink(&mut self, due: impl Fn(u32, &SynRecord, Instant) -> Instant) {
        let records = &mut self.records;
        let there = (0..records.made() as u32).rev().find(|number| records.get(*number).is_some());
        let last = there.map_or(0, |number| number as usize + 1);
        records.pages.truncate(last.div_ceil(PAGE));
        records.pages.shrink_to_fit();
        if let Some(page) = records.pages.last_mut() {
            page.truncate((last - 1) % PAGE + 1);
        }
        records.locals.shrink();
        // Rebuilds the free list so that the lowest number is reused first.
        self.free = NOBODY;
        for number in (0..last as u32).rev() {
            if let Some(gone) = records.get_mut(number)
                && !gone.kept.exists()
            {
                gone.kept.peer.0 = self.free;
                self.free = number;
            }
        }
        self.most = self.len;
        let Self { records, wakes, .. } = self;
        wakes.shrink(last, |number| records.due_at(number, &due));
    }

    fn update_wake(&mut self, number: u32, due: impl Fn(u32, &SynRecord, Instant) -> Instant) {
        let Self { records, wakes, .. } = self;
        let at = |number| records.due_at(number, &due);
        wakes.update(number, at);
        self.next = wakes.first().map_or(Instant::FAR_FUTURE, at);
    }
}

impl<P: Peer> Records<P> {
    /// Returns the number of records, used or free.
    fn made(&self) -> usize {
        let pages = &self.pages;
        pages.last().map_or(0, |page| (pages.len() - 1) * PAGE + page.len())
    }

    fn get(&self, number: u32) -> Option<&Record<P>> {
        let (page, place) = at(number);
        self.pages.get(page)?.get(place).filter(|record| record.kept.exists())
    }

    fn get_mut(&mut self, number: u32) -> Option<&mut Record<P>> {
        let (page, place) = at(number);
        self.pages.get_mut(page)?.get_mut(place)
    }

    /// Returns the four-tuple of a record and its listener.
    fn ends(&self, number: u32) -> Option<(Ends<P>, u32)> {
        let record = self.get(number)?;
        let (own, listener) = self.locals.get(record.kept.own)?;
        Some((Ends { own, peer: record.peer, port: record.kept.port }, listener))
    }

    fn has(&self, number: u32, ends: &Ends<P>) -> bool {
        self.ends(number).is_some_and(|(known, _)| known == *ends)
    }

    fn hash(&self, keyed: Keyed, number: u32) -> u64 {
        self.ends(number).map_or(0, |(ends, _)| P::keyed_hash(&ends, keyed))
    }

    fn due_at(&self, number: u32, due: impl Fn(u32, &SynRecord, Instant) -> Instant) -> Instant {
        let Some(Record { kept, .. }) = self.get(number) else { return Instant::FAR_FUTURE };
        let listener = self.locals.get(kept.own).map_or(NOBODY, |(_, listener)| listener);
        due(listener, kept, self.seen)
    }
}

/// Returns the page of a record and its index there.
fn at(number: u32) -> (usize, usize) {
    let number = number as usize;
    (number / PAGE, number % PAGE)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use anabranch_units::{Seed, SeqNumber};
    use anabranch_wire::Segment;
    use proptest::prelude::*;

    use super::super::ends::{Own, V4, V6};
    use super::*;
    use crate::config::Config;
    use crate::secrets::Secrets;

    /// The four-tuple of a number, with one of three local addresses.
    fn ends(number: u32) -> Ends<V4> {
        let ip = [0, 0xffff_0a00_0000 | u64::from(number % 3)];
        Ends { own: Own { ip, zone: 0, port: 80 }, peer: number / 7, port: number as u16 }
    }

    /// A record whose due time is `at` nanoseconds.
    fn kept(at: u64) -> SynRecord {
        let now = Instant::from_nanos(at);
        SynRecord::new(now, &Segment::default(), &Config::default(), (0, 1), SeqNumber(0))
    }

    fn pool() -> Pool<V4> {
        let secrets = Secrets::draw(&mut Seed { seed: 1, run: 0 }.stream("secrets"));
        Pool::new(secrets.tables)
    }

    /// A time after all due times.
    const LATE: Instant = Instant::from_nanos(1_000_000);

    fn add(pool: &mut Pool<V4>, number: u32, at: u64) -> u32 {
        pool.insert(LATE, &ends(number), 0, kept(at), due)
    }

    /// Uses the creation time of a record as its due time.
    fn due(_listener: u32, kept: &SynRecord, seen: Instant) -> Instant {
        kept.sent_at(seen)
    }

    #[test]
    fn a_record_is_as_small_as_its_parts() {
        assert_eq!((size_of::<Record<V4>>(), size_of::<Record<V6>>()), (40, 52));
    }

    #[test]
    fn numbers_are_given_again_and_memory_goes_back() {
        let mut pool = pool();
        for number in 0..1000 {
            assert_eq!(add(&mut pool, number, 2000 - u64::from(number)), number);
        }
        assert_eq!(pool.first(), Some((Instant::from_nanos(1001), 999)));
        for number in (10..1000).rev() {
            assert_eq!(pool.get(number).map(|(known, ..)| known), Some(ends(number)));
            assert!(pool.remove(number, due));
        }
        assert!(!pool.remove(10, due), "it has gone");
        assert_eq!((pool.len(), pool.first()), (10, Some((Instant::from_nanos(1991), 9))));
        assert!(pool.records.pages.len() <= 1000 / 4 / PAGE + 1);
        pool.remove(3, due);
        pool.remove(5, due);
        assert_eq!(add(&mut pool, 77, 3000), 5, "the last one first");
        assert_eq!(add(&mut pool, 78, 3000), 3);
        for number in 0..10 {
            pool.remove(number, due);
        }
        let pages = pool.records.pages.capacity();
        assert_eq!((pool.len(), pool.first(), pages), (0, None, 0));
    }

    proptest! {
        /// Compares the pool with a sorted list.
        #[test]
        fn it_is_as_a_list(
            steps in proptest::collection::vec((0u32..400, 0u64..40, 0u8..5), 1..900),
        ) {
            let mut pool = pool();
            let mut list = BTreeMap::new();
            for (name, at, what) in steps {
                match (what, pool.find(&ends(name))) {
                    (0..=2, None) => {
                        let number = add(&mut pool, name, at);
                        prop_assert!(list.insert(number, (name, at)).is_none());
                    }
                    (0..=2, Some(number)) => {
                        let change = |known: &mut SynRecord| {
                            let (own, port) = (known.own, known.port);
                            *known = kept(at);
                            (known.own, known.port) = (own, port);
                        };
                        pool.update(LATE, number, change, due);
                        list.insert(number, (name, at));
                    }
                    (_, Some(number)) => {
                        pool.remove(number, due);
                        list.remove(&number);
                    }
                    (_, None) => {}
                }
                let first = list.iter().map(|(number, (_, at))| (*at, *number)).min();
                let first = first.map(|(at, number)| (Instant::from_nanos(at), number));
                prop_assert_eq!((pool.len(), pool.first()), (list.len(), first));
                let numbers: Vec<u32> = list.keys().copied().collect();
                prop_assert_eq!(pool.of_listener(0), numbers);
                for (number, (name, at)) in &list {
                    let known = pool.get(*number).map(|(ends, _, kept)| (ends, kept.sent_at(LATE)));
                    prop_assert_eq!(known, Some((ends(*name), Instant::from_nanos(*at))));
                }
            }
        }
    }
}
