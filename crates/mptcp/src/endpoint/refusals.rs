//! A rate limit for RSTs that answer joins with unknown tokens.

use anabranch_units::{Duration, Instant};

/// The largest number of RSTs per second. The limit slows down a peer that guesses tokens. It also
/// limits the RSTs that a forged address receives from this host.
const REFUSALS: u32 = 64;

/// The number of RSTs left in the current second.
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
    /// Counts a RST. Returns false if no RST may be sent now.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        if now.since(self.since) >= Duration::from_secs(1) {
            *self = Self { left: REFUSALS, since: now };
        }
        let some = self.left > 0;
        self.left -= u32::from(some);
        some
    }
}
