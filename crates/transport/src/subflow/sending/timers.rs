//! The one retransmission timer of a subflow and what it fires: retransmission timeout, tail loss
//! probe, RACK's reordering timer, window probe (`icsk_pending`; RFC 6298, RFC 8985 section 7).

use anabranch_units::{Duration, Instant};

use super::intent::Urgent;
use super::rtt::timestamp_clock;
use super::rtt::{RTO_INITIAL, RTO_MIN, RttEstimator};
use crate::config::{Config, HostModel, RTO_MAX_DEFAULT};
use crate::profile::LossDetection;
use crate::subflow::Subflow;
use anabranch_congestion::{CongestionEvent, CongestionKind, CongestionState, WindowChange};

/// RFC 8985's `WCDelAckT` as Linux applies it to a single outstanding segment.
const SINGLE_SEGMENT_EXTRA: Duration = Duration::from_millis(200);

/// The least time for which the peer may leave what it reported unacknowledged (`tcp_check_sack_reneging`).
const RENEGING_MIN: Duration = Duration::from_millis(10);

/// Retransmissions in a row that end a subflow, and window probes without an answer (`net.ipv4.tcp_retries2`;
/// RFC 9293 section 3.8.3, R2).
const RETRIES: u16 = 15;
/// The same where nobody waits for the subflow any more (`tcp_orphan_retries`).
const ORPHAN_RETRIES: u16 = 8;

/// The time for which the peer's FIN is waited for once ours is acknowledged and nobody waits for the subflow any
/// more (`net.ipv4.tcp_fin_timeout`, `tcp_fin_time`).
const FIN_TIMEOUT: Duration = Duration::from_secs(60);

/// The time that so many retransmissions last which double from 200 ms up to `longest` (`tcp_model_timeout`).
fn time_of_retries(retries: u16, longest: Duration) -> Duration {
    let doublings = (longest.as_nanos() / RTO_MIN.as_nanos()).max(1).ilog2() as u16;
    let doubled = RTO_MIN * ((2 << retries.min(doublings)) - 1);
    doubled + longest * u64::from(retries.saturating_sub(doublings))
}

/// The retransmissions in a row that end a subflow, as configured: without a number as many as last no shorter than
/// 15 with the longest timeout of the kernel.
fn retries(config: &Config) -> u16 {
    let time = |longest| time_of_retries(RETRIES, longest);
    config.retries.unwrap_or_else(|| RETRIES + missing_retries(config.rto_max, time) as u16)
}

/// The retries of the `longest` timeout that are missing until as much time has passed as with the kernel's; `time` is
/// that of the usual retries by their longest timeout.
pub(in crate::subflow) fn missing_retries(
    longest: Duration,
    time: impl Fn(Duration) -> Duration,
) -> u32 {
    let missing = time(RTO_MAX_DEFAULT).saturating_sub(time(longest));
    missing.as_nanos().div_ceil(longest.as_nanos()) as u32
}

/// What the timer waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pending {
    Timeout,
    LossProbe,
    Reordering,
    WindowProbe,
    /// The peer's FIN (FIN-WAIT-2).
    PeersFin,
}

/// The timer.
#[derive(Debug)]
pub(crate) struct Timer {
    pending: Option<Pending>,
    /// When it fires; far future while it is not armed.
    at: Instant,
    /// When it would fire if the host's timers were exact (`icsk_timeout`).
    due: Instant,
    /// Window probes since the peer was last heard (`icsk_probes_out`).
    probes: u32,
    /// Retransmissions in a row, or window probes, that end the subflow.
    retries: u16,
    /// New data has set it to a loss probe, and since then nothing was heard or sent again: more that leaves in the
    /// same instant would set the same.
    renewed: bool,
}

impl Timer {
    /// One that waits for nothing.
    pub(in crate::subflow) fn new(config: &Config) -> Self {
        let (at, due) = (Instant::FAR_FUTURE, Instant::ZERO);
        Self { pending: None, at, due, probes: 0, retries: retries(config), renewed: false }
    }

    /// When it fires; far future for never.
    pub(crate) fn at(&self) -> Instant {
        self.at
    }

    /// When it would fire if the host's timers were exact.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.pending.map(|_| self.due)
    }

    pub(crate) fn pending(&self) -> Option<Pending> {
        self.pending
    }

    pub(crate) fn arm(&mut self, host: &HostModel, now: Instant, pending: Pending, span: Duration) {
        (self.due, self.at) = host.timer(now, span);
        self.pending = Some(pending);
        self.renewed = false;
    }

    pub(crate) fn clear(&mut self) {
        (self.pending, self.at) = (None, Instant::FAR_FUTURE);
        self.renewed = false;
    }

    /// Lets the next new data set the probe again, because an input may have changed its time.
    pub(crate) fn review(&mut self) {
        self.renewed = false;
    }

    /// Waits for segments that may be late, if a search for losses found any, at most for a timeout of `rto`.
    pub(in crate::subflow) fn wait_for_late(
        &mut self,
        host: &HostModel,
        now: Instant,
        wait: Option<Duration>,
        rto: Duration,
    ) {
        if let Some(wait) = wait.filter(|wait| !wait.is_zero()) {
            self.arm(host, now, Pending::Reordering, wait.min(rto));
        }
    }

    /// Waits a little because the acknowledgement ends at a segment that the peer had reported: a peer that kept the
    /// segment would have acknowledged it too. If no more is acknowledged by then, the segment counts as lost
    /// (`tcp_check_sack_reneging`; RFC 2018 section 8).
    #[cold]
    pub(in crate::subflow) fn suspect_reneging(
        &mut self,
        host: &HostModel,
        now: Instant,
        srtt: Option<Duration>,
    ) {
        let delay = srtt.map_or(RENEGING_MIN, |srtt| (srtt / 2).max(RENEGING_MIN));
        self.arm(host, now, Pending::Timeout, delay);
    }

    /// Reviews the window probe after an acknowledgement: its wait starts again, or ends if the window is no longer
    /// `shut_out` (`tcp_ack_probe`).
    #[inline(always)]
    pub(in crate::subflow) fn review_window_probe(
        &mut self,
        host: &HostModel,
        now: Instant,
        shut_out: impl FnOnce() -> bool,
        rtt: &mut RttEstimator,
    ) {
        self.probes = 0;
        if self.pending != Some(Pending::WindowProbe) {
            return;
        }
        if shut_out() {
            self.arm(host, now, Pending::WindowProbe, rtt.rto());
        } else {
            self.clear();
            rtt.reset_backoff();
        }
    }
}

impl Subflow {
    /// What remains until the head of the queue times out (`tcp_rto_delta_us`).
    #[inline(always)]
    fn timeout_left(&self, now: Instant) -> Duration {
        let head = self.board.front().map_or(now, |sent| sent.sent_at);
        (head + self.rtt.rto()).since(now)
    }

    /// Returns when the retransmission timeout fires if nothing is acknowledged until then. A loss probe or the
    /// reordering timer comes first: then the rest of the head's timeout follows (`tcp_rearm_rto`).
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let head = self.board.front()?;
        match self.timer.pending()? {
            Pending::Timeout => Some(self.timer.at()),
            Pending::LossProbe | Pending::Reordering => {
                Some(self.timer.at().max(head.sent_at + self.rtt.rto()))
            }
            Pending::WindowProbe | Pending::PeersFin => None,
        }
    }

    /// `tcp_rearm_rto`.
    pub(crate) fn rearm_timeout(&mut self, host: &HostModel, now: Instant) {
        if self.board.is_empty() {
            self.timer.clear();
            if self.send.fin_sent() && self.is_orphan() && !self.receive.assembly().is_closed() {
                self.timer.arm(host, now, Pending::PeersFin, FIN_TIMEOUT);
            }
            return;
        }
        let probing =
            matches!(self.timer.pending(), Some(Pending::LossProbe | Pending::Reordering));
        let span = if probing {
            self.timeout_left(now).max(Duration::from_micros(1))
        } else {
            self.rtt.rto()
        };
        self.timer.arm(host, now, Pending::Timeout, span);
    }

    /// `tcp_schedule_loss_probe`: true when a probe is scheduled.
    #[inline(always)]
    pub(crate) fn schedule_probe(
        &mut self,
        host: &HostModel,
        now: Instant,
        advancing: bool,
    ) -> bool {
        let calm = matches!(self.ca_state, CongestionState::Open | CongestionState::Cwr);
        let sends = self.stack.tcp.tail_probes && self.agreed.sack_permitted;
        if self.board.is_empty() || !sends || !calm {
            return false;
        }
        let timeout = match self.rtt.srtt() {
            Some(srtt) if self.board.packets_out() == 1 => srtt * 2 + SINGLE_SEGMENT_EXTRA,
            Some(srtt) => srtt * 2 + self.stack.tcp.timeout_min,
            None => RTO_INITIAL,
        };
        let left = if advancing { self.rtt.rto() } else { self.timeout_left(now) };
        let span = host.ticks(timeout).min(self.rtt.rto_max());
        let span = if left.is_zero() { span } else { span.min(left) };
        self.timer.arm(host, now, Pending::LossProbe, span);
        true
    }

    /// New data has left, perhaps `together` with what left before it: a probe replaces whatever the timer waits
    /// for, unless this was one.
    #[inline(always)]
    pub(crate) fn set_timer_behind_data(
        &mut self,
        host: &HostModel,
        now: Instant,
        together: bool,
        probe: bool,
    ) {
        if together && self.timer.renewed && !probe {
            return;
        }
        let was_probe = self.timer.pending() == Some(Pending::LossProbe);
        let others = self.board.packets_out() > 1;
        if !probe && self.schedule_probe(host, now, false) {
            self.timer.renewed = others;
        } else if was_probe || !others {
            self.rearm_timeout(host, now);
        }
    }

    /// After an acknowledgement moved things: probe or timeout (`tcp_set_xmit_timer`).
    #[inline(always)]
    pub(crate) fn set_timer(&mut self, host: &HostModel, now: Instant) {
        if !self.schedule_probe(host, now, true) {
            self.rearm_timeout(host, now);
        }
    }

    /// Fires the timer if it is due; false when the peer has been silent for too long.
    pub(crate) fn fire_timer(&mut self, host: &HostModel, now: Instant) -> bool {
        self.pacer.on_wake(now);
        let Some(pending) = self.timer.pending.filter(|_| now >= self.timer.at) else {
            return true;
        };
        if self.is_hopeless(pending, now) {
            return false;
        }
        match pending {
            Pending::Timeout => self.on_timeout(host, now),
            Pending::LossProbe => self.on_probe_timeout(host, now),
            Pending::Reordering => self.on_reordering_timeout(host, now),
            Pending::WindowProbe => self.on_window_probe(host, now),
            Pending::PeersFin => {}
        }
        true
    }

    /// `tcp_write_timeout`, `retransmits_timed_out`: nothing was acknowledged since the first of
    /// many retransmissions; or no probe was answered.
    fn is_hopeless(&self, pending: Pending, now: Instant) -> bool {
        match pending {
            Pending::Timeout if self.recovery.consecutive_timeouts > 0 => {
                // A peer that took its window back and answers is not given up: retransmissions are probes (RFC 9293
                // section 3.8.6, SHLD-17; `tcp_rtx_probe0_timed_out`). An orphan ends like any other (`SOCK_DEAD` in
                // `tcp_retransmit_timer`).
                let closed = self.send.window() == 0 && !self.is_orphan();
                if closed && now.since(self.last_ack_at) <= self.rtt.rto_max() * 2 {
                    return false;
                }
                let clock = timestamp_clock(now);
                let since =
                    self.recovery.retrans_stamp.map(|stamp| clock.wrapping_sub(stamp.get()));
                let longest = time_of_retries(self.patience(), self.rtt.rto_max());
                since.is_some_and(|ms| u64::from(ms) >= longest.as_millis())
            }
            Pending::WindowProbe => self.timer.probes >= u32::from(self.patience()),
            Pending::PeersFin => true,
            _ => false,
        }
    }

    /// The number of retransmissions in a row, or of window probes, that ends the subflow: none for an orphan whose
    /// timeouts are as long as they get.
    fn patience(&self) -> u16 {
        match self.is_orphan() {
            false => self.timer.retries,
            true if self.rtt.rto() < self.rtt.rto_max() => ORPHAN_RETRIES,
            true => 0,
        }
    }

    /// The subflow ends and nobody waits for what it may still bring (`SOCK_DEAD`): one of MPTCP, which
    /// has other subflows or has agreed on its end; or plain TCP with all but its FIN acknowledged, and
    /// the peer's FIN taken.
    fn is_orphan(&self) -> bool {
        let fin_only = self.receive.assembly().is_closed()
            && self.send.fin_sent()
            && self.send.una() + 1 == self.send.next();
        self.send.fin_queued && (self.context.is_multipath() || fin_only)
    }

    /// `tcp_probe_timer`, `tcp_write_wakeup`: what room there is gets filled (RFC 9293 section
    /// 3.8.6.2.1, the override timeout), else an old byte draws an acknowledgement.
    fn on_window_probe(&mut self, host: &HostModel, now: Instant) {
        self.timer.clear();
        if self.send.window_end > self.send.next {
            self.send.intent.urge(Urgent::SmallWindow);
            return;
        }
        self.rtt.back_off();
        self.timer.probes += 1;
        self.receive.demand_probe();
        self.arm_window_probe(host, now);
    }

    /// The peer's window is closed and nothing is outstanding: ask now and then (RFC 9293 3.8.6.1).
    pub(crate) fn arm_window_probe(&mut self, host: &HostModel, now: Instant) {
        if self.timer.pending().is_none() && self.board.is_empty() {
            self.timer.arm(host, now, Pending::WindowProbe, self.rtt.rto());
        }
    }

    /// RTO: `tcp_retransmit_timer`, `tcp_enter_loss` (RFC 5681 section 3.1, RFC 6298 section 5).
    fn on_timeout(&mut self, host: &HostModel, now: Instant) {
        self.timer.clear();
        if self.board.is_empty() {
            return;
        }
        self.enter_loss(now);
        self.totals.timeouts += 1;
        self.recovery.on_timeout(now);
        self.rtt.back_off();
        self.send.intent.urge(Urgent::Head);
        self.timer.arm(host, now, Pending::Timeout, self.rtt.rto());
    }

    /// `tcp_timeout_mark_lost`, `tcp_enter_loss`.
    fn enter_loss(&mut self, now: Instant) {
        let reneged = self.board.front().is_some_and(|head| head.sacked);
        if reneged {
            self.board.clear_sacked();
            self.recovery.reneged = true;
        }
        self.board.forget_duplicates(self.agreed.sack_permitted);
        // The head is lost, and everything older than RACK's RTT; what was sent lately is not, but
        // where older stacks have it so (`tcp_enter_loss` of 4.14).
        let all = self.stack.tcp.loss_detection != LossDetection::Rack;
        for number in self.board.numbers() {
            let head = number == self.board.numbers().start;
            let young = self
                .board
                .get(number)
                .is_some_and(|sent| self.rack.time_left(now, sent, Duration::ZERO).is_some());
            if head || reneged || all || !young {
                self.mark_lost(now, number);
            }
        }
        let fresh = self.ca_state <= CongestionState::Disorder
            || self.send.una() >= self.recovery.high_seq
            || (self.ca_state == CongestionState::Loss && self.recovery.consecutive_timeouts == 0);
        let new_recovery = self.ca_state < CongestionState::Recovery;
        if fresh {
            self.recovery.remember(self.window, self.current_ssthresh());
            let event = CongestionEvent {
                now,
                kind: CongestionKind::Timeout,
                in_flight: self.board.in_flight(),
            };
            self.controller.on_rto(&event, &mut self.window);
            self.recovery.init_undo(self.send.una(), self.board.retrans_out);
        }
        self.window.cwnd = self.board.in_flight() + 1;
        self.usage.on_window_set(now);
        self.controller.on_window_changed(WindowChange::Timeout, &mut self.window);
        self.set_state(now, CongestionState::Loss);
        self.recovery.high_seq = self.send.next();
        self.recovery.probe_high = None;
        self.ecn.queue_cwr();
        self.recovery.frto = new_recovery || self.recovery.consecutive_timeouts > 0;
    }

    /// Tail loss probe (`tcp_send_loss_probe`, RFC 8985 section 7.3).
    fn on_probe_timeout(&mut self, host: &HostModel, now: Instant) {
        if self.recovery.probe_high.is_none() && !self.board.is_empty() {
            self.send.intent.urge(Urgent::Probe);
            self.recovery.probe_high = Some(self.send.next());
            self.recovery.probe_retransmitted = false;
        }
        self.rearm_timeout(host, now);
    }

    /// Changes the congestion state and tells the controller.
    pub(crate) fn set_state(&mut self, now: Instant, state: CongestionState) {
        self.ca_state = state;
        self.timer.review();
        self.recovery.on_state(state);
        // Timeouts in a row are one loss (`mptcp_olia_set_state`).
        if state >= CongestionState::Cwr && self.recovery.consecutive_timeouts == 0 {
            self.loss_interval.on_loss(self.totals.bytes_acked);
        }
        self.controller.on_state(now, state, &mut self.window);
    }
}

#[cfg(test)]
mod tests;
