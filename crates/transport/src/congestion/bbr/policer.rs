//! Long-term sampling (`bbr_lt_bw_sampling`): two intervals of heavy loss at the same throughput mean
//! a policer; its rate is then used as the bandwidth for a while.

use anabranch_units::Instant;

use super::{BW_SCALE, UNIT};

const INTERVAL_MIN_ROUNDS: u32 = 4;
const LOSS_THRESHOLD: u64 = 50;
const BW_RATIO: u64 = UNIT / 8;
const BW_DIFF_BYTES: u64 = 4000 / 8;
const BW_MAX_ROUNDS: u32 = 48;

/// What one acknowledgement adds.
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

/// What followed from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Nothing,
    /// A policer was found out.
    Policed,
    /// Its rate has been used long enough: probe again.
    Released,
}

/// The interval under way and what the last one found.
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

    /// Forgets everything; an interval would begin here.
    pub(super) fn reset(&mut self, now: Instant, delivered: u64, lost: u64) {
        *self = Self { since: now, delivered, lost, ..Self::default() };
    }

    fn restart(&mut self, round: &Round) {
        self.since = round.now;
        self.delivered = round.delivered;
        self.lost = round.lost;
        self.rounds = 0;
    }

    /// Takes one acknowledgement.
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

    /// An interval is complete: does it agree with the one before?
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

    #[test]
    fn two_lossy_intervals_of_one_rate_are_a_policer() {
        let mut policer = Policer::default();
        let mut verdict = Verdict::Nothing;
        for n in 1..=20u64 {
            // 100 segments a round of 100 ms, 30 of them lost: far above the 20 % threshold.
            verdict = policer.sample(&Round {
                now: Instant::ZERO + Duration::from_millis(100 * n),
                delivered: 100 * n,
                lost: 30 * n,
                started: true,
                losses: true,
                app_limited: false,
                probing_bw: true,
                mss: 1448,
            });
            if verdict == Verdict::Policed {
                break;
            }
        }
        assert_eq!(verdict, Verdict::Policed);
        let per_second = (policer.bandwidth().unwrap_or(0) * 1_000_000) >> BW_SCALE;
        assert!((990..=1000).contains(&per_second), "1000 segments a second, saw {per_second}");
    }

    #[test]
    fn light_loss_is_no_policer() {
        let mut policer = Policer::default();
        for n in 1..=50u64 {
            policer.sample(&Round {
                now: Instant::ZERO + Duration::from_millis(100 * n),
                delivered: 100 * n,
                lost: n,
                started: true,
                losses: true,
                app_limited: false,
                probing_bw: true,
                mss: 1448,
            });
            assert_eq!(policer.bandwidth(), None);
        }
    }
}
