//! Compound TCP (Tan et al., INFOCOM 2006; draft-sridharan-tcpm-ctcp). Three details follow the public Linux
//! module (`tcp_compound.c` by Castellani, Hemminger and Andrew), because the paper and the draft leave them
//! open: tuning gamma by emulating Reno, the use of the minimum RTT of a round, and the state that an idle
//! period resets.
//!
//! The base RTT is the smallest RTT ever seen and does not expire, as in these sources. `low_window` is 41,
//! as in the paper. From this window on, the delay window grows even in the integers of the Linux module
//! (41^0.75 / 8 - 1 = 1).

use anabranch_plugin::Parameters;
use anabranch_units::{Duration, Instant, RandomStream};

use super::reno::{additive_increase, slow_start};
use super::{
    AckSample, CongestionController, CongestionEvent, CongestionState, TransmitStart, Window,
    WindowChange,
};

/// The initial gamma if gamma is tuned, before it is limited to its range.
const GAMMA: f64 = 30.0;
/// Gamma is set to this fraction of Reno's backlog at a loss, which is Reno's mean backlog.
const GAMMA_SHARE: f64 = 0.75;
/// A round needs this number of RTT samples. With fewer, all acknowledgements may have been delayed.
const LEAST_SAMPLES: u32 = 3;

/// The number of segments in the queue above which the delay window shrinks.
#[derive(Clone, Copy, Debug)]
enum Gamma {
    Fixed(f64),
    Tuned { now: f64, low: f64, high: f64, weight: f64 },
}

impl Gamma {
    fn tuned(parameters: &mut Parameters<'_>) -> Self {
        let low = parameters.number("gamma_low", 5.0, 1.0..=1000.0);
        let high = parameters.number("gamma_high", GAMMA.max(low), low..=1000.0);
        let weight = parameters.number("lambda", 0.5, 0.0..=1.0);
        Self::Tuned { now: GAMMA.clamp(low, high), low, high, weight }
    }

    /// Restarts the tuning, if gamma is tuned.
    fn restart(&mut self) {
        if let Self::Tuned { now, low, high, .. } = self {
            *now = GAMMA.clamp(*low, *high);
        }
    }
}

/// Measurements of the current round trip. They are made only while the state is Open.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    /// The round ends when data beyond this position is acknowledged. The first acknowledgement sets it.
    end: Option<u64>,
    min_rtt: Option<Duration>,
    samples: u32,
}

/// A loss window like Reno's and a delay window. The congestion window is their sum.
#[derive(Debug)]
pub struct Compound {
    /// Whether the step of the delay window depends on the delay window alone (HO20, equation 3). In the
    /// reference it depends on the sum of both windows.
    printed: bool,
    alpha: f64,
    beta: f64,
    k: f64,
    eta: f64,
    /// The smallest window at which the delay window grows, segments.
    low_window: f64,
    gamma: Gamma,
    /// The loss window, segments.
    loss: u32,
    counter: u32,
    /// The delay window, segments. Never negative.
    delay: f64,
    /// Both windows before the last reduction. An undo restores them.
    prior: (u32, f64),
    base_rtt: Option<Duration>,
    round: Option<Round>,
    /// The backlog in segments that the loss window alone would have caused in the last round.
    reno_backlog: Option<f64>,
}

impl Compound {
    pub(super) fn build(
        parameters: &mut Parameters<'_>,
        _random: RandomStream,
    ) -> Box<dyn CongestionController> {
        let printed = parameters.word("form", &["reference", "printed"]) == "printed";
        // The parameters of tuning are read only if gamma is tuned. Otherwise they have no effect and are
        // rejected.
        let gamma = match parameters.number_or("gamma", GAMMA, 1.0..=1000.0, "auto") {
            Some(gamma) => Gamma::Fixed(gamma),
            None => Gamma::tuned(parameters),
        };
        let gate =
            |parameters: &mut Parameters<'_>| parameters.number("low_window", 41.0, 0.0..=1e6);
        Box::new(Self {
            printed,
            gamma,
            low_window: if printed { 0.0 } else { gate(parameters) },
            alpha: parameters.number("alpha", 0.125, 0.0..=10.0),
            beta: parameters.number("beta", 0.5, 0.1..=0.9),
            k: parameters.number("k", 0.75, 0.0..=1.0),
            eta: parameters.number("eta", 1.0, 0.0..=10.0),
            loss: 0,
            counter: 0,
            delay: 0.0,
            prior: (0, 0.0),
            base_rtt: None,
            round: Some(Round::default()),
            reno_backlog: None,
        })
    }

    fn total(&self) -> u32 {
        self.loss + self.delay as u32
    }

    /// Divides a total window that the caller has set. The loss window takes any excess. It also takes a
    /// reduction, unless one of the windows is larger than the total. The delay window is then set to zero.
    fn split(&mut self, cwnd: u32) {
        if self.total() > cwnd && (self.loss > cwnd || self.delay > f64::from(cwnd)) {
            self.delay = 0.0;
        }
        self.loss = cwnd - self.delay as u32;
    }

    fn gamma(&self) -> f64 {
        match self.gamma {
            Gamma::Fixed(gamma) | Gamma::Tuned { now: gamma, .. } => gamma,
        }
    }

    /// Adapts gamma at a loss to the backlog that Reno would have had, which shows the size of the queue.
    fn tune(&mut self) {
        if let (Gamma::Tuned { now, low, high, weight }, Some(backlog)) =
            (&mut self.gamma, self.reno_backlog.take())
        {
            let sample = GAMMA_SHARE * backlog;
            *now = ((1.0 - *weight) * *now + *weight * sample).clamp(*low, *high);
        }
    }

    /// Adds an RTT sample. Returns the finished round once per round trip.
    fn measure(&mut self, ack: &AckSample<'_>) -> Option<Round> {
        if let Some(rtt) = ack.rtt {
            self.base_rtt = Some(self.base_rtt.map_or(rtt, |base| base.min(rtt)));
        }
        let round = self.round.as_mut()?;
        if let Some(rtt) = ack.rtt {
            round.min_rtt = Some(round.min_rtt.map_or(rtt, |min| min.min(rtt)));
            round.samples += 1;
        }
        let end = *round.end.get_or_insert(ack.snd_nxt);
        (ack.snd_una > end).then(|| {
            let ended = *round;
            *round = Round { end: Some(ack.snd_nxt), ..Round::default() };
            ended
        })
    }

    /// Changes the delay window once per round trip.
    fn step(&mut self, round: &Round, window: &mut Window) {
        let (Some(base), Some(rtt)) = (self.base_rtt, round.min_rtt) else {
            return;
        };
        if round.samples < LEAST_SAMPLES {
            return;
        }
        let queued = 1.0 - base.as_secs_f64() / rtt.as_secs_f64();
        let win = f64::from(window.cwnd);
        let diff = win * queued;
        self.reno_backlog = Some(f64::from(self.loss) * queued);
        if window.in_slow_start() {
            return;
        }
        if diff >= self.gamma() {
            self.delay = (self.delay - self.eta * diff).max(0.0);
            // The delay window shrinks. The threshold is lowered too, so that slow start does not undo the
            // reduction.
            window.ssthresh = window.ssthresh.min(self.total());
        } else if self.printed {
            self.delay = (self.delay + self.alpha * self.delay.powf(self.k) - 1.0).max(0.0);
        } else if win >= self.low_window {
            self.delay += (self.alpha * win.powf(self.k) - 1.0).max(0.0);
        }
        window.cwnd = self.total();
    }
}

impl CongestionController for Compound {
    fn name(&self) -> &'static str {
        "compound"
    }

    fn on_ack(&mut self, ack: &AckSample<'_>, window: &mut Window) {
        let ended = self.measure(ack);
        if !ack.may_grow || !ack.cwnd_limited {
            return;
        }
        self.split(window.cwnd);
        let before = window.cwnd;
        let mut acked = ack.acked;
        if window.in_slow_start() {
            acked = slow_start(window, acked);
        }
        if acked > 0 {
            // The loss window grows by one segment per acknowledged total window, that is, by one per round
            // trip.
            let per = window.cwnd;
            additive_increase(window, &mut self.counter, per, acked);
        }
        self.loss += window.cwnd - before;
        if let Some(round) = ended {
            self.step(&round, window);
        }
    }

    /// Reduces the total window to (1 - beta) of itself and the loss window to half, as in Reno.
    fn on_congestion(&mut self, _event: &CongestionEvent, window: &mut Window) {
        self.tune();
        self.split(window.cwnd);
        self.counter = 0;
        self.prior = (self.loss, self.delay);
        let cut = if self.printed { self.delay } else { f64::from(window.cwnd) };
        self.delay = (cut * (1.0 - self.beta) - f64::from(self.loss) / 2.0).max(0.0);
        self.loss = (self.loss / 2).max(if self.delay < 2.0 { 2 } else { 0 });
        window.ssthresh = self.total();
    }

    fn on_state(&mut self, _now: Instant, state: CongestionState, _window: &mut Window) {
        self.round = None;
        if state == CongestionState::Open {
            self.round = Some(Round::default());
            self.reno_backlog = None;
        }
    }

    fn on_transmit_start(&mut self, _start: &TransmitStart, _window: &mut Window) {
        // After an idle period, only the base RTT is kept. The whole window becomes the loss window.
        self.gamma.restart();
        self.delay = 0.0;
        self.reno_backlog = None;
        self.round = self.round.map(|_| Round::default());
    }

    fn on_window_changed(&mut self, cause: WindowChange, window: &mut Window) {
        match cause {
            WindowChange::Timeout => self.delay = 0.0,
            WindowChange::Undo => (self.loss, self.delay) = self.prior,
            _ => {}
        }
        self.split(window.cwnd);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_plugin::{PluginChoice, Registry};

    fn tuned(text: &str) -> Result<Gamma, String> {
        let choice = PluginChoice::parse(text).expect("a plug-in");
        let mut parameters = Parameters::new(&choice, &Registry::TABLES);
        let gamma = Gamma::tuned(&mut parameters);
        parameters.finish().map(|_| gamma).map_err(|error| error.to_string())
    }

    #[test]
    fn gamma_starts_within_its_bounds() {
        for (text, expected) in [
            ("compound", 30),
            ("compound(gamma_low=50, gamma_high=60)", 50),
            ("compound(gamma_high=20)", 20),
            ("compound(gamma_low=40)", 40),
        ] {
            let mut gamma = tuned(text).expect(text);
            for _ in 0..2 {
                let Gamma::Tuned { now, .. } = &mut gamma else { panic!("{text}: not tuned") };
                assert_eq!(std::mem::replace(now, 55.0) as u32, expected, "{text}");
                gamma.restart();
            }
        }
    }

    #[test]
    fn bounds_that_cross_are_refused() {
        let refused = tuned("compound(gamma_low=20, gamma_high=10)").expect_err("crossed");
        assert_eq!(refused, "`gamma_high` of compound is a number from 20 to 1000, not `10`");
    }

    /// Creates a controller with these two windows, in segments.
    fn compound(printed: bool, loss: u32, delay: f64) -> Compound {
        let gamma = tuned("compound").expect("known");
        Compound {
            printed,
            alpha: 0.125,
            beta: 0.5,
            k: 0.75,
            eta: 1.0,
            low_window: 0.0,
            gamma,
            loss,
            counter: 0,
            delay,
            prior: (0, 0.0),
            base_rtt: Some(Duration::from_millis(100)),
            round: Some(Round::default()),
            reno_backlog: None,
        }
    }

    /// If the caller reduced the total, the delay window is kept as long as both windows fit
    /// (`tcp_compound.c`).
    #[test]
    fn a_window_set_by_others_is_split() {
        for (loss, delay, cwnd, expected) in [
            (60, 40.0, 100, (60, 40.0)),
            (60, 40.0, 120, (80, 40.0)),
            (60, 40.0, 90, (50, 40.0)),
            (60, 40.0, 60, (20, 40.0)),
            (60, 40.0, 59, (59, 0.0)),
            (40, 60.0, 60, (0, 60.0)),
            (40, 60.0, 59, (59, 0.0)),
            (0, 60.5, 60, (0, 60.5)),
        ] {
            let mut compound = compound(false, loss, delay);
            compound.split(cwnd);
            assert_eq!((compound.loss, compound.delay), expected, "{loss} + {delay} in {cwnd}");
        }
    }

    /// Half of the total remains. The delay window gets `win (1 - beta) - cwnd / 2` of it. If that is
    /// negative, the delay window is zero, and at least two segments remain.
    #[test]
    fn a_loss_cuts_both_windows() {
        for (loss, delay, left) in [
            (60, 40.0, (30, 20.0)),
            (3, 0.0, (2, 0.0)),
            (2, 6.0, (1, 3.0)),
            (2, 4.0, (1, 2.0)),
            (2, 3.0, (2, 1.5)),
        ] {
            let mut compound = compound(false, loss, delay);
            let mut window = Window { cwnd: compound.total(), ssthresh: 1 };
            let kind = super::super::CongestionKind::Loss;
            let event = CongestionEvent { now: Instant::ZERO, kind, in_flight: 0 };
            compound.on_congestion(&event, &mut window);
            assert_eq!((compound.loss, compound.delay), left, "{loss} + {delay}");
            assert_eq!(window.ssthresh, left.0 + left.1 as u32);
        }
    }

    /// A sample is 0.75 times Reno's backlog. The new gamma is its mean with the old gamma: (30 + 0.75 * 20)
    /// / 2.
    #[test]
    fn gamma_follows_three_quarters_of_the_backlog() {
        let mut compound = compound(false, 60, 40.0);
        compound.reno_backlog = Some(20.0);
        compound.tune();
        assert!((compound.gamma() - 22.5).abs() < 1e-9);
        compound.tune();
        assert!((compound.gamma() - 22.5).abs() < 1e-9, "a backlog counts once");
    }

    /// HO20 equation 3 computes the step `0.125 w^0.75 - 1` from the delay window alone, and the reference
    /// from the total. Both need three RTT samples.
    #[test]
    fn a_round_steps_the_delay_window() {
        let round = Round { end: None, min_rtt: Some(Duration::from_millis(100)), samples: 3 };
        for (printed, samples, expected) in [
            (false, 3, 100.0 + 0.125 * 200.0_f64.powf(0.75) - 1.0),
            (true, 3, 100.0 + 0.125 * 100.0_f64.powf(0.75) - 1.0),
            (true, 2, 100.0),
        ] {
            let mut compound = compound(printed, 100, 100.0);
            let mut window = Window { cwnd: 200, ssthresh: 1 };
            compound.step(&Round { samples, ..round }, &mut window);
            assert!((compound.delay - expected).abs() < 1e-9, "{}, not {expected}", compound.delay);
        }
    }
}
