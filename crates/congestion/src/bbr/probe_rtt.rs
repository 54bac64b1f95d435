//! The minimum RTT, and the visits to `ProbeRtt` in which it is measured again (`bbr_update_min_rtt`).

use anabranch_units::{Duration, Instant};

use super::{Bbr, MIN_CWND, Mode};
use crate::{AckSample, CongestionState, Window};

/// The age at which a new minimum RTT is measured (`bbr_min_rtt_win_sec`).
const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);
/// The least time of a visit (`bbr_probe_rtt_mode_ms`).
const PROBE_RTT_TIME: Duration = Duration::from_millis(200);

impl Bbr {
    /// `bbr_update_min_rtt`, including the visit to `ProbeRtt` when the minimum RTT is too old. If an acknowledgement
    /// may have been delayed, its RTT can lower the minimum, but cannot replace an old minimum.
    pub(super) fn update_min_rtt(&mut self, ack: &AckSample<'_>, window: &mut Window) {
        let mut expired = ack.coarse_now > self.min_rtt_at + MIN_RTT_WINDOW;
        let lost = [self.previous_state, self.state].contains(&CongestionState::Loss);
        if expired && lost && !self.outage_probe && self.min_rtt.is_some() {
            // The path was silent, so its delay was not measured. A visit follows later.
            self.min_rtt_at = ack.coarse_now;
            expired = false;
        }
        if let Some(rtt) = ack.rtt
            && (expired && (!ack.maybe_delayed || self.linux_414)
                || self.min_rtt.is_none_or(|min| rtt < min || (self.linux_414 && rtt == min)))
        {
            self.min_rtt = Some(rtt);
            self.min_rtt_at = ack.coarse_now;
        }
        if expired && !self.idle_restart && self.mode != Mode::ProbeRtt {
            // The mode is set first, so that `save_cwnd` keeps the window saved by a recovery or an earlier visit.
            self.mode = Mode::ProbeRtt;
            self.save_cwnd(window.cwnd);
            self.probe_rtt_done = None;
        }
        // This includes the acknowledgement that ends the visit.
        self.ignores_rates = self.mode == Mode::ProbeRtt;
        if self.mode == Mode::ProbeRtt {
            if self.probe_rtt_done.is_none() {
                if ack.in_flight <= MIN_CWND {
                    self.probe_rtt_done = Some(ack.coarse_now + PROBE_RTT_TIME);
                    self.probe_rtt_round_done = false;
                    self.next_round_delivered = ack.delivered;
                }
            } else {
                self.probe_rtt_round_done |= self.round_start;
                if self.probe_rtt_round_done {
                    self.check_probe_rtt_done(ack.coarse_now, window);
                }
            }
        }
        if ack.rate.delivered > 0 {
            self.idle_restart = false;
        }
    }

    pub(super) fn check_probe_rtt_done(&mut self, now: Instant, window: &mut Window) {
        if self.probe_rtt_done.is_some_and(|done| now > done) {
            self.min_rtt_at = now;
            window.cwnd = window.cwnd.max(self.prior_cwnd);
            if self.full_bw_reached {
                self.enter_probe_bw();
            } else {
                self.mode = Mode::Startup;
            }
        }
    }
}
