//! Detects subflows that make no progress (`mptcp_pm_subflow_chk_stale`).

use anabranch_units::Instant;

/// The largest number of periods that is counted.
const PERIODS_MAX: u32 = 255;

/// The number of timer periods without an acknowledgement.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Staleness {
    stale: bool,
    periods: u32,
    /// The time of the last acknowledgement when counting began.
    last_ack: Instant,
}

impl Staleness {
    /// Returns whether the subflow is stale, so that schedulers should not use it.
    #[inline]
    pub(crate) fn is_stale(&self) -> bool {
        self.stale
    }

    /// Returns the number of periods, including the current one.
    pub(crate) fn periods(&self) -> u32 {
        self.periods
    }

    /// Counts a period of the connection's timer and returns the number of periods. `last_ack` is the time of
    /// the last acknowledgement. A new acknowledgement resets the count.
    pub(crate) fn count_period(&mut self, last_ack: Instant) -> u32 {
        if self.periods == 0 {
            (self.periods, self.last_ack) = (1, last_ack);
        } else if self.last_ack != last_ack {
            (self.periods, self.stale) = (0, false);
        } else {
            self.periods = (self.periods + 1).min(PERIODS_MAX);
        }
        self.periods
    }

    /// Marks the subflow as stale until the next acknowledgement.
    pub(crate) fn set_stale(&mut self) {
        self.stale = true;
    }

    /// Handles an acknowledgement at `last_ack`, which shows that the path works again
    /// (`mptcp_subflow_active`).
    #[inline]
    pub(crate) fn on_ack(&mut self, last_ack: Instant) {
        if self.stale && self.last_ack != last_ack {
            (self.stale, self.periods) = (false, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subflow_is_stale_until_an_acknowledgement_ends_the_count() {
        // `mptcp_pm_subflow_chk_stale`: the first period stores the time of the last acknowledgement. Each
        // later period without a new one is counted. `mptcp_subflow_active` resets the count.
        let [before, after] =
            [1, 2].map(|s| Instant::ZERO + anabranch_units::Duration::from_secs(s));
        let mut staleness = Staleness::default();
        assert_eq!([0; 3].map(|_| staleness.count_period(before)), [1, 2, 3]);
        staleness.set_stale();
        staleness.on_ack(before);
        assert!(staleness.is_stale(), "the acknowledgement was known");
        staleness.on_ack(after);
        assert!(!staleness.is_stale() && staleness.periods() == 0);
        assert_eq!([before, after].map(|at| staleness.count_period(at)), [1, 0]);
    }
}
