//! Events of a subflow, as a scheduler is notified of them.

use anabranch_units::CongestionState;

/// A change of one subflow.
///
/// After every segment that arrives and every timer that fires, the subflow is updated. All changes of one
/// kind since the last update become one event. The events follow the order of the variants, and precede the
/// next call of `schedule`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubflowEvent {
    /// The handshake is complete in both directions, so the subflow can carry data.
    Opened,
    /// The retransmission timer fired. Tail loss probes are not counted (RFC 8985 section 7).
    Timeout {
        /// The number of timeouts in a row, including this one, without an acknowledgement in between.
        consecutive: u32,
    },
    /// The peer acknowledged data.
    Delivered {
        /// Segments that were acknowledged, cumulatively or selectively.
        segments: u64,
        /// Payload bytes that were acknowledged cumulatively.
        bytes: u64,
    },
    /// Segments were marked lost. A segment counts again if its retransmission is lost.
    Lost {
        /// The number of segments.
        segments: u64,
    },
    /// The congestion state changed to this one.
    Congestion(CongestionState),
    /// The subflow made no progress (true), or an acknowledgement arrived on it again (false).
    Stale(bool),
    /// The subflow became a backup (true), or a regular subflow (false).
    Backup(bool),
    /// The subflow no longer carries new data: it is closed or reset, or its FIN was sent.
    Closed,
}
