//! Links that follow a recording: steps of rate, delay and loss, or delivery opportunities.

use std::sync::Arc;

use anabranch_units::{ByteCount, Duration, Instant, Rate};

use crate::ConfigError;
use crate::service::{Conditions, Course, Served, Service};

/// A recording. Its time 0 is the beginning of the run.
#[derive(Clone, Debug, PartialEq)]
pub enum Trace {
    /// Conditions that are constant until the next step.
    Steps {
        /// The steps; the first is at 0.
        steps: Arc<[TraceStep]>,
        /// The length after which the recording repeats; `None` if the last step continues for ever.
        repeat: Option<Duration>,
    },
    /// Mahimahi's format: times at which a fixed number of bytes may leave. Bytes that no packet uses are lost.
    ///
    /// A packet may take several opportunities, and several packets may share one. A packet leaves with its last byte.
    /// The recording repeats after its last time (`mm-link`, `src/frontend/link_queue.cc`).
    Opportunities {
        /// The times in ascending order, possibly equal. The last one is later than 0.
        at: Arc<[Duration]>,
        /// The bytes of each opportunity.
        bytes: u64,
    },
}

/// One step of a recording.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TraceStep {
    /// The time at which the step begins.
    pub at: Duration,
    /// The rate from then on; zero serves no packet.
    pub rate: Rate,
    /// The one-way delay, in addition to the link's own.
    pub delay: Duration,
    /// The probability that a packet is lost, 0 to 1.
    pub loss: f64,
}

impl Trace {
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let sound = match self {
            Self::Steps { steps, repeat } => {
                let forward = steps.windows(2).all(|pair| pair[0].at < pair[1].at);
                let begins = steps.first().is_some_and(|step| step.at.is_zero());
                let ends = steps.last().is_some_and(|last| repeat.is_none_or(|end| end > last.at));
                let serves = steps.iter().any(|step| step.rate > Rate::ZERO);
                if let Some(step) = steps.iter().find(|step| !(0.0..=1.0).contains(&step.loss)) {
                    return Err(ConfigError::Probability { parameter: "loss", value: step.loss });
                }
                forward && begins && ends && serves
            }
            Self::Opportunities { at, bytes } => {
                let forward = at.windows(2).all(|pair| pair[0] <= pair[1]);
                forward && *bytes > 0 && at.last().is_some_and(|last| !last.is_zero())
            }
        };
        if sound { Ok(()) } else { Err(ConfigError::Trace) }
    }
}

/// The steps of a recording, repeated.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    steps: Arc<[TraceStep]>,
    repeat: Option<Duration>,
    next: usize,
    /// The time at which the present repetition began.
    began: Instant,
}

impl Recorded {
    pub(crate) fn new(steps: Arc<[TraceStep]>, repeat: Option<Duration>) -> Self {
        Self { steps, repeat, next: 0, began: Instant::ZERO }
    }
}

impl Course for Recorded {
    fn next(&mut self) -> Conditions {
        let step = self.steps[self.next];
        self.next += 1;
        let until = match (self.steps.get(self.next), self.repeat) {
            (Some(following), _) => self.began + following.at,
            (None, Some(length)) => {
                self.next = 0;
                self.began += length;
                self.began
            }
            (None, None) => {
                self.next -= 1;
                Instant::FAR_FUTURE
            }
        };
        Conditions { until, rate: step.rate, delay: step.delay, loss: step.loss }
    }
}

/// Serves packets at delivery opportunities.
#[derive(Clone, Debug)]
pub(crate) struct Opportunities {
    at: Arc<[Duration]>,
    bytes: u64,
    next: usize,
    began: Instant,
    /// The time of the present opportunity, and the bytes left of it.
    now: Instant,
    left: u64,
}

impl Opportunities {
    pub(crate) fn new(at: Arc<[Duration]>, bytes: u64) -> Self {
        Self { at, bytes, next: 0, began: Instant::ZERO, now: Instant::ZERO, left: 0 }
    }

    fn length(&self) -> Duration {
        self.at.last().copied().unwrap_or(Duration::MAX)
    }

    /// Advances to the next opportunity at or after `from`.
    fn advance(&mut self, from: Instant) {
        let repetitions = from.since(self.began).as_nanos() / self.length().as_nanos();
        // Advances one repetition less, because the last opportunity of a repetition may lie exactly at `from`.
        if repetitions > 1 {
            self.began += self.length() * (repetitions - 1);
            self.next = 0;
        }
        loop {
            if self.next == self.at.len() {
                self.began += self.length();
                self.next = 0;
            }
            self.now = self.began + self.at[self.next];
            self.next += 1;
            if self.now >= from {
                self.left = self.bytes;
                return;
            }
        }
    }
}

impl Service for Opportunities {
    fn serve(&mut self, from: Instant, size: ByteCount, cap: Rate) -> Served {
        if cap == Rate::ZERO {
            return Served::STALLED;
        }
        if self.now < from {
            self.left = 0;
        }
        let mut needed = size.0;
        while needed > self.left || self.now < from {
            needed -= self.left;
            self.advance(from.max(self.now));
        }
        self.left -= needed;
        let departs = self.now.max(from + cap.transmit_time(size));
        Served { departs, extra: Duration::ZERO, lost: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(trace: &[u64], packets: &[(u64, u64)]) -> Vec<u64> {
        let at = trace.iter().map(|&ms| Duration::from_millis(ms)).collect();
        let mut service = Opportunities::new(at, 1500);
        let mut from = Instant::ZERO;
        let mut serve = |&(ms, size): &(u64, u64)| {
            from = from.max(Instant::ZERO + Duration::from_millis(ms));
            from = service.serve(from, ByteCount(size), Rate::UNLIMITED).departs;
            from.as_micros() / 1000
        };
        packets.iter().map(&mut serve).collect()
    }

    #[test]
    fn a_packet_leaves_with_its_last_byte() {
        assert_eq!(served(&[10, 20, 30], &[(0, 1500), (0, 3000)]), [10, 30]);
        assert_eq!(served(&[10, 20], &[(0, 500), (0, 500), (0, 501)]), [10, 10, 20]);
    }

    #[test]
    fn unused_opportunities_are_lost_and_the_recording_repeats() {
        assert_eq!(
            served(&[10, 20], &[(11, 1500), (21, 1500), (95, 100), (96, 100)]),
            [20, 30, 100, 100]
        );
        assert_eq!(served(&[0, 7], &[(0, 1500), (0, 1500), (0, 1500)]), [0, 7, 7]);
        assert_eq!(served(&[5, 5, 5, 9], &[(1, 1500), (1, 1500), (1, 3000)]), [5, 5, 9]);
    }

    #[test]
    fn an_opportunity_at_exactly_this_time_is_used() {
        assert_eq!(served(&[10], &[(1000, 1500), (1000, 1500)]), [1000, 1010]);
    }
}
