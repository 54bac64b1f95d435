//! Bit rates and byte counts.

use crate::Duration;

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteCount(pub u64);

/// A bit rate. At rate zero, nothing is transmitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate {
    bits_per_second: u64,
}

impl Rate {
    /// An unlimited rate, at which transmission takes no time.
    pub const UNLIMITED: Self = Self { bits_per_second: u64::MAX };
    /// The rate zero, at which nothing is transmitted.
    pub const ZERO: Self = Self { bits_per_second: 0 };

    /// Returns a rate in bits per second.
    pub const fn from_bps(bits_per_second: u64) -> Self {
        Self { bits_per_second }
    }

    /// Returns a rate from bytes per second.
    pub const fn from_bytes_per_second(bytes: u64) -> Self {
        Self { bits_per_second: bytes.saturating_mul(8) }
    }

    /// Returns bits per second.
    pub const fn bps(self) -> u64 {
        self.bits_per_second
    }

    /// Returns whole bytes per second.
    pub const fn bytes_per_second(self) -> u64 {
        self.bits_per_second / 8
    }

    /// Returns the time to transmit `size` at this rate, rounded to a nanosecond. It is [`Duration::MAX`] at
    /// rate zero.
    pub fn transmit_time(self, size: ByteCount) -> Duration {
        if self.bits_per_second == u64::MAX {
            return Duration::ZERO;
        }
        if self.bits_per_second == 0 {
            return Duration::MAX;
        }
        match size.0.checked_mul(8_000_000_000) {
            Some(scaled) => Duration::from_nanos(
                scaled.saturating_add(self.bits_per_second / 2) / self.bits_per_second,
            ),
            None => Duration::from_nanos(
                (u128::from(size.0) * 8_000_000_000 / u128::from(self.bits_per_second)) as u64,
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transmit_time_is_bits_over_rate() {
        let rate = Rate::from_bps(5_000_000);
        assert_eq!(rate.transmit_time(ByteCount(1500)), Duration::from_nanos(2_400_000));
        assert_eq!(Rate::UNLIMITED.transmit_time(ByteCount(1500)), Duration::ZERO);
        assert_eq!(Rate::ZERO.transmit_time(ByteCount(1)), Duration::MAX);
        assert_eq!(rate.transmit_time(ByteCount(5_000_000_000)), Duration::from_secs(8000));
    }
}
