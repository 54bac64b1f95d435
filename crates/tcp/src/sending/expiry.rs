//! The expiry of the retransmission timer (`tcp_write_timer_handler`).

use anabranch_units::Instant;

use super::Sending;
use super::intent::Urgent;
use super::timers::{Fired, Pending};
use crate::config::Moment;

impl Sending {
    /// Handles the timer if it is due.
    pub(crate) fn handle_timeout(&mut self, moment: Moment<'_>) -> Fired {
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
            Pending::WindowProbe if on_window_probe(self, moment) => return Fired::WindowProbe,
            Pending::WindowProbe | Pending::PeersFin => {}
        }
        Fired::Nothing
    }

    /// Returns whether the connection is closing without an application (`SOCK_DEAD`). With tags, this is
    /// every closing connection, because the layer above has others or has ended its stream. Without tags,
    /// everything except our FIN must be acknowledged, and the peer's FIN must have arrived.
    pub(super) fn is_orphan(&self) -> bool {
        self.queue.is_closing()
            && (self.queue.is_tagged() || (self.peer_closed && self.queue.awaits_only_fin()))
    }

    /// Returns whether the timer waits for the peer's FIN after all data was acknowledged.
    #[inline]
    pub(super) fn awaits_fin(&self) -> bool {
        self.queue.fin_sent() && !self.peer_closed && self.is_orphan()
    }

    pub(super) fn restart_timeout(&mut self, moment: Moment<'_>) {
        let awaits_fin = self.awaits_fin();
        self.timers.restart(moment, &self.flight, awaits_fin);
    }

    /// Handles a retransmission timeout (`tcp_retransmit_timer`, `tcp_enter_loss`; RFC 5681 section 3.1, RFC
    /// 6298 section 5).
    fn on_timeout(&mut self, moment: Moment<'_>) {
        let Moment { now, .. } = moment;
        self.timers.clear();
        if self.flight.is_empty() {
            return;
        }
        let (recovery, losses, mut parts) = self.split(now);
        recovery.on_timeout(&mut parts, losses);
        self.queue.intent_mut().set_urgent(Urgent::Head);
        self.timers.on_timeout(moment);
    }

    /// Handles the timer of a tail loss probe (`tcp_send_loss_probe`, RFC 8985 section 7.3).
    fn on_probe_timeout(&mut self, moment: Moment<'_>) {
        if !self.flight.is_empty() && self.recovery.begin_probe(self.queue.next()) {
            self.queue.intent_mut().set_urgent(Urgent::Probe);
        }
        self.restart_timeout(moment);
    }

    /// Handles RACK's reordering timer (`tcp_rack_reo_timeout`).
    fn on_reordering_timeout(&mut self, moment: Moment<'_>) {
        let Moment { now, .. } = moment;
        let (recovery, losses, mut parts) = self.split(now);
        let (verdict, lost) = recovery.on_reordering_timeout(&mut parts, losses);
        if lost {
            self.queue.intent_mut().set_repairs(true);
        }
        self.restart_timeout(moment);
        self.timers.arm_reordering(moment, verdict.wait);
    }

    /// Splits and retransmits the segments in flight that are larger than the path permits now
    /// (`tcp_simple_retransmit`). The window does not change, and the controller is not notified of a loss.
    ///
    /// `reserved` is the position of a segment whose options need additional space, and the number of bytes.
    pub(crate) fn retransmit_larger(&mut self, now: Instant, reserved: Option<(u64, u32)>) {
        let full = self.queue.mss();
        let most = |start| match reserved {
            Some((carrier, bytes)) if carrier == start => full.saturating_sub(bytes).max(8),
            _ => full,
        };
        if !self.flight.cut_larger(|start| most(start) as usize) {
            return;
        }
        self.timers.reset_probe();
        let (recovery, _, mut parts) = self.split(now);
        recovery.on_larger_cut(&mut parts);
        self.queue.intent_mut().set_repairs(true);
    }
}

/// Handles the window probe timer. If the peer's window has some space, data fills it (RFC 9293 section
/// 3.8.6.2.1, the override timeout). Otherwise returns true: an old byte must be sent to cause an
/// acknowledgement (`tcp_probe_timer`, `tcp_write_wakeup`).
fn on_window_probe(sending: &mut Sending, moment: Moment<'_>) -> bool {
    sending.timers.clear();
    if sending.queue.window_bytes() > 0 {
        sending.queue.intent_mut().set_urgent(Urgent::SmallWindow);
        return false;
    }
    sending.timers.on_window_probe(moment, &sending.flight);
    true
}

/// Returns whether the connection must end: nothing was acknowledged since the first of many retransmissions,
/// or no window probe was answered (`tcp_write_timeout`).
fn is_hopeless(sending: &Sending, pending: Pending, now: Instant) -> bool {
    match pending {
        Pending::Timeout if sending.recovery.consecutive_timeouts() > 0 => {
            // A peer that has shrunk its window to zero but still answers is not given up, because
            // retransmissions are probes (RFC 9293 section 3.8.6, SHLD-17; `tcp_rtx_probe0_timed_out`). A
            // connection without an application ends anyway (`SOCK_DEAD` in `tcp_retransmit_timer`).
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
