//! Positions: sequence numbers that do not wrap.

use anabranch_units::DataSeq;
use anabranch_wire::promote;

/// Where positions begin, so that a segment before the first that was seen has a position too.
const START: u64 = 1 << 40;

/// Turns 32-bit sequence numbers into positions. The low half of a position is the sequence number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Positions {
    /// The highest position so far.
    highest: u64,
}

impl Positions {
    pub(crate) fn new(first: u32) -> Self {
        Self { highest: START | u64::from(first) }
    }

    /// Returns the position nearest to the highest.
    pub(crate) fn at(&self, seq: u32) -> u64 {
        promote(seq, DataSeq(self.highest)).0
    }

    /// Notes that this position was reached.
    pub(crate) fn reach(&mut self, position: u64) {
        self.highest = self.highest.max(position);
    }
}

/// Turns 64-bit data sequence numbers, which wrap too, into positions of a data stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DataPositions {
    first: u64,
}

impl DataPositions {
    /// `first` is the data sequence number of the first byte, or of the first that was seen.
    pub(crate) fn new(first: u64) -> Self {
        Self { first }
    }

    /// Returns the position of the stream's first byte.
    pub(crate) const fn start() -> u64 {
        START
    }

    /// Returns the position of a data sequence number, or `None` if it is too far away to belong to the
    /// stream.
    pub(crate) fn at(&self, dsn: u64) -> Option<u64> {
        let position = dsn.wrapping_sub(self.first).wrapping_add(START);
        (position < 2 * START).then_some(position)
    }

    /// Takes the first number with all 64 bits, near a position, after numbers with 32 bits. Positions stay.
    pub(crate) fn learn_upper_half(&mut self, dsn: u64, near: u64) {
        let expected = self.first.wrapping_add(near.wrapping_sub(START));
        let upper = dsn.wrapping_sub(promote(dsn as u32, DataSeq(expected)).0);
        self.first = self.first.wrapping_add(upper);
    }

    /// Returns the data sequence number whose low half is `short`, near a position.
    pub(crate) fn long(&self, short: u32, near: u64) -> u64 {
        promote(short, DataSeq(self.first.wrapping_add(near.wrapping_sub(START)))).0
    }
}
