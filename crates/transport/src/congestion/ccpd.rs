//! CCPD, proportional plus derivative control. The papers name it, but we found no more of its formula
//! than these words. A reconstruction: CCP's law less Kd times the change of the backlog over the last
//! round trip, `cwnd = (Kp (B - x) - Kd (x - x_a_round_ago) - in_flight) / 2`.

use anabranch_plugin::Parameters;
use anabranch_units::RandomStream;

use super::ccp::Ccp;
use super::{AckSample, CongestionController};

/// The derivative term: how much the backlog grew from one end of a round to the next.
#[derive(Debug)]
pub(super) struct Derivative {
    gain: f64,
    /// The round ends when more than this is acknowledged.
    round_end: u64,
    /// The backlog at the end of the last round, segments.
    backlog: Option<f64>,
    change: f64,
}

pub(super) fn build(
    parameters: &mut Parameters<'_>,
    _random: RandomStream,
) -> Box<dyn CongestionController> {
    let gain = parameters.number("kd", 0.5, 0.0..=10.0);
    let derivative = Derivative { gain, round_end: 0, backlog: None, change: 0.0 };
    Box::new(Ccp::new(parameters, Some(derivative)))
}

impl Derivative {
    /// What the law takes off for the trend, segments.
    pub(super) fn term(&mut self, ack: &AckSample<'_>, backlog: f64) -> f64 {
        if ack.snd_una > self.round_end {
            self.change = backlog - self.backlog.unwrap_or(backlog);
            self.backlog = Some(backlog);
            self.round_end = ack.snd_nxt;
        }
        self.gain * self.change
    }
}
