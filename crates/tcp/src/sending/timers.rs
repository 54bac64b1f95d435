//! The retransmission timer of a connection. It has one purpose at a time: retransmission timeout, tail loss
//! probe, RACK's reordering timer or window probe (`icsk_pending`; RFC 6298, RFC 8985 section 7).

use anabranch_units::{Duration, Instant};

use super::flight::Flight;
use super::rtt::{RTO_INITIAL, RTO_MIN, RttEstimator};
use crate::config::{Moment, RTO_MAX_DEFAULT, TcpConfig};
use anabranch_congestion::CongestionState;

/// The additional wait of a tail loss probe for a single outstanding segment (RFC 8985's `WCDelAckT` in
/// Linux).
const SINGLE_SEGMENT_EXTRA: Duration = Duration::from_millis(200);

/// The shortest time that a peer gets to acknowledge SACKed data (`tcp_check_sack_reneging`).
const RENEGING_MIN: Duration = Duration::from_millis(10);

/// The number of consecutive retransmissions, or unanswered window probes, after which a connection ends
/// (`net.ipv4.tcp_retries2`; RFC 9293 section 3.8.3, R2).
const RETRIES: u16 = 15;
/// The same number for a connection without an application (`tcp_orphan_retries`).
const ORPHAN_RETRIES: u16 = 8;

/// The longest wait for the peer's FIN after ours was acknowledged, if the connection has no application
/// (`net.ipv4.tcp_fin_timeout`, `tcp_fin_time`).
const FIN_TIMEOUT: Duration = Duration::from_secs(60);

/// Returns the duration of `retries` retransmissions whose timeouts double from 200 ms up to `longest`
/// (`tcp_model_timeout`).
fn time_of_retries(retries: u16, longest: Duration) -> Duration {
    let doublings = (longest.as_nanos() / RTO_MIN.as_nanos()).max(1).ilog2() as u16;
    let doubled = RTO_MIN * ((2 << retries.min(doublings)) - 1);
    doubled + longest * u64::from(retries.saturating_sub(doublings))
}

/// Returns the configured number of consecutive retransmissions after which a connection ends. By default,
/// they last at least as long as 15 with the kernel's longest timeout.
fn retries(config: &TcpConfig) -> u16 {
    let time = |longest| time_of_retries(RETRIES, longest);
    config.retries.unwrap_or_else(|| RETRIES + missing_retries(config.rto_max, time) as u16)
}

/// Returns the number of retries to add if the longest timeout is `longest`. All retries together then last
/// as long as with the kernel's longest timeout. `time` returns how long the usual number of retries
/// lasts for a given longest timeout.
pub(crate) fn missing_retries(longest: Duration, time: impl Fn(Duration) -> Duration) -> u32 {
    let missing = time(RTO_MAX_DEFAULT).saturating_sub(time(longest));
    missing.as_nanos().div_ceil(longest.as_nanos()) as u32
}

/// The purpose of the timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pending {
    Timeout,
    LossProbe,
    Reordering,
    WindowProbe,
    /// Wait for the peer's FIN (FIN-WAIT-2).
    PeersFin,
}

/// The work that remains after the timer was handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fired {
    Nothing,
    /// A window probe must be sent.
    WindowProbe,
    /// The peer has not answered for too long.
    GivenUp,
}

/// The RTT estimates and the timer.
#[derive(Debug)]
pub(crate) struct Timers {
    pending: Option<Pending>,
    /// The time at which the timer fires. `FAR_FUTURE` if it is not running.
    at: Instant,
    /// The time at which an exact timer would fire (`icsk_timeout`).
    due: Instant,
    /// The number of window probes since the last segment from the peer (`icsk_probes_out`).
    probes: u32,
    /// The number of consecutive retransmissions, or window probes, after which the connection ends.
    retries: u16,
    /// Whether new data has set a loss probe, and no segment was received or retransmitted since then. More
    /// data sent at the same time would set the same time.
    renewed: bool,
    rtt: RttEstimator,
    /// Whether tail loss probes are sent.
    probes_tail: bool,
    /// The minimum that a tail loss probe and the reordering timer add to the round-trip time.
    timeout_min: Duration,
}

impl Timers {
    /// Creates the timer of a connection without an RTT sample. It is not running.
    pub(super) fn new(config: &TcpConfig) -> Self {
        Self {
            pending: None,
            at: Instant::FAR_FUTURE,
            due: Instant::ZERO,
            probes: 0,
            retries: retries(config),
            renewed: false,
            rtt: RttEstimator::new(config.rto_max),
            probes_tail: config.stack.tail_probes,
            timeout_min: config.stack.timeout_min,
        }
    }

    /// Returns the RTT estimates.
    #[inline]
    pub(crate) fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }

    /// Handles an RTT sample. `least` is the sample for the minimum RTT. `una` and `next` are the sender's
    /// positions.
    #[inline]
    pub(super) fn sample(
        &mut self,
        moment: Moment<'_>,
        rtt: Duration,
        least: Option<Duration>,
        (una, next): (u64, u64),
    ) {
        let Moment { host, now } = moment;
        if let Some(least) = least {
            self.rtt.sample_min(now, least);
        }
        self.rtt.sample(host, rtt, una, next);
    }

    /// Handles the RTT sample of the handshake, if there is one.
    pub(super) fn open(&mut self, moment: Moment<'_>, rtt: Option<Duration>) {
        match rtt {
            Some(rtt) => self.sample(moment, rtt, Some(rtt), (1, 1)),
            None => self.rtt.set_long_timeout(),
        }
    }

    /// Resets the backoff, because the path works again.
    pub(super) fn reset_backoff(&mut self) {
        self.rtt.reset_backoff();
    }

    /// Returns the time at which the timer fires. `FAR_FUTURE` if it is not running.
    pub(crate) fn at(&self) -> Instant {
        self.at
    }

    /// Returns the time at which an exact timer would fire.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.pending.map(|_| self.due)
    }

    pub(crate) fn arm(&mut self, moment: Moment<'_>, pending: Pending, span: Duration) {
        let Moment { host, now } = moment;
        (self.due, self.at) = host.timer(now, span);
        self.pending = Some(pending);
        self.renewed = false;
    }

    pub(crate) fn clear(&mut self) {
        (self.pending, self.at) = (None, Instant::FAR_FUTURE);
        self.renewed = false;
    }

    /// Permits the next new data to set the probe again, because input may have changed its time.
    pub(crate) fn reset_probe(&mut self) {
        self.renewed = false;
    }

    /// Starts the reordering timer if loss detection returned a `wait`. The timer lasts at most for the
    /// retransmission timeout.
    pub(super) fn arm_reordering(&mut self, moment: Moment<'_>, wait: Option<Duration>) {
        if let Some(wait) = wait.filter(|wait| !wait.is_zero()) {
            let span = (wait + self.timeout_min).min(self.rtt.rto());
            self.arm(moment, Pending::Reordering, span);
        }
    }

    /// Starts a short wait because the acknowledgement ends at a SACKed segment. A peer that still has that
    /// segment would have acknowledged it. If no more is acknowledged by then, the segment counts as lost
    /// (`tcp_check_sack_reneging`; RFC 2018 section 8).
    #[cold]
    pub(super) fn arm_reneging(&mut self, moment: Moment<'_>) {
        let delay = self.rtt.srtt().map_or(RENEGING_MIN, |srtt| (srtt / 2).max(RENEGING_MIN));
        self.arm(moment, Pending::Timeout, delay);
    }

    /// Restarts the window probe timer after an acknowledgement, or stops it if the window is open again
    /// (`shut_out` returns false; `tcp_ack_probe`).
    #[inline]
    pub(super) fn check_window_probe(
        &mut self,
        moment: Moment<'_>,
        shut_out: impl FnOnce() -> bool,
    ) {
        self.probes = 0;
        if self.pending != Some(Pending::WindowProbe) {
            return;
        }
        if shut_out() {
            self.arm(moment, Pending::WindowProbe, self.rtt.rto());
        } else {
            self.clear();
            self.rtt.reset_backoff();
        }
    }

    /// Returns the remaining retransmission timeout of the oldest segment (`tcp_rto_delta_us`).
    #[inline]
    fn timeout_left(&self, now: Instant, flight: &Flight) -> Duration {
        let head = flight.front().map_or(now, |sent| sent.sent_at);
        (head + self.rtt.rto()).since(now)
    }

    /// Returns the time of the next retransmission timeout if nothing is acknowledged until then. If a loss
    /// probe or the reordering timer is running, the rest of the oldest segment's timeout follows it
    /// (`tcp_rearm_rto`).
    pub(super) fn next_timeout(&self, flight: &Flight) -> Option<Instant> {
        let head = flight.front()?;
        match self.pending? {
            Pending::Timeout => Some(self.at),
            Pending::LossProbe | Pending::Reordering => {
                Some(self.at.max(head.sent_at + self.rtt.rto()))
            }
            Pending::WindowProbe | Pending::PeersFin => None,
        }
    }

    /// Starts the retransmission timeout if segments are outstanding (`tcp_rearm_rto`). Otherwise, if
    /// `awaits_fin`, the timer limits the wait for the peer's FIN.
    pub(super) fn restart(&mut self, moment: Moment<'_>, flight: &Flight, awaits_fin: bool) {
        let Moment { now, .. } = moment;
        if flight.is_empty() {
            self.clear();
            if awaits_fin {
                self.arm(moment, Pending::PeersFin, FIN_TIMEOUT);
            }
            return;
        }
        let probing = matches!(self.pending, Some(Pending::LossProbe | Pending::Reordering));
        let span = if probing {
            self.timeout_left(now, flight).max(Duration::from_micros(1))
        } else {
            self.rtt.rto()
        };
        self.arm(moment, Pending::Timeout, span);
    }

    /// Starts a tail loss probe if the `state` permits one (`tcp_schedule_loss_probe`). Returns whether the
    /// probe timer was started.
    #[inline]
    pub(super) fn arm_probe(
        &mut self,
        moment: Moment<'_>,
        flight: &Flight,
        state: CongestionState,
        advancing: bool,
    ) -> bool {
        let Moment { host, now } = moment;
        let calm = matches!(state, CongestionState::Open | CongestionState::Cwr);
        let sends = self.probes_tail && flight.is_selective();
        if flight.is_empty() || !sends || !calm {
            return false;
        }
        let timeout = match self.rtt.srtt() {
            Some(srtt) if flight.packets_out() == 1 => srtt * 2 + SINGLE_SEGMENT_EXTRA,
            Some(srtt) => srtt * 2 + self.timeout_min,
            None => RTO_INITIAL,
        };
        let left = if advancing { self.rtt.rto() } else { self.timeout_left(now, flight) };
        let span = host.ticks(timeout).min(self.rtt.rto_max());
        let span = if left.is_zero() { span } else { span.min(left) };
        self.arm(moment, Pending::LossProbe, span);
        true
    }

    /// Sets the timer after new data was sent, perhaps `together` with earlier data. A loss probe replaces
    /// the current purpose, unless the data was a `probe` itself.
    #[inline]
    pub(super) fn set_behind_data(
        &mut self,
        moment: Moment<'_>,
        flight: &Flight,
        state: CongestionState,
        together: bool,
        probe: bool,
    ) {
        if together && self.renewed && !probe {
            return;
        }
        let was_probe = self.pending == Some(Pending::LossProbe);
        let others = flight.packets_out() > 1;
        if !probe && self.arm_probe(moment, flight, state, false) {
            self.renewed = others;
        } else if was_probe || !others {
            // Data is outstanding, so this is not a wait for a FIN.
            self.restart(moment, flight, false);
        }
    }

    /// Sets the timer after an acknowledgement that requires it (`tcp_set_xmit_timer`).
    #[inline]
    pub(super) fn set(
        &mut self,
        moment: Moment<'_>,
        flight: &Flight,
        state: CongestionState,
        una_advanced: bool,
        awaits_fin: bool,
    ) {
        if (self.pending != Some(Pending::Reordering) || una_advanced)
            && !self.arm_probe(moment, flight, state, true)
        {
            self.restart(moment, flight, awaits_fin);
        }
    }

    /// Sets the timeout after a retransmission of the oldest segment (`tcp_retransmit_skb`).
    pub(super) fn set_behind_head(&mut self, moment: Moment<'_>) {
        if self.pending != Some(Pending::Reordering) {
            self.arm(moment, Pending::Timeout, self.rtt.rto());
        }
    }

    /// Starts the window probe timer if no timer is running and nothing is outstanding. The peer's window is
    /// closed (RFC 9293 section 3.8.6.1).
    pub(super) fn arm_window_probe(&mut self, moment: Moment<'_>, flight: &Flight) {
        if self.pending.is_none() && flight.is_empty() {
            self.arm(moment, Pending::WindowProbe, self.rtt.rto());
        }
    }

    /// Returns the purpose of the timer if it is due.
    pub(super) fn poll(&self, now: Instant) -> Option<Pending> {
        self.pending.filter(|_| now >= self.at)
    }

    /// Doubles the timeout and restarts it after it fired (RFC 6298 section 5).
    pub(super) fn on_timeout(&mut self, moment: Moment<'_>) {
        self.rtt.on_timeout();
        self.arm(moment, Pending::Timeout, self.rtt.rto());
    }

    /// Doubles the timeout and restarts the window probe timer after it fired.
    pub(super) fn on_window_probe(&mut self, moment: Moment<'_>, flight: &Flight) {
        self.rtt.on_timeout();
        self.probes += 1;
        self.arm_window_probe(moment, flight);
    }

    /// Returns whether so many window probes were unanswered that the connection ends.
    pub(super) fn has_probed_enough(&self, orphan: bool) -> bool {
        self.probes >= u32::from(self.patience(orphan))
    }

    /// Returns the time without an answer after which the connection ends (`retransmits_timed_out`).
    pub(super) fn longest_silence(&self, orphan: bool) -> Duration {
        time_of_retries(self.patience(orphan), self.rtt.rto_max())
    }

    /// Returns the number of consecutive retransmissions, or window probes, after which the connection ends.
    /// The number is 0 for a connection without an application whose timeout has reached its maximum.
    fn patience(&self, orphan: bool) -> u16 {
        match orphan {
            false => self.retries,
            true if self.rtt.rto() < self.rtt.rto_max() => ORPHAN_RETRIES,
            true => 0,
        }
    }
}

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;
