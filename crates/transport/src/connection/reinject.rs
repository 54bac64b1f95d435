//! Connection-level retransmission and stale subflows as upstream Linux has them
//! (`__mptcp_retrans`, `mptcp_pm_subflow_chk_stale`, `__mptcp_retransmit_pending_data`).

use anabranch_units::{Duration, Instant};
use bytes::Bytes;

use super::{Connection, Event, Mode};
use crate::config::RTO_MAX_DEFAULT;
use crate::subflow::RTO_MIN;
use crate::subflow::Subflow;

/// The number of doublings of 200 ms until they are longer than the longest timeout of the kernel.
const RTO_DOUBLINGS: u8 = 10;
/// `net.mptcp.stale_loss_cnt`.
const STALE_AFTER: u32 = 4;

/// Bytes that go again at one expiry after the other without a word about the data; the rest ever more seldom. The kernel
/// has no such bound: a peer that acknowledges every segment and never the data is sent 32 KiB each time that its
/// acknowledgement comes. An honest one acknowledges both at once, or as soon as what it is sent again fills the buffer
/// that it then enlarges (`parks_data`).
const MOST_AGAIN: u32 = 2 << 20;

/// The connection-level retransmission timer.
#[derive(Debug, Default)]
pub(super) struct Retransmission {
    deadline: Option<Instant>,
    /// How long it runs, as the last scheduling found it (`timer_ival`).
    interval: Option<Duration>,
    /// Whether what is sent again is to leave before that is found anew: its own timer counts
    /// (`mptcp_check_and_set_pending` behind `tcp_push` in `__mptcp_retrans`).
    pub(super) schedules_behind: bool,
    /// Bytes that have gone again since data was acknowledged last.
    again: u32,
    /// Times that more has gone again than [`MOST_AGAIN`] since then.
    beyond: u8,
    /// Before then it is not sent again.
    not_before: Instant,
    /// Bytes sent again on another subflow.
    pub(super) bytes: u64,
}

impl Retransmission {
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// All is acknowledged: nothing is waited for.
    #[inline(always)]
    pub(super) fn rest(&mut self) {
        self.deadline = None;
    }
}

impl Connection {
    /// `mptcp_set_timeout`, at every scheduling: the longest time any healthy subflow still waits
    /// for its own timer.
    pub(super) fn set_retransmission_interval(&mut self, now: Instant) {
        let mut last = now;
        for subflow in &self.subflows {
            if subflow.stale_count == 0
                && subflow.usable()
                && let Some(at) = subflow.timer_due()
            {
                last = last.max(at);
            }
        }
        self.retransmission.interval = Some(last.since(now)).filter(|left| !left.is_zero());
    }

    /// Starts the timer when data is unacknowledged, sent or not, and it is not running: it also
    /// probes a closed window (`__mptcp_clean_una`).
    #[inline(always)]
    pub(super) fn arm_retransmission(&mut self, now: Instant) {
        let waiting = self.out.una < self.out.end && self.mode == Mode::Multipath;
        if !waiting {
            self.retransmission.deadline = None;
        } else if self.retransmission.deadline.is_none() {
            self.restart_retransmission(now);
        }
    }

    fn restart_retransmission(&mut self, now: Instant) {
        if self.is_deserted() {
            return;
        }
        let interval = self.retransmission.interval.unwrap_or(RTO_MIN);
        self.retransmission.deadline = Some(self.config.host.expiry(now, interval));
    }

    /// Data was acknowledged: the timer starts anew.
    pub(super) fn on_data_progress(&mut self, now: Instant) {
        self.retransmission.deadline = None;
        // New data is scheduled before that (`__mptcp_check_push`).
        let schedules = self.out.cursor < self.out.end && self.out.next < self.out.window_end;
        if schedules && self.config.stack.mptcp.timer_after_push {
            self.set_retransmission_interval(now);
        }
        (self.retransmission.again, self.retransmission.beyond) = (0, 0);
        self.retransmission.not_before = Instant::ZERO;
        self.arm_retransmission(now);
    }

    /// The timer has expired.
    pub(super) fn on_retransmission_timeout(&mut self, now: Instant) {
        self.retransmission.deadline = None;
        let mut pick = None;
        let mut backup = None;
        let mut least_stale = u32::MAX;
        for index in 0..self.subflows.len() {
            if !self.subflows[index].usable() || self.subflows[index].stale {
                continue;
            }
            if self.subflows[index].send.held_bytes() > 0 {
                if !self.scheduler.reinjects() {
                    self.check_stale(index);
                }
                least_stale = least_stale.min(self.subflows[index].stale_count);
            } else if self.subflows[index].signals.is_backup() {
                backup = backup.or(Some(index));
            } else {
                pick = pick.or(Some(index));
            }
        }
        // A backup helps only when there is no progress anywhere.
        let pick = pick.or(backup.filter(|_| least_stale > 1));
        if self.out.una == self.out.next {
            if let Some(index) = pick {
                self.probe_window(index);
            }
        } else if let Some(index) = pick.filter(|_| now >= self.retransmission.not_before) {
            let from = self.out.una;
            // What is left of the first piece goes again.
            let length = self.out.pieces.end(from).min(self.out.next) - from;
            let id = self.subflows[index].id;
            let sent = self.hand_over(id, from, length);
            let retransmission = &mut self.retransmission;
            retransmission.bytes += sent;
            retransmission.again = retransmission.again.saturating_add(length as u32);
            retransmission.schedules_behind =
                self.config.stack.mptcp.timer_after_push && self.out.cursor < self.out.end;
            if retransmission.again >= MOST_AGAIN {
                let wait = RTO_MIN * (1 << retransmission.beyond);
                retransmission.beyond = RTO_DOUBLINGS.min(retransmission.beyond + 1);
                retransmission.not_before = now + wait.min(RTO_MAX_DEFAULT);
            }
        }
        if self.config.stack.mptcp.timer_after_push {
            self.arm_retransmission(now);
            self.push_what_waits();
        }
        self.push(now);
        self.arm_retransmission(now);
    }

    /// The connection's window is closed, and the subflow that would be given data gets none: what it holds back for a
    /// burst goes all the same (`mptcp_push_release`).
    pub(super) fn push_what_waits(&mut self) {
        let closed = self.out.cursor < self.out.end && self.out.cursor >= self.out.window_end;
        if !closed || self.mode != Mode::Multipath {
            return;
        }
        // `mptcp_subflow_get_send`: the one that is through with what it has first, if that leaves room.
        let rate = |subflow: &Subflow| u128::from(subflow.pacing_rate().bytes_per_second());
        let shortest = (self.subflows.iter_mut())
            .filter(|subflow| subflow.usable() && !subflow.stale && !subflow.signals.is_backup())
            .filter(|subflow| rate(subflow) > 0)
            .min_by_key(|subflow| (u128::from(subflow.send.memory()) << 32) / rate(subflow));
        if let Some(subflow) = shortest
            && subflow.send.memory() < subflow.send.buffer_limit()
        {
            subflow.send.deferred = false;
        }
    }

    /// Everything sent is acknowledged, the window is closed, and the news of its opening may be
    /// lost: a byte that the peer has already goes once more, on an idle subflow; its acknowledgement
    /// brings the window (`mptcp_sendmsg_frag`, `zero_window_probe`). The subflow's own window may be
    /// closed too: then its probes come first.
    fn probe_window(&mut self, index: usize) {
        let closed = self.out.next >= self.out.window_end && self.out.next < self.out.end;
        if closed && self.mode == Mode::Multipath {
            let before = self.out.una.wrapping_sub(1);
            self.fallback.on_queued(before, self.subflows[index].send.write_end());
            self.subflows[index].send.enqueue(Bytes::from_static(&[0]), before);
        }
    }

    /// Counts timer periods without an acknowledgement; after some the subflow is stale and
    /// everything unacknowledged is sent again elsewhere.
    fn check_stale(&mut self, index: usize) {
        let subflow = &mut self.subflows[index];
        if subflow.stale_count == 0 {
            subflow.stale_ack_stamp = subflow.last_ack_at;
            subflow.stale_count = 1;
            return;
        }
        if subflow.stale_ack_stamp != subflow.last_ack_at {
            subflow.stale_count = 0;
            subflow.stale = false;
            return;
        }
        subflow.stale_count = (subflow.stale_count + 1).min(255);
        if subflow.stale_count <= STALE_AFTER {
            return;
        }
        let alternative = self.subflows.iter().enumerate().any(|(other, s)| {
            other != index && s.usable() && !s.stale && s.stale_count < (STALE_AFTER - 1).max(1)
        });
        if alternative {
            let id = self.subflows[index].id;
            self.subflows[index].stale = true;
            self.events.push_back(Event::SubflowStale(id));
            self.resend_everything();
        }
    }

    /// `__mptcp_retransmit_pending_data`: the cursor returns to the first unacknowledged byte.
    pub(super) fn resend_everything(&mut self) {
        self.out.again_end = self.out.next;
        self.out.cursor = self.out.una;
        self.out.ahead.clear();
    }

    /// An acknowledgement on a stale subflow shows that its path lives (`mptcp_subflow_active`).
    pub(super) fn revive(&mut self, index: usize) {
        let subflow = &mut self.subflows[index];
        if subflow.stale && subflow.stale_ack_stamp != subflow.last_ack_at {
            subflow.stale = false;
            subflow.stale_count = 0;
        }
    }
}

#[cfg(test)]
mod tests;
