//! Changes of the congestion window for unit tests of other parts.

use anabranch_units::Instant;

use super::Cwnd;
use super::validation::Usage;
use anabranch_congestion::{CongestionState, Window};

impl Cwnd {
    pub(crate) fn window_mut(&mut self) -> &mut Window {
        &mut self.window
    }

    pub(crate) fn force_state(&mut self, state: CongestionState) {
        self.state = state;
    }

    /// Starts to measure the use of the window at `now`.
    pub(crate) fn measure_use(&mut self, now: Instant) {
        self.usage = Usage::default();
        self.usage.on_window_set(now);
    }

    pub(crate) fn was_full(&self) -> bool {
        self.usage.was_full()
    }
}
