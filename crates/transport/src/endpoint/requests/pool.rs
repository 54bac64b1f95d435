//! The records of one family of addresses, by number. A number that was given back is given again, the last one
//! first, and memory goes back when most of the records have gone.

use anabranch_units::Instant;

use super::index::Index;
use super::record::{Ends, Kept};
use super::wakes::Wakes;
use crate::secrets::Keyed;

/// Records are kept in pages of so many, so that not much is ever empty; a power of two.
const PAGE: usize = 64;
/// No number: the end of the list of those that can be given again.
const NOBODY: u32 = u32::MAX;

/// What is kept of one SYN.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record<E> {
    pub(super) ends: E,
    pub(super) kept: Kept,
}

/// The records.
#[derive(Debug)]
pub(super) struct Pool<E> {
    /// All but the last are full, of records or of what is left of them.
    pages: Vec<Vec<Record<E>>>,
    index: Index,
    wakes: Wakes,
    keyed: Keyed,
    len: usize,
    /// The number that is given next, which has the one after it where its sequence number was.
    free: u32,
    /// The most there were since memory was last given back.
    most: usize,
    /// When the first is due.
    next: Instant,
}

impl<E: Ends> Pool<E> {
    pub(super) fn new(keyed: Keyed) -> Self {
        Self {
            pages: Vec::new(),
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

    /// When the first of them is due; `FAR_FUTURE` without any.
    #[inline(always)]
    pub(super) fn wake(&self) -> Instant {
        self.next
    }

    /// When the first of them is due, and its number.
    #[inline]
    pub(super) fn first(&self) -> Option<(Instant, u32)> {
        if self.next == Instant::FAR_FUTURE {
            return None;
        }
        self.wakes.first().map(|number| (self.next, number))
    }

    pub(super) fn find(&self, ends: &E) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        let is = |number| self.get(number).is_some_and(|record| record.ends == *ends);
        self.index.find(ends.keyed_hash(self.keyed), is)
    }

    pub(super) fn get(&self, number: u32) -> Option<&Record<E>> {
        get(&self.pages, number)
    }

    /// Those there are, by number.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Record<E>)> {
        let all = (0..).zip(self.pages.iter().flatten());
        all.filter(|(_, record)| record.kept.exists())
    }

    /// Adds one, which is due at `due`, as all others tell.
    pub(super) fn insert(&mut self, record: Record<E>, due: impl Fn(&Kept) -> Instant) -> u32 {
        let number = self.place(record);
        self.len += 1;
        self.most = self.most.max(self.len);
        let Self { pages, index, wakes, keyed, .. } = self;
        let made = made(pages);
        index.insert(record.ends.keyed_hash(*keyed), number, |number| hash(pages, *keyed, number));
        wakes.make_room(made, |number| due_at(pages, number, &due));
        self.replay(number, due);
        number
    }

    /// Puts a record where one has gone, or behind all others.
    fn place(&mut self, record: Record<E>) -> u32 {
        let number = self.free;
        if let Some(free) = get_mut(&mut self.pages, number) {
            self.free = free.kept.peer.0;
            *free = record;
            return number;
        }
        let room = self.pages.last().is_some_and(|page| page.len() < PAGE);
        if !room {
            // The first page grows by and by: most hosts never have another.
            let size = if self.pages.is_empty() { 1 } else { PAGE };
            if self.pages.len() == self.pages.capacity() {
                self.pages.reserve_exact(self.pages.len() / 8 + 1);
            }
            self.pages.push(Vec::with_capacity(size));
        }
        if let Some(page) = self.pages.last_mut() {
            page.push(record);
        }
        made(&self.pages) as u32 - 1
    }

    /// Changes one.
    pub(super) fn change(
        &mut self,
        number: u32,
        change: impl FnOnce(&mut Kept),
        due: impl Fn(&Kept) -> Instant,
    ) {
        if let Some(record) = get_mut(&mut self.pages, number) {
            change(&mut record.kept);
            self.replay(number, due);
        }
    }

    pub(super) fn remove(
        &mut self,
        number: u32,
        due: impl Fn(&Kept) -> Instant,
    ) -> Option<Record<E>> {
        let record = *self.get(number)?;
        let Self { pages, index, keyed, .. } = self;
        index.remove(record.ends.keyed_hash(*keyed), number, |number| hash(pages, *keyed, number));
        if let Some(gone) = get_mut(pages, number) {
            gone.kept = Kept::NOTHING;
            gone.kept.peer.0 = self.free;
        }
        self.free = number;
        self.len -= 1;
        if self.len == 0 {
            *self = Self::new(self.keyed);
        } else {
            self.replay(number, &due);
            if self.most > PAGE && self.len <= self.most / 4 {
                self.shrink(due);
            }
        }
        Some(record)
    }

    /// Gives back the memory behind the last record.
    fn shrink(&mut self, due: impl Fn(&Kept) -> Instant) {
        let last = self.iter().last().map_or(0, |(number, _)| number as usize + 1);
        self.pages.truncate(last.div_ceil(PAGE));
        self.pages.shrink_to_fit();
        if let Some(page) = self.pages.last_mut() {
            page.truncate((last - 1) % PAGE + 1);
        }
        // The lowest number is given first.
        self.free = NOBODY;
        for number in (0..last as u32).rev() {
            if let Some(gone) = get_mut(&mut self.pages, number)
                && !gone.kept.exists()
            {
                gone.kept.peer.0 = self.free;
                self.free = number;
            }
        }
        self.most = self.len;
        let Self { pages, wakes, .. } = self;
        wakes.shrink(last, |number| due_at(pages, number, &due));
    }

    fn replay(&mut self, number: u32, due: impl Fn(&Kept) -> Instant) {
        let Self { pages, wakes, .. } = self;
        let at = |number| due_at(pages, number, &due);
        wakes.replay(number, at);
        self.next = wakes.first().map_or(Instant::FAR_FUTURE, at);
    }
}

/// Numbers there have been.
fn made<E>(pages: &[Vec<Record<E>>]) -> usize {
    pages.last().map_or(0, |page| (pages.len() - 1) * PAGE + page.len())
}

/// Where a record stands.
fn at(number: u32) -> (usize, usize) {
    let number = number as usize;
    (number / PAGE, number % PAGE)
}

fn get<E>(pages: &[Vec<Record<E>>], number: u32) -> Option<&Record<E>> {
    let (page, place) = at(number);
    pages.get(page)?.get(place).filter(|record| record.kept.exists())
}

fn get_mut<E>(pages: &mut [Vec<Record<E>>], number: u32) -> Option<&mut Record<E>> {
    let (page, place) = at(number);
    pages.get_mut(page)?.get_mut(place)
}

fn hash<E: Ends>(pages: &[Vec<Record<E>>], keyed: Keyed, number: u32) -> u64 {
    get(pages, number).map_or(0, |record| record.ends.keyed_hash(keyed))
}

fn due_at<E>(pages: &[Vec<Record<E>>], number: u32, due: impl Fn(&Kept) -> Instant) -> Instant {
    get(pages, number).map_or(Instant::FAR_FUTURE, |record| due(&record.kept))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use anabranch_units::{Seed, SeqNumber};
    use anabranch_wire::Segment;
    use proptest::prelude::*;

    use super::*;
    use crate::config::Config;
    use crate::secrets::Secrets;

    /// A record that is due at its time in nanoseconds.
    fn record(ends: u32, at: u64) -> Record<[u32; 3]> {
        let (now, config) = (Instant::from_nanos(at), Config::default());
        let kept = Kept::new(now, &Segment::default(), &config, 0, (0, 1), SeqNumber(0));
        Record { ends: [1, ends, 3], kept }
    }

    fn pool() -> Pool<[u32; 3]> {
        let secrets = Secrets::draw(&mut Seed { seed: 1, run: 0 }.stream("secrets"));
        Pool::new(secrets.tables)
    }

    /// The moment at which a record was made.
    fn due(kept: &Kept) -> Instant {
        kept.sent_at()
    }

    #[test]
    fn numbers_are_given_again_and_memory_goes_back() {
        let mut pool = pool();
        for ends in 0..1000 {
            assert_eq!(pool.insert(record(ends, 2000 - u64::from(ends)), due), ends);
        }
        assert_eq!(pool.first(), Some((Instant::from_nanos(1001), 999)));
        for number in (10..1000).rev() {
            assert!(pool.remove(number, due).is_some_and(|gone| gone.ends[1] == number));
        }
        assert!(pool.remove(10, due).is_none(), "it has gone");
        assert_eq!((pool.len(), pool.first()), (10, Some((Instant::from_nanos(1991), 9))));
        assert!(pool.pages.len() <= 1000 / 4 / PAGE + 1);
        pool.remove(3, due);
        pool.remove(5, due);
        assert_eq!(pool.insert(record(77, 3000), due), 5, "the last one first");
        assert_eq!(pool.insert(record(78, 3000), due), 3);
        for number in 0..10 {
            pool.remove(number, due);
        }
        assert_eq!((pool.len(), pool.first(), pool.pages.capacity()), (0, None, 0));
    }

    proptest! {
        /// A list that is searched from one end to the other.
        #[test]
        fn it_is_as_a_list(
            steps in proptest::collection::vec((0u32..400, 0u64..40, 0u8..5), 1..900),
        ) {
            let mut pool = pool();
            let mut list = BTreeMap::new();
            for (ends, at, what) in steps {
                match (what, pool.find(&[1, ends, 3])) {
                    (0..=2, None) => {
                        let number = pool.insert(record(ends, at), due);
                        prop_assert!(list.insert(number, (ends, at)).is_none());
                    }
                    (0..=2, Some(number)) => {
                        pool.change(number, |kept| *kept = record(ends, at).kept, due);
                        list.insert(number, (ends, at));
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
                let known = |(number, record): (u32, &Record<[u32; 3]>)| {
                    (number, (record.ends[1], record.kept.sent_at().as_nanos()))
                };
                let all: BTreeMap<_, _> = pool.iter().map(known).collect();
                prop_assert_eq!(&all, &list);
            }
        }
    }
}
