//! `NewReno` as in Linux (`tcp_cong.c`): RFC 5681 section 3.1, counting every acknowledged segment.
//!
//! Linux halves cwnd, where RFC 5681 equation 4 halves `FlightSize`. Linux has no ABC limit.

use anabranch_plugin::Parameters;
use anabranch_units::RandomStream;

use super::{AckSample, CongestionController, CongestionEvent, Window};

/// Additive increase by one segment, multiplicative decrease by half.
#[derive(Debug, Default)]
pub struct Reno {
    /// Segments acknowledged towards the next increase (`snd_cwnd_cnt`).
    counter: u32,
}

impl Reno {
    pub(super) fn build(
        _parameters: &mut Parameters<'_>,
        _random: RandomStream,
    ) -> Box<dyn CongestionController> {
        Box::new(Self::default())
    }
}

/// Slow start (`tcp_slow_start`): the window grows by one segment per acknowledged segment, up to ssthresh. Returns
/// the acknowledged segments that remain for congestion avoidance.
pub fn slow_start(window: &mut Window, acked: u32) -> u32 {
    let grown = (window.cwnd.saturating_add(acked)).min(window.ssthresh);
    let left = acked - (grown - window.cwnd);
    window.cwnd = grown;
    left
}

/// Additive increase (`tcp_cong_avoid_ai`): the window grows by one segment for `per` acknowledged segments.
pub fn additive_increase(window: &mut Window, counter: &mut u32, per: u32, acked: u32) {
    if *counter >= per {
        *counter = 0;
        window.cwnd += 1;
    }
    *counter += acked;
    if *counter >= per {
        let whole = *counter / per;
        *counter -= whole * per;
        window.cwnd += whole;
    }
}

impl CongestionController for Reno {
    fn name(&self) -> &'static str {
        "reno"
    }

    fn on_ack(&mut self, ack: &AckSample<'_>, window: &mut Window) {
        if !ack.may_grow || !ack.cwnd_limited {
            return;
        }
        let mut acked = ack.acked;
        if window.in_slow_start() {
            acked = slow_start(window, acked);
        }
        if acked > 0 {
            let per = window.cwnd;
            additive_increase(window, &mut self.counter, per, acked);
        }
    }

    fn on_congestion(&mut self, _event: &CongestionEvent, window: &mut Window) {
        self.counter = 0;
        window.ssthresh = (window.cwnd / 2).max(2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_start_spills_into_congestion_avoidance() {
        let mut window = Window { cwnd: 10, ssthresh: 12 };
        assert_eq!(slow_start(&mut window, 5), 3);
        assert_eq!(window.cwnd, 12);
    }

    #[test]
    fn one_window_of_acknowledgements_adds_one_segment() {
        let mut window = Window { cwnd: 10, ssthresh: 5 };
        let mut counter = 0;
        for _ in 0..5 {
            let per = window.cwnd;
            additive_increase(&mut window, &mut counter, per, 2);
        }
        assert_eq!(window.cwnd, 11);
    }
}
