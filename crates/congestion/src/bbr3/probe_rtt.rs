//! The minimum RTT, and the short phases with half the flight that measure it again.

use anabranch_units::{Duration, Instant};

use super::{Bandwidth, Bbr3, MIN_PIPE, State};
use crate::{AckSample, CongestionState, Window};

/// The time after which a minimum RTT expires (`MinRTTFilterLen`).
const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);
/// The time without a lower RTT after which a visit to `ProbeRTT` begins (`ProbeRTTInterval`).
const INTERVAL: Duration = Duration::from_secs(5);
/// The duration of a visit to `ProbeRTT` (`ProbeRTTDuration`).
const TIME: Duration = Duration::from_millis(200);

/// The minimum over ten seconds and over the interval between visits.
#[derive(Debug, Default)]
pub(super) struct MinRtt {
    min: Option<Duration>,
    at: Instant,
    /// `probe_rtt_min_delay`, `probe_rtt_min_stamp`, `probe_rtt_expired`.
    recent: Option<Duration>,
    recent_at: Instant,
    expired: bool,
    /// The subflow was in Loss at the last acknowledgement, or has been since.
    lost: bool,
    /// When the current visit may end (`probe_rtt_done_stamp`).
    done: Option<Instant>,
    round_done: bool,
}

impl MinRtt {
    /// Starts with the RTT of the handshake.
    pub(super) fn begin(&mut self, now: Instant, rtt: Option<Duration>) {
        *self = Self { min: rtt, at: now, recent: rtt, recent_at: now, ..Self::default() };
    }

    /// Records a retransmission timeout.
    pub(super) fn on_loss(&mut self) {
        self.lost = true;
    }

    /// Keeps the minimum RTT over an outage: the path was silent, so values that became too old meanwhile count as
    /// new.
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
    /// `UpdateMinRTT`.
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

    /// `CheckProbeRTT`.
    pub(super) fn check_probe_rtt(&mut self, ack: &AckSample<'_>, window: &mut Window) {
        if self.state != State::ProbeRtt && self.min_rtt.expired && !self.idle_restart {
            // The state is set first, so that the window saved by a recovery or an earlier visit is kept.
            self.state = State::ProbeRtt;
            self.save_cwnd(window.cwnd);
            self.min_rtt.done = None;
            self.probe.stopping = true;
            self.start_round();
        }
        // This includes the acknowledgement that ends the visit (`MarkConnectionAppLimited`).
        self.ignores_rates = self.state == State::ProbeRtt;
        if self.ignores_rates {
            self.handle_probe_rtt(ack, window);
        }
        if ack.rate.delivered > 0 {
            self.idle_restart = false;
        }
    }

    /// `HandleProbeRTT`: at least 200 ms and a round with half the flight.
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

    /// `CheckProbeRTTDone`, `ExitProbeRTT`.
    pub(super) fn check_probe_rtt_done(&mut self, now: Instant, window: &mut Window) {
        if self.min_rtt.done.is_none_or(|done| now <= done) {
            return;
        }
        self.min_rtt.recent_at = now;
        self.restore_cwnd(window);
        self.reset_short_term();
        if self.pipe.reached {
            self.start_down(now);
            // The flight is already below the capacity of the path.
            self.state = State::Cruise;
        } else {
            self.state = State::Startup;
        }
    }

    /// `ProbeRTTCwnd`.
    pub(super) fn probe_rtt_cwnd(&self) -> u32 {
        self.bdp(self.bw, State::ProbeRtt.cwnd_gain()).max(MIN_PIPE)
    }

    /// `BDPMultiple`: `gain` per cent of the bandwidth-delay product, in segments.
    pub(super) fn bdp(&self, bw: Bandwidth, gain: u64) -> u32 {
        self.min_rtt.get().map_or(crate::INITIAL_WINDOW, |rtt| bw.fills(rtt, gain))
    }
}
