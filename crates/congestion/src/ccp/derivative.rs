//! The trend of the backlog, which the law of CCPD adds to that of CCP.

use crate::AckSample;

/// The derivative term: how much the backlog grew from one end of a round to the next.
#[derive(Debug)]
pub(crate) struct Derivative {
    gain: f64,
    /// The round ends when a position beyond this one is acknowledged.
    round_end: u64,
    /// The backlog at the end of the last round, segments.
    backlog: Option<f64>,
    change: f64,
}

impl Derivative {
    /// Creates a term with this gain, before the first round.
    pub(crate) const fn new(gain: f64) -> Self {
        Self { gain, round_end: 0, backlog: None, change: 0.0 }
    }

    /// Returns the reduction of the window due to the trend, segments.
    pub(super) fn term(&mut self, ack: &AckSample<'_>, backlog: f64) -> f64 {
        if ack.snd_una > self.round_end {
            self.change = backlog - self.backlog.unwrap_or(backlog);
            self.backlog = Some(backlog);
            self.round_end = ack.snd_nxt;
        }
        self.gain * self.change
    }
}
