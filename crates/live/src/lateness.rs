//! The lateness of the emulator: the difference between the actual and the due departure of a packet.

use anabranch_units::Duration;

/// The width of a step of the histogram.
const STEP: Duration = Duration::from_micros(10);
/// The number of steps. The last step also counts all later packets.
const STEPS: usize = 10_000;

/// A histogram of lateness.
#[derive(Clone, Debug)]
pub struct Lateness {
    counts: Vec<u64>,
    all: u64,
    max: Duration,
}

impl Default for Lateness {
    fn default() -> Self {
        Self { counts: vec![0; STEPS], all: 0, max: Duration::ZERO }
    }
}

impl Lateness {
    /// Counts a packet with its lateness.
    pub fn note(&mut self, late: Duration) {
        let step = (late.as_nanos() / STEP.as_nanos()) as usize;
        self.counts[step.min(STEPS - 1)] += 1;
        self.all += 1;
        self.max = self.max.max(late);
    }

    /// Returns the number of counted packets.
    pub fn count(&self) -> u64 {
        self.all
    }

    /// Returns the largest lateness.
    pub fn max(&self) -> Duration {
        self.max
    }

    /// Returns the quantile `share` (0 to 1) of the lateness, rounded up to 10 µs. Zero if no packet was
    /// counted.
    pub fn quantile(&self, share: f64) -> Duration {
        let wanted = (self.all as f64 * share).ceil() as u64;
        let mut seen = 0;
        // The last step has no upper bound, so it is excluded.
        for (step, count) in self.counts[..STEPS - 1].iter().enumerate() {
            seen += count;
            if seen >= wanted && seen > 0 {
                return Duration::from_nanos(STEP.as_nanos() * (step as u64 + 1)).min(self.max);
            }
        }
        self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_match_the_counted_packets() {
        let mut lateness = Lateness::default();
        assert_eq!(lateness.quantile(0.99), Duration::ZERO);
        for micros in 1..=1000 {
            lateness.note(Duration::from_micros(micros));
        }
        lateness.note(Duration::from_secs(1));
        assert_eq!(lateness.count(), 1001);
        assert_eq!(lateness.max(), Duration::from_secs(1));
        assert_eq!(lateness.quantile(0.5), Duration::from_micros(510));
        assert_eq!(lateness.quantile(0.99), Duration::from_micros(1000));
        assert_eq!(lateness.quantile(1.0), Duration::from_secs(1));
    }
}
