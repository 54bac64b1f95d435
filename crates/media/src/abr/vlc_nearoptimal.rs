//! The default rule of VLC 3 (`adaptive/logic/NearOptimalAdaptationLogic.cpp`).

use anabranch_plugin::Parameters;

use super::estimate::VlcAverage;
use super::{AbrDecision, AbrRule, AbrView, ChunkSample};

/// BOLA with the constants of VLC.
///
/// As in VLC's code, utilities are logarithms of rates in bits per second, and the buffer is in
/// seconds. The chosen rendition is at most one step below the one that the throughput allows.
#[derive(Debug)]
pub(super) struct VlcNearOptimal {
    min_s: f64,
    target_s: Option<f64>,
    average: VlcAverage,
    bps: f64,
}

impl VlcNearOptimal {
    pub(super) fn build(parameters: &mut Parameters<'_>) -> Box<dyn AbrRule> {
        // `minimumBufferS`. `bufferTargetS` is the player's maximum buffer by default.
        let min_s = parameters.number("min_s", 6.0, 1.1..=600.0);
        let target_s = parameters.number_or("target_s", None, 1.2..=3600.0, "player");
        Box::new(Self { min_s, target_s, average: VlcAverage::default(), bps: 0.0 })
    }

    /// Returns the rendition that maximises BOLA's objective.
    fn best(&self, view: &AbrView<'_>) -> usize {
        let utility = |at: usize| view.peak_bps(at).ln();
        let (least, most) = (utility(0), utility(view.renditions() - 1));
        // The formula needs a target above the minimum.
        let target = self.target_s.unwrap_or(view.max_buffer_s).max(self.min_s * 1.01);
        let gamma = 1.0 + (most - least) / (target / self.min_s - 1.0);
        let v = (self.min_s - 1.0) / (least + gamma);
        let score =
            |at: usize| (v * (utility(at) + gamma - least) - view.buffer_s) / view.peak_bps(at);
        // If scores are equal, the higher rendition is chosen (`argmax <= arg`).
        (1..view.renditions()).fold(0, |best, at| if score(best) <= score(at) { at } else { best })
    }
}

impl AbrRule for VlcNearOptimal {
    fn choose(&mut self, view: &AbrView<'_>) -> AbrDecision {
        let allowed = view.highest_within(self.bps);
        let Some(last) = view.last else {
            return AbrDecision::Fetch(allowed);
        };
        let best = self.best(view);
        AbrDecision::Fetch(if best >= last || allowed <= best {
            best
        } else if allowed > last {
            last
        } else {
            allowed - 1
        })
    }

    fn on_chunk(&mut self, sample: &ChunkSample) {
        if let Some(bps) = sample.throughput_bps() {
            self.bps = self.average.push(bps);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::abr::AbrDecision::Fetch;
    use crate::abr::testing::{ask, fetched, ladder, rule};

    /// With rates of 1 and 4 Mb/s and buffers of 6 s and 30 s, gamma = 1 + ln 4 / 4 = 1.3466 and
    /// V = 5 / (ln 1e6 + gamma) = 0.32977. The scores (V gamma - Q) / 1 and (V (ln 4 + gamma) - Q) /
    /// 4 are equal at Q = V gamma - V ln 4 / 3 = 0.2917 s.
    #[test]
    fn utility_and_buffer_decide() {
        let ladder = ladder(&[1_000_000, 4_000_000]);
        let mut rule = rule(r#"{"name":"vlc-nearoptimal"}"#);
        assert_eq!(
            ask(&mut *rule, &ladder, (0, None), 0.0),
            Fetch(0),
            "the first chunk is chosen by rate"
        );
        assert_eq!(ask(&mut *rule, &ladder, (1, Some(0)), 0.291), Fetch(0));
        assert_eq!(ask(&mut *rule, &ladder, (1, Some(0)), 0.292), Fetch(1));
    }

    #[test]
    fn the_rule_goes_at_most_one_step_below_the_throughput() {
        let ladder = ladder(&[1_000_000, 2_000_000, 4_000_000, 8_000_000]);
        let asked = |bps: f64, last: usize| {
            let mut rule = rule(r#"{"name":"vlc-nearoptimal"}"#);
            fetched(&mut *rule, last, 4_000_000, bps);
            ask(&mut *rule, &ladder, (1, Some(last)), 0.0)
        };
        // With an empty buffer, BOLA's objective chooses the lowest rendition.
        assert_eq!(asked(1_500_000.0, 3), Fetch(0), "the throughput allows no other");
        assert_eq!(
            asked(4_500_000.0, 3),
            Fetch(1),
            "one below the rendition that the throughput allows"
        );
        assert_eq!(
            asked(9_000_000.0, 2),
            Fetch(2),
            "the throughput allows more than the last rendition"
        );
    }
}
