//! Whether data travels under tags of the layer above.

/// The use of tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tagging {
    /// There was none.
    Never,
    /// Data travels under tags.
    Now,
    /// It did. Data in the queue keeps its tags, so that ranges are not merged.
    Past,
}

impl Tagging {
    /// Starts to send data under tags.
    pub fn begin(&mut self) {
        *self = Self::Now;
    }

    /// Ends the use of tags, if there was any.
    pub fn end(&mut self) {
        if *self == Self::Now {
            *self = Self::Past;
        }
    }

    /// Returns whether tags separate the ranges of data in the queue.
    #[inline]
    pub(super) fn separates(self) -> bool {
        self != Self::Never
    }
}
