//! Out-of-order data, stored as contiguous ranges ("runs"), for a connection or for the layer above.
//!
//! A peer may send data in any order and in fragments of any size. Inserting a fragment takes logarithmic
//! time. The memory overhead of fragments is counted and limited, like `truesize` in Linux.

mod runs;

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use runs::Runs;

/// The memory overhead of a fragment, in bytes: its entry here and the `sk_buff` of its packet
/// (`SKB_TRUESIZE(0)` of a 64-bit kernel).
const OVERHEAD: u64 = 576;
/// The overhead that is always permitted, in bytes. Beyond it, the overhead may be at most as large as the
/// data.
const GRANTED: u64 = 2 << 20;
/// The largest fragment made by joining small ones, in bytes.
const JOINED: usize = 4096;

/// The largest size, in bytes, up to which consecutive fragments are copied into one. This limits the memory
/// of many small fragments.
const SMALL: usize = 1024;

/// Appends a fragment to a queue. Small fragments are merged with the last one.
pub fn push_joined(waiting: &mut VecDeque<Bytes>, piece: Bytes) {
    if !waiting.back_mut().is_some_and(|last| copy_behind(last, &piece)) {
        waiting.push_back(piece);
    }
}

/// Like [`push_joined`], for fragments with a memory charge. Merges only if `joins` is true.
// A run of 20 MB calls it 14,364 times.
#[inline(always)]
pub fn push_charged(waiting: &mut VecDeque<Charged>, piece: Bytes, memory: u32, joins: bool) {
    if joins
        && let Some((last, charged)) = waiting.back_mut()
        && copy_behind(last, &piece)
    {
        *charged += memory;
    } else {
        waiting.push_back((piece, memory));
    }
}

/// Merges a fragment into the previous one if both are small. Returns whether the fragments were merged.
fn copy_behind(last: &mut Bytes, piece: &Bytes) -> bool {
    let small = last.len() + piece.len() <= SMALL;
    if small {
        *last = [&last[..], &piece[..]].concat().into();
    }
    small
}

/// Returns the part of `memory` that belongs to `part` of `whole` bytes.
#[inline]
pub fn share(memory: u64, part: u64, whole: u64) -> u64 {
    if part == whole { memory } else { memory * part / whole.max(1) }
}

/// Out-of-order data. Memory is allocated only while data is stored.
#[derive(Debug, Default)]
pub struct OutOfOrder(Option<Box<Held>>);

impl OutOfOrder {
    /// Returns whether no data is stored.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the number of stored bytes.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.0.as_ref().map_or(0, |held| held.bytes())
    }

    /// Returns the position after the last stored byte.
    #[inline]
    pub(crate) fn end(&self) -> Option<u64> {
        self.0.as_ref()?.end()
    }

    /// Returns the memory charge of the data, in bytes.
    #[inline]
    pub fn memory(&self) -> u64 {
        self.0.as_ref().map_or(0, |held| held.memory)
    }

    /// Inserts the bytes that are new, with their part of `memory`.
    pub fn insert(&mut self, start: u64, payload: Bytes, memory: u64) -> Inserted {
        let inserted = self.0.get_or_insert_default().insert(start, payload, memory);
        self.clear_if_empty();
        inserted
    }

    /// Removes the first fragment if it starts at or before `next`. Returns its start, bytes and memory
    /// charge.
    // A run of 20 MB calls it 24,151 times.
    #[inline(always)]
    pub fn take(&mut self, next: u64) -> Option<(u64, Bytes, u64)> {
        let taken = self.0.as_mut()?.take(next);
        self.clear_if_empty();
        taken
    }

    /// Drops all bytes from position `end` on.
    pub(crate) fn truncate(&mut self, end: u64) {
        if let Some(held) = &mut self.0 {
            held.truncate(end);
            self.clear_if_empty();
        }
    }

    #[inline]
    fn clear_if_empty(&mut self) {
        if self.0.as_ref().is_some_and(|held| held.is_empty()) {
            self.0 = None;
        }
    }
}

/// A fragment and its memory charge in bytes. The charge is released as a whole (`truesize`).
pub type Charged = (Bytes, u32);

/// Out-of-order data: the fragments, and the runs that they form. Runs are never adjacent.
#[derive(Debug, Default)]
struct Held {
    /// The start and end of the last run.
    last: Option<(u64, u64)>,
    /// The runs before the last one.
    runs: Runs,
    /// The start and bytes of fragments that arrived in ascending order.
    pieces: VecDeque<(u64, Charged)>,
    /// Fragments that arrived before a lower one, by start.
    filed: BTreeMap<u64, Charged>,
    bytes: u64,
    /// The memory charge of all fragments, in bytes.
    memory: u64,
}

/// The result of `insert`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// The bytes are stored. The values are the start and end of their run.
    Kept(u64, u64),
    /// All bytes were received before.
    Duplicate,
    /// The overhead was too large. The fragments with the highest positions were dropped, possibly including
    /// this one.
    Pruned,
}

impl Held {
    pub(crate) fn is_empty(&self) -> bool {
        self.last.is_none()
    }

    /// Returns the number of stored bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the position after the last stored byte.
    pub(crate) fn end(&self) -> Option<u64> {
        self.last.map(|(_, end)| end)
    }

    /// Returns the run that starts at `start`.
    #[cfg(test)]
    fn run(&self, start: u64) -> Option<(u64, u64)> {
        let earlier = || self.runs.ending_from(start + 1);
        self.last.filter(|last| last.0 == start).or_else(earlier).filter(|run| run.0 == start)
    }

    /// Inserts the new bytes of `payload` at `start` and joins adjacent runs.
    pub(crate) fn insert(&mut self, start: u64, payload: Bytes, memory: u64) -> Inserted {
        let end = start + payload.len() as u64;
        // Fast path: the data continues the last run or starts a new one after it.
        let run = match &mut self.last {
            Some(last) if start < last.1 => {
                return self.insert_before_end(start, end, &payload, memory);
            }
            Some(last) if start == last.1 => {
                last.1 = end;
                last.0
            }
            last => {
                if let Some((start, end)) = last.replace((start, end)) {
                    self.runs.insert(start, end);
                }
                start
            }
        };
        self.bytes += payload.len() as u64;
        self.memory += memory;
        self.pieces.push_back((start, (payload, memory as u32)));
        if self.costs_too_much() { self.shrink() } else { Inserted::Kept(run, end) }
    }

    /// Inserts data that starts before the end of the last run.
    fn insert_before_end(
        &mut self,
        start: u64,
        end: u64,
        payload: &Bytes,
        memory: u64,
    ) -> Inserted {
        let Some(last) = self.last.filter(|last| start < last.0 || last.1 < end) else {
            return Inserted::Duplicate;
        };
        self.runs.insert(last.0, last.1);
        let joined = self.insert_touching(start, end, payload, memory);
        self.last = self.runs.pop_last();
        match joined {
            Some(_) if self.costs_too_much() => self.shrink(),
            Some((start, end)) => Inserted::Kept(start, end),
            None => Inserted::Duplicate,
        }
    }

    /// Stores the new bytes of `payload` with their part of `memory`. Returns their run, or `None` if no byte
    /// is new.
    fn insert_touching(
        &mut self,
        start: u64,
        end: u64,
        payload: &Bytes,
        memory: u64,
    ) -> Option<(u64, u64)> {
        let part = |bytes: u64| share(memory, bytes, end - start);
        let (mut joined, mut position) = ((start, end), start);
        while let Some((run_start, run_end)) = self.runs.ending_from(start)
            && run_start <= end
        {
            if run_start <= start && end <= run_end {
                return None;
            }
            self.runs.remove(run_end);
            if position < run_start {
                let gap = (position - start) as usize..(run_start - start) as usize;
                self.insert_fragment(position, payload.slice(gap), part(run_start - position));
            }
            position = run_end;
            joined = (joined.0.min(run_start), joined.1.max(run_end));
            if run_end >= end {
                break;
            }
        }
        if position < end {
            self.insert_fragment(
                position,
                payload.slice((position - start) as usize..),
                part(end - position),
            );
        }
        self.runs.insert(joined.0, joined.1);
        Some(joined)
    }

    /// Stores a fragment that did not arrive in ascending order.
    fn insert_fragment(&mut self, start: u64, piece: Bytes, memory: u64) {
        self.bytes += piece.len() as u64;
        self.memory += memory;
        self.filed.insert(start, (piece, memory as u32));
    }

    /// Removes the first fragment if it starts at or before `next`.
    #[inline]
    pub(crate) fn take(&mut self, next: u64) -> Option<(u64, Bytes, u64)> {
        let (start, _) = self.runs.first().or(self.last)?;
        if start <= next { self.take_first() } else { None }
    }

    #[inline(never)]
    fn take_first(&mut self) -> Option<(u64, Bytes, u64)> {
        let (start, (piece, memory)) = first_piece(&mut self.pieces, &mut self.filed)?;
        let memory = u64::from(memory);
        self.memory -= memory;
        self.bytes -= piece.len() as u64;
        let end = start + piece.len() as u64;
        if let Some((_, run_end)) = self.runs.first() {
            self.runs.cut_first(end, run_end);
        } else {
            self.last = self.last.map(|last| (end, last.1)).filter(|last| last.0 < last.1);
        }
        Some((start, piece, memory))
    }

    /// Drops all bytes from position `end` on.
    pub(crate) fn truncate(&mut self, end: u64) {
        while self.last.is_some_and(|last| last.1 > end) {
            self.discard_last(end);
        }
    }

    /// Drops the last fragment, or its bytes from `end` on.
    fn discard_last(&mut self, end: u64) {
        let behind = self.pieces.back().map(|(start, _)| *start);
        let filed = self.filed.last_key_value().map(|(start, _)| *start);
        let last = if behind > filed { self.pieces.pop_back() } else { self.filed.pop_last() };
        let (Some((start, (piece, memory))), Some((run_start, _))) = (last, self.last) else {
            return;
        };
        let length = piece.len() as u64;
        self.bytes -= length;
        self.memory -= u64::from(memory);
        let cut = start.max(end);
        if cut > start {
            let left = share(memory.into(), cut - start, length);
            self.insert_fragment(start, piece.slice(..(cut - start) as usize), left);
        }
        self.last = if cut > run_start { Some((run_start, cut)) } else { self.runs.pop_last() };
    }

    fn count(&self) -> u64 {
        (self.pieces.len() + self.filed.len()) as u64
    }

    /// Returns whether the overhead of the fragments exceeds its limit.
    fn costs_too_much(&self) -> bool {
        self.count() * OVERHEAD > GRANTED + self.bytes
    }

    /// Joins small fragments (`tcp_collapse_ofo_queue`). If that is not enough, drops the fragments with the
    /// highest positions, an eighth of all at a time (`tcp_prune_ofo_queue`).
    #[cold]
    fn shrink(&mut self) -> Inserted {
        self.collapse();
        while self.count() * OVERHEAD > (GRANTED + self.bytes) / 8 * 7 {
            self.discard_last(0);
        }
        Inserted::Pruned
    }

    /// Joins small adjacent fragments.
    fn collapse(&mut self) {
        if self.count() == self.runs.len() as u64 + 1 {
            return;
        }
        let mut joined: VecDeque<(u64, Charged)> = VecDeque::new();
        let mut small: Vec<Bytes> = Vec::new();
        let (mut at, mut held, mut charged) = (0, 0, 0);
        while let Some((start, (piece, memory))) = first_piece(&mut self.pieces, &mut self.filed) {
            if at + held != start || held as usize + piece.len() > JOINED {
                joined.extend(concatenated(&mut small).map(|whole| (at, (whole, charged))));
                (at, held, charged) = (start, 0, 0);
            }
            held += piece.len() as u64;
            charged += memory;
            small.push(piece);
        }
        joined.extend(concatenated(&mut small).map(|whole| (at, (whole, charged))));
        self.pieces = joined;
    }
}

/// Concatenates fragments without copying a single one. Leaves `pieces` empty.
fn concatenated(pieces: &mut Vec<Bytes>) -> Option<Bytes> {
    if pieces.len() < 2 {
        return pieces.pop();
    }
    let whole = pieces.concat();
    pieces.clear();
    Some(whole.into())
}

/// Removes the fragment with the lowest start.
fn first_piece(
    pieces: &mut VecDeque<(u64, Charged)>,
    filed: &mut BTreeMap<u64, Charged>,
) -> Option<(u64, Charged)> {
    let Some((&start, _)) = filed.first_key_value() else { return pieces.pop_front() };
    if pieces.front().is_some_and(|piece| piece.0 < start) {
        return pieces.pop_front();
    }
    filed.pop_first()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the memory of all fragments, in bytes.
    fn memory(held: &Held) -> u64 {
        held.bytes() + held.count() * OVERHEAD
    }

    #[test]
    fn holes_of_one_byte_are_kept_up_to_a_bound() {
        // A window of 6 MiB of single bytes with a hole after each, in ascending and in descending order.
        for backwards in [false, true] {
            let mut held = Held::default();
            let window = 1u64 << 20;
            let mut pruned = 0;
            for i in 0..window / 2 {
                let at = if backwards { window - 2 * i - 1 } else { 2 * i + 1 };
                pruned +=
                    u64::from(held.insert(at, Bytes::from_static(b"x"), 0) == Inserted::Pruned);
                assert!(memory(&held) <= GRANTED + 2 * held.bytes(), "{}", memory(&held));
            }
            // 2 MiB are enough for 3640 fragments of 577 bytes. The fragments closest to the next byte are
            // kept.
            assert!((3000..3700).contains(&held.count()), "{}", held.count());
            assert_eq!(held.runs.len() as u64 + 1, held.count());
            assert_eq!(held.runs.first(), Some((1, 2)));
            // An eighth is dropped at once, so pruning is not needed for every fragment.
            assert!(pruned <= window / 2 / 400, "{pruned}");
        }
    }

    #[test]
    fn small_pieces_that_touch_are_joined_and_none_is_lost() {
        let mut held = Held::default();
        for i in 0..100_000u64 {
            let byte = Bytes::copy_from_slice(&[(i % 251) as u8]);
            assert_ne!(held.insert(10 + i, byte, 3), Inserted::Duplicate);
            assert!(memory(&held) <= GRANTED + 2 * held.bytes());
        }
        assert_eq!((held.bytes(), held.run(10)), (100_000, Some((10, 100_010))));
        let mut next = 10;
        while let Some((start, piece, memory)) = held.take(next) {
            assert_eq!((start, memory), (next, 3 * piece.len() as u64));
            for byte in piece {
                assert_eq!(u64::from(byte), (next - 10) % 251);
                next += 1;
            }
        }
        assert_eq!((next, held.bytes(), held.is_empty()), (100_010, 0, true));
    }

    #[test]
    fn fragments_are_concatenated_and_a_single_one_is_not_copied() {
        let (first, second) = (Bytes::from(vec![1, 2]), Bytes::from(vec![3]));
        let mut pieces = vec![first.clone(), second];
        assert_eq!(concatenated(&mut pieces), Some(Bytes::from_static(&[1, 2, 3])));
        assert!(pieces.is_empty());
        pieces.push(first.clone());
        let single = concatenated(&mut pieces).expect("a fragment");
        assert_eq!(single.as_ptr(), first.as_ptr());
        assert_eq!(concatenated(&mut pieces), None);
    }

    #[test]
    fn full_segments_are_never_pruned() {
        // A fragment of 1448 bytes has less overhead than data, for any window.
        let mut held = Held::default();
        let segment = Bytes::from_static(&[0; 1448]);
        for i in 0..100_000 {
            let at = 1 + 2 * 1448 * i;
            assert_eq!(held.insert(at, segment.clone(), 0), Inserted::Kept(at, at + 1448));
        }
        assert_eq!(held.count(), 100_000);
    }

    #[test]
    fn truncate_releases_data_beyond_the_end() {
        let mut held = Held::default();
        let bytes = Bytes::from_static(&FILM);
        for (from, to) in [(10, 20), (30, 40), (35, 60), (70, 80), (5, 8)] {
            held.insert(from, bytes.slice(from as usize..to as usize), 10 * (to - from));
        }
        held.truncate(90);
        assert_eq!((held.bytes(), held.end()), (53, Some(80)));
        held.truncate(45);
        assert_eq!((held.bytes(), held.end()), (28, Some(45)));
        assert_eq!(held.run(30), Some((30, 45)));
        held.truncate(30);
        assert_eq!((held.bytes(), held.end(), held.run(30)), (13, Some(20), None));
        assert_eq!(held.memory, 130, "ten a byte");
        assert_eq!(held.insert(18, bytes.slice(18..25), 70), Inserted::Kept(10, 25));
        assert_eq!(held.memory, 180, "of what is new");
        assert_eq!(held.take(5), Some((5, bytes.slice(5..8), 30)));
        assert_eq!(held.take(8), None);
        held.truncate(0);
        assert!(held.is_empty() && held.bytes() == 0 && held.take(600).is_none());
    }

    const FILM: [u8; 600] = {
        let mut bytes = [0; 600];
        let mut i = 0;
        while i < 600 {
            bytes[i] = (i % 251) as u8;
            i += 1;
        }
        bytes
    };

    proptest! {
        #[test]
        fn any_split_and_order_gives_the_bytes_back(
            cuts in proptest::collection::vec((0usize..500, 1usize..100), 1..60),
        ) {
            let mut held = Held::default();
            let mut covered = [false; 600];
            for (start, len) in cuts {
                let fresh = (start..start + len).any(|i| !covered[i]);
                let inserted = held.insert(start as u64, Bytes::from_static(&FILM[start..start + len]), len as u64);
                prop_assert_eq!(inserted == Inserted::Duplicate, !fresh);
                covered[start..start + len].fill(true);
                // The run has the expected bounds and is found by its start.
                let from = (0..start).rev().find(|i| !covered[*i]).map_or(0, |i| i + 1);
                let to = (start..600).find(|i| !covered[*i]).unwrap_or(600);
                let run = (from as u64, to as u64);
                if fresh {
                    prop_assert_eq!(inserted, Inserted::Kept(run.0, run.1));
                }
                prop_assert_eq!(held.run(run.0), Some(run));
                prop_assert_eq!(held.run(run.0 + 1), None);
                let end = (0..600).rev().find(|i| covered[*i]).map(|i| i as u64 + 1);
                prop_assert_eq!(held.end(), end);
                prop_assert_eq!(held.bytes(), covered.iter().filter(|c| **c).count() as u64);
            }
            let mut next = 0u64;
            while !held.is_empty() {
                if let Some((start, piece, _)) = held.take(next) {
                    prop_assert_eq!(start, next);
                    prop_assert_eq!(&piece[..], &FILM[start as usize..start as usize + piece.len()]);
                    next += piece.len() as u64;
                } else {
                    prop_assert!(!covered[next as usize], "what came is handed out");
                    next += 1;
                }
            }
            prop_assert_eq!((held.bytes(), held.memory), (0, 0));
        }
    }
}
