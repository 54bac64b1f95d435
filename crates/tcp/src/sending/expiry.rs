//! The expiry of the retransmission timer (`tcp_write_timer_handler`).

use anabranch_units::Instant;

use super::Sending;
use super::intent::Urgent;
use super::timers::{Fired, Pending};
use crate::config::Moment;

impl Sending {
    /// Fires the timer if it is due.
    pub(crate) fn fire_timer(&mut self, moment: Moment<'_>) -> Fired {
        let Moment { now, .. } = moment;
        self.cwnd.on_pacing_wake(now);
        let Some(pending) = self.timers.poll(now) else {
            return Fired::Nothing;
        };
        if is_hopeless(self, pending, now) {
            return Fired::GivenUp;
        }
        match pending {
            Pending::Timeout => self.on_timeout(moment),
            Pending::LossProbe => self.on_probe_timeout(moment),
            Pending::Reordering => self.on_reordering_timeout(moment),
            Pending::WindowProbe if self.on_window_probe(moment) => return Fired::WindowProbe,
            Pending::WindowProbe | Pending::PeersFin => {}
        }
        Fired::Nothing
    }

    /// Returns whether the connection ends and its application no longer waits for it (`SOCK_DEAD`): one of MPTCP, which
    /// has other subflows or has agreed on its end; or plain TCP with all except its FIN acknowledged, and the peer's FIN
    /// taken.
    pub(super) fn is_orphan(&self) -> bool {
        self.queue.is_closing()
            && (self.queue.is_tagged() || (self.peer_closed && self.queue.awaits_only_fin()))
    }

    /// Returns whether the timer waits for the peer's FIN once everything is acknowledged.
    #[inline]
    pub(super) fn awaits_fin(&self) -> bool {
        self.queue.fin_sent() && !self.peer_closed && self.is_orphan()
    }

    pub(super) fn rearm_timeout(&mut self, moment: Moment<'_>) {
        let awaits_fin = self.awaits_fin();
        self.timers.rearm(moment, &self.flight, awaits_fin);
    }

    /// Fills the room there is in the peer's window (RFC 9293 section 3.8.6.2.1, the override timeout). Without room it
    /// returns that an old byte has to draw an acknowledgement (`tcp_probe_timer`, `tcp_write_wakeup`).
    fn on_window_probe(&mut self, moment: Moment<'_>) -> bool {
        self.timers.clear();
        if self.queue.window_bytes() > 0 {
            self.queue.intent_mut().urge(Urgent::SmallWindow);
            return false;
        }
        self.timers.on_window_probe(moment, &self.flight);
        true
    }

    /// RTO: `tcp_retransmit_timer`, `tcp_enter_loss` (RFC 5681 section 3.1, RFC 6298 section 5).
    fn on_timeout(&mut self, moment: Moment<'_>) {
        let Moment { now, .. } = moment;
        self.timers.clear();
        if self.flight.is_empty() {
            return;
        }
        let (recovery, losses, mut parts) = self.split(now);
        recovery.on_timeout(&mut parts, losses);
        self.queue.intent_mut().urge(Urgent::Head);
        self.timers.on_timeout(moment);
    }

    /// Tail loss probe (`tcp_send_loss_probe`, RFC 8985 section 7.3).
    fn on_probe_timeout(&mut self, moment: Moment<'_>) {
        if !self.flight.is_empty() && self.recovery.begin_probe(self.queue.next()) {
            self.queue.intent_mut().urge(Urgent::Probe);
        }
        self.rearm_timeout(moment);
    }

    /// RACK's reordering timer (`tcp_rack_reo_timeout`).
    fn on_reordering_timeout(&mut self, moment: Moment<'_>) {
        let Moment { now, .. } = moment;
        let (recovery, losses, mut parts) = self.split(now);
        let (verdict, lost) = recovery.on_reordering_timeout(&mut parts, losses);
        if lost {
            self.queue.intent_mut().set_repairs(true);
        }
        self.rearm_timeout(moment);
        self.timers.wait_for_late(moment, verdict.wait);
    }

    /// Cuts and retransmits segments in flight that are larger than a segment may be now, and were dropped for it
    /// (`tcp_simple_retransmit`). The window stays, and the controller is not notified of a loss.
    ///
    /// `reserved` is the position of a segment whose options need this many bytes more than those of other segments.
    pub fn resend_larger(&mut self, now: Instant, reserved: Option<(u64, u32)>) {
        let full = self.queue.mss();
        let most = |start| match reserved {
            Some((carrier, bytes)) if carrier == start => full.saturating_sub(bytes).max(8),
            _ => full,
        };
        if !self.flight.cut_larger(|start| most(start) as usize) {
            return;
        }
        self.timers.review();
        let (recovery, _, mut parts) = self.split(now);
        recovery.on_larger_cut(&mut parts);
        self.queue.intent_mut().set_repairs(true);
    }
}

/// Returns whether the peer is given up: nothing was acknowledged since the first of many retransmissions, or no
/// probe was answered (`tcp_write_timeout`).
fn is_hopeless(sending: &Sending, pending: Pending, now: Instant) -> bool {
    match pending {
        Pending::Timeout if sending.recovery.consecutive_timeouts() > 0 => {
            // A peer that took its window back and answers is not given up: retransmissions are probes (RFC 9293
            // section 3.8.6, SHLD-17; `tcp_rtx_probe0_timed_out`). An orphan ends like any other (`SOCK_DEAD` in
            // `tcp_retransmit_timer`).
            let closed = sending.queue.window().size() == 0 && !sending.is_orphan();
            if closed && now.since(sending.last_ack_at) <= sending.rtt().rto_max() * 2 {
                return false;
            }
            let longest = sending.timers.longest_silence(sending.is_orphan());
            let since = sending.recovery.since_first_retransmission(now);
            since.is_some_and(|since| since.as_millis() >= longest.as_millis())
        }
        Pending::WindowProbe => sending.timers.has_probed_enough(sending.is_orphan()),
        Pending::PeersFin => true,
        _ => false,
    }
}
