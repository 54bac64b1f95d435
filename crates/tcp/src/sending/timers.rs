//! The only retransmission timer of a subflow. It is a retransmission timeout, a tail loss probe, RACK's reordering
//! timer or a window probe (`icsk_pending`; RFC 6298, RFC 8985 section 7).

use anabranch_units::{Duration, Instant};

use super::flight::Flight;
use super::rtt::{RTO_INITIAL, RTO_MIN, RttEstimator};
use crate::config::{Moment, RTO_MAX_DEFAULT, TcpConfig};
use anabranch_congestion::CongestionState;

/// RFC 8985's `WCDelAckT` as Linux applies it to a single outstanding segment.
const SINGLE_SEGMENT_EXTRA: Duration = Duration::from_millis(200);

/// The least time for which the peer may leave reported data unacknowledged (`tcp_check_sack_reneging`).
const RENEGING_MIN: Duration = Duration::from_millis(10);

/// Retransmissions in a row that end a subflow, and window probes without an answer (`net.ipv4.tcp_retries2`;
/// RFC 9293 section 3.8.3, R2).
const RETRIES: u16 = 15;
/// The same for a subflow that no application uses any more (`tcp_orphan_retries`).
const ORPHAN_RETRIES: u16 = 8;

/// The longest wait for the peer's FIN after ours is acknowledged, if no application uses the subflow any more
/// (`net.ipv4.tcp_fin_timeout`, `tcp_fin_time`).
const FIN_TIMEOUT: Duration = Duration::from_secs(60);

/// Returns the duration of so many retransmissions with timeouts that double from 200 ms up to `longest`
/// (`tcp_model_timeout`).
fn time_of_retries(retries: u16, longest: Duration) -> Duration {
    let doublings = (longest.as_nanos() / RTO_MIN.as_nanos()).max(1).ilog2() as u16;
    let doubled = RTO_MIN * ((2 << retries.min(doublings)) - 1);
    doubled + longest * u64::from(retries.saturating_sub(doublings))
}

/// Returns the configured number of retransmissions in a row that end a subflow. Without one, they last at least as
/// long as 15 with the kernel's longest timeout.
fn retries(config: &TcpConfig) -> u16 {
    let time = |longest| time_of_retries(RETRIES, longest);
    config.retries.unwrap_or_else(|| RETRIES + missing_retries(config.rto_max, time) as u16)
}

/// Returns the number of retries to add with this `longest` timeout so that they last as long as with the kernel's.
/// `time` returns the duration of the usual retries for a longest timeout.
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
    /// The peer's FIN (FIN-WAIT-2).
    PeersFin,
}

/// The work that a fired timer leaves to the subflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fired {
    Nothing,
    /// A window probe has to go out.
    WindowProbe,
    /// The peer has been silent for too long.
    GivenUp,
}

/// The RTT estimates and the timer.
#[derive(Debug)]
pub(crate) struct Timers {
    pending: Option<Pending>,
    /// When it fires; far future while it is not armed.
    at: Instant,
    /// When it would fire if the host's timers were exact (`icsk_timeout`).
    due: Instant,
    /// Window probes since the peer was last heard (`icsk_probes_out`).
    probes: u32,
    /// Retransmissions in a row, or window probes, that end the subflow.
    retries: u16,
    /// New data has set it to a loss probe, and no segment was received or retransmitted since then. More data that
    /// leaves in the same instant would set it to the same time.
    renewed: bool,
    rtt: RttEstimator,
    /// Tail loss probes are sent.
    probes_tail: bool,
    /// The least time of a tail loss probe and of the reordering timer beyond the round trips.
    timeout_min: Duration,
}

impl Timers {
    /// Creates the timer of a connection without an RTT sample. It waits for nothing.
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

    /// Takes an RTT sample; `least` is the sample for the minimum. The sender stands at the positions `una` and `next`.
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
            self.rtt.observe_min(now, least);
        }
        self.rtt.sample(host, rtt, una, next);
    }

    /// Takes the RTT of the handshake, if it measured one.
    pub(super) fn open(&mut self, moment: Moment<'_>, rtt: Option<Duration>) {
        match rtt {
            Some(rtt) => self.sample(moment, rtt, Some(rtt), (1, 1)),
            None => self.rtt.distrust(),
        }
    }

    /// Forgets the back-off, because the path answers again.
    pub(super) fn reset_backoff(&mut self) {
        self.rtt.reset_backoff();
    }

    /// When it fires; far future for never.
    pub(crate) fn at(&self) -> Instant {
        self.at
    }

    /// When it would fire if the host's timers were exact.
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

    /// Lets the next new data set the probe again, because an input may have changed its time.
    pub(crate) fn review(&mut self) {
        self.renewed = false;
    }

    /// Waits for segments that may be late, if a search for losses found any, at most for a timeout.
    pub(super) fn wait_for_late(&mut self, moment: Moment<'_>, wait: Option<Duration>) {
        if let Some(wait) = wait.filter(|wait| !wait.is_zero()) {
            let span = (wait + self.timeout_min).min(self.rtt.rto());
            self.arm(moment, Pending::Reordering, span);
        }
    }

    /// Waits a little because the acknowledgement ends at a segment that the peer had reported: a peer that kept the
    /// segment would have acknowledged it too. If no more is acknowledged by then, the segment counts as lost
    /// (`tcp_check_sack_reneging`; RFC 2018 section 8).
    #[cold]
    pub(super) fn suspect_reneging(&mut self, moment: Moment<'_>) {
        let delay = self.rtt.srtt().map_or(RENEGING_MIN, |srtt| (srtt / 2).max(RENEGING_MIN));
        self.arm(moment, Pending::Timeout, delay);
    }

    /// Reviews the window probe after an acknowledgement: its wait starts again, or ends if the window is no longer
    /// `shut_out` (`tcp_ack_probe`).
    #[inline]
    pub(super) fn review_window_probe(
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

    /// Returns the rest of the timeout of the head of the queue (`tcp_rto_delta_us`).
    #[inline]
    fn timeout_left(&self, now: Instant, flight: &Flight) -> Duration {
        let head = flight.front().map_or(now, |sent| sent.sent_at);
        (head + self.rtt.rto()).since(now)
    }

    /// Returns when the retransmission timeout fires if nothing is acknowledged until then. A loss probe or the
    /// reordering timer comes first: then the rest of the head's timeout follows (`tcp_rearm_rto`).
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

    /// Arms the retransmission timeout if segments are outstanding (`tcp_rearm_rto`). Otherwise the timer waits for the
    /// peer's FIN if `awaits_fin`.
    pub(super) fn rearm(&mut self, moment: Moment<'_>, flight: &Flight, awaits_fin: bool) {
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

    /// Arms a tail loss probe if the `state` allows one (`tcp_schedule_loss_probe`). Returns whether it is armed.
    #[inline]
    pub(super) fn schedule_probe(
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

    /// Sets the timer after new data has left, perhaps `together` with what left before it: a probe replaces whatever
    /// the timer waits for, unless the data was a `probe` itself.
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
        if !probe && self.schedule_probe(moment, flight, state, false) {
            self.renewed = others;
        } else if was_probe || !others {
            // Data is outstanding, so the timer does not wait for a FIN.
            self.rearm(moment, flight, false);
        }
    }

    /// Sets the timer after an acknowledgement that asks for it (`tcp_set_xmit_timer`).
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
            && !self.schedule_probe(moment, flight, state, true)
        {
            self.rearm(moment, flight, awaits_fin);
        }
    }

    /// Sets the timeout of a retransmission of the oldest segment (`tcp_retransmit_skb`).
    pub(super) fn set_behind_head(&mut self, moment: Moment<'_>) {
        if self.pending != Some(Pending::Reordering) {
            self.arm(moment, Pending::Timeout, self.rtt.rto());
        }
    }

    /// Arms the window probe if the timer waits for nothing: the peer's window is closed and nothing is outstanding
    /// (RFC 9293 section 3.8.6.1).
    pub(super) fn arm_window_probe(&mut self, moment: Moment<'_>, flight: &Flight) {
        if self.pending.is_none() && flight.is_empty() {
            self.arm(moment, Pending::WindowProbe, self.rtt.rto());
        }
    }

    /// Takes what the timer waited for if it is due.
    pub(super) fn poll(&self, now: Instant) -> Option<Pending> {
        self.pending.filter(|_| now >= self.at)
    }

    /// Backs off and arms the timeout again after it fired (RFC 6298 section 5).
    pub(super) fn on_timeout(&mut self, moment: Moment<'_>) {
        self.rtt.back_off();
        self.arm(moment, Pending::Timeout, self.rtt.rto());
    }

    /// Backs off and arms the window probe again after it fired.
    pub(super) fn on_window_probe(&mut self, moment: Moment<'_>, flight: &Flight) {
        self.rtt.back_off();
        self.probes += 1;
        self.arm_window_probe(moment, flight);
    }

    /// Returns whether so many window probes found no answer that the peer is given up.
    pub(super) fn has_probed_enough(&self, orphan: bool) -> bool {
        self.probes >= u32::from(self.patience(orphan))
    }

    /// Returns the time of silence after which the peer is given up (`retransmits_timed_out`).
    pub(super) fn longest_silence(&self, orphan: bool) -> Duration {
        time_of_retries(self.patience(orphan), self.rtt.rto_max())
    }

    /// The number of retransmissions in a row, or of window probes, that ends the connection: none for an orphan whose
    /// timeouts are as long as they get.
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
