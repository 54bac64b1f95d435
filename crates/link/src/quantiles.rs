//! Values that vary over time with a measured distribution.
//!
//! A first-order Gauss-Markov process has the autocorrelation `exp(-t / tau)` and the standard normal distribution. A
//! table of quantiles maps each value z of the process to the measured value with the same quantile. The result has
//! the quantiles of the table, and nearly the autocorrelation of the process.

use anabranch_units::{Duration, RandomStream};

/// A distribution by its quantiles: pairs of a standard normal quantile z and the value there.
///
/// Between two pairs, the value is linear in z. Above the last pair it continues with the same slope for one standard
/// deviation, and is then constant. Below the first pair it falls to a tenth within one standard deviation, and is then
/// constant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantiles(pub &'static [(f64, f64)]);

/// The standard normal z of the 1st, 5th, 25th, 50th, 75th, 95th and 99th percentile.
pub(crate) const P1: f64 = -2.326;
pub(crate) const P5: f64 = -1.645;
pub(crate) const P25: f64 = -0.674;
pub(crate) const P50: f64 = 0.0;
pub(crate) const P75: f64 = 0.674;
pub(crate) const P95: f64 = 1.645;
pub(crate) const P99: f64 = 2.326;

impl Quantiles {
    /// Returns the value at a standard normal z.
    pub(crate) fn at(self, z: f64) -> f64 {
        let pairs = self.0;
        let (first, lowest) = pairs[0];
        if z < first {
            return lowest * 10f64.powf((z - first).max(-1.0));
        }
        let z = z.min(pairs[pairs.len() - 1].0 + 1.0);
        let above = pairs.iter().position(|pair| z < pair.0).unwrap_or(pairs.len() - 1).max(1);
        let ((z0, low), (z1, high)) = (pairs[above - 1], pairs[above]);
        low + (high - low) * (z - z0) / (z1 - z0)
    }

    /// Returns the mean, from the centres of 4000 slices of the normal distribution between -4 and 4.
    pub(crate) fn mean(self) -> f64 {
        let (mut sum, mut weights) = (0.0, 0.0);
        for slice in 0..4000 {
            let z = (f64::from(slice) + 0.5) / 500.0 - 4.0;
            let weight = (-z * z / 2.0).exp();
            sum += weight * self.at(z);
            weights += weight;
        }
        sum / weights
    }
}

/// A standard normal process in discrete time. Each step takes two draws, even if its value is not used.
#[derive(Clone, Debug)]
pub(crate) struct Wander {
    stream: RandomStream,
    keep: f64,
    spread: f64,
    value: f64,
}

impl Wander {
    /// Creates a process with the correlation time `tau` in steps of `step`. It starts at a random value.
    pub(crate) fn new(mut stream: RandomStream, step: Duration, tau: Duration) -> Self {
        let keep =
            if tau.is_zero() { 0.0 } else { (-step.as_secs_f64() / tau.as_secs_f64()).exp() };
        let value = stream.standard_normal();
        Self { stream, keep, spread: (1.0 - keep * keep).sqrt(), value }
    }

    /// Returns the present value, and advances by one step.
    pub(crate) fn step(&mut self) -> f64 {
        let value = self.value;
        self.value = self.keep * value + self.spread * self.stream.standard_normal();
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_units::Seed;

    #[test]
    fn a_table_goes_through_its_pairs_and_a_little_beyond() {
        let table = Quantiles(&[(-1.0, 10.0), (0.0, 20.0), (2.0, 60.0)]);
        for (z, value) in [(-1.0, 10.0), (-0.5, 15.0), (0.0, 20.0), (1.0, 40.0), (2.0, 60.0)] {
            assert!((table.at(z) - value).abs() < 1e-9);
        }
        assert!((table.at(-9.0) - 1.0).abs() < 1e-9 && (table.at(9.0) - 80.0).abs() < 1e-9);
    }

    #[test]
    fn the_process_forgets_exponentially() {
        let stream = Seed { seed: 1, run: 0 }.stream("wander");
        let mut wander = Wander::new(stream, Duration::from_millis(10), Duration::from_millis(50));
        let values: Vec<f64> = (0..200_000).map(|_| wander.step()).collect();
        let at = |lag: usize| {
            let products = values.iter().zip(&values[lag..]).map(|(a, b)| a * b);
            products.sum::<f64>() / (values.len() - lag) as f64
        };
        for (lag, expected) in [(0, 1.0), (1, 0.819), (5, 0.368), (15, 0.050)] {
            assert!((at(lag) - expected).abs() < 0.03, "lag {lag}: {} for {expected}", at(lag));
        }
    }
}
