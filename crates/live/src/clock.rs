//! The clock of the real world.

use std::time::Instant as Moment;

use anabranch_units::{Duration, Instant};

/// Time since the world began, by the clock that is never set (`CLOCK_MONOTONIC`).
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    begin: Moment,
}

impl Clock {
    /// A clock that begins now.
    #[expect(clippy::disallowed_methods, reason = "the real world is where time comes from")]
    pub fn start() -> Self {
        Self { begin: Moment::now() }
    }

    /// The time.
    pub fn now(&self) -> Instant {
        Instant::ZERO + Duration::from_nanos(self.begin.elapsed().as_nanos() as u64)
    }
}
