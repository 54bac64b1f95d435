//! Throughput estimators used by several rules.

use std::collections::VecDeque;

/// An exponentially weighted mean whose start at zero is corrected (hls.js `utils/ewma.ts`,
/// dash.js).
///
/// `half_life` has the unit of the samples' weights. The influence of a sample halves after later
/// samples with this total weight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ewma {
    half_life: f64,
    estimate: f64,
    weight: f64,
}

impl Ewma {
    pub(super) const fn new(half_life: f64) -> Self {
        Self { half_life, estimate: 0.0, weight: 0.0 }
    }

    pub(super) fn sample(&mut self, weight: f64, value: f64) {
        let kept = 0.5_f64.powf(weight / self.half_life);
        self.estimate = value * (1.0 - kept) + kept * self.estimate;
        self.weight += weight;
    }

    /// Returns the mean, or `None` before the first sample.
    pub(super) fn get(&self) -> Option<f64> {
        let seen = 1.0 - 0.5_f64.powf(self.weight / self.half_life);
        (seen > 0.0).then(|| self.estimate / seen)
    }

    /// Returns the total weight of the samples.
    pub(super) const fn weight(&self) -> f64 {
        self.weight
    }
}

/// The smaller of a fast and a slow mean. The result falls quickly and rises slowly.
#[derive(Clone, Copy, Debug)]
pub(super) struct FastAndSlow {
    fast: Ewma,
    slow: Ewma,
}

impl FastAndSlow {
    /// Returns an estimator without samples. The half-lives have the unit of the samples' weights.
    pub(super) const fn new(fast: f64, slow: f64) -> Self {
        Self { fast: Ewma::new(fast), slow: Ewma::new(slow) }
    }

    pub(super) fn sample(&mut self, weight: f64, value: f64) {
        self.fast.sample(weight, value);
        self.slow.sample(weight, value);
    }

    pub(super) fn get(&self) -> Option<f64> {
        Some(self.fast.get()?.min(self.slow.get()?))
    }

    /// Returns the total weight of the samples.
    pub(super) const fn weight(&self) -> f64 {
        self.fast.weight()
    }
}

/// VLC's mean over ten observations (`adaptive/tools/MovingAverage.hpp`).
///
/// It is a "vertical horizontal filter": the weight of the previous mean depends on the
/// observations. The weight is larger if they changed in one direction than if they went up and
/// down.
#[derive(Clone, Debug, Default)]
pub(super) struct VlcAverage {
    values: VecDeque<f64>,
    /// The last observation that was removed from the window. Zero until then.
    previous: f64,
    mean: f64,
}

impl VlcAverage {
    const OBSERVATIONS: usize = 10;

    /// Adds an observation and returns the mean.
    pub(super) fn push(&mut self, value: f64) -> f64 {
        if self.values.len() >= Self::OBSERVATIONS {
            self.previous = self.values.pop_front().unwrap_or_default();
        }
        self.values.push_back(value);
        let (mut least, mut most) = (value, value);
        let (mut moved, mut before) = (0.0, self.previous);
        for &value in &self.values {
            (least, most) = (value.min(least), value.max(most));
            moved += (value - before).abs();
            before = value;
        }
        let keep = if moved > 0.0 { 0.33 * (most - least) / moved } else { 0.5 };
        self.mean = keep * self.mean + (1.0 - keep) * value;
        self.mean
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-9 * other.abs()
    }

    #[test]
    fn an_exponential_mean_halves_old_samples_after_its_half_life() {
        let mut mean = Ewma::new(3.0);
        assert_eq!(mean.get(), None);
        mean.sample(3.0, 8.0);
        assert!(near(mean.get().unwrap(), 8.0), "the mean of one sample is that sample");
        mean.sample(3.0, 2.0);
        // Half of 2 plus a quarter of 8, divided by the total weight of three quarters.
        assert!(near(mean.get().unwrap(), (1.0 + 2.0) / 0.75));
    }

    #[test]
    fn the_smaller_of_two_means_falls_fast_and_rises_slowly() {
        let mut mean = FastAndSlow::new(1.0, 9.0);
        mean.sample(9.0, 4.0);
        mean.sample(1.0, 1.0);
        assert!(mean.get().unwrap() < 2.6, "the fast mean has lost half");
        let mut mean = FastAndSlow::new(1.0, 9.0);
        mean.sample(9.0, 1.0);
        mean.sample(1.0, 4.0);
        assert!(mean.get().unwrap() < 1.5, "the slow mean still contains the old sample");
    }

    #[test]
    fn vlcs_mean_weighs_by_the_direction_of_the_observations() {
        let mut mean = VlcAverage::default();
        // The first observation is compared with zero. The total movement is 6 and the spread is 0.
        // The weight of the old mean is in proportion to the spread, and thus 0.
        assert!(near(mean.push(6.0), 6.0));
        // The observations moved by 6 + 2, and the spread is 2. The old mean of 6 has the weight
        // 0.33 x 2 / 8.
        let kept = 0.33 * 2.0 / 8.0;
        let second = kept * 6.0 + (1.0 - kept) * 4.0;
        assert!(near(mean.push(4.0), second));
        // The observations moved by 6 + 2 + 4, and the spread is 4.
        let kept = 0.33 * 4.0 / 12.0;
        assert!(near(mean.push(8.0), kept * second + (1.0 - kept) * 8.0));
    }
}
