//! MPC: Yin, Jindal, Sekar, Sinopoli, "A Control-Theoretic Approach for Dynamic Adaptive Video
//! Streaming over HTTP" (SIGCOMM 2015).

use anabranch_plugin::Parameters;

use super::{AbrDecision, AbrRule, AbrView, ChunkSample};
use std::collections::VecDeque;

/// The MPC rule: evaluates every sequence of renditions over a horizon, and chooses the first
/// rendition of the best sequence.
///
/// The value of a sequence is its quality, minus λ per unit of change, minus μ per second of stall.
/// The throughput estimate is the harmonic mean over the last chunks. The robust form divides the
/// estimate by one plus the largest recent relative error. Playlists do not contain chunk sizes.
/// The rule therefore assumes that a chunk's size is its duration times the declared mean rate.
#[derive(Debug)]
pub(super) struct Mpc {
    robust: bool,
    horizon: usize,
    window: usize,
    lambda: f64,
    mu: Option<f64>,
    throughputs: VecDeque<f64>,
    errors: VecDeque<f64>,
    /// The throughput predicted for the chunk that is being downloaded, in bits per second.
    predicted: Option<f64>,
}

/// The inputs of one search, which do not change during it.
struct Search<'a> {
    view: &'a AbrView<'a>,
    bps: f64,
    lambda: f64,
    mu: f64,
}

impl Mpc {
    pub(super) fn build(parameters: &mut Parameters<'_>) -> Box<dyn AbrRule> {
        Box::new(Self {
            robust: parameters.word("form", &["robust", "plain"]) == "robust",
            horizon: parameters.whole("horizon", 5, 1..=6) as usize,
            window: parameters.whole("window", 5, 1..=100) as usize,
            lambda: parameters.number("lambda", 1.0, 0.0..=1000.0),
            // The unit is Mb/s per second. The paper uses 3000 kb/s, the highest rate of its
            // ladder.
            mu: parameters.number_or("mu", None, 0.0..=100_000.0, "top"),
            throughputs: VecDeque::new(),
            errors: VecDeque::new(),
            predicted: None,
        })
    }

    fn harmonic_mean(&self) -> Option<f64> {
        let inverse: f64 = self.throughputs.iter().map(|bps| 1.0 / bps).sum();
        (inverse > 0.0).then(|| self.throughputs.len() as f64 / inverse)
    }
}

impl Search<'_> {
    /// Returns the best value of the next `left` chunks, and the first rendition of that sequence.
    /// `last` is the rendition before them, and `buffer_s` the buffer at the start.
    fn best(&self, left: usize, last: Option<usize>, buffer_s: f64) -> (f64, usize) {
        if left == 0 {
            return (0.0, 0);
        }
        let mut best = (f64::NEG_INFINITY, 0);
        for at in 0..self.view.renditions() {
            let chunk_s = self.view.chunk_s(at);
            let quality = self.view.mean_bps(at) / 1e6;
            let change = last.map_or(0.0, |last| (quality - self.view.mean_bps(last) / 1e6).abs());
            let fetch_s = self.view.mean_bps(at) * chunk_s / self.bps;
            let stall_s = (fetch_s - buffer_s).max(0.0);
            let after_s = (buffer_s - fetch_s).max(0.0) + chunk_s;
            let after_s = after_s.min(self.view.max_buffer_s.max(chunk_s));
            let worth = quality - self.lambda * change - self.mu * stall_s
                + self.best(left - 1, Some(at), after_s).0;
            if worth > best.0 {
                best = (worth, at);
            }
        }
        best
    }
}

impl AbrRule for Mpc {
    fn choose(&mut self, view: &AbrView<'_>) -> AbrDecision {
        self.predicted = self.harmonic_mean();
        let Some(mean) = self.predicted else {
            return AbrDecision::Fetch(0);
        };
        let error = self.errors.iter().copied().fold(0.0, f64::max);
        let search = Search {
            view,
            bps: if self.robust { mean / (1.0 + error) } else { mean },
            lambda: self.lambda,
            mu: self.mu.unwrap_or(view.mean_bps(view.renditions() - 1) / 1e6),
        };
        let left = (view.ladder.chunks() - view.next).min(self.horizon);
        AbrDecision::Fetch(search.best(left, view.last, view.buffer_s).1)
    }

    fn on_chunk(&mut self, sample: &ChunkSample) {
        let Some(bps) = sample.throughput_bps() else {
            return;
        };
        if let Some(predicted) = self.predicted {
            self.errors.push_back((predicted - bps).abs() / bps);
        }
        self.throughputs.push_back(bps);
        for past in [&mut self.errors, &mut self.throughputs] {
            while past.len() > self.window {
                past.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::abr::AbrDecision::Fetch;
    use crate::abr::testing::{ask, fetched, ladder, rule};

    #[test]
    fn a_stall_costs_more_than_a_switch() {
        let ladder = ladder(&[1_000_000, 4_000_000]);
        let mut rule = rule(r#"{"name":"mpc","horizon":1}"#);
        assert_eq!(ask(&mut *rule, &ladder, (0, None), 0.0), Fetch(0), "no throughput sample yet");
        fetched(&mut *rule, 0, 4_000_000, 2_000_000.0);
        // The high chunk takes 8 s, so its value is 4 - 3 - 4 x stall. The value of the low chunk
        // is 1.
        assert_eq!(ask(&mut *rule, &ladder, (1, Some(0)), 7.9), Fetch(0));
        // At 8 s both values are equal, and the lower rendition is chosen.
        assert_eq!(ask(&mut *rule, &ladder, (1, Some(0)), 8.0), Fetch(0));
        // After a high chunk, staying has the value 4, and switching down 1 - 3.
        assert_eq!(ask(&mut *rule, &ladder, (1, Some(1)), 8.0), Fetch(1));
        assert_eq!(ask(&mut *rule, &ladder, (1, Some(1)), 6.6), Fetch(1), "4 - 4 x 1.4 > -2");
        assert_eq!(ask(&mut *rule, &ladder, (1, Some(1)), 6.4), Fetch(0), "4 - 4 x 1.6 < -2");
    }

    #[test]
    fn a_longer_horizon_favours_switching_up() {
        let ladder = ladder(&[1_000_000, 4_000_000]);
        let mut rule = rule(r#"{"name":"mpc","horizon":2}"#);
        fetched(&mut *rule, 0, 4_000_000, 8_000_000.0);
        // Switching up now has the value 4 - 3 + 4, and staying low 1 + 1.
        assert_eq!(ask(&mut *rule, &ladder, (1, Some(0)), 8.0), Fetch(1));
    }

    #[test]
    fn the_robust_form_divides_by_its_largest_error() {
        let ladder = ladder(&[1_000_000, 4_000_000]);
        let asked = |text: &str| {
            let mut rule = rule(text);
            for bps in [8_000_000.0, 4_000_000.0] {
                ask(&mut *rule, &ladder, (0, Some(1)), 0.0);
                fetched(&mut *rule, 1, 16_000_000, bps);
            }
            // The mean is 5.33 Mb/s, so a high chunk takes 3 s. The estimate was 8 Mb/s when 4 Mb/s
            // were measured, an error of one, so the robust form expects 6 s. The stall of 1.9 s
            // then costs 7.6, and switching down costs 6.
            ask(&mut *rule, &ladder, (2, Some(1)), 4.1)
        };
        assert_eq!(asked(r#"{"name":"mpc","horizon":1,"form":"plain"}"#), Fetch(1));
        assert_eq!(asked(r#"{"name":"mpc","horizon":1}"#), Fetch(0));
    }
}
