//! Links whose recording depends on the load: one recording for short bursts, another for long ones.

use anabranch_units::{ByteCount, Duration, Instant, Rate};

use crate::ConfigError;
use crate::service::{Served, Service};
use crate::trace::Trace;

/// Two recordings of one link, taken at the same time under light and under heavy load.
///
/// A burst begins when no packet has been in the queue for longer than `idle`. Its first `light_bytes` bytes are
/// served by `light`, and all others by `heavy`. Time passes in both recordings all the time.
///
/// `CellReplay` switches by the same rule (NSDI 2025, `cellular_queue.cc`, `long_to_short_timer_`). Unlike here, its
/// packets of a burst after the recorded train have the delay of the train too, and delays between two trains are
/// interpolated.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadDependentTrace {
    /// The recording under light load.
    pub light: Trace,
    /// The recording under heavy load.
    pub heavy: Trace,
    /// The number of bytes at the beginning of a burst that `light` serves.
    pub light_bytes: u64,
    /// The time without a packet in the queue after which a burst begins.
    pub idle: Duration,
}

impl LoadDependentTrace {
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        self.light.check().and_then(|()| self.heavy.check())
    }
}

/// The service of a [`LoadDependentTrace`].
pub(crate) struct LoadDependentService {
    light: Box<dyn Service + Send>,
    heavy: Box<dyn Service + Send>,
    light_bytes: u64,
    idle: Duration,
    /// The bytes that `light` still serves of this burst.
    light_bytes_left: u64,
    /// The time at which the previous packet left; `None` before the first one.
    last_departure: Option<Instant>,
}

impl LoadDependentService {
    pub(crate) fn new(
        trace: &LoadDependentTrace,
        light: Box<dyn Service + Send>,
        heavy: Box<dyn Service + Send>,
    ) -> Self {
        let LoadDependentTrace { light_bytes, idle, .. } = *trace;
        Self { light, heavy, light_bytes, idle, light_bytes_left: 0, last_departure: None }
    }
}

impl Service for LoadDependentService {
    fn serve(&mut self, from: Instant, size: ByteCount, cap: Rate) -> Served {
        if cap == Rate::ZERO {
            return Served::STALLED;
        }
        if self.last_departure.is_none_or(|departure| from.since(departure) > self.idle) {
            self.light_bytes_left = self.light_bytes;
        }
        let served = if size.0 <= self.light_bytes_left {
            self.light_bytes_left -= size.0;
            self.light.serve(from, size, cap)
        } else {
            self.light_bytes_left = 0;
            self.heavy.serve(from, size, cap)
        };
        self.last_departure = Some(served.departs);
        served
    }
}

#[cfg(test)]
mod tests {
    use anabranch_units::Seed;

    use super::*;
    use crate::Model;
    use crate::trace::TraceStep;

    fn steady(mbps: u64, delay_ms: u64) -> Trace {
        let step = TraceStep {
            at: Duration::ZERO,
            rate: Rate::from_bps(mbps * 1_000_000),
            delay: Duration::from_millis(delay_ms),
            loss: 0.0,
        };
        Trace::Steps { steps: [step].into(), repeat: None }
    }

    #[test]
    fn the_first_bytes_after_idle_time_have_the_light_recording() {
        let trace = LoadDependentTrace {
            light: steady(1, 20),
            heavy: steady(12, 50),
            light_bytes: 3000,
            idle: Duration::from_millis(100),
        };
        let mut service = Model::LoadDependent(trace).service("link", Seed { seed: 1, run: 0 });
        // Arrivals of 1,500 bytes in milliseconds. At 1 Mb/s a packet takes 12 ms, at 12 Mb/s it takes 1 ms.
        let arrivals = [0, 0, 0, 0, 50, 152, 253, 265, 265];
        let mut from = Instant::ZERO;
        let served = arrivals.map(|ms| {
            from = from.max(Instant::ZERO + Duration::from_millis(ms));
            let served = service.serve(from, ByteCount(1500), Rate::UNLIMITED);
            from = served.departs;
            (from.as_micros() / 1000, served.extra.as_nanos() / 1_000_000)
        });
        let expected = [
            (12, 20),
            (24, 20),
            (25, 50), // the burst has 3,000 bytes already
            (26, 50),
            (51, 50),  // the queue was empty for 24 ms
            (164, 20), // empty from 51 to 152 ms: a new burst
            (265, 20), // empty for 89 ms: the same burst, which has 1,500 bytes
            (266, 50),
            (267, 50),
        ];
        assert_eq!(served, expected);
    }

    #[test]
    fn a_faulty_recording_is_refused() {
        let none = Trace::Steps { steps: [].into(), repeat: None };
        for (light, heavy) in [(none.clone(), steady(1, 0)), (steady(1, 0), none)] {
            let idle = Duration::from_millis(1);
            let trace = LoadDependentTrace { light, heavy, light_bytes: 1, idle };
            assert_eq!(Model::LoadDependent(trace).check(), Err(ConfigError::Trace));
        }
    }
}
