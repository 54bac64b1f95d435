//! CUBIC as in Linux (`tcp_cubic.c`, 6.12): RFC 9438 with Linux's constants and `HyStart`. The `HyStart` of
//! Linux 4.14 is available too.
//!
//! Like Linux, it deviates from RFC 9438:
//! - The Reno-friendly region never switches to a = 1.
//! - The target looks ahead by the minimum delay, not by the current RTT.
//! - An RTO resets the state.
//! - A loss multiplies cwnd, not the flight size, by beta.
//! - An undo does not restore `W_max` and K.

mod printed;

use anabranch_plugin::Parameters;
use anabranch_units::{Duration, Instant, RandomStream};

use super::reno::{additive_increase, slow_start};
use super::{
    AckSample, CongestionController, CongestionEvent, CongestionState, TransmitStart, Window,
};

use printed::PrintedCubic;

/// The fraction of the window that remains after a loss: beta = 717/1024.
const BETA: u64 = 717;
const BETA_SCALE: u64 = 1024;
/// Acknowledged segments per increase in the Reno-friendly region, times 8: 8 (1024 + beta) / 3 / (1024 -
/// beta) (`beta_scale`).
const FRIENDLY: u64 = 8 * (BETA_SCALE + BETA) / 3 / (BETA_SCALE - BETA);
/// The numerator of C = 410 / 1024 segments per second cubed.
const CUBE_RTT: u64 = 410;
/// The factor in K = cbrt(factor * segments), with K in units of 1/1024 s: 2^40 / 410.
const CUBE_FACTOR: u64 = (1 << 40) / CUBE_RTT;
/// Constants of the first guess of a cube root, in units of 1/64: an offset, and 65.6 cubed.
const GUESS_OFFSET: u64 = 3;
const GUESS_SCALE: u64 = 282_300;
const HYSTART_LOW_WINDOW: u32 = 16;
const HYSTART_MIN_SAMPLES: u32 = 8;
const HYSTART_DELAY_MIN: Duration = Duration::from_millis(4);
const HYSTART_DELAY_MAX: Duration = Duration::from_millis(16);
const HYSTART_ACK_DELTA: Duration = Duration::from_millis(2);
/// The largest GSO burst, which sets the tolerance of the ACK-train test (`sk_gso_max_size`).
const GSO_MAX_BYTES: u64 = 65_536;

/// The version of `HyStart`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Form {
    #[default]
    Linux618,
    Linux414,
    Off,
}

/// `HyStart`: ends slow start at a long train of ACKs or when the delay rises.
#[derive(Debug, Default)]
struct HyStart {
    form: Form,
    found: bool,
    round_start: Instant,
    last_ack: Instant,
    round_end: u64,
    current_rtt: Option<Duration>,
    samples: u32,
}

impl HyStart {
    fn reset(&mut self, now: Instant, snd_nxt: u64) {
        self.round_start = now;
        self.last_ack = now;
        self.round_end = snd_nxt;
        self.current_rtt = None;
        self.samples = 0;
    }

    /// Returns whether slow start should end now (`hystart_update`).
    fn update(
        &mut self,
        ack: &AckSample<'_>,
        cwnd: u32,
        delay: Duration,
        delay_min: Duration,
    ) -> bool {
        match self.form {
            Form::Linux618 => {}
            Form::Linux414 => return self.update_414(ack, cwnd, delay, delay_min),
            Form::Off => return false,
        }
        // A round ends when all data sent before its start is acknowledged.
        if ack.snd_una > self.round_end {
            self.reset(ack.now, ack.snd_nxt);
        }
        if cwnd < HYSTART_LOW_WINDOW {
            return false;
        }
        if ack.now.since(self.last_ack) <= HYSTART_ACK_DELTA {
            self.last_ack = ack.now;
            let slack = Duration::from_nanos(
                (4 * GSO_MAX_BYTES).saturating_mul(1_000_000_000)
                    / ack.pacing_rate.bytes_per_second().max(1),
            )
            .min(Duration::from_millis(1));
            let threshold = delay_min + slack;
            let threshold = if ack.paced { threshold } else { threshold / 2 };
            if ack.now.since(self.round_start) > threshold {
                self.found = true;
            }
        }
        let current = self.current_rtt.map_or(delay, |rtt| rtt.min(delay));
        self.current_rtt = Some(current);
        if self.samples < HYSTART_MIN_SAMPLES {
            self.samples += 1;
        } else {
            let rise = (delay_min / 8).clamp(HYSTART_DELAY_MIN, HYSTART_DELAY_MAX);
            if current > delay_min + rise {
                self.found = true;
            }
        }
        self.found
    }

    /// `hystart_update` of Linux 4.14. Its clock has a resolution of one millisecond. An ACK train must last
    /// for half the minimum delay. The delay of a round is the minimum of its first eight samples.
    fn update_414(
        &mut self,
        ack: &AckSample<'_>,
        cwnd: u32,
        delay: Duration,
        delay_min: Duration,
    ) -> bool {
        if cwnd < HYSTART_LOW_WINDOW {
            return false;
        }
        let now = whole_milliseconds(ack.now);
        if now.since(self.last_ack) <= HYSTART_ACK_DELTA {
            self.last_ack = now;
            let half = Duration::from_millis(delay_min.as_millis() / 2);
            self.found |= now.since(self.round_start) > half;
        }
        if self.samples < HYSTART_MIN_SAMPLES {
            self.current_rtt = Some(self.current_rtt.map_or(delay, |rtt| rtt.min(delay)));
            self.samples += 1;
        } else if let Some(current) = self.current_rtt {
            let rise = (delay_min / 8).clamp(HYSTART_DELAY_MIN, HYSTART_DELAY_MAX);
            self.found |= current > delay_min + rise;
        }
        self.found
    }

    /// Called when slow start continues. Linux 4.14 begins a round here, after the previous round was
    /// evaluated (`bictcp_cong_avoid`).
    fn on_growth(&mut self, ack: &AckSample<'_>) {
        if self.form == Form::Linux414 && ack.snd_una > self.round_end {
            self.reset(whole_milliseconds(ack.now), ack.snd_nxt);
        }
    }
}

/// Rounds an instant down to whole milliseconds (`bictcp_clock`).
fn whole_milliseconds(now: Instant) -> Instant {
    Instant::ZERO + Duration::from_millis(now.as_nanos() / 1_000_000)
}

/// CUBIC as in Linux.
#[derive(Debug, Default)]
pub struct Cubic {
    counter: u32,
    /// The number of acknowledged segments for which the window grows by one (`cnt`).
    per: u32,
    last_max_cwnd: u32,
    last_cwnd: u32,
    last_time: Instant,
    origin: u32,
    /// Time to the inflection point of the curve, in 1/1024 s.
    k: u64,
    delay_min: Option<Duration>,
    epoch_start: Option<Instant>,
    ack_count: u64,
    /// The window that Reno would have.
    reno_cwnd: u32,
    hystart: HyStart,
}

impl Cubic {
    pub(super) fn build(
        parameters: &mut Parameters<'_>,
        _random: RandomStream,
    ) -> Box<dyn CongestionController> {
        if parameters.word("form", &["reference", "printed"]) == "printed" {
            return Box::new(PrintedCubic::new(parameters));
        }
        let form = match parameters.word("hystart", &["linux-6.18", "linux-4.14", "off"]) {
            "linux-4.14" => Form::Linux414,
            "off" => Form::Off,
            _ => Form::Linux618,
        };
        Box::new(Self { hystart: HyStart { form, ..HyStart::default() }, ..Self::default() })
    }

    /// Computes for how many acknowledged segments the window grows by one (`bictcp_update`).
    fn update(&mut self, ack: &AckSample<'_>, acked: u32, cwnd: u32) {
        self.ack_count += u64::from(acked);
        let now = ack.coarse_now;
        if self.last_cwnd == cwnd && now.since(self.last_time) <= Duration::from_nanos(31_250_000) {
            return;
        }
        // The curve is evaluated at most once per tick, and the Reno-friendly region at every call.
        if self.epoch_start.is_none() || now != self.last_time {
            self.last_cwnd = cwnd;
            self.last_time = now;
            self.follow_curve(ack, acked, cwnd);
        }
        self.follow_reno(cwnd);
        self.per = self.per.max(2);
    }

    fn follow_curve(&mut self, ack: &AckSample<'_>, acked: u32, cwnd: u32) {
        let now = ack.coarse_now;
        let epoch = if let Some(epoch) = self.epoch_start {
            epoch
        } else {
            self.epoch_start = Some(now);
            self.ack_count = u64::from(acked);
            self.reno_cwnd = cwnd;
            if self.last_max_cwnd <= cwnd {
                self.k = 0;
                self.origin = cwnd;
            } else {
                self.k = time_to_origin(self.last_max_cwnd - cwnd);
                self.origin = self.last_max_cwnd;
            }
            now
        };
        let delay = self.delay_min.unwrap_or_default().in_whole_ticks(ack.tick);
        let elapsed = now.since(epoch) + delay;
        let time = (u128::from(elapsed.as_nanos()) * 1024 / 1_000_000_000) as u64;
        let distance = time.abs_diff(self.k);
        let delta = ((u128::from(CUBE_RTT) * u128::from(distance).pow(3)) >> 40) as u64;
        let delta = u32::try_from(delta).unwrap_or(u32::MAX);
        let target = if time < self.k {
            self.origin.saturating_sub(delta)
        } else {
            self.origin.saturating_add(delta)
        };
        self.per = if target > cwnd { cwnd / (target - cwnd) } else { 100 * cwnd };
        if self.last_max_cwnd == 0 {
            self.per = self.per.min(20);
        }
    }

    fn follow_reno(&mut self, cwnd: u32) {
        let step = (u64::from(cwnd) * FRIENDLY) >> 3;
        if self.ack_count > step {
            let whole = (self.ack_count - 1) / step;
            self.ack_count -= whole * step;
            self.reno_cwnd += whole as u32;
        }
        if self.reno_cwnd > cwnd {
            self.per = self.per.min(cwnd / (self.reno_cwnd - cwnd));
        }
    }
}

/// Returns K in units of 1/1024 s, if the maximum is `segments` above the window. Like the kernel's
/// `cubic_root`, it makes a first guess of six bits and one Newton step, so its error is up to half a per
/// cent. The guess approximates the kernel's table by a curve. The result equals the kernel's in seven of ten
/// cases.
fn time_to_origin(segments: u32) -> u64 {
    let cubed = CUBE_FACTOR * u64::from(segments);
    // A third of the number of bits, minus one.
    let bits = (u64::BITS - cubed.leading_zeros()) * 84 / 256 - 1;
    let guess = (GUESS_OFFSET + cube_root(GUESS_SCALE * (cubed >> (3 * bits)))) << bits >> 6;
    (2 * guess + cubed / (guess * (guess - 1))) * 341 / 1024
}

/// Returns the integer cube root, rounded down.
fn cube_root(value: u64) -> u64 {
    let mut root = (value as f64).cbrt() as u64;
    while root.pow(3) > value {
        root -= 1;
    }
    while (root + 1).pow(3) <= value {
        root += 1;
    }
    root
}

impl CongestionController for Cubic {
    fn name(&self) -> &'static str {
        "cubic"
    }

    fn on_ack(&mut self, ack: &AckSample<'_>, window: &mut Window) {
        // The delay is not sampled in the first second of an epoch (`cubictcp_acked`).
        let recent = self
            .epoch_start
            .is_some_and(|epoch| ack.coarse_now.since(epoch) < Duration::from_secs(1));
        if let (Some(rtt), false) = (ack.rtt, recent) {
            let delay_min = self.delay_min.map_or(rtt, |min| min.min(rtt));
            self.delay_min = Some(delay_min);
            if !self.hystart.found
                && window.in_slow_start()
                && self.hystart.update(ack, window.cwnd, rtt, delay_min)
            {
                window.ssthresh = window.cwnd;
            }
        }
        if !ack.may_grow || !ack.cwnd_limited {
            return;
        }
        let mut acked = ack.acked;
        if window.in_slow_start() {
            self.hystart.on_growth(ack);
            acked = slow_start(window, acked);
        }
        if acked > 0 {
            self.update(ack, acked, window.cwnd);
            additive_increase(window, &mut self.counter, self.per, acked);
        }
    }

    fn on_congestion(&mut self, _event: &CongestionEvent, window: &mut Window) {
        self.counter = 0;
        self.epoch_start = None;
        // Fast convergence: if the window did not reach its last maximum, the new maximum is below the
        // window.
        self.last_max_cwnd = if window.cwnd < self.last_max_cwnd {
            (u64::from(window.cwnd) * (BETA_SCALE + BETA) / (2 * BETA_SCALE)) as u32
        } else {
            window.cwnd
        };
        window.ssthresh = ((u64::from(window.cwnd) * BETA / BETA_SCALE) as u32).max(2);
    }

    fn on_state(&mut self, now: Instant, state: CongestionState, _window: &mut Window) {
        if state == CongestionState::Loss {
            let HyStart { form, round_end, .. } = self.hystart;
            *self = Self { hystart: HyStart { form, ..HyStart::default() }, ..Self::default() };
            self.hystart.reset(now, round_end);
        }
    }

    fn on_transmit_start(&mut self, start: &TransmitStart, _window: &mut Window) {
        // Idle time does not count on the curve (`cubictcp_cwnd_event`).
        if let Some(epoch) = self.epoch_start {
            let idle = start.coarse_now.since(start.last_sent);
            self.epoch_start = Some((epoch + idle).min(start.coarse_now));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_those_of_linux() {
        assert_eq!(FRIENDLY, 15);
        assert_eq!(cube_root(27), 3);
        assert_eq!(cube_root(26), 2);
        assert_eq!(cube_root(0), 0);
    }

    #[test]
    fn k_matches_the_closed_form() {
        // K = cbrt(W_max (1 - beta) / C), RFC 9438 figure 2: 100 segments, 30 lost, 4.22 s.
        for segments in [1, 7, 30, 200, 5000] {
            let k = time_to_origin(segments) as f64 / 1024.0;
            let exact = (f64::from(segments) / 0.4004).cbrt();
            assert!((k / exact - 1.0).abs() < 0.006, "{segments}: {k} for {exact}");
        }
        // The kernel's `cubic_root`, compiled separately, returns 5472 here. The exact value is 5469.
        assert_eq!([16, 30, 61].map(time_to_origin), [3500, 4316, 5472]);
    }

    #[test]
    fn cube_roots_are_exact_beyond_the_precision_of_floating_point() {
        assert_eq!(cube_root(8_000_000_000_000_000_000), 2_000_000);
        assert_eq!(cube_root(7_999_999_999_999_999_999), 1_999_999);
    }

    /// RFC 9438 section 4.7 in `cubictcp_recalc_ssthresh`. A window below the last maximum becomes a maximum
    /// of (1 + beta) / 2 of itself: 300 * 1741 / 2048 = 255. Any other window becomes the maximum itself.
    #[test]
    fn the_maximum_is_that_of_fast_convergence() {
        let mut cubic = Cubic::default();
        let kind = crate::CongestionKind::Loss;
        let event = CongestionEvent { now: Instant::ZERO, kind, in_flight: 0 };
        for (cwnd, maximum) in [(400, 400), (300, 255), (255, 255), (256, 256)] {
            cubic.on_congestion(&event, &mut Window { cwnd, ssthresh: 1 });
            assert_eq!(cubic.last_max_cwnd, maximum, "{cwnd}");
        }
    }
}
