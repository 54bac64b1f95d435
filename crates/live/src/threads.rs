//! How many threads share a kind of work.

use std::num::NonZero;
use std::thread::available_parallelism;

/// The most threads for one kind of work: beyond them the gateway's own thread has no more to give.
pub(crate) const MOST: usize = 4;

/// One for each processor, [`MOST`] at most.
pub(crate) fn count() -> usize {
    // Where the system does not say how many processors there are, one is certain.
    available_parallelism().map_or(1, NonZero::get).min(MOST)
}
