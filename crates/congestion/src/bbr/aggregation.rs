//! Measures ACK aggregation: how many more segments are acknowledged at once than the bandwidth explains
//! (`bbr_update_ack_aggregation`). The window is increased by this excess.

use anabranch_units::{Duration, Instant};

use super::{BW_SCALE, Bbr};
use crate::AckSample;

/// The excess used for the window is at most the data that the bandwidth delivers in this time.
const EXTRA_ACKED_MAX: Duration = Duration::from_millis(100);
/// The number of rounds after which a new maximum begins. The previous maximum is kept for as many rounds
/// again.
const ROUNDS: u32 = 5;
/// The number of acknowledged segments at which an epoch ends.
const EPOCH_RESET: u64 = 1 << 20;

/// A period in which more segments were acknowledged than the bandwidth explains.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Epoch {
    since: Instant,
    acked: u64,
}

impl Epoch {
    /// Begins a new epoch at `now`.
    pub(crate) fn restart(&mut self, now: Instant) {
        self.since = now;
        self.acked = 0;
    }

    /// Adds `acked` newly acknowledged segments. Returns the excess of the epoch so far, at most `cwnd`.
    /// `expected` returns the segments that the bandwidth delivers from the given instant until now.
    pub(crate) fn excess(
        &mut self,
        now: Instant,
        acked: u32,
        cwnd: u32,
        expected: impl Fn(Instant) -> u64,
    ) -> u32 {
        let mut explained = expected(self.since);
        if self.acked <= explained || self.acked + u64::from(acked) >= EPOCH_RESET {
            self.restart(now);
            explained = 0;
        }
        self.acked = (self.acked + u64::from(acked)).min(EPOCH_RESET - 1);
        (self.acked - explained).min(u64::from(cwnd)) as u32
    }
}

/// The current epoch, and the largest excess in each of the last two periods of [`ROUNDS`] rounds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Aggregation {
    extra: [u32; 2],
    index: usize,
    rounds: u32,
    epoch: Epoch,
}

impl Aggregation {
    /// The largest recent excess, segments.
    pub(super) fn extra(&self) -> u32 {
        self.extra[0].max(self.extra[1])
    }

    /// Begins a new epoch at `now`.
    pub(super) fn restart(&mut self, now: Instant) {
        self.epoch.restart(now);
    }

    /// Adds `acked` newly acknowledged segments. `expected` returns the segments that the bandwidth delivers
    /// from the given instant until now.
    pub(super) fn update(
        &mut self,
        now: Instant,
        acked: u32,
        cwnd: u32,
        round_start: bool,
        expected: impl Fn(Instant) -> u64,
    ) {
        if round_start {
            self.rounds += 1;
            if self.rounds >= ROUNDS {
                self.rounds = 0;
                self.index = 1 - self.index;
                self.extra[self.index] = 0;
            }
        }
        let extra = self.epoch.excess(now, acked, cwnd, expected);
        self.extra[self.index] = self.extra[self.index].max(extra);
    }
}

impl Bbr {
    pub(super) fn update_aggregation(&mut self, ack: &AckSample<'_>, cwnd: u32) {
        if ack.acked == 0 || ack.rate.interval.is_zero() {
            return;
        }
        let (bw, now) = (self.bandwidth(), self.delivered_at);
        let expected = |epoch: Instant| {
            ((u128::from(bw) * u128::from(now.since(epoch).as_micros())) >> BW_SCALE) as u64
        };
        self.aggregation.update(now, ack.acked, cwnd, self.round_start, expected);
    }

    /// Returns the segments by which the window is increased (`bbr_ack_aggregation_cwnd`).
    pub(super) fn aggregation_bonus(&self) -> u32 {
        if !self.full_bw_reached || self.linux_414 {
            return 0;
        }
        let most = u128::from(self.bandwidth()) * u128::from(EXTRA_ACKED_MAX.as_micros());
        self.aggregation.extra().min((most >> BW_SCALE) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_units::Duration;

    #[test]
    fn a_burst_beyond_the_bandwidth_is_remembered_and_forgotten() {
        let mut aggregation = Aggregation::default();
        // The bandwidth delivers one segment per millisecond. Here 30 segments are acknowledged at once.
        let at = |ms: u64| Instant::ZERO + Duration::from_millis(ms);
        let explained = |now: Instant| move |epoch: Instant| now.since(epoch).as_millis();
        aggregation.update(at(100), 30, 100, true, explained(at(100)));
        assert_eq!(aggregation.extra(), 30);
        // The maximum is kept for this round, the next four, and five more.
        for round in 2..=10 {
            assert_eq!(aggregation.extra(), 30, "round {round}");
            let now = at(100 * round);
            aggregation.update(now, 1, 100, true, explained(now));
        }
        assert_eq!(aggregation.extra(), 1);
    }

    #[test]
    fn epoch_sums_the_unexplained_acknowledgements() {
        let mut epoch = Epoch::default();
        let mut hear =
            |acked, cwnd, explained| epoch.excess(Instant::ZERO, acked, cwnd, |_| explained);
        assert_eq!(hear(30, 100, 0), 30);
        assert_eq!(hear(5, 100, 10), 25);
        assert_eq!(hear(90, 100, 10), 100, "a window at most");
        assert_eq!(hear(2, 100, 125), 2, "all 125 are explained: a new epoch");
        assert_eq!(hear(2, 100, 1), 3);
        // `bbr_ack_epoch_acked_reset_thresh` is 2^20, and the counter has 20 bits.
        assert_eq!(hear((1 << 20) - 5, u32::MAX, 0), (1 << 20) - 1);
        assert_eq!(hear(1, u32::MAX, 0), 1);
        assert_eq!(hear(1 << 21, u32::MAX, 0), (1 << 20) - 1);
    }

    #[test]
    fn idleness_begins_another_epoch() {
        let mut aggregation = Aggregation::default();
        aggregation.update(Instant::ZERO, 30, 100, false, |_| 0);
        aggregation.restart(Instant::ZERO);
        aggregation.update(Instant::ZERO, 25, 100, false, |_| 0);
        assert_eq!(aggregation.extra(), 30, "25 are less");
    }
}
