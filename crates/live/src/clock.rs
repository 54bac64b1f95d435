//! The clock of the real world.

use std::time::Instant as Moment;

use anabranch_units::{Duration, Instant};

/// A clock that measures the time since it was started (`CLOCK_MONOTONIC`, which is never set).
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    begin: Moment,
}

impl Clock {
    /// Creates a clock that starts now.
    #[expect(clippy::disallowed_methods, reason = "the real world is where time comes from")]
    pub fn start() -> Self {
        Self { begin: Moment::now() }
    }

    /// Returns the current time.
    pub fn now(&self) -> Instant {
        Instant::ZERO + Duration::from_nanos(self.begin.elapsed().as_nanos() as u64)
    }
}
