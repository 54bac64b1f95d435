//! hls.js 1.7's rule (`controller/abr-controller.ts`, `utils/ewma-bandwidth-estimator.ts`).

use std::collections::BTreeSet;

use anabranch_plugin::Parameters;

use super::estimate::{Ewma, FastAndSlow};
use super::{AbrDecision, AbrRule, AbrView, ChunkSample, Loading};

/// From the highest down: the first whose rate is within a share of the estimated throughput and
/// whose chunk arrives before the buffer is empty, or up to 4 s after that if none does. A chunk
/// that takes too long is given up for a lower one.
///
/// Left out: the first fragment that is thrown away to measure (`startLevel = -1`, which is not the
/// default), how long a playlist's own bytes take (`lastLevelLoadSec`; the wait for its first byte
/// counts), and the time that the browser takes to parse a chunk.
#[derive(Debug)]
pub(super) struct HlsJs {
    /// `abrBandWidthFactor`, for staying and going down.
    factor: f64,
    /// `abrBandWidthUpFactor`.
    up_factor: f64,
    /// `maxStarvationDelay`, seconds.
    starvation_s: f64,
    /// `abrEwmaFastVoD` and `abrEwmaSlowVoD`, seconds.
    half_lives: (f64, f64),
    estimate: Estimate,
    /// Renditions whose playlists are in: going to another one takes another answer.
    known: BTreeSet<usize>,
    /// The rendition that follows a chunk that was given up, until one of it is in.
    forced: Option<usize>,
    /// Whether the next sample is of the chunk that was given up, which was taken in already.
    taken: bool,
}

/// `EwmaBandWidthEstimator`.
#[derive(Debug)]
struct Estimate {
    /// `abrEwmaDefaultEstimate`, bits per second.
    default_bps: f64,
    throughput: FastAndSlow,
    first_byte: Ewma,
}

/// The least time that a sample of throughput is taken to last, seconds (`minDelayMs_`) ...
const LEAST_S: f64 = 0.05;
/// ... unless its bytes come faster than this, bytes per second: `numBytes / 100000` is of milliseconds.
const LEAST_BYTES_PER_S: f64 = 1e8;
/// The time to the first byte that is assumed before one was measured, seconds (`defaultTTFB_`).
const FIRST_BYTE_S: f64 = 0.1;
/// The least time to a first byte that is believed, seconds (`sampleTTFB`).
const LEAST_FIRST_BYTE_S: f64 = 0.005;
/// The chunk's length that is assumed before a playlist is in, seconds (`avgDuration`).
const UNKNOWN_CHUNK_S: f64 = 1.0;
/// The longest fetch for which another one is given up, in lengths of its chunk.
const MOST_CHUNKS: f64 = 10.0;

impl Estimate {
    const fn new((fast, slow): (f64, f64), default_bps: f64) -> Self {
        let throughput = FastAndSlow::new(fast, slow);
        Self { default_bps, throughput, first_byte: Ewma::new(slow) }
    }

    fn bps(&self) -> f64 {
        self.throughput.get().unwrap_or(self.default_bps)
    }

    fn first_byte_s(&self) -> f64 {
        self.first_byte.get().unwrap_or(FIRST_BYTE_S)
    }

    /// `sampleTTFB`: the longer, the less it weighs.
    fn answered(&mut self, first_byte_s: f64) {
        let weight = std::f64::consts::SQRT_2 * (-first_byte_s.powi(2) / 2.0).exp();
        self.first_byte.sample(weight, first_byte_s.max(LEAST_FIRST_BYTE_S));
    }

    /// `sample`, of bytes that came within a time from the request on. Of the wait for the first of
    /// them only what is usual is left out.
    fn transferred(&mut self, fetch_s: f64, first_byte_s: f64, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let least_s = LEAST_S.min(bytes as f64 / LEAST_BYTES_PER_S);
        let seconds = (fetch_s - first_byte_s.min(self.first_byte_s())).max(least_s);
        self.throughput.sample(seconds, bytes as f64 * 8.0 / seconds);
    }
}

/// What `findBestLevel` is asked.
struct Search {
    bps: f64,
    /// The highest rendition.
    most: usize,
    /// `bufferStarvationDelay` and `maxStarvationDelay`, seconds.
    buffer_s: f64,
    allowance_s: f64,
    /// Shares of the throughput for staying or going down, and for going up.
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
            forced: None,
            taken: false,
        })
    }

    /// `getTimeToLoadFrag`.
    fn fetch_s(&self, rendition: usize, bits: f64, bps: f64) -> f64 {
        let first_byte_s = self.estimate.first_byte_s();
        let playlist_s = if self.known.contains(&rendition) { 0.0 } else { first_byte_s };
        first_byte_s + bits / bps + playlist_s
    }

    /// `findBestLevel`: the highest that arrives within the buffer and an allowance on top of it.
    fn best(&self, view: &AbrView<'_>, search: &Search) -> Option<usize> {
        (0..=search.most).rev().find(|&at| {
            let chunk_s = view.last.map_or(UNKNOWN_CHUNK_S, |_| view.chunk_s(at));
            let up = view.last.is_some_and(|last| at > last);
            let adjusted = search.bps * if up { search.up_factor } else { search.factor };
            // With two chunks in hand the mean rate decides, else the peak.
            let comfortable = view.last.is_some()
                && search.buffer_s >= 2.0 * chunk_s
                && search.allowance_s == 0.0;
            let rate = if comfortable { view.mean_bps(at) } else { view.peak_bps(at) };
            let fetch_s = self.fetch_s(at, rate * chunk_s, adjusted);
            rate <= adjusted && fetch_s < search.buffer_s + search.allowance_s
        })
    }

    /// `firstAutoLevel`: nothing is held back of an estimate that is no measurement.
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

    /// `getNextABRAutoLevel`.
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
        within(0.0).or_else(|| within(view.chunk_s(0).min(self.starvation_s))).unwrap_or(0)
    }

    /// Which rendition below a chunk's would be in first, and when: the highest that comes before the
    /// buffer is empty. Of the lowest the time is not asked (`nextLoadLevel > minAutoLevel`): it stands
    /// with that of the one above it, and there is none below a chunk of the second.
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

    /// Begins to measure anew from a rate (`resetEstimator`).
    fn reset(&mut self, default_bps: f64) {
        self.estimate = Estimate::new(self.half_lives, default_bps);
    }
}

impl AbrRule for HlsJs {
    fn choose(&mut self, view: &AbrView<'_>) -> AbrDecision {
        let measured = self.estimate.throughput.get().is_some() && view.last.is_some();
        let chosen = if measured { self.next(view) } else { self.first(view) };
        AbrDecision::Fetch(self.forced.unwrap_or(chosen))
    }

    fn on_chunk(&mut self, sample: &ChunkSample) {
        if std::mem::take(&mut self.taken) {
            return;
        }
        self.known.insert(sample.rendition);
        self.forced = self.forced.filter(|&forced| forced != sample.rendition);
        self.estimate.answered(sample.first_byte_s);
        self.estimate.transferred(sample.fetch_s, sample.first_byte_s, sample.bytes);
    }

    fn watches(&self) -> bool {
        true
    }

    /// `_abandonRulesCheck`.
    fn abandons(&mut self, view: &AbrView<'_>, loading: &Loading) -> bool {
        let usual_s = self.estimate.first_byte_s();
        if loading.rendition == 0 || loading.since_s <= usual_s.max(loading.duration_s / 2.0) {
            return false;
        }
        let first_byte_s = loading.first_byte_s.filter(|_| loading.received > 0);
        // Of what has only begun to come the rate is not known, and taken to be high.
        if first_byte_s.is_some_and(|first_byte_s| loading.since_s - first_byte_s < 1e-3) {
            return false;
        }
        let measured =
            first_byte_s.map(|at| loading.received as f64 * 8.0 / (loading.since_s - at));
        let left_s = match measured {
            Some(bps) => (loading.bytes - loading.received) as f64 * 8.0 / bps,
            None => loading.bytes as f64 * 8.0 / self.estimate.bps() + usual_s,
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
        // What would take more than twice as long is aborted at once, and all is begun anew from the
        // lowest (`abortAndSwitch`); else the next chunk's request ends it.
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
    //! What hls.js 1.7.4's own `AbrController` answers when it is asked the same
    //! (`tests/python/test_hlsjs_rule.py` asks it).

    use super::*;
    use crate::abr::AbrDecision::Fetch;
    use crate::abr::testing::{ask, ladder, rule};
    use crate::ladder::Ladder;

    const RATES: [u64; 4] = [1_000_000, 2_000_000, 4_000_000, 8_000_000];

    /// A rule that has fetched a chunk of four seconds of these renditions, the first byte after a time and
    /// the others within one.
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
    fn nothing_is_held_back_of_the_first_estimate() {
        let begins = |rates: &[u64]| {
            let mut rule = rule(r#"{"name":"hlsjs"}"#);
            ask(&mut *rule, &ladder(rates), (0, None), 0.0)
        };
        assert_eq!(begins(&[300_000, 450_000, 1_000_000]), Fetch(1), "half a megabit is assumed");
        assert_eq!(begins(&RATES), Fetch(0));
    }

    #[test]
    fn the_share_is_smaller_on_the_way_up() {
        let ladder = ladder(&RATES[..3]);
        // All three are known, and came at 5 Mb/s.
        let seen = [(0, 0.0, 0.8), (1, 0.0, 1.6), (2, 0.0, 3.2)];
        let asked = |last, buffer_s| {
            ask(&mut *measured(&ladder, &seen), &ladder, (3, Some(last)), buffer_s)
        };
        // 0.7 of 5 Mb/s are too little for 4, 0.95 of it are enough.
        assert_eq!(asked(1, 20.0), Fetch(1));
        assert_eq!(asked(2, 20.0), Fetch(2));
        // 16 Mb at 4.75 Mb/s take 3.37 s, and the first byte 5 ms, as no sample is below that.
        assert_eq!(asked(2, 3.38), Fetch(2));
        assert_eq!(asked(2, 3.37), Fetch(1));
        // With nothing buffered not even 4 Mb arrive; 4 s more are allowed, and 16 Mb do.
        assert_eq!(asked(2, 0.0), Fetch(2));
    }

    #[test]
    fn a_playlist_that_is_not_in_is_another_answer_to_wait_for() {
        let ladder = ladder(&[1_000_000, 2_000_000, 3_000_000]);
        // 5 Mb/s; 12 Mb at 3.5 Mb/s take 3.43 s, and two answers of 0.2 s.
        let asked = |buffer_s| {
            ask(&mut *measured(&ladder, &[(1, 0.2, 1.6)]), &ladder, (1, Some(1)), buffer_s)
        };
        assert_eq!(asked(3.82), Fetch(1));
        assert_eq!(asked(3.84), Fetch(2));
    }

    #[test]
    fn an_answer_that_takes_longer_than_usual_counts_as_transfer_and_weighs_less() {
        let seen = [(0, 0.1, 0.8), (0, 2.1, 0.8)];
        let ladder = ladder(&RATES);
        let asked = |rates: &[u64]| {
            let bps = crate::abr::testing::ladder(rates);
            ask(&mut *measured(&ladder, &seen), &bps, (2, Some(1)), 20.0)
        };
        // Its own estimator has 2,135,020 b/s, of which 0.95 are 2,028,269; without the wait it had 5 Mb/s.
        assert_eq!(asked(&[1_000_000, 2_028_000]), Fetch(1));
        assert_eq!(asked(&[1_000_000, 2_029_000]), Fetch(0));
    }

    #[test]
    fn a_chunk_that_takes_too_long_is_given_up_as_hlsjs_does() {
        let ladder = ladder(&RATES);
        let given_up = |rendition: usize, received, since_s, first_byte_s, buffer_s| {
            // The renditions below are known, and all came at 10 Mb/s.
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
        // 1 MB in 2 s, and 6 s more to come.
        assert_eq!(came(1_000_000, 6.1), None, "the buffer lasts");
        assert_eq!(
            came(1_000_000, 4.2),
            Some(Fetch(0)),
            "a chunk of rendition 1 comes in half of that"
        );
        assert_eq!(given_up(3, 1_000_000, 1.9, Some(0.1), 3.0), None, "it is too early");
        assert_eq!(came(300_000, 7.0), Some(Fetch(0)), "none comes in time");
        assert_eq!(
            came(50_000, 3.0),
            None,
            "a chunk of rendition 1 would take more than ten times its length"
        );
        // 600 kB of 2 MB in 2 s: 4.7 s more, and 3.4 s for one of rendition 1.
        assert_eq!(given_up(2, 600_000, 2.1, Some(0.1), 4.4), Some(Fetch(1)));
        assert_eq!(
            given_up(2, 700_000, 2.1, Some(0.1), 3.3),
            Some(Fetch(0)),
            "4 s of film at its rate: too late"
        );
        assert_eq!(
            given_up(1, 200_000, 2.1, Some(0.1), 1.0),
            None,
            "of the lowest the time is not asked"
        );
        assert_eq!(given_up(0, 1_000, 2.1, Some(0.1), 1.0), None, "nothing is lower");
        // Without a byte the estimate stands: 32 Mb at 10 Mb/s.
        assert_eq!(given_up(3, 0, 2.1, None, 3.4), None);
        assert_eq!(
            given_up(3, 0, 2.1, None, 3.2),
            Some(Fetch(1)),
            "rendition 2 takes 4 s at its rate"
        );
    }

    #[test]
    fn what_follows_a_chunk_that_was_given_up_is_measured_anew() {
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
        // At 10 Mb/s again: of what came before nothing is left.
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
