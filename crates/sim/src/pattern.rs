//! The bytes that travel: a fixed pattern, so that every byte received can be checked by position
//! without keeping what was sent.

use std::sync::OnceLock;

use bytes::Bytes;

/// The pattern repeats after a prime number of bytes, so that a shift by any power of two shows.
const PERIOD: u64 = 65_521;
/// The longest piece in one slice: what a server hands the kernel in one call.
pub(crate) const PIECE: u64 = 262_144;

fn pattern() -> &'static [u8] {
    static PATTERN: OnceLock<&'static [u8]> = OnceLock::new();
    PATTERN.get_or_init(|| {
        let bytes: Vec<u8> = (0..PERIOD + PIECE)
            .map(|i| ((i % PERIOD).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8)
            .collect();
        Box::leak(bytes.into_boxed_slice())
    })
}

/// Up to `limit` bytes of the pattern from `position`, at most [`PIECE`].
pub(crate) fn piece(position: u64, limit: u64) -> Bytes {
    let start = (position % PERIOD) as usize;
    Bytes::from_static(&pattern()[start..start + limit.min(PIECE) as usize])
}

/// True when `bytes` are the pattern's from `position`.
pub(crate) fn matches(position: u64, mut bytes: &[u8]) -> bool {
    let mut position = position;
    while !bytes.is_empty() {
        let start = (position % PERIOD) as usize;
        let length = bytes.len().min(65_536);
        let (now, rest) = bytes.split_at(length);
        // What was never copied is a part of the pattern itself; only other bytes need a look.
        let offset = (now.as_ptr() as usize).wrapping_sub(pattern().as_ptr() as usize);
        let is_part = offset + length <= pattern().len() && offset % (PERIOD as usize) == start;
        if !is_part && &pattern()[start..start + length] != now {
            return false;
        }
        position += length as u64;
        bytes = rest;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_match_their_position_and_no_other() {
        for position in [0, 1, 65_520, 65_521, 409_000_000] {
            let bytes = piece(position, 1000);
            assert!(matches(position, &bytes));
            assert!(!matches(position + 1, &bytes));
            assert!(!matches(position + 1424, &bytes));
        }
    }
}
