//! Who may be told how often that no connection has a token.

use anabranch_units::{Duration, Instant};

/// Refusals of joins with unknown tokens that may go out at once, and how many a second then: who guesses
/// tokens gets no faster answers, and nobody is flooded by way of this host.
const REFUSALS: u32 = 64;

/// How many are left.
#[derive(Debug)]
pub(super) struct Refusals {
    left: u32,
    since: Instant,
}

impl Default for Refusals {
    fn default() -> Self {
        Self { left: REFUSALS, since: Instant::ZERO }
    }
}

impl Refusals {
    /// One may go out now.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        if now.since(self.since) >= Duration::from_secs(1) {
            *self = Self { left: REFUSALS, since: now };
        }
        let some = self.left > 0;
        self.left -= u32::from(some);
        some
    }
}
