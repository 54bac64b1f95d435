//! The number of threads for one kind of work.

use std::num::NonZero;
use std::thread::available_parallelism;

/// The largest number of threads for one kind of work. More threads would not help, because the gateway's
/// main thread cannot supply more work.
pub(crate) const MOST: usize = 4;

/// Returns the number of processors, at most [`MOST`].
pub(crate) fn count() -> usize {
    // If the number of processors is unknown, one is assumed.
    available_parallelism().map_or(1, NonZero::get).min(MOST)
}
