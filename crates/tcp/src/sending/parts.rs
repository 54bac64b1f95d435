//! The parts of the sending half that loss detection and recovery change together.

use anabranch_units::Instant;

use super::cwnd::Cwnd;
use super::flight::Flight;
use super::rtt::RttEstimator;

/// The parts, and the time and positions at which they are changed.
pub(super) struct Parts<'a> {
    pub(super) now: Instant,
    pub(super) flight: &'a mut Flight,
    pub(super) cwnd: &'a mut Cwnd,
    pub(super) rtt: &'a RttEstimator,
    /// First position not acknowledged.
    pub(super) una: u64,
    /// Next position to send.
    pub(super) next: u64,
    /// Data waits to be sent.
    pub(super) queued: bool,
}

/// Marks a segment as lost and notifies the controller.
pub(super) fn lose(parts: &mut Parts<'_>, number: u64) {
    if let Some(lost) = parts.flight.lose(parts.now, number) {
        parts.cwnd.on_lost(&lost);
    }
}
