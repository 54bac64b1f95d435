//! How late the emulator was: what lies between the time a packet should have come out of its path and the time
//! it did.

use anabranch_units::Duration;

/// Width of the steps that are told apart.
const STEP: Duration = Duration::from_micros(10);
/// Steps that are told apart; what is later counts as the last.
const STEPS: usize = 10_000;

/// Times by how often they came.
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
    /// One packet was so late.
    pub fn note(&mut self, late: Duration) {
        let step = (late.as_nanos() / STEP.as_nanos()) as usize;
        self.counts[step.min(STEPS - 1)] += 1;
        self.all += 1;
        self.max = self.max.max(late);
    }

    /// Packets that were noted.
    pub fn count(&self) -> u64 {
        self.all
    }

    /// The latest of all.
    pub fn max(&self) -> Duration {
        self.max
    }

    /// The least time that a share of the packets were not later than, to 10 µs; zero without packets.
    pub fn quantile(&self, share: f64) -> Duration {
        let wanted = (self.all as f64 * share).ceil() as u64;
        let mut seen = 0;
        // What counts in the last step may be later than it.
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
    fn quantiles_are_those_of_what_was_noted() {
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
