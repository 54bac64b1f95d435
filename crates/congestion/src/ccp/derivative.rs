//! The derivative term of CCPD, which is added to CCP's law.

use crate::AckSample;

/// The derivative term: the growth of the backlog from the end of one round to the end of the next.
#[derive(Debug)]
pub(crate) struct Derivative {
    gain: f64,
    /// The round ends when data beyond this position is acknowledged.
    round_end: u64,
    /// The backlog at the end of the last round, segments.
    backlog: Option<f64>,
    change: f64,
}

impl Derivative {
    /// Creates a term with this gain. No round has ended yet.
    pub(crate) const fn new(gain: f64) -> Self {
        Self { gain, round_end: 0, backlog: None, change: 0.0 }
    }

    /// Returns the segments that the term subtracts from the window.
    pub(super) fn term(&mut self, ack: &AckSample<'_>, backlog: f64) -> f64 {
        if ack.snd_una > self.round_end {
            self.change = backlog - self.backlog.unwrap_or(backlog);
            self.backlog = Some(backlog);
            self.round_end = ack.snd_nxt;
        }
        self.gain * self.change
    }
}
