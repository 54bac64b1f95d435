//! BBR version 1 as in Linux (`tcp_bbr.c`, unchanged from 6.1 to 7.2). A model of the path's bandwidth and
//! minimum RTT sets the pacing rate and the window. A loss does not reduce them.
//!
//! As in Linux, ECN-Echo does not reduce the window, and long-term sampling detects a policer (`lt_bw`).
//!
//! The parameter for Linux 4.14 selects an older form. Its pacing rate includes the IP and TCP headers and
//! has no margin. It does not allow for aggregation. It uses the data in flight now, not at the departure of
//! the next segment.

pub(super) mod aggregation;
pub(super) mod filter;
mod policer;
mod probe_rtt;

use std::cmp::Ordering;

use anabranch_plugin::Parameters;
use anabranch_units::{Duration, Instant, RandomStream, Rate};

use aggregation::Aggregation;
use filter::WindowedMax;
use policer::{Policer, Round, Verdict};

use super::{
    AckSample, CongestionController, CongestionEvent, CongestionState, Opened, TransmitStart,
    Window,
};

/// Fraction bits of a bandwidth in segments per microsecond (`BW_SCALE`).
const BW_SCALE: u32 = 24;
/// The gain of 1: gains are multiples of 1/256 (`BBR_UNIT`).
const UNIT: u64 = 256;
const HIGH_GAIN: u64 = UNIT * 2885 / 1000 + 1;
const DRAIN_GAIN: u64 = UNIT * 1000 / 2885;
const CWND_GAIN: u64 = UNIT * 2;
const CYCLE: [u64; 8] = [UNIT * 5 / 4, UNIT * 3 / 4, UNIT, UNIT, UNIT, UNIT, UNIT, UNIT];
/// The bandwidth filter's window, in packet-timed rounds.
const BW_ROUNDS: u64 = 10;
const MIN_CWND: u32 = 4;
/// The pacing rate is this percentage below the bandwidth.
const PACING_MARGIN_PERCENT: u64 = 1;
/// The pacing rate below which segments are sent one at a time.
pub(super) const SINGLE_SEGMENTS_BELOW: Rate = Rate::from_bps(1_200_000);
/// Size of the IP and TCP headers with timestamps, bytes.
const HEADERS: u32 = 20 + 20 + 12;
const FULL_BW_GROWTH: u64 = UNIT * 5 / 4;
const FULL_BW_ROUNDS: u32 = 3;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    #[default]
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

/// BBR's model and state machine.
#[derive(Debug)]
pub struct Bbr {
    random: RandomStream,
    mode: Mode,
    state: CongestionState,
    previous_state: CongestionState,
    bw: WindowedMax<u64>,
    round: u64,
    round_start: bool,
    next_round_delivered: u64,
    min_rtt: Option<Duration>,
    min_rtt_at: Instant,
    probe_rtt_done: Option<Instant>,
    probe_rtt_round_done: bool,
    idle_restart: bool,
    /// Whether the flow is in `ProbeRtt`. A delivery rate is then used only if it raises the bandwidth
    /// estimate.
    ignores_rates: bool,
    packet_conservation: bool,
    prior_cwnd: u32,
    full_bw: u64,
    full_bw_count: u32,
    full_bw_reached: bool,
    cycle: usize,
    cycle_at: Instant,
    pacing_gain: u64,
    cwnd_gain: u64,
    pacing: Option<Rate>,
    seen_rtt: bool,
    delivered_at: Instant,
    delivered: u64,
    lost: u64,
    mss: u32,
    policer: Policer,
    aggregation: Aggregation,
    /// Whether to imitate Linux 4.14.
    linux_414: bool,
    /// Whether to measure the minimum RTT again if it became too old during an outage.
    outage_probe: bool,
}

impl Bbr {
    pub(super) fn build(
        parameters: &mut Parameters<'_>,
        random: RandomStream,
    ) -> Box<dyn CongestionController> {
        let form = parameters.word("form", &["linux-6.18", "linux-4.14"]);
        Box::new(Self {
            linux_414: form == "linux-4.14",
            outage_probe: parameters.flag("outage_probe", true),
            random,
            mode: Mode::Startup,
            state: CongestionState::Open,
            previous_state: CongestionState::Open,
            bw: WindowedMax::default(),
            round: 0,
            round_start: false,
            next_round_delivered: 0,
            min_rtt: None,
            min_rtt_at: Instant::ZERO,
            probe_rtt_done: None,
            probe_rtt_round_done: false,
            idle_restart: false,
            ignores_rates: false,
            packet_conservation: false,
            prior_cwnd: 0,
            full_bw: 0,
            full_bw_count: 0,
            full_bw_reached: false,
            cycle: 0,
            cycle_at: Instant::ZERO,
            pacing_gain: HIGH_GAIN,
            cwnd_gain: HIGH_GAIN,
            pacing: None,
            seen_rtt: false,
            delivered_at: Instant::ZERO,
            delivered: 0,
            lost: 0,
            mss: 1448,
            policer: Policer::default(),
            aggregation: Aggregation::default(),
        })
    }

    fn bandwidth(&self) -> u64 {
        self.policer.bandwidth().unwrap_or_else(|| self.bw.get())
    }

    /// Returns the number of segments that leave in about a millisecond at the pacing rate
    /// (`bbr_tso_segs_goal`).
    fn burst_goal(&self) -> u32 {
        let rate = self.pacing.map_or(0, Rate::bytes_per_second);
        ((rate >> 10).min(65_200) as u32 / self.mss).max(self.least_burst()).min(0x7f)
    }

    /// Returns `gain` times the bandwidth-delay product in segments (`bbr_bdp`).
    fn bdp(&self, bw: u64, gain: u64) -> u32 {
        let Some(min_rtt) = self.min_rtt else {
            return 10;
        };
        let product = u128::from(bw) * u128::from(min_rtt.as_micros());
        (((product * u128::from(gain)) >> 8).div_ceil(1 << BW_SCALE)) as u32
    }

    /// Adds room for segments that offloads hold back (`bbr_quantization_budget`).
    fn quantized(&self, cwnd: u32) -> u32 {
        let cwnd = (cwnd + 3 * self.burst_goal() + 1) & !1;
        if self.linux_414 {
            return cwnd;
        }
        if self.mode == Mode::ProbeBw && self.cycle == 0 { cwnd + 2 } else { cwnd }
    }

    fn inflight(&self, bw: u64, gain: u64) -> u32 {
        self.quantized(self.bdp(bw, gain))
    }

    /// Returns the segments still in the network when the next paced segment leaves
    /// (`bbr_packets_in_net_at_edt`).
    fn in_network(&self, ack: &AckSample<'_>, in_flight: u32) -> u32 {
        if self.linux_414 {
            return in_flight;
        }
        let wait = ack.next_departure.since(ack.now).as_micros();
        let drained = ((u128::from(self.bandwidth()) * u128::from(wait)) >> BW_SCALE) as u32;
        let raised = if self.pacing_gain > UNIT { self.burst_goal() } else { 0 };
        (in_flight + raised).saturating_sub(drained)
    }

    /// Converts a bandwidth to a pacing rate (`bbr_bw_to_pacing_rate`).
    fn rate(&self, bw: u64, gain: u64) -> Rate {
        // Linux 4.14 counts the headers too (`tcp_mss_to_mtu`). Later versions count the payload and subtract
        // a margin.
        let (segment, percent) = if self.linux_414 {
            (self.mss + HEADERS, 100)
        } else {
            (self.mss, 100 - PACING_MARGIN_PERCENT)
        };
        let bytes = (u128::from(bw) * u128::from(segment) * u128::from(gain)) >> 8;
        let bytes = bytes * 1_000_000 / 100 * u128::from(percent);
        Rate::from_bytes_per_second((bytes >> BW_SCALE) as u64)
    }

    /// Sets the first pacing rate: one window per RTT, or per millisecond if there is no RTT sample
    /// (`bbr_init_pacing_rate_from_rtt`).
    fn init_pacing(&mut self, cwnd: u32, srtt: Option<Duration>) {
        let rtt = srtt.map_or(1_000, |srtt| srtt.as_micros().max(1));
        self.seen_rtt = srtt.is_some();
        self.pacing = Some(self.rate((u64::from(cwnd) << BW_SCALE) / rtt, HIGH_GAIN));
    }

    fn set_pacing(&mut self, cwnd: u32, srtt: Option<Duration>, bw: u64, gain: u64) {
        if !self.seen_rtt {
            self.init_pacing(cwnd, srtt);
        }
        let rate = self.rate(bw, gain);
        if self.full_bw_reached || self.pacing.is_none_or(|current| rate > current) {
            self.pacing = Some(rate);
        }
    }

    fn save_cwnd(&mut self, cwnd: u32) {
        self.prior_cwnd =
            if self.previous_state < CongestionState::Recovery && self.mode != Mode::ProbeRtt {
                cwnd
            } else {
                self.prior_cwnd.max(cwnd)
            };
    }

    fn update_bandwidth(&mut self, ack: &AckSample<'_>) {
        self.round_start = false;
        if ack.rate.interval.is_zero() {
            return;
        }
        if ack.rate.prior_delivered >= self.next_round_delivered {
            self.next_round_delivered = ack.delivered;
            self.round += 1;
            self.round_start = true;
            self.packet_conservation = false;
        }
        self.watch_policer(ack.newly_lost > 0, ack.rate.app_limited);
        let bw = (u64::from(ack.rate.delivered) << BW_SCALE) / ack.rate.interval.as_micros().max(1);
        if !ack.rate.app_limited || bw >= self.bw.get() {
            self.bw.update(BW_ROUNDS, self.round, bw);
        }
    }

    /// Detects a policer, whose rate then sets the pacing rate (`bbr_lt_bw_sampling`).
    fn watch_policer(&mut self, losses: bool, app_limited: bool) {
        let round = Round {
            now: self.delivered_at,
            delivered: self.delivered,
            lost: self.lost,
            started: self.round_start,
            losses,
            app_limited,
            probing_bw: self.mode == Mode::ProbeBw,
            mss: self.mss,
        };
        match self.policer.sample(&round) {
            Verdict::Nothing => {}
            Verdict::Policed => self.pacing_gain = UNIT,
            Verdict::Released => self.enter_probe_bw(),
        }
    }

    fn advance_cycle(&mut self) {
        self.cycle = (self.cycle + 1) % CYCLE.len();
        self.cycle_at = self.delivered_at;
    }

    fn enter_probe_bw(&mut self) {
        self.mode = Mode::ProbeBw;
        self.cycle = CYCLE.len() - 1 - self.random.below(7) as usize;
        self.advance_cycle();
    }

    fn update_cycle(&mut self, ack: &AckSample<'_>) {
        if self.mode != Mode::ProbeBw {
            return;
        }
        let min_rtt = self.min_rtt.unwrap_or(Duration::MAX);
        let whole = self.delivered_at.since(self.cycle_at) > min_rtt;
        let in_network = self.in_network(ack, ack.prior_in_flight);
        let bw = self.bw.get();
        let next = match self.pacing_gain.cmp(&UNIT) {
            Ordering::Equal => whole,
            Ordering::Greater => {
                whole && (ack.newly_lost > 0 || in_network >= self.inflight(bw, self.pacing_gain))
            }
            Ordering::Less => whole || in_network <= self.inflight(bw, UNIT),
        };
        if next {
            self.advance_cycle();
        }
    }

    fn check_full_bandwidth(&mut self, ack: &AckSample<'_>) {
        if self.full_bw_reached || !self.round_start || ack.rate.app_limited {
            return;
        }
        let bw = self.bw.get();
        if bw >= self.full_bw * FULL_BW_GROWTH / UNIT {
            self.full_bw = bw;
            self.full_bw_count = 0;
            return;
        }
        self.full_bw_count += 1;
        self.full_bw_reached = self.full_bw_count >= FULL_BW_ROUNDS;
    }

    fn check_drain(&mut self, ack: &AckSample<'_>, window: &mut Window) {
        let target = self.inflight(self.bw.get(), UNIT);
        if self.mode == Mode::Startup && self.full_bw_reached {
            self.mode = Mode::Drain;
            window.ssthresh = target;
        }
        if self.mode == Mode::Drain && self.in_network(ack, ack.in_flight) <= target {
            self.enter_probe_bw();
        }
    }

    fn update_gains(&mut self) {
        (self.pacing_gain, self.cwnd_gain) = match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (DRAIN_GAIN, HIGH_GAIN),
            Mode::ProbeBw if self.policer.bandwidth().is_some() => (UNIT, CWND_GAIN),
            Mode::ProbeBw => (CYCLE[self.cycle], CWND_GAIN),
            Mode::ProbeRtt => (UNIT, UNIT),
        };
    }

    /// Returns true if packet conservation sets the window (`bbr_set_cwnd_to_recover_or_restore`).
    fn recover_or_restore(&mut self, ack: &AckSample<'_>, window: &mut Window) -> bool {
        let mut cwnd = window.cwnd;
        if ack.newly_lost > 0 {
            cwnd = cwnd.saturating_sub(ack.newly_lost).max(1);
        }
        let (before, now) = (self.previous_state, self.state);
        if now == CongestionState::Recovery && before != CongestionState::Recovery {
            self.packet_conservation = true;
            self.next_round_delivered = ack.delivered;
            cwnd = ack.in_flight + ack.acked;
        } else if before >= CongestionState::Recovery && now < CongestionState::Recovery {
            cwnd = cwnd.max(self.prior_cwnd);
            self.packet_conservation = false;
        }
        self.previous_state = now;
        window.cwnd = cwnd;
        if self.packet_conservation {
            window.cwnd = cwnd.max(ack.in_flight + ack.acked);
        }
        self.packet_conservation
    }

    fn set_cwnd(&mut self, ack: &AckSample<'_>, window: &mut Window) {
        if ack.acked > 0 && !self.recover_or_restore(ack, window) {
            let target = self.bdp(self.bandwidth(), self.cwnd_gain) + self.aggregation_bonus();
            let target = self.quantized(target);
            if self.full_bw_reached {
                window.cwnd = (window.cwnd + ack.acked).min(target);
            } else if window.cwnd < target || ack.delivered < 10 {
                window.cwnd += ack.acked;
            }
            window.cwnd = window.cwnd.max(MIN_CWND);
        }
        if self.mode == Mode::ProbeRtt {
            window.cwnd = window.cwnd.min(MIN_CWND);
        }
    }
}

impl CongestionController for Bbr {
    fn name(&self) -> &'static str {
        "bbr"
    }

    fn on_open(&mut self, opened: &Opened, window: &mut Window) {
        // The handshake's RTT is the first minimum RTT, and is as old as this moment (`bbr_init`).
        self.mss = opened.mss;
        self.min_rtt = opened.rtt;
        self.min_rtt_at = opened.coarse_now;
        self.init_pacing(window.cwnd, opened.rtt);
    }

    fn on_ack(&mut self, ack: &AckSample<'_>, window: &mut Window) {
        self.mss = ack.mss;
        self.delivered = ack.delivered;
        self.lost += u64::from(ack.newly_lost);
        if ack.acked > 0 {
            self.delivered_at = ack.now;
        }
        self.update_bandwidth(ack);
        self.update_aggregation(ack, window.cwnd);
        self.update_cycle(ack);
        self.check_full_bandwidth(ack);
        self.check_drain(ack, window);
        self.update_min_rtt(ack, window);
        self.update_gains();
        self.set_pacing(window.cwnd, ack.srtt, self.bandwidth(), self.pacing_gain);
        self.set_cwnd(ack, window);
    }

    fn on_congestion(&mut self, _event: &CongestionEvent, window: &mut Window) {
        // BBR saves the window here and does not reduce it (`bbr_ssthresh`).
        self.save_cwnd(window.cwnd);
    }

    fn on_state(&mut self, _now: Instant, state: CongestionState, _window: &mut Window) {
        self.state = state;
        if state == CongestionState::Loss {
            self.previous_state = CongestionState::Loss;
            self.full_bw = 0;
            self.round_start = true;
            self.watch_policer(true, false);
        }
    }

    fn on_transmit_start(&mut self, start: &TransmitStart, window: &mut Window) {
        if self.min_rtt.is_none() {
            // The handshake's RTT is the first minimum RTT, and is as old as this moment (`bbr_init`).
            self.min_rtt = start.min_rtt;
            self.min_rtt_at = start.now;
        }
        if !start.app_limited {
            return;
        }
        self.idle_restart = true;
        self.aggregation.restart(start.now);
        if self.mode == Mode::ProbeBw {
            self.set_pacing(window.cwnd, None, self.bandwidth(), UNIT);
        } else if self.mode == Mode::ProbeRtt {
            self.check_probe_rtt_done(start.now, window);
        }
    }

    fn undo_cwnd(&mut self, window: &Window, _prior_cwnd: u32) -> u32 {
        self.full_bw = 0;
        self.full_bw_count = 0;
        self.policer.reset(self.delivered_at, self.delivered, self.lost);
        window.cwnd
    }

    fn pacing_rate(&self) -> Option<Rate> {
        self.pacing
    }

    fn owns_recovery(&self) -> bool {
        true
    }

    fn send_buffer_factor(&self) -> u32 {
        3
    }

    fn least_burst(&self) -> u32 {
        // At low rates, segments are sent singly (`bbr_min_tso_segs`, `bbr_min_tso_rate`).
        if self.pacing.is_some_and(|rate| rate < SINGLE_SEGMENTS_BELOW) { 1 } else { 2 }
    }

    fn marks_application_limited(&self) -> bool {
        self.ignores_rates
    }
}
