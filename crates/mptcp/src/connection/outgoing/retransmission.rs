//! Connection-level retransmission and stale subflows, as in upstream Linux (`__mptcp_retrans`,
//! `mptcp_pm_subflow_chk_stale`, `__mptcp_retransmit_pending_data`).

use anabranch_units::{Duration, Instant};
use bytes::Bytes;

use super::{Outgoing, Session, Subflows};
use crate::connection::Event;
use crate::subflow::Subflow;
use anabranch_tcp::RTO_MIN;
use anabranch_tcp::config::RTO_MAX_DEFAULT;

/// The number of doublings after which an interval of 200 ms exceeds the kernel's longest timeout.
const RTO_DOUBLINGS: u8 = 10;
/// The number of timer periods without progress after which a subflow is stale (`net.mptcp.stale_loss_cnt`).
const STALE_AFTER: u32 = 4;

/// The number of bytes that may be sent again without a new `DATA_ACK` before the intervals double. The
/// kernel has no such limit. To a peer that acknowledges every segment but never the data, the kernel sends
/// 32 KiB at each expiry. A correct peer acknowledges both at once. If its buffer is full, it enlarges the
/// buffer when the repeated data arrives (`parks_data`).
const MOST_AGAIN: u32 = 2 << 20;

/// The connection-level retransmission timer.
#[derive(Debug, Default)]
pub(super) struct Retransmission {
    deadline: Option<Instant>,
    /// The timeout, computed when data was last scheduled (`timer_ival`).
    interval: Option<Duration>,
    /// Whether the timeout must be computed after the retransmitted data has been sent. The subflow's own
    /// timer is then running and is included (`mptcp_check_and_set_pending` after `tcp_push` in
    /// `__mptcp_retrans`).
    schedules_behind: bool,
    /// Bytes sent again since data was last acknowledged.
    again: u32,
    /// The number of times that [`MOST_AGAIN`] was exceeded since then.
    beyond: u8,
    /// The time before which no data is sent again.
    not_before: Instant,
    /// Bytes sent again on another subflow.
    bytes: u64,
}

impl Retransmission {
    /// Computes the timeout when data is scheduled: the longest remaining time of any healthy subflow's own
    /// timer (`mptcp_set_timeout`).
    pub(super) fn set_interval(&mut self, now: Instant, subflows: &Subflows) {
        let mut last = now;
        for subflow in subflows.iter() {
            if subflow.context.staleness().periods() == 0
                && subflow.usable()
                && let Some(at) = subflow.tcp.sending().timer_due()
            {
                last = last.max(at);
            }
        }
        self.interval = Some(last.since(now)).filter(|left| !left.is_zero());
    }

    /// Starts the timer if it is not running and data is unacknowledged, even if that data was not sent. The
    /// timer therefore also probes a closed window (`__mptcp_clean_una`).
    #[inline]
    pub(super) fn arm(
        &mut self,
        now: Instant,
        session: &Session,
        subflows: &Subflows,
        unacknowledged: bool,
    ) {
        let waiting = unacknowledged && session.is_multipath();
        if !waiting {
            self.deadline = None;
        } else if self.deadline.is_none() {
            self.restart(now, session, subflows);
        }
    }

    fn restart(&mut self, now: Instant, session: &Session, subflows: &Subflows) {
        if subflows.is_deserted() {
            return;
        }
        let interval = self.interval.unwrap_or(RTO_MIN);
        self.deadline = Some(session.host().expiry(now, interval));
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Returns the number of bytes sent again on another subflow.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Counts bytes that were sent again on another subflow.
    #[inline]
    pub(super) fn count(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// Stops the timer, because all data is acknowledged.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.deadline = None;
    }
}

impl Outgoing {
    /// Starts the timer if data is unacknowledged and the timer is not running.
    #[inline]
    pub(in crate::connection) fn arm_retransmission(
        &mut self,
        now: Instant,
        session: &Session,
        subflows: &Subflows,
    ) {
        let unacknowledged = self.stream.una < self.stream.end;
        self.retransmission.arm(now, session, subflows, unacknowledged);
    }

    /// Restarts the timer after data was acknowledged.
    pub(super) fn on_data_progress(
        &mut self,
        now: Instant,
        session: &mut Session,
        subflows: &mut Subflows,
    ) {
        self.retransmission.deadline = None;
        // New data is scheduled before the timer starts (`__mptcp_check_push`).
        let schedules =
            self.stream.cursor < self.stream.end && self.stream.next < self.stream.window_end;
        if schedules && session.stack().mptcp.timer_after_push {
            self.retransmission.set_interval(now, subflows);
        }
        (self.retransmission.again, self.retransmission.beyond) = (0, 0);
        self.retransmission.not_before = Instant::ZERO;
        self.arm_retransmission(now, session, subflows);
    }

    /// Computes the retransmission interval if the last retransmission left that to this call.
    #[inline]
    pub(in crate::connection) fn end_turn(&mut self, now: Instant, subflows: &Subflows) {
        if std::mem::take(&mut self.retransmission.schedules_behind) {
            self.retransmission.set_interval(now, subflows);
        }
    }

    /// Handles the expiry of the timer. Afterwards, the caller must schedule data and start the timer.
    pub(in crate::connection) fn on_retransmission_timeout(
        &mut self,
        now: Instant,
        session: &mut Session,
        subflows: &mut Subflows,
    ) {
        self.retransmission.deadline = None;
        let mut pick = None;
        let mut backup = None;
        let mut least_stale = u32::MAX;
        for index in 0..subflows.len() {
            if !subflows[index].usable() || subflows[index].context.staleness().is_stale() {
                continue;
            }
            if subflows[index].tcp.sending().queue().held_bytes() > 0 {
                if !self.scheduling.scheduler.reinjects() {
                    self.check_stale(session, subflows, index);
                }
                least_stale = least_stale.min(subflows[index].context.staleness().periods());
            } else if subflows[index].context.signals().is_backup() {
                backup = backup.or(Some(index));
            } else {
                pick = pick.or(Some(index));
            }
        }
        // A backup subflow is used only if no regular subflow makes progress.
        let pick = pick.or(backup.filter(|_| least_stale > 1));
        if self.stream.una == self.stream.next {
            if let Some(index) = pick {
                self.send_window_probe(session, subflows, index);
            }
        } else if let Some(index) = pick.filter(|_| now >= self.retransmission.not_before) {
            let from = self.stream.una;
            // The rest of the first fragment is sent again.
            let length = self.stream.fragments.end(from).min(self.stream.next) - from;
            let id = subflows[index].tcp.id();
            let sent = self.push_to(session, subflows, id, from, length);
            let retransmission = &mut self.retransmission;
            retransmission.bytes += sent;
            retransmission.again = retransmission.again.saturating_add(length as u32);
            retransmission.schedules_behind =
                session.stack().mptcp.timer_after_push && self.stream.cursor < self.stream.end;
            if retransmission.again >= MOST_AGAIN {
                let wait = RTO_MIN * (1 << retransmission.beyond);
                retransmission.beyond = RTO_DOUBLINGS.min(retransmission.beyond + 1);
                retransmission.not_before = now + wait.min(RTO_MAX_DEFAULT);
            }
        }
        if session.stack().mptcp.timer_after_push {
            self.arm_retransmission(now, session, subflows);
            self.push_what_waits(session, subflows);
        }
    }

    /// If the connection-level window is closed, sends data that the next subflow holds back to fill a burst
    /// (`mptcp_push_release`).
    pub(super) fn push_what_waits(&mut self, session: &mut Session, subflows: &mut Subflows) {
        let closed =
            self.stream.cursor < self.stream.end && self.stream.cursor >= self.stream.window_end;
        if !closed || !session.is_multipath() {
            return;
        }
        // `mptcp_subflow_get_send`: the subflow whose queued data would be sent first.
        let rate = |subflow: &Subflow| {
            u128::from(subflow.tcp.sending().cwnd().pacing_rate().bytes_per_second())
        };
        let shortest = (subflows.iter_mut())
            .filter(|subflow| {
                subflow.usable()
                    && !subflow.context.staleness().is_stale()
                    && !subflow.context.signals().is_backup()
            })
            .filter(|subflow| rate(subflow) > 0)
            .min_by_key(|subflow| {
                (u128::from(subflow.tcp.sending().queue().memory()) << 32) / rate(subflow)
            });
        if let Some(subflow) = shortest
            && subflow.tcp.sending().queue().memory() < subflow.tcp.sending().buffer().limit()
        {
            subflow.tcp.supply().set_deferred(false);
        }
    }

    /// Probes a closed window when all sent data is acknowledged, because the window update may have been
    /// lost. A byte that the peer already has is sent again on an idle subflow; its acknowledgement carries
    /// the window (`mptcp_sendmsg_frag`, `zero_window_probe`). If the subflow's own window is closed too, the
    /// probes of TCP are sent first.
    fn send_window_probe(&mut self, session: &mut Session, subflows: &mut Subflows, index: usize) {
        let closed =
            self.stream.next >= self.stream.window_end && self.stream.next < self.stream.end;
        if closed && session.is_multipath() {
            let before = self.stream.una.wrapping_sub(1);
            self.note_queued(before, subflows[index].tcp.sending().queue().write_end());
            subflows[index].tcp.supply().queue(Bytes::from_static(&[0]), before);
        }
    }

    /// Counts timer periods without an acknowledgement on a subflow. After more than [`STALE_AFTER`], the
    /// subflow is stale, and all unacknowledged data is sent again on other subflows.
    fn check_stale(&mut self, session: &mut Session, subflows: &mut Subflows, index: usize) {
        let subflow = &mut subflows[index];
        let last_ack = subflow.tcp.sending().last_ack_at();
        if subflow.context.staleness_mut().count_period(last_ack) <= STALE_AFTER {
            return;
        }
        let alternative = subflows.iter().enumerate().any(|(other, s)| {
            let staleness = s.context.staleness();
            let progresses = !staleness.is_stale() && staleness.periods() < STALE_AFTER - 1;
            other != index && s.usable() && progresses
        });
        if alternative {
            let id = subflows[index].tcp.id();
            subflows[index].context.staleness_mut().set_stale();
            session.report(Event::SubflowStale(id));
            self.send_everything_again();
        }
    }

    /// Moves the cursor back to the first unacknowledged byte (`__mptcp_retransmit_pending_data`).
    pub(super) fn send_everything_again(&mut self) {
        self.stream.again_end = self.stream.next;
        self.stream.cursor = self.stream.una;
        self.stream.ahead.clear();
    }
}

#[cfg(test)]
mod tests;
