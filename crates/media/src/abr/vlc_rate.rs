//! The rate-based rule of VLC (`adaptive/logic/RateBasedAdaptationLogic.cpp`).

use anabranch_plugin::Parameters;

use super::estimate::VlcAverage;
use super::{AbrDecision, AbrRule, AbrView, ChunkSample};

/// A rule that chooses the highest rendition within three quarters of the throughput, of which it
/// takes VLC's moving average.
///
/// Consecutive downloads are combined into one observation until they have taken 0.25 s.
#[derive(Debug)]
pub(super) struct VlcRate {
    share: f64,
    average: VlcAverage,
    usable_bps: f64,
    bits: f64,
    seconds: f64,
}

/// The shortest duration of an observation in seconds (`CLOCK_FREQ / 4`).
const WINDOW_S: f64 = 0.25;

impl VlcRate {
    pub(super) fn build(parameters: &mut Parameters<'_>) -> Box<dyn AbrRule> {
        // VLC uses three quarters of the average: `currentBps = bpsAvg * 3/4`.
        let share = parameters.number("share", 0.75, 0.01..=2.0);
        let average = VlcAverage::default();
        Box::new(Self { share, average, usable_bps: 0.0, bits: 0.0, seconds: 0.0 })
    }
}

impl AbrRule for VlcRate {
    fn choose(&mut self, view: &AbrView<'_>) -> AbrDecision {
        AbrDecision::Fetch(view.highest_within(self.usable_bps))
    }

    fn on_chunk(&mut self, sample: &ChunkSample) {
        self.bits += sample.bytes as f64 * 8.0;
        self.seconds += sample.fetch_s;
        if self.seconds >= WINDOW_S {
            self.usable_bps = self.share * self.average.push(self.bits / self.seconds);
            (self.bits, self.seconds) = (0.0, 0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::abr::AbrDecision::Fetch;
    use crate::abr::testing::{ask, fetched, ladder, rule};

    #[test]
    fn three_quarters_of_the_average_are_used() {
        let ladder = ladder(&[1_000_000, 3_000_000, 6_000_000]);
        let mut rule = rule(r#"{"name":"vlc-rate"}"#);
        assert_eq!(ask(&mut *rule, &ladder, (0, None), 0.0), Fetch(0));
        fetched(&mut *rule, 0, 4_000_000, 4_000_000.0);
        assert_eq!(ask(&mut *rule, &ladder, (1, Some(0)), 0.0), Fetch(1), "3.0 Mb/s, just enough");
        // The spread is 4, and the observations moved by 4 + 4. The old mean of 4 Mb/s has a weight
        // of 0.165. The new mean is 7.34, and 5.5 is usable.
        fetched(&mut *rule, 1, 12_000_000, 8_000_000.0);
        assert_eq!(ask(&mut *rule, &ladder, (2, Some(1)), 0.0), Fetch(1));
        // The spread is 5, and the observations moved by 4 + 4 + 1. The old mean of 7.34 has a
        // weight of 0.1833. The new mean is 8.7, and 6.5 is usable.
        fetched(&mut *rule, 1, 12_000_000, 9_000_000.0);
        assert_eq!(ask(&mut *rule, &ladder, (3, Some(1)), 0.0), Fetch(2));
    }

    #[test]
    fn short_downloads_are_combined() {
        let ladder = ladder(&[1_000_000, 3_000_000]);
        let mut rule = rule(r#"{"name":"vlc-rate"}"#);
        fetched(&mut *rule, 0, 1_000_000, 8_000_000.0);
        assert_eq!(ask(&mut *rule, &ladder, (1, Some(0)), 0.0), Fetch(0), "0.125 s are too short");
        fetched(&mut *rule, 0, 1_000_000, 8_000_000.0);
        assert_eq!(ask(&mut *rule, &ladder, (2, Some(0)), 0.0), Fetch(1), "0.25 s are enough");
    }
}
