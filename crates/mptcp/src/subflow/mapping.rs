//! The peer's mappings of a subflow's bytes to data sequence numbers (RFC 8684 section 3.3.1). A mapping is
//! removed after all of its bytes were delivered. If two mappings disagree, the earlier one is valid.

use std::collections::BTreeMap;

/// The number of mappings stored in addition to the first one even if no data waits out of order.
const FEW: usize = 1024;
/// One more mapping may be stored for each 64 bytes of out-of-order data. Ordinary segments are
/// larger.
const BYTES_PER_MAPPING: u64 = 64;

/// The checksum of a mapping over pseudo-header and data, and the fields that it covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seal {
    pub(super) checksum: u16,
    /// The relative subflow sequence number as sent by the peer.
    pub(super) ssn: u32,
    /// Whether the length includes a `DATA_FIN` after the data.
    pub(super) data_fin: bool,
}

/// A mapping: a range of subflow positions with a constant offset to the DSNs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Declared {
    /// The subflow position of the first byte.
    pub(super) position: u64,
    /// The subflow position after the last byte.
    pub(super) end: u64,
    /// The DSN of a byte minus its position, modulo 2^64.
    pub(super) shift: u64,
    /// The checksum, if any. A mapping with a checksum is not merged with its neighbours.
    pub(super) seal: Option<Seal>,
    /// Whether the data is delivered only after the whole mapping has arrived. Such a mapping is not merged
    /// either.
    pub(super) whole: bool,
}

impl Declared {
    pub(super) fn dsn(&self, position: u64) -> u64 {
        position.wrapping_add(self.shift)
    }

    /// Returns whether a later mapping agrees about the bytes that both cover. The later one may be a part of
    /// a mapping with a checksum. A peer may map the rest of a retransmitted segment separately. The checksum
    /// of the earlier mapping is still verified.
    fn agrees(&self, later: &Self) -> bool {
        let unsealed = self.seal.is_none() && later.seal.is_none();
        self.shift == later.shift && (unsealed || self.covers(later))
    }

    fn covers(&self, other: &Self) -> bool {
        self.position <= other.position && other.end <= self.end
    }

    fn joins(&self, other: &Self) -> bool {
        let alone = |mapping: &Self| mapping.seal.is_some() || mapping.whole;
        self.shift == other.shift && !alone(self) && !alone(other)
    }
}

/// The reason why a mapping was not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It contradicts an earlier mapping.
    Contradiction,
    /// There are more mappings than the waiting data can need.
    TooMany,
}

/// The mappings of a subflow. They do not overlap.
#[derive(Debug, Default)]
pub(super) struct Mappings {
    /// The mapping with the lowest position. Without losses there is usually no other.
    first: Option<Declared>,
    rest: BTreeMap<u64, Declared>,
    /// The mapping that was last added to `rest`. The segments of a burst repeat it.
    recent: Option<Declared>,
}

/// Converts a relative subflow sequence number, which is a position modulo 2^32, into the position closest to
/// `near`. Returns `None` if it is at the SYN or before it.
pub(super) fn position_of(ssn: u32, near: u64) -> Option<u64> {
    let offset = i64::from(ssn.wrapping_sub(near as u32) as i32);
    near.checked_add_signed(offset).filter(|position| *position > 0)
}

impl Mappings {
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Removes mappings that end at or before `done`.
    #[inline]
    fn advance(&mut self, done: u64) {
        while self.first.is_some_and(|first| first.end <= done) {
            self.first = if self.rest.is_empty() { None } else { self.next_of_rest() };
        }
    }

    #[inline(never)]
    fn next_of_rest(&mut self) -> Option<Declared> {
        self.rest.pop_first().map(|(_, next)| next)
    }

    /// Returns the mapping that covers `position`. Removes the mappings before it.
    #[inline]
    pub(super) fn find(&mut self, position: u64) -> Option<Declared> {
        self.advance(position);
        self.first.filter(|first| first.position <= position)
    }

    /// Returns whether `new` lies within the first mapping, as for the segments of a burst. Some bytes of
    /// `new` must not have been delivered yet.
    #[inline]
    pub(super) fn repeats(&self, new: &Declared) -> bool {
        self.first.is_some_and(|first| {
            first.joins(new) && first.position <= new.position && new.end <= first.end
        })
    }

    /// Stores a mapping that ends after `done` if no other mapping is stored. Returns whether the mapping was
    /// stored.
    #[inline]
    pub(super) fn insert_only(&mut self, new: Declared, done: u64) -> bool {
        self.advance(done);
        let only = self.first.is_none();
        if only {
            self.first = Some(new);
        }
        only
    }

    /// Stores a mapping that ends after `done`, while `waiting` bytes wait out of order.
    pub(super) fn insert(&mut self, new: Declared, done: u64, waiting: u64) -> Result<(), Refusal> {
        self.advance(done);
        if self.repeats(&new) {
            return Ok(());
        }
        match &mut self.first {
            None => {
                self.first = Some(new);
                Ok(())
            }
            // Usually the next burst continues the first mapping.
            Some(first)
                if first.end == new.position && first.joins(&new) && self.rest.is_empty() =>
            {
                first.end = new.end;
                Ok(())
            }
            Some(_) => self.insert_beside(new, waiting),
        }
    }

    #[inline(never)]
    fn insert_beside(&mut self, new: Declared, waiting: u64) -> Result<(), Refusal> {
        if self.recent == Some(new) {
            return Ok(());
        }
        self.insert_in_order(new, waiting)?;
        self.recent = Some(new);
        Ok(())
    }

    fn insert_in_order(&mut self, new: Declared, waiting: u64) -> Result<(), Refusal> {
        let Some(first) = self.first else { return Ok(()) };
        if new.end <= first.position {
            self.check_room(waiting)?;
            self.rest.insert(first.position, first);
            self.first = Some(new);
            return Ok(());
        }
        if first.end <= new.position {
            return self.insert_behind(new, waiting);
        }
        if !first.agrees(&new) {
            return Err(Refusal::Contradiction);
        }
        if new.end > first.end {
            self.insert_behind(Declared { position: first.end, ..new }, waiting)?;
        }
        if let Some(first) = &mut self.first {
            first.position = first.position.min(new.position);
        }
        Ok(())
    }

    /// Stores a mapping after the first one. The new mapping is merged with adjacent and overlapping ones.
    fn insert_behind(&mut self, mut new: Declared, waiting: u64) -> Result<(), Refusal> {
        // Usually the new mapping begins at or after the end of the last one, or repeats it.
        if let Some(mut last) = self.rest.last_entry() {
            let last = last.get_mut();
            if last.joins(&new) && last.position <= new.position && new.position <= last.end {
                last.end = last.end.max(new.end);
                return Ok(());
            }
            if last.end <= new.position {
                self.check_room(waiting)?;
                self.rest.insert(new.position, new);
                return Ok(());
            }
        }
        let before = self.rest.range(..new.position).next_back().map(|(_, found)| *found);
        let before = before.filter(|found| found.end > new.position);
        let others = self.rest.range(new.position..new.end).map(|(_, found)| found);
        let mut known = false;
        for found in before.iter().chain(others) {
            if !found.agrees(&new) {
                return Err(Refusal::Contradiction);
            }
            known |= found.covers(&new);
        }
        if known {
            return Ok(());
        }
        if new.seal.is_some() || new.whole {
            self.check_room(waiting)?;
            self.rest.insert(new.position, new);
            return Ok(());
        }
        self.check_room(waiting)?;
        // The new mapping is merged with those that it touches on either side.
        let touching = self.rest.range(..=new.end).next_back().map(|(_, found)| *found);
        let mut next = touching;
        while let Some(found) = next.filter(|found| found.end >= new.position) {
            if found.joins(&new) {
                self.rest.remove(&found.position);
                new.position = new.position.min(found.position);
                new.end = new.end.max(found.end);
            }
            next = self.rest.range(..found.position).next_back().map(|(_, found)| *found);
        }
        self.rest.insert(new.position, new);
        Ok(())
    }

    fn check_room(&self, waiting: u64) -> Result<(), Refusal> {
        let most = FEW + (waiting / BYTES_PER_MAPPING) as usize;
        if self.rest.len() < most { Ok(()) } else { Err(Refusal::TooMany) }
    }

    /// Returns the number of mappings.
    #[cfg(test)]
    fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plain(position: u64, end: u64, shift: u64) -> Declared {
        Declared { position, end, shift, seal: None, whole: false }
    }

    fn sealed(position: u64, end: u64) -> Declared {
        let seal = Seal { checksum: 7, ssn: position as u32, data_fin: false };
        Declared { seal: Some(seal), ..plain(position, end, 0) }
    }

    #[test]
    fn relative_numbers_wrap() {
        let wrap = 1u64 << 32;
        assert_eq!(position_of(1, 1), Some(1));
        assert_eq!(position_of(0, 1), None, "the SYN");
        assert_eq!(position_of(u32::MAX, 1), None, "before it");
        // After 2^32 bytes, the number 0 is an ordinary position.
        assert_eq!(position_of(0, wrap - 100), Some(wrap));
        assert_eq!(position_of(u32::MAX, wrap + 3), Some(wrap - 1));
        assert_eq!(position_of(5, 7 * wrap + 1), Some(7 * wrap + 5));
    }

    #[test]
    fn a_part_of_the_first_one_repeats_it_unless_either_stands_alone() {
        let mut mappings = Mappings::default();
        assert!(!mappings.repeats(&plain(10, 20, 3)), "there is none");
        mappings.insert(plain(10, 20, 3), 1, 0).expect("the only one");
        let repeated =
            [(10, 20, 3), (12, 18, 3), (9, 20, 3), (10, 21, 3), (10, 20, 4), (20, 30, 3)]
                .map(|(position, end, shift)| mappings.repeats(&plain(position, end, shift)));
        assert_eq!(repeated, [true, true, false, false, false, false]);
        assert!(!mappings.repeats(&sealed(10, 20)));
        assert!(!mappings.repeats(&Declared { whole: true, ..plain(10, 20, 3) }));
    }

    #[test]
    fn contiguous_mappings_merge_into_one() {
        let mut mappings = Mappings::default();
        for n in 0..1000 {
            mappings.insert(plain(1 + n, 2 + n, 9), 1, 0).expect("no contradiction");
        }
        assert_eq!(mappings.len(), 1);
        for n in (0..1000).rev() {
            mappings.insert(plain(5001 + n, 5002 + n, 9), 1, 0).expect("no contradiction");
        }
        assert_eq!(mappings.len(), 2);
        assert_eq!(mappings.find(500).map(|found| found.dsn(500)), Some(509));
        assert_eq!(mappings.find(1001), None);
        assert_eq!(mappings.find(6000), Some(plain(5001, 6001, 9)));
    }

    #[test]
    fn contradicting_mapping_is_refused_without_side_effects() {
        let mut mappings = Mappings::default();
        for declared in [plain(1, 100, 0), plain(200, 300, 50), plain(400, 500, 0)] {
            mappings.insert(declared, 1, 0).expect("apart");
        }
        for new in [plain(50, 60, 1), plain(50, 250, 0), plain(150, 450, 50), plain(250, 260, 0)] {
            assert_eq!(mappings.insert(new, 1, 0), Err(Refusal::Contradiction), "{new:?}");
        }
        assert_eq!(mappings.len(), 3);
        assert_eq!(mappings.find(450), Some(plain(400, 500, 0)));
    }

    #[test]
    fn a_sealed_mapping_is_repeated_whole_or_in_part() {
        let mut mappings = Mappings::default();
        for declared in [sealed(1, 100), sealed(100, 200), sealed(300, 400)] {
            mappings.insert(declared, 1, 0).expect("apart");
            mappings.insert(declared, 1, 0).expect("the same");
        }
        assert_eq!(mappings.len(), 3);
        for part in [sealed(1, 99), sealed(310, 400), sealed(120, 150), plain(310, 320, 0)] {
            mappings.insert(part, 1, 0).expect("a part of what was declared");
        }
        assert_eq!(mappings.len(), 3);
        assert_eq!(mappings.find(1), Some(sealed(1, 100)), "what was declared first stands");
        let other_bytes = [sealed(50, 150), sealed(300, 401), sealed(99, 200), plain(350, 450, 0)];
        for new in other_bytes.into_iter().chain([plain(310, 320, 1)]) {
            assert_eq!(mappings.insert(new, 1, 0), Err(Refusal::Contradiction), "{new:?}");
        }
    }

    #[test]
    fn there_are_no_more_than_the_data_that_waits_can_need() {
        let mut mappings = Mappings::default();
        let refused = (0..1_000_000u64)
            .find(|n| mappings.insert(plain(10 + 2 * n, 11 + 2 * n, *n), 1, *n).is_err());
        // 1 first mapping, 1024 others, and one for every 64 waiting bytes; each mapping adds one byte.
        assert_eq!(refused, Some(1025 + 1025 / 64));
    }

    proptest! {
        /// Compares the mappings with a table of every byte.
        #[test]
        fn the_first_word_on_a_byte_is_the_last(
            cuts in proptest::collection::vec((1usize..300, 1usize..80, 0u64..2), 1..60),
        ) {
            let mut mappings = Mappings::default();
            let mut table = [None; 400];
            for (from, length, shift) in cuts {
                let bytes = &mut table[from..from + length];
                let free = bytes.iter().all(|byte| byte.is_none_or(|known| known == shift));
                let filed = mappings.insert(plain(from as u64, (from + length) as u64, shift), 1, 0);
                prop_assert_eq!(filed.is_ok(), free);
                if free {
                    bytes.fill(Some(shift));
                }
            }
            for (position, known) in table.iter().enumerate().skip(1) {
                let found = mappings.find(position as u64).map(|found| found.shift);
                prop_assert_eq!(found, *known, "{}", position);
            }
        }
    }
}
