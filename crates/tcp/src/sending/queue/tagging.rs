//! Whether data is sent with tags of the layer above.

/// The use of tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tagging {
    /// Tags were never used.
    Never,
    /// Data is sent with tags.
    Now,
    /// Tags were used before. Queued data keeps its tags, so that ranges are not merged.
    Past,
}

impl Tagging {
    /// Starts to send data with tags.
    pub(crate) fn begin(&mut self) {
        *self = Self::Now;
    }

    /// Ends the use of tags, if they are in use.
    pub(crate) fn end(&mut self) {
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
