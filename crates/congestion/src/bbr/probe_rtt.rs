//! The minimum RTT, and the `ProbeRtt` phases that measure it again (`bbr_update_min_rtt`).

use anabranch_units::{Duration, Instant};

use super::{Bbr, MIN_CWND, Mode};
use crate::{AckSample, CongestionState, Window};

/// The age at which a minimum RTT expires (`bbr_min_rtt_win_sec`).
const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);
/// The shortest duration of a `ProbeRtt` phase (`bbr_probe_rtt_mode_ms`).
const PROBE_RTT_TIME: Duration = Duration::from_millis(200);

impl Bbr {
    /// Updates the minimum RTT and enters `ProbeRtt` if it has expired (`bbr_update_min_rtt`). The RTT of an
    /// acknowledgement that may have been delayed can lower the minimum, but cannot replace an expired one.
    pub(super) fn update_min_rtt(&mut self, ack: &AckSample<'_>, window: &mut Window) {
        let mut expired = ack.coarse_now > self.min_rtt_at + MIN_RTT_WINDOW;
        let lost = [self.previous_state, self.state].contains(&CongestionState::Loss);
        if expired && lost && !self.outage_probe && self.min_rtt.is_some() {
            // The path was silent, so the RTT could not be measured. The minimum is kept for another full
            // window.
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
            // The mode is set first. In this mode, `save_cwnd` does not overwrite a larger window that was
            // saved before.
            self.mode = Mode::ProbeRtt;
            self.save_cwnd(window.cwnd);
            self.probe_rtt_done = None;
        }
        // The acknowledgement that ends the phase is ignored too.
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
