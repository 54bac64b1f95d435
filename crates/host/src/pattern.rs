//! The bytes that travel: a fixed pattern, so that every byte received can be checked by position
//! without keeping what was sent.

use std::sync::OnceLock;

use bytes::Bytes;

/// The period of the pattern, bytes: a prime, so that a shift by any power of two is noticed.
const PERIOD: u64 = 65_521;
/// The longest piece in one slice: what a server hands the kernel in one call.
pub const PIECE: u64 = 262_144;
/// Bytes of the pattern in memory: the longest piece may begin anywhere in its period.
const LENGTH: usize = (PERIOD + PIECE) as usize;
/// Bytes of the periods that hold the pattern in memory.
const LENGTH_IN_PERIODS: u64 = (LENGTH as u64).next_multiple_of(PERIOD);

fn pattern() -> &'static [u8] {
    static PATTERN: OnceLock<&'static [u8]> = OnceLock::new();
    PATTERN.get_or_init(|| {
        let mut bytes = Vec::with_capacity(LENGTH);
        bytes.extend((0..PERIOD).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8));
        while bytes.len() < LENGTH {
            let more = (LENGTH - bytes.len()).min(PERIOD as usize);
            bytes.extend_from_within(..more);
        }
        Box::leak(bytes.into_boxed_slice())
    })
}

/// Up to `limit` bytes of the pattern from `position`, at most [`PIECE`].
pub fn piece(position: u64, limit: u64) -> Bytes {
    let start = (position % PERIOD) as usize;
    Bytes::from_static(&pattern()[start..start + limit.min(PIECE) as usize])
}

/// True when `bytes` are the pattern's from `position`.
#[inline]
pub fn matches(position: u64, bytes: &[u8]) -> bool {
    is_part(position, bytes) || are_equal(position, bytes)
}

/// A slice of the pattern itself is recognised by its address; only copied bytes are compared.
#[inline]
fn is_part(position: u64, bytes: &[u8]) -> bool {
    let pattern = pattern();
    let offset = (bytes.as_ptr() as usize).wrapping_sub(pattern.as_ptr() as usize);
    // As far before the position as the bytes stand in the pattern, whole periods lie.
    offset < LENGTH
        && bytes.len() <= LENGTH - offset
        && (position + LENGTH_IN_PERIODS - offset as u64).is_multiple_of(PERIOD)
}

#[cold]
fn are_equal(mut position: u64, bytes: &[u8]) -> bool {
    bytes.chunks(PIECE as usize).all(|now| {
        let start = (position % PERIOD) as usize;
        position += now.len() as u64;
        pattern()[start..start + now.len()] == *now
    })
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
            // The same from elsewhere in memory, where only a look tells.
            let copied = bytes.to_vec();
            assert!(matches(position, &copied) && matches(position + PERIOD, &copied));
            assert!(!matches(position + 1, &copied));
        }
    }
}
