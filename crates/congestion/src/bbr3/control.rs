//! Computes the pacing rate, the burst size and the window from the model.

use anabranch_units::{Duration, Rate};

use super::loss::with_headroom;
use super::{Bandwidth, Bbr3, MIN_PIPE, State, UNBOUNDED};
use crate::INITIAL_WINDOW;
use crate::{AckSample, Window};

/// The pacing rate is this percentage below the bandwidth (`PacingMarginPercent`).
const MARGIN: u64 = 1;
/// The RTT that is assumed before the first sample.
const NOMINAL_RTT: Duration = Duration::from_millis(1);
/// The largest burst, bytes.
const QUANTUM_MAX: u64 = 65_536;
/// The number of bursts in flight: one waits in the sending host, one is being cut into segments, and one is
/// being merged by the receiver.
const BURSTS: u64 = 3;

impl Bbr3 {
    /// Sets the first pacing rate (`InitPacingRate`).
    pub(super) fn init_pacing(&mut self, cwnd: u32, rtt: Option<Duration>) {
        let nominal = Bandwidth::of(cwnd, rtt.unwrap_or(NOMINAL_RTT));
        self.pacing = Some(nominal.rate(self.mss, State::Startup.pacing_gain(), 0));
        self.seen_rtt = rtt.is_some();
    }

    /// Updates the pacing rate (`SetPacingRate`). The initial rate stays until the first RTT sample.
    pub(super) fn set_pacing(&mut self, srtt: Option<Duration>) {
        if !self.seen_rtt && srtt.is_some() {
            self.init_pacing(INITIAL_WINDOW, srtt);
        }
        self.set_pacing_with_gain(self.state.pacing_gain());
    }

    /// Updates the pacing rate for a gain (`SetPacingRateWithGain`). Until the pipe has been full once, the
    /// rate only rises.
    pub(super) fn set_pacing_with_gain(&mut self, gain: u64) {
        let rate = self.bw.rate(self.mss, gain, MARGIN);
        if self.pipe.reached || self.pacing.is_none_or(|current| rate > current) {
            self.pacing = Some(rate);
        }
    }

    /// Returns the size of three bursts in segments (`UpdateOffloadBudget`, `SetSendQuantum`).
    fn offload_budget(&self) -> u32 {
        let millisecond = self.pacing.map_or(0, Rate::bytes_per_second) / 1000;
        let mss = u64::from(self.mss);
        let quantum = millisecond.min(QUANTUM_MAX).max(2 * mss);
        (BURSTS * quantum).div_ceil(mss) as u32
    }

    /// Adds room for offloads and for probing to a target in segments (`QuantizationBudget`).
    fn quantized(&self, volume: u32) -> u32 {
        let volume = volume.max(self.offload_budget()).max(MIN_PIPE);
        if self.state == State::Up { volume + 2 } else { volume }
    }

    /// Returns the target for the data in flight, in segments (`Inflight`).
    pub(super) fn inflight(&self, bw: Bandwidth, gain: u64) -> u32 {
        self.quantized(self.bdp(bw, gain))
    }

    /// Returns the largest window that the model allows (`UpdateMaxInflight`).
    fn max_inflight(&self) -> u32 {
        let fills = self.bdp(self.bw, self.state.cwnd_gain());
        self.quantized(fills.saturating_add(self.extra_acked.get()))
    }

    /// Updates the window (`SetCwnd`). If nothing was acknowledged, only the bounds are applied.
    pub(super) fn set_cwnd(&self, ack: &AckSample<'_>, window: &mut Window) {
        if ack.acked > 0 {
            let most = self.max_inflight();
            if self.pipe.reached {
                window.cwnd = (window.cwnd + ack.acked).min(most);
            } else if window.cwnd < most || ack.delivered < u64::from(INITIAL_WINDOW) {
                window.cwnd += ack.acked;
            }
            window.cwnd = window.cwnd.max(MIN_PIPE);
        }
        if self.state == State::ProbeRtt {
            window.cwnd = window.cwnd.min(self.probe_rtt_cwnd());
        }
        window.cwnd = window.cwnd.min(self.cap());
    }

    /// Returns the upper bound on the window in the current state (`BoundCwndForModel`).
    fn cap(&self) -> u32 {
        let long = self.bounds.long_inflight;
        let cap = match self.state {
            State::Cruise | State::ProbeRtt => with_headroom(long),
            State::Down | State::Refill | State::Up => long,
            State::Startup | State::Drain => UNBOUNDED,
        };
        cap.min(self.bounds.short_inflight).max(MIN_PIPE)
    }
}
