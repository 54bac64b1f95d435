//! How fast the bytes that the gateway holds for a connection leave.

use anabranch_units::{Duration, Instant};

/// The length of a measurement window. A rate covers the current window and the previous one. A client that reads a
/// little now and then is therefore averaged, and a short outage does not count as a standstill.
const WINDOW: Duration = Duration::from_secs(1);

/// The bytes that had left the gateway at a time: from the client, and from the origin.
#[derive(Clone, Copy, Debug)]
struct Mark {
    at: Instant,
    left: [u64; 2],
}

/// The progress of one connection.
#[derive(Clone, Debug)]
pub(super) struct Progress {
    /// The start of the previous window.
    before: Mark,
    /// The start of the current window.
    begun: Mark,
    /// The latest measurement.
    last: Mark,
    /// When a byte last left.
    moved_at: Instant,
}

impl Progress {
    /// Starts to measure a connection that begins now.
    pub(super) fn new(now: Instant) -> Self {
        let start = Mark { at: now, left: [0; 2] };
        Self { before: start, begun: start, last: start, moved_at: now }
    }

    /// Records how many bytes have left since the connection began: from the client, and from the origin.
    /// Returns whether the numbers have changed.
    pub(super) fn note(&mut self, now: Instant, left: [u64; 2]) -> bool {
        let moved = left != self.last.left;
        if moved {
            self.moved_at = now;
        }
        self.last = Mark { at: now, left };
        if now.since(self.begun.at) >= WINDOW {
            self.before = self.begun;
            self.begun = self.last;
        }
        moved
    }

    /// Returns the time of the latest measurement in which bytes had left.
    pub(super) fn moved_at(&self) -> Instant {
        self.moved_at
    }

    /// Returns how long the held bytes take to leave at the current rate; [`Duration::MAX`] if none leave.
    /// `held` has the bytes from the client and those from the origin. A direction with less than half of the bytes is
    /// ignored. If nothing has left within the first window, the age of the connection is returned.
    pub(super) fn drain_time(&self, held: [u64; 2]) -> Duration {
        let span = self.last.at.since(self.before.at).as_nanos();
        let all = held[0] + held[1];
        let times =
            [0, 1].into_iter().filter(|&way| held[way] > 0 && 2 * held[way] >= all).map(|way| {
                let left = self.last.left[way].saturating_sub(self.before.left[way]);
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
    fn the_drain_time_is_what_is_held_over_the_rate_of_two_windows() {
        let mut progress = Progress::new(at(0));
        progress.note(at(500), [500, 0]);
        // 500 bytes in 0.5 s: 2,000 bytes take 2 s.
        assert_eq!(progress.drain_time([2000, 0]), Duration::from_secs(2));
        progress.note(at(1000), [1000, 0]);
        progress.note(at(1500), [1000, 0]);
        // 1,000 bytes in 1.5 s: the current window, which began at 1 s, and the previous one.
        assert_eq!(progress.drain_time([2000, 0]), Duration::from_secs(3));
        progress.note(at(2000), [1000, 0]);
        assert_eq!(progress.drain_time([2000, 0]), Duration::MAX, "none left in the last window");
        assert_eq!(progress.moved_at(), at(1000));
    }

    #[test]
    fn a_new_connection_has_a_second_until_it_stands_still() {
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
        // One byte a second: 4 MB take 4,000,000 s, even right after a byte has left.
        assert_eq!(progress.drain_time([4_000_000, 0]), Duration::from_secs(4_000_000));
    }

    #[test]
    fn the_direction_that_holds_most_counts() {
        let mut progress = Progress::new(at(0));
        progress.note(at(1000), [1000, 0]);
        // The client's upload is fast and its download stands still.
        assert_eq!(progress.drain_time([400, 600]), Duration::MAX);
        assert_eq!(progress.drain_time([600, 400]), Duration::from_millis(600));
        assert_eq!(progress.drain_time([500, 500]), Duration::MAX);
        assert_eq!(progress.drain_time([0, 0]), Duration::ZERO);
    }
}
