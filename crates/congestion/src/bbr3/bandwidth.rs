//! A bandwidth in segments, and its conversions to segments and bytes.

use anabranch_units::{Duration, Rate};

/// Fraction bits of a bandwidth (`BW_SCALE` in `tcp_bbr.c`).
const SCALE: u32 = 24;
/// A gain of 1. Gains are in per cent.
const PERCENT: u128 = 100;

/// A bandwidth in units of 2^-24 segments per microsecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Bandwidth(u64);

impl Bandwidth {
    pub(super) const ZERO: Self = Self(0);
    /// No bound ("infinity").
    pub(super) const UNBOUNDED: Self = Self(u64::MAX);

    /// Returns the bandwidth that delivers `segments` in `time`. Zero if `time` is zero.
    pub(super) fn of(segments: u32, time: Duration) -> Self {
        let scaled = u64::from(segments) << SCALE;
        Self(if time.is_zero() { 0 } else { scaled / time.as_micros().max(1) })
    }

    /// Returns the given percentage of the bandwidth. An unbounded bandwidth stays unbounded.
    pub(super) fn percent(self, percent: u64) -> Self {
        Self(u64::try_from(u128::from(self.0) * u128::from(percent) / PERCENT).unwrap_or(u64::MAX))
    }

    /// Returns the number of whole segments delivered in `time`.
    pub(super) fn delivers(self, time: Duration) -> u64 {
        ((u128::from(self.0) * u128::from(time.as_micros())) >> SCALE) as u64
    }

    /// Returns `gain` per cent of the bandwidth-delay product for this RTT, in segments, rounded up.
    pub(super) fn fills(self, rtt: Duration, gain: u64) -> u32 {
        let product = u128::from(self.0) * u128::from(rtt.as_micros()) * u128::from(gain);
        product.div_ceil(PERCENT << SCALE).min(u128::from(u32::MAX)) as u32
    }

    /// Returns the rate in bytes per second: `gain` per cent of the bandwidth, minus `margin` per cent. `mss`
    /// is in bytes.
    pub(super) fn rate(self, mss: u32, gain: u64, margin: u64) -> Rate {
        let per_second = u128::from(self.0) * u128::from(mss) * 1_000_000;
        let paced = per_second * u128::from(gain) * (PERCENT - u128::from(margin));
        Rate::from_bytes_per_second(((paced / (PERCENT * PERCENT)) >> SCALE) as u64)
    }
}

/// The maximum of the current probing cycle and the previous one (`max_bw_filter`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CycleMax {
    before: Bandwidth,
    now: Bandwidth,
}

impl CycleMax {
    pub(super) fn get(&self) -> Bandwidth {
        self.before.max(self.now)
    }

    pub(super) fn take(&mut self, bw: Bandwidth) {
        self.now = self.now.max(bw);
    }

    /// Begins a cycle (`AdvanceMaxBwFilter`). If the last cycle had no sample, the older values are kept.
    pub(super) fn advance(&mut self) {
        if self.now > Bandwidth::ZERO {
            *self = Self { before: self.now, now: Bandwidth::ZERO };
        }
    }
}
