//! Byte ranges (RFC 9110 section 14).

use std::ops::Range;

/// A range of bytes in a request. Both ends are inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// The first requested byte.
    pub first: u64,
    /// The last requested byte. If absent, the range ends with the resource.
    pub last: Option<u64>,
}

impl ByteRange {
    /// Returns the range from `first` to the end of the resource.
    pub const fn starting_at(first: u64) -> Self {
        Self { first, last: None }
    }

    /// Returns the bytes that the range selects from a resource of `size` bytes. `None` if the
    /// range starts after the end of the resource.
    pub fn of(self, size: u64) -> Option<Range<u64>> {
        let end = self.last.map_or(size, |last| last.saturating_add(1).min(size));
        (self.first < end).then_some(self.first..end)
    }

    /// Returns the value of a `Range` field (`bytes=a-b`).
    pub(super) fn encode(self) -> String {
        match self.last {
            Some(last) => format!("bytes={}-{last}", self.first),
            None => format!("bytes={}-", self.first),
        }
    }

    /// Parses the value of a `Range` field. If the value is not valid, returns `None`, and the
    /// server sends the whole resource: "a server MAY ignore the Range header field" (RFC 9110
    /// section 14.2).
    pub(super) fn parse(value: &str) -> Option<Self> {
        let (first, last) = value.trim().strip_prefix("bytes=")?.split_once('-')?;
        let first = parse_number(first)?;
        let last = if last.is_empty() { None } else { Some(parse_number(last)?) };
        last.is_none_or(|last| first <= last).then_some(Self { first, last })
    }
}

/// Parses a number of digits only. `u64::from_str` would accept a sign.
pub(super) fn parse_number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_cut_at_the_end_of_the_resource() {
        assert_eq!(ByteRange::starting_at(0).of(10), Some(0..10));
        assert_eq!(ByteRange { first: 2, last: Some(3) }.of(10), Some(2..4));
        assert_eq!(ByteRange { first: 2, last: Some(99) }.of(10), Some(2..10));
        assert_eq!(ByteRange::starting_at(10).of(10), None);
        assert_eq!(ByteRange { first: 0, last: Some(u64::MAX) }.of(10), Some(0..10));
    }

    #[test]
    fn an_encoded_range_is_parsed_back() {
        for range in [ByteRange::starting_at(7), ByteRange { first: 0, last: Some(0) }] {
            assert_eq!(ByteRange::parse(&range.encode()), Some(range));
        }
        for odd in ["bytes=-5", "bytes=5-4", "items=0-", "bytes=+1-", "bytes=0-1,3-4", ""] {
            assert_eq!(ByteRange::parse(odd), None, "{odd}");
        }
    }
}
