//! A controller without a simulator, and functions that build its acknowledgements.

use anabranch_congestion as congestion;
use anabranch_congestion::{
    AckSample, CongestionController, CongestionEvent, CongestionKind, CongestionState, RateSample,
    Window, WindowChange,
};
use anabranch_plugin::{PluginChoice, Registry};
use anabranch_units::{Duration, Instant, Rate, Seed, SubflowId};

pub(crate) const MSS: u64 = 1448;

/// A controller with its window and the state of its subflow.
pub(crate) struct Flow {
    pub(crate) controller: Box<dyn CongestionController>,
    pub(crate) window: Window,
    pub(crate) now: Instant,
    pub(crate) una: u64,
    pub(crate) next: u64,
    pub(crate) in_flight: u32,
    pub(crate) min_rtt: Duration,
    pub(crate) cwnd_limited: bool,
    pub(crate) may_grow: bool,
    pub(crate) paced: bool,
    pub(crate) pacing_rate: Rate,
    pub(crate) rate: RateSample,
}

impl Flow {
    /// Creates a flow at `cwnd`. It is in slow start if `ssthresh` is above `cwnd`, and otherwise in
    /// congestion avoidance.
    pub(crate) fn new(name: &str, cwnd: u32, ssthresh: u32) -> Self {
        let choice = PluginChoice::parse(name).expect(name);
        let random = Seed { seed: 1, run: 0 }.stream("test");
        let controller = congestion::build(&choice, &Registry::TABLES, random).expect(name);
        Self {
            controller,
            window: Window { cwnd, ssthresh },
            now: Instant::ZERO + Duration::from_secs(1),
            una: 0,
            next: 0,
            in_flight: cwnd,
            min_rtt: Duration::from_millis(100),
            cwnd_limited: true,
            may_grow: true,
            paced: false,
            pacing_rate: Rate::from_bps(10_000_000),
            rate: RateSample::default(),
        }
    }

    /// Acknowledges `acked` segments, `gap` after the last acknowledgement.
    pub(crate) fn ack(&mut self, acked: u32, gap: Duration, rtt: Option<Duration>) {
        self.now += gap;
        self.una += u64::from(acked) * MSS;
        let ack = AckSample {
            now: self.now,
            coarse_now: self.now,
            tick: Duration::ZERO,
            acked,
            acked_bytes: u64::from(acked) * MSS,
            newly_lost: 0,
            delivered: self.una / MSS,
            delivered_ce: 0,
            echo: false,
            mss: MSS as u32,
            next_departure: Instant::ZERO,
            prior_in_flight: self.in_flight + acked,
            in_flight: self.in_flight,
            rtt,
            maybe_delayed: false,
            srtt: rtt,
            min_rtt: Some(self.min_rtt),
            rate: self.rate,
            snd_nxt: self.next,
            snd_una: self.una,
            cwnd_limited: self.cwnd_limited,
            may_grow: self.may_grow,
            paced: self.paced,
            pacing_rate: self.pacing_rate,
            multipath: true,
            id: SubflowId(0),
            siblings: &[],
        };
        self.controller.on_ack(&ack, &mut self.window);
    }

    /// Runs a round trip with one acknowledgement per segment. The first acknowledgement ends the previous
    /// round and has no RTT, so it counts in neither round.
    pub(crate) fn round(&mut self, rtt: Duration) {
        let segments = self.window.cwnd;
        self.next = self.una + u64::from(segments) * MSS;
        let gap = rtt / u64::from(segments);
        self.ack(1, gap, None);
        for _ in 1..segments {
            self.ack(1, gap, Some(rtt));
        }
    }

    pub(crate) fn event(&self, kind: CongestionKind) -> CongestionEvent {
        CongestionEvent { now: self.now, kind, in_flight: self.in_flight }
    }

    /// Runs a loss and the recovery.
    pub(crate) fn lose(&mut self) {
        let event = self.event(CongestionKind::Loss);
        self.controller.on_congestion(&event, &mut self.window);
        self.controller.on_state(self.now, CongestionState::Recovery, &mut self.window);
        self.window.cwnd = self.window.ssthresh;
        self.controller.on_state(self.now, CongestionState::Open, &mut self.window);
        self.controller.on_window_changed(WindowChange::Reduction, &mut self.window);
    }

    /// Runs a timeout that leaves a window of `left`.
    pub(crate) fn time_out(&mut self, left: u32) {
        let event = self.event(CongestionKind::Timeout);
        self.controller.on_rto(&event, &mut self.window);
        self.window.cwnd = left;
        self.controller.on_window_changed(WindowChange::Timeout, &mut self.window);
        self.controller.on_state(self.now, CongestionState::Loss, &mut self.window);
        self.controller.on_state(self.now, CongestionState::Open, &mut self.window);
    }
}

pub(crate) fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
