//! A rule that chooses the highest rendition within a fraction of the throughput.

use anabranch_plugin::Parameters;

use super::estimate::FastAndSlow;
use super::{AbrDecision, AbrRule, AbrView, ChunkSample};

/// The throughput rule, which works like `ThroughputRule` of dash.js 5 and ignores the buffer.
///
/// The estimate is the smaller of two exponential means, with half-lives of 3 s and 8 s of download
/// time. Nine tenths of it are used.
#[derive(Debug)]
pub(super) struct Throughput {
    safety: f64,
    mean: FastAndSlow,
}

impl Throughput {
    pub(super) fn build(parameters: &mut Parameters<'_>) -> Box<dyn AbrRule> {
        let safety = parameters.number("safety", 0.9, 0.01..=2.0);
        let fast = parameters.number("fast_s", 3.0, 0.01..=1000.0);
        let slow = parameters.number("slow_s", 8.0, 0.01..=1000.0);
        Box::new(Self { safety, mean: FastAndSlow::new(fast, slow) })
    }
}

impl AbrRule for Throughput {
    fn choose(&mut self, view: &AbrView<'_>) -> AbrDecision {
        AbrDecision::Fetch(view.highest_within(self.mean.get().unwrap_or(0.0) * self.safety))
    }

    fn on_chunk(&mut self, sample: &ChunkSample) {
        if let Some(bps) = sample.throughput_bps() {
            self.mean.sample(sample.fetch_s, bps);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::abr::AbrDecision::Fetch;
    use crate::abr::testing::{ask, fetched, ladder, rule};

    #[test]
    fn nine_tenths_of_the_throughput_are_used() {
        let ladder = ladder(&[1_000_000, 2_000_000, 4_000_000]);
        let mut rule = rule(r#"{"name":"throughput"}"#);
        assert_eq!(ask(&mut *rule, &ladder, (0, None), 0.0), Fetch(0), "no throughput sample yet");
        fetched(&mut *rule, 0, 4_000_000, 4_440_000.0);
        assert_eq!(ask(&mut *rule, &ladder, (1, Some(0)), 4.0), Fetch(1), "3.996 Mb/s may be used");
        fetched(&mut *rule, 0, 4_000_000_000, 4_450_000.0);
        assert_eq!(ask(&mut *rule, &ladder, (2, Some(1)), 4.0), Fetch(2), "4.005 Mb/s may be used");
    }
}
