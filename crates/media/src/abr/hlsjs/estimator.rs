//! The throughput estimator of hls.js 1.7 (`utils/ewma-bandwidth-estimator.ts`).

use crate::abr::estimate::{Ewma, FastAndSlow};

/// The throughput estimator (`EwmaBandWidthEstimator`).
#[derive(Debug)]
pub(super) struct Estimate {
    /// The estimate before the first sample, bits per second (`abrEwmaDefaultEstimate`).
    default_bps: f64,
    throughput: FastAndSlow,
    first_byte: Ewma,
}

/// The smallest total weight of samples that counts as a measurement (`minWeight_`).
const LEAST_WEIGHT: f64 = 0.001;
/// The shortest duration of a throughput sample in seconds (`minDelayMs_`).
const LEAST_S: f64 = 0.05;
/// A sample with a higher rate than this, in bytes per second, may be shorter than [`LEAST_S`].
/// hls.js writes `numBytes / 100000` ms.
const LEAST_BYTES_PER_S: f64 = 1e8;
/// The assumed time to first byte before the first measurement, in seconds (`defaultTTFB_`).
const FIRST_BYTE_S: f64 = 0.1;
/// The smallest time to first byte that is accepted, in seconds (`sampleTTFB`).
const LEAST_FIRST_BYTE_S: f64 = 0.005;

impl Estimate {
    pub(super) const fn new((fast, slow): (f64, f64), default_bps: f64) -> Self {
        let throughput = FastAndSlow::new(fast, slow);
        Self { default_bps, throughput, first_byte: Ewma::new(slow) }
    }

    /// Returns the measured throughput in bits per second (`canEstimate`).
    pub(super) fn measured_bps(&self) -> Option<f64> {
        self.throughput.get().filter(|_| self.throughput.weight() >= LEAST_WEIGHT)
    }

    pub(super) fn bps(&self) -> f64 {
        self.measured_bps().unwrap_or(self.default_bps)
    }

    pub(super) fn first_byte_s(&self) -> f64 {
        let measured_s = self.first_byte.get().filter(|_| self.first_byte.weight() >= LEAST_WEIGHT);
        measured_s.unwrap_or(FIRST_BYTE_S)
    }

    /// Adds a sample of the time to first byte (`sampleTTFB`). A longer time has a smaller weight.
    pub(super) fn answered(&mut self, first_byte_s: f64) {
        let weight = std::f64::consts::SQRT_2 * (-first_byte_s.powi(2) / 2.0).exp();
        self.first_byte.sample(weight, first_byte_s.max(LEAST_FIRST_BYTE_S));
    }

    /// Adds a throughput sample (`sample`): `bytes` arrived within `fetch_s` after the request.
    ///
    /// The average time to first byte is subtracted. Any further delay counts as transfer time.
    pub(super) fn transferred(&mut self, fetch_s: f64, first_byte_s: f64, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let least_s = LEAST_S.min(bytes as f64 / LEAST_BYTES_PER_S);
        let seconds = (fetch_s - first_byte_s.min(self.first_byte_s())).max(least_s);
        self.throughput.sample(seconds, bytes as f64 * 8.0 / seconds);
    }
}
