//! hls.js 1.7's rule (`controller/abr-controller.ts`, `utils/ewma-bandwidth-estimator.ts`).

use anabranch_plugin::Parameters;

use super::estimate::{Ewma, FastAndSlow};
use super::{AbrDecision, AbrRule, AbrView, ChunkSample, Loading};

/// From the highest down: the first whose rate is within a share of the estimated throughput and
/// whose chunk arrives before the buffer is empty, or up to 4 s after that if none does. A chunk
/// that takes too long is given up for a lower one.
///
/// Left out is the test of the throughput by a first fragment that is thrown away: the first chunk
/// is chosen by the default estimate.
#[derive(Debug)]
pub(super) struct HlsJs {
    /// `abrBandWidthFactor`, for staying and going down.
    factor: f64,
    /// `abrBandWidthUpFactor`.
    up_factor: f64,
    /// `maxStarvationDelay`, seconds.
    starvation_s: f64,
    /// `abrEwmaDefaultEstimate`, bits per second.
    default_bps: f64,
    throughput: FastAndSlow,
    first_byte: Ewma,
    /// The highest rendition that may follow a chunk that was given up.
    forced: Option<usize>,
}

/// The least weight of a sample, seconds (`EwmaBandWidthEstimator`).
const MIN_WEIGHT_S: f64 = 0.05;
/// The time to the first byte that is assumed before one was measured, seconds.
const FIRST_BYTE_S: f64 = 0.1;

impl HlsJs {
    pub(super) fn build(parameters: &mut Parameters<'_>) -> Box<dyn AbrRule> {
        let fast = parameters.number("fast_s", 3.0, 0.01..=1000.0);
        let slow = parameters.number("slow_s", 9.0, 0.01..=1000.0);
        Box::new(Self {
            factor: parameters.number("factor", 0.95, 0.01..=2.0),
            up_factor: parameters.number("up_factor", 0.7, 0.01..=2.0),
            starvation_s: parameters.number("starvation_s", 4.0, 0.0..=1000.0),
            default_bps: parameters.number("default_bps", 500_000.0, 1.0..=1e12),
            throughput: FastAndSlow::new(fast, slow),
            first_byte: Ewma::new(slow),
            forced: None,
        })
    }

    fn first_byte_s(&self) -> f64 {
        self.first_byte.get().unwrap_or(FIRST_BYTE_S)
    }

    /// The highest that arrives within the buffer and an allowance on top of it.
    fn best(&self, view: &AbrView<'_>, bps: f64, allowance_s: f64) -> Option<usize> {
        (0..view.renditions()).rev().find(|&at| {
            let chunk_s = view.chunk_s(at);
            let up = view.last.is_none_or(|last| at > last);
            let adjusted = bps * if up { self.up_factor } else { self.factor };
            // With two chunks in hand the mean rate decides, else the peak.
            let comfortable = view.buffer_s >= 2.0 * chunk_s && allowance_s == 0.0;
            let rate = if comfortable { view.mean_bps(at) } else { view.peak_bps(at) };
            let fetch_s = self.first_byte_s() + rate * chunk_s / adjusted;
            rate <= adjusted && fetch_s < view.buffer_s + allowance_s
        })
    }
}

impl AbrRule for HlsJs {
    fn choose(&mut self, view: &AbrView<'_>) -> AbrDecision {
        let bps = self.throughput.get().unwrap_or(self.default_bps);
        let allowance_s = view.chunk_s(0).min(self.starvation_s);
        let best = self.best(view, bps, 0.0).or_else(|| self.best(view, bps, allowance_s));
        let most = self.forced.take().unwrap_or(usize::MAX);
        AbrDecision::Fetch(best.unwrap_or(0).min(most))
    }

    fn on_chunk(&mut self, sample: &ChunkSample) {
        self.first_byte.sample(sample.first_byte_s.max(MIN_WEIGHT_S), sample.first_byte_s);
        // The wait for the first byte is no part of the transfer; a hundred kilobytes a second is
        // the least that a sample of throughput is weighed by.
        let least_s = MIN_WEIGHT_S.min(sample.bytes as f64 / 1e5);
        let transfer_s = (sample.fetch_s - sample.first_byte_s).max(least_s);
        if transfer_s > 0.0 {
            self.throughput.sample(transfer_s, sample.bytes as f64 * 8.0 / transfer_s);
        }
    }

    fn watches(&self) -> bool {
        true
    }

    fn abandons(&mut self, view: &AbrView<'_>, loading: &Loading) -> bool {
        let patience_s = self.first_byte_s().max(loading.duration_s / 2.0);
        if loading.since_s <= patience_s || loading.rendition == 0 {
            return false;
        }
        let transfer_s = loading.since_s - loading.first_byte_s.unwrap_or(0.0);
        let bytes_per_s = (loading.received as f64 / transfer_s.max(1e-3)).max(1.0);
        let left_s = (loading.bytes - loading.received) as f64 / bytes_per_s;
        if left_s <= view.buffer_s {
            return false;
        }
        // The highest below whose chunk comes in time, else the lowest; and only if that is quicker
        // than what is left of this one.
        let fetch_s = |at: usize| {
            self.first_byte_s() + view.peak_bps(at) * loading.duration_s / (8.0 * bytes_per_s)
        };
        let limit_s = view.buffer_s.min(loading.duration_s + self.first_byte_s());
        let below = (0..loading.rendition).rev().find(|&at| fetch_s(at) < limit_s).unwrap_or(0);
        if fetch_s(below) >= left_s {
            return false;
        }
        self.forced = Some(below);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abr::AbrDecision::Fetch;
    use crate::abr::testing::{ask, fetched, ladder, rule};

    #[test]
    fn the_share_is_smaller_on_the_way_up() {
        let ladder = ladder(&[1_000_000, 2_000_000, 4_000_000]);
        let mut rule = rule(r#"{"name":"hlsjs"}"#);
        assert_eq!(ask(&mut *rule, &ladder, (0, None), 0.0), Fetch(0), "half a megabit is assumed");
        fetched(&mut *rule, 0, 4_000_000, 5_000_000.0);
        // 0.7 of 5 Mb/s are too little for 4, 0.95 of it are enough.
        assert_eq!(ask(&mut *rule, &ladder, (1, Some(1)), 20.0), Fetch(1));
        assert_eq!(ask(&mut *rule, &ladder, (1, Some(2)), 20.0), Fetch(2));
    }

    #[test]
    fn a_chunk_must_arrive_before_the_buffer_is_empty() {
        let ladder = ladder(&[1_000_000, 2_000_000, 4_000_000]);
        let mut rule = rule(r#"{"name":"hlsjs"}"#);
        fetched(&mut *rule, 0, 4_000_000, 5_000_000.0);
        // The first byte comes at once: 16 Mb at 4.75 Mb/s take 3.37 s, 8 Mb at 4.75 take 1.68 s.
        assert_eq!(ask(&mut *rule, &ladder, (1, Some(2)), 3.4), Fetch(2));
        assert_eq!(ask(&mut *rule, &ladder, (1, Some(2)), 3.3), Fetch(1));
        // With nothing buffered not even 4 Mb arrive; 4 s more are allowed, and 16 Mb do.
        assert_eq!(ask(&mut *rule, &ladder, (1, Some(2)), 0.0), Fetch(2));
    }

    #[test]
    fn a_chunk_that_takes_too_long_is_given_up() {
        let ladder = ladder(&[1_000_000, 2_000_000, 4_000_000]);
        let view = |buffer_s| AbrView {
            ladder: &ladder,
            next: 5,
            last: Some(2),
            buffer_s,
            max_buffer_s: 30.0,
        };
        // 2 MB, of which 250 kB came in 2.1 s of transfer: 14.7 s are left.
        let loading = Loading {
            rendition: 2,
            duration_s: 4.0,
            bytes: 2_000_000,
            received: 250_000,
            since_s: 2.1,
            first_byte_s: Some(0.0),
        };
        let asked = |buffer_s, loading: &Loading| {
            let mut rule = rule(r#"{"name":"hlsjs"}"#);
            let given_up = rule.abandons(&view(buffer_s), loading);
            given_up.then(|| {
                fetched(&mut *rule, 0, 4_000_000, 50_000_000.0);
                ask(&mut *rule, &ladder, (5, Some(2)), 20.0)
            })
        };
        assert_eq!(asked(15.0, &loading), None, "the buffer lasts");
        assert_eq!(asked(3.0, &Loading { since_s: 1.9, ..loading }), None, "it is too early");
        // A low chunk takes 0.1 + 4.2 s, a middle one 0.1 + 8.4 s: within neither 3 s nor 4.1 s.
        assert_eq!(asked(3.0, &loading), Some(Fetch(0)));
        // At twice the rate the low one takes 2.2 s and the middle one 4.3 s.
        let faster = Loading { received: 500_000, ..loading };
        assert_eq!(asked(5.0, &faster), Some(Fetch(0)));
        let faster = Loading { received: 600_000, ..loading };
        assert_eq!(asked(4.6, &faster), Some(Fetch(1)), "3.6 s, before the buffer is empty");
        assert_eq!(asked(3.0, &Loading { rendition: 0, ..loading }), None, "nothing is lower");
    }
}
