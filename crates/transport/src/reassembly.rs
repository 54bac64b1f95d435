//! Bytes that arrived ahead of their turn, as contiguous runs; shared by subflows and connections.

use std::collections::VecDeque;

use bytes::Bytes;

/// Out-of-order data: the pieces, and the runs they form, which never touch one another. Both
/// ascend.
#[derive(Debug, Default)]
pub(crate) struct OutOfOrder {
    /// Start and end of each run.
    runs: VecDeque<(u64, u64)>,
    /// Start and bytes of each piece.
    pieces: VecDeque<(u64, Bytes)>,
    bytes: u64,
}

/// What `insert` found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inserted {
    /// The bytes are kept; the run that holds them starts here.
    Kept(u64),
    /// All of it was there already.
    Duplicate,
}

impl OutOfOrder {
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Bytes kept.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Position behind the last byte kept.
    pub(crate) fn end(&self) -> Option<u64> {
        self.runs.back().map(|(_, end)| *end)
    }

    /// The run that starts at `start`.
    pub(crate) fn run(&self, start: u64) -> Option<(u64, u64)> {
        let at = self.runs.partition_point(|run| run.0 < start);
        self.runs.get(at).copied().filter(|run| run.0 == start)
    }

    /// Files `payload` at `start`, keeping what is new of it and joining neighbours.
    pub(crate) fn insert(&mut self, start: u64, payload: Bytes) -> Inserted {
        let end = start + payload.len() as u64;
        // Most often data goes on where the last run ends, or begins a new one behind it.
        let run = match self.runs.back_mut() {
            Some(last) if start < last.1 => return self.insert_before_end(start, end, &payload),
            Some(last) if start == last.1 => {
                last.1 = end;
                last.0
            }
            _ => {
                self.runs.push_back((start, end));
                start
            }
        };
        self.bytes += payload.len() as u64;
        self.pieces.push_back((start, payload));
        Inserted::Kept(run)
    }

    /// Files data that begins before the end of the last run.
    fn insert_before_end(&mut self, start: u64, end: u64, payload: &Bytes) -> Inserted {
        let at = self.runs.partition_point(|run| run.1 < start);
        let mut joined = (start, end);
        let (mut behind, mut position) = (at, start);
        while let Some(&(run_start, run_end)) = self.runs.get(behind).filter(|run| run.0 <= end) {
            if run_start <= start && end <= run_end {
                return Inserted::Duplicate;
            }
            if position < run_start {
                self.file(
                    position,
                    payload.slice((position - start) as usize..(run_start - start) as usize),
                );
            }
            position = run_end;
            joined = (joined.0.min(run_start), joined.1.max(run_end));
            behind += 1;
        }
        if position < end {
            self.file(position, payload.slice((position - start) as usize..));
        }
        if behind == at {
            self.runs.insert(at, joined);
        } else {
            self.runs[at] = joined;
            self.runs.drain(at + 1..behind);
        }
        Inserted::Kept(joined.0)
    }

    /// Puts a piece in its place.
    fn file(&mut self, start: u64, piece: Bytes) {
        let at = self.pieces.partition_point(|(other, _)| *other < start);
        self.bytes += piece.len() as u64;
        self.pieces.insert(at, (start, piece));
    }

    /// Takes the next piece at or before `next`, with its start.
    pub(crate) fn take(&mut self, next: u64) -> Option<(u64, Bytes)> {
        let run = self.runs.front_mut().filter(|run| run.0 <= next)?;
        let (start, piece) = self.pieces.pop_front().expect("a run is never empty");
        self.bytes -= piece.len() as u64;
        run.0 = start + piece.len() as u64;
        if run.0 == run.1 {
            self.runs.pop_front();
        }
        Some((start, piece))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
            let mut held = OutOfOrder::default();
            let mut covered = [false; 600];
            for (start, len) in cuts {
                let fresh = (start..start + len).any(|i| !covered[i]);
                let inserted = held.insert(start as u64, Bytes::from_static(&FILM[start..start + len]));
                prop_assert_eq!(inserted == Inserted::Duplicate, !fresh);
                covered[start..start + len].fill(true);
                prop_assert_eq!(held.bytes(), covered.iter().filter(|c| **c).count() as u64);
            }
            let mut next = 0u64;
            while !held.is_empty() {
                if let Some((start, piece)) = held.take(next) {
                    prop_assert_eq!(start, next);
                    prop_assert_eq!(&piece[..], &FILM[start as usize..start as usize + piece.len()]);
                    next += piece.len() as u64;
                } else {
                    prop_assert!(!covered[next as usize], "what came is handed out");
                    next += 1;
                }
            }
            prop_assert_eq!(held.bytes(), 0);
        }
    }
}
