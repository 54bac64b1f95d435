//! Wrapping sequence numbers, and the identifier of a subflow.

use std::fmt;

macro_rules! sequence {
    ($(#[$doc:meta])* $name:ident, $raw:ty, $signed:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
        pub struct $name(pub $raw);

        impl $name {
            /// Returns the number `count` bytes later, wrapping.
            #[must_use]
            pub const fn add(self, count: $raw) -> Self {
                Self(self.0.wrapping_add(count))
            }

            /// Returns the number `count` bytes earlier, wrapping.
            #[must_use]
            pub const fn sub(self, count: $raw) -> Self {
                Self(self.0.wrapping_sub(count))
            }

            /// Returns the number of bytes from `earlier` to this number, wrapping. The result has no meaning
            /// if `earlier` is later than this number.
            pub const fn distance(self, earlier: Self) -> $raw {
                self.0.wrapping_sub(earlier.0)
            }

            /// Returns the signed distance from `other` to this number (RFC 1982 arithmetic).
            pub const fn offset(self, other: Self) -> $signed {
                self.0.wrapping_sub(other.0) as $signed
            }

            /// Returns true if this number precedes `other`.
            pub const fn before(self, other: Self) -> bool {
                self.offset(other) < 0
            }

            /// Returns true if this number follows `other`.
            pub const fn after(self, other: Self) -> bool {
                self.offset(other) > 0
            }

            /// Returns the later of two numbers.
            #[must_use]
            pub const fn later(self, other: Self) -> Self {
                if self.before(other) { other } else { self }
            }

            /// Returns the earlier of two numbers.
            #[must_use]
            pub const fn earlier(self, other: Self) -> Self {
                if other.before(self) { other } else { self }
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }
    };
}

sequence!(
    /// A TCP sequence number (RFC 9293 section 3.4), 32 bits, wrapping.
    SeqNumber, u32, i32
);
sequence!(
    /// An MPTCP data sequence number (RFC 8684 section 3.3.1), 64 bits, wrapping.
    DataSeq, u64, i64
);

/// The identifier of a subflow in its MPTCP connection. Subflows are numbered from 0 in order of creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubflowId(pub u8);

impl SubflowId {
    /// Returns the index for per-subflow arrays.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_kept_when_numbers_wrap() {
        let before_wrap = SeqNumber(u32::MAX - 1);
        let after_wrap = before_wrap.add(10);
        assert!(before_wrap.before(after_wrap));
        assert_eq!(after_wrap.distance(before_wrap), 10);
        assert_eq!(before_wrap.later(after_wrap), after_wrap);
        assert_eq!(before_wrap.earlier(after_wrap), before_wrap);
        assert_eq!(DataSeq(3).offset(DataSeq(5)), -2);
    }
}
