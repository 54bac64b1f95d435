//! Measures how fast the bytes held for a connection leave the gateway.

use anabranch_units::{Duration, Instant};

/// The window of the drain time. A rate is measured over the current window and the previous one. This
/// averages over the pauses of a client that reads a little at a time, and over a short outage.
const WINDOW: Duration = Duration::from_secs(1);
/// The window of the rate. It is longer than the pause of a player between two chunks.
const RATE_WINDOW: Duration = Duration::from_secs(30);
/// A connection with a lower rate than this is slow, bytes per second.
pub(super) const LEAST_RATE: u64 = 1024;

/// A measurement: the number of bytes that had left the gateway, from the client and from the origin.
#[derive(Clone, Copy, Debug)]
struct Mark {
    at: Instant,
    left: [u64; 2],
}

/// The current window and the previous one.
#[derive(Clone, Copy, Debug)]
struct Windows {
    length: Duration,
    /// The measurement at the start of the previous window.
    before: Mark,
    /// The measurement at the start of the current window.
    begun: Mark,
}

impl Windows {
    fn new(length: Duration, start: Mark) -> Self {
        Self { length, before: start, begun: start }
    }

    fn note(&mut self, mark: Mark) {
        if mark.at.since(self.begun.at) >= self.length {
            (self.before, self.begun) = (self.begun, mark);
        }
    }
}

/// The progress of one connection.
#[derive(Clone, Debug)]
pub(super) struct Progress {
    since: Instant,
    drain: Windows,
    rate: Windows,
    /// The latest measurement.
    last: Mark,
    /// The time at which a byte last left.
    moved_at: Instant,
}

impl Progress {
    /// Creates the state of a connection that begins now.
    pub(super) fn new(now: Instant) -> Self {
        let start = Mark { at: now, left: [0; 2] };
        let (drain, rate) = (Windows::new(WINDOW, start), Windows::new(RATE_WINDOW, start));
        Self { since: now, drain, rate, last: start, moved_at: now }
    }

    /// Records the bytes that have left since the connection began: from the client, and from the origin.
    /// Reinjected bytes are held twice, so the number can decrease. A smaller number is ignored.
    pub(super) fn note(&mut self, now: Instant, left: [u64; 2]) {
        let left = [0, 1].map(|way| left[way].max(self.last.left[way]));
        if left != self.last.left {
            self.moved_at = now;
        }
        self.last = Mark { at: now, left };
        self.drain.note(self.last);
        self.rate.note(self.last);
    }

    /// Returns the time of the last measurement with a larger number than before.
    pub(super) fn moved_at(&self) -> Instant {
        self.moved_at
    }

    /// Returns the time at which the connection began.
    pub(super) fn since(&self) -> Instant {
        self.since
    }

    /// Returns the number of bytes that have left in both directions.
    pub(super) fn left(&self) -> u64 {
        self.last.left.iter().sum()
    }

    /// Returns whether the client has received a byte from the origin.
    pub(super) fn is_answered(&self) -> bool {
        self.last.left[1] > 0
    }

    /// Returns the average rate over the last 30 to 60 s, or since the connection began, in bytes per second.
    pub(super) fn rate(&self) -> u64 {
        let before = self.rate.before;
        let left = u128::from(self.left() - before.left.iter().sum::<u64>());
        let nanos = u128::from(self.last.at.since(before.at).as_nanos());
        u64::try_from(left * 1_000_000_000 / nanos.max(1)).unwrap_or(u64::MAX)
    }

    /// Returns the time that the held bytes need to leave at the current rate. [`Duration::MAX`] if no byte
    /// leaves. `held` contains the bytes from the client and those from the origin. A direction with less
    /// than half of these bytes is ignored. If nothing has left in the first window, the age of the
    /// connection is returned.
    pub(super) fn drain_time(&self, held: [u64; 2]) -> Duration {
        let span = self.last.at.since(self.drain.before.at).as_nanos();
        let all = held[0] + held[1];
        let times =
            [0, 1].into_iter().filter(|&way| held[way] > 0 && 2 * held[way] >= all).map(|way| {
                let left = self.last.left[way].saturating_sub(self.drain.before.left[way]);
                let nanos = u128::from(held[way]) * u128::from(span) / u128::from(left.max(1));
                if left == 0 && span < WINDOW.as_nanos() {
                    Duration::from_nanos(span)
                } else if left == 0 {
                    Duration::MAX
                } else {
                    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
                }
            });
        times.max().unwrap_or(Duration::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn the_drain_time_is_the_held_bytes_over_the_rate_of_two_windows() {
        let mut progress = Progress::new(at(0));
        progress.note(at(500), [500, 0]);
        // 500 bytes were sent in 0.5 s, so 2,000 bytes need 2 s.
        assert_eq!(progress.drain_time([2000, 0]), Duration::from_secs(2));
        progress.note(at(1000), [1000, 0]);
        progress.note(at(1500), [1000, 0]);
        // 1,000 bytes were sent in 1.5 s: in the current window, which began at 1 s, and in the
        // previous one.
        assert_eq!(progress.drain_time([2000, 0]), Duration::from_secs(3));
        progress.note(at(2000), [1000, 0]);
        assert_eq!(progress.drain_time([2000, 0]), Duration::MAX, "none left in the last window");
        assert_eq!(progress.moved_at(), at(1000));
    }

    #[test]
    fn a_connection_is_answered_when_a_byte_of_the_origin_has_left() {
        let mut progress = Progress::new(at(0));
        progress.note(at(100), [500, 0]);
        assert!(!progress.is_answered());
        progress.note(at(200), [500, 1]);
        assert!(progress.is_answered());
    }

    #[test]
    fn a_new_connection_is_stalled_after_a_second_at_the_earliest() {
        let mut progress = Progress::new(at(0));
        progress.note(at(999), [0, 0]);
        assert_eq!(progress.drain_time([0, 1]), Duration::from_millis(999));
        progress.note(at(1000), [0, 0]);
        assert_eq!(progress.drain_time([0, 1]), Duration::MAX);
    }

    #[test]
    fn a_byte_now_and_then_does_not_hide_a_standstill() {
        let mut progress = Progress::new(at(0));
        for second in 1..=20 {
            progress.note(at(1000 * second), [second, 0]);
        }
        // One byte per second: 4 MB need 4,000,000 s, even just after a byte has left.
        assert_eq!(progress.drain_time([4_000_000, 0]), Duration::from_secs(4_000_000));
    }

    #[test]
    fn reinjected_bytes_are_no_progress() {
        let mut progress = Progress::new(at(0));
        progress.note(at(100), [0, 9000]);
        // 1,400 bytes are reinjected, and later one of the two copies is acknowledged.
        progress.note(at(200), [0, 7600]);
        progress.note(at(300), [0, 9000]);
        assert_eq!((progress.left(), progress.moved_at()), (9000, at(100)));
    }

    #[test]
    fn the_rate_covers_pauses_between_chunks() {
        let mut progress = Progress::new(at(0));
        progress.note(at(2000), [100, 99_900]);
        assert_eq!(progress.rate(), 50_000);
        for second in 3..=59 {
            progress.note(at(1000 * second), [100, 99_900]);
        }
        // 100,000 bytes left in 59 s. The next window begins at 60 s. No byte left in the window that began
        // at 30 s.
        assert_eq!(progress.rate(), 1694);
        progress.note(at(60_000), [100, 99_900]);
        assert_eq!((progress.rate(), progress.is_answered()), (0, true));
    }

    #[test]
    fn the_direction_that_holds_most_counts() {
        let mut progress = Progress::new(at(0));
        progress.note(at(1000), [1000, 0]);
        // The upload of the client is fast, and no byte of its download leaves.
        assert_eq!(progress.drain_time([400, 600]), Duration::MAX);
        assert_eq!(progress.drain_time([600, 400]), Duration::from_millis(600));
        assert_eq!(progress.drain_time([500, 500]), Duration::MAX);
        assert_eq!(progress.drain_time([0, 0]), Duration::ZERO);
    }
}
