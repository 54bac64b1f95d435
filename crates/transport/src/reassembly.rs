//! Bytes that arrived ahead of their turn, as contiguous runs; shared by subflows and connections.

use std::collections::VecDeque;

use bytes::Bytes;

/// A contiguous range received out of order.
#[derive(Debug)]
struct Run {
    start: u64,
    end: u64,
    pieces: VecDeque<(u64, Bytes)>,
}

/// Out-of-order data in runs, ascending and never touching one another.
#[derive(Debug, Default)]
pub(crate) struct OutOfOrder {
    runs: Vec<Run>,
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
        self.runs.last().map(|run| run.end)
    }

    /// The run that starts at `start`.
    pub(crate) fn run(&self, start: u64) -> Option<(u64, u64)> {
        let at = self.runs.partition_point(|run| run.start < start);
        self.runs.get(at).filter(|run| run.start == start).map(|run| (run.start, run.end))
    }

    /// Files `payload` at `start`, keeping what is new of it and joining neighbours.
    pub(crate) fn insert(&mut self, start: u64, payload: Bytes) -> Inserted {
        let end = start + payload.len() as u64;
        let at = self.runs.partition_point(|run| run.end < start);
        if self.runs.get(at).is_none_or(|run| run.start > end) {
            self.bytes += payload.len() as u64;
            let pieces = VecDeque::from([(start, payload)]);
            self.runs.insert(at, Run { start, end, pieces });
            return Inserted::Kept(start);
        }
        let run = &mut self.runs[at];
        if run.start <= start && end <= run.end {
            return Inserted::Duplicate;
        }
        if start < run.start {
            let keep = ((run.start - start) as usize).min(payload.len());
            run.pieces.push_front((start, payload.slice(..keep)));
            self.bytes += keep as u64;
            run.start = start;
        }
        self.extend(at, start, end, &payload);
        Inserted::Kept(self.runs[at].start)
    }

    /// Lengthens run `at` to `end` with what `payload` adds, swallowing the runs it reaches.
    fn extend(&mut self, at: usize, start: u64, end: u64, payload: &Bytes) {
        while self.runs[at].end < end {
            let (run_end, next_start) =
                (self.runs[at].end, self.runs.get(at + 1).map_or(u64::MAX, |next| next.start));
            let stop = end.min(next_start);
            if stop > run_end {
                let piece = payload.slice((run_end - start) as usize..(stop - start) as usize);
                self.bytes += piece.len() as u64;
                self.runs[at].pieces.push_back((run_end, piece));
                self.runs[at].end = stop;
            }
            if self.runs[at].end == next_start {
                let next = self.runs.remove(at + 1);
                self.runs[at].pieces.extend(next.pieces);
                self.runs[at].end = next.end;
            }
        }
        if self.runs.get(at + 1).is_some_and(|next| next.start == self.runs[at].end) {
            let next = self.runs.remove(at + 1);
            self.runs[at].pieces.extend(next.pieces);
            self.runs[at].end = next.end;
        }
    }

    /// Takes the next piece at or before `next`, with its start.
    pub(crate) fn take(&mut self, next: u64) -> Option<(u64, Bytes)> {
        let run = self.runs.first_mut().filter(|run| run.start <= next)?;
        let (start, piece) = run.pieces.pop_front().expect("a run is never empty");
        self.bytes -= piece.len() as u64;
        run.start = start + piece.len() as u64;
        if run.pieces.is_empty() {
            self.runs.remove(0);
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
                match held.take(next) {
                    Some((start, piece)) => {
                        prop_assert_eq!(start, next);
                        prop_assert_eq!(&piece[..], &FILM[start as usize..start as usize + piece.len()]);
                        next += piece.len() as u64;
                    }
                    None => {
                        prop_assert!(!covered[next as usize], "what came is handed out");
                        next += 1;
                    }
                }
            }
            prop_assert_eq!(held.bytes(), 0);
        }
    }
}
