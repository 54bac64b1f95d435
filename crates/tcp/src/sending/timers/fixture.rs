//! Changes of the timers for unit tests of other parts.

use super::{Pending, Timers};
use crate::sending::rtt::RttEstimator;

impl Timers {
    pub(crate) fn pending(&self) -> Option<Pending> {
        self.pending
    }

    pub(crate) fn forget_rtt(&mut self) {
        self.rtt = RttEstimator::default();
    }
}
