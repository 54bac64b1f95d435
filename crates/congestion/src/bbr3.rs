//! BBR version 3 (draft-ietf-ccwg-bbr of August 2026, 4ce5e87). Losses set bounds on the path
//! model of version 1: a long-term bound on the data in flight, and short-term bounds that last until the
//! next probe.
//!
//! The code follows the draft. Where the draft is ambiguous or contradicts itself, the code does the
//! following:
//! - The state to restore after a spurious recovery is saved once per recovery, as the draft's prose says.
//!   The draft's pseudocode saves it again in every round with losses.
//! - The test whether the data in flight reaches `inflight_longterm` (`IsTimeToGoDown`) uses the value before
//!   the acknowledgement. The value after it is always less than the window.
//! - `InflightAtLoss` limits the prefix of the lost segment to the range 0 to 1 segment.
//! - After an idle period, a new aggregation epoch begins without acknowledged segments, as in Linux.
//! - A tail loss that was repaired by a probe counts as a loss of its round, but not as a lost segment.
//! - The search for a plateau ignores an ACK without a valid delivery rate.
//! - An ACK that may have been delayed does not replace an expired minimum RTT, as in Linux.
//! - `full_bw_now` is also set when losses end Startup, because the draft's appendix tests it.
//!
//! Linux (google/bbr, branch v3) differs from the draft, and therefore from this code:
//! - It drains at a gain of 0.35 without a limit of rounds. The gain of the phase Down is 0.91.
//! - The bandwidth search uses the rate of every ACK.
//! - It estimates the data in flight at the departure of the next segment.
//! - It keeps the aggregation maximum for 5 to 10 rounds, and uses at most 100 ms of data.
//! - Its burst size also depends on the minimum RTT.
//! - The window may grow to twice the initial window, whatever the model allows.
//! - It counts ACKs with losses. The draft counts lost ranges.
//! - It handles a tail loss like a lost segment.
//! - After a timeout, it resets the search for a plateau and uses the window before the timeout as a bound.
//! - It has PLB (protective load balancing), which is not implemented here.
//! - It reacts to ECN marks on paths with a short RTT. Here the parameter `ecn` enables this (`marks.rs`).

mod bandwidth;
mod control;
mod cycle;
mod loss;
mod marks;
mod probe_rtt;
mod startup;

use anabranch_plugin::Parameters;
use anabranch_units::{Duration, Instant, RandomStream, Rate};

use bandwidth::{Bandwidth, CycleMax};
use cycle::Probe;
use loss::{Signals, Undo};
use marks::Marks;
use probe_rtt::MinRtt;
use startup::FullPipe;

use super::bbr::{aggregation::Epoch, filter::WindowedMax};
use super::{
    AckSample, CongestionController, CongestionEvent, CongestionKind, CongestionState, LostSegment,
    Opened, TransmitStart, Window,
};

/// The smallest congestion window, segments (`MinPipeCwnd`).
const MIN_PIPE: u32 = 4;
/// The value of a bound that does not apply ("infinity").
const UNBOUNDED: u32 = u32::MAX;
/// Default for the longest minimum RTT at which ECN marks are used, ms (`bbr_ecn_max_rtt_us`).
const ECN_MAX_RTT_MS: f64 = 5.0;
/// The number of rounds over which the maximum of extra acknowledged data is taken (`ExtraAckedFilterLen`),
/// after and during Startup.
const EXTRA_ACKED_ROUNDS: u64 = 10;
const EXTRA_ACKED_STARTUP_ROUNDS: u64 = 1;

/// The states of the flow. The four phases of `ProbeBW` are separate states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

impl State {
    /// Returns whether the state is a phase of `ProbeBW` (`IsInAProbeBWState`).
    const fn in_probe_bw(self) -> bool {
        matches!(self, Self::Down | Self::Cruise | Self::Refill | Self::Up)
    }

    /// Returns whether the state probes for bandwidth (`IsProbingBW`).
    const fn probing(self) -> bool {
        matches!(self, Self::Startup | Self::Refill | Self::Up)
    }

    /// Returns the pacing rate in per cent of the bandwidth.
    const fn pacing_gain(self) -> u64 {
        match self {
            Self::Startup => 277,
            Self::Drain => 50,
            Self::Down => 90,
            Self::Cruise | Self::Refill | Self::ProbeRtt => 100,
            Self::Up => 125,
        }
    }

    /// Returns the target for the data in flight, in per cent of the bandwidth-delay product.
    const fn cwnd_gain(self) -> u64 {
        match self {
            Self::Up => 225,
            Self::ProbeRtt => 50,
            _ => 200,
        }
    }
}

/// Packet-timed round trips.
#[derive(Debug, Default)]
struct Rounds {
    count: u64,
    /// Whether the current acknowledgement began a round.
    started: bool,
    /// The delivered count at which the round ends (`next_round_delivered`).
    end: u64,
    /// Rounds since the last probe (`rounds_since_probe_up`).
    since_probe: u32,
}

/// Bounds on the rate and on the data in flight, set by losses (`bw_shortterm`, `inflight_shortterm`,
/// `inflight_longterm`).
#[derive(Clone, Copy, Debug)]
struct Bounds {
    short_bw: Bandwidth,
    short_inflight: u32,
    long_inflight: u32,
}

/// An acknowledgement, its delivery rate, and the window before it. The rate is zero if the sample is
/// invalid.
#[derive(Clone, Copy, Debug)]
struct Feedback<'a> {
    ack: &'a AckSample<'a>,
    bw: Bandwidth,
    cwnd: u32,
}

impl Feedback<'_> {
    /// Returns the segments in flight just after the acknowledged segment was sent, including it
    /// (`RS.tx_in_flight`).
    fn tx_in_flight(&self) -> u32 {
        self.ack.rate.in_flight_at_send + 1
    }
}

/// BBR's model and state machine.
#[derive(Debug)]
pub struct Bbr3 {
    random: RandomStream,
    /// Whether to measure the minimum RTT again if it became too old during an outage.
    outage_probe: bool,
    state: State,
    ca_state: CongestionState,
    mss: u32,
    delivered: u64,
    rounds: Rounds,
    pipe: FullPipe,
    drain_round: u64,
    max_bw: CycleMax,
    bounds: Bounds,
    /// The bandwidth in use: the maximum, limited by the short-term bound (`BBR.bw`).
    bw: Bandwidth,
    signals: Signals,
    /// The state for ECN marks. `None` if the controller ignores marks.
    marks: Option<Marks>,
    undo: Undo,
    probe: Probe,
    min_rtt: MinRtt,
    /// Whether the flow is in `ProbeRtt`. A delivery rate is then used only if it raises the bandwidth
    /// estimate.
    ignores_rates: bool,
    idle_restart: bool,
    epoch: Epoch,
    extra_acked: WindowedMax<u32>,
    prior_cwnd: u32,
    pacing: Option<Rate>,
    seen_rtt: bool,
}

impl Bbr3 {
    pub(super) fn build(
        parameters: &mut Parameters<'_>,
        random: RandomStream,
    ) -> Box<dyn CongestionController> {
        let counts = parameters.flag("ecn", false);
        // `ecn_max_rtt_ms` is read only with `ecn`. If `ecn` is off, the parameter has no effect and is rejected as
        // unknown.
        let marks = counts.then(|| {
            let max_rtt =
                parameters.number_or("ecn_max_rtt_ms", ECN_MAX_RTT_MS, 0.1..=10_000.0, "none");
            Marks::new(max_rtt.map(|ms| Duration::from_secs_f64(ms / 1000.0)))
        });
        let outage_probe = parameters.flag("outage_probe", true);
        Box::new(Self { outage_probe, ..Self::new(random, marks) })
    }

    fn new(random: RandomStream, marks: Option<Marks>) -> Self {
        Self {
            outage_probe: true,
            random,
            state: State::Startup,
            ca_state: CongestionState::Open,
            mss: 1448,
            delivered: 0,
            rounds: Rounds::default(),
            pipe: FullPipe::default(),
            drain_round: 0,
            max_bw: CycleMax::default(),
            bounds: Bounds {
                short_bw: Bandwidth::UNBOUNDED,
                short_inflight: UNBOUNDED,
                long_inflight: UNBOUNDED,
            },
            bw: Bandwidth::ZERO,
            signals: Signals::default(),
            marks,
            undo: Undo::default(),
            probe: Probe::default(),
            min_rtt: MinRtt::default(),
            ignores_rates: false,
            idle_restart: false,
            epoch: Epoch::default(),
            extra_acked: WindowedMax::default(),
            prior_cwnd: 0,
            pacing: None,
            seen_rtt: false,
        }
    }

    /// Starts a round (`StartRound`).
    fn start_round(&mut self) {
        self.rounds.end = self.delivered;
    }

    /// Updates the round count (`UpdateRound`).
    fn update_round(&mut self, prior_delivered: u64) {
        self.rounds.started = prior_delivered >= self.rounds.end;
        if self.rounds.started {
            self.start_round();
            self.rounds.count += 1;
            self.rounds.since_probe += 1;
        }
    }

    /// Updates the bandwidth maximum (`UpdateMaxBw`).
    fn update_max_bw(&mut self, news: &Feedback<'_>) {
        self.update_round(news.ack.rate.prior_delivered);
        if self.rounds.started {
            self.count_marks(news.ack);
        }
        self.note_echo(news.ack);
        let valid = news.bw > Bandwidth::ZERO;
        if valid && (news.bw >= self.max_bw.get() || !news.ack.rate.app_limited) {
            self.max_bw.take(news.bw);
        }
    }

    /// Updates the maximum of extra acknowledged data (`UpdateACKAggregation`).
    fn update_aggregation(&mut self, news: &Feedback<'_>) {
        let (bw, now) = (self.bw, news.ack.now);
        let expected = |since: Instant| bw.delivers(now.since(since));
        let extra = self.epoch.excess(now, news.ack.acked, news.cwnd, expected);
        let window =
            if self.pipe.reached { EXTRA_ACKED_ROUNDS } else { EXTRA_ACKED_STARTUP_ROUNDS };
        self.extra_acked.update(window, self.rounds.count, extra);
    }

    /// Updates the model, except the minimum RTT, for an acknowledgement of new data (`UpdateModelAndState`).
    fn update_model(&mut self, news: &Feedback<'_>) {
        self.update_latest_delivery(news);
        self.update_congestion_signals(news);
        self.update_aggregation(news);
        self.pipe.observe(self.rounds.started, news.ack.rate.app_limited, news.bw);
        self.check_startup_done(news);
        self.check_drain_done(news);
        self.update_cycle(news);
    }
}

impl CongestionController for Bbr3 {
    fn name(&self) -> &'static str {
        "bbr3"
    }

    fn on_open(&mut self, opened: &Opened, window: &mut Window) {
        self.mss = opened.mss;
        self.init_pacing(window.cwnd, opened.rtt);
    }

    fn on_ack(&mut self, ack: &AckSample<'_>, window: &mut Window) {
        self.mss = ack.mss;
        self.delivered = ack.delivered;
        let bw = Bandwidth::of(ack.rate.delivered, ack.rate.interval);
        let news = Feedback { ack, bw, cwnd: window.cwnd };
        let delivers = ack.rate.delivered > 0;
        self.rounds.started = false;
        if delivers {
            self.update_model(&news);
        } else {
            self.note_echo(ack);
        }
        self.update_min_rtt(ack);
        self.check_probe_rtt(ack, window);
        if delivers {
            self.advance_latest_delivery(&news);
        }
        self.note_cycle(&ack.rate);
        self.bw = self.max_bw.get().min(self.bounds.short_bw);
        self.set_pacing(ack.srtt);
        self.set_cwnd(ack, window);
        // After Startup, ssthresh is at most cwnd, so slow start is over and `cwnd_limited` requires a full
        // window.
        window.ssthresh =
            if self.pipe.reached { window.ssthresh.min(window.cwnd) } else { u32::MAX };
    }

    fn on_congestion(&mut self, event: &CongestionEvent, window: &mut Window) {
        // The window is saved here and not reduced (`OnEnterRTO`, `OnEnterFastRecovery`).
        match event.kind {
            CongestionKind::TailLoss => self.note_loss(window.cwnd),
            CongestionKind::Loss | CongestionKind::Timeout => {
                self.save_cwnd(window.cwnd);
                self.save_state();
            }
            // A single mark has no effect. `marks.rs` reacts to the fraction of marked data.
            CongestionKind::Ecn => {}
        }
    }

    fn on_lost(&mut self, segment: &LostSegment, window: &Window) {
        self.handle_lost(segment, window.cwnd);
    }

    fn on_state(&mut self, _now: Instant, state: CongestionState, window: &mut Window) {
        let recovering = state >= CongestionState::Recovery;
        if self.in_recovery() && !recovering {
            self.restore_cwnd(window);
        }
        self.undo.saved &= recovering;
        if state == CongestionState::Loss {
            self.min_rtt.on_loss();
        }
        self.ca_state = state;
    }

    fn on_transmit_start(&mut self, start: &TransmitStart, window: &mut Window) {
        if self.pacing.is_none() {
            self.min_rtt.begin(start.now, start.min_rtt);
            self.init_pacing(window.cwnd, start.min_rtt);
        }
        if !start.app_limited {
            return;
        }
        self.idle_restart = true;
        self.epoch.restart(start.now);
        if self.state.in_probe_bw() {
            self.set_pacing_with_gain(State::Cruise.pacing_gain());
        } else if self.state == State::ProbeRtt {
            self.check_probe_rtt_done(start.now, window);
        }
    }

    fn undo_cwnd(&mut self, window: &Window, _prior_cwnd: u32) -> u32 {
        self.handle_spurious_loss();
        window.cwnd.max(self.prior_cwnd)
    }

    fn pacing_rate(&self) -> Option<Rate> {
        self.pacing
    }

    fn owns_recovery(&self) -> bool {
        true
    }

    fn counts_marks(&self) -> bool {
        self.marks.is_some()
    }

    fn send_buffer_factor(&self) -> u32 {
        3
    }

    fn marks_application_limited(&self) -> bool {
        self.ignores_rates
    }
}

#[cfg(test)]
mod tests;
