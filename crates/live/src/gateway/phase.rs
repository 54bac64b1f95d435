//! The phase of a served connection, and the reason why it ended.

use anabranch_units::{Duration, Instant};
use rustix::io::Errno;

use super::progress::{LEAST_RATE, Progress};
use super::record::End;

/// If the origin is gone, a client that receives no byte of the response for this time is reset. After this
/// time, the average rate of the client must also be at least [`LEAST_RATE`].
const LINGER: Duration = Duration::from_secs(5);

/// The phase of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Bytes are relayed.
    Relaying,
    /// The origin has sent its whole response and is gone. The client still receives the response.
    Lingering {
        since: Instant,
        /// The number of bytes that had left the gateway at `since`.
        left: u64,
        /// The error of the socket to the origin.
        error: Option<Errno>,
    },
    /// The client has received the whole response and has closed. The origin may still receive the last bytes
    /// of the client.
    Draining,
    /// The connection ended before both sides had received everything.
    Failed { end: End, error: Option<Errno> },
}

impl Phase {
    /// Returns whether the client's connection has ended.
    pub(super) fn is_over(self) -> bool {
        matches!(self, Self::Draining | Self::Failed { .. })
    }

    /// Returns whether the connection only delivers the rest of a response to the client.
    pub(super) fn lingers(self) -> bool {
        matches!(self, Self::Lingering { .. })
    }

    /// Returns the phase after the origin is gone. `answered` is true if the whole response was passed to the
    /// client's connection. `left` is the number of bytes that have left the gateway.
    pub(super) fn lose_origin(
        self,
        now: Instant,
        answered: bool,
        left: u64,
        error: Option<Errno>,
    ) -> Self {
        match self {
            Self::Relaying if answered => Self::Lingering { since: now, left, error },
            lingering @ Self::Lingering { .. } => lingering,
            other => other.fail(End::OriginBroke, error),
        }
    }

    /// Returns the phase after the client's connection has closed. `complete` is true if both sides had
    /// finished.
    pub(super) fn close(self, complete: bool) -> Self {
        match self {
            Self::Relaying if complete => Self::Draining,
            Self::Relaying => self.fail(End::Client, None),
            Self::Lingering { error, .. } => self.fail(End::OriginBroke, error),
            over => over,
        }
    }

    /// Returns the phase after a failure. The first failure and the first error of the origin are kept.
    pub(super) fn fail(self, end: End, error: Option<Errno>) -> Self {
        match self {
            Self::Relaying | Self::Draining => Self::Failed { end, error },
            Self::Lingering { error: before, .. } => Self::Failed { end, error: before.or(error) },
            failed @ Self::Failed { .. } => failed,
        }
    }

    /// Returns whether the client takes too long to receive the rest of the response.
    pub(super) fn lingers_too_long(self, now: Instant, progress: &Progress) -> bool {
        let Self::Lingering { since, left, .. } = self else { return false };
        let lasted = now.since(since);
        let received = u128::from(progress.left().saturating_sub(left));
        let slow =
            received * 1_000_000_000 < u128::from(LEAST_RATE) * u128::from(lasted.as_nanos());
        now.since(since.max(progress.moved_at())) >= LINGER || slow && lasted >= LINGER
    }

    /// Returns the reason for the end of a closed connection, and the error of the socket to the origin.
    pub(super) fn outcome(self) -> (End, Option<Errno>) {
        match self {
            Self::Relaying => (End::Client, None),
            Self::Lingering { error, .. } => (End::OriginBroke, error),
            Self::Draining => (End::Finished, None),
            Self::Failed { end, error } => (end, error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    const RESET: Option<Errno> = Some(Errno::CONNRESET);

    #[test]
    fn a_connection_that_both_sides_finished_is_finished_unless_its_last_bytes_are_lost() {
        let done = Phase::Relaying.close(true);
        assert_eq!((done, done.outcome()), (Phase::Draining, (End::Finished, None)));
        assert!(done.is_over());
        // The origin has not read the last bytes of the client.
        assert_eq!(done.fail(End::Idle, None).outcome(), (End::Idle, None));
        let lost = done.lose_origin(at(0), true, 0, RESET);
        assert_eq!(lost.outcome(), (End::OriginBroke, RESET));
    }

    #[test]
    fn the_first_failure_counts() {
        let failed = Phase::Relaying.close(false);
        assert_eq!(failed.outcome(), (End::Client, None));
        assert_eq!(failed.fail(End::Memory, RESET), failed);
        assert_eq!(failed.close(true), failed);
        assert_eq!(
            Phase::Relaying.lose_origin(at(0), false, 0, RESET).outcome().0,
            End::OriginBroke
        );
    }

    #[test]
    fn an_answer_whose_origin_is_gone_ends_with_the_origin_s_error() {
        let lingering = Phase::Relaying.lose_origin(at(0), true, 0, RESET);
        assert!(lingering.lingers() && !lingering.is_over());
        for over in [lingering.close(true), lingering.fail(End::OriginBroke, None)] {
            assert_eq!(over.outcome(), (End::OriginBroke, RESET));
        }
        assert_eq!(lingering.fail(End::Shutdown, None).outcome(), (End::Shutdown, RESET));
        let later = Some(Errno::TIMEDOUT);
        assert_eq!(lingering.fail(End::Shutdown, later).outcome(), (End::Shutdown, RESET));
    }

    #[test]
    fn a_client_may_take_long_but_not_five_seconds_without_a_byte() {
        let mut progress = Progress::new(at(0));
        progress.note(at(0), [0, 1000]);
        let lingering = Phase::Relaying.lose_origin(at(0), true, 1000, None);
        // The rate is 2 Mb/s, that is, 250 kB per second for a minute.
        for second in 1..=60 {
            progress.note(at(1000 * second), [0, 1000 + 250_000 * second]);
            assert!(!lingering.lingers_too_long(at(1000 * second), &progress), "{second} s");
        }
        assert!(!lingering.lingers_too_long(at(64_999), &progress));
        assert!(lingering.lingers_too_long(at(65_000), &progress));
        assert!(!Phase::Relaying.lingers_too_long(at(65_000), &progress));
    }

    #[test]
    fn a_client_that_takes_a_byte_now_and_then_is_ended_after_five_seconds() {
        let mut progress = Progress::new(at(0));
        let lingering = Phase::Relaying.lose_origin(at(0), true, 0, None);
        progress.note(at(4000), [0, 1]);
        assert!(!lingering.lingers_too_long(at(4999), &progress));
        assert!(lingering.lingers_too_long(at(5000), &progress));
        // 1,024 bytes per second are enough, and one byte less is not.
        progress.note(at(5000), [0, 5119]);
        assert!(lingering.lingers_too_long(at(5000), &progress));
        progress.note(at(5000), [0, 5120]);
        assert!(!lingering.lingers_too_long(at(5000), &progress));
    }
}
