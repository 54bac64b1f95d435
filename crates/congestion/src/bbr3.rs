//! BBR version 3 (draft-ietf-ccwg-bbr of August 2026, 4ce5e87). It extends version 1's model of the path by bounds
//! that are learnt from losses: a long-term bound on the data in flight, and short-term bounds until the next probe.
//!
//! The code follows the draft. Where the draft leaves a choice or contradicts itself, the code does the following:
//! - The state to restore after a spurious recovery is saved once per episode, as in the draft's prose. The
//!   pseudocode saves it again in every round of losses, and therefore after the first cuts.
//! - "In flight reaches `inflight_longterm`" (`IsTimeToGoDown`) uses the flight before the acknowledgement. After the
//!   acknowledgement, the flight is always less than the window.
//! - A loss cannot be before its own segment, so `InflightAtLoss` uses a prefix between 0 and 1.
//! - Idleness begins a new epoch of aggregation without acknowledged segments, as in Linux.
//! - A tail loss that was repaired by a probe counts as a loss of its round, but not as a lost segment.
//! - An ACK without a valid delivery rate is ignored in the search for a plateau.
//! - An ACK that may have been delayed does not replace a minimum RTT that is too old, as in Linux.
//! - `full_bw_now` is also set when losses end Startup, because the appendix tests it.
//!
//! Linux (google/bbr, branch v3) differs: it drains at 0.35 with no limit of rounds and goes down at
//! 0.91; takes any ACK's rate for growth; reckons what is in flight when the next segment leaves;
//! remembers aggregation for 5 to 10 rounds and at most 100 ms of it; sizes bursts by the minimum RTT
//! too; lets the window grow to twice the initial one whatever the model says; counts ACKs with losses
//! where the draft counts lost ranges; judges a tail loss as a segment; after a timeout forgets the
//! plateau and bounds by the window before it; has PLB, which is not here; and on routes of low latency answers
//! marks (ECN), which the draft does not: parameter `ecn`, in `marks.rs`.

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
/// The value of an unbounded volume ("infinity").
const UNBOUNDED: u32 = u32::MAX;
/// The longest minimum RTT on which marks count, ms (`bbr_ecn_max_rtt_us`).
const ECN_MAX_RTT_MS: f64 = 5.0;
/// The length of the filter of extra acknowledged data (`ExtraAckedFilterLen`), and its length in Startup.
const EXTRA_ACKED_ROUNDS: u64 = 10;
const EXTRA_ACKED_STARTUP_ROUNDS: u64 = 1;

/// The state of a flow. The four phases of `ProbeBW` are separate states.
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
    /// `IsInAProbeBWState`.
    const fn in_probe_bw(self) -> bool {
        matches!(self, Self::Down | Self::Cruise | Self::Refill | Self::Up)
    }

    /// `IsProbingBW`.
    const fn probing(self) -> bool {
        matches!(self, Self::Startup | Self::Refill | Self::Up)
    }

    /// The pacing rate in per cent of the bandwidth.
    const fn pacing_gain(self) -> u64 {
        match self {
            Self::Startup => 277,
            Self::Drain => 50,
            Self::Down => 90,
            Self::Cruise | Self::Refill | Self::ProbeRtt => 100,
            Self::Up => 125,
        }
    }

    /// The target flight in per cent of the bandwidth-delay product.
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
    /// The acknowledgement under way began one.
    started: bool,
    /// The delivered count at the sending of the segment that ends the round (`next_round_delivered`).
    end: u64,
    /// `rounds_since_probe_up`.
    since_probe: u32,
}

/// Bounds on rate and volume from losses (`bw_shortterm`, `inflight_shortterm`, `inflight_longterm`).
#[derive(Clone, Copy, Debug)]
struct Bounds {
    short_bw: Bandwidth,
    short_inflight: u32,
    long_inflight: u32,
}

/// An acknowledgement, its delivery rate (zero without a valid sample) and the window before it.
#[derive(Clone, Copy, Debug)]
struct Feedback<'a> {
    ack: &'a AckSample<'a>,
    bw: Bandwidth,
    cwnd: u32,
}

impl Feedback<'_> {
    /// Segments in flight after the acknowledged segment was sent, itself included (`RS.tx_in_flight`).
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
    /// `BBR.bw`: the lesser of the maximum and the short-term bound.
    bw: Bandwidth,
    signals: Signals,
    /// The state for ECN marks, if the controller reacts to them.
    marks: Option<Marks>,
    undo: Undo,
    probe: Probe,
    min_rtt: MinRtt,
    /// The flow is in `ProbeRtt`: delivery rates are used only if they raise the bandwidth estimate.
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
        // A parameter without effect is not read, and is therefore rejected.
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

    /// `StartRound`.
    fn start_round(&mut self) {
        self.rounds.end = self.delivered;
    }

    /// `UpdateRound`.
    fn update_round(&mut self, prior_delivered: u64) {
        self.rounds.started = prior_delivered >= self.rounds.end;
        if self.rounds.started {
            self.start_round();
            self.rounds.count += 1;
            self.rounds.since_probe += 1;
        }
    }

    /// `UpdateMaxBw`.
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

    /// `UpdateACKAggregation`.
    fn update_aggregation(&mut self, news: &Feedback<'_>) {
        let (bw, now) = (self.bw, news.ack.now);
        let expected = |since: Instant| bw.delivers(now.since(since));
        let extra = self.epoch.excess(now, news.ack.acked, news.cwnd, expected);
        let window =
            if self.pipe.reached { EXTRA_ACKED_ROUNDS } else { EXTRA_ACKED_STARTUP_ROUNDS };
        self.extra_acked.update(window, self.rounds.count, extra);
    }

    /// `UpdateModelAndState`, without the minimum RTT, for an acknowledgement of new data.
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
        // No slow start after Startup: `cwnd_limited` then means that the window was full.
        window.ssthresh =
            if self.pipe.reached { window.ssthresh.min(window.cwnd) } else { u32::MAX };
    }

    fn on_congestion(&mut self, event: &CongestionEvent, window: &mut Window) {
        // `OnEnterRTO`, `OnEnterFastRecovery`: the window is not cut, but saved.
        match event.kind {
            CongestionKind::TailLoss => self.note_loss(window.cwnd),
            CongestionKind::Loss | CongestionKind::Timeout => {
                self.save_cwnd(window.cwnd);
                self.save_state();
            }
            // A single mark has no effect. `marks.rs` reacts to the share of marked data.
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
