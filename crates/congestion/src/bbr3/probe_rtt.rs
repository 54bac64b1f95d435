//! The minimum RTT, and the `ProbeRTT` phases with half the data in flight that measure it again.

use anabranch_units::{Duration, Instant};

use super::{Bandwidth, Bbr3, MIN_PIPE, State};
use crate::{AckSample, CongestionState, Window};

/// The time after which a minimum RTT expires (`MinRTTFilterLen`).
const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);
/// The time without a lower RTT after which a `ProbeRTT` phase begins (`ProbeRTTInterval`).
const INTERVAL: Duration = Duration::from_secs(5);
/// The shortest duration of a `ProbeRTT` phase (`ProbeRTTDuration`).
const TIME: Duration = Duration::from_millis(200);

/// The minimum RTT over ten seconds, and the minimum since the last `ProbeRTT` phase.
#[derive(Debug, Default)]
pub(super) struct MinRtt {
    min: Option<Duration>,
    at: Instant,
    /// The minimum over the probing interval (`probe_rtt_min_delay`, `probe_rtt_min_stamp`,
    /// `probe_rtt_expired`).
    recent: Option<Duration>,
    recent_at: Instant,
    expired: bool,
    /// Whether the subflow was in the state Loss at the last acknowledgement or at any time since.
    lost: bool,
    /// The earliest end of the current `ProbeRTT` phase (`probe_rtt_done_stamp`).
    done: Option<Instant>,
    round_done: bool,
}

impl MinRtt {
    /// Sets the RTT of the handshake as the first minimum.
    pub(super) fn begin(&mut self, now: Instant, rtt: Option<Duration>) {
        *self = Self { min: rtt, at: now, recent: rtt, recent_at: now, ..Self::default() };
    }

    /// Records a retransmission timeout.
    pub(super) fn on_loss(&mut self) {
        self.lost = true;
    }

    /// Keeps both minimums over an outage. The path was silent, so the ages of expired values restart at
    /// `now`.
    fn keep(&mut self, now: Instant) {
        if self.recent.is_some() && now > self.recent_at + INTERVAL {
            self.recent_at = now;
        }
        if self.min.is_some() && now > self.at + MIN_RTT_WINDOW {
            self.at = now;
        }
    }

    pub(super) fn get(&self) -> Option<Duration> {
        self.min
    }
}

impl Bbr3 {
    /// Updates both minimums (`UpdateMinRTT`).
    pub(super) fn update_min_rtt(&mut self, ack: &AckSample<'_>) {
        let (filter, now) = (&mut self.min_rtt, ack.now);
        let lost = std::mem::replace(&mut filter.lost, self.ca_state == CongestionState::Loss);
        if lost && !self.outage_probe {
            filter.keep(now);
        }
        filter.expired = now > filter.recent_at + INTERVAL;
        let renews = filter.expired && !ack.maybe_delayed;
        if let Some(rtt) = ack.rtt
            && (renews || filter.recent.is_none_or(|recent| rtt < recent))
        {
            filter.recent = Some(rtt);
            filter.recent_at = now;
        }
        let old = now > filter.at + MIN_RTT_WINDOW;
        let Some(recent) = filter.recent else { return };
        if old || filter.min.is_none_or(|min| recent < min) {
            filter.min = Some(recent);
            filter.at = filter.recent_at;
        }
    }

    /// Enters `ProbeRTT` if the minimum has expired (`CheckProbeRTT`).
    pub(super) fn check_probe_rtt(&mut self, ack: &AckSample<'_>, window: &mut Window) {
        if self.state != State::ProbeRtt && self.min_rtt.expired && !self.idle_restart {
            // The state is set first. In this state, `save_cwnd` does not overwrite a larger window that was
            // saved before.
            self.state = State::ProbeRtt;
            self.save_cwnd(window.cwnd);
            self.min_rtt.done = None;
            self.probe.stopping = true;
            self.start_round();
        }
        // The acknowledgement that ends the phase is ignored too (`MarkConnectionAppLimited`).
        self.ignores_rates = self.state == State::ProbeRtt;
        if self.ignores_rates {
            self.handle_probe_rtt(ack, window);
        }
        if ack.rate.delivered > 0 {
            self.idle_restart = false;
        }
    }

    /// Ends the phase after 200 ms and one round with half the data in flight (`HandleProbeRTT`).
    fn handle_probe_rtt(&mut self, ack: &AckSample<'_>, window: &mut Window) {
        if self.min_rtt.done.is_some() {
            self.min_rtt.round_done |= self.rounds.started;
            if self.min_rtt.round_done {
                self.check_probe_rtt_done(ack.now, window);
            }
        } else if ack.in_flight <= self.probe_rtt_cwnd() {
            self.min_rtt.done = Some(ack.now + TIME);
            self.min_rtt.round_done = false;
            self.start_round();
        }
    }

    /// Leaves `ProbeRTT` if its time is over (`CheckProbeRTTDone`, `ExitProbeRTT`).
    pub(super) fn check_probe_rtt_done(&mut self, now: Instant, window: &mut Window) {
        if self.min_rtt.done.is_none_or(|done| now <= done) {
            return;
        }
        self.min_rtt.recent_at = now;
        self.restore_cwnd(window);
        self.reset_short_term();
        if self.pipe.reached {
            self.start_down(now);
            // The data in flight is already less than the path can hold, so Down is skipped.
            self.state = State::Cruise;
        } else {
            self.state = State::Startup;
        }
    }

    /// Returns the largest window in `ProbeRTT` (`ProbeRTTCwnd`).
    pub(super) fn probe_rtt_cwnd(&self) -> u32 {
        self.bdp(self.bw, State::ProbeRtt.cwnd_gain()).max(MIN_PIPE)
    }

    /// Returns `gain` per cent of the bandwidth-delay product, in segments (`BDPMultiple`).
    pub(super) fn bdp(&self, bw: Bandwidth, gain: u64) -> u32 {
        self.min_rtt.get().map_or(crate::INITIAL_WINDOW, |rtt| bw.fills(rtt, gain))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_expired_minimums_get_a_new_age_after_an_outage() {
        let at = |ns: u64| Instant::ZERO + Duration::from_nanos(ns);
        let mut min = MinRtt::default();
        min.begin(at(0), Some(Duration::from_millis(10)));
        // BBRUpdateMinRTT: a value expires when more than its interval has passed, here 5 s and 10 s.
        for (now, recent_at, min_at) in [
            (5_000_000_000, 0, 0),
            (5_000_000_001, 5_000_000_001, 0),
            (10_000_000_000, 5_000_000_001, 0),
            (10_000_000_001, 5_000_000_001, 10_000_000_001),
        ] {
            min.keep(at(now));
            assert_eq!((min.recent_at, min.at), (at(recent_at), at(min_at)), "{now}");
        }
    }
}
