//! The bytes of a direction of a data stream in order, as far as frames contain them.

use std::collections::BTreeMap;

/// The most bytes that wait for earlier ones. The largest window of Linux is 6 MiB by default.
const MOST_BYTES: usize = 8 << 20;
/// The most pieces that wait for earlier ones.
const MOST_PIECES: usize = 16_384;

/// Data in order: captured bytes, and behind them how many were not captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) bytes: Vec<u8>,
    pub(crate) missing: u64,
}

/// Puts pieces of a data stream in order. Only pieces that came too early are kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct Text {
    next: Option<u64>,
    /// Captured bytes and length on the wire, by position.
    early: BTreeMap<u64, (Vec<u8>, u64)>,
    bytes: usize,
}

impl Text {
    /// Returns how many bytes wait.
    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes
    }

    /// Sets the position of the first byte, if nothing was taken yet.
    pub(crate) fn begin_at(&mut self, position: u64) {
        self.next.get_or_insert(position);
    }

    /// Takes a piece, and returns what is in order now, up to the position `limit`. Without
    /// [`begin_at`](Self::begin_at), the first piece begins the text.
    pub(crate) fn add(&mut self, position: u64, len: u64, bytes: &[u8], limit: u64) -> Vec<Part> {
        let next = *self.next.get_or_insert(position);
        let mut parts = Vec::new();
        if position <= next && position + len <= limit {
            self.take(position, len, bytes, &mut parts);
        } else if position + len > next {
            let known = self.early.get(&position).is_some_and(|(_, known)| *known >= len);
            if !known {
                self.bytes += bytes.len();
                if let Some((old, _)) = self.early.insert(position, (bytes.to_vec(), len)) {
                    self.bytes -= old.len();
                }
            }
        }
        self.release(&mut parts, limit);
        while self.bytes > MOST_BYTES || self.early.len() > MOST_PIECES {
            // The bytes before the first early piece were not captured.
            let Some((&first, _)) = self.early.first_key_value() else { break };
            let next = self.next.unwrap_or(first).max(first);
            parts.push(Part { bytes: Vec::new(), missing: next - self.next.unwrap_or(next) });
            self.next = Some(next);
            self.release(&mut parts, u64::MAX);
        }
        parts
    }

    fn release(&mut self, parts: &mut Vec<Part>, limit: u64) {
        while let (Some(next), Some(entry)) = (self.next, self.early.first_entry()) {
            let position = *entry.key();
            if position > next || position + entry.get().1 > limit {
                break;
            }
            let (bytes, len) = entry.remove();
            self.bytes -= bytes.len();
            self.take(position, len, &bytes, parts);
        }
    }

    /// Takes a piece that begins at or before the next byte.
    fn take(&mut self, position: u64, len: u64, bytes: &[u8], parts: &mut Vec<Part>) {
        let next = self.next.unwrap_or(position);
        let Some(left) = (position + len).checked_sub(next).filter(|left| *left > 0) else {
            return;
        };
        let skipped = usize::try_from(next - position).unwrap_or(usize::MAX);
        let new = bytes.get(skipped..).unwrap_or_default();
        let new = &new[..new.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
        parts.push(Part { bytes: new.to_vec(), missing: left - new.len() as u64 });
        self.next = Some(position + len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(bytes: &str, missing: u64) -> Part {
        Part { bytes: bytes.as_bytes().to_vec(), missing }
    }

    #[test]
    fn pieces_are_put_in_order_and_repetitions_left_out() {
        let mut text = Text::default();
        assert_eq!(text.add(10, 3, b"abc", u64::MAX), [part("abc", 0)]);
        assert_eq!(text.add(16, 2, b"gh", u64::MAX), []);
        assert_eq!(text.held_bytes(), 2);
        assert_eq!(text.add(10, 5, b"abcde", u64::MAX), [part("de", 0)]);
        assert_eq!(text.add(15, 1, b"f", u64::MAX), [part("f", 0), part("gh", 0)]);
        assert_eq!(text.held_bytes(), 0);
    }

    #[test]
    fn bytes_behind_the_snap_length_are_missing() {
        let mut text = Text::default();
        assert_eq!(text.add(0, 10, b"abc", u64::MAX), [part("abc", 7)]);
        assert_eq!(text.add(8, 4, b"i", u64::MAX), [part("", 2)]);
    }

    #[test]
    fn a_piece_waits_until_its_subflow_delivers_it() {
        let mut text = Text::default();
        assert_eq!(text.add(0, 2, b"ab", 0), []);
        assert_eq!(text.add(2, 1, b"c", 2), [part("ab", 0)]);
        assert_eq!(text.add(3, 1, b"d", 4), [part("c", 0), part("d", 0)]);
    }

    #[test]
    fn memory_is_bounded_if_a_frame_is_missing() {
        let mut text = Text::default();
        text.add(0, 1, b"a", u64::MAX);
        let mut parts = Vec::new();
        for number in 0..20_u64 {
            let at = 101 + number * 1_000_000;
            parts.extend(text.add(at, 1_000_000, &vec![b'x'; 1_000_000], u64::MAX));
            assert!(text.held_bytes() <= MOST_BYTES);
        }
        assert_eq!(parts[0], part("", 100));
    }
}
