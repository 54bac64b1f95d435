//! The parts of the sending half that loss detection and recovery change together.

use anabranch_units::Instant;

use super::cwnd::Cwnd;
use super::flight::Flight;
use super::rtt::RttEstimator;

/// The parts, with the current time and positions.
pub(super) struct Parts<'a> {
    pub(super) now: Instant,
    pub(super) flight: &'a mut Flight,
    pub(super) cwnd: &'a mut Cwnd,
    pub(super) rtt: &'a RttEstimator,
    /// The first unacknowledged position.
    pub(super) una: u64,
    /// The next position to send.
    pub(super) next: u64,
    /// Whether unsent data is queued.
    pub(super) queued: bool,
}

/// Marks a segment as lost and notifies the controller.
pub(super) fn lose(parts: &mut Parts<'_>, number: u64) {
    if let Some(lost) = parts.flight.on_lost(parts.now, number) {
        parts.cwnd.on_lost(&lost);
    }
}
