//! The rule of hls.js 1.7 (`controller/abr-controller.ts`, `utils/ewma-bandwidth-estimator.ts`).

mod estimator;

use std::collections::BTreeSet;

use anabranch_plugin::Parameters;

use self::estimator::Estimate;
use super::{AbrDecision, AbrRule, AbrView, ChunkSample, Loading};

/// The rule of hls.js: the highest rendition that meets two conditions.
///
/// The rate of the rendition is within a fraction of the estimated throughput, and its chunk
/// arrives before the buffer is empty. If no rendition meets both, a chunk may arrive up to 4 s
/// later. A download that takes too long is abandoned for a lower rendition.
///
/// Not modelled:
///
/// - the test fragment that hls.js discards (`startLevel = -1`, which is not the default);
/// - the transfer time of a playlist (`lastLevelLoadSec`), except for the delay of the first byte;
/// - the time that the browser takes to parse a chunk.
#[derive(Debug)]
pub(super) struct HlsJs {
    /// The usable fraction of the throughput for staying and for switching down
    /// (`abrBandWidthFactor`).
    factor: f64,
    /// The usable fraction of the throughput for switching up (`abrBandWidthUpFactor`).
    up_factor: f64,
    /// The longest accepted stall for one chunk, seconds (`maxStarvationDelay`).
    starvation_s: f64,
    /// The half-lives of the two means, seconds (`abrEwmaFastVoD`, `abrEwmaSlowVoD`).
    half_lives: (f64, f64),
    estimate: Estimate,
    /// The renditions whose playlists have arrived. Any other rendition needs one more request.
    known: BTreeSet<usize>,
    /// The playing time of the last requested chunk, in seconds (`fragCurrent.duration`). `None`
    /// before the first chunk.
    current_s: Option<f64>,
    /// The rendition to use after an abandoned download, until a chunk of it has arrived.
    forced: Option<usize>,
    /// Whether to ignore the next sample, because it is of an abandoned download that was already
    /// counted.
    taken: bool,
}

/// The assumed chunk duration before the first chunk, in seconds (`avgDuration`).
const UNKNOWN_CHUNK_S: f64 = 1.0;
/// The longest acceptable time to fetch a chunk of a lower rendition, in chunk durations. If it
/// takes longer, the current download continues.
const MOST_CHUNKS: f64 = 10.0;

/// The inputs of `findBestLevel`.
struct Search {
    bps: f64,
    /// The highest allowed rendition.
    most: usize,
    /// The time until the buffer is empty, and the longest accepted stall, seconds
    /// (`bufferStarvationDelay`, `maxStarvationDelay`).
    buffer_s: f64,
    allowance_s: f64,
    /// Usable fractions of the throughput for staying or switching down, and for switching up.
    factor: f64,
    up_factor: f64,
}

impl HlsJs {
    pub(super) fn build(parameters: &mut Parameters<'_>) -> Box<dyn AbrRule> {
        let fast = parameters.number("fast_s", 3.0, 0.01..=1000.0);
        let slow = parameters.number("slow_s", 9.0, 0.01..=1000.0);
        let factor = parameters.number("factor", 0.95, 0.01..=2.0);
        let up_factor = parameters.number("up_factor", 0.7, 0.01..=2.0);
        let starvation_s = parameters.number("starvation_s", 4.0, 0.0..=1000.0);
        let default_bps = parameters.number("default_bps", 500_000.0, 1.0..=1e12);
        Box::new(Self {
            factor,
            up_factor,
            starvation_s,
            half_lives: (fast, slow),
            estimate: Estimate::new((fast, slow), default_bps),
            known: BTreeSet::new(),
            current_s: None,
            forced: None,
            taken: false,
        })
    }

    /// Returns the time to fetch `bits` in a rendition, in seconds (`getTimeToLoadFrag`).
    fn fetch_s(&self, rendition: usize, bits: f64, bps: f64) -> f64 {
        let first_byte_s = self.estimate.first_byte_s();
        let playlist_s = if self.known.contains(&rendition) { 0.0 } else { first_byte_s };
        first_byte_s + bits / bps + playlist_s
    }

    /// Returns the assumed playing time of a rendition's next chunk, in seconds (`avgDuration`). It
    /// is the mean over the rendition's playlist, or the time of the last requested chunk before
    /// that playlist has arrived.
    fn chunk_s(&self, view: &AbrView<'_>, rendition: usize) -> f64 {
        if self.known.contains(&rendition) {
            view.mean_chunk_s(rendition)
        } else {
            self.current_s.unwrap_or(UNKNOWN_CHUNK_S)
        }
    }

    /// Returns the highest rendition that arrives before the buffer is empty or within the accepted
    /// stall after that (`findBestLevel`).
    fn best(&self, view: &AbrView<'_>, search: &Search) -> Option<usize> {
        (0..=search.most).rev().find(|&at| {
            let chunk_s = self.chunk_s(view, at);
            let up = view.last.is_some_and(|last| at > last);
            let adjusted = search.bps * if up { search.up_factor } else { search.factor };
            // With two chunks in the buffer, the mean rate of the rendition is used, and otherwise
            // its peak rate.
            let comfortable = search.allowance_s == 0.0
                && self.current_s.is_some_and(|current_s| search.buffer_s >= 2.0 * current_s);
            let rate = if comfortable { view.mean_bps(at) } else { view.peak_bps(at) };
            let fetch_s = self.fetch_s(at, rate * chunk_s, adjusted);
            rate <= adjusted && fetch_s < search.buffer_s + search.allowance_s
        })
    }

    /// Returns the first rendition (`firstAutoLevel`). No fraction is applied to the default
    /// estimate, because it is not a measurement.
    fn first(&self, view: &AbrView<'_>) -> usize {
        let search = Search {
            bps: self.estimate.bps().max(view.peak_bps(0)),
            most: view.renditions() - 1,
            buffer_s: view.buffer_s / 2.0,
            allowance_s: self.starvation_s,
            factor: 1.0,
            up_factor: 1.0,
        };
        self.best(view, &search).unwrap_or(0)
    }

    /// Returns the rendition of the next chunk (`getNextABRAutoLevel`).
    fn next(&self, view: &AbrView<'_>) -> usize {
        let within = |allowance_s| {
            let search = Search {
                bps: self.estimate.bps(),
                most: view.renditions() - 1,
                buffer_s: view.buffer_s,
                allowance_s,
                factor: self.factor,
                up_factor: self.up_factor,
            };
            self.best(view, &search)
        };
        let allowance_s = self.current_s.unwrap_or(self.starvation_s).min(self.starvation_s);
        within(0.0).or_else(|| within(allowance_s)).unwrap_or(0)
    }

    /// Returns the rendition to switch down to during a download, and the time to fetch its chunk
    /// in seconds.
    ///
    /// The rendition is the highest lower one that arrives before the buffer is empty. If none
    /// does, it is the lowest one. hls.js does not compute the time for the lowest rendition
    /// (`nextLoadLevel > minAutoLevel`). It uses the time of the rendition above the lowest one. If
    /// the current rendition is the second one, it uses infinity.
    fn below(&self, view: &AbrView<'_>, loading: &Loading, bps: f64) -> (usize, f64) {
        let within_s = view.buffer_s.min(loading.duration_s + self.estimate.first_byte_s());
        let mut fetch_s = f64::INFINITY;
        for at in (1..loading.rendition).rev() {
            fetch_s = self.fetch_s(at, view.peak_bps(at) * loading.duration_s, bps);
            if fetch_s < within_s {
                return (at, fetch_s);
            }
        }
        (0, fetch_s)
    }

    /// Restarts the estimator with a default rate (`resetEstimator`).
    fn reset(&mut self, default_bps: f64) {
        self.estimate = Estimate::new(self.half_lives, default_bps);
    }
}

/// Returns the expected size of a chunk before its first byte, in bits (`expectedLen`). A byte range
/// states the size. Otherwise it is computed from the mean rate of the rendition.
fn expected_bits(view: &AbrView<'_>, loading: &Loading) -> f64 {
    let chunk = &view.ladder.renditions[loading.rendition].chunks[view.next];
    if chunk.offset.is_some() {
        loading.bytes as f64 * 8.0
    } else {
        (view.mean_bps(loading.rendition) * loading.duration_s / 8.0).round() * 8.0
    }
}

impl AbrRule for HlsJs {
    fn choose(&mut self, view: &AbrView<'_>) -> AbrDecision {
        let measured = self.estimate.measured_bps().is_some() && view.last.is_some();
        let chosen = if measured { self.next(view) } else { self.first(view) };
        AbrDecision::Fetch(self.forced.unwrap_or(chosen))
    }

    fn on_chunk(&mut self, sample: &ChunkSample) {
        self.known.insert(sample.rendition);
        self.current_s = Some(sample.duration_s);
        if std::mem::take(&mut self.taken) {
            return;
        }
        self.forced = self.forced.filter(|&forced| forced != sample.rendition);
        self.estimate.answered(sample.first_byte_s);
        self.estimate.transferred(sample.fetch_s, sample.first_byte_s, sample.bytes);
    }

    fn watches(&self) -> bool {
        true
    }

    /// Returns whether to abandon the download (`_abandonRulesCheck`).
    fn abandons(&mut self, view: &AbrView<'_>, loading: &Loading) -> bool {
        // A chunk is requested after its playlist has arrived.
        self.known.insert(loading.rendition);
        self.current_s = Some(loading.duration_s);
        let usual_s = self.estimate.first_byte_s();
        if loading.rendition == 0 || loading.since_s <= usual_s.max(loading.duration_s / 2.0) {
            return false;
        }
        let first_byte_s = loading.first_byte_s.filter(|_| loading.received > 0);
        // In the first millisecond after the first byte, no rate can be measured, so the download
        // continues.
        if first_byte_s.is_some_and(|first_byte_s| loading.since_s - first_byte_s < 1e-3) {
            return false;
        }
        let measured =
            first_byte_s.map(|at| loading.received as f64 * 8.0 / (loading.since_s - at));
        let left_s = match measured {
            Some(bps) => (loading.bytes - loading.received) as f64 * 8.0 / bps,
            None => expected_bits(view, loading) / self.estimate.bps() + usual_s,
        };
        if left_s <= view.buffer_s {
            return false;
        }
        let bps = measured.unwrap_or_else(|| self.estimate.bps());
        let (mut below, fetch_s) = self.below(view, loading, bps);
        if fetch_s >= left_s || fetch_s > MOST_CHUNKS * loading.duration_s {
            return false;
        }
        match first_byte_s {
            Some(at) => self.estimate.transferred(loading.since_s, at, loading.received),
            None => self.estimate.answered(loading.since_s),
        }
        let rate = view.peak_bps(below);
        if self.estimate.bps() * self.up_factor > rate {
            self.reset(rate);
        }
        let search = Search {
            bps: rate,
            most: below,
            buffer_s: 0.0,
            allowance_s: view.buffer_s,
            factor: 1.0,
            up_factor: 1.0,
        };
        below = self.best(view, &search).unwrap_or(below);
        // If the download would take more than twice as long as the new one, hls.js aborts it at
        // once and restarts with the lowest rendition (`abortAndSwitch`). Otherwise the request for
        // the next chunk ends it.
        if left_s > 2.0 * fetch_s && below > 0 {
            below = 0;
            self.reset(view.peak_bps(0));
        }
        self.forced = Some(below);
        self.taken = true;
        true
    }
}

#[cfg(test)]
mod tests {
    //! Expected values are results of the `AbrController` of hls.js 1.7.4 for the same input
    //! (`tests/python/test_hlsjs_rule.py` runs it).

    use super::*;
    use crate::abr::AbrDecision::Fetch;
    use crate::abr::testing::{ask, ladder, rule};
    use crate::ladder::Ladder;

    const RATES: [u64; 4] = [1_000_000, 2_000_000, 4_000_000, 8_000_000];

    /// Returns a rule that has fetched chunks of 4 s. Each entry is (rendition, time to first byte,
    /// transfer time).
    fn measured(ladder: &Ladder, chunks: &[(usize, f64, f64)]) -> Box<dyn AbrRule> {
        let mut rule = rule(r#"{"name":"hlsjs"}"#);
        for &(rendition, first_byte_s, transfer_s) in chunks {
            let bytes = ladder.renditions[rendition].bandwidth_bps / 2;
            let fetch_s = first_byte_s + transfer_s;
            let duration_s = 4.0;
            rule.on_chunk(&ChunkSample { rendition, bytes, first_byte_s, fetch_s, duration_s });
        }
        rule
    }

    #[test]
    fn the_default_estimate_is_used_in_full() {
        let begins = |rates: &[u64]| {
            let mut rule = rule(r#"{"name":"hlsjs"}"#);
            ask(&mut *rule, &ladder(rates), (0, None), 0.0)
        };
        assert_eq!(begins(&[300_000, 450_000, 1_000_000]), Fetch(1), "the default is 500 kb/s");
        assert_eq!(begins(&RATES), Fetch(0));
    }

    #[test]
    fn going_up_uses_a_smaller_share_of_the_throughput() {
        let ladder = ladder(&RATES[..3]);
        // All three playlists have arrived. All chunks arrived at 5 Mb/s.
        let seen = [(0, 0.0, 0.8), (1, 0.0, 1.6), (2, 0.0, 3.2)];
        let asked = |last, buffer_s| {
            ask(&mut *measured(&ladder, &seen), &ladder, (3, Some(last)), buffer_s)
        };
        // 4 Mb/s is more than 0.7 x 5 Mb/s and less than 0.95 x 5 Mb/s.
        assert_eq!(asked(1, 20.0), Fetch(1));
        assert_eq!(asked(2, 20.0), Fetch(2));
        // 16 Mb at 4.75 Mb/s take 3.37 s. 5 ms are added, the smallest accepted time to first byte.
        assert_eq!(asked(2, 3.38), Fetch(2));
        assert_eq!(asked(2, 3.37), Fetch(1));
        // With an empty buffer, even 4 Mb arrive too late. If a stall of 4 s is accepted, 16 Mb
        // arrive in time.
        assert_eq!(asked(2, 0.0), Fetch(2));
    }

    #[test]
    fn a_missing_playlist_costs_another_time_to_first_byte() {
        let ladder = ladder(&[1_000_000, 2_000_000, 3_000_000]);
        // At 5 Mb/s, 12 Mb need 3.43 s at 3.5 Mb/s, plus two times 0.2 s to the first byte.
        let asked = |buffer_s| {
            ask(&mut *measured(&ladder, &[(1, 0.2, 1.6)]), &ladder, (1, Some(1)), buffer_s)
        };
        assert_eq!(asked(3.82), Fetch(1));
        assert_eq!(asked(3.84), Fetch(2));
    }

    #[test]
    fn an_unusually_late_first_byte_counts_as_transfer_time() {
        let seen = [(0, 0.1, 0.8), (0, 2.1, 0.8)];
        let ladder = ladder(&RATES);
        let asked = |rates: &[u64]| {
            let bps = crate::abr::testing::ladder(rates);
            ask(&mut *measured(&ladder, &seen), &bps, (2, Some(1)), 20.0)
        };
        // hls.js estimates 2,135,020 b/s, and 0.95 of that is 2,028,269 b/s. Without the late first
        // byte, the estimate would be 5 Mb/s.
        assert_eq!(asked(&[1_000_000, 2_028_000]), Fetch(1));
        assert_eq!(asked(&[1_000_000, 2_029_000]), Fetch(0));
    }

    #[test]
    fn one_very_late_first_byte_is_no_measurement() {
        // Its weight is sqrt(2) exp(-5^2 / 2), less than 0.001. The usual time to first byte stays 0.1
        // s, and 4 Mb in 5.7 s are 701,754 b/s. 0.7 of that is 491,228 b/s.
        let seen = [(0, 5.0, 0.8)];
        let asked = |rates: &[u64]| {
            let mut rule = measured(&ladder(&RATES), &seen);
            ask(&mut *rule, &ladder(rates), (1, Some(0)), 20.0)
        };
        assert_eq!(asked(&[300_000, 491_000]), Fetch(1));
        assert_eq!(asked(&[300_000, 492_000]), Fetch(0));
    }

    #[test]
    fn the_next_chunk_is_assumed_to_have_the_mean_playing_time() {
        let mut ladder = ladder(&RATES[..3]);
        for rendition in &mut ladder.renditions {
            for (index, chunk) in rendition.chunks.iter_mut().enumerate() {
                chunk.duration_ns = [2_000_000_000, 6_000_000_000][index % 2];
            }
        }
        // Chunks of 2 s and 6 s alternate, so the mean is 4 s. 16 Mb at 4.75 Mb/s take 3.37 s, and
        // 5 ms are added. The next chunk plays for 6 s.
        let seen = [(0, 0.0, 0.8), (1, 0.0, 1.6), (2, 0.0, 3.2)];
        let asked = |buffer_s| ask(&mut *measured(&ladder, &seen), &ladder, (3, Some(2)), buffer_s);
        assert_eq!(asked(3.38), Fetch(2));
        assert_eq!(asked(3.37), Fetch(1));
    }

    #[test]
    fn the_size_of_a_chunk_is_unknown_before_its_first_byte() {
        let given_up = |ladder: &Ladder, buffer_s| {
            let seen: Vec<_> = (0..4).map(|at| (at, 0.1, RATES[at] as f64 * 4.0 / 10e6)).collect();
            let mut rule = measured(ladder, &seen);
            let view = AbrView { ladder, next: 5, last: Some(3), buffer_s, max_buffer_s: 30.0 };
            let (bytes, received, duration_s) = (RATES[3] / 2, 0, 4.0);
            let (rendition, since_s, first_byte_s) = (3, 2.1, None);
            let loading = Loading { rendition, duration_s, bytes, received, since_s, first_byte_s };
            rule.abandons(&view, &loading)
        };
        let mut ladder = ladder(&RATES);
        ladder.renditions[3].average_bps = Some(4_000_000);
        // 4 s at the mean rate are 16 Mb. They take 1.6 s at 10 Mb/s after 0.1 s, and rendition 1
        // takes 0.9 s.
        assert!(given_up(&ladder, 1.65));
        assert!(!given_up(&ladder, 1.75));
        // A byte range states the true size of 32 Mb, which take 3.3 s.
        ladder.renditions[3].chunks[5].offset = Some(0);
        assert!(given_up(&ladder, 1.75));
    }

    #[test]
    fn a_slow_download_is_abandoned_as_in_hlsjs() {
        let ladder = ladder(&RATES);
        let given_up = |rendition: usize, received, since_s, first_byte_s, buffer_s| {
            // All playlists have arrived. All chunks arrived at 10 Mb/s.
            let seen: Vec<_> = (0..4).map(|at| (at, 0.1, RATES[at] as f64 * 4.0 / 10e6)).collect();
            let mut rule = measured(&ladder, &seen);
            let view =
                AbrView { ladder: &ladder, next: 5, last: Some(3), buffer_s, max_buffer_s: 30.0 };
            let bytes = RATES[rendition] / 2;
            let duration_s = 4.0;
            let loading = Loading { rendition, duration_s, bytes, received, since_s, first_byte_s };
            rule.abandons(&view, &loading).then(|| {
                rule.on_chunk(&ChunkSample {
                    rendition,
                    bytes: received,
                    first_byte_s: first_byte_s.unwrap_or(since_s),
                    fetch_s: since_s,
                    duration_s,
                });
                ask(&mut *rule, &ladder, (5, Some(3)), 20.0)
            })
        };
        let came = |received, buffer_s| given_up(3, received, 2.1, Some(0.1), buffer_s);
        // 1 MB arrived in 2 s. The rest takes 6 s.
        assert_eq!(came(1_000_000, 6.1), None, "the buffer lasts");
        assert_eq!(
            came(1_000_000, 4.2),
            Some(Fetch(0)),
            "a chunk of rendition 1 takes less than half of that"
        );
        assert_eq!(given_up(3, 1_000_000, 1.9, Some(0.1), 3.0), None, "it is too early");
        assert_eq!(came(300_000, 7.0), Some(Fetch(0)), "no rendition arrives in time");
        assert_eq!(
            came(50_000, 3.0),
            None,
            "a chunk of rendition 1 would take more than ten times its length"
        );
        // 600 kB of 2 MB arrived in 2 s, so the rest takes 4.7 s. A chunk of rendition 1 takes 3.4
        // s.
        assert_eq!(given_up(2, 600_000, 2.1, Some(0.1), 4.4), Some(Fetch(1)));
        assert_eq!(
            given_up(2, 700_000, 2.1, Some(0.1), 3.3),
            Some(Fetch(0)),
            "a chunk at its peak rate takes 4 s, too late"
        );
        assert_eq!(
            given_up(1, 200_000, 2.1, Some(0.1), 1.0),
            None,
            "hls.js does not compute the time of the lowest"
        );
        assert_eq!(given_up(0, 1_000, 2.1, Some(0.1), 1.0), None, "there is no lower rendition");
        // Before the first byte, the estimate is used: 32 Mb at 10 Mb/s.
        assert_eq!(given_up(3, 0, 2.1, None, 3.4), None);
        assert_eq!(
            given_up(3, 0, 2.1, None, 3.2),
            Some(Fetch(1)),
            "a chunk of rendition 2 takes 4 s at its peak rate"
        );
    }

    #[test]
    fn the_estimate_restarts_after_an_abandoned_download() {
        let ladder = ladder(&RATES);
        let mut rule =
            measured(&ladder, &[(0, 0.1, 0.4), (1, 0.1, 0.8), (2, 0.1, 1.6), (3, 0.1, 3.2)]);
        let view =
            AbrView { ladder: &ladder, next: 5, last: Some(3), buffer_s: 4.2, max_buffer_s: 30.0 };
        let (bytes, received) = (4_000_000, 1_000_000);
        let (duration_s, since_s, first_byte_s) = (4.0, 2.1, Some(0.1));
        let loading = Loading { rendition: 3, duration_s, bytes, received, since_s, first_byte_s };
        assert!(rule.abandons(&view, &loading));
        let given_up = ChunkSample {
            rendition: 3,
            bytes: received,
            first_byte_s: 0.1,
            fetch_s: since_s,
            duration_s,
        };
        rule.on_chunk(&given_up);
        assert_eq!(ask(&mut *rule, &ladder, (5, Some(3)), 20.0), Fetch(0));
        // The next chunk arrives at 10 Mb/s. The samples from before the reset have no influence.
        let next = ChunkSample {
            rendition: 0,
            bytes: 500_000,
            first_byte_s: 0.1,
            fetch_s: 0.5,
            duration_s,
        };
        rule.on_chunk(&next);
        assert_eq!(ask(&mut *rule, &ladder, (6, Some(0)), 5.0), Fetch(2));
    }
}
