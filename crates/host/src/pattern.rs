//! The transferred data, which is a fixed pattern. A received byte can be checked by its position, without a
//! copy of the sent data.

use std::sync::OnceLock;

use bytes::Bytes;
use thiserror::Error;

/// The error of a client that read a byte different from the one sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("client {client} read wrong bytes at position {position}")]
pub struct WrongBytes {
    /// The client's number.
    pub client: u32,
    /// The position in the stream or resource.
    pub position: u64,
}

/// The period of the pattern in bytes. It is a prime, so a shift by any power of two is detected.
const PERIOD: u64 = 65_521;
/// The largest slice in bytes: the most that a server writes in one call.
pub const PIECE: u64 = 262_144;
/// The bytes of the pattern in memory. A slice of the largest size can start at any position of the period.
const LENGTH: usize = (PERIOD + PIECE) as usize;
/// The pattern's length in memory, rounded up to whole periods.
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

/// Returns up to `limit` bytes of the pattern from `position`, at most [`PIECE`].
pub fn piece(position: u64, limit: u64) -> Bytes {
    let start = (position % PERIOD) as usize;
    Bytes::from_static(&pattern()[start..start + limit.min(PIECE) as usize])
}

/// Returns true if `bytes` are the pattern's bytes from `position`.
#[inline]
pub fn matches(position: u64, bytes: &[u8]) -> bool {
    is_part(position, bytes) || are_equal(position, bytes)
}

/// Returns whether `bytes` are a slice of the pattern itself, recognised by its address. Only copied bytes
/// must be compared.
#[inline]
fn is_part(position: u64, bytes: &[u8]) -> bool {
    let pattern = pattern();
    let offset = (bytes.as_ptr() as usize).wrapping_sub(pattern.as_ptr() as usize);
    // The position minus the slice's offset in the pattern is a multiple of the period.
    offset < LENGTH
        && bytes.len() <= LENGTH - offset
        && (position + LENGTH_IN_PERIODS - offset as u64).is_multiple_of(PERIOD)
}

#[cold]
fn are_equal(position: u64, bytes: &[u8]) -> bool {
    beside(position, bytes).all(|(pattern, now)| pattern == now)
}

/// Returns how many of `bytes` differ from the pattern at `position`.
#[cold]
pub fn wrong(position: u64, bytes: &[u8]) -> u64 {
    let differ = |(pattern, now): (&[u8], &[u8])| {
        pattern.iter().zip(now).filter(|(right, is)| right != is).count() as u64
    };
    beside(position, bytes).map(differ).sum()
}

/// Pairs the pattern from `position` with `bytes`, one slice at a time.
fn beside(mut position: u64, bytes: &[u8]) -> impl Iterator<Item = (&'static [u8], &[u8])> {
    bytes.chunks(PIECE as usize).map(move |now| {
        let start = (position % PERIOD) as usize;
        position += now.len() as u64;
        (&pattern()[start..start + now.len()], now)
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
            // A copy elsewhere in memory must be compared byte by byte.
            let copied = bytes.to_vec();
            assert!(matches(position, &copied) && matches(position + PERIOD, &copied));
            assert!(!matches(position + 1, &copied));
        }
    }

    #[test]
    fn wrong_bytes_are_counted_across_slices() {
        let length = PIECE as usize + 1000;
        let mut bytes = [piece(7, PIECE), piece(7 + PIECE, 1000)].concat();
        assert_eq!((bytes.len(), wrong(7, &bytes)), (length, 0));
        for place in [0, 5, length - 1] {
            bytes[place] ^= 0x40;
        }
        assert_eq!(wrong(7, &bytes), 3);
        assert!(!matches(7, &bytes));
    }
}
