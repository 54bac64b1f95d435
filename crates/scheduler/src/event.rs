//! Events of a subflow, as a scheduler is notified of them.

use anabranch_units::CongestionState;

/// A change of one subflow.
///
/// Between two updates of a subflow, all changes of one kind become one event, in the order of the variants. An
/// update follows every segment that arrives and every timer that fires, and precedes the next call of `schedule`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubflowEvent {
    /// It can carry data: the handshake is complete in both directions.
    Opened,
    /// Its retransmission timer fired. Tail loss probes are not counted (RFC 8985 section 7).
    Timeout {
        /// Timeouts in a row without an acknowledgement between them, this one included.
        consecutive: u32,
    },
    /// The peer has received data.
    Delivered {
        /// Segments acknowledged, cumulatively or selectively.
        segments: u64,
        /// Payload bytes acknowledged cumulatively.
        bytes: u64,
    },
    /// Segments were marked lost. A segment whose retransmission is lost counts again.
    Lost {
        /// How many.
        segments: u64,
    },
    /// The congestion state changed to this one.
    Congestion(CongestionState),
    /// It was found without progress (true), or an acknowledgement arrived on it again (false).
    Stale(bool),
    /// It became a backup (true), or a regular subflow (false).
    Backup(bool),
    /// It no longer carries new data: closed, reset, or its FIN is sent.
    Closed,
}
