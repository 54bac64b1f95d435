//! The clock of the player: `src/input/clock.c` of VLC 3.0, for a source whose pace the player
//! controls.
//!
//! The demuxer reports the value of the stream's clock as it reads. The first report after a reset
//! maps stream time to system time. When buffering ends, the mapping is moved so that the first
//! picture is due shortly afterwards. A report is late if it arrives after its mapped time plus the
//! network delay.

use super::config::PlayerConfig;
use crate::timeline::MediaTime;
use anabranch_units::{Duration, Instant};

/// The number of recent lateness values that are stored (`INPUT_CLOCK_LATE_COUNT`).
const LATE_COUNT: usize = 3;

#[derive(Clone, Debug)]
pub(super) struct Clock {
    /// The mapping of stream time to system time, both in nanoseconds. The system time is signed,
    /// because it can be up to one network delay before the start of the run.
    tie: Option<Tie>,
    last: MediaTime,
    /// The network delay (`i_pts_delay`). It never decreases.
    delay: Duration,
    /// The current lead of the demuxer over the clock, in addition to the delay
    /// (`i_buffering_duration`).
    extra: Duration,
    extra_max: Duration,
    extra_rate: u64,
    late: [Duration; LATE_COUNT],
    late_next: usize,
}

#[derive(Clone, Copy, Debug)]
struct Tie {
    stream: i64,
    system: i64,
}

impl Clock {
    pub(super) fn new(config: &PlayerConfig) -> Self {
        Self {
            tie: None,
            last: MediaTime::default(),
            delay: config.network_cache(),
            extra: Duration::ZERO,
            extra_max: Duration::from_nanos(config.extra_buffer_ns),
            extra_rate: config.extra_buffer_rate,
            late: [Duration::ZERO; LATE_COUNT],
            late_next: 0,
        }
    }

    pub(super) const fn delay(&self) -> Duration {
        self.delay
    }

    /// Processes a clock report at `now`, and returns its lateness (`input_clock_Update`).
    pub(super) fn update(&mut self, now: Instant, stream: MediaTime) -> Duration {
        if self.tie.is_some() {
            let read = stream.since(self.last).as_nanos();
            let gained = read.saturating_mul(self.extra_rate).div_ceil(256);
            let extra = self.extra.as_nanos().saturating_add(gained);
            self.extra = Duration::from_nanos(extra.min(self.extra_max.as_nanos()));
        } else {
            self.tie = Some(Tie { stream: stream.as_nanos(), system: now.as_nanos() as i64 });
            self.extra = Duration::ZERO;
        }
        self.last = stream;
        let late = self.due(stream).map_or(Duration::ZERO, |due| now.since(due));
        if !late.is_zero() {
            self.late[self.late_next] = late;
            self.late_next = (self.late_next + 1) % LATE_COUNT;
        }
        late
    }

    /// Returns a network delay that covers the usual lateness. It uses the median of the last three
    /// values, which ignores a single outlier (`input_clock_GetJitter`).
    pub(super) fn wanted_delay(&self) -> Duration {
        let mut late = self.late;
        late.sort_unstable();
        self.delay + late[LATE_COUNT / 2]
    }

    /// Increases the network delay. The stored lateness values become smaller by the same amount
    /// (`input_clock_SetJitter`).
    pub(super) fn grow_delay(&mut self, delay: Duration) {
        let growth = delay.saturating_sub(self.delay);
        let mut kept = [Duration::ZERO; LATE_COUNT];
        let mut next = 0;
        for age in 0..LATE_COUNT {
            let late = self.late[(self.late_next + 1 + age) % LATE_COUNT].saturating_sub(growth);
            if !late.is_zero() {
                kept[next] = late;
                next = (next + 1) % LATE_COUNT;
            }
        }
        (self.late, self.late_next) = (kept, next);
        self.delay += growth;
    }

    /// Removes the mapping. The next report sets a new one (`input_clock_Reset`).
    pub(super) const fn reset(&mut self) {
        self.tie = None;
    }

    pub(super) const fn is_tied(&self) -> bool {
        self.tie.is_some()
    }

    /// Returns the stream time read since the mapping was set.
    pub(super) fn span(&self) -> Duration {
        self.tie.map_or(Duration::ZERO, |tie| self.last.since(MediaTime::from_nanos(tie.stream)))
    }

    /// Moves the mapping so that its stream time is due `margin` after `now`
    /// (`input_clock_ChangeSystemOrigin`).
    pub(super) fn start(&mut self, now: Instant, margin: Duration) {
        if let Some(tie) = &mut self.tie {
            tie.system = (now + margin).as_nanos() as i64 - self.delay.as_nanos() as i64;
        }
    }

    /// Returns the time at which the demuxer continues to read (`input_clock_GetWakeup`).
    pub(super) fn wake(&self) -> Option<Instant> {
        let extra = self.extra.as_nanos() as i64;
        self.tie.map(|tie| instant(tie.system + (self.last.as_nanos() - tie.stream) - extra))
    }

    /// Returns the display time of stream time `pts` (`input_clock_ConvertTS`).
    pub(super) fn due(&self, pts: MediaTime) -> Option<Instant> {
        let delay = self.delay.as_nanos() as i64;
        self.tie.map(|tie| instant(tie.system + (pts.as_nanos() - tie.stream) + delay))
    }

    /// Returns the stream time that is shown at `now`.
    pub(super) fn position(&self, now: Instant) -> Option<MediaTime> {
        let shown = now.as_nanos() as i64 - self.delay.as_nanos() as i64;
        self.tie.map(|tie| MediaTime::from_nanos(tie.stream + (shown - tie.system)))
    }
}

fn instant(nanos: i64) -> Instant {
    Instant::from_nanos(u64::try_from(nanos).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn stream(millis: i64) -> MediaTime {
        MediaTime::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn a_report_is_late_by_the_time_beyond_the_delay() {
        let mut clock = Clock::new(&PlayerConfig::default());
        assert_eq!(clock.update(at(100), stream(0)), Duration::ZERO);
        assert_eq!(clock.update(at(1_350), stream(250)), Duration::ZERO);
        assert_eq!(clock.update(at(1_650), stream(500)), Duration::from_millis(50));
    }

    #[test]
    fn one_late_report_does_not_grow_the_delay_but_two_do() {
        let mut clock = Clock::new(&PlayerConfig::default());
        clock.update(at(0), stream(0));
        clock.update(at(1_400), stream(250));
        assert_eq!(clock.wanted_delay(), Duration::from_millis(1_000));
        clock.update(at(1_900), stream(500));
        assert_eq!(clock.wanted_delay(), Duration::from_millis(1_150));
        clock.grow_delay(clock.wanted_delay());
        assert_eq!(clock.delay(), Duration::from_millis(1_150));
        assert_eq!(clock.wanted_delay(), Duration::from_millis(1_150), "150 ms are now covered");
    }

    #[test]
    fn after_the_start_the_demuxer_runs_ahead_by_delay_and_extra() {
        let mut clock = Clock::new(&PlayerConfig::default());
        for step in 0..=5 {
            clock.update(at(10), stream(step * 250));
        }
        assert_eq!(clock.span(), Duration::from_millis(1_250));
        clock.start(at(2_000), Duration::from_millis(10));
        assert_eq!(clock.due(stream(0)), Some(at(2_010)));
        assert_eq!(clock.wake(), Some(at(2_010 + 1_250 - 1_000 - 100)));
        assert_eq!(clock.position(at(2_110)), Some(stream(100)));
    }
}
