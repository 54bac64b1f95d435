//! Long-term sampling (`bbr_lt_bw_sampling`) detects a token-bucket policer: two intervals with heavy loss
//! have the same throughput. That throughput then replaces the bandwidth for a while.

use anabranch_units::Instant;

use super::{BW_SCALE, UNIT};

const INTERVAL_MIN_ROUNDS: u32 = 4;
const LOSS_THRESHOLD: u64 = 50;
const BW_RATIO: u64 = UNIT / 8;
const BW_DIFF_BYTES: u64 = 4000 / 8;
const BW_MAX_ROUNDS: u32 = 48;

/// The data of one acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    pub(super) now: Instant,
    /// Segments delivered so far.
    pub(super) delivered: u64,
    /// Segments lost so far.
    pub(super) lost: u64,
    /// A packet-timed round has just begun.
    pub(super) started: bool,
    /// Losses were found with this acknowledgement.
    pub(super) losses: bool,
    pub(super) app_limited: bool,
    pub(super) probing_bw: bool,
    pub(super) mss: u32,
}

/// The outcome of one acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Nothing,
    /// A policer was detected.
    Policed,
    /// The policer's rate has been used for long enough, and BBR must probe again.
    Released,
}

/// The current interval and the rate of the previous interval.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Policer {
    sampling: bool,
    in_use: bool,
    bw: u64,
    rounds: u32,
    since: Instant,
    delivered: u64,
    lost: u64,
}

impl Policer {
    /// The policed bandwidth while it is in use.
    pub(super) fn bandwidth(&self) -> Option<u64> {
        self.in_use.then_some(self.bw)
    }

    /// Forgets all samples. A new interval may begin now.
    pub(super) fn reset(&mut self, now: Instant, delivered: u64, lost: u64) {
        *self = Self { since: now, delivered, lost, ..Self::default() };
    }

    fn restart(&mut self, round: &Round) {
        self.since = round.now;
        self.delivered = round.delivered;
        self.lost = round.lost;
        self.rounds = 0;
    }

    /// Processes one acknowledgement.
    pub(super) fn sample(&mut self, round: &Round) -> Verdict {
        if self.in_use {
            if round.probing_bw && round.started {
                self.rounds += 1;
                if self.rounds >= BW_MAX_ROUNDS {
                    self.reset(round.now, round.delivered, round.lost);
                    return Verdict::Released;
                }
            }
            return Verdict::Nothing;
        }
        if !self.sampling {
            if !round.losses {
                return Verdict::Nothing;
            }
            self.restart(round);
            self.sampling = true;
        }
        if round.app_limited {
            self.reset(round.now, round.delivered, round.lost);
            return Verdict::Nothing;
        }
        self.rounds += u32::from(round.started);
        if self.rounds > 4 * INTERVAL_MIN_ROUNDS {
            self.reset(round.now, round.delivered, round.lost);
            return Verdict::Nothing;
        }
        let lost = round.lost - self.lost;
        let delivered = round.delivered - self.delivered;
        let early = self.rounds < INTERVAL_MIN_ROUNDS;
        let light = delivered == 0 || lost * UNIT < LOSS_THRESHOLD * delivered;
        let millis = round.now.since(self.since).as_millis();
        if early || !round.losses || light || millis == 0 {
            return Verdict::Nothing;
        }
        self.finish((delivered << BW_SCALE) / (millis * 1_000), round)
    }

    /// Ends an interval and compares its rate with the rate of the previous interval.
    fn finish(&mut self, bw: u64, round: &Round) -> Verdict {
        if self.bw > 0 {
            let difference = bw.abs_diff(self.bw);
            let bytes = (u128::from(difference) * u128::from(round.mss) * 1_000_000) >> BW_SCALE;
            if difference * UNIT <= BW_RATIO * self.bw || bytes <= u128::from(BW_DIFF_BYTES) {
                self.bw = u64::midpoint(bw, self.bw);
                self.in_use = true;
                self.rounds = 0;
                return Verdict::Policed;
            }
        }
        self.bw = bw;
        self.restart(round);
        Verdict::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_units::Duration;

    /// A round of 100 ms with 256 delivered segments and no loss.
    const CALM: Heard = Heard { ms: 100, delivered: 256, lost: 0, started: true, mss: 1448 };
    const LOSSY: Heard = Heard { lost: 80, ..CALM };

    #[derive(Clone, Copy)]
    struct Heard {
        ms: u64,
        delivered: u64,
        lost: u64,
        started: bool,
        mss: u32,
    }

    /// A policer detector and the counters of its flow.
    struct Bench {
        policer: Policer,
        ms: u64,
        delivered: u64,
        lost: u64,
        app_limited: bool,
        probing_bw: bool,
    }

    impl Bench {
        /// Creates a flow that has been running for some time.
        fn new() -> Self {
            let policer = Policer::default();
            let (app_limited, probing_bw) = (false, true);
            Self { policer, ms: 70_000, delivered: 90_000, lost: 500, app_limited, probing_bw }
        }

        fn hear(&mut self, heard: Heard) -> Verdict {
            self.ms += heard.ms;
            self.delivered += heard.delivered;
            self.lost += heard.lost;
            self.policer.sample(&Round {
                now: Instant::ZERO + Duration::from_millis(self.ms),
                delivered: self.delivered,
                lost: self.lost,
                started: heard.started,
                losses: heard.lost > 0,
                app_limited: self.app_limited,
                probing_bw: self.probing_bw,
                mss: heard.mss,
            })
        }

        /// Returns after which of `rounds` equal rounds a policer is detected.
        fn found(&mut self, heard: Heard, rounds: usize) -> Option<usize> {
            (1..=rounds).find(|_| self.hear(heard) == Verdict::Policed)
        }

        /// Returns the detected rate in segments per second.
        fn rate(&self) -> Option<f64> {
            let bw = self.policer.bandwidth()?;
            Some((bw as f64 * 1e6 / f64::from(1 << BW_SCALE)).round())
        }
    }

    /// An interval has four rounds and begins with the round of its first loss.
    #[test]
    fn two_lossy_intervals_of_one_rate_are_a_policer() {
        let mut bench = Bench::new();
        assert_eq!(bench.found(LOSSY, 20), Some(8));
        assert_eq!(bench.rate(), Some(2560.0));
        // Rounds without loss before the interval do not count. Acknowledgements within a round do not count
        // either.
        let mut bench = Bench::new();
        assert_eq!(bench.found(CALM, 20), None);
        assert_eq!(bench.found(LOSSY, 20), Some(8));
        let mut bench = Bench::new();
        assert_eq!(bench.found(Heard { started: false, ..LOSSY }, 40), None);
        // An interval without duration has no rate.
        assert_eq!(Bench::new().found(Heard { ms: 0, ..LOSSY }, 40), None);
    }

    /// A loss rate of 50/256 is enough to suspect a policer.
    #[test]
    fn light_loss_is_no_policer() {
        for (lost, found) in [(1, None), (49, None), (50, Some(8))] {
            assert_eq!(Bench::new().found(Heard { lost, ..CALM }, 50), found, "{lost}");
        }
    }

    /// An interval ends without result if the application limits the flow, or after 16 rounds. `left` is the
    /// number of further rounds until a policer is detected.
    #[test]
    fn intervals_are_dropped_by_the_application_and_after_sixteen_rounds() {
        for (calm, left) in [(14, 4), (15, 8)] {
            let mut bench = Bench::new();
            bench.hear(LOSSY);
            assert_eq!(bench.found(CALM, calm), None);
            // One round loses 2000 segments, more than 50/256 of the segments delivered in 16 or 17 rounds.
            bench.hear(Heard { lost: 2000, ..CALM });
            assert_eq!(bench.found(LOSSY, 20), Some(left), "{calm} calm rounds");
        }
        let mut bench = Bench::new();
        assert_eq!(bench.found(LOSSY, 7), None);
        bench.app_limited = true;
        bench.hear(LOSSY);
        bench.app_limited = false;
        assert_eq!(bench.found(LOSSY, 20), Some(8), "all is forgotten");
    }

    /// If the rates agree within an eighth or within 4000 bit/s, the result is their mean.
    #[test]
    fn the_rates_of_two_intervals_agree_within_an_eighth_or_4_kbit() {
        let per_second =
            |delivered: u64, mss: u32| Heard { ms: 1000, delivered, lost: delivered, mss, ..CALM };
        for (mss, first, second, mean) in [
            (1448, 1000, 1120, Some(1060.0)),
            (1448, 1000, 1130, None),
            (1448, 1000, 880, Some(940.0)),
            (1448, 1000, 870, None),
            // Five segments of 100 bytes per second are 4000 bit/s.
            (100, 10, 14, Some(12.0)),
            (100, 10, 16, None),
            (100, 4, 4, Some(4.0)),
        ] {
            let mut bench = Bench::new();
            assert_eq!(bench.found(per_second(first, mss), 4), None, "one interval is not enough");
            assert_eq!(bench.found(per_second(second, mss), 4).is_some(), mean.is_some());
            assert_eq!(bench.rate(), mean, "{first} and {second}");
            // If the two rates do not agree, the next interval is compared with the second one.
            if mean.is_none() {
                assert_eq!(bench.found(per_second(second, mss), 4), Some(4));
            }
        }
    }

    #[test]
    fn a_policer_is_believed_for_48_rounds_of_probing() {
        let mut bench = Bench::new();
        bench.found(LOSSY, 8);
        bench.probing_bw = false;
        assert_eq!(bench.found(LOSSY, 100), None);
        bench.probing_bw = true;
        for _ in 0..100 {
            assert_eq!(bench.hear(Heard { started: false, ..LOSSY }), Verdict::Nothing);
        }
        for _ in 0..47 {
            assert_eq!(bench.hear(LOSSY), Verdict::Nothing);
            assert!(bench.rate().is_some());
        }
        assert_eq!(bench.hear(LOSSY), Verdict::Released);
        assert_eq!(bench.rate(), None);
        assert_eq!(bench.found(LOSSY, 20), Some(8), "from the beginning");
    }
}
