//! CCP's estimates of the path: capacity, storage and backlog.

use anabranch_units::{Duration, Instant};

use crate::AckSample;

/// Two segments were sent back to back if they were sent at most this long apart.
const TOGETHER: Duration = Duration::from_millis(1);

/// The best value of the recent past, which is between half a span and a whole span long.
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    /// Rank and value of the best sample in the current half span and in the previous one.
    halves: [Option<(f64, f64)>; 2],
    turned: Instant,
}

impl Recent {
    fn offer(&mut self, now: Instant, span: Duration, rank: f64, value: f64) {
        let age = now.since(self.turned);
        if age >= span / 2 {
            let before = self.halves[0].filter(|_| age < span);
            self.halves = [None, before];
            self.turned = now;
        }
        if self.halves[0].is_none_or(|(best, _)| rank >= best) {
            self.halves[0] = Some((rank, value));
        }
    }

    fn best(&self) -> Option<f64> {
        let [new, old] = self.halves;
        match (new, old) {
            (Some(new), Some(old)) => Some(if old.0 > new.0 { old.1 } else { new.1 }),
            (one, other) => one.or(other).map(|(_, value)| value),
        }
    }
}

/// The path at one acknowledgement, in segments.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    /// The data that queue and wire can store: capacity times the longest RTT.
    pub(super) storage: f64,
    /// Segments in the queue.
    pub(super) backlog: f64,
}

/// The measurements of the path.
#[derive(Debug)]
pub(super) struct Path {
    /// Whether the capacity is measured by packet pairs. Delivery rates are used until there is a pair.
    pairs: bool,
    memory: Duration,
    /// Capacities measured by packet pairs. The pair with the smallest delay is the best (`CapProbe`).
    pair: Recent,
    /// Delivery rates, segments per second.
    rate: Recent,
    /// RTTs, seconds. The longest is the best.
    longest: Recent,
    /// The arrival time of the last acknowledgement, and the RTT of the newest segment that it acknowledged.
    last: Option<(Instant, Duration)>,
}

impl Path {
    pub(super) fn new(pairs: bool, memory: Duration) -> Self {
        let none = Recent::default();
        Self { pairs, memory, pair: none, rate: none, longest: none, last: None }
    }

    /// Forgets the last acknowledgement. After losses, gaps between acknowledgements do not show the
    /// capacity.
    pub(super) fn interrupt(&mut self) {
        self.last = None;
    }

    /// Processes an acknowledgement. Returns `None` until the capacity and the RTT have been measured.
    pub(super) fn observe(&mut self, ack: &AckSample<'_>) -> Option<View> {
        if !ack.rate.interval.is_zero() {
            let rate = f64::from(ack.rate.delivered) / ack.rate.interval.as_secs_f64();
            self.rate.offer(ack.now, self.memory, rate, rate);
        }
        let Some(rtt) = ack.rtt else {
            self.interrupt();
            return None;
        };
        let seconds = rtt.as_secs_f64();
        self.longest.offer(ack.now, self.memory, seconds, seconds);
        self.measure_pair(ack, rtt);
        let by_pairs = if self.pairs { self.pair.best() } else { None };
        let capacity = by_pairs.or_else(|| self.rate.best())?;
        let least = ack.min_rtt.unwrap_or(rtt).as_secs_f64();
        let storage = (capacity * self.longest.best()?).ceil();
        Some(View { storage, backlog: capacity * (seconds - least).max(0.0) })
    }

    /// Measures the capacity with a packet pair: the newest segments of two acknowledgements, if they were
    /// sent back to back. The time between the two arrivals is the service time of the slowest link for the
    /// segments in between. Other traffic between them makes the delay larger, so the pair with the smallest
    /// delay is the best.
    fn measure_pair(&mut self, ack: &AckSample<'_>, rtt: Duration) {
        let before = self.last.replace((ack.now, rtt));
        let Some((then, earlier)) = before.filter(|_| ack.acked > 0) else {
            return;
        };
        let apart = ack.now.since(then);
        // A segment was sent one RTT before the arrival of its acknowledgement.
        let together = (rtt..=rtt + TOGETHER).contains(&(apart + earlier));
        if together && !apart.is_zero() {
            let capacity = f64::from(ack.acked) / apart.as_secs_f64();
            let delays = (rtt + earlier).as_secs_f64();
            self.pair.offer(ack.now, self.memory, -delays, capacity);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_is_kept_for_half_a_span_and_gone_after_all_of_it() {
        let span = Duration::from_secs(10);
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let mut recent = Recent::default();
        recent.offer(at(1), span, 9.0, 90.0);
        recent.offer(at(4), span, 2.0, 20.0);
        assert_eq!(recent.best(), Some(90.0));
        recent.offer(at(6), span, 1.0, 10.0);
        assert_eq!(recent.best(), Some(90.0), "five seconds old");
        recent.offer(at(11), span, 3.0, 30.0);
        assert_eq!(recent.best(), Some(30.0), "ten seconds old");
        recent.offer(at(100), span, 0.0, 0.0);
        assert_eq!(recent.best(), Some(0.0), "nothing came meanwhile");
    }

    #[test]
    fn newest_of_equal_samples_wins_and_old_samples_expire() {
        let span = Duration::from_secs(10);
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let mut recent = Recent::default();
        recent.offer(at(1), span, 5.0, 50.0);
        recent.offer(at(6), span, 5.0, 60.0);
        assert_eq!(recent.best(), Some(60.0));
        let mut recent = Recent::default();
        recent.offer(at(1), span, 9.0, 90.0);
        recent.offer(at(10), span, 1.0, 10.0);
        assert_eq!(recent.best(), Some(10.0));
    }

    /// Returns an acknowledgement of one segment. The shortest RTT of the path is 100 ms.
    fn acknowledgement(at_ms: u64, rtt_ms: u64) -> AckSample<'static> {
        let now = Instant::ZERO + Duration::from_millis(at_ms);
        AckSample {
            now,
            multipath: false,
            coarse_now: now,
            tick: Duration::ZERO,
            acked: 1,
            acked_bytes: 1000,
            newly_lost: 0,
            delivered: 1,
            delivered_ce: 0,
            echo: false,
            mss: 1000,
            next_departure: now,
            prior_in_flight: 2,
            in_flight: 1,
            rtt: Some(Duration::from_millis(rtt_ms)),
            maybe_delayed: false,
            srtt: None,
            min_rtt: Some(Duration::from_millis(100)),
            rate: crate::RateSample::default(),
            snd_nxt: 0,
            snd_una: 0,
            cwnd_limited: true,
            may_grow: true,
            paced: false,
            pacing_rate: anabranch_units::Rate::ZERO,
            id: anabranch_units::SubflowId(0),
            siblings: &[],
        }
    }

    #[test]
    fn spaced_pair_measures_capacity_and_single_acks_do_not() {
        let measure = |second: u64, rtt: u64| {
            let mut path = Path::new(true, Duration::from_secs(10));
            assert!(path.observe(&acknowledgement(500, 100)).is_none(), "one is no pair");
            path.observe(&acknowledgement(second, rtt)).map(|view| view.backlog)
        };
        // Two segments sent together are acknowledged 2 ms apart: 500 segments per second, and a backlog of 2
        // ms.
        let backlog = measure(502, 102).expect("a pair");
        assert!((backlog - 1.0).abs() < 1e-9, "{backlog}");
        assert_eq!(measure(500, 100), None, "no distance, no capacity");
        assert_eq!(measure(510, 100), None, "they were sent 10 ms apart");
    }
}
